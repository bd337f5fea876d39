//! Dawid–Skene with Dirichlet priors, by mean-field variational Bayes.
//!
//! The posterior of classes and parameters is approximated by a product of one distribution a task, one Dirichlet a row of
//! each confusion matrix and one of the class prior. Each pass improves the evidence lower bound, which is the objective.

use super::engine::Engine;
use super::estimate::{Grouped, Variational};
use super::{Assignment, Fit, Model, Options, Run, Start, iterate, protected, validate, with_model};
use crate::control::Control;
use crate::memory::{filled, zeros};
use crate::num::normalise;
use crate::table::Table;
use crate::{Error, Result};

/// What [`fit_bayes`] found.
#[derive(Debug, Clone)]
pub struct BayesFit {
    /// Posteriors, expected confusion matrices, expected class prior, and how the iteration went.
    pub fit: Fit,
    /// Parameters of the Dirichlet posteriors of confusion rows, (workers × true × observed). For models that tie
    /// entries, those of all entries that are tied add up to a parameter.
    pub concentration: Vec<f64>,
    /// Parameters of the Dirichlet posterior of the class prior.
    pub class_concentration: Vec<f64>,
}

/// Fits by variational Bayes; pseudo-counts are the parameters of the Dirichlet priors, and must be positive.
///
/// Given parameters ([`Start::Parameters`]) are those of Dirichlet posteriors, as in a [`BayesFit`]. `protected`, where
/// given, replaces the start by a protected one with at most so many passes, before those of the options. Time and memory as [`super::fit`], and
/// O(workers · classes²) digamma functions a pass.
pub fn fit_bayes(
    table: &Table,
    options: &Options<'_>,
    protected: Option<usize>,
    control: &Control,
) -> Result<BayesFit> {
    validate(table, options)?;
    if options.pseudo.iter().chain(options.class_pseudo).any(|a| *a <= 0.0) {
        return Err(Error::invalid("the parameters of Dirichlet priors must be positive"));
    }
    with_model!(options.model, |W| fit_model::<W>(table, options, protected, control))
}

fn fit_model<W: Grouped>(
    table: &Table,
    options: &Options<'_>,
    protected: Option<usize>,
    control: &Control,
) -> Result<BayesFit> {
    let k = table.n_classes();
    let mut engine = Engine::<W, Variational>::new(table, options, control)?;
    let mut run = Run::default();
    let mut params = match protected {
        Some(passes) => protected::start(&mut engine, table, options, passes, &mut run, |_| Ok(()))?,
        None => engine.start(options.start)?,
    };
    let options = &Options { max_iter: run.n_iter + options.max_iter, ..*options };
    let posterior = iterate(&mut run, &mut engine, &mut params, options)?;
    let mut concentration = zeros(table.n_workers() * k * k)?;
    let workers = params.workers.chunks_exact(W::n_counts(k));
    concentration.chunks_exact_mut(k * k).zip(workers).for_each(|(matrix, counts)| W::untie(counts, k, matrix));
    let mut prior = params.prior.clone();
    normalise(&mut prior);
    let fit = run.finish(posterior, engine.confusion(params.workers)?, prior);
    Ok(BayesFit { fit, concentration, class_concentration: params.prior })
}

/// Class posteriors (tasks × classes) under given Dirichlet posteriors of the parameters, as in a [`BayesFit`].
pub fn posterior_bayes(
    table: &Table,
    model: Model,
    class_concentration: &[f64],
    concentration: &[f64],
    control: &Control,
) -> Result<Vec<f64>> {
    let k = table.n_classes();
    let one = (filled(1.0, k * k)?, vec![1.0; k]);
    let options = Options {
        model,
        assignment: Assignment::Soft,
        start: Start::Parameters(class_concentration, concentration),
        pseudo: &one.0,
        class_pseudo: &one.1,
        gold: None,
        accelerate: false,
        max_iter: 0,
        tol: 0.0,
    };
    Ok(fit_bayes(table, &options, None, control)?.fit.posterior)
}
