//! The compiled core of manyhands: an immutable, sparse table of annotations and the loops that run over it.
//!
//! The core knows nothing of Python; everything that touches the interpreter lives in the module `python`, behind the
//! feature of the same name. Three rules hold throughout:
//!
//! * **Sparse**: nothing is ever sized tasks × workers.
//! * **Same bits on any number of threads**: work is cut into chunks by the size of the data, and partial sums are added
//!   in chunk order.
//! * **Checked once**: [`table::Table`] validates its input when it is built; kernels rely on that.

pub mod agreement;
pub mod audit;
pub mod base;
pub mod boxes;
pub mod categorical;
pub mod clustering;
pub mod defer;
pub mod learn;
pub mod masks;
pub mod moments;
pub mod multilabel;
pub mod numeric;
pub mod objects;
pub mod pairwise;
pub mod sequences;
pub mod texts;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(feature = "python")]
mod python;

/// Everything that can go wrong in the core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An argument that cannot be used; the message names it and the fix.
    #[error("{0}")]
    Invalid(String),
    /// The system has no room for this many more bytes.
    #[error("no memory for another {:.1} MB; free some, or give the process more", *.0 as f64 / 1e6)]
    OutOfMemory(usize),
    /// The system would not read a file; the message names it.
    #[error("{0}")]
    File(String),
    /// The caller asked for the work to stop (Ctrl-C).
    #[error("interrupted")]
    Cancelled,
}

impl Error {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

/// The result of a fallible core call.
pub type Result<T> = std::result::Result<T, Error>;
