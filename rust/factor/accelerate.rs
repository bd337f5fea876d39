//! The loop around a monotone step, with extrapolation (SQUAREM, Varadhan & Roland 2008) and a safeguard.
//!
//! From three points θ0, θ1 = step(θ0), θ2 = step(θ1) with r = θ1 − θ0 and v = (θ2 − θ1) − r, the next one is θ0 + 2s·r +
//! s²·v with s = ‖r‖ / ‖v‖, at least 1 (s = 1 gives θ2 itself), brought back to where points are permitted. Where the
//! objective there is lower than the last, θ2 is taken instead and the longest leap allowed is cut. So the objective never
//! falls, and a refused leap costs one step.

use rayon::prelude::*;

use crate::Result;
use crate::control::Control;
use crate::memory::{copied, par_collected};
use crate::squarem::{Reach, leap};

/// A problem that is solved by repeating a step which never lowers its objective.
pub(crate) trait Steps {
    /// Makes a step; returns the objective at the point given, or at the one reached, but always at the same of both.
    fn step(&mut self, point: &mut [f64]) -> Result<f64>;
    /// Brings an extrapolated point back to where points are permitted.
    fn repair(&self, point: &mut [f64]);
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most steps.
    pub max_iter: usize,
    /// The gain of a cycle of two or three steps below which the iteration has converged.
    pub least_gain: f64,
}

/// The course of an iteration.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The objectives of the steps that were kept.
    pub history: Vec<f64>,
    /// Steps made.
    pub n_iter: usize,
    /// Whether the gain fell below its limit.
    pub converged: bool,
}

impl Run {
    fn record(&mut self, objective: f64, control: &Control) {
        self.history.push(objective);
        self.n_iter += 1;
        control.report(self.n_iter, objective);
    }

    /// Two steps and a leap at a time, from `point`, which ends at the best point found.
    pub fn accelerated(
        &mut self,
        problem: &mut impl Steps,
        point: &mut Vec<f64>,
        limits: Limits,
        control: &Control,
    ) -> Result<()> {
        let mut reach = Reach::default();
        let mut fallback: Option<Vec<f64>> = None;
        let mut cycle_start = self.history.last().copied();
        while self.n_iter < limits.max_iter {
            let zero = copied(point)?;
            let objective = problem.step(point)?;
            let refused = self.history.last().is_some_and(|&last| objective.is_nan() || objective < last);
            if refused && let Some(plain) = fallback.take() {
                // The step was spent on a point that is not kept: it counts, its objective does not.
                self.n_iter += 1;
                reach.refused();
                *point = plain;
                continue;
            }
            self.record(objective, control);
            self.converged = cycle_start.is_some_and(|start| objective - start < limits.least_gain);
            cycle_start = Some(objective);
            if self.converged || self.n_iter >= limits.max_iter {
                return Ok(());
            }
            let one = copied(point)?;
            let objective = problem.step(point)?;
            self.record(objective, control);
            // The last point must be one whose objective cannot be lower: no leap without a step left to check it.
            if self.n_iter >= limits.max_iter {
                return Ok(());
            }
            let leap = extrapolate(&zero, &one, point, &mut reach)?;
            fallback = leap.map(|mut leap| {
                problem.repair(&mut leap);
                std::mem::replace(point, leap)
            });
        }
        // A leap that no step has checked is not kept.
        if let Some(plain) = fallback {
            *point = plain;
        }
        Ok(())
    }
}

/// The extrapolated point, where there is a leap to make.
fn extrapolate(zero: &[f64], one: &[f64], two: &[f64], reach: &mut Reach) -> Result<Option<Vec<f64>>> {
    let Some(step) = reach.step(zero, one, two) else { return Ok(None) };
    let points = zero.par_iter().zip(one).zip(two);
    par_collected(points.map(|((x0, x1), x2)| leap(step, *x0, *x1, *x2))).map(Some)
}
