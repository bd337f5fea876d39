//! Triples of workers that label the same tasks.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::{Lists, Ticker, View, Weights, check_pairs, room_for, split, with_view};
use crate::control::Control;
use crate::table::{Label, Table};
use crate::{Error, Result};

/// What triples of workers said together.
#[derive(Debug, Default)]
pub struct Triples {
    /// The three workers of each triple, ascending; the triples are sorted.
    pub triples: Vec<u32>,
    /// Weight of what all three labelled: the sum of the triple's block.
    pub overlap: Vec<f64>,
    /// A block of (label of the first × of the second × of the third) for each triple; empty if it was not asked for.
    pub joint: Vec<f64>,
}

/// The slot of a worker, or the cell of a pair, that is not wanted.
const NONE: u32 = u32::MAX;

/// How many counts, or places of blocks, one sweep handles: they stay in the processor's own cache.
const CELLS_PER_SWEEP: usize = 1 << 16;

/// Counts, for the best-supported triples of workers, how often they give which labels to the same tasks.
///
/// Three annotations of one task by different workers count the product of their weights. Looked at are triples of which
/// all three pairs are in `pairs` (a flat list, in any order) and whose overlap is positive and at least `min_overlap`; of
/// these the `max_triples` with the largest overlap are kept, of equals the first in order of workers. Without `joint`
/// the blocks are left out.
///
/// One job per worker, that handles the triples in which it comes first. Time O(Σ n³) over tasks with n annotations by
/// workers that are paired. Memory, beside the result of 20 + 8 · classes³ bytes a triple and the table in worker order:
/// 64 bytes a triple of `max_triples`, and for each thread 4 bytes a worker and about 1 MB, more for a worker with more
/// than 65,536 partners.
pub fn moments_triples(
    table: &Table,
    pairs: &[u32],
    min_overlap: f64,
    max_triples: usize,
    joint: bool,
    control: &Control,
) -> Result<Triples> {
    if min_overlap.is_nan() {
        return Err(Error::invalid("min_overlap is not a number"));
    }
    check_pairs(table.n_workers(), pairs)?;
    let own = table.by_worker(control)?;
    let partners = greater_partners(table.n_workers(), pairs);
    let cells = if joint { table.n_classes().saturating_pow(3) } else { 0 };
    let most = room_for(cells.saturating_add(3).saturating_mul(size_of::<f64>()));
    with_view!(table, own, |view| {
        // One more than there is room for is enough to know that there is not.
        let kept = best_triples(view, &partners, min_overlap, max_triples.min(most + 1), control)?;
        if kept.len() > most { Err(too_many(most)) } else { accumulate(view, &kept, cells, control) }
    })
}

fn too_many(most: usize) -> Error {
    Error::invalid(format!(
        "there are more than {most} triples of workers, the most that fit into {} GiB; lower max_triples or raise \
         min_overlap",
        super::MOST_BYTES >> 30
    ))
}

/// The partners of each worker that come after it, ascending and each once.
fn greater_partners(n_workers: usize, pairs: &[u32]) -> Lists {
    let links = pairs.chunks_exact(2).map(|p| (p[0].min(p[1]), p[0].max(p[1])));
    let mut lists = Lists::sort(n_workers, links);
    let offsets = std::mem::take(&mut lists.offsets);
    split(&mut lists.items, &offsets, 1).into_par_iter().for_each(<[u32]>::sort_unstable);
    lists.offsets = offsets;
    lists
}

/// A triple and its overlap.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    overlap: f64,
    workers: [u32; 3],
}

impl Candidate {
    /// Better supported ones come first, then lower workers: no two candidates are equal.
    fn order(&self, other: &Self) -> Ordering {
        other.overlap.total_cmp(&self.overlap).then(self.workers.cmp(&other.workers))
    }
}

/// The best candidates so far. Which ones they are does not depend on the order in which they come.
#[derive(Debug)]
struct Best {
    most: usize,
    items: Vec<Candidate>,
    /// Once there are enough: what does not come before this one is not wanted.
    last: Option<Candidate>,
}

impl Best {
    fn push(&mut self, candidate: Candidate) {
        if self.last.is_some_and(|last| last.order(&candidate).is_lt()) {
            return;
        }
        self.items.push(candidate);
        if self.items.len() >= self.most.saturating_mul(2).max(1 << 10) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.items.len() > self.most {
            let (_, last, _) = self.items.select_nth_unstable_by(self.most - 1, Candidate::order);
            self.last = Some(*last);
            self.items.truncate(self.most);
        }
    }
}

