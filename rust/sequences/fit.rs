//! Workers and transitions learned together with the tags: variational Bayes, or EM for the likeliest parameters.

use rayon::prelude::*;

use super::chain::{Chain, Steps};
use super::priors::{Prior, row};
use super::{Chunk, Design};
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{clear, copied, par_tried, zeros};
use crate::{Error, Result};

/// What cannot be observed weighs this little; it never is.
const NEVER: f64 = -1e3;
/// Steps of learning the prior in a pass.
const ROUNDS: usize = 2;

/// How to fit.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// Kind of each cell of a worker, (contexts × observed tags × true tags); -1 where nothing can be observed.
    pub cells: &'a [i32],
    /// Parameter of the Dirichlet prior for each kind of cell.
    pub prior: &'a [f64],
    /// Whether to learn these.
    pub learn: bool,
    /// Steps of learning them from the counts of the start, before the first pass.
    pub first_rounds: usize,
    /// Parameters of the Dirichlet priors of steps, (tags + 1 × tags), the last row for first tags; 0 is forbidden.
    pub steps: &'a [f64],
    /// Expected logarithms of probabilities rather than the likeliest probabilities.
    pub variational: bool,
    /// Most passes.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself.
    pub tol: f64,
}

/// What [`fit`] found.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Parameters of workers' Dirichlet posteriors, (workers × contexts × observed tags × true tags).
    pub concentration: Vec<f64>,
    /// Parameters of those of steps.
    pub steps: Vec<f64>,
    /// Parameters of the prior, by kind of cell.
    pub prior: Vec<f64>,
    /// Logarithms that evidence is made of, of the same shape as `concentration`.
    pub logs: Vec<f64>,
    /// Logarithms of steps.
    pub log_steps: Vec<f64>,
    /// The objective after each pass.
    pub history: Vec<f64>,
    /// Whether it settled.
    pub converged: bool,
}

/// Sums of a chunk of sequences, with room to compute them.
#[derive(Debug)]
struct Part {
    chunk: Chunk,
    counts: Vec<f64>,
    steps: Vec<f64>,
    weight: f64,
    evidence: Vec<f64>,
    posterior: Vec<f64>,
    chain: Chain,
}

/// Fits from probabilities of tags to begin with, (tokens × tags).
///
/// Time O(observed tags · tags + tokens · tags²) a pass, and digamma functions for what workers answered; memory 8
/// bytes per cell of a worker for each of up to 33 chunks.
pub fn fit(design: &Design<'_>, start: &[f64], options: &Options<'_>, control: &Control) -> Result<Fit> {
    validate(design, start, options)?;
    let (k, size) = (design.n_tags, design.n_workers * design.cells());
    let mut parts: Vec<Part> =
        design.chunks()?.into_iter().map(|chunk| Part::new(chunk, size, k)).collect::<Result<_>>()?;
    let mut counts = zeros(size)?;
    let mut logs = zeros(size)?;
    let mut steps = zeros((k + 1) * k)?;
    let mut log_steps = zeros((k + 1) * k)?;
    let mut prior = Prior { cells: options.cells, first: options.prior, now: copied(options.prior)? };
    let mut course = Course::default();
    par_tried(parts.par_iter_mut().map(|part| part.begin(design, start, options, control)))?;
    while course.running(options.max_iter) {
        gather(&parts, &mut counts, &mut steps);
        if options.learn {
            for _ in 0..if course.history.is_empty() { options.first_rounds } else { ROUNDS } {
                control.check()?;
                prior.learn(design, &counts)?;
            }
        }
        let mut objective = if options.learn { prior.density() } else { 0.0 };
        objective += judge(design, &prior, options.variational, &counts, &mut logs, control)?;
        for i in 0..=k {
            let row_of = i * k..(i + 1) * k;
            let to = &mut log_steps[row_of.clone()];
            objective += row(&steps[row_of.clone()], &options.steps[row_of], options.variational, to);
        }
        let walk = Steps::of(k, &log_steps);
        par_tried(parts.par_iter_mut().map(|part| part.expect(design, &logs, &walk, control)))?;
        objective += parts.iter().map(|part| part.weight).sum::<f64>();
        course.advance(objective, Tolerance::Share(options.tol), control);
    }
    // Parameters that the last evidence came from.
    for (i, n) in counts.iter_mut().enumerate() {
        *n += prior.at(i % design.cells());
    }
    steps.iter_mut().zip(options.steps).for_each(|(n, a)| *n += a);
    let Course { history, converged, .. } = course;
    Ok(Fit { concentration: counts, steps, prior: prior.now, logs, log_steps, history, converged })
}

