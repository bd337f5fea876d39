//! Correlation clustering: the partition of items whose pairs within clusters have the most evidence, by local search.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Graph, Pairs, finite};
use crate::base::control::Control;
use crate::base::memory::{collected, copied, push, with_room, zeros};
use crate::base::num::softmax;
use crate::base::random::{below, key};
use crate::base::special::ln_gamma;
use crate::{Error, Result};

/// No move is made for less: rounding must not make it go round in circles.
const LEAST_GAIN: f64 = 1e-9;
/// Nodes between two looks at the control.
const NODES_PER_CHECK: usize = 1 << 10;
/// Most sweeps over the nodes of one level, and most rounds: far more than are ever made.
const MOST_SWEEPS: usize = 1000;

/// A partition and its score.
#[derive(Debug)]
pub struct Partition {
    /// Cluster of each item, numbered by their first items.
    pub clusters: Vec<u32>,
    /// Number of clusters.
    pub n_clusters: usize,
    /// Evidence of the pairs within clusters, and the logarithm of the prior where there is one.
    pub objective: f64,
}

/// Where items belong given where all others are.
#[derive(Debug)]
pub struct Shares {
    /// Where the clusters of each item begin, and those of the last end.
    pub offsets: Vec<u32>,
    /// Clusters that the item or a neighbor is in, in ascending order.
    pub clusters: Vec<u32>,
    /// Their probabilities; what is missing to one is that of a cluster of its own.
    pub shares: Vec<f64>,
}

/// A graph whose nodes are items, or clusters of an earlier level.
struct Level {
    graph: Graph,
    weights: Vec<f64>,
    /// Items of each node.
    sizes: Vec<f64>,
}

/// Prior of partitions: uniform, or a Chinese restaurant process with a concentration.
#[derive(Clone, Copy)]
struct Prior(Option<f64>);

impl Prior {
    /// The gain of one more cluster of this many items.
    fn of(self, size: f64) -> f64 {
        self.0.map_or(0.0, |concentration| concentration.ln() + ln_gamma(size))
    }

    /// What is gained where `more` items join this many.
    fn joined(self, size: f64, more: f64) -> f64 {
        if self.0.is_none() { 0.0 } else { ln_gamma(size + more) - ln_gamma(size) }
    }
}

/// Improves a partition by moves of one item, then of whole clusters, until neither helps.
///
/// At the end no move of one item, to a cluster with one of its neighbors or to a new one, and no union of two clusters
/// between which a pair was asked raises the objective by more than 1e-9; it is never lower than that of `start`. Which
/// of several such partitions is found depends on the order of visits, drawn from `seed`. A sweep takes O(items +
/// pairs); a handful are made. Memory O(items + pairs).
pub fn cluster_search(
    pairs: &Pairs<'_>,
    evidence: &[f64],
    start: &[u32],
    concentration: Option<f64>,
    seed: u64,
    control: &Control,
) -> Result<Partition> {
    check(pairs, evidence, start)?;
    if concentration.is_some_and(|c| !(c.is_finite() && c > 0.0)) {
        return Err(Error::invalid(format!("the concentration must be positive, not {concentration:?}")));
    }
    let prior = Prior(concentration);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(key([seed]));
    let items = Level {
        graph: Graph::new(pairs)?,
        weights: copied(evidence)?,
        sizes: crate::base::memory::filled(1.0, pairs.n_items)?,
    };
    let (mut clusters, mut n_clusters) = renumbered(start)?;
    for _ in 0..MOST_SWEEPS {
        sweeps(&items, &mut clusters, prior, &mut rng, control)?;
        (clusters, n_clusters) = renumbered(&clusters)?;
        let before = n_clusters;
        loop {
            let level = contracted(pairs, evidence, &clusters, n_clusters)?;
            let mut merged = collected((0..n_clusters).map(|node| node as u32))?;
            if sweeps(&level, &mut merged, prior, &mut rng, control)? == 0 {
                break;
            }
            clusters.iter_mut().for_each(|cluster| *cluster = merged[*cluster as usize]);
            (clusters, n_clusters) = renumbered(&clusters)?;
        }
        if n_clusters == before {
            break;
        }
    }
    let objective = worth(pairs, evidence, &clusters, n_clusters, prior);
    Ok(Partition { clusters, n_clusters, objective })
}

