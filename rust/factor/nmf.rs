//! Coupled nonnegative factorisation of pairwise moments in the Kullback–Leibler divergence.
//!
//! The model of a pair (m, m′) is R\[l, l′\] = `Σ_k` prior\[k\] · C\[m, k, l\] · C\[m′, k, l′\]; the objective is −Σ weight · KL(R̂ ‖ R)
//! over the pairs, R̂ the observed frequencies (Ibrahim, Fu, Kargas & Huang 2019). Read as the log-likelihood of a latent
//! class, it is raised by the step of expectation–maximisation: all confusion matrices and the prior at once, each from
//! the counts that the present ones make expected.

use rayon::prelude::*;

use super::accelerate::{Limits, Run, Steps};
use super::lanes::{LANES, Lanes};
use super::{Adjacency, Fit, Link, not_negative, sized};
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
/// A pair without weight or counts says nothing, and a worker without pairs keeps its start. An entry that starts at zero
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

/// Multiplications between two looks at the control, and per switch into code for wider registers.
const WORK_PER_CHECK: usize = 1 << 16;

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
        let arch = pulp::Arch::new();
        for links in self.adjacency.of(m).chunks((WORK_PER_CHECK / (kk * k)).next_multiple_of(LANES).max(LANES)) {
            self.control.check()?;
            arch.dispatch(Part { problem: self, confusion, links, scratch });
        }
        Ok(scratch.close(own, to, mass))
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

/// Some of a worker's pairs: the unit that is compiled for the widest registers the processor has.
struct Part<'a> {
    problem: &'a Problem<'a>,
    confusion: &'a [f64],
    links: &'a [Link],
    scratch: &'a mut Scratch,
}

impl pulp::NullaryFnOnce for Part<'_> {
    type Output = ();

    /// The usual numbers of classes have code of their own.
    #[inline(always)]
    fn call(self) {
        match self.problem.k {
            2 => self.run(2),
            3 => self.run(3),
            4 => self.run(4),
            5 => self.run(5),
            8 => self.run(8),
            10 => self.run(10),
            k => self.run(k),
        }
    }
}

impl Part<'_> {
    #[inline(always)]
    fn run(self, k: usize) {
        // In sorted pairs a worker is first the second of its pairs, and then the first.
        for run in self.links.chunk_by(|a, b| a.first == b.first) {
            for links in run.chunks(LANES) {
                let group = Group::new(self.problem, self.confusion, links, k);
                if links[0].first {
                    self.scratch.add::<true>(k, &group);
                } else {
                    self.scratch.add::<false>(k, &group);
                }
            }
        }
    }
}

