//! The simulator against what was asked of it: frequencies, patterns, collusion, repeatability, errors.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::choose::Choice;
use super::{Collusion, Draw, NO_GROUP, Pattern, Spec, simulate};
use crate::Error;
use crate::base::control::Control;

/// A crowd whose owner can be changed field by field before it is simulated.
struct Crowd {
    n_tasks: usize,
    n_workers: usize,
    n_classes: usize,
    prior: Vec<f64>,
    confusion: Vec<f64>,
}

impl Crowd {
    /// Worker `m` gives the true class with probability 0.5 + 0.4 m/M and leans to the classes just above it otherwise.
    fn new(n_tasks: usize, n_workers: usize, n_classes: usize) -> Self {
        let mut confusion = vec![0.0; n_workers * n_classes * n_classes];
        for (row, cells) in confusion.chunks_mut(n_classes).enumerate() {
            let (worker, class) = (row / n_classes, row % n_classes);
            let skill = 0.5 + 0.4 * worker as f64 / n_workers as f64;
            for (label, cell) in cells.iter_mut().enumerate() {
                let distance = (label + n_classes - class) % n_classes;
                *cell = if distance == 0 { skill } else { 1.0 / distance as f64 };
            }
            let other: f64 = (1..n_classes).map(|d| 1.0 / d as f64).sum();
            for (label, cell) in cells.iter_mut().enumerate() {
                if label != class {
                    *cell *= (1.0 - skill) / other;
                } else if n_classes == 1 {
                    *cell = 1.0;
                }
            }
        }
        let total = (n_classes * (n_classes + 1) / 2) as f64;
        let prior = (1..=n_classes).map(|class| class as f64 / total).collect();
        Self { n_tasks, n_workers, n_classes, prior, confusion }
    }

    fn spec<'a>(&'a self, pattern: Pattern<'a>) -> Spec<'a> {
        Spec {
            n_tasks: self.n_tasks,
            n_workers: self.n_workers,
            n_classes: self.n_classes,
            prior: &self.prior,
            truth: None,
            confusion: &self.confusion,
            pattern,
            activity: None,
            collusion: None,
            seed: 7,
        }
    }
}

fn run(spec: &Spec) -> Draw {
    simulate(spec, &Control::default()).unwrap()
}

/// Whether `hits` of `n` fits probability `p`: Bernstein's inequality, broken by chance less than once in a billion.
fn fits(hits: usize, n: usize, p: f64) -> bool {
    let (n, hits) = (n as f64, hits as f64);
    let log = (2e9_f64).ln();
    (hits - n * p).abs() <= log / 3.0 + (log * log / 9.0 + 2.0 * log * n * p * (1.0 - p)).sqrt()
}

/// The workers of each task.
fn by_task(draw: &Draw) -> Vec<Vec<u32>> {
    let mut workers = vec![Vec::new(); draw.truth.len()];
    for (&task, &worker) in draw.tasks.iter().zip(&draw.workers) {
        workers[task as usize].push(worker);
    }
    workers
}

fn count(codes: &[u32], n: usize) -> Vec<usize> {
    let mut counts = vec![0; n];
    for &code in codes {
        counts[code as usize] += 1;
    }
    counts
}

fn is_distinct(workers: &[u32]) -> bool {
    workers.iter().collect::<HashSet<_>>().len() == workers.len()
}

fn check_frequencies(crowd: &Crowd, draw: &Draw) {
    let k = crowd.n_classes;
    let mut counts = vec![0; crowd.confusion.len()];
    for ((&task, &worker), &label) in draw.tasks.iter().zip(&draw.workers).zip(&draw.labels) {
        let class = usize::from(draw.truth[task as usize]);
        counts[(worker as usize * k + class) * k + usize::from(label)] += 1;
    }
    for (row, (counts, expected)) in counts.chunks(k).zip(crowd.confusion.chunks(k)).enumerate() {
        let n = counts.iter().sum();
        for (label, (&hits, &p)) in counts.iter().zip(expected).enumerate() {
            assert!(fits(hits, n, p), "row {row}, label {label}: {hits} of {n} at {p}");
        }
    }
    for (class, &p) in crowd.prior.iter().enumerate() {
        let hits = draw.truth.iter().filter(|&&t| usize::from(t) == class).count();
        assert!(fits(hits, crowd.n_tasks, p), "class {class}: {hits} of {} at {p}", crowd.n_tasks);
    }
}

