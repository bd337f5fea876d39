//! The table of rankings: lists of items, the best first, by worker; immutable once built.

use std::ops::Range;

use crate::base::components::Components;
use crate::base::control::Control;
use crate::base::links::{WEIGHTS, check_codes};
use crate::base::memory::{collected, copied, with_room, zeros};
use crate::{Error, Result};

/// The table. The same lists in any order give the same table: they are sorted by worker, then item by item.
///
/// Memory: 4 bytes per entry, 8 a list, 8 more with weights.
#[derive(Debug)]
pub struct Rankings {
    n_items: usize,
    n_workers: usize,
    offsets: Vec<u32>,
    items: Vec<u32>,
    workers: Vec<u32>,
    weights: Option<Vec<f64>>,
}

impl Rankings {
    /// Builds a table from lists that lie between offsets in `items`, with the worker and the weight of each.
    pub fn new(
        offsets: &[u32],
        items: &[u32],
        workers: &[u32],
        weights: Option<&[f64]>,
        sizes: [usize; 2],
        control: &Control,
    ) -> Result<Self> {
        let [n_items, n_workers] = sizes;
        let n = workers.len();
        if n == 0 {
            return Err(Error::invalid("there are no rankings: the table needs at least one"));
        }
        let rising = offsets.windows(2).all(|pair| pair[0] < pair[1]);
        let ends = offsets.first() == Some(&0) && offsets.last().is_some_and(|&last| last as usize == items.len());
        if offsets.len() != n + 1 || !rising || !ends || weights.is_some_and(|weights| weights.len() != n) {
            return Err(Error::invalid(format!("offsets, workers and weights are not those of {n} lists of items")));
        }
        check_codes("item", items, n_items, control)?;
        check_codes("worker", workers, n_workers, control)?;
        let (least, most) = WEIGHTS;
        let counts = |weight: &f64| *weight == 0.0 || (least..=most).contains(weight);
        if let Some(row) = weights.and_then(|weights| weights.iter().position(|weight| !counts(weight))) {
            return Err(Error::invalid(format!(
                "the weight of list {row} is neither 0 nor between {least:e} and {most:e}"
            )));
        }
        let list = |row: u32| &items[offsets[row as usize] as usize..offsets[row as usize + 1] as usize];
        let mut last_ranking: Vec<u32> = zeros(n_items)?;
        for row in 0..n as u32 {
            for &item in list(row) {
                if std::mem::replace(&mut last_ranking[item as usize], row + 1) == row + 1 {
                    return Err(Error::invalid(format!("item {item} is ranked twice in list {row}")));
                }
            }
        }
        let mut order: Vec<u32> = collected((0..n).map(|row| row as u32))?;
        let weight = |row: u32| weights.map_or(1.0, |weights| weights[row as usize]);
        order.sort_unstable_by(|&a, &b| {
            let workers = workers[a as usize].cmp(&workers[b as usize]);
            workers.then_with(|| list(a).cmp(list(b))).then_with(|| weight(a).total_cmp(&weight(b)))
        });
        let (mut sorted, mut ends) = (with_room(items.len())?, with_room(n + 1)?);
        ends.push(0);
        for &row in &order {
            sorted.extend_from_slice(list(row));
            ends.push(sorted.len() as u32);
        }
        Ok(Self {
            n_items,
            n_workers,
            offsets: ends,
            items: sorted,
            workers: collected(order.iter().map(|&row| workers[row as usize]))?,
            weights: weights.map(|_| collected(order.iter().map(|&row| weight(row)))).transpose()?,
        })
    }

    /// Number of items.
    pub fn n_items(&self) -> usize {
        self.n_items
    }
    /// Number of workers.
    pub fn n_workers(&self) -> usize {
        self.n_workers
    }
    /// Number of lists.
    pub fn len(&self) -> usize {
        self.workers.len()
    }
    /// Never true: a table without lists cannot be built.
    pub fn is_empty(&self) -> bool {
        self.workers.is_empty()
    }
    /// Where each list begins, and where the last ends.
    pub fn offsets(&self) -> &[u32] {
        &self.offsets
    }
    /// The items of all lists.
    pub fn items(&self) -> &[u32] {
        &self.items
    }
    /// The worker of each list.
    pub fn workers(&self) -> &[u32] {
        &self.workers
    }
    /// The weight of each list, where they have weights.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }
    /// How often a list counts.
    pub(crate) fn weight(&self, list: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[list])
    }
    /// Where the items of a list lie.
    pub(crate) fn entries(&self, list: usize) -> Range<usize> {
        self.offsets[list] as usize..self.offsets[list + 1] as usize
    }

    /// The same lists, counted this many times in place of whatever they counted before.
    pub fn counted(&self, weights: &[f64], control: &Control) -> Result<Self> {
        let sizes = [self.n_items, self.n_workers];
        Self::new(&self.offsets, &self.items, &self.workers, Some(weights), sizes, control)
    }

    /// The lists that are marked, of the same items and workers.
    pub fn keep(&self, mask: &[bool], control: &Control) -> Result<Self> {
        if mask.len() != self.len() {
            return Err(Error::invalid(format!("the mask has {} entries for {} rankings", mask.len(), self.len())));
        }
        let (mut items, mut offsets) = (with_room(self.items.len())?, with_room(self.len() + 1)?);
        let (mut workers, mut weights) = (with_room(self.len())?, with_room(self.len())?);
        offsets.push(0);
        for list in (0..self.len()).filter(|&list| mask[list]) {
            items.extend_from_slice(&self.items[self.entries(list)]);
            offsets.push(items.len() as u32);
            workers.push(self.workers[list]);
            weights.push(self.weight(list));
        }
        let weights = self.weights.is_some().then_some(&weights[..]);
        Self::new(&offsets, &items, &workers, weights, [self.n_items, self.n_workers], control)
    }

    /// The group of each item, items being in one group if lists that count lead from one to the other.
    pub fn components(&self) -> Result<(Vec<u32>, usize)> {
        let mut forest = Components::new(self.n_items)?;
        for list in (0..self.len()).filter(|&list| self.weight(list) > 0.0) {
            for pair in self.items[self.entries(list)].windows(2) {
                forest.join(pair[0], pair[1]);
            }
        }
        forest.numbered()
    }

    /// A copy of what the table holds: offsets, items, workers, weights.
    pub fn columns(&self) -> Result<(Vec<u32>, Vec<u32>, Vec<u32>)> {
        Ok((copied(&self.offsets)?, copied(&self.items)?, copied(&self.workers)?))
    }
}
