use super::*;
use proptest::prelude::*;

/// A small log of six tasks, six workers and four classes, and weights for it.
pub(crate) const LOG: [(u32, u32, u16); 14] = [
    (0, 0, 0),
    (0, 1, 0),
    (0, 2, 1),
    (1, 0, 2),
    (1, 3, 2),
    (2, 1, 3),
    (2, 4, 1),
    (2, 5, 3),
    (3, 0, 1),
    (3, 2, 1),
    (3, 5, 0),
    (4, 3, 2),
    (4, 4, 1),
    (5, 1, 0),
];
pub(crate) const LOG_WEIGHTS: [f64; 14] = [1.0, 2.0, 0.5, 1.0, 1.5, 1.0, 3.0, 0.25, 1.0, 1.0, 2.0, 1.0, 0.5, 1.0];

type Triple = (u32, u32, u16);

/// A table of triples, with or without weights, for tests elsewhere; sizes are those of tasks, workers and classes.
pub(crate) fn of_rows(triples: &[Triple], weights: Option<&[f64]>, [n, m, k]: [usize; 3]) -> Table {
    weighted(triples, weights, (n, m, k), Repeats::Keep).unwrap()
}

fn build(triples: &[Triple], sizes: (usize, usize, usize), repeats: Repeats) -> Result<Table> {
    weighted(triples, None, sizes, repeats)
}

fn weighted(
    triples: &[Triple],
    weights: Option<&[f64]>,
    sizes: (usize, usize, usize),
    repeats: Repeats,
) -> Result<Table> {
    let tasks: Vec<u32> = triples.iter().map(|t| t.0).collect();
    let workers: Vec<u32> = triples.iter().map(|t| t.1).collect();
    let labels: Vec<u16> = triples.iter().map(|t| t.2).collect();
    let rows = Rows {
        tasks: &tasks,
        workers: &workers,
        labels: &labels,
        weights,
        n_tasks: sizes.0,
        n_workers: sizes.1,
        n_labels: sizes.2,
    };
    Table::new(&rows, repeats, &Control::default())
}

fn triples_of(table: &Table) -> Vec<Triple> {
    let (tasks, workers, labels) = table.columns().unwrap();
    tasks.into_iter().zip(workers).zip(labels).map(|((t, w), l)| (t, w, l)).collect()
}

fn log() -> impl Strategy<Value = Vec<Triple>> {
    prop::collection::vec((0_u32..12, 0_u32..7, 0_u16..300), 1..200)
}

