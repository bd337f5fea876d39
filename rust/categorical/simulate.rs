//! Simulated crowds: the truth of each task, who labels it, and what they say.
//!
//! Labels follow the workers' confusion matrices; colluders may replace their own answer by one their group agreed on.
//! Work is cut into chunks by the size of the data and each chunk has random streams of its own, so that a seed gives
//! the same bits on any number of threads. The cost is a few random numbers per annotation, on one core 10 to 50 ns (90
//! where each worker has a density, 120 at a hundred classes); the memory is the result (10 bytes per annotation, 2 per
//! task) and a copy of the confusion matrices.

mod choose;
#[cfg(test)]
mod tests;

use rand::Rng;
use rayon::prelude::*;

use self::choose::Choice;
use crate::base::control::Control;
use crate::base::memory::{copied, filled, prefetch, zeros};
use crate::base::num::to_unit;
use crate::base::random::{Purpose, accumulate, key, search, stream, unit};
use crate::{Error, Result};

/// How far from one the sum of a row of probabilities may be.
const SUM_TOLERANCE: f64 = 1e-9;

/// Tasks whose truth is drawn from one stream, and explicit pairs whose labels are.
const CHUNK: usize = 65_536;

/// The row of an annotation is asked for this many annotations early: rows are met in random order.
const AHEAD: usize = 12;

/// Marks a worker who belongs to no group of colluders.
pub const NO_GROUP: u32 = u32::MAX;

/// Which workers label which tasks.
#[derive(Clone, Copy, Debug)]
pub enum Pattern<'a> {
    /// This many distinct workers label each task.
    PerTask(usize),
    /// Between the two numbers (inclusive, uniformly drawn) of distinct workers label each task.
    PerTaskRange(usize, usize),
    /// Each worker labels each task with this probability, independently; a task may end with no label.
    Density(f64),
    /// Each worker labels each task with the worker's own probability, independently; a task may end with no label.
    WorkerDensity(&'a [f64]),
    /// Exactly these pairs, given as a task and a worker for each; a pair listed twice is labeled twice.
    Pairs(&'a [u32], &'a [u32]),
}

/// Workers who answer together.
#[derive(Clone, Copy, Debug)]
pub struct Collusion<'a> {
    /// For each worker, the group's number (below the number of workers) or [`NO_GROUP`].
    pub groups: &'a [u32],
    /// The probability that a member gives the group's answer in place of one's own.
    pub copying: f64,
}

/// Everything that defines a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// How many tasks there are.
    pub n_tasks: usize,
    /// How many workers there are.
    pub n_workers: usize,
    /// How many classes there are, for the truth and for the labels.
    pub n_classes: usize,
    /// The probability of each class, from which the truth is drawn.
    pub prior: &'a [f64],
    /// The class of each task, where it is not to be drawn.
    pub truth: Option<&'a [u16]>,
    /// The probability of each label, given worker and true class: `[worker][true][label]`, row by row.
    pub confusion: &'a [f64],
    /// Which worker labels what.
    pub pattern: Pattern<'a>,
    /// How likely each worker is to be chosen, relative to the others; only for a given number of labels per task.
    pub activity: Option<&'a [f64]>,
    /// Groups of colluding workers.
    pub collusion: Option<Collusion<'a>>,
    /// What all random numbers follow from.
    pub seed: u64,
}

/// A simulated annotation log, and the truth behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// The class of each task.
    pub truth: Vec<u16>,
    /// The task of each annotation. Chunks of tasks are in order, except where explicit pairs say otherwise.
    pub tasks: Vec<u32>,
    /// The worker of each annotation.
    pub workers: Vec<u32>,
    /// What the worker answered.
    pub labels: Vec<u16>,
}

