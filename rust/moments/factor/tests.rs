//! The factorizations against sums written out in full.

use super::cpd::{self, Order, cpd_fit};
use super::nmf::{self, nmf_fit};
use super::*;
use crate::base::control::Control;

/// Three classes, five workers: a prior and confusion matrices without any symmetry.
fn truth() -> (Vec<f64>, Vec<f64>) {
    let (k, m) = (3_usize, 5);
    let mut confusion = vec![];
    for (worker, class) in (0..m * k).map(|i| (i / k, i % k)) {
        let row: Vec<f64> = (0..k)
            .map(|l| if l == class { 4.0 } else { 0.5 + ((worker * 7 + class * 3 + l) % 5) as f64 / 4.0 })
            .collect();
        let total: f64 = row.iter().sum();
        confusion.extend(row.iter().map(|x| x / total));
    }
    (vec![0.5, 0.3, 0.2], confusion)
}

/// Another point, near the truth.
fn elsewhere() -> (Vec<f64>, Vec<f64>) {
    let (_, confusion) = truth();
    let permuted = confusion.chunks_exact(3).enumerate().flat_map(|(i, row)| {
        let row: Vec<f64> = row.iter().enumerate().map(|(l, p)| p + 0.05 * ((i + 2 * l) % 3) as f64).collect();
        let total: f64 = row.iter().sum();
        row.into_iter().map(move |p| p / total)
    });
    (vec![0.4, 0.35, 0.25], permuted.collect())
}

/// What the workers of a group say together, the first one's label first.
fn moment(prior: &[f64], confusion: &[f64], group: &[u32]) -> Vec<f64> {
    let k = prior.len();
    (0..k.pow(group.len() as u32))
        .map(|cell| {
            let label = |place: usize| cell / k.pow((group.len() - 1 - place) as u32) % k;
            let probability =
                |class: usize, place: usize| confusion[(group[place] as usize * k + class) * k + label(place)];
            (0..k).map(|c| prior[c] * (0..group.len()).map(|place| probability(c, place)).product::<f64>()).sum()
        })
        .collect()
}

fn moments(prior: &[f64], confusion: &[f64], groups: &[u32], size: usize) -> Vec<f64> {
    groups.chunks_exact(size).flat_map(|group| moment(prior, confusion, group)).collect()
}

const PAIRS: [u32; 14] = [0, 1, 2, 0, 0, 3, 1, 2, 3, 1, 4, 2, 3, 4];
const PAIR_WEIGHTS: [f64; 7] = [1.0, 2.0, 0.5, 3.0, 1.5, 1.0, 2.5];
const TRIPLES: [u32; 9] = [0, 1, 2, 3, 0, 4, 2, 4, 1];
const TRIPLE_WEIGHTS: [f64; 3] = [1.0, 0.5, 2.0];
const FIRST_WEIGHTS: [f64; 5] = [1.0, 0.0, 2.0, 0.5, 1.0];

fn near(got: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(got.len(), wanted.len());
    for (i, (a, b)) in got.iter().zip(wanted).enumerate() {
        assert!((a - b).abs() <= tolerance, "{a}, not {b}, at {i}");
    }
}

// ------------------------------------------------------------------------------------------------- divergence

/// Minus the weighted divergences of the pairs from those of a point.
fn divergence(joint: &[f64], prior: &[f64], confusion: &[f64]) -> f64 {
    let model = moments(prior, confusion, &PAIRS, 2);
    let pairs = joint.chunks_exact(9).zip(model.chunks_exact(9)).zip(PAIR_WEIGHTS);
    -pairs
        .map(|((counts, model), weight)| {
            let total: f64 = counts.iter().sum();
            weight * counts.iter().zip(model).map(|(n, q)| n / total * (n / total / q).ln()).sum::<f64>()
        })
        .sum::<f64>()
}

fn nmf(joint: &[f64], start: &(Vec<f64>, Vec<f64>), max_iter: usize) -> Fit {
    let options = nmf::Options {
        pairs: &PAIRS,
        joint,
        weights: &PAIR_WEIGHTS,
        prior: &start.0,
        confusion: &start.1,
        max_iter,
        tol: 0.0,
    };
    nmf_fit(&options, &Control::default()).unwrap()
}

#[test]
fn the_divergence_is_what_it_says() {
    let (prior, confusion) = truth();
    // Counts, not frequencies: every pair has its own number of tasks.
    let joint: Vec<f64> = moments(&prior, &confusion, &PAIRS, 2)
        .chunks(9)
        .zip(1..)
        .flat_map(|(b, n)| b.iter().map(move |x| x * f64::from(n) * 10.0))
        .collect();
    let start = elsewhere();
    let still = nmf(&joint, &start, 0);
    near(&still.history, &[divergence(&joint, &start.0, &start.1)], 1e-12);
    let fit = nmf(&joint, &start, 40);
    assert!((fit.history[0] - still.history[0]).abs() < 1e-12);
    assert!(fit.history.windows(2).all(|pair| pair[1] >= pair[0] - 1e-12), "{:?}", fit.history);
    let last = fit.history[fit.history.len() - 1];
    assert!((last - divergence(&joint, &fit.prior, &fit.confusion)).abs() < 1e-12 && last > 0.05 * fit.history[0]);
    // Of exact moments nothing is left at the truth, and it stays there.
    let exact = nmf(&joint, &(prior.clone(), confusion.clone()), 3);
    near(&exact.history, &vec![0.0; exact.history.len()], 1e-12);
    near(&exact.confusion, &confusion, 1e-9);
    near(&exact.prior, &prior, 1e-9);
}

