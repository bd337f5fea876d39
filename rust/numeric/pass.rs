//! One step of the hierarchical Gaussian model: from workers to tasks, and from tasks to what is needed of workers.
//!
//! A rating is x = β + α·y + ε, with ε of precision λ; workers are given by the moments of α and β that a normal
//! distribution about them has. With them a task's value has precision π + Σ λ·E[α²] and so on; the sums of a worker
//! are those of the regression of x on y.

use std::ops::Range;

use super::{Job, View, each_chunk};
use crate::base::control::Control;
use crate::base::memory::{collected, zeros};
use crate::base::short_tasks::{EachTask, by_length};
use crate::{Error, Result};

/// Numbers that describe a worker: λ, E[α], E[β], E[α²], E[αβ], E[β²].
pub const WORKER: usize = 6;
/// Sums of a worker, over its ratings: weights, x, x², y, y² + var(y), x·y, and those of residuals and logarithms that
/// few kinds of noise need.
const SUMS: usize = 8;
/// Numbers of a task: its value and the precision of that.
const TASK: usize = 2;

/// How precise a rating is.
#[derive(Debug, Clone, Copy)]
pub enum Noise<'a> {
    /// As precise as its worker.
    Normal,
    /// Student's t with this many degrees of freedom: less precise the further it is from the values of the last step.
    Student(f64, &'a [f64]),
    /// As precise as its worker is on all other tasks: shapes and rates of the workers' precisions, (workers × 2), and
    /// the expected squared residuals of all rows, by all other workers on the task (leave-one-out messages).
    Others(&'a [f64], &'a [f64]),
}

/// The prior of the tasks' values.
#[derive(Debug, Clone, Copy)]
pub struct Prior {
    /// Its mean.
    pub mean: f64,
    /// Its precision, 0 for a flat one.
    pub precision: f64,
}

/// What a step found.
#[derive(Debug)]
pub struct Passed {
    /// Value and precision of each task, (tasks × 2).
    pub tasks: Vec<f64>,
    /// Sums of each worker, (workers × 8): of weights w, w·x, w·x², w·y, w·(y² + var y), w·x·y, w·(squared residual by
    /// the others), w·ln(ν + λ·residual); weights are those that Student's t leaves, and the last two for their noise
    /// alone.
    pub sums: Vec<f64>,
    /// Expected squared residual of each row by the other workers; empty unless precisions are [`Noise::Others`].
    pub residuals: Vec<f64>,
}

/// One step: the tasks given the workers, then the sums of the workers given the tasks.
///
/// `workers` are rows of [`WORKER`] numbers. A task to which nothing gives precision has the mean of its ratings, and
/// precision 0. O(ratings + tasks + workers) time, two sweeps over each task while it is in cache.
pub fn gaussian_pass(
    view: &View<'_>,
    workers: &[f64],
    prior: Prior,
    noise: Noise<'_>,
    control: &Control,
) -> Result<Passed> {
    let table = view.table();
    let (n, m) = (table.n_tasks(), table.n_workers());
    let odd = |name: &str, got: usize, wanted: usize| {
        Err(Error::invalid(format!("{name} holds {got} numbers instead of {wanted}")))
    };
    if workers.len() != m * WORKER {
        return odd("workers", workers.len(), m * WORKER);
    }
    match noise {
        Noise::Student(_, last) if last.len() != n * TASK => return odd("last", last.len(), n * TASK),
        Noise::Others(shapes, _) if shapes.len() != m * 2 => return odd("shapes", shapes.len(), m * 2),
        Noise::Others(_, rows) if rows.len() != table.len() => return odd("residuals", rows.len(), table.len()),
        _ => {}
    }
    let statistics = collected(workers.chunks_exact(WORKER).map(|w| [w[0] * w[3], w[0] * w[1], w[0] * w[4]]))?;
    let step = Step { view, workers, told: statistics, prior, noise };
    let mut tasks = zeros(n * TASK)?;
    let plain = matches!(noise, Noise::Normal) && table.weights().is_none();
    let run: &Job<'_> = match (plain, table.dims()) {
        (true, 1) => &|tasks, out, sums| step.run_plain::<true>(tasks, out, sums),
        (true, _) => &|tasks, out, sums| step.run_plain::<false>(tasks, out, sums),
        _ => &|tasks, out, sums| step.run(tasks, out, sums),
    };
    let sums = each_chunk(table, (&mut tasks, TASK), SUMS, control, run)?;
    let residuals = match noise {
        Noise::Others(..) => step.by_others(&tasks, control)?,
        _ => vec![],
    };
    Ok(Passed { tasks, sums, residuals })
}

