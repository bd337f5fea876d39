//! The messages of Karger, Oh and Shah.
//!
//! On every edge of the graph of tasks and workers a task sends the worker what the *others* answered, and the worker
//! sends the task how far they can be relied on, judged by what was answered of their *other* tasks. With two classes
//! and `a` = ±1 for what the worker answered of the task,
//!
//! ```text
//! x(task → worker) = Σ over the task's other workers   a · y(worker → task)
//! y(worker → task) = Σ over the worker's other tasks   a · x(task → worker)
//! ```
//!
//! With K classes each is asked about against the rest, all at the same time: `a` and `x` have one entry per class, `a`
//! is 1 for the class that was named and −1/(K−1) for the others (so that a guess is worth nothing on average, and two
//! classes give ±1), and a worker is as reliable for one class as for another: `a · x` is the sum over classes, divided
//! by K/(K−1). All labels that a worker gave to one task make one edge, with the sum of their `a`, so that a repeated
//! label counts twice and a weight counts as is.
//!
//! The messages are linear in the start, and only their proportions matter: each connected component is brought back to
//! a largest message in [1, 2) by a power of two in every iteration, so that nothing overflows and no bit is lost.
//!
//! One iteration is one pass, O(annotations) whatever the number of classes: of `x` a worker only ever hears `a · x`,
//! and `y` is that, taken from the worker's sum. So one number an edge is kept, 8 bytes per annotation, and as much
//! again at most for partial sums.

use std::ops::Range;

use rayon::prelude::*;

use crate::base::components::Components;
use crate::base::control::Control;
use crate::base::memory::{collected, filled, zeros};
use crate::base::num::{GOLDEN, inverse_power_of_two, scramble, to_unit};
use crate::categorical::table::{Label, Table, with_labels};
use crate::{Error, Result};

/// Most chunks of tasks that are handled at the same time.
const MOST_CHUNKS: usize = 64;
/// Tasks between two looks at [`Control::check`].
const TASKS_PER_CHECK: usize = 1 << 12;

/// Rows between two looks at it.
const ROWS_PER_CHECK: usize = 1 << 16;
/// Scores below this share of the votes behind them are zero.
const ROUNDING: f64 = 1e-12;

/// What the messages say in the end.
#[derive(Debug, Clone)]
pub struct Fit {
    /// (tasks × classes): how much speaks for each class, Σ a · y; each row sums to zero.
    pub scores: Vec<f64>,
    /// (workers): how far each worker can be relied on, Σ a · x over all their tasks.
    pub weights: Vec<f64>,
    /// (workers): whether the messages in the worker's component died out, so that its votes count alike.
    pub silent: Vec<bool>,
}

/// Runs `n_iter` rounds of messages; the first come from a normal distribution of mean 1 and variance 1.
///
/// The first message of an edge depends on the seed and on the codes of task and worker, not on other rows. In a
/// component where messages die out (a tree: sooner or later no worker has others to report on) every worker has weight
/// 1 in the end, and the scores are votes. The start leans to one side, which settles the sign of all messages; where
/// it fell on the wrong side by chance, so that a component's workers would be worse than a guess on average (counted
/// by labels), the sign is turned.
pub fn fit(table: &Table, n_iter: usize, seed: u64, control: &Control) -> Result<Fit> {
    if table.n_labels() < 2 {
        return Err(Error::invalid("messages need at least two classes, and the table has one"));
    }
    let mut run = Run::new(table, seed, control)?;
    for iteration in 1..=n_iter {
        run.round(control)?;
        control.report(iteration, f64::NAN);
    }
    run.turn(control)?;
    let silent: Vec<bool> = collected(run.component.iter().map(|&c| run.dead[c as usize]))?;
    let message = |worker: usize| if run.sums.is_empty() || silent[worker] { 1.0 } else { run.sums[worker] };
    Ok(Fit { scores: run.scores(control)?, weights: collected((0..table.n_workers()).map(message))?, silent })
}

/// Messages on their way.
struct Run<'a> {
    table: &'a Table,
    chunks: Vec<Range<usize>>,
    /// Component of each worker.
    component: Vec<u32>,
    /// a · x(task → worker) at the first row of each edge, before `scale` is applied; y(worker → task) before the first
    /// round.
    messages: Vec<f64>,
    /// Σ a · x of each worker, with `scale` applied; empty before the first round.
    sums: Vec<f64>,
    /// Factor that each component's messages still have to be multiplied by.
    scale: Vec<f64>,
    /// Components whose messages have died out.
    dead: Vec<bool>,
    /// Whether every row is an edge of weight one.
    plain: bool,
}

