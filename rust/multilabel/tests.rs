//! What must hold of fits of sets, and what is rejected.

use super::*;

/// Two candidates of one label each; three workers, of which the first two say both and the third neither.
fn design() -> (Vec<u32>, Vec<u32>) {
    // Pair = worker · 2 + label, candidate = label; twice that, and one more for a yes.
    let rows = vec![1, 5, 8, 3, 7, 10];
    (vec![0, 3, 6], rows)
}

fn whole<'a>(parts: &'a (Vec<u32>, Vec<u32>), spare: &'a [f64]) -> Design<'a> {
    Design {
        starts: &parts.0,
        rows: &parts.1,
        task_starts: &[0, 1, 2, 2, 2, 2],
        labels: &[0, 1],
        pair_workers: &[0, 0, 1, 1, 2, 2],
        pair_labels: &[0, 1, 0, 1, 0, 1],
        spare,
        sizes: [5, 3, 2],
    }
}

#[test]
fn what_two_of_three_say_and_nobody_says_elsewhere_is_true() {
    let (parts, spare) = (design(), [4.0; 6]);
    let fit = relevance_fit(&whole(&parts, &spare), &[], 50, 1e-9, &Control::default()).unwrap();
    assert!(fit.posterior.iter().all(|q| *q > 0.9), "{:?}", fit.posterior);
    assert!((fit.posterior[0] - fit.posterior[1]).abs() < 1e-9);
    let [hits, alarms] = &fit.rates;
    assert!(hits.rates[0] > hits.rates[4] && alarms.rates.iter().all(|p| *p < 0.5));
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let (parts, control) = (design(), Control::default());
    let sound = whole(&parts, &[4.0; 6]);
    let wrong = [
        Design { labels: &[0, 2], ..sound },
        Design { spare: &[4.0; 5], ..sound },
        Design { spare: &[f64::NAN; 6], ..sound },
        Design { starts: &[0, 3, 5], ..sound },
        Design { sizes: [0, 3, 2], ..sound },
        Design { task_starts: &[0, 1, 2], ..sound },
    ];
    for design in wrong {
        assert!(matches!(relevance_fit(&design, &[], 1, 0.0, &control), Err(Error::Invalid(_))));
    }
}

#[test]
fn a_cancelled_fit_stops() {
    let (parts, control) = (design(), Control::default());
    control.cancel();
    let stopped = relevance_fit(&whole(&parts, &[0.0; 6]), &[], 9, 0.0, &control);
    assert_eq!(stopped.unwrap_err(), Error::Cancelled);
}

#[test]
fn one_pattern_given_is_as_many_as_none() {
    let (parts, spare) = (design(), [4.0; 6]);
    let fit = |start: &[f64]| relevance_fit(&whole(&parts, &spare), start, 80, 0.0, &Control::default()).unwrap();
    // Of five tasks each label is answered of one, by two of three workers.
    let (plain, same) = (fit(&[]), fit(&[(2.0 / 3.0 + 0.5) / 6.0; 2]));
    assert!(plain.posterior.iter().zip(&same.posterior).all(|(a, b)| (a - b).abs() < 1e-9));
    // Two that begin alike stay alike, and differ from one by their pseudo-counts.
    let two = fit(&[0.3, 0.3, 0.3, 0.3]);
    assert!((two.patterns.shares[0] - 0.5).abs() < 1e-12);
    assert!(two.patterns.rates[..2].iter().zip(&two.patterns.rates[2..]).all(|(a, b)| (a - b).abs() < 1e-12));
    for odd in [&[0.5][..], &[0.5, f64::NAN], &[0.5, 1.5]] {
        let result = relevance_fit(&whole(&parts, &spare), odd, 1, 0.0, &Control::default());
        assert!(matches!(result, Err(Error::Invalid(_))));
    }
}