/// Finds the triples to keep, sorted by their workers.
fn best_triples<L: Label, W: Weights>(
    view: View<'_, L, W>,
    partners: &Lists,
    min_overlap: f64,
    max_triples: usize,
    control: &Control,
) -> Result<Vec<[u32; 3]>> {
    if max_triples == 0 {
        return Ok(vec![]);
    }
    let all = Mutex::new(Best { most: max_triples, items: vec![], last: None });
    let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
    (0..view.table.n_workers()).into_par_iter().with_max_len(1).try_for_each_init(
        || (vec![NONE; view.table.n_workers()], vec![]),
        |(slots, counts), worker| {
            let list = partners.of(worker);
            if list.len() < 2 {
                return Ok(());
            }
            let mut best = Best { most: max_triples, items: vec![], last: lock().last };
            let mut sweep = Sweep { view, worker, list, slots, control };
            sweep.open();
            let per_sweep = (CELLS_PER_SWEEP / list.len()).max(1);
            for first in (0..list.len()).step_by(per_sweep) {
                let seconds = first..(first + per_sweep).min(list.len());
                counts.clear();
                counts.resize(seconds.len() * list.len(), 0.0);
                sweep.run(&seconds, |cell, _, _, _, product| counts[cell] += product)?;
                for (second, counts) in seconds.zip(counts.chunks_exact(list.len())) {
                    collect(worker, list, second, partners, counts, min_overlap, &mut best);
                }
            }
            sweep.close();
            let mut all = lock();
            best.items.into_iter().for_each(|candidate| all.push(candidate));
            Ok(())
        },
    )?;
    let mut best = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    best.cut();
    let mut triples: Vec<[u32; 3]> = best.items.iter().map(|candidate| candidate.workers).collect();
    triples.par_sort_unstable();
    Ok(triples)
}

/// Offers the triples of a worker and its partner number `second` whose third is a partner of both.
fn collect(
    worker: usize,
    list: &[u32],
    second: usize,
    partners: &Lists,
    counts: &[f64],
    min_overlap: f64,
    best: &mut Best,
) {
    let mut theirs = partners.of(list[second] as usize).iter().copied().peekable();
    for (third, &other) in list.iter().enumerate().skip(second + 1) {
        while theirs.next_if(|&x| x < other).is_some() {}
        let overlap = counts[third];
        if theirs.peek() == Some(&other) && overlap > 0.0 && overlap >= min_overlap {
            best.push(Candidate { overlap, workers: [worker as u32, list[second], other] });
        }
    }
}

/// A worker, and those of the others that are of interest beside it.
struct Sweep<'a, 'b, L, W> {
    view: View<'a, L, W>,
    worker: usize,
    /// All come after the worker; ascending.
    list: &'b [u32],
    /// Place in the list of each worker.
    slots: &'b mut [u32],
    control: &'b Control,
}

impl<L: Label, W: Weights> Sweep<'_, '_, L, W> {
    fn open(&mut self) {
        for (slot, &other) in (0..).zip(self.list) {
            self.slots[other as usize] = slot;
        }
    }

    fn close(&mut self) {
        self.list.iter().for_each(|&other| self.slots[other as usize] = NONE);
    }

    /// Calls `add(cell, own row, row, row, product of weights)` for everything the worker labelled together with two in
    /// the list, the second among places `seconds`; the cell is that of (second, third) in a matrix of such places.
    fn run(&mut self, seconds: &Range<usize>, mut add: impl FnMut(usize, usize, usize, usize, f64)) -> Result<()> {
        let (view, width) = (self.view, self.list.len());
        let mut ticker = Ticker::new(self.control);
        let mut here: Vec<(usize, usize)> = vec![];
        for own in view.rows_of(self.worker) {
            let rows = view.beside(own);
            here.clear();
            // From the last row on: partners come after the worker, and rows are sorted by worker.
            for row in rows.clone().rev() {
                let other = view.table.workers()[row] as usize;
                if other <= self.worker {
                    break;
                }
                if self.slots[other] != NONE {
                    here.push((self.slots[other] as usize, row));
                }
            }
            ticker.tick(rows.len())?;
            let weight = view.own_weights.at(own);
            for (place, &(second, row)) in here.iter().enumerate() {
                if second < seconds.start {
                    break;
                }
                if second >= seconds.end {
                    continue;
                }
                ticker.tick(place)?;
                let (base, weight) = ((second - seconds.start) * width, weight * view.weights.at(row));
                // A worker's repeated answers meet on the diagonal, which nobody reads.
                for &(third, third_row) in &here[..place] {
                    add(base + third, own, row, third_row, weight * view.weights.at(third_row));
                }
            }
        }
        Ok(())
    }
}