/// Simulates a crowd.
///
/// # Errors
/// [`Error::Invalid`] where sizes disagree or probabilities are invalid, [`Error::Cancelled`] where `control` cancels.
pub fn simulate(spec: &Spec, control: &Control) -> Result<Draw> {
    validate(spec)?;
    let (n_tasks, n_workers, seed) = (spec.n_tasks, spec.n_workers, spec.seed);
    let choice = match spec.pattern {
        Pattern::PerTask(r) => Choice::per_task(n_tasks, n_workers, (r, r), spec.activity, seed)?,
        Pattern::PerTaskRange(min, max) => Choice::per_task(n_tasks, n_workers, (min, max), spec.activity, seed)?,
        Pattern::Density(p) => Choice::cells(n_tasks, std::iter::repeat_n(p, n_workers), seed)?,
        Pattern::WorkerDensity(p) => Choice::cells(n_tasks, p.iter().copied(), seed)?,
        Pattern::Pairs(tasks, workers) => {
            let truth = find_truth(spec, control)?;
            let labels = label_pairs(&Voice::new(spec)?, &truth, tasks, workers, control)?;
            return Ok(Draw { truth, tasks: copied(tasks)?, workers: copied(workers)?, labels });
        }
    };
    ensure_room(choice.expected())?;
    let truth = find_truth(spec, control)?;
    label_chosen(&Voice::new(spec)?, &choice, truth, control)
}

/// Fails where the result could not be allocated: an allocation that fails later would end the process.
fn ensure_room(n_annotations: f64) -> Result<()> {
    const BYTES: f64 = 10.0;
    let bytes = n_annotations * BYTES;
    Vec::<u8>::new().try_reserve_exact(bytes as usize).map_err(|_| {
        let giga = bytes / 1e9;
        Error::invalid(format!("about {n_annotations:.0} annotations need {giga:.0} GB of memory; ask for fewer"))
    })
}

/// The class of each task: as given, or drawn from the prior.
fn find_truth(spec: &Spec, control: &Control) -> Result<Vec<u16>> {
    if let Some(truth) = spec.truth {
        return copied(truth);
    }
    let mut sums = spec.prior.to_vec();
    accumulate(&mut sums);
    let mut truth = zeros(spec.n_tasks)?;
    truth.par_chunks_mut(CHUNK).enumerate().try_for_each(|(chunk, classes)| {
        control.check()?;
        let mut rng = stream(spec.seed, Purpose::Truth, chunk);
        for class in classes {
            *class = search(&sums, unit(&mut rng));
        }
        Ok(())
    })?;
    Ok(truth)
}

/// Labels explicit pairs.
fn label_pairs(voice: &Voice, truth: &[u16], tasks: &[u32], workers: &[u32], control: &Control) -> Result<Vec<u16>> {
    let mut labels = zeros(tasks.len())?;
    let pieces = labels.par_chunks_mut(CHUNK).zip(tasks.par_chunks(CHUNK)).zip(workers.par_chunks(CHUNK));
    pieces.enumerate().try_for_each(|(chunk, ((labels, tasks), workers))| {
        control.check()?;
        voice.speak(chunk, truth, tasks, workers, labels);
        Ok(())
    })?;
    Ok(labels)
}

/// A chunk's part of the result.
struct Piece<'a> {
    chunk: usize,
    tasks: &'a mut [u32],
    workers: &'a mut [u32],
    labels: &'a mut [u16],
}

/// Chooses the workers of each task and labels what they chose.
fn label_chosen(voice: &Voice, choice: &Choice, truth: Vec<u16>, control: &Control) -> Result<Draw> {
    let count = |chunk| control.check().map(|()| choice.count(chunk));
    let counts: Vec<usize> = (0..choice.n_chunks()).into_par_iter().map(count).collect::<Result<_>>()?;
    let total = counts.iter().sum();
    let (mut tasks, mut workers, mut labels) = (zeros(total)?, zeros(total)?, zeros(total)?);

    let mut pieces = Vec::with_capacity(counts.len());
    let (mut rest_tasks, mut rest_workers, mut rest_labels) = (&mut tasks[..], &mut workers[..], &mut labels[..]);
    for (chunk, &count) in counts.iter().enumerate() {
        let (tasks, workers, labels);
        (tasks, rest_tasks) = rest_tasks.split_at_mut(count);
        (workers, rest_workers) = rest_workers.split_at_mut(count);
        (labels, rest_labels) = rest_labels.split_at_mut(count);
        pieces.push(Piece { chunk, tasks, workers, labels });
    }
    pieces.into_par_iter().try_for_each(|piece| {
        control.check()?;
        choice.write(piece.chunk, piece.tasks, piece.workers)?;
        voice.speak(piece.chunk, &truth, piece.tasks, piece.workers, piece.labels);
        Ok(())
    })?;
    Ok(Draw { truth, tasks, workers, labels })
}

/// What the workers say.
struct Voice<'a> {
    seed: u64,
    n_classes: usize,
    /// The confusion matrices, each row accumulated.
    sums: Vec<f64>,
    collusion: Option<Collusion<'a>>,
    /// The first worker of each group, whose confusion matrix the group's answers follow.
    leaders: Vec<u32>,
}

