//! A start that a poor first guess cannot spoil.
//!
//! Every worker begins with the same accuracy, the one that explains the votes best when classes are equally frequent,
//! and at first a task may only have a class that a worker voted for: otherwise a rare class, of which little is known,
//! is taken over as a spare cluster for tasks of another one.

use super::Options;
use super::estimate::{Estimate, Mean};
use super::model::WorkerModel;
use super::model::one_coin::OneCoin;
use super::solver::{Params, Sizes, Solver};
use super::sums::Passes;
use crate::Result;
use crate::base::control::Control;
use crate::base::course::{Course, Limits, Tolerance};
use crate::base::memory::zeros;

/// Passes that settle the shared accuracy.
const PASSES: usize = 5;

/// The accuracy the search begins with.
const FIRST: f64 = 0.7;

/// Correct and wrong pseudo-answers of the whole crowd.
const IMAGINARY: (f64, f64) = (2.0, 1.0);

/// The accuracy that fits all votes if all workers have the same one and classes are equally frequent.
pub(super) fn shared_accuracy(passes: &mut dyn Passes, sizes: Sizes, control: &Control) -> Result<f64> {
    let k = sizes.shape.classes;
    let none = (zeros(k * k)?, vec![0.0; k]);
    let mut solver = Solver::<OneCoin, Mean>::new(sizes, &Options::of_priors(&none.0, &none.1), control)?;
    let mut accuracy = FIRST;
    for _ in 0..PASSES {
        let mut params = solver.shared(accuracy)?;
        solver.step(passes, &mut params)?;
        let (right, wrong) = params.workers.chunks_exact(2).fold(IMAGINARY, |(r, w), c| (r + c[0], w + c[1]));
        // Votes that carry no information, or all agree, still leave a vote its direction and a doubt.
        accuracy = (right / (right + wrong)).clamp((1.0 / k as f64 + 0.01).min(0.999), 0.999);
    }
    Ok(accuracy)
}

/// When passes that keep to the votes end.
pub(super) fn limits(max_iter: usize, tol: f64) -> Limits {
    Limits { max_iter, tolerance: Tolerance::Share(tol) }
}

/// Passes in which tasks keep to the classes that were voted for, from parameters that all workers share.
///
/// They count as passes of the course. `amend` is called after each of them, with the new parameters.
pub(super) fn keep_to_votes<W: WorkerModel, P: Estimate<W>>(
    solver: &mut Solver<'_, W, P>,
    passes: &mut dyn Passes,
    params: &mut Params,
    limits: Limits,
    course: &mut Course,
    amend: &mut dyn FnMut(&mut Params) -> Result<()>,
) -> Result<()> {
    solver.keep_to_votes(true);
    while course.running(limits.max_iter) {
        let objective = solver.step(passes, params)?;
        course.advance(objective, limits.tolerance, solver.control());
        amend(params)?;
    }
    solver.keep_to_votes(false);
    course.history.clear();
    course.converged = false;
    Ok(())
}
