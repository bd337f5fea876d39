//! How expected counts become parameters: by maximum likelihood, or as the posterior of a conjugate prior.
//!
//! A conjugate posterior is kept as its Dirichlet parameters, expected counts plus pseudo-counts. What the E-step reads
//! of it is an expectation: of the logarithms ([`Variational`], whose bound then never falls), or of the probabilities
//! themselves ([`Mean`]).

use std::marker::PhantomData;

use super::model::{Grouped, Shape, WorkerModel};
use crate::Result;
use crate::base::memory::zeros;
use crate::base::num::{FLOOR, normalise};
use crate::base::special::{digamma, ln_gamma};

/// What is kept of a worker's counts, and of the classes'.
pub(super) trait Estimate<W: WorkerModel>: Copy + Send + Sync + 'static {
    /// Whether the E-step reads the parameters themselves.
    const FACTORS_ARE_PARAMS: bool;
    fn n_params(shape: Shape) -> usize;
    /// Parameters from expected counts and pseudo-counts.
    fn maximise(counts: &[f64], pseudo: &[f64], shape: Shape, params: &mut [f64]);
    fn write_factors(params: &[f64], shape: Shape, factors: &mut [f64]);
    /// The part of the objective that does not depend on the labels.
    fn log_prior(params: &[f64], pseudo: &[f64], shape: Shape) -> f64;
    /// The (true × observed) confusion matrix of the parameters.
    fn confusion(params: &[f64], shape: Shape, matrix: &mut [f64]) -> Result<()>;

    /// Parameters of the class prior, in place of expected counts plus pseudo-counts.
    fn settle_classes(totals: &mut [f64]);
    /// What the E-step reads of the classes, in place of the parameters.
    fn write_class_factors(classes: &mut [f64]);
    /// The part of the objective that depends on the class prior alone.
    fn log_class_prior(classes: &[f64], pseudo: &[f64]) -> f64;
}

/// Estimates between which steps may be extrapolated.
pub(super) trait Extrapolate<W: WorkerModel>: Estimate<W> {
    /// Parameters to a space without constraints, of the same length.
    fn to_natural(params: &mut [f64], shape: Shape);
    /// Back from that space.
    fn from_natural(params: &mut [f64], shape: Shape);
}

/// The log-density that pseudo-counts give probabilities, up to a constant.
pub(super) fn log_density(probabilities: &[f64], pseudo: &[f64]) -> f64 {
    pseudo.iter().zip(probabilities).filter(|(a, _)| **a > 0.0).map(|(a, p)| a * p.ln()).sum()
}

pub(super) fn floor_and_normalise(prior: &mut [f64]) {
    normalise(prior);
    prior.iter_mut().for_each(|p| *p = p.max(FLOOR));
}

/// The parameters that maximize the penalized likelihood, as the worker model defines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Maximum;

impl<W: WorkerModel> Estimate<W> for Maximum {
    const FACTORS_ARE_PARAMS: bool = W::FACTORS_ARE_PARAMS;

    fn n_params(shape: Shape) -> usize {
        W::n_params(shape)
    }
    fn maximise(counts: &[f64], pseudo: &[f64], shape: Shape, params: &mut [f64]) {
        W::maximise(counts, pseudo, shape, params);
    }
    fn write_factors(params: &[f64], shape: Shape, factors: &mut [f64]) {
        W::write_factors(params, shape, factors);
    }
    fn log_prior(params: &[f64], pseudo: &[f64], shape: Shape) -> f64 {
        W::log_prior(params, pseudo, shape)
    }
    fn confusion(params: &[f64], shape: Shape, matrix: &mut [f64]) -> Result<()> {
        W::confusion(params, shape, matrix);
        Ok(())
    }
    fn settle_classes(totals: &mut [f64]) {
        floor_and_normalise(totals);
    }
    fn write_class_factors(_: &mut [f64]) {}
    fn log_class_prior(classes: &[f64], pseudo: &[f64]) -> f64 {
        log_density(classes, pseudo)
    }
}

impl<W: WorkerModel> Extrapolate<W> for Maximum {
    fn to_natural(params: &mut [f64], shape: Shape) {
        W::to_natural(params, shape);
    }
    fn from_natural(params: &mut [f64], shape: Shape) {
        W::from_natural(params, shape);
    }
}

/// The places of one group.
pub(super) fn group(g: usize, n_groups: usize, len: usize) -> impl Iterator<Item = usize> + Clone {
    (g..len).step_by(n_groups)
}

/// Replaces Dirichlet parameters by exp(E[ln p]). A parameter of 0 belongs to an event that cannot be.
pub(super) fn geometric(params: &mut [f64], n_groups: usize) {
    for g in 0..n_groups {
        let places = group(g, n_groups, params.len());
        let total = digamma(places.clone().map(|i| params[i]).sum());
        for i in places {
            params[i] = if params[i] > FLOOR { (digamma(params[i]) - total).exp().max(FLOOR) } else { FLOOR };
        }
    }
}

/// Replaces Dirichlet parameters by E[p].
fn arithmetic(params: &mut [f64], n_groups: usize) {
    for g in 0..n_groups {
        let places = group(g, n_groups, params.len());
        let total = places.clone().map(|i| params[i]).sum::<f64>().max(FLOOR);
        places.for_each(|i| params[i] = (params[i] / total).max(FLOOR));
    }
}

