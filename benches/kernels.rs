//! Criterion benches, one group a kernel: data is made outside the timed part, with a fixed seed.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use manyhands::base::control::Control;
use manyhands::base::encode;
use manyhands::base::num;
use manyhands::categorical::em::{self, Assignment, Model, Options, Start};
use manyhands::categorical::table::{Repeats, Rows, Table};
use manyhands::categorical::votes;
use manyhands::defer::{self, Bounds, Capacities, Method};
use std::hint::black_box;

const ANNOTATIONS: usize = 1_000_000;
const WORKERS: usize = 1_000;

/// A log of `ANNOTATIONS` rows, five to a task, right four times in five; deterministic and quick to make.
struct Log {
    tasks: Vec<u32>,
    workers: Vec<u32>,
    labels: Vec<u16>,
    n_classes: usize,
}

fn mix(i: usize) -> u64 {
    let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

fn log(n_classes: usize) -> Log {
    let tasks: Vec<u32> = (0..ANNOTATIONS).map(|i| (i / 5) as u32).collect();
    let workers = (0..ANNOTATIONS).map(|i| (mix(i) % WORKERS as u64) as u32).collect();
    let label = |i: usize| {
        let (truth, noise) = (mix(i / 5 + ANNOTATIONS), mix(i + 2 * ANNOTATIONS));
        let right = (noise >> 40) % 5 != 0;
        ((if right { truth } else { noise }) % n_classes as u64) as u16
    };
    Log { labels: (0..ANNOTATIONS).map(label).collect(), tasks, workers, n_classes }
}

impl Log {
    fn rows(&self) -> Rows<'_> {
        Rows {
            tasks: &self.tasks,
            workers: &self.workers,
            labels: &self.labels,
            weights: None,
            n_tasks: ANNOTATIONS / 5,
            n_workers: WORKERS,
            n_labels: self.n_classes,
        }
    }

    fn table(&self) -> Table {
        Table::new(&self.rows(), Repeats::Keep, &Control::default()).expect("the log is valid")
    }
}

fn em_pass(c: &mut Criterion) {
    let mut group = c.benchmark_group("em_pass");
    group.throughput(Throughput::Elements(ANNOTATIONS as u64)).sample_size(20);
    for k in [2, 5, 10, 20] {
        let table = log(k).table();
        let (pseudo, class_pseudo) = (vec![0.0; k * k], vec![0.0; k]);
        for (name, model) in [("full", Model::Full), ("class", Model::Class), ("one-coin", Model::OneCoin)] {
            let options = Options {
                model,
                assignment: Assignment::Soft,
                start: Start::Shares,
                pseudo: &pseudo,
                class_pseudo: &class_pseudo,
                gold: None,
                accelerate: false,
                // The start and the closing pass that writes posteriors are in the time: three passes in all.
                max_iter: 1,
                tol: 0.0,
            };
            group.bench_function(BenchmarkId::new(name, k), |b| {
                b.iter(|| em::fit(black_box(&table), &options, &Control::default()));
            });
        }
    }
    group.finish();
}

fn table_build(c: &mut Criterion) {
    let mut group = c.benchmark_group("table_build");
    group.throughput(Throughput::Elements(ANNOTATIONS as u64)).sample_size(20);
    let sorted = log(5);
    let mut order: Vec<usize> = (0..ANNOTATIONS).collect();
    order.sort_unstable_by_key(|&i| mix(i));
    let shuffled = Log {
        tasks: order.iter().map(|&i| sorted.tasks[i]).collect(),
        workers: order.iter().map(|&i| sorted.workers[i]).collect(),
        labels: order.iter().map(|&i| sorted.labels[i]).collect(),
        n_classes: 5,
    };
    for (name, log) in [("sorted", &sorted), ("shuffled", &shuffled)] {
        group.bench_function(name, |b| b.iter(|| Table::new(&log.rows(), Repeats::Keep, &Control::default())));
    }
    group.finish();
}

fn encoding(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    group.throughput(Throughput::Elements(ANNOTATIONS as u64)).sample_size(20);
    let dense: Vec<i64> = (0..ANNOTATIONS).map(|i| (mix(i) % 200_000) as i64).collect();
    let sparse: Vec<i64> = dense.iter().map(|&v| mix(v as usize) as i64).collect();
    let (mut offsets, mut data) = (vec![0_i64], vec![]);
    for v in &dense {
        data.extend_from_slice(format!("task-{v:07}").as_bytes());
        offsets.push(data.len() as i64);
    }
    let text = encode::Strings::new(&offsets, &data).expect("the offsets ascend");
    group.bench_function("dense integers", |b| b.iter(|| encode::integers(black_box(&dense), &Control::default())));
    group.bench_function("sparse integers", |b| b.iter(|| encode::integers(black_box(&sparse), &Control::default())));
    group.bench_function("text", |b| b.iter(|| encode::strings(black_box(&text), &Control::default())));
    group.finish();
}

fn voting(c: &mut Criterion) {
    let mut group = c.benchmark_group("votes");
    group.throughput(Throughput::Elements(ANNOTATIONS as u64)).sample_size(20);
    let table = log(5).table();
    group.bench_function("shares", |b| b.iter(|| votes::shares(black_box(&table), None, &Control::default())));
    let (shares, _) = votes::shares(&table, None, &Control::default()).expect("the table is valid");
    group.bench_function("winners", |b| b.iter(|| num::winners(black_box(&shares), 5, &Control::default())));
    group.finish();
}

fn workloads(c: &mut Criterion) {
    const CASES: usize = 100_000;
    const OPTIONS: usize = 11;
    let control = Control::default();
    // Preferences that are far from even.
    let mut rows: Vec<f64> =
        (0..CASES * OPTIONS).map(|i| (mix(i) >> 40) as f64 * 1e-7 + (i % OPTIONS) as f64 * 0.1).collect();
    rows.chunks_exact_mut(OPTIONS).for_each(num::normalise);
    let mut group = c.benchmark_group("workloads");
    group.throughput(Throughput::Elements(CASES as u64)).sample_size(20);
    let share = vec![1.0 / OPTIONS as f64; OPTIONS];
    let bounds = Bounds::new(&share, &share).expect("the shares sum to one");
    let checked = defer::Rows::new(&rows, OPTIONS, None, 0, &control).expect("the rows sum to one");
    group.bench_function("project", |b| {
        b.iter(|| defer::project(black_box(&checked), &bounds, Method::Newton, &control));
    });
    let most = vec![CASES.div_ceil(OPTIONS) as u64; OPTIONS];
    let capacities = Capacities::new(&[0; OPTIONS], &most, CASES).expect("there is room for all");
    group.bench_function("assign", |b| b.iter(|| defer::assign(black_box(&rows), OPTIONS, &capacities, &control)));
    group.finish();
}

criterion_group!(benches, em_pass, table_build, encoding, voting, workloads);
criterion_main!(benches);
