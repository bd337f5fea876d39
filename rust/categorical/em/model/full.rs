//! The full model: a free confusion matrix per worker.

use std::ops::Range;

use super::{Grouped, Model, Shape, WorkerModel};
use crate::base::num::FLOOR;

/// Parameters, factors and counts are all labels × classes, stored label-first (`[label][class]`): the numbers that one
/// annotation touches, one for each class, lie side by side. Labels may be more than classes: abstentions can be
/// observed.
#[derive(Debug, Clone, Copy)]
pub struct Full;

impl WorkerModel for Full {
    const MODEL: Model = Model::Full;
    const FACTORS_ARE_PARAMS: bool = true;

    fn n_params(shape: Shape) -> usize {
        shape.cells()
    }
    fn n_counts(shape: Shape) -> usize {
        shape.cells()
    }

    fn write_factors(params: &[f64], _: Shape, factors: &mut [f64]) {
        factors.copy_from_slice(params);
    }

    /// The label has answered all it can say once its row is found.
    #[inline(always)]
    fn locate(cell: usize, k: usize) -> (Range<usize>, usize) {
        (cell * k..cell * k + k, 0)
    }

    #[inline(always)]
    fn multiply(factors: &[f64], _: usize, evidence: &mut [f64]) -> f64 {
        for (e, f) in evidence.iter_mut().zip(factors) {
            *e *= f;
        }
        1.0
    }

    #[inline(always)]
    fn multiply_log(factors: &[f64], _: usize, weight: f64, evidence: &mut [f64]) -> f64 {
        for (e, f) in evidence.iter_mut().zip(factors) {
            *e += weight * f;
        }
        0.0
    }

    #[inline(always)]
    fn add(counts: &mut [f64], _: usize, weight: f64, posterior: &[f64]) {
        for (c, q) in counts.iter_mut().zip(posterior) {
            *c += weight * q;
        }
    }

    fn maximise(counts: &[f64], pseudo: &[f64], shape: Shape, params: &mut [f64]) {
        for class in 0..shape.classes {
            let cells = || shape.row(class);
            let total: f64 = cells().map(|i| counts[i] + pseudo[i]).sum();
            for i in cells() {
                // A class this worker never met has no information about the row: take the one that favors no label.
                let part = if total > FLOOR { (counts[i] + pseudo[i]) / total } else { 1.0 / shape.labels as f64 };
                params[i] = part.max(FLOOR);
            }
        }
    }

    fn log_prior(params: &[f64], pseudo: &[f64], _: Shape) -> f64 {
        params.iter().zip(pseudo).filter(|(_, a)| **a > 0.0).map(|(p, a)| a * p.ln()).sum()
    }

    fn tie(matrix: &[f64], shape: Shape, counts: &mut [f64]) {
        for (class, row) in matrix.chunks_exact(shape.labels).enumerate() {
            shape.row(class).zip(row).for_each(|(i, x)| counts[i] = *x);
        }
    }

    fn confusion(params: &[f64], shape: Shape, matrix: &mut [f64]) {
        for (class, row) in matrix.chunks_exact_mut(shape.labels).enumerate() {
            shape.row(class).zip(row).for_each(|(i, x)| *x = params[i]);
        }
    }

    fn to_natural(params: &mut [f64], _: Shape) {
        params.iter_mut().for_each(|p| *p = p.ln());
    }

    fn from_natural(params: &mut [f64], shape: Shape) {
        for class in 0..shape.classes {
            let cells = || shape.row(class);
            let largest = cells().map(|i| params[i]).fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = cells().map(|i| (params[i] - largest).exp()).sum();
            for i in cells() {
                params[i] = ((params[i] - largest).exp() / total).max(FLOOR);
            }
        }
    }
}

impl Grouped for Full {
    fn n_groups(shape: Shape) -> usize {
        shape.classes
    }
    fn fold(_: &mut [f64], _: Shape) {}
    fn untie(counts: &[f64], shape: Shape, matrix: &mut [f64]) {
        Self::confusion(counts, shape, matrix);
    }
}