/// What y(worker → task) is made of next to the last a · x(task → worker).
#[derive(Clone, Copy)]
struct Known {
    sum: f64,
    scale: f64,
}

impl Known {
    #[inline(always)]
    fn reply(self, message: f64) -> f64 {
        self.sum - message * self.scale
    }
}

/// What a chunk of tasks contributes: sums by worker, largest message by component.
struct Part {
    sums: Vec<f64>,
    largest: Vec<f64>,
}

impl<'a> Run<'a> {
    /// Draws the first messages.
    fn new(table: &'a Table, seed: u64, control: &Control) -> Result<Self> {
        let (component, n_components) = components(table, control)?;
        // As many partial sums as annotations at most.
        let n_chunks = (table.len() / table.n_workers().max(1)).clamp(1, MOST_CHUNKS);
        let chunks = table.chunks(n_chunks);
        let mut messages = zeros(table.len())?;
        split_rows(table, &chunks, &mut messages).into_par_iter().try_for_each(|(tasks, messages)| {
            control.check()?;
            let base = table.rows_of(tasks.start).start;
            for task in tasks {
                for row in table.rows_of(task) {
                    messages[row - base] = normal(seed, task as u64, u64::from(table.workers()[row]));
                }
            }
            Ok(())
        })?;
        let (scale, dead) = (filled(1.0, n_components)?, zeros(n_components)?);
        let plain = table.weights().is_none() && table.first_repeat().is_none();
        Ok(Self { table, chunks, component, messages, sums: Vec::new(), scale, dead, plain })
    }

    /// One round: y from the last a · x, the new a · x from y, and each worker's sum of them.
    fn round(&mut self, control: &Control) -> Result<()> {
        let (table, component, plain) = (self.table, &self.component, self.plain);
        let (n_workers, n_components) = (table.n_workers(), self.scale.len());
        let senders: Vec<Known> = if self.sums.is_empty() {
            // y is a message itself: nothing less a negative one.
            filled(Known { sum: 0.0, scale: -1.0 }, n_workers)?
        } else {
            let sums = self.sums.iter().zip(component);
            collected(sums.map(|(&sum, &c)| Known { sum, scale: self.scale[c as usize] }))?
        };
        let parts: Vec<Part> = split_rows(table, &self.chunks, &mut self.messages)
            .into_par_iter()
            .map(|(tasks, messages)| {
                let mut part = Part { sums: zeros(n_workers)?, largest: zeros(n_components)? };
                let base = table.rows_of(tasks.start).start;
                with_labels!(table.labels(), |labels| {
                    let mut votes = Votes::new(table, labels);
                    for task in tasks {
                        if task.is_multiple_of(TASKS_PER_CHECK) {
                            control.check()?;
                        }
                        let rows = table.rows_of(task);
                        let Some(&first) = table.workers()[rows.clone()].first() else { continue };
                        let largest = if plain {
                            let here = &mut messages[rows.start - base..rows.end - base];
                            votes.exchange(task, here, &senders, &mut part.sums)
                        } else {
                            votes.count(task, |row, worker| senders[worker].reply(messages[row - base]));
                            let mut largest = 0.0_f64;
                            votes.for_each_edge(|row, worker, message| {
                                messages[row - base] = message;
                                part.sums[worker] += message;
                                largest = largest.max(message.abs());
                            });
                            largest
                        };
                        // All workers of a task are in one component.
                        let most = &mut part.largest[component[first as usize] as usize];
                        *most = most.max(largest);
                    }
                });
                Ok(part)
            })
            .collect::<Result<_>>()?;
        self.sums = zeros(n_workers)?;
        let mut largest = zeros::<f64>(n_components)?;
        for part in parts {
            self.sums.iter_mut().zip(part.sums).for_each(|(sum, x)| *sum += x);
            largest.iter_mut().zip(part.largest).for_each(|(most, x)| *most = most.max(x));
        }
        for (c, &most) in largest.iter().enumerate() {
            self.dead[c] |= most < f64::MIN_POSITIVE;
            self.scale[c] = power_of_two_over(most);
        }
        let (component, scale) = (&self.component, &self.scale);
        self.sums.iter_mut().zip(component).for_each(|(sum, &c)| *sum *= scale[c as usize]);
        Ok(())
    }

