//! The annotation table: (task, worker, label) triples in compressed task order, immutable once built.

use std::ops::Deref;
use std::sync::OnceLock;

use crate::base::control::Control;
use crate::base::links::{ByWorker, Links, Log, Payload, check_codes, marked};
use crate::base::memory::{collected, copied};
use crate::{Error, Result};

pub use crate::base::links::{Repeats, WEIGHTS};

/// The largest number of labels, classes and abstentions: they are stored in at most sixteen bits.
pub const MAX_LABELS: usize = u16::MAX as usize;

/// Labels, one byte each where there are few enough.
#[derive(Debug, Clone)]
pub enum Labels {
    /// At most 256 labels.
    Narrow(Vec<u8>),
    /// More than 256 labels.
    Wide(Vec<u16>),
}

/// A label type: lets kernels be compiled for both widths.
pub trait Label: Copy + Send + Sync + 'static {
    /// The code.
    fn code(self) -> usize;
}

macro_rules! label {
    ($type:ty) => {
        impl Label for $type {
            #[inline(always)]
            fn code(self) -> usize {
                usize::from(self)
            }
        }

        impl Payload for $type {
            type Given = u16;
            #[inline(always)]
            fn of(given: u16) -> Self {
                // It fits: codes are below the number of labels, which chose the type.
                given as Self
            }
            fn compare(&self, other: &Self) -> std::cmp::Ordering {
                self.cmp(other)
            }
        }
    };
}
label!(u8);
label!(u16);

/// Whether this many labels fit in a byte.
fn narrow(n_labels: usize) -> bool {
    n_labels <= 256
}

/// Runs `$body` with `$labels` bound to the label slice, compiled once per width.
macro_rules! with_labels {
    ($all:expr, |$labels:ident| $body:expr) => {
        match $all {
            $crate::categorical::table::Labels::Narrow($labels) => $body,
            $crate::categorical::table::Labels::Wide($labels) => $body,
        }
    };
}
pub(crate) use with_labels;

impl Labels {
    /// The code at `i`.
    #[inline(always)]
    pub fn get(&self, i: usize) -> usize {
        with_labels!(self, |labels| labels[i].code())
    }
}

/// Annotations in worker order: what a pass that visits one worker at a time needs.
#[derive(Debug)]
pub struct WorkerOrder {
    /// Worker `m` owns rows `offsets[m]..offsets[m + 1]`.
    pub offsets: Vec<u32>,
    /// Task of each row, ascending within a worker.
    pub tasks: Vec<u32>,
    /// Label of each row.
    pub labels: Labels,
    /// Weight of each row, where there are weights.
    pub weights: Option<Vec<f64>>,
}

impl WorkerOrder {
    fn of<L>(order: ByWorker<L>, labels: fn(Vec<L>) -> Labels) -> Self {
        let ByWorker { offsets, tasks, payload, weights } = order;
        Self { offsets, tasks, labels: labels(payload), weights }
    }
}

/// The table: links between tasks and workers, and the label of each. The same annotations in any order give the same
/// table.
///
/// Memory: 5 bytes per annotation (6 above 256 labels, 8 more with weights) and 4 bytes per task.
#[derive(Debug)]
pub struct Table {
    links: Links,
    n_labels: usize,
    n_classes: usize,
    labels: Labels,
    by_worker: OnceLock<WorkerOrder>,
}

impl Deref for Table {
    type Target = Links;

    fn deref(&self) -> &Links {
        &self.links
    }
}

/// The columns of a log, as codes, and the number of distinct codes in each.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Task codes, below `n_tasks`.
    pub tasks: &'a [u32],
    /// Worker codes, below `n_workers`.
    pub workers: &'a [u32],
    /// Label codes, below `n_labels`.
    pub labels: &'a [u16],
    /// Weights: 0, or within [`WEIGHTS`].
    pub weights: Option<&'a [f64]>,
    /// Number of tasks.
    pub n_tasks: usize,
    /// Number of workers.
    pub n_workers: usize,
    /// Number of labels: classes first, then abstentions.
    pub n_labels: usize,
}

impl Rows<'_> {
    fn log(&self) -> Log<'_> {
        let Self { tasks, workers, weights, n_tasks, n_workers, .. } = *self;
        Log { tasks, workers, weights, n_tasks, n_workers }
    }
}

fn check_n_labels(n_labels: usize) -> Result<()> {
    if n_labels > MAX_LABELS {
        return Err(Error::invalid(format!(
            "{n_labels} classes exceed the limit of {MAX_LABELS}; is the label column really an id or a number?"
        )));
    }
    Ok(())
}

impl Table {
    /// Builds a table by a parallel counting sort: O(rows) time, no memory beyond the table and 4 bytes per task.
    pub fn new(rows: &Rows<'_>, repeats: Repeats, control: &Control) -> Result<Self> {
        let log = rows.log();
        log.validate("label", rows.labels.len(), control)?;
        check_n_labels(rows.n_labels)?;
        check_codes("label", rows.labels, rows.n_labels, control)?;
        let (links, labels) = if narrow(rows.n_labels) {
            let (links, labels) = Links::sorted(&log, rows.labels, 1, repeats, control)?;
            (links, Labels::Narrow(labels))
        } else {
            let (links, labels) = Links::sorted(&log, rows.labels, 1, repeats, control)?;
            (links, Labels::Wide(labels))
        };
        Ok(Self::of(links, labels, rows.n_labels, rows.n_labels))
    }

