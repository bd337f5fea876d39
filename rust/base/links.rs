//! Who did what: links between tasks and workers in compressed task order, whatever it is that they carry.
//!
//! A table is its links and one payload for each of them, in the same order: a label
//! ([`crate::categorical::table::Table`]), numbers ([`crate::numeric::table::Ratings`]) or a code
//! ([`crate::base::codes::CodeTable`]). The links are sorted by task, then worker, then payload, then weight, so that
//! the same rows in any order give the same table.

mod sort;

use std::ops::Range;

use rayon::prelude::*;

use crate::base::components::Components;
use crate::base::control::Control;
use crate::base::memory::{collected, copied, with_room, zeros};
use crate::{Error, Result};

pub(crate) use sort::{ByWorker, Payload};

/// The least and the greatest weight of an annotation that counts at all.
///
/// A weight counts a label this many times. From 2⁵³ on a double cannot count by ones; far below one label, products of
/// a few weights would vanish. Between the two, all that kernels make of weights (squares, products, sums over 2³²
/// rows) stays within the range of a double.
pub const WEIGHTS: (f64, f64) = (1e-30, 1e15);

/// How many rows a kernel handles between two looks at [`Control::check`].
const ROWS_PER_CHECK: usize = 1 << 16;

/// What to do with a worker's second answer to the same task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Every answer counts.
    Keep,
    /// Only the first row counts.
    First,
    /// Only the last row counts.
    Last,
}

/// The columns that every log has, as codes, and the number of distinct codes in each.
#[derive(Debug, Clone, Copy)]
pub struct Log<'a> {
    /// Task codes, below `n_tasks`.
    pub tasks: &'a [u32],
    /// Worker codes, below `n_workers`.
    pub workers: &'a [u32],
    /// Weights: 0, or within [`WEIGHTS`].
    pub weights: Option<&'a [f64]>,
    /// Number of tasks.
    pub n_tasks: usize,
    /// Number of workers.
    pub n_workers: usize,
}

impl Log<'_> {
    /// Checks all but the payload, of which there are this many and each is a `what`.
    pub(crate) fn validate(&self, what: &str, carried: usize, control: &Control) -> Result<()> {
        let n = self.tasks.len();
        if self.workers.len() != n || carried != n || self.weights.is_some_and(|w| w.len() != n) {
            return Err(Error::invalid(format!(
                "columns differ in length: {n} tasks, {} workers, {carried} {what}s{}",
                self.workers.len(),
                self.weights.map_or_else(String::new, |w| format!(", {} weights", w.len())),
            )));
        }
        if n == 0 {
            return Err(Error::invalid(format!(
                "there are no annotations: the table needs at least one (task, worker, {what}) row"
            )));
        }
        if n > u32::MAX as usize {
            return Err(Error::invalid(format!("{n} annotations exceed the {} that one table holds", u32::MAX)));
        }
        if self.n_workers > u32::MAX as usize || self.n_tasks > u32::MAX as usize {
            return Err(Error::invalid(format!("more than {} tasks or workers", u32::MAX)));
        }
        check_codes("task", self.tasks, self.n_tasks, control)?;
        check_codes("worker", self.workers, self.n_workers, control)?;
        self.check_weights()
    }

    fn check_weights(&self) -> Result<()> {
        let (least, most) = WEIGHTS;
        let counts = |weight: &f64| *weight == 0.0 || (least..=most).contains(weight);
        if let Some((row, bad)) = self.weights.and_then(|w| w.iter().enumerate().find(|(_, weight)| !counts(weight))) {
            return Err(Error::invalid(format!(
                "weight {bad:e} at row {row} counts its label neither 0 times nor between {least:e} and {most:e} times; \
                 fix or drop that row"
            )));
        }
        Ok(())
    }
}

