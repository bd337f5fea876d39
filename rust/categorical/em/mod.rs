//! Dawid–Skene by expectation–maximization, for any worker model.
//!
//! The model: task `n` has a class `k` with probability `prior[k]`; worker `m` answers it with label `l` with
//! probability `confusion[m, k, l]`, independently of the other workers. A *worker model* defines how a worker's
//! confusion matrix is parametrised; everything else is shared:
//!
//! * [`sums`]: the seam. A pass maps parameters to sums; a holder of annotations makes passes.
//! * [`pass`]: one streaming pass over annotations, from parameters to posteriors to expected counts.
//! * [`shard`]: passes in parallel over a table in memory; [`parts`]: one pass over a part of the annotations.
//! * [`estimate`]: how counts become parameters, by maximum likelihood or as a conjugate posterior.
//! * [`solver`]: the M-step, and the loop that asks for sums; [`protected`]: a start that a poor first guess cannot spoil.
//! * [`fit`]: the loop over a table; [`fit_bayes`]: Dirichlet posteriors; [`fit_hierarchies`]: priors that are learned
//!   from the crowd; [`fit_gibbs`]: draws from the posterior; [`fit_community`]: workers of a few kinds;
//!   [`fit_subtypes`]: classes of several kinds; [`fit_grouped`]: groups of workers who share an answer.

mod bayes;
mod cells;
mod community;
mod count;
mod estimate;
mod gibbs;
mod grouped;
mod hierarchy;
mod model;
mod ordered;
mod parts;
mod pass;
mod protected;
mod shard;
mod solver;
pub mod sparse;
mod subtypes;
mod sums;

pub use bayes::{BayesFit, fit_bayes, solve_bayes};
pub use cells::Held;
pub(crate) use cells::{Cells, Tasks};
pub use community::{CommunityFit, CommunityOptions, fit_community};
pub use gibbs::{GibbsFit, Sampling, fit_gibbs};
pub use grouped::{GroupedFit, GroupedOptions, Layers, fit_grouped, posterior_grouped};
pub use hierarchy::{
    Common, Hierarchy, HierarchyFit, Learnt, crowd_prior, dirichlet_step, fit_hierarchies, solve_hierarchies,
};
pub use model::{Model, Shape, WorkerModel};
pub use ordered::OrdinalCrowd;
pub use parts::{Answers, Parameters, answers, factors, gather, open};
pub use pass::Opening;
pub use solver::Sizes;
pub use subtypes::{SubtypesFit, SubtypesOptions, fit_subtypes, posterior_subtypes};
pub use sums::{Factors, Mode, Passes, Sums};

use crate::base::control::Control;
use crate::base::course::Course;
use crate::categorical::table::Table;
use crate::{Error, Result};

use estimate::Maximum;
use model::with_model;
use shard::InMemory;
use solver::Solver;

/// How posteriors are used in the M-step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// As they are: expectation–maximization.
    Soft,
    /// Each task goes wholly to its most probable class: classification EM.
    Hard,
    /// Hard until it converges, then soft.
    HardThenSoft,
}

/// Where the iteration begins.
#[derive(Debug, Clone, Copy)]
pub enum Start<'a> {
    /// Posteriors = shares of the votes.
    Shares,
    /// Posteriors = the majority class, divided evenly among classes that tie.
    Majority,
    /// Posteriors = one of the task's labels, drawn at random from this seed.
    RandomVote(u64),
    /// Posteriors given, (tasks × classes).
    Posterior(&'a [f64]),
    /// Parameters given: the prior and (workers × true × observed) confusion matrices.
    Parameters(&'a [f64], &'a [f64]),
    /// One accuracy for all workers, and at most this many passes in which a task keeps to the classes that were voted
    /// for, before those that the options count.
    Protected(usize),
}

/// Arguments of [`fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Worker model.
    pub model: Model,
    /// Use of the posteriors.
    pub assignment: Assignment,
    /// Start.
    pub start: Start<'a>,
    /// Pseudo-counts of the confusion matrices: (true × observed) for all workers, or one such matrix per worker.
    pub pseudo: &'a [f64],
    /// Pseudo-counts of the classes.
    pub class_pseudo: &'a [f64],
    /// Known class of each task, or -1.
    pub gold: Option<&'a [i32]>,
    /// Whether to extrapolate between passes.
    pub accelerate: bool,
    /// Most passes over the annotations.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself.
    pub tol: f64,
}

impl<'a> Options<'a> {
    /// Soft assignments of the full model from a majority vote, and no passes.
    fn of_priors(pseudo: &'a [f64], class_pseudo: &'a [f64]) -> Self {
        Self {
            model: Model::Full,
            assignment: Assignment::Soft,
            start: Start::Majority,
            pseudo,
            class_pseudo,
            gold: None,
            accelerate: false,
            max_iter: 0,
            tol: 0.0,
        }
    }
}

