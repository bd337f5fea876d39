//! Margins of weighted votes (Tian and Zhu 2015): answers that beat every other class by far.
//!
//! The score of a class on a task is the sum of the weights of the workers who named it. [`vote`] finds the weights
//! under which answers have wide margins; [`gibbs`] joins that aim with a confusion matrix for each worker.

pub mod gibbs;
pub mod vote;

mod draws;

use crate::categorical::table::Table;
use crate::{Error, Result};

/// Stands for a class that no worker named on a task: all of them have a score of zero.
const UNNAMED: usize = usize::MAX;
/// Another class must have this much more, as a share of the margin or of its own score, to take an answer's place:
/// equal sums may be rounded differently.
const CLEAR: f64 = 1e-12;

/// A class that a worker named on a task.
#[derive(Debug, Clone, Copy)]
struct Named {
    class: usize,
    /// The first row that names it.
    row: usize,
    score: f64,
}

/// The votes on one task, counted.
#[derive(Debug)]
struct Ballot {
    named: Vec<Named>,
    /// For each class its place among those named, from one; zero for the rest.
    place: Vec<u32>,
}

impl Ballot {
    fn new(n_classes: usize) -> Self {
        Self { named: vec![], place: vec![0; n_classes] }
    }

    /// Counts the votes on a task. Classes are in the order of their codes, whatever the order of rows, so that the
    /// numbers of workers do not decide between classes with equal scores.
    fn count(&mut self, table: &Table, task: usize, weights: &[f64]) {
        self.named.drain(..).for_each(|candidate| self.place[candidate.class] = 0);
        for row in table.rows_of(task) {
            let class = table.labels().get(row);
            let vote = weights[table.workers()[row] as usize] * table.weights().map_or(1.0, |w| w[row]);
            match self.place[class] {
                0 => {
                    self.named.push(Named { class, row, score: vote });
                    self.place[class] = self.named.len() as u32;
                }
                place => self.named[place as usize - 1].score += vote,
            }
        }
        self.named.sort_unstable_by_key(|candidate| candidate.class);
        for (i, named) in self.named.iter().enumerate() {
            self.place[named.class] = i as u32 + 1;
        }
    }

    fn get(&self, class: usize) -> Option<&Named> {
        (self.place[class] as usize).checked_sub(1).map(|place| &self.named[place])
    }

    fn score(&self, class: usize) -> f64 {
        self.get(class).map_or(0.0, |candidate| candidate.score)
    }

    /// Whether there is a class next to `class` that no worker named.
    fn leaves_others(&self, class: usize) -> bool {
        let n_named = self.named.len() - usize::from(self.get(class).is_some());
        n_named + 1 < self.place.len()
    }

    /// The class next to `class` with the greatest score, and that; none where there is only one class.
    fn rival(&self, class: usize) -> Option<(usize, f64)> {
        let unnamed = self.leaves_others(class).then_some((UNNAMED, 0.0));
        let others = self
            .named
            .iter()
            .filter(|candidate| candidate.class != class)
            .map(|candidate| (candidate.class, candidate.score));
        others.chain(unnamed).reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// How much `class` lacks of being ahead of all others by `margin`.
    fn lack(&self, class: usize, margin: f64) -> f64 {
        self.rival(class).map_or(0.0, |(_, score)| (margin - (self.score(class) - score)).max(0.0))
    }

    /// The class with the greatest score: `class` itself where none is clearly ahead of it, else the lowest code of
    /// those that are not clearly behind the best.
    fn winner(&self, class: usize, margin: f64) -> usize {
        let unnamed = self.place.iter().position(|place| *place == 0).map(|class| (class, 0.0));
        let scores = || self.named.iter().map(|candidate| (candidate.class, candidate.score)).chain(unnamed);
        let best = scores().map(|(_, score)| score).fold(f64::NEG_INFINITY, f64::max);
        let near = best - CLEAR * best.abs().max(margin);
        if self.score(class) >= near {
            return class;
        }
        scores().filter(|(_, score)| *score >= near).map(|(other, _)| other).min().unwrap_or(class)
    }
}

fn check_positive(settings: &[(&str, f64)]) -> Result<()> {
    match settings.iter().find(|(_, x)| !(x.is_finite() && *x > 0.0)) {
        Some((what, bad)) => Err(Error::invalid(format!("a {what} of {bad} is not a positive number"))),
        None => Ok(()),
    }
}
