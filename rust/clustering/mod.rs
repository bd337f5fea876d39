//! Same or different: answers about pairs of items, and the clusters behind them.
//!
//! The answers are a [`Table`] whose tasks are the pairs asked and whose labels are [`DIFFERENT`] and [`SAME`]; which
//! items a pair joins are two more columns. Nothing is ever sized items × items.

mod evidence;
mod memberships;
mod search;

pub use evidence::{pair_counts, pair_evidence};
pub use memberships::{MembershipFit, MembershipOptions, membership_fit};
pub use search::{Partition, Shares, cluster_search, cluster_shares};

use crate::base::memory::zeros;
use crate::{Error, Result};

/// The label for two different items.
pub const DIFFERENT: usize = 0;
/// The label for two items that are the same.
pub const SAME: usize = 1;

/// The pairs asked, as columns of items, and how many items there are.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    /// One item of each pair.
    pub left: &'a [u32],
    /// The other.
    pub right: &'a [u32],
    /// Number of items.
    pub n_items: usize,
}

impl Pairs<'_> {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Fails unless every pair joins two different items that there are.
    pub(crate) fn check(&self) -> Result<()> {
        if self.left.len() != self.right.len() {
            return Err(Error::invalid(format!("{} left items for {} right ones", self.left.len(), self.right.len())));
        }
        if self.n_items > u32::MAX as usize || self.len() > (u32::MAX / 2) as usize {
            return Err(Error::invalid(format!("more than {} items or {} pairs", u32::MAX, u32::MAX / 2)));
        }
        let bad = |(&a, &b): (&u32, &u32)| a == b || a.max(b) as usize >= self.n_items;
        if let Some(pair) = self.left.iter().zip(self.right).position(bad) {
            let (a, b) = (self.left[pair], self.right[pair]);
            return Err(Error::invalid(format!("pair {pair} joins {a} and {b}, not two of {} items", self.n_items)));
        }
        Ok(())
    }
}

/// Fails unless a column has one finite number for each of this many things.
pub(crate) fn finite(what: &str, values: &[f64], wanted: usize) -> Result<()> {
    if values.len() != wanted {
        return Err(Error::invalid(format!("{what} has {} numbers, not {wanted}", values.len())));
    }
    // Blocks without a jump a number first: a column of probabilities is checked again for every pass.
    if values.chunks(1 << 10).all(|block| block.iter().fold(true, |sound, value| sound & value.is_finite())) {
        return Ok(());
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(format!("{what} holds {} at place {at}, which is not finite", values[at]))),
    }
}

/// The neighbors of each item: the other items of its pairs, and which pairs those are.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Where the neighbors of each item begin, and the last ones end.
    pub offsets: Vec<u32>,
    /// Neighbor, and pair.
    pub links: Vec<[u32; 2]>,
}

impl Graph {
    /// By a counting sort: O(items + pairs) time, 16 bytes per pair and 4 an item.
    pub fn new(pairs: &Pairs<'_>) -> Result<Self> {
        let mut offsets = zeros::<u32>(pairs.n_items + 1)?;
        pairs.left.iter().chain(pairs.right).for_each(|&item| offsets[item as usize + 1] += 1);
        (0..pairs.n_items).for_each(|item| offsets[item + 1] += offsets[item]);
        let mut links = zeros::<[u32; 2]>(2 * pairs.len())?;
        let mut place = crate::base::memory::copied(&offsets)?;
        for (pair, (&a, &b)) in pairs.left.iter().zip(pairs.right).enumerate() {
            for (item, other) in [(a, b), (b, a)] {
                let at = &mut place[item as usize];
                links[*at as usize] = [other, pair as u32];
                *at += 1;
            }
        }
        Ok(Self { offsets, links })
    }

    /// The neighbors of an item, and pairs.
    #[inline(always)]
    pub fn of(&self, item: usize) -> &[[u32; 2]] {
        &self.links[self.offsets[item] as usize..self.offsets[item + 1] as usize]
    }
}

#[cfg(test)]
mod tests;
