//! Coupled nonnegative factorization of pairwise moments in the Kullback–Leibler divergence.
//!
//! The model of a pair (m, m′) is R\[l, l′\] = `Σ_k` prior\[k\] · C\[m, k, l\] · C\[m′, k, l′\]; the objective is −Σ
//! weight · KL(R̂ ‖ R) over the pairs, R̂ the observed frequencies (Ibrahim, Fu, Kargas & Huang 2019). Read as the
//! log-likelihood of a latent class, it is raised by the step of expectation–maximization: all confusion matrices and
//! the prior at once, each from the counts that the present ones make expected.

mod ratios;

use rayon::prelude::*;

use self::ratios::{First, Scratch, Second};
use super::simd::{LANES, Lanes};
use super::{Adjacency, Fit, not_negative, sized};
use crate::base::control::Control;
use crate::base::course::{Course, Limits, Steps, Tolerance};
use crate::base::memory::{copied, filled, par_collected, par_tried, push, ready, with_room, zeros};
use crate::base::num::{FLOOR, normalise};
use crate::base::squarem::Reach;
use crate::moments::split;
use crate::{Error, Result};

/// Arguments of [`nmf_fit`].
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
/// A pair without weight or counts has no information, and a worker without pairs keeps its start. An entry that starts
/// at zero stays near it: start from positive ones. Time O(pairs · classes³) a step, memory as much again as the joint
/// counts.
pub fn nmf_fit(options: &Options<'_>, control: &Control) -> Result<Fit> {
    let mut problem = Problem::new(options, control)?;
    let k = problem.k;
    let mut point: Vec<f64> = with_room(options.confusion.len() + k)?;
    point.extend(options.confusion.iter().chain(options.prior));
    problem.repair(&mut point);
    let tolerance = Tolerance::Gain(options.tol * options.weights.iter().sum::<f64>());
    let limits = Limits { max_iter: options.max_iter, tolerance };
    let mut course = Course::default();
    course.accelerated(&mut problem, &mut point, limits, control)?;
    let closing = problem.sweep(&point)?;
    course.history.push(closing);
    let prior = point.split_off(point.len() - k);
    let Course { history, n_iter, converged, .. } = course;
    Ok(Fit { prior, confusion: point, history, n_iter, converged })
}

/// Multiplications between two looks at the control, and per switch into code for wider registers.
const WORK_PER_CHECK: usize = 1 << 16;

/// The moments, and room for the outcome of a sweep.
struct Problem<'a> {
    k: usize,
    firsts: Side,
    seconds: Side,
    joint: &'a [f64],
    weights: &'a [f64],
    /// What makes counts of a pair frequencies; zero where there are none.
    shares: Vec<f64>,
    control: &'a Control,
    /// Observed over modeled frequencies of each pair, (second's label × first's label), times the pair's weight; in
    /// the order of the first workers, and zeros behind the last.
    ratios: Vec<f64>,
    confusion: Vec<f64>,
    /// Expected weight of each worker's answers to each class.
    mass: Vec<f64>,
}

/// The pairs of each worker in which it is the first, or those in which it is the second.
struct Side {
    offsets: Vec<usize>,
    partners: Vec<Partner>,
}

#[derive(Clone, Copy)]
struct Partner {
    worker: u32,
    /// Where the pair's numbers lie: for first workers among the data, for second ones among the ratios.
    at: u32,
}

impl Side {
    fn firsts(adjacency: &Adjacency) -> Result<Self> {
        let (mut offsets, mut partners) = (with_room(adjacency.n_workers() + 1)?, vec![]);
        offsets.push(0);
        for m in 0..adjacency.n_workers() {
            for link in adjacency.of(m).iter().filter(|link| link.first) {
                push(&mut partners, Partner { worker: link.partner, at: link.pair })?;
            }
            offsets.push(partners.len());
        }
        Ok(Self { offsets, partners })
    }

    /// The other side. Every worker's pairs are filled up to whole groups with one behind the last, which have no
    /// information.
    fn seconds(&self) -> Result<Self> {
        let n_workers = self.offsets.len() - 1;
        let nothing = Partner { worker: 0, at: self.partners.len() as u32 };
        let mut offsets = zeros::<usize>(n_workers + 1)?;
        self.partners.iter().for_each(|partner| offsets[partner.worker as usize + 1] += 1);
        (0..n_workers).for_each(|m| offsets[m + 1] = offsets[m] + offsets[m + 1].next_multiple_of(LANES));
        let mut partners = filled(nothing, offsets[n_workers])?;
        let mut next = copied(&offsets)?;
        for m in 0..n_workers {
            for (at, partner) in (self.offsets[m] as u32..).zip(self.of(m)) {
                let to = &mut next[partner.worker as usize];
                partners[*to] = Partner { worker: m as u32, at };
                *to += 1;
            }
        }
        Ok(Self { offsets, partners })
    }

