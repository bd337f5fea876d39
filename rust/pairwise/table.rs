//! The table of comparisons: (left, right, outcome, worker, context) rows by worker, immutable once built.

use crate::base::components::Components;
use crate::base::control::Control;
use crate::base::links::{WEIGHTS, check_codes, marked};
use crate::base::memory::{collected, copied, zeros};
use crate::{Error, Result};

/// The left item is better.
pub(crate) const LEFT: u8 = 0;
/// The right item is better.
pub(crate) const RIGHT: u8 = 1;
/// A tie.
pub(crate) const TIE: u8 = 2;

/// The columns of a log of comparisons, as codes, and the number of distinct codes in each.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Item shown on the left, below `n_items`.
    pub left: &'a [u32],
    /// Item shown on the right, below `n_items` and another one.
    pub right: &'a [u32],
    /// 0 where the left item is better, 1 where the right one is, 2 where neither is.
    pub outcomes: &'a [u8],
    /// Worker codes, below `n_workers`.
    pub workers: &'a [u32],
    /// Context codes, below `n_contexts`, where comparisons have contexts.
    pub contexts: Option<&'a [u32]>,
    /// Weights: 0, or within [`WEIGHTS`].
    pub weights: Option<&'a [f64]>,
    /// Number of items.
    pub n_items: usize,
    /// Number of workers.
    pub n_workers: usize,
    /// Number of contexts.
    pub n_contexts: usize,
}

impl Rows<'_> {
    fn validate(&self, control: &Control) -> Result<()> {
        let n = self.left.len();
        let lengths = [
            self.right.len(),
            self.outcomes.len(),
            self.workers.len(),
            self.contexts.map_or(n, <[u32]>::len),
            self.weights.map_or(n, <[f64]>::len),
        ];
        if let Some(other) = lengths.iter().find(|&&length| length != n) {
            return Err(Error::invalid(format!("columns differ in length: {n} left items, but also {other} rows")));
        }
        if n == 0 {
            return Err(Error::invalid("there are no comparisons: the table needs at least one"));
        }
        // An edge and its side share a word in the graph.
        if n > (u32::MAX / 2) as usize {
            return Err(Error::invalid(format!("{n} comparisons exceed the {} that one table holds", u32::MAX / 2)));
        }
        check_codes("item", self.left, self.n_items, control)?;
        check_codes("item", self.right, self.n_items, control)?;
        check_codes("worker", self.workers, self.n_workers, control)?;
        if let Some(contexts) = self.contexts {
            check_codes("context", contexts, self.n_contexts, control)?;
        }
        if let Some(row) = self.outcomes.iter().position(|&outcome| outcome > TIE) {
            let code = self.outcomes[row];
            return Err(Error::invalid(format!("outcome {code} at row {row} is not 0 (left), 1 (right) or 2 (tie)")));
        }
        if let Some(row) = self.left.iter().zip(self.right).position(|(left, right)| left == right) {
            return Err(Error::invalid(format!("item {} is compared with itself at row {row}", self.left[row])));
        }
        let (least, most) = WEIGHTS;
        let counts = |weight: &f64| *weight == 0.0 || (least..=most).contains(weight);
        match self.weights.and_then(|weights| weights.iter().position(|weight| !counts(weight))) {
            None => Ok(()),
            Some(row) => Err(Error::invalid(format!(
                "the weight at row {row} counts its comparison neither 0 times nor between {least:e} and {most:e} times"
            ))),
        }
    }
}

/// Rows in the order of ascending `keys`, equal ones as they were: one pass of a radix sort.
pub(crate) fn sorted_by(order: &[u32], keys: impl Fn(usize) -> usize, n_keys: usize) -> Result<Vec<u32>> {
    let mut starts: Vec<u32> = zeros(n_keys + 1)?;
    order.iter().for_each(|&row| starts[keys(row as usize) + 1] += 1);
    for key in 0..n_keys {
        starts[key + 1] += starts[key];
    }
    let mut sorted: Vec<u32> = zeros(order.len())?;
    for &row in order {
        let place = &mut starts[keys(row as usize)];
        sorted[*place as usize] = row;
        *place += 1;
    }
    Ok(sorted)
}

/// The table. The same rows in any order give the same table: they are sorted by worker, items, outcome, context,
/// weight.
///
/// Memory: 13 bytes per row, 4 more with contexts, 8 more with weights, and 4 bytes per worker.
#[derive(Debug)]
pub struct Comparisons {
    n_items: usize,
    n_contexts: usize,
    /// Rows `m` to `m + 1` are those of worker `m`.
    offsets: Vec<u32>,
    left: Vec<u32>,
    right: Vec<u32>,
    outcomes: Vec<u8>,
    contexts: Option<Vec<u32>>,
    weights: Option<Vec<f64>>,
}

impl Comparisons {
    /// Builds a table by a radix sort: O(rows + items + workers) time, 8 bytes per row next to the table.
    pub fn new(rows: &Rows<'_>, control: &Control) -> Result<Self> {
        rows.validate(control)?;
        let mut order: Vec<u32> = collected((0..rows.left.len()).map(|row| row as u32))?;
        if let Some(weights) = rows.weights {
            order.sort_unstable_by(|&a, &b| weights[a as usize].total_cmp(&weights[b as usize]));
        }
        if let Some(contexts) = rows.contexts {
            order = sorted_by(&order, |row| contexts[row] as usize, rows.n_contexts)?;
        }
        order = sorted_by(&order, |row| usize::from(rows.outcomes[row]), 3)?;
        control.check()?;
        order = sorted_by(&order, |row| rows.right[row] as usize, rows.n_items)?;
        control.check()?;
        order = sorted_by(&order, |row| rows.left[row] as usize, rows.n_items)?;
        control.check()?;
        if rows.n_workers > 1 {
            order = sorted_by(&order, |row| rows.workers[row] as usize, rows.n_workers)?;
        }
        let mut offsets: Vec<u32> = zeros(rows.n_workers + 1)?;
        rows.workers.iter().for_each(|&worker| offsets[worker as usize + 1] += 1);
        (0..rows.n_workers).for_each(|worker| offsets[worker + 1] += offsets[worker]);
        Ok(Self {
            n_items: rows.n_items,
            n_contexts: rows.n_contexts,
            offsets,
            left: taken(rows.left, &order)?,
            right: taken(rows.right, &order)?,
            outcomes: taken(rows.outcomes, &order)?,
            contexts: rows.contexts.map(|contexts| taken(contexts, &order)).transpose()?,
            weights: rows.weights.map(|weights| taken(weights, &order)).transpose()?,
        })
    }