struct Step<'a> {
    view: &'a View<'a>,
    workers: &'a [f64],
    /// Of each worker λ·E[α²], λ·E[α] and λ·E[αβ].
    told: Vec<[f64; 3]>,
    prior: Prior,
    noise: Noise<'a>,
}

impl Step<'_> {
    fn run(&self, tasks: Range<usize>, out: &mut [f64], sums: &mut [f64]) {
        for (task, out) in tasks.zip(out.chunks_exact_mut(TASK)) {
            let (value, precision) = self.value(task);
            out.copy_from_slice(&[value, precision]);
            self.count(task, value, precision, sums);
        }
    }

    /// The same for normal noise without weights: most passes, and nothing but sums.
    fn run_plain<const ONE: bool>(&self, tasks: Range<usize>, out: &mut [f64], sums: &mut [f64]) {
        let (first, (out, _), (sums, _)) = (tasks.start, out.as_chunks_mut(), sums.as_chunks_mut());
        let mut each = Plain::<ONE> { step: self, first, out, sums };
        by_length(self.view.table().offsets(), tasks, &mut each);
    }

    #[inline(always)]
    fn parameters(&self, worker: usize) -> &[f64; WORKER] {
        self.workers[worker * WORKER..].first_chunk().unwrap_or(&[0.0; WORKER])
    }

    /// Value and precision of a task.
    fn value(&self, task: usize) -> (f64, f64) {
        let rows = self.view.table().rows_of(task);
        let (mut precision, mut pull) = (self.prior.precision, self.prior.precision * self.prior.mean);
        for row in rows.clone() {
            let (p, h) = self.message(task, row);
            precision += p;
            pull += h;
        }
        if precision > 0.0 && (pull / precision).is_finite() {
            return (pull / precision, precision);
        }
        let (mut total, mut weight) = (0.0, 0.0);
        for row in rows {
            weight += self.view.weight(row);
            total += self.view.weight(row) * self.view.at(row);
        }
        (if weight > 0.0 { total / weight } else { self.prior.mean }, 0.0)
    }

    /// What a rating adds to the precision of its task, and to precision times value.
    #[inline(always)]
    fn message(&self, task: usize, row: usize) -> (f64, f64) {
        let &[_, a, _, aa, ab, _] = self.parameters(self.view.worker(row));
        let precision = self.precision(task, row) * self.view.weight(row);
        (precision * aa, precision * (a * self.view.at(row) - ab))
    }

    /// The precision of a rating.
    #[inline(always)]
    fn precision(&self, task: usize, row: usize) -> f64 {
        let worker = self.view.worker(row);
        let lambda = self.parameters(worker)[0];
        match self.noise {
            Noise::Normal => lambda,
            Noise::Student(freedom, last) => lambda * tail(freedom, lambda, self.since(task, row, last)),
            Noise::Others(shapes, rows) => {
                let (shape, rate, weight) = (shapes[2 * worker], shapes[2 * worker + 1], self.view.weight(row));
                (shape - 0.5 * weight) / (rate - 0.5 * weight * rows[row])
            }
        }
    }

    /// The expected squared residual of a rating, given the values of the last step.
    #[inline(always)]
    fn since(&self, task: usize, row: usize, last: &[f64]) -> f64 {
        self.residual(row, last[TASK * task], variance(last[TASK * task + 1]))
    }

    /// The expected squared residual of a rating if its task has this value, known with this variance.
    #[inline(always)]
    fn residual(&self, row: usize, y: f64, variance: f64) -> f64 {
        let &[_, a, b, aa, ab, bb] = self.parameters(self.view.worker(row));
        let x = self.view.at(row);
        // The square of the mean residual, and variances on top: no difference of large numbers.
        let spread = (aa - a * a) * y * y + 2.0 * (ab - a * b) * y + (bb - b * b) + aa * variance;
        (x - b - a * y).powi(2) + spread.max(0.0)
    }

    /// Adds the ratings of a task to the sums of their workers.
    #[inline(always)]
    fn count(&self, task: usize, y: f64, precision: f64, sums: &mut [f64]) {
        let variance = variance(precision);
        for row in self.view.table().rows_of(task) {
            let (worker, x) = (self.view.worker(row), self.view.at(row));
            let (weight, log) = match self.noise {
                Noise::Student(freedom, last) => {
                    let lambda = self.parameters(worker)[0];
                    let residual = self.since(task, row, last);
                    (tail(freedom, lambda, residual), (freedom + lambda * residual).ln())
                }
                _ => (1.0, 0.0),
            };
            let own = self.view.weight(row);
            let weight = weight * own;
            let residual = match self.noise {
                Noise::Others(_, rows) => rows[row],
                _ => 0.0,
            };
            let Some(to) = sums[worker * SUMS..].first_chunk_mut::<SUMS>() else { continue };
            to[0] += weight;
            to[1] += weight * x;
            to[2] += weight * x * x;
            to[3] += weight * y;
            to[4] += weight * (y * y + variance);
            to[5] += weight * x * y;
            to[6] += weight * residual;
            to[7] += own * log;
        }
    }

    /// Expected squared residuals of all rows, each by what all other ratings say of its task.
    fn by_others(&self, tasks: &[f64], control: &Control) -> Result<Vec<f64>> {
        let table = self.view.table();
        let mut residuals = zeros(table.len())?;
        for task in 0..table.n_tasks() {
            if task.is_multiple_of(super::TASKS) {
                control.check()?;
            }
            let (value, precision) = (tasks[TASK * task], tasks[TASK * task + 1]);
            for row in table.rows_of(task) {
                let (p, h) = self.message(task, row);
                let rest = (precision - p).max(self.prior.precision);
                let y = (precision * value - h) / rest;
                residuals[row] = if rest > 0.0 && y.is_finite() { self.residual(row, y, 1.0 / rest) } else { 0.0 };
            }
        }
        Ok(residuals)
    }
}

