use super::*;

/// Seven rows of five options, from numbers without any order; every third is zero in the second option.
fn values() -> Vec<f64> {
    let row = |i: usize| -> Vec<f64> {
        let row: Vec<f64> = (0..5)
            .map(|j| if i.is_multiple_of(3) && j == 1 { 0.0 } else { 1.0 + ((i * 7 + j * 3) % 11) as f64 })
            .collect();
        let total: f64 = row.iter().sum();
        row.iter().map(|x| x / total).collect()
    };
    (0..7).flat_map(row).collect()
}

const TILT: [f64; 5] = [0.5, -1.0, 0.25, 3.0, -0.75];
const WEIGHTS: [f64; 7] = [1.0, 0.5, 2.0, 0.0, 3.0, 1.5, 1.0];

fn near(got: &[f64], wanted: &[f64]) {
    assert_eq!(got.len(), wanted.len());
    for (a, b) in got.iter().zip(wanted) {
        assert!((a - b).abs() < 1e-12, "{a}, not {b}");
    }
}

/// A row times the exponentials of the tilts, as a distribution, and the logarithm of what it was divided by.
fn tilted(row: &[f64], tilt: &[f64]) -> (Vec<f64>, f64) {
    let raw: Vec<f64> = row.iter().zip(tilt).map(|(q, t)| q * t.exp()).collect();
    let total: f64 = raw.iter().sum();
    (raw.iter().map(|x| x / total).collect(), total.ln())
}

#[test]
fn sums_are_sums_over_tilted_rows() {
    let (values, control) = (values(), Control::default());
    for weights in [None, Some(&WEIGHTS[..])] {
        let rows = Rows::new(&values, 5, weights, 0, &control).unwrap();
        let mut expected = Sums { shares: vec![0.0; 5], second: vec![0.0; 25], ..Sums::default() };
        for (i, row) in values.chunks(5).enumerate() {
            let (p, log) = tilted(row, &TILT);
            let weight = weights.map_or(1.0, |w| w[i]);
            expected.weight += weight;
            expected.log += weight * log;
            (0..5).for_each(|a| expected.shares[a] += weight * p[a]);
            (0..25).for_each(|at| expected.second[at] += weight * p[at / 5] * p[at % 5]);
        }
        let result = sums(&rows, &TILT, true, &control).unwrap();
        near(&[result.weight, result.log], &[expected.weight, expected.log]);
        near(&result.shares, &expected.shares);
        near(&result.second, &expected.second);
        assert!(sums(&rows, &TILT, false, &control).unwrap().second.is_empty());
    }
    assert_eq!(Rows::new(&values, 5, None, 0, &control).map(|rows| (rows.len(), rows.options())), Ok((7, 5)));
}

#[test]
fn many_rows_are_summed_as_few_are() {
    let (few, control) = (values(), Control::default());
    let many = few.repeat(3000);
    let [one, all] = [&few, &many].map(|values| {
        let rows = Rows::new(values, 5, None, 0, &control).unwrap();
        sums(&rows, &TILT, true, &control).unwrap()
    });
    assert!((all.weight - 3000.0 * one.weight).abs() < 1e-6 && (all.log - 3000.0 * one.log).abs() < 1e-6);
    for (a, b) in all.shares.iter().chain(&all.second).zip(one.shares.iter().chain(&one.second)) {
        assert!((a - 3000.0 * b).abs() < 1e-6, "{a}, not {b} 3000 times");
    }
}

#[test]
fn tilts_beyond_the_range_of_a_double_keep_their_logarithms() {
    let (values, control) = ([0.0, 1.0, 0.5, 0.5, 0.0, 1.0], Control::default());
    let rows = Rows::new(&values, 2, None, 0, &control).unwrap();
    // exp(-900) is nothing next to 1, yet two rows have nothing else.
    let tilt = [900.0, 3.0];
    let result = sums(&rows, &tilt, false, &control).unwrap();
    assert!((result.log - (3.0 + 900.0 + 0.5_f64.ln() + 3.0)).abs() < 1e-9, "{}", result.log);
    near(&result.shares, &[1.0, 2.0]);
    near(&apply(&rows, &tilt, &control).unwrap(), &[0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn rows_of_which_nothing_is_left_are_named() {
    let (values, control) = ([0.5, 0.5, 1.0, 0.0], Control::default());
    let rows = Rows::new(&values, 2, None, 40, &control).unwrap();
    let shut = [f64::NEG_INFINITY, 0.0];
    for error in [sums(&rows, &shut, false, &control).unwrap_err(), apply(&rows, &shut, &control).unwrap_err()] {
        assert!(error.to_string().starts_with("row 41 of the probabilities gives all of it"), "{error}");
    }
    // By their place among all rows, in whatever block of them.
    let many = [[0.5, 0.5].repeat(2 * ROWS_PER_CHECK + 7), vec![1.0, 0.0]].concat();
    let rows = Rows::new(&many, 2, None, 40, &control).unwrap();
    let row = 40 + 2 * ROWS_PER_CHECK + 7;
    for error in [sums(&rows, &shut, false, &control).unwrap_err(), apply(&rows, &shut, &control).unwrap_err()] {
        assert!(error.to_string().starts_with(&format!("row {row} of the probabilities")), "{error}");
    }
    for bad in [&[0.0][..], &[f64::NAN, 0.0], &[f64::NEG_INFINITY; 2], &[f64::INFINITY, 0.0]] {
        assert!(sums(&rows, bad, false, &control).is_err(), "{bad:?}");
    }
}

#[test]
fn reach_counts_rows_at_their_first_option() {
    let (values, control) = (values(), Control::default());
    let rows = Rows::new(&values, 5, Some(&WEIGHTS), 0, &control).unwrap();
    // Rows 0, 3 and 6 have no second option.
    near(&reach(&rows, &[1, 0, 2, 3, 4], &control).unwrap(), &[7.0, 2.0, 0.0, 0.0, 0.0]);
    assert!(reach(&rows, &[0, 1], &control).is_err() && reach(&rows, &[0, 1, 2, 3, 5], &control).is_err());
}

#[test]
fn samples_are_every_so_manieth_row() {
    let (values, control) = (values(), Control::default());
    let rows = Rows::new(&values, 5, Some(&WEIGHTS), 0, &control).unwrap();
    let (sample, weights) = rows.sample(3);
    assert_eq!(sample, [&values[..5], &values[10..15], &values[20..25], &values[30..]].concat());
    assert_eq!(weights.unwrap(), [1.0, 2.0, 3.0, 1.0]);
}

#[test]
fn whoever_cancels_is_heard() {
    let (values, control) = (values(), Control::default());
    let rows = Rows::new(&values, 5, None, 0, &control).unwrap();
    control.cancel();
    assert_eq!(reach(&rows, &[0, 1, 2, 3, 4], &control), Err(Error::Cancelled));
    assert_eq!(sums(&rows, &TILT, false, &control), Err(Error::Cancelled));
    assert_eq!(apply(&rows, &TILT, &control), Err(Error::Cancelled));
    assert!(matches!(Rows::new(&values, 5, None, 0, &control), Err(Error::Cancelled)));
}
