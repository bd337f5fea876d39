//! The table, derivatives against differences, and fits against what they must satisfy.

use proptest::prelude::*;

use super::bradley_terry::{LeftBias, Options, bradley_terry_fit};
use super::errors::{Clusters, ErrorOptions, Errors, bradley_terry_errors};
use super::graph::{Fold, Graph};
use super::newton::{Ascent, Crowd, Prior};
use super::outcome::{Counts, Outcomes};
use super::*;
use crate::base::control::Control;

/// Left, right, outcome, worker.
type Row = (u32, u32, u8, u32);

const ITEMS: usize = 6;
const WORKERS: usize = 4;

fn table(rows: &[Row], weights: Option<&[f64]>) -> Comparisons {
    let column = |f: fn(&Row) -> u32| rows.iter().map(f).collect::<Vec<_>>();
    let (left, right, workers) = (column(|row| row.0), column(|row| row.1), column(|row| row.3));
    let outcomes: Vec<u8> = rows.iter().map(|row| row.2).collect();
    let rows = Rows {
        left: &left,
        right: &right,
        outcomes: &outcomes,
        workers: &workers,
        contexts: None,
        weights,
        n_items: ITEMS,
        n_workers: WORKERS,
        n_contexts: 0,
    };
    Comparisons::new(&rows, &Control::default()).unwrap()
}

fn log() -> impl Strategy<Value = Vec<Row>> {
    let row = (0..ITEMS as u32, 1..ITEMS as u32, 0_u8..3, 0..WORKERS as u32);
    prop::collection::vec(row.prop_map(|(l, step, o, w)| (l, (l + step) % ITEMS as u32, o, w)), 1..60)
}

fn options(ties: Ties, left_bias: LeftBias, slopes: bool) -> Options<'static> {
    Options { ties, left_bias, slopes, prior: 2.0, spread: [f64::NAN; 2], start: None, max_iter: 500, tol: 1e-6 }
}

const TIES: [Ties; 3] = [Ties::Half, Ties::Davidson, Ties::RaoKupper];

