//! Answers of a worker compared with all others: answers against class posteriors that leave the worker's own answer
//! out.

use rayon::prelude::*;

use crate::Result;
use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::categorical::table::Table;
use crate::moments::factor::{finite, not_negative, sized};

/// No probability of a label is taken to be below this when it is taken out of a posterior.
const LEAST: f64 = 1e-12;
/// Annotations between two looks at the control.
const ROWS_PER_CHECK: usize = 1 << 14;

/// Sums over each worker's annotations of the class probabilities that the other workers give the task.
#[derive(Debug, Clone)]
pub struct LeftOut {
    /// By the worker's answer, (workers × classes × labels).
    pub cross: Vec<f64>,
    /// Of squared probabilities, (workers × classes).
    pub squares: Vec<f64>,
}

/// Counts workers' labels by the classes that the other workers indicate.
///
/// `posterior` (tasks × classes) and `confusion` (workers × true × observed) are those of a fit in which labels are
/// independent given the class: what a label did to its task's posterior is then divided out of it. An annotation of
/// weight w counts w times. Each worker's sums are made by one job in the order of its tasks. Time O(annotations ·
/// classes); memory the result and the table in worker order, which is kept.
pub fn leave_one_out_sums(table: &Table, posterior: &[f64], confusion: &[f64], control: &Control) -> Result<LeftOut> {
    let (k, n_labels, n_workers) = (table.n_classes(), table.n_labels(), table.n_workers());
    sized("posterior", posterior.len(), table.n_tasks() * k)?;
    sized("confusion", confusion.len(), n_workers * k * n_labels)?;
    not_negative("posterior", posterior)?;
    not_negative("confusion", confusion)?;
    let order = table.by_worker(control)?;
    let mut cross = zeros::<f64>(n_workers * k * n_labels)?;
    let mut squares = zeros::<f64>(n_workers * k)?;
    let jobs = cross.par_chunks_mut(k * n_labels).zip(squares.par_chunks_mut(k)).enumerate();
    jobs.try_for_each_init(
        || vec![0.0; k],
        |others, (worker, (cross, squares))| {
            let rows = order.offsets[worker] as usize..order.offsets[worker + 1] as usize;
            let own = &confusion[worker * k * n_labels..][..k * n_labels];
            for row in rows {
                if row % ROWS_PER_CHECK == 0 {
                    control.check()?;
                }
                let (task, label) = (order.tasks[row] as usize, order.labels.get(row));
                let weight = order.weights.as_ref().map_or(1.0, |weights| weights[row]);
                if !leave_out(&posterior[task * k..(task + 1) * k], own, label, n_labels, weight, others) {
                    continue;
                }
                for (class, p) in others.iter().enumerate() {
                    cross[class * n_labels + label] += weight * p;
                    squares[class] += weight * p * p;
                }
            }
            Ok(())
        },
    )?;
    finite("the sums", &cross)?;
    Ok(LeftOut { cross, squares })
}

/// The class probabilities of a task without one label, into `others`; false where nothing is left of them.
fn leave_out(
    posterior: &[f64],
    confusion: &[f64],
    label: usize,
    n_labels: usize,
    weight: f64,
    others: &mut [f64],
) -> bool {
    // In logarithms, since a weight may be large; the largest is taken out before it becomes a probability.
    for (class, (out, p)) in others.iter_mut().zip(posterior).enumerate() {
        *out = p.ln() - weight * confusion[class * n_labels + label].max(LEAST).ln();
    }
    let most = others.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x));
    if !most.is_finite() {
        return false;
    }
    others.iter_mut().for_each(|x| *x = (*x - most).exp());
    let total: f64 = others.iter().sum();
    others.iter_mut().for_each(|x| *x /= total);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;

    #[test]
    fn a_worker_does_not_count_for_itself() {
        // Two workers on two tasks; the second is certain, the first has no information beyond its own posterior.
        let table = of_rows(&[(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)], None, [2, 2, 2]);
        let confusion = [0.9, 0.1, 0.1, 0.9, 0.8, 0.2, 0.2, 0.8];
        let joint = 0.9 * 0.8 / (0.9 * 0.8 + 0.1 * 0.2);
        let posterior = [joint, 1.0 - joint, 1.0 - joint, joint];
        let sums = leave_one_out_sums(&table, &posterior, &confusion, &Control::default()).unwrap();
        // Of the first worker's labels, the posterior of the second alone; and vice versa.
        let expected = [0.8, 0.2, 0.2, 0.8, 0.9, 0.1, 0.1, 0.9];
        assert!(sums.cross.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", sums.cross);
        assert!((sums.squares[0] - (0.64 + 0.04)).abs() < 1e-12);
        assert!(leave_one_out_sums(&table, &posterior, &confusion[1..], &Control::default()).is_err());
    }
}
