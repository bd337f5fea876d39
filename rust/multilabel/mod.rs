//! Sets of labels: a binary question for each label and task, with skills of workers that are pooled over labels.
//!
//! A label may be true of a task only if a worker gave it there, which makes the task and the label a *candidate*; a
//! worker who answered the task without saying it answered no. Worker and label together are a *pair*, with a rate of
//! saying the label where it is true (`hit`) and one where it is not (`alarm`). The logit of a pair's rate is drawn
//! around the sum of what the crowd, the worker and the label have in general; with a prior strength that is learned,
//! as the spread of workers and labels is.
//!
//! A row is an answer to the task of a candidate. One sweep over the rows of a candidate gathers what they say for it,
//! and adds its probability to the counts of their pairs. What was answered of tasks where a label is not a candidate
//! is a plain no, counted in `spare`.

mod patterns;
mod rates;

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::course::Course;
use crate::base::memory::zeros;
use crate::{Error, Result};

pub use patterns::Patterns;
pub use rates::Rates;

/// Candidates or pairs in a block of a parallel loop.
const BLOCK: usize = 1 << 10;
/// Rates stay this far from 0 and 1.
const MARGIN: f64 = 1e-9;
/// Where logits of hits and of false alarms begin.
const CENTRES: [f64; 2] = [0.0, -3.0];

/// Answers by worker, by candidate.
#[derive(Debug, Clone, Copy)]
pub struct Design<'a> {
    /// Where the rows of each candidate begin, and where the last end.
    pub starts: &'a [u32],
    /// Twice the pair of each row, and one more if it is a yes.
    pub rows: &'a [u32],
    /// Where the candidates of each task begin, and where the last end.
    pub task_starts: &'a [u32],
    /// Label of each candidate.
    pub labels: &'a [u32],
    /// Worker of each pair.
    pub pair_workers: &'a [u32],
    /// Label of each pair.
    pub pair_labels: &'a [u32],
    /// Answers of the pair's worker to tasks where its label is not a candidate.
    pub spare: &'a [f64],
    /// Number of tasks, workers and labels.
    pub sizes: [usize; 3],
}

/// What [`relevance_fit`] found.
#[derive(Debug)]
pub struct Fit {
    /// Probability that each candidate is true.
    pub posterior: Vec<f64>,
    /// Share of the tasks that each label is true of.
    pub prior: Vec<f64>,
    /// Which labels go together.
    pub patterns: Patterns,
    /// Rates of hits, and of false alarms.
    pub rates: [Rates; 2],
    /// Passes made.
    pub n_iter: usize,
    /// Whether no probability changed by as much as the tolerance in the last pass.
    pub converged: bool,
}

/// Fits by alternating posteriors of the candidates with rates of pairs, and with shares of labels in each pattern.
///
/// `start` has the shares of labels that patterns begin with, (patterns × labels); nothing for a single pattern, in
/// which labels are independent. Time O(rows + candidates · patterns + pairs + workers + labels) a pass, of which a
/// pair takes some digamma functions. Memory in addition to the design: 8 bytes a candidate, 120 a pair, and at most as
/// much again as the design for sums of chunks.
pub fn relevance_fit(design: &Design<'_>, start: &[f64], max_iter: usize, tol: f64, control: &Control) -> Result<Fit> {
    design.validate()?;
    let n_pairs = design.spare.len();
    let mut posterior = design.shares()?;
    let mut counts = [zeros(n_pairs)?, zeros(n_pairs)?, zeros(n_pairs)?, zeros(n_pairs)?];
    let mut rates = [Rates::new(design, CENTRES[0])?, Rates::new(design, CENTRES[1])?];
    let mut patterns = Patterns::new(design, start, &posterior)?;
    let rows = design.tallied(|_| 1.0, control)?;
    let mut expected = design.tallied(|candidate| posterior[candidate], control)?;
    let mut sums: Option<Vec<f64>> = None;
    let mut course = Course::default();
    while course.running(max_iter) {
        design.write_counts(&rows, &expected, &mut counts);
        let [hits, misses, alarms, refusals] = &counts;
        rates[0].improve(design, hits, misses, control)?;
        rates[1].improve(design, alarms, refusals, control)?;
        let evidence = design.evidence([&rates[0].rates, &rates[1].rates])?;
        if let Some(sums) = sums {
            patterns.learn(design, &sums)?;
        }
        let expectation = patterns.expect(design, &evidence, &mut posterior, Some(&mut expected), control)?;
        let change = expectation.change;
        sums = Some(expectation.sums);
        course.record(change, control);
        course.converged = change < tol;
    }
    let prior = patterns.overall()?;
    let Course { n_iter, converged, .. } = course;
    Ok(Fit { posterior, prior, patterns, rates, n_iter, converged })
}

