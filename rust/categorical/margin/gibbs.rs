//! Crowd-SVM: a confusion matrix for each worker, and margins of the weighted vote, by Gibbs sampling.
//!
//! The model joins Dawid and Skene's likelihood, under Dirichlet priors of the rows, with a factor exp(-2 · cost ·
//! loss) for each task, where the loss is what the answer lacks of a margin in the weighted vote, and weights have
//! normal priors. That factor is a mixture of normal densities over a scale for each task (Polson and Scott 2011), so
//! that everything can be drawn in turn: rows of matrices from Dirichlet distributions, answers from their
//! probabilities (scales summed out), scales from inverse Gaussian distributions, and weights, one after the other,
//! from normal ones. Drawing weights one by one costs a pass over the annotations; drawing them together would take a
//! matrix of workers × workers.
//!
//! With two classes these are draws from the posterior. With more, the rival with the greatest score is held fixed
//! while weights are drawn, although they decide which one that is: there, as in the paper, draws are only nearly so.

use rayon::prelude::*;

use super::draws::Stream;
use super::{Ballot, UNNAMED, check_positive};
use crate::base::control::Control;
use crate::base::gamma::Source;
use crate::base::memory::{collected, filled, reserve, zeros};
use crate::base::num::{FLOOR, softmax, winners};
use crate::categorical::table::{Table, WorkerOrder};
use crate::categorical::votes;
use crate::{Error, Result};

/// Tasks that one job handles between two looks at the control.
const BLOCK: usize = 1 << 9;
/// Workers between two looks at the control.
const WORKERS: usize = 1 << 6;
/// A loss this close to zero counts as this, that no scale is infinite.
const LEAST_LOSS: f64 = 1e-6;

/// What streams of random numbers are for.
const ROWS: u64 = 1;
const ANSWERS: u64 = 2;
const WEIGHTS: u64 = 3;

/// Arguments of [`crowd_svm_fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What a loss of one costs.
    pub cost: f64,
    /// How far an answer should be ahead.
    pub margin: f64,
    /// Variance of the weights' prior.
    pub variance: f64,
    /// Pseudo-labels in every cell of a confusion matrix.
    pub pseudo_count: f64,
    /// Sweeps that are kept.
    pub draws: usize,
    /// Sweeps before those.
    pub burn_in: usize,
    /// Where the random numbers begin.
    pub seed: u64,
}

/// What [`crowd_svm_fit`] found: averages over the sweeps that are kept.
#[derive(Debug)]
pub struct Fit {
    /// Probabilities of each task's classes given everything else, (tasks × classes).
    pub posterior: Vec<f64>,
    /// Confusion matrices, (workers × classes × classes).
    pub confusion: Vec<f64>,
    /// Weight of each worker.
    pub weights: Vec<f64>,
}

/// Draws from the posterior, from the majority vote.
///
/// Time O(annotations · classes + workers · classes²) a sweep. Memory: 16 bytes for each cell of a confusion matrix,
/// 16 bytes for each task and class, 32 bytes per task, and the table in worker order.
pub fn crowd_svm_fit(table: &Table, options: &Options, control: &Control) -> Result<Fit> {
    let Options { cost, margin, variance, pseudo_count, draws, burn_in, .. } = *options;
    check_positive(&[("cost", cost), ("margin", margin), ("variance", variance), ("pseudo_count", pseudo_count)])?;
    if draws == 0 {
        return Err(Error::invalid("there must be at least one draw"));
    }
    let (n, m, k) = (table.n_tasks(), table.n_workers(), table.n_labels());
    let order = table.by_worker(control)?;
    let majority = winners(&votes::shares(table, None, control)?.0, k, control)?.0;
    let mut chain = Chain {
        table,
        options,
        control,
        tasks: collected(majority.iter().map(|answer| Task { answer: usize::from(*answer), ..Task::default() }))?,
        // Equal votes, so that the first answers are the majority's.
        weights: filled(1.0, m)?,
        rows: zeros(m * k * k)?,
    };
    let mut fit = Fit { posterior: zeros(n * k)?, confusion: zeros(m * k * k)?, weights: zeros(m)? };
    let mut chances = zeros(n * k)?;
    for sweep in 0..burn_in + draws {
        chain.draw_rows(order, sweep)?;
        chain.draw_answers(sweep, &mut chances)?;
        chain.draw_weights(order, sweep)?;
        if sweep >= burn_in {
            let share = 1.0 / draws as f64;
            add(&mut fit.posterior, &chances, |x| x * share);
            add(&mut fit.confusion, &chain.rows, |x| x.exp() * share);
            add(&mut fit.weights, &chain.weights, |x| x * share);
        }
        control.report(sweep + 1, f64::NAN);
    }
    Ok(fit)
}

