use super::*;
use proptest::prelude::*;

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
        n_classes: sizes.2,
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
    fn arbitrary_columns_never_panic(
        tasks in prop::collection::vec(any::<u32>(), 0..20),
        workers in prop::collection::vec(any::<u32>(), 0..20),
        labels in prop::collection::vec(any::<u16>(), 0..20),
        weights in prop::option::of(prop::collection::vec(any::<f64>(), 0..20)),
        (n_tasks, n_workers, n_classes) in (0_usize..30, 0_usize..30, 0_usize..70_000),
    ) {
        let rows = Rows { tasks: &tasks, workers: &workers, labels: &labels, weights: weights.as_deref(),
                          n_tasks, n_workers, n_classes };
        if let Ok(table) = Table::new(&rows, Repeats::Keep, &Control::default()) {
            prop_assert_eq!(table.len(), tasks.len());
        }
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
fn cancelled_work_stops() {
    let control = Control::default();
    control.cancel();
    let rows = Rows { tasks: &[0], workers: &[0], labels: &[0], weights: None, n_tasks: 1, n_workers: 1, n_classes: 1 };
    assert_eq!(Table::new(&rows, Repeats::Keep, &control).unwrap_err(), Error::Cancelled);
}
