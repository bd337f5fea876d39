use super::*;
use crate::categorical::table::tests::of_rows;
use proptest::prelude::*;

const OPTIONS: Options = Options { ordinal: false, worker_penalty: 4.0, task_penalty: 10.0, max_iter: 25, tol: 0.0 };

proptest! {
    #[test]
    fn the_objective_never_falls(
        rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120),
        ordinal in any::<bool>(), weighted in any::<bool>(), lax in any::<bool>(),
    ) {
        let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
        let table = of_rows(&rows, weighted.then_some(&weights[..]), [15, 6, 4]);
        let options = Options { ordinal, worker_penalty: if lax { 0.01 } else { 4.0 }, ..OPTIONS };
        let fit = minimax_fit(&table, &options, &Control::default()).unwrap();
        for pair in fit.history.windows(2) {
            prop_assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0), "{:?}", fit.history);
        }
        for row in fit.posterior.chunks_exact(4).chain(fit.confusion.chunks_exact(4)) {
            prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
        prop_assert!(fit.sigma.iter().chain(&fit.tau).all(|x| x.is_finite()));
    }
}

const ROWS: [(u32, u32, u16); 12] = [
    (0, 0, 0),
    (0, 1, 0),
    (0, 2, 1),
    (1, 0, 2),
    (1, 2, 2),
    (1, 1, 0),
    (2, 0, 1),
    (2, 1, 2),
    (2, 2, 1),
    (3, 0, 1),
    (3, 1, 1),
    (3, 2, 0),
];
const WEIGHTS: [f64; 12] = [1.0, 2.0, 0.5, 1.0, 1.5, 1.0, 3.0, 0.25, 1.0, 1.0, 2.0, 1.0];

/// The probability that a worker answers something of a task of some class.
fn said(sigma: &[f64], tau: &[f64], (task, worker, label): (u32, u32, u16), class: usize) -> f64 {
    let log = |l: usize| tau[task as usize * 9 + class * 3 + l] + sigma[worker as usize * 9 + class * 3 + l];
    log(usize::from(label)).exp() / (0..3).map(|l| log(l).exp()).sum::<f64>()
}

/// The log-likelihood of the labels, classes summed out, and the posteriors, written out.
fn by_hand(sigma: &[f64], tau: &[f64]) -> (f64, Vec<f64>) {
    let mut joint = vec![-(3_f64.ln()); 12];
    for (&row, weight) in ROWS.iter().zip(WEIGHTS) {
        (0..3).for_each(|class| joint[row.0 as usize * 3 + class] += weight * said(sigma, tau, row, class).ln());
    }
    (joint.chunks_exact_mut(3).map(softmax).sum(), joint)
}

fn charge(numbers: &[f64], penalty: f64) -> f64 {
    0.5 * penalty * numbers.iter().map(|x| x * x).sum::<f64>()
}

#[test]
fn the_objective_is_the_penalised_log_likelihood_and_at_its_summit() {
    let table = of_rows(&ROWS, Some(&WEIGHTS), [4, 3, 3]);
    let options = Options { worker_penalty: 0.7, task_penalty: 1.3, max_iter: 300, ..OPTIONS };
    let fit = minimax_fit(&table, &options, &Control::default()).unwrap();
    let value = |sigma: &[f64], tau: &[f64]| by_hand(sigma, tau).0 - charge(sigma, 0.7) - charge(tau, 1.3);
    let summit = value(&fit.sigma, &fit.tau);
    assert!((fit.history[fit.n_iter - 1] - summit).abs() < 1e-9);
    let posterior = by_hand(&fit.sigma, &fit.tau).1;
    assert!(fit.posterior.iter().zip(&posterior).all(|(a, b)| (a - b).abs() < 1e-9));
    for (i, step) in (0..63).flat_map(|i| [(i, -1e-4), (i, 1e-4)]) {
        let (mut sigma, mut tau) = (fit.sigma.clone(), fit.tau.clone());
        *sigma.iter_mut().chain(&mut tau).nth(i).unwrap() += step;
        assert!(value(&sigma, &tau) < summit + 1e-9, "number {i} can do better");
    }
    // Confusion matrices are averages over the labels a worker gave, class by class.
    for (w, class) in (0..9).map(|i| (i / 3, i % 3)) {
        let (mut sums, mut total) = ([0.0; 3], 0.0);
        for (&(task, worker, _), weight) in ROWS.iter().zip(WEIGHTS).filter(|((_, worker, _), _)| *worker as usize == w)
        {
            let mass = weight * posterior[task as usize * 3 + class];
            (0..3).for_each(|l| sums[l] += mass * said(&fit.sigma, &fit.tau, (task, worker, l as u16), class));
            total += mass;
        }
        (0..3).for_each(|l| assert!((fit.confusion[w * 9 + class * 3 + l] - sums[l] / total).abs() < 1e-9));
    }
}

