//! Dawid–Skene with priors of the workers that are learned from the crowd (empirical Bayes).
//!
//! Expected counts give every worker's rows a Dirichlet posterior whose prior they share; the prior is improved by
//! Minka's fixed point between the passes, and the E-step reads posterior means. Workers with few labels so resemble
//! the crowd.

use std::ops::Range;

use rayon::prelude::*;

use super::estimate::Mean;
use super::model::full::Full;
use super::ordered::{Ordered, OrdinalCrowd};
use super::shard::InMemory;
use super::solver::{Params, Sizes, Solver};
use super::sums::Passes;
use super::{Fit, Options, Solution, protected, sizes, validate_gold, validate_loop};
use crate::base::control::Control;
use crate::base::course::Course;
use crate::base::memory::{collected, copied, filled, ready, with_room, zeros};
use crate::base::special::digamma;
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Improvements of a prior after each pass: it moves on with the passes.
const ROUNDS: usize = 2;

/// Learned parameters stay within these bounds: beyond them nothing changes that a double could resolve.
pub(super) const BOUNDS: (f64, f64) = (1e-3, 1e4);

/// No mean of a row's entry is kept below this.
pub(super) const LEAST_MEAN: f64 = 1e-12;

/// Workers per block of a parallel sum.
pub(super) const WORKERS: usize = 256;

/// What workers have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hierarchy {
    /// Row k of every worker is drawn from one Dirichlet distribution.
    Crowd,
    /// A worker knows the class with a probability of their own, and else guesses from a distribution of their own;
    /// rows scatter around that mean with this prior strength, learned where none is given. Infinite: they do not
    /// scatter.
    Spammer(Option<f64>),
    /// Errors follow the order of the classes: thresholds and a slope of each worker, drawn around the crowd's; rows
    /// scatter around what they say with this prior strength, as those of spammers do.
    Ordered(Option<f64>),
}

/// Arguments of fits that learn priors of the workers: hierarchies and communities.
#[derive(Debug, Clone, Copy)]
pub struct Common<'a> {
    /// Pseudo-counts of the classes.
    pub class_pseudo: &'a [f64],
    /// Known class of each task, or -1.
    pub gold: Option<&'a [i32]>,
    /// Most passes in which tasks keep to the classes that were voted for.
    pub protected: usize,
    /// Most passes after those.
    pub max_iter: usize,
    /// Stop either kind when the objective changes by less than this share of itself.
    pub tol: f64,
}

/// What one of [`fit_hierarchies`] found.
#[derive(Debug, Clone)]
pub struct HierarchyFit<T = Fit> {
    /// Posteriors, posterior means of confusion matrices, class prior. Its history is empty: there is no objective.
    pub fit: T,
    /// What was learned of the crowd.
    pub learnt: Learnt,
}

/// A learned prior.
#[derive(Debug, Clone)]
pub enum Learnt {
    /// Dirichlet parameters of the rows, (true × observed).
    Crowd(Vec<f64>),
    /// Of the second kind.
    Spammer {
        /// Probability that a worker knows the class, (workers).
        competence: Vec<f64>,
        /// What a worker answers who does not, (workers × classes).
        guesses: Vec<f64>,
        /// How closely rows keep to their mean.
        strength: f64,
    },
    /// Of the third kind.
    Ordered(OrdinalCrowd),
}

/// Fits by alternating passes over the annotations and improvements of the prior; one fit for each of `priors`, which
/// share their start.
///
/// A pass takes O(annotations · classes) and O(workers · classes²) digamma functions; memory as [`super::fit`].
pub fn fit_hierarchies(
    table: &Table,
    priors: &[Hierarchy],
    options: &Common<'_>,
    control: &Control,
) -> Result<Vec<HierarchyFit>> {
    validate_gold(table, options.gold)?;
    let mut passes = InMemory::new(table, options.gold, control)?;
    passes.keep_tables(priors.len() > 1);
    solve_hierarchies(&mut passes, sizes(table), priors, options, control, |passes, solution| {
        solution.with(passes.take_posterior())
    })
}

