//! Answers and weights by turns.

use rayon::prelude::*;

use super::Tasks;
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{filled, par_tried, zeros};
use crate::{Error, Result};

/// Costs that differ by less than this share of the larger are the same.
const TIE: f64 = 1e-10;
/// No worker's average loss is taken to be below this share of the crowd's.
const LEAST: f64 = 1e-9;

/// How the answer of a task is found.
#[derive(Debug, Clone, Copy)]
pub enum Answering<'a> {
    /// The given answer with the least weighted sum of distances to the others. `distances` has a block (answers ×
    /// answers) for each task; among equals, the one nearer to all without weights, then the one whose `rank` is the
    /// lowest.
    Medoid {
        /// Distances.
        distances: &'a [f64],
        /// Order of the answers, whatever the order of their rows.
        rank: &'a [u32],
    },
    /// The weighted mean of points of this many numbers, whose distance is squared.
    Mean {
        /// Points.
        values: &'a [f64],
        /// Numbers of a point.
        dims: usize,
    },
}

/// What of the weights is fixed, and so how they follow from the workers' losses.
#[derive(Debug, Clone, Copy)]
pub enum Norm {
    /// Sum of exp(−w): weights are logarithms of shares of the loss.
    Log,
    /// Sum of w^(1 − 1/p), or the product of weights at p = 1: weights are losses to the power of −p.
    Power(f64),
}

/// The problem.
#[derive(Debug, Clone, Copy)]
pub struct Scheme<'a> {
    /// The answers of each task.
    pub tasks: Tasks<'a>,
    /// Which worker gave each answer.
    pub workers: &'a [u32],
    /// Number of workers.
    pub n_workers: usize,
    /// How often each answer counts.
    pub counts: Option<&'a [f64]>,
    /// How answers are found.
    pub answering: Answering<'a>,
    /// What is fixed.
    pub norm: Norm,
    /// Pseudo-answers of every worker, with the crowd's average loss.
    pub strength: f64,
    /// Most turns.
    pub max_iter: usize,
    /// Share of the objective below whose change the turns end.
    pub tol: f64,
}

/// What was found.
#[derive(Debug)]
pub struct SchemeFit {
    /// The row of each task's answer, where one of those given was chosen.
    pub rows: Vec<u32>,
    /// The mean of each task, (tasks × dims), where means are the answer.
    pub means: Vec<f64>,
    /// Whether another answer would have done as well.
    pub tied: Vec<bool>,
    /// The weighted mean distance of a task's answers to the one that was found.
    pub spread: Vec<f64>,
    /// Weight of each worker.
    pub weights: Vec<f64>,
    /// Average distance of each worker's answers to those found, shrunk.
    pub losses: Vec<f64>,
    /// The objective after each turn; it never rises.
    pub history: Vec<f64>,
    /// Turns made.
    pub n_iter: usize,
    /// Whether the objective settled.
    pub converged: bool,
}

/// One task's answer.
struct Answer {
    row: u32,
    tied: bool,
    /// Distances of the task's answers to it, or to all that do as well, on average.
    losses: Vec<f64>,
    mean: Vec<f64>,
}

