//! Rates of pairs, around what the crowd, the worker and the label have in general.

use rayon::prelude::*;

use super::{BLOCK, Design, clipped, logistic};
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{copied, filled, par_tried, zeros};
use crate::base::special::digamma;

/// Improvements of the pooled rates after each pass.
const ROUNDS: usize = 2;
/// Strengths stay within these bounds.
const BOUNDS: (f64, f64) = (1e-2, 1e4);
/// The longest step of a logit.
const LEAP: f64 = 2.0;
/// Prior strength, and variance of workers and labels, to begin with.
const FIRST: (f64, f64) = (10.0, 1.0);

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
    /// Pseudo-answers that the pooled rate counts for.
    pub strength: f64,
}

impl Rates {
    pub(super) fn new(design: &Design<'_>, centre: f64) -> Result<Self> {
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

    /// Pooled rates and prior strength from expected counts of yes and no, and then the rate of each pair.
    pub(super) fn improve(&mut self, design: &Design<'_>, yes: &[f64], no: &[f64], control: &Control) -> Result<()> {
        let mut draws: [Vec<f64>; 2] = [copied(yes)?, copied(no)?];
        let mut slopes = zeros(yes.len())?;
        for _ in 0..ROUNDS {
            self.draw(design, [yes, no], &mut draws, control)?;
            self.ascend(design, &draws, &mut slopes)?;
        }
        let mut rates = std::mem::take(&mut self.rates);
        rates.par_iter_mut().enumerate().for_each(|(i, rate)| {
            let pooled = clipped(logistic(self.logit(design, i)));
            *rate = (yes[i] + self.strength * pooled) / (yes[i] + no[i] + self.strength);
        });
        self.rates = rates;
        Ok(())
    }

    /// Expected draws from the pooled rates among the counts (tables of a Chinese restaurant), and a step of the prior
    /// strength.
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
        let blocks: Vec<[f64; 2]> = par_tried(
            yes.par_chunks_mut(BLOCK).zip(no.par_chunks_mut(BLOCK)).enumerate().map(|(block, (yes, no))| {
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
            }),
        )?;
        let (cells, totals) = blocks.iter().fold((0.0, 0.0), |(a, b), gains| (a + gains[0], b + gains[1]));
        if totals > 0.0 {
            self.strength = (strength * cells / totals).clamp(BOUNDS.0, BOUNDS.1);
        }
        Ok(())
    }

    /// A step of Newton's method for the center, then for all labels, then for all workers.
    fn ascend(&mut self, design: &Design<'_>, draws: &[Vec<f64>; 2], slopes: &mut [[f64; 2]]) -> Result<()> {
        self.write_slopes(design, draws, slopes);
        let (slope, curve) = slopes.iter().fold((0.0, 0.0), |(s, c), [slope, curve]| (s + slope, c + curve));
        self.centre += (slope / (curve + 1.0)).clamp(-LEAP, LEAP);
        for which in [1, 0] {
            self.write_slopes(design, draws, slopes);
            let (of, effects) = match which {
                0 => (design.pair_workers, &mut self.workers),
                _ => (design.pair_labels, &mut self.labels),
            };
            let mut sums = zeros::<[f64; 2]>(effects.len())?;
            for (to, [slope, curve]) in of.iter().zip(&*slopes) {
                let sum = &mut sums[*to as usize];
                sum[0] += slope;
                sum[1] += curve;
            }
            let variance = self.variances[which];
            let mut squares = 1.0;
            for (effect, [slope, curve]) in effects.iter_mut().zip(sums) {
                let curve = curve + 1.0 / variance;
                *effect += ((slope - *effect / variance) / curve).clamp(-LEAP, LEAP);
                squares += *effect * *effect + 1.0 / curve;
            }
            self.variances[which] = squares / (effects.len() + 1) as f64;
        }
        Ok(())
    }

    /// Slope and curvature of the log-likelihood of each pair's draws, by the logit of the pair.
    fn write_slopes(&self, design: &Design<'_>, [yes, no]: &[Vec<f64>; 2], slopes: &mut [[f64; 2]]) {
        slopes.par_chunks_mut(BLOCK).enumerate().for_each(|(block, slopes)| {
            for (i, slope) in slopes.iter_mut().enumerate() {
                let pair = block * BLOCK + i;
                let p = logistic(self.logit(design, pair));
                let total = yes[pair] + no[pair];
                *slope = [yes[pair] - total * p, total * p * (1.0 - p)];
            }
        });
    }
}
