//! `CrowdBT` (Chen, Bennett, Collins-Thompson and Horvitz 2013): workers who say the opposite of what they see, now and
//! then.
//!
//! Worker m reports the better item with probability `ω_m`, whatever the lead, and the worse one else. By EM: how
//! probably each comparison was reported as it was seen; then reliabilities by their shares, and scores by Newton's
//! method on comparisons that count for either side in part.

use rayon::prelude::*;

use super::graph::{EDGES, Fold, Graph};
use super::newton::{Ascent, EXTRA, Prior};
use super::outcome::{Counts, Ties};
use super::table::Comparisons;
use super::worker_slopes::alone;
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{copied, filled, zeros};
use crate::{Error, Result};

/// What to fit, and how long.
#[derive(Debug, Clone, Copy)]
pub struct CrowdOptions {
    /// Wins, and as many losses, of each item against a virtual one of score 0.
    pub link: f64,
    /// True and false pseudo-reports of each worker, the pseudo-counts of a Beta prior.
    pub reports: [f64; 2],
    /// Most iterations.
    pub max_iter: usize,
    /// The change of the objective, as a share of itself, at which to stop.
    pub tol: f64,
}

/// A fit.
#[derive(Debug, Clone)]
pub struct CrowdFit {
    /// Score of each item.
    pub scores: Vec<f64>,
    /// Probability of each worker to report what they see.
    pub reliability: Vec<f64>,
    /// The log-likelihood and the log-density of the priors, after each iteration.
    pub history: Vec<f64>,
    /// Iterations made.
    pub n_iter: usize,
    /// Whether the tolerance was met.
    pub converged: bool,
}

/// Reliabilities stay this far from 0 and 1, where comparisons would be impossible.
const LEAST: f64 = 1e-9;

/// Fits the model: O(comparisons) time and memory for each iteration.
pub fn crowd_bt_fit(table: &Comparisons, options: &CrowdOptions, control: &Control) -> Result<CrowdFit> {
    let [hits, misses] = options.reports;
    if ![options.link, hits, misses].iter().all(|x| x.is_finite() && *x > 0.0) {
        return Err(Error::invalid("the link and the pseudo-counts must be finite and above 0"));
    }
    let mut graph = Graph::new(table, Ties::Half, Fold::Workers, control)?;
    if graph.ends.is_empty() {
        return Err(Error::invalid("all comparisons weigh 0: there is nothing to learn from"));
    }
    let counts = copied(&graph.counts)?;
    let workers = graph.worker_of_edges()?;
    let mut ascent = Ascent::new(&mut graph, Ties::Half, Prior::Virtual(options.link), false, None)?;
    let mut reliability = filled(hits / (hits + misses), table.n_workers())?;
    let mut course = Course::default();
    // From scores of a reliable crowd, or no comparison identifies the reliable workers.
    let objective = ascent.look(control)?;
    alone(&mut ascent, objective, 20, 1e-2, &mut Course::default(), control)?;
    while course.running(options.max_iter) {
        let objective = expect(&mut ascent, &counts, &workers, &mut reliability, options, control)?;
        course.advance(objective, Tolerance::Share(options.tol), control);
        let here = ascent.look(control)?;
        ascent.step(here, 1e-4, control)?;
    }
    let mut scores = std::mem::take(&mut ascent.point);
    scores.truncate(scores.len() - EXTRA);
    Ok(CrowdFit { scores, reliability, history: course.history, n_iter: course.n_iter, converged: course.converged })
}

/// Counts comparisons for the side they were probably seen for, and workers' reliabilities by that; returns the
/// objective at the point given.
fn expect(
    ascent: &mut Ascent<'_>,
    said: &[Counts],
    workers: &[u32],
    reliability: &mut [f64],
    options: &CrowdOptions,
    control: &Control,
) -> Result<f64> {
    let mut counts = std::mem::take(&mut ascent.graph.counts);
    // How many comparisons of each edge were reported as they were seen.
    let mut hits: Vec<f64> = zeros(counts.len())?;
    let this = &*ascent;
    let current = &*reliability;
    let parts: Vec<Result<f64>> = counts
        .par_chunks_mut(EDGES)
        .zip(hits.par_chunks_mut(EDGES))
        .enumerate()
        .map(|(block, (counts, hits))| {
            control.check()?;
            let mut log = 0.0;
            for (i, (counts, hits)) in counts.iter_mut().zip(hits).enumerate() {
                let edge = block * EDGES + i;
                let Counts { left, right, .. } = said[edge];
                let (true_share, ahead) = (current[workers[edge] as usize], share(this.difference(edge)));
                // Probabilities that "left" was answered as seen, and turned round; then the same of "right".
                let (straight, reversed) = (true_share * ahead, (1.0 - true_share) * (1.0 - ahead));
                let (straight_right, reversed_right) = (true_share * (1.0 - ahead), (1.0 - true_share) * ahead);
                let (kept_left, kept_right) = (
                    left * straight / (straight + reversed),
                    right * straight_right / (straight_right + reversed_right),
                );
                *hits = kept_left + kept_right;
                *counts =
                    Counts { left: kept_left + right - kept_right, right: kept_right + left - kept_left, tie: 0.0 };
                log += if left > 0.0 { left * (straight + reversed).ln() } else { 0.0 };
                log += if right > 0.0 { right * (straight_right + reversed_right).ln() } else { 0.0 };
            }
            Ok(log)
        })
        .collect();
    ascent.graph.counts = counts;
    let mut objective = ascent.prior_of_scores();
    for part in parts {
        objective += part?;
    }
    let [right, wrong] = options.reports;
    objective += reliability.iter().map(|x| right * x.ln() + wrong * (1.0 - x).ln()).sum::<f64>();
    let mut sums = filled([right, right + wrong], reliability.len())?;
    for ((said, hits), &worker) in said.iter().zip(hits).zip(workers) {
        sums[worker as usize][0] += hits;
        sums[worker as usize][1] += said.left + said.right;
    }
    for (to, [hits, all]) in reliability.iter_mut().zip(sums) {
        *to = (hits / all).clamp(LEAST, 1.0 - LEAST);
    }
    Ok(objective)
}

/// The logistic function, nowhere 0 or 1.
fn share(lead: f64) -> f64 {
    (1.0 / (1.0 + (-lead).exp())).clamp(LEAST, 1.0 - LEAST)
}
