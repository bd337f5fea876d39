//! From sums to parameters, and the loop between them. It asks for sums and knows no table.

use std::marker::PhantomData;

use rayon::prelude::*;

use super::estimate::{Estimate, Extrapolate};
use super::model::{Shape, WorkerModel};
use super::pass::Opening;
use super::shard::table_of;
use super::sums::{Factors, Mode, Passes, Sums};
use super::{Assignment, Options, Start, protected};
use crate::Result;
use crate::base::control::Control;
use crate::base::course::{Course, Limits, Steps, Tolerance};
use crate::base::memory::{copied, filled, with_room, zeros};
use crate::base::num::FLOOR;
use crate::base::parallel::{each_block, sum_blocks, try_each_block};
use crate::base::squarem::{Reach, extrapolate};

/// Workers per block of a parallel loop: enough to stream, and few enough for every core to have some.
const WORKERS: usize = 128;

/// Parameters of one fit, and the log-density their prior gives them.
#[derive(Debug)]
pub(super) struct Params {
    pub workers: Vec<f64>,
    pub prior: Vec<f64>,
    pub log_prior: f64,
}

/// How many workers there are, and numbers of classes and labels.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Number of workers.
    pub n_workers: usize,
    /// Of their confusion matrices.
    pub shape: Shape,
}

/// Solves for one worker model and one kind of estimate. Memory: the parameters, their factors where those differ, and
/// the sums, of workers × labels × classes numbers each for the full model.
pub(super) struct Solver<'a, W, P> {
    control: &'a Control,
    sizes: Sizes,
    pseudo: Vec<f64>,
    class_pseudo: &'a [f64],
    sums: Sums,
    /// What the E-step reads, where that is not the parameters themselves.
    factors: Vec<f64>,
    mode: Mode,
    model: PhantomData<(W, P)>,
}

impl<'a, W: WorkerModel, P: Estimate<W>> Solver<'a, W, P> {
    pub fn new(sizes: Sizes, options: &Options<'a>, control: &'a Control) -> Result<Self> {
        let Sizes { n_workers, shape } = sizes;
        let n = W::n_counts(shape);
        let mut pseudo = zeros(options.pseudo.len() / shape.cells() * n)?;
        for (matrix, counts) in options.pseudo.chunks_exact(shape.cells()).zip(pseudo.chunks_exact_mut(n)) {
            W::tie(matrix, shape, counts);
        }
        Ok(Self {
            control,
            sizes,
            pseudo,
            class_pseudo: options.class_pseudo,
            sums: Sums::new(W::MODEL, n_workers, shape)?,
            factors: if P::FACTORS_ARE_PARAMS { vec![] } else { table_of(n_workers * n)? },
            mode: Mode::default(),
            model: PhantomData,
        })
    }