#[test]
fn labels_follow_the_confusion_and_truth_the_prior() {
    for (n_workers, n_classes) in [(6, 2), (12, 3), (9, 40)] {
        let crowd = Crowd::new(60_000, n_workers, n_classes);
        let probabilities: Vec<f64> = (0..n_workers).map(|m| 0.9_f64.powi(m as i32)).collect();
        for pattern in [
            Pattern::PerTask(3),
            Pattern::PerTaskRange(0, 5),
            Pattern::Density(0.4),
            Pattern::WorkerDensity(&probabilities),
        ] {
            check_frequencies(&crowd, &run(&crowd.spec(pattern)));
        }
    }
}

#[test]
fn impossible_labels_are_never_drawn() {
    let mut crowd = Crowd::new(50_000, 2, 4);
    crowd.confusion = [0.0, 0.3, 0.7, 0.0].repeat(8);
    crowd.prior = vec![0.0, 0.5, 0.0, 0.5];
    let draw = run(&crowd.spec(Pattern::PerTask(2)));
    assert!(draw.labels.iter().all(|label| [1, 2].contains(label)));
    assert!(draw.truth.iter().all(|class| [1, 3].contains(class)));
    check_frequencies(&crowd, &draw);
}

#[test]
fn every_worker_is_as_likely_as_any_other() {
    // 3 of 40 is drawn again on repeats, 12 of 40 and 40 of 100 are shuffled; pairs of workers show any dependence.
    for (n_workers, r) in [(40, 3), (40, 12), (100, 40), (7, 7)] {
        let n_tasks = 20_000;
        let crowd = Crowd::new(n_tasks, n_workers, 2);
        let draw = run(&crowd.spec(Pattern::PerTask(r)));
        let workers = by_task(&draw);
        assert!(workers.iter().all(|w| w.len() == r && is_distinct(w)));
        let share = r as f64 / n_workers as f64;
        for (worker, hits) in count(&draw.workers, n_workers).into_iter().enumerate() {
            assert!(fits(hits, n_tasks, share), "worker {worker} of {n_workers} labeled {hits} of {n_tasks}");
        }
        let both = workers.iter().filter(|w| w.contains(&0) && w.contains(&1)).count();
        assert!(fits(both, n_tasks, share * (r - 1) as f64 / (n_workers - 1) as f64));
    }
}

#[test]
fn counts_per_task_are_uniform_over_the_range() {
    let crowd = Crowd::new(50_000, 10, 2);
    let counts = count(&run(&crowd.spec(Pattern::PerTaskRange(2, 5))).tasks, 50_000);
    for size in 2..=5 {
        assert!(fits(counts.iter().filter(|&&c| c == size).count(), 50_000, 0.25));
    }
    assert!(counts.iter().all(|c| (2..=5).contains(c)));
}

#[test]
fn activity_decides_who_labels() {
    // One label per task: shares are the weights. All ways of choosing agree on the chance of the second worker.
    let crowd = Crowd::new(100_000, 4, 2);
    let weights = [0.5, 0.3, 0.2, 0.0];
    let mut spec = crowd.spec(Pattern::PerTask(1));
    spec.activity = Some(&weights);
    for (worker, hits) in count(&run(&spec).workers, 4).into_iter().enumerate() {
        assert!(fits(hits, 100_000, weights[worker]));
    }
    // Two labels per task: worker 0 is left out when 1 then 2 or 2 then 1 are drawn.
    spec.pattern = Pattern::PerTask(2);
    let draw = run(&spec);
    assert!(by_task(&draw).iter().all(|w| is_distinct(w)));
    let left_out = 0.3 * 0.2 / 0.7 + 0.2 * 0.3 / 0.8;
    assert!(fits(count(&draw.workers, 4)[0], 100_000, 1.0 - left_out));
    assert_eq!(count(&draw.workers, 4)[3], 0);
}

