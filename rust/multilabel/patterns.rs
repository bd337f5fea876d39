//! Labels that go together: tasks are of a few patterns, and within a pattern labels are independent.
//!
//! A task is of pattern `g` with probability `π_g`, and label `l` is true of it with probability `ρ_gl`. A mixture
//! couples labels without a term for every two of them, and leaves the posterior exact: given the pattern, each
//! candidate has its own. One pattern is the model of independent labels.

use std::ops::Range;

use rayon::prelude::*;

use super::{Design, clipped, logistic};
use crate::base::control::Control;
use crate::base::memory::{collected, filled, par_tried, zeros};
use crate::base::parallel::chunks_with_tables;
use crate::{Error, Result};

/// Pseudo-tasks that have a label, and that have not.
const PRIOR_TASKS: f64 = 0.5;
/// Pseudo-tasks of each pattern, with labels as in all tasks: they keep a pattern of few tasks near the others.
const PATTERN_TASKS: f64 = 5.0;
/// Tasks between two looks at the control.
const TASKS: usize = 1 << 10;

/// Which labels go together.
#[derive(Debug, Clone)]
pub struct Patterns {
    /// Share of the tasks that are of each pattern.
    pub shares: Vec<f64>,
    /// Share of a pattern's tasks that each label is true of, (patterns × labels).
    pub rates: Vec<f64>,
}

impl Patterns {
    /// Those to begin with: as given, or a single one by the votes.
    pub(super) fn new(design: &Design<'_>, start: &[f64], votes: &[f64]) -> Result<Self> {
        let n_labels = design.sizes[2];
        if !start.len().is_multiple_of(n_labels) || start.iter().any(|p| !(0.0..=1.0).contains(p)) {
            return Err(Error::invalid("patterns begin with a probability for each label"));
        }
        if start.is_empty() {
            let mut single = Self { shares: filled(1.0, 1)?, rates: zeros(n_labels)? };
            let mut sums = zeros(n_labels + 1)?;
            design.labels.iter().zip(votes).for_each(|(label, q)| sums[1 + *label as usize] += q);
            single.learn(design, &sums)?;
            return Ok(single);
        }
        let n = start.len() / n_labels;
        Ok(Self { shares: filled(1.0 / n as f64, n)?, rates: collected(start.iter().copied())? })
    }

    /// Share of all tasks that each label is true of.
    pub(super) fn overall(&self) -> Result<Vec<f64>> {
        let n_labels = self.rates.len() / self.shares.len();
        let mut all = zeros(n_labels)?;
        for (share, rates) in self.shares.iter().zip(self.rates.chunks_exact(n_labels)) {
            all.iter_mut().zip(rates).for_each(|(p, rate)| *p += share * rate);
        }
        all.iter_mut().for_each(|p| *p = f64::min(*p, 1.0));
        Ok(all)
    }

    /// Shares from what tasks were expected to be: of each pattern how many tasks, and in how many each label is true.
    pub(super) fn learn(&mut self, design: &Design<'_>, sums: &[f64]) -> Result<()> {
        let (n, n_labels, n_tasks) = (self.shares.len(), design.sizes[2], design.sizes[0] as f64);
        let (tasks, labels) = sums.split_at(n);
        let mut all = zeros::<f64>(n_labels)?;
        for own in labels.chunks_exact(n_labels) {
            all.iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
        }
        all.iter_mut().for_each(|p| *p = (*p + PRIOR_TASKS) / (n_tasks + 2.0 * PRIOR_TASKS));
        if n == 1 {
            self.rates.copy_from_slice(&all);
            return Ok(());
        }
        for (pattern, (rates, own)) in
            self.rates.chunks_exact_mut(n_labels).zip(labels.chunks_exact(n_labels)).enumerate()
        {
            self.shares[pattern] = (tasks[pattern] + 1.0) / (n_tasks + n as f64);
            for ((rate, sum), p) in rates.iter_mut().zip(own).zip(&all) {
                *rate = (sum + PATTERN_TASKS * p) / (tasks[pattern] + PATTERN_TASKS);
            }
        }
        Ok(())
    }