#[test]
fn ordinal_matrices_are_sums_over_the_places_between_classes() {
    let table = of_rows(&ROWS, Some(&WEIGHTS), [4, 3, 3]);
    let options = Options { ordinal: true, max_iter: 100, ..OPTIONS };
    let fit = minimax_fit(&table, &options, &Control::default()).unwrap();
    for cell in fit.sigma.chunks_exact(9) {
        // Two labels differ by the place between them alone, which does not distinguish classes on the same side of it.
        let step = |class: usize, label: usize| cell[class * 3 + label] - cell[class * 3 + label + 1];
        assert!((step(1, 0) - step(2, 0)).abs() < 1e-9 && (step(0, 1) - step(1, 1)).abs() < 1e-9);
    }
    let log = by_hand(&fit.sigma, &fit.tau);
    assert!(fit.posterior.iter().zip(&log.1).all(|(a, b)| (a - b).abs() < 1e-9));
}

#[test]
fn tasks_alone_start_from_what_workers_say() {
    let table = of_rows(&ROWS, Some(&WEIGHTS), [4, 3, 3]);
    let sigma: Vec<f64> = (0..27).map(|i| f64::from(i * 5 % 7) / 3.0).collect();
    // Under so great a penalty tasks have no numbers of their own.
    let posterior = minimax_posterior(&table, &sigma, false, 1e12, &Control::default()).unwrap();
    assert!(posterior.iter().zip(by_hand(&sigma, &[0.0; 36]).1).all(|(a, b)| (a - b).abs() < 1e-9));
}

#[test]
fn ten_thousand_labels_on_a_task_do_not_underflow() {
    let rows: Vec<(u32, u32, u16)> = (0..20_000).map(|i| (i / 10_000, i % 6, (i % 3) as u16)).collect();
    let fit = minimax_fit(&of_rows(&rows, None, [2, 6, 3]), &OPTIONS, &Control::default()).unwrap();
    assert!(fit.posterior.iter().chain(&fit.sigma).chain(&fit.history).all(|x| x.is_finite()));
}

#[test]
fn bad_options_are_named() {
    let table = of_rows(&[(0, 0, 0)], None, [1, 1, 2]);
    let fails = |options: &Options| minimax_fit(&table, options, &Control::default()).unwrap_err().to_string();
    assert!(fails(&Options { worker_penalty: 0.0, ..OPTIONS }).contains("a penalty of 0 is not"));
    let wide = of_rows(&[(0, 0, 0)], None, [1, 1, 60_000]);
    let error = minimax_fit(&wide, &OPTIONS, &Control::default()).unwrap_err().to_string();
    assert!(error.contains("matrices of 60000 × 60000 classes"), "{error}");
    let error = minimax_posterior(&table, &[0.0], false, 1.0, &Control::default()).unwrap_err().to_string();
    assert!(error.contains("sigma must hold 4 finite numbers"));
}