/// Class posteriors (tasks × classes) under given matrices and weights.
pub fn crowd_svm_posterior(
    table: &Table,
    confusion: &[f64],
    weights: &[f64],
    cost: f64,
    margin: f64,
    control: &Control,
) -> Result<Vec<f64>> {
    check_positive(&[("cost", cost), ("margin", margin)])?;
    let k = table.n_labels();
    for (what, given, wanted) in
        [("confusion", confusion, table.n_workers() * k * k), ("weights", weights, table.n_workers())]
    {
        if given.len() != wanted {
            return Err(Error::invalid(format!("{what} holds {} numbers, not {wanted}", given.len())));
        }
    }
    let rows: Vec<f64> = collected(confusion.iter().map(|p| p.max(FLOOR).ln()))?;
    let mut posterior = zeros(table.n_tasks() * k)?;
    posterior.par_chunks_mut(BLOCK * k).enumerate().try_for_each(|(block, posterior)| {
        control.check()?;
        let mut ballot = Ballot::new(k);
        for (i, row) in posterior.chunks_exact_mut(k).enumerate() {
            ballot.count(table, block * BLOCK + i, weights);
            chances(table, block * BLOCK + i, &rows, &ballot, [cost, margin], row);
        }
        Ok(())
    })?;
    Ok(posterior)
}

fn add(to: &mut [f64], from: &[f64], change: impl Fn(f64) -> f64 + Sync) {
    to.par_iter_mut().zip(from).with_min_len(1 << 12).for_each(|(to, from)| *to += change(*from));
}

/// The classes' probabilities on a task whose votes are counted, given logarithms of rows.
fn chances(table: &Table, task: usize, rows: &[f64], ballot: &Ballot, [cost, margin]: [f64; 2], out: &mut [f64]) {
    let k = out.len();
    for (class, log) in out.iter_mut().enumerate() {
        *log = -2.0 * cost * ballot.lack(class, margin);
    }
    for row in table.rows_of(task) {
        let weight = table.weights().map_or(1.0, |w| w[row]);
        let first = table.workers()[row] as usize * k * k + table.labels().get(row);
        out.iter_mut().zip(rows[first..].iter().step_by(k)).for_each(|(log, row)| *log += weight * row);
    }
    softmax(out);
}

/// What is drawn of a task.
#[derive(Debug, Clone, Copy, Default)]
struct Task {
    answer: usize,
    /// The other class with the greatest score.
    rival: usize,
    /// How far the answer is ahead of it.
    ahead: f64,
    /// The inverse of the scale; none where there is no rival.
    inverse_scale: f64,
}

impl Task {
    /// How a vote for a class counts for the answer.
    fn side(&self, class: usize) -> f64 {
        f64::from(i8::from(class == self.answer) - i8::from(class == self.rival))
    }
}

struct Chain<'a> {
    table: &'a Table,
    options: &'a Options,
    control: &'a Control,
    tasks: Vec<Task>,
    weights: Vec<f64>,
    /// Logarithms of the confusion matrices.
    rows: Vec<f64>,
}

