//! MACE (Hovy et al. 2013): workers who either know the class or spam, by EM or variational Bayes.
//!
//! All classes are equally probable. Asked about a task, worker `w` knows its class with probability `know[w]` and
//! names it; otherwise the answer is `l` with probability `strategy[w, l]`, whatever the class. So a label speaks for
//! its own class alone: an annotation costs O(1), and all that the M-step needs is how probable each label was right.

use std::ops::Range;

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{collected, with_room, zeros};
use crate::base::num::{BLOCK, FLOOR, LogProduct, normalise, rescale, softmax};
use crate::base::parallel::{chunks_with_tables, with_rows};
use crate::base::special::{digamma, ln_gamma};
use crate::categorical::table::{Label, Table, with_labels};
use crate::moments::moments_first;
use crate::{Error, Result};

/// Tasks between two looks at the control.
const TASKS_PER_CHECK: usize = 1 << 12;

/// Arguments of [`mace_fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Whether the M-step is that of variational Bayes.
    pub variational: bool,
    /// Pseudo-tasks on which a worker knew, and on which they spammed: a Beta prior if variational, else
    /// pseudo-counts.
    pub competence: [f64; 2],
    /// Pseudo-answers with each label while spamming: a Dirichlet prior if variational, else pseudo-counts.
    pub strategy: f64,
    /// Where to start: how probably each worker knows.
    pub know: &'a [f64],
    /// Where to start: what each worker answers while spamming, (workers × classes).
    pub strategies: &'a [f64],
    /// Most passes over the annotations.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself.
    pub tol: f64,
}

/// What [`mace_fit`] found.
#[derive(Debug)]
pub struct Fit {
    /// Class posterior of each task, (tasks × classes).
    pub posterior: Vec<f64>,
    /// How probably each worker knows; the posterior mean if variational.
    pub know: Vec<f64>,
    /// What each worker answers while spamming, (workers × classes); the posterior mean if variational.
    pub strategies: Vec<f64>,
    /// The penalized log-likelihood, or the lower bound on the evidence, after each pass.
    pub history: Vec<f64>,
    /// Passes made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// Fits by EM or variational Bayes.
///
/// Time O(annotations + tasks · classes + workers · classes) a pass. Memory in addition to the result: 40 bytes for
/// each worker and class, and a table of counts per chunk, at most 8 bytes per annotation in all (or 32 MB, or two
/// tables, if that is more).
pub fn mace_fit(table: &Table, options: &Options<'_>, control: &Control) -> Result<Fit> {
    validate(table, options)?;
    let mut crowd = Crowd::new(table, options, control)?;
    let mut course = Course::default();
    crowd.expect(None)?;
    while course.running(options.max_iter) {
        crowd.maximise()?;
        let objective = crowd.expect(None)?;
        course.advance(objective, Tolerance::Share(options.tol), control);
    }
    let mut posterior = zeros(table.n_tasks() * table.n_labels())?;
    crowd.expect(Some(&mut posterior))?;
    let (know, strategies) = crowd.means()?;
    let Course { history, n_iter, converged, .. } = course;
    Ok(Fit { posterior, know, strategies, history, n_iter, converged })
}

fn validate(table: &Table, options: &Options<'_>) -> Result<()> {
    let (m, k) = (table.n_workers(), table.n_labels());
    for (what, given, wanted) in [("know", options.know, m), ("strategies", options.strategies, m * k)] {
        if given.len() != wanted {
            return Err(Error::invalid(format!("{what} holds {} numbers, not {wanted}", given.len())));
        }
        if let Some(bad) = given.iter().find(|x| !(0.0..=1.0).contains(*x)) {
            return Err(Error::invalid(format!("{what} holds {bad}, which is not a probability")));
        }
    }
    let (least, above) = if options.variational { (f64::MIN_POSITIVE, "above") } else { (0.0, "of at least") };
    let priors = [options.competence[0], options.competence[1], options.strategy];
    match priors.iter().find(|x| !(x.is_finite() && **x >= least)) {
        Some(bad) => Err(Error::invalid(format!("a prior of {bad:e} is not a finite number {above} 0"))),
        None => Ok(()),
    }
}

/// A run of tasks and the sums over it.
struct Chunk {
    tasks: Range<usize>,
    /// How probable it is that each worker's labels of each class are right, summed.
    right: Vec<f64>,
    log_evidence: f64,
}

/// One worker's part of the tables.
struct Worker<'a> {
    /// Weights of knowing and spamming, then of each label while spamming: probabilities, or their geometric means.
    weights: &'a mut [f64],
    /// The Dirichlet parameters behind the weights; the counts for EM.
    counts: &'a mut [f64],
    /// For each label the weight of spamming it, and the ratio of all its weight to that, as logarithms if need be.
    factors: &'a mut [[f64; 2]],
}

