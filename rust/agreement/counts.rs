//! Coefficients of the labels that meet on a task, regardless of worker: Krippendorff's alpha, Fleiss' kappa, Gwet's
//! AC.

use rayon::prelude::*;

use super::coincidences::middle_ranks;
use super::jackknife::{Kept, LeftOut};
use super::{Estimate, Scale, Shape, TASKS_PER_CHECK, beyond_chance};
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{collected, par_collected, push, reserve};
use crate::categorical::table::Table;

/// Which coefficient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coefficient {
    /// Krippendorff's alpha.
    Alpha,
    /// Krippendorff's alpha on ranks: classes lie where the labels at hand put them, positions play no part.
    OrdinalAlpha,
    /// Fleiss' kappa; tasks may have different numbers of labels.
    Fleiss,
    /// Gwet's AC1, or AC2 where classes differ by more than being different.
    Gwet,
}

impl Coefficient {
    /// Every coefficient by name.
    pub const NAMES: [(&str, Self); 4] =
        [("alpha", Self::Alpha), ("ordinal-alpha", Self::OrdinalAlpha), ("fleiss", Self::Fleiss), ("gwet", Self::Gwet)];

    /// Whether a task weighs as much as it has labels, two at least; otherwise tasks weigh alike.
    pub(super) fn weighs_labels(self) -> bool {
        matches!(self, Self::Alpha | Self::OrdinalAlpha)
    }
}

/// What [`agreement_by_counts`] found.
#[derive(Debug)]
pub struct Counted {
    /// The coefficient; not a number where it is undefined.
    pub value: f64,
    /// One minus the coefficient if all labels that meet were as far apart as can be.
    pub worst: f64,
    /// The coefficient without each group of tasks.
    pub left_out: LeftOut,
    /// Tasks with two labels or more.
    pub n_tasks: usize,
    /// Pairs of labels on the same task.
    pub n_pairs: u64,
}

/// A coefficient of agreement, and the same without each of `n_groups` groups of the tasks.
///
/// Time O(annotations) each, for a scale that is not nominal also O(classes²) and O(distinct labels²) on each task.
/// Memory: at most 6 bytes per annotation and 12 bytes per task, and for groups 9 bytes per task.
pub fn agreement_by_counts(
    table: &Table,
    coefficient: Coefficient,
    scale: Scale<'_>,
    n_groups: usize,
    seed: u64,
    control: &Control,
) -> Result<Counted> {
    scale.validate(table.n_labels())?;
    let tallies = Tallies::new(table, control)?;
    let sizes = || table.offsets().windows(2).map(|w| u64::from(w[1] - w[0]));
    let measure = Measure::new(coefficient, scale, &tallies)?;
    let Estimate { value, worst } = measure.evaluate(Kept::ALL, control)?;
    let compared: Vec<bool> = collected(table.offsets().windows(2).map(|w| w[1] - w[0] > 1))?;
    Ok(Counted {
        value,
        worst,
        left_out: LeftOut::new(&compared, n_groups, seed, |tasks| Ok(measure.evaluate(tasks, control)?.value))?,
        n_tasks: compared.iter().filter(|compared| **compared).count(),
        n_pairs: sizes().map(|n| n * n.saturating_sub(1) / 2).sum(),
    })
}

/// How often each task was given each label: the labels that occur, ascending, and their counts.
pub(super) struct Tallies {
    offsets: Vec<u32>,
    labels: Vec<u16>,
    counts: Vec<u32>,
    n_classes: usize,
}

impl Tallies {
    pub fn new(table: &Table, control: &Control) -> Result<Self> {
        const ROWS_PER_CHUNK: usize = 1 << 16;
        let chunks = table.chunks(table.len().div_ceil(ROWS_PER_CHUNK));
        let parts: Vec<Self> = chunks
            .into_par_iter()
            .map(|tasks| {
                control.check()?;
                let mut part = Self { offsets: vec![], labels: vec![], counts: vec![], n_classes: table.n_labels() };
                let mut sorted = vec![];
                for task in tasks {
                    sorted.clear();
                    reserve(&mut sorted, table.rows_of(task).len())?;
                    sorted.extend(table.rows_of(task).map(|row| table.labels().get(row) as u16));
                    sorted.sort_unstable();
                    for run in sorted.chunk_by(|a, b| a == b) {
                        push(&mut part.labels, run[0])?;
                        push(&mut part.counts, run.len() as u32)?;
                    }
                    push(&mut part.offsets, part.labels.len() as u32)?;
                }
                Ok(part)
            })
            .collect::<Result<_>>()?;
        let mut all = Self { offsets: vec![0], labels: vec![], counts: vec![], n_classes: table.n_labels() };
        let n_labels = parts.iter().map(|part| part.labels.len()).sum();
        reserve(&mut all.offsets, table.n_tasks())?;
        reserve(&mut all.labels, n_labels)?;
        reserve(&mut all.counts, n_labels)?;
        for part in parts {
            let base = all.labels.len() as u32;
            all.offsets.extend(part.offsets.iter().map(|end| base + end));
            all.labels.extend(part.labels);
            all.counts.extend(part.counts);
        }
        Ok(all)
    }