/// The divergence KL(Dir(params) ‖ Dir(pseudo)), summed over groups.
pub(super) fn divergence(params: &[f64], pseudo: &[f64], n_groups: usize) -> f64 {
    let mut sum = 0.0;
    for g in 0..n_groups {
        let places = group(g, n_groups, params.len()).filter(|i| pseudo[*i] > 0.0);
        let (a, b) = places.clone().fold((0.0, 0.0), |(a, b), i| (a + params[i], b + pseudo[i]));
        let total = digamma(a);
        sum += ln_gamma(a) - ln_gamma(b);
        for i in places {
            let (a, b) = (params[i], pseudo[i]);
            sum += ln_gamma(b) - ln_gamma(a) + (a - b) * (digamma(a) - total);
        }
    }
    sum
}

/// What the E-step reads of Dirichlet posteriors, and what it thereby improves.
pub(super) trait Reading: Copy + Send + Sync + 'static {
    /// Replaces the parameters of a worker's groups by what is read of them.
    fn read(params: &mut [f64], n_groups: usize);
    /// The part of the objective that does not depend on the labels; 0 where the caller that amends parameters knows
    /// it.
    fn log_prior(_params: &[f64], _pseudo: &[f64], _n_groups: usize) -> f64 {
        0.0
    }
    /// Parameters of the class prior, in place of expected counts plus pseudo-counts.
    fn settle_classes(_totals: &mut [f64]) {}
    /// What is read of the classes, in place of their parameters.
    fn read_classes(_classes: &mut [f64]) {}
    /// The part of the objective that depends on the class prior alone.
    fn log_class_prior(_classes: &[f64], _pseudo: &[f64]) -> f64 {
        0.0
    }
}

/// Conjugate posteriors, kept as their parameters: expected counts plus pseudo-counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dirichlet<R>(PhantomData<R>);

/// exp(E[ln p]) is read: mean-field variational Bayes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometric;
pub(super) type Variational = Dirichlet<Geometric>;

/// E[p] is read. Means maximize nothing that could be determined here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arithmetic;
pub(super) type Mean = Dirichlet<Arithmetic>;

/// The caller writes probabilities in the place of parameters before the E-step reads them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Literal;
pub(super) type Given = Dirichlet<Literal>;

impl Reading for Geometric {
    fn read(params: &mut [f64], n_groups: usize) {
        geometric(params, n_groups);
    }
    fn log_prior(params: &[f64], pseudo: &[f64], n_groups: usize) -> f64 {
        -divergence(params, pseudo, n_groups)
    }
    fn read_classes(classes: &mut [f64]) {
        geometric(classes, 1);
    }
    fn log_class_prior(classes: &[f64], pseudo: &[f64]) -> f64 {
        -divergence(classes, pseudo, 1)
    }
}

impl Reading for Arithmetic {
    fn read(params: &mut [f64], n_groups: usize) {
        arithmetic(params, n_groups);
    }
    fn settle_classes(totals: &mut [f64]) {
        floor_and_normalise(totals);
    }
    fn log_class_prior(classes: &[f64], pseudo: &[f64]) -> f64 {
        log_density(classes, pseudo)
    }
}

impl Reading for Literal {
    fn read(params: &mut [f64], _: usize) {
        params.iter_mut().for_each(|p| *p = p.max(FLOOR));
    }
}

impl<W: Grouped, R: Reading> Estimate<W> for Dirichlet<R> {
    const FACTORS_ARE_PARAMS: bool = false;

    fn n_params(shape: Shape) -> usize {
        W::n_counts(shape)
    }
    fn maximise(counts: &[f64], pseudo: &[f64], _: Shape, params: &mut [f64]) {
        params.iter_mut().zip(counts.iter().zip(pseudo)).for_each(|(p, (c, a))| *p = c + a);
    }
    fn write_factors(params: &[f64], shape: Shape, factors: &mut [f64]) {
        factors.copy_from_slice(params);
        R::read(factors, W::n_groups(shape));
        W::fold(factors, shape);
    }
    fn log_prior(params: &[f64], pseudo: &[f64], shape: Shape) -> f64 {
        R::log_prior(params, pseudo, W::n_groups(shape))
    }
    fn confusion(params: &[f64], shape: Shape, matrix: &mut [f64]) -> Result<()> {
        let mut best = zeros(W::n_params(shape))?;
        W::maximise(params, &zeros(params.len())?, shape, &mut best);
        W::confusion(&best, shape, matrix);
        Ok(())
    }
    fn settle_classes(totals: &mut [f64]) {
        R::settle_classes(totals);
    }
    fn write_class_factors(classes: &mut [f64]) {
        R::read_classes(classes);
    }
    fn log_class_prior(classes: &[f64], pseudo: &[f64]) -> f64 {
        R::log_class_prior(classes, pseudo)
    }
}

impl<W: Grouped> Extrapolate<W> for Variational {
    fn to_natural(params: &mut [f64], _: Shape) {
        params.iter_mut().for_each(|p| *p = p.max(FLOOR).ln());
    }
    fn from_natural(params: &mut [f64], _: Shape) {
        params.iter_mut().for_each(|p| *p = p.exp());
    }
}
