//! Rank centrality (Negahban, Oh and Shah 2012): how often a walk that leaves losers for winners visits each item.

use super::graph::{Fold, Graph, for_items};
use super::outcome::Ties;
use super::table::Comparisons;
use crate::base::control::Control;
use crate::base::course::Course;
use crate::base::memory::zeros;
use crate::{Error, Result};

/// What to do, and how long.
#[derive(Debug, Clone, Copy)]
pub struct CentralityOptions {
    /// Wins, and as many losses, added to every pair that was compared: a walk that can go both ways has visits for all.
    pub prior: f64,
    /// Most iterations.
    pub max_iter: usize,
    /// The change of visits, as a share of them, at which to stop.
    pub tol: f64,
}

/// Finds the logarithms of visits, of mean 0 within each group of items that are compared with each other; also how the
/// iteration went, whose history are the changes. O(comparisons) time an iteration, and memory.
///
/// The walk moves from i to j at the rate of j's share of wins over i. Its visits are those of the chain that always moves,
/// divided by the rates at which it leaves: the same as with equal rates for all, but found much sooner.
pub fn rank_centrality_fit(
    table: &Comparisons,
    options: &CentralityOptions,
    control: &Control,
) -> Result<(Vec<f64>, Vec<f64>, usize, bool)> {
    if !(options.prior.is_finite() && options.prior > 0.0) {
        return Err(Error::invalid("the wins added to every pair must be a finite number above 0"));
    }
    let graph = Graph::new(table, Ties::Half, Fold::Pairs, control)?;
    let (groups, n_groups) = table.components()?;
    let n = graph.n_items();
    let share = |edge: usize, sign: f64| {
        // Of the wins on this edge, those of the item at this end.
        let (won, all) = (graph.counts[edge], graph.counts[edge].left + graph.counts[edge].right);
        (if sign > 0.0 { won.left } else { won.right } + options.prior) / (all + 2.0 * options.prior)
    };
    let mut leaving: Vec<f64> = zeros(n)?;
    for_items(&mut leaving, 1, control, &|item, to| {
        to[0] = graph.halves_of(item).map(|at| graph.half(at)).map(|half| share(half.edge, -half.sign)).sum();
    })?;
    let (mut visits, mut next): (Vec<f64>, Vec<f64>) = (zeros(n)?, zeros(n)?);
    visits.fill(1.0);
    let mut course = Course::default();
    while course.running(options.max_iter) {
        for_items(&mut next, 1, control, &|item, to| {
            let came: f64 = graph
                .halves_of(item)
                .map(|at| graph.half(at))
                .map(|half| visits[half.other] / leaving[half.other] * share(half.edge, half.sign))
                .sum();
            // Half of the time it stays: else a graph of two sides would swing for ever.
            to[0] = 0.5 * (visits[item] + came);
        })?;
        let change = visits.iter().zip(&next).map(|(old, new)| ((new - old) / old).abs()).fold(0.0, f64::max);
        std::mem::swap(&mut visits, &mut next);
        course.record(change, control);
        course.converged = change < options.tol;
    }
    for (visits, leaving) in visits.iter_mut().zip(&leaving) {
        *visits = if *leaving > 0.0 { (*visits / leaving).ln() } else { 0.0 };
    }
    centre(&mut visits, &groups, n_groups)?;
    Ok((visits, course.history, course.n_iter, course.converged))
}

/// Subtracts the mean of each group.
pub(super) fn centre(scores: &mut [f64], groups: &[u32], n_groups: usize) -> Result<()> {
    let mut sums = zeros::<[f64; 2]>(n_groups)?;
    for (score, &group) in scores.iter().zip(groups) {
        sums[group as usize][0] += score;
        sums[group as usize][1] += 1.0;
    }
    for (score, &group) in scores.iter_mut().zip(groups) {
        *score -= sums[group as usize][0] / sums[group as usize][1];
    }
    Ok(())
}