#[test]
fn one_worker_who_does_nearly_everything_does_not_stall_the_rest() {
    // Repeats of worker 0 would go on for a trillion draws; the race takes over and keeps the shares of the others.
    let crowd = Crowd::new(60_000, 50, 2);
    let mut weights = vec![1.0; 50];
    weights[0] = 1e15;
    weights[1] = 3.0;
    let mut spec = crowd.spec(Pattern::PerTask(2));
    spec.activity = Some(&weights);
    let counts = count(&run(&spec).workers, 50);
    assert_eq!(counts[0], 60_000);
    assert!(fits(counts[1], 60_000, 3.0 / 51.0));
    assert!(fits(counts[2], 60_000, 1.0 / 51.0));
    // The same with many labels per task, where stamps take the place of scans.
    spec.pattern = Pattern::PerTask(49);
    let draw = run(&spec);
    assert!(by_task(&draw).iter().all(|w| w.len() == 49 && is_distinct(w)));
}

#[test]
fn density_gives_each_cell_its_chance() {
    let n_tasks = 30_000;
    let crowd = Crowd::new(n_tasks, 8, 2);
    let probabilities = [1.0, 0.0, 0.9, 0.6, 0.3, 0.29, 0.01, 1e-30];
    let draw = run(&crowd.spec(Pattern::WorkerDensity(&probabilities)));
    for (worker, hits) in count(&draw.workers, 8).into_iter().enumerate() {
        assert!(fits(hits, n_tasks, probabilities[worker]), "worker {worker} labeled {hits}");
    }
    let workers = by_task(&draw);
    assert!(workers.iter().all(|w| is_distinct(w)));
    // Cells are independent: of neighbors in a bucket, and of tasks next to each other.
    let both = workers.iter().filter(|w| w.contains(&4) && w.contains(&5)).count();
    assert!(fits(both, n_tasks, 0.3 * 0.29));
    let twice = workers.windows(2).step_by(2).filter(|w| w[0].contains(&3) && w[1].contains(&3)).count();
    assert!(fits(twice, n_tasks / 2, 0.36));

    assert_eq!(run(&crowd.spec(Pattern::Density(0.0))).tasks.len(), 0);
    assert_eq!(run(&crowd.spec(Pattern::Density(1.0))).tasks.len(), 8 * n_tasks);
}

#[test]
fn colluders_copy_and_the_others_do_not() {
    let n_tasks = 40_000;
    let crowd = Crowd::new(n_tasks, 5, 3);
    let groups = [NO_GROUP, 2, 2, NO_GROUP, 2];
    let mut spec = crowd.spec(Pattern::PerTask(5));
    spec.collusion = Some(Collusion { groups: &groups, copying: 1.0 });
    let agreements = |draw: &Draw, a: u32, b: u32| {
        let labels: HashMap<(u32, u32), u16> =
            draw.tasks.iter().zip(&draw.workers).zip(&draw.labels).map(|((&t, &w), &l)| ((t, w), l)).collect();
        (0..n_tasks as u32).filter(|&task| labels[&(task, a)] == labels[&(task, b)]).count()
    };
    let draw = run(&spec);
    assert_eq!(agreements(&draw, 1, 2), n_tasks);
    assert_eq!(agreements(&draw, 1, 4), n_tasks);
    assert!(agreements(&draw, 0, 1) < n_tasks * 3 / 4);

    // Everyone in the group answers as its first member would, alone or together.
    let mut shared = Crowd::new(n_tasks, 5, 3);
    shared.confusion.copy_within(9..18, 18);
    shared.confusion.copy_within(9..18, 36);
    check_frequencies(&shared, &draw);

    // At half: a member copies by one coin, so two agree by design a quarter of the time and by chance otherwise.
    spec.collusion = Some(Collusion { groups: &groups, copying: 0.5 });
    let half = run(&spec);
    spec.collusion = Some(Collusion { groups: &groups, copying: 0.0 });
    let none = run(&spec);
    let chance: f64 = (0..3)
        .map(|class| {
            let row = |worker: usize| &crowd.confusion[(worker * 3 + class) * 3..][..3];
            let dot = |a: usize, b: usize| row(a).iter().zip(row(b)).map(|(x, y)| x * y).sum::<f64>();
            // Both copy; only 1 or only 2 does (the leader is worker 1); neither does.
            crowd.prior[class] * (0.25 + 0.25 * dot(1, 1) + 0.5 * dot(1, 2))
        })
        .sum();
    // Where only worker 2 copies, the answer follows the leader's matrix next to the leader's own draw: dot(1, 1).
    assert!(fits(agreements(&half, 1, 2), n_tasks, chance));
    check_frequencies(&crowd, &none);
}

