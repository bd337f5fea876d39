//! How strongly the errors on one task are correlated, estimated from the labels alone.
//!
//! The model is a Gaussian copula with one factor: worker m is right on a task of class k where √r·u + √(1 − r)·ε <
//! aₘₖ, with Φ(aₘₖ) their accuracy, u shared by all workers on the task, and ε their own. What they say where they are
//! wrong does not depend on u. A fit that took r for zero has given accuracies, and is too sure of both classes and
//! accuracies where r is not; so r is found together with a shift δ of all aₘₖ, as the root of two estimating functions
//! that have mean zero at the truth, since classes are averaged over with their posterior *under r and δ*:
//!
//! * of pairs: products of two workers' residuals, less their covariance under r;
//! * of votes: residuals.
//!
//! A task's own labels are taken out of the accuracies it is judged by. Nothing is drawn at random, so that renaming
//! tasks, workers or classes changes nothing.

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::with_room;
use crate::base::num::{scramble, softmax};
use crate::base::special::{log_normal_below, normal_below};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Correlations that are tried in turn, until the functions change sign.
const TRIED: [f64; 7] = [0.0, 0.05, 0.15, 0.3, 0.5, 0.65, 0.8];
/// The shift that slopes are taken with, how far one correlation may move it, and its bounds.
const SHIFT: f64 = 0.05;
const STRIDE: f64 = 0.25;
const SHIFTS: (f64, f64) = (-1.0, 0.5);
/// Precision of the belief that accuracies are about right: a standard deviation of 0.3.
const PRECISION: f64 = 1.0 / (0.3 * 0.3);
/// The standard error that stands for knowing nothing, and the slope that has no information.
const NOTHING: f64 = 1.0;
const FLAT: f64 = 1e-9;

/// Knots at which curves are computed; they span accuracies of 0.001 to 0.999.
const CELLS: usize = 128;
const SPAN: f64 = 3.090_232_306_167_813_5;

/// Nodes and weights of the Gauss–Hermite quadrature for the shared factor.
const NODES: [f64; 9] = [
    -4.512_745_863_399_783,
    -3.205_429_002_856_47,
    -2.076_847_978_677_83,
    -1.023_255_663_789_132_6,
    0.0,
    1.023_255_663_789_132_6,
    2.076_847_978_677_83,
    3.205_429_002_856_47,
    4.512_745_863_399_783,
];
const SHARES: [f64; 9] = [
    2.234_584_400_774_660_7e-5,
    0.002_789_141_321_231_769_2,
    0.049_916_406_765_217_82,
    0.244_097_502_894_939_53,
    0.406_349_206_349_206_35,
    0.244_097_502_894_939_53,
    0.049_916_406_765_217_82,
    0.002_789_141_321_231_769_2,
    2.234_584_400_774_660_7e-5,
];
const N: usize = NODES.len();
/// Terms of the series of the covariance in powers of r: within a few per cent up to r = 0.5 and accuracies of 0.98.
const TERMS: usize = 3;
/// What belongs to an accuracy next to the evidence of an answer: weight of a residual, the same times the accuracy,
/// and terms of the covariance.
const WEIGHT: usize = 0;
const EXPECTED: usize = 1;
const SERIES: usize = 2;
const WIDTH: usize = SERIES + TERMS;

/// Tasks of larger logs are sampled down to about this many annotations: the error is a few thousandths by then.
const MOST: usize = 1 << 18;
/// Tasks that one job handles.
const TASKS: usize = 1 << 10;
/// No probability of a label is taken to be below this.
const LEAST: f64 = 1e-12;

/// The correlation of errors on one task, and its standard error.
///
/// `posterior` is that of a fit that takes workers to err independently, (tasks × classes), `counts` the pseudo-counts
/// and expected counts that its confusion matrices are the shares of, (workers × true × observed), and `prior` its
/// classes'. Time O(annotations · classes) for each of four to fourteen evaluations, on a part of logs above 262,144
/// annotations, unless the table is `sampled` from one already; memory O((tasks + workers) · classes).
pub fn error_correlation(
    table: &Table,
    posterior: &[f64],
    counts: &[f64],
    prior: &[f64],
    sampled: bool,
    control: &Control,
) -> Result<(f64, f64)> {
    let (n, m, k) = (table.n_tasks(), table.n_workers(), table.n_labels());
    if posterior.len() != n * k || counts.len() != m * k * k || prior.len() != k {
        return Err(Error::invalid("posterior, counts and prior must fit the table"));
    }
    if k < 2 {
        return Ok((0.0, NOTHING));
    }
    let tasks = looked_at(0, n, if sampled { 0 } else { table.len() as u64 })?;
    let estimate = Crowd::new(table, tasks, posterior, counts, prior, control)?.search(control)?;
    Ok(if estimate.0.is_finite() && estimate.1.is_finite() { estimate } else { (0.0, NOTHING) })
}

