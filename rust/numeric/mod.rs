//! Methods for numbers: passes over a table of ratings, one dimension at a time.
//!
//! The ratings of a dimension are read as x·unit − center, so that sums of squares neither overflow nor cancel,
//! whatever the size of the numbers. What loops over workers or tasks alone is done by the callers.

mod factor;
mod pass;
mod summary;
pub mod table;

use std::ops::Range;

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::base::parallel::chunks_with_tables;
use crate::numeric::table::Ratings;
use crate::{Error, Result};

pub use factor::{Scores, covariance_sums, factor_scores};
pub use pass::{Noise, Passed, Prior, WORKER, gaussian_pass};
pub use summary::{Spread, spread, trimmed};

/// One dimension of a table of ratings, brought to another center and unit.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    table: &'a Ratings,
    dim: usize,
    unit: f64,
    centre: f64,
}

impl<'a> View<'a> {
    /// The ratings of dimension `dim` as x·unit − center.
    pub fn new(table: &'a Ratings, dim: usize, unit: f64, centre: f64) -> Result<Self> {
        if dim >= table.dims() {
            return Err(Error::invalid(format!("dimension {dim} of ratings that have {}", table.dims())));
        }
        if !unit.is_finite() || !centre.is_finite() {
            return Err(Error::invalid(format!("unit {unit} and center {centre} must be finite")));
        }
        Ok(Self { table, dim, unit, centre })
    }

    /// The table.
    pub fn table(&self) -> &'a Ratings {
        self.table
    }

    #[inline(always)]
    fn at(&self, row: usize) -> f64 {
        self.table.values()[row * self.table.dims() + self.dim] * self.unit - self.centre
    }

    /// Worker and rating of some rows. `ONE` states that rows are of one number, which saves a division a task.
    #[inline(always)]
    fn rows<const ONE: bool>(
        &self,
        rows: Range<usize>,
    ) -> impl ExactSizeIterator<Item = (usize, f64)> + Clone + use<'a, ONE> {
        let Self { table, dim, unit, centre } = *self;
        let (dims, dim) = if ONE { (1, 0) } else { (table.dims(), dim) };
        let values = table.values()[rows.start * dims..rows.end * dims].chunks_exact(dims);
        table.workers()[rows].iter().zip(values).map(move |(worker, x)| (*worker as usize, x[dim] * unit - centre))
    }

    #[inline(always)]
    fn weight(&self, row: usize) -> f64 {
        self.table.weights().map_or(1.0, |weights| weights[row])
    }

    #[inline(always)]
    fn worker(&self, row: usize) -> usize {
        self.table.workers()[row] as usize
    }
}

/// Tasks between two looks at the control.
const TASKS: usize = 1 << 12;

/// What chunks of tasks write, side by side: rows of `width` numbers a task.
type Chunk<'a> = (Range<usize>, &'a mut [f64]);

/// What is done with some tasks: given their numbers, the rows they write, and the sums of the workers that they add
/// to.
type Job<'a> = dyn Fn(Range<usize>, &mut [f64], &mut [f64]) + Sync + 'a;

/// Runs `job(tasks, their rows of out, sums of workers)` on chunks of tasks, and adds the sums up in their order.
///
/// `out` has `width` numbers a task, the sums `depth` a worker. Chunks are a function of the data, so that the sums are
/// the same bits on any number of threads. Memory: at most 32 tables of workers × depth, and no more than the ratings
/// take.
fn each_chunk(
    table: &Ratings,
    (out, width): (&mut [f64], usize),
    depth: usize,
    control: &Control,
    job: &Job<'_>,
) -> Result<Vec<f64>> {
    let size = table.n_workers() * depth;
    let mut rest = out;
    let mut chunks: Vec<Chunk<'_>> = vec![];
    for tasks in table.chunks(chunks_with_tables(table.len(), size)) {
        let (own, tail) = std::mem::take(&mut rest).split_at_mut(tasks.len() * width);
        rest = tail;
        chunks.push((tasks, own));
    }
    let each = |(tasks, mut own): Chunk<'_>| {
        let mut sums = zeros(size)?;
        let mut first = tasks.start;
        while first < tasks.end {
            control.check()?;
            let last = tasks.end.min(first + TASKS);
            let (now, later) = std::mem::take(&mut own).split_at_mut((last - first) * width);
            own = later;
            job(first..last, now, &mut sums);
            first = last;
        }
        Ok(sums)
    };
    // One chunk is a small table, which a caller may keep on its own thread.
    let parts: Vec<Result<Vec<f64>>> = match chunks.len() {
        0 | 1 => chunks.into_iter().map(each).collect(),
        _ => chunks.into_par_iter().map(each).collect(),
    };
    let mut parts = parts.into_iter();
    let mut sums = parts.next().unwrap_or_else(|| zeros(size))?;
    for part in parts {
        let part = part?;
        sums.par_chunks_mut(1 << 12)
            .zip(part.par_chunks(1 << 12))
            .for_each(|(sums, part)| sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x));
    }
    Ok(sums)
}

#[cfg(test)]
mod tests;