pub(crate) fn check_codes<T: Copy + Sync + Into<u32>>(
    what: &str,
    codes: &[T],
    n: usize,
    control: &Control,
) -> Result<()> {
    codes.par_chunks(ROWS_PER_CHECK).enumerate().try_for_each(|(i, chunk)| {
        control.check()?;
        match chunk.iter().position(|&c| c.into() as usize >= n) {
            None => Ok(()),
            Some(at) => Err(Error::invalid(format!(
                "{what} code {} at row {} is not below the number of {what}s or classes, {n}",
                chunk[at].into(),
                i * ROWS_PER_CHECK + at
            ))),
        }
    })
}

/// The links. Memory: 4 bytes each, 8 more with weights, and 4 bytes per task.
#[derive(Debug)]
pub struct Links {
    n_workers: usize,
    offsets: Vec<u32>,
    workers: Vec<u32>,
    weights: Option<Vec<f64>>,
}

impl Links {
    /// Number of tasks.
    pub fn n_tasks(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Number of workers.
    pub fn n_workers(&self) -> usize {
        self.n_workers
    }
    /// Number of annotations.
    pub fn len(&self) -> usize {
        self.workers.len()
    }
    /// Never true: a table without rows cannot be built.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }
    /// Row `n` to `n + 1` are the annotations of task `n`.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }
    /// Worker of each annotation.
    pub fn workers(&self) -> &[u32] {
        &self.workers
    }
    /// Weight of each annotation, where they have weights.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }
    /// Where the annotations of `task` lie.
    #[inline(always)]
    pub fn rows_of(&self, task: usize) -> Range<usize> {
        self.offsets[task] as usize..self.offsets[task + 1] as usize
    }

    /// Task of each annotation.
    pub fn tasks(&self) -> Result<Vec<u32>> {
        let mut tasks = with_room(self.len())?;
        for task in 0..self.n_tasks() {
            tasks.resize(self.offsets[task + 1] as usize, task as u32);
        }
        Ok(tasks)
    }

    /// Cuts the tasks into at most `n_chunks` runs of about equally many annotations: a function of the data alone.
    pub fn chunks(&self, n_chunks: usize) -> Vec<Range<usize>> {
        runs(&self.offsets, n_chunks)
    }

    /// Links that are in order already.
    pub(crate) fn of_sorted(n_workers: usize, offsets: Vec<u32>, workers: Vec<u32>, weights: Option<Vec<f64>>) -> Self {
        Self { n_workers, offsets, workers, weights }
    }

    /// The same links once more.
    pub(crate) fn copy(&self) -> Result<Self> {
        Ok(Self {
            n_workers: self.n_workers,
            offsets: copied(&self.offsets)?,
            workers: copied(&self.workers)?,
            weights: self.weights.as_deref().map(copied).transpose()?,
        })
    }

    /// The links of the rows that are marked, between as many tasks and workers.
    pub(crate) fn keep(&self, mask: &[bool]) -> Result<Self> {
        if mask.len() != self.len() {
            return Err(Error::invalid(format!("the mask has {} entries for {} annotations", mask.len(), self.len())));
        }
        if !mask.contains(&true) {
            return Err(Error::invalid("the mask leaves no annotation, and a table needs at least one"));
        }
        let mut offsets = zeros::<u32>(self.offsets.len())?;
        let mut row = 0;
        for task in 0..self.n_tasks() {
            row += self.rows_of(task).filter(|&r| mask[r]).count();
            offsets[task + 1] = row as u32;
        }
        let weights = self.weights.as_deref().map(|weights| marked(weights, mask, 1)).transpose()?;
        Ok(Self { n_workers: self.n_workers, offsets, workers: marked(&self.workers, mask, 1)?, weights })
    }

    /// The same links without the tasks and workers that have none; the others keep their order.
    pub(crate) fn compacted(&self) -> Result<Self> {
        let mut offsets = with_room(self.offsets.len())?;
        offsets.push(0);
        offsets.extend(self.offsets.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| pair[1]));
        offsets.shrink_to_fit();
        let mut codes: Vec<u32> = zeros(self.n_workers)?;
        self.workers.iter().for_each(|&worker| codes[worker as usize] = 1);
        let mut n_workers = 0;
        for code in &mut codes {
            n_workers += std::mem::replace(code, n_workers);
        }
        let workers = collected(self.workers.iter().map(|&worker| codes[worker as usize]))?;
        let weights = self.weights.as_deref().map(copied).transpose()?;
        Ok(Self { n_workers: n_workers as usize, offsets, workers, weights })
    }

