//! Which worker labels what: the workers of each task, chunk by chunk.
//!
//! A chunk's choice is made twice from the same stream, once to be counted and once to be written, so that the result
//! is allocated at its exact size and nothing else is held per annotation.

use std::ops::Range;

use rand::Rng;

use crate::Result;
use crate::base::memory::{collected, copied, push, reserve, zeros};
use crate::base::random::{Alias, Purpose, below, stream, unit};

/// Chunks aim at this many annotations: enough to hide the cost of a stream, few enough to stop soon and to share out.
const CHUNK_ANNOTATIONS: f64 = 65_536.0;

/// No chunk has more tasks than this, however few labels they get.
const CHUNK_TASKS: usize = 4096;

/// Up to this many workers per task, earlier ones are looked up by scanning them.
const SCANNED: usize = 32;

/// Chooses the workers of every task.
#[derive(Debug)]
pub(super) struct Choice<'a> {
    n_tasks: usize,
    /// How many labels a task is expected to get.
    per_task: f64,
    chunk_tasks: usize,
    seed: u64,
    rule: Rule<'a>,
}

#[derive(Debug)]
enum Rule<'a> {
    /// Between `min` and `max` distinct workers a task.
    PerTask { min: usize, max: usize, n_workers: usize, weighted: Option<(Alias, &'a [f64])> },
    /// Every (task, worker) cell by itself; workers of similar probability together.
    Cells(Vec<Bucket>),
}

/// Workers whose probabilities of labeling a task are within a factor of two of each other.
///
/// Cells are visited by jumping to the next one at the largest probability, then kept with probability `keep`, which is
/// at least a half: the cost follows the labels drawn, even where a few workers do most of the work.
#[derive(Debug)]
struct Bucket {
    workers: Vec<u32>,
    keep: Vec<f64>,
    largest: f64,
}

impl<'a> Choice<'a> {
    /// Between `min` and `max` distinct workers a task, in proportion to their activity where it is given.
    pub(super) fn per_task(
        n_tasks: usize,
        n_workers: usize,
        (min, max): (usize, usize),
        activity: Option<&'a [f64]>,
        seed: u64,
    ) -> Result<Self> {
        let weighted = activity.map(|weights| Alias::new(weights).map(|alias| (alias, weights))).transpose()?;
        let per_task = f64::midpoint(min as f64, max as f64);
        Ok(Self::new(n_tasks, per_task, seed, Rule::PerTask { min, max, n_workers, weighted }))
    }

    /// Each worker labels each task with the worker's own probability.
    pub(super) fn cells(n_tasks: usize, probabilities: impl Iterator<Item = f64>, seed: u64) -> Result<Self> {
        let buckets = buckets(probabilities)?;
        let per_task = buckets.iter().map(|b| b.keep.iter().sum::<f64>() * b.largest).sum();
        Ok(Self::new(n_tasks, per_task, seed, Rule::Cells(buckets)))
    }

    fn new(n_tasks: usize, per_task: f64, seed: u64, rule: Rule<'a>) -> Self {
        let chunk_tasks = ((CHUNK_ANNOTATIONS / per_task.max(1.0)) as usize).clamp(1, CHUNK_TASKS);
        Self { n_tasks, per_task, chunk_tasks, seed, rule }
    }

    /// How many annotations are expected.
    pub(super) fn expected(&self) -> f64 {
        self.n_tasks as f64 * self.per_task
    }

    /// The number of chunks: fixed by the sizes, whatever the number of threads.
    pub(super) fn n_chunks(&self) -> usize {
        self.n_tasks.div_ceil(self.chunk_tasks)
    }

    /// The tasks of a chunk.
    pub(super) fn tasks(&self, chunk: usize) -> Range<usize> {
        let start = chunk * self.chunk_tasks;
        start..(start + self.chunk_tasks).min(self.n_tasks)
    }

    /// How many annotations a chunk has.
    pub(super) fn count(&self, chunk: usize) -> usize {
        let n_tasks = self.tasks(chunk).len();
        match &self.rule {
            Rule::PerTask { min, max, .. } if min == max => n_tasks * min,
            Rule::PerTask { min, max, .. } => {
                let mut counts = stream(self.seed, Purpose::Count, chunk);
                (0..n_tasks).map(|_| between(&mut counts, *min, *max)).sum()
            }
            Rule::Cells(buckets) => {
                let mut count = 0;
                visit(buckets, n_tasks, self.seed, chunk, |_, _| count += 1);
                count
            }
        }
    }

    /// Writes a chunk's annotations; both slices are as long as [`Choice::count`] gives.
    pub(super) fn write(&self, chunk: usize, tasks: &mut [u32], workers: &mut [u32]) -> Result<()> {
        let range = self.tasks(chunk);
        match &self.rule {
            Rule::PerTask { min, max, n_workers, weighted } => {
                let mut counts = stream(self.seed, Purpose::Count, chunk);
                let mut choice = stream(self.seed, Purpose::Choice, chunk);
                let mut picker = Picker::new(*n_workers, *max, weighted.as_ref())?;
                let mut start = 0;
                for task in range {
                    let end = start + between(&mut counts, *min, *max);
                    tasks[start..end].fill(task as u32);
                    picker.pick(&mut choice, &mut workers[start..end])?;
                    start = end;
                }
            }
            Rule::Cells(buckets) => {
                let mut cells = tasks.iter_mut().zip(workers);
                visit(buckets, range.len(), self.seed, chunk, |task, worker| {
                    if let Some((t, w)) = cells.next() {
                        *t = (range.start + task) as u32;
                        *w = worker;
                    }
                });
            }
        }
        Ok(())
    }
}

/// A whole number drawn uniformly from `min..=max`; no number is drawn where there is no choice.
fn between(rng: &mut impl Rng, min: usize, max: usize) -> usize {
    if min == max { min } else { min + below(rng, max - min + 1) }
}

/// Sorts the workers into buckets by the binary order of magnitude of their probabilities.
fn buckets(probabilities: impl Iterator<Item = f64>) -> Result<Vec<Bucket>> {
    // Below 2^-62 a worker is not expected to label anything in a table that fits in memory: one bucket for all of
    // them.
    const ORDERS: usize = 63;
    let mut buckets: Vec<Bucket> =
        (0..ORDERS).map(|_| Bucket { workers: Vec::new(), keep: Vec::new(), largest: 0.0 }).collect();
    for (worker, p) in probabilities.enumerate().filter(|&(_, p)| p > 0.0) {
        let bucket = &mut buckets[((-p.log2()).max(0.0) as usize).min(ORDERS - 1)];
        push(&mut bucket.workers, worker as u32)?;
        push(&mut bucket.keep, p)?;
        bucket.largest = bucket.largest.max(p);
    }
    buckets.retain(|bucket| !bucket.workers.is_empty());
    for bucket in &mut buckets {
        bucket.keep.iter_mut().for_each(|p| *p /= bucket.largest);
    }
    Ok(buckets)
}

/// Calls `each(task in the chunk, worker)` for every cell that gets a label, bucket by bucket.
fn visit(buckets: &[Bucket], n_tasks: usize, seed: u64, chunk: usize, mut each: impl FnMut(usize, u32)) {
    let mut rng = stream(seed, Purpose::Choice, chunk);
    for bucket in buckets {
        let width = bucket.workers.len() as u64;
        // The gap to the next cell is geometric: ln(u) / ln(1 - p), rounded down. At p = 1 the scale is -0 and the gap
        // 0.
        let scale = 1.0 / (-bucket.largest).ln_1p();
        let (mut task, mut column) = (0_u64, 0_u64);
        loop {
            // A gap too long for 64 bits saturates, which ends the chunk like any other that leads past its last cell.
            column = column.saturating_add(((1.0 - unit(&mut rng)).ln() * scale) as u64);
            if column >= width {
                task = task.saturating_add(column / width);
                column %= width;
            }
            if task >= n_tasks as u64 {
                break;
            }
            let keep = bucket.keep[column as usize];
            if keep >= 1.0 || unit(&mut rng) < keep {
                each(task as usize, bucket.workers[column as usize]);
            }
            column += 1;
        }
    }
}

/// Picks distinct workers for one task after another. What it keeps between tasks has no influence on the chances.
enum Picker<'a> {
    /// Few of many: draw again on a repeat.
    Redraw { n_workers: usize },
    /// Many, or a large part: the head of a shuffle. Any order is as good a start as any other, so it is never reset.
    Shuffle { order: Vec<u32> },
    /// By activity: draw again on a repeat, until that costs more than looking at every worker.
    Weighted { alias: &'a Alias, weights: &'a [f64], seen: Seen, keys: Vec<(f64, u32)> },
}

