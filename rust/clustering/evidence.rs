//! What the answers say of each pair, and what the pairs say of each worker.

use rayon::prelude::*;

use super::finite;
use crate::Error;
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{par_tried, zeros};
use crate::base::parallel::chunks_with_tables;
use crate::categorical::table::{Labels, Table};

/// Pairs of one job.
const PAIRS_PER_JOB: usize = 1 << 13;

/// What was answered in each row: 0 for different, 1 for same.
fn said_in(table: &Table) -> Result<&[u8]> {
    match table.labels() {
        Labels::Narrow(said) if table.n_labels() == 2 => Ok(said),
        _ => Err(Error::invalid(format!("answers about pairs are two, different and same, not {}", table.n_labels()))),
    }
}

/// Calls `job` with the worker, the answer and the weight of each of a pair's rows.
#[inline(always)]
fn each_row(table: &Table, said: &[u8], pair: usize, mut job: impl FnMut(usize, usize, f64)) {
    let rows = table.rows_of(pair);
    let answers = table.workers()[rows.clone()].iter().zip(&said[rows.clone()]);
    let answers = answers.map(|(worker, said)| (*worker as usize, usize::from(said & 1)));
    match table.weights() {
        None => answers.for_each(|(worker, said)| job(worker, said, 1.0)),
        Some(weights) => {
            answers.zip(&weights[rows]).for_each(|((worker, said), weight)| job(worker, said, *weight));
        }
    }
}

/// The sum over each pair's answers of `log_odds` (workers × 2), by who answered and what: log-odds that the pair is
/// the same.
///
/// Time O(answers), shared out by pairs; memory the result.
pub fn pair_evidence(table: &Table, log_odds: &[f64], control: &Control) -> Result<Vec<f64>> {
    let answers = said_in(table)?;
    finite("log_odds", log_odds, 2 * table.n_workers())?;
    let (log_odds, _) = log_odds.as_chunks::<2>();
    let mut evidence = zeros::<f64>(table.n_tasks())?;
    evidence.par_chunks_mut(PAIRS_PER_JOB).enumerate().try_for_each(|(job, sums)| {
        control.check()?;
        for (i, sum) in sums.iter_mut().enumerate() {
            each_row(table, answers, job * PAIRS_PER_JOB + i, |worker, said, weight| {
                *sum += weight * log_odds[worker][said];
            });
        }
        Ok(())
    })?;
    Ok(evidence)
}

/// How often each worker answered each of the two, by what is true: (workers × 2 true × 2 answered), where `same` is
/// the probability of each pair.
///
/// Time O(answers), shared out by pairs; memory the result for each of at most 32 chunks.
pub fn pair_counts(table: &Table, same: &[f64], control: &Control) -> Result<Vec<f64>> {
    let answers = said_in(table)?;
    finite("same", same, table.n_tasks())?;
    let n = 4 * table.n_workers();
    let chunks = table.chunks(chunks_with_tables(table.len(), n));
    let parts = par_tried(chunks.into_par_iter().map(|pairs| {
        let mut counts = zeros::<f64>(n)?;
        let (cells, _) = counts.as_chunks_mut::<4>();
        for pair in pairs {
            if pair.is_multiple_of(PAIRS_PER_JOB) {
                control.check()?;
            }
            let p = same[pair];
            each_row(table, answers, pair, |worker, said, weight| {
                let own = &mut cells[worker];
                own[said] += weight * (1.0 - p);
                own[2 + said] += weight * p;
            });
        }
        Ok(counts)
    }))?;
    let mut counts = zeros::<f64>(n)?;
    parts.iter().for_each(|part| counts.iter_mut().zip(part).for_each(|(sum, count)| *sum += count));
    Ok(counts)
}