impl Chain<'_> {
    /// Draws the confusion matrices given the answers.
    fn draw_rows(&mut self, order: &WorkerOrder, sweep: usize) -> Result<()> {
        let (table, options, control) = (self.table, self.options, self.control);
        let Self { tasks, rows, .. } = self;
        let k = table.n_labels();
        rows.par_chunks_mut(k * k).enumerate().try_for_each(|(w, cells)| {
            control.check()?;
            cells.fill(options.pseudo_count);
            for at in order.offsets[w] as usize..order.offsets[w + 1] as usize {
                let weight = order.weights.as_ref().map_or(1.0, |weights| weights[at]);
                cells[tasks[order.tasks[at] as usize].answer * k + order.labels.get(at)] += weight;
            }
            let mut stream = Stream::new([options.seed, ROWS, sweep as u64, w as u64]);
            for row in cells.chunks_exact_mut(k) {
                row.iter_mut().for_each(|x| *x = stream.log_gamma(*x));
                let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total = largest + row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
                row.iter_mut().for_each(|x| *x -= total);
            }
            Ok(())
        })
    }

    /// Draws answers given rows and weights, and scales given all; writes the answers' probabilities.
    fn draw_answers(&mut self, sweep: usize, out: &mut [f64]) -> Result<()> {
        let (table, options, control) = (self.table, self.options, self.control);
        let Self { tasks, weights, rows, .. } = self;
        let k = table.n_labels();
        let blocks = tasks.par_chunks_mut(BLOCK).zip(out.par_chunks_mut(BLOCK * k)).enumerate();
        blocks.try_for_each(|(block, (tasks, out))| {
            control.check()?;
            let mut ballot = Ballot::new(k);
            for (i, (task, out)) in tasks.iter_mut().zip(out.chunks_exact_mut(k)).enumerate() {
                let index = block * BLOCK + i;
                let mut stream = Stream::new([options.seed, ANSWERS, sweep as u64, index as u64]);
                ballot.count(table, index, weights);
                chances(table, index, rows, &ballot, [options.cost, options.margin], out);
                task.answer = choose(out, stream.unit());
                task.inverse_scale = 0.0;
                if let Some((rival, score)) = ballot.rival(task.answer) {
                    task.rival = rival;
                    task.ahead = ballot.score(task.answer) - score;
                    let loss = (options.margin - task.ahead).abs().max(LEAST_LOSS);
                    task.inverse_scale = stream.inverse_gaussian(1.0 / (options.cost * loss));
                } else {
                    task.rival = UNNAMED;
                }
            }
            Ok(())
        })
    }

    /// Draws the weights, each given all others.
    fn draw_weights(&mut self, order: &WorkerOrder, sweep: usize) -> Result<()> {
        let Options { cost, margin, variance, seed, .. } = *self.options;
        let mut votes: Vec<(usize, f64)> = vec![];
        for w in 0..self.weights.len() {
            if w.is_multiple_of(WORKERS) {
                self.control.check()?;
            }
            reserve(&mut votes, (order.offsets[w + 1] - order.offsets[w]) as usize)?;
            self.gather(order, w, &mut votes);
            let (mut precision, mut pull) = (1.0 / variance, 0.0);
            for &(task, vote) in &votes {
                let Task { ahead, inverse_scale, .. } = self.tasks[task];
                let others = ahead - vote * self.weights[w];
                precision += cost * cost * inverse_scale * vote * vote;
                pull += cost * vote * (1.0 + cost * inverse_scale * (margin - others));
            }
            let normal = Stream::new([seed, WEIGHTS, sweep as u64, w as u64]).normal();
            let draw = pull / precision + normal / precision.sqrt();
            let change = draw - std::mem::replace(&mut self.weights[w], draw);
            votes.iter().for_each(|&(task, vote)| self.tasks[task].ahead += vote * change);
        }
        Ok(())
    }

    /// What a worker adds to or takes from the lead of each task's answer.
    fn gather(&self, order: &WorkerOrder, worker: usize, votes: &mut Vec<(usize, f64)>) {
        votes.clear();
        for at in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
            let task = order.tasks[at] as usize;
            let weight = order.weights.as_ref().map_or(1.0, |weights| weights[at]);
            let vote = weight * self.tasks[task].side(order.labels.get(at));
            // With one class there is nothing to be ahead of.
            if vote == 0.0 || self.tasks[task].inverse_scale == 0.0 {
                continue;
            }
            match votes.last_mut() {
                Some(last) if last.0 == task => last.1 += vote,
                _ => votes.push((task, vote)),
            }
        }
    }
}

