//! How far the answers of a crowd agree beyond chance.
//!
//! Every coefficient is one minus observed over expected disagreement, or a relative of that. Those of [`counts`] look
//! at which labels meet on a task, regardless of worker; those of [`pairs`] compare workers two by two. Both can be had
//! without a group of the tasks, which is what their intervals are made from.

mod coincidences;
mod counts;
mod jackknife;
mod pairs;

pub use coincidences::{Coincidences, agreement_by_coincidences, coincidences};
pub use counts::{Coefficient, Counted, agreement_by_counts};
pub use jackknife::LeftOut;
pub use pairs::{Chance, Paired, Summary, agreement_by_pairs};

use crate::{Error, Result};

/// Tasks looked at between two looks at [`Control::check`](crate::base::control::Control::check).
const TASKS_PER_CHECK: usize = 1 << 16;

/// How disagreement grows with what lies between two labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All pairs of different labels are equally far apart.
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

    /// The disagreement expected by chance: the sum of x[a] · y[b] times the distance of a and b.
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

    /// The largest disagreement of any two of these labels.
    fn widest(&self, used: &[u16]) -> f64 {
        // All shapes grow with the distance, to either side.
        let by_position =
            |a: &&u16, b: &&u16| self.positions[usize::from(**a)].total_cmp(&self.positions[usize::from(**b)]);
        match (used.iter().min_by(by_position), used.iter().max_by(by_position)) {
            (Some(_), Some(_)) if self.shape == Shape::Nominal => f64::from(u8::from(used.len() > 1)),
            (Some(&low), Some(&high)) => self.between(low.into(), high.into()),
            _ => 0.0,
        }
    }

    /// The largest disagreement of any two classes, and the sum over all pairs of classes.
    fn extent(&self) -> (f64, f64) {
        let k = self.positions.len();
        let rows =
            (0..k).map(|a| (0..k).map(|b| self.between(a, b)).fold((0.0, 0.0), |(m, s), d| (f64::max(m, d), s + d)));
        rows.fold((0.0, 0.0), |(m, s), (row_m, row_s)| (f64::max(m, row_m), s + row_s))
    }
}

/// A coefficient, and how far it could fall.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// The coefficient; not a number where it is undefined.
    value: f64,
    /// One minus the coefficient if all labels that meet were as far apart as can be; not a number where that has no
    /// meaning.
    worst: f64,
}

impl Estimate {
    const UNDEFINED: Self = Self { value: f64::NAN, worst: f64::NAN };
}

/// One minus observed over expected disagreement, of which `most` could be observed; undefined where nothing could
/// disagree by chance.
fn beyond_chance(observed: f64, expected: f64, most: f64) -> Estimate {
    if expected > 0.0 {
        Estimate { value: 1.0 - observed / expected, worst: most / expected }
    } else {
        Estimate::UNDEFINED
    }
}

#[cfg(test)]
mod tests;
