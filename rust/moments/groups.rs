//! Moments of three groups of workers, each taken as one: its voice on a task is the average of its labels there.

use std::ops::Range;

use rayon::prelude::*;

use super::{MOST_BYTES, Ticker, View, Weights, check_room, follow, with_view};
use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::categorical::table::{Label, Table, WorkerOrder};
use crate::{Error, Result};

/// The number of groups.
const GROUPS: usize = 3;

/// Moments of three groups.
#[derive(Debug)]
pub struct Groups {
    /// Means of the outer products of the voices of groups (0, 1), (1, 2) and (2, 0): (3 × classes × classes).
    pub second: Vec<f64>,
    /// Mean of the triple product of the voices of groups 0, 1 and 2: (classes × classes × classes).
    pub third: Vec<f64>,
    /// How many tasks have a label from each group; the means are over these, and zero if there are none.
    pub n_tasks: usize,
}

/// What each worker answers next to a group.
#[derive(Debug)]
pub struct Cross {
    /// Mean, over the worker's annotations, of its label times the group's voice: (workers × classes × classes).
    pub cross: Vec<f64>,
    /// Weight of the annotations that the mean is over.
    pub overlap: Vec<f64>,
}

fn check_groups(table: &Table, groups: &[u8]) -> Result<()> {
    if groups.len() != table.n_workers() {
        return Err(Error::invalid(format!("{} groups for {} workers", groups.len(), table.n_workers())));
    }
    match groups.iter().position(|&g| usize::from(g) >= GROUPS) {
        None => Ok(()),
        Some(m) => Err(Error::invalid(format!("group {} of worker {m} is not 0, 1 or 2", groups[m]))),
    }
}

/// The voices of the three groups on a task.
struct Voices {
    /// Share of each class in each group's labels: (3 × classes), zero but for the classes named.
    shares: Vec<f64>,
    /// The classes that each group named.
    named: [Vec<usize>; GROUPS],
}

impl Voices {
    fn new(k: usize) -> Self {
        Self { shares: vec![0.0; GROUPS * k], named: Default::default() }
    }

    /// Adds one task; returns whether every group has answers. An annotation of weight zero is ignored.
    fn hear<L: Label>(&mut self, k: usize, rows: impl Iterator<Item = (u8, L, f64)>) -> bool {
        self.forget(k);
        let mut total = [0.0; GROUPS];
        for (group, label, weight) in rows {
            let group = usize::from(group);
            let share = &mut self.shares[group * k + label.code()];
            if *share == 0.0 && weight > 0.0 {
                self.named[group].push(label.code());
            }
            *share += weight;
            total[group] += weight;
        }
        for (group, named) in self.named.iter().enumerate() {
            named.iter().for_each(|&class| self.shares[group * k + class] /= total[group]);
        }
        self.named.iter().all(|classes| !classes.is_empty())
    }

    fn forget(&mut self, k: usize) {
        for (group, named) in self.named.iter_mut().enumerate() {
            named.drain(..).for_each(|class| self.shares[group * k + class] = 0.0);
        }
    }

    fn add(&self, k: usize, sums: &mut Sums) {
        for (pair, out) in sums.second.chunks_exact_mut(k * k).enumerate() {
            let (a, b) = (pair, (pair + 1) % GROUPS);
            for &i in &self.named[a] {
                for &j in &self.named[b] {
                    out[i * k + j] += self.shares[a * k + i] * self.shares[b * k + j];
                }
            }
        }
        let [first, second, third] = &self.named;
        for &i in first {
            for &j in second {
                let product = self.shares[i] * self.shares[k + j];
                let out = &mut sums.third[(i * k + j) * k..][..k];
                third.iter().for_each(|&l| out[l] += product * self.shares[2 * k + l]);
            }
        }
        sums.n_tasks += 1;
    }
}

struct Sums {
    second: Vec<f64>,
    third: Vec<f64>,
    n_tasks: usize,
}