/// Tasks from the `first` on, of normal noise and no weights.
struct Plain<'a, const ONE: bool> {
    step: &'a Step<'a>,
    first: usize,
    out: &'a mut [[f64; TASK]],
    sums: &'a mut [[f64; SUMS]],
}

impl<const ONE: bool> EachTask for Plain<'_, ONE> {
    #[inline(always)]
    fn task(&mut self, task: usize, rows: Range<usize>) {
        let step = self.step;
        let rows = step.view.rows::<ONE>(rows);
        let (mut precision, mut pull) = (step.prior.precision, step.prior.precision * step.prior.mean);
        for (worker, x) in rows.clone() {
            let [aa, a, ab] = step.told[worker];
            precision += aa;
            pull += a * x - ab;
        }
        let mut y = pull / precision;
        if !(precision > 0.0 && y.is_finite()) {
            (y, precision) = step.value(task);
        }
        self.out[task - self.first] = [y, precision];
        let square = y * y + variance(precision);
        for (worker, x) in rows {
            let to = &mut self.sums[worker];
            to[0] += 1.0;
            to[1] += x;
            to[2] += x * x;
            to[3] += y;
            to[4] += square;
            to[5] += x * y;
        }
    }
}

#[inline(always)]
fn variance(precision: f64) -> f64 {
    if precision > 0.0 { 1.0 / precision } else { 0.0 }
}

/// By how much Student's t divides the precision of a rating.
#[inline(always)]
fn tail(freedom: f64, lambda: f64, residual: f64) -> f64 {
    (freedom + 1.0) / (freedom + lambda * residual)
}
