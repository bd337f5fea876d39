//! Expected counts of given posteriors: the sufficient statistics, before any prior.

use rayon::prelude::*;

use super::finite;
use crate::control::Control;
use crate::memory::zeros;
use crate::table::Table;
use crate::{Error, Result};

/// How often each worker is expected to have given each label to each class, (workers × true × observed).
///
/// `posterior` is (tasks × classes). Time O(annotations · classes + workers · classes²); memory, beside the result, the
/// table in worker order.
pub fn counts(table: &Table, posterior: &[f64], control: &Control) -> Result<Vec<f64>> {
    let k = table.n_classes();
    if posterior.len() != table.n_tasks() * k {
        return Err(Error::invalid(format!(
            "the posterior holds {} numbers, not {}",
            posterior.len(),
            table.n_tasks() * k
        )));
    }
    finite("the posterior", posterior)?;
    let order = table.by_worker(control)?;
    let mut counts = zeros(table.n_workers() * k * k)?;
    counts.par_chunks_mut(k * k).enumerate().try_for_each(|(worker, matrix)| {
        control.check()?;
        for at in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
            let (task, label) = (order.tasks[at] as usize, order.labels.get(at));
            let weight = order.weights.as_ref().map_or(1.0, |weights| weights[at]);
            let row = &posterior[task * k..(task + 1) * k];
            matrix[label..].iter_mut().step_by(k).zip(row).for_each(|(to, q)| *to += weight * q);
        }
        Ok(())
    })?;
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::of_rows;

    #[test]
    fn counts_are_sums_over_a_workers_labels() {
        let rows = [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 0, 0)];
        let weights = [2.0, 1.0, 0.5, 4.0];
        let posterior = [0.25, 0.75, 0.9, 0.1];
        let found = counts(&of_rows(&rows, Some(&weights), [2, 2, 2]), &posterior, &Control::default()).unwrap();
        let wanted = [4.0 * 0.9, 2.0 * 0.25 + 0.5 * 0.9, 4.0 * 0.1, 2.0 * 0.75 + 0.5 * 0.1, 0.25, 0.0, 0.75, 0.0];
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn posteriors_that_are_none_are_refused() {
        let table = of_rows(&[(0, 0, 1)], None, [1, 1, 2]);
        let fails = |posterior: &[f64]| counts(&table, posterior, &Control::default()).unwrap_err().to_string();
        assert!(fails(&[1.0]).contains("holds 1 numbers, not 2"));
        assert!(fails(&[0.5, f64::NAN]).contains("the posterior"));
    }
}
