//! The compiled core of manyhands: an immutable, sparse table of annotations and the loops that run over it.
//!
//! The core knows nothing of Python; everything that touches the interpreter lives in the module `python`, behind the
//! feature of the same name. Three rules hold throughout:
//!
//! * **Sparse**: nothing is ever sized tasks × workers.
//! * **Same bits on any number of threads**: work is cut into chunks by the size of the data, and partial sums are added
//!   in chunk order.
//! * **Checked once**: [`table::Table`] validates its input when it is built; kernels rely on that.

pub mod adam;
pub mod agreement;
pub mod boxes;
pub mod capacity;
pub mod chance;
pub mod consensus;
pub mod control;
pub mod copies;
pub mod defer;
pub mod dependence;
pub mod distance;
pub mod drift;
pub mod em;
pub mod encode;
pub mod factor;
pub mod glad;
pub mod kos;
pub mod left_out;
pub mod linked;
pub mod links;
pub mod mace;
pub mod margin;
pub mod masks;
pub mod minimax;
pub mod moments;
pub mod num;
pub mod numeric;
pub mod pairwise;
pub mod ratings;
pub mod relevance;
pub mod reputation;
pub mod sequences;
pub mod shards;
pub mod similarity;
pub mod simulate;
pub mod special;
pub mod table;
pub mod texts;
pub mod threads;
pub mod votes;

mod blocks;
mod components;
mod course;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gamma;
mod lengths;
mod memory;
#[cfg(feature = "python")]
mod python;
mod squarem;

/// Everything that can go wrong in the core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An argument that cannot be used; the message names it and says how to mend it.
    #[error("{0}")]
    Invalid(String),
    /// The system has no room for so many more bytes.
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
