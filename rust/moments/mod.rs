//! Moments of the answers: how often workers give which labels, alone, in pairs and in triples.
//!
//! Pairs and triples are lists: only those that label tasks together are there, capped by how well they are supported.
//! Every sum is made by one job, in the order of the tasks, so that it is the same on any number of threads.

pub mod factor;
mod groups;
mod pairs;
mod shared_tasks;
mod triples;

use std::ops::Range;

use rayon::prelude::*;

use crate::base::components::Components;
use crate::base::control::Control;
use crate::base::memory::prefetch_at;
use crate::base::memory::{Zero, copied, joined, with_room, zeros};
use crate::categorical::table::{Label, Table, WorkerOrder};
use crate::moments::factor::check_pairs;
use crate::{Error, Result};

pub use groups::{Cross, Groups, moments_cross, moments_groups};
pub use pairs::{Pairs, moments_pairs};
pub use triples::{Triples, moments_triples};

/// No result may be larger than this: a table with many workers and classes could ask for more than any machine has.
const MOST_BYTES: usize = 1 << 32;

/// How many rows are visited between two looks at [`Control::check`].
const VISITS_PER_CHECK: usize = 1 << 18;

/// In how many chunks [`moments_first`] cuts a table at most.
const MOST_CHUNKS: usize = 16;

/// Weight of each worker's labels, (workers × classes).
///
/// One pass: time O(annotations), memory the result, several times over where it is small next to the table.
pub fn moments_first(table: &Table, control: &Control) -> Result<Vec<f64>> {
    let (n_workers, k) = (table.n_workers(), table.n_labels());
    check_room(n_workers, k)?;
    // Each chunk has sums of its own: so few that adding them up costs less than making them.
    let n_chunks = (table.len() / (8 * n_workers * k).max(VISITS_PER_CHECK)).clamp(1, MOST_CHUNKS);
    with_view!(table, |view| {
        let sums = |tasks: Range<usize>| {
            let mut out = zeros(n_workers * k)?;
            let mut ticker = Ticker::new(control);
            for row in table.offsets()[tasks.start] as usize..table.offsets()[tasks.end] as usize {
                ticker.tick(1)?;
                out[table.workers()[row] as usize * k + view.labels[row].code()] += view.weights.at(row);
            }
            Ok(out)
        };
        let parts: Vec<Vec<f64>> = table.chunks(n_chunks).into_par_iter().map(sums).collect::<Result<_>>()?;
        let mut parts = parts.into_iter();
        let mut out = parts.next().unwrap_or_default();
        parts.for_each(|part| out.iter_mut().zip(part).for_each(|(sum, x)| *sum += x));
        Ok(out)
    })
}

/// Rejects this many numbers for each worker if there is no room for them.
fn check_room(n_workers: usize, numbers: usize) -> Result<()> {
    if n_workers <= room_for(numbers * size_of::<f64>()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{numbers} numbers for each of {n_workers} workers take more than {} GiB; join classes, or leave out workers with \
         few labels",
        MOST_BYTES >> 30
    )))
}

/// The number of the connected component of each worker in the graph of `pairs` (a flat list of two workers each).
///
/// Components are numbered in the order of their lowest worker. Time and memory O(workers + pairs), near enough.
pub fn components(n_workers: usize, pairs: &[u32]) -> Result<Vec<u32>> {
    check_pairs(n_workers, pairs)?;
    let mut forest = Components::new(n_workers)?;
    pairs.chunks_exact(2).for_each(|pair| {
        forest.join(pair[0], pair[1]);
    });
    Ok(forest.numbered()?.0)
}

/// How many items of this many bytes a result may have.
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
    fn join(lists: &[Vec<u32>]) -> Result<Self> {
        let mut offsets = with_room(lists.len() + 1)?;
        offsets.push(0);
        let mut total = 0;
        for list in lists {
            total += list.len();
            offsets.push(total);
        }
        Ok(Self { offsets, items: joined(lists)? })
    }

    /// Sorts links (from, to) by where they start; each list keeps the order of the links.
    fn sort(n_workers: usize, links: impl Iterator<Item = (u32, u32)> + Clone) -> Result<Self> {
        let mut offsets = zeros::<usize>(n_workers + 1)?;
        links.clone().for_each(|(from, _)| offsets[from as usize + 1] += 1);
        (0..n_workers).for_each(|m| offsets[m + 1] += offsets[m]);
        let mut next = copied(&offsets)?;
        let mut items = zeros(offsets[n_workers])?;
        for (from, to) in links {
            items[next[from as usize]] = to;
            next[from as usize] += 1;
        }
        Ok(Self { offsets, items })
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
pub(crate) fn split<'a, T>(mut values: &'a mut [T], offsets: &[usize], width: usize) -> Result<Vec<&'a mut [T]>> {
    let mut parts = with_room(offsets.len().saturating_sub(1))?;
    for ends in offsets.windows(2) {
        let (part, rest) = values.split_at_mut((ends[1] - ends[0]) * width);
        parts.push(part);
        values = rest;
    }
    Ok(parts)
}