/// Adds up the blocks of the triples kept; those that start with the same worker by one job.
fn accumulate<L: Label, W: Weights>(
    view: View<'_, L, W>,
    kept: &[[u32; 3]],
    cells: usize,
    control: &Control,
) -> Result<Triples> {
    let mut out = Triples {
        triples: kept.as_flattened().to_vec(),
        overlap: vec![0.0; kept.len()],
        joint: vec![0.0; kept.len() * cells],
    };
    let mut offsets = vec![0];
    for run in kept.chunk_by(|a, b| a[0] == b[0]) {
        offsets.push(offsets[offsets.len() - 1] + run.len());
    }
    let blocks = split(&mut out.joint, &offsets, cells);
    let overlaps = split(&mut out.overlap, &offsets, 1);
    let runs: Vec<&[[u32; 3]]> = kept.chunk_by(|a, b| a[0] == b[0]).collect();
    runs.into_par_iter().zip(blocks).zip(overlaps).with_max_len(1).try_for_each_init(
        || (vec![NONE; view.table.n_workers()], vec![]),
        |(slots, places), ((run, block), overlap)| {
            let list = members(run);
            let mut sweep = Sweep { view, worker: run[0][0] as usize, list: &list, slots, control };
            sweep.open();
            for part in parts(run, &list, cells) {
                let seconds = locate(&list, run[part.start][1])..locate(&list, run[part.end - 1][1]) + 1;
                places.clear();
                places.resize(seconds.len() * list.len(), NONE);
                for (place, triple) in (0..).zip(&run[part.clone()]) {
                    let cell = (locate(&list, triple[1]) - seconds.start) * list.len() + locate(&list, triple[2]);
                    places[cell] = place;
                }
                let block = &mut block[part.start * cells..part.end * cells];
                add_part(&mut sweep, &seconds, places, block, &mut overlap[part])?;
            }
            sweep.close();
            Ok(())
        },
    )?;
    Ok(out)
}

/// One sweep over the worker's tasks for the triples that have a place.
fn add_part<L: Label, W: Weights>(
    sweep: &mut Sweep<'_, '_, L, W>,
    seconds: &Range<usize>,
    places: &[u32],
    block: &mut [f64],
    overlap: &mut [f64],
) -> Result<()> {
    let (view, k) = (sweep.view, sweep.view.table.n_classes());
    if block.is_empty() {
        return sweep.run(seconds, |cell, _, _, _, product| {
            if places[cell] != NONE {
                overlap[places[cell] as usize] += product;
            }
        });
    }
    sweep.run(seconds, |cell, own, row, third_row, product| {
        if places[cell] != NONE {
            let label = view.own_labels[own].code() * k + view.labels[row].code();
            block[(places[cell] as usize * k * k + label) * k + view.labels[third_row].code()] += product;
        }
    })?;
    for (sum, block) in overlap.iter_mut().zip(block.chunks_exact(k * k * k)) {
        *sum = block.iter().sum();
    }
    Ok(())
}

/// The second and third workers of a run of triples, ascending and each once.
fn members(run: &[[u32; 3]]) -> Vec<u32> {
    let mut list: Vec<u32> = run.iter().flat_map(|triple| [triple[1], triple[2]]).collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// The place of a member.
fn locate(list: &[u32], worker: u32) -> usize {
    list.partition_point(|&x| x < worker)
}

/// Cuts a run of triples into parts that one sweep can handle: neither too many blocks nor too many places for them.
fn parts(run: &[[u32; 3]], list: &[u32], cells: usize) -> Vec<Range<usize>> {
    let most_triples = (CELLS_PER_SWEEP / cells.max(1)).max(1);
    let most_seconds = (CELLS_PER_SWEEP / list.len()).max(1);
    let mut parts = vec![];
    let (mut start, mut first) = (0, locate(list, run[0][1]));
    for (i, triple) in run.iter().enumerate() {
        let second = locate(list, triple[1]);
        if i - start == most_triples || second - first >= most_seconds {
            parts.push(start..i);
            (start, first) = (i, second);
        }
    }
    parts.push(start..run.len());
    parts
}
