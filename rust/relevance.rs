//! Sets of labels: a binary question for each label and task, with skills of workers that are pooled over labels.
//!
//! A label may be true of a task only if somebody said it there, which makes the task and the label a *candidate*; whoever
//! answered the task without saying it said no. Worker and label together are a *pair*, with a rate of saying the label where
//! it is true (`hit`) and one where it is not (`alarm`). The logit of a pair's rate is drawn around the sum of what the crowd,
//! the worker and the label have in general; with a strength that is learnt, as the spread of workers and labels is.
//!
//! A row is an answer to the task of a candidate. Rows come twice, by candidate and by pair, so that both sums are parallel
//! and in a fixed order. What was answered of tasks where a label is no candidate is a plain no, counted in `spare`.

use rayon::prelude::*;

use crate::control::Control;
use crate::memory::{copied, filled, zeros};
use crate::special::digamma;
use crate::{Error, Result};

/// Candidates or pairs in a block of a parallel loop.
const BLOCK: usize = 1 << 10;
/// Improvements of the pooled rates after each pass.
const ROUNDS: usize = 2;
/// Rates stay this far from 0 and 1.
const MARGIN: f64 = 1e-9;
/// Strengths stay within these bounds.
const BOUNDS: (f64, f64) = (1e-2, 1e4);
/// The longest step of a logit.
const LEAP: f64 = 2.0;
/// Strength, and variance of workers and labels, to begin with.
const FIRST: (f64, f64) = (10.0, 1.0);
/// Where logits of hits and of false alarms begin.
const CENTRES: [f64; 2] = [0.0, -3.0];
/// Imaginary tasks that have a label, and that have not.
const PRIOR_TASKS: f64 = 0.5;

/// Who said what, by candidate and by pair.
#[derive(Debug, Clone, Copy)]
pub struct Design<'a> {
    /// Where the rows of each candidate begin, and where the last end.
    pub starts: &'a [u32],
    /// Twice the pair of each row, and one more if it is a yes.
    pub rows: &'a [u32],
    /// Where the rows of each pair begin, and where the last end.
    pub pair_starts: &'a [u32],
    /// Twice the candidate of each row, and one more if it is a yes, in the order of pairs.
    pub pair_rows: &'a [u32],
    /// Label of each candidate.
    pub labels: &'a [u32],
    /// Worker of each pair.
    pub pair_workers: &'a [u32],
    /// Label of each pair.
    pub pair_labels: &'a [u32],
    /// Answers of the pair's worker to tasks where its label is no candidate.
    pub spare: &'a [f64],
    /// Number of tasks, workers and labels.
    pub sizes: [usize; 3],
}

/// What one kind of rate is made of.
#[derive(Debug, Clone)]
pub struct Rates {
    /// Rate of each pair.
    pub rates: Vec<f64>,
    /// Logit of the crowd.
    pub centre: f64,
    /// What a worker adds.
    pub workers: Vec<f64>,
    /// What a label adds.
    pub labels: Vec<f64>,
    /// Variance of the former two.
    pub variances: [f64; 2],
    /// Imaginary answers that the pooled rate counts for.
    pub strength: f64,
}

/// What [`relevance_fit`] found.
#[derive(Debug)]
pub struct Fit {
    /// Probability that each candidate is true.
    pub posterior: Vec<f64>,
    /// Share of the tasks that each label is true of.
    pub prior: Vec<f64>,
    /// Rates of hits, and of false alarms.
    pub rates: [Rates; 2],
    /// Passes made.
    pub n_iter: usize,
    /// Whether no probability changed by as much as the tolerance in the last pass.
    pub converged: bool,
}

/// Fits by alternating posteriors of the candidates with rates of pairs.
///
/// Time O(rows + pairs + workers + labels) a pass, of which a pair takes some digamma functions. Memory beside the design:
/// 8 bytes a candidate and 72 a pair.
pub fn relevance_fit(design: &Design<'_>, max_iter: usize, tol: f64, control: &Control) -> Result<Fit> {
    design.validate()?;
    let n_pairs = design.spare.len();
    let mut posterior = design.shares()?;
    let mut counts = [zeros(n_pairs)?, zeros(n_pairs)?, zeros(n_pairs)?, zeros(n_pairs)?];
    let mut rates = [Rates::new(design, CENTRES[0])?, Rates::new(design, CENTRES[1])?];
    let mut prior = zeros(design.sizes[2])?;
    let (mut n_iter, mut converged) = (0, false);
    while n_iter < max_iter && !converged {
        design.count(&posterior, &mut counts, control)?;
        let [hits, misses, alarms, refusals] = &counts;
        rates[0].improve(design, hits, misses, control)?;
        rates[1].improve(design, alarms, refusals, control)?;
        design.write_prior(&posterior, &mut prior);
        let change = design.expect(&rates, &prior, &mut posterior, control)?;
        n_iter += 1;
        converged = change < tol;
        control.report(n_iter, change);
    }
    Ok(Fit { posterior, prior, rates, n_iter, converged })
}