/// Probabilities of candidates under given rates, which are those of a fit or of a similar one.
pub fn relevance_posterior(
    design: &Design<'_>,
    rates: [&[f64]; 2],
    patterns: &Patterns,
    control: &Control,
) -> Result<Vec<f64>> {
    design.validate()?;
    let inside = |rates: &[f64]| rates.iter().all(|p| (0.0..=1.0).contains(p));
    if rates.iter().any(|r| r.len() != design.spare.len() || !inside(r)) {
        return Err(Error::invalid("there must be two rates between 0 and 1 for each pair"));
    }
    let n = patterns.shares.len();
    if n == 0 || patterns.rates.len() != n * design.sizes[2] || !inside(&patterns.rates) || !inside(&patterns.shares) {
        return Err(Error::invalid("there must be a probability for each pattern, and for each label in it"));
    }
    let mut posterior = zeros(design.labels.len())?;
    patterns.expect(design, &design.evidence(rates)?, &mut posterior, None, control)?;
    Ok(posterior)
}

fn clipped(rate: f64) -> f64 {
    rate.clamp(MARGIN, 1.0 - MARGIN)
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Design<'_> {
    fn validate(&self) -> Result<()> {
        let [n_tasks, n_workers, n_labels] = self.sizes;
        let (candidates, pairs) = (self.labels.len(), self.spare.len());
        let runs = |starts: &[u32], n: usize, len: usize| {
            starts.len() == n + 1
                && starts[0] == 0
                && starts.windows(2).all(|w| w[0] <= w[1])
                && starts[n] as usize == len
        };
        let below = |values: &[u32], n: usize| values.iter().all(|x| (*x as usize) < n);
        let sound = n_tasks > 0
            && runs(self.starts, candidates, self.rows.len())
            && runs(self.task_starts, n_tasks, candidates)
            && self.pair_workers.len() == pairs
            && self.pair_labels.len() == pairs
            && below(self.rows, 2 * pairs)
            && below(self.labels, n_labels)
            && below(self.pair_workers, n_workers)
            && below(self.pair_labels, n_labels)
            && self.spare.iter().all(|x| x.is_finite() && *x >= 0.0);
        if sound { Ok(()) } else { Err(Error::invalid("candidates, pairs and rows of sets do not fit together")) }
    }

    fn span(starts: &[u32], i: usize) -> std::ops::Range<usize> {
        starts[i] as usize..starts[i + 1] as usize
    }

    /// The share of those who answered each candidate.
    fn shares(&self) -> Result<Vec<f64>> {
        let mut shares = zeros(self.labels.len())?;
        shares.par_chunks_mut(BLOCK).enumerate().for_each(|(block, shares)| {
            for (i, share) in shares.iter_mut().enumerate() {
                let rows = &self.rows[Self::span(self.starts, block * BLOCK + i)];
                *share = rows.iter().map(|row| f64::from(row & 1)).sum::<f64>() / rows.len().max(1) as f64;
            }
        });
        Ok(shares)
    }

    /// What rows add up to for each pair: of candidates that it answered no to, and yes, side by side.
    fn tallied(&self, of: impl Fn(usize) -> f64, control: &Control) -> Result<Vec<f64>> {
        let mut sums = zeros(2 * self.spare.len())?;
        for candidate in 0..self.labels.len() {
            if candidate.is_multiple_of(BLOCK) {
                control.check()?;
            }
            let each = of(candidate);
            self.rows[Self::span(self.starts, candidate)].iter().for_each(|row| sums[*row as usize] += each);
        }
        Ok(sums)
    }

    /// Expected hits, misses, false alarms and correct rejections of each pair, from how many rows it has and how many
    /// are true.
    fn write_counts(&self, rows: &[f64], expected: &[f64], counts: &mut [Vec<f64>; 4]) {
        let [hits, misses, alarms, refusals] = counts;
        for (pair, (n, sums)) in rows.chunks_exact(2).zip(expected.chunks_exact(2)).enumerate() {
            (misses[pair], hits[pair]) = (sums[0], sums[1]);
            alarms[pair] = (n[1] - sums[1]).max(0.0);
            refusals[pair] = (n[0] - sums[0]).max(0.0) + self.spare[pair];
        }
    }

    /// For each pair what a no and a yes say for the label, side by side.
    fn evidence(&self, rates: [&[f64]; 2]) -> Result<Vec<f64>> {
        let mut weights = zeros(2 * self.spare.len())?;
        weights.par_chunks_mut(2 * BLOCK).enumerate().for_each(|(block, weights)| {
            for (i, weights) in weights.chunks_exact_mut(2).enumerate() {
                let [hit, alarm] = rates.map(|r| clipped(r[block * BLOCK + i]));
                weights[0] = (-hit).ln_1p() - (-alarm).ln_1p();
                weights[1] = hit.ln() - alarm.ln();
            }
        });
        Ok(weights)
    }

    /// What the answers say for a candidate, in logits.
    #[inline(always)]
    fn told(&self, candidate: usize, evidence: &[f64]) -> f64 {
        self.rows[Self::span(self.starts, candidate)].iter().map(|row| evidence[*row as usize]).sum()
    }
}

#[cfg(test)]
mod tests;
