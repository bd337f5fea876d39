//! Coupled nonnegative factorisation of pairwise moments in the Kullback–Leibler divergence.
//!
//! The model of a pair (m, m′) is R\[l, l′\] = `Σ_k` prior\[k\] · C\[m, k, l\] · C\[m′, k, l′\]; the objective is −Σ weight · KL(R̂ ‖ R)
//! over the pairs, R̂ the observed frequencies (Ibrahim, Fu, Kargas & Huang 2019). Read as the log-likelihood of a latent
//! class, it is raised by the step of expectation–maximisation: all confusion matrices and the prior at once, each from
//! the counts that the present ones make expected.

use rayon::prelude::*;

use super::accelerate::{Limits, Run, Steps};
use super::{Adjacency, Fit, not_negative, sized};
use crate::control::Control;
use crate::num::{FLOOR, normalise};
use crate::{Error, Result};

/// Everything [`nmf_fit`] is told.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Pairs of workers, (first, second) one after the other.
    pub pairs: &'a [u32],
    /// Weighted counts of each pair's labels, (pairs × first's label × second's label).
    pub joint: &'a [f64],
    /// Weight of each pair.
    pub weights: &'a [f64],
    /// The class prior to start from.
    pub prior: &'a [f64],
    /// The confusion matrices to start from, (workers × true × observed).
    pub confusion: &'a [f64],
    /// Most steps.
    pub max_iter: usize,
    /// Stop when a cycle of two or three steps raises the objective by less than this share of the total weight.
    pub tol: f64,
}

/// Fits prior and confusion matrices to pairwise moments; never lowers the objective.
///
/// A pair without weight or counts is left out, and a worker without pairs keeps its start. An entry that starts at zero
/// stays near it: start from positive ones. Time O(pairs · classes³) a step, memory O(workers · classes²) beyond the data.
pub fn nmf_fit(options: &Options<'_>, control: &Control) -> Result<Fit> {
    let mut problem = Problem::new(options, control)?;
    let k = problem.k;
    let mut point: Vec<f64> = options.confusion.iter().chain(options.prior).copied().collect();
    problem.repair(&mut point);
    let limits = Limits { max_iter: options.max_iter, least_gain: options.tol * options.weights.iter().sum::<f64>() };
    let mut run = Run::default();
    run.accelerated(&mut problem, &mut point, limits, control)?;
    let closing = problem.sweep(&point)?;
    run.history.push(closing);
    let prior = point.split_off(point.len() - k);
    Ok(Fit { prior, confusion: point, history: run.history, n_iter: run.n_iter, converged: run.converged })
}

/// The moments, and room for the outcome of a sweep.
struct Problem<'a> {
    k: usize,
    adjacency: Adjacency,
    joint: &'a [f64],
    weights: &'a [f64],
    /// What makes counts of a pair frequencies; zero where there are none.
    shares: Vec<f64>,
    control: &'a Control,
    confusion: Vec<f64>,
    /// Expected weight of each worker's answers to each class.
    mass: Vec<f64>,
}

impl<'a> Problem<'a> {
    fn new(options: &Options<'a>, control: &'a Control) -> Result<Self> {
        let k = options.prior.len();
        let n_workers = options.confusion.len().checked_div(k * k).unwrap_or(0);
        if k == 0 {
            return Err(Error::invalid("the prior is empty; it needs a number for each class"));
        }
        sized("the given confusion", options.confusion.len(), n_workers * k * k)?;
        let adjacency = Adjacency::new(n_workers, options.pairs)?;
        let n_pairs = options.pairs.len() / 2;
        sized("the joint counts of the pairs", options.joint.len(), n_pairs * k * k)?;
        sized("the weights of the pairs", options.weights.len(), n_pairs)?;
        not_negative("the given prior", options.prior)?;
        not_negative("the given confusion", options.confusion)?;
        not_negative("the joint counts of the pairs", options.joint)?;
        not_negative("the weights of the pairs", options.weights)?;
        let share = |block: &[f64]| {
            let share = 1.0 / block.iter().sum::<f64>();
            if share.is_finite() { share } else { 0.0 }
        };
        let shares = options.joint.par_chunks_exact(k * k).map(share).collect();
        Ok(Self {
            k,
            adjacency,
            joint: options.joint,
            weights: options.weights,
            shares,
            control,
            confusion: vec![0.0; n_workers * k * k],
            mass: vec![0.0; n_workers * k],
        })
    }

    /// Writes the confusion matrices that the present point suggests, and their masses; returns its objective.
    fn sweep(&mut self, point: &[f64]) -> Result<f64> {
        let (k, kk) = (self.k, self.k * self.k);
        let mut confusion = std::mem::take(&mut self.confusion);
        let mut mass = std::mem::take(&mut self.mass);
        let objectives: Result<Vec<f64>> = confusion
            .par_chunks_mut(kk)
            .zip(mass.par_chunks_mut(k))
            .enumerate()
            .map_init(|| Scratch::new(k), |scratch, (m, (to, mass))| self.worker(m, point, scratch, to, mass))
            .collect();
        (self.confusion, self.mass) = (confusion, mass);
        Ok(objectives?.iter().sum())
    }

