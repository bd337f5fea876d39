//! The one-coin model with more classes than fit in rows: what a pass costs does not depend on their number.
//!
//! Under one-coin workers, labels speak for the classes they name and for no others: classes that no worker named on a
//! task keep the proportions of the class prior. So a task's posterior is one number for each class named on it, its
//! *candidates*, and one for all the rest together, and nothing is approximated: [`fit`] takes the same steps as
//! [`super::fit`] with [`super::Model::OneCoin`].

use std::ops::Range;

use rayon::prelude::*;

use super::finite;
use super::model::one_coin::{accuracy, odds};
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{collected, filled, reserve, with_room, zeros};
use crate::base::num::{FLOOR, normalise, softmax};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Tasks between two looks at the control.
const TASKS_PER_CHECK: usize = 1 << 12;

/// Up to this many classes, what the prior leaves to others is summed: one minus the rest would lose what is very
/// small.
const SUMMED: usize = 64;

/// Where the iteration begins.
#[derive(Debug, Clone, Copy)]
pub enum Start<'a> {
    /// Posteriors = shares of the votes.
    Shares,
    /// Posteriors = the majority class, divided evenly among classes that tie.
    Majority,
    /// Parameters given: the class prior and an accuracy for each worker.
    Parameters(&'a [f64], &'a [f64]),
}

/// Arguments of [`fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Start.
    pub start: Start<'a>,
    /// Correct and wrong pseudo-answers of each worker.
    pub pseudo: [f64; 2],
    /// Pseudo-tasks of each class.
    pub class_pseudo: f64,
    /// Most passes over the annotations.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself.
    pub tol: f64,
}

/// What [`fit`] found.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Task `n` has the candidates `offsets[n]..offsets[n + 1]`.
    pub offsets: Vec<u32>,
    /// Class of each candidate, ascending within a task.
    pub classes: Vec<u16>,
    /// Posterior probability of each candidate.
    pub probabilities: Vec<f64>,
    /// Posterior probability of all other classes of each task together; they share it as they share the prior.
    pub rest: Vec<f64>,
    /// Accuracy of each worker.
    pub accuracy: Vec<f64>,
    /// Class prior.
    pub prior: Vec<f64>,
    /// The most probable class of each task, the lowest where several are.
    pub winners: Vec<u16>,
    /// Its probability.
    pub confidence: Vec<f64>,
    /// Whether another class is as probable.
    pub tied: Vec<bool>,
    /// The penalized log-likelihood after each pass, and at the end.
    pub history: Vec<f64>,
    /// Passes made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// Fits by EM. Time O(annotations) a pass, and O(workers + classes) for each of at most 32 chunks; memory in addition
/// to the table and the result: 16 bytes per worker and class for each chunk, at most 32 MB or 8 bytes per annotation
/// in all.
pub fn fit(table: &Table, options: &Options<'_>, control: &Control) -> Result<Fit> {
    validate(table, options)?;
    let candidates = Candidates::of(table, control)?;
    let mut sums: Vec<Sums> = chunks(table).into_iter().map(|tasks| Sums::new(table, tasks)).collect::<Result<_>>()?;
    let mut params = Params::start(table, options)?;
    if !matches!(options.start, Start::Parameters(..)) {
        let majority = matches!(options.start, Start::Majority);
        let open = |task: usize, logs: &mut [f64]| open(table, &candidates, task, majority, logs);
        gather(table, &candidates, &params, &mut sums, open, control)?;
        params.maximise(&sums, options);
    }
    let mut course = Course::default();
    while course.running(options.max_iter) {
        let objective = expect(table, &candidates, &params, &mut sums, control)? + params.log_prior(options);
        course.advance(objective, Tolerance::Share(options.tol), control);
        params.maximise(&sums, options);
    }
    let rows = posterior(table, &candidates, &params, control)?;
    let Course { mut history, n_iter, converged, .. } = course;
    history.push(rows.log_evidence + params.log_prior(options));
    let order = by_prior(&params.prior);
    let (winners, confidence, ties) = decide(&candidates, &rows, &params.prior, &order, control)?;
    let Candidates { offsets, classes } = candidates;
    Ok(Fit {
        offsets,
        classes,
        probabilities: rows.probabilities,
        rest: rows.rest,
        accuracy: params.accuracy,
        prior: params.prior,
        winners,
        confidence,
        tied: ties,
        history,
        n_iter,
        converged,
    })
}

