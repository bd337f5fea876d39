//! Counting votes: the pass behind majority vote and its weighted relatives.

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::base::num;
use crate::categorical::table::{Label, Table, with_labels};
use crate::{Error, Result};

const TASKS_PER_BLOCK: usize = 1 << 11;

/// Share of each class in the votes on each task, (tasks × classes), and the sum of each class's shares.
///
/// A vote counts its own weight times its worker's.
///
/// Negative sums (workers may have negative weight) count as zero; a task without positive votes gets equal shares.
/// One pass: O(annotations + tasks · classes).
pub fn shares(table: &Table, worker_weights: Option<&[f64]>, control: &Control) -> Result<(Vec<f64>, Vec<f64>)> {
    count(table, worker_weights, control, |row| {
        row.iter_mut().for_each(|x| *x = x.max(0.0));
        num::normalise(row);
    })
}

/// Exponentials of the sums of the workers' weights for each class, as shares of their sum, (tasks × classes).
///
/// That is the posterior under workers whose weights are log-odds. One pass: O(annotations + tasks · classes).
pub fn softmax(table: &Table, worker_weights: &[f64], control: &Control) -> Result<Vec<f64>> {
    Ok(count(table, Some(worker_weights), control, |row| {
        num::softmax(row);
    })?
    .0)
}

/// Sums of votes for each class of each task, as `finish` leaves them, and the sum of that over the tasks.
fn count(
    table: &Table,
    worker_weights: Option<&[f64]>,
    control: &Control,
    finish: impl Fn(&mut [f64]) + Sync,
) -> Result<(Vec<f64>, Vec<f64>)> {
    if let Some(weights) = worker_weights
        && weights.len() != table.n_workers()
    {
        return Err(Error::invalid(format!("{} weights for {} workers", weights.len(), table.n_workers())));
    }
    match (table.weights(), worker_weights) {
        (None, None) => count_weighted(table, |_| 1.0, control, finish),
        (Some(own), None) => count_weighted(table, |row| own[row], control, finish),
        (None, Some(worker)) => count_weighted(table, |row| worker[table.workers()[row] as usize], control, finish),
        (Some(own), Some(worker)) => {
            count_weighted(table, |row| own[row] * worker[table.workers()[row] as usize], control, finish)
        }
    }
}

fn count_weighted(
    table: &Table,
    weight: impl Fn(usize) -> f64 + Sync,
    control: &Control,
    finish: impl Fn(&mut [f64]) + Sync,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let k = table.n_labels();
    let mut out = zeros(table.n_tasks() * k)?;
    let blocks: Vec<Vec<f64>> = out
        .par_chunks_mut(TASKS_PER_BLOCK * k)
        .enumerate()
        .map(|(block, rows)| {
            control.check()?;
            let first = block * TASKS_PER_BLOCK;
            let mut total = vec![0.0; k];
            with_labels!(table.labels(), |labels| {
                for (i, row) in rows.chunks_exact_mut(k).enumerate() {
                    // Fresh memory must be written before it is read: a page that is read first is mapped twice.
                    row.fill(0.0);
                    let votes = table.rows_of(first + i);
                    for (at, label) in votes.clone().zip(&labels[votes]) {
                        row[label.code()] += weight(at);
                    }
                    finish(row);
                    total.iter_mut().zip(row).for_each(|(t, x)| *t += *x);
                }
            });
            Ok(total)
        })
        .collect::<Result<_>>()?;
    let mut total = vec![0.0; k];
    for block in blocks {
        total.iter_mut().zip(block).for_each(|(t, x)| *t += x);
    }
    Ok((out, total))
}

/// For each worker, the weight of the annotations that name their task's `answer`, and of all that have an answer.
///
/// An answer of -1 means none. One pass over the annotations.
pub fn agreement(table: &Table, answers: &[i32], control: &Control) -> Result<(Vec<f64>, Vec<f64>)> {
    if answers.len() != table.n_tasks() {
        return Err(Error::invalid(format!("{} answers for {} tasks", answers.len(), table.n_tasks())));
    }
    let mut agree = zeros(table.n_workers())?;
    let mut all = zeros(table.n_workers())?;
    for (task, &answer) in answers.iter().enumerate() {
        if task.is_multiple_of(TASKS_PER_BLOCK) {
            control.check()?;
        }
        if answer < 0 {
            continue;
        }
        for row in table.rows_of(task) {
            let (worker, weight) = (table.workers()[row] as usize, table.weights().map_or(1.0, |w| w[row]));
            all[worker] += weight;
            if table.labels().get(row) == answer as usize {
                agree[worker] += weight;
            }
        }
    }
    Ok((agree, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::{Repeats, Rows};

    fn table() -> Table {
        let rows = Rows {
            tasks: &[0, 0, 0, 1],
            workers: &[0, 1, 2, 0],
            labels: &[1, 1, 0, 2],
            weights: None,
            n_tasks: 2,
            n_workers: 3,
            n_labels: 3,
        };
        Table::new(&rows, Repeats::Keep, &Control::default()).unwrap()
    }

    #[test]
    fn shares_sum_to_one() {
        let (got, totals) = shares(&table(), None, &Control::default()).unwrap();
        assert_eq!(got, [1.0 / 3.0, 2.0 / 3.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(totals, [1.0 / 3.0, 2.0 / 3.0, 1.0]);
        let (got, _) = shares(&table(), Some(&[-1.0, 1.0, 2.0]), &Control::default()).unwrap();
        assert_eq!(got, [1.0, 0.0, 0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
        assert!(shares(&table(), Some(&[1.0]), &Control::default()).is_err());
    }

    #[test]
    fn log_odds_make_a_posterior() {
        let got = softmax(&table(), &[-1.0, 1.0, 2.0], &Control::default()).unwrap();
        let (e, e2, rest) = (1_f64.exp(), 2_f64.exp(), (-1_f64).exp() + 2.0);
        let expected = [e2 / (e2 + 2.0), 1.0 / (e2 + 2.0), 1.0 / (e2 + 2.0), 1.0 / rest, 1.0 / rest, 1.0 / e / rest];
        assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?}");
    }

    #[test]
    fn agreement_skips_tasks_without_answer() {
        let (agree, all) = agreement(&table(), &[1, -1], &Control::default()).unwrap();
        assert_eq!((agree, all), (vec![1.0, 1.0, 0.0], vec![1.0, 1.0, 1.0]));
    }
}
