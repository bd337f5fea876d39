//! Standard errors of all scores: what the model itself implies, and the sandwich, which holds where it is wrong.
//!
//! With H the second derivatives and B the covariance of what clusters of comparisons say, the first is the diagonal of
//! H⁻¹ and the second that of H⁻¹·B·H⁻¹. Few items, or few clusters, are solved for one by one. For many, random signs
//! z make right sides r = R·z with R·Rᵀ = B, and the squares of x = H⁻¹·r average the diagonal. The part r/diag(H) of x
//! has a variance that is known exactly; only the rest, what others' errors add, is averaged, and so errs little where
//! items have many opponents. The error is returned.

use rayon::prelude::*;

use super::bradley_terry::{Parameters, check_parameters};
use super::conjugate_gradients::solve;
use super::graph::{Fold, Graph, for_items};
use super::newton::{Ascent, Crowd, Curvature, EXTRA, Prior};
use super::outcome::{Counts, Outcomes, Ties};
use super::table::Comparisons;
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{copied, zeros};
use crate::base::num::{GOLDEN, scramble};

/// Vectors solved for side by side.
const LANES: usize = 8;
/// This many items are solved for one by one.
const EXACT: usize = 256;
/// How exactly equations are solved: the variances err by less than twice that share.
const EXACTNESS: f64 = 2e-2;

/// What is taken to be independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clusters {
    /// Every comparison.
    Comparisons,
    /// Workers, but not the comparisons of one worker.
    Workers,
}

/// How errors are found.
#[derive(Debug, Clone, Copy)]
pub struct ErrorOptions {
    /// What became of ties.
    pub ties: Ties,
    /// Whether there is a bias to the left.
    pub left_bias: bool,
    /// The standard deviation of scores before any comparison.
    pub prior: f64,
    /// What is independent.
    pub clusters: Clusters,
    /// How many vectors of random signs, in eights.
    pub n_probes: usize,
    /// What the signs depend on.
    pub seed: u64,
}

/// Variances of all scores.
#[derive(Debug, Clone)]
pub struct Errors {
    /// By the model.
    pub model: Vec<f64>,
    /// By what clusters say.
    pub sandwich: Vec<f64>,
    /// The standard error of the standard errors, as a share of them, root mean square over items, of either; 0 where
    /// they are exact.
    pub inexact: [f64; 2],
}

/// Finds standard errors: this many solutions as there are probes, or items, or clusters, of about ten passes each.
pub fn bradley_terry_errors(
    table: &Comparisons,
    found: &Parameters,
    options: &ErrorOptions,
    control: &Control,
) -> Result<Errors> {
    check_parameters(table, found)?;
    let mut graph = Graph::new(table, options.ties, Fold::Workers, control)?;
    let n = graph.n_items();
    let mut point = copied(&found.point)?;
    if point[n + 1].is_nan() {
        point[n + 1] = 0.0;
    }
    let prior = Prior::Normal(options.prior.powi(-2));
    let mut ascent = Ascent::new(&mut graph, options.ties, prior, options.left_bias, Some(&point))?;
    ascent.crowd = Crowd { slopes: copied(&found.slopes)?, biases: copied(&found.biases)? };
    ascent.look(control)?;
    let curvature = ascent.curvature(control)?;
    let workers = ascent.graph.worker_of_edges()?;
    let factors = |of: Kind| factors_of(&ascent, &workers, of);
    let says = if options.clusters == Clusters::Workers { Kind::Workers } else { Kind::Comparisons };
    let problem = |kind| -> Result<Problem<'_>> {
        Ok(Problem {
            ascent: &ascent,
            curvature: &curvature,
            workers: &workers,
            factors: factors(kind)?,
            kind,
            options,
        })
    };
    let (model, sandwich) = (problem(Kind::Model)?, problem(says)?);
    if n <= EXACT {
        let inverse = inverse(&curvature, n, control)?;
        let of = |problem: &Problem<'_>| problem.by_inverse(&inverse, control);
        return Ok(Errors { model: of(&model)?, sandwich: of(&sandwich)?, inexact: [0.0; 2] });
    }
    let (by_model, rough) = model.by_probes(control)?;
    let few = says == Kind::Workers && ascent.graph.n_workers() <= options.n_probes;
    let (by_clusters, rougher) = if few { sandwich.one_by_one(control)? } else { sandwich.by_probes(control)? };
    Ok(Errors { model: by_model, sandwich: by_clusters, inexact: [rough, rougher] })
}

