//! Triples of workers that label the same tasks.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::{Lists, View, Weights, follow, room_for, split, with_view};
use crate::base::control::Control;
use crate::base::memory::{clear, collected, copied, filled, push, ready, room_to_sort, with_room, zeros};
use crate::categorical::table::{Label, Table, WorkerOrder};
use crate::moments::factor::check_pairs;
use crate::{Error, Result};

/// What triples of workers gave together.
#[derive(Debug, Default)]
pub struct Triples {
    /// The three workers of each triple, ascending; the triples are sorted.
    pub triples: Vec<u32>,
    /// Weight of what all three labeled: the sum of the triple's block.
    pub overlap: Vec<f64>,
    /// A block of (label of the first × of the second × of the third) for each triple; empty if it was not asked for.
    pub joint: Vec<f64>,
}

/// The slot of a worker, or the place of a triple, that is not wanted.
const NONE: u32 = u32::MAX;

/// How many counts, or numbers in blocks, one sweep handles: they stay in the processor's own cache.
const CELLS_PER_SWEEP: usize = 1 << 16;

/// How many pairs of partners may be listed one by one, 16 bytes each.
const MOST_LISTED: usize = 1 << 22;

/// Counts, for the best-supported triples of workers, how often they give which labels to the same tasks.
///
/// Three annotations of one task by different workers count the product of their weights. Looked at are triples of
/// which all three pairs are in `pairs` (a flat list, in any order) and whose overlap is positive and at least
/// `min_overlap`; of these the `max_triples` with the largest overlap are kept, of equals the first in order of
/// workers. Without `joint` the blocks are left out.
///
/// One job per worker, that handles the triples in which it comes first. Time O(Σ n³) over tasks with n annotations by
/// workers that are paired. Memory in addition to the result of 20 + 8 · classes³ bytes a triple and the table in
/// worker order: 48 bytes a triple of `max_triples`, once and once more for each thread, and for each thread 4 bytes
/// per worker and at most 128 MB (1 MB where all workers label the same tasks).
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
    let order = table.by_worker(control)?;
    let partners = greater_partners(table.n_workers(), pairs)?;
    let cells = if joint { table.n_labels().saturating_pow(3) } else { 0 };
    let most = room_for(cells.saturating_add(3).saturating_mul(size_of::<f64>()));
    with_view!(table, |view| {
        // One more than fits is enough to detect overflow.
        let best = best_triples(view, order, &partners, min_overlap, max_triples.min(most + 1), control)?;
        if best.len() > most {
            return Err(too_many(most));
        }
        let workers = collected(best.iter().map(|candidate| candidate.workers))?;
        let mut out = Triples {
            triples: copied(workers.as_flattened())?,
            overlap: collected(best.iter().map(|candidate| candidate.overlap))?,
            joint: zeros(best.len() * cells)?,
        };
        if joint {
            accumulate(view, order, &workers, cells, &mut out.joint, control)?;
        }
        Ok(out)
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
fn greater_partners(n_workers: usize, pairs: &[u32]) -> Result<Lists> {
    let links = pairs.chunks_exact(2).map(|p| (p[0].min(p[1]), p[0].max(p[1])));
    let mut lists = Lists::sort(n_workers, links)?;
    let offsets = std::mem::take(&mut lists.offsets);
    split(&mut lists.items, &offsets, 1)?.into_par_iter().for_each(<[u32]>::sort_unstable);
    lists.offsets = offsets;
    Ok(lists)
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
    fn push(&mut self, candidate: Candidate) -> Result<()> {
        if self.last.is_some_and(|last| last.order(&candidate).is_lt()) {
            return Ok(());
        }
        push(&mut self.items, candidate)?;
        if self.items.len() >= self.most.saturating_mul(2).max(1 << 10) {
            self.cut();
        }
        Ok(())
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
    order: &WorkerOrder,
    partners: &Lists,
    min_overlap: f64,
    max_triples: usize,
    control: &Control,
) -> Result<Vec<Candidate>> {
    if max_triples == 0 {
        return Ok(vec![]);
    }
    let all = Mutex::new(Best { most: max_triples, items: vec![], last: None });
    let lock = || all.lock().unwrap_or_else(PoisonError::into_inner);
    (0..view.table.n_workers()).into_par_iter().with_max_len(1).try_for_each_init(
        || filled(NONE, view.table.n_workers()),
        |slots, worker| {
            let slots = ready(slots)?;
            let list = partners.of(worker);
            if list.len() < 2 {
                return Ok(());
            }
            let mut best = Best { most: max_triples, items: vec![], last: lock().last };
            let mut offer = |second: u32, third: u32, overlap: f64| {
                if overlap > 0.0 && overlap >= min_overlap && partners.of(second as usize).binary_search(&third).is_ok()
                {
                    best.push(Candidate { overlap, workers: [worker as u32, second, third] })?;
                }
                Ok(())
            };
            let mut sweep = Sweep { view, order, worker, list, slots, control };
            sweep.open();
            if sweep.n_visits()? <= (list.len() * list.len() / 4).min(MOST_LISTED) {
                count_listed(&sweep, &mut offer)?;
            } else {
                count_tabled(&sweep, &mut offer)?;
            }
            sweep.close();
            let mut all = lock();
            best.items.into_iter().try_for_each(|candidate| all.push(candidate))
        },
    )?;
    let mut best = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    best.cut();
    best.items.par_sort_unstable_by_key(|candidate| candidate.workers);
    Ok(best.items)
}

/// Offers (second, third, overlap) of all that the worker met together: for a worker who met most of them never.
pub(super) fn count_listed<L: Label, W: Weights>(
    sweep: &Sweep<'_, '_, L, W>,
    offer: &mut impl FnMut(u32, u32, f64) -> Result<()>,
) -> Result<()> {
    let (mut listed, mut outcome) = (vec![], Ok(()));
    sweep.run(0..sweep.list.len(), |visit| {
        let triple = ([visit.second as u32, visit.third as u32], visit.product);
        if outcome.is_ok() {
            outcome = push(&mut listed, triple);
        }
    })?;
    outcome?;
    room_to_sort(&listed)?;
    // Stable, so that sums are made in the order of the tasks.
    listed.sort_by_key(|(slots, _)| *slots);
    for run in listed.chunk_by(|a, b| a.0 == b.0) {
        let [second, third] = run[0].0.map(|slot| sweep.list[slot as usize]);
        offer(second, third, run.iter().map(|(_, product)| product).sum())?;
    }
    Ok(())
}

/// The same by tables of (some seconds × all thirds): for a worker who met most of them often.
pub(super) fn count_tabled<L: Label, W: Weights>(
    sweep: &Sweep<'_, '_, L, W>,
    offer: &mut impl FnMut(u32, u32, f64) -> Result<()>,
) -> Result<()> {
    let width = sweep.list.len();
    let per_sweep = (CELLS_PER_SWEEP / width).max(1);
    let mut counts = vec![];
    for first in (0..width).step_by(per_sweep) {
        let seconds = first..(first + per_sweep).min(width);
        clear(&mut counts, seconds.len() * width)?;
        sweep.run(seconds.clone(), |visit| counts[(visit.second - first) * width + visit.third] += visit.product)?;
        for (second, counts) in seconds.zip(counts.chunks_exact(width)) {
            for (third, count) in sweep.list.iter().zip(counts).skip(second + 1) {
                offer(sweep.list[second], *third, *count)?;
            }
        }
    }
    Ok(())
}

/// A worker, and those of the others that are of interest next to it.
pub(super) struct Sweep<'a, 'b, L, W> {
    pub view: View<'a, L, W>,
    pub order: &'a WorkerOrder,
    pub worker: usize,
    /// All come after the worker; ascending.
    pub list: &'b [u32],
    /// Place in the list of each worker.
    pub slots: &'b mut [u32],
    pub control: &'b Control,
}

/// Three annotations of one task.
struct Triple {
    /// Place of the second worker in the list, and of the third.
    second: usize,
    third: usize,
    /// Label of the first worker, and rows of the other two.
    label: usize,
    rows: [usize; 2],
    /// Product of the weights.
    product: f64,
}

impl<L: Label, W: Weights> Sweep<'_, '_, L, W> {
    pub(super) fn open(&mut self) {
        for (slot, &other) in (0..).zip(self.list) {
            self.slots[other as usize] = slot;
        }
    }

    fn close(&mut self) {
        self.list.iter().for_each(|&other| self.slots[other as usize] = NONE);
    }

    /// At least the number of triples that a run visits.
    pub(super) fn n_visits(&self) -> Result<usize> {
        let choose_two = |n: usize| n * n.saturating_sub(1) / 2;
        let mut n = 0;
        follow(self.view, self.order, self.worker, self.control, |visit| n += choose_two(visit.rows.len() - 1))?;
        Ok(n)
    }

    /// Calls `add` for everything the worker labeled together with two in the list, the second among places `seconds`.
    fn run(&self, seconds: Range<usize>, mut add: impl FnMut(Triple)) -> Result<()> {
        let view = self.view;
        let mut here: Vec<(usize, usize)> = vec![];
        follow(view, self.order, self.worker, self.control, |visit| {
            here.clear();
            // From the last row on: partners come after the worker, and rows are sorted by worker.
            for row in visit.rows.rev() {
                let other = view.table.workers()[row] as usize;
                if other <= self.worker {
                    break;
                }
                if self.slots[other] != NONE {
                    here.push((self.slots[other] as usize, row));
                }
            }
            let after = here.partition_point(|(slot, _)| *slot >= seconds.end);
            for (place, &(second, row)) in here.iter().enumerate().skip(after) {
                if second < seconds.start {
                    break;
                }
                let (label, weight) = (visit.label, visit.weight * view.weights.at(row));
                for &(third, third_row) in &here[..place] {
                    // The answers before may be the second worker's own.
                    if third != second {
                        let product = weight * view.weights.at(third_row);
                        add(Triple { second, third, label, rows: [row, third_row], product });
                    }
                }
            }
        })
    }
}

/// Adds up the blocks of the triples kept; those that start with the same worker by one job.
fn accumulate<L: Label, W: Weights>(
    view: View<'_, L, W>,
    order: &WorkerOrder,
    kept: &[[u32; 3]],
    cells: usize,
    joint: &mut [f64],
    control: &Control,
) -> Result<()> {
    let (mut runs, mut offsets) = (vec![], vec![0]);
    for run in kept.chunk_by(|a, b| a[0] == b[0]) {
        let end = offsets[offsets.len() - 1] + run.len();
        push(&mut runs, run)?;
        push(&mut offsets, end)?;
    }
    let blocks = split(joint, &offsets, cells)?;
    runs.into_par_iter().zip(blocks).with_max_len(1).try_for_each_init(
        || filled(NONE, view.table.n_workers()),
        |slots, (run, blocks)| {
            let (slots, list) = (ready(slots)?, members(run)?);
            let mut sweep = Sweep { view, order, worker: run[0][0] as usize, list: &list, slots, control };
            sweep.open();
            let per_sweep = (CELLS_PER_SWEEP / cells).max(1);
            for (part, blocks) in run.chunks(per_sweep).zip(blocks.chunks_mut(per_sweep * cells)) {
                add_part(&sweep, part, blocks)?;
            }
            sweep.close();
            Ok(())
        },
    )
}

/// The second and third workers of a run of triples, ascending and each once.
fn members(run: &[[u32; 3]]) -> Result<Vec<u32>> {
    let mut list: Vec<u32> = with_room(2 * run.len())?;
    list.extend(run.iter().flat_map(|triple| [triple[1], triple[2]]));
    list.sort_unstable();
    list.dedup();
    Ok(list)
}

/// Adds up some of the worker's triples in one sweep over its tasks.
fn add_part<L: Label, W: Weights>(sweep: &Sweep<'_, '_, L, W>, part: &[[u32; 3]], blocks: &mut [f64]) -> Result<()> {
    let (list, width) = (sweep.list, sweep.list.len());
    let slots = |triple: &[u32; 3]| [triple[1], triple[2]].map(|worker| list.partition_point(|&x| x < worker));
    let pair_slots: Vec<[usize; 2]> = collected(part.iter().map(slots))?;
    let seconds = pair_slots[0][0]..pair_slots[pair_slots.len() - 1][0] + 1;
    let first = seconds.start;
    if seconds.len() * width > 4 * CELLS_PER_SWEEP {
        return add_triples(sweep, seconds, blocks, |second, third| pair_slots.binary_search(&[second, third]).ok());
    }
    let mut places = filled(NONE, seconds.len() * width)?;
    for (place, slots) in (0..).zip(&pair_slots) {
        places[(slots[0] - first) * width + slots[1]] = place;
    }
    add_triples(sweep, seconds, blocks, |second, third| {
        let place = places[(second - first) * width + third];
        (place != NONE).then_some(place as usize)
    })
}

fn add_triples<L: Label, W: Weights>(
    sweep: &Sweep<'_, '_, L, W>,
    seconds: Range<usize>,
    blocks: &mut [f64],
    place: impl Fn(usize, usize) -> Option<usize>,
) -> Result<()> {
    let (view, k) = (sweep.view, sweep.view.table.n_labels());
    // Fresh memory must be written before it is read: a page that is read first is mapped twice.
    blocks.fill(0.0);
    sweep.run(seconds, |triple| {
        if let Some(place) = place(triple.second, triple.third) {
            let [second, third] = triple.rows.map(|row| view.labels[row].code());
            blocks[((place * k + triple.label) * k + second) * k + third] += triple.product;
        }
    })
}