    /// Calls `f(task, worker)` for every annotation that repeats the (task, worker) of the row before it.
    fn for_each_repeat(&self, mut f: impl FnMut(usize, usize)) {
        for task in 0..self.n_tasks() {
            for row in self.rows_of(task).skip(1) {
                if self.workers[row] == self.workers[row - 1] {
                    f(task, self.workers[row] as usize);
                }
            }
        }
    }

    /// How many annotations repeat an earlier (task, worker).
    pub fn n_repeats(&self) -> usize {
        let mut n = 0;
        self.for_each_repeat(|_, _| n += 1);
        n
    }

    /// The first (task, worker) that occurs more than once.
    pub fn first_repeat(&self) -> Option<(usize, usize)> {
        let mut first = None;
        self.for_each_repeat(|task, worker| {
            first.get_or_insert((task, worker));
        });
        first
    }

    /// How many annotations each worker gave.
    pub fn worker_counts(&self) -> Result<Vec<u64>> {
        let mut counts = zeros(self.n_workers)?;
        self.workers.iter().for_each(|&m| counts[m as usize] += 1);
        Ok(counts)
    }

    /// The first worker of the group of each, whose workers share tasks with one another and with no other worker.
    pub fn worker_groups(&self) -> Result<Vec<u32>> {
        let counts = self.worker_counts()?;
        let mut components = Components::new(self.n_workers)?;
        let mut left = counts.iter().filter(|&&n| n > 0).count();
        for task in 0..self.n_tasks() {
            // Most logs are in one piece, and soon known to be.
            if left == 1 {
                break;
            }
            let pairs = self.workers[self.rows_of(task)].windows(2);
            left -= pairs.filter(|pair| components.join(pair[0], pair[1])).count();
        }
        collected((0..self.n_workers as u32).map(|worker| components.root(worker)))
    }

    /// How many annotations each group of workers gave that shares no task with the others, by their first workers.
    pub fn group_counts(&self) -> Result<Vec<u64>> {
        let (counts, firsts) = (self.worker_counts()?, self.worker_groups()?);
        let mut groups = zeros(self.n_workers)?;
        firsts.iter().zip(&counts).for_each(|(&first, &n)| groups[first as usize] += n);
        groups.retain(|&n| n > 0);
        Ok(groups)
    }

    /// Number of connected components of the graph that joins a worker to the tasks they answered.
    pub fn n_components(&self) -> Result<usize> {
        Ok(self.group_counts()?.len())
    }
}

/// Cuts tasks with these offsets into at most `n_chunks` runs of about equally many annotations.
pub(crate) fn runs(offsets: &[u32], n_chunks: usize) -> Vec<Range<usize>> {
    let (n, total) = (offsets.len() - 1, offsets[offsets.len() - 1]);
    let mut bounds = vec![0];
    for c in 1..n_chunks {
        let goal = (u128::from(total) * c as u128 / n_chunks as u128) as u32;
        let cut = offsets.partition_point(|&o| o < goal).min(n);
        if cut > bounds[bounds.len() - 1] && cut < n {
            bounds.push(cut);
        }
    }
    bounds.push(n);
    bounds.windows(2).map(|w| w[0]..w[1]).collect()
}

/// The rows of `width` items that are marked.
pub(crate) fn marked<T: Copy>(items: &[T], mask: &[bool], width: usize) -> Result<Vec<T>> {
    let mut selected = with_room(width * mask.iter().filter(|&&keep| keep).count())?;
    // Runs of marked rows, copied at once.
    let mut first = 0;
    for run in mask.chunk_by(|a, b| a == b) {
        let rows = first..first + run.len();
        if run[0] {
            selected.extend_from_slice(&items[rows.start * width..rows.end * width]);
        }
        first = rows.end;
    }
    Ok(selected)
}
