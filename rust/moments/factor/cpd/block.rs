//! A quadratic program over rows on the simplex: one block of the decomposition, with the others held.

use crate::Result;
use crate::base::memory::{copied, zeros};
use crate::base::num::{cholesky, cholesky_solve};
use crate::moments::factor::simplex::project;

/// Most iterations of ADMM on one block.
const INNER: usize = 50;

/// ADMM stops where both residuals are below this share of the entries' scale.
const INNER_TOL: f64 = 1e-10;

/// A quadratic in the confusion matrix of one worker, or in the prior: ½ tr(Xᵀ·gram·X) − tr(linearᵀ·X).
pub(super) struct Block {
    /// (classes × classes).
    pub gram: Vec<f64>,
    /// (classes × columns of X).
    pub linear: Vec<f64>,
}

impl Block {
    pub fn zero(k: usize, width: usize) -> Result<Self> {
        Ok(Self { gram: zeros(k * k)?, linear: zeros(k * width)? })
    }

    pub fn add(&mut self, other: &Self) {
        self.gram.iter_mut().zip(&other.gram).for_each(|(a, b)| *a += b);
        self.linear.iter_mut().zip(&other.linear).for_each(|(a, b)| *a += b);
    }
}

/// ½ tr(Xᵀ·gram·X) − tr(linearᵀ·X).
pub(super) fn value(gram: &[f64], linear: &[f64], x: &[f64], k: usize, width: usize) -> f64 {
    let mut sum = 0.0;
    for i in 0..k {
        for j in 0..k {
            let along: f64 = (0..width).map(|l| x[i * width + l] * x[j * width + l]).sum();
            sum += 0.5 * gram[i * k + j] * along;
        }
        sum -= (0..width).map(|l| linear[i * width + l] * x[i * width + l]).sum::<f64>();
    }
    sum
}

/// Lowers a block's quadratic, by ADMM or else by a step along the projected gradient; leaves `x` where neither does.
///
/// With `width` columns, rows of `x` are on the simplex; with one, the whole of it is.
pub(super) fn improve(
    block: &Block,
    x: &mut [f64],
    k: usize,
    width: usize,
    dual: &mut [f64],
    penalty: &mut f64,
) -> Result<()> {
    let before = value(&block.gram, &block.linear, x, k, width);
    let better = |candidate: &[f64]| value(&block.gram, &block.linear, candidate, k, width) < before;
    if let Some(solution) = admm(block, x, k, width, dual, penalty)?.filter(|candidate| better(candidate)) {
        x.copy_from_slice(&solution);
        return Ok(());
    }
    let solution = projected_gradient(block, x, k, width)?;
    if better(&solution) {
        x.copy_from_slice(&solution);
    }
    Ok(())
}

fn project_rows(x: &mut [f64], k: usize) {
    // The prior is a column, and one row of the simplex all the same.
    x.chunks_exact_mut(k).for_each(project);
}

fn projected_gradient(block: &Block, x: &[f64], k: usize, width: usize) -> Result<Vec<f64>> {
    let steepest = block.gram.chunks_exact(k).map(|row| row.iter().map(|g| g.abs()).sum()).fold(0.0, f64::max);
    let step = if steepest > 0.0 { 1.0 / steepest } else { 0.0 };
    let mut to = copied(x)?;
    for i in 0..k {
        for l in 0..width {
            let curve: f64 = (0..k).map(|j| block.gram[i * k + j] * x[j * width + l]).sum();
            to[i * width + l] -= step * (curve - block.linear[i * width + l]);
        }
    }
    project_rows(&mut to, k);
    Ok(to)
}

/// The alternating direction method of multipliers; nothing where the block has no curvature.
fn admm(
    block: &Block,
    x: &[f64],
    k: usize,
    width: usize,
    dual: &mut [f64],
    penalty: &mut f64,
) -> Result<Option<Vec<f64>>> {
    let rho = (0..k).map(|i| block.gram[i * k + i]).sum::<f64>() / k as f64;
    if !(rho > 0.0 && rho.is_finite()) {
        return Ok(None);
    }
    let mut factor = copied(&block.gram)?;
    if !cholesky(&mut factor, rho, k) {
        return Ok(None);
    }
    let rescale = *penalty / rho;
    dual.iter_mut().for_each(|u| *u *= rescale);
    *penalty = rho;
    let mut z = copied(x)?;
    let (mut free, mut old) = (zeros(z.len())?, zeros(z.len())?);
    for _ in 0..INNER {
        for (((free, f), z), u) in free.iter_mut().zip(&block.linear).zip(&z).zip(dual.iter()) {
            *free = f + rho * (z - u);
        }
        cholesky_solve(&factor, &mut free, k, width);
        old.copy_from_slice(&z);
        z.iter_mut().zip(&free).zip(dual.iter()).for_each(|((z, x), u)| *z = x + u);
        project_rows(&mut z, k);
        let (mut apart, mut moved) = (0.0_f64, 0.0_f64);
        for (((u, x), z), old) in dual.iter_mut().zip(&free).zip(&z).zip(&old) {
            *u += x - z;
            apart = apart.max((x - z).abs());
            moved = moved.max((z - old).abs());
        }
        if apart < INNER_TOL && moved < INNER_TOL {
            break;
        }
    }
    Ok(Some(z))
}