    fn of(&self, worker: usize) -> &[Partner] {
        &self.partners[self.offsets[worker]..self.offsets[worker + 1]]
    }
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
        let shares = par_collected(options.joint.par_chunks_exact(k * k).map(share))?;
        let firsts = Side::firsts(&adjacency)?;
        Ok(Self {
            k,
            seconds: firsts.seconds()?,
            firsts,
            ratios: zeros((n_pairs + 1) * k * k)?,
            joint: options.joint,
            weights: options.weights,
            shares,
            control,
            confusion: zeros(n_workers * k * k)?,
            mass: zeros(n_workers * k)?,
        })
    }

    /// Writes the confusion matrices that the present point suggests, and their masses; returns its objective.
    ///
    /// Both workers of a pair need its ratios: they are made where it is seen from the first, and kept for the second.
    fn sweep(&mut self, point: &[f64]) -> Result<f64> {
        let (k, kk) = (self.k, self.k * self.k);
        let mut confusion = std::mem::take(&mut self.confusion);
        let mut mass = std::mem::take(&mut self.mass);
        let mut ratios = std::mem::take(&mut self.ratios);
        let tables = split(&mut ratios, &self.firsts.offsets, kk)?;
        let objectives: Result<Vec<f64>> = par_tried(confusion.par_chunks_mut(kk).zip(tables).enumerate().map_init(
            || Scratch::new(k),
            |scratch, (m, (to, ratios))| self.first(m, point, ready(scratch)?, ratios, to),
        ));
        let closed = confusion.par_chunks_mut(kk).zip(mass.par_chunks_mut(k)).enumerate().try_for_each_init(
            || Scratch::new(k),
            |scratch, (m, (to, mass))| self.second(m, point, ready(scratch)?, &ratios, to, mass),
        );
        (self.confusion, self.mass, self.ratios) = (confusion, mass, ratios);
        closed?;
        Ok(objectives?.iter().sum())
    }

    /// Writes the ratios of the pairs in which a worker is the first, and what they add to its factors; returns their
    /// objective.
    fn first(
        &self,
        m: usize,
        point: &[f64],
        scratch: &mut Scratch,
        ratios: &mut [f64],
        factors: &mut [f64],
    ) -> Result<f64> {
        let (k, kk) = (self.k, self.k * self.k);
        let (confusion, prior) = point.split_at(point.len() - k);
        scratch.open(&confusion[m * kk..(m + 1) * kk], prior);
        let arch = pulp::Arch::new();
        let step = pairs_per_check(k);
        for (partners, ratios) in self.firsts.of(m).chunks(step).zip(ratios.chunks_mut(step * kk)) {
            self.control.check()?;
            arch.dispatch(First { problem: self, confusion, partners, ratios, scratch });
        }
        factors.iter_mut().zip(&scratch.factor).for_each(|(to, factor)| *to = factor.sum());
        Ok(scratch.objective.sum())
    }

    /// Adds the factors of the pairs in which a worker is the second, and turns them into its new confusion matrix.
    fn second(
        &self,
        m: usize,
        point: &[f64],
        scratch: &mut Scratch,
        ratios: &[f64],
        factors: &mut [f64],
        mass: &mut [f64],
    ) -> Result<()> {
        let (k, kk) = (self.k, self.k * self.k);
        let (confusion, prior) = point.split_at(point.len() - k);
        scratch.factor.fill(Lanes::ZERO);
        let arch = pulp::Arch::new();
        for partners in self.seconds.of(m).chunks(pairs_per_check(k)) {
            self.control.check()?;
            arch.dispatch(Second { k, confusion, partners, ratios, scratch });
        }
        factors.iter_mut().zip(&scratch.factor).for_each(|(to, factor)| *to += factor.sum());
        update(&confusion[m * kk..(m + 1) * kk], prior, factors, mass);
        Ok(())
    }
}

/// How many pairs are seen between two looks at the control.
fn pairs_per_check(k: usize) -> usize {
    (WORK_PER_CHECK / (k * k * k)).next_multiple_of(LANES).max(LANES)
}

/// Turns factors into a new confusion matrix and its masses. A class without mass keeps its row.
fn update(old: &[f64], prior: &[f64], factors: &mut [f64], mass: &mut [f64]) {
    let k = prior.len();
    let rows = factors.chunks_exact_mut(k).zip(old.chunks_exact(k));
    for ((row, old), (mass, prior)) in rows.zip(mass.iter_mut().zip(prior)) {
        row.iter_mut().zip(old).for_each(|(x, old)| *x *= prior * old);
        *mass = row.iter().sum();
        if *mass > f64::MIN_POSITIVE / f64::EPSILON {
            row.iter_mut().for_each(|x| *x = (*x / *mass).max(FLOOR));
        } else {
            row.copy_from_slice(old);
        }
    }
}

impl Problem<'_> {
    /// Brings a point to where points are permitted.
    fn repair(&self, point: &mut [f64]) {
        point.par_chunks_mut(self.k).for_each(|row| {
            row.iter_mut().for_each(|x| *x = x.max(FLOOR));
            normalise(row);
            row.iter_mut().for_each(|x| *x = x.max(FLOOR));
        });
    }
}

impl Steps for Problem<'_> {
    type Point = Vec<f64>;

    fn step(&mut self, point: &mut Vec<f64>) -> Result<f64> {
        let objective = self.sweep(point)?;
        let n = point.len() - self.k;
        let (confusion, prior) = point.split_at_mut(n);
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

    fn copy(point: &Vec<f64>) -> Result<Vec<f64>> {
        copied(point)
    }

    fn extrapolate(&self, points: [&Vec<f64>; 3], reach: &mut Reach) -> Result<Option<Vec<f64>>> {
        let mut point = reach.extrapolate(points)?;
        if let Some(point) = &mut point {
            self.repair(point);
        }
        Ok(point)
    }
}
