//! The counting sort of a log into task order, and of links into worker order, with whatever the rows carry.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering as Atomic};

use rayon::prelude::*;

use super::{Links, Log, ROWS_PER_CHECK, Repeats, marked};
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{Zero, collected, filled, joined, with_room, zeros};

/// What a row carries, or one of the numbers it carries.
pub(crate) trait Payload: Zero + Send + Sync + 'static {
    /// What it comes in as.
    type Given: Copy + Sync;
    /// As it is kept.
    fn of(given: Self::Given) -> Self;
    /// The order of rows of one worker on one task.
    fn compare(&self, other: &Self) -> Ordering;
}

impl Payload for f64 {
    type Given = Self;
    #[inline(always)]
    fn of(given: Self) -> Self {
        given
    }
    fn compare(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

/// Links in worker order, and what they carry.
#[derive(Debug)]
pub(crate) struct ByWorker<P> {
    /// Worker `m` owns rows `offsets[m]..offsets[m + 1]`.
    pub offsets: Vec<u32>,
    /// Task of each row, ascending within a worker.
    pub tasks: Vec<u32>,
    /// What each row carries.
    pub payload: Vec<P>,
    /// Weight of each row, where there are weights.
    pub weights: Option<Vec<f64>>,
}

impl Links {
    /// Sorts a valid log, whose rows carry `width` items each: O(rows) time, no memory beyond the table and 4 bytes per
    /// task.
    pub(crate) fn sorted<P: Payload>(
        log: &Log<'_>,
        given: &[P::Given],
        width: usize,
        repeats: Repeats,
        control: &Control,
    ) -> Result<(Self, Vec<P>)> {
        let mut links = Self {
            n_workers: log.n_workers,
            offsets: offsets_of(log.tasks, log.n_tasks, control)?,
            workers: zeros(log.tasks.len())?,
            weights: log.weights.map(|w| zeros(w.len())).transpose()?,
        };
        let mut payload = zeros(given.len())?;
        let in_order = log.tasks.is_sorted();
        let masks = links.each_group(&mut payload, width, |group, offsets, width| {
            if in_order {
                copy_group(log, given, group);
            } else {
                scatter_group(log, given, offsets, group, width, control)?;
            }
            sort_group(repeats, offsets, group, width, control)
        })?;
        match masks.into_iter().collect::<Option<Vec<_>>>() {
            Some(kept) if kept.iter().flatten().any(|keep| !keep) => {
                let mask = joined(&kept)?;
                Ok((links.keep(&mask)?, marked(&payload, &mask, width)?))
            }
            _ => Ok((links, payload)),
        }
    }

    /// Puts rows of one task and worker in order again after their payload has changed.
    pub(crate) fn sort_repeats<P: Payload>(
        &mut self,
        payload: &mut [P],
        width: usize,
        control: &Control,
    ) -> Result<()> {
        self.each_group(payload, width, |group, offsets, width| {
            sort_group(Repeats::Keep, offsets, group, width, control).map(drop)
        })?;
        Ok(())
    }

    /// The links in worker order: O(rows).
    pub(crate) fn by_worker<P: Payload>(&self, payload: &[P], width: usize, control: &Control) -> Result<ByWorker<P>> {
        let offsets = offsets_of(&self.workers, self.n_workers, control)?;
        let mut order = ByWorker {
            tasks: zeros(self.len())?,
            payload: zeros(payload.len())?,
            weights: self.weights.as_ref().map(|w| zeros(w.len())).transpose()?,
            offsets,
        };
        let columns = (&mut order.tasks[..], &mut order.payload[..], order.weights.as_deref_mut());
        groups(&order.offsets, columns, width).into_par_iter().try_for_each(|mut group| {
            let mut cursor = group.cursors(&order.offsets)?;
            for task in 0..self.n_tasks() {
                if task.is_multiple_of(ROWS_PER_CHECK) {
                    control.check()?;
                }
                for row in self.rows_of(task) {
                    if let Some(to) = group.claim(&mut cursor, self.workers[row]) {
                        group.put(to, task as u32, self.weights.as_deref(), row);
                        group.carry(to, payload, row, width, |item| item);
                    }
                }
            }
            Ok(())
        })?;
        Ok(order)
    }

    /// Runs `job(group, offsets, width)` on every group of tasks; the results in their order.
    fn each_group<P: Payload, T: Send>(
        &mut self,
        payload: &mut [P],
        width: usize,
        job: impl Fn(&mut Group<'_, P>, &[u32], usize) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let columns = (&mut self.workers[..], payload, self.weights.as_deref_mut());
        let offsets = &self.offsets;
        // Most often one label: compiled apart, without loops over what a row carries.
        let job = |mut group| if width == 1 { job(&mut group, offsets, 1) } else { job(&mut group, offsets, width) };
        groups(offsets, columns, width).into_par_iter().map(job).collect()
    }
}

/// Start of each code's rows once the rows are sorted by code.
fn offsets_of(codes: &[u32], n: usize, control: &Control) -> Result<Vec<u32>> {
    let counts: Vec<AtomicU32> = collected((0..n).map(|_| AtomicU32::new(0)))?;
    codes.par_chunks(ROWS_PER_CHECK).try_for_each(|chunk| {
        control.check()?;
        chunk.iter().for_each(|&c| {
            counts[c as usize].fetch_add(1, Atomic::Relaxed);
        });
        Ok(())
    })?;
    let mut total = 0;
    let mut offsets = with_room(n + 1)?;
    offsets.push(0);
    for count in counts {
        total += count.into_inner();
        offsets.push(total);
    }
    Ok(offsets)
}

/// A run of codes and the output rows they own. Groups are disjoint, so they can be filled in parallel; each is small
/// enough for its scattered writes to stay in cache, at the price of one streaming look at every row per group.
struct Group<'a, P> {
    codes: Range<usize>,
    base: usize,
    ids: &'a mut [u32],
    payload: &'a mut [P],
    width: usize,
    weights: Option<&'a mut [f64]>,
}

impl<P: Payload> Group<'_, P> {
    /// Next free output row of each code in the group, relative to the group.
    fn cursors(&self, offsets: &[u32]) -> Result<Vec<u32>> {
        collected(offsets[self.codes.clone()].iter().map(|&o| o - self.base as u32))
    }

    /// The output row for one more annotation of `code`, if the code belongs to this group.
    #[inline(always)]
    fn claim(&self, cursor: &mut [u32], code: u32) -> Option<usize> {
        // One comparison: codes below the range wrap around to a large number.
        let slot = cursor.get_mut((code as usize).wrapping_sub(self.codes.start))?;
        let to = *slot as usize;
        *slot += 1;
        Some(to)
    }

    /// Writes the id and the weight of an output row.
    #[inline(always)]
    fn put(&mut self, to: usize, id: u32, weights: Option<&[f64]>, from: usize) {
        self.ids[to] = id;
        if let (Some(to_w), Some(from_w)) = (self.weights.as_deref_mut(), weights) {
            to_w[to] = from_w[from];
        }
    }

    /// Writes what an output row carries, of the group's width.
    #[inline(always)]
    fn carry<T: Copy>(&mut self, to: usize, items: &[T], from: usize, width: usize, of: impl Fn(T) -> P) {
        let (to, from) = (to * width, from * width);
        for (to, from) in self.payload[to..to + width].iter_mut().zip(&items[from..from + width]) {
            *to = of(*from);
        }
    }
}

/// Ids, payload and weights of output rows.
type Columns<'a, P> = (&'a mut [u32], &'a mut [P], Option<&'a mut [f64]>);

