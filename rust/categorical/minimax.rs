//! Minimax conditional entropy (Zhou et al. 2012, 2014): workers and tasks that confuse classes, each in their own way.
//!
//! Worker `w` gives `l` on task `n` of class `c` with a probability proportional to exp(tau[n][c, l] + sigma[w][c,
//! l]): the distribution of greatest entropy with the confusions that each worker and each task was seen to have. Its
//! multipliers tau and sigma maximize the dual, which is the log-likelihood with classes summed out, less half the
//! penalties times the squares of the multipliers (that is how far confusions may differ from those that were seen).
//! Where classes are ordered, a matrix is a sum over the places between two classes of four numbers each, for truth
//! and label below or not below it.
//!
//! A pass moves every worker given the posteriors (the M-step of EM), then every task with its posterior summed out.
//! Each takes one step of Newton's method on a block of its own, halved until the block's part does not fall: so
//! neither does the objective.

mod newton;

use rayon::prelude::*;

use self::newton::{Climber, Shape, Side, chances};
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{clear, collected, copied, ready, zeros};
use crate::base::num::{normalise, softmax};
use crate::categorical::table::{Table, WorkerOrder};
use crate::categorical::votes;
use crate::{Error, Result};

/// More than this is not asked for.
const MOST_BYTES: usize = 1 << 34;
/// Tasks that one job handles.
const BLOCK: usize = 1 << 8;
/// Rows of a worker between two looks at the control.
const ROWS_PER_CHECK: usize = 1 << 10;
/// Steps of a task whose workers are known, and the length at which they end.
const STEPS_ALONE: usize = 100;
const STILL: f64 = 1e-12;
/// Posterior probabilities below this add nothing that a sum would show.
const NOTHING: f64 = 1e-16;

/// Arguments of [`minimax_fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether classes are ordered by their codes.
    pub ordinal: bool,
    /// Penalty of each worker's numbers.
    pub worker_penalty: f64,
    /// Penalty of each task's numbers.
    pub task_penalty: f64,
    /// Most passes.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself.
    pub tol: f64,
}

/// What [`minimax_fit`] found.
#[derive(Debug)]
pub struct Fit {
    /// Class posterior of each task, (tasks × classes).
    pub posterior: Vec<f64>,
    /// Probabilities of each worker's labels, averaged over the tasks they labeled, (workers × classes × classes).
    pub confusion: Vec<f64>,
    /// Multipliers of each worker, (workers × classes × classes).
    pub sigma: Vec<f64>,
    /// Multipliers of each task, (tasks × classes × classes).
    pub tau: Vec<f64>,
    /// The objective after each pass.
    pub history: Vec<f64>,
    /// Passes made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// Fits the multipliers, from vote shares.
///
/// Time O(annotations · classes³) a pass where posteriors are open, O(annotations · classes²) where they are sharp,
/// and O((tasks + workers) · classes⁴) to solve for the steps. Memory: two numbers for each cell of a matrix of each
/// task and worker (16 · classes² bytes), and the table in worker order.
pub fn minimax_fit(table: &Table, options: &Options, control: &Control) -> Result<Fit> {
    validate(table, options.ordinal, &[options.worker_penalty, options.task_penalty])?;
    let order = table.by_worker(control)?;
    let mut model = Model {
        table,
        control,
        workers: Side::new(table.n_workers(), table.n_labels(), options.ordinal, options.worker_penalty)?,
        tasks: Side::new(table.n_tasks(), table.n_labels(), options.ordinal, options.task_penalty)?,
        posterior: votes::shares(table, None, control)?.0,
    };
    let mut course = Course::default();
    while course.running(options.max_iter) {
        model.move_workers(order)?;
        let objective = model.move_tasks(1)?;
        course.advance(objective, Tolerance::Share(options.tol), control);
    }
    let confusion = model.confusion(order)?;
    let Model { workers, tasks, posterior, .. } = model;
    let (sigma, tau) = (workers.matrices(), tasks.matrices());
    let Course { history, n_iter, converged, .. } = course;
    Ok(Fit { posterior, confusion, sigma, tau, history, n_iter, converged })
}

/// Class posteriors (tasks × classes) of tasks labeled by workers of known multipliers, (workers × classes × classes).
pub fn minimax_posterior(
    table: &Table,
    sigma: &[f64],
    ordinal: bool,
    task_penalty: f64,
    control: &Control,
) -> Result<Vec<f64>> {
    validate(table, ordinal, &[task_penalty])?;
    let k = table.n_labels();
    if sigma.len() != table.n_workers() * k * k || sigma.iter().any(|x| !x.is_finite()) {
        return Err(Error::invalid(format!("sigma must hold {} finite numbers", table.n_workers() * k * k)));
    }
    // The workers stay where they are: only their exponentials are read.
    let mut workers = Side::new(0, k, ordinal, task_penalty)?;
    workers.factors = collected(sigma.iter().map(|x| x.exp()))?;
    let tasks = Side::new(table.n_tasks(), k, ordinal, task_penalty)?;
    let mut model = Model { table, control, workers, tasks, posterior: zeros(table.n_tasks() * k)? };
    model.move_tasks(STEPS_ALONE)?;
    Ok(model.posterior)
}

fn validate(table: &Table, ordinal: bool, penalties: &[f64]) -> Result<()> {
    if let Some(bad) = penalties.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
        return Err(Error::invalid(format!("a penalty of {bad} is not a positive number")));
    }
    let (k, blocks) = (table.n_labels(), table.n_tasks() + table.n_workers());
    let cells = k.saturating_mul(k);
    let each = Shape::new(ordinal).n_numbers(k).saturating_add(cells);
    let numbers = blocks.saturating_mul(each).saturating_add(cells.saturating_mul(k));
    let bytes = numbers.saturating_mul(size_of::<f64>());
    if bytes > MOST_BYTES {
        let gib = |bytes: usize| bytes >> 30;
        return Err(Error::invalid(format!(
            "matrices of {k} × {k} classes for {} tasks and {} workers would take {} GiB, more than {} GiB; lay rare \
             classes together, or choose a model without a matrix for each task",
            table.n_tasks(),
            table.n_workers(),
            gib(bytes),
            gib(MOST_BYTES),
        )));
    }
    Ok(())
}