impl<'a> Voice<'a> {
    fn new(spec: &Spec<'a>) -> Result<Self> {
        let mut sums = copied(spec.confusion)?;
        sums.par_chunks_mut(spec.n_classes).for_each(accumulate);
        let mut leaders = Vec::new();
        if let Some(collusion) = spec.collusion {
            leaders = filled(NO_GROUP, spec.n_workers)?;
            for (worker, &group) in collusion.groups.iter().enumerate().rev().filter(|&(_, &g)| g != NO_GROUP) {
                leaders[group as usize] = worker as u32;
            }
        }
        Ok(Self { seed: spec.seed, n_classes: spec.n_classes, sums, collusion: spec.collusion, leaders })
    }

    /// Draws the labels of a chunk of annotations.
    fn speak(&self, chunk: usize, truth: &[u16], tasks: &[u32], workers: &[u32], labels: &mut [u16]) {
        let mut rng = stream(self.seed, Purpose::Label, chunk);
        for (i, label) in labels.iter_mut().enumerate() {
            if let (Some(&task), Some(&worker)) = (tasks.get(i + AHEAD), workers.get(i + AHEAD)) {
                let row = self.row(worker, truth[task as usize]);
                prefetch(&self.sums, row..row + self.n_classes);
            }
            let (task, worker) = (tasks[i], workers[i]);
            let class = truth[task as usize];
            *label = match &self.collusion {
                Some(collusion) => self.say_together(&mut rng, collusion, task, worker, class),
                None => self.say(worker, class, unit(&mut rng)),
            };
        }
    }

    /// Where the accumulated row of a worker and a true class starts.
    #[inline]
    fn row(&self, worker: u32, class: u16) -> usize {
        (worker as usize * self.n_classes + usize::from(class)) * self.n_classes
    }

    #[inline]
    fn say(&self, worker: u32, class: u16, u: f64) -> u16 {
        let start = self.row(worker, class);
        search(&self.sums[start..start + self.n_classes], u)
    }

    fn say_together(&self, rng: &mut impl Rng, collusion: &Collusion, task: u32, worker: u32, class: u16) -> u16 {
        let group = collusion.groups[worker as usize];
        let u = unit(rng);
        if group == NO_GROUP || unit(rng) >= collusion.copying {
            return self.say(worker, class, u);
        }
        // Keyed by task and group alone, so that members agree wherever in the log their labels stand.
        let shared = to_unit(key([self.seed, Purpose::Shared as u64, u64::from(task), u64::from(group)]));
        self.say(self.leaders[group as usize], class, shared)
    }
}

/// An [`Error::Invalid`] unless the condition holds.
fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Invalid(message())) }
}

/// Checks everything before any work starts.
fn validate(spec: &Spec) -> Result<()> {
    let (n, m, k) = (spec.n_tasks, spec.n_workers, spec.n_classes);
    let most = u32::MAX as usize;
    ensure((1..=most).contains(&n), || format!("n_tasks is {n}; give a number from 1 to {most}"))?;
    ensure((1..most).contains(&m), || format!("n_workers is {m}; give a number from 1 to {}", most - 1))?;
    ensure((1..=65_535).contains(&k), || format!("n_classes is {k}; give a number from 1 to 65535"))?;
    ensure(spec.prior.len() == k, || {
        format!("prior has {} entries; give one for each of the {k} classes", spec.prior.len())
    })?;
    ensure(is_distribution(spec.prior), || {
        "prior is not a distribution; give probabilities from 0 to 1 that sum to one".into()
    })?;
    if let Some(truth) = spec.truth {
        ensure(truth.len() == n, || format!("truth has {} entries; give one for each of the {n} tasks", truth.len()))?;
        if let Some(task) = truth.iter().position(|&class| usize::from(class) >= k) {
            let message = format!("truth of task {task} is {}; give a class from 0 to {}", truth[task], k - 1);
            return Err(Error::invalid(message));
        }
    }
    validate_confusion(spec)?;
    validate_pattern(spec)?;
    validate_activity(spec)?;
    validate_collusion(spec)
}

