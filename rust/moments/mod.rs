//! Moments of the answers: how often workers give which labels, alone, in pairs and in triples.
//!
//! Pairs and triples are lists: only those that label tasks together are there, capped by how well they are supported.
//! Nothing is sized workers × workers. Every sum is made by one job, in the order of the tasks, so that it is the same on
//! any number of threads.

mod groups;
mod pairs;
mod triples;

use std::ops::Range;

use rayon::prelude::*;

use crate::control::Control;
use crate::table::{Label, Table, WorkerOrder, find};
use crate::{Error, Result};

pub use groups::{Cross, Groups, moments_cross, moments_groups};
pub use pairs::{Pairs, moments_pairs};
pub use triples::{Triples, moments_triples};

/// No result may be larger than this: a table with many workers and classes could ask for more than any machine has.
const MOST_BYTES: usize = 1 << 32;

/// How many rows are visited between two looks at [`Control::check`].
const VISITS_PER_CHECK: usize = 1 << 18;

/// Weight of each worker's labels, (workers × classes).
///
/// Time O(annotations), memory the result and the table in worker order.
pub fn moments_first(table: &Table, control: &Control) -> Result<Vec<f64>> {
    let (order, k) = (table.by_worker(control)?, table.n_classes());
    if room_for(k * size_of::<f64>()) < table.n_workers() {
        return Err(Error::invalid(format!(
            "label counts of {} workers and {k} classes need more than {MOST_BYTES} bytes; group rare classes",
            table.n_workers()
        )));
    }
    let mut out = vec![0.0; table.n_workers() * k];
    out.par_chunks_mut(k).enumerate().try_for_each(|(worker, counts)| {
        control.check()?;
        for row in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
            counts[order.labels.get(row)] += order.weights.as_ref().map_or(1.0, |w| w[row]);
        }
        Ok(())
    })?;
    Ok(out)
}

/// The number of the connected component of each worker in the graph of `pairs` (a flat list of two workers each).
///
/// Components are numbered in the order of their lowest worker. Time and memory O(workers + pairs), near enough.
pub fn components(n_workers: usize, pairs: &[u32]) -> Result<Vec<u32>> {
    check_pairs(n_workers, pairs)?;
    let mut parent: Vec<u32> = (0..n_workers as u32).collect();
    for pair in pairs.chunks_exact(2) {
        let (a, b) = (find(&mut parent, pair[0]), find(&mut parent, pair[1]));
        // The lower root wins, so that every root is the lowest worker of its component.
        parent[a.max(b) as usize] = a.min(b);
    }
    let mut next = 0;
    let mut number = vec![0; n_workers];
    for worker in 0..n_workers {
        let root = find(&mut parent, worker as u32) as usize;
        if root == worker {
            number[worker] = next;
            next += 1;
        } else {
            number[worker] = number[root];
        }
    }
    Ok(number)
}

/// Refuses a flat list that is not one of pairs of two different workers.
fn check_pairs(n_workers: usize, pairs: &[u32]) -> Result<()> {
    if !pairs.len().is_multiple_of(2) || n_workers > u32::MAX as usize {
        return Err(Error::invalid(format!("{} numbers do not make a list of pairs of workers", pairs.len())));
    }
    match pairs.chunks_exact(2).find(|p| p[0] == p[1] || p.iter().any(|&m| m as usize >= n_workers)) {
        None => Ok(()),
        Some(p) => Err(Error::invalid(format!("({}, {}) is not a pair of two of the {n_workers} workers", p[0], p[1]))),
    }
}

/// How many items of so many bytes a result may have.
fn room_for(bytes: usize) -> usize {
    MOST_BYTES / bytes.max(1)
}

/// A list of workers for each worker, one behind the other.
#[derive(Debug)]
struct Lists {
    offsets: Vec<usize>,
    items: Vec<u32>,
}

impl Lists {
    /// Joins one list per worker.
    fn join(lists: &[Vec<u32>]) -> Self {
        let mut offsets = Vec::with_capacity(lists.len() + 1);
        offsets.push(0);
        let mut total = 0;
        for list in lists {
            total += list.len();
            offsets.push(total);
        }
        Self { offsets, items: lists.concat() }
    }