impl<'a> Picker<'a> {
    fn new(n_workers: usize, max: usize, weighted: Option<&'a (Alias, &'a [f64])>) -> Result<Self> {
        Ok(match weighted {
            Some((alias, weights)) => {
                Self::Weighted { alias, weights, seen: Seen::new(n_workers, max)?, keys: Vec::new() }
            }
            None if max <= SCANNED && 4 * max <= n_workers => Self::Redraw { n_workers },
            None => Self::Shuffle { order: collected((0..n_workers).map(|worker| worker as u32))? },
        })
    }

    fn pick(&mut self, rng: &mut impl Rng, chosen: &mut [u32]) -> Result<()> {
        match self {
            Self::Redraw { n_workers } => {
                for i in 0..chosen.len() {
                    chosen[i] = loop {
                        let worker = below(rng, *n_workers) as u32;
                        if !chosen[..i].contains(&worker) {
                            break worker;
                        }
                    };
                }
            }
            Self::Shuffle { order } => {
                for (i, slot) in chosen.iter_mut().enumerate() {
                    let j = i + below(rng, order.len() - i);
                    order.swap(i, j);
                    *slot = order[i];
                }
            }
            Self::Weighted { alias, weights, seen, keys } => {
                seen.next_task();
                let mut repeats = 0;
                for i in 0..chosen.len() {
                    let worker = loop {
                        let worker = alias.draw(rng);
                        if seen.is_new(worker, &chosen[..i]) {
                            break Some(worker);
                        }
                        repeats += 1;
                        if repeats > weights.len() {
                            break None;
                        }
                    };
                    let Some(worker) = worker else {
                        return race(rng, weights, i, chosen, keys);
                    };
                    chosen[i] = worker;
                    seen.mark(worker);
                }
            }
        }
        Ok(())
    }
}

