//! Workers whose errors follow the order of the classes: an ordered logit each, drawn around the crowd's.
//!
//! Worker `w` gives at most label `l` of class `k` with probability F(b − a·x), F the logistic function, `b` their l-th
//! threshold, `a` their slope and `x` the place of the class, k − (K − 1)/2. Thresholds and slope are drawn from a
//! normal distribution that is learned (empirical Bayes, with Laplace's approximation), and rows of the confusion
//! matrix scatter around these means with a prior strength, as those of the other hierarchies do.

use rayon::prelude::*;

use super::hierarchy::{BOUNDS, LEAST_MEAN, WORKERS, add};
use crate::base::control::Control;
use crate::base::memory::{copied, zeros};
use crate::base::num::{cholesky, cholesky_solve};
use crate::base::special::digamma;
use crate::{Error, Result};

/// Steps of Newton's method for each worker in each round.
const STEPS: usize = 5;
/// A step is halved at most so often before it is given up.
const HALVINGS: usize = 12;
/// Pseudo-answers of each class, as the crowd would give them: they keep thresholds apart.
const IMAGINARY: f64 = 1.0;
/// Slope of a pseudo-worker; thresholds lie midway between the classes.
const SLOPE: f64 = 2.0;
/// Variance of thresholds and slopes that an inverse Wishart prior, worth a worker more than classes, expects.
const VARIANCE: f64 = 0.5;
/// Prior strength to begin with where it is learned.
const FIRST_STRENGTH: f64 = 10.0;

/// Where a class lies.
fn place(class: usize, k: usize) -> f64 {
    class as f64 - (k - 1) as f64 / 2.0
}

/// The logarithm of the logistic function.
fn log_logistic(x: f64) -> f64 {
    if x < 0.0 { x - x.exp().ln_1p() } else { -(-x).exp().ln_1p() }
}

/// The logistic function.
fn logistic(x: f64) -> f64 {
    log_logistic(x).exp()
}

/// What one worker's numbers make of a label of a class: its log-probability, and how that grows with the threshold
/// above the label and with the one below it.
///
/// F(u) − F(v) = F(u)·F(−v)·(1 − exp(v − u)) loses no digits in the tails.
fn cell(theta: &[f64], class: usize, label: usize) -> (f64, f64, f64) {
    let k = theta.len();
    let shift = theta[k - 1] * place(class, k);
    let upper = (label + 1 < k).then(|| theta[label] - shift);
    let lower = (label > 0).then(|| theta[label - 1] - shift);
    let (mut log, mut up, mut down) = (0.0, 0.0, 0.0);
    if let Some(u) = upper {
        log += log_logistic(u);
        up += logistic(-u);
    }
    if let Some(v) = lower {
        log += log_logistic(-v);
        down -= logistic(v);
    }
    if let (Some(u), Some(v)) = (upper, lower) {
        let gap = u - v;
        log += (-(-gap).exp_m1()).ln();
        let more = gap.exp_m1().recip();
        up += more;
        down -= more;
    }
    (log, up, down)
}

/// What was learned of an ordered crowd.
#[derive(Debug, Clone)]
pub struct OrdinalCrowd {
    /// Thresholds and then the slope of each worker, (workers × classes).
    pub theta: Vec<f64>,
    /// Their mean in the crowd, (classes).
    pub mean: Vec<f64>,
    /// Their covariance, (classes × classes).
    pub covariance: Vec<f64>,
    /// How closely rows keep to what thresholds and slope say.
    pub strength: f64,
}

/// The prior while it is learned.
pub(super) struct Ordered {
    pub(super) crowd: OrdinalCrowd,
    learn_strength: bool,
}

/// What one worker's improvement works with.
struct Scratch {
    /// Draws from the mean, with the pseudo-answers, (true × observed).
    draws: Vec<f64>,
    gradient: Vec<f64>,
    /// The information, and then its Cholesky factor.
    information: Vec<f64>,
    inverse: Vec<f64>,
    trial: Vec<f64>,
}

impl Scratch {
    fn new(k: usize) -> Result<Self> {
        Ok(Self {
            draws: zeros(k * k)?,
            gradient: zeros(k)?,
            information: zeros(k * k)?,
            inverse: zeros(k * k)?,
            trial: zeros(k)?,
        })
    }
}

/// What all workers share in one round.
struct Round<'a> {
    k: usize,
    mean: &'a [f64],
    precision: &'a [f64],
    imaginary: &'a [f64],
    strength: f64,
}