struct Crowd<'a> {
    table: &'a Table,
    control: &'a Control,
    variational: bool,
    /// Prior counts of knowing and spamming, then of each label while spamming.
    prior: Vec<f64>,
    /// Weight of each worker's labels of each class.
    given: Vec<f64>,
    weights: Vec<f64>,
    counts: Vec<f64>,
    factors: Vec<[f64; 2]>,
    chunks: Vec<Chunk>,
    /// What the prior makes of the weights.
    log_prior: f64,
}

impl<'a> Crowd<'a> {
    fn new(table: &'a Table, options: &Options<'_>, control: &'a Control) -> Result<Self> {
        let (m, k) = (table.n_workers(), table.n_labels());
        let start = options.know.iter().zip(options.strategies.chunks_exact(k));
        let mut weights = with_room(m * (k + 2))?;
        start.for_each(|(know, strategy)| {
            weights.extend([*know, 1.0 - know]);
            weights.extend_from_slice(strategy);
        });
        let prior: Vec<f64> = options.competence.into_iter().chain(std::iter::repeat_n(options.strategy, k)).collect();
        let chunk = |tasks| Ok(Chunk { tasks, right: zeros(m * k)?, log_evidence: 0.0 });
        let mut crowd = Self {
            table,
            control,
            variational: options.variational,
            weights,
            counts: zeros(m * (k + 2))?,
            factors: zeros(m * k)?,
            chunks: table
                .chunks(chunks_with_tables(table.len(), m * k))
                .into_iter()
                .map(chunk)
                .collect::<Result<_>>()?,
            given: moments_first(table, control)?,
            prior,
            log_prior: 0.0,
        };
        crowd.each_worker(|_, _| 0.0);
        Ok(crowd)
    }

