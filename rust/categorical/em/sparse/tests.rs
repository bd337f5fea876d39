use super::*;
use crate::categorical::em;
use crate::categorical::table::tests::of_rows;
use proptest::prelude::*;

/// The posterior in full, (tasks × classes).
fn dense(fit: &Fit, k: usize) -> Vec<f64> {
    let mut out = vec![];
    for (task, rest) in fit.rest.iter().enumerate() {
        let range = fit.offsets[task] as usize..fit.offsets[task + 1] as usize;
        let mut row = fit.prior.clone();
        fit.classes[range.clone()].iter().for_each(|c| row[usize::from(*c)] = 0.0);
        let left: f64 = row.iter().sum();
        row.iter_mut().for_each(|p| *p *= if left > 0.0 { rest / left } else { 0.0 });
        fit.classes[range.clone()].iter().zip(&fit.probabilities[range]).for_each(|(c, q)| row[usize::from(*c)] = *q);
        assert_eq!(row.len(), k);
        out.extend(row);
    }
    out
}

proptest! {
    #[test]
    fn takes_the_steps_of_the_dense_model(
        rows in prop::collection::vec((0_u32..12, 0_u32..5, 0_u16..6), 1..80),
        majority in any::<bool>(), weighted in any::<bool>(), k in prop::sample::select(vec![6_usize, 100]),
        pseudo in prop::sample::select(vec![0.0, 0.5]),
    ) {
        let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
        let table = of_rows(&rows, weighted.then_some(&weights[..]), [12, 5, k]);
        let start = if majority { Start::Majority } else { Start::Shares };
        let options = Options { start, pseudo: [2.0, 1.0], class_pseudo: pseudo, max_iter: 7, tol: 0.0 };
        let result = fit(&table, &options, &Control::default()).unwrap();
        // One-coin ties a whole matrix of pseudo-counts to two.
        let mut matrix = vec![1.0 / (k * (k - 1)) as f64; k * k];
        (0..k).for_each(|class| matrix[class * k + class] = 2.0 / k as f64);
        let expected = em::fit(&table, &em::Options {
            model: em::Model::OneCoin,
            assignment: em::Assignment::Soft,
            start: if majority { em::Start::Majority } else { em::Start::Shares },
            pseudo: &matrix,
            class_pseudo: &vec![pseudo; k],
            gold: None,
            accelerate: false,
            max_iter: 7,
            tol: 0.0,
        }, &Control::default()).unwrap();
        for (a, b) in dense(&result, k).iter().zip(&expected.posterior) {
            prop_assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
        for (a, b) in result.history.iter().zip(&expected.history) {
            prop_assert!((a - b).abs() < 1e-8 * b.abs().max(1.0), "{a} {b}");
        }
        prop_assert!(result.prior.iter().zip(&expected.prior).all(|(a, b)| (a - b).abs() < 1e-10));
    }
}
