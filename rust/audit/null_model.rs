//! Who of a task's workers gave a label, where it is taken as given how many did.
//!
//! A task may be hard, or mislead all workers in the same way. That c of its n answers are the label l is therefore not
//! evidence against any worker; open is only *who* gave them. Worker j did with odds oⱼ, those of l among their answers
//! given what is believed of the task's class, and any set of c workers is as probable as the product of its odds.

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::{clear, zeros};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Probabilities of answers are taken to lie between this and one less this.
const LEAST: f64 = 1e-6;
/// With more answers of a task, joint probabilities are Hájek's: right to about the inverse square of their number.
const MOST_EXACT: usize = 64;
/// How near the tilted odds must come to the number of answers: for products that cannot vanish, and for Hájek's
/// formula.
const NEAR: f64 = 0.25;
const NEARER: f64 = 1e-9;

/// This many answers of a worker in a stratum weigh as much as what they do in all.
const STRENGTH: f64 = 10.0;

/// What is believed of classes and workers, and which tasks are alike.
#[derive(Debug, Clone, Copy)]
pub struct Beliefs<'a> {
    /// Posteriors of the classes, (tasks × classes).
    pub posterior: &'a [f64],
    /// Confusion matrices, (workers × true × observed).
    pub confusion: &'a [f64],
    /// The stratum of each task, such as how hard it is: workers may err in each in another way.
    pub strata: &'a [u8],
}

impl<'a> Beliefs<'a> {
    /// How each worker answers in each stratum: as they did there, as far as they did, and otherwise as they do in all.
    ///
    /// Fails unless everything fits the table. Memory: 8 bytes for each worker, stratum, class and label.
    pub(crate) fn habits(self, table: &Table, control: &Control) -> Result<Habits<'a>> {
        let (n, m, k, labels) = (table.n_tasks(), table.n_workers(), table.n_classes(), table.n_labels());
        if self.posterior.len() != n * k || self.confusion.len() != m * k * labels || self.strata.len() != n {
            return Err(Error::invalid("posterior, confusion and strata must fit the table"));
        }
        if self.posterior.iter().chain(self.confusion).any(|p| !(0.0..=1.0 + 1e-6).contains(p)) {
            return Err(Error::invalid("posterior and confusion must hold probabilities"));
        }
        let n_strata = self.strata.iter().fold(0, |most, &s| usize::from(s).max(most)) + 1;
        let cells = k * labels;
        let mut rates = zeros(m * n_strata * cells)?;
        let order = table.by_worker(control)?;
        rates.par_chunks_mut(n_strata * cells).zip(self.confusion.par_chunks(cells)).enumerate().try_for_each(
            |(worker, (rates, matrix))| {
                control.check()?;
                for at in order.offsets[worker] as usize..order.offsets[worker + 1] as usize {
                    let (task, label) = (order.tasks[at] as usize, order.labels.get(at));
                    let of_stratum = &mut rates[usize::from(self.strata[task]) * cells..][..cells];
                    let posterior = &self.posterior[task * k..(task + 1) * k];
                    of_stratum.chunks_exact_mut(labels).zip(posterior).for_each(|(row, q)| row[label] += q);
                }
                for rates in rates.chunks_exact_mut(cells) {
                    for (row, usual) in rates.chunks_exact_mut(labels).zip(matrix.chunks_exact(labels)) {
                        let total = row.iter().sum::<f64>() + STRENGTH;
                        row.iter_mut().zip(usual).for_each(|(p, usual)| *p = (*p + STRENGTH * usual) / total);
                    }
                }
                Ok(())
            },
        )?;
        Ok(Habits { beliefs: self, n_strata, rates })
    }
}

/// How workers answer, by stratum.
#[derive(Debug)]
pub(crate) struct Habits<'a> {
    pub beliefs: Beliefs<'a>,
    n_strata: usize,
    /// (workers × strata × true × observed).
    rates: Vec<f64>,
}

/// The answers to one task, seen by one of its workers.
#[derive(Debug, Default)]
pub(crate) struct Chance {
    /// Labels of the task's annotations, in the order of the table.
    pub labels: Vec<usize>,
    /// Of one label: the probability that each worker gives it, tilted so that about as many as did are expected to.
    tilted: Vec<f64>,
    /// How many of the workers before, and behind, each one give it, (workers × counts).
    before: Vec<f64>,
    behind: Vec<f64>,
}

impl Chance {
    /// Reads a task; returns the place of the worker among those who answered it.
    pub fn read(&mut self, table: &Table, task: usize, worker: usize) -> Result<Option<usize>> {
        let rows = table.rows_of(task);
        let own = table.workers()[rows.clone()].iter().position(|&other| other as usize == worker);
        clear(&mut self.labels, rows.len())?;
        self.labels.iter_mut().zip(rows).for_each(|(label, row)| *label = table.labels().get(row));
        Ok(own)
    }

