use super::*;
use crate::categorical::table::{Repeats, Rows};
use proptest::prelude::*;

fn models() -> Vec<Model> {
    Model::NAMES.iter().map(|&(_, model)| model).collect()
}

fn table(rows: &[(u32, u32, u16)], weights: Option<&[f64]>, k: usize) -> Table {
    let tasks: Vec<u32> = rows.iter().map(|r| r.0).collect();
    let workers: Vec<u32> = rows.iter().map(|r| r.1).collect();
    let labels: Vec<u16> = rows.iter().map(|r| r.2).collect();
    let rows = Rows {
        tasks: &tasks,
        workers: &workers,
        labels: &labels,
        weights,
        n_tasks: 1 + *tasks.iter().max().unwrap() as usize,
        n_workers: 1 + *workers.iter().max().unwrap() as usize,
        n_labels: k,
    };
    Table::new(&rows, Repeats::Keep, &Control::default()).unwrap()
}

fn options<'a>(model: Model, pseudo: &'a [f64], class_pseudo: &'a [f64]) -> Options<'a> {
    Options {
        model,
        assignment: Assignment::Soft,
        start: Start::Shares,
        pseudo,
        class_pseudo,
        gold: None,
        accelerate: false,
        max_iter: 30,
        tol: 0.0,
    }
}

fn never_falls(history: &[f64]) -> bool {
    history.windows(2).all(|w| w[1] >= w[0] - 1e-9 * w[0].abs().max(1.0))
}

proptest! {
    #[test]
    fn objective_never_falls(
        rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120),
        model in prop::sample::select(models()),
        hard in any::<bool>(), accelerate in any::<bool>(), pseudo in prop::sample::select(vec![0.0, 0.1, 2.0]),
        gold in prop::option::of(0_i32..4), weighted in any::<bool>(),
    ) {
        let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
        let table = table(&rows, weighted.then_some(&weights[..]), 4);
        let (pseudo, class_pseudo) = (vec![pseudo; 16], vec![pseudo; 4]);
        let mut gold_classes = vec![-1; table.n_tasks()];
        if let Some(class) = gold { gold_classes[0] = class; }
        let mut opts = options(model, &pseudo, &class_pseudo);
        opts.assignment = if hard { Assignment::Hard } else { Assignment::Soft };
        opts.accelerate = accelerate;
        opts.gold = Some(&gold_classes);
        let fit = fit(&table, &opts, &Control::default()).unwrap();
        prop_assert!(never_falls(&fit.history), "{:?}", fit.history);
        for row in fit.posterior.chunks_exact(4).chain(fit.confusion.chunks_exact(4)) {
            prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
        if let Some(class) = gold { prop_assert_eq!(fit.posterior[class as usize], 1.0); }
    }

    #[test]
    fn unit_weights_change_nothing(
        rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120), model in prop::sample::select(models()),
    ) {
        let (pseudo, class_pseudo) = (vec![0.1; 16], vec![0.1; 4]);
        let ones = vec![1.0; rows.len()];
        let plain = fit(&table(&rows, None, 4), &options(model, &pseudo, &class_pseudo), &Control::default()).unwrap();
        let weighted = fit(&table(&rows, Some(&ones), 4), &options(model, &pseudo, &class_pseudo), &Control::default()).unwrap();
        for (a, b) in plain.posterior.iter().zip(&weighted.posterior) {
            prop_assert!((a - b).abs() < 1e-9);
        }
    }
}

#[test]
fn ten_thousand_labels_on_a_task_do_not_underflow() {
    for model in models() {
        let rows: Vec<(u32, u32, u16)> = (0..20_000).map(|i| (i / 10_000, i % 10_000, (i % 3 == 0).into())).collect();
        let (pseudo, class_pseudo) = (vec![0.5; 4], vec![0.5; 2]);
        let fit = fit(&table(&rows, None, 2), &options(model, &pseudo, &class_pseudo), &Control::default()).unwrap();
        assert!(fit.posterior.iter().chain(&fit.confusion).chain(&fit.history).all(|x| x.is_finite()));
    }
}