fn check(pairs: &Pairs<'_>, evidence: &[f64], clusters: &[u32]) -> Result<()> {
    pairs.check()?;
    finite("evidence", evidence, pairs.len())?;
    if clusters.len() != pairs.n_items || clusters.iter().any(|&c| c as usize >= pairs.n_items) {
        return Err(Error::invalid(format!("there must be a cluster below {0} for each of {0} items", pairs.n_items)));
    }
    Ok(())
}

/// Moves nodes until none gains; returns how many moves there were.
fn sweeps(
    level: &Level,
    clusters: &mut [u32],
    prior: Prior,
    rng: &mut Xoshiro256PlusPlus,
    control: &Control,
) -> Result<usize> {
    let n = clusters.len();
    let mut sizes = zeros::<f64>(n)?;
    clusters.iter().zip(&level.sizes).for_each(|(&c, size)| sizes[c as usize] += size);
    // Empty clusters, for nodes that leave on their own.
    let mut empty = with_room(n)?;
    empty.extend((0..n as u32).rev().filter(|&c| sizes[c as usize] == 0.0));
    let mut order = collected((0..n).map(|node| node as u32))?;
    let mut gains = zeros::<f64>(n)?;
    let mut near = with_room::<u32>(n)?;
    let mut moves = 0;
    for _ in 0..MOST_SWEEPS {
        (1..n).rev().for_each(|i| order.swap(i, below(rng, i + 1)));
        let before = moves;
        for (i, &node) in order.iter().enumerate() {
            if i.is_multiple_of(NODES_PER_CHECK) {
                control.check()?;
            }
            let (node, own) = (node as usize, clusters[node as usize]);
            gather(level, node, clusters, &mut gains, &mut near);
            let size = level.sizes[node];
            sizes[own as usize] -= size;
            let worth = |c: u32| {
                let cluster_size = sizes[c as usize];
                if cluster_size == 0.0 { prior.of(size) } else { gains[c as usize] + prior.joined(cluster_size, size) }
            };
            // The own cluster comes first and alone second, so that neither is left for nothing.
            let (mut best, mut most) = (own, worth(own));
            if sizes[own as usize] > 0.0
                && prior.of(size) > most + LEAST_GAIN
                && let Some(&new) = empty.last()
            {
                (best, most) = (new, prior.of(size));
            }
            for &c in &near {
                let gain = worth(c);
                if gain > most + LEAST_GAIN {
                    (best, most) = (c, gain);
                }
            }
            near.iter().for_each(|&c| gains[c as usize] = 0.0);
            if best != own {
                moves += 1;
                if sizes[best as usize] == 0.0 {
                    empty.pop();
                }
                if sizes[own as usize] == 0.0 {
                    empty.push(own);
                }
                clusters[node] = best;
            }
            sizes[best as usize] += size;
        }
        if moves == before {
            break;
        }
    }
    Ok(moves)
}

/// Adds up the evidence between a node and the clusters of its neighbors, which are listed in the order they are met.
#[inline]
fn gather(level: &Level, node: usize, clusters: &[u32], gains: &mut [f64], near: &mut Vec<u32>) {
    near.clear();
    for &[other, pair] in level.graph.of(node) {
        let c = clusters[other as usize];
        if near.last() != Some(&c) && gains[c as usize] == 0.0 {
            near.push(c);
        }
        gains[c as usize] += level.weights[pair as usize];
    }
}

