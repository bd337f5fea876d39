use super::*;
use crate::base::control::Control;

const TASKS: Tasks<'static> = Tasks(&[0, 3, 6]);

fn words(measure: Measure, words: &[&[u32]]) -> f64 {
    let mut starts = vec![0];
    words.iter().for_each(|word| starts.push(starts[starts.len() - 1] + word.len() as u32));
    let codes = words.concat();
    word_distances(Tasks(&[0, 2]), &starts, &codes, measure, &Control::default()).unwrap()[1]
}

#[test]
fn distances_are_what_they_are_called() {
    assert_eq!(words(Measure::Hamming, &[&[1], &[1]]), 0.0);
    assert_eq!(words(Measure::Hamming, &[&[1], &[2]]), 1.0);
    assert_eq!(words(Measure::Jaccard, &[&[1, 2, 3], &[2, 3, 4]]), 0.5);
    assert_eq!(words(Measure::Jaccard, &[&[], &[]]), 0.0);
    assert_eq!(words(Measure::Kendall, &[&[1, 2, 3], &[3, 2, 1]]), 1.0);
    assert_eq!(words(Measure::Kendall, &[&[1, 2, 3, 9], &[2, 1, 3]]), 1.0 / 3.0);
    assert_eq!(words(Measure::Kendall, &[&[1], &[2]]), 0.5);
    assert_eq!(words(Measure::Levenshtein, &[&[1, 2, 3], &[1, 3]]), 1.0 / 3.0);
    assert_eq!(words(Measure::Levenshtein, &[&[], &[1, 3]]), 1.0);
    let values = [0.0, 0.0, 3.0, 4.0];
    let points = |measure| value_distances(Tasks(&[0, 2]), &values, 2, measure, &Control::default()).unwrap();
    assert_eq!(points(Measure::Absolute), [0.0, 7.0, 7.0, 0.0]);
    assert_eq!(points(Measure::Squared), [0.0, 25.0, 25.0, 0.0]);
}

fn scheme(answering: Answering<'_>, norm: Norm) -> Scheme<'_> {
    let workers = &[0, 1, 2, 0, 1, 2];
    Scheme {
        tasks: TASKS,
        workers,
        n_workers: 3,
        counts: None,
        answering,
        norm,
        strength: 1.0,
        max_iter: 50,
        tol: 1e-12,
    }
}

#[test]
fn who_is_far_off_counts_for_little() {
    let values = [1.0, 1.2, 9.0, 5.0, 5.1, -4.0];
    let control = Control::default();
    let distances = value_distances(TASKS, &values, 1, Measure::Squared, &control).unwrap();
    let medoid = Answering::Medoid { distances: &distances, rank: &[0, 1, 2, 0, 1, 2] };
    for answering in [medoid, Answering::Mean { values: &values, dims: 1 }] {
        for norm in [Norm::Log, Norm::Power(1.0), Norm::Power(0.5)] {
            let fit = scheme_fit(&scheme(answering, norm), &control).unwrap();
            assert!(fit.weights[2] < fit.weights[0].min(fit.weights[1]), "{:?}", fit.weights);
            assert!(fit.history.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12)), "{:?}", fit.history);
            assert!(fit.converged && fit.spread.iter().all(|x| x.is_finite()));
        }
    }
}

#[test]
fn everybody_agrees() {
    let answering = Answering::Medoid { distances: &[0.0; 18], rank: &[0; 6] };
    let fit = scheme_fit(&scheme(answering, Norm::Log), &Control::default()).unwrap();
    assert_eq!((fit.weights, fit.tied), (vec![1.0; 3], vec![false; 2]));
}

#[test]
fn ties_go_by_rank_and_are_told() {
    let block = [0.0, 1.0, 1.0, 0.0];
    let workers = &[0, 1];
    let choose = |rank: &[u32]| {
        let answering = Answering::Medoid { distances: &block, rank };
        let scheme = Scheme { tasks: Tasks(&[0, 2]), workers, n_workers: 2, ..scheme(answering, Norm::Power(1.0)) };
        let fit = scheme_fit(&scheme, &Control::default()).unwrap();
        (fit.rows[0], fit.tied[0])
    };
    assert_eq!(choose(&[0, 1]), (0, true));
    assert_eq!(choose(&[1, 0]), (1, true));
}

#[test]
fn what_cannot_be_is_named() {
    let control = Control::default();
    let message = |scheme: &Scheme<'_>| scheme_fit(scheme, &control).unwrap_err().to_string();
    let mut distances = [0.0; 18];
    distances[4] = f64::NAN;
    let bad = scheme(Answering::Medoid { distances: &distances, rank: &[0; 6] }, Norm::Log);
    assert!(message(&bad).contains("NaN at place 4"));
    let good = scheme(Answering::Medoid { distances: &[0.0; 18], rank: &[0; 6] }, Norm::Log);
    assert!(message(&Scheme { n_workers: 2, ..good }).contains("not below 2"));
    assert!(message(&Scheme { tasks: Tasks(&[0, 3, 5]), ..good }).contains("do not cut"));
    assert!(message(&Scheme { norm: Norm::Power(2.0), ..good }).contains("power"));
    assert!(message(&Scheme { tasks: Tasks(&[0, 6, 6]), ..good }).contains("without answers"));
    let mean = scheme(Answering::Mean { values: &[f64::INFINITY; 6], dims: 1 }, Norm::Log);
    assert!(message(&mean).contains("finite"));
}
