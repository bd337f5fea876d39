//! Dawid–Skene with Dirichlet priors, by mean-field variational Bayes.
//!
//! The posterior of classes and parameters is approximated by a product of one distribution per task, one Dirichlet per
//! row of each confusion matrix and one of the class prior. Each pass improves the evidence lower bound, which is the
//! objective.

use super::estimate::Variational;
use super::model::{Grouped, with_model};
use super::shard::InMemory;
use super::solver::{Sizes, Solver};
use super::sums::Passes;
use super::{Fit, Options, Solution, sizes, validate, validate_loop};
use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::base::num::normalise;
use crate::base::parallel::each_block;
use crate::categorical::table::Table;
use crate::{Error, Result};

/// What [`fit_bayes`] found.
#[derive(Debug, Clone)]
pub struct BayesFit<T = Fit> {
    /// Posteriors, expected confusion matrices, expected class prior, and how the iteration went.
    pub fit: T,
    /// Parameters of the Dirichlet posteriors of confusion rows, (workers × true × observed). For models that tie
    /// entries, those of all entries that are tied add up to a parameter.
    pub concentration: Vec<f64>,
    /// Parameters of the Dirichlet posterior of the class prior.
    pub class_concentration: Vec<f64>,
}

/// Fits by variational Bayes; pseudo-counts are the parameters of the Dirichlet priors, and must be positive.
///
/// Given parameters ([`super::Start::Parameters`]) are those of Dirichlet posteriors, as in a [`BayesFit`]. Time and
/// memory as [`super::fit`], and O(workers · classes²) digamma functions a pass.
pub fn fit_bayes(table: &Table, options: &Options<'_>, control: &Control) -> Result<BayesFit> {
    validate(table, options)?;
    let mut passes = InMemory::new(table, options.gold, control)?;
    let BayesFit { fit, concentration, class_concentration } =
        solve_bayes(&mut passes, sizes(table), options, control)?;
    Ok(BayesFit { fit: fit.with(passes.take_posterior()), concentration, class_concentration })
}

/// The loop of [`fit_bayes`], over any holder of annotations.
pub fn solve_bayes(
    passes: &mut dyn Passes,
    sizes: Sizes,
    options: &Options<'_>,
    control: &Control,
) -> Result<BayesFit<Solution>> {
    validate_loop(sizes, options)?;
    if options.pseudo.iter().chain(options.class_pseudo).any(|a| *a <= 0.0) {
        return Err(Error::invalid("the parameters of Dirichlet priors must be positive"));
    }
    with_model!(options.model, |W| {
        let mut solver = Solver::<W, Variational>::new(sizes, options, control)?;
        let (params, course) = solver.solve(passes, options)?;
        let concentration = untied::<W>(sizes, &params.workers)?;
        let mut prior = params.prior.clone();
        normalise(&mut prior);
        let fit = Solution { confusion: solver.confusion(params.workers)?, prior, course };
        Ok(BayesFit { fit, concentration, class_concentration: params.prior })
    })
}

/// Dirichlet parameters as matrices, (workers × true × observed).
fn untied<W: Grouped>(Sizes { n_workers, shape }: Sizes, params: &[f64]) -> Result<Vec<f64>> {
    let mut matrices = zeros(n_workers * shape.cells())?;
    each_block(&mut matrices, shape.cells(), 128, &|first, rows| {
        let counts = params[first * W::n_counts(shape)..].chunks_exact(W::n_counts(shape));
        rows.chunks_exact_mut(shape.cells()).zip(counts).for_each(|(matrix, counts)| W::untie(counts, shape, matrix));
    });
    Ok(matrices)
}