#[test]
fn a_step_of_the_divergence_is_that_of_em() {
    let (prior, confusion) = truth();
    let joint = moments(&prior, &confusion, &PAIRS, 2);
    let (prior, confusion) = elsewhere();
    // Expected answers of either worker of each pair, class by class.
    let (mut counts, mut classes) = ([0.0; 45], [0.0; 3]);
    for ((pair, block), weight) in PAIRS.chunks(2).zip(joint.chunks(9)).zip(PAIR_WEIGHTS) {
        let model = moment(&prior, &confusion, pair);
        for (cell, class) in (0..27).map(|i| (i / 3, i % 3)) {
            let (a, b) = (pair[0] as usize, pair[1] as usize);
            let (l, j) = (cell / 3, cell % 3);
            let both = prior[class] * confusion[(a * 3 + class) * 3 + l] * confusion[(b * 3 + class) * 3 + j];
            let expected = weight * block[cell] * both / model[cell];
            counts[(a * 3 + class) * 3 + l] += expected;
            counts[(b * 3 + class) * 3 + j] += expected;
            classes[class] += 2.0 * expected;
        }
    }
    let fit = nmf(&joint, &(prior, confusion), 1);
    let rows: Vec<f64> =
        counts.chunks(3).flat_map(|row| row.iter().map(|x| x / row.iter().sum::<f64>()).collect::<Vec<_>>()).collect();
    near(&fit.confusion, &rows, 1e-12);
    near(&fit.prior, &classes.map(|x| x / classes.iter().sum::<f64>()), 1e-12);
}

// ---------------------------------------------------------------------------------------------------- squares

/// Minus half the weighted squares that a point leaves of the moments of the truth.
fn squares(prior: &[f64], confusion: &[f64]) -> f64 {
    let (p, c) = truth();
    let first: Vec<u32> = (0..5).collect();
    let orders: [(&[u32], &[f64], usize); 3] =
        [(&first, &FIRST_WEIGHTS, 1), (&PAIRS, &PAIR_WEIGHTS, 2), (&TRIPLES, &TRIPLE_WEIGHTS, 3)];
    let mut sum = 0.0;
    for (groups, weights, size) in orders {
        for (group, weight) in groups.chunks(size).zip(weights) {
            let off = moment(&p, &c, group).into_iter().zip(moment(prior, confusion, group)).map(|(a, b)| a - b);
            sum -= 0.5 * weight * off.map(|x| x * x).sum::<f64>();
        }
    }
    sum
}

fn cpd(start: &(Vec<f64>, Vec<f64>), max_iter: usize) -> Fit {
    let (prior, confusion) = truth();
    let [first, pairs, triples] = [(1, (0..5).collect::<Vec<u32>>()), (2, PAIRS.to_vec()), (3, TRIPLES.to_vec())]
        .map(|(size, groups)| moments(&prior, &confusion, &groups, size));
    let options = cpd::Options {
        prior: &start.0,
        confusion: &start.1,
        triples: Order { groups: &TRIPLES, values: &triples, weights: &TRIPLE_WEIGHTS },
        pairs: Order { groups: &PAIRS, values: &pairs, weights: &PAIR_WEIGHTS },
        first_values: &first,
        first_weights: &FIRST_WEIGHTS,
        max_iter,
        tol: 0.0,
    };
    cpd_fit(&options, &Control::default()).unwrap()
}

#[test]
fn the_squares_are_what_they_say() {
    let start = elsewhere();
    let fit = cpd(&start, 60);
    assert!((fit.history[0] - squares(&start.0, &start.1)).abs() < 1e-12);
    assert!(fit.history.windows(2).all(|pair| pair[1] >= pair[0] - 1e-12), "{:?}", fit.history);
    let last = fit.history[fit.history.len() - 1];
    assert!((last - squares(&fit.prior, &fit.confusion)).abs() < 1e-12, "{last}");
    // The truth is near, and the only point that leaves nothing.
    assert!(last > 1e-4 * fit.history[0], "{last} of {}", fit.history[0]);
    near(&fit.confusion, &truth().1, 0.02);
    near(&fit.prior, &truth().0, 0.02);
}

#[test]
fn the_truth_leaves_no_squares() {
    let (prior, confusion) = truth();
    let fit = cpd(&(prior.clone(), confusion.clone()), 4);
    near(&fit.history, &vec![0.0; fit.history.len()], 1e-12);
    near(&fit.confusion, &confusion, 1e-6);
    near(&fit.prior, &prior, 1e-6);
}

#[test]
fn pairs_of_a_worker_with_nobody_or_oneself_are_refused() {
    assert!(check_pairs(3, &[0, 1, 2, 0]).is_ok() && check_pairs(3, &[]).is_ok());
    for bad in [&[0, 0][..], &[0, 3], &[3, 0], &[0]] {
        assert!(check_pairs(3, bad).is_err(), "{bad:?}");
    }
    let links = Adjacency::new(3, &[2, 0, 0, 1]).unwrap();
    let link = |partner, pair, first| Link { partner, pair, first };
    assert_eq!(links.of(0), [link(2, 0, false), link(1, 1, true)]);
    assert_eq!((links.of(1), links.of(2)), (&[link(0, 1, false)][..], &[link(0, 0, true)][..]));
    assert_eq!(links.n_workers(), 3);
}

#[test]
fn numbers_that_are_none_are_refused() {
    assert!(finite("x", &[0.0, -1.0]).is_ok() && not_negative("x", &[0.0, 1.0]).is_ok());
    assert!(finite("x", &[f64::INFINITY]).is_err() && not_negative("x", &[-1e-300]).is_err());
    assert!(not_negative("x", &[f64::NAN]).is_err() && not_negative("x", &[f64::INFINITY]).is_err());
    assert!(sized("x", 2, 2).is_ok() && sized("x", 2, 3).unwrap_err().to_string().contains("3 numbers, not 2"));
}
