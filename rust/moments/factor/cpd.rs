//! Coupled decomposition of first, second and third moments in least squares.
//!
//! The model of a triple (m, m′, m″) is T\[l, l′, l″\] = `Σ_k` prior\[k\] · C\[m, k, l\] · C\[m′, k, l′\] · C\[m″, k,
//! l″\], that of a pair or of one worker has as many factors; the objective is −½ Σ weight · ‖observed − modeled‖²
//! (Traganitis, Pagès-Zamora & Giannakis 2018). One confusion matrix at a time, and then the prior, is fitted with the
//! others held: a quadratic program over rows on the simplex, solved by ADMM (Huang, Sidiropoulos & Liavas 2016). What
//! it finds is taken only where it lowers the squares; otherwise a step along the projected gradient is made, which
//! does.

mod block;

use rayon::prelude::*;

use self::block::{Block, improve, value};
use super::simplex::project;
use super::{Adjacency, Fit, finite, not_negative, sized};
use crate::base::control::Control;
use crate::base::course::{Course, Limits, Steps, Tolerance};
use crate::base::memory::{collected, copied, filled, ready, with_room, zeros};
use crate::base::num::normalise;
use crate::base::squarem::Reach;
use crate::{Error, Result};

/// Multiplications per job in the sums over a worker's moments.
const BLOCK: usize = 1 << 18;

/// Moments of one order: groups of as many workers, what was observed of each, and its weight.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The workers of each group, one after the other.
    pub groups: &'a [u32],
    /// Frequencies of each group's labels, the first worker's label first.
    pub values: &'a [f64],
    /// Weight of each group.
    pub weights: &'a [f64],
}

/// Arguments of [`cpd_fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The class prior to start from.
    pub prior: &'a [f64],
    /// The confusion matrices to start from, (workers × true × observed).
    pub confusion: &'a [f64],
    /// Third moments; may be empty.
    pub triples: Order<'a>,
    /// Second moments; may be empty.
    pub pairs: Order<'a>,
    /// Frequencies of each worker's labels, (workers × classes).
    pub first_values: &'a [f64],
    /// Weight of each worker's first moment; 0 leaves it out.
    pub first_weights: &'a [f64],
    /// Most sweeps.
    pub max_iter: usize,
    /// Stop when a cycle of two or three sweeps lowers the squares by less than this share of those of the data.
    pub tol: f64,
}

/// Fits prior and confusion matrices to moments of up to the third order; never lowers the objective.
///
/// A worker without moments keeps its start. Time O(triples · classes⁴ + pairs · classes³ + workers · classes³) a
/// sweep, memory O(workers · classes²) beyond the data.
pub fn cpd_fit(options: &Options<'_>, control: &Control) -> Result<Fit> {
    let mut problem = Problem::new(options, control)?;
    let k = problem.k;
    let mut point: Vec<f64> = with_room(options.confusion.len() + k)?;
    point.extend(options.confusion.iter().chain(options.prior));
    point.chunks_exact_mut(k).for_each(normalise);
    let limits = Limits { max_iter: options.max_iter, tolerance: Tolerance::Gain(options.tol * problem.squares) };
    let start = problem.objective(&point)?;
    let mut course = Course { history: vec![start], ..Course::default() };
    course.accelerated(&mut problem, &mut point, limits, control)?;
    let prior = point.split_off(point.len() - k);
    let Course { history, n_iter, converged, .. } = course;
    Ok(Fit { prior, confusion: point, history, n_iter, converged })
}

/// The triples of each worker, in one list.
struct Triples {
    offsets: Vec<usize>,
    /// Which triple, and the worker's place in it.
    links: Vec<(u32, u8)>,
}

impl Triples {
    fn new(n_workers: usize, triples: &[u32]) -> Result<Self> {
        if !triples.len().is_multiple_of(3) || triples.len() / 3 > u32::MAX as usize {
            return Err(Error::invalid(format!("{} numbers do not make a list of triples of workers", triples.len())));
        }
        let mut offsets = zeros::<usize>(n_workers + 1)?;
        for t in triples.chunks_exact(3) {
            if t[0] == t[1] || t[1] == t[2] || t[0] == t[2] || t.iter().any(|&m| m as usize >= n_workers) {
                let [a, b, c] = [t[0], t[1], t[2]];
                return Err(Error::invalid(format!("({a}, {b}, {c}) is not a triple of three of {n_workers} workers")));
            }
            t.iter().for_each(|&m| offsets[m as usize + 1] += 1);
        }
        (0..n_workers).for_each(|m| offsets[m + 1] += offsets[m]);
        let mut next = copied(&offsets)?;
        let mut links = filled((0, 0), triples.len())?;
        for (i, &m) in triples.iter().enumerate() {
            links[next[m as usize]] = ((i / 3) as u32, (i % 3) as u8);
            next[m as usize] += 1;
        }
        Ok(Self { offsets, links })
    }

