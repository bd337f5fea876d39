//! The one-coin model: a worker is right with one probability, whatever the class; errors are spread evenly.

use super::{Grouped, Model, Shape, WorkerModel};
use crate::base::num::FLOOR;

/// Parameter: the accuracy. Factors: the probability of one particular error, and the ratio right : that error. Counts:
/// expected right and wrong answers. One annotation costs O(1), whatever the number of classes.
#[derive(Debug, Clone, Copy)]
pub struct OneCoin;

/// The accuracy that `right` against `wrong` answers suggest; an even guess among `k` where there are none.
pub(in crate::categorical::em) fn accuracy(right: f64, wrong: f64, k: usize) -> f64 {
    let total = right + wrong;
    let p = if total > FLOOR { right / total } else { 1.0 / k as f64 };
    bounded(p, k)
}

/// Keeps both the right answer and each error possible. With one class there are no errors to keep possible.
fn bounded(p: f64, k: usize) -> f64 {
    if k == 1 { 1.0 } else { p.clamp(FLOOR, 1.0 - f64::EPSILON / 2.0) }
}

/// The probability of one particular error, and the ratio of the right answer to it.
pub(in crate::categorical::em) fn odds(p: f64, k: usize) -> (f64, f64) {
    if k == 1 {
        return (1.0, p);
    }
    let error = ((1.0 - p) / (k - 1) as f64).max(FLOOR);
    (error, p / error)
}

pub(super) fn logit(p: f64) -> f64 {
    p.ln() - (-p).ln_1p()
}

pub(super) fn logistic(x: f64, k: usize) -> f64 {
    bounded(1.0 / (1.0 + (-x).exp()), k)
}

/// Rights and wrongs as the probability of one particular error and the ratio of the right answer to it.
pub(super) fn fold_pairs(expected: &mut [f64], k: usize) {
    let (rights, wrongs) = expected.split_at_mut(expected.len() / 2);
    for (right, wrong) in rights.iter_mut().zip(wrongs) {
        let error = if k == 1 { 1.0 } else { (*wrong / (k - 1) as f64).max(FLOOR) };
        (*right, *wrong) = (error, *right / error);
    }
}

/// A matrix with `right` on the diagonal of a row and `wrong` divided among the rest of it.
pub(super) fn spread(pairs: impl Iterator<Item = (f64, f64)>, k: usize, matrix: &mut [f64]) {
    for (class, (row, (right, wrong))) in matrix.chunks_exact_mut(k).zip(pairs).enumerate() {
        row.fill(wrong / (k - 1).max(1) as f64);
        row[class] = right;
    }
}

impl WorkerModel for OneCoin {
    const MODEL: Model = Model::OneCoin;
    const HAS_COMMON_FACTOR: bool = true;

    fn n_params(_: Shape) -> usize {
        1
    }
    fn n_counts(_: Shape) -> usize {
        2
    }

    fn write_factors(params: &[f64], Shape { classes: k, .. }: Shape, factors: &mut [f64]) {
        (factors[0], factors[1]) = odds(params[0], k);
    }

    #[inline(always)]
    fn multiply(factors: &[f64], label: usize, evidence: &mut [f64]) -> f64 {
        evidence[label] *= factors[1];
        factors[0]
    }

    #[inline(always)]
    fn multiply_log(factors: &[f64], label: usize, weight: f64, evidence: &mut [f64]) -> f64 {
        evidence[label] += weight * factors[1];
        weight * factors[0]
    }

    #[inline(always)]
    fn add(counts: &mut [f64], label: usize, weight: f64, posterior: &[f64]) {
        let right = posterior[label];
        counts[0] += weight * right;
        counts[1] += weight * (1.0 - right);
    }

    fn maximise(counts: &[f64], pseudo: &[f64], Shape { classes: k, .. }: Shape, params: &mut [f64]) {
        params[0] = accuracy(counts[0] + pseudo[0], counts[1] + pseudo[1], k);
    }

    fn log_prior(params: &[f64], pseudo: &[f64], Shape { classes: k, .. }: Shape) -> f64 {
        let (error, ratio) = odds(params[0], k);
        pseudo[0] * (error * ratio).ln() + pseudo[1] * error.ln()
    }

    fn tie(matrix: &[f64], Shape { classes: k, .. }: Shape, counts: &mut [f64]) {
        counts[0] = (0..k).map(|class| matrix[class * k + class]).sum();
        counts[1] = (0..k * k).filter(|i| i / k != i % k).map(|i| matrix[i]).sum();
    }

    fn confusion(params: &[f64], Shape { classes: k, .. }: Shape, matrix: &mut [f64]) {
        matrix.fill(odds(params[0], k).0);
        (0..k).for_each(|class| matrix[class * k + class] = params[0]);
    }

    fn to_natural(params: &mut [f64], _: Shape) {
        params[0] = logit(params[0]);
    }

    fn from_natural(params: &mut [f64], Shape { classes: k, .. }: Shape) {
        params[0] = logistic(params[0], k);
    }
}

impl Grouped for OneCoin {
    fn n_groups(_: Shape) -> usize {
        1
    }
    fn fold(expected: &mut [f64], shape: Shape) {
        fold_pairs(expected, shape.classes);
    }
    fn untie(counts: &[f64], shape: Shape, matrix: &mut [f64]) {
        let k = shape.classes;
        let each = (counts[0] / k as f64, counts[1] / k as f64);
        spread((0..k).map(|_| each), k, matrix);
    }
}
