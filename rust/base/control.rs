//! The line between a long computation and its caller: cancellation one way, progress the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Error, Result};

/// Shared by the thread that computes and the thread that waits.
///
/// Kernels call [`Control::check`] once per block of work (well under a second), drivers call [`Control::report`] once
/// per iteration. Both are a relaxed atomic access, so they cost nothing compared with the work.
#[derive(Debug, Default)]
pub struct Control {
    cancelled: AtomicBool,
    step: AtomicU64,
    objective: AtomicU64,
}

impl Control {
    /// Asks the computation to stop at its next check.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Fails with [`Error::Cancelled`] once [`Control::cancel`] has been called.
    pub fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Publishes the number of finished iterations and the objective they reached.
    pub fn report(&self, step: usize, objective: f64) {
        self.objective.store(objective.to_bits(), Ordering::Relaxed);
        self.step.store(step as u64, Ordering::Relaxed);
    }

    /// The last report: finished iterations and objective.
    pub fn progress(&self) -> (u64, f64) {
        (self.step.load(Ordering::Relaxed), f64::from_bits(self.objective.load(Ordering::Relaxed)))
    }
}
