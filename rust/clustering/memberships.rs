//! Memberships of items in clusters, with the skills of workers: variational Bayes on the pairs asked.
//!
//! An item belongs to cluster `k` with probability `π_k`; a worker answers that two items of one cluster are the same
//! with probability `α`, and that items of two clusters differ with probability `β`. Items, cluster shares and skills
//! are taken to be independent a posteriori, and updated in turn.

use rayon::prelude::*;

use super::evidence::{pair_counts, pair_evidence};
use super::{Graph, Pairs, finite};
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{copied, zeros};
use crate::base::num::softmax;
use crate::base::special::{digamma, ln_gamma};
use crate::categorical::table::Table;
use crate::{Error, Result};

/// Items between two looks at the control.
const ITEMS_PER_CHECK: usize = 1 << 10;
/// Pairs of one job.
const PAIRS_PER_JOB: usize = 1 << 12;

/// What a fit begins with.
#[derive(Debug, Clone, Copy)]
pub struct MembershipOptions<'a> {
    /// Memberships, (items × clusters), rows that sum to one.
    pub start: &'a [f64],
    /// Number of clusters.
    pub n_clusters: usize,
    /// Pseudo-answers of every worker, (2 true × 2 answered).
    pub prior: [f64; 4],
    /// Most passes.
    pub max_iter: usize,
    /// Share of the objective below whose change the passes end.
    pub tol: f64,
}

/// What was found.
#[derive(Debug)]
pub struct MembershipFit {
    /// Probability of each cluster for each item, (items × clusters).
    pub memberships: Vec<f64>,
    /// Pseudo-and expected answers of each worker, (workers × 2 true × 2 answered).
    pub counts: Vec<f64>,
    /// The lower bound of the log-likelihood before each pass.
    pub history: Vec<f64>,
    /// Passes made.
    pub n_iter: usize,
    /// Whether the bound settled.
    pub converged: bool,
}

/// Fits memberships and skills. The bound never falls.
///
/// Items are updated one after the other, each from what its neighbors are by then: O(pairs × clusters + answers) time
/// a pass, of which the update is on one thread; memory O(items × clusters + pairs).
pub fn membership_fit(
    table: &Table,
    pairs: &Pairs<'_>,
    options: &MembershipOptions<'_>,
    control: &Control,
) -> Result<MembershipFit> {
    let k = options.n_clusters;
    check(table, pairs, options)?;
    let graph = Graph::new(pairs)?;
    let mut memberships = copied(options.start)?;
    let mut course = Course::default();
    loop {
        let same = together(pairs, &memberships, k, control)?;
        let mut counts = pair_counts(table, &same, control)?;
        counts.chunks_exact_mut(4).for_each(|own| own.iter_mut().zip(options.prior).for_each(|(n, prior)| *n += prior));
        let sizes = sizes(&memberships, k);
        course.history.push(bound(&counts, options.prior, &sizes, &memberships));
        control.report(course.n_iter, course.history[course.history.len() - 1]);
        if let [.., last, now] = course.history[..] {
            course.converged = Tolerance::Share(options.tol).met(last, now);
        }
        if !course.running(options.max_iter) {
            let Course { history, n_iter, converged, .. } = course;
            return Ok(MembershipFit { memberships, counts, history, n_iter, converged });
        }
        let evidence = pair_evidence(table, &expected_log_odds(&counts)?, control)?;
        update(&graph, &evidence, &expected_logs(&sizes), &mut memberships, control)?;
        course.n_iter += 1;
    }
}

fn check(table: &Table, pairs: &Pairs<'_>, options: &MembershipOptions<'_>) -> Result<()> {
    pairs.check()?;
    let k = options.n_clusters;
    if pairs.len() != table.n_tasks() {
        return Err(Error::invalid(format!("{} pairs of items for {} pairs asked", pairs.len(), table.n_tasks())));
    }
    if k == 0 || options.max_iter == 0 {
        return Err(Error::invalid("there must be at least one cluster and one pass"));
    }
    finite("start", options.start, pairs.n_items * k)?;
    let unfit = |row: &[f64]| row.iter().any(|&x| x < 0.0) || (row.iter().sum::<f64>() - 1.0).abs() > 1e-6;
    if let Some(item) = options.start.chunks_exact(k).position(unfit) {
        return Err(Error::invalid(format!("the start of item {item} is not a probability of clusters")));
    }
    if options.prior.iter().any(|&n| !(n.is_finite() && n > 0.0)) {
        return Err(Error::invalid(format!("pseudo-counts must be positive, not {:?}", options.prior)));
    }
    Ok(())
}