    fn n_tasks(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Labels of a task and how often each was given.
    #[inline(always)]
    pub fn of(&self, task: usize) -> impl Iterator<Item = (usize, f64)> + Clone {
        let at = self.offsets[task] as usize..self.offsets[task + 1] as usize;
        self.labels[at.clone()].iter().zip(&self.counts[at]).map(|(&label, &n)| (usize::from(label), f64::from(n)))
    }

    /// The disagreement of all ordered pairs of labels of a task, and its number of labels.
    fn disagreement(&self, task: usize, scale: Scale<'_>) -> (f64, f64) {
        let (mut sum, mut size) = (0.0, 0.0);
        for (i, (a, n)) in self.of(task).enumerate() {
            sum += self.of(task).take(i).map(|(b, other)| 2.0 * n * other * scale.between(a, b)).sum::<f64>();
            size += n;
        }
        (sum, size)
    }
}

/// A coefficient, ready to be evaluated on any of the tasks.
struct Measure<'a> {
    coefficient: Coefficient,
    scale: Scale<'a>,
    tallies: &'a Tallies,
    /// Disagreement within each task, unless the scale depends on which tasks count.
    within: Vec<f64>,
    /// The largest disagreement of any two classes, and the sum over all pairs of them; Gwet's AC needs them.
    extent: (f64, f64),
}

impl<'a> Measure<'a> {
    fn new(coefficient: Coefficient, scale: Scale<'a>, tallies: &'a Tallies) -> Result<Self> {
        let ordinal = coefficient == Coefficient::OrdinalAlpha;
        let tasks = 0..if ordinal { 0 } else { tallies.n_tasks() };
        let within = par_collected(tasks.into_par_iter().map(|task| tallies.disagreement(task, scale).0))?;
        let extent = if coefficient == Coefficient::Gwet { scale.extent() } else { (0.0, 0.0) };
        Ok(Self { coefficient, scale, tallies, within, extent })
    }

    fn evaluate(&self, kept: Kept<'_>, control: &Control) -> Result<Estimate> {
        let alpha = self.coefficient.weighs_labels();
        let mut classes = vec![0.0; self.tallies.n_classes];
        let (mut n, mut n_paired, mut observed) = (0.0, 0.0, 0.0);
        for task in 0..self.tallies.n_tasks() {
            if task.is_multiple_of(TASKS_PER_CHECK) {
                control.check()?;
            }
            let size: f64 = self.tallies.of(task).map(|(_, n)| n).sum();
            if !kept.has(task) || size == 0.0 || (alpha && size < 2.0) {
                continue;
            }
            // Alpha weighs a task by its labels, the others weigh tasks alike.
            let share = if alpha { 1.0 } else { 1.0 / size };
            self.tallies.of(task).for_each(|(label, n)| classes[label] += share * n);
            n += 1.0;
            if size > 1.0 {
                n_paired += 1.0;
                if let Some(within) = self.within.get(task) {
                    observed += share * within / (size - 1.0);
                }
            }
        }
        if n_paired == 0.0 {
            return Ok(Estimate::UNDEFINED);
        }
        match self.coefficient {
            Coefficient::Alpha => Ok(alpha_of(observed, &classes, self.scale)),
            Coefficient::OrdinalAlpha => self.ordinal_alpha(&classes, kept, control),
            Coefficient::Fleiss => {
                classes.iter_mut().for_each(|p| *p /= n);
                Ok(fleiss_of(observed / n_paired, &classes, self.scale))
            }
            Coefficient::Gwet => {
                classes.iter_mut().for_each(|p| *p /= n);
                Ok(gwet_of(observed / n_paired, &classes, self.extent))
            }
        }
    }

    /// Ordinal alpha: interval alpha of the mid-ranks of the classes.
    fn ordinal_alpha(&self, classes: &[f64], kept: Kept<'_>, control: &Control) -> Result<Estimate> {
        let positions = middle_ranks(classes);
        let scale = Scale { shape: Shape::Quadratic, positions: &positions };
        let mut observed = 0.0;
        for task in 0..self.tallies.n_tasks() {
            if task.is_multiple_of(TASKS_PER_CHECK) {
                control.check()?;
            }
            if kept.has(task) {
                let (within, size) = self.tallies.disagreement(task, scale);
                observed += within / (size - 1.0).max(1.0);
            }
        }
        Ok(alpha_of(observed, classes, scale))
    }
}

/// Kappa from the mean disagreement within tasks and the shares of the classes.
pub(super) fn fleiss_of(observed: f64, classes: &[f64], scale: Scale<'_>) -> Estimate {
    let used = used(classes);
    beyond_chance(observed, scale.expected(&used, classes, classes), scale.widest(&used))
}

/// Chance agreement as Gwet sees it: labels at random, with the probability that a label is given at random.
pub(super) fn gwet_of(observed: f64, classes: &[f64], (largest, sum): (f64, f64)) -> Estimate {
    let k = classes.len() as f64;
    if classes.len() < 2 || largest == 0.0 {
        return Estimate::UNDEFINED;
    }
    let spread: f64 = classes.iter().map(|p| p * (1.0 - p)).sum();
    let chance = (k * k - sum / largest) / (k * (k - 1.0)) * spread;
    beyond_chance(observed / largest, 1.0 - chance, 1.0)
}

/// Alpha from the disagreement of coincident labels and the number of labels of each class.
pub(super) fn alpha_of(observed: f64, classes: &[f64], scale: Scale<'_>) -> Estimate {
    let (total, used) = (classes.iter().sum::<f64>(), used(classes));
    let most = total * scale.widest(&used);
    beyond_chance(observed * (total - 1.0), scale.expected(&used, classes, classes), most * (total - 1.0))
}

/// The classes that occur.
fn used(classes: &[f64]) -> Vec<u16> {
    (0..).zip(classes).filter(|(_, n)| **n > 0.0).map(|(label, _)| label).collect()
}
