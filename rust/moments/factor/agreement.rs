//! How often pairs of workers agree: all that one-coin methods want of second moments.

use rayon::prelude::*;

use super::Adjacency;
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{filled, par_tried, ready, zeros};
use crate::categorical::table::Table;

/// Annotations of one worker between two looks at [`Control::check`].
const ROWS_PER_CHECK: usize = 1 << 10;
/// Workers that one job handles at least, and shares its scratch among.
const WORKERS: usize = 16;
/// Marks workers that are not partners of the one at hand.
const NOBODY: u32 = u32::MAX;

/// The weight of equal labels on the same task, for each of `pairs`, a flat list of (first, second).
///
/// Two equal labels count the product of their weights. O(Σ n²) time over tasks with n annotations, one job per worker;
/// 8 bytes per pair whatever the number of classes, and 4 bytes per worker on each thread.
pub fn pair_agreement(table: &Table, pairs: &[u32], control: &Control) -> Result<Vec<f64>> {
    let graph = Adjacency::new(table.n_workers(), pairs)?;
    let order = table.by_worker(control)?;
    let jobs = (0..table.n_workers()).into_par_iter().with_min_len(WORKERS).map_init(
        || filled(NOBODY, table.n_workers()),
        |place, worker| {
            control.check()?;
            let place = ready(place)?;
            let links = || graph.of(worker).iter().filter(|link| link.first);
            links().enumerate().for_each(|(i, link)| place[link.partner as usize] = i as u32);
            let mut agree = zeros(links().count())?;
            if !agree.is_empty() {
                for at in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
                    if at.is_multiple_of(ROWS_PER_CHECK) {
                        control.check()?;
                    }
                    let weight = order.weights.as_ref().map_or(1.0, |w| w[at]);
                    let label = order.labels.get(at);
                    for row in table.rows_of(order.tasks[at] as usize) {
                        let slot = place[table.workers()[row] as usize];
                        if slot != NOBODY && table.labels().get(row) == label {
                            agree[slot as usize] += weight * table.weights().map_or(1.0, |w| w[row]);
                        }
                    }
                }
            }
            links().for_each(|link| place[link.partner as usize] = NOBODY);
            Ok(agree)
        },
    );
    let parts: Vec<Vec<f64>> = par_tried(jobs)?;
    let mut out = zeros(pairs.len() / 2)?;
    for (worker, part) in parts.iter().enumerate() {
        let links = graph.of(worker).iter().filter(|link| link.first);
        links.zip(part).for_each(|(link, x)| out[link.pair as usize] = *x);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::{Repeats, Rows};

    #[test]
    fn equal_labels_are_counted_with_their_weights() {
        let rows = Rows {
            tasks: &[0, 0, 0, 1, 1, 1],
            workers: &[0, 1, 2, 0, 1, 1],
            labels: &[1, 1, 0, 2, 2, 2],
            weights: Some(&[1.0, 2.0, 1.0, 3.0, 1.0, 1.0]),
            n_tasks: 2,
            n_workers: 3,
            n_labels: 3,
        };
        let table = Table::new(&rows, Repeats::Keep, &Control::default()).unwrap();
        let agree = |pairs: &[u32]| pair_agreement(&table, pairs, &Control::default()).unwrap();
        assert_eq!(agree(&[0, 1, 0, 2, 1, 2]), [8.0, 0.0, 0.0]);
        // Whichever way round, whichever are asked for.
        assert_eq!(agree(&[2, 0, 1, 0]), [0.0, 8.0]);
        assert_eq!(agree(&[]), [0.0; 0]);
        assert!(pair_agreement(&table, &[0, 3], &Control::default()).is_err());
    }
}
