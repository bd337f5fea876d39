//! One streaming pass: for each task, a *source* gives its class posterior and a *sink* takes it.
//!
//! Sources: the likelihood under the current parameters (the E-step), or the votes or given posteriors that an
//! iteration starts from. Sinks: expected counts (the M-step's input), or an array of posteriors. Fusing both means
//! that the table is read once and no posterior is stored unless it is asked for.

use std::ops::Range;

use super::cells::{Cell, Columns};
use super::model::WorkerModel;
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{prefetch, worthwhile};
use crate::base::num::{BLOCK, GOLDEN, LogProduct, normalise, pick, rescale, scramble, to_unit};

/// How many annotations ahead the worker tables are asked for: far enough to cover a trip to memory, near enough for
/// the lines still to be there when they are used.
const AHEAD: usize = 24;

/// Tasks between two looks at the control, and per switch into code for wider registers.
const TASKS_PER_BLOCK: usize = 1 << 12;

/// Gives the posterior of a task.
pub(super) trait Source: Sync {
    /// Whether rows should be asked for ahead of time.
    fn far(&self) -> bool;
    fn prefetch(&self, row: usize, k: usize);
    /// Writes unnormalized class weights; adds the logarithm of any factor taken out of them to `log`.
    fn evidence(&self, task: usize, rows: Range<usize>, evidence: &mut [f64], log: &mut LogProduct);
}

/// Takes the posterior of a task.
pub(super) trait Sink {
    fn far(&self) -> bool;
    fn prefetch(&self, row: usize, k: usize);
    fn put(&mut self, rows: Range<usize>, posterior: &[f64]);
}

/// The number of classes: known to the compiler, or not.
pub(super) trait Width: Copy + Sync {
    /// Room for one number per class.
    type Row: AsMut<[f64]>;
    fn row(self) -> Self::Row;
}

/// A number of classes that kernels are compiled for.
#[derive(Clone, Copy)]
pub(super) struct Fixed<const K: usize>;

/// Any number of classes.
#[derive(Clone, Copy)]
pub(super) struct Free(pub usize);

impl<const K: usize> Width for Fixed<K> {
    type Row = [f64; K];
    #[inline(always)]
    fn row(self) -> [f64; K] {
        [0.0; K]
    }
}

impl Width for Free {
    type Row = Vec<f64>;
    #[inline(always)]
    fn row(self) -> Vec<f64> {
        vec![0.0; self.0]
    }
}

/// Runs `$body` with `$width` bound to a [`Width`] of `$k` classes.
macro_rules! with_width {
    ($k:expr, |$width:ident| $body:expr) => {
        $crate::categorical::em::pass::with_width!(@each $k, $width, $body, 2 3 4 5 8 10 16 20)
    };
    (@each $k:expr, $width:ident, $body:expr, $($fixed:literal)*) => {
        match $k {
            $($fixed => {
                let $width = $crate::categorical::em::pass::Fixed::<$fixed>;
                $body
            })*
            k => {
                let $width = $crate::categorical::em::pass::Free(k);
                $body
            }
        }
    };
}
pub(super) use with_width;

/// How evidence becomes a posterior.
#[derive(Clone, Copy)]
pub(super) struct Settle<'a> {
    pub gold: Option<&'a [i32]>,
    pub hard: bool,
}

/// Neither gold nor hard assignments. The common case has code of its own: looking a class up by number would keep the
/// evidence out of registers.
pub(super) const PLAIN: bool = true;

impl Settle<'_> {
    /// Turns class weights into a posterior and multiplies the task's evidence into `log`.
    #[inline(always)]
    fn settle<const PLAIN: bool>(&self, task: usize, weights: &mut [f64], log: &mut LogProduct) {
        if PLAIN {
            return share_out(weights, log);
        }
        let gold_class = self.gold.map_or(-1, |gold| gold[task]);
        if gold_class >= 0 {
            log.multiply(weights[gold_class as usize]);
            weights.fill(0.0);
            weights[gold_class as usize] = 1.0;
        } else if self.hard {
            let largest = weights.iter().copied().fold(0.0, f64::max);
            log.multiply(largest);
            harden(weights, largest);
        } else {
            share_out(weights, log);
        }
    }
}

/// Divides class weights by their sum.
#[inline(always)]
fn share_out(weights: &mut [f64], log: &mut LogProduct) {
    let total = sum(weights);
    log.multiply(total);
    let scale = 1.0 / total;
    weights.iter_mut().for_each(|w| *w *= scale);
}