#[test]
fn pairs_are_kept_as_they_are() {
    let crowd = Crowd::new(3, 2, 2);
    let (tasks, workers) = ([2, 0, 0, 2], [1, 1, 0, 1]);
    let truth = [1, 0, 1];
    let mut spec = crowd.spec(Pattern::Pairs(&tasks, &workers));
    spec.truth = Some(&truth);
    let draw = run(&spec);
    assert_eq!((&draw.tasks[..], &draw.workers[..], &draw.truth[..]), (&tasks[..], &workers[..], &truth[..]));
    assert_eq!(draw.labels.len(), 4);

    let crowd = Crowd::new(50_000, 20, 4);
    let tasks: Vec<u32> = (0..200_000).map(|i| i * 7 % 50_000).collect();
    let workers: Vec<u32> = (0..200_000).map(|i| i / 3 % 20).collect();
    check_frequencies(&crowd, &run(&crowd.spec(Pattern::Pairs(&tasks, &workers))));
}

#[test]
fn seeds_differ_and_repeat() {
    let crowd = Crowd::new(1000, 10, 3);
    let mut spec = crowd.spec(Pattern::PerTask(3));
    let first = run(&spec);
    assert_eq!(first, run(&spec));
    spec.seed = 8;
    let other = run(&spec);
    assert!(first.truth != other.truth && first.workers != other.workers && first.labels != other.labels);
}

#[test]
fn a_cancelled_run_stops() {
    let crowd = Crowd::new(1000, 10, 3);
    let control = Control::default();
    control.cancel();
    for pattern in [Pattern::PerTask(3), Pattern::Density(0.1), Pattern::Pairs(&[0], &[0])] {
        assert_eq!(simulate(&crowd.spec(pattern), &control), Err(Error::Cancelled));
    }
}

#[test]
fn bad_input_is_named() {
    fn complaint(change: impl FnOnce(&mut Spec)) -> String {
        let crowd = Crowd::new(10, 4, 2);
        let mut spec = crowd.spec(Pattern::PerTask(2));
        change(&mut spec);
        match simulate(&spec, &Control::default()) {
            Err(Error::Invalid(message)) => message,
            other => panic!("expected a complaint, got {other:?}"),
        }
    }
    let cases = [
        (complaint(|s| s.n_tasks = 0), "n_tasks"),
        (complaint(|s| s.n_workers = 0), "n_workers"),
        (complaint(|s| s.n_classes = 0), "n_classes"),
        (complaint(|s| s.n_classes = 70_000), "n_classes"),
        (complaint(|s| s.prior = &[1.0]), "prior has 1"),
        (complaint(|s| s.prior = &[0.6, 0.6]), "prior is not"),
        (complaint(|s| s.prior = &[f64::NAN, 1.0]), "prior is not"),
        (complaint(|s| s.prior = &[-0.5, 1.5]), "prior is not"),
        (complaint(|s| s.truth = Some(&[0, 1])), "truth has 2"),
        (complaint(|s| s.truth = Some(&[0, 1, 0, 1, 2, 0, 1, 0, 1, 0])), "truth of task 4 is 2"),
        (complaint(|s| s.confusion = &[0.5; 15]), "confusion has 15"),
        (complaint(|s| s.confusion = &[0.4; 16]), "confusion of worker 0 for true class 0"),
        (complaint(|s| s.pattern = Pattern::PerTask(5)), "5 labels per task"),
        (complaint(|s| s.pattern = Pattern::PerTask(0)), "0 labels per task"),
        (complaint(|s| s.pattern = Pattern::PerTaskRange(3, 2)), "3 to 2 labels"),
        (complaint(|s| s.pattern = Pattern::PerTaskRange(1, 5)), "1 to 5 labels"),
        (complaint(|s| s.pattern = Pattern::Density(1.5)), "density is 1.5"),
        (complaint(|s| s.pattern = Pattern::Density(f64::NAN)), "density is NaN"),
        (complaint(|s| s.pattern = Pattern::WorkerDensity(&[0.5])), "density has 1"),
        (complaint(|s| s.pattern = Pattern::WorkerDensity(&[0.5, 0.5, -1.0, 0.5])), "density of worker 2"),
        (complaint(|s| s.pattern = Pattern::Pairs(&[0], &[])), "1 tasks and 0 workers"),
        (complaint(|s| s.pattern = Pattern::Pairs(&[10], &[0])), "task 10"),
        (complaint(|s| s.pattern = Pattern::Pairs(&[0], &[4])), "worker 4"),
        (complaint(|s| s.activity = Some(&[1.0])), "activity has 1"),
        (complaint(|s| s.activity = Some(&[1.0, f64::INFINITY, 1.0, 1.0])), "activity of worker 1"),
        (complaint(|s| s.activity = Some(&[1.0, 0.0, 0.0, 0.0])), "only 1 workers"),
        (
            complaint(|s| {
                s.activity = Some(&[1.0; 4]);
                s.pattern = Pattern::Density(0.5);
            }),
            "activity weighs",
        ),
        (complaint(|s| s.collusion = Some(Collusion { groups: &[0], copying: 1.0 })), "groups have 1"),
        (complaint(|s| s.collusion = Some(Collusion { groups: &[0, 0, 9, 0], copying: 1.0 })), "group of worker 2"),
        (complaint(|s| s.collusion = Some(Collusion { groups: &[0; 4], copying: 2.0 })), "copying is 2"),
    ];
    for (message, part) in cases {
        assert!(message.contains(part), "'{message}' does not say '{part}'");
    }
}