    fn of(&self, worker: usize) -> &[(u32, u8)] {
        &self.links[self.offsets[worker]..self.offsets[worker + 1]]
    }
}

/// The moments, and what is known of the present point.
struct Problem<'a> {
    k: usize,
    n_workers: usize,
    options: Options<'a>,
    triples: Triples,
    pairs: Adjacency,
    control: &'a Control,
    /// Half the weighted squares of the data.
    squares: f64,
    /// C·Cᵀ of each worker at the present point, (workers × classes × classes).
    grams: Vec<f64>,
    /// The dual variables of each worker's last ADMM, and then the prior's; with the penalty they belong to.
    duals: Vec<f64>,
    penalties: Vec<f64>,
}

impl<'a> Problem<'a> {
    fn new(options: &Options<'a>, control: &'a Control) -> Result<Self> {
        let k = options.prior.len();
        if k == 0 {
            return Err(Error::invalid("the prior is empty; it needs a number for each class"));
        }
        let m = options.confusion.len() / (k * k);
        sized("the given confusion", options.confusion.len(), m * k * k)?;
        let (triples, pairs) = (&options.triples, &options.pairs);
        let links = (Triples::new(m, triples.groups)?, Adjacency::new(m, pairs.groups)?);
        sized("the weights of the triples", triples.weights.len(), triples.groups.len() / 3)?;
        sized("the values of the triples", triples.values.len(), triples.weights.len() * k * k * k)?;
        sized("the weights of the pairs", pairs.weights.len(), pairs.groups.len() / 2)?;
        sized("the values of the pairs", pairs.values.len(), pairs.weights.len() * k * k)?;
        sized("the weights of the first moments", options.first_weights.len(), m)?;
        sized("the values of the first moments", options.first_values.len(), m * k)?;
        not_negative("the given prior", options.prior)?;
        not_negative("the given confusion", options.confusion)?;
        not_negative("the weights of the triples", triples.weights)?;
        not_negative("the weights of the pairs", pairs.weights)?;
        not_negative("the weights of the first moments", options.first_weights)?;
        finite("the values of the triples", triples.values)?;
        finite("the values of the pairs", pairs.values)?;
        finite("the values of the first moments", options.first_values)?;
        let squares = half_squares(triples.values, triples.weights)
            + half_squares(pairs.values, pairs.weights)
            + half_squares(options.first_values, options.first_weights);
        Ok(Self {
            k,
            n_workers: m,
            options: *options,
            triples: links.0,
            pairs: links.1,
            control,
            squares,
            grams: zeros(m * k * k)?,
            duals: zeros(m * k * k + k)?,
            penalties: zeros(m + 1)?,
        })
    }

    /// The objective at a point.
    fn objective(&mut self, point: &[f64]) -> Result<f64> {
        let kk = self.k * self.k;
        let (confusion, prior) = point.split_at(self.n_workers * kk);
        for (gram, own) in self.grams.chunks_exact_mut(kk).zip(confusion.chunks_exact(kk)) {
            outer(own, self.k, gram);
        }
        let block = self.prior_block(confusion)?;
        Ok(self.at(&block, prior))
    }

    /// The objective of a prior whose block is given.
    fn at(&self, block: &Block, prior: &[f64]) -> f64 {
        // Of an exact fit rounding may leave less than nothing.
        -(self.squares + value(&block.gram, &block.linear, prior, self.k, 1)).max(0.0)
    }