#[test]
fn one_class_is_certain() {
    for model in models() {
        let got = fit(&table(&[(0, 0, 0), (1, 1, 0)], None, 1), &options(model, &[0.0], &[0.0]), &Control::default());
        let got = got.unwrap();
        assert_eq!(got.posterior, [1.0, 1.0]);
        assert_eq!(got.confusion, [1.0, 1.0]);
        assert!(got.history.iter().all(|x| x.abs() < 1e-12));
    }
}

#[test]
fn two_pass_and_fused_plans_agree() {
    // 4,000 workers of 10 classes with 3 labels each need more room than their annotations allow: two passes.
    let rows: Vec<(u32, u32, u16)> =
        (0..12_000).map(|i| (i / 5, (i * 7919) % 12_000 / 3, (i % 7 % 5) as u16)).collect();
    let (pseudo, class_pseudo) = (vec![0.1; 100], vec![0.0; 10]);
    let wide = table(&rows, None, 10);
    let opts = options(Model::Full, &pseudo, &class_pseudo);
    let control = Control::default();
    let posterior = fit(&wide, &opts, &control).unwrap().posterior;
    let mut passes = InMemory::new(&wide, None, &control).unwrap();
    passes.store_posteriors(Model::Full).unwrap();
    let mut solver = Solver::<model::full::Full, Maximum>::new(sizes(&wide), &opts, &control).unwrap();
    let mut params = solver.start(&mut passes, Start::Shares).unwrap();
    for _ in 0..opts.max_iter {
        solver.step(&mut passes, &mut params).unwrap();
    }
    solver.conclude(&mut passes, &params).unwrap();
    let other = passes.take_posterior();
    assert!(posterior.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-9));
}

#[test]
fn threads_do_not_change_a_bit() {
    let rows: Vec<(u32, u32, u16)> = (0..600_000_u32)
        .map(|i| (i / 5, i.wrapping_mul(2_654_435_761) % 997, (i.wrapping_mul(40_503) >> 7) as u16 % 3))
        .collect();
    let table = table(&rows, None, 3);
    let (pseudo, class_pseudo) = (vec![0.1; 9], vec![0.0; 3]);
    let run = |n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap();
        pool.install(|| fit(&table, &options(Model::Full, &pseudo, &class_pseudo), &Control::default()).unwrap())
    };
    let (one, three) = (run(1), run(3));
    assert_eq!(one.posterior, three.posterior);
    assert_eq!(one.history, three.history);
}

#[test]
fn bad_options_are_named() {
    let table = table(&[(0, 0, 0), (1, 1, 1)], None, 2);
    let fails = |options: &Options<'_>| fit(&table, options, &Control::default()).unwrap_err().to_string();
    assert!(fails(&options(Model::Full, &[0.0], &[0.0; 2])).contains("pseudo-counts"));
    assert!(fails(&options(Model::Full, &[-1.0; 4], &[0.0; 2])).contains("at least 0"));
    let good = options(Model::Full, &[0.0; 4], &[0.0; 2]);
    assert!(fails(&Options { gold: Some(&[5, -1]), ..good }).contains("gold class code 5"));
    assert!(fails(&Options { start: Start::Posterior(&[f64::NAN; 4]), ..good }).contains("NaN"));
}

proptest! {
    #[test]
    fn bound_of_variational_bayes_never_falls(
        rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120),
        model in prop::sample::select(models()),
        accelerate in any::<bool>(),
        start in prop::sample::select(vec![Start::Shares, Start::Protected(4)]),
    ) {
        let (pseudo, classes) = ([0.5; 16], [0.25; 4]);
        let opts = Options { start, accelerate, ..options(model, &pseudo, &classes) };
        let result = fit_bayes(&table(&rows, None, 4), &opts, &Control::default()).unwrap();
        prop_assert!(never_falls(&result.fit.history));
        // Every annotation is in some posterior, next to the prior.
        let total: f64 = result.concentration.iter().sum();
        let workers = result.concentration.len() as f64 / 16.0;
        prop_assert!((total - rows.len() as f64 - 8.0 * workers).abs() < 1e-9 * total);
    }
}

