//! The seam of EM: what a pass is given, and what it gives back.
//!
//! A pass maps parameters to sums over the annotations; the loop asks for sums and knows no table. Any object that
//! holds the annotations, in memory or elsewhere, implements [`Passes`]. Sums are added in a fixed order, so that every
//! holder of the same annotations gives the same bits.

use super::model::{Model, Shape};
use super::pass::Opening;
use super::shard::table_of;
use crate::Result;
use crate::base::parallel::each_block;

/// What an E-step reads.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a> {
    /// Of each worker, as the worker model lays them out.
    pub workers: &'a [f64],
    /// Of the classes: (classes) for all tasks alike, or (tasks × classes).
    pub classes: &'a [f64],
}

/// How evidence becomes a posterior.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mode {
    /// Whether each task goes wholly to its most probable class.
    pub hard: bool,
    /// Whether a task may only have a class that a worker voted for, or its known one.
    pub voted_only: bool,
}

/// Sums over annotations.
#[derive(Debug)]
pub struct Sums {
    /// Expected counts of each worker, as the worker model lays them out.
    pub workers: Vec<f64>,
    /// Expected tasks of each class.
    pub classes: Vec<f64>,
    /// Logarithm of the probability of all labels.
    pub log_evidence: f64,
}

impl Sums {
    /// Nothing yet.
    pub fn new(model: Model, n_workers: usize, shape: Shape) -> Result<Self> {
        Ok(Self {
            workers: table_of(n_workers * model.n_counts(shape))?,
            classes: vec![0.0; shape.classes],
            log_evidence: 0.0,
        })
    }

    /// Begins again, with this many tasks of each class.
    pub fn clear(&mut self, classes: &[f64]) {
        each_block(&mut self.workers, 1, 1 << 15, &|_, counts| counts.fill(0.0));
        self.classes.copy_from_slice(classes);
        self.log_evidence = 0.0;
    }
}

/// Holder of annotations, and goes through them when asked to. What it finds is added to the sums.
pub trait Passes {
    /// Expected counts of a start that has no parameters.
    fn open(&mut self, model: Model, opening: Opening<'_>, sums: &mut Sums) -> Result<()>;
    /// Expected counts and log-evidence under the factors.
    fn gather(&mut self, model: Model, factors: Factors<'_>, mode: Mode, sums: &mut Sums) -> Result<()>;
    /// The last pass, under the factors that an iteration ended with: its log-evidence.
    fn conclude(&mut self, model: Model, factors: Factors<'_>) -> Result<f64>;
}