/// Pairs of one worker, one in each lane; lanes left over have no weight.
struct Group<'a> {
    /// Counts, (first's label × second's label).
    counts: [&'a [f64]; LANES],
    /// The partners' confusion matrices.
    others: [&'a [f64]; LANES],
    shares: Lanes,
    weights: Lanes,
}

impl<'a> Group<'a> {
    #[inline(always)]
    fn new(problem: &Problem<'a>, confusion: &'a [f64], links: &[Link], k: usize) -> Self {
        let kk = k * k;
        let block = |values: &'a [f64], at: u32| &values[at as usize * kk..(at as usize + 1) * kk];
        let mut group = Self {
            counts: [block(problem.joint, links[0].pair); LANES],
            others: [block(confusion, links[0].partner); LANES],
            shares: Lanes::ZERO,
            weights: Lanes::ZERO,
        };
        for (lane, link) in links.iter().enumerate() {
            group.counts[lane] = block(problem.joint, link.pair);
            group.others[lane] = block(confusion, link.partner);
            group.shares.0[lane] = problem.shares[link.pair as usize];
            group.weights.0[lane] = problem.weights[link.pair as usize];
        }
        group
    }
}

/// One worker's sums; of what has lanes, each lane belongs to some of its pairs.
struct Scratch {
    /// The worker's confusion times the prior, the probability of class and label together: the same in all lanes.
    own: Vec<Lanes>,
    /// The partners' confusion.
    other: Vec<Lanes>,
    /// Observed frequencies, (first's label × second's label).
    seen: Vec<Lanes>,
    /// Observed over modelled frequencies, (partner's label × own label), times the weight.
    ratio: Vec<Lanes>,
    /// By how much the expected count of each class and label differs from `own`, as a factor.
    factor: Vec<Lanes>,
    objective: Lanes,
}

impl Scratch {
    fn new(k: usize) -> Self {
        let table = || vec![Lanes::ZERO; k * k];
        Self { own: table(), other: table(), seen: table(), ratio: table(), factor: table(), objective: Lanes::ZERO }
    }

    fn open(&mut self, own: &[f64], prior: &[f64]) {
        let k = prior.len();
        for ((to, row), p) in self.own.chunks_exact_mut(k).zip(own.chunks_exact(k)).zip(prior) {
            to.iter_mut().zip(row).for_each(|(to, x)| *to = Lanes::all(p * x));
        }
        self.factor.fill(Lanes::ZERO);
        self.objective = Lanes::ZERO;
    }

    /// Adds pairs in which the worker is the first, or the second. The objective is that of the pairs in which it is first.
    ///
    /// Loops in here are written out: an iterator's own loop may not be inlined, and is then compiled for any processor.
    #[inline(always)]
    fn add<const FIRST: bool>(&mut self, k: usize, group: &Group<'_>) {
        let kk = k * k;
        let (own, other, seen) = (&self.own[..kk], &mut self.other[..kk], &mut self.seen[..kk]);
        let (ratio, factor) = (&mut self.ratio[..kk], &mut self.factor[..kk]);
        side_by_side(&group.others, other);
        side_by_side(&group.counts, seen);
        for b in 0..k {
            for l in 0..k {
                let mut model = Lanes::ZERO;
                for c in 0..k {
                    model = model + other[c * k + b] * own[c * k + l];
                }
                let seen = group.shares * if FIRST { seen[l * k + b] } else { seen[b * k + l] };
                let apart = seen / model;
                if FIRST {
                    // Nothing seen adds nothing, whatever the logarithm.
                    let log = apart.max(Lanes::all(f64::MIN_POSITIVE)).ln();
                    self.objective = self.objective - group.weights * seen * log;
                }
                ratio[b * k + l] = group.weights * apart;
            }
        }
        for c in 0..k {
            for l in 0..k {
                let mut sum = factor[c * k + l];
                for b in 0..k {
                    sum = sum + other[c * k + b] * ratio[b * k + l];
                }
                factor[c * k + l] = sum;
            }
        }
    }

    /// Turns the sums into the new confusion matrix and its masses; returns the objective. A class without mass keeps its
    /// row.
    fn close(&self, old: &[f64], to: &mut [f64], mass: &mut [f64]) -> f64 {
        let k = mass.len();
        to.iter_mut().zip(&self.own).zip(&self.factor).for_each(|((to, x), f)| *to = x.0[0] * f.sum());
        for ((row, old), mass) in to.chunks_exact_mut(k).zip(old.chunks_exact(k)).zip(mass) {
            *mass = row.iter().sum();
            if *mass > f64::MIN_POSITIVE / f64::EPSILON {
                row.iter_mut().for_each(|x| *x = (*x / *mass).max(FLOOR));
            } else {
                row.copy_from_slice(old);
            }
        }
        self.objective.sum()
    }
}

/// Puts four tables into lanes.
#[inline(always)]
fn side_by_side(from: &[&[f64]; LANES], to: &mut [Lanes]) {
    let [a, b, c, d] = from.map(|table| &table[..to.len()]);
    for i in 0..to.len() {
        to[i] = Lanes([a[i], b[i], c[i], d[i]]);
    }
}