/// Probabilities of candidates under given rates, which are those of a fit or of somebody like it.
pub fn relevance_posterior(
    design: &Design<'_>,
    rates: [&[f64]; 2],
    prior: &[f64],
    control: &Control,
) -> Result<Vec<f64>> {
    design.validate()?;
    let inside = |rates: &[f64]| rates.iter().all(|p| (0.0..=1.0).contains(p));
    if rates.iter().any(|r| r.len() != design.spare.len() || !inside(r)) {
        return Err(Error::invalid("there must be two rates between 0 and 1 for each pair"));
    }
    if prior.len() != design.sizes[2] || !inside(prior) {
        return Err(Error::invalid("there must be a probability for each label"));
    }
    let mut posterior = zeros(design.labels.len())?;
    design.expect_under(rates, prior, &mut posterior, control)?;
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
            && runs(self.pair_starts, pairs, self.pair_rows.len())
            && self.rows.len() == self.pair_rows.len()
            && self.pair_workers.len() == pairs
            && self.pair_labels.len() == pairs
            && below(self.rows, 2 * pairs)
            && below(self.pair_rows, 2 * candidates)
            && below(self.labels, n_labels)
            && below(self.pair_workers, n_workers)
            && below(self.pair_labels, n_labels)
            && self.spare.iter().all(|x| x.is_finite() && *x >= 0.0);
        if sound { Ok(()) } else { Err(Error::invalid("candidates, pairs and rows of sets do not fit together")) }
    }

    fn span(starts: &[u32], i: usize) -> std::ops::Range<usize> {
        starts[i] as usize..starts[i + 1] as usize
    }

    /// The share of those who said each candidate.
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

    /// Expected hits, misses, false alarms and right refusals of each pair.
    fn count(&self, posterior: &[f64], counts: &mut [Vec<f64>; 4], control: &Control) -> Result<()> {
        let [hits, misses, alarms, refusals] = counts;
        let parts = hits.par_chunks_mut(BLOCK).zip(misses.par_chunks_mut(BLOCK));
        let parts = parts.zip(alarms.par_chunks_mut(BLOCK)).zip(refusals.par_chunks_mut(BLOCK));
        parts.enumerate().try_for_each(|(block, (((hits, misses), alarms), refusals))| {
            control.check()?;
            for i in 0..hits.len() {
                let pair = block * BLOCK + i;
                let (mut sums, mut n) = ([0.0; 2], [0.0; 2]);
                for row in &self.pair_rows[Self::span(self.pair_starts, pair)] {
                    let yes = (row & 1) as usize;
                    sums[yes] += posterior[(row >> 1) as usize];
                    n[yes] += 1.0;
                }
                (misses[i], hits[i]) = (sums[0], sums[1]);
                (refusals[i], alarms[i]) = ((n[0] - sums[0]).max(0.0) + self.spare[pair], (n[1] - sums[1]).max(0.0));
            }
            Ok(())
        })
    }

    fn write_prior(&self, posterior: &[f64], prior: &mut [f64]) {
        prior.fill(PRIOR_TASKS);
        self.labels.iter().zip(posterior).for_each(|(label, q)| prior[*label as usize] += q);
        let total = self.sizes[0] as f64 + 2.0 * PRIOR_TASKS;
        prior.iter_mut().for_each(|p| *p /= total);
    }

    /// Posteriors of all candidates; returns the largest change.
    fn expect(&self, rates: &[Rates; 2], prior: &[f64], posterior: &mut [f64], control: &Control) -> Result<f64> {
        self.expect_under([&rates[0].rates, &rates[1].rates], prior, posterior, control)
    }

    fn expect_under(&self, rates: [&[f64]; 2], prior: &[f64], posterior: &mut [f64], control: &Control) -> Result<f64> {
        // For each pair what a no and a yes say for the label, side by side.
        let mut weights = zeros(2 * self.spare.len())?;
        weights.par_chunks_mut(2 * BLOCK).enumerate().for_each(|(block, weights)| {
            for (i, weights) in weights.chunks_exact_mut(2).enumerate() {
                let [hit, alarm] = rates.map(|r| clipped(r[block * BLOCK + i]));
                weights[0] = (-hit).ln_1p() - (-alarm).ln_1p();
                weights[1] = hit.ln() - alarm.ln();
            }
        });
        let odds: Vec<f64> = prior.iter().map(|p| clipped(*p).ln() - (-clipped(*p)).ln_1p()).collect();
        let changes: Vec<f64> = posterior
            .par_chunks_mut(BLOCK)
            .enumerate()
            .map(|(block, posterior)| {
                control.check()?;
                let mut most = 0.0;
                for (i, q) in posterior.iter_mut().enumerate() {
                    let candidate = block * BLOCK + i;
                    let rows = &self.rows[Self::span(self.starts, candidate)];
                    let told: f64 = rows.iter().map(|row| weights[*row as usize]).sum();
                    let now = logistic(odds[self.labels[candidate] as usize] + told);
                    most = f64::max(most, (now - *q).abs());
                    *q = now;
                }
                Ok(most)
            })
            .collect::<Result<_>>()?;
        Ok(changes.into_iter().fold(0.0, f64::max))
    }
}

