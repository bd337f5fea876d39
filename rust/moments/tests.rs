//! Against brute force over all annotations of a task.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::shared_tasks::Way;
use super::*;
use crate::base::memory::push;
use crate::categorical::table::{Repeats, Rows};

/// Enough workers that one with few partners lists them, and one with more partners scans all.
const WORKERS: usize = 60;
const CLASSES: usize = 3;

/// Task, worker, label and weight; sums and products of the weights are exact.
type Row = (u32, u32, u16, f64);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let weight = prop::sample::select(vec![0.0, 0.5, 1.0, 2.0]);
    let worker = (0..12_u32).prop_map(|worker| worker * 5);
    prop::collection::vec((0..8_u32, worker, 0..CLASSES as u16, weight), 1..80)
}

fn table(rows: &[Row], weighted: bool) -> Table {
    let weights: Vec<f64> = rows.iter().map(|row| row.3).collect();
    let rows = Rows {
        tasks: &rows.iter().map(|row| row.0).collect::<Vec<_>>(),
        workers: &rows.iter().map(|row| row.1).collect::<Vec<_>>(),
        labels: &rows.iter().map(|row| row.2).collect::<Vec<_>>(),
        weights: weighted.then_some(&weights),
        n_tasks: 8,
        n_workers: WORKERS,
        n_labels: CLASSES,
    };
    Table::new(&rows, Repeats::Keep, &Control::default()).unwrap()
}