fn validate(table: &Table, options: &Options<'_>) -> Result<()> {
    finite("pseudo-counts", &[options.pseudo[0], options.pseudo[1], options.class_pseudo])?;
    if let Start::Parameters(prior, accuracy) = options.start {
        for (what, got, wanted) in
            [("the given prior", prior, table.n_labels()), ("the given accuracies", accuracy, table.n_workers())]
        {
            if got.len() != wanted {
                return Err(Error::invalid(format!("{what} are {} numbers, not {wanted}", got.len())));
            }
            finite(what, got)?;
        }
    }
    Ok(())
}

/// The classes named on each task.
struct Candidates {
    offsets: Vec<u32>,
    classes: Vec<u16>,
}

impl Candidates {
    fn of(table: &Table, control: &Control) -> Result<Self> {
        let mut offsets = with_room(table.n_tasks() + 1)?;
        let mut classes: Vec<u16> = with_room(table.len())?;
        let mut task_classes: Vec<u16> = Vec::new();
        offsets.push(0);
        for task in 0..table.n_tasks() {
            if task.is_multiple_of(TASKS_PER_CHECK) {
                control.check()?;
            }
            task_classes.clear();
            reserve(&mut task_classes, table.rows_of(task).len())?;
            task_classes.extend(table.rows_of(task).map(|row| table.labels().get(row) as u16));
            task_classes.sort_unstable();
            task_classes.dedup();
            classes.extend_from_slice(&task_classes);
            offsets.push(classes.len() as u32);
        }
        classes.shrink_to_fit();
        Ok(Self { offsets, classes })
    }

    fn range(&self, task: usize) -> Range<usize> {
        self.offsets[task] as usize..self.offsets[task + 1] as usize
    }

    fn named(&self, task: usize) -> &[u16] {
        &self.classes[self.range(task)]
    }

    /// Place of a label among the candidates of its task.
    fn place(&self, task: usize, label: usize) -> usize {
        self.named(task).partition_point(|class| usize::from(*class) < label)
    }
}

/// Runs of tasks: a function of the sizes of the data alone.
fn chunks(table: &Table) -> Vec<Range<usize>> {
    const ROWS_PER_CHUNK: usize = 1 << 15;
    const MOST_CHUNKS: usize = 32;
    const SMALL: usize = 1 << 25;
    let bytes = 2 * size_of::<f64>() * (table.n_workers() + table.n_labels());
    let room = SMALL.max(8 * table.len()) / bytes;
    table.chunks(table.len().div_ceil(ROWS_PER_CHUNK).min(MOST_CHUNKS).min(room).max(1))
}

/// What the M-step needs of a run of tasks.
struct Sums {
    tasks: Range<usize>,
    /// Expected right and wrong answers of each worker.
    workers: Vec<[f64; 2]>,
    /// Posterior of each class on the tasks that name it, and what it would have had on them as one of the rest.
    classes: Vec<[f64; 2]>,
    /// Multiple of the prior that classes have on tasks that do not name them, summed over all tasks.
    unnamed: f64,
    log_evidence: f64,
}

impl Sums {
    fn new(table: &Table, tasks: Range<usize>) -> Result<Self> {
        let (workers, classes) = (zeros(table.n_workers())?, zeros(table.n_labels())?);
        Ok(Self { tasks, workers, classes, unnamed: 0.0, log_evidence: 0.0 })
    }

    fn clear(&mut self) {
        self.workers.fill([0.0; 2]);
        self.classes.fill([0.0; 2]);
        (self.unnamed, self.log_evidence) = (0.0, 0.0);
    }
}

struct Params {
    accuracy: Vec<f64>,
    prior: Vec<f64>,
}

impl Params {
    fn start(table: &Table, options: &Options<'_>) -> Result<Self> {
        let k = table.n_labels();
        if let Start::Parameters(prior, given) = options.start {
            let mut prior = prior.to_vec();
            settle(&mut prior);
            return Ok(Self { accuracy: collected(given.iter().map(|p| accuracy(*p, 1.0 - p, k)))?, prior });
        }
        Ok(Self { accuracy: filled(1.0 / k as f64, table.n_workers())?, prior: vec![1.0 / k as f64; k] })
    }

    /// The M-step: sums, added in the order of the chunks, to parameters.
    fn maximise(&mut self, sums: &[Sums], options: &Options<'_>) {
        let k = self.prior.len();
        for (worker, to) in self.accuracy.iter_mut().enumerate() {
            let total = |side: usize| sums.iter().map(|s| s.workers[worker][side]).sum::<f64>() + options.pseudo[side];
            *to = accuracy(total(0), total(1), k);
        }
        let unnamed: f64 = sums.iter().map(|s| s.unnamed).sum();
        for (class, to) in self.prior.iter_mut().enumerate() {
            let total = |part: usize| sums.iter().map(|s| s.classes[class][part]).sum::<f64>();
            *to = total(0) + *to * (unnamed - total(1)).max(0.0) + options.class_pseudo;
        }
        settle(&mut self.prior);
    }

