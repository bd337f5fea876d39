//! The covariance of workers as low rank plus diagonal, without ever forming it.
//!
//! Least squares on the off-diagonal entries Σ (zᵢzⱼ − aᵢ·aⱼ)², over all pairs of different workers on all tasks, has normal
//! equations whose sums over a worker's partners are those over its tasks, less its own part: each pass is linear in the
//! number of ratings.

use super::{View, each_chunk};
use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::base::num::{cholesky, cholesky_solve};
use crate::{Error, Result};

/// What the factors say of the tasks.
#[derive(Debug)]
pub struct Scores {
    /// Expectation and variance of target · f for each task, (tasks × 2).
    pub tasks: Vec<f64>,
}

fn check(view: &View<'_>, means: &[f64], factors: &[f64], rank: usize) -> Result<()> {
    let m = view.table().n_workers();
    if rank == 0 || factors.len() != m * rank || means.len() != m {
        return Err(Error::invalid(format!(
            "{} means and {} numbers cannot be {rank} factors of {m} workers",
            means.len(),
            factors.len()
        )));
    }
    Ok(())
}

/// Sums of each worker's normal equations, (workers × (rank + rank²)): Σ w·z·(Σ w·z·a of the others on the task), and
/// Σ w·(Σ w·a·aᵀ of the others), where z are ratings less their workers' means.
///
/// Ratings of one worker on one task do not meet each other. O(ratings · rank²).
pub fn covariance_sums(
    view: &View<'_>,
    means: &[f64],
    factors: &[f64],
    rank: usize,
    control: &Control,
) -> Result<Vec<f64>> {
    check(view, means, factors, rank)?;
    let table = view.table();
    let depth = rank + rank * rank;
    each_chunk(table, (&mut [], 0), depth, control, &|tasks, _, sums| {
        let (mut all, mut own) = (vec![0.0; depth], vec![0.0; depth]);
        for task in tasks {
            let rows = table.rows_of(task);
            all.fill(0.0);
            rows.clone().for_each(|row| add(view, means, factors, rank, row, &mut all));
            let mut row = rows.start;
            while row < rows.end {
                let worker = view.worker(row);
                let end = (row..rows.end).find(|&at| view.worker(at) != worker).unwrap_or(rows.end);
                own.fill(0.0);
                (row..end).for_each(|at| add(view, means, factors, rank, at, &mut own));
                let (mut pulls, mut weights) = (0.0, 0.0);
                for at in row..end {
                    pulls += view.weight(at) * (view.at(at) - means[worker]);
                    weights += view.weight(at);
                }
                let to = &mut sums[worker * depth..][..depth];
                for (i, to) in to.iter_mut().enumerate() {
                    *to += if i < rank { pulls } else { weights } * (all[i] - own[i]);
                }
                row = end;
            }
        }
    })
}

/// Adds w·z·a and w·a·aᵀ of a rating.
#[inline(always)]
fn add(view: &View<'_>, means: &[f64], factors: &[f64], rank: usize, row: usize, to: &mut [f64]) {
    let (worker, weight) = (view.worker(row), view.weight(row));
    let z = view.at(row) - means[worker];
    let a = &factors[worker * rank..][..rank];
    for i in 0..rank {
        to[i] += weight * z * a[i];
        for j in 0..rank {
            to[rank + i * rank + j] += weight * a[i] * a[j];
        }
    }
}

/// Expectation and variance of `target` · f on each task, where ratings are means + a·f + noise of the precisions given and
/// f is standard normal: the best linear predictor.
///
/// O(ratings · rank² + tasks · rank³).
pub fn factor_scores(
    view: &View<'_>,
    (means, precisions): (&[f64], &[f64]),
    (factors, target): (&[f64], &[f64]),
    control: &Control,
) -> Result<Scores> {
    let rank = target.len();
    check(view, means, factors, rank)?;
    let table = view.table();
    if precisions.len() != means.len() {
        return Err(Error::invalid(format!("{} precisions for {} workers", precisions.len(), means.len())));
    }
    let mut tasks = zeros(2 * table.n_tasks())?;
    each_chunk(table, (&mut tasks, 2), 0, control, &|range, out, _| {
        let (mut matrix, mut right) = (vec![0.0; rank * rank], vec![0.0; 2 * rank]);
        for (task, out) in range.zip(out.chunks_exact_mut(2)) {
            matrix.fill(0.0);
            right.fill(0.0);
            for row in table.rows_of(task) {
                let worker = view.worker(row);
                let a = &factors[worker * rank..][..rank];
                let precision = view.weight(row) * precisions[worker];
                for i in 0..rank {
                    right[2 * i] += precision * a[i] * (view.at(row) - means[worker]);
                    for j in 0..rank {
                        matrix[i * rank + j] += precision * a[i] * a[j];
                    }
                }
            }
            for (i, t) in target.iter().enumerate() {
                right[2 * i + 1] = *t;
            }
            // The identity is the prior of f: what is added to it has no negative eigenvalue.
            if cholesky(&mut matrix, 1.0, rank) {
                cholesky_solve(&matrix, &mut right, rank, 2);
            }
            for (place, to) in out.iter_mut().enumerate() {
                *to = target.iter().enumerate().map(|(i, t)| t * right[2 * i + place]).sum();
            }
        }
    })?;
    Ok(Scores { tasks })
}
