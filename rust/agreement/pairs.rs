//! Coefficients of pairs of workers: Cohen's kappa, Scott's pi, and what they come to over a crowd.

use std::ops::Range;

use rayon::prelude::*;

use super::jackknife::{Kept, LeftOut};
use super::{Estimate, Scale, Shape, beyond_chance};
use crate::base::control::Control;
use crate::base::memory::{collected, copied, grow, joined, push, zeros};
use crate::categorical::table::Table;
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
    /// The coefficient itself, where there is only one pair.
    Alone,
    /// One minus observed over expected disagreement, each the mean over pairs.
    Even,
    /// The same, the means weighted by what the pairs labeled together.
    ByOverlap,
    /// The mean over pairs with this worker over the mean over all other pairs, each squashed by the logistic function,
    /// less its bias.
    Ratio(u32),
    /// The same without the correction of the bias.
    PlainRatio(u32),
}

/// What [`agreement_by_pairs`] found.
#[derive(Debug)]
pub struct Paired {
    /// The summary; not a number where it is undefined.
    pub value: f64,
    /// One minus the summary if all labels that meet were as far apart as can be; not a number for a ratio.
    pub worst: f64,
    /// The summary without each group of tasks.
    pub left_out: LeftOut,
    /// First and second worker of each pair, sorted.
    pub pairs: Vec<u32>,
    /// How many pairs of labels on the same task each pair has.
    pub overlap: Vec<u64>,
    /// The coefficient of each pair; not a number where it is undefined.
    pub coefficients: Vec<f64>,
    /// The part of each pair in a ratio: its coefficient through the logistic function, less its bias where that is
    /// corrected; not a number for other summaries, and where the coefficient is undefined.
    pub squashed: Vec<f64>,
    /// Tasks on which two of these workers met.
    pub n_tasks: usize,
    /// Pairs that the summary rests on.
    pub n_pairs: usize,
}

