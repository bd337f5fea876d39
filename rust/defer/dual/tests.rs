use super::*;

#[test]
fn bounds_are_tightened_by_what_the_others_leave() {
    let bounds = Bounds::new(&[0.5, 0.2, 0.0], &[0.9, 1.0, 0.1]).unwrap();
    // At most what the others need at least leaves, and at least what they cannot take.
    assert_eq!(bounds.lower, [0.5, 0.2, 0.0]);
    assert!((bounds.upper[0] - 0.8).abs() < 1e-12 && (bounds.upper[1] - 0.5).abs() < 1e-12);
    assert!((bounds.upper[2] - 0.1).abs() < 1e-12);
    let bounds = Bounds::new(&[0.0, 0.0], &[0.3, 1.0]).unwrap();
    assert!((bounds.lower[1] - 0.7).abs() < 1e-12);
    let fixed = Bounds::new(&[0.25, 0.75], &[0.25, 1.0]).unwrap();
    assert!(fixed.fixed(0) && fixed.fixed(1));
    for (lower, upper) in [(&[0.6, 0.6][..], &[1.0, 1.0][..]), (&[0.0, 0.0], &[0.4, 0.4]), (&[0.5], &[0.4]), (&[], &[])]
    {
        assert!(Bounds::new(lower, upper).is_err(), "{lower:?} and {upper:?}");
    }
    assert!(Bounds::new(&[-0.1, 0.0], &[1.0, 1.0]).is_err() && Bounds::new(&[0.0], &[1.5]).is_err());
}

#[test]
fn penalties_are_bounds_times_tilts_and_shut_options_cost_nothing() {
    let bounds = Bounds::new(&[0.2, 0.1, 0.0], &[0.6, 0.7, 0.0]).unwrap();
    assert_eq!(bounds.start(), [0.0, 0.0, f64::NEG_INFINITY]);
    assert_eq!(bounds.penalty(&bounds.start()), 0.0);
    // Tilted up it must meet the lower bound, tilted down the upper one.
    let (low, high) = (bounds.lower[0], bounds.upper[1]);
    assert!((bounds.penalty(&[2.0, -3.0, f64::NEG_INFINITY]) - (-2.0 * low + 3.0 * high)).abs() < 1e-12);
    assert_eq!((bounds.miss(0, 0.0, 0.5), bounds.miss(0, 1.0, 0.5)), (0.0, 0.5 - low));
    assert!(bounds.miss(0, 0.0, 0.1) < 0.0 && bounds.miss(1, -1.0, 0.9) > 0.0);
}

#[test]
fn tilts_are_centred_where_the_bounds_are_kept() {
    // Both must have half: tilts of opposite sign would say that one has too little and the other too much.
    let mut tilt = [2.0, 4.0];
    centre(&mut tilt, &[0.0, 0.0], &[0.5, 1.0]);
    assert_eq!(tilt[1] - tilt[0], 2.0);
    assert!(tilt[0] <= 0.0 && tilt[1] >= 0.0, "{tilt:?}");
    let mut solution = [-1.0, 0.0];
    centre(&mut solution, &[0.0, 0.0], &[0.5, 1.0]);
    assert_eq!(solution, [-1.0, 0.0]);
}