/// The graph between clusters.
fn contracted(pairs: &Pairs<'_>, evidence: &[f64], clusters: &[u32], n: usize) -> Result<Level> {
    let mut between = with_room::<(u64, f64)>(pairs.len())?;
    for ((&a, &b), &weight) in pairs.left.iter().zip(pairs.right).zip(evidence) {
        let (a, b) = (clusters[a as usize], clusters[b as usize]);
        if a != b {
            between.push(((u64::from(a.min(b)) << 32) | u64::from(a.max(b)), weight));
        }
    }
    crate::base::memory::room_to_sort(&between)?;
    between.sort_by_key(|&(ends, _)| ends);
    between.dedup_by(|next, first| {
        let same = next.0 == first.0;
        if same {
            first.1 += next.1;
        }
        same
    });
    let left = collected(between.iter().map(|&(ends, _)| (ends >> 32) as u32))?;
    let right = collected(between.iter().map(|&(ends, _)| ends as u32))?;
    let weights = collected(between.iter().map(|&(_, weight)| weight))?;
    let mut sizes = zeros::<f64>(n)?;
    clusters.iter().for_each(|&c| sizes[c as usize] += 1.0);
    Ok(Level { graph: Graph::new(&Pairs { left: &left, right: &right, n_items: n })?, weights, sizes })
}

/// The same partition, with clusters numbered by their first items, and how many there are.
fn renumbered(clusters: &[u32]) -> Result<(Vec<u32>, usize)> {
    const NONE: u32 = u32::MAX;
    let most = clusters.iter().max().map_or(0, |&c| c as usize + 1);
    let mut numbers = crate::base::memory::filled(NONE, most)?;
    let mut renumbered_items = with_room(clusters.len())?;
    let mut n = 0;
    for &c in clusters {
        let number = &mut numbers[c as usize];
        if *number == NONE {
            *number = n;
            n += 1;
        }
        renumbered_items.push(*number);
    }
    Ok((renumbered_items, n as usize))
}

fn worth(pairs: &Pairs<'_>, evidence: &[f64], clusters: &[u32], n: usize, prior: Prior) -> f64 {
    let ends = pairs.left.iter().zip(pairs.right).zip(evidence);
    let within = ends.filter(|((a, b), _)| clusters[**a as usize] == clusters[**b as usize]).map(|(_, weight)| weight);
    let within: f64 = within.sum();
    if prior.0.is_none() {
        return within;
    }
    let mut sizes = vec![0.0; n];
    clusters.iter().for_each(|&c| sizes[c as usize] += 1.0);
    within + sizes.iter().map(|&size| prior.of(size)).sum::<f64>()
}

/// How probable each cluster is for each item, given the clusters of all others: evidence as log-odds against a cluster
/// of its own.
///
/// Time O(items + pairs), and the logarithm of the pairs of an item; memory O(items + pairs).
pub fn cluster_shares(pairs: &Pairs<'_>, evidence: &[f64], clusters: &[u32], control: &Control) -> Result<Shares> {
    check(pairs, evidence, clusters)?;
    let level = Level { graph: Graph::new(pairs)?, weights: copied(evidence)?, sizes: vec![] };
    let mut gains = zeros::<f64>(pairs.n_items)?;
    let mut near = with_room::<u32>(pairs.n_items)?;
    let mut sizes = zeros::<u32>(pairs.n_items)?;
    clusters.iter().for_each(|&c| sizes[c as usize] += 1);
    let mut result = Shares { offsets: with_room(pairs.n_items + 1)?, clusters: vec![], shares: vec![] };
    result.offsets.push(0);
    let mut logs = vec![];
    for (item, &own) in clusters.iter().enumerate() {
        if item.is_multiple_of(NODES_PER_CHECK) {
            control.check()?;
        }
        gather(&level, item, clusters, &mut gains, &mut near);
        if sizes[own as usize] == 1 || !near.contains(&own) {
            near.push(own);
        }
        near.sort_unstable();
        near.dedup();
        logs.clear();
        near.iter().for_each(|&c| logs.push(gains[c as usize]));
        // A cluster of its own is one of the list where the item is alone already, and else comes on top.
        if sizes[own as usize] > 1 {
            logs.push(0.0);
        }
        softmax(&mut logs);
        for (&c, &share) in near.iter().zip(&logs) {
            push(&mut result.clusters, c)?;
            push(&mut result.shares, share)?;
            gains[c as usize] = 0.0;
        }
        result.offsets.push(result.clusters.len() as u32);
    }
    Ok(result)
}
