//! Values of tasks without a model: means, trimmed means and medians, and how far ratings are from them.

use std::ops::Range;

use rayon::prelude::*;

use super::{View, each_chunk};
use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::base::short_tasks::{EachTask, by_length};
use crate::{Error, Result};

/// Means, and what ratings lie about them.
#[derive(Debug)]
pub struct Spread {
    /// Weight and weighted mean of each task, the weighted sum of squares about it, and the variance of the mean of
    /// ratings of variance one, (tasks × 4).
    pub tasks: Vec<f64>,
    /// Of each worker: weights, sums of differences from the mean of the task, and of their squares, (workers × 3).
    pub workers: Vec<f64>,
}

/// Weighted means of the tasks, of one dimension, and how workers differ from them.
///
/// A rating counts its own weight times its worker's. A task of no weight has the plain mean of its ratings.
/// O(ratings + tasks + workers).
pub fn spread(view: &View<'_>, worker_weights: Option<&[f64]>, control: &Control) -> Result<Spread> {
    let table = view.table();
    if let Some(weights) = worker_weights
        && weights.len() != table.n_workers()
    {
        return Err(Error::invalid(format!("{} weights for {} workers", weights.len(), table.n_workers())));
    }
    match worker_weights {
        None if table.weights().is_none() && table.dims() == 1 => spread_plain::<true>(view, control),
        None if table.weights().is_none() => spread_plain::<false>(view, control),
        None => spread_by(view, |row| (view.weight(row), 1.0), control),
        Some(weights) => spread_by(view, |row| (view.weight(row), weights[view.worker(row)]), control),
    }
}

/// The same without weights.
fn spread_plain<const ONE: bool>(view: &View<'_>, control: &Control) -> Result<Spread> {
    let table = view.table();
    let mut tasks = zeros(4 * table.n_tasks())?;
    let workers = each_chunk(table, (&mut tasks, 4), 3, control, &|tasks, out, sums| {
        let (first, (out, _), (sums, _)) = (tasks.start, out.as_chunks_mut(), sums.as_chunks_mut());
        by_length(table.offsets(), tasks, &mut Plain::<ONE> { view, first, out, sums });
    })?;
    Ok(Spread { tasks, workers })
}

/// Tasks from the `first` on, without weights.
struct Plain<'a, const ONE: bool> {
    view: &'a View<'a>,
    first: usize,
    out: &'a mut [[f64; 4]],
    sums: &'a mut [[f64; 3]],
}

impl<const ONE: bool> EachTask for Plain<'_, ONE> {
    #[inline(always)]
    fn task(&mut self, task: usize, rows: Range<usize>) {
        let rows = self.view.rows::<ONE>(rows);
        let (len, n) = (rows.len(), rows.len().max(1) as f64);
        let mean = rows.clone().map(|(_, x)| x).sum::<f64>() / n;
        let mut squares = 0.0;
        for (worker, x) in rows {
            let away = x - mean;
            squares += away * away;
            let to = &mut self.sums[worker];
            to[0] += 1.0;
            to[1] += away;
            to[2] += away * away;
        }
        self.out[task - self.first] = [len as f64, mean, squares, 1.0 / n];
    }
}

/// The same, where a rating counts this many times and weighs so much.
fn spread_by(view: &View<'_>, weigh: impl Fn(usize) -> (f64, f64) + Sync, control: &Control) -> Result<Spread> {
    let table = view.table();
    let mut tasks = zeros(4 * table.n_tasks())?;
    let workers = each_chunk(table, (&mut tasks, 4), 3, control, &|tasks, out, sums| {
        for (task, out) in tasks.zip(out.chunks_exact_mut(4)) {
            let rows = table.rows_of(task);
            let (mut total, mut sum, mut twice, mut plain) = (0.0, 0.0, 0.0, 0.0);
            for row in rows.clone() {
                let ((count, weight), x) = (weigh(row), view.at(row));
                total += count * weight;
                sum += count * weight * x;
                twice += count * weight * weight;
                plain += x;
            }
            let n = rows.len().max(1) as f64;
            let (mean, share) = if total > 0.0 { (sum / total, twice / total / total) } else { (plain / n, 1.0 / n) };
            let mut squares = 0.0;
            for row in rows {
                let ((count, weight), away) = (weigh(row), view.at(row) - mean);
                let (weight, away) = (count * weight, [1.0, away, away * away]);
                squares += weight * away[2];
                let Some(to) = sums[3 * view.worker(row)..].first_chunk_mut::<3>() else { continue };
                to.iter_mut().zip(away).for_each(|(to, x)| *to += weight * x);
            }
            out.copy_from_slice(&[total, mean, squares, share]);
        }
    })?;
    Ok(Spread { tasks, workers })
}

/// The mean of each task without a share `trim` of the weight at either end; with half of it, the median.
///
/// A rating at the edge counts with the part of its weight that is within. O(ratings · log(ratings of a task)).
pub fn trimmed(view: &View<'_>, trim: f64, control: &Control) -> Result<Vec<f64>> {
    if !(0.0..=0.5).contains(&trim) {
        return Err(Error::invalid(format!("trim must lie between 0 and 0.5, not {trim}")));
    }
    let table = view.table();
    let mut values = zeros(table.n_tasks())?;
    values.par_chunks_mut(super::TASKS).enumerate().try_for_each(|(block, values)| {
        control.check()?;
        let mut sorted = vec![];
        for (i, value) in values.iter_mut().enumerate() {
            sorted.clear();
            let rows = table.rows_of(block * super::TASKS + i);
            sorted.extend(rows.clone().map(|row| (view.at(row), view.weight(row))).filter(|(_, weight)| *weight > 0.0));
            if sorted.is_empty() {
                sorted.extend(rows.map(|row| (view.at(row), 1.0)));
            }
            sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            *value = within(&sorted, trim);
        }
        Ok(())
    })?;
    Ok(values)
}

/// The mean of sorted (value, weight) pairs between the shares `trim` and 1 − `trim` of the weight.
fn within(sorted: &[(f64, f64)], trim: f64) -> f64 {
    let total: f64 = sorted.iter().map(|pair| pair.1).sum();
    let (low, high) = (trim * total, (1.0 - trim) * total);
    let slack = 1e-12 * total;
    if high - low <= slack {
        return middle(sorted, low, slack);
    }
    let (mut below, mut sum) = (0.0, 0.0);
    for &(value, weight) in sorted {
        let inside = ((below + weight).min(high) - f64::max(below, low)).max(0.0);
        sum += inside * value;
        below += weight;
    }
    sum / (high - low)
}

/// The value at which `goal` of the weight is reached; halfway to the next if it is reached where one ends.
fn middle(sorted: &[(f64, f64)], goal: f64, slack: f64) -> f64 {
    let mut below = 0.0;
    for (i, &(value, weight)) in sorted.iter().enumerate() {
        below += weight;
        if below > goal + slack {
            return value;
        }
        if below >= goal - slack {
            return sorted.get(i + 1).map_or(value, |next| 0.5 * value + 0.5 * next.0);
        }
    }
    sorted.last().map_or(0.0, |last| last.0)
}
