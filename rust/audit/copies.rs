//! Pairs of workers who give the same answers more often than chance.
//!
//! Chance is estimated from the task itself, see [`crate::audit::null_model`]. The probability that two workers both
//! gave a label, summed over the labels of the task, is that of their agreement; over tasks, agreements are
//! independent, and their number has a Poisson-binomial distribution.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rayon::prelude::*;

use crate::audit::null_model::{Beliefs, Chance, Habits};
use crate::base::control::Control;
use crate::base::memory::{clear, grow, par_tried, push, ready, room_to_sort, with_room, zeros};
use crate::base::special::normal_below;
use crate::categorical::table::Table;
use crate::{Error, Result};

/// With more common tasks that are informative, tails are computed by a saddle point: to about one per cent of
/// themselves.
const MOST_CONVOLVED: usize = 256;
/// Annotations of one worker between two looks at [`Control::check`].
const ROWS_PER_CHECK: usize = 1 << 10;

/// Arguments of [`pair_excess`] in addition to the table.
#[derive(Debug, Clone, Copy)]
pub struct Excess<'a> {
    /// What is believed of classes and workers.
    pub beliefs: Beliefs<'a>,
    /// Pairs with fewer common tasks are left out.
    pub min_overlap: usize,
    /// The share of answers that may be the same for any other reason than chance: p-values are of more than that.
    pub share: f64,
    /// Pairs with larger p-values are left out.
    pub most: f64,
}

/// Pairs of workers, and how often they agree.
#[derive(Debug, Default)]
pub struct PairExcess {
    /// First and second worker of each pair, first < second, sorted.
    pub pairs: Vec<u32>,
    /// Common tasks, equal answers, and the longest run of common tasks with equal answers, (pairs × 3).
    pub counts: Vec<u32>,
    /// How many equal answers chance leads to expect, their variance, and the probability of as many, (pairs × 3).
    pub chances: Vec<f64>,
    /// How many pairs were looked at: those with enough common tasks, of which some were informative.
    pub n_tested: usize,
}

/// Finds pairs of workers who agree more often than chance.
///
/// Every worker must have answered a task once at most. Time O(n²) for a task with n answers, and where workers on it
/// share enough tasks up to n² · classes · n; for a pair the square of their common tasks where these are few. Memory:
/// 44 bytes per pair that is found, and on each thread 16 bytes for each meeting of one worker with a partner and 4
/// bytes per worker.
pub fn pair_excess(table: &Table, options: &Excess<'_>, control: &Control) -> Result<PairExcess> {
    check(options)?;
    let habits = options.beliefs.habits(table, control)?;
    let order = table.by_worker(control)?;
    let n_done = AtomicUsize::new(0);
    let jobs = (0..table.n_workers()).into_par_iter().map_init(
        || Ok(Scratch::default()),
        |scratch: &mut Result<Scratch>, worker| {
            let scratch = ready(scratch)?;
            scratch.meetings.clear();
            let tasks = &order.tasks[order.offsets[worker] as usize..order.offsets[worker + 1] as usize];
            scratch.partners.count(table, worker, tasks, options.min_overlap)?;
            for (i, &task) in tasks.iter().enumerate() {
                if i.is_multiple_of(ROWS_PER_CHECK) {
                    control.check()?;
                }
                scratch.meet(table, &habits, worker, task as usize)?;
            }
            control.check()?;
            let excess = scratch.judge(worker, options)?;
            control.report(n_done.fetch_add(1, Relaxed) + 1, 0.0);
            Ok(excess)
        },
    );
    let parts: Vec<PairExcess> = par_tried(jobs)?;
    let n = parts.iter().map(|part| part.pairs.len() / 2).sum::<usize>();
    let mut all = PairExcess {
        pairs: with_room(2 * n)?,
        counts: with_room(3 * n)?,
        chances: with_room(3 * n)?,
        n_tested: parts.iter().map(|part| part.n_tested).sum(),
    };
    for part in parts {
        all.pairs.extend(part.pairs);
        all.counts.extend(part.counts);
        all.chances.extend(part.chances);
    }
    Ok(all)
}

fn check(options: &Excess<'_>) -> Result<()> {
    if !(0.0..1.0).contains(&options.share) || options.most.is_nan() {
        return Err(Error::invalid("share must lie in [0, 1), and the largest p-value be a number"));
    }
    Ok(())
}

