use super::*;
use crate::categorical::table::tests::{LOG as ROWS, LOG_WEIGHTS as WEIGHTS, of_rows};
use proptest::prelude::*;

/// Fifteen tasks, six workers, four classes.
fn table(rows: &[(u32, u32, u16)], weights: Option<&[f64]>) -> Table {
    of_rows(rows, weights, [15, 6, 4])
}

fn options(variational: bool) -> Options<'static> {
    let prior = if variational { 0.5 } else { 0.01 };
    Options {
        variational,
        competence: [prior; 2],
        strategy: 10.0 * prior,
        know: &[0.5; 6],
        strategies: &[0.25; 24],
        max_iter: 25,
        tol: 0.0,
    }
}

proptest! {
    #[test]
    fn the_objective_never_falls(
        rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120),
        variational in any::<bool>(), weighted in any::<bool>(),
    ) {
        let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
        let table = table(&rows, weighted.then_some(&weights[..]));
        let fit = mace_fit(&table, &options(variational), &Control::default()).unwrap();
        for pair in fit.history.windows(2) {
            prop_assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0), "{:?}", fit.history);
        }
        for row in fit.posterior.chunks_exact(4).chain(fit.strategies.chunks_exact(4)) {
            prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
        prop_assert!(fit.know.iter().all(|p| (0.0..=1.0).contains(p)));
    }
}

/// The log-likelihood and the pseudo-counts' share of it, and the posteriors, written out.
fn by_hand(weights: &[f64], know: &[f64], strategies: &[f64], options: &Options<'_>) -> (f64, Vec<f64>) {
    let mut joint = vec![0.25_f64.ln(); 60];
    for (&(task, worker, label), weight) in ROWS.iter().zip(weights) {
        let (w, l) = (worker as usize, usize::from(label));
        for class in 0..4 {
            let right = if class == l { know[w] } else { 0.0 };
            joint[task as usize * 4 + class] += weight * (right + (1.0 - know[w]) * strategies[w * 4 + l]).ln();
        }
    }
    let mut log: f64 = joint.chunks_exact_mut(4).map(softmax).sum();
    for (w, know) in know.iter().enumerate() {
        log += options.competence[0] * know.ln() + options.competence[1] * (1.0 - know).ln();
        log += strategies[w * 4..][..4].iter().map(|p| options.strategy * p.ln()).sum::<f64>();
    }
    (log, joint)
}

#[test]
fn the_objective_of_em_is_the_penalised_log_likelihood_and_at_its_summit() {
    for weights in [&[1.0; 14], &WEIGHTS] {
        let options = Options { competence: [0.3, 0.2], strategy: 0.5, max_iter: 3000, ..options(false) };
        let fit = mace_fit(&table(&ROWS, Some(weights)), &options, &Control::default()).unwrap();
        let (log, posterior) = by_hand(weights, &fit.know, &fit.strategies, &options);
        assert!((fit.history[fit.n_iter - 1] - log).abs() < 1e-9, "{} is not {log}", fit.history[fit.n_iter - 1]);
        assert!(fit.posterior.iter().zip(&posterior).all(|(a, b)| (a - b).abs() < 1e-9));
        for w in 0..6 {
            for step in [-1e-4, 1e-4] {
                let (mut know, mut strategies) = (fit.know.clone(), fit.strategies.clone());
                know[w] += step;
                assert!(by_hand(weights, &know, &fit.strategies, &options).0 < log + 1e-9);
                strategies[w * 4] += step;
                strategies[w * 4 + 1] -= step;
                assert!(by_hand(weights, &fit.know, &strategies, &options).0 < log + 1e-9);
            }
        }
    }
}

#[test]
fn weights_of_one_are_no_weights() {
    for variational in [false, true] {
        let fits = [None, Some(&[1.0; 14][..])]
            .map(|weights| mace_fit(&table(&ROWS, weights), &options(variational), &Control::default()).unwrap());
        let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near(&fits[0].posterior, &fits[1].posterior) && near(&fits[0].history, &fits[1].history));
        assert!(near(&fits[0].know, &fits[1].know) && near(&fits[0].strategies, &fits[1].strategies));
    }
}

#[test]
fn one_class_settles_at_once() {
    let table = of_rows(&[(0, 0, 0), (1, 0, 0), (1, 1, 0)], None, [2, 2, 1]);
    let options = Options {
        competence: [0.0; 2],
        strategy: 0.0,
        know: &[0.5; 2],
        strategies: &[1.0; 2],
        tol: 1e-6,
        max_iter: 1000,
        ..options(false)
    };
    let fit = mace_fit(&table, &options, &Control::default()).unwrap();
    assert!(fit.converged && fit.n_iter == 2, "{} passes", fit.n_iter);
}

#[test]
fn many_labels_on_a_task_do_not_underflow() {
    let rows: Vec<(u32, u32, u16)> = (0..20_000).map(|i| (i / 10_000, i % 6, (i % 3) as u16)).collect();
    for variational in [false, true] {
        let fit = mace_fit(&table(&rows, None), &options(variational), &Control::default()).unwrap();
        assert!(fit.posterior.iter().chain(&fit.know).chain(&fit.history).all(|x| x.is_finite()));
    }
}

#[test]
fn bad_options_are_named() {
    let table = table(&[(0, 0, 0)], None);
    let fails = |options: &Options<'_>| mace_fit(&table, options, &Control::default()).unwrap_err().to_string();
    assert!(fails(&Options { know: &[0.5], ..options(false) }).contains("know holds 1 numbers, not 6"));
    assert!(fails(&Options { know: &[2.0; 6], ..options(false) }).contains("not a probability"));
    assert!(fails(&Options { strategy: 0.0, ..options(true) }).contains("a prior of 0"));
}