fn groups<'a, P>(
    offsets: &[u32],
    (mut ids, mut payload, mut weights): Columns<'a, P>,
    width: usize,
) -> Vec<Group<'a, P>> {
    const ROWS_PER_GROUP: usize = 1 << 19;
    const MOST_GROUPS: usize = 32;
    let (n_codes, total) = (offsets.len() - 1, ids.len());
    let n_groups = total.div_ceil(ROWS_PER_GROUP).clamp(1, MOST_GROUPS);
    let mut parts = Vec::with_capacity(n_groups);
    let mut first = 0;
    for g in 1..=n_groups {
        let goal = (total as u128 * g as u128 / n_groups as u128) as u32;
        let last = if g == n_groups { n_codes } else { offsets.partition_point(|&o| o < goal).clamp(first, n_codes) };
        let (base, len) = (offsets[first] as usize, (offsets[last] - offsets[first]) as usize);
        let (these_ids, rest_ids) = ids.split_at_mut(len);
        let (these_items, rest_items) = payload.split_at_mut(len * width);
        let (these_weights, rest_weights) = weights.map(|w| w.split_at_mut(len)).unzip();
        (ids, payload, weights) = (rest_ids, rest_items, rest_weights);
        let codes = first..last;
        parts.push(Group { codes, base, ids: these_ids, payload: these_items, width, weights: these_weights });
        first = last;
    }
    parts
}

fn copy_group<P: Payload>(log: &Log<'_>, given: &[P::Given], group: &mut Group<'_, P>) {
    let range = group.base..group.base + group.ids.len();
    group.ids.copy_from_slice(&log.workers[range.clone()]);
    let values = &given[range.start * group.width..range.end * group.width];
    group.payload.iter_mut().zip(values).for_each(|(to, from)| *to = P::of(*from));
    if let (Some(to), Some(from)) = (group.weights.as_deref_mut(), log.weights) {
        to.copy_from_slice(&from[range]);
    }
}