/// Two workers on one task.
#[derive(Debug, Clone, Copy)]
struct Meeting {
    other: u32,
    agree: bool,
    /// The probability that they agree.
    chance: f64,
}

/// Who shares enough tasks with one worker to be compared, of those who come later.
#[derive(Debug, Default)]
struct Partners {
    /// Common tasks, by worker, and who has any.
    common: Vec<u32>,
    met: Vec<u32>,
    least: u32,
}

impl Partners {
    fn count(&mut self, table: &Table, worker: usize, tasks: &[u32], least: usize) -> Result<()> {
        if self.common.is_empty() {
            self.common = zeros(table.n_workers())?;
        }
        self.met.drain(..).for_each(|other| self.common[other as usize] = 0);
        self.least = u32::try_from(least).unwrap_or(u32::MAX);
        for &task in tasks {
            for &other in table.workers()[table.rows_of(task as usize)].iter().rev() {
                if other as usize <= worker {
                    break;
                }
                let common = &mut self.common[other as usize];
                if *common == 0 {
                    push(&mut self.met, other)?;
                }
                *common += 1;
            }
        }
        Ok(())
    }

    fn holds(&self, other: u32) -> bool {
        self.common[other as usize] >= self.least
    }
}

/// What one thread works with.
#[derive(Debug, Default)]
struct Scratch {
    partners: Partners,
    meetings: Vec<Meeting>,
    chance: Chance,
    /// The probability of agreement with each worker on the task.
    chances: Vec<f64>,
    /// Chances of one pair that lie between zero and one, and the distribution of their sum.
    open: Vec<f64>,
    distribution: Vec<f64>,
}

impl Scratch {
    /// Notes which partners a worker meets on a task.
    fn meet(&mut self, table: &Table, habits: &Habits<'_>, worker: usize, task: usize) -> Result<()> {
        let workers = &table.workers()[table.rows_of(task)];
        let later = workers.iter().rev().take_while(|other| **other as usize > worker);
        if !later.into_iter().any(|other| self.partners.holds(*other)) {
            return Ok(());
        }
        let Some(own) = self.chance.read(table, task, worker)? else { return Ok(()) };
        let n = self.chance.labels.len();
        clear(&mut self.chances, n)?;
        for i in 0..n {
            match self.chance.first_of(i) {
                Some(count) if count == n => self.chances.fill(1.0),
                Some(count) if count >= 2 => {
                    self.chance.turn_to(table, habits, task, self.chance.labels[i], count)?;
                    self.chance.of_worker(own, count, Some(&mut self.chances))?;
                }
                _ => {}
            }
        }
        grow(&mut self.meetings, n - own)?;
        for (i, &other) in workers.iter().enumerate().skip(own + 1).filter(|(_, other)| self.partners.holds(**other)) {
            let agree = self.chance.labels[i] == self.chance.labels[own];
            self.meetings.push(Meeting { other, agree, chance: self.chances[i].clamp(0.0, 1.0) });
        }
        Ok(())
    }

    /// Judges each pair of a worker and one of those it met.
    fn judge(&mut self, worker: usize, options: &Excess<'_>) -> Result<PairExcess> {
        let mut excess = PairExcess::default();
        room_to_sort(&self.meetings)?;
        // Stable: meetings with one worker stay in the order of tasks.
        self.meetings.sort_by_key(|meeting| meeting.other);
        let (open, distribution) = (&mut self.open, &mut self.distribution);
        for meetings in self.meetings.chunk_by(|a, b| a.other == b.other) {
            let (mut agreements, mut run, mut longest, mut told) = (0_u32, 0_u32, 0_u32, 0_usize);
            let (mut expected, mut variance) = (0.0, 0.0);
            open.clear();
            grow(open, meetings.len())?;
            for meeting in meetings {
                run = if meeting.agree { run + 1 } else { 0 };
                longest = longest.max(run);
                agreements += u32::from(meeting.agree);
                expected += meeting.chance;
                variance += meeting.chance * (1.0 - meeting.chance);
                if meeting.chance > 0.0 && meeting.chance < 1.0 {
                    open.push(meeting.chance + options.share * (1.0 - meeting.chance));
                    told += usize::from(meeting.agree);
                }
            }
            if open.is_empty() {
                continue;
            }
            excess.n_tested += 1;
            let p = tail(open, told, distribution)?;
            if p <= options.most {
                [worker as u32, meetings[0].other].into_iter().try_for_each(|m| push(&mut excess.pairs, m))?;
                let counts = [meetings.len() as u32, agreements, longest];
                counts.into_iter().try_for_each(|n| push(&mut excess.counts, n))?;
                [expected, variance, p].into_iter().try_for_each(|x| push(&mut excess.chances, x))?;
            }
        }
        Ok(excess)
    }
}