#[test]
fn protected_tasks_keep_to_their_votes() {
    // More classes than a word has bits take another path; annotations without weight do not vote.
    for (k, weighted) in [(4, false), (4, true), (64, false), (70, false), (70, true)] {
        let label = |i: u32| if i.is_multiple_of(3) { k - 1 } else { i * i / 3 % 3 };
        let rows: Vec<(u32, u32, u16)> = (0..60).map(|i| (i / 2, i % 7, label(i) as u16)).collect();
        let weights: Vec<f64> = (0..60).map(|i| f64::from(i % 4)).collect();
        let k = k as usize;
        let log = table(&rows, weighted.then_some(&weights[..]), k);
        let (pseudo, class_pseudo) = (vec![0.0; k * k], vec![0.25; k]);
        let gold: Vec<i32> = (0..30).map(|task| if task == 5 { 1 } else { -1 }).collect();
        let opts = Options { gold: weighted.then_some(&gold[..]), ..options(Model::Full, &pseudo, &class_pseudo) };
        let control = Control::default();
        let mut passes = InMemory::new(&log, opts.gold, &control).unwrap();
        passes.store_posteriors(Model::Full).unwrap();
        let mut solver = Solver::<model::full::Full, estimate::Mean>::new(sizes(&log), &opts, &control).unwrap();
        let mut params = solver.shared(0.6).unwrap();
        solver.keep_to_votes(true);
        solver.step(&mut passes, &mut params).unwrap();
        let posterior = passes.take_posterior();
        for (task, row) in posterior.chunks_exact(k).enumerate() {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let counts = |(r, w): &(&(u32, u32, u16), &f64)| r.0 as usize == task && (!weighted || **w > 0.0);
            let voted: Vec<u16> = rows.iter().zip(&weights).filter(counts).map(|(r, _)| r.2).collect();
            for (class, q) in row.iter().enumerate() {
                let is_gold = weighted && task == 5;
                assert_eq!(
                    *q > 0.0,
                    if is_gold { class == 1 } else { voted.contains(&(class as u16)) },
                    "{k} {task} {class}"
                );
            }
        }
    }
}

#[test]
fn bad_priors_are_named() {
    let log = table(&[(0, 0, 0), (1, 0, 1)], None, 2);
    let (pseudo, classes) = ([1.0, 0.0, 0.0, 1.0], [1.0; 2]);
    let error = fit_bayes(&log, &options(Model::Full, &pseudo, &classes), &Control::default()).unwrap_err();
    assert!(error.to_string().contains("must be positive"));
    let options = Common { class_pseudo: &classes, gold: None, protected: 1, max_iter: 1, tol: 0.0 };
    let error = fit_hierarchies(&log, &[Hierarchy::Spammer(Some(-1.0))], &options, &Control::default()).unwrap_err();
    assert!(error.to_string().contains("strength must be positive"));
}

#[test]
fn what_is_never_true_has_no_posterior() {
    // The third label is an abstention; task 2 has nothing else.
    let rows = [(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 1), (2, 0, 2), (2, 1, 2)];
    for weights in [None, Some(&[1.0, 2.0, 0.5, 1.0, 1.0, 1.0][..])] {
        let table = table(&rows, weights, 3).with_classes(2).unwrap();
        for start in [Start::Shares, Start::Majority, Start::RandomVote(1)] {
            for accelerate in [false, true] {
                let (pseudo, class_pseudo) = (vec![0.1; 6], vec![0.1; 2]);
                let opts = Options { start, accelerate, ..options(Model::Full, &pseudo, &class_pseudo) };
                let fit = fit(&table, &opts, &Control::default()).unwrap();
                assert!(never_falls(&fit.history), "{:?}", fit.history);
                assert_eq!([fit.posterior.len(), fit.confusion.len(), fit.prior.len()], [3 * 2, 2 * 2 * 3, 2]);
                for row in fit.posterior.chunks_exact(2).chain(fit.confusion.chunks_exact(3)) {
                    assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{row:?}");
                }
            }
        }
        assert!(table.with_classes(0).is_err());
    }
}

#[test]
fn counts_are_sums_over_a_workers_labels() {
    let rows = [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 0, 0)];
    let weights = [2.0, 1.0, 0.5, 4.0];
    let opening = Opening::Given(&[0.25, 0.75, 0.9, 0.1]);
    let result = open(&table(&rows, Some(&weights), 2), Model::Full, opening, None, &Control::default()).unwrap();
    let expected = [4.0 * 0.9, 4.0 * 0.1, 2.0 * 0.25 + 0.5 * 0.9, 2.0 * 0.75 + 0.5 * 0.1, 0.25, 0.75, 0.0, 0.0];
    assert!(result.workers.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{result:?}");
    assert!((result.classes[0] - 1.15).abs() < 1e-12 && result.log_evidence == 0.0);
}