    /// Whether the i-th answer is the first with its label, and how many have it.
    pub fn first_of(&self, i: usize) -> Option<usize> {
        let label = self.labels[i];
        let first = !self.labels[..i].contains(&label);
        first.then(|| self.labels.iter().filter(|other| **other == label).count())
    }

    /// Turns to a label that `count` of the workers gave, fewer than all.
    pub fn turn_to(
        &mut self,
        table: &Table,
        habits: &Habits<'_>,
        task: usize,
        label: usize,
        count: usize,
    ) -> Result<()> {
        let (k, labels) = (table.n_classes(), table.n_labels());
        let posterior = &habits.beliefs.posterior[task * k..(task + 1) * k];
        let (n_strata, stratum) = (habits.n_strata, usize::from(habits.beliefs.strata[task]));
        let workers = &table.workers()[table.rows_of(task)];
        clear(&mut self.tilted, workers.len())?;
        for (odds, &worker) in self.tilted.iter_mut().zip(workers) {
            let matrix = &habits.rates[(worker as usize * n_strata + stratum) * k * labels..][..k * labels];
            let p: f64 = posterior.iter().zip(matrix.chunks_exact(labels)).map(|(q, row)| q * row[label]).sum();
            let p = p.clamp(LEAST, 1.0 - LEAST);
            *odds = p / (1.0 - p);
        }
        tilt(&mut self.tilted, count as f64, if workers.len() <= MOST_EXACT { NEAR } else { NEARER });
        Ok(())
    }

    /// The probability that one worker gives the label; with `later`, adds for all who come later that both do.
    pub fn of_worker(&mut self, own: usize, count: usize, later: Option<&mut [f64]>) -> Result<f64> {
        if self.tilted.len() <= MOST_EXACT { self.exactly(own, count, later) } else { Ok(self.nearly(own, later)) }
    }

    fn exactly(&mut self, own: usize, count: usize, later: Option<&mut [f64]>) -> Result<f64> {
        let (n, p, width) = (self.tilted.len(), &self.tilted, count + 1);
        clear(&mut self.before, (n + 1) * width)?;
        self.before[0] = 1.0;
        // The worker at hand is left out: it adds nothing to any count.
        let chance = |i: usize| if i == own { 0.0 } else { p[i] };
        for i in 0..n {
            let (head, next) = self.before.split_at_mut((i + 1) * width);
            add_one(&head[i * width..], &mut next[..width], chance(i));
        }
        let others = &self.before[n * width..];
        let total = p[own] * others[count - 1] + (1.0 - p[own]) * others[count];
        let Some(joint) = later.filter(|_| count >= 2) else { return Ok(p[own] * others[count - 1] / total) };
        clear(&mut self.behind, (n + 1) * width)?;
        self.behind[n * width] = 1.0;
        for i in (own + 1..n).rev() {
            let (next, tail) = self.behind.split_at_mut((i + 1) * width);
            add_one(&tail[..width], &mut next[i * width..], p[i]);
        }
        for i in own + 1..n {
            let (before, behind) =
                (&self.before[i * width..][..count - 1], &self.behind[(i + 1) * width..][..count - 1]);
            let rest: f64 = before.iter().zip(behind.iter().rev()).map(|(a, b)| a * b).sum();
            joint[i] += p[own] * p[i] * rest / total;
        }
        Ok(p[own] * others[count - 1] / total)
    }

    /// The same by Hájek's approximation.
    fn nearly(&self, own: usize, later: Option<&mut [f64]>) -> f64 {
        let p = &self.tilted;
        let spread: f64 = p.iter().map(|p| p * (1.0 - p)).sum();
        if let Some(joint) = later {
            for i in own + 1..p.len() {
                let both = p[own] * p[i] * (1.0 - (1.0 - p[own]) * (1.0 - p[i]) / spread.max(LEAST));
                joint[i] += both.clamp(0.0, p[own].min(p[i]));
            }
        }
        p[own]
    }
}

/// The distribution of a count, up to some number, with one more who adds to it with probability `p`.
fn add_one(counts: &[f64], more: &mut [f64], p: f64) {
    more[0] = counts[0] * (1.0 - p);
    for (i, to) in more.iter_mut().enumerate().skip(1) {
        *to = counts[i] * (1.0 - p) + counts[i - 1] * p;
    }
}