    /// The quadratic in worker `m`'s confusion matrix.
    fn worker_block(&self, m: usize, confusion: &[f64], prior: &[f64]) -> Result<Option<Block>> {
        let (k, kk) = (self.k, self.k * self.k);
        let (triples, pairs) = (self.triples.of(m), self.pairs.of(m));
        let first = self.options.first_weights[m];
        if triples.is_empty() && pairs.is_empty() && first <= 0.0 {
            return Ok(None);
        }
        let of = |m: u32| (&confusion[m as usize * kk..][..kk], &self.grams[m as usize * kk..][..kk]);
        let add_triple = |to: &mut Block, _: &mut [f64], (triple, place): (u32, u8)| {
            let at = triple as usize;
            let workers = &self.options.triples.groups[3 * at..3 * at + 3];
            let values = &self.options.triples.values[at * kk * k..][..kk * k];
            let weight = self.options.triples.weights[at];
            let (others, strides) = match place {
                0 => ([workers[1], workers[2]], [kk, k, 1]),
                1 => ([workers[0], workers[2]], [k, kk, 1]),
                _ => ([workers[0], workers[1]], [1, kk, k]),
            };
            let [(a, gram_a), (b, gram_b)] = [of(others[0]), of(others[1])];
            to.gram.iter_mut().zip(gram_a).zip(gram_b).for_each(|((to, x), y)| *to += weight * x * y);
            contract_third(values, strides, a, b, weight, k, &mut to.linear);
        };
        let mut block = self.sum(triples, kk * kk, k, add_triple)?;
        let add_pair = |to: &mut Block, _: &mut [f64], link: super::Link| {
            let at = link.pair as usize;
            let values = &self.options.pairs.values[at * kk..][..kk];
            let weight = self.options.pairs.weights[at];
            let (other, gram) = of(link.partner);
            to.gram.iter_mut().zip(gram).for_each(|(to, x)| *to += weight * x);
            contract_second(values, link.first, other, weight, k, &mut to.linear);
        };
        block.add(&self.sum(pairs, kk * k, k, add_pair)?);
        if first > 0.0 {
            let mu = &self.options.first_values[m * k..][..k];
            block.gram.iter_mut().for_each(|to| *to += first);
            for row in block.linear.chunks_exact_mut(k) {
                row.iter_mut().zip(mu).for_each(|(to, x)| *to += first * x);
            }
        }
        for i in 0..k {
            (0..k).for_each(|j| block.gram[i * k + j] *= prior[i] * prior[j]);
            (0..k).for_each(|l| block.linear[i * k + l] *= prior[i]);
        }
        Ok(Some(block))
    }

    /// The quadratic in the prior.
    fn prior_block(&self, confusion: &[f64]) -> Result<Block> {
        let (k, kk) = (self.k, self.k * self.k);
        let of = |m: u32| (&confusion[m as usize * kk..][..kk], &self.grams[m as usize * kk..][..kk]);
        let Order { groups, values, weights } = self.options.triples;
        let add_triple = |to: &mut Block, scratch: &mut [f64], at: u32| {
            let at = at as usize;
            let [(a, gram_a), (b, gram_b), (c, gram_c)] = [0, 1, 2].map(|i| of(groups[3 * at + i]));
            let weight = weights[at];
            for (((to, x), y), z) in to.gram.iter_mut().zip(gram_a).zip(gram_b).zip(gram_c) {
                *to += weight * x * y * z;
            }
            let linear = &mut scratch[..kk];
            linear.fill(0.0);
            contract_third(&values[at * kk * k..][..kk * k], [kk, k, 1], b, c, weight, k, linear);
            add_rowwise(&mut to.linear, linear, a, k);
        };
        let all: Vec<u32> = collected((0..weights.len()).map(|at| at as u32))?;
        let mut block = self.sum(&all, kk * kk, 1, add_triple)?;
        let Order { groups, values, weights } = self.options.pairs;
        let add_pair = |to: &mut Block, scratch: &mut [f64], at: u32| {
            let at = at as usize;
            let [(a, gram_a), (b, gram_b)] = [0, 1].map(|i| of(groups[2 * at + i]));
            to.gram.iter_mut().zip(gram_a).zip(gram_b).for_each(|((to, x), y)| *to += weights[at] * x * y);
            let linear = &mut scratch[..kk];
            linear.fill(0.0);
            contract_second(&values[at * kk..][..kk], true, b, weights[at], k, linear);
            add_rowwise(&mut to.linear, linear, a, k);
        };
        let all: Vec<u32> = collected((0..weights.len()).map(|at| at as u32))?;
        block.add(&self.sum(&all, kk * k, 1, add_pair)?);
        let add_first = |to: &mut Block, _: &mut [f64], m: u32| {
            let (own, gram) = of(m);
            let (weight, mu) = (self.options.first_weights[m as usize], &self.options.first_values[m as usize * k..]);
            to.gram.iter_mut().zip(gram).for_each(|(to, x)| *to += weight * x);
            for (to, row) in to.linear.iter_mut().zip(own.chunks_exact(k)) {
                *to += weight * row.iter().zip(mu).map(|(x, y)| x * y).sum::<f64>();
            }
        };
        let all: Vec<u32> = collected((0..self.n_workers).map(|m| m as u32))?;
        block.add(&self.sum(&all, kk, 1, add_first)?);
        Ok(block)
    }

