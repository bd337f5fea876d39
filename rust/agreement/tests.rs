use super::*;
use crate::table::Table;
use crate::table::tests::of_rows;

/// Tasks × workers; a negative label is none.
fn table(labels: &[&[i32]], n_classes: usize) -> Table {
    let rows = labels.iter().enumerate();
    let triples: Vec<(u32, u32, u16)> = rows
        .flat_map(|(task, row)| row.iter().enumerate().map(move |(w, l)| (task, w, *l)))
        .filter(|(.., label)| *label >= 0)
        .map(|(task, worker, label)| (task as u32, worker as u32, label as u16))
        .collect();
    let n_workers = labels.iter().map(|row| row.len()).max().unwrap_or(0);
    of_rows(&triples, None, [labels.len(), n_workers, n_classes])
}

const NOMINAL: Scale<'_> = Scale { shape: Shape::Nominal, positions: &[0.0, 1.0] };

fn count(table: &Table, coefficient: Coefficient) -> Counted {
    agreement_by_counts(table, coefficient, NOMINAL, 5, 1, &Control::default()).unwrap()
}

fn pairs(table: &Table, chance: Chance, summary: Summary) -> Paired {
    agreement_by_pairs(table, chance, NOMINAL, summary, 1, 5, 1, &Control::default()).unwrap()
}

#[test]
fn four_tasks_by_hand() {
    // Two workers agree on 0, 0 and 1 and differ once: observed 1/4, Cohen's chance 1/2, the others' 2 · 5/8 · 3/8.
    let votes = table(&[&[0, 0], &[0, 0], &[1, 1], &[0, 1]], 2);
    let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-12, "{got} is not {wanted}");
    near(count(&votes, Coefficient::Alpha).value, 1.0 - 7.0 * 2.0 / (2.0 * 5.0 * 3.0));
    near(count(&votes, Coefficient::Fleiss).value, 1.0 - 0.25 / (30.0 / 64.0));
    near(count(&votes, Coefficient::Gwet).value, 1.0 - 0.25 / (1.0 - 30.0 / 64.0));
    let cohen = pairs(&votes, Chance::Own, Summary::Even);
    near(cohen.value, 0.5);
    assert_eq!((cohen.pairs, cohen.overlap, cohen.n_tasks), (vec![0, 1], vec![4], 4));
    near(pairs(&votes, Chance::Shared, Summary::Even).value, 1.0 - 0.25 / (30.0 / 64.0));
}

#[test]
fn nothing_to_compare_is_not_a_number() {
    for votes in [table(&[&[0], &[1]], 2), table(&[&[0, 0], &[0, 0]], 2)] {
        assert!(count(&votes, Coefficient::Alpha).value.is_nan());
        assert!(count(&votes, Coefficient::OrdinalAlpha).value.is_nan());
        assert!(count(&votes, Coefficient::Fleiss).value.is_nan());
        assert!(pairs(&votes, Chance::Own, Summary::ByOverlap).value.is_nan());
    }
    // Two classes to choose from, and all chose the same: that is perfect agreement to Gwet.
    assert_eq!(count(&table(&[&[0, 0], &[0, 0]], 2), Coefficient::Gwet).value, 1.0);
}

#[test]
fn the_ratio_compares_one_worker_with_the_rest() {
    let votes = table(&[&[0, 0, 0], &[1, 1, 1], &[0, 1, 0], &[1, 0, 1]], 2);
    // The third repeats the first, and both agree with the second as by chance.
    let squashed = |x: f64| 1.0 / (1.0 + (-x).exp());
    let wanted = f64::midpoint(squashed(1.0), squashed(0.0)) / squashed(0.0);
    assert!((pairs(&votes, Chance::Own, Summary::Ratio(2)).value - wanted).abs() < 1e-12);
}

#[test]
fn threads_do_not_change_a_bit() {
    let rows: Vec<Vec<i32>> = (0_i32..500)
        .map(|i| (0..4).map(|w| (i * 31 + w * w * 17) % 7 % 2 - i32::from((i + w) % 5 == 0)).collect())
        .collect();
    let votes = table(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), 2);
    let run = |n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| {
            (count(&votes, Coefficient::OrdinalAlpha).resamples, pairs(&votes, Chance::Own, Summary::Even).resamples)
        })
    };
    assert_eq!(run(1), run(3));
    assert_eq!(run(1).0.len(), 5);
}

#[test]
fn bad_scales_are_named() {
    let votes = table(&[&[0, 1]], 2);
    let fails = |positions: &[f64]| {
        let scale = Scale { shape: Shape::Linear, positions };
        agreement_by_counts(&votes, Coefficient::Alpha, scale, 0, 0, &Control::default()).unwrap_err().to_string()
    };
    assert!(fails(&[1.0]).contains("1 positions for 2 classes"));
    assert!(fails(&[1.0, f64::NAN]).contains("NaN"));
}