/// Odds become probabilities o / (o + exp θ), with θ such that their sum is near `count`.
fn tilt(odds: &mut [f64], count: f64, near: f64) {
    let mut tilt = 0.0_f64;
    for _ in 0..100 {
        let (mut sum, mut slope, factor) = (-count, 0.0, tilt.exp());
        for o in &*odds {
            let p = o / (o + factor);
            sum += p;
            slope += p * (1.0 - p);
        }
        if sum.abs() <= near {
            break;
        }
        tilt += (sum / slope.max(LEAST)).clamp(-2.0, 2.0);
    }
    odds.iter_mut().for_each(|o| *o /= *o + tilt.exp());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;

    #[test]
    fn habits_are_those_of_a_stratum_as_far_as_they_are_known() {
        // No worker answers anything but 1 in the second stratum, where the first worker has ten answers and the second
        // none.
        let rows: Vec<(u32, u32, u16)> = (0..12).map(|i| (i, u32::from(i < 2), u16::from(i >= 2))).collect();
        let table = of_rows(&rows, None, [12, 2, 2]);
        let (posterior, confusion) = ([1.0, 0.0].repeat(12), [0.6, 0.4, 0.5, 0.5].repeat(2));
        let strata: Vec<u8> = (0..12).map(|i| u8::from(i >= 2)).collect();
        let beliefs = Beliefs { posterior: &posterior, confusion: &confusion, strata: &strata };
        let habits = beliefs.habits(&table, &Control::default()).unwrap();
        let expected = [0.6, 0.4, 0.5, 0.5, 0.3, 0.7, 0.5, 0.5, 8.0 / 12.0, 4.0 / 12.0, 0.5, 0.5, 0.6, 0.4, 0.5, 0.5];
        for (got, wanted) in habits.rates.iter().zip(expected) {
            assert!((got - wanted).abs() < 1e-12, "{:?}", habits.rates);
        }
        assert!(Beliefs { strata: &strata[1..], ..beliefs }.habits(&table, &Control::default()).is_err());
    }

    /// How probable sets with these workers are among all of this many, each as probable as the product of its odds.
    fn by_sets(odds: &[f64], count: u32, with: u32) -> f64 {
        let (mut some, mut all) = (0.0, 0.0);
        for set in (0_u32..1 << odds.len()).filter(|set| set.count_ones() == count) {
            let weight: f64 = odds.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, o)| o).product();
            all += weight;
            some += if set & with == with { weight } else { 0.0 };
        }
        some / all
    }

    #[test]
    fn workers_give_a_label_as_often_as_sets_hold_them() {
        let odds = [0.1, 3.0, 0.7, 40.0, 1e-4, 1.5];
        for count in 1..odds.len() {
            for own in 0..odds.len() {
                let mut chance = Chance { tilted: odds.to_vec(), ..Chance::default() };
                tilt(&mut chance.tilted, count as f64, NEAR);
                let mut joint = vec![0.0; odds.len()];
                let alone = chance.of_worker(own, count, Some(&mut joint)).unwrap();
                assert!((alone - by_sets(&odds, count as u32, 1 << own)).abs() < 1e-12);
                for (i, both) in joint.iter().enumerate().skip(own + 1) {
                    assert!((both - by_sets(&odds, count as u32, 1 << own | 1 << i)).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn odds_however_small_are_brought_to_the_count() {
        let mut odds = [1e-30; 40];
        tilt(&mut odds, 20.0, NEARER);
        assert!(odds.iter().all(|p| (p - 0.5).abs() <= NEARER), "{odds:?}");
    }

    #[test]
    fn probabilities_in_large_tasks_add_up_to_the_count() {
        // Workers differ by how they answered the second task, and by nothing in the first.
        let n = MOST_EXACT as u32 + 2;
        let rows: Vec<(u32, u32, u16)> =
            (0..2 * n).map(|i| (i / n, i % n, u16::from(if i < n { i < 20 } else { i.is_multiple_of(3) }))).collect();
        let table = of_rows(&rows, None, [2, n as usize, 2]);
        let (posterior, confusion) = ([0.4, 0.6, 0.7, 0.3], vec![0.5; 4 * n as usize]);
        let beliefs = Beliefs { posterior: &posterior, confusion: &confusion, strata: &[0; 2] };
        let habits = beliefs.habits(&table, &Control::default()).unwrap();
        let mut chance = Chance::default();
        chance.turn_to(&table, &habits, 0, 1, 20).unwrap();
        let total: f64 = chance.tilted.iter().sum();
        assert!((total - 20.0).abs() < 1e-6, "{total}");
    }

    #[test]
    fn large_tasks_are_judged_nearly_as_exactly() {
        let odds: Vec<f64> = (0..80).map(|i| 0.2 + f64::from(i % 7)).collect();
        let mut chance = Chance { tilted: odds, ..Chance::default() };
        tilt(&mut chance.tilted, 30.0, NEARER);
        let (mut exact, mut near) = (vec![0.0; 80], vec![0.0; 80]);
        let alone = chance.exactly(3, 30, Some(&mut exact)).unwrap();
        assert!((chance.nearly(3, Some(&mut near)) - alone).abs() < 2e-3);
        for (a, b) in exact.iter().zip(&near) {
            assert!((a - b).abs() < 2e-3, "{a} {b}");
        }
    }
}