/// The loops of [`fit_hierarchies`], over any holder of annotations; `keep` receives each solution after its last pass.
pub fn solve_hierarchies<H: Passes, T>(
    passes: &mut H,
    sizes: Sizes,
    priors: &[Hierarchy],
    options: &Common<'_>,
    control: &Control,
    mut keep: impl FnMut(&mut H, Solution) -> T,
) -> Result<Vec<HierarchyFit<T>>> {
    let Sizes { n_workers, shape } = sizes;
    if shape.labels != shape.classes {
        return Err(Error::invalid("a prior of the crowd has no room for labels that are never true"));
    }
    for prior in priors {
        if let Hierarchy::Spammer(Some(strength)) | Hierarchy::Ordered(Some(strength)) = *prior
            && (strength.is_nan() || strength <= 0.0)
        {
            return Err(Error::invalid(format!("strength must be positive, not {strength}")));
        }
    }
    let none = zeros(shape.cells())?;
    let plain = Options::of_priors(&none, options.class_pseudo);
    validate_loop(sizes, &plain)?;
    let accuracy = protected::shared_accuracy(passes, sizes, control)?;
    let mut before = 0;
    let mut fits = vec![];
    for prior in priors {
        let mut prior = Prior::new(*prior, n_workers, shape.classes)?;
        let mut solver = Solver::<Full, Mean>::new(sizes, &plain, control)?;
        let params = solver.shared(accuracy)?;
        let solution = solve_one(&mut solver, passes, params, &mut prior, options, before)?;
        before += solution.course.n_iter;
        fits.push(HierarchyFit { fit: keep(passes, solution), learnt: prior.learnt(shape.classes)? });
    }
    Ok(fits)
}

/// One loop, from parameters that all workers share; `before` passes of other loops are reported with its own.
fn solve_one(
    solver: &mut Solver<'_, Full, Mean>,
    passes: &mut dyn Passes,
    mut params: Params,
    prior: &mut Prior,
    options: &Common<'_>,
    before: usize,
) -> Result<Solution> {
    let control = solver.control();
    let mut amend = |params: &mut Params| prior.absorb(&mut params.workers, control);
    let mut course = Course { before, ..Course::default() };
    let limits = protected::limits(options.protected, options.tol);
    protected::keep_to_votes(solver, passes, &mut params, limits, &mut course, &mut amend)?;
    let most = course.n_iter + options.max_iter;
    while course.n_iter < most && !course.converged {
        let objective = solver.step(passes, &mut params)?;
        course.advance(objective, limits.tolerance, control);
        amend(&mut params)?;
    }
    solver.conclude(passes, &params)?;
    course.history.clear();
    Ok(Solution { confusion: solver.confusion(params.workers)?, prior: params.prior, course })
}

/// A prior while it is learned. Tables of one worker are label-first, as those of the full model.
enum Prior {
    Crowd(Crowd),
    Spammer(Spammer),
    Ordered(Ordered),
}

impl Prior {
    fn new(kind: Hierarchy, m: usize, k: usize) -> Result<Self> {
        Ok(match kind {
            Hierarchy::Crowd => Self::Crowd(Crowd { k, alpha: imaginary_worker(k)? }),
            Hierarchy::Spammer(strength) => Self::Spammer(Spammer::new(strength, m, k)?),
            Hierarchy::Ordered(strength) => Self::Ordered(Ordered::new(strength, m, k)?),
        })
    }

