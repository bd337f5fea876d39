//! Blocks of pairs of workers as products of few factors: C\[m, m′\] ≈ `V_m` · `V_m′`ᵀ.
//!
//! The blocks are covariances, or agreements (one number per block), from whatever pairs were seen; a worker's block
//! with itself is not among them, which is what "low rank plus diagonal" means. The objective is Σ weight · ‖C\[m, m′\]
//! − `V_m` · `V_m′`ᵀ‖² over the pairs plus ridge · Σ ‖`V_m`‖² over the workers. Given all others, the best factor of
//! one worker is a ridge regression, and workers take turns.

use rayon::prelude::*;

use super::{Adjacency, Link, check_pairs, finite, not_negative, sized};
use crate::base::control::Control;
use crate::base::course::Course;
use crate::base::memory::{copied, prefetch, ready, zeros};
use crate::base::num::{cholesky, cholesky_solve};
use crate::{Error, Result};

/// Arguments of [`low_rank_fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Pairs of workers, (first, second) one after the other.
    pub pairs: &'a [u32],
    /// A block for each pair, (pairs × width × width), the rows the first worker's.
    pub blocks: &'a [f64],
    /// Weight of each pair.
    pub weights: &'a [f64],
    /// Side of a block.
    pub width: usize,
    /// Number of factors.
    pub rank: usize,
    /// How strongly factors are drawn to zero.
    pub ridge: f64,
    /// Most sweeps over all workers.
    pub max_iter: usize,
    /// Stop when no number moves by more than this share of the largest.
    pub tol: f64,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct LowRank {
    /// Factors, (workers × width × rank).
    pub factor: Vec<f64>,
    /// Sweeps made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// Workers take turns in this many groups; within a group all move at once.
const TURNS: usize = 32;
/// Multiplications between two looks at the control.
const WORK_PER_CHECK: usize = 1 << 18;
/// The blocks of a worker's pairs lie apart, and are asked for this many pairs ahead.
const AHEAD: usize = 16;

/// Fits factors to the blocks of pairs, from `start` (workers × width × rank).
///
/// A worker without pairs gets zeros. Groups that take turns are every 32nd worker, so that the outcome does not depend
/// on the number of threads. Time O(pairs · width · rank · (width + rank)) a sweep, memory 12 bytes per pair's end and
/// twice the factors.
pub fn low_rank_fit(start: &[f64], options: &Options<'_>, control: &Control) -> Result<LowRank> {
    let problem = Problem::new(start, options)?;
    let mut factor = copied(start)?;
    let cells = problem.width * problem.rank;
    let n_workers = problem.adjacency.n_workers();
    let mut next = zeros::<f64>(n_workers.div_ceil(TURNS) * cells)?;
    let mut course = Course::default();
    while course.running(options.max_iter) {
        let mut change = 0.0_f64;
        for turn in 0..TURNS.min(n_workers) {
            let movers = (n_workers - turn).div_ceil(TURNS);
            let fresh = &mut next[..movers * cells];
            let job = |scratch: &mut Result<Scratch>, (i, rows): (usize, &mut [f64])| {
                problem.regress(turn + i * TURNS, &factor, rows, ready(scratch)?, control)
            };
            fresh.par_chunks_mut(cells).enumerate().map_init(|| problem.scratch(), job).collect::<Result<()>>()?;
            for (i, rows) in fresh.chunks_exact(cells).enumerate() {
                let at = (turn + i * TURNS) * cells;
                let old = &mut factor[at..at + cells];
                change = old.iter().zip(rows).fold(change, |moved, (a, b)| moved.max((a - b).abs()));
                old.copy_from_slice(rows);
            }
        }
        course.record(change, control);
        let largest = factor.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        if !largest.is_finite() {
            return Err(Error::invalid("the blocks are too large to be factored; divide them by a number"));
        }
        course.converged = change <= options.tol * largest;
    }
    Ok(LowRank { factor, n_iter: course.n_iter, converged: course.converged })
}

/// Trace and squared norm of what the factors leave of each block, (pairs × 2).
///
/// Time O(pairs · width² · rank).
pub fn low_rank_residuals(
    pairs: &[u32],
    blocks: &[f64],
    factor: &[f64],
    [b, rank]: [usize; 2],
    control: &Control,
) -> Result<Vec<f64>> {
    let n_workers = n_workers(factor, b, rank)?;
    check_pairs(n_workers, pairs)?;
    sized("blocks", blocks.len(), (pairs.len() / 2).saturating_mul(b * b))?;
    let cells = b * rank;
    let mut out = zeros::<f64>(pairs.len())?;
    let per_job = (WORK_PER_CHECK / (b * cells)).max(1);
    out.par_chunks_mut(2 * per_job).enumerate().try_for_each(|(job, sums)| {
        control.check()?;
        for (i, sum) in sums.chunks_exact_mut(2).enumerate() {
            let p = job * per_job + i;
            let [left, right] = [0, 1].map(|end| {
                let at = pairs[2 * p + end] as usize * cells;
                &factor[at..at + cells]
            });
            let block = &blocks[p * b * b..(p + 1) * b * b];
            for (row, u) in left.chunks_exact(rank).enumerate() {
                for (column, v) in right.chunks_exact(rank).enumerate() {
                    let rest = block[row * b + column] - u.iter().zip(v).map(|(x, y)| x * y).sum::<f64>();
                    sum[0] += if row == column { rest } else { 0.0 };
                    sum[1] += rest * rest;
                }
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// For how many workers there are factors.
fn n_workers(factor: &[f64], width: usize, rank: usize) -> Result<usize> {
    match width.checked_mul(rank) {
        Some(cells) if cells > 0 && factor.len().is_multiple_of(cells) => Ok(factor.len() / cells),
        _ => Err(Error::invalid(format!(
            "{} numbers do not make factors of {width} rows and {rank} columns for each worker",
            factor.len()
        ))),
    }
}

struct Problem<'a> {
    adjacency: Adjacency,
    blocks: &'a [f64],
    weights: &'a [f64],
    width: usize,
    rank: usize,
    ridge: f64,
}

/// Room for one regression: the sum of squares, and the right-hand sides.
struct Scratch {
    gram: Vec<f64>,
    right: Vec<f64>,
    done: usize,
}

impl<'a> Problem<'a> {
    fn new(factor: &[f64], options: &Options<'a>) -> Result<Self> {
        let &Options { pairs, blocks, weights, width, rank, ridge, .. } = options;
        let adjacency = Adjacency::new(n_workers(factor, width, rank)?, pairs)?;
        let n_pairs = pairs.len() / 2;
        sized("blocks", blocks.len(), n_pairs.saturating_mul(width * width))?;
        sized("weights", weights.len(), n_pairs)?;
        finite("blocks", blocks)?;
        finite("the factors", factor)?;
        not_negative("weights", weights)?;
        if !(ridge.is_finite() && ridge > 0.0) {
            return Err(Error::invalid(format!("ridge must be above 0 and finite, not {ridge}")));
        }
        Ok(Self { adjacency, blocks, weights, width, rank, ridge })
    }

    fn scratch(&self) -> Result<Scratch> {
        Ok(Scratch { gram: zeros(self.rank * self.rank)?, right: zeros(self.rank * self.width)?, done: 0 })
    }

    /// The best factor of one worker, given those of all others.
    fn regress(
        &self,
        worker: usize,
        factor: &[f64],
        rows: &mut [f64],
        scratch: &mut Scratch,
        control: &Control,
    ) -> Result<()> {
        let (b, r) = (self.width, self.rank);
        // Covariances of few classes have one factor fewer than classes.
        match (b, r) {
            (2, 1) => self.sum_fixed::<2, 1>(worker, factor, scratch, control)?,
            (3, 2) => self.sum_fixed::<3, 2>(worker, factor, scratch, control)?,
            (4, 3) => self.sum_fixed::<4, 3>(worker, factor, scratch, control)?,
            (5, 4) => self.sum_fixed::<5, 4>(worker, factor, scratch, control)?,
            shape => {
                let Scratch { gram, right, done } = scratch;
                gram.fill(0.0);
                right.fill(0.0);
                self.sum(worker, factor, shape, (gram, right), done, control)?;
            }
        }
        let Scratch { gram, right, .. } = scratch;
        // With a positive ridge it fails only where sums have overflowed, which the caller looks for.
        if cholesky(gram, self.ridge, r) {
            cholesky_solve(gram, right, r, b);
        }
        for (i, column) in right.chunks_exact(b).enumerate() {
            column.iter().enumerate().for_each(|(own, x)| rows[own * r + i] = *x);
        }
        Ok(())
    }

    /// The sums of [`Self::sum`] held in registers.
    fn sum_fixed<const B: usize, const R: usize>(
        &self,
        worker: usize,
        factor: &[f64],
        scratch: &mut Scratch,
        control: &Control,
    ) -> Result<()> {
        let (mut gram, mut right) = ([[0.0; R]; R], [[0.0; B]; R]);
        let sums = (gram.as_flattened_mut(), right.as_flattened_mut());
        self.sum(worker, factor, (B, R), sums, &mut scratch.done, control)?;
        scratch.gram.copy_from_slice(gram.as_flattened());
        scratch.right.copy_from_slice(right.as_flattened());
        Ok(())
    }

    /// Adds up the squares and the right-hand sides of one worker's regression, over its pairs.
    #[inline(always)]
    fn sum(
        &self,
        worker: usize,
        factor: &[f64],
        (b, r): (usize, usize),
        (gram, right): (&mut [f64], &mut [f64]),
        done: &mut usize,
        control: &Control,
    ) -> Result<()> {
        let links = self.adjacency.of(worker);
        let block_of = |link: &Link| link.pair as usize * b * b..(link.pair as usize + 1) * b * b;
        for (i, link) in links.iter().enumerate() {
            if let Some(later) = links.get(i + AHEAD) {
                prefetch(self.blocks, block_of(later));
            }
            let weight = self.weights[link.pair as usize];
            if weight == 0.0 {
                continue;
            }
            let block = &self.blocks[block_of(link)];
            let other = &factor[link.partner as usize * b * r..][..b * r];
            if link.first {
                add(weight, other, (b, r), gram, right, |own, label| block[own * b + label]);
            } else {
                add(weight, other, (b, r), gram, right, |own, label| block[label * b + own]);
            }
            *done += b * r * (b + r);
            if *done > WORK_PER_CHECK {
                *done = 0;
                control.check()?;
            }
        }
        Ok(())
    }
}

/// Adds one pair to the sums of a regression: the factor of the other worker, and the pair's block, own label first.
#[inline(always)]
fn add(
    weight: f64,
    other: &[f64],
    (b, r): (usize, usize),
    gram: &mut [f64],
    right: &mut [f64],
    block: impl Fn(usize, usize) -> f64,
) {
    for label in 0..b {
        let v = &other[label * r..(label + 1) * r];
        for i in 0..r {
            let scaled = weight * v[i];
            (0..=i).for_each(|j| gram[i * r + j] += scaled * v[j]);
            (0..b).for_each(|own| right[i * b + own] += scaled * block(own, label));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of side 2 that are products of factors of rank 2, of all pairs of `n` workers.
    fn exact(n: usize) -> (Vec<u32>, Vec<f64>, Vec<f64>) {
        let truth: Vec<f64> = (0..n * 4).map(|i| ((i * i + 3 * i) % 11) as f64 / 11.0 - 0.3).collect();
        let pairs: Vec<u32> = (0..n as u32).flat_map(|a| (a + 1..n as u32).flat_map(move |b| [a, b])).collect();
        let product = |a: usize, b: usize| (0..2).map(|f| truth[a * 2 + f] * truth[b * 2 + f]).sum::<f64>();
        let blocks = pairs
            .chunks_exact(2)
            .flat_map(|p| [0, 1, 2, 3].map(|e| product(p[0] as usize * 2 + e / 2, p[1] as usize * 2 + e % 2)))
            .collect();
        (pairs, blocks, truth)
    }

    #[test]
    fn finds_factors_of_exact_products() {
        let (pairs, blocks, truth) = exact(9);
        let weights = vec![1.0; pairs.len() / 2];
        let options = Options {
            pairs: &pairs,
            blocks: &blocks,
            weights: &weights,
            width: 2,
            rank: 2,
            ridge: 1e-9,
            max_iter: 2000,
            tol: 1e-12,
        };
        let start: Vec<f64> = truth.iter().enumerate().map(|(i, x)| x + 0.1 * ((i % 7) as f64 - 3.0)).collect();
        let fit = low_rank_fit(&start, &options, &Control::default()).unwrap();
        assert!(fit.converged);
        let rest = low_rank_residuals(&pairs, &blocks, &fit.factor, [2, 2], &Control::default()).unwrap();
        assert!(rest.iter().all(|x| x.abs() < 1e-6), "{rest:?}");
        let cancelled = Control::default();
        cancelled.cancel();
        assert_eq!(low_rank_residuals(&pairs, &blocks, &fit.factor, [2, 2], &cancelled), Err(Error::Cancelled));
    }

    #[test]
    fn a_worker_without_pairs_gets_zeros() {
        let (blocks, weights) = (vec![1.0; 4], vec![1.0]);
        let options = Options {
            pairs: &[0, 1],
            blocks: &blocks,
            weights: &weights,
            width: 2,
            rank: 1,
            ridge: 1.0,
            max_iter: 3,
            tol: 0.0,
        };
        let fit = low_rank_fit(&[1.0; 6], &options, &Control::default()).unwrap();
        assert_eq!(fit.factor[4..], [0.0, 0.0]);
        assert_eq!(fit.n_iter, 3);
        let bad = Options { ridge: 0.0, ..options };
        assert!(low_rank_fit(&[1.0; 6], &bad, &Control::default()).is_err());
        assert!(low_rank_fit(&[1.0; 5], &options, &Control::default()).is_err());
    }
}