fn validate(design: &Design<'_>, start: &[f64], options: &Options<'_>) -> Result<()> {
    design.validate()?;
    let k = design.n_tags;
    let kinds = options.prior.len() as i64;
    let positive = |x: &f64| x.is_finite() && *x > 0.0;
    // Every cell that occurs must be possible, and every row have one that is.
    let sound = start.len() == design.n_tokens() * k
        && start.iter().all(|q| (0.0..=1.0).contains(q))
        && options.cells.len() == design.cells()
        && options.cells.iter().all(|kind| (-1..kinds).contains(&i64::from(*kind)))
        && options.prior.iter().all(positive)
        && options.steps.len() == (k + 1) * k
        && options.steps.iter().all(|x| x.is_finite() && *x >= 0.0)
        && options.steps.chunks_exact(k).all(|row| row.iter().any(|x| *x > 0.0))
        && options.max_iter > 0
        && options.tol >= 0.0;
    if sound { Ok(()) } else { Err(Error::invalid("starts and priors of sequences do not fit together")) }
}

/// Sums of all chunks, in their order.
fn gather(parts: &[Part], counts: &mut [f64], steps: &mut [f64]) {
    const BLOCK: usize = 1 << 12;
    counts.par_chunks_mut(BLOCK).enumerate().for_each(|(i, counts)| {
        counts.fill(0.0);
        for part in parts {
            counts.iter_mut().zip(&part.counts[i * BLOCK..]).for_each(|(sum, n)| *sum += n);
        }
    });
    steps.fill(0.0);
    for part in parts {
        steps.iter_mut().zip(&part.steps).for_each(|(sum, n)| *sum += n);
    }
}

/// Logarithms of what all workers say; returns their part of the objective.
fn judge(
    design: &Design<'_>,
    prior: &Prior<'_>,
    variational: bool,
    counts: &[f64],
    logs: &mut [f64],
    control: &Control,
) -> Result<f64> {
    let (k, cells) = (design.n_tags, design.cells());
    let work = logs.par_chunks_exact_mut(cells).zip(counts.par_chunks_exact(cells));
    let sums = par_tried(work.map(|(logs, counts)| {
        control.check()?;
        let (mut n, mut a, mut out) = (vec![0.0; k], vec![0.0; k], vec![0.0; k]);
        let mut total = 0.0;
        for context in 0..design.n_contexts {
            for truth in 0..k {
                let cell = |said: usize| (context * k + said) * k + truth;
                for answer in 0..k {
                    (n[answer], a[answer]) = (counts[cell(answer)], prior.at(cell(answer)));
                }
                // A row that nothing can be observed in is never looked at.
                if a.iter().all(|a| *a <= 0.0) {
                    continue;
                }
                total += row(&n, &a, variational, &mut out);
                for answer in 0..k {
                    logs[cell(answer)] = out[answer].max(NEVER);
                }
            }
        }
        Ok(total)
    }))?;
    Ok(sums.into_iter().sum())
}

impl Part {
    fn new(chunk: Chunk, size: usize, k: usize) -> Result<Self> {
        Ok(Self {
            chunk,
            counts: zeros(size)?,
            steps: zeros((k + 1) * k)?,
            weight: 0.0,
            evidence: Vec::new(),
            posterior: Vec::new(),
            chain: Chain::default(),
        })
    }

    /// Sums under probabilities that are given, tokens taken one by one.
    fn begin(&mut self, design: &Design<'_>, start: &[f64], options: &Options<'_>, control: &Control) -> Result<()> {
        let k = design.n_tags;
        let mut at = self.chunk.first_tag;
        for sequence in self.chunk.sequences.clone() {
            control.check()?;
            let tokens = design.tokens(sequence);
            let posterior = &start[tokens.start * k..tokens.end * k];
            at = design.add_counts(sequence, at, posterior, &mut self.counts);
            for (row, next) in posterior.chunks_exact(k).zip(posterior.chunks_exact(k).skip(1)) {
                for (from, p) in row.iter().enumerate() {
                    let into = &mut self.steps[from * k..(from + 1) * k];
                    into.iter_mut().zip(next).for_each(|(sum, q)| *sum += p * q);
                }
            }
            if let Some(first) = posterior.chunks_exact(k).next() {
                self.steps[k * k..].iter_mut().zip(first).for_each(|(sum, q)| *sum += q);
            }
        }
        let legal = self.steps.iter_mut().zip(options.steps);
        legal.filter(|(_, a)| **a <= 0.0).for_each(|(n, _)| *n = 0.0);
        Ok(())
    }

    /// Sums under probabilities of chains.
    fn expect(&mut self, design: &Design<'_>, logs: &[f64], steps: &Steps, control: &Control) -> Result<()> {
        let k = design.n_tags;
        self.counts.fill(0.0);
        self.steps.fill(0.0);
        self.weight = 0.0;
        let mut at = self.chunk.first_tag;
        for sequence in self.chunk.sequences.clone() {
            control.check()?;
            let len = design.tokens(sequence).len();
            clear(&mut self.evidence, len * k)?;
            clear(&mut self.posterior, len * k)?;
            design.add_evidence(sequence, at, logs, &mut self.evidence);
            self.weight += self.chain.sweep(&self.evidence, steps)?;
            self.chain.write_posterior(k, &mut self.posterior);
            self.chain.add_steps(steps, &mut self.steps);
            at = design.add_counts(sequence, at, &self.posterior, &mut self.counts);
        }
        Ok(())
    }
}
