//! Conjugate gradients, for several right sides at a time.

use rayon::prelude::*;

use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{copied, zeros};

/// Rows of a block of vectors; sums are added block by block, whatever the number of threads.
const ROWS: usize = 1 << 12;
/// Most steps of conjugate gradients in one solution.
const MOST_STEPS: usize = 1000;

/// A symmetric, positive definite matrix that need not be written down.
pub(super) trait Matrix {
    /// Its diagonal.
    fn diagonal(&self) -> &[f64];
    /// How far a point with this gradient is from the summit, about: the mean square of its error in standard errors.
    fn distance(&self, gradient: &[f64]) -> f64 {
        let sum: f64 = gradient.iter().zip(self.diagonal()).map(|(slope, bend)| slope * slope / bend).sum();
        sum / gradient.len() as f64
    }
    /// The product with vectors, `B` of them side by side.
    fn times<const B: usize>(&self, vectors: &[f64], product: &mut [f64], control: &Control) -> Result<()>;
}

/// Solves for right sides, `B` of them side by side, by conjugate gradients with the diagonal as preconditioner, until
/// each residual, in the norm of the preconditioner, is this share of its right side.
pub(super) fn solve<const B: usize>(
    matrix: &impl Matrix,
    right: &[f64],
    exactness: f64,
    control: &Control,
) -> Result<Vec<f64>> {
    let diagonals = matrix.diagonal();
    let len = right.len();
    let (mut solution, mut product): (Vec<f64>, Vec<f64>) = (zeros(len)?, zeros(len)?);
    let mut residual = copied(right)?;
    let mut way = zeros(len)?;
    way.par_chunks_mut(B)
        .zip(right.par_chunks(B))
        .zip(diagonals)
        .with_min_len(ROWS)
        .for_each(|((way, right), diagonal)| way.iter_mut().zip(right).for_each(|(to, x)| *to = x / diagonal));
    let mut norm = dots::<B>(&way, &residual);
    let goal = norm.map(|norm| norm * exactness * exactness);
    for _ in 0..MOST_STEPS {
        control.check()?;
        if norm.iter().zip(&goal).all(|(norm, goal)| norm <= goal) {
            break;
        }
        matrix.times::<B>(&way, &mut product, control)?;
        let steep = dots::<B>(&way, &product);
        let mut length = [0.0; B];
        for lane in 0..B {
            // A lane that is done, or has nothing to do, stays where it is.
            length[lane] = if steep[lane] > 0.0 && norm[lane] > goal[lane] { norm[lane] / steep[lane] } else { 0.0 };
        }
        let parts = solution
            .par_chunks_mut(ROWS * B)
            .zip(residual.par_chunks_mut(ROWS * B))
            .zip(way.par_chunks(ROWS * B))
            .zip(product.par_chunks(ROWS * B))
            .zip(diagonals.par_chunks(ROWS))
            .map(|((((solution, residual), way), product), diagonal)| {
                let mut sum = [0.0; B];
                for (i, diagonal) in diagonal.iter().enumerate() {
                    for lane in 0..B {
                        let at = i * B + lane;
                        solution[at] += length[lane] * way[at];
                        residual[at] -= length[lane] * product[at];
                        sum[lane] += residual[at] * residual[at] / diagonal;
                    }
                }
                sum
            })
            .collect();
        let next = lanes::<B>(parts);
        let mut share = [0.0; B];
        for lane in 0..B {
            share[lane] = if norm[lane] > 0.0 { next[lane] / norm[lane] } else { 0.0 };
        }
        norm = next;
        way.par_chunks_mut(ROWS * B).zip(residual.par_chunks(ROWS * B)).zip(diagonals.par_chunks(ROWS)).for_each(
            |((way, residual), diagonal)| {
                for (i, diagonal) in diagonal.iter().enumerate() {
                    for (lane, share) in share.iter().enumerate() {
                        let at = i * B + lane;
                        way[at] = residual[at] / diagonal + share * way[at];
                    }
                }
            },
        );
    }
    Ok(solution)
}

/// Sums of a job over blocks of rows, for each lane, in the order of blocks.
fn lanes<const B: usize>(parts: Vec<[f64; B]>) -> [f64; B] {
    parts.into_iter().fold([0.0; B], |mut sum, part| {
        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
        sum
    })
}

/// Inner products of vectors side by side.
fn dots<const B: usize>(a: &[f64], b: &[f64]) -> [f64; B] {
    let part = |(a, b): (&[f64], &[f64])| {
        let mut sum = [0.0; B];
        for (a, b) in a.chunks_exact(B).zip(b.chunks_exact(B)) {
            (0..B).for_each(|lane| sum[lane] += a[lane] * b[lane]);
        }
        sum
    };
    lanes::<B>(a.par_chunks(ROWS * B).zip(b.par_chunks(ROWS * B)).map(part).collect())
}
