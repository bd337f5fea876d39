//! The same coefficients from sums over parts of a log: which labels meet on a task, how often.

use super::counts::{Coefficient, Tallies, alpha_of, fleiss_of, gwet_of};
use super::{Estimate, Scale, Shape, TASKS_PER_CHECK};
use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Labels that meet on a task: sums over tasks, which may be added up.
#[derive(Debug, Clone, PartialEq)]
pub struct Coincidences {
    /// Ordered pairs of different labels, (classes × classes), each task's divided by what a label of it meets; where
    /// tasks weigh alike, by the number of its labels as well.
    pub pairs: Vec<f64>,
    /// Labels of each class: of tasks with two labels or more; where tasks weigh alike, shares of them, of all tasks.
    pub classes: Vec<f64>,
    /// Tasks that count.
    pub n: f64,
    /// Those with two labels or more.
    pub n_paired: f64,
    /// Pairs of labels on the same task.
    pub n_pairs: u64,
}

/// Sums over a table for a coefficient. Time O(annotations) and O(distinct labels²) on each task; memory O(classes²)
/// next to that of [`super::agreement_by_counts`].
pub fn coincidences(table: &Table, coefficient: Coefficient, control: &Control) -> Result<Coincidences> {
    let k = table.n_labels();
    let tallies = Tallies::new(table, control)?;
    let alpha = coefficient.weighs_labels();
    let mut sums = Coincidences { pairs: zeros(k * k)?, classes: zeros(k)?, n: 0.0, n_paired: 0.0, n_pairs: 0 };
    for task in 0..table.n_tasks() {
        if task.is_multiple_of(TASKS_PER_CHECK) {
            control.check()?;
        }
        let size: f64 = tallies.of(task).map(|(_, n)| n).sum();
        if size == 0.0 || (alpha && size < 2.0) {
            continue;
        }
        let share = if alpha { 1.0 } else { 1.0 / size };
        tallies.of(task).for_each(|(label, n)| sums.classes[label] += share * n);
        sums.n += 1.0;
        if size < 2.0 {
            continue;
        }
        sums.n_paired += 1.0;
        let labels = size as u64;
        sums.n_pairs += labels * (labels - 1) / 2;
        for (i, (a, n)) in tallies.of(task).enumerate() {
            for (b, other) in tallies.of(task).take(i) {
                // The smaller label first: of the two orders one is enough.
                sums.pairs[b * k + a] += 2.0 * share * n * other / (size - 1.0);
            }
        }
    }
    Ok(sums)
}

/// A coefficient from such sums: its value, and one minus it if all labels that meet were as far apart as can be.
pub fn agreement_by_coincidences(
    sums: &Coincidences,
    coefficient: Coefficient,
    scale: Scale<'_>,
) -> Result<(f64, f64)> {
    let k = sums.classes.len();
    scale.validate(k)?;
    if sums.pairs.len() != k * k {
        return Err(Error::invalid(format!("{} pairs of {k} classes", sums.pairs.len())));
    }
    if sums.n_paired == 0.0 {
        return Ok((f64::NAN, f64::NAN));
    }
    let shares = || sums.classes.iter().map(|p| p / sums.n).collect::<Vec<f64>>();
    let Estimate { value, worst } = match coefficient {
        Coefficient::Alpha => alpha_of(observed(sums, scale), &sums.classes, scale),
        Coefficient::OrdinalAlpha => {
            let positions = middle_ranks(&sums.classes);
            let scale = Scale { shape: Shape::Quadratic, positions: &positions };
            alpha_of(observed(sums, scale), &sums.classes, scale)
        }
        Coefficient::Fleiss => fleiss_of(observed(sums, scale) / sums.n_paired, &shares(), scale),
        Coefficient::Gwet => gwet_of(observed(sums, scale) / sums.n_paired, &shares(), scale.extent()),
    };
    Ok((value, worst))
}

/// The disagreement of all labels that meet.
fn observed(sums: &Coincidences, scale: Scale<'_>) -> f64 {
    let k = sums.classes.len();
    let occurring = sums.pairs.iter().enumerate().filter(|(_, n)| **n > 0.0);
    occurring.map(|(at, n)| n * scale.between(at / k, at % k)).sum()
}

/// Mid-ranks of the classes: the mean rank of the labels of each.
pub(super) fn middle_ranks(classes: &[f64]) -> Vec<f64> {
    let mut below = 0.0;
    let middle = |n: &f64| {
        below += n;
        below - n / 2.0
    };
    classes.iter().map(middle).collect()
}