impl Rates {
    fn new(design: &Design<'_>, centre: f64) -> Result<Self> {
        let [_, n_workers, n_labels] = design.sizes;
        Ok(Self {
            rates: filled(logistic(centre), design.spare.len())?,
            centre,
            workers: zeros(n_workers)?,
            labels: zeros(n_labels)?,
            variances: [FIRST.1; 2],
            strength: FIRST.0,
        })
    }

    fn logit(&self, design: &Design<'_>, pair: usize) -> f64 {
        let (worker, label) = (design.pair_workers[pair] as usize, design.pair_labels[pair] as usize);
        self.centre + self.workers[worker] + self.labels[label]
    }

    /// Pooled rates and strength from expected counts of yes and no, and then the rate of each pair.
    fn improve(&mut self, design: &Design<'_>, yes: &[f64], no: &[f64], control: &Control) -> Result<()> {
        let mut draws: [Vec<f64>; 2] = [copied(yes)?, copied(no)?];
        for _ in 0..ROUNDS {
            self.draw(design, [yes, no], &mut draws, control)?;
            self.climb(design, &draws)?;
        }
        let pooled: Vec<f64> = {
            let mut pooled = zeros(yes.len())?;
            pooled.par_iter_mut().enumerate().for_each(|(i, p)| *p = clipped(logistic(self.logit(design, i))));
            pooled
        };
        let strength = self.strength;
        self.rates.par_iter_mut().enumerate().for_each(|(i, rate)| {
            *rate = (yes[i] + strength * pooled[i]) / (yes[i] + no[i] + strength);
        });
        Ok(())
    }

    /// Expected draws from the pooled rates among the counts (tables of a Chinese restaurant), and a step of the strength.
    fn draw(
        &mut self,
        design: &Design<'_>,
        counts: [&[f64]; 2],
        draws: &mut [Vec<f64>; 2],
        control: &Control,
    ) -> Result<()> {
        let (this, strength) = (&*self, self.strength);
        let base = digamma(strength);
        let [yes, no] = draws;
        let blocks: Vec<[f64; 2]> = yes
            .par_chunks_mut(BLOCK)
            .zip(no.par_chunks_mut(BLOCK))
            .enumerate()
            .map(|(block, (yes, no))| {
                control.check()?;
                let mut gains = [0.0; 2];
                for i in 0..yes.len() {
                    let pair = block * BLOCK + i;
                    let p = clipped(logistic(this.logit(design, pair)));
                    for (share, counts, draws) in [(p, counts[0], &mut yes[i]), (1.0 - p, counts[1], &mut no[i])] {
                        let at = strength * share;
                        let each = if counts[pair] > 0.0 { digamma(counts[pair] + at) - digamma(at) } else { 0.0 };
                        gains[0] += share * each;
                        *draws = at * each;
                    }
                    let total = counts[0][pair] + counts[1][pair];
                    gains[1] += if total > 0.0 { digamma(total + strength) - base } else { 0.0 };
                }
                Ok(gains)
            })
            .collect::<Result<_>>()?;
        let (cells, totals) = blocks.iter().fold((0.0, 0.0), |(a, b), gains| (a + gains[0], b + gains[1]));
        if totals > 0.0 {
            self.strength = (strength * cells / totals).clamp(BOUNDS.0, BOUNDS.1);
        }
        Ok(())
    }

