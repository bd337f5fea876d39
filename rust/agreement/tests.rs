use super::*;
use crate::base::control::Control;
use crate::categorical::table::Table;
use crate::categorical::table::tests::of_rows;

/// Tasks × workers; a negative label is missing.
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
    let cohen = pairs(&votes, Chance::Own, Summary::Alone);
    near(cohen.value, 0.5);
    assert_eq!((cohen.pairs, cohen.overlap, cohen.n_tasks, cohen.n_pairs), (vec![0, 1], vec![4], 4, 1));
    near(pairs(&votes, Chance::Shared, Summary::Alone).value, 1.0 - 0.25 / (30.0 / 64.0));
    // All differ: disagreement 1 where chance has 1/2 and 30/64; alpha's chance is 30/56, Gwet's 34/64.
    near(cohen.worst, 2.0);
    near(pairs(&votes, Chance::Shared, Summary::Alone).worst, 64.0 / 30.0);
    near(count(&votes, Coefficient::Alpha).worst, 56.0 / 30.0);
    near(count(&votes, Coefficient::Fleiss).worst, 64.0 / 30.0);
    near(count(&votes, Coefficient::Gwet).worst, 64.0 / 34.0);
    // Of labels of different tasks, 7 of 12 differ: all 8 of the 16 that do, but for the one task at odds; for pi, half
    // of that task's four.
    for summary in [Summary::Even, Summary::ByOverlap] {
        near(pairs(&votes, Chance::Own, summary).value, 1.0 - 0.25 / (7.0 / 12.0));
        near(pairs(&votes, Chance::Own, summary).worst, 12.0 / 7.0);
        near(pairs(&votes, Chance::Shared, summary).value, 1.0 - 0.25 / ((7.5 - 0.5) / 12.0));
    }
}

#[test]
fn pairs_count_by_their_overlap_or_alike() {
    // The first two share four tasks, as above; the third shares two with the second only, and differs once.
    let votes = table(&[&[0, 0, -1], &[0, 0, -1], &[1, 1, -1], &[0, 1, -1], &[-1, 0, 1], &[-1, 1, 1]], 2);
    let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-12, "{got} is not {wanted}");
    let (even, by_overlap) =
        (pairs(&votes, Chance::Own, Summary::Even), pairs(&votes, Chance::Own, Summary::ByOverlap));
    near(even.value, 1.0 - (0.25 + 0.5) / (7.0 / 12.0 + 0.5));
    near(by_overlap.value, 1.0 - (4.0 * 0.25 + 2.0 * 0.5) / (4.0 * 7.0 / 12.0 + 2.0 * 0.5));
    assert_eq!((even.n_pairs, even.overlap), (2, vec![4, 2]));
    // One common task does not determine chance.
    let votes = table(&[&[0, 0, -1], &[1, 1, 0]], 2);
    let result = pairs(&votes, Chance::Own, Summary::Even);
    assert_eq!((result.value, result.n_pairs, result.overlap.len()), (1.0, 1, 3));
}

#[test]
fn repeated_labels_of_a_task_are_no_chance() {
    // The first worker labels the first task twice. Of labels of different tasks, 0 and 1 of the first worker meet a 1,
    // and 1 meets a 0 twice: three of four differ.
    let votes = of_rows(&[(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 1)], None, [2, 2, 2]);
    let result = pairs(&votes, Chance::Own, Summary::ByOverlap);
    assert_eq!(result.overlap, [3]);
    assert!((result.value - (1.0 - (1.0 / 3.0) / (3.0 / 4.0))).abs() < 1e-12, "{}", result.value);
    // Of the labels of both, three in four as well.
    let result = pairs(&votes, Chance::Shared, Summary::ByOverlap);
    assert!((result.value - (1.0 - (1.0 / 3.0) / (3.0 / 4.0))).abs() < 1e-12, "{}", result.value);
}