/// A sum of four strands: four times less waiting than one strand, and always the same order.
#[inline(always)]
fn sum(values: &[f64]) -> f64 {
    let mut strands = [0.0; 4];
    for (i, v) in values.iter().enumerate() {
        strands[i % 4] += v;
    }
    (strands[0] + strands[1]) + (strands[2] + strands[3])
}

/// Divides everything evenly among the entries that tie for the largest.
///
/// Equal evidence reaches its entries by different roundings, so a tie is what lies within a relative 1e-12.
#[inline(always)]
fn harden(weights: &mut [f64], largest: f64) {
    let limit = largest * (1.0 - 1e-12);
    let n = weights.iter().filter(|w| **w >= limit).count();
    let share = 1.0 / n as f64;
    weights.iter_mut().for_each(|w| *w = if *w >= limit { share } else { 0.0 });
}

/// The E-step. `factors` and `prior` hold logarithms where `LOG` is set, which weighted annotations need.
pub(super) struct Likelihood<'a, W, C, const LOG: bool> {
    pub columns: Columns<'a, C>,
    pub factors: &'a [f64],
    /// Of the classes, for all tasks alike; or one row after the other, for each task.
    pub prior: &'a [f64],
    /// Whether a task may only have a class that a worker voted for, or its known one.
    pub voted_only: bool,
    pub gold: Option<&'a [i32]>,
    pub model: std::marker::PhantomData<W>,
}

impl<W: WorkerModel, C: Cell, const LOG: bool> Source for Likelihood<'_, W, C, LOG> {
    #[inline(always)]
    fn far(&self) -> bool {
        worthwhile(self.factors)
    }

    #[inline(always)]
    fn prefetch(&self, row: usize, k: usize) {
        if let Some(cell) = self.columns.cells.get(row) {
            prefetch(self.factors, W::locate(cell.index(), k).0);
        }
    }

    #[inline(always)]
    fn evidence(&self, task: usize, rows: Range<usize>, evidence: &mut [f64], log: &mut LogProduct) {
        let k = evidence.len();
        // One row serves all tasks where there is only one.
        let at = if self.prior.len() == k { 0 } else { task * k };
        evidence.copy_from_slice(&self.prior[at..at + k]);
        if LOG {
            self.summed(rows.clone(), evidence, log);
        } else {
            self.multiplied(rows.clone(), evidence, log);
        }
        if self.voted_only && self.gold.is_none_or(|gold| gold[task] < 0) {
            self.keep_voted(rows, evidence);
        }
    }
}

impl<W: WorkerModel, C: Cell, const LOG: bool> Likelihood<'_, W, C, LOG> {
    /// Products, rescaled often enough never to leave the range of a double.
    #[inline(always)]
    fn multiplied(&self, rows: Range<usize>, evidence: &mut [f64], log: &mut LogProduct) {
        let k = evidence.len();
        let mut start = rows.start;
        loop {
            let end = rows.end.min(start + BLOCK);
            let mut common = 1.0;
            for cell in &self.columns.cells[start..end] {
                let (at, label) = W::locate(cell.index(), k);
                common *= W::multiply(&self.factors[at], label, evidence);
            }
            if W::HAS_COMMON_FACTOR {
                log.multiply(common);
            }
            if end == rows.end {
                return;
            }
            log.shift(rescale(evidence));
            start = end;
        }
    }

    /// Sums of logarithms, for powers that are not whole.
    #[inline(always)]
    fn summed(&self, rows: Range<usize>, evidence: &mut [f64], log: &mut LogProduct) {
        let k = evidence.len();
        for (cell, weight) in self.columns.cells[rows.clone()].iter().zip(&self.columns.weights[rows]) {
            let (at, label) = W::locate(cell.index(), k);
            log.add_log(W::multiply_log(&self.factors[at], label, *weight, evidence));
        }
        let largest = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        log.add_log(largest);
        evidence.iter_mut().for_each(|e| *e = (*e - largest).exp());
    }

    /// Leaves only classes that a worker voted for; all of them where no vote is for a possible one.
    #[inline(always)]
    fn keep_voted(&self, rows: Range<usize>, evidence: &mut [f64]) {
        let k = evidence.len();
        let labels = rows.filter_map(|row| {
            let counts = !LOG || self.columns.weights[row] > 0.0;
            Some(self.columns.label(row)).filter(|label| counts && *label < k)
        });
        if k <= u64::BITS as usize {
            // Bits, since looking classes up by number would keep the evidence out of registers.
            let voted = labels.fold(0_u64, |bits, label| bits | 1 << label);
            let among = |class: usize| voted >> class & 1 == 1;
            if evidence.iter().enumerate().any(|(class, e)| among(class) && *e > 0.0) {
                evidence.iter_mut().enumerate().for_each(|(class, e)| *e = if among(class) { *e } else { 0.0 });
            }
        } else {
            // A sign marks what was voted for: no room of its own is needed.
            labels.for_each(|label| evidence[label] = -evidence[label].abs());
            if evidence.iter().any(|e| *e < 0.0) {
                evidence.iter_mut().for_each(|e| *e = (-*e).max(0.0));
            }
        }
    }
}

