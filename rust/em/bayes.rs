//! Dawid–Skene with Dirichlet priors, by mean-field variational Bayes.
//!
//! The posterior of classes and parameters is approximated by a product of one distribution a task, one Dirichlet a row of
//! each confusion matrix and one of the class prior. Each pass improves the evidence lower bound, which is the objective.

use super::estimate::{Grouped, Variational};
use super::model::{Model, with_model};
use super::shard::InMemory;
use super::solver::{Sizes, Solver, iterate};
use super::sums::Passes;
use super::{Fit, Options, Solution, Start, protected, sizes, validate};
use crate::blocks::each_block;
use crate::control::Control;
use crate::course::Course;
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
    let mut passes = InMemory::new(table, options.gold, control)?;
    let (solution, concentration, class_concentration) =
        solve_bayes(&mut passes, sizes(table), options, protected, control)?;
    Ok(BayesFit { fit: solution.with(passes.take_posterior()), concentration, class_concentration })
}

/// The loop of [`fit_bayes`], over whoever holds the annotations: the solution, and the parameters of Dirichlet posteriors.
pub fn solve_bayes(
    passes: &mut dyn Passes,
    sizes: Sizes,
    options: &Options<'_>,
    protected: Option<usize>,
    control: &Control,
) -> Result<(Solution, Vec<f64>, Vec<f64>)> {
    with_model!(options.model, |W| solve_model::<W>(passes, sizes, options, protected, control))
}

fn solve_model<W: Grouped>(
    passes: &mut dyn Passes,
    sizes: Sizes,
    options: &Options<'_>,
    protected: Option<usize>,
    control: &Control,
) -> Result<(Solution, Vec<f64>, Vec<f64>)> {
    let shape = sizes.shape;
    let mut solver = Solver::<W, Variational>::new(sizes, options, control)?;
    let mut course = Course::default();
    let mut params = match protected {
        Some(most) => {
            let mut params = solver.shared(protected::shared_accuracy(passes, sizes, control)?)?;
            let limits = protected::limits(most, options.tol);
            protected::keep_to_votes(&mut solver, passes, &mut params, limits, &mut course, &mut |_| Ok(()))?;
            params
        }
        None => solver.start(passes, options.start)?,
    };
    let options = &Options { max_iter: course.n_iter + options.max_iter, ..*options };
    iterate(&mut solver, passes, &mut params, &mut course, options)?;
    let mut concentration = zeros(sizes.n_workers * shape.cells())?;
    each_block(&mut concentration, shape.cells(), 128, &|first, rows| {
        let counts = params.workers[first * W::n_counts(shape)..].chunks_exact(W::n_counts(shape));
        let matrices = rows.chunks_exact_mut(shape.cells());
        matrices.zip(counts).for_each(|(matrix, counts)| W::untie(counts, shape, matrix));
    });
    let mut prior = params.prior.clone();
    normalise(&mut prior);
    let solution = Solution { confusion: solver.confusion(params.workers)?, prior, course };
    Ok((solution, concentration, params.prior))
}

/// Class posteriors (tasks × classes) under given Dirichlet posteriors of the parameters, as in a [`BayesFit`].
pub fn posterior_bayes(
    table: &Table,
    model: Model,
    class_concentration: &[f64],
    concentration: &[f64],
    control: &Control,
) -> Result<Vec<f64>> {
    let k = table.n_labels();
    let one = (filled(1.0, k * k)?, vec![1.0; k]);
    let start = Start::Parameters(class_concentration, concentration);
    let options = Options { model, start, ..Options::of_priors(&one.0, &one.1) };
    Ok(fit_bayes(table, &options, None, control)?.fit.posterior)
}