#[inline(always)]
fn scatter_group<P: Payload>(
    log: &Log<'_>,
    given: &[P::Given],
    offsets: &[u32],
    group: &mut Group<'_, P>,
    width: usize,
    control: &Control,
) -> Result<()> {
    let mut cursor = group.cursors(offsets)?;
    for (block, tasks) in log.tasks.chunks(ROWS_PER_CHECK).enumerate() {
        control.check()?;
        for (i, &task) in tasks.iter().enumerate() {
            if let Some(to) = group.claim(&mut cursor, task) {
                let row = block * ROWS_PER_CHECK + i;
                group.put(to, log.workers[row], log.weights, row);
                group.carry(to, given, row, width, P::of);
            }
        }
    }
    Ok(())
}

/// Rows of a task, and the order they are to have.
struct Scratch<P> {
    /// Worker and place of each row in one number, the worker above, so that comparing two is one comparison.
    order: Vec<u64>,
    payload: Vec<P>,
    weights: Vec<f64>,
}

impl<P: Payload> Scratch<P> {
    /// With room for the longest task of a group.
    fn new(group: &Group<'_, P>, offsets: &[u32]) -> Result<Self> {
        let bounds = &offsets[group.codes.start..=group.codes.end];
        let most = bounds.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0);
        let n_weights = if group.weights.is_some() { most } else { 0 };
        Ok(Self { order: with_room(most)?, payload: with_room(most * group.width)?, weights: with_room(n_weights)? })
    }

    /// Takes the rows of a task, ordered by worker, then place.
    #[inline(always)]
    fn take(&mut self, group: &Group<'_, P>, range: Range<usize>, width: usize) {
        self.order.clear();
        self.payload.clear();
        self.order
            .extend(group.ids[range.clone()].iter().zip(0..).map(|(&worker, place)| u64::from(worker) << 32 | place));
        self.order.sort_unstable();
        self.payload.extend_from_slice(&group.payload[range.start * width..range.end * width]);
        if let Some(weights) = group.weights.as_deref() {
            self.weights.clear();
            self.weights.extend_from_slice(&weights[range]);
        }
    }

    /// Orders rows of one worker by what they carry, then by weight.
    #[inline(always)]
    fn sort_repeats(&mut self, width: usize) {
        let payload_of = |row: u64| &self.payload[place_of(row) * width..(place_of(row) + 1) * width];
        let weight = |row: u64| self.weights.get(place_of(row)).copied().unwrap_or_default();
        for rows in self.order.chunk_by_mut(|a, b| worker_of(*a) == worker_of(*b)).filter(|rows| rows.len() > 1) {
            rows.sort_unstable_by(|&a, &b| {
                let pairs = payload_of(a).iter().zip(payload_of(b));
                let order = pairs.map(|(x, y)| x.compare(y)).find(|order| order.is_ne());
                order.unwrap_or_else(|| weight(a).total_cmp(&weight(b)))
            });
        }
    }
}

fn worker_of(row: u64) -> u32 {
    (row >> 32) as u32
}

fn place_of(row: u64) -> usize {
    row as u32 as usize
}

/// Sorts the rows of each task; returns which of them to keep if repeats are dropped.
#[inline(always)]
fn sort_group<P: Payload>(
    repeats: Repeats,
    offsets: &[u32],
    group: &mut Group<'_, P>,
    width: usize,
    control: &Control,
) -> Result<Option<Vec<bool>>> {
    let mut scratch = Scratch::new(group, offsets)?;
    let mut keep = (repeats != Repeats::Keep).then(|| filled(true, group.ids.len())).transpose()?;
    for task in group.codes.clone() {
        if task.is_multiple_of(ROWS_PER_CHECK) {
            control.check()?;
        }
        let range = offsets[task] as usize - group.base..offsets[task + 1] as usize - group.base;
        if group.ids[range.clone()].windows(2).all(|w| w[0] < w[1]) {
            continue;
        }
        scratch.take(group, range.clone(), width);
        if let Some(kept) = keep.as_mut() {
            mark_repeats(repeats, &scratch.order, &mut kept[range.clone()]);
        } else {
            scratch.sort_repeats(width);
        }
        for (to, &row) in range.zip(&scratch.order) {
            group.put(to, worker_of(row), Some(&scratch.weights), place_of(row));
            group.carry(to, &scratch.payload, place_of(row), width, |item| item);
        }
    }
    Ok(keep)
}

/// Of each run of equal workers keeps the first or the last.
fn mark_repeats(repeats: Repeats, sorted: &[u64], kept: &mut [bool]) {
    for i in 1..sorted.len() {
        if worker_of(sorted[i]) == worker_of(sorted[i - 1]) {
            kept[if repeats == Repeats::First { i } else { i - 1 }] = false;
        }
    }
}