    /// Does something to every worker, renews their factors, and sums up what was returned, by blocks, in order.
    fn each_worker(&mut self, job: impl Fn(usize, &mut Worker<'_>) -> f64 + Sync) -> f64 {
        const WORKERS: usize = 64;
        let (k, log) = (self.table.n_labels(), self.table.weights().is_some());
        let blocks: Vec<f64> = self
            .weights
            .par_chunks_mut(WORKERS * (k + 2))
            .zip(self.counts.par_chunks_mut(WORKERS * (k + 2)))
            .zip(self.factors.par_chunks_mut(WORKERS * k))
            .enumerate()
            .map(|(block, ((weights, counts), factors))| {
                let rows = weights.chunks_exact_mut(k + 2).zip(counts.chunks_exact_mut(k + 2));
                rows.zip(factors.chunks_exact_mut(k))
                    .enumerate()
                    .map(|(i, ((weights, counts), factors))| {
                        let mut worker = Worker { weights, counts, factors };
                        let sum = job(block * WORKERS + i, &mut worker);
                        worker.write_factors(log);
                        sum
                    })
                    .sum()
            })
            .collect();
        blocks.iter().sum()
    }

    /// The M-step.
    fn maximise(&mut self) -> Result<()> {
        let k = self.table.n_labels();
        let mut right = zeros(self.given.len())?;
        right.par_chunks_mut(1 << 12).enumerate().for_each(|(block, sums)| {
            let first = block << 12;
            for chunk in &self.chunks {
                sums.iter_mut().zip(&chunk.right[first..]).for_each(|(sum, x)| *sum += x);
            }
        });
        let (counts, prior) = (std::mem::take(&mut self.given), std::mem::take(&mut self.prior));
        let variational = self.variational;
        self.log_prior = self.each_worker(|w, worker| {
            worker.count(&right[w * k..(w + 1) * k], &counts[w * k..(w + 1) * k], &prior);
            if variational { worker.vary(&prior) } else { worker.normalise(&prior) }
        });
        (self.given, self.prior) = (counts, prior);
        Ok(())
    }

    /// The E-step; returns the objective of the parameters, and writes the posteriors if there is room for them.
    fn expect(&mut self, posterior: Option<&mut [f64]>) -> Result<f64> {
        let (table, control, factors, k) = (self.table, self.control, &self.factors, self.table.n_labels());
        let (rows, width) = posterior.map_or((&mut [][..], 0), |rows| (rows, k));
        let work = with_rows(&mut self.chunks, |chunk| chunk.tasks.len(), rows, width);
        work.into_par_iter().try_for_each(|(chunk, out)| {
            with_labels!(table.labels(), |labels| {
                let pass = Pass { table, labels, factors, control };
                match table.weights() {
                    None => pass.run(chunk, out),
                    Some(weights) => pass.run_weighted(weights, chunk, out),
                }
            })
        })?;
        Ok(self.chunks.iter().map(|chunk| chunk.log_evidence).sum::<f64>() + self.log_prior)
    }

    /// How probably each worker knows, and what they say otherwise; means of the variational posterior.
    fn means(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        // Before the first M-step there are no counts.
        let from = if self.variational && self.counts.iter().any(|x| *x > 0.0) { &self.counts } else { &self.weights };
        let rows = || from.chunks_exact(self.table.n_labels() + 2);
        let know = collected(rows().map(|row| row[0] / (row[0] + row[1])))?;
        let mut strategies = with_room(self.given.len())?;
        rows().for_each(|row| {
            let total: f64 = row[2..].iter().sum();
            strategies.extend(row[2..].iter().map(|x| x / total));
        });
        Ok((know, strategies))
    }
}

impl Worker<'_> {
    /// Expected counts of knowing and spamming, with the prior's, from how probably the labels are right.
    fn count(&mut self, right: &[f64], given: &[f64], prior: &[f64]) {
        let (know, spam) = (self.weights[0], self.weights[1]);
        self.counts.copy_from_slice(prior);
        for (label, (right, given)) in right.iter().zip(given).enumerate() {
            let base = (spam * self.weights[2 + label]).max(FLOOR);
            let knowing = right * know / (know + base);
            let spammed = (given - knowing).max(0.0);
            self.counts[0] += knowing;
            self.counts[1] += spammed;
            self.counts[2 + label] += spammed;
        }
    }

    /// Weights that maximize the likelihood of the counts; returns the log-density of the pseudo-counts.
    fn normalise(&mut self, prior: &[f64]) -> f64 {
        self.weights.copy_from_slice(self.counts);
        let (competence, strategy) = self.weights.split_at_mut(2);
        normalise(competence);
        normalise(strategy);
        let logs = prior.iter().zip(&*self.weights).filter(|(a, _)| **a > 0.0).map(|(a, p)| a * p.max(FLOOR).ln());
        logs.sum()
    }

    /// Geometric means of the posterior that the counts are the parameters of; returns minus its divergence from the
    /// prior.
    fn vary(&mut self, prior: &[f64]) -> f64 {
        let mut divergence = 0.0;
        for part in [0..2, 2..self.counts.len()] {
            let (counts, prior) = (&self.counts[part.clone()], &prior[part.clone()]);
            let (total, prior_total): (f64, f64) = (counts.iter().sum(), prior.iter().sum());
            divergence += ln_gamma(total) - ln_gamma(prior_total);
            for ((weight, count), prior) in self.weights[part].iter_mut().zip(counts).zip(prior) {
                let log = digamma(*count) - digamma(total);
                divergence += ln_gamma(*prior) - ln_gamma(*count) + (count - prior) * log;
                *weight = log.exp();
            }
        }
        -divergence
    }

