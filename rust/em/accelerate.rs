//! Accelerated EM: SQUAREM (Varadhan & Roland 2008) on the natural parameters, with a safeguard.
//!
//! From three iterates θ0, θ1 = EM(θ0), θ2 = EM(θ1) with r = θ1 − θ0 and v = (θ2 − θ1) − r, the next one is
//! θ0 + 2s·r + s²·v with step s = ‖r‖ / ‖v‖, at least 1 (s = 1 gives θ2 itself). The pass that follows tells the objective
//! there; where it is lower than the last, θ2 is taken instead and the longest step allowed is cut. So the objective never
//! falls, and a refused step costs one pass.

use rayon::prelude::*;

use super::engine::{Engine, Params};
use super::estimate::Extrapolate;
use super::{Options, Run, WorkerModel};
use crate::Result;
use crate::memory::with_room;
use crate::num::FLOOR;
use crate::squarem::{Reach, leap};

/// Two passes and a leap at a time. The stopping rule looks at whole cycles: the pass after a leap may gain little although
/// the leap gained much.
pub(super) fn run<W: WorkerModel, P: Extrapolate<W>>(
    run: &mut Run,
    engine: &mut Engine<'_, W, P>,
    params: &mut Params,
    options: &Options<'_>,
) -> Result<()> {
    run.converged = false;
    let mut reach = Reach::default();
    let mut fallback: Option<Params> = None;
    let mut cycle_start: Option<f64> = None;
    while run.n_iter < options.max_iter {
        let zero = params.copy()?;
        let objective = engine.step(params, false)?;
        let refused = run.history.last().is_some_and(|&last| objective.is_nan() || objective < last);
        if refused && let Some(plain) = fallback.take() {
            // The pass was spent on a point that is not kept: it counts, its objective does not.
            run.n_iter += 1;
            reach.refused();
            *params = plain;
            continue;
        }
        run.record(objective, engine.control());
        run.converged = run.settled(cycle_start, options.tol);
        cycle_start = Some(objective);
        if run.converged || run.n_iter >= options.max_iter {
            return Ok(());
        }
        let one = params.copy()?;
        let objective = engine.step(params, false)?;
        run.record(objective, engine.control());
        // The last point must be one whose objective cannot be lower: no leap without a pass left to check it.
        if run.n_iter >= options.max_iter {
            return Ok(());
        }
        let two = params.copy()?;
        if extrapolate(engine, &zero, &one, params, &mut reach)? {
            fallback = Some(two);
        } else {
            *params = two;
            fallback = None;
        }
    }
    Ok(())
}

/// Moves `two` to the extrapolated point; says whether there was a step to take.
fn extrapolate<W: WorkerModel, P: Extrapolate<W>>(
    engine: &Engine<'_, W, P>,
    zero: &Params,
    one: &Params,
    two: &mut Params,
    reach: &mut Reach,
) -> Result<bool> {
    let k = two.prior.len();
    let (a, b) = (natural::<W, P>(zero, k)?, natural::<W, P>(one, k)?);
    let c = natural::<W, P>(two, k)?;
    let Some(step) = reach.step(&a, &b, &c) else { return Ok(false) };
    let (n, low) = (two.workers.len(), FLOOR.ln());
    two.workers.par_iter_mut().zip(&a[..n]).zip(&b[..n]).zip(&c[..n]).for_each(|(((to, x0), x1), x2)| {
        *to = leap(step, *x0, *x1, *x2).clamp(2.0 * low, -2.0 * low);
    });
    two.workers.par_chunks_mut(P::n_params(k)).for_each(|worker| P::from_natural(worker, k));
    for (i, to) in two.prior.iter_mut().enumerate() {
        *to = leap(step, a[n + i], b[n + i], c[n + i]).clamp(low, -low).exp();
    }
    P::settle_classes(&mut two.prior);
    engine.set_log_prior(two);
    Ok(true)
}

/// Natural parameters of all workers, then of the prior.
fn natural<W: WorkerModel, P: Extrapolate<W>>(params: &Params, k: usize) -> Result<Vec<f64>> {
    let mut out = with_room(params.workers.len() + k)?;
    out.extend_from_slice(&params.workers);
    out.par_chunks_mut(P::n_params(k)).for_each(|worker| P::to_natural(worker, k));
    out.extend(params.prior.iter().map(|p| p.ln()));
    Ok(out)
}
