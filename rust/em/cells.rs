//! What a pass reads of annotations.

use rayon::prelude::*;

use crate::Result;
use crate::memory::par_collected;
use crate::table::{Label, Table, with_labels};

/// Worker · labels + label of each annotation, as narrow as the product allows.
pub(super) enum Cells {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// Runs `$body` with `$cells` bound to the slice, compiled once per width.
macro_rules! with_cells {
    ($all:expr, |$cells:ident| $body:expr) => {
        match $all {
            $crate::em::cells::Cells::Narrow($cells) => $body,
            $crate::em::cells::Cells::Wide($cells) => $body,
        }
    };
}
pub(super) use with_cells;

impl Cells {
    pub fn new(table: &Table) -> Result<Self> {
        let n_labels = table.n_labels() as u64;
        let cell = |(worker, label): (&u32, usize)| u64::from(*worker) * n_labels + label as u64;
        with_labels!(table.labels(), |labels| {
            let pairs = table.workers().par_iter().zip(labels.par_iter().map(|label| label.code()));
            Ok(if n_labels * table.n_workers() as u64 <= 1 << 32 {
                Self::Narrow(par_collected(pairs.map(|pair| cell(pair) as u32))?)
            } else {
                Self::Wide(par_collected(pairs.map(cell))?)
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
