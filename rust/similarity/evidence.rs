//! What the answers say of each pair, and what the pairs say of each worker.

use rayon::prelude::*;

use super::finite;
use crate::Error;
use crate::Result;
use crate::blocks::chunks_with_tables;
use crate::control::Control;
use crate::memory::{par_tried, zeros};
use crate::table::Table;

/// Pairs of one job.
const PAIRS_PER_JOB: usize = 1 << 13;

fn check_labels(table: &Table) -> Result<()> {
    if table.n_labels() == 2 {
        return Ok(());
    }
    Err(Error::invalid(format!("answers about pairs are two, different and same, not {}", table.n_labels())))
}

/// The sum over each pair's answers of `log_odds` (workers × 2), by who answered and what: log-odds that the pair is the same.
///
/// Time O(answers), shared out by pairs; memory the result.
pub fn pair_evidence(table: &Table, log_odds: &[f64], control: &Control) -> Result<Vec<f64>> {
    check_labels(table)?;
    finite("log_odds", log_odds, 2 * table.n_workers())?;
    let mut evidence = zeros::<f64>(table.n_tasks())?;
    let (workers, labels, weights) = (table.workers(), table.labels(), table.weights());
    evidence.par_chunks_mut(PAIRS_PER_JOB).enumerate().try_for_each(|(job, sums)| {
        control.check()?;
        for (i, sum) in sums.iter_mut().enumerate() {
            for row in table.rows_of(job * PAIRS_PER_JOB + i) {
                let said = log_odds[2 * workers[row] as usize + labels.get(row)];
                *sum += weights.map_or(said, |weights| weights[row] * said);
            }
        }
        Ok(())
    })?;
    Ok(evidence)
}

/// How often each worker said each of the two, by what is true: (workers × 2 true × 2 said), where `same` is the probability
/// of each pair.
///
/// Time O(answers), shared out by pairs; memory the result for each of at most 32 chunks.
pub fn pair_counts(table: &Table, same: &[f64], control: &Control) -> Result<Vec<f64>> {
    check_labels(table)?;
    finite("same", same, table.n_tasks())?;
    let n = 4 * table.n_workers();
    let chunks = table.chunks(chunks_with_tables(table.len(), n));
    let (workers, labels, weights) = (table.workers(), table.labels(), table.weights());
    let parts = par_tried(chunks.into_par_iter().map(|pairs| {
        let mut counts = zeros::<f64>(n)?;
        for pair in pairs {
            if pair.is_multiple_of(PAIRS_PER_JOB) {
                control.check()?;
            }
            let p = same[pair];
            for row in table.rows_of(pair) {
                let weight = weights.map_or(1.0, |weights| weights[row]);
                let own = &mut counts[4 * workers[row] as usize..][..4];
                let said = labels.get(row);
                own[said] += weight * (1.0 - p);
                own[2 + said] += weight * p;
            }
        }
        Ok(counts)
    }))?;
    let mut counts = zeros::<f64>(n)?;
    parts.iter().for_each(|part| counts.iter_mut().zip(part).for_each(|(sum, count)| *sum += count));
    Ok(counts)
}