/// The probability that the items of each pair are in one cluster.
fn together(pairs: &Pairs<'_>, memberships: &[f64], k: usize, control: &Control) -> Result<Vec<f64>> {
    let mut same = zeros::<f64>(pairs.len())?;
    same.par_chunks_mut(PAIRS_PER_JOB).enumerate().try_for_each(|(job, same)| {
        control.check()?;
        for (i, p) in same.iter_mut().enumerate() {
            let pair = job * PAIRS_PER_JOB + i;
            let [a, b] = [pairs.left[pair], pairs.right[pair]].map(|item| &memberships[item as usize * k..][..k]);
            *p = a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>().min(1.0);
        }
        Ok(())
    })?;
    Ok(same)
}

/// Expected items of each cluster, with one pseudo-item each.
fn sizes(memberships: &[f64], k: usize) -> Vec<f64> {
    let mut sizes = vec![1.0; k];
    memberships.chunks_exact(k).for_each(|row| sizes.iter_mut().zip(row).for_each(|(n, p)| *n += p));
    sizes
}

/// Expected logarithms of shares with a Dirichlet distribution.
fn expected_logs(sizes: &[f64]) -> Vec<f64> {
    let all = digamma(sizes.iter().sum());
    sizes.iter().map(|&n| digamma(n) - all).collect()
}

/// What each worker's answers say in expectation: log-odds of same, (workers × 2 answered).
fn expected_log_odds(counts: &[f64]) -> Result<Vec<f64>> {
    let mut odds = zeros::<f64>(counts.len() / 2)?;
    for (odds, own) in odds.chunks_exact_mut(2).zip(counts.chunks_exact(4)) {
        let [different, same] = [own[0] + own[1], own[2] + own[3]].map(digamma);
        (0..2).for_each(|answer| odds[answer] = digamma(own[2 + answer]) - same - digamma(own[answer]) + different);
    }
    Ok(odds)
}

/// The lower bound of the log-likelihood where skills and shares are the best for the memberships.
fn bound(counts: &[f64], prior: [f64; 4], sizes: &[f64], memberships: &[f64]) -> f64 {
    let beta = |n: &[f64]| ln_gamma(n[0]) + ln_gamma(n[1]) - ln_gamma(n[0] + n[1]);
    let fixed = beta(&prior[..2]) + beta(&prior[2..]);
    let skills: f64 = counts.chunks_exact(4).map(|own| beta(&own[..2]) + beta(&own[2..]) - fixed).sum();
    let k = sizes.len() as f64;
    let shares = sizes.iter().map(|&n| ln_gamma(n)).sum::<f64>() - ln_gamma(sizes.iter().sum()) + ln_gamma(k);
    let entropy: f64 = memberships.iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum();
    skills + shares + entropy
}

/// Updates the memberships of one item after the other.
fn update(graph: &Graph, evidence: &[f64], shares: &[f64], memberships: &mut [f64], control: &Control) -> Result<()> {
    let k = shares.len();
    let mut logs = vec![0.0; k];
    for item in 0..graph.offsets.len() - 1 {
        if item.is_multiple_of(ITEMS_PER_CHECK) {
            control.check()?;
        }
        logs.copy_from_slice(shares);
        for &[other, pair] in graph.of(item) {
            let (weight, row) = (evidence[pair as usize], &memberships[other as usize * k..][..k]);
            logs.iter_mut().zip(row).for_each(|(log, p)| *log += weight * p);
        }
        softmax(&mut logs);
        memberships[item * k..][..k].copy_from_slice(&logs);
    }
    Ok(())
}