    /// Improves the prior by the expected counts of all workers, and adds it to them.
    fn absorb(&mut self, counts: &mut [f64], control: &Control) -> Result<()> {
        for _ in 0..ROUNDS {
            match self {
                Self::Crowd(crowd) => {
                    fixed_point(&mut crowd.alpha, crowd.k, counts, &imaginary_worker(crowd.k)?, control)?;
                }
                Self::Spammer(spammer) => spammer.improve(counts, control)?,
                Self::Ordered(ordered) => ordered.improve(counts, control)?,
            }
        }
        match self {
            Self::Crowd(crowd) => counts.par_chunks_mut(crowd.alpha.len()).for_each(|worker| add(worker, &crowd.alpha)),
            Self::Spammer(spammer) => spammer.add_to(counts)?,
            Self::Ordered(ordered) => ordered.add_to(counts),
        }
        Ok(())
    }

    fn learnt(self, k: usize) -> Result<Learnt> {
        Ok(match self {
            Self::Crowd(Crowd { alpha, .. }) => {
                Learnt::Crowd(collected((0..k * k).map(|i| alpha[(i % k) * k + i / k]))?)
            }
            Self::Spammer(Spammer { competence, guesses, strength, .. }) => {
                Learnt::Spammer { competence, guesses, strength }
            }
            Self::Ordered(Ordered { crowd, .. }) => Learnt::Ordered(crowd),
        })
    }
}

/// Dirichlet parameters that the workers' expected counts were most probably drawn with, after some steps from those
/// given or, without, from those of a pseudo-worker. Tables are label-first.
pub fn crowd_prior(
    counts: &[f64],
    k: usize,
    start: Option<&[f64]>,
    rounds: usize,
    control: &Control,
) -> Result<Vec<f64>> {
    let imaginary = imaginary_worker(k)?;
    let mut alpha = collected(start.unwrap_or(&imaginary).iter().copied())?;
    for _ in 0..rounds {
        fixed_point(&mut alpha, k, counts, &imaginary, control)?;
    }
    Ok(alpha)
}

/// Two right answers and one wrong one per class: what is known before any data, whatever the number of classes.
fn imaginary_worker(k: usize) -> Result<Vec<f64>> {
    let off = 1.0 / (k - 1).max(1) as f64;
    collected((0..k * k).map(|i| if i / k == i % k { 2.0 } else { off }))
}

pub(super) fn add(to: &mut [f64], other: &[f64]) {
    to.iter_mut().zip(other).for_each(|(a, b)| *a += b);
}

/// Sums over workers of what `gather(worker, sums)` adds: by blocks of workers, in order.
pub(super) fn sum_over(
    n_workers: usize,
    width: usize,
    control: &Control,
    gather: impl Fn(usize, &mut [f64]) + Sync,
) -> Result<Vec<f64>> {
    let blocks: Vec<Vec<f64>> = (0..n_workers.div_ceil(WORKERS))
        .into_par_iter()
        .map(|block| {
            let mut sums = zeros(width)?;
            for worker in block * WORKERS..n_workers.min((block + 1) * WORKERS) {
                control.check()?;
                gather(worker, &mut sums);
            }
            Ok(sums)
        })
        .collect::<Result<_>>()?;
    let mut total = zeros(width)?;
    blocks.iter().for_each(|block| add(&mut total, block));
    Ok(total)
}

pub(super) fn row(worker: usize, len: usize) -> Range<usize> {
    worker * len..(worker + 1) * len
}

