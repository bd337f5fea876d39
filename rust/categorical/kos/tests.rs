use super::*;
use crate::categorical::table::{Repeats, Rows};

fn table(rows: &[(u32, u32, u16)], weights: Option<&[f64]>, n_classes: usize) -> Table {
    let (tasks, workers): (Vec<u32>, Vec<u32>) = rows.iter().map(|r| (r.0, r.1)).unzip();
    let labels: Vec<u16> = rows.iter().map(|r| r.2).collect();
    let rows = Rows {
        n_tasks: tasks.iter().max().map_or(0, |t| *t as usize + 1),
        n_workers: workers.iter().max().map_or(0, |w| *w as usize + 1),
        tasks: &tasks,
        workers: &workers,
        labels: &labels,
        weights,
        n_labels: n_classes,
    };
    Table::new(&rows, Repeats::Keep, &Control::default()).unwrap()
}

/// Three workers who are right, and a fourth who is always a class off.
fn cross(n_classes: u32) -> Vec<(u32, u32, u16)> {
    let label = |t: u32, w: u32| ((t + u32::from(w == 3)) % n_classes) as u16;
    (0..6).flat_map(|t| (0..4).map(move |w| (t, w, label(t, w)))).collect()
}

#[test]
fn messages_find_the_wrong_worker() {
    for k in [2, 3] {
        let result = fit(&table(&cross(k), None, k as usize), 20, 0, &Control::default()).unwrap();
        for (task, row) in result.scores.chunks_exact(k as usize).enumerate() {
            let right = row[task % k as usize];
            assert!(row.iter().all(|&score| score <= right));
            assert!(row.iter().sum::<f64>().abs() < 1e-12);
        }
        assert!(result.weights[3] < 0.0 && result.weights[0] > 0.0);
        assert!(!result.silent.contains(&true));
    }
}

#[test]
fn nothing_overflows_or_dies_unnoticed() {
    let result = fit(&table(&cross(2), None, 3), 5000, 3, &Control::default()).unwrap();
    assert!(result.scores.iter().chain(&result.weights).all(|x| x.is_finite()));
    assert!(result.weights.iter().all(|x| x.abs() > 1e-3));
    // A tree: two tasks, three workers, one of which gives the same thing twice.
    let rows = [(0, 0, 1), (0, 1, 1), (0, 1, 1), (1, 1, 0), (1, 2, 0)];
    let result = fit(&table(&rows, None, 3), 50, 0, &Control::default()).unwrap();
    assert_eq!(result.scores, [-1.5, 3.0, -1.5, 2.0, -1.0, -1.0]);
    assert_eq!(result.silent, [true; 3]);
    assert_eq!(result.weights, [1.0; 3]);
}

#[test]
fn repeats_and_weights_are_the_same() {
    let mut rows = cross(2);
    let weights: Vec<f64> = (0..rows.len()).map(|i| if i % 3 == 0 { 2.0 } else { 1.0 }).collect();
    let heavy = fit(&table(&rows, Some(&weights), 2), 9, 1, &Control::default()).unwrap();
    let again: Vec<_> = rows.iter().copied().step_by(3).collect();
    rows.extend(again);
    let twice = fit(&table(&rows, None, 2), 9, 1, &Control::default()).unwrap();
    for (a, b) in heavy.scores.iter().zip(&twice.scores) {
        assert!((a - b).abs() < 1e-12);
    }
}

#[test]
fn an_unlucky_start_is_turned() {
    for seed in 0..40 {
        let result = fit(&table(&cross(2), None, 2), 30, seed, &Control::default()).unwrap();
        assert!(result.weights.iter().sum::<f64>() > 0.0, "{seed}: {:?}", result.weights);
        assert!(result.scores[0] > 0.0);
    }
}

#[test]
fn one_class_is_refused() {
    assert!(fit(&table(&[(0, 0, 0)], None, 1), 5, 0, &Control::default()).is_err());
}

#[test]
fn draws_have_mean_and_variance_one() {
    let draws: Vec<f64> = (0..40_000).map(|i| normal(7, i / 200, i % 200)).collect();
    let mean = draws.iter().sum::<f64>() / 4e4;
    let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 4e4;
    // Five standard errors.
    assert!((mean - 1.0).abs() < 0.025 && (variance - 1.0).abs() < 0.036, "{mean} {variance}");
}
