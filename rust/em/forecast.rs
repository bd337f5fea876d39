//! Posteriors of tasks that each have a prior of their own, such as a network's prediction.

use rayon::prelude::*;

use super::finite;
use crate::control::Control;
use crate::memory::zeros;
use crate::num::{FLOOR, softmax};
use crate::table::Table;
use crate::{Error, Result};

/// Tasks between two looks at the control.
const TASKS: usize = 1 << 10;

/// Class posteriors (tasks × classes) given priors of the same shape and confusion matrices (workers × true × observed).
///
/// In logarithms: a prior and labels that contradict each other leave a posterior all the same. Probabilities count as at
/// least [`FLOOR`]. Time O(annotations · classes + workers · classes²); memory, beside the result, that of the matrices.
pub fn forecast(table: &Table, priors: &[f64], confusion: &[f64], control: &Control) -> Result<Vec<f64>> {
    let (n, m, k) = (table.n_tasks(), table.n_workers(), table.n_classes());
    for (what, got, wanted) in [("the priors", priors, n * k), ("the confusion", confusion, m * k * k)] {
        if got.len() != wanted {
            return Err(Error::invalid(format!("{what} hold {} numbers, not {wanted}", got.len())));
        }
        finite(what, got)?;
    }
    // By worker, label and true class: what a label says of the classes lies side by side.
    let mut logs = zeros(confusion.len())?;
    logs.par_chunks_mut(k * k).zip(confusion.par_chunks(k * k)).for_each(|(to, matrix)| {
        for (class, row) in matrix.chunks_exact(k).enumerate() {
            row.iter().enumerate().for_each(|(label, p)| to[label * k + class] = p.max(FLOOR).ln());
        }
    });
    let (workers, labels, weights) = (table.workers(), table.labels(), table.weights());
    let mut posterior = zeros(n * k)?;
    posterior.par_chunks_mut(TASKS * k).enumerate().try_for_each(|(block, rows)| {
        control.check()?;
        for (i, row) in rows.chunks_exact_mut(k).enumerate() {
            let task = block * TASKS + i;
            let prior = &priors[task * k..(task + 1) * k];
            row.iter_mut().zip(prior).for_each(|(to, p)| *to = p.max(FLOOR).ln());
            for at in table.rows_of(task) {
                let start = (workers[at] as usize * k + labels.get(at)) * k;
                let weight = weights.map_or(1.0, |weights| weights[at]);
                row.iter_mut().zip(&logs[start..start + k]).for_each(|(to, log)| *to += weight * log);
            }
            softmax(row);
        }
        Ok(())
    })?;
    Ok(posterior)
}