/// One step of Minka's fixed point towards the Dirichlet parameters that counts were most probably drawn with.
///
/// `counts` has a row of `alpha.len()` a worker, `imaginary` is one row more; group g is every `n_groups`-th entry from
/// g on, and has a Dirichlet distribution of its own.
fn fixed_point(alpha: &mut [f64], n_groups: usize, counts: &[f64], imaginary: &[f64], control: &Control) -> Result<()> {
    let len = alpha.len();
    let mut totals = vec![0.0; n_groups];
    alpha.iter().enumerate().for_each(|(i, a)| totals[i % n_groups] += a);
    let mut at = with_room(len + n_groups)?;
    at.extend_from_slice(alpha);
    at.append(&mut totals);
    let digammas: Vec<f64> = collected(at.iter().map(|a| digamma(*a)))?;
    let gain = |i: usize, count: f64| if count > 0.0 { digamma(count + at[i]) - digammas[i] } else { 0.0 };
    let gather = |counts: &[f64], sums: &mut [f64]| {
        for g in 0..n_groups {
            let mut total = 0.0;
            for i in (g..len).step_by(n_groups) {
                sums[i] += gain(i, counts[i]);
                total += counts[i];
            }
            sums[len + g] += gain(len + g, total);
        }
    };
    let worker = |worker: usize, sums: &mut [f64]| gather(&counts[row(worker, len)], sums);
    let mut sums = sum_over(counts.len() / len, at.len(), control, worker)?;
    gather(imaginary, &mut sums);
    for (i, a) in alpha.iter_mut().enumerate() {
        *a = (*a * sums[i] / sums[len + i % n_groups]).clamp(BOUNDS.0, BOUNDS.1);
    }
    Ok(())
}

/// The Dirichlet parameters that rows of counts were most probably drawn with, one step of Minka's fixed point nearer;
/// `imaginary` is one row more, which keeps them finite. O(rows) digamma functions for each parameter.
pub fn dirichlet_step(alpha: &[f64], counts: &[f64], imaginary: &[f64], control: &Control) -> Result<Vec<f64>> {
    let positive = |values: &[f64]| values.iter().all(|a| *a > 0.0 && a.is_finite());
    let counted = counts.iter().all(|n| *n >= 0.0 && n.is_finite());
    if alpha.is_empty() || imaginary.len() != alpha.len() || !counts.len().is_multiple_of(alpha.len()) || !counted {
        return Err(Error::invalid("counts must be rows of as many numbers as there are parameters, none below 0"));
    }
    if !positive(alpha) || !positive(imaginary) {
        return Err(Error::invalid("parameters and pseudo-counts must be positive"));
    }
    let mut improved = copied(alpha)?;
    fixed_point(&mut improved, 1, counts, imaginary, control)?;
    Ok(improved)
}

struct Crowd {
    k: usize,
    alpha: Vec<f64>,
}

/// Row k of worker w is drawn around θ times the k-th unit vector plus (1 − θ)·ξ, with θ = `competence[w]` and ξ =
/// `guesses[w]`.
struct Spammer {
    k: usize,
    competence: Vec<f64>,
    guesses: Vec<f64>,
    strength: f64,
    learn_strength: bool,
    /// Beta parameters of competence.
    knowing: Vec<f64>,
    /// Dirichlet parameters of guesses.
    guessing: Vec<f64>,
}

impl Spammer {
    fn new(strength: Option<f64>, m: usize, k: usize) -> Result<Self> {
        Ok(Self {
            k,
            competence: filled(2.0 / 3.0, m)?,
            guesses: filled(1.0 / k as f64, m * k)?,
            strength: strength.unwrap_or(4.0),
            learn_strength: strength.is_none(),
            knowing: vec![2.0, 1.0],
            guessing: vec![2.0 / k as f64; k],
        })
    }

    /// Writes the mean of the worker's rows.
    fn write_mean(&self, worker: usize, mean: &mut [f64]) {
        let (theta, xi) = (self.competence[worker], &self.guesses[row(worker, self.k)]);
        for (i, to) in mean.iter_mut().enumerate() {
            let (label, class) = (i / self.k, i % self.k);
            let competence = if label == class { theta } else { 0.0 };
            *to = (competence + (1.0 - theta) * xi[label]).max(LEAST_MEAN);
        }
    }

    fn add_to(&self, counts: &mut [f64]) -> Result<()> {
        counts.par_chunks_mut(self.k * self.k).enumerate().try_for_each_init(
            || zeros(self.k * self.k),
            |mean, (worker, counts)| {
                let mean = ready(mean)?;
                self.write_mean(worker, mean);
                if self.strength.is_infinite() {
                    counts.copy_from_slice(mean);
                } else {
                    counts.iter_mut().zip(mean).for_each(|(c, p)| *c += self.strength * *p);
                }
                Ok(())
            },
        )
    }

