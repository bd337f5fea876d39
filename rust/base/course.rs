//! How an iteration goes: its history, its stopping rule, and extrapolation between its steps.

use crate::Result;
use crate::base::control::Control;
use crate::base::num::settled;
use crate::base::squarem::Reach;

/// The course of an iteration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Course {
    /// The objectives of the steps that were kept.
    pub history: Vec<f64>,
    /// Steps made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
    /// Steps of earlier iterations, which are reported together with these.
    pub before: usize,
}

/// When an objective has changed little enough.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tolerance {
    /// Up or down, by less than this share of itself.
    Share(f64),
    /// Upwards, by less than this.
    Gain(f64),
}

impl Tolerance {
    /// Whether the way from one objective to another ends an iteration.
    pub fn met(self, earlier: f64, now: f64) -> bool {
        match self {
            Self::Share(share) => settled(now, Some(earlier), share),
            Self::Gain(gain) => now - earlier < gain,
        }
    }
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most steps.
    pub max_iter: usize,
    /// The change below which the iteration has converged.
    pub tolerance: Tolerance,
}

/// A problem that is solved by repeating a step which never lowers its objective.
pub(crate) trait Steps {
    /// Where a step begins and ends.
    type Point;
    /// The same point once more.
    fn copy(point: &Self::Point) -> Result<Self::Point>;
    /// Makes a step; returns the objective at the point given, or at the one reached, but always at the same of both.
    fn step(&mut self, point: &mut Self::Point) -> Result<f64>;
    /// A permitted point beyond three consecutive ones, where an extrapolation is possible.
    fn extrapolate(&self, points: [&Self::Point; 3], reach: &mut Reach) -> Result<Option<Self::Point>>;
}

impl Course {
    /// Whether another step is to be made.
    pub fn running(&self, max_iter: usize) -> bool {
        self.n_iter < max_iter && !self.converged
    }

    /// Notes the objective that a step found.
    pub fn record(&mut self, objective: f64, control: &Control) {
        self.history.push(objective);
        self.n_iter += 1;
        control.report(self.before + self.n_iter, objective);
    }

    /// Notes the objective of a step, and whether it changed little from that of the step before.
    pub fn advance(&mut self, objective: f64, tolerance: Tolerance, control: &Control) {
        let last = self.history.last().copied();
        self.record(objective, control);
        self.converged = last.is_some_and(|last| tolerance.met(last, objective));
    }

    /// Steps until a limit is reached.
    pub fn plain<S: Steps>(
        &mut self,
        problem: &mut S,
        point: &mut S::Point,
        limits: Limits,
        control: &Control,
    ) -> Result<()> {
        self.converged = false;
        while self.running(limits.max_iter) {
            let objective = problem.step(point)?;
            self.advance(objective, limits.tolerance, control);
        }
        Ok(())
    }

    /// Two steps and an extrapolation at a time (SQUAREM, Varadhan & Roland 2008), from `point`, which ends at the best
    /// one found.
    ///
    /// Where the objective after an extrapolation is lower than the last, the point before it is taken instead and
    /// extrapolations become shorter. So the objective never falls, and a rejected extrapolation costs one step. The
    /// stopping rule looks at whole cycles: the step after an extrapolation may gain little although the extrapolation
    /// gained much.
    pub fn accelerated<S: Steps>(
        &mut self,
        problem: &mut S,
        point: &mut S::Point,
        limits: Limits,
        control: &Control,
    ) -> Result<()> {
        self.converged = false;
        let mut reach = Reach::default();
        let mut fallback: Option<S::Point> = None;
        let mut cycle_start = self.history.last().copied();
        while self.n_iter < limits.max_iter {
            let zero = S::copy(point)?;
            let objective = problem.step(point)?;
            let worse = self.history.last().is_some_and(|&last| objective.is_nan() || objective < last);
            if worse && let Some(plain) = fallback.take() {
                // The step was spent on a point that is not kept: it counts, its objective does not.
                self.n_iter += 1;
                reach.refused();
                *point = plain;
                continue;
            }
            self.record(objective, control);
            self.converged = cycle_start.is_some_and(|start| limits.tolerance.met(start, objective));
            cycle_start = Some(objective);
            if self.converged || self.n_iter >= limits.max_iter {
                return Ok(());
            }
            let one = S::copy(point)?;
            let objective = problem.step(point)?;
            self.record(objective, control);
            // The last point must be one whose objective cannot be lower: no extrapolation without a step left to check
            // it.
            if self.n_iter >= limits.max_iter {
                return Ok(());
            }
            fallback = problem
                .extrapolate([&zero, &one, point], &mut reach)?
                .map(|point_ahead| std::mem::replace(point, point_ahead));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::squarem::extrapolate;

    /// A linear iteration toward (1, 1), whose objective is minus the distance; extrapolations overshoot on request.
    struct Halving {
        overshoot: bool,
    }

    impl Steps for Halving {
        type Point = Vec<f64>;

        fn step(&mut self, point: &mut Vec<f64>) -> Result<f64> {
            let before = -point.iter().map(|x| (x - 1.0).abs()).sum::<f64>();
            for (x, rate) in point.iter_mut().zip([0.9, 0.5]) {
                *x = 1.0 + rate * (*x - 1.0);
            }
            Ok(before)
        }

        fn copy(point: &Vec<f64>) -> Result<Vec<f64>> {
            Ok(point.clone())
        }

        fn extrapolate(&self, points: [&Vec<f64>; 3], reach: &mut Reach) -> Result<Option<Vec<f64>>> {
            let step = reach.step(points[0], points[1], points[2]);
            let step = step.map(|step| step * if self.overshoot { 100.0 } else { 1.0 });
            let point = |step| (0..2).map(|i| extrapolate(step, points[0][i], points[1][i], points[2][i])).collect();
            Ok(step.map(point))
        }
    }

    fn distance(max_iter: usize, overshoot: bool, accelerate: bool) -> (f64, Course) {
        let limits = Limits { max_iter, tolerance: Tolerance::Share(0.0) };
        let (mut course, mut point, control) = (Course::default(), vec![0.0, 0.0], Control::default());
        let problem = &mut Halving { overshoot };
        if accelerate {
            course.accelerated(problem, &mut point, limits, &control).unwrap();
        } else {
            course.plain(problem, &mut point, limits, &control).unwrap();
        }
        (point.iter().map(|x| (x - 1.0).abs()).sum(), course)
    }

    #[test]
    fn leaps_get_there_sooner_and_never_fall() {
        let (plain, _) = distance(30, false, false);
        let (leapt, course) = distance(30, false, true);
        assert!(leapt < 0.1 * plain, "{leapt} against {plain}");
        assert!(course.history.windows(2).all(|w| w[1] >= w[0]));
    }

    #[test]
    fn a_refused_leap_costs_a_step_and_nothing_else() {
        let (far, course) = distance(30, true, true);
        assert_eq!(course.n_iter, 30);
        assert!(course.history.len() < 30 && course.history.windows(2).all(|w| w[1] >= w[0]), "{:?}", course.history);
        assert!(far <= distance(course.history.len() - 1, false, false).0);
    }

    #[test]
    fn an_objective_of_zero_is_settled() {
        let mut course = Course::default();
        let control = Control::default();
        course.advance(0.0, Tolerance::Share(1e-6), &control);
        assert!(!course.converged);
        course.advance(0.0, Tolerance::Share(1e-6), &control);
        assert!(course.converged);
        assert!(!Tolerance::Share(0.0).met(0.0, 0.0) && Tolerance::Gain(1.0).met(0.0, 0.5));
    }
}