#[test]
fn every_pair_counts_once_however_many_there_are() {
    let rows: Vec<Vec<i32>> = (0..3).map(|task| (0..60).map(|worker| (worker + task) % 2).collect()).collect();
    let votes = table(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), 2);
    let result = pairs(&votes, Chance::Own, Summary::Even);
    // More than are evaluated between two checks.
    assert_eq!((result.coefficients.len(), result.pairs.len(), result.n_pairs), (1770, 3540, 1770));
    // 30 · 29 pairs always agree and 900 never do; with labels of other tasks 2/3 and 1/3 of them differ.
    let (alike, apart) = (870.0, 900.0);
    assert!((result.value - (1.0 - apart / (alike * 2.0 / 3.0 + apart / 3.0))).abs() < 1e-12);
    assert_eq!(result.left_out.sizes, [1, 1, 1]);
}

#[test]
fn meetings_that_do_not_fit_are_counted() {
    let rows: Vec<(u32, u32, u16)> = (0..45_000).map(|worker| (0, worker, 0)).collect();
    let votes = of_rows(&rows, None, [1, 45_000, 2]);
    let control = Control::default();
    let error = agreement_by_pairs(&votes, Chance::Own, NOMINAL, Summary::Even, 1, 0, 0, &control).unwrap_err();
    assert!(
        error.to_string().starts_with("1012477500 pairs of labels on the same task take more than 16 GiB"),
        "{error}"
    );
}

#[test]
fn every_task_is_left_out_once() {
    // Seven tasks with two labels, and two without.
    let compared = [true, true, false, true, true, true, false, true, true];
    let result = LeftOut::new(&compared, 3, 5, |tasks| {
        Ok((0..9).filter(|task| !tasks.has(*task)).map(|task| 10_f64.powi(task as i32)).sum())
    })
    .unwrap();
    assert_eq!(result.values.iter().sum::<f64>(), 111_111_111.0);
    assert_eq!(result.sizes, [3, 2, 2]);
    let of = |kept: &dyn Fn(usize) -> bool, value: f64| {
        (0..9).filter(|task| kept(*task) && (value / 10_f64.powi(*task as i32)) as u64 % 10 == 1).count() as u32
    };
    let sizes: Vec<u32> = result.values.iter().map(|value| of(&|task| compared[task], *value)).collect();
    assert_eq!(sizes, result.sizes);
    // The others are spread as well.
    assert!(result.values.iter().all(|value| of(&|task| !compared[task], *value) <= 1));
    // Never more groups than tasks to compare; none where there are none.
    let groups = |compared: &[bool], n| LeftOut::new(compared, n, 5, |_| Ok(0.0)).unwrap().sizes;
    assert_eq!(groups(&compared, 100), [1; 7]);
    assert!(groups(&[false, false], 100).is_empty());
    let others =
        LeftOut::new(&compared, 3, 6, |tasks| Ok((0..9).filter(|task| tasks.has(*task)).sum::<usize>() as f64));
    assert_ne!(others.unwrap().values, result.values);
}

#[test]
fn the_widest_disagreement_is_that_of_the_labels_used() {
    let positions = [3.0, 1.0, 7.0, 2.0];
    for (shape, used, wanted) in [
        (Shape::Nominal, vec![0, 2], 1.0),
        (Shape::Nominal, vec![2], 0.0),
        (Shape::Linear, vec![0, 1, 3], 2.0),
        (Shape::Quadratic, vec![0, 1, 2, 3], 36.0),
        (Shape::Ratio, vec![0, 2, 3], (5.0_f64 / 9.0).powi(2)),
        (Shape::Linear, vec![], 0.0),
    ] {
        assert_eq!(Scale { shape, positions: &positions }.widest(&used), wanted, "{shape:?}");
    }
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
    // Less bias: without one of four tasks, 0 becomes 1 - (2/3) / (4/9) = -1/2 or 1 - (1/3) / (5/9) = 2/5, twice each.
    let chance = 4.0 * squashed(0.0) - 3.0 * f64::midpoint(squashed(-0.5), squashed(0.4));
    let expected = f64::midpoint(squashed(1.0), chance) / chance;
    let result = pairs(&votes, Chance::Own, Summary::Ratio(2));
    assert!((result.value - expected).abs() < 1e-12);
    assert!(result.worst.is_nan());
    assert_eq!(result.n_pairs, 3);
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
            (
                count(&votes, Coefficient::OrdinalAlpha).left_out.values,
                pairs(&votes, Chance::Own, Summary::Even).left_out.values,
            )
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