    /// Posteriors of all candidates; `expected` becomes their sums over the rows of each pair, by what was answered.
    ///
    /// Sums are taken by chunks of tasks that are a function of the data, so that they do not depend on the threads.
    pub(super) fn expect(
        &self,
        design: &Design<'_>,
        evidence: &[f64],
        posterior: &mut [f64],
        expected: Option<&mut Vec<f64>>,
        control: &Control,
    ) -> Result<Expected> {
        let logits = collected(self.rates.iter().map(|p| clipped(*p).ln() - (-clipped(*p)).ln_1p()))?;
        let n_labels = design.sizes[2];
        // Evidence of a task without candidates for each pattern.
        let none: Vec<f64> = (self.shares.iter().zip(self.rates.chunks_exact(n_labels)))
            .map(|(share, rates)| {
                share.max(f64::MIN_POSITIVE).ln() + rates.iter().map(|p| (-clipped(*p)).ln_1p()).sum::<f64>()
            })
            .collect();
        let own = self.shares.len() * (n_labels + 1);
        let size = own + if expected.is_some() { evidence.len() } else { 0 };
        let mut rest = posterior;
        let mut chunks = vec![];
        for tasks in crate::base::links::runs(design.task_starts, chunks_with_tables(design.rows.len(), size)) {
            let n = (design.task_starts[tasks.end] - design.task_starts[tasks.start]) as usize;
            let (own, tail) = std::mem::take(&mut rest).split_at_mut(n);
            rest = tail;
            chunks.push((tasks, own));
        }
        let chunk = Given { design, evidence, logits: &logits, none: &none, own };
        let results = par_tried(chunks.into_par_iter().map(|(tasks, own)| chunk.run(tasks, own, size, control)))?;
        let mut change = 0.0;
        let mut parts = results.into_iter().map(|(most, part)| {
            change = f64::max(change, most);
            part
        });
        let mut sums = parts.next().unwrap_or_default();
        parts.for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x));
        if let Some(expected) = expected {
            expected.copy_from_slice(&sums[own..]);
        }
        sums.truncate(own);
        Ok(Expected { change, sums })
    }
}

/// What [`Patterns::expect`] found.
pub(super) struct Expected {
    /// The largest change of a posterior.
    pub change: f64,
    /// What [`Patterns::learn`] takes.
    pub sums: Vec<f64>,
}

/// Inputs of a chunk of tasks.
struct Given<'a> {
    design: &'a Design<'a>,
    evidence: &'a [f64],
    logits: &'a [f64],
    none: &'a [f64],
    /// How many sums there are before those of pairs, which need not be there.
    own: usize,
}

impl Given<'_> {
    fn run(
        &self,
        tasks: Range<usize>,
        posterior: &mut [f64],
        size: usize,
        control: &Control,
    ) -> Result<(f64, Vec<f64>)> {
        let (design, n_labels) = (self.design, self.design.sizes[2]);
        let mut all = zeros(size)?;
        let (sums, pairs) = all.split_at_mut(self.own);
        let first = design.task_starts[tasks.start] as usize;
        let mut most = 0.0;
        let mut likelihoods = vec![];
        let mut odds = vec![0.0; self.none.len()];
        for task in tasks {
            if task.is_multiple_of(TASKS) {
                control.check()?;
            }
            let candidates = Design::span(design.task_starts, task);
            likelihoods.clear();
            likelihoods.extend(candidates.clone().map(|c| (design.labels[c] as usize, design.told(c, self.evidence))));
            self.weigh(&likelihoods, &mut odds);
            let own = &mut posterior[candidates.start - first..candidates.end - first];
            for (q, (label, log_odds)) in own.iter_mut().zip(&likelihoods) {
                let mut now = 0.0;
                for (pattern, share) in odds.iter().enumerate() {
                    let true_here = share * logistic(self.logits[pattern * n_labels + label] + log_odds);
                    sums[odds.len() + pattern * n_labels + label] += true_here;
                    now += true_here;
                }
                most = f64::max(most, (now - *q).abs());
                *q = now.min(1.0);
            }
            if !pairs.is_empty() {
                for (candidate, q) in candidates.zip(&*own) {
                    let rows = &design.rows[Design::span(design.starts, candidate)];
                    rows.iter().for_each(|row| pairs[*row as usize] += q);
                }
            }
            sums.iter_mut().zip(&odds).for_each(|(sum, share)| *sum += share);
        }
        Ok((most, all))
    }

    /// The probability that a task is of each pattern, given the answers on its candidates.
    fn weigh(&self, told: &[(usize, f64)], odds: &mut [f64]) {
        let n_labels = self.design.sizes[2];
        if let [only] = odds {
            *only = 1.0;
            return;
        }
        for (pattern, odds) in odds.iter_mut().enumerate() {
            let of = |(label, told): &(usize, f64)| softplus(self.logits[pattern * n_labels + label] + told);
            *odds = self.none[pattern] + told.iter().map(of).sum::<f64>();
        }
        crate::base::num::softmax(odds);
    }
}

/// ln(1 + exp(x)).
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