    /// Turns the sign of components whose average worker, counted by labels, looks worse than a guess.
    fn turn(&mut self, control: &Control) -> Result<()> {
        let mut lean = zeros::<f64>(self.scale.len())?;
        for (row, &worker) in self.table.workers().iter().enumerate().filter(|_| !self.sums.is_empty()) {
            if row.is_multiple_of(ROWS_PER_CHECK) {
                control.check()?;
            }
            let weight = self.table.weights().map_or(1.0, |w| w[row]);
            lean[self.component[worker as usize] as usize] += weight * self.sums[worker as usize];
        }
        let sign: Vec<f64> = collected(lean.iter().map(|&lean| if lean < 0.0 { -1.0 } else { 1.0 }))?;
        self.sums.iter_mut().zip(&self.component).for_each(|(sum, &c)| *sum *= sign[c as usize]);
        self.scale.iter_mut().zip(sign).for_each(|(scale, sign)| *scale *= sign);
        Ok(())
    }

    /// Σ a · y of each task and class.
    fn scores(&self, control: &Control) -> Result<Vec<f64>> {
        let k = self.table.n_labels();
        let mut scores = zeros(self.table.n_tasks() * k)?;
        scores.par_chunks_mut(TASKS_PER_CHECK * k).enumerate().try_for_each(|(block, scores)| {
            control.check()?;
            with_labels!(self.table.labels(), |labels| {
                let mut votes = Votes::new(self.table, labels);
                for (i, scores) in scores.chunks_exact_mut(k).enumerate() {
                    votes.count(block * TASKS_PER_CHECK + i, |row, worker| {
                        let c = self.component[worker] as usize;
                        match (self.dead[c], self.sums.is_empty()) {
                            (true, _) => 1.0,
                            (false, true) => self.messages[row],
                            (false, false) => self.sums[worker] - self.messages[row] * self.scale[c],
                        }
                    });
                    votes.write_scores(scores);
                }
            });
            Ok(())
        })?;
        Ok(scores)
    }
}

/// The votes on one task, each weighted by its worker's message.
struct Votes<'a, L> {
    table: &'a Table,
    labels: &'a [L],
    /// The rows of the task.
    rows: Range<usize>,
    /// y of each row's edge.
    replies: Vec<f64>,
    by_class: Vec<f64>,
    all: f64,
    /// K / (K − 1) and 1 / (K − 1).
    factors: [f64; 2],
}

impl<'a, L: Label> Votes<'a, L> {
    fn new(table: &'a Table, labels: &'a [L]) -> Self {
        let k = table.n_labels() as f64;
        let (by_class, factors) = (vec![0.0; table.n_labels()], [k / (k - 1.0), 1.0 / (k - 1.0)]);
        Self { table, labels, rows: 0..0, replies: Vec::new(), by_class, all: 0.0, factors }
    }

    /// A round for one task where every row is an edge of weight one: `messages` of its rows go in and come out, and
    /// are added to the workers' sums. Returns the largest.
    #[inline]
    fn exchange(&mut self, task: usize, messages: &mut [f64], known: &[Known], sums: &mut [f64]) -> f64 {
        let rows = self.table.rows_of(task);
        let (workers, labels) = (&self.table.workers()[rows.clone()], &self.labels[rows]);
        let mut all = 0.0;
        for ((message, &worker), label) in messages.iter_mut().zip(workers).zip(labels) {
            *message = known[worker as usize].reply(*message);
            self.by_class[label.code()] += *message;
            all += *message;
        }
        let mut largest = 0.0_f64;
        for ((message, &worker), label) in messages.iter_mut().zip(workers).zip(labels) {
            *message = self.score(self.by_class[label.code()] - *message, all - *message);
            sums[worker as usize] += *message;
            largest = largest.max(message.abs());
        }
        labels.iter().for_each(|label| self.by_class[label.code()] = 0.0);
        largest
    }

    /// Counts the votes on a task; `reply(row, worker)` is given an edge's first row and gives its y.
    #[inline]
    fn count(&mut self, task: usize, reply: impl Fn(usize, usize) -> f64) {
        // What the last task left, and no more: there may be many classes.
        self.labels[self.rows.clone()].iter().for_each(|label| self.by_class[label.code()] = 0.0);
        self.rows = self.table.rows_of(task);
        self.all = 0.0;
        self.replies.clear();
        let workers = self.table.workers();
        for row in self.rows.clone() {
            let repeats = row > self.rows.start && workers[row] == workers[row - 1];
            let this_reply = match self.replies.last() {
                Some(&said) if repeats => said,
                _ => reply(row, workers[row] as usize),
            };
            self.replies.push(this_reply);
            let vote = this_reply * self.weight(row);
            self.by_class[self.labels[row].code()] += vote;
            self.all += vote;
        }
    }