    fn write_factors(&mut self, log: bool) {
        for (factor, strategy) in self.factors.iter_mut().zip(&self.weights[2..]) {
            let base = (self.weights[1] * strategy).max(FLOOR);
            *factor = [base, (self.weights[0] + base) / base];
            if log {
                *factor = factor.map(f64::ln);
            }
        }
    }
}

/// What one pass over a chunk reads.
struct Pass<'a, L> {
    table: &'a Table,
    labels: &'a [L],
    factors: &'a [[f64; 2]],
    control: &'a Control,
}

impl<L: Label> Pass<'_, L> {
    #[inline(always)]
    fn cell(&self, row: usize, k: usize) -> (usize, usize) {
        let label = self.labels[row].code();
        (self.table.workers()[row] as usize * k + label, label)
    }

    /// Products, rescaled often enough never to leave the range of a double.
    fn run(&self, chunk: &mut Chunk, out: &mut [f64]) -> Result<()> {
        let k = self.table.n_labels();
        let (mut evidence, mut log) = (vec![0.0; k], LogProduct::ONE);
        self.each_task(chunk, out, &mut evidence, |rows, evidence, right| {
            evidence.fill(1.0 / k as f64);
            for start in rows.clone().step_by(BLOCK) {
                let mut common = 1.0;
                for row in start..rows.end.min(start + BLOCK) {
                    let (cell, label) = self.cell(row, k);
                    let [base, ratio] = self.factors[cell];
                    common *= base;
                    evidence[label] *= ratio;
                }
                log.multiply(common);
                if rows.end - start > BLOCK {
                    log.shift(rescale(evidence));
                }
            }
            let total: f64 = evidence.iter().sum();
            log.multiply(total);
            evidence.iter_mut().for_each(|e| *e /= total);
            for row in rows {
                let (cell, label) = self.cell(row, k);
                right[cell] += evidence[label];
            }
        })?;
        chunk.log_evidence = log.ln();
        Ok(())
    }

    /// Sums of logarithms, for powers that are not whole.
    fn run_weighted(&self, weights: &[f64], chunk: &mut Chunk, out: &mut [f64]) -> Result<()> {
        let k = self.table.n_labels();
        let (mut evidence, mut log) = (vec![0.0; k], 0.0);
        self.each_task(chunk, out, &mut evidence, |rows, evidence, right| {
            evidence.fill(-(k as f64).ln());
            for row in rows.clone() {
                let (cell, label) = self.cell(row, k);
                let [base, ratio] = self.factors[cell];
                log += weights[row] * base;
                evidence[label] += weights[row] * ratio;
            }
            log += softmax(evidence);
            for row in rows {
                let (cell, label) = self.cell(row, k);
                right[cell] += weights[row] * evidence[label];
            }
        })?;
        chunk.log_evidence = log;
        Ok(())
    }

    /// Has every task of a chunk turned into its posterior, and keeps that where there is room.
    #[inline(always)]
    fn each_task(
        &self,
        chunk: &mut Chunk,
        out: &mut [f64],
        evidence: &mut [f64],
        mut settle: impl FnMut(Range<usize>, &mut [f64], &mut [f64]),
    ) -> Result<()> {
        let mut out = out.chunks_exact_mut(evidence.len());
        chunk.right.fill(0.0);
        for task in chunk.tasks.clone() {
            if task.is_multiple_of(TASKS_PER_CHECK) {
                self.control.check()?;
            }
            settle(self.table.rows_of(task), evidence, &mut chunk.right);
            if let Some(row) = out.next() {
                row.copy_from_slice(evidence);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
