//! What a pass reads of annotations.

use std::borrow::Cow;

use rayon::prelude::*;

use super::model::Shape;
use super::solver::Sizes;
use crate::Result;
use crate::base::memory::par_collected;
use crate::categorical::shards::Shard;
use crate::categorical::table::{Label, Table, with_labels};

/// Annotations of whole tasks, as far as every pass reads them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tasks<'a> {
    /// Task `n` has the annotations `offsets[n]` to `offsets[n + 1]`.
    pub offsets: &'a [u32],
    pub weights: Option<&'a [f64]>,
    pub n_workers: usize,
    pub shape: Shape,
}

impl<'a> Tasks<'a> {
    fn of(table: &'a Table) -> Self {
        let shape = Shape { classes: table.n_classes(), labels: table.n_labels() };
        Self { offsets: table.offsets(), weights: table.weights(), n_workers: table.n_workers(), shape }
    }

    pub fn n_tasks(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn len(&self) -> usize {
        self.offsets[self.n_tasks()] as usize
    }

    pub fn sizes(&self) -> Sizes {
        Sizes { n_workers: self.n_workers, shape: self.shape }
    }
}

/// Holder of annotations in memory.
#[derive(Debug, Clone, Copy)]
pub enum Held<'a> {
    /// A table.
    Table(&'a Table),
    /// A part of a log, as it lies in its file.
    Shard(&'a Shard),
}

impl<'a> From<&'a Table> for Held<'a> {
    fn from(table: &'a Table) -> Self {
        Self::Table(table)
    }
}

impl<'a> From<&'a Shard> for Held<'a> {
    fn from(shard: &'a Shard) -> Self {
        Self::Shard(shard)
    }
}

impl<'a> Held<'a> {
    /// How many workers there are, and numbers of classes and labels.
    pub fn sizes(self) -> Sizes {
        self.rows().sizes()
    }

    /// The shape of a number for each task and class.
    pub fn n_rows(self) -> [usize; 2] {
        [self.rows().n_tasks(), self.rows().shape.classes]
    }

    pub(super) fn rows(self) -> Tasks<'a> {
        match self {
            Self::Table(table) => Tasks::of(table),
            Self::Shard(shard) => shard.rows(),
        }
    }
}

/// Worker · labels + label of each annotation, as narrow as the product allows: made of a table, or those of a shard.
#[derive(Debug)]
pub(crate) enum Cells<'a> {
    Narrow(Cow<'a, [u32]>),
    Wide(Cow<'a, [u64]>),
}

/// Runs `$body` with `$cells` bound to the slice, compiled once per width.
macro_rules! with_cells {
    ($all:expr, |$cells:ident| $body:expr) => {
        match $all {
            $crate::categorical::em::cells::Cells::Narrow($cells) => {
                let $cells: &[u32] = $cells;
                $body
            }
            $crate::categorical::em::cells::Cells::Wide($cells) => {
                let $cells: &[u64] = $cells;
                $body
            }
        }
    };
}
pub(super) use with_cells;

impl Cells<'_> {
    pub fn new(table: &Table) -> Result<Self> {
        let n_labels = table.n_labels() as u64;
        let cell = |(worker, label): (&u32, usize)| u64::from(*worker) * n_labels + label as u64;
        with_labels!(table.labels(), |labels| {
            let pairs = table.workers().par_iter().zip(labels.par_iter().map(|label| label.code()));
            Ok(if n_labels * table.n_workers() as u64 <= 1 << 32 {
                Self::Narrow(Cow::Owned(par_collected(pairs.map(|pair| cell(pair) as u32))?))
            } else {
                Self::Wide(Cow::Owned(par_collected(pairs.map(cell))?))
            })
        })
    }
}

/// What a pass reads of each annotation.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a, C> {
    pub cells: &'a [C],
    /// Empty where annotations have no weights.
    pub weights: &'a [f64],
    /// How many labels there are.
    pub n_labels: usize,
}

impl<C: Cell> Columns<'_, C> {
    #[inline(always)]
    pub fn label(&self, row: usize) -> usize {
        self.cells[row].index() % self.n_labels
    }
}

/// Worker · labels + label: one number instead of two to load, and for the full model the address of a row.
pub(super) trait Cell: Copy + Send + Sync {
    fn index(self) -> usize;
}

impl Cell for u32 {
    #[inline(always)]
    fn index(self) -> usize {
        self as usize
    }
}

impl Cell for u64 {
    #[inline(always)]
    fn index(self) -> usize {
        self as usize
    }
}