    /// Adds up moments in jobs of a size fixed by the data, in their order. `cost` is that of one moment.
    fn sum<T: Copy + Sync>(
        &self,
        moments: &[T],
        cost: usize,
        width: usize,
        add: impl Fn(&mut Block, &mut [f64], T) + Sync,
    ) -> Result<Block> {
        let k = self.k;
        let parts: Vec<Block> = moments
            .par_chunks((BLOCK / cost).max(1))
            .map_init(
                || zeros(k * k),
                |scratch, moments| {
                    self.control.check()?;
                    let (scratch, mut part) = (ready(scratch)?, Block::zero(k, width)?);
                    moments.iter().for_each(|&moment| add(&mut part, scratch, moment));
                    Ok(part)
                },
            )
            .collect::<Result<_>>()?;
        let mut total = Block::zero(k, width)?;
        parts.iter().for_each(|part| total.add(part));
        Ok(total)
    }
}

impl Steps for Problem<'_> {
    type Point = Vec<f64>;

    fn step(&mut self, point: &mut Vec<f64>) -> Result<f64> {
        let (k, kk) = (self.k, self.k * self.k);
        let (confusion, prior) = point.split_at_mut(self.n_workers * kk);
        for (gram, own) in self.grams.chunks_exact_mut(kk).zip(confusion.chunks_exact(kk)) {
            outer(own, k, gram);
        }
        for m in 0..self.n_workers {
            if let Some(block) = self.worker_block(m, confusion, prior)? {
                let own = &mut confusion[m * kk..(m + 1) * kk];
                let dual = &mut self.duals[m * kk..(m + 1) * kk];
                improve(&block, own, k, k, dual, &mut self.penalties[m])?;
                outer(own, k, &mut self.grams[m * kk..(m + 1) * kk]);
            }
        }
        let block = self.prior_block(confusion)?;
        let dual = &mut self.duals[self.n_workers * kk..];
        improve(&block, prior, k, 1, dual, &mut self.penalties[self.n_workers])?;
        Ok(self.at(&block, prior))
    }

    fn copy(point: &Vec<f64>) -> Result<Vec<f64>> {
        copied(point)
    }

    fn extrapolate(&self, points: [&Vec<f64>; 3], reach: &mut Reach) -> Result<Option<Vec<f64>>> {
        let mut point = reach.extrapolate(points)?;
        if let Some(point) = &mut point {
            point.par_chunks_mut(self.k).for_each(project);
        }
        Ok(point)
    }
}

/// `own` · `own`ᵀ, over classes.
fn outer(own: &[f64], k: usize, gram: &mut [f64]) {
    for (i, a) in own.chunks_exact(k).enumerate() {
        for (j, b) in own.chunks_exact(k).enumerate() {
            gram[i * k + j] = a.iter().zip(b).map(|(x, y)| x * y).sum();
        }
    }
}

/// Half the weighted sum of squares of blocks of equal size.
fn half_squares(values: &[f64], weights: &[f64]) -> f64 {
    let size = values.len().checked_div(weights.len()).unwrap_or(0).max(1);
    let blocks = values.chunks_exact(size).zip(weights);
    0.5 * blocks.map(|(block, w)| w * block.iter().map(|x| x * x).sum::<f64>()).sum::<f64>()
}

/// Adds to `to[k]` the product of row k of `a` with row k of `b`.
fn add_rowwise(to: &mut [f64], a: &[f64], b: &[f64], k: usize) {
    for ((to, a), b) in to.iter_mut().zip(a.chunks_exact(k)).zip(b.chunks_exact(k)) {
        *to += a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    }
}

/// Adds Σ weight · values\[l, l′\] · other\[k, l′\] to `to[k, l]`; `first` states whether l numbers the rows.
fn contract_second(values: &[f64], first: bool, other: &[f64], weight: f64, k: usize, to: &mut [f64]) {
    let (own_stride, other_stride) = if first { (k, 1) } else { (1, k) };
    for (to, other) in to.chunks_exact_mut(k).zip(other.chunks_exact(k)) {
        for (l, to) in to.iter_mut().enumerate() {
            let sum: f64 = other.iter().enumerate().map(|(b, x)| x * values[l * own_stride + b * other_stride]).sum();
            *to += weight * sum;
        }
    }
}

/// Adds Σ weight · values\[l, l′, l″\] · a\[k, l′\] · b\[k, l″\] to `to[k, l]`, where the strides are those of l, l′
/// and l″.
#[allow(clippy::too_many_arguments)]
fn contract_third(values: &[f64], strides: [usize; 3], a: &[f64], b: &[f64], weight: f64, k: usize, to: &mut [f64]) {
    let [own, first, second] = strides;
    for ((to, a), b) in to.chunks_exact_mut(k).zip(a.chunks_exact(k)).zip(b.chunks_exact(k)) {
        for (l, to) in to.iter_mut().enumerate() {
            let mut sum = 0.0;
            for (i, x) in a.iter().enumerate() {
                let line = l * own + i * first;
                sum += x * b.iter().enumerate().map(|(j, y)| y * values[line + j * second]).sum::<f64>();
            }
            *to += weight * sum;
        }
    }
}