#[test]
fn a_result_too_large_for_memory_is_refused() {
    let crowd = Crowd::new(u32::MAX as usize, 100_000, 1);
    match simulate(&crowd.spec(Pattern::PerTask(100_000)), &Control::default()) {
        Err(Error::Invalid(message)) => assert!(message.contains("GB of memory"), "{message}"),
        other => panic!("expected a complaint, got {:?}", other.map(|draw| draw.tasks.len())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_number_of_threads_gives_the_same_bits(
        n_tasks in 1_usize..9000,
        n_workers in 1_usize..60,
        n_classes in 1_usize..5,
        kind in 0..5,
        fraction in 0.0..=1.0_f64,
        weighted: bool,
        colluding: bool,
        seed: u64,
    ) {
        let crowd = Crowd::new(n_tasks, n_workers, n_classes);
        let r = 1 + (fraction * (n_workers - 1) as f64) as usize;
        let probabilities: Vec<f64> = (0..n_workers).map(|m| fraction / (m + 1) as f64).collect();
        let tasks: Vec<u32> = (0..100_000).map(|i| i % n_tasks as u32).collect();
        let workers: Vec<u32> = (0..100_000).map(|i| i % n_workers as u32).collect();
        let mut spec = crowd.spec(match kind {
            0 => Pattern::PerTask(r),
            1 => Pattern::PerTaskRange(r / 2, r),
            2 => Pattern::Density(fraction),
            3 => Pattern::WorkerDensity(&probabilities),
            _ => Pattern::Pairs(&tasks, &workers),
        });
        spec.seed = seed;
        let weights: Vec<f64> = (0..n_workers).map(|m| 1.0 / (m + 1) as f64).collect();
        if weighted && kind < 2 {
            spec.activity = Some(&weights);
        }
        let groups: Vec<u32> = (0..n_workers as u32).map(|m| if m % 3 == 0 { NO_GROUP } else { m % 3 }).collect();
        if colluding {
            spec.collusion = Some(Collusion { groups: &groups, copying: 0.7 });
        }
        let with = |threads| ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| run(&spec));
        let draw = with(1);
        prop_assert_eq!(&draw, &with(2));
        prop_assert_eq!(&draw, &with(5));

        prop_assert_eq!(draw.truth.len(), n_tasks);
        prop_assert!(draw.tasks.len() == draw.workers.len() && draw.tasks.len() == draw.labels.len());
        prop_assert!(draw.labels.iter().chain(&draw.truth).all(|&class| usize::from(class) < n_classes));
        if kind < 4 {
            prop_assert!(by_task(&draw).iter().all(|w| is_distinct(w)));
        }
        if kind == 0 {
            prop_assert!(count(&draw.tasks, n_tasks).into_iter().all(|c| c == r));
        }
    }
}

#[test]
fn as_many_annotations_are_expected_as_the_probabilities_say() {
    let choice = Choice::cells(200, [0.5, 0.25, 0.0, 0.125].into_iter(), 0).unwrap();
    assert!((choice.expected() - 200.0 * 0.875).abs() < 1e-9, "{}", choice.expected());
    let choice = Choice::per_task(200, 9, (2, 5), None, 0).unwrap();
    assert!((choice.expected() - 700.0).abs() < 1e-9, "{}", choice.expected());
}
