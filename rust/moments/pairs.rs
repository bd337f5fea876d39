//! Pairs of workers that label the same tasks.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{Lists, Ticker, View, Weights, room_for, split, with_view};
use crate::control::Control;
use crate::table::{Label, Table};
use crate::{Error, Result};

/// What pairs of workers said together.
#[derive(Debug, Default)]
pub struct Pairs {
    /// First and second worker of each pair, first < second, sorted.
    pub pairs: Vec<u32>,
    /// Weight of what both labelled: the sum of the pair's block.
    pub overlap: Vec<f64>,
    /// A block of (label of the first × label of the second) for each pair; empty if it was not asked for.
    pub joint: Vec<f64>,
}

/// The slot of a worker that is not among the partners at hand.
const NONE: u32 = u32::MAX;

/// Counts, for the best-supported pairs of workers, how often they give which labels to the same tasks.
///
/// Two annotations of one task by different workers count the product of their weights. A pair is kept if its overlap is
/// positive and at least `min_overlap`, and if it is among the `max_partners` pairs of largest overlap of at least one of
/// the two (of equals those with the lower partner). Without `joint` the blocks are left out.
///
/// Two sweeps, each of one job per worker: the first counts overlaps, the second adds up the blocks of the pairs kept.
/// Time O(Σ n²) over tasks with n annotations. Memory, beside the result of 16 + 8 · classes² bytes a pair and the table
/// in worker order: 16 bytes a pair, and 12 bytes a worker for each thread.
pub fn moments_pairs(
    table: &Table,
    min_overlap: f64,
    max_partners: usize,
    joint: bool,
    control: &Control,
) -> Result<Pairs> {
    if min_overlap.is_nan() {
        return Err(Error::invalid("min_overlap is not a number"));
    }
    let own = table.by_worker(control)?;
    let cells = if joint { table.n_classes() * table.n_classes() } else { 0 };
    let most = room_for((cells + 2) * size_of::<f64>());
    with_view!(table, own, |view| {
        let best = best_partners(view, min_overlap, max_partners, most, control)?;
        let kept = greater_partners(&best);
        drop(best);
        if kept.items.len() > most { Err(too_many(most)) } else { accumulate(view, &kept, cells, control) }
    })
}

fn too_many(most: usize) -> Error {
    Error::invalid(format!(
        "there are more than {most} pairs of workers, the most that fit into {} GiB; lower max_partners or raise \
         min_overlap",
        super::MOST_BYTES >> 30
    ))
}

/// The best-supported partners of each worker, ascending.
fn best_partners<L: Label, W: Weights>(
    view: View<'_, L, W>,
    min_overlap: f64,
    max_partners: usize,
    most_pairs: usize,
    control: &Control,
) -> Result<Lists> {
    let n_workers = view.table.n_workers();
    let links = AtomicUsize::new(0);
    let lists: Vec<Vec<u32>> = (0..n_workers)
        .into_par_iter()
        .map_init(
            || (vec![0.0; n_workers], Vec::new()),
            |(overlap, met), worker| {
                count_overlaps(view, worker, overlap, met, control)?;
                let list = best(worker, overlap, met, min_overlap, max_partners);
                met.drain(..).for_each(|other| overlap[other as usize] = 0.0);
                // A pair is listed at most twice.
                if links.fetch_add(list.len(), Ordering::Relaxed) + list.len() > 2 * most_pairs {
                    return Err(too_many(most_pairs));
                }
                Ok(list)
            },
        )
        .collect::<Result<_>>()?;
    Ok(Lists::join(&lists))
}

/// Adds up the worker's overlap with everyone, and lists whom it met.
fn count_overlaps<L: Label, W: Weights>(
    view: View<'_, L, W>,
    worker: usize,
    overlap: &mut [f64],
    met: &mut Vec<u32>,
    control: &Control,
) -> Result<()> {
    let mut ticker = Ticker::new(control);
    for own in view.rows_of(worker) {
        let (rows, weight) = (view.beside(own), view.own_weights.at(own));
        ticker.tick(rows.len())?;
        for (row, &other) in rows.clone().zip(&view.table.workers()[rows]) {
            let (product, sum) = (weight * view.weights.at(row), &mut overlap[other as usize]);
            if *sum == 0.0 && product > 0.0 {
                met.push(other);
            }
            *sum += product;
        }
    }
    Ok(())
}