/// Finds answers and weights by turns, from equal weights, until the objective settles.
///
/// A turn takes O(Σ answers²) for medoids and O(answers · dims) for means, shared out by tasks; memory O(answers) next
/// to the distances.
pub fn scheme_fit(scheme: &Scheme<'_>, control: &Control) -> Result<SchemeFit> {
    let blocks = check(scheme)?;
    let n = scheme.tasks.len();
    let count = |row: usize| scheme.counts.map_or(1.0, |counts| counts[row]);
    let mut n_given = filled(0.0, scheme.n_workers)?;
    (0..scheme.workers.len()).for_each(|row| n_given[scheme.workers[row] as usize] += count(row));
    let mut weights = filled(1.0, scheme.n_workers)?;
    let mut losses = zeros::<f64>(scheme.n_workers)?;
    let mut imaginary = None;
    let mut course = Course::default();
    loop {
        let answers = par_tried((0..n).into_par_iter().map(|task| {
            control.check()?;
            answer(scheme, &blocks, task, &weights)
        }))?;
        let mut sums = zeros::<f64>(scheme.n_workers)?;
        for (task, answer) in answers.iter().enumerate() {
            let rows = scheme.tasks.rows(task);
            rows.zip(&answer.losses).for_each(|(row, loss)| sums[scheme.workers[row] as usize] += count(row) * loss);
        }
        let all: f64 = n_given.iter().sum();
        // The crowd's average at equal weights: fixed, so that both halves of a turn lower the same objective.
        let average = *imaginary.get_or_insert(if all > 0.0 { sums.iter().sum::<f64>() / all } else { 0.0 });
        for ((loss, sum), n) in losses.iter_mut().zip(&sums).zip(&n_given) {
            let n = n + scheme.strength;
            *loss = if n > 0.0 { (sum + scheme.strength * average) / n } else { average };
        }
        let before = objective(&weights, &losses, &n_given, scheme.strength);
        let converged = course.history.last().is_some_and(|&last| Tolerance::Share(scheme.tol).met(last, before));
        course.converged = converged && course.n_iter > 0;
        if !course.running(scheme.max_iter) {
            return Ok(found(scheme, &answers, weights, losses, course));
        }
        weigh(scheme.norm, &losses, &n_given, scheme.strength, &mut weights);
        course.record(objective(&weights, &losses, &n_given, scheme.strength), control);
        if !course.history[course.history.len() - 1].is_finite() {
            return Err(Error::invalid("distances are so large that their sum is not finite; divide them by a number"));
        }
    }
}

fn found(scheme: &Scheme<'_>, answers: &[Answer], weights: Vec<f64>, losses: Vec<f64>, course: Course) -> SchemeFit {
    let count = |row: usize| scheme.counts.map_or(1.0, |counts| counts[row]) * weights[scheme.workers[row] as usize];
    let spread = |(task, answer): (usize, &Answer)| {
        let rows = scheme.tasks.rows(task);
        let total: f64 = rows.clone().map(count).sum();
        let sum: f64 = rows.clone().zip(&answer.losses).map(|(row, loss)| count(row) * loss).sum();
        if total > 0.0 { sum / total } else { answer.losses.iter().sum::<f64>() / rows.len().max(1) as f64 }
    };
    SchemeFit {
        rows: answers.iter().map(|answer| answer.row).collect(),
        means: answers.iter().flat_map(|answer| answer.mean.iter().copied()).collect(),
        tied: answers.iter().map(|answer| answer.tied).collect(),
        spread: answers.iter().enumerate().map(spread).collect(),
        weights,
        losses,
        history: course.history,
        n_iter: course.n_iter,
        converged: course.converged,
    }
}

fn check(scheme: &Scheme<'_>) -> Result<Vec<usize>> {
    let n = scheme.workers.len();
    scheme.tasks.check(n)?;
    if scheme.workers.iter().any(|&worker| worker as usize >= scheme.n_workers) {
        return Err(Error::invalid(format!("a worker's code is not below {}", scheme.n_workers)));
    }
    let fit = |count: &f64| count.is_finite() && *count >= 0.0;
    if scheme.counts.is_some_and(|counts| counts.len() != n || !counts.iter().all(fit)) {
        return Err(Error::invalid(format!("there must be a finite weight for each of {n} answers, of 0 or more")));
    }
    if (0..scheme.tasks.len()).any(|task| scheme.tasks.rows(task).is_empty()) {
        return Err(Error::invalid("a task without answers has none to choose"));
    }
    let power = match scheme.norm {
        Norm::Log => 1.0,
        Norm::Power(power) => power,
    };
    if !((0.0..=1.0).contains(&power) && scheme.strength.is_finite() && scheme.strength >= 0.0) || scheme.max_iter == 0
    {
        return Err(Error::invalid("power must lie in [0, 1], strength be at least 0 and max_iter at least 1"));
    }
    match scheme.answering {
        Answering::Medoid { distances, rank } => {
            let blocks = scheme.tasks.blocks()?;
            if distances.len() != blocks[scheme.tasks.len()] || rank.len() != n {
                return Err(Error::invalid(format!(
                    "{} distances and {} ranks, not {} and {n}",
                    distances.len(),
                    rank.len(),
                    blocks[scheme.tasks.len()]
                )));
            }
            match distances.par_iter().position_first(|d| !(d.is_finite() && *d >= 0.0)) {
                None => Ok(blocks),
                Some(at) => Err(Error::invalid(format!("distance {} at place {at} is not 0 or more", distances[at]))),
            }
        }
        Answering::Mean { values, dims } => {
            if dims == 0 || values.len() != n * dims || values.iter().any(|x| !x.is_finite()) {
                return Err(Error::invalid(format!("there must be {dims} finite numbers for each of {n} answers")));
            }
            Ok(vec![])
        }
    }
}

