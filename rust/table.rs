//! The annotation table: (task, worker, label) triples in compressed task order, immutable once built.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rayon::prelude::*;

use crate::components::Components;
use crate::control::Control;
use crate::memory::{collected, copied, filled, joined, reserve, with_room, zeros};
use crate::{Error, Result};

/// The largest number of labels, classes and abstentions: they are stored in at most sixteen bits.
pub const MAX_LABELS: usize = u16::MAX as usize;

/// The least and the greatest weight of an annotation that counts at all.
///
/// A weight counts a label so many times. From 2⁵³ on a double cannot count by ones; far below one label, products of a
/// few weights would vanish. Between the two, all that kernels make of weights (squares, products, sums over 2³² rows)
/// stays within the range of a double.
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

/// Labels, one byte each where they allow it.
#[derive(Debug, Clone)]
pub enum Labels {
    /// At most 256 labels.
    Narrow(Vec<u8>),
    /// More than 256 labels.
    Wide(Vec<u16>),
}

/// A label type: lets kernels be compiled for both widths.
pub trait Label: Copy + Send + Sync + 'static {
    /// The code.
    fn code(self) -> usize;
    /// From a code known to fit.
    fn from_code(code: u16) -> Self;
}

impl Label for u8 {
    #[inline(always)]
    fn code(self) -> usize {
        usize::from(self)
    }
    fn from_code(code: u16) -> Self {
        code as Self
    }
}

impl Label for u16 {
    #[inline(always)]
    fn code(self) -> usize {
        usize::from(self)
    }
    fn from_code(code: u16) -> Self {
        code
    }
}

/// Runs `$body` with `$labels` bound to the label slice, compiled once per width.
macro_rules! with_labels {
    ($all:expr, |$labels:ident| $body:expr) => {
        match $all {
            $crate::table::Labels::Narrow($labels) => $body,
            $crate::table::Labels::Wide($labels) => $body,
        }
    };
}
pub(crate) use with_labels;

impl Labels {
    fn zeroed(len: usize, n_labels: usize) -> Result<Self> {
        Ok(if n_labels <= 256 { Self::Narrow(zeros(len)?) } else { Self::Wide(zeros(len)?) })
    }

    /// The code at `i`.
    #[inline(always)]
    pub fn get(&self, i: usize) -> usize {
        with_labels!(self, |labels| labels[i].code())
    }
}

/// Annotations in worker order: what a pass that visits one worker at a time needs.
#[derive(Debug)]
pub struct WorkerOrder {
    /// Worker `m` owns rows `offsets[m]..offsets[m + 1]`.
    pub offsets: Vec<u32>,
    /// Task of each row, ascending within a worker.
    pub tasks: Vec<u32>,
    /// Label of each row.
    pub labels: Labels,
    /// Weight of each row, where there are weights.
    pub weights: Option<Vec<f64>>,
}

/// The table. Rows of a task are sorted by worker, then label, so the same annotations in any order give the same table.
///
/// Memory: 5 bytes an annotation (6 above 256 labels, 8 more with weights) and 4 bytes a task.
#[derive(Debug)]
pub struct Table {
    n_workers: usize,
    n_labels: usize,
    n_classes: usize,
    offsets: Vec<u32>,
    workers: Vec<u32>,
    labels: Labels,
    weights: Option<Vec<f64>>,
    by_worker: OnceLock<WorkerOrder>,
}

/// The columns of a log, as codes, and the number of distinct codes in each.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Task codes, below `n_tasks`.
    pub tasks: &'a [u32],
    /// Worker codes, below `n_workers`.
    pub workers: &'a [u32],
    /// Label codes, below `n_labels`.
    pub labels: &'a [u16],
    /// Weights: 0, or within [`WEIGHTS`].
    pub weights: Option<&'a [f64]>,
    /// Number of tasks.
    pub n_tasks: usize,
    /// Number of workers.
    pub n_workers: usize,
    /// Number of labels: classes first, then abstentions.
    pub n_labels: usize,
}