    /// One worker's part of a sweep; its objective is that of the pairs in which it is the first.
    fn worker(&self, m: usize, point: &[f64], scratch: &mut Scratch, to: &mut [f64], mass: &mut [f64]) -> Result<f64> {
        let (k, kk) = (self.k, self.k * self.k);
        let (confusion, prior) = point.split_at(point.len() - k);
        let own = &confusion[m * kk..(m + 1) * kk];
        scratch.open(own, prior);
        let mut objective = 0.0;
        let arch = pulp::Arch::new();
        for link in self.adjacency.of(m) {
            self.control.check()?;
            let (pair, partner) = (link.pair as usize, link.partner as usize);
            let (weight, share) = (self.weights[pair], self.shares[pair]);
            if weight * share > 0.0 {
                let block = &self.joint[pair * kk..(pair + 1) * kk];
                let other = &confusion[partner * kk..(partner + 1) * kk];
                let gain = arch.dispatch(|| scratch.add(k, other, block, link.first, weight, share));
                objective += if link.first { gain } else { 0.0 };
            }
        }
        scratch.close(own, to, mass);
        Ok(objective)
    }
}

impl Steps for Problem<'_> {
    fn step(&mut self, point: &mut [f64]) -> Result<f64> {
        let objective = self.sweep(point)?;
        let (confusion, prior) = point.split_at_mut(point.len() - self.k);
        confusion.copy_from_slice(&self.confusion);
        let mut total = vec![0.0; self.k];
        for mass in self.mass.chunks_exact(self.k) {
            total.iter_mut().zip(mass).for_each(|(t, x)| *t += x);
        }
        if total.iter().sum::<f64>() > 0.0 {
            normalise(&mut total);
            prior.iter_mut().zip(&total).for_each(|(p, t)| *p = t.max(FLOOR));
        }
        Ok(objective)
    }

    fn repair(&self, point: &mut [f64]) {
        point.par_chunks_mut(self.k).for_each(|row| {
            row.iter_mut().for_each(|x| *x = x.max(FLOOR));
            normalise(row);
            row.iter_mut().for_each(|x| *x = x.max(FLOOR));
        });
    }
}

/// One worker's sums.
struct Scratch {
    /// The worker's confusion times the prior: the probability of class and label together.
    own: Vec<f64>,
    /// Observed over modelled frequencies, (partner's label × own label).
    ratio: Vec<f64>,
    /// By how much the expected count of each class and label differs from `own`, as a factor.
    factor: Vec<f64>,
}

impl Scratch {
    fn new(k: usize) -> Self {
        Self { own: vec![0.0; k * k], ratio: vec![0.0; k * k], factor: vec![0.0; k * k] }
    }

    fn open(&mut self, own: &[f64], prior: &[f64]) {
        let k = prior.len();
        for ((to, row), p) in self.own.chunks_exact_mut(k).zip(own.chunks_exact(k)).zip(prior) {
            to.iter_mut().zip(row).for_each(|(to, x)| *to = p * x);
        }
        self.factor.fill(0.0);
    }

    /// Adds a pair; returns its objective. The usual numbers of classes have code of their own.
    #[inline(always)]
    fn add(&mut self, k: usize, other: &[f64], block: &[f64], first: bool, weight: f64, share: f64) -> f64 {
        match k {
            2 => self.add_sized(2, other, block, first, weight, share),
            3 => self.add_sized(3, other, block, first, weight, share),
            4 => self.add_sized(4, other, block, first, weight, share),
            5 => self.add_sized(5, other, block, first, weight, share),
            8 => self.add_sized(8, other, block, first, weight, share),
            10 => self.add_sized(10, other, block, first, weight, share),
            _ => self.add_sized(k, other, block, first, weight, share),
        }
    }

    #[inline(always)]
    fn add_sized(&mut self, k: usize, other: &[f64], block: &[f64], first: bool, weight: f64, share: f64) -> f64 {
        let (own, other, block) = (&self.own[..k * k], &other[..k * k], &block[..k * k]);
        let (ratio, factor) = (&mut self.ratio[..k * k], &mut self.factor[..k * k]);
        let mut objective = 0.0;
        for (b, ratio) in ratio.chunks_exact_mut(k).enumerate() {
            ratio.fill(0.0);
            for (row, theirs) in own.chunks_exact(k).zip(other.chunks_exact(k)) {
                ratio.iter_mut().zip(row).for_each(|(to, x)| *to += theirs[b] * x);
            }
            for (l, ratio) in ratio.iter_mut().enumerate() {
                let seen = share * if first { block[l * k + b] } else { block[b * k + l] };
                *ratio = seen / *ratio;
                objective -= if seen > 0.0 { seen * ratio.ln() } else { 0.0 };
                *ratio *= weight;
            }
        }
        for (to, theirs) in factor.chunks_exact_mut(k).zip(other.chunks_exact(k)) {
            for (ratio, x) in ratio.chunks_exact(k).zip(theirs) {
                to.iter_mut().zip(ratio).for_each(|(to, r)| *to += x * r);
            }
        }
        weight * objective
    }

    /// Turns the sums into the new confusion matrix and its masses. A class without mass keeps its row.
    fn close(&self, old: &[f64], to: &mut [f64], mass: &mut [f64]) {
        let k = mass.len();
        to.iter_mut().zip(&self.own).zip(&self.factor).for_each(|((to, x), f)| *to = x * f);
        for ((row, old), mass) in to.chunks_exact_mut(k).zip(old.chunks_exact(k)).zip(mass) {
            *mass = row.iter().sum();
            if *mass > f64::MIN_POSITIVE / f64::EPSILON {
                row.iter_mut().for_each(|x| *x = (*x / *mass).max(FLOOR));
            } else {
                row.copy_from_slice(old);
            }
        }
    }
}