struct Model<'a> {
    table: &'a Table,
    control: &'a Control,
    workers: Side,
    tasks: Side,
    posterior: Vec<f64>,
}

impl Model<'_> {
    /// Every task ascends at most this many steps; returns the objective they reach.
    fn move_tasks(&mut self, n_steps: usize) -> Result<f64> {
        let (table, control) = (self.table, self.control);
        let Self { workers, tasks: Side { shape, k, penalty, numbers, factors }, posterior, .. } = self;
        let (k, n, workers) = (*k, shape.n_numbers(*k), &*workers);
        let blocks: Vec<f64> = posterior
            .par_chunks_mut(BLOCK * k)
            .zip(numbers.par_chunks_mut(BLOCK * n).zip(factors.par_chunks_mut(BLOCK * k * k)))
            .enumerate()
            .map(|(block, (posterior, (numbers, factors)))| {
                let mut climber = Climber::new(*shape, k, *penalty)?;
                let mut task = Task { table, control, workers, index: block * BLOCK, chances: vec![0.0; k] };
                let mut sum = 0.0;
                let own = numbers.chunks_exact_mut(n).zip(factors.chunks_exact_mut(k * k));
                for (posterior, (numbers, factors)) in posterior.chunks_exact_mut(k).zip(own) {
                    sum += task.ascend(&mut climber, posterior, numbers, factors, n_steps)?;
                    task.index += 1;
                }
                Ok(sum)
            })
            .collect::<Result<_>>()?;
        let charge = 0.5 * self.workers.penalty * self.workers.numbers.iter().map(|x| x * x).sum::<f64>();
        Ok(blocks.iter().sum::<f64>() - charge)
    }

    /// Every worker ascends one step, given the posteriors.
    fn move_workers(&mut self, order: &WorkerOrder) -> Result<()> {
        let control = self.control;
        let Self { workers: Side { shape, k, penalty, numbers, factors }, tasks, posterior, .. } = self;
        let (k, tasks, posterior) = (*k, &*tasks, &*posterior);
        let blocks = numbers.par_chunks_mut(shape.n_numbers(k)).zip(factors.par_chunks_mut(k * k)).enumerate();
        blocks.try_for_each_init(
            || (Climber::new(*shape, k, *penalty), vec![0.0; k]),
            |(climber, chance), (w, (numbers, factors))| {
                let climber = ready(climber)?;
                let labels = Labels { order, tasks, posterior, control, worker: w };
                climber.forget();
                let mut value = 0.0;
                labels.each(|other, class, label, weight| {
                    value += weight * chances(factors, other, class, label, chance).ln();
                    climber.add(factors, other, class, label, weight);
                })?;
                let from = value - climber.charge(numbers);
                climber.ascend(numbers, factors, from, |own| {
                    let mut value = 0.0;
                    labels.each(|other, class, label, weight| {
                        value += weight * chances(own, other, class, label, chance).ln();
                    })?;
                    Ok(value)
                })?;
                Ok(())
            },
        )
    }

    /// Probabilities of each worker's labels of each class, averaged over the tasks they labeled; on a task without
    /// confusions of its own where they labeled none of the class.
    fn confusion(&self, order: &WorkerOrder) -> Result<Vec<f64>> {
        let k = self.workers.k;
        let mut out = copied(&self.workers.factors)?;
        out.par_chunks_mut(k * k).enumerate().try_for_each_init(Vec::new, |sums, (w, out)| {
            let labels =
                Labels { order, tasks: &self.tasks, posterior: &self.posterior, control: self.control, worker: w };
            let (own, mut chance) = (self.workers.of(w as u32), vec![0.0; k]);
            clear(sums, k * k)?;
            labels.each(|other, class, label, weight| {
                chances(own, other, class, label, &mut chance);
                sums[class * k..(class + 1) * k].iter_mut().zip(&chance).for_each(|(sum, p)| *sum += weight * p);
            })?;
            for (row, sums) in out.chunks_exact_mut(k).zip(sums.chunks_exact(k)) {
                if sums.iter().any(|x| *x > 0.0) {
                    row.copy_from_slice(sums);
                }
                normalise(row);
            }
            Ok(())
        })?;
        Ok(out)
    }
}

