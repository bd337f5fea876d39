//! The graph of comparisons: equal ones folded into edges, and the edges of each item side by side.

use std::ops::Range;

use rayon::prelude::*;

use super::outcome::{Counts, Ties};
use super::table::{Comparisons, TIE, sorted_by};
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{push, with_room, zeros};

/// Items handled between two looks at the control, and at least by one thread.
const ITEMS: usize = 1 << 9;
/// Edges of a chunk: sums over edges are added chunk by chunk, whatever the number of threads.
pub(super) const EDGES: usize = 1 << 14;

/// What is folded into one edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// Comparisons of the same two items, wherever they were shown.
    Pairs,
    /// Those shown on the same sides.
    Sides,
    /// Those by the same worker on the same sides.
    Workers,
}

/// Edges between items. Memory: 32 bytes an edge, 8 bytes for each of its two ends, 4 an item and a worker.
#[derive(Debug)]
pub(super) struct Graph {
    /// Left and right item of each edge.
    pub ends: Vec<[u32; 2]>,
    /// How its comparisons came out.
    pub counts: Vec<Counts>,
    /// Edges `m` to `m + 1` are those of worker `m`; all belong to one where workers are not distinguished.
    pub workers: Vec<u32>,
    /// Half-edges `i` to `i + 1` are those of item `i`.
    offsets: Vec<u32>,
    /// The item at the other end, and the edge, its lowest bit indicating whether the item is on the right.
    halves: Vec<[u32; 2]>,
    /// Whether any comparison is a tie and counts as one.
    pub has_ties: bool,
}

impl Graph {
    /// Folds a table. O(comparisons + items) time.
    pub fn new(table: &Comparisons, ties: Ties, fold: Fold, control: &Control) -> Result<Self> {
        let mut graph = Self {
            ends: with_room(table.len())?,
            counts: with_room(table.len())?,
            workers: zeros(if fold == Fold::Workers { table.n_workers() + 1 } else { 2 })?,
            offsets: zeros(table.n_items() + 1)?,
            halves: vec![],
            has_ties: false,
        };
        if fold == Fold::Workers {
            for (worker, rows) in table.offsets().windows(2).enumerate() {
                graph.fold(table, (rows[0]..rows[1]).map(|row| row as usize), ties, fold);
                graph.workers[worker + 1] = graph.ends.len() as u32;
            }
        } else {
            let (left, right) = (table.left(), table.right());
            let low = |row: usize| oriented(left[row], right[row], fold)[0] as usize;
            let high = |row: usize| oriented(left[row], right[row], fold)[1] as usize;
            let mut order: Vec<u32> = with_room(table.len())?;
            order.extend(0..table.len() as u32);
            order = sorted_by(&order, high, table.n_items())?;
            control.check()?;
            order = sorted_by(&order, low, table.n_items())?;
            control.check()?;
            graph.fold(table, order.iter().map(|&row| row as usize), ties, fold);
            graph.workers[1] = graph.ends.len() as u32;
        }
        graph.join(control)?;
        Ok(graph)
    }

    /// Adds rows, of which those of one edge follow each other. There is room for an edge a row.
    fn fold(&mut self, table: &Comparisons, rows: impl Iterator<Item = usize>, ties: Ties, fold: Fold) {
        let first = self.ends.len();
        for row in rows {
            let weight = table.weight(row);
            if weight == 0.0 {
                continue;
            }
            let (left, outcome) = (table.left()[row], table.outcomes()[row]);
            let ends = oriented(left, table.right()[row], fold);
            let outcome = if ends[0] == left { outcome } else { Counts::swapped(outcome) };
            self.has_ties |= outcome == TIE && ties != Ties::Half;
            if self.ends.len() == first || self.ends.last() != Some(&ends) {
                self.ends.push(ends);
                self.counts.push(Counts::default());
            }
            if let Some(counts) = self.counts.last_mut() {
                counts.add(outcome, weight, ties);
            }
        }
    }