/// Whose covariance is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Comparisons,
    Workers,
}

/// Curvature of an edge in its lead and in ties: with random signs z, `[c0·z, c1·z + c2·z']`.
type Factor = [f64; 3];

fn factors_of(ascent: &Ascent<'_>, workers: &[u32], kind: Kind) -> Result<Vec<Factor>> {
    let (graph, outcomes) = (&ascent.graph, ascent.outcomes());
    let shared = ascent.point[graph.n_items()];
    let mut factors: Vec<Factor> = zeros(graph.ends.len())?;
    factors.par_iter_mut().enumerate().for_each(|(edge, factor)| {
        let (a, own) = ascent.crowd.of(workers[edge] as usize);
        let (lead, counts) = (a * ascent.difference(edge) + shared + own, graph.counts[edge]);
        let one = outcomes.at(lead, counts);
        *factor = match kind {
            Kind::Model => rooted([one.bend, one.cross, one.tie_bend]),
            Kind::Comparisons => rooted(squares(outcomes, lead, counts)),
            Kind::Workers => [one.slope, one.tie_slope, 0.0],
        };
    });
    Ok(factors)
}

/// The sum of squares of what single comparisons say of the lead, products with what they say of ties, and squares of
/// that.
fn squares(outcomes: Outcomes, lead: f64, counts: Counts) -> [f64; 3] {
    let none = Counts::default();
    let kinds = [
        (counts.left, Counts { left: 1.0, ..none }),
        (counts.right, Counts { right: 1.0, ..none }),
        (counts.tie, Counts { tie: 1.0, ..none }),
    ];
    let mut sum = [0.0; 3];
    for (times, one) in kinds.into_iter().filter(|(times, _)| *times > 0.0) {
        let one = outcomes.at(lead, one);
        sum[0] += times * one.slope * one.slope;
        sum[1] += times * one.slope * one.tie_slope;
        sum[2] += times * one.tie_slope * one.tie_slope;
    }
    sum
}

/// The lower triangle whose product with its transpose is a matrix of two rows.
fn rooted([a, c, t]: [f64; 3]) -> Factor {
    let root = a.max(0.0).sqrt();
    let below = if root > 0.0 { c / root } else { 0.0 };
    [root, below, (t - below * below).max(0.0).sqrt()]
}

/// The inverse, a column for each item, by blocks of columns.
fn inverse(curvature: &Curvature<'_>, n: usize, control: &Control) -> Result<Vec<f64>> {
    let len = n + EXTRA;
    let mut columns = zeros(n * len)?;
    for first in (0..n).step_by(LANES) {
        let mut right = zeros(len * LANES)?;
        (0..LANES.min(n - first)).for_each(|lane| right[(first + lane) * LANES + lane] = 1.0);
        let solution = solve::<LANES>(curvature, &right, 1e-8, control)?;
        for lane in 0..LANES.min(n - first) {
            let column = &mut columns[(first + lane) * len..][..len];
            column.iter_mut().enumerate().for_each(|(i, to)| *to = solution[i * LANES + lane]);
        }
    }
    Ok(columns)
}

struct Problem<'a> {
    ascent: &'a Ascent<'a>,
    curvature: &'a Curvature<'a>,
    workers: &'a [u32],
    factors: Vec<Factor>,
    kind: Kind,
    options: &'a ErrorOptions,
}