impl Ordered {
    pub(super) fn new(strength: Option<f64>, m: usize, k: usize) -> Result<Self> {
        let mean = imaginary_worker(k);
        let mut theta = zeros(m * k)?;
        theta.chunks_exact_mut(k).for_each(|worker| worker.copy_from_slice(&mean));
        let crowd = OrdinalCrowd {
            theta,
            mean,
            covariance: diagonal(VARIANCE, k)?,
            strength: strength.unwrap_or(FIRST_STRENGTH),
        };
        Ok(Self { crowd, learn_strength: strength.is_none() })
    }

    fn k(&self) -> usize {
        self.crowd.mean.len()
    }

    /// One round for everything learned: each worker's numbers given the crowd's, then the crowd's, and the prior
    /// strength.
    ///
    /// `counts` are label-first.
    pub(super) fn improve(&mut self, counts: &[f64], control: &Control) -> Result<()> {
        let k = self.k();
        let OrdinalCrowd { theta, mean, covariance, strength } = &mut self.crowd;
        let precision = inverted(covariance, k)?;
        let mut imaginary = zeros(k * k)?;
        for (i, x) in imaginary.iter_mut().enumerate() {
            *x = IMAGINARY * cell(mean, i / k, i % k).0.exp();
        }
        let round = Round { k, mean, precision: &precision, imaginary: &imaginary, strength: *strength };
        // Sums of each block: numbers, their squares about the crowd's mean with what is not known of them, and gains.
        let blocks: Vec<Vec<f64>> = theta
            .par_chunks_mut(WORKERS * k)
            .zip(counts.par_chunks(WORKERS * k * k))
            .map(|(theta, counts)| {
                let (mut sums, mut scratch) = (zeros(k + k * k + 2)?, Scratch::new(k)?);
                for (theta, counts) in theta.chunks_exact_mut(k).zip(counts.chunks_exact(k * k)) {
                    control.check()?;
                    round.improve(theta, counts, &mut scratch, &mut sums)?;
                }
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let mut sums = zeros(k + k * k + 2)?;
        blocks.iter().for_each(|block| add(&mut sums, block));
        let (gains, rows) = (sums[k + k * k], sums[k + k * k + 1]);
        if self.learn_strength && rows > 0.0 {
            *strength = (*strength * gains / rows).clamp(BOUNDS.0, BOUNDS.1);
        }
        let m = (theta.len() / k) as f64;
        let first = imaginary_worker(k);
        let shift: Vec<f64> = (0..k).map(|i| (first[i] + sums[i]) / (m + 1.0) - mean[i]).collect();
        let worth = (k + 1) as f64;
        for i in 0..k {
            for j in 0..k {
                // Squares about the mean before, moved to the one after.
                let about = |i: usize| sums[i] - m * mean[i];
                let square = sums[k + i * k + j] - shift[i] * about(j) - shift[j] * about(i) + m * shift[i] * shift[j];
                let prior = if i == j { worth * VARIANCE } else { 0.0 };
                covariance[i * k + j] = (prior + square) / (worth + m);
            }
        }
        add(mean, &shift);
        Ok(())
    }

    /// Adds the prior to the expected counts, or puts the means in their place where the prior strength is infinite.
    pub(super) fn add_to(&self, counts: &mut [f64]) {
        let (k, strength) = (self.k(), self.crowd.strength);
        counts.par_chunks_mut(k * k).zip(self.crowd.theta.par_chunks(k)).for_each(|(counts, theta)| {
            for (i, count) in counts.iter_mut().enumerate() {
                let p = cell(theta, i % k, i / k).0.exp().max(LEAST_MEAN);
                *count = if strength.is_infinite() { p } else { *count + strength * p };
            }
        });
    }
}

/// Thresholds midway between the classes, and a slope: what is known before any data.
fn imaginary_worker(k: usize) -> Vec<f64> {
    let threshold = |l: usize| SLOPE * (l as f64 - (k as f64 - 2.0) / 2.0);
    (0..k - 1).map(threshold).chain([SLOPE]).collect()
}

fn diagonal(value: f64, k: usize) -> Result<Vec<f64>> {
    let mut matrix = zeros(k * k)?;
    matrix.iter_mut().step_by(k + 1).for_each(|x| *x = value);
    Ok(matrix)
}

fn inverted(matrix: &[f64], k: usize) -> Result<Vec<f64>> {
    let (mut factor, mut inverse) = (copied(matrix)?, diagonal(1.0, k)?);
    if !cholesky(&mut factor, 0.0, k) {
        return Err(Error::invalid(
            "thresholds of the workers differ by more than floating-point numbers can represent; check the weights",
        ));
    }
    cholesky_solve(&factor, &mut inverse, k, k);
    Ok(inverse)
}

impl Round<'_> {
    /// Improves one worker, and adds what the crowd learns of them to the sums.
    fn improve(&self, theta: &mut [f64], counts: &[f64], scratch: &mut Scratch, sums: &mut [f64]) -> Result<()> {
        let k = self.k;
        self.count_draws(theta, counts, scratch, &mut sums[k + k * k..]);
        let mut height = self.height(theta, &scratch.draws);
        for _ in 0..STEPS {
            self.slopes(theta, scratch)?;
            let Scratch { draws, gradient, information, trial, .. } = scratch;
            cholesky_solve(information, gradient, k, 1);
            let mut share = 1.0;
            for _ in 0..HALVINGS {
                for (to, (from, step)) in trial.iter_mut().zip(theta.iter().zip(&*gradient)) {
                    *to = from + share * step;
                }
                let reached = self.height(trial, draws);
                // Rounding must not decide: what is as high but for that is high enough.
                if reached >= height - 1e-10 * (1.0 + height.abs()) {
                    theta.copy_from_slice(trial);
                    height = reached;
                    break;
                }
                share /= 2.0;
            }
        }
        self.slopes(theta, scratch)?;
        scratch.inverse.fill(0.0);
        scratch.inverse.iter_mut().step_by(k + 1).for_each(|x| *x = 1.0);
        cholesky_solve(&scratch.information, &mut scratch.inverse, k, k);
        for i in 0..k {
            sums[i] += theta[i];
            for j in 0..k {
                let square = (theta[i] - self.mean[i]) * (theta[j] - self.mean[j]);
                sums[k + i * k + j] += square + scratch.inverse[i * k + j];
            }
        }
        Ok(())
    }

    /// Draws from the mean among a worker's answers, as tables of a Chinese restaurant, and what they imply for the
    /// prior strength.
    fn count_draws(&self, theta: &[f64], counts: &[f64], scratch: &mut Scratch, gains: &mut [f64]) {
        let k = self.k;
        for class in 0..k {
            let mut total = 0.0;
            for label in 0..k {
                let count = counts[label * k + class];
                total += count;
                let mut draws = count;
                if self.strength.is_finite() && count > 0.0 {
                    let p = cell(theta, class, label).0.exp().max(LEAST_MEAN);
                    let at = self.strength * p;
                    let each = digamma(count + at) - digamma(at);
                    gains[0] += p * each;
                    draws = at * each;
                }
                scratch.draws[class * k + label] = draws + self.imaginary[class * k + label];
            }
            if self.strength.is_finite() && total > 0.0 {
                gains[1] += digamma(total + self.strength) - digamma(self.strength);
            }
        }
    }

    /// The log-density of a worker's numbers, but for a constant; minus infinity where thresholds are out of order.
    fn height(&self, theta: &[f64], draws: &[f64]) -> f64 {
        let k = self.k;
        if theta[..k - 1].windows(2).any(|pair| pair[0] >= pair[1]) {
            return f64::NEG_INFINITY;
        }
        let labels: f64 = (0..k * k).map(|i| draws[i] * cell(theta, i / k, i % k).0).sum();
        let away = |i: usize| theta[i] - self.mean[i];
        let square = |i: usize| (0..k).map(|j| away(i) * self.precision[i * k + j] * away(j)).sum::<f64>();
        labels - 0.5 * (0..k).map(square).sum::<f64>()
    }

    /// The gradient of the height, and the Cholesky factor of the expected information.
    fn slopes(&self, theta: &[f64], scratch: &mut Scratch) -> Result<()> {
        let k = self.k;
        let Scratch { draws, gradient, information, .. } = scratch;
        information.copy_from_slice(self.precision);
        for (i, g) in gradient.iter_mut().enumerate() {
            *g = (0..k).map(|j| self.precision[i * k + j] * (self.mean[j] - theta[j])).sum();
        }
        for class in 0..k {
            let total: f64 = draws[class * k..(class + 1) * k].iter().sum();
            for label in 0..k {
                let (log, up, down) = cell(theta, class, label);
                // A label moves the threshold above it, the one below it, and the slope; where there is no such
                // threshold nothing is added, wherever it would go.
                let parts = [(label, up), (label.saturating_sub(1), down), (k - 1, -place(class, k) * (up + down))];
                let weight = total * log.exp();
                for (i, d) in parts {
                    gradient[i] += draws[class * k + label] * d;
                    for (j, e) in parts {
                        information[i * k + j] += weight * d * e;
                    }
                }
            }
        }
        let sound = cholesky(information, 0.0, k);
        sound.then_some(()).ok_or_else(|| Error::invalid("a worker's thresholds run out of numbers; check the weights"))
    }
}