proptest! {
    #[test]
    fn derivatives_are_slopes_of_likelihoods(
        which in 0_usize..3, lead in -5.0..5.0_f64, tie in -3.0..3.0_f64, left in 0.0..3.0_f64, right in 0.0..3.0_f64,
        level in 0.0..3.0_f64,
    ) {
        let ties = TIES[which];
        let counts = Counts { left, right, tie: if ties == Ties::Half { 0.0 } else { level } };
        let at = |lead: f64, tie: f64| Outcomes { ties, tie }.at(lead, counts);
        let (here, h) = (at(lead, tie), 1e-5);
        let near = |found: f64, wanted: f64| (found - wanted).abs() < 1e-6 * (1.0 + wanted.abs());
        prop_assert!(near(here.slope, (at(lead + h, tie).whole() - at(lead - h, tie).whole()) / (2.0 * h)));
        prop_assert!(near(-here.bend, (at(lead + h, tie).slope - at(lead - h, tie).slope) / (2.0 * h)));
        if ties != Ties::Half {
            prop_assert!(near(here.tie_slope, (at(lead, tie + h).whole() - at(lead, tie - h).whole()) / (2.0 * h)));
            prop_assert!(near(-here.tie_bend, (at(lead, tie + h).tie_slope - at(lead, tie - h).tie_slope) / (2.0 * h)));
            prop_assert!(near(-here.cross, (at(lead, tie + h).slope - at(lead, tie - h).slope) / (2.0 * h)));
        }
        prop_assert!(here.whole() <= 1e-12 && here.bend >= 0.0);
    }

    #[test]
    fn outcomes_sum_to_one(which in 0_usize..3, lead in -30.0..30.0_f64, tie in -3.0..3.0_f64) {
        let outcomes = Outcomes { ties: TIES[which], tie };
        let none = Counts::default();
        let mut total = outcomes.at(lead, Counts { left: 1.0, ..none }).whole().exp();
        total += outcomes.at(lead, Counts { right: 1.0, ..none }).whole().exp();
        if which > 0 {
            total += outcomes.at(lead, Counts { tie: 1.0, ..none }).whole().exp();
        }
        prop_assert!((total - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_objective(log in log(), which in 0_usize..3, bias in any::<bool>()) {
        let (table, control) = (table(&log, None), Control::default());
        let mut graph = Graph::new(&table, TIES[which], Fold::Workers, &control).unwrap();
        let start: Vec<f64> = (0..ITEMS + 2).map(|i| 0.3 * i as f64 - 0.7).collect();
        let mut ascent = Ascent::new(&mut graph, TIES[which], Prior::Normal(0.3), bias, Some(&start)).unwrap();
        ascent.crowd = Crowd { slopes: vec![1.0, 0.4, -0.5, 1.7], biases: vec![0.1, -0.2, 0.0, 0.3] };
        ascent.look(&control).unwrap();
        let gradient = ascent.gradient(&control).unwrap();
        let h = 1e-5;
        for (i, gradient) in gradient.iter().enumerate() {
            let free = i < ITEMS || ascent.free[i - ITEMS];
            let mut at = |step: f64| {
                ascent.point[i] += step;
                let value = ascent.look(&control).unwrap();
                ascent.point[i] -= step;
                value
            };
            let slope = (at(h) - at(-h)) / (2.0 * h);
            prop_assert!(!free || (gradient - slope).abs() < 1e-5 * (1.0 + slope.abs()), "{i}: {gradient} {slope}");
        }
    }

    #[test]
    fn fits_are_summits(log in log(), which in 0_usize..3, bias in any::<bool>()) {
        let table = table(&log, None);
        let left_bias = if bias { LeftBias::Shared } else { LeftBias::None };
        let options = options(TIES[which], left_bias, false);
        let fit = bradley_terry_fit(&table, &options, &Control::default()).unwrap();
        prop_assert!(fit.converged && fit.history.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9 * pair[0].abs()));
        let control = Control::default();
        let mut graph = Graph::new(&table, TIES[which], Fold::Sides, &control).unwrap();
        let mut point = fit.found.point.clone();
        if point[ITEMS + 1].is_nan() {
            point[ITEMS + 1] = 0.0;
        }
        let mut ascent = Ascent::new(&mut graph, TIES[which], Prior::Normal(0.25), bias, Some(&point)).unwrap();
        ascent.look(&control).unwrap();
        prop_assert!(ascent.gradient(&control).unwrap().iter().all(|x| x.abs() < 1e-5));
        // The prior, of precision 1/4, is all that holds the sum: six slopes of at most 1e-5 leave it that free.
        prop_assert!((fit.found.point[..ITEMS].iter().sum::<f64>()).abs() < 3e-4);
    }

    #[test]
    fn workers_average_one_and_nobody_is_infinite(log in log(), own in any::<bool>()) {
        let table = table(&log, None);
        let left_bias = if own { LeftBias::Worker } else { LeftBias::None };
        let options = options(Ties::Davidson, left_bias, true);
        let fit = bradley_terry_fit(&table, &options, &Control::default()).unwrap();
        let mut present = [false; WORKERS];
        log.iter().for_each(|row| present[row.3 as usize] = true);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / WORKERS as f64;
        prop_assert!((mean(&fit.found.slopes) - 1.0).abs() < 1e-9);
        prop_assert!(!own || mean(&fit.found.biases).abs() < 1e-9);
        for (worker, slope) in fit.found.slopes.iter().enumerate() {
            prop_assert!(slope.is_finite() && (present[worker] || *slope == 1.0));
        }
        prop_assert!(fit.found.point[..=ITEMS].iter().all(|x| x.is_finite()));
        prop_assert!(fit.history.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0)));
    }

    #[test]
    fn any_order_of_rows_is_the_same_table(log in log(), seed in any::<u64>()) {
        let weights: Vec<f64> = log.iter().enumerate().map(|(i, _)| (i % 3) as f64).collect();
        let mut order: Vec<usize> = (0..log.len()).collect();
        order.sort_by_key(|&i| crate::base::num::scramble(seed ^ i as u64));
        let shuffled: Vec<Row> = order.iter().map(|&i| log[i]).collect();
        let reordered: Vec<f64> = order.iter().map(|&i| weights[i]).collect();
        prop_assert_eq!(
            format!("{:?}", table(&log, Some(&weights))),
            format!("{:?}", table(&shuffled, Some(&reordered)))
        );
    }

    #[test]
    fn weights_count_rows(log in log()) {
        let twice: Vec<Row> = log.iter().chain(&log).copied().collect();
        let options = options(Ties::Davidson, LeftBias::Shared, true);
        let one = bradley_terry_fit(&table(&log, Some(&vec![2.0; log.len()])), &options, &Control::default()).unwrap();
        let two = bradley_terry_fit(&table(&twice, None), &options, &Control::default()).unwrap();
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a.is_nan() && b.is_nan() || (a - b).abs() < 1e-6);
        prop_assert!(close(&one.found.point, &two.found.point) && close(&one.found.slopes, &two.found.slopes));
    }

    #[test]
    fn reliabilities_and_visits_are_finite_and_the_objective_rises(log in log()) {
        let table = table(&log, None);
        let options = CrowdOptions { link: 0.1, reports: [4.0, 1.0], max_iter: 200, tol: 1e-9 };
        let fit = crowd_bt_fit(&table, &options, &Control::default()).unwrap();
        prop_assert!(fit.history.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0)));
        prop_assert!(fit.scores.iter().chain(&fit.reliability).all(|x| x.is_finite()));
        let options = CentralityOptions { prior: 0.5, max_iter: 10_000, tol: 1e-10 };
        let (scores, ..) = rank_centrality_fit(&table, &options, &Control::default()).unwrap();
        prop_assert!(scores.iter().all(|x| x.is_finite()));
    }
}