    /// Number of items.
    pub fn n_items(&self) -> usize {
        self.n_items
    }
    /// Number of workers.
    pub fn n_workers(&self) -> usize {
        self.offsets.len() - 1
    }
    /// Number of contexts.
    pub fn n_contexts(&self) -> usize {
        self.n_contexts
    }
    /// Number of comparisons.
    pub fn len(&self) -> usize {
        self.left.len()
    }
    /// Never true: a table without rows cannot be built.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
    /// Where the rows of each worker begin, and where the last end.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }
    /// Item on the left of each row.
    pub fn left(&self) -> &[u32] {
        &self.left
    }
    /// Item on the right of each row.
    pub fn right(&self) -> &[u32] {
        &self.right
    }
    /// Outcome of each row.
    pub fn outcomes(&self) -> &[u8] {
        &self.outcomes
    }
    /// Context of each row, where they have contexts.
    pub fn contexts(&self) -> Option<&[u32]> {
        self.contexts.as_deref()
    }
    /// Weight of each row, where they have weights.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }
    /// The weight of a row.
    pub(crate) fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[row])
    }

    /// Worker of each row.
    pub fn workers(&self) -> Result<Vec<u32>> {
        let mut workers = zeros(self.len())?;
        for (worker, rows) in self.offsets.windows(2).enumerate() {
            workers[rows[0] as usize..rows[1] as usize].fill(worker as u32);
        }
        Ok(workers)
    }

    /// The rows that are marked, of the same items, workers and contexts, of which at least one must be.
    pub fn keep(&self, mask: &[bool]) -> Result<Self> {
        if mask.len() != self.len() {
            return Err(Error::invalid(format!("the mask has {} entries for {} comparisons", mask.len(), self.len())));
        }
        if !mask.contains(&true) {
            return Err(Error::invalid("the mask leaves no comparison, and a table needs at least one"));
        }
        let mut offsets: Vec<u32> = zeros(self.offsets.len())?;
        for (worker, rows) in self.offsets.windows(2).enumerate() {
            let n_kept = mask[rows[0] as usize..rows[1] as usize].iter().filter(|&&keep| keep).count();
            offsets[worker + 1] = offsets[worker] + n_kept as u32;
        }
        Ok(Self {
            n_items: self.n_items,
            n_contexts: self.n_contexts,
            offsets,
            left: marked(&self.left, mask, 1)?,
            right: marked(&self.right, mask, 1)?,
            outcomes: marked(&self.outcomes, mask, 1)?,
            contexts: self.contexts.as_deref().map(|contexts| marked(contexts, mask, 1)).transpose()?,
            weights: self.weights.as_deref().map(|weights| marked(weights, mask, 1)).transpose()?,
        })
    }

    /// The same comparisons, counted this many times in place of whatever they counted before.
    pub fn counted(&self, weights: &[f64], control: &Control) -> Result<Self> {
        let workers = self.workers()?;
        let rows = Rows {
            left: &self.left,
            right: &self.right,
            outcomes: &self.outcomes,
            workers: &workers,
            contexts: self.contexts(),
            weights: Some(weights),
            n_items: self.n_items,
            n_workers: self.n_workers(),
            n_contexts: self.n_contexts,
        };
        rows.validate(control)?;
        Ok(Self {
            n_items: self.n_items,
            n_contexts: self.n_contexts,
            offsets: copied(&self.offsets)?,
            left: copied(&self.left)?,
            right: copied(&self.right)?,
            outcomes: copied(&self.outcomes)?,
            contexts: self.contexts.as_deref().map(copied).transpose()?,
            weights: Some(copied(weights)?),
        })
    }

    /// For each item how often it was compared, better, and level: (items × 3), with weights counted.
    pub fn item_counts(&self) -> Result<Vec<f64>> {
        let mut counts = zeros(3 * self.n_items)?;
        for row in 0..self.len() {
            let weight = self.weight(row);
            for (item, wins) in [(self.left[row], LEFT), (self.right[row], RIGHT)] {
                let counts: &mut [f64] = &mut counts[3 * item as usize..][..3];
                counts[0] += weight;
                counts[1] += if self.outcomes[row] == wins { weight } else { 0.0 };
                counts[2] += if self.outcomes[row] == TIE { weight } else { 0.0 };
            }
        }
        Ok(counts)
    }

    /// The group of each item, items being in one group if comparisons that count lead from one to the other, and how
    /// many groups there are.
    pub fn components(&self) -> Result<(Vec<u32>, usize)> {
        let mut forest = Components::new(self.n_items)?;
        for row in 0..self.len() {
            if self.weight(row) > 0.0 {
                forest.join(self.left[row], self.right[row]);
            }
        }
        forest.numbered()
    }
}

fn taken<T: Copy>(values: &[T], order: &[u32]) -> Result<Vec<T>> {
    collected(order.iter().map(|&row| values[row as usize]))
}
