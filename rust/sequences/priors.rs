//! Dirichlet priors of what workers say, tied between cells that mean the same, and learned from the crowd.

use rayon::prelude::*;

use super::Design;
use crate::Result;
use crate::base::memory::{par_collected, zeros};
use crate::base::special::{digamma, ln_gamma};

/// Pseudo-rows for which the first prior counts when it is learned.
const FIRM: f64 = 1.0;
/// Parameters stay above this.
const LEAST: f64 = 1e-6;

/// A parameter for each kind of cell, and the kind of each cell.
#[derive(Debug, Clone)]
pub struct Prior<'a> {
    /// Kind of each cell, (contexts × observed tags × true tags); -1 where nothing can be observed.
    pub cells: &'a [i32],
    /// Parameter of each kind, to begin with.
    pub first: &'a [f64],
    /// Parameter of each kind, now.
    pub now: Vec<f64>,
}

impl Prior<'_> {
    /// Parameter of a cell; 0 where nothing can be observed.
    pub fn at(&self, cell: usize) -> f64 {
        usize::try_from(self.cells[cell]).map_or(0.0, |kind| self.now[kind])
    }

    /// The logarithm of the prior's own density, up to a constant.
    pub fn density(&self) -> f64 {
        let terms = self.first.iter().zip(&self.now).map(|(first, now)| FIRM * (first * now.ln() - now));
        terms.sum()
    }

    /// A step that improves the evidence of the counts, (workers × contexts × observed tags × true tags): Minka's bound
    /// of ratios of gamma functions, with a Gamma density whose mode is the first prior.
    pub fn learn(&mut self, design: &Design<'_>, counts: &[f64]) -> Result<()> {
        let (k, kinds) = (design.n_tags, self.now.len());
        let cells = design.cells();
        let sums: Vec<Vec<f64>> = par_collected(counts.par_chunks_exact(cells).map(|counts| self.gains(counts, k)))?;
        let mut total = zeros(2 * kinds)?;
        for part in sums {
            total.iter_mut().zip(part).for_each(|(sum, x): (&mut f64, f64)| *sum += x);
        }
        for (kind, now) in self.now.iter_mut().enumerate() {
            let (gain, cost) = (total[kind], total[kinds + kind]);
            *now = ((FIRM * self.first[kind] + *now * gain) / (FIRM + cost)).max(LEAST);
        }
        Ok(())
    }

    /// For each kind of cell the sum of digamma(n + a) - digamma(a) over its cells, and over their rows.
    fn gains(&self, counts: &[f64], k: usize) -> Vec<f64> {
        let kinds = self.now.len();
        let mut sums = vec![0.0; 2 * kinds];
        let width = k * k;
        for context in 0..counts.len() / width {
            for truth in 0..k {
                let cell = |said: usize| context * width + said * k + truth;
                let total: f64 = (0..k).map(|answer| counts[cell(answer)]).sum();
                if total <= 0.0 {
                    continue;
                }
                let strength: f64 = (0..k).map(|answer| self.at(cell(answer))).sum();
                let cost = digamma(total + strength) - digamma(strength);
                for answer in 0..k {
                    let Ok(kind) = usize::try_from(self.cells[cell(answer)]) else { continue };
                    let (n, a) = (counts[cell(answer)], self.now[kind]);
                    if n > 0.0 {
                        sums[kind] += digamma(n + a) - digamma(a);
                    }
                    sums[kinds + kind] += cost;
                }
            }
        }
        sums
    }
}

/// Turns counts and parameters of a row into what the E-step takes: expected logarithms, or logarithms of the mode of a
/// Dirichlet whose parameters are one more. Returns the row's part of the objective: minus the divergence from the
/// prior, or the prior's density.
pub(crate) fn row(counts: &[f64], prior: &[f64], variational: bool, logs: &mut [f64]) -> f64 {
    let (n, a): (f64, f64) = (counts.iter().sum(), prior.iter().sum());
    if !variational {
        let mut density = 0.0;
        for ((log, n_l), a_l) in logs.iter_mut().zip(counts).zip(prior) {
            *log = if *a_l > 0.0 { ((n_l + a_l) / (n + a)).ln() } else { f64::NEG_INFINITY };
            density += if *a_l > 0.0 { a_l * *log } else { 0.0 };
        }
        return density;
    }
    let base = digamma(n + a);
    let mut divergence = ln_gamma(n + a) - ln_gamma(a);
    for ((log, n_l), a_l) in logs.iter_mut().zip(counts).zip(prior) {
        if *a_l > 0.0 {
            *log = digamma(n_l + a_l) - base;
            divergence += ln_gamma(*a_l) - ln_gamma(n_l + a_l) + n_l * *log;
        } else {
            *log = f64::NEG_INFINITY;
        }
    }
    -divergence
}
