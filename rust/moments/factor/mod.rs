//! Factorizations of moments: from what pairs and triples of workers say together to each worker's confusion matrix.
//!
//! Moments come as lists of pairs (or triples) of workers with a small block of numbers each; nothing is sized workers
//! squared.

pub mod agreement;
pub mod assignment;
pub mod cpd;
pub mod low_rank;
pub mod nmf;
pub mod rank_one;
mod simd;
pub mod simplex;
pub mod spa;

use crate::base::memory::{copied, filled, zeros};
use crate::{Error, Result};

/// What a factorization found.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Class prior.
    pub prior: Vec<f64>,
    /// Confusion matrices, (workers × true × observed).
    pub confusion: Vec<f64>,
    /// The objective at the start and after each iteration that was kept; it never falls.
    pub history: Vec<f64>,
    /// Iterations made, those that were not kept included.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// Fails unless `what` holds as many numbers as it must.
pub(crate) fn sized(what: &str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted { Ok(()) } else { Err(Error::invalid(format!("{what} must hold {wanted} numbers, not {got}"))) }
}

/// Fails unless all numbers are finite.
pub(crate) fn finite(what: &str, values: &[f64]) -> Result<()> {
    match values.iter().find(|x| !x.is_finite()) {
        None => Ok(()),
        Some(bad) => Err(Error::invalid(format!("{what} must be finite, but hold {bad}"))),
    }
}

/// Fails unless all numbers are finite and at least zero.
pub(crate) fn not_negative(what: &str, values: &[f64]) -> Result<()> {
    match values.iter().find(|x| !(x.is_finite() && **x >= 0.0)) {
        None => Ok(()),
        Some(bad) => Err(Error::invalid(format!("{what} must be finite and at least 0, but hold {bad}"))),
    }
}

/// Fails unless `pairs` is a flat list of pairs of two different workers.
pub(crate) fn check_pairs(n_workers: usize, pairs: &[u32]) -> Result<()> {
    let most = u32::MAX as usize;
    if !pairs.len().is_multiple_of(2) || pairs.len() / 2 > most || n_workers > most {
        return Err(Error::invalid(format!("{} numbers do not make a list of pairs of workers", pairs.len())));
    }
    match pairs.chunks_exact(2).find(|p| p[0] == p[1] || p.iter().any(|&m| m as usize >= n_workers)) {
        None => Ok(()),
        Some(p) => Err(Error::invalid(format!("({}, {}) is not a pair of two of the {n_workers} workers", p[0], p[1]))),
    }
}

/// The pairs of each worker, in one list.
#[derive(Debug, Clone)]
pub struct Adjacency {
    offsets: Vec<usize>,
    links: Vec<Link>,
}

/// One of a worker's pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The other worker.
    pub partner: u32,
    /// Which pair it is.
    pub pair: u32,
    /// Whether the worker is the first of the pair, so that its labels number the block's rows.
    pub first: bool,
}

impl Adjacency {
    /// Lists both ends of `pairs`, a flat list of (first, second); each worker's links are in the order of the pairs.
    pub fn new(n_workers: usize, pairs: &[u32]) -> Result<Self> {
        check_pairs(n_workers, pairs)?;
        let mut offsets = zeros::<usize>(n_workers + 1)?;
        pairs.iter().for_each(|&m| offsets[m as usize + 1] += 1);
        (0..n_workers).for_each(|m| offsets[m + 1] += offsets[m]);
        let mut next = copied(&offsets)?;
        let mut links = filled(Link { partner: 0, pair: 0, first: false }, pairs.len())?;
        for (i, pair) in pairs.chunks_exact(2).enumerate() {
            for (me, partner, first) in [(pair[0], pair[1], true), (pair[1], pair[0], false)] {
                links[next[me as usize]] = Link { partner, pair: i as u32, first };
                next[me as usize] += 1;
            }
        }
        Ok(Self { offsets, links })
    }

    /// The pairs of a worker.
    pub fn of(&self, worker: usize) -> &[Link] {
        &self.links[self.offsets[worker]..self.offsets[worker + 1]]
    }

    /// The number of workers.
    pub fn n_workers(&self) -> usize {
        self.offsets.len() - 1
    }
}

#[cfg(test)]
mod tests;