/// What an iteration that has no parameters yet begins with.
#[derive(Debug, Clone, Copy)]
pub enum Opening<'a> {
    /// Shares of the votes.
    Shares,
    /// The class with most votes, divided evenly among classes that tie.
    Majority,
    /// One of the task's labels, drawn at random.
    RandomVote {
        /// Seed of the draws.
        seed: u64,
        /// The number of the first task here among all tasks there are.
        first: usize,
    },
    /// Given posteriors, (tasks × classes).
    Given(&'a [f64]),
    /// Shares of the votes for a class, divided at random among this many kinds of it.
    RandomKinds(usize, u64),
}

pub(super) struct Open<'a, C> {
    pub columns: Columns<'a, C>,
    pub opening: Opening<'a>,
}

impl<C: Cell> Source for Open<'_, C> {
    fn far(&self) -> bool {
        false
    }
    fn prefetch(&self, _: usize, _: usize) {}

    fn evidence(&self, task: usize, rows: Range<usize>, evidence: &mut [f64], _: &mut LogProduct) {
        let k = evidence.len();
        evidence.fill(0.0);
        match self.opening {
            Opening::Given(posterior) => evidence.copy_from_slice(&posterior[task * k..(task + 1) * k]),
            Opening::RandomVote { seed, first } if !rows.is_empty() => {
                let label = self.columns.label(rows.start + pick(seed, first + task, rows.len()));
                evidence.iter_mut().skip(label).take(1).for_each(|e| *e = 1.0);
            }
            Opening::RandomKinds(n_kinds, seed) => self.divide(task, rows, evidence, n_kinds, seed),
            _ => {
                self.count(rows, evidence);
                if matches!(self.opening, Opening::Majority) {
                    let largest = evidence.iter().copied().fold(0.0, f64::max);
                    harden(evidence, largest);
                }
            }
        }
        // A task without votes of positive weight could be anything.
        if evidence.iter().all(|e| *e == 0.0) {
            evidence.fill(1.0);
        }
    }
}

impl<C: Cell> Open<'_, C> {
    /// Adds up the votes for each class; abstentions are for none.
    fn count(&self, rows: Range<usize>, votes: &mut [f64]) {
        for row in rows {
            if let Some(sum) = votes.get_mut(self.columns.label(row)) {
                *sum += self.columns.weights.get(row).unwrap_or(&1.0);
            }
        }
    }

    /// Shares of the votes; each class's is divided among its kinds as evenly distributed numbers happen to.
    fn divide(&self, task: usize, rows: Range<usize>, evidence: &mut [f64], n_kinds: usize, seed: u64) {
        let k = evidence.len() / n_kinds;
        let mut votes = vec![0.0; k];
        self.count(rows, &mut votes);
        normalise(&mut votes);
        for (class, (kinds, share)) in evidence.chunks_exact_mut(n_kinds).zip(votes).enumerate() {
            for (kind, e) in kinds.iter_mut().enumerate() {
                let i = ((task * k + class) * n_kinds + kind) as u64;
                // Exponential variables, divided by their sum, are uniformly distributed on the simplex.
                *e = -(1.0 - to_unit(scramble(seed.wrapping_add((i + 1).wrapping_mul(GOLDEN))))).ln();
            }
            normalise(kinds);
            kinds.iter_mut().for_each(|e| *e *= share);
        }
    }
}

/// Adds posteriors to the expected counts of workers and classes.
pub(super) struct Counts<'a, W, C, const WEIGHTED: bool> {
    pub columns: Columns<'a, C>,
    pub workers: &'a mut [f64],
    pub classes: &'a mut [f64],
    pub model: std::marker::PhantomData<W>,
}

