//! Opinions of several models made one: an average of their posteriors, as sure of itself as correlated votes allow.

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Tasks that one job handles.
const TASKS: usize = 1 << 11;

/// What keeps an average from being as confident as its components.
#[derive(Debug, Clone, Copy)]
pub struct Doubt {
    /// Of the errors on one task.
    pub correlation: f64,
    /// How much of every answer is shared out evenly.
    pub even: f64,
}

/// The average of posteriors (tasks × classes each), and how far they are from it.
///
/// The logarithms of a task's average are divided by the design effect of its votes, 1 + correlation · (total − 1),
/// where `totals` counts them, and the result is mixed with equal shares. Neither changes which class comes first.
/// Distances are weighted means of total variation, and are taken before that. Time and memory O(members · tasks ·
/// classes) and O(tasks · classes).
pub fn pooled(
    posteriors: &[&[f64]],
    weights: &[f64],
    totals: &[f64],
    doubt: Doubt,
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
            temper(mixed, 1.0 / (1.0 + doubt.correlation * (totals[task] - 1.0).max(0.0)));
            mixed.iter_mut().for_each(|p| *p = (1.0 - doubt.even) * *p + doubt.even / k as f64);
        }
        Ok(())
    })?;
    Ok((mixed, distance))
}

/// The least information that an answer is taken to carry: where no worker's carries any, all votes count alike.
const LEAST: f64 = 1e-9;

/// How many votes of equal information would weigh as evenly: (Σ w·I)² / Σ w·I² over the votes on a task, with w the
/// weight of a vote and I the information of its worker's answers. The number of votes where all inform alike, fewer
/// elsewhere.
pub fn effective_votes(table: &Table, information: &[f64], control: &Control) -> Result<Vec<f64>> {
    if information.len() != table.n_workers() {
        return Err(Error::invalid(format!("{} workers need as many numbers", table.n_workers())));
    }
    let mut votes = vec![0.0; table.n_tasks()];
    votes.par_chunks_mut(TASKS).enumerate().try_for_each(|(block, votes)| {
        control.check()?;
        for (i, to) in votes.iter_mut().enumerate() {
            let (mut sum, mut squares) = (0.0, 0.0);
            for row in table.rows_of(block * TASKS + i) {
                let informs = information[table.workers()[row] as usize].max(LEAST);
                let row_information = table.weights().map_or(1.0, |weights| weights[row]) * informs;
                sum += row_information;
                squares += row_information * informs;
            }
            // In this order, since the square of a large weight overflows.
            *to = if squares > 0.0 { sum * (sum / squares) } else { 0.0 };
        }
        Ok(())
    })?;
    Ok(votes)
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
    use crate::categorical::table::{Repeats, Rows};

    #[test]
    fn averages_and_tempers() {
        let (a, b) = ([1.0, 0.0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]);
        let doubt = Doubt { correlation: 1.0, even: 0.0 };
        let (mixed, distance) = pooled(&[&a, &b], &[0.5, 0.5], &[3.0, 1.0], doubt, &Control::default()).unwrap();
        // 3/4 to 1/4 under a design effect of three.
        let odds = 3.0_f64.cbrt();
        let expected = [odds / (1.0 + odds), 1.0 / (1.0 + odds), 0.5, 0.5];
        assert!(mixed.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15));
        assert_eq!(distance, [0.25, 0.0]);
    }

    #[test]
    fn keeps_something_for_every_class() {
        let doubt = Doubt { correlation: 0.0, even: 0.1 };
        let (mixed, _) = pooled(&[&[1.0, 0.0]], &[1.0], &[9.0], doubt, &Control::default()).unwrap();
        assert!(mixed.iter().zip([0.95, 0.05]).all(|(a, b)| (a - b).abs() < 1e-15));
    }

    #[test]
    fn votes_that_tell_nothing_do_not_count() {
        let rows = Rows {
            tasks: &[0, 0, 0, 1, 1, 2],
            workers: &[0, 1, 2, 0, 2, 2],
            labels: &[0; 6],
            weights: None,
            n_tasks: 3,
            n_workers: 3,
            n_labels: 1,
        };
        let table = Table::new(&rows, Repeats::Keep, &Control::default()).unwrap();
        let votes = effective_votes(&table, &[0.5, 0.5, 0.0], &Control::default()).unwrap();
        assert!(votes.iter().zip([2.0, 1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-7), "{votes:?}");
        assert!(effective_votes(&table, &[0.5], &Control::default()).is_err());
    }

    #[test]
    fn refuses_what_does_not_fit_together() {
        let (control, doubt) = (Control::default(), Doubt { correlation: 0.0, even: 0.0 });
        assert!(pooled(&[&[1.0, 0.0]], &[0.5, 0.5], &[1.0], doubt, &control).is_err());
        assert!(pooled(&[&[1.0, 0.0], &[1.0]], &[0.5, 0.5], &[1.0], doubt, &control).is_err());
        assert!(pooled(&[&[1.0, 0.0, 0.0]], &[1.0], &[1.0, 1.0], doubt, &control).is_err());
        assert!(pooled(&[], &[], &[], doubt, &control).is_err());
    }
}