    #[inline]
    fn weight(&self, row: usize) -> f64 {
        self.table.weights().map_or(1.0, |w| w[row])
    }

    /// Entry of Σ a · y for a class with this many of all votes.
    #[inline]
    fn score(&self, votes: f64, all: f64) -> f64 {
        self.factors[0] * votes - self.factors[1] * all
    }

    /// Calls `f(first row, worker, a · x)` for each edge, where x has the votes of all others.
    #[inline]
    fn for_each_edge(&self, mut f: impl FnMut(usize, usize, f64)) {
        let workers = self.table.workers();
        let mut first = self.rows.start;
        while first < self.rows.end {
            let mut end = first + 1;
            while end < self.rows.end && workers[end] == workers[first] {
                end += 1;
            }
            let message = if end == first + 1 {
                // What is their own is taken away sum by sum, so that nothing is left where no other worker spoke.
                let own = self.replies[first - self.rows.start] * self.weight(first);
                let here = self.by_class[self.labels[first].code()];
                self.weight(first) * self.score(here - own, self.all - own)
            } else {
                self.to_repeated(first..end)
            };
            f(first, workers[first] as usize, message);
            first = end;
        }
    }

    /// a · x for an edge of several rows.
    fn to_repeated(&self, rows: Range<usize>) -> f64 {
        let own = |label: Option<usize>| -> f64 {
            let same = rows.clone().filter(|&row| label.is_none_or(|label| self.labels[row].code() == label));
            same.map(|row| self.replies[row - self.rows.start] * self.weight(row)).sum()
        };
        let others = self.all - own(None);
        let heard = |row: usize| {
            let label = self.labels[row].code();
            self.weight(row) * self.score(self.by_class[label] - own(Some(label)), others)
        };
        rows.clone().map(heard).sum()
    }

    /// Writes Σ a · y of each class; zeros where votes cancel but for rounding, which have no information.
    fn write_scores(&self, scores: &mut [f64]) {
        let votes = self.rows.clone().zip(&self.replies);
        let size: f64 = votes.map(|(row, said)| (said * self.weight(row)).abs()).sum();
        for (score, votes) in scores.iter_mut().zip(&self.by_class) {
            *score = self.score(*votes, self.all);
        }
        if scores.iter().all(|score| score.abs() <= ROUNDING * size) {
            scores.fill(0.0);
        }
    }
}

/// The rows of each chunk of tasks.
fn split_rows<'b>(
    table: &Table,
    chunks: &[Range<usize>],
    mut rows: &'b mut [f64],
) -> Vec<(Range<usize>, &'b mut [f64])> {
    let mut results = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let n = (table.offsets()[chunk.end] - table.offsets()[chunk.start]) as usize;
        let (these, rest) = rows.split_at_mut(n);
        results.push((chunk.clone(), these));
        rows = rest;
    }
    results
}

/// A power of two that brings `x` into [1, 2); 1 for 0 and for what is too small or too large to be brought there.
fn power_of_two_over(x: f64) -> f64 {
    if !x.is_normal() {
        return 1.0;
    }
    inverse_power_of_two(x).0
}

/// Component of each worker in the graph of tasks and workers, numbered by lowest member, and how many there are.
fn components(table: &Table, control: &Control) -> Result<(Vec<u32>, usize)> {
    let mut forest = Components::new(table.n_workers())?;
    for task in 0..table.n_tasks() {
        if task.is_multiple_of(TASKS_PER_CHECK) {
            control.check()?;
        }
        table.workers()[table.rows_of(task)].windows(2).for_each(|pair| {
            forest.join(pair[0], pair[1]);
        });
    }
    forest.numbered()
}

/// A draw from the normal distribution of mean 1 and variance 1 that depends on nothing but its key (Box and Muller).
fn normal(seed: u64, task: u64, worker: u64) -> f64 {
    let key = mix(mix(mix(seed.wrapping_add(GOLDEN)) ^ task.wrapping_add(GOLDEN)) ^ worker.wrapping_add(GOLDEN));
    let (u, v) = (to_unit(mix(key ^ 1)), to_unit(mix(key ^ 2)));
    1.0 + (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The next word of `SplitMix64` after this one.
fn mix(word: u64) -> u64 {
    scramble(word.wrapping_add(GOLDEN))
}

#[cfg(test)]
mod tests;
