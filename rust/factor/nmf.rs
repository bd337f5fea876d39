//! Coupled nonnegative factorisation of pairwise moments in the Kullback–Leibler divergence.
//!
//! The model of a pair (m, m′) is R\[l, l′\] = `Σ_k` prior\[k\] · C\[m, k, l\] · C\[m′, k, l′\]; the objective is −Σ weight · KL(R̂ ‖ R)
//! over the pairs, R̂ the observed frequencies (Ibrahim, Fu, Kargas & Huang 2019). Read as the log-likelihood of a latent
//! class, it is raised by the step of expectation–maximisation: all confusion matrices and the prior at once, each from
//! the counts that the present ones make expected.

use rayon::prelude::*;

use super::lanes::{LANES, Lanes};
use super::{Adjacency, Fit, not_negative, sized};
use crate::control::Control;
use crate::course::{Course, Limits, Steps, Tolerance};
use crate::memory::{copied, filled, par_collected, par_tried, push, ready, with_room, zeros};
use crate::moments::split;
use crate::num::{FLOOR, normalise};
use crate::squarem::Reach;
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
/// stays near it: start from positive ones. Time O(pairs · classes³) a step, memory as much again as the joint counts.
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
    /// Observed over modelled frequencies of each pair, (second's label × first's label), times the pair's weight; in the
    /// order of the first workers, and zeros behind the last.
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

    /// The other side. Every worker's pairs are filled up to whole groups with one behind the last, which says nothing.
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

    fn leap(&self, points: [&Vec<f64>; 3], reach: &mut Reach) -> Result<Option<Vec<f64>>> {
        let mut point = reach.leap(points)?;
        if let Some(point) = &mut point {
            self.repair(point);
        }
        Ok(point)
    }
}

/// Runs `$body` with the number of classes bound to `$k`; the usual ones have code of their own.
macro_rules! with_classes {
    ($n:expr, |$k:ident| $body:expr) => {
        match $n {
            2 => with_classes!(@ 2, $k, $body),
            3 => with_classes!(@ 3, $k, $body),
            4 => with_classes!(@ 4, $k, $body),
            5 => with_classes!(@ 5, $k, $body),
            8 => with_classes!(@ 8, $k, $body),
            10 => with_classes!(@ 10, $k, $body),
            n => with_classes!(@ n, $k, $body),
        }
    };
    (@ $n:expr, $k:ident, $body:expr) => {{
        let $k: usize = $n;
        $body
    }};
}

/// Some of the pairs in which a worker is the first: a unit that is compiled for the widest registers the processor has.
struct First<'a> {
    problem: &'a Problem<'a>,
    confusion: &'a [f64],
    partners: &'a [Partner],
    ratios: &'a mut [f64],
    scratch: &'a mut Scratch,
}

impl pulp::NullaryFnOnce for First<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        with_classes!(self.problem.k, |k| {
            for (partners, ratios) in self.partners.chunks(LANES).zip(self.ratios.chunks_mut(LANES * k * k)) {
                let group = Group::new(self.problem, partners, k);
                self.scratch.make(k, &group, beside(self.confusion, partners, k, |partner| partner.worker));
                self.scratch.keep(k, ratios);
            }
        });
    }
}

/// Some of the pairs in which a worker is the second.
struct Second<'a> {
    k: usize,
    confusion: &'a [f64],
    partners: &'a [Partner],
    ratios: &'a [f64],
    scratch: &'a mut Scratch,
}

impl pulp::NullaryFnOnce for Second<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        with_classes!(self.k, |k| {
            for partners in self.partners.chunks(LANES) {
                let ratios = beside(self.ratios, partners, k, |partner| partner.at);
                let others = beside(self.confusion, partners, k, |partner| partner.worker);
                self.scratch.add(k, &ratios, &others);
            }
        });
    }
}

/// The tables of up to four pairs, those of the first again where there are fewer.
#[inline(always)]
fn beside<'a>(values: &'a [f64], partners: &[Partner], k: usize, at: impl Fn(&Partner) -> u32) -> [&'a [f64]; LANES] {
    let kk = k * k;
    std::array::from_fn(|lane| {
        let at = at(partners.get(lane).unwrap_or(&partners[0])) as usize;
        &values[at * kk..(at + 1) * kk]
    })
}

/// Pairs of one first worker, one in each lane; lanes left over have no weight.
struct Group<'a> {
    /// Counts, (first's label × second's label).
    counts: [&'a [f64]; LANES],
    shares: Lanes,
    weights: Lanes,
}

