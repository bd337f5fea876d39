use super::*;
use crate::base::control::Control;
use crate::categorical::table::Table;
use crate::categorical::table::tests::of_rows;
use proptest::prelude::*;

/// Pairs of a small number of items, each with evidence.
fn graph() -> impl Strategy<Value = (usize, Vec<(u32, u32, i8)>)> {
    (2_usize..9).prop_flat_map(|n| {
        let pair = (0..n as u32, 1..n as u32, -4_i8..5);
        let pairs = prop::collection::vec(pair, 1..30);
        (
            Just(n),
            pairs.prop_map(move |pairs| pairs.into_iter().map(|(a, step, w)| (a, (a + step) % n as u32, w)).collect()),
        )
    })
}

fn worth_of(pairs: &[(u32, u32, i8)], clusters: &[u32]) -> f64 {
    let within = |&&(a, b, _): &&(u32, u32, i8)| clusters[a as usize] == clusters[b as usize];
    pairs.iter().filter(within).map(|&(_, _, weight)| f64::from(weight)).sum()
}

fn columns(pairs: &[(u32, u32, i8)]) -> (Vec<u32>, Vec<u32>, Vec<f64>) {
    let evidence = pairs.iter().map(|pair| f64::from(pair.2)).collect();
    (pairs.iter().map(|pair| pair.0).collect(), pairs.iter().map(|pair| pair.1).collect(), evidence)
}

proptest! {
    #[test]
    fn no_move_and_no_union_improves_the_end((n, pairs) in graph(), seed in any::<u64>()) {
        let (left, right, evidence) = columns(&pairs);
        let all = Pairs { left: &left, right: &right, n_items: n };
        let start: Vec<u32> = (0..n as u32).collect();
        let result = cluster_search(&all, &evidence, &start, None, seed, &Control::default()).unwrap();
        let worth = worth_of(&pairs, &result.clusters);
        prop_assert!((result.objective - worth).abs() < 1e-9);
        prop_assert!(worth >= 0.0);
        for item in 0..n {
            for to in 0..=n as u32 {
                let mut changed = result.clusters.clone();
                changed[item] = to;
                prop_assert!(worth_of(&pairs, &changed) <= worth + 1e-6);
            }
        }
        for a in 0..n as u32 {
            for b in 0..n as u32 {
                let union: Vec<u32> = result.clusters.iter().map(|&c| if c == a { b } else { c }).collect();
                prop_assert!(worth_of(&pairs, &union) <= worth + 1e-6);
            }
        }
    }

    #[test]
    fn shares_are_probabilities_of_near_clusters((n, pairs) in graph(), seed in any::<u64>()) {
        let (left, right, evidence) = columns(&pairs);
        let all = Pairs { left: &left, right: &right, n_items: n };
        let start: Vec<u32> = (0..n as u32).collect();
        let result = cluster_search(&all, &evidence, &start, Some(1.0), seed, &Control::default()).unwrap();
        let shares = cluster_shares(&all, &evidence, &result.clusters, &Control::default()).unwrap();
        for item in 0..n {
            let places = shares.offsets[item] as usize..shares.offsets[item + 1] as usize;
            let near = &shares.clusters[places.clone()];
            prop_assert!(near.windows(2).all(|pair| pair[0] < pair[1]) && near.contains(&result.clusters[item]));
            let total: f64 = shares.shares[places].iter().sum();
            let alone = result.clusters.iter().filter(|&&c| c == result.clusters[item]).count() == 1;
            let sound = if alone { (total - 1.0).abs() < 1e-9 } else { total < 1.0 + 1e-9 };
            prop_assert!(sound);
        }
    }
}

/// Two clusters of three items, all pairs asked of three workers, one of which gives the opposite.
fn crowd() -> (Table, Vec<u32>, Vec<u32>) {
    let (mut left, mut right, mut rows) = (vec![], vec![], vec![]);
    for a in 0..6_u32 {
        for b in a + 1..6 {
            let same = u16::from(a % 2 == b % 2);
            (0..3).for_each(|worker| rows.push((left.len() as u32, worker, if worker == 2 { 1 - same } else { same })));
            left.push(a);
            right.push(b);
        }
    }
    let sizes = [left.len(), 3, 2];
    (of_rows(&rows, None, sizes), left, right)
}

#[test]
fn memberships_find_the_clusters_and_the_liar() {
    let (table, left, right) = crowd();
    let pairs = Pairs { left: &left, right: &right, n_items: 6 };
    let start = [0.9, 0.1, 0.1, 0.9, 0.9, 0.1, 0.1, 0.9, 0.9, 0.1, 0.1, 0.9];
    let options =
        MembershipOptions { start: &start, n_clusters: 2, prior: [1.4, 0.6, 0.6, 1.4], max_iter: 50, tol: 1e-9 };
    let fit = membership_fit(&table, &pairs, &options, &Control::default()).unwrap();
    for item in 0..6 {
        assert!(fit.memberships[2 * item + item % 2] > 0.99, "{:?}", fit.memberships);
    }
    assert!(fit.counts[8] < fit.counts[9] && fit.counts[10] > fit.counts[11], "{:?}", fit.counts);
    assert!(fit.history.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9), "{:?}", fit.history);
    assert!(fit.converged);
}

#[test]
fn what_cannot_be_is_named() {
    let (table, left, right) = crowd();
    let control = Control::default();
    let message = |error: Error| error.to_string();
    let pairs = Pairs { left: &left, right: &right, n_items: 6 };
    assert!(message(pair_evidence(&table, &[0.0], &control).unwrap_err()).contains("1 numbers, not 6"));
    assert!(message(pair_counts(&table, &[f64::NAN; 15], &control).unwrap_err()).contains("NaN at place 0"));
    let itself = Pairs { left: &[1], right: &[1], n_items: 2 };
    assert!(
        message(cluster_search(&itself, &[0.0], &[0, 1], None, 0, &control).unwrap_err()).contains("joins 1 and 1")
    );
    let few = cluster_search(&pairs, &[0.0; 15], &[0; 5], None, 0, &control).unwrap_err();
    assert!(message(few).contains("a cluster below 6"));
    let none = cluster_search(&pairs, &[0.0; 15], &[0; 6], Some(0.0), 0, &control).unwrap_err();
    assert!(message(none).contains("concentration"));
    let options = MembershipOptions { start: &[0.5; 12], n_clusters: 2, prior: [1.0; 4], max_iter: 5, tol: 0.0 };
    let fit = |options: &MembershipOptions<'_>| message(membership_fit(&table, &pairs, options, &control).unwrap_err());
    assert!(fit(&MembershipOptions { start: &[0.6; 12], ..options }).contains("start of item 0"));
    assert!(fit(&MembershipOptions { prior: [0.0; 4], ..options }).contains("pseudo-counts"));
    assert!(fit(&MembershipOptions { n_clusters: 0, ..options }).contains("at least one cluster"));
}