    fn log_prior(&self, options: &Options<'_>) -> f64 {
        let k = self.prior.len();
        let [right, wrong] = options.pseudo;
        let one = |p: &f64| {
            let (error, ratio) = odds(*p, k);
            right * (error * ratio).ln() + wrong * error.ln()
        };
        let classes: f64 = match options.class_pseudo {
            0.0 => 0.0,
            a => self.prior.iter().map(|p| a * p.ln()).sum(),
        };
        self.accuracy.iter().map(one).sum::<f64>() + classes
    }
}

/// What the prior leaves to the classes that a task does not name.
fn left(prior: &[f64], named: &[u16]) -> f64 {
    if named.len() == prior.len() {
        return 0.0;
    }
    if prior.len() > SUMMED {
        let mass: f64 = named.iter().map(|class| prior[usize::from(*class)]).sum();
        return (1.0 - mass).max(FLOOR);
    }
    let mut occupied = named.iter().copied().peekable();
    let others = (0..prior.len()).filter(|class| occupied.next_if(|c| usize::from(*c) == *class).is_none());
    others.map(|class| prior[class]).sum()
}

fn settle(prior: &mut [f64]) {
    normalise(prior);
    prior.iter_mut().for_each(|p| *p = p.max(FLOOR));
}

/// Votes for each candidate, or the majority, as logarithms; the rest has none of them.
fn open(table: &Table, candidates: &Candidates, task: usize, majority: bool, logs: &mut [f64]) -> f64 {
    logs.fill(0.0);
    for row in table.rows_of(task) {
        let weight = table.weights().map_or(1.0, |weights| weights[row]);
        logs[candidates.place(task, table.labels().get(row))] += weight;
    }
    let largest = logs.iter().copied().fold(0.0, f64::max);
    let rest = logs.len() - 1;
    if largest > 0.0 {
        let limit = largest * (1.0 - 1e-12);
        logs.iter_mut().for_each(|v| *v = if majority { f64::from(u8::from(*v >= limit)) } else { *v }.ln());
    } else {
        // A task without votes of positive weight could be anything.
        logs.fill(0.0);
        let others = table.n_labels() - rest;
        logs[rest] = (others as f64).ln();
    }
    0.0
}

/// The E-step's logarithms: what each candidate, and the rest, have of a task; returns what is common to all.
fn evidence(
    table: &Table,
    candidates: &Candidates,
    params: &Params,
    factors: &[[f64; 2]],
    task: usize,
    logs: &mut [f64],
) -> f64 {
    let classes = candidates.named(task);
    for (to, class) in logs.iter_mut().zip(classes) {
        *to = params.prior[usize::from(*class)].ln();
    }
    logs[classes.len()] = left(&params.prior, classes).ln();
    let mut common = 0.0;
    for row in table.rows_of(task) {
        let weight = table.weights().map_or(1.0, |weights| weights[row]);
        let [error, ratio] = factors[table.workers()[row] as usize];
        common += weight * error;
        logs[candidates.place(task, table.labels().get(row))] += weight * ratio;
    }
    common
}

/// Logarithms of a worker's particular error, and of the ratio of the right answer to it.
fn factors(params: &Params) -> Result<Vec<[f64; 2]>> {
    let k = params.prior.len();
    let logs = |p: &f64| {
        let (error, ratio) = odds(*p, k);
        [error.ln(), ratio.ln()]
    };
    collected(params.accuracy.iter().map(logs))
}

fn expect(
    table: &Table,
    candidates: &Candidates,
    params: &Params,
    sums: &mut [Sums],
    control: &Control,
) -> Result<f64> {
    let factors = factors(params)?;
    let source = |task: usize, logs: &mut [f64]| evidence(table, candidates, params, &factors, task, logs);
    gather(table, candidates, params, sums, source, control)?;
    Ok(sums.iter().map(|s| s.log_evidence).sum())
}

/// Posteriors from a source of logarithms, added up for the M-step.
fn gather(
    table: &Table,
    candidates: &Candidates,
    params: &Params,
    sums: &mut [Sums],
    source: impl Fn(usize, &mut [f64]) -> f64 + Sync,
    control: &Control,
) -> Result<()> {
    sums.par_iter_mut().try_for_each_init(Vec::new, |row, sums| {
        sums.clear();
        for task in sums.tasks.clone() {
            if task.is_multiple_of(TASKS_PER_CHECK) {
                control.check()?;
            }
            let classes = candidates.named(task);
            row.resize(classes.len() + 1, 0.0);
            sums.log_evidence += source(task, row) + softmax(row);
            let others = left(&params.prior, classes);
            let multiple = if others > 0.0 { row[classes.len()] / others } else { 0.0 };
            sums.unnamed += multiple;
            for (class, q) in classes.iter().zip(&*row) {
                let [posterior, instead] = &mut sums.classes[usize::from(*class)];
                *posterior += q;
                *instead += multiple;
            }
            for at in table.rows_of(task) {
                let weight = table.weights().map_or(1.0, |weights| weights[at]);
                let right = row[candidates.place(task, table.labels().get(at))];
                let [yes, no] = &mut sums.workers[table.workers()[at] as usize];
                *yes += weight * right;
                *no += weight * (1.0 - right);
            }
        }
        Ok(())
    })
}