/// What does not change while correlations are tried.
struct Crowd<'a> {
    table: &'a Table,
    posterior: &'a [f64],
    /// The tasks that are looked at.
    tasks: Vec<u32>,
    /// Prior and evidence of each of them without its own evidence, in logarithms, (tasks looked at × classes).
    evidence: Vec<f64>,
    /// Where a worker's accuracy lies among the knots, and their (pseudo-)answers, by class, (workers × classes).
    places: Vec<(f64, f64)>,
}

impl<'a> Crowd<'a> {
    fn new(
        table: &'a Table,
        tasks: Vec<u32>,
        posterior: &'a [f64],
        counts: &[f64],
        prior: &[f64],
        control: &Control,
    ) -> Result<Self> {
        let k = prior.len();
        let accuracies: Vec<f64> = (0..=CELLS).map(|i| normal_below(knot(i))).collect();
        let mut places = vec![(0.0, 0.0); table.n_workers() * k];
        places.par_chunks_mut(k).zip(counts.par_chunks(k * k)).for_each(|(places, counts)| {
            for (class, (to, row)) in places.iter_mut().zip(counts.chunks_exact(k)).enumerate() {
                let total: f64 = row.iter().sum();
                *to = (place(&accuracies, row[class] / total), total);
            }
        });
        let mut evidence = vec![0.0; tasks.len() * k];
        evidence.par_chunks_mut(TASKS * k).zip(tasks.par_chunks(TASKS)).try_for_each(|(evidence, tasks)| {
            control.check()?;
            for (to, &task) in evidence.chunks_exact_mut(k).zip(tasks) {
                let q = row_of(posterior, task, k);
                to.iter_mut().zip(prior).for_each(|(to, p)| *to = p.max(LEAST).ln());
                for run in Runs::of(table, task) {
                    for class in 0..k {
                        let counts = &counts[(run.worker * k + class) * k..][..k];
                        let total = places[run.worker * k + class].1;
                        let rest = (total - q[class] * run.weight).max(LEAST);
                        for (label, weight) in run.labels() {
                            to[class] += weight * ((counts[label] - q[class] * weight).max(LEAST) / rest).ln();
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(Self { table, posterior, tasks, evidence, places })
    }

    /// Follows the root in the shift while the correlation grows, until the pairs' function, too, changes sign.
    fn search(&self, control: &Control) -> Result<(f64, f64)> {
        let mut shift = 0.0;
        let mut last = self.tried(0.0, &mut shift, control)?;
        for &correlation in &TRIED[1..] {
            let next = self.tried(correlation, &mut shift, control)?;
            if last.left.min(next.left) <= 0.0 || correlation >= TRIED[TRIED.len() - 1] {
                return Ok(Tried::root(&last, &next));
            }
            last = next;
        }
        Ok((0.0, NOTHING))
    }

    /// What the pairs' function is at a correlation and the shift that belongs to it, towards which `shift` is moved.
    fn tried(&self, correlation: f64, shift: &mut f64, control: &Control) -> Result<Tried> {
        let here = self.sums(correlation, *shift, control)?;
        let there = self.sums(correlation, *shift + SHIFT, control)?;
        let steepness = ((there.votes - here.votes) / SHIFT).min(0.0) - PRECISION;
        let lack = here.votes - *shift * PRECISION;
        let share = (there.pairs - here.pairs) / SHIFT / steepness;
        let noise = here.pairs_squared - 2.0 * share * here.product + share * share * here.votes_squared;
        *shift = (*shift + (-lack / steepness).clamp(-STRIDE, STRIDE)).clamp(SHIFTS.0, SHIFTS.1);
        Ok(Tried { correlation, left: here.pairs - share * lack, noise: noise.max(0.0) })
    }

    /// The estimating functions summed over tasks.
    fn sums(&self, correlation: f64, shift: f64, control: &Control) -> Result<Sums> {
        let k = self.evidence.len() / self.tasks.len().max(1);
        let curves = curves(correlation, shift);
        let powers: [f64; TERMS] = std::array::from_fn(|j| correlation.powi(j as i32 + 1));
        let blocks = self.tasks.par_chunks(TASKS).zip(self.evidence.par_chunks(TASKS * k));
        let parts: Vec<Sums> = blocks
            .map(|(tasks, evidence)| {
                control.check()?;
                let (mut sums, mut scratch) = (Sums::default(), vec![Class::default(); k]);
                let mut odds = vec![0.0; k];
                for (&task, evidence) in tasks.iter().zip(evidence.chunks_exact(k)) {
                    scratch.fill(Class::default());
                    self.gather(task, &curves, &mut scratch);
                    odds.iter_mut().zip(evidence).zip(&scratch).for_each(|((to, e), class)| *to = e + class.log_mean());
                    softmax(&mut odds);
                    let (mut pairs, mut votes) = (0.0, 0.0);
                    for (q, class) in odds.iter().zip(&scratch) {
                        pairs += q * class.pairs(&powers);
                        votes += q * class.votes;
                    }
                    sums.add(&Sums::of(pairs, votes));
                }
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let mut total = Sums::default();
        parts.iter().for_each(|part| total.add(part));
        Ok(total)
    }

    /// Adds up what the workers on a task contribute, by class.
    fn gather(&self, task: u32, curves: &[Curve], classes: &mut [Class]) {
        let k = classes.len();
        let q = row_of(self.posterior, task, k);
        for run in Runs::of(self.table, task) {
            let places = &self.places[run.worker * k..][..k];
            let mut labels = run.labels().peekable();
            for (c, ((class, &(place, total)), q)) in classes.iter_mut().zip(places).zip(q).enumerate() {
                let right = labels.next_if(|(label, _)| *label == c).map_or(0.0, |(_, weight)| weight);
                let inflated = total / (total - q * run.weight).max(LEAST);
                class.absorb(curves, place, right, run.weight, inflated);
            }
        }
    }
}

/// The functions of one task or of many, and their products.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    pairs: f64,
    votes: f64,
    pairs_squared: f64,
    product: f64,
    votes_squared: f64,
}

impl Sums {
    fn of(pairs: f64, votes: f64) -> Self {
        Self { pairs, votes, pairs_squared: pairs * pairs, product: pairs * votes, votes_squared: votes * votes }
    }

    fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.votes += other.votes;
        self.pairs_squared += other.pairs_squared;
        self.product += other.product;
        self.votes_squared += other.votes_squared;
    }
}

/// The pairs' function along the root of the votes' one.
struct Tried {
    correlation: f64,
    left: f64,
    noise: f64,
}

impl Tried {
    /// Where the line through both vanishes, and the standard error.
    fn root(a: &Self, b: &Self) -> (f64, f64) {
        let slope = (a.left - b.left) / (b.correlation - a.correlation);
        if slope <= FLAT {
            return (if a.left <= FLAT { 0.0 } else { b.correlation }, NOTHING);
        }
        let root = (a.correlation + a.left / slope).clamp(0.0, TRIED[TRIED.len() - 1]);
        (root, (b.noise.sqrt() / slope).min(NOTHING))
    }
}

/// What a task's workers add up to if it is of one class.
#[derive(Debug, Clone, Copy, Default)]
struct Class {
    /// Evidence by node.
    logs: [f64; N],
    votes: f64,
    squares: f64,
    together: [f64; TERMS],
    alone: [f64; TERMS],
}

impl Class {
    /// Adds a worker who was right with weight `right` of `all`.
    #[inline(always)]
    fn absorb(&mut self, curves: &[Curve], place: f64, right: f64, all: f64, inflated: f64) {
        let cell = (place as usize).min(CELLS - 1);
        let (low, high, share) = (&curves[cell], &curves[cell + 1], place - cell as f64);
        // Most have one answer, and one of the two terms.
        if right > 0.0 {
            add_between(&mut self.logs, right, &low.right, &high.right, share);
        }
        if right < all {
            add_between(&mut self.logs, all - right, &low.wrong, &high.wrong, share);
        }
        let mut rest = [0.0; WIDTH];
        add_between(&mut rest, 1.0, &low.rest, &high.rest, share);
        let residual = (right * rest[WEIGHT] - all * rest[EXPECTED]) * inflated;
        self.votes += residual;
        self.squares += residual * residual;
        for ((term, together), alone) in rest[SERIES..].iter().zip(&mut self.together).zip(&mut self.alone) {
            let term = all * term;
            *together += term;
            *alone += term * term;
        }
    }

    /// The logarithm of the evidence, averaged over the shared factor.
    fn log_mean(&self) -> f64 {
        let largest = self.logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mean: f64 = self.logs.iter().zip(SHARES).map(|(log, share)| share * (log - largest).exp()).sum();
        largest + mean.ln()
    }

    /// Products of residuals of two workers less their covariance.
    fn pairs(&self, powers: &[f64; TERMS]) -> f64 {
        let series = self.together.iter().zip(&self.alone).zip(powers);
        let expected: f64 = series.map(|((all, own), power)| power * 0.5 * (all * all - own)).sum();
        0.5 * (self.votes * self.votes - self.squares) - expected
    }
}

/// All answers of one worker to one task: several rows where they repeated themselves.
struct Run<'a> {
    table: &'a Table,
    rows: std::ops::Range<usize>,
    worker: usize,
    weight: f64,
}

impl Run<'_> {
    /// Labels in ascending order, each once, and the weight of each.
    fn labels(&self) -> impl Iterator<Item = (usize, f64)> {
        let (mut at, end) = (self.rows.start, self.rows.end);
        std::iter::from_fn(move || {
            let label = (at < end).then(|| self.table.labels().get(at))?;
            let mut weight = 0.0;
            while at < end && self.table.labels().get(at) == label {
                weight += weight_of(self.table, at);
                at += 1;
            }
            Some((label, weight))
        })
    }
}

/// The runs of a task.
struct Runs<'a> {
    table: &'a Table,
    rows: std::ops::Range<usize>,
}

impl<'a> Runs<'a> {
    fn of(table: &'a Table, task: u32) -> Self {
        Self { table, rows: table.rows_of(task as usize) }
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let start = self.rows.start;
        let workers = self.table.workers();
        let worker = *workers[..self.rows.end].get(start)?;
        let mut weight = 0.0;
        while self.rows.start < self.rows.end && workers[self.rows.start] == worker {
            weight += weight_of(self.table, self.rows.start);
            self.rows.start += 1;
        }
        Some(Run { table: self.table, rows: start..self.rows.start, worker: worker as usize, weight })
    }
}

fn weight_of(table: &Table, row: usize) -> f64 {
    table.weights().map_or(1.0, |weights| weights[row])
}

fn row_of(rows: &[f64], task: u32, k: usize) -> &[f64] {
    &rows[task as usize * k..][..k]
}

/// All tasks, or of a large log a part: as if drawn at random, but the same for logs of the same size.
///
/// Of a shard, `first` is the number of its first task among all, and `n_annotations` are those of the log.
pub fn looked_at(first: u64, n_tasks: usize, n_annotations: u64) -> Result<Vec<u32>> {
    let limit = ((MOST as u128) << 64) / u128::from(n_annotations.max(MOST as u64));
    let mut tasks = with_room(n_tasks)?;
    tasks.extend((0..n_tasks as u32).filter(|&task| u128::from(scramble(first + u64::from(task) + 1)) < limit));
    Ok(tasks)
}

fn knot(i: usize) -> f64 {
    SPAN * (2.0 * i as f64 / CELLS as f64 - 1.0)
}

/// A cell and how far into it, as one number.
fn place(accuracies: &[f64], accuracy: f64) -> f64 {
    let accuracy = accuracy.clamp(accuracies[0], accuracies[CELLS]);
    let cell = accuracies.partition_point(|a| *a <= accuracy).clamp(1, CELLS) - 1;
    let (low, high) = (accuracies[cell], accuracies[cell + 1]);
    cell as f64 + (accuracy - low) / (high - low)
}

/// Adds a multiple of what lies between two knots.
#[inline(always)]
fn add_between<const W: usize>(to: &mut [f64; W], times: f64, low: &[f64; W], high: &[f64; W], share: f64) {
    for ((to, low), high) in to.iter_mut().zip(low).zip(high) {
        *to += times * (low + share * (high - low));
    }
}

/// What depends on an accuracy.
#[derive(Debug, Clone, Copy, Default)]
struct Curve {
    /// Evidence of a right answer beyond what is known without correlation and shift, by node.
    right: [f64; N],
    /// Of a wrong one.
    wrong: [f64; N],
    rest: [f64; WIDTH],
}

/// The curves at each knot.
fn curves(correlation: f64, shift: f64) -> Vec<Curve> {
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (0..=CELLS)
        .map(|i| {
            let (old, new) = (knot(i), knot(i) + shift);
            let weight = density(old) / (normal_below(old) * normal_below(-old));
            let mut curve = Curve::default();
            for (node, x) in NODES.iter().enumerate() {
                let conditional = (new - correlation.sqrt() * x) / (1.0 - correlation).sqrt();
                curve.right[node] = log_normal_below(conditional) - log_normal_below(old);
                curve.wrong[node] = log_normal_below(-conditional) - log_normal_below(-old);
            }
            curve.rest[WEIGHT] = weight;
            curve.rest[EXPECTED] = weight * normal_below(new);
            // Hermite polynomials, divided by the root of the factorial of the term's number.
            let (mut he, mut before, mut root) = (1.0, 0.0, 1.0);
            for j in 0..TERMS {
                root *= (j as f64 + 1.0).sqrt();
                curve.rest[SERIES + j] = weight * density(new) * he / root;
                (he, before) = (new * he - j as f64 * before, he);
            }
            curve
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quadrature_has_the_moments_of_a_normal_variable() {
        for (power, moment) in [(0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0), (6, 15.0), (12, 10_395.0), (16, 2_027_025.0)] {
            let got: f64 = NODES.iter().zip(SHARES).map(|(x, share)| share * x.powi(power)).sum();
            assert!((got - moment).abs() < 1e-9 * moment.max(1.0), "{power}: {got}");
        }
    }

    #[test]
    fn places_lie_where_the_accuracy_is() {
        let accuracies: Vec<f64> = (0..=CELLS).map(|i| normal_below(knot(i))).collect();
        for accuracy in [0.0, 0.001, 0.3, 0.5, 0.77, 0.999, 1.0] {
            let place = place(&accuracies, accuracy);
            let cell = (place as usize).min(CELLS - 1);
            let back = accuracies[cell] + (place - cell as f64) * (accuracies[cell + 1] - accuracies[cell]);
            assert!((back - accuracy.clamp(0.001, 0.999)).abs() < 1e-12);
        }
    }

    #[test]
    fn roots_lie_where_the_line_vanishes() {
        let [a, b] = [(0.05, 0.1), (0.15, -0.1)].map(|(correlation, left)| Tried { correlation, left, noise: 0.0 });
        assert!((Tried::root(&a, &b).0 - 0.1).abs() < 1e-12);
    }

    #[test]
    fn large_logs_are_sampled() {
        assert_eq!(looked_at(0, 1000, MOST as u64).unwrap(), (0..1000).collect::<Vec<_>>());
        let (some, n) = (looked_at(0, 100_000, 4 * MOST as u64).unwrap(), 100_000_f64);
        let spread = (n * 0.25 * 0.75).sqrt();
        assert!((some.len() as f64 - n / 4.0).abs() < 5.0 * spread);
        // Any stretch of tasks is in it, and no rhythm.
        let even = some.iter().filter(|&&task| task % 2 == 0).count() as f64;
        assert!((even - n / 8.0).abs() < 5.0 * spread);
        assert!(some.windows(2).all(|pair| pair[1] - pair[0] < 100));
    }

    #[test]
    fn independent_answers_carry_their_own_evidence() {
        // Without correlation and shift, nodes add nothing to what a fit knew.
        for curve in curves(0.0, 0.0) {
            assert!(curve.right.iter().chain(&curve.wrong).all(|x| x.abs() < 1e-12));
        }
    }
}
