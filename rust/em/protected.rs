//! A start that a poor first guess cannot spoil.
//!
//! Everybody begins with the same accuracy, the one that explains the votes best when classes are equally frequent, and
//! at first a task may only have a class that somebody voted for: otherwise a rare class, of which little is known, is taken
//! over as a spare cluster for tasks of another one.

use super::engine::{Engine, Params};
use super::estimate::{Estimate, Mean};
use super::one_coin::OneCoin;
use super::{Options, Run, WorkerModel};
use crate::Result;
use crate::control::Control;
use crate::memory::zeros;
use crate::table::Table;

/// Passes that settle the shared accuracy.
const PASSES: usize = 5;

/// The accuracy the search begins with.
const FIRST: f64 = 0.7;

/// Imaginary right and wrong answers of the whole crowd.
const IMAGINARY: (f64, f64) = (2.0, 1.0);

/// The accuracy that fits all votes if everybody has the same one and classes are equally frequent.
fn shared_accuracy(table: &Table, options: &Options<'_>, control: &Control) -> Result<f64> {
    let k = table.n_classes();
    let none = (zeros(k * k)?, vec![0.0; k]);
    let options = Options { pseudo: &none.0, class_pseudo: &none.1, ..*options };
    let mut engine = Engine::<OneCoin, Mean>::new(table, &options, control)?;
    let mut accuracy = FIRST;
    for _ in 0..PASSES {
        let mut params = engine.shared(accuracy)?;
        engine.step(&mut params, false)?;
        let (right, wrong) = params.workers.chunks_exact(2).fold(IMAGINARY, |(r, w), c| (r + c[0], w + c[1]));
        // Votes that say nothing, or all agree, still leave a vote its direction and a doubt.
        accuracy = (right / (right + wrong)).clamp((1.0 / k as f64 + 0.01).min(0.999), 0.999);
    }
    Ok(accuracy)
}

/// Parameters to start from, after at most `passes` passes in which tasks keep to the classes that were voted for.
///
/// They count as passes of `run`. `amend` is called after each of them, with the new parameters.
pub(super) fn start<W: WorkerModel, P: Estimate<W>>(
    engine: &mut Engine<'_, W, P>,
    table: &Table,
    options: &Options<'_>,
    passes: usize,
    run: &mut Run,
    mut amend: impl FnMut(&mut Params) -> Result<()>,
) -> Result<Params> {
    let accuracy = shared_accuracy(table, options, engine.control())?;
    let mut params = engine.shared(accuracy)?;
    engine.voted_only = true;
    while run.n_iter < passes && !run.converged {
        run.step(engine, &mut params, options.tol, false)?;
        amend(&mut params)?;
    }
    engine.voted_only = false;
    run.history.clear();
    run.converged = false;
    Ok(params)
}