/// Bits for the signs of one edge, worker or item.
fn bits(seed: u64, block: usize, what: u64, at: usize) -> u64 {
    scramble(seed.wrapping_add(what).wrapping_mul(GOLDEN) ^ scramble(((block as u64) << 34) ^ at as u64))
}

fn sign(bits: u64, place: usize) -> f64 {
    if bits >> place & 1 == 1 { 1.0 } else { -1.0 }
}

impl Problem<'_> {
    fn n(&self) -> usize {
        self.ascent.graph.n_items()
    }

    fn slope_of(&self, edge: usize) -> f64 {
        self.ascent.crowd.of(self.workers[edge] as usize).0
    }

    /// Whatever is independent to which an edge belongs.
    fn cluster(&self, edge: usize) -> usize {
        if self.kind == Kind::Workers { self.workers[edge] as usize } else { edge }
    }

    /// Diagonal entries from the inverse itself.
    fn by_inverse(&self, inverse: &[f64], control: &Control) -> Result<Vec<f64>> {
        let (n, len) = (self.n(), self.n() + EXTRA);
        let mut variance = zeros(n)?;
        if self.kind == Kind::Model {
            variance.iter_mut().enumerate().for_each(|(i, to)| *to = inverse[i * len + i]);
            return Ok(variance);
        }
        for_items(&mut variance, 1, control, &|item, to| {
            let row = &inverse[item * len..][..len];
            let (mut total, mut sum, mut last) = (0.0, 0.0, usize::MAX);
            for (edge, &[c0, c1, c2]) in self.factors.iter().enumerate() {
                let [left, right] = self.ascent.graph.ends[edge];
                let lead = self.slope_of(edge) * (row[left as usize] - row[right as usize]) + row[n];
                let cluster = self.cluster(edge);
                if cluster != last {
                    total += sum * sum;
                    (sum, last) = (0.0, cluster);
                }
                sum += c0 * lead + c1 * row[n + 1];
                total += (c2 * row[n + 1]).powi(2);
            }
            to[0] = total + sum * sum;
        })?;
        Ok(variance)
    }

    /// Right sides for a block of lanes, given what z is for (cluster, lane, whether it is the second).
    fn right(&self, z: &(dyn Fn(usize) -> [[f64; LANES]; 2] + Sync), control: &Control) -> Result<Vec<f64>> {
        let (graph, n) = (&self.ascent.graph, self.n());
        let mut right = zeros((n + EXTRA) * LANES)?;
        for_items(&mut right[..n * LANES], LANES, control, &|item, to| {
            for at in graph.halves_of(item) {
                let half = graph.half(at);
                let weight = half.sign * self.slope_of(half.edge) * self.factors[half.edge][0];
                let [first, _] = z(self.cluster(half.edge));
                to.iter_mut().zip(first).for_each(|(to, z)| *to += weight * z);
            }
        })?;
        if self.ascent.free.contains(&true) {
            let parts: Vec<[[f64; LANES]; EXTRA]> = graph
                .chunks()?
                .into_par_iter()
                .map(|edges| {
                    let mut sums = [[0.0; LANES]; EXTRA];
                    for edge in edges {
                        let ([c0, c1, c2], [first, second]) = (self.factors[edge], z(self.cluster(edge)));
                        for lane in 0..LANES {
                            sums[0][lane] += c0 * first[lane];
                            sums[1][lane] += c1 * first[lane] + c2 * second[lane];
                        }
                    }
                    sums
                })
                .collect();
            for i in (0..EXTRA).filter(|&i| self.ascent.free[i]) {
                for part in &parts {
                    (0..LANES).for_each(|lane| right[(n + i) * LANES + lane] += part[i][lane]);
                }
            }
        }
        Ok(right)
    }

    /// The variance of each right side over its diagonal entry.
    fn known(&self, control: &Control) -> Result<Vec<f64>> {
        let graph = &self.ascent.graph;
        let mut totals = zeros(self.n())?;
        for_items(&mut totals, 1, control, &|item, to| {
            let (mut total, mut sum, mut last) = (0.0, 0.0, usize::MAX);
            for at in graph.halves_of(item) {
                let half = graph.half(at);
                let cluster = self.cluster(half.edge);
                if cluster != last {
                    total += sum * sum;
                    (sum, last) = (0.0, cluster);
                }
                sum += half.sign * self.slope_of(half.edge) * self.factors[half.edge][0];
            }
            let prior = if self.kind == Kind::Model { self.options.prior.powi(-2) } else { 0.0 };
            to[0] = (total + sum * sum + prior) / self.curvature.diagonal[item].powi(2);
        })?;
        Ok(totals)
    }

    /// Diagonal entries by random signs, and their root mean square error as a share of standard errors.
    fn by_probes(&self, control: &Control) -> Result<(Vec<f64>, f64)> {
        let (n, seed) = (self.n(), self.options.seed ^ self.kind as u64);
        let mut variance = self.known(control)?;
        // Sums of what is added, of its squares, and of squares of all.
        let mut sums: Vec<f64> = zeros(3 * n)?;
        let blocks = self.options.n_probes.div_ceil(LANES).max(1);
        for block in 0..blocks {
            let signs = |cluster: usize| {
                let bits = bits(seed, block, 0, cluster);
                [std::array::from_fn(|lane| sign(bits, lane)), std::array::from_fn(|lane| sign(bits, LANES + lane))]
            };
            let mut right = self.right(&signs, control)?;
            if self.kind == Kind::Model {
                let width = 1.0 / self.options.prior;
                let free = (0..n).chain((0..EXTRA).filter(|&i| self.ascent.free[i]).map(|i| n + i));
                for item in free {
                    let bits = bits(seed, block, 1, item);
                    (0..LANES).for_each(|lane| right[item * LANES + lane] += width * sign(bits, lane));
                }
            }
            let solution = solve::<LANES>(self.curvature, &right, EXACTNESS, control)?;
            for_items(&mut sums, 3, control, &|item, sums| {
                for lane in 0..LANES {
                    let (at, whole) = (item * LANES + lane, solution[item * LANES + lane]);
                    let part = right[at] / self.curvature.diagonal[item];
                    let added = whole * whole - part * part;
                    sums[0] += added;
                    sums[1] += added * added;
                    sums[2] += whole * whole;
                }
            })?;
        }
        let k = (blocks * LANES) as f64;
        let mut rough = 0.0;
        for (variance, sums) in variance.iter_mut().zip(sums.chunks_exact(3)) {
            let (added, square) = (sums[0] / k, sums[1] / k);
            // Noise may outweigh what little there is: squares alone are never negative.
            *variance = (*variance + added).max(0.2 * sums[2] / k);
            rough += if *variance > 0.0 {
                (square - added * added).max(0.0) / k / (4.0 * *variance * *variance)
            } else {
                0.0
            };
        }
        Ok((variance, (rough / n as f64).sqrt()))
    }

    /// Diagonal entries by solving for every worker.
    fn one_by_one(&self, control: &Control) -> Result<(Vec<f64>, f64)> {
        let mut variance = zeros(self.n())?;
        for first in (0..self.ascent.graph.n_workers()).step_by(LANES) {
            let mine = |worker: usize| {
                let mut z = [[0.0; LANES]; 2];
                if (first..first + LANES).contains(&worker) {
                    z[0][worker - first] = 1.0;
                }
                z
            };
            let right = self.right(&mine, control)?;
            let solution = solve::<LANES>(self.curvature, &right, EXACTNESS, control)?;
            for (variance, row) in variance.iter_mut().zip(solution.chunks_exact(LANES)) {
                *variance += row.iter().map(|x| x * x).sum::<f64>();
            }
        }
        Ok((variance, 0.0))
    }
}