fn validate_confusion(spec: &Spec) -> Result<()> {
    let (m, k) = (spec.n_workers, spec.n_classes);
    let size = m.checked_mul(k).and_then(|rows| rows.checked_mul(k));
    ensure(size == Some(spec.confusion.len()), || {
        format!("confusion has {} entries; give {m} workers × {k} true classes × {k} labels", spec.confusion.len())
    })?;
    match spec.confusion.par_chunks(k).position_first(|row| !is_distribution(row)) {
        None => Ok(()),
        Some(row) => Err(Error::invalid(format!(
            "confusion of worker {} for true class {} is not a distribution; give probabilities that sum to one",
            row / k,
            row % k
        ))),
    }
}

fn validate_pattern(spec: &Spec) -> Result<()> {
    let (n, m) = (spec.n_tasks, spec.n_workers);
    match spec.pattern {
        Pattern::PerTask(r) => ensure((1..=m).contains(&r), || {
            format!("{r} labels per task; give a number from 1 to the number of workers, {m}")
        }),
        Pattern::PerTaskRange(min, max) => ensure(min <= max && (1..=m).contains(&max), || {
            format!(
                "{min} to {max} labels per task; give two numbers in order, the second from 1 to the number of workers, {m}"
            )
        }),
        Pattern::Density(p) => ensure(is_probability(p), || format!("density is {p}; give a probability from 0 to 1")),
        Pattern::WorkerDensity(p) => {
            ensure(p.len() == m, || format!("density has {} entries; give one for each of the {m} workers", p.len()))?;
            ensure_each(p, is_probability, "density", "a probability from 0 to 1")
        }
        Pattern::Pairs(tasks, workers) => {
            ensure(tasks.len() == workers.len(), || {
                format!("pairs have {} tasks and {} workers; give as many of both", tasks.len(), workers.len())
            })?;
            let beyond = |codes: &[u32], n: usize| codes.par_iter().copied().find_first(|&code| code as usize >= n);
            if let Some(task) = beyond(tasks, n) {
                return Err(Error::invalid(format!("pairs name task {task}; give tasks from 0 to {}", n - 1)));
            }
            if let Some(worker) = beyond(workers, m) {
                return Err(Error::invalid(format!("pairs name worker {worker}; give workers from 0 to {}", m - 1)));
            }
            Ok(())
        }
    }
}

fn validate_activity(spec: &Spec) -> Result<()> {
    let Some(activity) = spec.activity else { return Ok(()) };
    let (Pattern::PerTask(most) | Pattern::PerTaskRange(_, most)) = spec.pattern else {
        return Err(Error::invalid(
            "activity weighs workers only where the labels per task are given; for a density give one per worker",
        ));
    };
    let m = spec.n_workers;
    ensure(activity.len() == m, || {
        format!("activity has {} entries; give one for each of the {m} workers", activity.len())
    })?;
    ensure_each(activity, |w| w.is_finite() && w >= 0.0, "activity", "a finite weight of zero or more")?;
    let active = activity.iter().filter(|&&w| w > 0.0).count();
    ensure(most <= active, || {
        format!(
            "{most} labels per task but only {active} workers with an activity above zero; lower one or raise the other"
        )
    })
}

fn validate_collusion(spec: &Spec) -> Result<()> {
    let Some(Collusion { groups, copying }) = spec.collusion else { return Ok(()) };
    let m = spec.n_workers;
    ensure(groups.len() == m, || {
        format!("groups have {} entries; give one for each of the {m} workers", groups.len())
    })?;
    if let Some(worker) = groups.iter().position(|&group| group != NO_GROUP && group as usize >= m) {
        let group = groups[worker];
        let message = format!("group of worker {worker} is {group}; number the groups from 0 to {} at most", m - 1);
        return Err(Error::invalid(message));
    }
    ensure(is_probability(copying), || format!("copying is {copying}; give a probability from 0 to 1"))
}

fn is_probability(p: f64) -> bool {
    (0.0..=1.0).contains(&p)
}

fn is_distribution(row: &[f64]) -> bool {
    row.iter().all(|&p| is_probability(p)) && (row.iter().sum::<f64>() - 1.0).abs() <= SUM_TOLERANCE
}

fn ensure_each(values: &[f64], holds: impl Fn(f64) -> bool, name: &str, remedy: &str) -> Result<()> {
    match values.iter().position(|&value| !holds(value)) {
        None => Ok(()),
        Some(worker) => Err(Error::invalid(format!("{name} of worker {worker} is {}; give {remedy}", values[worker]))),
    }
}
