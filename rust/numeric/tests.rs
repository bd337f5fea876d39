use proptest::prelude::*;

use super::*;
use crate::base::links::{Log, Repeats};

fn table(rows: &[(u32, u32, f64)], weights: Option<&[f64]>) -> Ratings {
    let tasks: Vec<u32> = rows.iter().map(|row| row.0).collect();
    let workers: Vec<u32> = rows.iter().map(|row| row.1).collect();
    let values: Vec<f64> = rows.iter().map(|row| row.2).collect();
    let log = Log { tasks: &tasks, workers: &workers, weights, n_tasks: 9, n_workers: 5 };
    Ratings::new(&log, &values, 1, Repeats::Keep, &Control::default()).unwrap()
}

fn log() -> impl Strategy<Value = Vec<(u32, u32, f64)>> {
    prop::collection::vec((0_u32..9, 0_u32..5, -3.0_f64..3.0), 1..60)
}

/// Workers who add nothing, each of this precision.
fn plain(precision: f64) -> Vec<f64> {
    [precision, 1.0, 0.0, 1.0, 0.0, 0.0].repeat(5)
}

proptest! {
    #[test]
    fn equal_workers_and_a_flat_prior_give_means(rows in log(), precision in 0.1_f64..10.0) {
        let table = table(&rows, None);
        let view = View::new(&table, 0, 1.0, 0.0).unwrap();
        let control = Control::default();
        let prior = Prior { mean: 0.0, precision: 0.0 };
        let passed = gaussian_pass(&view, &plain(precision), prior, Noise::Normal, &control).unwrap();
        let means = spread(&view, None, &control).unwrap();
        for (got, wanted) in passed.tasks.chunks(2).zip(means.tasks.chunks(4)) {
            prop_assert!((got[0] - wanted[1]).abs() < 1e-12);
            prop_assert!((got[1] - precision * wanted[0]).abs() < 1e-9);
        }
    }

    #[test]
    fn very_many_degrees_of_freedom_are_normal_noise(rows in log()) {
        let table = table(&rows, None);
        let view = View::new(&table, 0, 1.0, 0.0).unwrap();
        let (control, prior) = (Control::default(), Prior { mean: 0.0, precision: 1.0 });
        let normal = gaussian_pass(&view, &plain(1.0), prior, Noise::Normal, &control).unwrap();
        let student = Noise::Student(1e12, &normal.tasks);
        let heavy = gaussian_pass(&view, &plain(1.0), prior, student, &control).unwrap();
        for (a, b) in heavy.tasks.iter().zip(&normal.tasks) {
            prop_assert!((a - b).abs() < 1e-9);
        }
    }

    #[test]
    fn a_weight_counts_ratings(rows in log(), trim in 0.0_f64..0.5) {
        let twice: Vec<_> = rows.iter().chain(&rows).copied().collect();
        let weights = vec![2.0; rows.len()];
        let (doubled, weighted) = (table(&twice, None), table(&rows, Some(&weights)));
        let (a, b) = (View::new(&doubled, 0, 1.0, 0.0).unwrap(), View::new(&weighted, 0, 1.0, 0.0).unwrap());
        let control = Control::default();
        for trim in [trim, 0.5] {
            for (x, y) in trimmed(&a, trim, &control).unwrap().iter().zip(trimmed(&b, trim, &control).unwrap()) {
                prop_assert!((x - y).abs() < 1e-9);
            }
        }
        let (x, y) = (spread(&a, None, &control).unwrap(), spread(&b, None, &control).unwrap());
        prop_assert!(x.tasks.iter().zip(&y.tasks).all(|(x, y)| (x - y).abs() < 1e-9));
        prop_assert!(x.workers.iter().zip(&y.workers).all(|(x, y)| (x - y).abs() < 1e-9));
    }
}

#[test]
fn trimming_leaves_parts_of_ratings() {
    let rows: Vec<(u32, u32, f64)> = [0.0, 2.0, 3.0, 90.0].iter().enumerate().map(|(i, x)| (0, i as u32, *x)).collect();
    let table = table(&rows, None);
    let view = View::new(&table, 0, 1.0, 0.0).unwrap();
    let at = |trim| trimmed(&view, trim, &Control::default()).unwrap()[0];
    assert!((at(0.25) - 2.5).abs() < 1e-12);
    assert!((at(0.0) - 23.75).abs() < 1e-12);
    assert!((at(0.5) - 2.5).abs() < 1e-12);
    // Six tenths of the ends are left.
    assert!((at(0.1) - (0.6 * 90.0 + 5.0) / 3.2).abs() < 1e-12);
}

#[test]
fn nobody_who_tells_anything_leaves_the_mean() {
    let table = table(&[(0, 0, 1.0), (0, 1, 4.0)], None);
    let view = View::new(&table, 0, 1.0, 0.0).unwrap();
    let none = vec![0.0; 30];
    let prior = Prior { mean: 7.0, precision: 0.0 };
    let passed = gaussian_pass(&view, &none, prior, Noise::Normal, &Control::default()).unwrap();
    assert_eq!(&passed.tasks[..4], &[2.5, 0.0, 7.0, 0.0]);
}

#[test]
fn a_cancelled_pass_stops() {
    let table = table(&[(0, 0, 1.0), (0, 1, 4.0)], None);
    let view = View::new(&table, 0, 1.0, 0.0).unwrap();
    let control = Control::default();
    control.cancel();
    assert_eq!(spread(&view, None, &control).unwrap_err(), Error::Cancelled);
    assert_eq!(trimmed(&view, 0.1, &control).unwrap_err(), Error::Cancelled);
    let prior = Prior { mean: 0.0, precision: 1.0 };
    assert_eq!(gaussian_pass(&view, &plain(1.0), prior, Noise::Normal, &control).unwrap_err(), Error::Cancelled);
    assert_eq!(covariance_sums(&view, &[0.0; 5], &[1.0; 5], 1, &control).unwrap_err(), Error::Cancelled);
}