/// A ring of items, each compared with the next few by four workers.
fn ring(n: u32) -> Comparisons {
    let (mut left, mut right, mut outcomes, mut workers) = (vec![], vec![], vec![], vec![]);
    for i in 0..n {
        for step in 1..12 {
            left.push(i);
            right.push((i + step * step) % n);
            outcomes.push(u8::from(crate::base::num::scramble(u64::from(i * 64 + step)).is_multiple_of(3)));
            workers.push(i % 4);
        }
    }
    let rows = Rows {
        left: &left,
        right: &right,
        outcomes: &outcomes,
        workers: &workers,
        contexts: None,
        weights: None,
        n_items: n as usize,
        n_workers: 4,
        n_contexts: 0,
    };
    Comparisons::new(&rows, &Control::default()).unwrap()
}

/// Fits a ring, and finds variances of its scores.
fn ring_errors(n: u32, n_probes: usize, clusters: Clusters) -> Errors {
    let (table, control) = (ring(n), Control::default());
    let fit = bradley_terry_fit(&table, &options(Ties::Half, LeftBias::None, false), &control).unwrap();
    let options = ErrorOptions { ties: Ties::Half, left_bias: false, prior: 2.0, clusters, n_probes, seed: 1 };
    bradley_terry_errors(&table, &fit.found, &options, &control).unwrap()
}

#[test]
fn errors_by_the_inverse_are_those_by_probes() {
    // Too many items to be solved for one by one.
    let n = 300;
    let by = |n_probes, clusters| ring_errors(n, n_probes, clusters);
    let (rough, fine) = (by(32, Clusters::Comparisons), by(2048, Clusters::Comparisons));
    for (rough, fine, said) in
        [(&rough.model, &fine.model, rough.inexact[0]), (&rough.sandwich, &fine.sandwich, rough.inexact[1])]
    {
        let off: f64 = rough.iter().zip(fine).map(|(a, b)| (a.sqrt() / b.sqrt() - 1.0).powi(2)).sum();
        let off = (off / f64::from(n)).sqrt();
        assert!(off < 1.5 * said && off > 0.4 * said && said < 0.1, "off by {off}, stated {said}");
    }
    // Four workers are solved for one by one.
    assert_eq!(by(32, Clusters::Workers).inexact[1], 0.0);
    // With one item less, a ring is solved exactly, and its variances are much the same: solutions of probes are left
    // at 2 %, which the prior's direction of all scores feels most.
    let (exact, probed) = (ring_errors(256, 1, Clusters::Comparisons), ring_errors(257, 2048, Clusters::Comparisons));
    assert!(exact.inexact == [0.0; 2] && probed.inexact.iter().all(|&off| off > 0.0));
    let mean = |variances: &[f64]| variances.iter().sum::<f64>() / variances.len() as f64;
    for (exact, probed) in [(&exact.model, &probed.model), (&exact.sandwich, &probed.sandwich)] {
        let (exact, probed) = (mean(exact), mean(probed));
        assert!((probed / exact - 1.0).abs() < 0.04, "{probed} by probes, {exact} exactly");
    }
}