    pub fn control(&self) -> &'a Control {
        self.control
    }

    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    pub fn class_pseudo(&self) -> &'a [f64] {
        self.class_pseudo
    }

    /// Whether from now on a task may only have a class that a worker voted for.
    pub fn keep_to_votes(&mut self, voted_only: bool) {
        self.mode.voted_only = voted_only;
    }

    /// The pseudo-counts of a worker, tied as the model asks.
    pub fn pseudo_of(&self, worker: usize) -> &[f64] {
        let n = W::n_counts(self.sizes.shape);
        if self.pseudo.len() == n { &self.pseudo } else { &self.pseudo[worker * n..(worker + 1) * n] }
    }

    /// Begins, passes until the stopping rule is met, and makes the last pass.
    pub fn solve(&mut self, passes: &mut dyn Passes, options: &Options<'_>) -> Result<(Params, Course)>
    where
        P: Extrapolate<W>,
    {
        let mut course = Course::default();
        let mut params = match options.start {
            Start::Protected(most) => {
                let mut params = self.shared(protected::shared_accuracy(passes, self.sizes, self.control)?)?;
                let limits = protected::limits(most, options.tol);
                protected::keep_to_votes(self, passes, &mut params, limits, &mut course, &mut |_| Ok(()))?;
                params
            }
            start => self.start(passes, start)?,
        };
        let options = Options { max_iter: course.n_iter + options.max_iter, ..*options };
        iterate(self, passes, &mut params, &mut course, &options)?;
        Ok((params, course))
    }

    /// The parameters that a start without passes gives.
    pub fn start(&mut self, passes: &mut dyn Passes, start: Start<'_>) -> Result<Params> {
        let opening = match start {
            Start::Shares => Opening::Shares,
            // A constrained initialization has passes of its own.
            Start::Majority | Start::Protected(_) => Opening::Majority,
            Start::RandomVote(seed) => Opening::RandomVote { seed, first: 0 },
            Start::Posterior(posterior) => Opening::Given(posterior),
            Start::Parameters(prior, confusion) => return self.adopt(prior, confusion),
        };
        self.sums.clear(self.class_pseudo);
        passes.open(W::MODEL, opening, &mut self.sums)?;
        let mut params = self.room()?;
        self.maximise(&mut params);
        Ok(params)
    }

    fn room(&self) -> Result<Params> {
        let Sizes { n_workers, shape } = self.sizes;
        Ok(Params {
            workers: table_of(n_workers * P::n_params(shape))?,
            prior: vec![0.0; shape.classes],
            log_prior: 0.0,
        })
    }

    /// Takes given confusion matrices, tied as the model asks.
    fn adopt(&self, prior: &[f64], confusion: &[f64]) -> Result<Params> {
        let mut params =
            Params { workers: tied::<W, P>(self.sizes, confusion)?, prior: prior.to_vec(), log_prior: 0.0 };
        P::settle_classes(&mut params.prior);
        self.set_log_prior(&mut params);
        Ok(params)
    }

    /// Parameters of a crowd in which all workers have this accuracy, whatever the class, and classes are equally
    /// frequent.
    pub fn shared(&self, accuracy: f64) -> Result<Params> {
        // As many counts as make estimates that average them equal to what they average.
        const COUNTS: f64 = 1e6;
        let shape = self.sizes.shape;
        let error = COUNTS * (1.0 - accuracy) / (shape.labels - 1).max(1) as f64;
        let mut matrix = filled(error, shape.cells())?;
        (0..shape.classes).for_each(|class| matrix[class * shape.labels + class] = COUNTS * accuracy);
        let (mut counts, none) = (zeros(W::n_counts(shape))?, zeros(W::n_counts(shape))?);
        W::tie(&matrix, shape, &mut counts);
        let mut params = self.room()?;
        each_block(&mut params.workers, P::n_params(shape), WORKERS, &|_, rows| {
            rows.chunks_exact_mut(P::n_params(shape)).for_each(|worker| P::maximise(&counts, &none, shape, worker));
        });
        params.prior.fill(COUNTS);
        P::settle_classes(&mut params.prior);
        self.set_log_prior(&mut params);
        Ok(params)
    }

    /// Sets the log-density of the parameters: summed by blocks of workers, in order.
    pub fn set_log_prior(&self, params: &mut Params) {
        const WORKERS: usize = 256;
        let (shape, n) = (self.sizes.shape, P::n_params(self.sizes.shape));
        let one =
            |worker: usize| P::log_prior(&params.workers[worker * n..(worker + 1) * n], self.pseudo_of(worker), shape);
        let workers = sum_blocks(self.sizes.n_workers, WORKERS, &|block| block.map(one).sum());
        params.log_prior = workers + P::log_class_prior(&params.prior, self.class_pseudo);
    }

    /// One EM step in place; returns the objective of the parameters it was given.
    pub fn step(&mut self, passes: &mut dyn Passes, params: &mut Params) -> Result<f64> {
        let mode = self.mode;
        self.ask(params, |factors, sums| passes.gather(W::MODEL, factors, mode, sums))?;
        let objective = self.sums.log_evidence + params.log_prior;
        self.maximise(params);
        Ok(objective)
    }

    /// The objective of the parameters that an iteration ended with.
    pub fn conclude(&mut self, passes: &mut dyn Passes, params: &Params) -> Result<f64> {
        Ok(self.ask(params, |factors, _| passes.conclude(W::MODEL, factors))? + params.log_prior)
    }

    /// Asks for something under the parameters: sums, which begin with the pseudo-counts of the classes.
    pub fn ask<T>(&mut self, params: &Params, question: impl FnOnce(Factors<'_>, &mut Sums) -> Result<T>) -> Result<T> {
        if !P::FACTORS_ARE_PARAMS {
            write_factors::<W, P>(&params.workers, self.sizes.shape, &mut self.factors);
        }
        let mut classes = params.prior.clone();
        P::write_class_factors(&mut classes);
        let workers = if P::FACTORS_ARE_PARAMS { &params.workers } else { &self.factors };
        self.sums.clear(self.class_pseudo);
        question(Factors { workers, classes: &classes }, &mut self.sums)
    }

    /// The log-evidence of the last sums.
    pub fn log_evidence(&self) -> f64 {
        self.sums.log_evidence
    }

    /// The M-step: sums to parameters.
    pub fn maximise(&self, params: &mut Params) {
        let (shape, n) = (self.sizes.shape, W::n_counts(self.sizes.shape));
        params.prior.copy_from_slice(&self.sums.classes);
        P::settle_classes(&mut params.prior);
        each_block(&mut params.workers, P::n_params(shape), WORKERS, &|first, rows| {
            let counts = self.sums.workers[first * n..].chunks_exact(n);
            for (i, (worker, counts)) in rows.chunks_exact_mut(P::n_params(shape)).zip(counts).enumerate() {
                P::maximise(counts, self.pseudo_of(first + i), shape, worker);
            }
        });
        self.set_log_prior(params);
    }

    /// Confusion matrices of all workers, (workers × true × observed).
    pub fn confusion(&self, params: Vec<f64>) -> Result<Vec<f64>> {
        confusion_of::<W, P>(self.sizes, params)
    }
}

/// What the E-step reads of all workers' parameters.
pub(super) fn write_factors<W: WorkerModel, P: Estimate<W>>(params: &[f64], shape: Shape, factors: &mut [f64]) {
    let n = P::n_params(shape);
    each_block(factors, W::n_counts(shape), WORKERS, &|first, rows| {
        let rows = rows.chunks_exact_mut(W::n_counts(shape));
        params[first * n..].chunks_exact(n).zip(rows).for_each(|(worker, row)| P::write_factors(worker, shape, row));
    });
}

/// Parameters of given confusion matrices (workers × true × observed).
pub(super) fn tied<W: WorkerModel, P: Estimate<W>>(sizes: Sizes, confusion: &[f64]) -> Result<Vec<f64>> {
    let (shape, n) = (sizes.shape, P::n_params(sizes.shape));
    let none = zeros(W::n_counts(shape))?;
    let mut params = table_of(sizes.n_workers * n)?;
    try_each_block(&mut params, n, WORKERS, &|first, rows| {
        let mut counts = copied(&none)?;
        let matrices = confusion[first * shape.cells()..].chunks_exact(shape.cells());
        for (matrix, worker) in matrices.zip(rows.chunks_exact_mut(n)) {
            W::tie(matrix, shape, &mut counts);
            P::maximise(&counts, &none, shape, worker);
        }
        Ok(())
    })?;
    Ok(params)
}

/// Confusion matrices of parameters, (workers × true × observed); in their place where they are as many.
fn confusion_of<W: WorkerModel, P: Estimate<W>>(sizes: Sizes, params: Vec<f64>) -> Result<Vec<f64>> {
    let (shape, n) = (sizes.shape, P::n_params(sizes.shape));
    if n == shape.cells() {
        let mut confusion = params;
        try_each_block(&mut confusion, n, WORKERS, &|_, rows| {
            let mut copy = zeros(n)?;
            for matrix in rows.chunks_exact_mut(n) {
                copy.copy_from_slice(matrix);
                P::confusion(&copy, shape, matrix)?;
            }
            Ok(())
        })?;
        return Ok(confusion);
    }
    let mut confusion = zeros(sizes.n_workers * shape.cells())?;
    try_each_block(&mut confusion, shape.cells(), WORKERS, &|first, rows| {
        let workers = params[first * n..].chunks_exact(n);
        let mut matrices = rows.chunks_exact_mut(shape.cells()).zip(workers);
        matrices.try_for_each(|(matrix, worker)| P::confusion(worker, shape, matrix))
    })?;
    Ok(confusion)
}

/// Passes until the stopping rule is met, and the last one.
fn iterate<W: WorkerModel, P: Extrapolate<W>>(
    solver: &mut Solver<'_, W, P>,
    passes: &mut dyn Passes,
    params: &mut Params,
    course: &mut Course,
    options: &Options<'_>,
) -> Result<()> {
    let (limits, control) = (limits(options), solver.control);
    let mut steps = EmSteps { solver, passes };
    if options.assignment != Assignment::Soft {
        steps.solver.mode.hard = true;
        course.plain(&mut steps, params, limits, control)?;
        steps.solver.mode.hard = false;
    }
    if options.assignment != Assignment::Hard {
        course.history.clear();
        if options.accelerate {
            course.accelerated(&mut steps, params, limits, control)?;
        } else {
            course.plain(&mut steps, params, limits, control)?;
        }
    }
    let soft = solver.conclude(passes, params)?;
    if options.assignment != Assignment::Hard {
        course.history.push(soft);
    }
    Ok(())
}

/// When an iteration with these options stops.
fn limits(options: &Options<'_>) -> Limits {
    Limits { max_iter: options.max_iter, tolerance: Tolerance::Share(options.tol) }
}

/// A solver, and the holder of the annotations.
struct EmSteps<'s, 'a, W, P> {
    solver: &'s mut Solver<'a, W, P>,
    passes: &'s mut dyn Passes,
}

impl<W: WorkerModel, P: Extrapolate<W>> Steps for EmSteps<'_, '_, W, P> {
    type Point = Params;

    fn step(&mut self, params: &mut Params) -> Result<f64> {
        self.solver.step(self.passes, params)
    }

    fn copy(params: &Params) -> Result<Params> {
        let Params { workers, prior, log_prior } = params;
        Ok(Params { workers: copied(workers)?, prior: prior.clone(), log_prior: *log_prior })
    }

    /// On the natural parameters.
    fn extrapolate(&self, [zero, one, two]: [&Params; 3], reach: &mut Reach) -> Result<Option<Params>> {
        let shape = self.solver.sizes.shape;
        let (a, b) = (natural::<W, P>(zero, shape)?, natural::<W, P>(one, shape)?);
        let c = natural::<W, P>(two, shape)?;
        let Some(step) = reach.step(&a, &b, &c) else { return Ok(None) };
        let mut params = self.solver.room()?;
        let (n, low) = (params.workers.len(), FLOOR.ln());
        let points = a[..n].par_iter().zip(&b[..n]).zip(&c[..n]);
        params.workers.par_iter_mut().zip(points).for_each(|(to, ((x0, x1), x2))| {
            *to = extrapolate(step, *x0, *x1, *x2).clamp(2.0 * low, -2.0 * low);
        });
        each_block(&mut params.workers, P::n_params(shape), WORKERS, &|_, rows| {
            rows.chunks_exact_mut(P::n_params(shape)).for_each(|worker| P::from_natural(worker, shape));
        });
        for (i, to) in params.prior.iter_mut().enumerate() {
            *to = extrapolate(step, a[n + i], b[n + i], c[n + i]).clamp(low, -low).exp();
        }
        P::settle_classes(&mut params.prior);
        self.solver.set_log_prior(&mut params);
        Ok(Some(params))
    }
}

/// Natural parameters of all workers, then of the prior.
fn natural<W: WorkerModel, P: Extrapolate<W>>(params: &Params, shape: Shape) -> Result<Vec<f64>> {
    let mut out = with_room(params.workers.len() + params.prior.len())?;
    out.extend_from_slice(&params.workers);
    each_block(&mut out, P::n_params(shape), WORKERS, &|_, rows| {
        rows.chunks_exact_mut(P::n_params(shape)).for_each(|worker| P::to_natural(worker, shape));
    });
    out.extend(params.prior.iter().map(|p| p.ln()));
    Ok(out)
}