proptest! {
    #[test]
    fn holds_the_sorted_log(mut log in log()) {
        let table = build(&log, (12, 7, 300), Repeats::Keep).unwrap();
        log.sort_unstable();
        prop_assert_eq!(triples_of(&table), log);
    }

    #[test]
    fn repeats_keep_the_first_or_last(log in log(), first in any::<bool>()) {
        let repeats = if first { Repeats::First } else { Repeats::Last };
        let table = build(&log, (12, 7, 300), repeats).unwrap();
        let mut expected = std::collections::BTreeMap::new();
        for &(t, w, l) in &log {
            if first { expected.entry((t, w)).or_insert(l); } else { expected.insert((t, w), l); }
        }
        let expected: Vec<Triple> = expected.into_iter().map(|((t, w), l)| (t, w, l)).collect();
        prop_assert_eq!(triples_of(&table), expected);
        prop_assert_eq!(table.n_repeats(), 0);
    }

    #[test]
    fn worker_order_holds_the_same_rows(log in log()) {
        let table = build(&log, (12, 7, 300), Repeats::Keep).unwrap();
        let order = table.by_worker(&Control::default()).unwrap();
        let mut rows = vec![];
        for m in 0..7 {
            for r in order.offsets[m] as usize..order.offsets[m + 1] as usize {
                rows.push((order.tasks[r], m as u32, order.labels.get(r) as u16));
            }
        }
        rows.sort_unstable();
        prop_assert_eq!(rows, triples_of(&table));
    }

    #[test]
    fn parts_are_as_if_built_of_the_rows_they_hold(log in log(), seed in any::<u64>()) {
        let weights: Vec<f64> = (0..log.len()).map(|i| (i * 37 % 11) as f64).collect();
        let table = weighted(&log, Some(&weights), (12, 7, 300), Repeats::Keep).unwrap().with_classes(200).unwrap();
        let mask: Vec<bool> = (0..log.len()).map(|row| seed >> (row % 64) & 1 == 1).collect();
        prop_assume!(mask.contains(&true));
        let marked = |i: &usize| mask[*i];
        let (all, all_weights) = (triples_of(&table), table.weights().unwrap());
        let rows: Vec<Triple> = (0..log.len()).filter(marked).map(|i| all[i]).collect();
        let weights: Vec<f64> = (0..log.len()).filter(marked).map(|i| all_weights[i]).collect();
        let selection = table.keep(&mask).unwrap();
        prop_assert_eq!((selection.n_tasks(), selection.n_workers(), selection.n_labels(), selection.n_classes()), (12, 7, 300, 200));
        prop_assert_eq!((triples_of(&selection), selection.weights().unwrap()), (rows.clone(), &weights[..]));
        // Tasks and workers without rows leave; the others move up.
        let place = |codes: Vec<u32>| -> Vec<u32> {
            let distinct: std::collections::BTreeSet<u32> = codes.iter().copied().collect();
            codes.iter().map(|code| distinct.range(..code).count() as u32).collect()
        };
        let tasks = place(rows.iter().map(|row| row.0).collect());
        let workers = place(rows.iter().map(|row| row.1).collect());
        let rest = selection.compacted().unwrap();
        let expected: Vec<Triple> = (0..rows.len()).map(|i| (tasks[i], workers[i], rows[i].2)).collect();
        prop_assert_eq!((triples_of(&rest), rest.weights().unwrap()), (expected, &weights[..]));
        prop_assert!(rest.worker_counts().unwrap().iter().all(|&n| n > 0) && rest.offsets().is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn other_codes_are_as_if_they_had_come_in(log in log(), wide in any::<bool>(), step in 1_u16..20) {
        let n_labels = if wide { 400 } else { 256 };
        let codes: Vec<u16> = (0..300).map(|label| (label * step) % n_labels).collect();
        let weights: Vec<f64> = (0..log.len()).map(|i| (i * 37 % 11) as f64).collect();
        let table = weighted(&log, Some(&weights), (12, 7, 300), Repeats::Keep).unwrap();
        let result = table.recoded(&codes, n_labels.into(), 5, &Control::default()).unwrap();
        let log: Vec<Triple> = log.iter().map(|&(t, w, l)| (t, w, codes[usize::from(l)])).collect();
        let expected = weighted(&log, Some(&weights), (12, 7, n_labels.into()), Repeats::Keep).unwrap();
        prop_assert_eq!(triples_of(&result), triples_of(&expected));
        prop_assert_eq!(result.weights(), expected.weights());
        prop_assert_eq!((result.n_labels(), result.n_classes()), (n_labels.into(), 5));
        prop_assert_eq!(matches!(result.labels(), Labels::Wide(_)), wide);
    }

    #[test]
    fn arbitrary_columns_never_panic(
        tasks in prop::collection::vec(any::<u32>(), 0..20),
        workers in prop::collection::vec(any::<u32>(), 0..20),
        labels in prop::collection::vec(any::<u16>(), 0..20),
        weights in prop::option::of(prop::collection::vec(any::<f64>(), 0..20)),
        (n_tasks, n_workers, n_labels) in (0_usize..30, 0_usize..30, 0_usize..70_000),
    ) {
        let rows = Rows { tasks: &tasks, workers: &workers, labels: &labels, weights: weights.as_deref(),
                          n_tasks, n_workers, n_labels };
        if let Ok(table) = Table::new(&rows, Repeats::Keep, &Control::default()) {
            prop_assert_eq!(table.len(), tasks.len());
        }
    }

    #[test]
    fn weights_stay_with_their_rows(log in log(), sorted in any::<bool>(), way in 0_usize..3) {
        let mut log = log;
        if sorted {
            log.sort_unstable(); // which is copied, not scattered
        }
        let repeats = [Repeats::Keep, Repeats::First, Repeats::Last][way];
        let weights: Vec<f64> = (0..log.len()).map(|i| (i * 37 % 101) as f64).collect();
        let table = weighted(&log, Some(&weights), (12, 7, 300), repeats).unwrap();
        let mut expected: Vec<(Triple, u64)> = vec![];
        for (&triple, &weight) in log.iter().zip(&weights) {
            let before = expected.iter().position(|&((t, w, _), _)| (t, w) == (triple.0, triple.1));
            match (repeats, before) {
                (Repeats::First, Some(_)) => {}
                (Repeats::Last, Some(at)) => expected[at] = (triple, weight as u64),
                _ => expected.push((triple, weight as u64)),
            }
        }
        expected.sort_unstable();
        let weights = table.weights().unwrap().iter().map(|&w| w as u64);
        prop_assert_eq!(triples_of(&table).into_iter().zip(weights).collect::<Vec<_>>(), expected.clone());
        let order = table.by_worker(&Control::default()).unwrap();
        let mut by_worker: Vec<(Triple, u64)> = vec![];
        for m in 0..7 {
            for r in order.offsets[m] as usize..order.offsets[m + 1] as usize {
                let triple = (order.tasks[r], m as u32, order.labels.get(r) as u16);
                by_worker.push((triple, order.weights.as_ref().unwrap()[r] as u64));
            }
        }
        by_worker.sort_unstable();
        prop_assert_eq!(by_worker, expected);
    }

    #[test]
    fn pairs_and_repeats_are_counted_as_by_hand(log in prop::collection::vec((0_u32..5, 0_u32..4, 0_u16..3), 1..40)) {
        let table = build(&log, (6, 4, 3), Repeats::Keep).unwrap();
        let (mut agree, mut all, mut repeats) = (0, 0, 0);
        for (i, a) in log.iter().enumerate() {
            repeats += usize::from(log[..i].iter().any(|b| (b.0, b.1) == (a.0, a.1)));
            for b in log[..i].iter().filter(|b| b.0 == a.0) {
                agree += u64::from(a.2 == b.2);
                all += 1;
            }
        }
        prop_assert_eq!(table.agreeing_pairs(), (agree, all));
        prop_assert_eq!(table.n_repeats(), repeats);
        prop_assert_eq!(table.first_repeat().is_some(), repeats > 0);
    }

    #[test]
    fn chunks_cover_the_tasks(log in log(), n in 1_usize..20) {
        let table = build(&log, (12, 7, 300), Repeats::Keep).unwrap();
        let covered: Vec<usize> = table.chunks(n).into_iter().flatten().collect();
        prop_assert_eq!(covered, (0..12).collect::<Vec<_>>());
    }
}

#[test]
fn large_logs_go_through_several_groups() {
    let n = 3_000_000_u32;
    let mut log: Vec<Triple> =
        (0..n).map(|i| (i.wrapping_mul(2_654_435_761) % 10_007, i % 101, (i % 3) as u16)).collect();
    let table = build(&log, (10_007, 101, 3), Repeats::Keep).unwrap();
    log.sort_unstable();
    assert_eq!(triples_of(&table), log);
}

#[test]
fn counts_and_graph() {
    let table = build(&[(0, 0, 1), (0, 1, 1), (1, 2, 0), (1, 2, 0)], (2, 4, 2), Repeats::Keep).unwrap();
    assert_eq!(table.worker_counts().unwrap(), [1, 1, 2, 0]);
    assert_eq!(table.label_counts(), [2, 2]);
    assert_eq!(table.n_components().unwrap(), 2);
    assert_eq!(table.agreeing_pairs(), (2, 2));
    assert_eq!(table.first_repeat(), Some((1, 2)));
}

#[test]
fn bad_rows_are_named() {
    let error = build(&[(0, 0, 0), (0, 9, 0)], (1, 1, 1), Repeats::Keep).unwrap_err().to_string();
    assert!(error.contains("worker code 9 at row 1"), "{error}");
    assert!(build(&[], (1, 1, 1), Repeats::Keep).is_err());
    assert!(build(&[(0, 0, 0)], (1, 1, 70_000), Repeats::Keep).unwrap_err().to_string().contains("70000 classes"));
}

#[test]
fn a_bad_code_far_down_is_named_by_its_row() {
    let mut log: Vec<Triple> = (0..200_000).map(|i| (i, 0, 0)).collect();
    log[150_000].2 = 7;
    let error = build(&log, (200_000, 1, 1), Repeats::Keep).unwrap_err().to_string();
    assert!(error.contains("label code 7 at row 150000"), "{error}");
}

#[test]
fn as_many_weights_as_rows_are_asked_for() {
    let error = weighted(&[(0, 0, 0)], Some(&[1.0, 2.0]), (1, 1, 1), Repeats::Keep).unwrap_err().to_string();
    assert!(error.contains("1 labels, 2 weights"), "{error}");
}

#[test]
fn labels_are_as_wide_as_the_classes_need() {
    for (n_labels, narrow) in [(1, true), (256, true), (257, false), (MAX_LABELS, false)] {
        let last = (n_labels - 1) as u16;
        let table = build(&[(0, 0, last)], (1, 1, n_labels), Repeats::Keep).unwrap();
        assert_eq!(matches!(table.labels(), Labels::Narrow(_)), narrow, "{n_labels} labels");
        assert_eq!(triples_of(&table), [(0, 0, last)]);
    }
    assert!(build(&[(0, 0, 0)], (1, 1, MAX_LABELS + 1), Repeats::Keep).is_err());
}

#[test]
fn chunks_hold_about_equally_many_rows() {
    let log: Vec<Triple> = (0..1000).map(|i| (i / 10, i % 10, 0)).collect();
    let table = build(&log, (100, 10, 1), Repeats::Keep).unwrap();
    assert_eq!(table.chunks(4), [0..25, 25..50, 50..75, 75..100]);
    assert_eq!(table.chunks(1000).len(), 100);
}

#[test]
fn at_least_one_label_and_no_more_than_all_can_be_true() {
    let table = || build(&[(0, 0, 0)], (1, 1, 3), Repeats::Keep).unwrap();
    assert_eq!(table().n_classes(), 3);
    assert_eq!(table().with_classes(1).unwrap().n_classes(), 1);
    assert_eq!(table().with_classes(3).unwrap().n_classes(), 3);
    assert!(table().with_classes(0).is_err());
    assert!(table().with_classes(4).is_err());
}

#[test]
fn only_labels_that_were_given_need_a_code() {
    let table = build(&[(0, 0, 0), (0, 1, 2)], (1, 2, 3), Repeats::Keep).unwrap();
    let recoded = |codes: &[u16], n_labels| table.recoded(codes, n_labels, 1, &Control::default());
    assert_eq!(triples_of(&recoded(&[1, 999, 0], 2).unwrap()), [(0, 0, 1), (0, 1, 0)]);
    assert!(recoded(&[1, 0, 2], 2).unwrap_err().to_string().contains("label 2 cannot become 2"));
    assert!(recoded(&[1, 0], 2).unwrap_err().to_string().contains("2 codes for 3 labels"));
    assert!(recoded(&[0, 0, 0], MAX_LABELS + 1).is_err() && recoded(&[0, 0, 0], 0).is_err());
    assert!(table.recoded(&[0, 1, 2], 3, 0, &Control::default()).is_err());
}

#[test]
fn a_mask_has_an_entry_a_row_and_leaves_some() {
    let table = build(&[(0, 0, 0), (0, 1, 2)], (1, 2, 3), Repeats::Keep).unwrap();
    assert!(table.keep(&[true]).unwrap_err().to_string().contains("1 entries for 2 annotations"));
    assert!(table.keep(&[false, false]).unwrap_err().to_string().contains("no annotation"));
}

#[test]
fn cancelled_work_stops() {
    let control = Control::default();
    control.cancel();
    let rows = Rows { tasks: &[0], workers: &[0], labels: &[0], weights: None, n_tasks: 1, n_workers: 1, n_labels: 1 };
    assert_eq!(Table::new(&rows, Repeats::Keep, &control).unwrap_err(), Error::Cancelled);
}

#[test]
fn weights_that_cannot_count_a_label_are_named() {
    let rows = [(0, 0, 0), (0, 1, 1), (1, 0, 1)];
    let with = |weight: f64| weighted(&rows, Some(&[1.0, weight, 2.0]), (2, 2, 2), Repeats::Keep);
    for weight in [0.0, WEIGHTS.0, 1.0, WEIGHTS.1] {
        assert_eq!(with(weight).unwrap().weights().unwrap()[1], weight);
    }
    for bad in [1e-320, 9.9e-31, 1.1e15, 1e308, -1.0, f64::NAN, f64::INFINITY] {
        let error = with(bad).unwrap_err().to_string();
        assert!(error.starts_with(&format!("weight {bad:e} at row 1")) && error.contains("1e-30"), "{error}");
    }
}