fn answer(scheme: &Scheme<'_>, blocks: &[usize], task: usize, weights: &[f64]) -> Result<Answer> {
    let rows = scheme.tasks.rows(task);
    let (first, n) = (rows.start, rows.len());
    let mut counts = zeros::<f64>(n)?;
    for (count, row) in counts.iter_mut().zip(rows) {
        *count = weights[scheme.workers[row] as usize] * scheme.counts.map_or(1.0, |counts| counts[row]);
    }
    match scheme.answering {
        Answering::Medoid { distances, rank } => {
            let block = &distances[blocks[task]..blocks[task + 1]];
            let from = |a: usize| &block[a * n..(a + 1) * n];
            let cost = |a: usize| from(a).iter().zip(&counts).map(|(d, count)| d * count).sum::<f64>();
            let plain = |a: usize| from(a).iter().sum::<f64>();
            let costs = crate::base::memory::collected((0..n).map(cost))?;
            let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
            let good = || (0..n).filter(|&a| costs[a] <= least + TIE * costs[a]);
            let nearest = good().map(plain).fold(f64::INFINITY, f64::min);
            let ahead = good().filter(|&a| plain(a) <= nearest + TIE * plain(a));
            let at = ahead.min_by_key(|&a| rank[first + a]).unwrap_or(0);
            let tie = good().any(|a| rank[first + a] != rank[first + at]);
            // The choice among ties must not decide which workers to trust: losses are those of all of them, on
            // average.
            let mut losses = zeros::<f64>(n)?;
            let share = 1.0 / good().count() as f64;
            good().for_each(|a| losses.iter_mut().zip(from(a)).for_each(|(loss, d)| *loss += share * d));
            Ok(Answer { row: (first + at) as u32, tied: tie, losses, mean: vec![] })
        }
        Answering::Mean { values, dims } => {
            let points = &values[first * dims..(first + n) * dims];
            let total: f64 = counts.iter().sum();
            if total <= 0.0 {
                counts.fill(1.0);
            }
            let total: f64 = counts.iter().sum();
            let mut mean = vec![0.0; dims];
            for (point, count) in points.chunks_exact(dims).zip(&counts) {
                mean.iter_mut().zip(point).for_each(|(sum, x)| *sum += count / total * x);
            }
            let gap = |point: &[f64]| point.iter().zip(&mean).map(|(x, y)| (x - y) * (x - y)).sum();
            let losses = crate::base::memory::collected(points.chunks_exact(dims).map(gap))?;
            Ok(Answer { row: first as u32, tied: false, losses, mean })
        }
    }
}

/// The sum over workers of weight, number of answers and average loss, with pseudo-answers.
fn objective(weights: &[f64], losses: &[f64], given: &[f64], strength: f64) -> f64 {
    weights.iter().zip(losses).zip(given).map(|((w, loss), n)| w * loss * (n + strength)).sum()
}

/// The weights that are best for the losses.
fn weigh(norm: Norm, losses: &[f64], given: &[f64], strength: f64, weights: &mut [f64]) {
    let all: f64 = given.iter().map(|n| n + strength).sum();
    let mean = |of: &dyn Fn(f64) -> f64| -> f64 {
        losses.iter().zip(given).map(|(&loss, n)| (n + strength) / all * of(loss)).sum()
    };
    let average = mean(&|loss| loss);
    if !(average > 0.0 && average.is_finite()) {
        weights.fill(1.0);
        return;
    }
    let share = |loss: f64| (loss / average).max(LEAST);
    match norm {
        Norm::Log => {
            let workers = losses.len() as f64 + 1.0;
            weights.iter_mut().zip(losses).for_each(|(w, &loss)| *w = (workers / share(loss)).ln().max(0.0));
        }
        Norm::Power(power) => {
            let scale = if power < 1.0 {
                mean(&|loss| share(loss).powf(1.0 - power)).powf(power / (1.0 - power))
            } else {
                mean(&|loss| share(loss).ln()).exp()
            };
            weights.iter_mut().zip(losses).for_each(|(w, &loss)| *w = scale / share(loss).powf(power));
        }
    }
}
