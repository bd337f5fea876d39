//! Opinions of several models made one: an average of their posteriors, as sure of itself as correlated votes allow.

use rayon::prelude::*;

use crate::control::Control;
use crate::memory::zeros;
use crate::{Error, Result};

/// Tasks that one job handles.
const TASKS: usize = 1 << 11;

/// The average of posteriors (tasks × classes each), and how far they are from it.
///
/// The logarithms of a task's average are divided by the design effect of its votes, 1 + correlation · (total − 1), where
/// `totals` counts them; distances are weighted means of total variation, and are taken before that. Time and memory
/// O(members · tasks · classes) and O(tasks · classes).
pub fn pooled(
    posteriors: &[&[f64]],
    weights: &[f64],
    totals: &[f64],
    correlation: f64,
    control: &Control,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (n, len) = (totals.len(), posteriors.first().map_or(0, |rows| rows.len()));
    if posteriors.len() != weights.len() || posteriors.iter().any(|rows| rows.len() != len) {
        return Err(Error::invalid("each member must have a weight and a posterior of the same shape"));
    }
    if n == 0 || len == 0 || !len.is_multiple_of(n) {
        return Err(Error::invalid(format!("{len} numbers do not make {n} rows")));
    }
    let k = len / n;
    let (mut mixed, mut distance) = (zeros::<f64>(len)?, zeros::<f64>(n)?);
    let blocks = mixed.par_chunks_mut(TASKS * k).zip(distance.par_chunks_mut(TASKS)).enumerate();
    blocks.try_for_each(|(block, (mixed, distance))| {
        control.check()?;
        for (i, (mixed, distance)) in mixed.chunks_exact_mut(k).zip(distance).enumerate() {
            let task = block * TASKS + i;
            let members = || posteriors.iter().map(|rows| &rows[task * k..(task + 1) * k]).zip(weights);
            for (row, weight) in members() {
                mixed.iter_mut().zip(row).for_each(|(to, q)| *to += weight * q);
            }
            for (row, weight) in members() {
                *distance += 0.5 * weight * row.iter().zip(&*mixed).map(|(q, p)| (q - p).abs()).sum::<f64>();
            }
            temper(mixed, 1.0 / (1.0 + correlation * (totals[task] - 1.0).max(0.0)));
        }
        Ok(())
    })?;
    Ok((mixed, distance))
}

/// Raises probabilities to a power, and makes them sum to one again.
fn temper(row: &mut [f64], power: f64) {
    // Divided by the largest first, which a power leaves at one.
    let largest = row.iter().copied().fold(0.0, f64::max);
    row.iter_mut().for_each(|p| *p = (*p / largest).powf(power));
    let scale = 1.0 / row.iter().sum::<f64>();
    row.iter_mut().for_each(|p| *p *= scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_and_tempers() {
        let (a, b) = ([1.0, 0.0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]);
        let (mixed, distance) = pooled(&[&a, &b], &[0.5, 0.5], &[3.0, 1.0], 1.0, &Control::default()).unwrap();
        // 3/4 to 1/4 under a design effect of three.
        let odds = 3.0_f64.cbrt();
        let expected = [odds / (1.0 + odds), 1.0 / (1.0 + odds), 0.5, 0.5];
        assert!(mixed.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15));
        assert_eq!(distance, [0.25, 0.0]);
    }

    #[test]
    fn refuses_what_does_not_fit_together() {
        let control = Control::default();
        assert!(pooled(&[&[1.0, 0.0]], &[0.5, 0.5], &[1.0], 0.0, &control).is_err());
        assert!(pooled(&[&[1.0, 0.0], &[1.0]], &[0.5, 0.5], &[1.0], 0.0, &control).is_err());
        assert!(pooled(&[&[1.0, 0.0, 0.0]], &[1.0], &[1.0, 1.0], 0.0, &control).is_err());
        assert!(pooled(&[], &[], &[], 0.0, &control).is_err());
    }
}