/// Agreement of every pair of workers with at least `min_overlap` labels on the same tasks, and a summary of it on all
/// tasks and without each of `n_groups` groups of them.
///
/// Time O(Σ n²) over tasks with n annotations, each; memory 20 bytes for each two annotations of a task, 72 bytes for
/// each two workers who meet, and for groups 9 bytes per task.
#[allow(clippy::too_many_arguments)]
pub fn agreement_by_pairs(
    table: &Table,
    chance: Chance,
    scale: Scale<'_>,
    summary: Summary,
    min_overlap: usize,
    n_groups: usize,
    seed: u64,
    control: &Control,
) -> Result<Paired> {
    scale.validate(table.n_labels())?;
    let meetings = Meetings::new(table, min_overlap, control)?;
    let crowd = Crowd { meetings: &meetings, chance, scale, n_classes: table.n_labels(), summary };
    let pairs = crowd.find_all(control)?;
    let mut totals = Totals::default();
    pairs.iter().enumerate().for_each(|(pair, found)| crowd.add(&mut totals, pair, found));
    let Estimate { value, worst } = crowd.summarise(&totals);
    let mut compared = zeros::<bool>(table.n_tasks())?;
    meetings.items.iter().for_each(|meeting| compared[meeting.task as usize] = true);
    Ok(Paired {
        value,
        worst,
        left_out: LeftOut::new(&compared, n_groups, seed, |tasks| crowd.evaluate(tasks, control))?,
        n_tasks: compared.iter().filter(|compared| **compared).count(),
        n_pairs: totals.n_pairs,
        pairs: copied(meetings.pairs.as_flattened())?,
        overlap: collected((0..meetings.pairs.len()).map(|pair| meetings.of(pair).len() as u64))?,
        coefficients: collected(pairs.iter().map(|estimate| estimate.coefficient.value))?,
        squashed: collected(pairs.iter().map(|estimate| estimate.squashed))?,
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

/// The pairs of a crowd, ready to be evaluated on any of the tasks.
struct Crowd<'a> {
    meetings: &'a Meetings,
    chance: Chance,
    scale: Scale<'a>,
    n_classes: usize,
    summary: Summary,
}

/// What a pair of workers answers.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// The coefficient of the pair by its definition.
    coefficient: Estimate,
    /// Pairs of labels on the same task.
    overlap: f64,
    /// Their mean disagreement.
    observed: f64,
    /// The mean disagreement of one worker's labels with the other's of *other* tasks: unlike that with all of the
    /// other's, it does not fall short of chance by the tasks on which they agree. Not a number for one common task.
    expected: f64,
    /// The largest disagreement of two of their labels.
    widest: f64,
    /// The coefficient through the logistic function; only known where the summary is a ratio.
    squashed: f64,
}

/// Sums over pairs, of which a summary is made.
#[derive(Debug, Clone, Copy)]
struct Totals {
    n_pairs: usize,
    observed: f64,
    expected: f64,
    most: f64,
    alone: Estimate,
    /// Sum and number of pairs without the worker of a ratio, and with.
    squashed: [(f64, f64); 2],
}

impl Default for Totals {
    fn default() -> Self {
        let nothing = [(0.0, 0.0); 2];
        Self { n_pairs: 0, observed: 0.0, expected: 0.0, most: 0.0, alone: Estimate::UNDEFINED, squashed: nothing }
    }
}

/// Labels of the two workers of a pair; all zero, and none used, between pairs.
struct Margins {
    first: Vec<f64>,
    second: Vec<f64>,
    used: Vec<u16>,
    /// The disagreement of each label with all of the other worker's, where it is asked for.
    reach: [Vec<f64>; 2],
}

impl Margins {
    fn new(n_classes: usize) -> Self {
        let zeros = || vec![0.0; n_classes];
        Self { first: zeros(), second: zeros(), used: vec![], reach: [zeros(), zeros()] }
    }

    fn add(&mut self, meeting: Meeting) {
        for (label, margin) in [(meeting.first, 0), (meeting.second, 1)] {
            let at = usize::from(label);
            if self.first[at] == 0.0 && self.second[at] == 0.0 {
                self.used.push(label);
            }
            [&mut self.first, &mut self.second][margin][at] += 1.0;
        }
    }

    /// Gives both workers the labels that they gave together.
    fn share(&mut self) {
        for &label in &self.used {
            let at = usize::from(label);
            let middle = f64::midpoint(self.first[at], self.second[at]);
            (self.first[at], self.second[at]) = (middle, middle);
        }
    }

    fn find_reach(&mut self, scale: Scale<'_>) {
        for (own, other) in [(0, &self.second), (1, &self.first)] {
            let total: f64 = self.used.iter().map(|&b| other[usize::from(b)]).sum();
            for &a in &self.used {
                let apart = |&b: &u16| other[usize::from(b)] * scale.between(a.into(), b.into());
                self.reach[own][usize::from(a)] = match scale.shape {
                    Shape::Nominal => total - other[usize::from(a)],
                    _ => self.used.iter().map(apart).sum(),
                };
            }
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
    fn find_all(&self, control: &Control) -> Result<Vec<Found>> {
        let blocks: Vec<Vec<Found>> = blocks(self.meetings.pairs.len())
            .into_par_iter()
            .map(|pairs| {
                control.check()?;
                let mut margins = Margins::new(self.n_classes);
                collected(pairs.map(|pair| self.find(pair, Kept::ALL, &mut margins)))
            })
            .collect::<Result<_>>()?;
        joined(&blocks)
    }

    fn evaluate(&self, kept: Kept<'_>, control: &Control) -> Result<f64> {
        let (mut margins, mut totals) = (Margins::new(self.n_classes), Totals::default());
        for pairs in blocks(self.meetings.pairs.len()) {
            control.check()?;
            for pair in pairs {
                self.add(&mut totals, pair, &self.find(pair, kept, &mut margins));
            }
        }
        Ok(self.summarise(&totals).value)
    }

    fn find(&self, pair: usize, kept: Kept<'_>, margins: &mut Margins) -> Found {
        let meetings = self.meetings.of(pair);
        // A worker may have labeled a task more than once: all such labels meet on it.
        let tasks = || meetings.chunk_by(|a, b| a.task == b.task).filter(|group| kept.has(group[0].task as usize));
        let (mut overlap, mut observed, mut at_once, mut n_at_once) = (0.0, 0.0, 0.0, 0.0);
        for group in tasks() {
            overlap += group.len() as f64;
            observed += self.disagreement(group);
            at_once += self.expected_of(group);
            n_at_once += (group.len() * group.len()) as f64;
            group.iter().for_each(|meeting| margins.add(*meeting));
        }
        if self.chance == Chance::Shared {
            margins.share();
        }
        let expected = self.scale.expected(&margins.used, &margins.first, &margins.second);
        let widest = self.scale.widest(&margins.used);
        let coefficient = beyond_chance(observed * overlap, expected, overlap * overlap * widest);
        let elsewhere = overlap * overlap - n_at_once;
        let mut estimate = Found {
            coefficient,
            overlap,
            observed: observed / overlap,
            expected: if elsewhere > 0.0 { (expected - at_once) / elsewhere } else { f64::NAN },
            widest,
            squashed: f64::NAN,
        };
        if matches!(self.summary, Summary::Ratio(_)) && !coefficient.value.is_nan() {
            margins.find_reach(self.scale);
            let without = tasks().map(|group| {
                let reach =
                    |m: &Meeting| margins.reach[0][usize::from(m.first)] + margins.reach[1][usize::from(m.second)];
                let left = expected - group.iter().map(reach).sum::<f64>() + self.expected_of(group);
                let overlap = overlap - group.len() as f64;
                let value = beyond_chance((observed - self.disagreement(group)) * overlap, left, f64::NAN).value;
                logistic(if value.is_nan() { coefficient.value } else { value })
            });
            estimate.squashed = less_bias(logistic(coefficient.value), without);
        } else if matches!(self.summary, Summary::PlainRatio(_)) {
            estimate.squashed = logistic(coefficient.value);
        }
        margins.clear();
        estimate
    }

    /// The disagreement of the labels that meet on a task.
    fn disagreement(&self, met: &[Meeting]) -> f64 {
        met.iter().map(|m| self.scale.between(m.first.into(), m.second.into())).sum()
    }

    /// What the labels that meet on a task add to the disagreement that chance would have.
    fn expected_of(&self, met: &[Meeting]) -> f64 {
        let between = |a: u16, b: u16| self.scale.between(a.into(), b.into());
        let of_two = |a: &Meeting, b: &Meeting| match self.chance {
            Chance::Own => between(a.first, b.second),
            Chance::Shared => {
                let own = between(a.first, b.first) + between(a.second, b.second);
                0.25 * (own + between(a.first, b.second) + between(a.second, b.first))
            }
        };
        met.iter().map(|a| met.iter().map(|b| of_two(a, b)).sum::<f64>()).sum()
    }

    /// Adds a pair to the totals, unless it carries no information.
    fn add(&self, totals: &mut Totals, pair: usize, found: &Found) {
        let weight = match self.summary {
            Summary::Even => 1.0,
            Summary::ByOverlap => found.overlap,
            Summary::Alone | Summary::Ratio(_) | Summary::PlainRatio(_) if found.coefficient.value.is_nan() => return,
            Summary::Alone => {
                totals.alone = found.coefficient;
                totals.n_pairs += 1;
                return;
            }
            Summary::Ratio(worker) | Summary::PlainRatio(worker) => {
                let (sum, n) = &mut totals.squashed[usize::from(self.meetings.pairs[pair].contains(&worker))];
                (*sum, *n) = (*sum + found.squashed, *n + 1.0);
                totals.n_pairs += 1;
                return;
            }
        };
        if !found.expected.is_nan() {
            totals.observed += weight * found.observed;
            totals.expected += weight * found.expected;
            totals.most += weight * found.widest;
            totals.n_pairs += 1;
        }
    }

    /// One number for all pairs.
    fn summarise(&self, totals: &Totals) -> Estimate {
        match self.summary {
            Summary::Alone => totals.alone,
            Summary::Even | Summary::ByOverlap => beyond_chance(totals.observed, totals.expected, totals.most),
            Summary::Ratio(_) | Summary::PlainRatio(_) => {
                let [without, with] = totals.squashed.map(|(sum, n)| sum / n);
                Estimate { value: with / without, worst: f64::NAN }
            }
        }
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// An estimate without the part of its bias that falls with the number of observations, by the estimates without each
/// of these (Quenouille's jackknife).
fn less_bias(value: f64, without: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = without.fold((0.0, 0.0), |(sum, n), x| (sum + x, n + 1.0));
    n * value - (n - 1.0) * sum / n
}

/// Cuts the pairs into runs of a fixed length.
fn blocks(n_pairs: usize) -> Vec<Range<usize>> {
    (0..n_pairs).step_by(PAIRS_PER_CHECK).map(|start| start..n_pairs.min(start + PAIRS_PER_CHECK)).collect()
}
