//! Workers who see leads more or less clearly, or the wrong way round, or favor a side.
//!
//! Worker m sees a lead as `slope_m · lead + bias + bias_m`. Slopes are normal around 1 and average 1, which is what
//! fixes the scale of the scores; biases are normal around 0 and average 0. Scores and workers take turns: a step of
//! Newton's method for the one, then for the others. How far workers spread is learned from the second moments of what
//! they are, given what is not known of them.

use super::newton::Crowd;
use crate::Result;
use crate::base::control::Control;
use crate::base::course::Course;
use crate::base::memory::{copied, filled, with_room, zeros};
use crate::base::num::LEVEL;

/// How far workers spread around the crowd: the standard deviations of slopes and of biases.
pub type Spread = [f64; 2];

/// The least and the greatest spread that is learned: below, workers are alike; above, they have no meaning.
const SPREADS: (f64, f64) = (1e-2, 10.0);
/// Iterations in which the spread of workers may still change.
const LEARNING: usize = 20;
/// The change of the spread, as a share of itself, below which it is learned.
const LEARNT: f64 = 1e-2;

/// Scores that are found by Newton's method, with workers who may differ.
pub(super) trait Scores {
    /// Looks around at the point; returns the objective without the workers' own prior.
    fn look(&mut self, control: &Control) -> Result<f64>;
    /// A step from where it was last looked, given the objective there and the distance to come to at the last; returns
    /// the objective after it, and how far the point was from the summit: the mean square of its error, in standard
    /// errors.
    fn step(&mut self, objective: f64, goal: f64, control: &Control) -> Result<(f64, f64)>;
    /// What is known of workers.
    fn crowd(&mut self) -> &mut Crowd;
    /// What the answers of each worker say of their slope and bias.
    fn evidence(&self, n_workers: usize, control: &Control) -> Result<Vec<Evidence>>;
}

/// Newton's method for scores alone, until the mean square of their errors is below the goal.
pub(super) fn alone(
    ascent: &mut impl Scores,
    mut objective: f64,
    max_iter: usize,
    goal: f64,
    course: &mut Course,
    control: &Control,
) -> Result<f64> {
    course.converged = false;
    while course.running(max_iter) {
        let (reached, gain) = ascent.step(objective, goal, control)?;
        objective = reached;
        course.record(objective, control);
        // A step from that near leads nearer still, by as much again.
        course.converged = gain <= goal.sqrt();
    }
    Ok(objective)
}

/// How exactly the equations of a step need be solved from such a distance, the mean square of errors in standard
/// errors, to come within the goal at the last: coarsely far from the summit.
pub(super) fn exactness(distance: f64, goal: f64) -> f64 {
    (0.3 * distance.max(0.0).sqrt()).clamp((0.3 * goal.sqrt()).clamp(1e-8, 0.1), 0.1)
}

/// What the comparisons of a worker say of slope and bias: the log-likelihood and its derivatives, the signs of the
/// second ones changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Evidence {
    pub slope: [f64; 2],
    /// By slope, by bias, by both.
    pub bend: [f64; 3],
}

/// Workers on their way to slopes and biases.
pub(super) struct Workers {
    /// Whether they have slopes, and biases, of their own.
    own: [bool; 2],
    /// Those who compared anything: the others are average.
    active: Vec<bool>,
    /// Which spreads are to be learned.
    learn: [bool; 2],
    pub spread: Spread,
    /// Standard errors of slopes and biases.
    pub errors: [Vec<f64>; 2],
}

impl Workers {
    /// Those who are active have slopes, or biases, of their own, with spreads as given or to be learned.
    pub fn new(active: Vec<bool>, own: [bool; 2], spread: Spread) -> Self {
        let learn = [own[0] && spread[0].is_nan(), own[1] && spread[1].is_nan()];
        Self { own, active, learn, spread, errors: [vec![], vec![]] }
    }

    /// Workers and scores in turn.
    pub fn together(
        &mut self,
        ascent: &mut impl Scores,
        max_iter: usize,
        goal: f64,
        course: &mut Course,
        control: &Control,
    ) -> Result<()> {
        let n_workers = self.active.len();
        if self.own[0] {
            ascent.crowd().slopes = filled(1.0, n_workers)?;
        }
        if self.own[1] {
            ascent.crowd().biases = zeros(n_workers)?;
        }
        let mut evidence = ascent.evidence(n_workers, control)?;
        self.learn_spread(ascent.crowd(), &evidence)?;
        let mut learning = 0;
        course.history.clear();
        let mut objective = ascent.look(control)? + self.density(ascent.crowd());
        course.converged = false;
        while course.running(max_iter) {
            let (reached, worker_gain) = self.step(ascent, &evidence, objective, control)?;
            let prior = self.density(ascent.crowd());
            let (reached, gain) = ascent.step(reached - prior, goal, control)?;
            objective = reached + prior;
            evidence = ascent.evidence(n_workers, control)?;
            let still =
                self.learn.contains(&true) && learning < LEARNING && self.learn_spread(ascent.crowd(), &evidence)?;
            if still {
                learning += 1;
                objective = reached + self.density(ascent.crowd());
                course.history.clear();
            }
            course.record(objective, control);
            course.converged = !still && gain <= goal && worker_gain <= goal;
        }
        self.note_errors(&evidence)
    }

    /// The log-density of slopes and biases, as far as it depends on them.
    fn density(&self, crowd: &Crowd) -> f64 {
        let part = |values: &[f64], mean: f64, spread: f64| {
            -0.5 * values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (spread * spread)
        };
        let slopes = if self.own[0] { part(&crowd.slopes, 1.0, self.spread[0]) } else { 0.0 };
        slopes + if self.own[1] { part(&crowd.biases, 0.0, self.spread[1]) } else { 0.0 }
    }

