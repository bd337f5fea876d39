use super::*;
use proptest::prelude::*;

#[test]
fn of_equal_options_the_first_is_best() {
    assert_eq!(best(&[0.25, 0.5, 0.5], &[0.0; 3]), 1);
    assert_eq!(best(&[0.25, 0.5, 0.5], &[0.5, 0.25, 0.25]), 0);
}

/// The best total by trying every option for each case that is left.
fn greatest(scores: &[f64], k: usize, capacities: &Capacities, counts: &mut Vec<u64>) -> f64 {
    if scores.is_empty() {
        let feasible = counts.iter().zip(&capacities.lower).all(|(c, l)| c >= l);
        return if feasible { 0.0 } else { f64::NEG_INFINITY };
    }
    let mut most = f64::NEG_INFINITY;
    for a in 0..k {
        if counts[a] < capacities.upper[a] {
            counts[a] += 1;
            most = most.max(scores[a] + greatest(&scores[k..], k, capacities, counts));
            counts[a] -= 1;
        }
    }
    most
}

proptest! {
    #[test]
    fn no_assignment_is_better(
        n in 0_usize..7,
        k in 1_usize..4,
        numbers in prop::collection::vec(-4_i32..4, 18),
        lower in prop::collection::vec(0_u64..3, 3),
        more in prop::collection::vec(0_u64..5, 3),
    ) {
        // The lowest number stands for an option that is not allowed.
        let score = |x: &i32| if *x == -4 { f64::NEG_INFINITY } else { f64::from(*x) };
        let scores: Vec<f64> = numbers[..n * k].iter().map(score).collect();
        let upper: Vec<u64> = lower.iter().zip(&more).map(|(l, m)| l + m).collect();
        let Ok(capacities) = Capacities::new(&lower[..k], &upper[..k], n) else { return Ok(()) };
        let most = greatest(&scores, k, &capacities, &mut vec![0; k]);
        let total = assign(&scores, k, &capacities, &Control::default()).map_or(f64::NEG_INFINITY, |result| {
            result.option.iter().enumerate().map(|(i, &a)| scores[i * k + a as usize]).sum()
        });
        prop_assert_eq!(total, most);
    }
}

#[test]
fn capacities_are_no_more_than_there_are_cases() {
    let capacities = Capacities::new(&[0, 1], &[u64::MAX, u64::MAX], 5).unwrap();
    assert_eq!((&capacities.lower, &capacities.upper), (&vec![0, 1], &vec![5, 5]));
    // In proportion, rounded so that a sample can keep them.
    let scaled = Capacities::new(&[3, 1], &[4, 9], 10).unwrap().scaled(10, 3);
    assert_eq!((scaled.lower, scaled.upper), (vec![0, 0], vec![2, 3]));
    for (lower, upper) in
        [(&[2_u64, 4][..], &[5_u64, 5][..]), (&[0, 0], &[2, 2]), (&[3], &[2]), (&[], &[]), (&[0], &[5, 5])]
    {
        assert!(Capacities::new(lower, upper, 5).is_err(), "{lower:?} and {upper:?}");
    }
}

#[test]
fn great_scores_are_weighed_and_greater_ones_refused() {
    let capacities = Capacities::new(&[1, 0], &[1, 2], 2).unwrap();
    let run = |scores: &[f64]| assign(scores, 2, &capacities, &Control::default());
    // The second case loses less by the first option.
    assert_eq!(run(&[-1e300, 1e300, 0.0, 1e300]).unwrap().option, [1, 0]);
    for bad in [1e308, -1e308, f64::INFINITY, f64::NAN] {
        let error = run(&[0.0, 0.0, bad, 0.0]).unwrap_err().to_string();
        assert!(error.contains("in row 1; use numbers between"), "{error}");
    }
}

#[test]
fn offsets_make_every_choice_a_best_one() {
    // More cases than are solved from nothing, so that offsets of a sample come first.
    let n = SMALL + 100;
    let scores: Vec<f64> = (0..3 * n).map(|i| ((i * 7919) % 1009) as f64 / 100.0).collect();
    let capacities = Capacities::new(&[1000, 0, 100], &[1200, 600, n as u64], n).unwrap();
    let Assigned { option, offsets } = assign(&scores, 3, &capacities, &Control::default()).unwrap();
    let counts = [0, 1, 2].map(|a| option.iter().filter(|option| **option == a).count() as u64);
    assert!((0..3).all(|a| (capacities.lower[a]..=capacities.upper[a]).contains(&counts[a])), "{counts:?}");
    for (row, &a) in scores.chunks(3).zip(&option) {
        let with = |a: usize| row[a] + offsets[a];
        assert!((0..3).all(|b| with(b) <= with(a as usize) + 1e-9));
    }
    for a in 0..3 {
        assert!(offsets[a] <= 1e-9 || counts[a] == capacities.lower[a], "{offsets:?}, {counts:?}");
        assert!(offsets[a] >= -1e-9 || counts[a] == capacities.upper[a], "{offsets:?}, {counts:?}");
    }
}

#[test]
fn moves_that_were_left_out_are_found_again() {
    // All cases prefer the first option, so that far more must move than the lists hold.
    let n = 2000;
    let scores: Vec<f64> = (0..n).flat_map(|i| [f64::from(i), 0.0, -f64::from(i % 7)]).collect();
    let capacities = Capacities::new(&[0, 0, 500], &[100, 2000, 2000], n as usize).unwrap();
    let result = assign(&scores, 3, &capacities, &Control::default()).unwrap();
    let count = |a: u32| result.option.iter().filter(|option| **option == a).count();
    assert_eq!([count(0), count(1), count(2)], [100, 1400, 500]);
    assert!((1900..2000).all(|row| result.option[row] == 0));
}
