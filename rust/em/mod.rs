//! Dawid–Skene by expectation–maximisation, for any worker model.
//!
//! The model: task `n` has a class `k` with probability `prior[k]`; worker `m` answers it with label `l` with probability
//! `confusion[m, k, l]`, independently of the other workers. A *worker model* says how a worker's confusion matrix is
//! parametrised; everything else is shared:
//!
//! * [`sums`]: the seam. A pass maps parameters to sums; whoever holds annotations makes passes;
//! * [`pass`]: one streaming pass over annotations, from parameters to posteriors to expected counts;
//! * [`shard`]: passes in parallel over a table in memory;
//! * [`estimate`]: how counts become parameters, by maximum likelihood or as a conjugate posterior;
//! * [`solver`]: the M-step, and the loop that asks for sums;
//! * [`protected`]: a start that a poor first guess cannot spoil;
//! * [`fit`] is the loop over a table; [`fit_bayes`] for Dirichlet posteriors, [`fit_hierarchies`] for priors that are learnt
//!   from the crowd; [`fit_gibbs`] draws from the posterior; [`fit_community`] has workers of a few kinds,
//!   [`fit_subtypes`] classes of several kinds.

mod bayes;
mod class;
mod community;
mod estimate;
mod full;
mod gibbs;
mod hierarchy;
mod model;
mod one_coin;
mod pass;
mod protected;
mod shard;
mod solver;
pub mod sparse;
mod subtypes;
mod sums;

pub use bayes::{BayesFit, fit_bayes, posterior_bayes, solve_bayes};
pub use community::{CommunityFit, CommunityOptions, fit_community};
pub use gibbs::{GibbsFit, Sampling, fit_gibbs};
pub use hierarchy::{Hierarchy, HierarchyFit, HierarchyOptions, Learnt, fit_hierarchies, solve_hierarchies};
pub use model::{Model, Shape, WorkerModel};
pub use pass::Opening;
pub use solver::Sizes;
pub use subtypes::{SubtypesFit, SubtypesOptions, fit_subtypes, posterior_subtypes};
pub use sums::{Factors, Mode, Passes, Sums};

use crate::control::Control;
use crate::course::Course;
use crate::memory::copied;
use crate::num::FLOOR;
use crate::table::Table;
use crate::{Error, Result};

use estimate::{Maximum, floor_and_normalise};
use model::with_model;
use shard::{InMemory, count_workers, table_of};
use solver::{Solver, confusion_of, iterate, tied};

/// How posteriors are used in the M-step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// As they are: expectation–maximisation.
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
}

/// Everything [`fit`] can be told.
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
    /// The penalised log-likelihood after each pass (of the soft phase, where a hard one came first), and at the end.
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

/// Fits by EM. Time O(annotations · classes) a pass (less for the smaller models); memory: [`shard`] and [`solver`] say.
pub fn fit(table: &Table, options: &Options<'_>, control: &Control) -> Result<Fit> {
    validate(table, options)?;
    let mut passes = InMemory::new(table, options.gold, control)?;
    let solution = solve(&mut passes, sizes(table), options, control)?;
    Ok(solution.with(passes.take_posterior()))
}

/// The loop of [`fit`], over whoever holds the annotations.
pub fn solve(passes: &mut dyn Passes, sizes: Sizes, options: &Options<'_>, control: &Control) -> Result<Solution> {
    with_model!(options.model, |W| {
        let mut solver = Solver::<W, Maximum>::new(sizes, options, control)?;
        let mut params = solver.start(passes, options.start)?;
        let mut course = Course::default();
        iterate(&mut solver, passes, &mut params, &mut course, options)?;
        Ok(Solution { confusion: solver.confusion(params.workers)?, prior: params.prior, course })
    })
}

/// What a table says of sizes.
fn sizes(table: &Table) -> Sizes {
    Sizes { n_workers: table.n_workers(), shape: Shape { classes: table.n_classes(), labels: table.n_labels() } }
}

fn expect_len(what: &str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(Error::invalid(format!("{what} holds {got} numbers, not {wanted}"))) }
}

