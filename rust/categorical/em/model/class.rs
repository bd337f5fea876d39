//! The class model ("confusion vector"): one accuracy per worker and class, errors spread evenly over the other classes.

use super::one_coin::{accuracy, fold_pairs, logistic, logit, odds, spread};
use super::{Grouped, Model, Shape, WorkerModel};

/// Parameters: K accuracies. Factors: K probabilities of one particular error, then K ratios right : that error.
/// Counts: K expected right answers, then K expected wrong ones.
#[derive(Debug, Clone, Copy)]
pub struct Class;

impl WorkerModel for Class {
    const MODEL: Model = Model::Class;
    fn n_params(shape: Shape) -> usize {
        shape.classes
    }
    fn n_counts(shape: Shape) -> usize {
        2 * shape.classes
    }

    fn write_factors(params: &[f64], Shape { classes: k, .. }: Shape, factors: &mut [f64]) {
        for (class, &p) in params.iter().enumerate() {
            (factors[class], factors[k + class]) = odds(p, k);
        }
    }

    #[inline(always)]
    fn multiply(factors: &[f64], label: usize, evidence: &mut [f64]) -> f64 {
        let k = evidence.len();
        for (e, f) in evidence.iter_mut().zip(&factors[..k]) {
            *e *= f;
        }
        evidence[label] *= factors[k + label];
        1.0
    }

    #[inline(always)]
    fn multiply_log(factors: &[f64], label: usize, weight: f64, evidence: &mut [f64]) -> f64 {
        let k = evidence.len();
        for (e, f) in evidence.iter_mut().zip(&factors[..k]) {
            *e += weight * f;
        }
        evidence[label] += weight * factors[k + label];
        0.0
    }

    #[inline(always)]
    fn add(counts: &mut [f64], label: usize, weight: f64, posterior: &[f64]) {
        let k = posterior.len();
        let wrong = counts[k + label];
        for (c, q) in counts[k..2 * k].iter_mut().zip(posterior) {
            *c += weight * q;
        }
        // Put back rather than subtracted, so that nothing is lost to rounding.
        counts[k + label] = wrong;
        counts[label] += weight * posterior[label];
    }

    fn maximise(counts: &[f64], pseudo: &[f64], Shape { classes: k, .. }: Shape, params: &mut [f64]) {
        for (class, p) in params.iter_mut().enumerate() {
            *p = accuracy(counts[class] + pseudo[class], counts[k + class] + pseudo[k + class], k);
        }
    }

    fn log_prior(params: &[f64], pseudo: &[f64], Shape { classes: k, .. }: Shape) -> f64 {
        params
            .iter()
            .enumerate()
            .map(|(class, &p)| {
                let (error, ratio) = odds(p, k);
                pseudo[class] * (error * ratio).ln() + pseudo[k + class] * error.ln()
            })
            .sum()
    }

    fn tie(matrix: &[f64], Shape { classes: k, .. }: Shape, counts: &mut [f64]) {
        for (class, row) in matrix.chunks_exact(k).enumerate() {
            counts[class] = row[class];
            counts[k + class] = row.iter().enumerate().filter(|(l, _)| *l != class).map(|(_, x)| x).sum();
        }
    }

    fn confusion(params: &[f64], Shape { classes: k, .. }: Shape, matrix: &mut [f64]) {
        for ((class, row), &p) in matrix.chunks_exact_mut(k).enumerate().zip(params) {
            row.fill(odds(p, k).0);
            row[class] = p;
        }
    }

    fn to_natural(params: &mut [f64], _: Shape) {
        params.iter_mut().for_each(|p| *p = logit(*p));
    }

    fn from_natural(params: &mut [f64], Shape { classes: k, .. }: Shape) {
        params.iter_mut().for_each(|p| *p = logistic(*p, k));
    }
}

impl Grouped for Class {
    fn n_groups(shape: Shape) -> usize {
        shape.classes
    }
    fn fold(expected: &mut [f64], shape: Shape) {
        fold_pairs(expected, shape.classes);
    }
    fn untie(counts: &[f64], shape: Shape, matrix: &mut [f64]) {
        let k = shape.classes;
        spread((0..k).map(|class| (counts[class], counts[k + class])), k, matrix);
    }
}