/// The probability that at least this many of independent events happen; one where no more do than are expected to.
fn tail(chances: &[f64], least: usize, distribution: &mut Vec<f64>) -> Result<f64> {
    let mean: f64 = chances.iter().sum();
    if least as f64 <= mean {
        return Ok(1.0);
    }
    if chances.len() > MOST_CONVOLVED {
        return Ok(saddle_point(chances, least as f64 - 0.5));
    }
    clear(distribution, least + 1)?;
    distribution[0] = 1.0;
    for p in chances {
        // From the top, where everything from `least` on gathers.
        distribution[least] += distribution[least - 1] * p;
        for i in (1..least).rev() {
            distribution[i] = distribution[i] * (1.0 - p) + distribution[i - 1] * p;
        }
        distribution[0] *= 1.0 - p;
    }
    Ok(distribution[least].min(1.0))
}

/// The upper tail of a sum of independent events by Lugannani and Rice's formula for whole numbers, above the mean.
fn saddle_point(chances: &[f64], x: f64) -> f64 {
    let at = |s: f64| {
        let (mut log, mut mean, mut variance) = (0.0, 0.0, 0.0);
        for p in chances {
            let whole = 1.0 - p + p * s.exp();
            let share = p * s.exp() / whole;
            log += whole.ln();
            mean += share;
            variance += share * (1.0 - share);
        }
        (log, mean, variance)
    };
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if at(middle).1 < x { low = middle } else { high = middle }
    }
    let s = 0.5 * (low + high);
    let (log, _, variance) = at(s);
    let w = (2.0 * (s * x - log)).max(0.0).sqrt();
    let u = 2.0 * (0.5 * s).sinh() * variance.sqrt();
    if w < 1e-3 || u < 1e-3 {
        return 0.5;
    }
    let density = (-0.5 * w * w).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (normal_below(-w) + density * (1.0 / u - 1.0 / w)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;

    #[test]
    fn tails_meet_where_their_ways_part() {
        let chances: Vec<f64> = (0..MOST_CONVOLVED).map(|i| 0.05 + 0.9 * (i % 11) as f64 / 11.0).collect();
        let mean: f64 = chances.iter().sum();
        for excess in [1, 5, 15, 40] {
            let least = mean as usize + excess;
            let exact = tail(&chances, least, &mut Vec::new()).unwrap();
            let near = saddle_point(&chances, least as f64 - 0.5);
            assert!((near / exact - 1.0).abs() < 0.02, "{excess}: {near} {exact}");
        }
        assert_eq!(tail(&chances, 1, &mut Vec::new()), Ok(1.0));
        assert!((tail(&[0.5, 0.2], 2, &mut Vec::new()).unwrap() - 0.1).abs() < 1e-15);
    }

    #[test]
    fn unanimous_tasks_tell_nothing() {
        let rows: Vec<(u32, u32, u16)> = (0..12).map(|i| (i / 3, i % 3, 0)).collect();
        let table = of_rows(&rows, None, [4, 3, 2]);
        let (posterior, confusion) = ([0.5; 8], [0.5; 12]);
        let beliefs = Beliefs { posterior: &posterior, confusion: &confusion, strata: &[0; 4] };
        let options = Excess { beliefs, min_overlap: 1, share: 0.0, most: 1.0 };
        let excess = pair_excess(&table, &options, &Control::default()).unwrap();
        assert_eq!((excess.n_tested, excess.pairs.len()), (0, 0));
        for bad in [
            Excess { beliefs: Beliefs { posterior: &[0.5; 4], ..beliefs }, ..options },
            Excess { beliefs: Beliefs { confusion: &[f64::NAN; 12], ..beliefs }, ..options },
            Excess { share: 1.0, ..options },
        ] {
            assert!(pair_excess(&table, &bad, &Control::default()).is_err());
        }
    }
}