impl Rows<'_> {
    fn validate(&self, control: &Control) -> Result<()> {
        let n = self.tasks.len();
        if self.workers.len() != n || self.labels.len() != n || self.weights.is_some_and(|w| w.len() != n) {
            return Err(Error::invalid(format!(
                "columns differ in length: {n} tasks, {} workers, {} labels{}",
                self.workers.len(),
                self.labels.len(),
                self.weights.map_or_else(String::new, |w| format!(", {} weights", w.len())),
            )));
        }
        if n == 0 {
            return Err(Error::invalid(
                "there are no annotations: the table needs at least one (task, worker, label) row",
            ));
        }
        if n > u32::MAX as usize {
            return Err(Error::invalid(format!("{n} annotations exceed the {} that one table holds", u32::MAX)));
        }
        if self.n_labels > MAX_LABELS {
            return Err(Error::invalid(format!(
                "{} classes exceed the limit of {MAX_LABELS}; is the label column really an id or a number?",
                self.n_labels
            )));
        }
        if self.n_workers > u32::MAX as usize || self.n_tasks > u32::MAX as usize {
            return Err(Error::invalid(format!("more than {} tasks or workers", u32::MAX)));
        }
        check_codes("task", self.tasks, self.n_tasks, control)?;
        check_codes("worker", self.workers, self.n_workers, control)?;
        check_codes("label", self.labels, self.n_labels, control)?;
        let (least, most) = WEIGHTS;
        let counts = |weight: &f64| *weight == 0.0 || (least..=most).contains(weight);
        if let Some((row, bad)) = self.weights.and_then(|w| w.iter().enumerate().find(|(_, weight)| !counts(weight))) {
            return Err(Error::invalid(format!(
                "weight {bad:e} at row {row} counts its label neither 0 times nor between {least:e} and {most:e} times; \
                 mend or drop that row"
            )));
        }
        Ok(())
    }
}