/// Fills `chosen[done..]` in proportion to the weights of the workers not in `chosen[..done]`, in time linear in the
/// crowd.
///
/// Each worker arrives after an exponential time whose rate is the weight: the first to arrive are distributed as
/// successive draws without replacement (Efraimidis and Spirakis 2006), which is also what drawing again gives.
fn race(
    rng: &mut impl Rng,
    weights: &[f64],
    done: usize,
    chosen: &mut [u32],
    keys: &mut Vec<(f64, u32)>,
) -> Result<()> {
    let mut used = copied(&chosen[..done])?;
    used.sort_unstable();
    keys.clear();
    reserve(keys, weights.len())?;
    for (worker, &weight) in weights.iter().enumerate() {
        if weight > 0.0 && used.binary_search(&(worker as u32)).is_err() {
            // In logarithms, because a quotient by a tiny weight could overflow and tie.
            keys.push(((-(1.0 - unit(rng)).ln()).ln() - weight.ln(), worker as u32));
        }
    }
    let n_missing = chosen.len() - done;
    if n_missing < keys.len() {
        keys.select_nth_unstable_by(n_missing, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    for (slot, key) in chosen[done..].iter_mut().zip(keys.iter()) {
        *slot = key.1;
    }
    Ok(())
}

/// Records whether a worker was already chosen for the task at hand.
struct Seen {
    /// The last task each worker was chosen for; empty where a scan of the few chosen is quicker.
    stamps: Vec<u32>,
    task: u32,
}

impl Seen {
    fn new(n_workers: usize, max: usize) -> Result<Self> {
        Ok(Self { stamps: zeros(if max <= SCANNED { 0 } else { n_workers })?, task: 0 })
    }

    fn next_task(&mut self) {
        self.task += 1;
    }

    fn is_new(&self, worker: u32, chosen: &[u32]) -> bool {
        if self.stamps.is_empty() { !chosen.contains(&worker) } else { self.stamps[worker as usize] != self.task }
    }

    fn mark(&mut self, worker: u32) {
        if let Some(stamp) = self.stamps.get_mut(worker as usize) {
            *stamp = self.task;
        }
    }
}
