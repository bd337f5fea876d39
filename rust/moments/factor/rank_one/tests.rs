use super::*;
use proptest::prelude::*;

const OPTIONS: Options = Options { max_iter: 500, tol: 1e-12 };

fn all_pairs(n: u32) -> Vec<u32> {
    (0..n).flat_map(|i| (i + 1..n).flat_map(move |j| [i, j])).collect()
}

fn products(pairs: &[u32], skills: &[f64]) -> Vec<f64> {
    pairs.chunks_exact(2).map(|p| skills[p[0] as usize] * skills[p[1] as usize]).collect()
}

fn assert_near(got: &[f64], wanted: &[f64], tolerance: f64) {
    for (a, b) in got.iter().zip(wanted) {
        assert!((a - b).abs() < tolerance, "{got:?} against {wanted:?}");
    }
}

#[test]
fn exact_products_give_the_skills() {
    let skills = [0.9, 0.7, 0.2, -0.5, 0.4];
    let pairs = all_pairs(5);
    let values = products(&pairs, &skills);
    let weights: Vec<f64> = (0..values.len()).map(|i| 1.0 + i as f64).collect();
    let links = Links::new(5, &pairs, &values, &weights).unwrap();
    let control = Control::default();
    assert_near(&spectral(&links, &OPTIONS, &control).unwrap().vector, &skills, 1e-9);
    assert_near(&gradient(&links, &OPTIONS, &control).unwrap().vector, &skills, 1e-9);
    assert_near(&msr(&links, &[1; 5], &OPTIONS, &control).unwrap().vector, &skills, 1e-9);
    let even = Links::new(5, &pairs, &values, &[2.0; 10]).unwrap();
    assert_near(&ratio(&even, &[0; 5], &OPTIONS, &control).unwrap().vector, &skills, 1e-9);
}

#[test]
fn a_sign_follows_the_greater_part_of_the_pull() {
    // Six agree with each other; the last disagrees with four of them and agrees with two.
    let pairs = all_pairs(7);
    let opposed = |p: &[u32]| p[1] == 6 && p[0] < 4;
    let values: Vec<f64> = pairs.chunks_exact(2).map(|p| if opposed(p) { -0.5 } else { 0.5 }).collect();
    let links = Links::new(7, &pairs, &values, &[1.0; 21]).unwrap();
    let sides = signs(&links, &[0.7; 7], &Control::default()).unwrap();
    assert_eq!(sides, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0]);
}

#[test]
fn workers_without_pairs_are_zero() {
    let links = Links::new(4, &[0, 1, 0, 2, 1, 2], &[0.25; 3], &[1.0; 3]).unwrap();
    let control = Control::default();
    for fit in [
        spectral(&links, &OPTIONS, &control).unwrap(),
        gradient(&links, &OPTIONS, &control).unwrap(),
        msr(&links, &[0; 4], &OPTIONS, &control).unwrap(),
        ratio(&links, &[0, 0, 0, 1], &OPTIONS, &control).unwrap(),
    ] {
        assert_near(&fit.vector, &[0.5, 0.5, 0.5, 0.0], 1e-6);
        assert!(fit.converged);
    }
}

#[test]
fn nothing_at_all_is_an_answer() {
    let links = Links::new(2, &[], &[], &[]).unwrap();
    let control = Control::default();
    assert_eq!(spectral(&links, &OPTIONS, &control).unwrap().vector, [0.0, 0.0]);
    assert_eq!(msr(&links, &[0; 2], &OPTIONS, &control).unwrap().vector, [0.0, 0.0]);
    assert_eq!(ratio(&links, &[0, 1], &OPTIONS, &control).unwrap().vector, [0.0, 0.0]);
}

#[test]
fn what_cannot_be_used_is_refused() {
    assert!(Links::new(2, &[0, 1], &[f64::NAN], &[1.0]).is_err());
    assert!(Links::new(2, &[0, 1], &[0.0], &[-1.0]).is_err());
    assert!(Links::new(2, &[0, 1], &[0.0, 1.0], &[1.0]).is_err());
    assert!(Links::new(2, &[0, 2], &[0.0], &[1.0]).is_err());
    let links = Links::new(2, &[0, 1], &[0.5], &[1.0]).unwrap();
    assert!(msr(&links, &[0], &OPTIONS, &Control::default()).is_err());
    assert!(ratio(&links, &[0], &OPTIONS, &Control::default()).is_err());
}

#[test]
fn reduced_means_drop_what_is_far_on_either_side() {
    let ratios = || vec![(9.0, 1.0), (1.0, 1.0), (2.0, 1.0), (4.0, 3.0), (0.0, 1.0)];
    assert_eq!(reduced_mean(&mut ratios(), 2.0, 0), Some(24.0 / 7.0));
    assert_eq!(reduced_mean(&mut ratios(), 2.0, 1), Some(3.0));
    assert_eq!(reduced_mean(&mut ratios(), 2.0, 5), Some(2.0));
    assert_eq!(reduced_mean(&mut ratios(), 3.0, 5), None);
    assert_eq!(reduced_mean(&mut [], 3.0, 0), None);
}

#[test]
fn graphs_know_their_parts_and_odd_cycles() {
    let (component, odd) = graph(6, &[0, 2, 1, 3, 3, 5, 1, 5], &Control::default()).unwrap();
    assert_eq!(component, [0, 1, 0, 1, 2, 1]);
    assert_eq!(odd, [false, true, false, true, false, true]);
}

proptest! {
    #[test]
    fn the_objective_never_rises(
        values in prop::collection::vec(-1.0_f64..1.0, 15),
        weights in prop::collection::vec(0.0_f64..5.0, 15),
    ) {
        let links = Links::new(6, &all_pairs(6), &values, &weights).unwrap();
        let options = Options { max_iter: 40, tol: 0.0 };
        for fit in [
            spectral(&links, &options, &Control::default()).unwrap(),
            gradient(&links, &options, &Control::default()).unwrap(),
        ] {
            prop_assert!(fit.history.windows(2).all(|w| w[1] >= w[0] - 2.0 * SLACK));
            prop_assert!(fit.vector.iter().all(|x| x.is_finite()));
        }
    }
}

#[test]
fn no_order_of_workers_decides_what_is_balanced() {
    // Two sides that mirror each other: which is the skilled one is not determined.
    let (pairs, values) = ([0, 1, 0, 2, 0, 3, 1, 2, 1, 3, 2, 3], [-1.0, 1.0, -1.0, -1.0, 1.0, 0.1]);
    let weights = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0];
    let options = Options { max_iter: 2000, tol: 0.0 };
    let control = Control::default();
    let fits = |pairs: &[u32]| {
        let links = Links::new(4, pairs, &values, &weights).unwrap();
        [
            spectral(&links, &options, &control).unwrap().vector,
            gradient(&links, &options, &control).unwrap().vector,
            ratio(&links, &[0; 4], &options, &control).unwrap().vector,
            msr(&links, &[0; 4], &options, &control).unwrap().vector,
        ]
    };
    let usual = fits(&pairs);
    for order in [[3, 1, 2, 0], [1, 0, 3, 2], [2, 3, 0, 1], [1, 2, 3, 0], [0, 2, 3, 1]] {
        let reordered = fits(&pairs.map(|worker: u32| order[worker as usize]));
        for (usual, moved) in usual.iter().zip(&reordered) {
            let back: Vec<f64> = order.iter().map(|&to| moved[to as usize]).collect();
            assert_eq!(*usual, back, "{order:?}");
        }
    }
}
