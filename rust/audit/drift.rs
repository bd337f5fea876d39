//! Workers whose answers change in the course of their work.
//!
//! The expected answer of a worker is estimated from the others on the task, see [`crate::audit::null_model`]; the
//! residuals have mean zero and a known variance, for each label, and for being right. If the worker stays the same,
//! their running sum, less its share of the whole, walks like a Brownian bridge whose clock is the variance, and the
//! largest distance from zero has Kolmogorov's distribution.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::prelude::*;

use crate::audit::null_model::{Beliefs, Chance, Habits};
use crate::base::control::Control;
use crate::base::memory::{clear, filled, par_tried, push, ready, room_to_sort, zeros};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Annotations of one worker between two looks at [`Control::check`].
const ROWS_PER_CHECK: usize = 1 << 10;
/// A label whose residuals have less variance than this in all has no information.
const LEAST: f64 = 1e-9;

/// How each worker's answers changed.
#[derive(Debug)]
pub struct Drift {
    /// Probability that a worker who stays the same seems to change as much, (workers); one where nothing can be
    /// determined.
    pub p: Vec<f64>,
    /// After how many answers the change is most plain, (workers).
    pub at: Vec<u32>,
    /// What changed: a label, or their number for being right; (workers).
    pub what: Vec<u32>,
    /// Residuals of that, per answer, before and after the change, (workers × 2).
    pub shares: Vec<f64>,
    /// Answers that others gave too or could have given: those that are informative, (workers).
    pub told: Vec<u32>,
}

/// Looks for one change of each worker, along the order that `when` gives the annotations.
///
/// `when` is aligned with the table's annotations; of equals the earlier task comes first. P-values are those of a
/// change by more than `share` of the answers. Every worker must have answered a task once at most. Time, for a task
/// with n answers, O(n² · classes) and up to n more; memory, on each thread, 32 bytes for each annotation of one worker
/// and label of its task.
pub fn answer_drift(table: &Table, beliefs: Beliefs<'_>, when: &[f64], share: f64, control: &Control) -> Result<Drift> {
    if when.len() != table.len() || when.iter().any(|t| t.is_nan()) {
        return Err(Error::invalid("the order must have one number for each annotation"));
    }
    if !(0.0..1.0).contains(&share) {
        return Err(Error::invalid("share must lie in [0, 1)"));
    }
    let habits = beliefs.habits(table, control)?;
    let order = table.by_worker(control)?;
    let n_done = AtomicUsize::new(0);
    let jobs = (0..table.n_workers()).into_par_iter().map_init(
        || Ok(Scratch::default()),
        |scratch: &mut Result<Scratch>, worker| {
            let scratch = ready(scratch)?;
            scratch.answers.clear();
            scratch.residuals.clear();
            for at in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
                if at.is_multiple_of(ROWS_PER_CHECK) {
                    control.check()?;
                }
                scratch.note(table, &habits, when, worker, order.tasks[at] as usize)?;
            }
            control.check()?;
            let largest = scratch.judge(table.n_labels() + 1, share)?;
            control.report(n_done.fetch_add(1, Relaxed) + 1, 0.0);
            Ok(largest)
        },
    );
    let changes: Vec<Change> = par_tried(jobs)?;
    let m = changes.len();
    let mut all = Drift { p: filled(1.0, m)?, at: zeros(m)?, what: zeros(m)?, shares: zeros(2 * m)?, told: zeros(m)? };
    for (i, change) in changes.into_iter().enumerate() {
        (all.p[i], all.at[i], all.what[i], all.told[i]) = (change.p, change.at, change.what, change.told);
        all.shares[2 * i..2 * i + 2].copy_from_slice(&change.shares);
    }
    Ok(all)
}

/// The change of one worker.
#[derive(Debug, Clone, Copy)]
struct Change {
    p: f64,
    at: u32,
    what: u32,
    shares: [f64; 2],
    told: u32,
}

/// What a label, or being right, is off by in one answer, and the variance of that.
#[derive(Debug, Clone, Copy)]
struct Residual {
    what: u32,
    off: f64,
    variance: f64,
}

/// What one thread works with.
#[derive(Debug, Default)]
struct Scratch {
    chance: Chance,
    /// When each answer was given, and where its residuals are.
    answers: Vec<(f64, usize, usize)>,
    residuals: Vec<Residual>,
    /// Sums of residuals and of variances, in all and so far, (what × 4).
    sums: Vec<f64>,
}

impl Scratch {
    fn note(&mut self, table: &Table, habits: &Habits<'_>, when: &[f64], worker: usize, task: usize) -> Result<()> {
        let Some(own) = self.chance.read(table, task, worker)? else { return Ok(()) };
        let (n, k, first) = (self.chance.labels.len(), table.n_classes(), self.residuals.len());
        let posterior = &habits.beliefs.posterior[task * k..(task + 1) * k];
        let (mut right, mut square, mut mean) = (0.0, 0.0, 0.0);
        for i in 0..n {
            let label = self.chance.labels[i];
            if let Some(count) = self.chance.first_of(i).filter(|count| *count < n) {
                self.chance.turn_to(table, habits, task, label, count)?;
                let p = self.chance.of_worker(own, count, None)?.clamp(0.0, 1.0);
                let off = f64::from(u8::from(self.chance.labels[own] == label)) - p;
                push(&mut self.residuals, Residual { what: label as u32, off, variance: p * (1.0 - p) })?;
                let worth = posterior.get(label).copied().unwrap_or(0.0);
                right += worth * off;
                square += worth * worth * p;
                mean += worth * p;
            }
        }
        if self.residuals.len() > first {
            let variance = (square - mean * mean).max(0.0);
            push(&mut self.residuals, Residual { what: table.n_labels() as u32, off: right, variance })?;
        }
        let row = table.rows_of(task).start + own;
        push(&mut self.answers, (when[row], first, self.residuals.len()))
    }