    /// A step of Newton's method for the centre, then for all labels, then for all workers.
    fn climb(&mut self, design: &Design<'_>, draws: &[Vec<f64>; 2]) -> Result<()> {
        let everybody = zeros::<u32>(design.spare.len())?;
        let (slope, curve) = self.sums(design, draws, &everybody, 1)?[0];
        self.centre += (slope / (curve + 1.0)).clamp(-LEAP, LEAP);
        for which in [1, 0] {
            let (of, n) =
                if which == 0 { (design.pair_workers, design.sizes[1]) } else { (design.pair_labels, design.sizes[2]) };
            let sums = self.sums(design, draws, of, n)?;
            let variance = self.variances[which];
            let effects = if which == 0 { &mut self.workers } else { &mut self.labels };
            let mut squares = 1.0;
            for (effect, (slope, curve)) in effects.iter_mut().zip(sums) {
                let curve = curve + 1.0 / variance;
                *effect += ((slope - *effect / variance) / curve).clamp(-LEAP, LEAP);
                squares += *effect * *effect + 1.0 / curve;
            }
            self.variances[which] = squares / (n + 1) as f64;
        }
        Ok(())
    }

    /// Slopes and curvatures of the log-likelihood of the draws, summed over the pairs of each of `n`.
    fn sums(&self, design: &Design<'_>, draws: &[Vec<f64>; 2], of: &[u32], n: usize) -> Result<Vec<(f64, f64)>> {
        let mut sums = filled((0.0, 0.0), n)?;
        for (pair, to) in of.iter().enumerate() {
            let p = logistic(self.logit(design, pair));
            let total = draws[0][pair] + draws[1][pair];
            let sum = &mut sums[*to as usize];
            sum.0 += draws[0][pair] - total * p;
            sum.1 += total * p * (1.0 - p);
        }
        Ok(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two candidates of one label each; three workers, of whom the first two say both and the third neither.
    fn design() -> (Vec<u32>, Vec<u32>, Vec<u32>, Vec<u32>) {
        // Pair = worker · 2 + label, candidate = label; twice that, and one more for a yes.
        let rows = vec![1, 5, 8, 3, 7, 10];
        let pair_rows = vec![1, 3, 1, 3, 0, 2];
        (vec![0, 3, 6], rows, vec![0, 1, 2, 3, 4, 5, 6], pair_rows)
    }

    fn whole<'a>(parts: &'a (Vec<u32>, Vec<u32>, Vec<u32>, Vec<u32>), spare: &'a [f64]) -> Design<'a> {
        Design {
            starts: &parts.0,
            rows: &parts.1,
            pair_starts: &parts.2,
            pair_rows: &parts.3,
            labels: &[0, 1],
            pair_workers: &[0, 0, 1, 1, 2, 2],
            pair_labels: &[0, 1, 0, 1, 0, 1],
            spare,
            sizes: [5, 3, 2],
        }
    }

    #[test]
    fn what_two_of_three_say_and_nobody_says_elsewhere_is_true() {
        let (parts, spare) = (design(), [4.0; 6]);
        let fit = relevance_fit(&whole(&parts, &spare), 50, 1e-9, &Control::default()).unwrap();
        assert!(fit.posterior.iter().all(|q| *q > 0.9), "{:?}", fit.posterior);
        assert!((fit.posterior[0] - fit.posterior[1]).abs() < 1e-9);
        let [hits, alarms] = &fit.rates;
        assert!(hits.rates[0] > hits.rates[4] && alarms.rates.iter().all(|p| *p < 0.5));
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let (parts, control) = (design(), Control::default());
        let sound = whole(&parts, &[4.0; 6]);
        let wrong = [
            Design { labels: &[0, 2], ..sound },
            Design { spare: &[4.0; 5], ..sound },
            Design { spare: &[f64::NAN; 6], ..sound },
            Design { starts: &[0, 3, 5], ..sound },
            Design { sizes: [0, 3, 2], ..sound },
        ];
        for design in wrong {
            assert!(matches!(relevance_fit(&design, 1, 0.0, &control), Err(Error::Invalid(_))));
        }
    }

    #[test]
    fn a_cancelled_fit_stops() {
        let (parts, control) = (design(), Control::default());
        control.cancel();
        let stopped = relevance_fit(&whole(&parts, &[0.0; 6]), 9, 0.0, &control);
        assert_eq!(stopped.unwrap_err(), Error::Cancelled);
    }
}