/// Chooses from the workers met: those of largest overlap, the lower of equals.
fn best(worker: usize, overlap: &[f64], met: &[u32], min_overlap: f64, max_partners: usize) -> Vec<u32> {
    let sum = |other: u32| overlap[other as usize];
    let enough = |other: &u32| *other as usize != worker && sum(*other) >= min_overlap;
    let mut list: Vec<u32> = met.iter().copied().filter(enough).collect();
    if max_partners < list.len() {
        list.select_nth_unstable_by(max_partners, |&a, &b| sum(b).total_cmp(&sum(a)).then(a.cmp(&b)));
        list.truncate(max_partners);
    }
    list.sort_unstable();
    // Far more may have been met than are kept.
    list.shrink_to_fit();
    list
}

/// The partners that each worker shares a kept pair with and that come after it, ascending.
fn greater_partners(best: &Lists) -> Lists {
    // A pair is kept if either has the other in its list: the lists of the later worker are turned around.
    let turned =
        Lists::sort(best.n_workers(), best.links().filter(|(m, other)| other < m).map(|(m, other)| (other, m)));
    let lists: Vec<Vec<u32>> = (0..best.n_workers())
        .into_par_iter()
        .map(|m| {
            let own = best.of(m);
            let own = &own[own.partition_point(|&other| other as usize <= m)..];
            let mut list = [own, turned.of(m)].concat();
            list.sort_unstable();
            list.dedup();
            list
        })
        .collect();
    Lists::join(&lists)
}

/// Adds up the blocks of the pairs kept, each worker's by one job.
fn accumulate<L: Label, W: Weights>(
    view: View<'_, L, W>,
    kept: &Lists,
    cells: usize,
    control: &Control,
) -> Result<Pairs> {
    let (n_pairs, k) = (kept.items.len(), view.table.n_classes());
    let mut out = Pairs {
        pairs: kept.links().flat_map(|(first, second)| [first, second]).collect(),
        overlap: vec![0.0; n_pairs],
        joint: vec![0.0; n_pairs * cells],
    };
    let blocks = split(&mut out.joint, &kept.offsets, cells);
    let overlaps = split(&mut out.overlap, &kept.offsets, 1);
    blocks.into_par_iter().zip(overlaps).enumerate().try_for_each_init(
        || vec![NONE; view.table.n_workers()],
        |slots, (worker, (block, overlap))| {
            let partners = kept.of(worker);
            if partners.is_empty() {
                return Ok(());
            }
            for (slot, &other) in (0..).zip(partners) {
                slots[other as usize] = slot;
            }
            if cells > 0 {
                let add = |slot: usize, own: usize, row: usize, product: f64| {
                    block[slot * cells + view.own_labels[own].code() * k + view.labels[row].code()] += product;
                };
                sweep(view, worker, slots, add, control)?;
                for (sum, block) in overlap.iter_mut().zip(block.chunks_exact(cells)) {
                    *sum = block.iter().sum();
                }
            } else {
                sweep(view, worker, slots, |slot, _, _, product| overlap[slot] += product, control)?;
            }
            partners.iter().for_each(|&other| slots[other as usize] = NONE);
            Ok(())
        },
    )?;
    Ok(out)
}

/// Calls `add(slot, own row, row, product of weights)` for everything the worker labelled together with a kept partner.
fn sweep<L: Label, W: Weights>(
    view: View<'_, L, W>,
    worker: usize,
    slots: &[u32],
    mut add: impl FnMut(usize, usize, usize, f64),
    control: &Control,
) -> Result<()> {
    let mut ticker = Ticker::new(control);
    for own in view.rows_of(worker) {
        let (rows, weight) = (view.beside(own), view.own_weights.at(own));
        ticker.tick(rows.len())?;
        // Partners come after the worker, and a task's rows are sorted by worker: the last rows are enough.
        for row in rows.rev() {
            let other = view.table.workers()[row] as usize;
            if other <= worker {
                break;
            }
            if slots[other] != NONE {
                add(slots[other] as usize, own, row, weight * view.weights.at(row));
            }
        }
    }
    Ok(())
}
