//! The table of numbers: (task, worker, value) rows in compressed task order, immutable once built.

use std::ops::Deref;

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::links::{Links, Log, Repeats, marked};
use crate::base::memory::copied;
use crate::{Error, Result};

/// The table: links between tasks and workers, and a point of this many dimensions for each. The same rows in any order
/// give the same table.
///
/// Memory: 4 bytes per row and 8 for each of its numbers (8 more with weights), and 4 bytes per task.
#[derive(Debug)]
pub struct Ratings {
    links: Links,
    values: Vec<f64>,
    dims: usize,
}

impl Deref for Ratings {
    type Target = Links;

    fn deref(&self) -> &Links {
        &self.links
    }
}

impl Ratings {
    /// Builds a table from the columns of a log and the values of its rows (rows × dims), all of them finite.
    ///
    /// By a parallel counting sort: O(rows × dims) time, no memory beyond the table and 4 bytes per task.
    pub fn new(log: &Log<'_>, values: &[f64], dims: usize, repeats: Repeats, control: &Control) -> Result<Self> {
        if dims == 0 || !values.len().is_multiple_of(dims) {
            return Err(Error::invalid(format!("{} values cannot be rows of {dims} numbers", values.len())));
        }
        log.validate("value", values.len() / dims, control)?;
        if let Some(at) = values.par_iter().position_first(|value| !value.is_finite()) {
            return Err(Error::invalid(format!(
                "value {} at row {} is not a finite number; fix or drop that row",
                values[at],
                at / dims
            )));
        }
        let (links, values) = Links::sorted(log, values, dims, repeats, control)?;
        Ok(Self { links, values, dims })
    }

    /// The rows that are marked, of the same tasks and workers, of which at least one must be.
    pub fn keep(&self, mask: &[bool]) -> Result<Self> {
        Ok(Self { links: self.links.keep(mask)?, values: marked(&self.values, mask, self.dims)?, dims: self.dims })
    }

    /// The same rows without the tasks and workers that have none; the others keep their order.
    pub fn compacted(&self) -> Result<Self> {
        Ok(Self { links: self.links.compacted()?, values: copied(&self.values)?, dims: self.dims })
    }

    /// Numbers a row.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Values of the rows, (rows × dims).
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = (u32, u32, [i8; 2], u8);

    fn build(rows: &[Row], dims: usize, repeats: Repeats) -> Result<Ratings> {
        let tasks: Vec<u32> = rows.iter().map(|row| row.0).collect();
        let workers: Vec<u32> = rows.iter().map(|row| row.1).collect();
        let values: Vec<f64> = rows.iter().flat_map(|row| row.2[..dims].iter().map(|&x| f64::from(x) / 8.0)).collect();
        let weights: Vec<f64> = rows.iter().map(|row| f64::from(row.3)).collect();
        let log = Log { tasks: &tasks, workers: &workers, weights: Some(&weights), n_tasks: 9, n_workers: 5 };
        Ratings::new(&log, &values, dims, repeats, &Control::default())
    }

    fn rows_of(table: &Ratings) -> Vec<Row> {
        let (d, weights) = (table.dims(), table.weights().unwrap());
        let tasks = table.tasks().unwrap();
        let point = |row: usize| {
            let mut point = [0; 2];
            point.iter_mut().zip(&table.values()[row * d..(row + 1) * d]).for_each(|(to, x)| *to = (x * 8.0) as i8);
            point
        };
        (0..table.len()).map(|row| (tasks[row], table.workers()[row], point(row), weights[row] as u8)).collect()
    }

    fn log() -> impl Strategy<Value = Vec<Row>> {
        prop::collection::vec((0_u32..9, 0_u32..5, [-2_i8..2, -2_i8..2], 0_u8..3), 1..80)
    }

    proptest! {
        #[test]
        fn holds_the_sorted_log(mut log in log(), dims in 1_usize..3) {
            let table = build(&log, dims, Repeats::Keep).unwrap();
            log.iter_mut().for_each(|row| row.2[dims..].fill(0));
            log.sort_unstable();
            prop_assert_eq!(rows_of(&table), log);
        }

        #[test]
        fn repeats_keep_the_first_or_last(log in log(), first in any::<bool>()) {
            let table = build(&log, 2, if first { Repeats::First } else { Repeats::Last }).unwrap();
            let mut expected = std::collections::BTreeMap::new();
            for &(t, w, x, v) in &log {
                if first { expected.entry((t, w)).or_insert((x, v)); } else { expected.insert((t, w), (x, v)); }
            }
            let expected: Vec<Row> = expected.into_iter().map(|((t, w), (x, v))| (t, w, x, v)).collect();
            prop_assert_eq!(rows_of(&table), expected);
        }

        #[test]
        fn marked_rows_are_kept(log in log(), seed in any::<u64>()) {
            let table = build(&log, 2, Repeats::Keep).unwrap();
            let mask: Vec<bool> = (0..log.len()).map(|row| seed >> (row % 64) & 1 == 1).collect();
            let expected = rows_of(&table).into_iter().zip(&mask).filter(|(_, keep)| **keep).map(|(row, _)| row);
            match table.keep(&mask) {
                Ok(kept) => prop_assert_eq!(rows_of(&kept), expected.collect::<Vec<_>>()),
                Err(_) => prop_assert!(!mask.contains(&true)),
            }
        }

        #[test]
        fn worker_order_holds_the_same_rows(log in log()) {
            let table = build(&log, 2, Repeats::Keep).unwrap();
            let order = table.links.by_worker(&table.values, 2, &Control::default()).unwrap();
            let mut rows = vec![];
            for worker in 0..5 {
                for row in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
                    let point = [0, 1].map(|i| (order.payload[2 * row + i] * 8.0) as i8);
                    rows.push((order.tasks[row], worker as u32, point, order.weights.as_ref().unwrap()[row] as u8));
                }
            }
            rows.sort_unstable();
            prop_assert_eq!(rows, rows_of(&table));
        }
    }

    #[test]
    fn what_cannot_be_a_rating_is_named() {
        let log = Log { tasks: &[0, 1], workers: &[0, 0], weights: None, n_tasks: 2, n_workers: 1 };
        let complaint = |log: &Log<'_>, values: &[f64], dims| {
            Ratings::new(log, values, dims, Repeats::Keep, &Control::default()).unwrap_err().to_string()
        };
        assert!(complaint(&log, &[1.0, f64::NAN], 1).contains("value NaN at row 1"));
        assert!(complaint(&log, &[1.0, 2.0, f64::INFINITY, 4.0], 2).contains("value inf at row 1"));
        assert!(complaint(&log, &[1.0], 1).contains("1 values"));
        assert!(complaint(&log, &[1.0, 2.0, 3.0], 2).contains("rows of 2 numbers"));
        assert!(complaint(&log, &[], 0).contains("rows of 0 numbers"));
        assert!(complaint(&Log { n_tasks: 1, ..log }, &[1.0, 2.0], 1).contains("task code 1 at row 1"));
        assert!(complaint(&Log { n_workers: 0, ..log }, &[1.0, 2.0], 1).contains("worker code 0 at row 0"));
        let none = Log { tasks: &[], workers: &[], weights: None, n_tasks: 0, n_workers: 0 };
        assert!(complaint(&none, &[], 1).contains("no annotations"));
        let table = Ratings::new(&log, &[1.0, 2.0], 1, Repeats::Keep, &Control::default()).unwrap();
        assert!(table.keep(&[true]).unwrap_err().to_string().contains("1 entries for 2"));
        assert!(table.keep(&[false, false]).unwrap_err().to_string().contains("no annotation"));
    }
}