/// What [`fit`] found.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Class posterior of each task, (tasks × classes).
    pub posterior: Vec<f64>,
    /// Confusion matrices, (workers × true × observed).
    pub confusion: Vec<f64>,
    /// Class prior.
    pub prior: Vec<f64>,
    /// The penalized log-likelihood after each pass (of the soft phase, where a hard one came first), and at the end.
    pub history: Vec<f64>,
    /// Passes made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// What a loop found that knows no table: all of a [`Fit`] but the posteriors.
#[derive(Debug, Clone)]
pub struct Solution {
    /// Confusion matrices, (workers × true × observed).
    pub confusion: Vec<f64>,
    /// Class prior.
    pub prior: Vec<f64>,
    /// How it went: the objective after each pass, and at the end; passes made; whether the stopping rule was met.
    pub(crate) course: Course,
}

impl Solution {
    /// With the posteriors of the last pass.
    fn with(self, posterior: Vec<f64>) -> Fit {
        let Self { confusion, prior, course: Course { history, n_iter, converged, .. } } = self;
        Fit { posterior, confusion, prior, history, n_iter, converged }
    }
}

/// Fits by EM. Time O(annotations · classes) a pass (less for the smaller models); memory: [`shard`] and [`solver`]
/// say.
pub fn fit(table: &Table, options: &Options<'_>, control: &Control) -> Result<Fit> {
    validate(table, options)?;
    let mut passes = InMemory::new(table, options.gold, control)?;
    let solution = solve(&mut passes, sizes(table), options, control)?;
    Ok(solution.with(passes.take_posterior()))
}

/// The loop of [`fit`], over any holder of annotations.
pub fn solve(passes: &mut dyn Passes, sizes: Sizes, options: &Options<'_>, control: &Control) -> Result<Solution> {
    validate_loop(sizes, options)?;
    with_model!(options.model, |W| {
        let mut solver = Solver::<W, Maximum>::new(sizes, options, control)?;
        let (params, course) = solver.solve(passes, options)?;
        Ok(Solution { confusion: solver.confusion(params.workers)?, prior: params.prior, course })
    })
}

/// Sizes of a table.
fn sizes(table: &Table) -> Sizes {
    Sizes { n_workers: table.n_workers(), shape: Shape { classes: table.n_classes(), labels: table.n_labels() } }
}

fn expect_len(what: &str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(Error::invalid(format!("{what} holds {got} numbers, not {wanted}"))) }
}

/// Checks what depends on the tasks; the loop checks the rest.
fn validate(table: &Table, options: &Options<'_>) -> Result<()> {
    if let Start::Posterior(posterior) = options.start {
        expect_len("the given posterior", posterior.len(), table.n_tasks() * table.n_classes())?;
        finite("the given posterior", posterior)?;
    }
    validate_gold(table, options.gold)
}

fn validate_gold(table: &Table, gold: Option<&[i32]>) -> Result<()> {
    validate_known(Held::Table(table).rows(), gold)
}

fn validate_known(tasks: Tasks<'_>, gold: Option<&[i32]>) -> Result<()> {
    let (Some(gold), k) = (gold, tasks.shape.classes) else { return Ok(()) };
    expect_len("gold", gold.len(), tasks.n_tasks())?;
    match gold.iter().find(|g| **g >= k as i32) {
        None => Ok(()),
        Some(bad) => Err(Error::invalid(format!("gold class code {bad} is not below the number of classes, {k}"))),
    }
}

fn validate_model(model: Model, shape: Shape) -> Result<()> {
    if model != Model::Full && shape.labels != shape.classes {
        return Err(Error::invalid(
            "only the full model, from a start that is not protected, has room for labels that are never true",
        ));
    }
    Ok(())
}

fn validate_loop(Sizes { n_workers, shape }: Sizes, options: &Options<'_>) -> Result<()> {
    validate_model(options.model, shape)?;
    if options.pseudo.len() != shape.cells() {
        expect_len("pseudo-counts", options.pseudo.len(), n_workers * shape.cells())?;
    }
    expect_len("class pseudo-counts", options.class_pseudo.len(), shape.classes)?;
    if options.pseudo.iter().chain(options.class_pseudo).any(|x| !(x.is_finite() && *x >= 0.0)) {
        return Err(Error::invalid("pseudo-counts must be finite and at least 0"));
    }
    if matches!(options.start, Start::Protected(_)) {
        // Which begins with an accuracy of all workers.
        validate_model(Model::OneCoin, shape)?;
    }
    if let Start::Parameters(prior, confusion) = options.start {
        expect_len("the given prior", prior.len(), shape.classes)?;
        expect_len("the given confusion", confusion.len(), n_workers * shape.cells())?;
        finite("the given prior", prior)?;
        finite("the given confusion", confusion)?;
    }
    Ok(())
}

fn finite(what: &str, values: &[f64]) -> Result<()> {
    match values.iter().find(|x| !(x.is_finite() && **x >= 0.0)) {
        None => Ok(()),
        Some(bad) => Err(Error::invalid(format!("{what} holds {bad}, which is not a probability"))),
    }
}

#[cfg(test)]
mod tests;