/// One task and those who labeled it.
struct Task<'a> {
    table: &'a Table,
    control: &'a Control,
    workers: &'a Side,
    index: usize,
    chances: Vec<f64>,
}

impl Task<'_> {
    /// Worker's factors, label and weight of each row.
    fn rows(&self) -> impl Iterator<Item = (&[f64], usize, f64)> {
        self.table.rows_of(self.index).map(|row| {
            let weight = self.table.weights().map_or(1.0, |w| w[row]);
            (self.workers.of(self.table.workers()[row]), self.table.labels().get(row), weight)
        })
    }

    /// The log-likelihood of the labels, classes summed out; writes the posterior.
    fn evaluate(&self, own: &[f64], posterior: &mut [f64], chance: &mut [f64]) -> Result<f64> {
        self.control.check()?;
        posterior.fill(-(posterior.len() as f64).ln());
        for (other, label, weight) in self.rows() {
            for (class, log) in posterior.iter_mut().enumerate() {
                *log += weight * chances(own, other, class, label, chance).ln();
            }
        }
        Ok(softmax(posterior))
    }

    /// Takes at most this many steps uphill; returns the value they lead to.
    fn ascend(
        &mut self,
        climber: &mut Climber,
        posterior: &mut [f64],
        numbers: &mut [f64],
        factors: &mut [f64],
        n_steps: usize,
    ) -> Result<f64> {
        let mut chance = std::mem::take(&mut self.chances);
        let mut value = self.evaluate(factors, posterior, &mut chance)? - climber.charge(numbers);
        for _ in 0..n_steps {
            climber.forget();
            for (other, label, weight) in self.rows() {
                for (class, q) in posterior.iter().enumerate().filter(|(_, q)| **q > NOTHING) {
                    climber.add(factors, other, class, label, weight * q);
                }
            }
            let evaluate = |own: &[f64]| self.evaluate(own, posterior, &mut chance);
            let (reached, length) = climber.ascend(numbers, factors, value, evaluate)?;
            value = reached;
            if length < STILL {
                break;
            }
        }
        self.chances = chance;
        Ok(value)
    }
}

/// The labels of one worker.
struct Labels<'a> {
    order: &'a WorkerOrder,
    tasks: &'a Side,
    posterior: &'a [f64],
    control: &'a Control,
    worker: usize,
}

impl Labels<'_> {
    /// Calls `job` with the task's factors, a class, the label, and the weight that it has with the task of that class.
    fn each(&self, mut job: impl FnMut(&[f64], usize, usize, f64)) -> Result<()> {
        let k = self.tasks.k;
        for at in self.order.offsets[self.worker] as usize..self.order.offsets[self.worker + 1] as usize {
            if at.is_multiple_of(ROWS_PER_CHECK) {
                self.control.check()?;
            }
            let (task, label) = (self.order.tasks[at], self.order.labels.get(at));
            let weight = self.order.weights.as_ref().map_or(1.0, |weights| weights[at]);
            let (factors, first) = (self.tasks.of(task), task as usize * k);
            for (class, q) in self.posterior[first..first + k].iter().enumerate().filter(|(_, q)| **q > NOTHING) {
                job(factors, class, label, weight * q);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