    /// Sorts links (from, to) by where they start; each list keeps the order of the links.
    fn sort(n_workers: usize, links: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut offsets = vec![0; n_workers + 1];
        links.clone().for_each(|(from, _)| offsets[from as usize + 1] += 1);
        (0..n_workers).for_each(|m| offsets[m + 1] += offsets[m]);
        let mut next = offsets.clone();
        let mut items = vec![0; offsets[n_workers]];
        for (from, to) in links {
            items[next[from as usize]] = to;
            next[from as usize] += 1;
        }
        Self { offsets, items }
    }

    fn of(&self, worker: usize) -> &[u32] {
        &self.items[self.offsets[worker]..self.offsets[worker + 1]]
    }

    fn n_workers(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Every link: the worker whose list it is in, and the worker listed.
    fn links(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        (0..self.n_workers()).flat_map(|m| self.of(m).iter().map(move |&other| (m as u32, other)))
    }
}

/// Cuts `values` into runs that end where `offsets`, times `width`, say.
fn split<'a, T>(mut values: &'a mut [T], offsets: &[usize], width: usize) -> Vec<&'a mut [T]> {
    let mut parts = Vec::with_capacity(offsets.len().saturating_sub(1));
    for ends in offsets.windows(2) {
        let (part, rest) = values.split_at_mut((ends[1] - ends[0]) * width);
        parts.push(part);
        values = rest;
    }
    parts
}

/// Weights of rows, where there are any: lets the loops be compiled for both cases.
trait Weights: Copy + Sync {
    fn at(&self, row: usize) -> f64;
}

/// Every row has weight one.
#[derive(Clone, Copy)]
struct Even;

impl Weights for Even {
    #[inline(always)]
    fn at(&self, _: usize) -> f64 {
        1.0
    }
}

impl Weights for &[f64] {
    #[inline(always)]
    fn at(&self, row: usize) -> f64 {
        self[row]
    }
}

/// The table by worker, to walk along, and by task, to see who else is there.
#[derive(Clone, Copy)]
struct View<'a, L, W> {
    table: &'a Table,
    labels: &'a [L],
    weights: W,
    own: &'a WorkerOrder,
    own_labels: &'a [L],
    own_weights: W,
}

impl<L: Label, W: Weights> View<'_, L, W> {
    /// The rows of a worker in worker order.
    fn rows_of(&self, worker: usize) -> Range<usize> {
        self.own.offsets[worker] as usize..self.own.offsets[worker + 1] as usize
    }

    /// The rows, in task order, of the task that an own row belongs to.
    #[inline(always)]
    fn beside(&self, own: usize) -> Range<usize> {
        self.table.rows_of(self.own.tasks[own] as usize)
    }
}

/// Runs `$body` with `$view` bound to a [`View`], compiled for each width of label, with and without weights.
macro_rules! with_view {
    ($table:expr, $own:expr, |$view:ident| $body:expr) => {{
        use $crate::moments::{Even, View, mismatch};
        use $crate::table::Labels::{Narrow, Wide};
        let (table, own) = ($table, $own);
        match (table.labels(), &own.labels, table.weights(), own.weights.as_deref()) {
            (Narrow(labels), Narrow(own_labels), None, None) => {
                let $view = View { table, labels, weights: Even, own, own_labels, own_weights: Even };
                $body
            }
            (Wide(labels), Wide(own_labels), None, None) => {
                let $view = View { table, labels, weights: Even, own, own_labels, own_weights: Even };
                $body
            }
            (Narrow(labels), Narrow(own_labels), Some(weights), Some(own_weights)) => {
                let $view = View { table, labels, weights, own, own_labels, own_weights };
                $body
            }
            (Wide(labels), Wide(own_labels), Some(weights), Some(own_weights)) => {
                let $view = View { table, labels, weights, own, own_labels, own_weights };
                $body
            }
            (Narrow(_) | Wide(_), ..) => Err(mismatch()),
        }
    }};
}
use with_view;

/// The two orders of a table are made of the same columns, so this is never seen.
fn mismatch() -> Error {
    Error::invalid("the orders of the table by task and by worker differ")
}

/// Looks for cancellation once in so many visits.
struct Ticker<'a> {
    control: &'a Control,
    visits: usize,
}

impl<'a> Ticker<'a> {
    fn new(control: &'a Control) -> Self {
        Self { control, visits: 0 }
    }

    #[inline(always)]
    fn tick(&mut self, visits: usize) -> Result<()> {
        self.visits += visits;
        if self.visits < VISITS_PER_CHECK {
            return Ok(());
        }
        self.visits = 0;
        self.control.check()
    }
}

#[cfg(test)]
mod tests;