    fn judge(&mut self, n_whats: usize, share: f64) -> Result<Change> {
        room_to_sort(&self.answers)?;
        // Stable: answers of one time stay in the order of tasks.
        self.answers.sort_by(|a, b| a.0.total_cmp(&b.0));
        clear(&mut self.sums, 4 * n_whats)?;
        for residual in &self.residuals {
            let sums = &mut self.sums[4 * residual.what as usize..][..4];
            sums[0] += residual.off;
            sums[1] += residual.variance;
        }
        let n_answers = self.answers.iter().filter(|(_, first, end)| end > first).count() as u32;
        let n_classes = self.sums.chunks_exact(4).filter(|sums| sums[1] > LEAST).count();
        let (mut best, mut change) = (0.0, Change { p: 1.0, at: 0, what: 0, shares: [0.0; 2], told: n_answers });
        for (i, &(time, first, end)) in self.answers.iter().enumerate() {
            for residual in &self.residuals[first..end] {
                let sums = &mut self.sums[4 * residual.what as usize..][..4];
                sums[2] += residual.off;
                sums[3] += residual.variance;
            }
            // Answers of one time have no order: a change is looked for between times only.
            if self.answers.get(i + 1).is_none_or(|next| next.0 <= time) {
                continue;
            }
            let (here, after) = (i as f64 + 1.0, (self.answers.len() - i - 1) as f64);
            // So far the sum strays by a change of that share here, and by less where it changes elsewhere.
            let excused = share * here * after / (here + after);
            for (what, sums) in self.sums.chunks_exact(4).enumerate().filter(|(_, sums)| sums[1] > LEAST) {
                let distance = ((sums[2] - sums[3] / sums[1] * sums[0]).abs() - excused) / sums[1].sqrt();
                if distance > best {
                    let shares = [sums[2] / here, (sums[0] - sums[2]) / after];
                    best = distance;
                    change = Change { at: i as u32 + 1, what: what as u32, shares, ..change };
                }
            }
        }
        change.p = (n_classes as f64 * kolmogorov(best)).min(1.0);
        Ok(change)
    }
}

/// The probability that a Brownian bridge strays further than `x` from zero.
fn kolmogorov(x: f64) -> f64 {
    if x < 0.3 {
        return 1.0;
    }
    let term = |i: i32| f64::from(1 - 2 * ((i - 1) % 2)) * (-2.0 * f64::from(i * i) * x * x).exp();
    (2.0 * (1..=20).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;

    #[test]
    fn bridges_stray_as_kolmogorov_says() {
        for (x, p) in [(0.2, 1.0), (1.2238, 0.1), (1.3581, 0.05), (1.6276, 0.01)] {
            assert!((kolmogorov(x) - p).abs() < 1e-4, "{x}");
        }
    }

    #[test]
    fn a_worker_who_turns_is_seen_where_they_turn() {
        // Eight workers on two hundred tasks err now and then; the first turns against the others after 120.
        let wrong =
            |i: u32| u16::from((i * 7919 + i / 8).is_multiple_of(11)) ^ u16::from(i.is_multiple_of(8) && i >= 960);
        let rows: Vec<(u32, u32, u16)> = (0..1600).map(|i| (i / 8, i % 8, wrong(i))).collect();
        let table = of_rows(&rows, None, [200, 8, 2]);
        let (posterior, confusion) = ([0.9, 0.1].repeat(200), [0.8, 0.2, 0.2, 0.8].repeat(8));
        let beliefs = Beliefs { posterior: &posterior, confusion: &confusion, strata: &[0; 200] };
        let when: Vec<f64> = (0..1600).map(f64::from).collect();
        let drift = answer_drift(&table, beliefs, &when, 0.0, &Control::default()).unwrap();
        assert!(drift.p[0] < 1e-6 && drift.at[0].abs_diff(120) <= 3, "{drift:?}");
        assert!(drift.p[1..].iter().all(|p| *p > drift.p[0]), "{drift:?}");
        // Four answers in five change: hardly any fewer may, and no more may at all.
        let [some, most] =
            [0.1, 0.9].map(|share| answer_drift(&table, beliefs, &when, share, &Control::default()).unwrap());
        assert!(some.p[0] > drift.p[0] && some.p[0] < 1e-4 && most.p[0] == 1.0, "{some:?}");
        // Without an order nothing is seen.
        let flat = answer_drift(&table, beliefs, &[0.0; 1600], 0.0, &Control::default()).unwrap();
        assert!(flat.p.iter().all(|p| *p == 1.0));
        assert!(answer_drift(&table, beliefs, &when[1..], 0.0, &Control::default()).is_err());
        for share in [-0.1, 1.0, f64::NAN] {
            assert!(answer_drift(&table, beliefs, &when, share, &Control::default()).is_err());
        }
    }
}