    /// One round for everything learned: who knew and who guessed, given the rest, and then the rest.
    fn improve(&mut self, counts: &[f64], control: &Control) -> Result<()> {
        let (k, m) = (self.k, self.competence.len());
        // Draws from the mean: how often the worker knew, how often they guessed, and what; and what they imply for the
        // prior strength.
        let mut knowing = zeros(m * 2)?;
        let mut guessed = zeros(m * k)?;
        let mut gains = zeros(m * 2)?;
        let workers = knowing.par_chunks_mut(2).zip(guessed.par_chunks_mut(k)).zip(gains.par_chunks_mut(2));
        workers.enumerate().try_for_each_init(
            || zeros(k * k),
            |mean, (worker, ((known, guessed), gains))| {
                control.check()?;
                let mean = ready(mean)?;
                self.write_mean(worker, mean);
                let counts = &counts[row(worker, k * k)];
                self.attribute(self.competence[worker], counts, mean, known, guessed, &mut gains[0]);
                gains[1] = (0..k).map(|class| self.row_gain(counts, class)).sum();
                Ok(())
            },
        )?;
        if self.learn_strength {
            let (cells, rows) = gains.chunks_exact(2).fold((0.0, 0.0), |(a, b), g| (a + g[0], b + g[1]));
            // One step of Minka's fixed point for a prior strength that all rows share.
            if rows > 0.0 {
                self.strength = (self.strength * cells / rows).clamp(BOUNDS.0, BOUNDS.1);
            }
        }
        for _ in 0..ROUNDS {
            fixed_point(&mut self.knowing, 1, &knowing, &[2.0, 1.0], control)?;
            fixed_point(&mut self.guessing, 1, &guessed, &vec![2.0 / k as f64; k], control)?;
        }
        for (worker, (known, guessed)) in knowing.chunks_exact(2).zip(guessed.chunks_exact(k)).enumerate() {
            let (right, rest) = (known[0] + self.knowing[0], known[1] + self.knowing[1]);
            self.competence[worker] = right / (right + rest);
            let total = known[1] + self.guessing.iter().sum::<f64>();
            for ((xi, n), a) in self.guesses[row(worker, k)].iter_mut().zip(guessed).zip(&self.guessing) {
                *xi = (n + a) / total;
            }
        }
        Ok(())
    }

    /// Divides one worker's draws from the mean of their rows into knowledge and guesses.
    ///
    /// Of the answers in a cell, the expected number of draws from the mean itself is what the prior strength leaves of
    /// them (tables of a Chinese restaurant); all of them where it is infinite.
    fn attribute(
        &self,
        theta: f64,
        counts: &[f64],
        mean: &[f64],
        known: &mut [f64],
        guessed: &mut [f64],
        gain: &mut f64,
    ) {
        for (i, (&count, &p)) in counts.iter().zip(mean).enumerate().filter(|(_, (count, _))| **count > 0.0) {
            let mut draws = count;
            if self.strength.is_finite() {
                let at = self.strength * p;
                let each = digamma(count + at) - digamma(at);
                *gain += p * each;
                draws = at * each;
            }
            let (label, class) = (i / self.k, i % self.k);
            let knew = if label == class { draws * (theta / p).min(1.0) } else { 0.0 };
            known[0] += knew;
            known[1] += draws - knew;
            guessed[label] += draws - knew;
        }
    }

    fn row_gain(&self, counts: &[f64], class: usize) -> f64 {
        if !self.learn_strength {
            return 0.0;
        }
        let total: f64 = counts.iter().skip(class).step_by(self.k).sum();
        digamma(total + self.strength) - digamma(self.strength)
    }
}