impl<'a> Group<'a> {
    #[inline(always)]
    fn new(problem: &Problem<'a>, partners: &[Partner], k: usize) -> Self {
        let counts = beside(problem.joint, partners, k, |partner| partner.at);
        let mut group = Self { counts, shares: Lanes::ZERO, weights: Lanes::ZERO };
        for (lane, partner) in partners.iter().enumerate() {
            group.shares.0[lane] = problem.shares[partner.at as usize];
            group.weights.0[lane] = problem.weights[partner.at as usize];
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
    /// Observed over modelled frequencies, (second's label × first's label), times the weight.
    ratio: Vec<Lanes>,
    /// By how much the expected count of each class and label differs from `own`, as a factor.
    factor: Vec<Lanes>,
    objective: Lanes,
}

/// Loops in here are written out: an iterator's own loop may not be inlined, and is then compiled for any processor.
impl Scratch {
    fn new(k: usize) -> Result<Self> {
        let table = || filled(Lanes::ZERO, k * k);
        let (own, other, seen, ratio, factor) = (table()?, table()?, table()?, table()?, table()?);
        Ok(Self { own, other, seen, ratio, factor, objective: Lanes::ZERO })
    }

    fn open(&mut self, own: &[f64], prior: &[f64]) {
        let k = prior.len();
        for ((to, row), p) in self.own.chunks_exact_mut(k).zip(own.chunks_exact(k)).zip(prior) {
            to.iter_mut().zip(row).for_each(|(to, x)| *to = Lanes::all(p * x));
        }
        self.factor.fill(Lanes::ZERO);
        self.objective = Lanes::ZERO;
    }

    /// Makes the ratios of some pairs of a first worker, and adds them to its factors and to the objective.
    #[inline(always)]
    fn make(&mut self, k: usize, group: &Group<'_>, others: [&[f64]; LANES]) {
        let kk = k * k;
        let (own, other, seen) = (&self.own[..kk], &mut self.other[..kk], &mut self.seen[..kk]);
        let (ratio, factor) = (&mut self.ratio[..kk], &mut self.factor[..kk]);
        side_by_side(&others, other);
        side_by_side(&group.counts, seen);
        // One thing at a time, for all labels: a logarithm waits for its division, but not for that of the next.
        ratio.fill(Lanes::ZERO);
        for c in 0..k {
            for b in 0..k {
                for l in 0..k {
                    ratio[b * k + l] = ratio[b * k + l] + other[c * k + b] * own[c * k + l];
                }
            }
        }
        for b in 0..k {
            for l in 0..k {
                ratio[b * k + l] = group.shares * seen[l * k + b] / ratio[b * k + l];
            }
        }
        let mut objective = self.objective;
        for b in 0..k {
            for l in 0..k {
                // Nothing seen adds nothing, whatever the logarithm.
                let log = ratio[b * k + l].max(Lanes::all(f64::MIN_POSITIVE)).ln();
                objective = objective - group.weights * group.shares * seen[l * k + b] * log;
            }
        }
        self.objective = objective;
        for x in ratio.iter_mut() {
            *x = group.weights * *x;
        }
        add_product(k, other, |b, l| ratio[b * k + l], factor);
    }

    /// Writes down the ratios just made, of as many pairs as there is room for.
    #[inline(always)]
    fn keep(&self, k: usize, ratios: &mut [f64]) {
        let kk = k * k;
        let ratio = &self.ratio[..kk];
        for (lane, to) in ratios.chunks_exact_mut(kk).enumerate() {
            for i in 0..kk {
                to[i] = ratio[i].0[lane];
            }
        }
    }

    /// Adds the ratios of some pairs to the factors of their second worker.
    #[inline(always)]
    fn add(&mut self, k: usize, ratios: &[&[f64]; LANES], others: &[&[f64]; LANES]) {
        let kk = k * k;
        let (other, ratio, factor) = (&mut self.other[..kk], &mut self.ratio[..kk], &mut self.factor[..kk]);
        side_by_side(others, other);
        side_by_side(ratios, ratio);
        add_product(k, other, |b, l| ratio[l * k + b], factor);
    }
}

/// Adds the partners' confusion times their ratios, (partner's label, own label), to the factors.
#[inline(always)]
fn add_product(k: usize, other: &[Lanes], ratio: impl Fn(usize, usize) -> Lanes, factor: &mut [Lanes]) {
    for c in 0..k {
        for l in 0..k {
            let mut sum = factor[c * k + l];
            for b in 0..k {
                sum = sum + other[c * k + b] * ratio(b, l);
            }
            factor[c * k + l] = sum;
        }
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