/// Second and third moments of three groups of workers, over the tasks that have a label from each.
///
/// Time O(annotations + Σ n³) over tasks on which a group names n different classes. Memory: 8 · (classes³ + 3 ·
/// classes²) bytes for each of a fixed number of chunks, 64 MB or one chunk in all.
pub fn moments_groups(table: &Table, groups: &[u8], control: &Control) -> Result<Groups> {
    const ROWS_PER_CHUNK: usize = 1 << 16;
    const MOST_CHUNKS: usize = 32;
    const CHUNK_BYTES: usize = 1 << 26;
    check_groups(table, groups)?;
    let k = table.n_labels();
    let bytes = k.saturating_pow(3).saturating_add(GROUPS * k * k).saturating_mul(size_of::<f64>());
    if bytes > MOST_BYTES {
        return Err(Error::invalid(format!(
            "third moments of {k} classes need more than {} GiB; group rare classes",
            MOST_BYTES >> 30
        )));
    }
    // By the sizes of the data, so that the sums are the same on any machine.
    let n_chunks = table.len().div_ceil(ROWS_PER_CHUNK).min(MOST_CHUNKS).min(CHUNK_BYTES / bytes).max(1);
    with_view!(table, |view| {
        let sum = |tasks| sum_tasks(view, groups, tasks, control);
        let parts: Vec<Sums> = table.chunks(n_chunks).into_par_iter().map(sum).collect::<Result<_>>()?;
        mean(parts, k)
    })
}

fn sum_tasks<L: Label, W: Weights>(
    view: View<'_, L, W>,
    groups: &[u8],
    tasks: Range<usize>,
    control: &Control,
) -> Result<Sums> {
    let k = view.table.n_labels();
    let mut sums = Sums { second: zeros(GROUPS * k * k)?, third: zeros(k * k * k)?, n_tasks: 0 };
    let (mut voices, mut ticker) = (Voices::new(k), Ticker::new(control));
    for task in tasks {
        let rows = view.table.rows_of(task);
        ticker.tick(rows.len())?;
        let group = |row: usize| groups[view.table.workers()[row] as usize];
        if voices.hear(k, rows.map(|row| (group(row), view.labels[row], view.weights.at(row)))) {
            ticker.tick(voices.named.iter().map(Vec::len).product())?;
            voices.add(k, &mut sums);
        }
    }
    Ok(sums)
}

fn mean(parts: Vec<Sums>, k: usize) -> Result<Groups> {
    let n_tasks = parts.iter().map(|part| part.n_tasks).sum();
    let mut all = Groups { second: zeros(GROUPS * k * k)?, third: zeros(k * k * k)?, n_tasks };
    for part in parts {
        all.second.iter_mut().zip(part.second).for_each(|(sum, x)| *sum += x);
        all.third.iter_mut().zip(part.third).for_each(|(sum, x)| *sum += x);
    }
    let count = n_tasks.max(1) as f64;
    all.second.iter_mut().chain(&mut all.third).for_each(|x| *x /= count);
    Ok(all)
}

/// For each worker, its answers compared with the group after its own (0 next to 1, 1 next to 2, 2 next to 0).
///
/// The mean, by weight, over the worker's annotations on tasks where that group has a label; zero where there are none.
/// One job per worker: time O(Σ n²) over tasks with n annotations; memory the result and the table in worker order.
pub fn moments_cross(table: &Table, groups: &[u8], control: &Control) -> Result<Cross> {
    check_groups(table, groups)?;
    let (n_workers, cells) = (table.n_workers(), table.n_labels() * table.n_labels());
    check_room(n_workers, cells)?;
    let order = table.by_worker(control)?;
    let mut out = Cross { cross: zeros(n_workers * cells)?, overlap: zeros(n_workers)? };
    with_view!(table, |view| {
        out.cross.par_chunks_mut(cells).zip(&mut out.overlap).enumerate().try_for_each(|(worker, (cross, overlap))| {
            *overlap = add_cross(view, order, groups, worker, cross, control)?;
            if *overlap > 0.0 {
                cross.iter_mut().for_each(|x| *x /= *overlap);
            }
            Ok(())
        })
    })?;
    Ok(out)
}

/// Adds up what one worker answers; returns the weight behind it.
fn add_cross<L: Label, W: Weights>(
    view: View<'_, L, W>,
    order: &WorkerOrder,
    groups: &[u8],
    worker: usize,
    cross: &mut [f64],
    control: &Control,
) -> Result<f64> {
    let (k, next_group) = (view.table.n_labels(), (groups[worker] + 1) % GROUPS as u8);
    let mut overlap = 0.0;
    follow(view, order, worker, control, |visit| {
        let heard = |row: &usize| groups[view.table.workers()[*row] as usize] == next_group;
        let total: f64 = visit.rows.clone().filter(heard).map(|row| view.weights.at(row)).sum();
        if total > 0.0 {
            overlap += visit.weight;
            let line = &mut cross[visit.label * k..][..k];
            for row in visit.rows.filter(heard) {
                line[view.labels[row].code()] += visit.weight * view.weights.at(row) / total;
            }
        }
    })?;
    Ok(overlap)
}
