//! How far the answers of a crowd agree beyond chance.
//!
//! Every coefficient is one minus observed over expected disagreement, or a relative of that. Those of [`counts`] look
//! at which labels meet on a task, whoever gave them; those of [`pairs`] compare workers two by two. Both are functions
//! of how often each task counts, so that a resample of the tasks is one more evaluation.

mod counts;
mod pairs;

pub use counts::{Coefficient, Counted, agreement_by_counts};
pub use pairs::{Chance, Paired, Summary, agreement_by_pairs};

use rayon::prelude::*;

use crate::control::Control;
use crate::memory::clear;
use crate::num::{GOLDEN, pick, scramble};
use crate::{Error, Result};

/// Tasks drawn between two looks at [`Control::check`].
const DRAWS_PER_CHECK: usize = 1 << 16;

/// How disagreement grows with what lies between two labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Any two labels that differ, differ alike.
    Nominal,
    /// By the distance of their positions.
    Linear,
    /// By the square of that.
    Quadratic,
    /// By the square of their difference relative to their sum.
    Ratio,
}

impl Shape {
    /// Every shape by name.
    pub const NAMES: [(&str, Self); 4] =
        [("nominal", Self::Nominal), ("linear", Self::Linear), ("quadratic", Self::Quadratic), ("ratio", Self::Ratio)];
}

/// Disagreement between labels: a shape, and the position of each class.
#[derive(Debug, Clone, Copy)]
pub struct Scale<'a> {
    /// How disagreement grows.
    pub shape: Shape,
    /// Where each class lies.
    pub positions: &'a [f64],
}

impl Scale<'_> {
    fn validate(&self, n_classes: usize) -> Result<()> {
        if self.positions.len() != n_classes {
            return Err(Error::invalid(format!("{} positions for {n_classes} classes", self.positions.len())));
        }
        match self.positions.iter().find(|x| !x.is_finite()) {
            Some(bad) => Err(Error::invalid(format!("a class lies at {bad}, which is not a finite number"))),
            None => Ok(()),
        }
    }

    /// The disagreement of two labels; 0 for equal ones.
    #[inline(always)]
    fn between(&self, a: usize, b: usize) -> f64 {
        if self.shape == Shape::Nominal {
            return f64::from(u8::from(a != b));
        }
        let (x, y) = (self.positions[a], self.positions[b]);
        let apart = (x - y).abs();
        match self.shape {
            Shape::Linear => apart,
            Shape::Ratio if apart > 0.0 => (apart / (x + y)).powi(2),
            _ => apart * apart,
        }
    }

    /// The disagreement of labels that meet by chance: the sum of x[a] · y[b] times what lies between a and b.
    ///
    /// `used` lists the labels that occur. O(used) for nominal labels, O(used²) for others.
    fn expected(&self, used: &[u16], x: &[f64], y: &[f64]) -> f64 {
        let used = || used.iter().map(|&label| usize::from(label));
        if self.shape == Shape::Nominal {
            let (all_x, all_y): (f64, f64) = used().fold((0.0, 0.0), |(a, b), label| (a + x[label], b + y[label]));
            // Without the label itself, and not the whole less the equal part: nothing is left over where all are
            // equal.
            return used().map(|label| x[label] * (all_y - y[label])).sum::<f64>().min(all_x * all_y);
        }
        used().map(|a| x[a] * used().map(|b| y[b] * self.between(a, b)).sum::<f64>()).sum()
    }

    /// The largest disagreement of any two classes, and the sum over all pairs of classes.
    fn extent(&self) -> (f64, f64) {
        let k = self.positions.len();
        let rows =
            (0..k).map(|a| (0..k).map(|b| self.between(a, b)).fold((0.0, 0.0), |(m, s), d| (f64::max(m, d), s + d)));
        rows.fold((0.0, 0.0), |(m, s), (row_m, row_s)| (f64::max(m, row_m), s + row_s))
    }
}

/// One minus observed over expected disagreement; not a number where nothing could disagree.
fn beyond_chance(observed: f64, expected: f64) -> f64 {
    if expected > 0.0 { 1.0 - observed / expected } else { f64::NAN }
}

/// Evaluates a coefficient on resamples of the tasks, drawn with replacement; `evaluate` is told how often each counts.
///
/// Each resample has a stream of random numbers of its own: the same on any number of threads.
fn resampled(
    n_tasks: usize,
    n_resamples: usize,
    seed: u64,
    control: &Control,
    evaluate: impl Fn(&[u32]) -> Result<f64> + Sync,
) -> Result<Vec<f64>> {
    (0..n_resamples as u64)
        .into_par_iter()
        .map_init(Vec::<u32>::new, |times, resample| {
            let stream = scramble(seed.wrapping_add((resample + 1).wrapping_mul(GOLDEN)));
            clear(times, n_tasks)?;
            for draw in 0..n_tasks {
                if draw.is_multiple_of(DRAWS_PER_CHECK) {
                    control.check()?;
                }
                times[pick(stream, draw, n_tasks)] += 1;
            }
            evaluate(times)
        })
        .collect()
}

#[cfg(test)]
mod tests;