impl<W: WorkerModel, C: Cell, const WEIGHTED: bool> Sink for Counts<'_, W, C, WEIGHTED> {
    #[inline(always)]
    fn far(&self) -> bool {
        worthwhile(self.workers)
    }

    #[inline(always)]
    fn prefetch(&self, row: usize, k: usize) {
        if let Some(cell) = self.columns.cells.get(row) {
            prefetch(self.workers, W::locate(cell.index(), k).0);
        }
    }

    #[inline(always)]
    fn put(&mut self, rows: Range<usize>, posterior: &[f64]) {
        let k = posterior.len();
        for (c, q) in self.classes[..posterior.len()].iter_mut().zip(posterior) {
            *c += q;
        }
        for (i, cell) in self.columns.cells[rows.clone()].iter().enumerate() {
            let (at, label) = W::locate(cell.index(), k);
            let weight = if WEIGHTED { self.columns.weights[rows.start + i] } else { 1.0 };
            W::add(&mut self.workers[at], label, weight, posterior);
        }
    }
}

/// Writes posteriors one after the other; those of the kinds of a class are added up.
pub(super) struct Rows<'a> {
    pub out: std::slice::ChunksExactMut<'a, f64>,
    pub classes: &'a mut [f64],
    /// Kinds of each class.
    pub n_kinds: usize,
}

impl Sink for Rows<'_> {
    #[inline(always)]
    fn far(&self) -> bool {
        false
    }
    #[inline(always)]
    fn prefetch(&self, _: usize, _: usize) {}

    #[inline(always)]
    fn put(&mut self, _: Range<usize>, posterior: &[f64]) {
        for (c, q) in self.classes[..posterior.len()].iter_mut().zip(posterior) {
            *c += q;
        }
        match self.out.next() {
            Some(row) if self.n_kinds == 1 => row.copy_from_slice(posterior),
            Some(row) => {
                row.iter_mut().zip(posterior.chunks_exact(self.n_kinds)).for_each(|(q, kinds)| *q = kinds.iter().sum());
            }
            None => {}
        }
    }
}

/// Runs a source into a sink over a range of tasks; returns the log-evidence of those tasks.
pub(super) fn run<const PLAIN: bool>(
    offsets: &[u32],
    tasks: Range<usize>,
    width: impl Width,
    source: &impl Source,
    sink: &mut impl Sink,
    settle: Settle<'_>,
    control: &Control,
) -> Result<f64> {
    let mut log = LogProduct::ONE;
    let arch = pulp::Arch::new();
    let mut at = tasks.start;
    while at < tasks.end {
        control.check()?;
        let end = tasks.end.min(at + TASKS_PER_BLOCK);
        log = arch.dispatch(Block::<_, _, _, PLAIN> { offsets, tasks: at..end, width, source, sink, settle, log });
        at = end;
    }
    Ok(log.ln())
}

/// A few thousand tasks: the unit that is compiled for the widest registers the processor has.
///
/// The arithmetic is the same to the bit on all of them: nothing is reordered and no product is fused with a sum.
struct Block<'a, N, S, T, const PLAIN: bool> {
    offsets: &'a [u32],
    tasks: Range<usize>,
    width: N,
    source: &'a S,
    sink: &'a mut T,
    settle: Settle<'a>,
    log: LogProduct,
}

impl<N: Width, S: Source, T: Sink, const PLAIN: bool> pulp::NullaryFnOnce for Block<'_, N, S, T, PLAIN> {
    type Output = LogProduct;

    #[inline(always)]
    fn call(self) -> LogProduct {
        let Self { offsets, tasks, width, source, sink, settle, mut log } = self;
        let offsets = &offsets[tasks.start..=tasks.end];
        let (source_is_far, sink_is_far) = (source.far(), sink.far());
        let mut scratch = width.row();
        let weights = scratch.as_mut();
        // Known to the compiler where the width is fixed.
        let k = weights.len();
        for (task, bounds) in tasks.zip(offsets.windows(2)) {
            let rows = bounds[0] as usize..bounds[1] as usize;
            if source_is_far || sink_is_far {
                for row in rows.clone() {
                    source.prefetch(row + AHEAD, k);
                    sink.prefetch(row + AHEAD, k);
                }
            }
            source.evidence(task, rows.clone(), weights, &mut log);
            settle.settle::<PLAIN>(task, weights, &mut log);
            sink.put(rows, weights);
        }
        log
    }
}