/// The block of every pair and triple of workers that shares a task.
fn brute(rows: &[Row], size: usize, weighted: bool) -> BTreeMap<Vec<u32>, Vec<f64>> {
    let mut sums: BTreeMap<Vec<u32>, Vec<f64>> = BTreeMap::new();
    let mut indices = vec![0; size];
    loop {
        let group: Vec<&Row> = indices.iter().map(|&i| &rows[i]).collect();
        if group.windows(2).all(|w| w[0].0 == w[1].0 && w[0].1 < w[1].1) {
            let cell = group.iter().fold(0, |cell, row| cell * CLASSES + usize::from(row.2));
            let product: f64 = group.iter().map(|row| if weighted { row.3 } else { 1.0 }).product();
            let workers = group.iter().map(|row| row.1).collect();
            sums.entry(workers).or_insert_with(|| vec![0.0; CLASSES.pow(size as u32)])[cell] += product;
        }
        // Count up in base rows.len().
        let Some(digit) = indices.iter().rposition(|&i| i + 1 < rows.len()) else { break };
        indices[digit] += 1;
        indices[digit + 1..].fill(0);
    }
    sums.retain(|_, block| block.iter().sum::<f64>() > 0.0);
    sums
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn pairs_without_caps_are_all_there(rows in rows(), weighted: bool) {
        let result = moments_pairs(&table(&rows, weighted), 0.0, WORKERS, true, &Control::default()).unwrap();
        let expected = brute(&rows, 2, weighted);
        prop_assert_eq!(result.pairs, expected.keys().flatten().copied().collect::<Vec<_>>());
        prop_assert_eq!(result.overlap, expected.values().map(|block| block.iter().sum()).collect::<Vec<f64>>());
        prop_assert_eq!(result.joint, expected.into_values().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn both_ways_of_finding_pairs_agree(rows in rows(), weighted: bool, most in 1..5_usize) {
        let (table, control) = (table(&rows, weighted), Control::default());
        let ways = [Way::Write, Way::Follow(table.by_worker(&control).unwrap())];
        let [one, other] = ways.map(|way| pairs::count_pairs(&table, way, 1.0, most, true, &control).unwrap());
        prop_assert_eq!(one.pairs, other.pairs);
        prop_assert_eq!(one.overlap, other.overlap);
        prop_assert_eq!(one.joint, other.joint);
    }

    #[test]
    fn triples_without_caps_are_all_there(rows in rows(), weighted: bool) {
        let table = table(&rows, weighted);
        let pairs = moments_pairs(&table, 0.0, WORKERS, false, &Control::default()).unwrap().pairs;
        let result = moments_triples(&table, &pairs, 0.0, 1000, true, &Control::default()).unwrap();
        let expected = brute(&rows, 3, weighted);
        prop_assert_eq!(result.triples, expected.keys().flatten().copied().collect::<Vec<_>>());
        prop_assert_eq!(result.overlap, expected.values().map(|block| block.iter().sum()).collect::<Vec<f64>>());
        prop_assert_eq!(result.joint, expected.into_values().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn both_ways_of_counting_triples_agree(rows in rows(), weighted: bool) {
        let table = table(&rows, weighted);
        let list: Vec<u32> = (1..WORKERS as u32).collect();
        let control = Control::default();
        let order = table.by_worker(&control).unwrap();
        with_view!(&table, |view| {
            let mut slots = vec![u32::MAX; WORKERS];
            let mut sweep = triples::Sweep { view, order, worker: 0, list: &list, slots: &mut slots, control: &control };
            sweep.open();
            let (mut listed, mut tabled) = (vec![], vec![]);
            triples::count_listed(&sweep, &mut |a, b, x| push(&mut listed, (a, b, x)))?;
            triples::count_tabled(&sweep, &mut |a, b, x| push(&mut tabled, (a, b, x)))?;
            listed.retain(|visit| visit.2 > 0.0);
            tabled.retain(|visit| visit.2 > 0.0);
            assert_eq!(listed, tabled);
            assert!(sweep.n_visits()? >= listed.len());
            Ok::<(), Error>(())
        }).unwrap();
    }
}

#[test]
fn a_full_table_of_pairs_can_be_capped() {
    // Everyone labels one task: all overlaps tie, so that everyone keeps its lowest partner.
    let rows: Vec<Row> = (0..WORKERS as u32).map(|worker| (0, worker, 0, 1.0)).collect();
    let result = moments_pairs(&table(&rows, false), 0.0, 1, true, &Control::default()).unwrap();
    let expected: Vec<u32> = (1..WORKERS as u32).flat_map(|worker| [0, worker]).collect();
    assert_eq!(result.pairs, expected);
}

#[test]
fn components_are_numbered_by_their_lowest_worker() {
    assert_eq!(components(6, &[4, 1, 5, 3, 3, 0]).unwrap(), [0, 1, 2, 0, 1, 0]);
    assert_eq!(components(0, &[]).unwrap(), [0_u32; 0]);
    for bad in [&[0, 6][..], &[1, 1], &[1]] {
        assert!(components(6, bad).is_err());
    }
}

#[test]
fn bad_arguments_are_refused() {
    let table = table(&[(0, 0, 0, 1.0)], false);
    let control = Control::default();
    assert!(moments_pairs(&table, f64::NAN, 1, true, &control).is_err());
    assert!(moments_triples(&table, &[0, WORKERS as u32], 0.0, 1, true, &control).is_err());
    assert!(moments_groups(&table, &[0; WORKERS - 1], &control).is_err());
    assert!(moments_cross(&table, &[3; WORKERS], &control).is_err());
}

#[test]
fn results_beyond_memory_are_refused_by_name() {
    // Two workers and two thousand classes: one triple would take 64 GB, and the moments of groups too.
    let rows = Rows {
        tasks: &[0, 0, 0],
        workers: &[0, 1, 2],
        labels: &[0, 1, 1999],
        weights: None,
        n_tasks: 1,
        n_workers: 3,
        n_labels: 2000,
    };
    let control = Control::default();
    let table = Table::new(&rows, Repeats::Keep, &control).unwrap();
    let assert_message = |error: Error, word: &str| assert!(error.to_string().contains(word), "{error}");
    assert_message(moments_triples(&table, &[0, 1, 0, 2, 1, 2], 0.0, 9, true, &control).unwrap_err(), "max_triples");
    assert_message(moments_groups(&table, &[0, 1, 2], &control).unwrap_err(), "classes");
    assert_eq!(moments_triples(&table, &[0, 1, 0, 2, 1, 2], 0.0, 9, false, &control).unwrap().triples, [0, 1, 2]);
    assert_eq!(moments_pairs(&table, 0.0, 9, true, &control).unwrap().joint.len(), 3 * 2000 * 2000);
}
