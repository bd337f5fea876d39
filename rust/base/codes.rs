//! The table of codes: (task, worker, code) rows in compressed task order, immutable once built.
//!
//! For kinds whose answers are numbered: distinct sets, texts or objects, masks, tag sequences, boxes. The meaning of a
//! code is the caller's.

use std::cmp::Ordering;
use std::ops::Deref;

use crate::Result;
use crate::base::control::Control;
use crate::base::links::{Links, Log, Payload, Repeats, check_codes, marked};
use crate::base::memory::copied;

impl Payload for u32 {
    type Given = Self;
    #[inline(always)]
    fn of(given: Self) -> Self {
        given
    }
    fn compare(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

/// The table: links between tasks and workers, and a code for each. The same rows in any order give the same table.
///
/// Memory: 8 bytes per row (8 more with weights), and 4 bytes per task.
#[derive(Debug)]
pub struct CodeTable {
    links: Links,
    codes: Vec<u32>,
    n_codes: usize,
}

impl Deref for CodeTable {
    type Target = Links;

    fn deref(&self) -> &Links {
        &self.links
    }
}

impl CodeTable {
    /// Builds a table from the columns of a log and the codes of its rows, all below `n_codes`.
    ///
    /// By a parallel counting sort: O(rows) time, no memory beyond the table and 4 bytes per task.
    pub fn new(log: &Log<'_>, codes: &[u32], n_codes: usize, repeats: Repeats, control: &Control) -> Result<Self> {
        log.validate("answer", codes.len(), control)?;
        check_codes("answer", codes, n_codes, control)?;
        let (links, codes) = Links::sorted(log, codes, 1, repeats, control)?;
        Ok(Self { links, codes, n_codes })
    }

    /// The rows that are marked, of the same tasks, workers and codes; at least one must be.
    pub fn keep(&self, mask: &[bool]) -> Result<Self> {
        Ok(Self { links: self.links.keep(mask)?, codes: marked(&self.codes, mask, 1)?, n_codes: self.n_codes })
    }

    /// The same rows without the tasks and workers that have none; the others keep their order.
    pub fn compacted(&self) -> Result<Self> {
        Ok(Self { links: self.links.compacted()?, codes: copied(&self.codes)?, n_codes: self.n_codes })
    }

    /// Code of each row.
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// Number of codes.
    pub fn n_codes(&self) -> usize {
        self.n_codes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Row = (u32, u32, u32, u8);

    fn build(rows: &[Row], repeats: Repeats) -> Result<CodeTable> {
        let column = |of: fn(&Row) -> u32| rows.iter().map(of).collect::<Vec<_>>();
        let (tasks, workers, codes) = (column(|row| row.0), column(|row| row.1), column(|row| row.2));
        let weights: Vec<f64> = rows.iter().map(|row| f64::from(row.3)).collect();
        let log = Log { tasks: &tasks, workers: &workers, weights: Some(&weights), n_tasks: 9, n_workers: 5 };
        CodeTable::new(&log, &codes, 7, repeats, &Control::default())
    }

    fn rows_of(table: &CodeTable) -> Vec<Row> {
        let (tasks, weights) = (table.tasks().unwrap(), table.weights().unwrap());
        (0..table.len()).map(|row| (tasks[row], table.workers()[row], table.codes()[row], weights[row] as u8)).collect()
    }

    fn log() -> impl Strategy<Value = Vec<Row>> {
        prop::collection::vec((0_u32..9, 0_u32..5, 0_u32..7, 0_u8..3), 1..80)
    }

    proptest! {
        #[test]
        fn holds_the_sorted_log(mut log in log()) {
            let table = build(&log, Repeats::Keep).unwrap();
            log.sort_unstable();
            prop_assert_eq!(rows_of(&table), log);
            prop_assert_eq!(table.n_codes(), 7);
        }

        #[test]
        fn marked_rows_are_kept(log in log(), seed in any::<u64>()) {
            let table = build(&log, Repeats::Keep).unwrap();
            let mask: Vec<bool> = (0..log.len()).map(|row| seed >> (row % 64) & 1 == 1).collect();
            let expected = rows_of(&table).into_iter().zip(&mask).filter(|(_, keep)| **keep).map(|(row, _)| row);
            match table.keep(&mask) {
                Ok(kept) => prop_assert_eq!(rows_of(&kept), expected.collect::<Vec<_>>()),
                Err(_) => prop_assert!(!mask.contains(&true)),
            }
        }
    }

    #[test]
    fn invalid_rows_are_named() {
        let log = Log { tasks: &[0, 1], workers: &[0, 0], weights: None, n_tasks: 2, n_workers: 1 };
        let complaint = |log: &Log<'_>, codes: &[u32]| {
            CodeTable::new(log, codes, 3, Repeats::Keep, &Control::default()).unwrap_err().to_string()
        };
        assert!(complaint(&log, &[1, 3]).contains("answer code 3 at row 1"));
        assert!(complaint(&log, &[1]).contains("1 answers"));
        assert!(complaint(&Log { n_tasks: 1, ..log }, &[1, 2]).contains("task code 1 at row 1"));
    }
}