struct Posterior {
    probabilities: Vec<f64>,
    rest: Vec<f64>,
    log_evidence: f64,
}

fn posterior(table: &Table, candidates: &Candidates, params: &Params, control: &Control) -> Result<Posterior> {
    let factors = factors(params)?;
    let mut probabilities = zeros(candidates.classes.len())?;
    let mut rest = zeros(table.n_tasks())?;
    let mut work = vec![];
    let (mut to_probabilities, mut to_rest) = (&mut probabilities[..], &mut rest[..]);
    for tasks in chunks(table) {
        let n = (candidates.offsets[tasks.end] - candidates.offsets[tasks.start]) as usize;
        let (these, tail) = to_probabilities.split_at_mut(n);
        let (remainders, others) = to_rest.split_at_mut(tasks.len());
        (to_probabilities, to_rest) = (tail, others);
        work.push((tasks, these, remainders));
    }
    let logs: Vec<f64> = work
        .into_par_iter()
        .map(|(tasks, mut probabilities, rest)| {
            let (mut row, mut log) = (vec![], 0.0);
            for (task, rest) in tasks.zip(rest) {
                if task.is_multiple_of(TASKS_PER_CHECK) {
                    control.check()?;
                }
                let n = candidates.named(task).len();
                row.resize(n + 1, 0.0);
                log += evidence(table, candidates, params, &factors, task, &mut row) + softmax(&mut row);
                let (these, tail) = probabilities.split_at_mut(n);
                these.copy_from_slice(&row[..n]);
                probabilities = tail;
                *rest = row[n];
            }
            Ok(log)
        })
        .collect::<Result<_>>()?;
    Ok(Posterior { probabilities, rest, log_evidence: logs.iter().sum() })
}

/// Classes from the most to the least frequent, those that differ by rounding only in the order of their codes.
fn by_prior(prior: &[f64]) -> Vec<u16> {
    let mut order: Vec<u16> = (0..prior.len()).map(|class| class as u16).collect();
    let p = |class: &u16| prior[usize::from(*class)];
    order.sort_by(|a, b| p(b).total_cmp(&p(a)));
    order.chunk_by_mut(|a, b| p(b) >= p(a) * (1.0 - 1e-12)).for_each(<[u16]>::sort_unstable);
    order
}

/// Winning classes, their probabilities, and whether others tie with them.
fn decide(
    candidates: &Candidates,
    rows: &Posterior,
    prior: &[f64],
    order: &[u16],
    control: &Control,
) -> Result<(Vec<u16>, Vec<f64>, Vec<bool>)> {
    let n = rows.rest.len();
    let (mut winners, mut confidence, mut tied) = (zeros(n)?, zeros(n)?, zeros(n)?);
    let out = winners.par_iter_mut().zip(confidence.par_iter_mut()).zip(tied.par_iter_mut());
    out.enumerate().try_for_each(|(task, ((winner, confidence), tied))| {
        if task.is_multiple_of(TASKS_PER_CHECK) {
            control.check()?;
        }
        let classes = candidates.named(task);
        // Only the two most frequent of the other classes can win or tie.
        let others: Vec<u16> =
            order.iter().copied().filter(|class| classes.binary_search(class).is_err()).take(2).collect();
        let scale = rows.rest[task] / left(prior, classes).max(FLOOR);
        let probabilities = classes.iter().copied().zip(rows.probabilities[candidates.range(task)].iter().copied());
        let options = probabilities.chain(others.iter().map(|class| (*class, scale * prior[usize::from(*class)])));
        let largest = options.clone().map(|(_, q)| q).fold(0.0, f64::max);
        let mut near = options.filter(|(_, q)| *q >= largest - largest * 1e-12).map(|(class, _)| class);
        (*winner, *tied) = match (near.next(), near.next()) {
            (Some(a), Some(b)) => (near.fold(a.min(b), u16::min), true),
            (a, _) => (a.unwrap_or(0), false),
        };
        *confidence = largest;
        Ok(())
    })?;
    Ok((winners, confidence, tied))
}

#[cfg(test)]
mod tests;
