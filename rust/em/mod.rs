//! Dawid–Skene by expectation–maximisation, for any worker model.
//!
//! The model: task `n` has a class `k` with probability `prior[k]`; worker `m` answers it with label `l` with probability
//! `confusion[m, k, l]`, independently of the other workers. A *worker model* says how a worker's confusion matrix is
//! parametrised; everything else is shared:
//!
//! * [`pass`]: one streaming pass over the annotations, from parameters to posteriors to expected counts;
//! * [`engine`]: passes in parallel, and the M-step;
//! * [`estimate`]: how counts become parameters, by maximum likelihood or as a conjugate posterior;
//! * [`accelerate`]: extrapolation between passes;
//! * [`protected`]: a start that a poor first guess cannot spoil;
//! * [`fit`]: the loop, its stopping rule and its result; [`fit_bayes`] for Dirichlet posteriors, [`fit_hierarchy`] for
//!   priors that are learnt from the crowd; [`fit_gibbs`] draws from the posterior; [`fit_community`] has workers of a few
//!   kinds, [`fit_subtypes`] classes of several kinds.
//!
//! To add a worker model: write `<model>.rs` with an implementation of [`WorkerModel`], and add its line to [`Model`] and
//! `with_model`.

mod accelerate;
mod bayes;
mod class;
mod community;
mod counts;
mod engine;
mod estimate;
mod forecast;
mod full;
mod gibbs;
mod hierarchy;
mod one_coin;
mod pass;
mod protected;
pub mod sparse;
mod subtypes;

pub use bayes::{BayesFit, fit_bayes, posterior_bayes};
pub use community::{CommunityFit, CommunityOptions, fit_community};
pub use counts::counts;
pub use forecast::forecast;
pub use gibbs::{GibbsFit, Sampling, fit_gibbs};
pub use hierarchy::{Hierarchy, HierarchyFit, HierarchyOptions, Learnt, fit_hierarchy};
pub use subtypes::{SubtypesFit, SubtypesOptions, fit_subtypes, posterior_subtypes};

use std::ops::Range;

use crate::control::Control;
use crate::memory::zeros;
use crate::num::settled;
use crate::table::Table;
use crate::{Error, Result};

use engine::{Engine, Params};
use estimate::{Estimate, Extrapolate, Maximum};

/// How a worker's confusion matrix is parametrised, and what its E- and M-steps do with it.
///
/// A worker is `n_params` numbers. The E-step multiplies *factors* derived from them, the M-step turns expected *counts*
/// into new ones. Methods act on one worker's slice of each table, or on what [`WorkerModel::locate`] finds of it.
pub trait WorkerModel: Copy + Send + Sync + 'static {
    /// Numbers that describe one worker.
    fn n_params(k: usize) -> usize;
    /// Expected counts from which the M-step makes one worker's parameters; the E-step reads as many factors.
    fn n_counts(k: usize) -> usize;
    /// Whether the factors are the parameters themselves, so that no second table is needed.
    const FACTORS_ARE_PARAMS: bool = false;
    /// Whether [`WorkerModel::multiply`] ever takes out a common factor.
    const HAS_COMMON_FACTOR: bool = false;

    /// Derives the factors from the parameters.
    fn write_factors(params: &[f64], k: usize, factors: &mut [f64]);
    /// Which factors, and which counts, of all workers' an annotation touches, and its label.
    ///
    /// `cell` is worker · k + label. The methods below are given that part of either table.
    #[inline(always)]
    fn locate(cell: usize, k: usize) -> (Range<usize>, usize) {
        let (worker, label) = (cell / k, cell % k);
        (worker * Self::n_counts(k)..(worker + 1) * Self::n_counts(k), label)
    }
    /// Multiplies `evidence[k]` by the probability of `label` under class k; returns a factor common to all classes.
    fn multiply(factors: &[f64], label: usize, evidence: &mut [f64]) -> f64;
    /// The same in log space, to the power of `weight`; `factors` hold logarithms. Returns the common summand.
    fn multiply_log(factors: &[f64], label: usize, weight: f64, evidence: &mut [f64]) -> f64;
    /// Adds an annotation of the given weight and posterior to the counts.
    fn add(counts: &mut [f64], label: usize, weight: f64, posterior: &[f64]);

    /// The parameters that maximise the expected log-likelihood of `counts` plus `pseudo` counts.
    fn maximise(counts: &[f64], pseudo: &[f64], k: usize, params: &mut [f64]);
    /// The log-density that `pseudo` counts give the parameters, up to a constant.
    fn log_prior(params: &[f64], pseudo: &[f64], k: usize) -> f64;

    /// Sums a (true × observed) matrix of counts into the counts of this model.
    fn tie(matrix: &[f64], k: usize, counts: &mut [f64]);
    /// The (true × observed) confusion matrix of the parameters.
    fn confusion(params: &[f64], k: usize, matrix: &mut [f64]);

    /// Parameters to a space without constraints, in which steps may be extrapolated; of the same length.
    fn to_natural(params: &mut [f64], k: usize);
    /// Back from that space.
    fn from_natural(params: &mut [f64], k: usize);
}

