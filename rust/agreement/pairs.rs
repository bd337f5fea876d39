//! Coefficients of pairs of workers: Cohen's kappa, Scott's pi, and what they come to over a crowd.

use std::ops::Range;

use rayon::prelude::*;

use super::{Scale, beyond_chance, resampled};
use crate::control::Control;
use crate::memory::{collected, copied, grow, joined, push, with_room, zeros};
use crate::table::Table;
use crate::{Error, Result};

/// Meetings take at most this much memory, half of it while they are sorted.
const MOST_BYTES: usize = 1 << 34;

/// Pairs evaluated between two looks at [`Control::check`].
const PAIRS_PER_CHECK: usize = 1 << 10;

/// How two workers would agree by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chance {
    /// Each draws from the labels they gave themselves (Cohen's kappa).
    Own,
    /// Both draw from the labels that they gave together (Scott's pi).
    Shared,
}

/// What the pairs of a crowd come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summary {
    /// The mean over pairs.
    Even,
    /// The mean over pairs, weighted by what they labelled together.
    ByOverlap,
    /// The mean over pairs with this worker over the mean over all other pairs, each squashed by the logistic function.
    Ratio(u32),
}

/// What [`agreement_by_pairs`] found.
#[derive(Debug)]
pub struct Paired {
    /// The summary; not a number where no pair has a coefficient.
    pub value: f64,
    /// The summary of each resample.
    pub resamples: Vec<f64>,
    /// First and second worker of each pair, sorted.
    pub pairs: Vec<u32>,
    /// How many pairs of labels on the same task each pair has.
    pub overlap: Vec<u64>,
    /// The coefficient of each pair; not a number where it is undefined.
    pub coefficients: Vec<f64>,
    /// Tasks on which two of these workers met.
    pub n_tasks: usize,
}

/// Agreement of every pair of workers with at least `min_overlap` labels on the same tasks, and a summary of it on all
/// tasks and on resamples of them.
///
/// Time O(Σ n²) over tasks with n annotations, each; memory 20 bytes for each two annotations of a task.
#[allow(clippy::too_many_arguments)]
pub fn agreement_by_pairs(
    table: &Table,
    chance: Chance,
    scale: Scale<'_>,
    summary: Summary,
    min_overlap: usize,
    n_resamples: usize,
    seed: u64,
    control: &Control,
) -> Result<Paired> {
    scale.validate(table.n_classes())?;
    let meetings = Meetings::new(table, min_overlap, control)?;
    let crowd = Crowd { meetings: &meetings, chance, scale, n_classes: table.n_classes(), summary };
    let coefficients = crowd.coefficients(control)?;
    let overlap: Vec<u64> = collected((0..meetings.pairs.len()).map(|pair| meetings.of(pair).len() as u64))?;
    let of_all = coefficients.iter().zip(&overlap).map(|(c, n)| (*c, *n as f64));
    let mut met = zeros::<bool>(table.n_tasks())?;
    meetings.items.iter().for_each(|meeting| met[meeting.task as usize] = true);
    Ok(Paired {
        value: crowd.summarise(of_all),
        resamples: resampled(table.n_tasks(), n_resamples, seed, control, |times| crowd.evaluate(times, control))?,
        n_tasks: met.iter().filter(|met| **met).count(),
        pairs: copied(meetings.pairs.as_flattened())?,
        overlap,
        coefficients,
    })
}

/// Two labels of one task by two workers.
#[derive(Debug, Clone, Copy)]
struct Meeting {
    task: u32,
    first: u16,
    second: u16,
}

/// All meetings, pair by pair.
struct Meetings {
    pairs: Vec<[u32; 2]>,
    ends: Vec<usize>,
    items: Vec<Meeting>,
}

impl Meetings {
    fn new(table: &Table, min_overlap: usize, control: &Control) -> Result<Self> {
        check_room(table)?;
        let order = table.by_worker(control)?;
        let lists: Vec<Vec<(u32, Meeting)>> = (0..table.n_workers())
            .into_par_iter()
            .map(|worker| {
                control.check()?;
                let mut list = vec![];
                for at in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
                    let (task, first) = (order.tasks[at], order.labels.get(at) as u16);
                    // Rows of a task are sorted by worker.
                    for row in table.rows_of(task as usize).rev() {
                        let other = table.workers()[row];
                        if other as usize <= worker {
                            break;
                        }
                        push(&mut list, (other, Meeting { task, first, second: table.labels().get(row) as u16 }))?;
                    }
                }
                list.sort_by_key(|(other, _)| *other);
                Ok(list)
            })
            .collect::<Result<_>>()?;
        let mut all = Self { pairs: vec![], ends: vec![], items: vec![] };
        for (worker, list) in (0..).zip(lists) {
            for run in list.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() >= min_overlap) {
                push(&mut all.pairs, [worker, run[0].0])?;
                grow(&mut all.items, run.len())?;
                all.items.extend(run.iter().map(|(_, meeting)| *meeting));
                push(&mut all.ends, all.items.len())?;
            }
        }
        Ok(all)
    }

    fn of(&self, pair: usize) -> &[Meeting] {
        let start = if pair == 0 { 0 } else { self.ends[pair - 1] };
        &self.items[start..self.ends[pair]]
    }
}