    /// The spread under which what workers' answers say of them, each a normal number with an error, is most probable;
    /// returns whether it has still changed.
    fn learn_spread(&mut self, crowd: &Crowd, evidence: &[Evidence]) -> Result<bool> {
        let mut changed = false;
        for i in (0..2).filter(|&i| self.learn[i]) {
            let (values, mean) = if i == 0 { (&crowd.slopes, 1.0) } else { (&crowd.biases, 0.0) };
            let mut ranges: Vec<[f64; 2]> = with_room(evidence.len())?;
            for (value, one) in values.iter().zip(evidence).filter(|(_, one)| one.bend[i] > 0.0) {
                // Where the answers of a worker alone would put them, and how surely.
                ranges.push([value - mean + one.slope[i] / one.bend[i], 1.0 / one.bend[i]]);
            }
            let spread = likeliest_spread(&ranges);
            // A spread that is near enough stays, and so does the objective it is part of.
            if self.spread[i].is_nan() || (spread - self.spread[i]).abs() > LEARNT * self.spread[i] {
                self.spread[i] = spread;
                changed = true;
            }
        }
        Ok(changed)
    }

    /// Second derivatives of a worker's objective, by slope, bias and both; those that are not free stand alone.
    fn matrix(&self, one: &Evidence) -> [f64; 3] {
        let free = |i: usize| if self.own[i] { one.bend[i] + self.spread[i].powi(-2) } else { 1.0 };
        [free(0), free(1), if self.own[0] && self.own[1] { one.bend[2] } else { 0.0 }]
    }

    /// A step of Newton's method for all workers, along which slopes keep averaging 1 and biases 0; returns the
    /// objective and the mean square of their errors, in standard errors.
    fn step(
        &self,
        ascent: &mut impl Scores,
        evidence: &[Evidence],
        objective: f64,
        control: &Control,
    ) -> Result<(f64, f64)> {
        let before = Crowd { slopes: copied(&ascent.crowd().slopes)?, biases: copied(&ascent.crowd().biases)? };
        let (mut moved, mut inverses) = ([0.0; 2], [0.0; 3]);
        let mut gradients = filled([0.0; 2], evidence.len())?;
        for (worker, one) in evidence.iter().enumerate().filter(|(worker, _)| self.active[*worker]) {
            let (a, b) = before.of(worker);
            let pull = [a - 1.0, b];
            for i in (0..2).filter(|&i| self.own[i]) {
                gradients[worker][i] = one.slope[i] - pull[i] * self.spread[i].powi(-2);
            }
            let inverse = inverse(self.matrix(one));
            let way = times(inverse, gradients[worker]);
            (0..2).for_each(|i| moved[i] += way[i]);
            (0..3).for_each(|i| inverses[i] += inverse[i]);
        }
        // What holds the averages in place pulls equally at all.
        let tension = times(inverse(inverses), moved);
        let mut ways = filled([0.0; 2], evidence.len())?;
        let (mut gain, mut n) = (0.0, 0.0);
        for (worker, one) in evidence.iter().enumerate().filter(|(worker, _)| self.active[*worker]) {
            let pulled = [0, 1].map(|i| if self.own[i] { gradients[worker][i] - tension[i] } else { 0.0 });
            ways[worker] = times(inverse(self.matrix(one)), pulled);
            gain += pulled[0] * ways[worker][0] + pulled[1] * ways[worker][1];
            n += 1.0;
        }
        let mut length = 1.0;
        loop {
            let Crowd { slopes, biases } = ascent.crowd();
            for (to, from, i) in [(slopes, &before.slopes, 0), (biases, &before.biases, 1)] {
                to.iter_mut().zip(from).zip(&ways).for_each(|((to, from), way)| *to = from + length * way[i]);
            }
            let reached = ascent.look(control)? + self.density(ascent.crowd());
            if reached >= objective - LEVEL * objective.abs() {
                return Ok((reached, gain / f64::max(n, 1.0)));
            }
            length *= 0.5;
            if length < 1e-9 {
                *ascent.crowd() = before;
                return Ok((ascent.look(control)? + self.density(ascent.crowd()), 0.0));
            }
        }
    }

    fn note_errors(&mut self, evidence: &[Evidence]) -> Result<()> {
        for i in (0..2).filter(|&i| self.own[i]) {
            let mut errors = zeros(evidence.len())?;
            for (to, one) in errors.iter_mut().zip(evidence) {
                *to = inverse(self.matrix(one))[i].sqrt();
            }
            self.errors[i] = errors;
        }
        Ok(())
    }
}

/// The standard deviation of normal numbers around 0 of which these were seen, with the variances of their errors:
/// where the derivative of the log-likelihood by the variance changes its sign, found by halving.
fn likeliest_spread(seen: &[[f64; 2]]) -> f64 {
    let rising = |spread: f64| {
        let slope = |&[x, error]: &[f64; 2]| {
            let variance = spread * spread + error;
            (x * x / variance - 1.0) / variance
        };
        seen.iter().map(slope).sum::<f64>() > 0.0
    };
    let (mut low, mut high) = SPREADS;
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if rising(middle) { low = middle } else { high = middle }
    }
    low
}

/// The inverse of a symmetric matrix [a, b, c] of rows (a, c) and (c, b).
fn inverse([a, b, c]: [f64; 3]) -> [f64; 3] {
    let determinant = a * b - c * c;
    if determinant > 0.0 { [b / determinant, a / determinant, -c / determinant] } else { [1.0 / a, 1.0 / b, 0.0] }
}

fn times([a, b, c]: [f64; 3], [x, y]: [f64; 2]) -> [f64; 2] {
    [a * x + c * y, c * x + b * y]
}
