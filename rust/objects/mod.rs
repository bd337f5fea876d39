//! Answers of any kind that have a distance: one answer per task and one weight per worker, by turns.
//!
//! The scheme minimizes the sum of distances between a worker's answers and those found, times the worker's weight,
//! over all workers, with a function of the weights fixed.

mod distances;
mod scheme;

pub(crate) use distances::edits;
pub use distances::{Measure, value_distances, word_distances};
pub use scheme::{Answering, Norm, Scheme, SchemeFit, scheme_fit};

use std::ops::Range;

use crate::{Error, Result};

/// The answers of each task: where they begin in the list of all answers, and the last ones end.
#[derive(Debug, Clone, Copy)]
pub struct Tasks<'a>(pub &'a [u32]);

impl Tasks<'_> {
    /// Number of tasks.
    pub fn len(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the answers of a task lie.
    #[inline(always)]
    pub(crate) fn rows(&self, task: usize) -> Range<usize> {
        self.0[task] as usize..self.0[task + 1] as usize
    }

    /// Number of distances between answers of one task, of each with each: where those of each task begin.
    pub(crate) fn blocks(&self) -> Result<Vec<usize>> {
        let mut starts = crate::base::memory::with_room(self.0.len())?;
        let mut total = 0_usize;
        starts.push(0);
        for task in 0..self.len() {
            total = total.saturating_add(self.rows(task).len().saturating_mul(self.rows(task).len()));
            starts.push(total);
        }
        Ok(starts)
    }

    pub(crate) fn check(&self, n_answers: usize) -> Result<()> {
        let ends = (self.0.first().copied(), self.0.last().map(|&end| end as usize));
        if ends != (Some(0), Some(n_answers)) || self.0.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(Error::invalid(format!("offsets of tasks do not cut {n_answers} answers into parts")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