#[test]
fn what_is_no_posterior_and_no_factor_is_refused() {
    let table = table(&[(0, 0, 1), (1, 0, 0)], None, 2);
    let control = Control::default();
    let fails = |posterior: &[f64]| {
        open(&table, Model::Full, Opening::Given(posterior), None, &control).unwrap_err().to_string()
    };
    assert!(fails(&[1.0]).contains("holds 1 numbers, not 4"));
    assert!(fails(&[0.5, f64::NAN, 0.5, 0.5]).contains("the posterior"));
    // Rows that do not add up to 1 are not made to.
    assert!(fails(&[0.5, 0.5, 0.9, 0.3]).contains("task 1 sums to 1.2"));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let workers = [0.5, 0.5, bad, 0.5];
        let factors = Factors { workers: &workers, classes: &[0.5, 0.5] };
        let error = gather(&table, Model::Full, factors, Mode::default(), None, &control).unwrap_err().to_string();
        assert!(error.contains("which no parameters give"), "{error}");
    }
    let factors = Factors { workers: &[0.5; 4], classes: &[0.5; 3] };
    assert!(answers(&table, Model::Full, factors, None, false, &control).is_err());
}

#[test]
fn answers_are_the_largest_of_the_posteriors() {
    let rows: Vec<(u32, u32, u16)> = (0..30_000).map(|i| (i / 3, i % 11, (i * i % 7 % 3) as u16)).collect();
    let (log, control) = (table(&rows, None, 3), Control::default());
    let matrix = [0.6, 0.3, 0.1, 0.2, 0.7, 0.1, 0.25, 0.25, 0.5].repeat(11);
    let (workers, classes) =
        factors(Model::Full, Parameters::Probabilities, sizes(&log), &[0.5, 0.25, 0.25], &matrix).unwrap();
    let factors = Factors { workers: &workers, classes: &classes };
    let (result, posterior, evidence) = answers(&log, Model::Full, factors, None, true, &control).unwrap();
    let (other, none, same) = answers(&log, Model::Full, factors, None, false, &control).unwrap();
    assert_eq!((&result.winner, &result.confidence, &result.tied), (&other.winner, &other.confidence, &other.tied));
    assert!(none.is_empty() && evidence == same);
    for (task, row) in posterior.chunks_exact(3).enumerate() {
        let largest = row.iter().copied().fold(0.0, f64::max);
        assert!((f64::from(result.confidence[task]) - largest).abs() < 1e-7);
        assert!(row[usize::from(result.winner[task])] >= largest * (1.0 - 1e-12));
    }
    let mut passes = InMemory::new(&log, None, &control).unwrap();
    let concluded = passes.conclude(Model::Full, factors).unwrap();
    assert_eq!(passes.take_posterior(), posterior);
    assert!((concluded - evidence).abs() < 1e-9 * evidence.abs());
}

#[test]
fn loops_on_end_find_what_each_finds_alone() {
    let rows: Vec<(u32, u32, u16)> = (0..200_000_u32)
        .map(|i| (i / 4, i.wrapping_mul(2_654_435_761) % 23, (i / 4 % 3 + u32::from(i % 5 == 0)) as u16 % 3))
        .collect();
    let (log, control, classes) = (table(&rows, None, 3), Control::default(), [1.0 / 3.0; 3]);
    let options = Common { class_pseudo: &classes, gold: None, protected: 3, max_iter: 2, tol: 0.0 };
    let priors = [Hierarchy::Crowd, Hierarchy::Spammer(None), Hierarchy::Spammer(Some(f64::INFINITY))];
    let together = fit_hierarchies(&log, &priors, &options, &control).unwrap();
    for (prior, found) in priors.iter().zip(together) {
        let alone = fit_hierarchies(&log, &[*prior], &options, &control).unwrap().remove(0);
        assert_eq!((alone.fit.posterior, alone.fit.confusion), (found.fit.posterior, found.fit.confusion));
    }
}