fn check_room(table: &Table) -> Result<()> {
    let beside = |w: &[u32]| (w[1] - w[0]) as usize * (w[1] - w[0]).saturating_sub(1) as usize / 2;
    let meetings: usize = table.offsets().windows(2).map(beside).sum();
    if meetings > MOST_BYTES / (size_of::<(u32, Meeting)>() + size_of::<Meeting>()) {
        return Err(Error::invalid(format!(
            "{meetings} pairs of labels on the same task take more than {} GiB; sample fewer labels of each task, or \
             use a coefficient that does not compare workers",
            MOST_BYTES >> 30
        )));
    }
    Ok(())
}

/// The pairs of a crowd, ready to be evaluated for any number of times that tasks count.
struct Crowd<'a> {
    meetings: &'a Meetings,
    chance: Chance,
    scale: Scale<'a>,
    n_classes: usize,
    summary: Summary,
}

/// Labels of the two workers of a pair; all zero, and none used, between pairs.
struct Margins {
    first: Vec<f64>,
    second: Vec<f64>,
    used: Vec<u16>,
}

impl Margins {
    fn new(n_classes: usize) -> Self {
        Self { first: vec![0.0; n_classes], second: vec![0.0; n_classes], used: vec![] }
    }

    fn add(&mut self, meeting: Meeting, times: f64) {
        for (label, margin) in [(meeting.first, 0), (meeting.second, 1)] {
            let at = usize::from(label);
            if self.first[at] == 0.0 && self.second[at] == 0.0 {
                self.used.push(label);
            }
            [&mut self.first, &mut self.second][margin][at] += times;
        }
    }

    fn clear(&mut self) {
        for label in self.used.drain(..) {
            self.first[usize::from(label)] = 0.0;
            self.second[usize::from(label)] = 0.0;
        }
    }
}

impl Crowd<'_> {
    /// The coefficient of each pair.
    fn coefficients(&self, control: &Control) -> Result<Vec<f64>> {
        let blocks: Vec<Vec<f64>> = blocks(self.meetings.pairs.len())
            .into_par_iter()
            .map(|pairs| {
                control.check()?;
                let mut margins = Margins::new(self.n_classes);
                collected(pairs.map(|pair| self.coefficient(pair, None, &mut margins).0))
            })
            .collect::<Result<_>>()?;
        joined(&blocks)
    }

    fn evaluate(&self, times: &[u32], control: &Control) -> Result<f64> {
        let mut margins = Margins::new(self.n_classes);
        let mut found = with_room(self.meetings.pairs.len())?;
        for pairs in blocks(self.meetings.pairs.len()) {
            control.check()?;
            found.extend(pairs.map(|pair| self.coefficient(pair, Some(times), &mut margins)));
        }
        Ok(self.summarise(found.into_iter()))
    }

    /// The coefficient of a pair, and the number of labels behind it.
    fn coefficient(&self, pair: usize, times: Option<&[u32]>, margins: &mut Margins) -> (f64, f64) {
        let (mut observed, mut total) = (0.0, 0.0);
        for meeting in self.meetings.of(pair) {
            let counts = times.map_or(1.0, |times| f64::from(times[meeting.task as usize]));
            if counts > 0.0 {
                observed += counts * self.scale.between(meeting.first.into(), meeting.second.into());
                total += counts;
                margins.add(*meeting, counts);
            }
        }
        let expected = match self.chance {
            Chance::Own => self.scale.expected(&margins.used, &margins.first, &margins.second),
            Chance::Shared => {
                for &label in &margins.used {
                    let at = usize::from(label);
                    margins.first[at] = f64::midpoint(margins.first[at], margins.second[at]);
                }
                self.scale.expected(&margins.used, &margins.first, &margins.first)
            }
        };
        margins.clear();
        (beyond_chance(observed * total, expected), total)
    }

    /// One number for all pairs; those without a coefficient are left out.
    fn summarise(&self, found: impl Iterator<Item = (f64, f64)>) -> f64 {
        let known = self.meetings.pairs.iter().zip(found).filter(|(_, (value, _))| !value.is_nan());
        match self.summary {
            Summary::Even => mean(known.map(|(_, (value, _))| (value, 1.0))),
            Summary::ByOverlap => mean(known.map(|(_, found)| found)),
            Summary::Ratio(worker) => {
                let squashed = known.map(|(pair, (value, _))| (pair.contains(&worker), 1.0 / (1.0 + (-value).exp())));
                let (with, without): (Vec<_>, Vec<_>) = squashed.partition(|(with, _)| *with);
                let mean_of = |values: Vec<(bool, f64)>| mean(values.into_iter().map(|(_, value)| (value, 1.0)));
                mean_of(with) / mean_of(without)
            }
        }
    }
}

/// The weighted mean; not a number where there is nothing to average.
fn mean(values: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, weight) = values.fold((0.0, 0.0), |(sum, weight), (value, w)| (sum + w * value, weight + w));
    sum / weight
}

/// Cuts the pairs into runs of a fixed length.
fn blocks(n_pairs: usize) -> Vec<Range<usize>> {
    (0..n_pairs).step_by(PAIRS_PER_CHECK).map(|start| start..n_pairs.min(start + PAIRS_PER_CHECK)).collect()
}