/// The class in whose share of the whole a number in (0, 1] lies.
fn choose(shares: &[f64], unit: f64) -> usize {
    let mut rest = unit;
    for (class, share) in shares.iter().enumerate() {
        rest -= share;
        if rest <= 0.0 {
            return class;
        }
    }
    // Rounding left a little over: it belongs to the last class that is possible.
    shares.iter().rposition(|share| *share > 0.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;
    use proptest::prelude::*;

    const OPTIONS: Options =
        Options { cost: 0.3, margin: 1.0, variance: 1.0, pseudo_count: 1.0, draws: 5, burn_in: 2, seed: 3 };

    proptest! {
        #[test]
        fn averages_are_probabilities(
            rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120), weighted in any::<bool>(),
        ) {
            let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
            let table = of_rows(&rows, weighted.then_some(&weights[..]), [15, 6, 4]);
            let control = Control::default();
            let fit = crowd_svm_fit(&table, &OPTIONS, &control).unwrap();
            prop_assert_eq!(control.progress().0, 7);
            for row in fit.posterior.chunks_exact(4).chain(fit.confusion.chunks_exact(4)) {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            prop_assert!(fit.weights.iter().all(|x| x.is_finite()));
        }

        #[test]
        fn leads_are_kept_while_weights_are_drawn(
            rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120),
        ) {
            let (table, control) = (of_rows(&rows, None, [15, 6, 4]), Control::default());
            let order = table.by_worker(&control).unwrap();
            let mut chain = Chain {
                table: &table,
                options: &OPTIONS,
                control: &control,
                tasks: vec![Task::default(); 15],
                weights: vec![1.0; 6],
                rows: vec![0.0; 96],
            };
            chain.draw_rows(order, 0).unwrap();
            chain.draw_answers(0, &mut [0.0; 60]).unwrap();
            chain.draw_weights(order, 0).unwrap();
            let mut ballot = Ballot::new(4);
            for (i, task) in chain.tasks.iter().enumerate() {
                ballot.count(&table, i, &chain.weights);
                let rival = if task.rival == UNNAMED { 0.0 } else { ballot.score(task.rival) };
                prop_assert!((ballot.score(task.answer) - rival - task.ahead).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn choices_fall_where_they_should() {
        assert_eq!([0.1, 0.3, 0.9, 1.0].map(|u| choose(&[0.25, 0.0, 0.75], u)), [0, 2, 2, 2]);
        assert_eq!(choose(&[0.5, 0.5 - 1e-12, 0.0], 1.0), 1);
    }

    #[test]
    fn bad_options_are_named() {
        let (table, control) = (of_rows(&[(0, 0, 0)], None, [1, 1, 2]), Control::default());
        let fails = |options: &Options| crowd_svm_fit(&table, options, &control).unwrap_err().to_string();
        assert!(fails(&Options { variance: -1.0, ..OPTIONS }).contains("a variance of -1 is not"));
        assert!(fails(&Options { draws: 0, ..OPTIONS }).contains("at least one draw"));
        let error = crowd_svm_posterior(&table, &[0.5; 4], &[], 1.0, 1.0, &control).unwrap_err().to_string();
        assert!(error.contains("weights holds 0 numbers, not 1"));
    }
}