    /// A table of links and labels that are in order.
    pub(crate) fn of(links: Links, labels: Labels, n_labels: usize, n_classes: usize) -> Self {
        Self { links, n_labels, n_classes, labels, by_worker: OnceLock::new() }
    }

    /// The same table, of whose labels only the first `n_classes` are classes, which can be true: the others are only
    /// ever answered.
    pub fn with_classes(mut self, n_classes: usize) -> Result<Self> {
        if n_classes == 0 || n_classes > self.n_labels {
            return Err(Error::invalid(format!(
                "of {} labels {n_classes} cannot be classes; at least one must be",
                self.n_labels
            )));
        }
        self.n_classes = n_classes;
        Ok(self)
    }

    /// The annotations that are marked, of the same tasks, workers and labels, of which at least one must be.
    pub fn keep(&self, mask: &[bool]) -> Result<Self> {
        let links = self.links.keep(mask)?;
        let labels = match &self.labels {
            Labels::Narrow(labels) => Labels::Narrow(marked(labels, mask, 1)?),
            Labels::Wide(labels) => Labels::Wide(marked(labels, mask, 1)?),
        };
        Ok(Self::of(links, labels, self.n_labels, self.n_classes))
    }

    /// The same annotations without the tasks and workers that have none; the others keep their order.
    pub fn compacted(&self) -> Result<Self> {
        let labels = match &self.labels {
            Labels::Narrow(labels) => Labels::Narrow(copied(labels)?),
            Labels::Wide(labels) => Labels::Wide(copied(labels)?),
        };
        Ok(Self::of(self.links.compacted()?, labels, self.n_labels, self.n_classes))
    }

    /// The same annotations under other codes: label `l` becomes `codes[l]`, of `n_labels`, the first of them classes.
    ///
    /// A label that no worker gave may have any code.
    pub fn recoded(&self, codes: &[u16], n_labels: usize, n_classes: usize, control: &Control) -> Result<Self> {
        check_n_labels(n_labels)?;
        if codes.len() != self.n_labels {
            return Err(Error::invalid(format!("{} codes for {} labels", codes.len(), self.n_labels)));
        }
        let label_counts = self.label_counts();
        if let Some(label) = (0..codes.len()).find(|&l| label_counts[l] > 0 && usize::from(codes[l]) >= n_labels) {
            let code = codes[label];
            return Err(Error::invalid(format!("label {label} cannot become {code}, which is not below {n_labels}")));
        }
        let mut links = self.links.copy()?;
        let labels = if narrow(n_labels) {
            let mut labels: Vec<u8> = self.mapped(codes)?;
            links.sort_repeats(&mut labels, 1, control)?;
            Labels::Narrow(labels)
        } else {
            let mut labels: Vec<u16> = self.mapped(codes)?;
            links.sort_repeats(&mut labels, 1, control)?;
            Labels::Wide(labels)
        };
        Self::of(links, labels, n_labels, n_labels).with_classes(n_classes)
    }

    fn mapped<L: Payload<Given = u16>>(&self, codes: &[u16]) -> Result<Vec<L>> {
        with_labels!(&self.labels, |labels| collected(labels.iter().map(|label| L::of(codes[label.code()]))))
    }

    /// Number of labels: classes first, then abstentions.
    pub fn n_labels(&self) -> usize {
        self.n_labels
    }
    /// Number of classes: labels that can be true.
    pub fn n_classes(&self) -> usize {
        self.n_classes
    }
    /// Label of each annotation.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The table in worker order, made on first use: 5 to 6 bytes per annotation and 4 bytes per worker, kept with the
    /// table.
    pub fn by_worker(&self, control: &Control) -> Result<&WorkerOrder> {
        if let Some(order) = self.by_worker.get() {
            return Ok(order);
        }
        let order = match &self.labels {
            Labels::Narrow(labels) => WorkerOrder::of(self.links.by_worker(labels, 1, control)?, Labels::Narrow),
            Labels::Wide(labels) => WorkerOrder::of(self.links.by_worker(labels, 1, control)?, Labels::Wide),
        };
        Ok(self.by_worker.get_or_init(|| order))
    }

    /// The rows as columns of codes again: tasks, workers, labels.
    pub fn columns(&self) -> Result<(Vec<u32>, Vec<u32>, Vec<u16>)> {
        let labels = with_labels!(&self.labels, |labels| collected(labels.iter().map(|l| l.code() as u16)))?;
        Ok((self.tasks()?, copied(self.workers())?, labels))
    }

    /// How often each label was given.
    pub fn label_counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.n_labels];
        with_labels!(&self.labels, |labels| labels.iter().for_each(|l| counts[l.code()] += 1));
        counts
    }

    /// Agreeing and all pairs of annotations on the same task.
    pub fn agreeing_pairs(&self) -> (u64, u64) {
        let mut n_seen = vec![0_u64; self.n_labels];
        let (mut agree, mut all) = (0, 0);
        for task in 0..self.n_tasks() {
            let rows = self.rows_of(task);
            all += (rows.len() as u64) * (rows.len() as u64 - u64::from(!rows.is_empty())) / 2;
            for row in rows.clone() {
                let count = &mut n_seen[self.labels.get(row)];
                agree += *count;
                *count += 1;
            }
            for row in rows {
                n_seen[self.labels.get(row)] = 0;
            }
        }
        (agree, all)
    }
}

#[cfg(test)]
pub(crate) mod tests;