/// Weights of rows, where there are any: lets the loops be compiled for both cases.
trait Weights: Copy + Send + Sync {
    /// A number about two rows, and the product of their weights unless all are one.
    type Note: Zero + Send + Sync;

    fn at(&self, row: usize) -> f64;

    fn note(&self, code: u64, row: usize, other: usize) -> Self::Note;

    fn code(note: Self::Note) -> u64;

    fn product(note: Self::Note) -> f64;
}

/// Every row has weight one.
#[derive(Clone, Copy)]
struct Even;

impl Weights for Even {
    type Note = u64;

    #[inline(always)]
    fn at(&self, _: usize) -> f64 {
        1.0
    }

    #[inline(always)]
    fn note(&self, code: u64, _: usize, _: usize) -> u64 {
        code
    }

    #[inline(always)]
    fn code(note: u64) -> u64 {
        note
    }

    #[inline(always)]
    fn product(_: u64) -> f64 {
        1.0
    }
}

impl Weights for &[f64] {
    /// The product as its bits: room for plain integers is made without writing to it.
    type Note = [u64; 2];

    #[inline(always)]
    fn at(&self, row: usize) -> f64 {
        self[row]
    }

    #[inline(always)]
    fn note(&self, code: u64, row: usize, other: usize) -> [u64; 2] {
        [code, (self[row] * self[other]).to_bits()]
    }

    #[inline(always)]
    fn code(note: [u64; 2]) -> u64 {
        note[0]
    }

    #[inline(always)]
    fn product(note: [u64; 2]) -> f64 {
        f64::from_bits(note[1])
    }
}

/// The columns of a table.
#[derive(Clone, Copy)]
struct View<'a, L, W> {
    table: &'a Table,
    labels: &'a [L],
    weights: W,
}

/// Runs `$body` with `$view` bound to a [`View`], compiled for each width of label, with and without weights.
macro_rules! with_view {
    ($table:expr, |$view:ident| $body:expr) => {{
        let table = $table;
        $crate::categorical::table::with_labels!(table.labels(), |labels| match table.weights() {
            None => {
                let $view = $crate::moments::View { table, labels, weights: $crate::moments::Even };
                $body
            }
            Some(weights) => {
                let $view = $crate::moments::View { table, labels, weights };
                $body
            }
        })
    }};
}
use with_view;

/// An annotation on the way of a worker.
struct Visit {
    label: usize,
    weight: f64,
    /// Where all annotations of the task are, this one among them.
    rows: Range<usize>,
}

/// Calls `visit` for every annotation of one worker, in the order of the tasks.
#[inline(always)]
fn follow<L: Label, W: Weights>(
    view: View<'_, L, W>,
    order: &WorkerOrder,
    worker: usize,
    control: &Control,
    mut visit: impl FnMut(Visit),
) -> Result<()> {
    const AHEAD: usize = 12;
    let offsets = view.table.offsets();
    let mut ticker = Ticker::new(control);
    for own in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
        // A worker's tasks lie far apart. Those ahead are asked for: first where they begin, then what is there.
        if let Some(&task) = order.tasks.get(own + 2 * AHEAD) {
            prefetch_at(offsets, task as usize);
        }
        if let Some(&task) = order.tasks.get(own + AHEAD) {
            let row = offsets[task as usize] as usize;
            prefetch_at(view.table.workers(), row);
            prefetch_at(view.labels, row);
        }
        let rows = view.table.rows_of(order.tasks[own] as usize);
        ticker.tick(1 + rows.len())?;
        let weight = order.weights.as_ref().map_or(1.0, |weights| weights[own]);
        visit(Visit { label: order.labels.get(own), weight, rows });
    }
    Ok(())
}

/// Looks for cancellation once in this many visits.
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