#[test]
fn what_cannot_be_a_comparison_is_named() {
    let complaint = |rows: Rows<'_>| Comparisons::new(&rows, &Control::default()).unwrap_err().to_string();
    let good = Rows {
        left: &[0, 1],
        right: &[1, 0],
        outcomes: &[0, 2],
        workers: &[0, 0],
        contexts: None,
        weights: None,
        n_items: 2,
        n_workers: 1,
        n_contexts: 0,
    };
    assert!(complaint(Rows { right: &[1, 1], ..good }).contains("item 1 is compared with itself at row 1"));
    assert!(complaint(Rows { outcomes: &[0, 3], ..good }).contains("outcome 3 at row 1"));
    assert!(complaint(Rows { n_items: 1, ..good }).contains("item code 1"));
    assert!(complaint(Rows { workers: &[0, 1], ..good }).contains("worker code 1"));
    assert!(complaint(Rows { contexts: Some(&[0, 0]), ..good }).contains("context code 0"));
    assert!(complaint(Rows { weights: Some(&[1.0, f64::NAN]), ..good }).contains("weight at row 1"));
    assert!(complaint(Rows { workers: &[0], ..good }).contains("differ in length"));
    assert!(complaint(Rows { left: &[], right: &[], outcomes: &[], workers: &[], ..good }).contains("no comparisons"));
    let table = Comparisons::new(&good, &Control::default()).unwrap();
    assert!(table.keep(&[true]).unwrap_err().to_string().contains("1 entries for 2"));
    assert!(table.keep(&[false; 2]).unwrap_err().to_string().contains("no comparison"));
}

#[test]
fn what_cannot_be_a_ranking_is_named() {
    let complaint = |offsets: &[u32], items: &[u32], workers: &[u32], weights: Option<&[f64]>| {
        Rankings::new(offsets, items, workers, weights, [3, 2], &Control::default()).unwrap_err().to_string()
    };
    assert!(complaint(&[0, 2], &[1, 1], &[0], None).contains("item 1 is ranked twice in list 0"));
    assert!(complaint(&[0, 2], &[1, 3], &[0], None).contains("item code 3"));
    assert!(complaint(&[0, 2], &[1, 2], &[2], None).contains("worker code 2"));
    assert!(complaint(&[0, 1], &[1, 2], &[0], None).contains("offsets"));
    assert!(complaint(&[0], &[], &[], None).contains("no rankings"));
    assert!(complaint(&[0, 1], &[1], &[0], Some(&[-1.0])).contains("weight of list 0"));
}

/// Rankings of the log's items by its workers, made of pairs: Plackett–Luce of two items is Bradley–Terry.
#[test]
fn rankings_of_two_are_comparisons() {
    let rows: Vec<Row> = (0..200_u64)
        .map(|i| {
            let draw = crate::base::num::scramble(i);
            let (left, step) = ((draw % 6) as u32, 1 + (draw >> 8) as u32 % 5);
            (left, (left + step) % 6, 0, (draw >> 20) as u32 % 4)
        })
        .collect();
    let items: Vec<u32> = rows.iter().flat_map(|row| [row.0, row.1]).collect();
    let offsets: Vec<u32> = (0..=rows.len() as u32).map(|i| 2 * i).collect();
    let workers: Vec<u32> = rows.iter().map(|row| row.3).collect();
    let control = Control::default();
    let lists = Rankings::new(&offsets, &items, &workers, None, [ITEMS, WORKERS], &control).unwrap();
    for slopes in [false, true] {
        let luce = LuceOptions {
            slopes,
            prior: 2.0,
            spread: f64::NAN,
            errors: true,
            by_worker: true,
            max_iter: 500,
            tol: 1e-6,
        };
        let a = plackett_luce_fit(&lists, &luce, &control).unwrap();
        let games = table(&rows, None);
        let b = bradley_terry_fit(&games, &options(Ties::Half, LeftBias::None, slopes), &control).unwrap();
        assert!(a.scores.iter().zip(&b.found.point).all(|(a, b)| (a - b).abs() < 1e-6), "{:?} {:?}", a.scores, b.found);
        assert!(a.slopes.iter().zip(&b.found.slopes).all(|(a, b)| (a - b).abs() < 1e-5));
        let errors = ErrorOptions {
            ties: Ties::Half,
            left_bias: false,
            prior: 2.0,
            clusters: Clusters::Workers,
            n_probes: 8,
            seed: 0,
        };
        let expected = bradley_terry_errors(&games, &b.found, &errors, &control).unwrap();
        for (result, wanted) in [(&a.variances[0], &expected.model), (&a.variances[1], &expected.sandwich)] {
            assert!(result.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{result:?} {wanted:?}");
        }
    }
}