fn check_codes<T: Copy + Sync + Into<u32>>(what: &str, codes: &[T], n: usize, control: &Control) -> Result<()> {
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

impl Table {
    /// Builds a table by a parallel counting sort: O(rows) time, no memory beyond the table and 4 bytes a task.
    pub fn new(rows: &Rows<'_>, repeats: Repeats, control: &Control) -> Result<Self> {
        rows.validate(control)?;
        let offsets = offsets_of(rows.tasks, rows.n_tasks, control)?;
        let mut table = Self {
            n_workers: rows.n_workers,
            n_labels: rows.n_labels,
            n_classes: rows.n_labels,
            workers: zeros(rows.tasks.len())?,
            labels: Labels::zeroed(rows.tasks.len(), rows.n_labels)?,
            weights: rows.weights.map(|w| zeros(w.len())).transpose()?,
            offsets,
            by_worker: OnceLock::new(),
        };
        let kept = with_labels!(&mut table.labels, |labels| {
            fill(rows, repeats, &table.offsets, &mut table.workers, labels, table.weights.as_deref_mut(), control)
        })?;
        if let Some(kept) = kept {
            table.compact(&kept)?;
        }
        Ok(table)
    }

    /// The same table, of whose labels only the first `n_classes` are classes, which can be true: the others are only ever said.
    pub fn with_classes(mut self, n_classes: usize) -> Result<Self> {
        if n_classes == 0 || n_classes > self.n_labels {
            return Err(Error::invalid(format!(
                "of {} labels {n_classes} cannot be classes; at least one must be",
                self.n_labels
            )));
        }
        self.n_classes = n_classes;
        Ok(self)
    }

    /// Number of tasks.
    pub fn n_tasks(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Number of workers.
    pub fn n_workers(&self) -> usize {
        self.n_workers
    }
    /// Number of labels: classes first, then abstentions.
    pub fn n_labels(&self) -> usize {
        self.n_labels
    }
    /// Number of classes: labels that can be true.
    pub fn n_classes(&self) -> usize {
        self.n_classes
    }
    /// Number of annotations.
    pub fn len(&self) -> usize {
        self.workers.len()
    }
    /// Never true: an empty table cannot be built.
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
    /// Label of each annotation.
    pub fn labels(&self) -> &Labels {
        &self.labels
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

    /// Cuts the tasks into at most `n_chunks` runs of about equally many annotations: a function of the data alone.
    pub fn chunks(&self, n_chunks: usize) -> Vec<Range<usize>> {
        let (n, total) = (self.n_tasks(), self.len());
        let mut bounds = vec![0];
        for c in 1..n_chunks {
            let goal = (total as u128 * c as u128 / n_chunks as u128) as u32;
            let cut = self.offsets.partition_point(|&o| o < goal).min(n);
            if cut > bounds[bounds.len() - 1] && cut < n {
                bounds.push(cut);
            }
        }
        bounds.push(n);
        bounds.windows(2).map(|w| w[0]..w[1]).collect()
    }

    /// The table in worker order, made on first use: 5 to 6 bytes an annotation and 4 bytes a worker, kept with the table.
    pub fn by_worker(&self, control: &Control) -> Result<&WorkerOrder> {
        if let Some(order) = self.by_worker.get() {
            return Ok(order);
        }
        let order = self.order_by_worker(control)?;
        Ok(self.by_worker.get_or_init(|| order))
    }

    fn order_by_worker(&self, control: &Control) -> Result<WorkerOrder> {
        let offsets = offsets_of(&self.workers, self.n_workers, control)?;
        let mut order = WorkerOrder {
            tasks: zeros(self.len())?,
            labels: Labels::zeroed(self.len(), self.n_labels)?,
            weights: self.weights.as_ref().map(|w| zeros(w.len())).transpose()?,
            offsets,
        };
        let (offsets, tasks, weights) = (&order.offsets, &mut order.tasks, order.weights.as_deref_mut());
        with_labels!(&mut order.labels, |labels| self.scatter_by_worker(offsets, tasks, labels, weights, control))?;
        Ok(order)
    }

    fn scatter_by_worker<L: Label>(
        &self,
        offsets: &[u32],
        tasks: &mut [u32],
        labels: &mut [L],
        weights: Option<&mut [f64]>,
        control: &Control,
    ) -> Result<()> {
        groups(offsets, tasks, labels, weights).into_par_iter().try_for_each(|mut group| {
            let mut cursor = group.cursors(offsets)?;
            for task in 0..self.n_tasks() {
                if task.is_multiple_of(ROWS_PER_CHECK) {
                    control.check()?;
                }
                for row in self.rows_of(task) {
                    if let Some(to) = group.claim(&mut cursor, self.workers[row]) {
                        group.ids[to] = task as u32;
                        group.labels[to] = L::from_code(self.labels.get(row) as u16);
                        if let (Some(to_w), Some(from_w)) = (group.weights.as_deref_mut(), &self.weights) {
                            to_w[to] = from_w[row];
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Drops the rows that `kept` marks false, after repeats were resolved.
    fn compact(&mut self, kept: &[bool]) -> Result<()> {
        let mut row = 0;
        let mut ends = zeros::<u32>(self.offsets.len())?;
        for task in 0..self.n_tasks() {
            row += self.rows_of(task).filter(|&r| kept[r]).count();
            ends[task + 1] = row as u32;
        }
        self.offsets = ends;
        retain(&mut self.workers, kept);
        with_labels!(&mut self.labels, |labels| retain(labels, kept));
        if let Some(weights) = &mut self.weights {
            retain(weights, kept);
        }
        Ok(())
    }

    /// Calls `f(task, worker, row)` for every annotation that repeats the (task, worker) of the row before it.
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

    /// The rows as columns of codes again: tasks, workers, labels.
    pub fn columns(&self) -> Result<(Vec<u32>, Vec<u32>, Vec<u16>)> {
        let mut tasks = with_room(self.len())?;
        for task in 0..self.n_tasks() {
            tasks.resize(self.offsets[task + 1] as usize, task as u32);
        }
        let labels = with_labels!(&self.labels, |labels| collected(labels.iter().map(|l| l.code() as u16)))?;
        Ok((tasks, copied(&self.workers)?, labels))
    }

    /// How many annotations each worker gave.
    pub fn worker_counts(&self) -> Result<Vec<u64>> {
        let mut counts = zeros(self.n_workers)?;
        self.workers.iter().for_each(|&m| counts[m as usize] += 1);
        Ok(counts)
    }

    /// How often each label was given.
    pub fn label_counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.n_labels];
        with_labels!(&self.labels, |labels| labels.iter().for_each(|l| counts[l.code()] += 1));
        counts
    }

    /// Agreeing and all pairs of annotations on the same task.
    pub fn agreeing_pairs(&self) -> (u64, u64) {
        let mut seen = vec![0_u64; self.n_labels];
        let (mut agree, mut all) = (0, 0);
        for task in 0..self.n_tasks() {
            let rows = self.rows_of(task);
            all += (rows.len() as u64) * (rows.len() as u64 - u64::from(!rows.is_empty())) / 2;
            for row in rows.clone() {
                let count = &mut seen[self.labels.get(row)];
                agree += *count;
                *count += 1;
            }
            for row in rows {
                seen[self.labels.get(row)] = 0;
            }
        }
        (agree, all)
    }

    /// How many labels each group of workers gave that shares no task with the others, by their first workers.
    pub fn group_counts(&self) -> Result<Vec<u64>> {
        let counts = self.worker_counts()?;
        let mut found = Components::new(self.n_workers)?;
        let mut left = counts.iter().filter(|&&n| n > 0).count();
        for task in 0..self.n_tasks() {
            // Most logs are in one piece, and soon known to be.
            if left == 1 {
                break;
            }
            let pairs = self.workers[self.rows_of(task)].windows(2);
            left -= pairs.filter(|pair| found.join(pair[0], pair[1])).count();
        }
        let mut groups = zeros(self.n_workers)?;
        (0..self.n_workers).for_each(|m| groups[found.root(m as u32) as usize] += counts[m]);
        groups.retain(|&n| n > 0);
        Ok(groups)
    }

    /// Number of connected components of the graph that joins a worker to the tasks they labelled.
    pub fn n_components(&self) -> Result<usize> {
        Ok(self.group_counts()?.len())
    }
}

fn retain<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut keep = kept.iter();
    values.retain(|_| *keep.next().unwrap_or(&true));
    values.shrink_to_fit();
}

/// Start of each code's rows once the rows are sorted by code.
fn offsets_of(codes: &[u32], n: usize, control: &Control) -> Result<Vec<u32>> {
    let counts: Vec<AtomicU32> = collected((0..n).map(|_| AtomicU32::new(0)))?;
    codes.par_chunks(ROWS_PER_CHECK).try_for_each(|chunk| {
        control.check()?;
        chunk.iter().for_each(|&c| {
            counts[c as usize].fetch_add(1, Ordering::Relaxed);
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
struct Group<'a, L> {
    codes: Range<usize>,
    base: usize,
    ids: &'a mut [u32],
    labels: &'a mut [L],
    weights: Option<&'a mut [f64]>,
}

impl<L> Group<'_, L> {
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
}

fn groups<'a, L>(
    offsets: &[u32],
    mut ids: &'a mut [u32],
    mut labels: &'a mut [L],
    mut weights: Option<&'a mut [f64]>,
) -> Vec<Group<'a, L>> {
    const ROWS_PER_GROUP: usize = 1 << 19;
    const MOST_GROUPS: usize = 32;
    let (n_codes, total) = (offsets.len() - 1, ids.len());
    let n_groups = total.div_ceil(ROWS_PER_GROUP).clamp(1, MOST_GROUPS);
    let mut made = Vec::with_capacity(n_groups);
    let mut first = 0;
    for g in 1..=n_groups {
        let goal = (total as u128 * g as u128 / n_groups as u128) as u32;
        let last = if g == n_groups { n_codes } else { offsets.partition_point(|&o| o < goal).clamp(first, n_codes) };
        let (base, len) = (offsets[first] as usize, (offsets[last] - offsets[first]) as usize);
        let (these_ids, rest_ids) = ids.split_at_mut(len);
        let (these_labels, rest_labels) = labels.split_at_mut(len);
        let (these_weights, rest_weights) = weights.map(|w| w.split_at_mut(len)).unzip();
        (ids, labels, weights) = (rest_ids, rest_labels, rest_weights);
        made.push(Group { codes: first..last, base, ids: these_ids, labels: these_labels, weights: these_weights });
        first = last;
    }
    made
}

/// Scatters the rows into task order and sorts each task's rows; returns which rows to keep if repeats are dropped.
fn fill<L: Label>(
    rows: &Rows<'_>,
    repeats: Repeats,
    offsets: &[u32],
    workers: &mut [u32],
    labels: &mut [L],
    weights: Option<&mut [f64]>,
    control: &Control,
) -> Result<Option<Vec<bool>>> {
    let in_order = rows.tasks.is_sorted();
    let kept: Vec<Option<Vec<bool>>> = groups(offsets, workers, labels, weights)
        .into_par_iter()
        .map(|mut group| {
            if in_order {
                copy_group(rows, &mut group);
            } else {
                scatter_group(rows, offsets, &mut group, control)?;
            }
            sort_group(repeats, offsets, &mut group, control)
        })
        .collect::<Result<_>>()?;
    let Some(kept) = kept.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    joined(&kept).map(Some)
}

fn copy_group<L: Label>(rows: &Rows<'_>, group: &mut Group<'_, L>) {
    let range = group.base..group.base + group.ids.len();
    group.ids.copy_from_slice(&rows.workers[range.clone()]);
    for (to, from) in group.labels.iter_mut().zip(&rows.labels[range.clone()]) {
        *to = L::from_code(*from);
    }
    if let (Some(to), Some(from)) = (group.weights.as_deref_mut(), rows.weights) {
        to.copy_from_slice(&from[range]);
    }
}

fn scatter_group<L: Label>(
    rows: &Rows<'_>,
    offsets: &[u32],
    group: &mut Group<'_, L>,
    control: &Control,
) -> Result<()> {
    let mut cursor = group.cursors(offsets)?;
    for (block, tasks) in rows.tasks.chunks(ROWS_PER_CHECK).enumerate() {
        control.check()?;
        for (i, &task) in tasks.iter().enumerate() {
            if let Some(to) = group.claim(&mut cursor, task) {
                let row = block * ROWS_PER_CHECK + i;
                group.ids[to] = rows.workers[row];
                group.labels[to] = L::from_code(rows.labels[row]);
                if let (Some(to_w), Some(from)) = (group.weights.as_deref_mut(), rows.weights) {
                    to_w[to] = from[row];
                }
            }
        }
    }
    Ok(())
}

fn sort_group<L: Label>(
    repeats: Repeats,
    offsets: &[u32],
    group: &mut Group<'_, L>,
    control: &Control,
) -> Result<Option<Vec<bool>>> {
    let mut scratch: Vec<(u32, u16, u32, f64)> = Vec::new();
    let mut kept = (repeats != Repeats::Keep).then(|| filled(true, group.ids.len())).transpose()?;
    for task in group.codes.clone() {
        if task.is_multiple_of(ROWS_PER_CHECK) {
            control.check()?;
        }
        let range = offsets[task] as usize - group.base..offsets[task + 1] as usize - group.base;
        if kept.is_none() && group.ids[range.clone()].windows(2).all(|w| w[0] < w[1]) {
            continue;
        }
        scratch.clear();
        reserve(&mut scratch, range.len())?;
        scratch.extend(range.clone().enumerate().map(|(i, r)| {
            (group.ids[r], group.labels[r].code() as u16, i as u32, group.weights.as_ref().map_or(1.0, |w| w[r]))
        }));
        if let Some(kept) = kept.as_mut() {
            scratch.sort_unstable_by_key(|&(worker, _, row, _)| (worker, row));
            mark_repeats(repeats, &scratch, &mut kept[range.clone()]);
        } else {
            scratch.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.3.total_cmp(&b.3)));
        }
        for (r, &(worker, label, _, weight)) in range.zip(&scratch) {
            group.ids[r] = worker;
            group.labels[r] = L::from_code(label);
            if let Some(w) = group.weights.as_deref_mut() {
                w[r] = weight;
            }
        }
    }
    Ok(kept)
}

/// Of each run of equal workers keeps the first or the last.
fn mark_repeats(repeats: Repeats, sorted: &[(u32, u16, u32, f64)], kept: &mut [bool]) {
    for i in 1..sorted.len() {
        if sorted[i].0 == sorted[i - 1].0 {
            kept[if repeats == Repeats::First { i } else { i - 1 }] = false;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