/// The worker models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A free confusion matrix per worker.
    Full,
    /// One accuracy per worker and class, errors spread evenly.
    Class,
    /// One accuracy per worker, errors spread evenly.
    OneCoin,
}

impl Model {
    /// Every model by name.
    pub const NAMES: [(&str, Self); 3] = [("full", Self::Full), ("class", Self::Class), ("one-coin", Self::OneCoin)];
}

/// Runs `$body` with `$W` bound to the worker model's type.
macro_rules! with_model {
    ($model:expr, |$W:ident| $body:expr) => {
        match $model {
            $crate::em::Model::Full => {
                type $W = $crate::em::full::Full;
                $body
            }
            $crate::em::Model::Class => {
                type $W = $crate::em::class::Class;
                $body
            }
            $crate::em::Model::OneCoin => {
                type $W = $crate::em::one_coin::OneCoin;
                $body
            }
        }
    };
}

use with_model;

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

/// Fits by EM. Time O(annotations · classes) a pass (less for the smaller models); memory: [`engine`] says.
pub fn fit(table: &Table, options: &Options<'_>, control: &Control) -> Result<Fit> {
    validate(table, options)?;
    with_model!(options.model, |W| fit_model::<W>(table, options, control))
}

fn validate(table: &Table, options: &Options<'_>) -> Result<()> {
    let (n, m, k) = (table.n_tasks(), table.n_workers(), table.n_classes());
    let expect = |what: &str, got: usize, wanted: usize| {
        if got == wanted { Ok(()) } else { Err(Error::invalid(format!("{what} holds {got} numbers, not {wanted}"))) }
    };
    if options.pseudo.len() != k * k {
        expect("pseudo-counts", options.pseudo.len(), m * k * k)?;
    }
    expect("class pseudo-counts", options.class_pseudo.len(), k)?;
    if options.pseudo.iter().chain(options.class_pseudo).any(|x| !(x.is_finite() && *x >= 0.0)) {
        return Err(Error::invalid("pseudo-counts must be finite and at least 0"));
    }
    if let Some(gold) = options.gold {
        expect("gold", gold.len(), n)?;
        if let Some(bad) = gold.iter().find(|g| **g >= k as i32) {
            return Err(Error::invalid(format!("gold class code {bad} is not below the number of classes, {k}")));
        }
    }
    match options.start {
        Start::Posterior(posterior) => {
            expect("the given posterior", posterior.len(), n * k)?;
            finite("the given posterior", posterior)
        }
        Start::Parameters(prior, confusion) => {
            expect("the given prior", prior.len(), k)?;
            expect("the given confusion", confusion.len(), m * k * k)?;
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

fn fit_model<W: WorkerModel>(table: &Table, options: &Options<'_>, control: &Control) -> Result<Fit> {
    let mut engine = Engine::<W, Maximum>::new(table, options, control)?;
    let mut params = engine.start(options.start)?;
    let mut run = Run::default();
    let posterior = iterate(&mut run, &mut engine, &mut params, options)?;
    Ok(run.finish(posterior, engine.confusion(params.workers)?, params.prior))
}

/// Passes until the stopping rule is met; the posteriors under the parameters they end with.
fn iterate<W: WorkerModel, P: Extrapolate<W>>(
    run: &mut Run,
    engine: &mut Engine<'_, W, P>,
    params: &mut Params,
    options: &Options<'_>,
) -> Result<Vec<f64>> {
    if options.assignment != Assignment::Soft {
        run.plain(engine, params, options, true)?;
    }
    if options.assignment != Assignment::Hard {
        run.history.clear();
        if options.accelerate {
            accelerate::run(run, engine, params, options)?;
        } else {
            run.plain(engine, params, options, false)?;
        }
    }
    let (posterior, soft) = engine.posterior(params)?;
    if options.assignment != Assignment::Hard {
        run.history.push(soft);
    }
    Ok(posterior)
}

/// The progress of one fit.
#[derive(Default)]
struct Run {
    history: Vec<f64>,
    n_iter: usize,
    converged: bool,
}

impl Run {
    fn plain<W: WorkerModel, P: Estimate<W>>(
        &mut self,
        engine: &mut Engine<'_, W, P>,
        params: &mut Params,
        options: &Options<'_>,
        hard: bool,
    ) -> Result<()> {
        self.converged = false;
        while self.n_iter < options.max_iter && !self.converged {
            self.step(engine, params, options.tol, hard)?;
        }
        Ok(())
    }

    /// One pass, and whether it was one that changed little.
    fn step<W: WorkerModel, P: Estimate<W>>(
        &mut self,
        engine: &mut Engine<'_, W, P>,
        params: &mut Params,
        tol: f64,
        hard: bool,
    ) -> Result<()> {
        let objective = engine.step(params, hard)?;
        let last = self.history.last().copied();
        self.record(objective, engine.control());
        self.converged = self.settled(last, tol);
        Ok(())
    }

    fn finish(self, posterior: Vec<f64>, confusion: Vec<f64>, prior: Vec<f64>) -> Fit {
        let Self { history, n_iter, converged } = self;
        Fit { posterior, confusion, prior, history, n_iter, converged }
    }

    /// Notes the objective that a pass found.
    fn record(&mut self, objective: f64, control: &Control) {
        self.history.push(objective);
        self.n_iter += 1;
        control.report(self.n_iter, objective);
    }

    /// Whether the last objective differs from an earlier one by less than a share `tol` of itself.
    fn settled(&self, earlier: Option<f64>, tol: f64) -> bool {
        self.history.last().is_some_and(|last| settled(*last, earlier, tol))
    }
}

/// Class posteriors (tasks × classes) under given parameters: `confusion` is (workers × true × observed).
pub fn posterior(table: &Table, prior: &[f64], confusion: &[f64], control: &Control) -> Result<Vec<f64>> {
    let k = table.n_classes();
    let options = Options {
        model: Model::Full,
        assignment: Assignment::Soft,
        start: Start::Parameters(prior, confusion),
        pseudo: &zeros(k * k)?,
        class_pseudo: &vec![0.0; k],
        gold: None,
        accelerate: false,
        max_iter: 0,
        tol: 0.0,
    };
    Ok(fit(table, &options, control)?.posterior)
}

/// Confusion matrices (workers × true × observed) of workers judged by given posteriors (tasks × classes): one M-step.
pub fn confusion(table: &Table, posterior: &[f64], pseudo: &[f64], control: &Control) -> Result<Vec<f64>> {
    let k = table.n_classes();
    let options = Options {
        model: Model::Full,
        assignment: Assignment::Soft,
        start: Start::Posterior(posterior),
        pseudo,
        class_pseudo: &vec![0.0; k],
        gold: None,
        accelerate: false,
        max_iter: 0,
        tol: 0.0,
    };
    validate(table, &options)?;
    let mut engine = Engine::<full::Full, Maximum>::new(table, &options, control)?;
    let params = engine.start(options.start)?;
    engine.confusion(params.workers)
}

#[cfg(test)]
mod tests;