    /// Lists the edges of each item, in the order of edges.
    fn join(&mut self, control: &Control) -> Result<()> {
        for ends in &self.ends {
            ends.iter().for_each(|&item| self.offsets[item as usize + 1] += 1);
        }
        let n = self.offsets.len() - 1;
        (0..n).for_each(|item| self.offsets[item + 1] += self.offsets[item]);
        let mut next: Vec<u32> = with_room(n)?;
        next.extend_from_slice(&self.offsets[..n]);
        self.halves = zeros(2 * self.ends.len())?;
        control.check()?;
        for (edge, &[left, right]) in self.ends.iter().enumerate() {
            for (item, other, side) in [(left, right, 0), (right, left, 1)] {
                let place = &mut next[item as usize];
                self.halves[*place as usize] = [other, (edge as u32) << 1 | side];
                *place += 1;
            }
        }
        Ok(())
    }

    /// Number of items.
    pub fn n_items(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of workers who are distinguished.
    pub fn n_workers(&self) -> usize {
        self.workers.len() - 1
    }

    /// The edges of a worker.
    pub fn edges_of(&self, worker: usize) -> Range<usize> {
        self.workers[worker] as usize..self.workers[worker + 1] as usize
    }

    /// The worker of each edge.
    pub fn worker_of_edges(&self) -> Result<Vec<u32>> {
        let mut workers = zeros(self.ends.len())?;
        (0..self.n_workers()).for_each(|worker| workers[self.edges_of(worker)].fill(worker as u32));
        Ok(workers)
    }

    /// The half-edges of an item.
    #[inline(always)]
    pub fn halves_of(&self, item: usize) -> Range<usize> {
        self.offsets[item] as usize..self.offsets[item + 1] as usize
    }

    /// The items at the other ends.
    #[inline(always)]
    pub fn half(&self, at: usize) -> Half {
        let [other, edge] = self.halves[at];
        Half { other: other as usize, edge: (edge >> 1) as usize, sign: if edge & 1 == 0 { 1.0 } else { -1.0 } }
    }

    /// Numbers for each half-edge, from a number for each edge: one gather, so that passes over them read in order.
    pub fn gather(&self, edges: &[f64], halves: &mut [f64], control: &Control) -> Result<()> {
        halves.par_chunks_mut(EDGES).enumerate().try_for_each(|(block, chunk)| {
            control.check()?;
            chunk.iter_mut().enumerate().for_each(|(i, to)| *to = edges[self.half(block * EDGES + i).edge]);
            Ok(())
        })
    }

    /// The number of half-edges.
    pub fn n_halves(&self) -> usize {
        self.halves.len()
    }

    /// For each item the sum of `edges` where it is on the left, less the sum where it is on the right.
    pub fn flow(&self, edges: &[f64], items: &mut [f64], control: &Control) -> Result<()> {
        for_items(items, 1, control, &|item, to| {
            to[0] = self.halves_of(item).map(|at| self.half(at)).map(|half| half.sign * edges[half.edge]).sum();
        })
    }

    /// Chunks of edges, for sums over them.
    pub fn chunks(&self) -> Result<Vec<Range<usize>>> {
        let mut chunks = vec![];
        for first in (0..self.ends.len()).step_by(EDGES) {
            push(&mut chunks, first..(first + EDGES).min(self.ends.len()))?;
        }
        Ok(chunks)
    }
}

/// Fills rows of `width` numbers, one for each item, in parallel.
pub(super) fn for_items(
    rows: &mut [f64],
    width: usize,
    control: &Control,
    job: &(dyn Fn(usize, &mut [f64]) + Sync),
) -> Result<()> {
    rows.par_chunks_mut(ITEMS * width).enumerate().try_for_each(|(block, rows)| {
        control.check()?;
        rows.chunks_exact_mut(width).enumerate().for_each(|(i, row)| job(block * ITEMS + i, row));
        Ok(())
    })
}

/// One end of an edge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half {
    /// The item at the other end.
    pub other: usize,
    /// The edge.
    pub edge: usize,
    /// 1 where the item is on the left, -1 where it is on the right.
    pub sign: f64,
}

fn oriented(left: u32, right: u32, fold: Fold) -> [u32; 2] {
    if fold == Fold::Pairs { [left.min(right), left.max(right)] } else { [left, right] }
}