fn validate(table: &Table, options: &Options<'_>) -> Result<()> {
    let (n, Sizes { n_workers: m, shape }) = (table.n_tasks(), sizes(table));
    if options.model != Model::Full && shape.labels != shape.classes {
        return Err(Error::invalid("only the full model has room for labels that are never true"));
    }
    if options.pseudo.len() != shape.cells() {
        expect_len("pseudo-counts", options.pseudo.len(), m * shape.cells())?;
    }
    expect_len("class pseudo-counts", options.class_pseudo.len(), shape.classes)?;
    if options.pseudo.iter().chain(options.class_pseudo).any(|x| !(x.is_finite() && *x >= 0.0)) {
        return Err(Error::invalid("pseudo-counts must be finite and at least 0"));
    }
    if let Some(gold) = options.gold {
        expect_len("gold", gold.len(), n)?;
        if let Some(bad) = gold.iter().find(|g| **g >= shape.classes as i32) {
            let k = shape.classes;
            return Err(Error::invalid(format!("gold class code {bad} is not below the number of classes, {k}")));
        }
    }
    match options.start {
        Start::Posterior(posterior) => {
            expect_len("the given posterior", posterior.len(), n * shape.classes)?;
            finite("the given posterior", posterior)
        }
        Start::Parameters(prior, confusion) => {
            expect_len("the given prior", prior.len(), shape.classes)?;
            expect_len("the given confusion", confusion.len(), m * shape.cells())?;
            finite("the given prior", prior)?;
            finite("the given confusion", confusion)
        }
        _ => Ok(()),
    }
}

fn finite(what: &str, values: &[f64]) -> Result<()> {
    match values.iter().find(|x| !(x.is_finite() && **x >= 0.0)) {
        None => Ok(()),
        Some(bad) => Err(Error::invalid(format!("{what} holds {bad}, which is not a probability"))),
    }
}

/// Class posteriors (tasks × classes) under given confusion matrices (workers × true × observed) and a prior (classes), or
/// one for each task (tasks × classes).
///
/// Probabilities count as at least [`FLOOR`]: a prior and labels that contradict each other leave a posterior all the same.
/// Time O(annotations · classes + workers · classes · labels); memory, beside the result, that of the matrices.
pub fn posterior(table: &Table, prior: &[f64], confusion: &[f64], control: &Control) -> Result<Vec<f64>> {
    let Sizes { n_workers, shape } = sizes(table);
    if prior.len() != shape.classes {
        expect_len("the given prior", prior.len(), table.n_tasks() * shape.classes)?;
    }
    expect_len("the given confusion", confusion.len(), n_workers * shape.cells())?;
    finite("the given prior", prior)?;
    finite("the given confusion", confusion)?;
    let mut classes = copied(prior)?;
    if prior.len() == shape.classes {
        floor_and_normalise(&mut classes);
    } else {
        classes.iter_mut().for_each(|p| *p = p.max(FLOOR));
    }
    let workers = tied::<full::Full, Maximum>(sizes(table), confusion)?;
    let mut passes = InMemory::new(table, None, control)?;
    passes.conclude(Model::Full, Factors { workers: &workers, classes: &classes })?;
    Ok(passes.take_posterior())
}

/// How often each worker is expected to have given each label to each class, (workers × true × observed), if posteriors
/// (tasks × classes) are as given. Time O(annotations · classes + workers · classes · labels); memory, beside the result,
/// the table in worker order.
pub fn counts(table: &Table, posterior: &[f64], control: &Control) -> Result<Vec<f64>> {
    let Sizes { n_workers, shape } = sizes(table);
    expect_len("the posterior", posterior.len(), table.n_tasks() * shape.classes)?;
    finite("the posterior", posterior)?;
    let mut counts = table_of(n_workers * shape.cells())?;
    count_workers::<full::Full>(table, shape, posterior, &mut counts, control)?;
    confusion_of::<full::Full, Maximum>(sizes(table), counts)
}

/// Confusion matrices (workers × true × observed) of workers judged by given posteriors (tasks × classes): one M-step.
pub fn confusion(table: &Table, posterior: &[f64], pseudo: &[f64], control: &Control) -> Result<Vec<f64>> {
    let none = vec![0.0; table.n_classes()];
    let options = Options { start: Start::Posterior(posterior), ..Options::of_priors(pseudo, &none) };
    validate(table, &options)?;
    let mut solver = Solver::<full::Full, Maximum>::new(sizes(table), &options, control)?;
    let params = solver.start(&mut InMemory::new(table, None, control)?, options.start)?;
    solver.confusion(params.workers)
}

#[cfg(test)]
mod tests;
