//! Newton's method for scores: the likelihood of all edges and its derivatives, and the equations of a step.
//!
//! In addition to the scores there are two numbers for all comparisons, a bias to the left and the parameter of ties.
//! They are the last two entries of every vector here, where they are free, and stay as they are where they are not.

use rayon::prelude::*;

use super::conjugate_gradients::{Matrix, solve};
use super::graph::{EDGES, Graph, for_items};
use super::outcome::{Counts, Outcomes, Ties};
use super::worker_slopes::exactness;
use crate::base::control::Control;
use crate::base::memory::{copied, zeros};
use crate::base::num::{LEVEL, LogProduct};
use crate::{Error, Result};

/// Numbers next to the scores: the bias and the parameter of ties.
pub(super) const EXTRA: usize = 2;

/// What is known of scores before any comparison.
#[derive(Debug, Clone, Copy)]
pub(super) enum Prior {
    /// Normal around 0, of this precision; the bias and the parameter of ties too.
    Normal(f64),
    /// That many wins and as many losses against an item of score 0.
    Virtual(f64),
}

impl Prior {
    /// Log-density of a score, but for a constant, and the derivatives, the sign of the second changed.
    fn at(self, score: f64) -> [f64; 3] {
        match self {
            Self::Normal(precision) => [-0.5 * precision * score * score, -precision * score, precision],
            Self::Virtual(games) => {
                let one = Outcomes { ties: Ties::Half, tie: 0.0 };
                let outcome = one.at(score, Counts { left: games, right: games, tie: 0.0 });
                [outcome.whole(), outcome.slope, outcome.bend]
            }
        }
    }
}

/// How workers differ: by the slope with which they see leads, and by a bias of their own. Empty where they do not.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    pub slopes: Vec<f64>,
    pub biases: Vec<f64>,
}

impl Crowd {
    /// Slope and bias of a worker.
    pub fn of(&self, worker: usize) -> (f64, f64) {
        (self.slopes.get(worker).copied().unwrap_or(1.0), self.biases.get(worker).copied().unwrap_or(0.0))
    }
}

/// The objective at a point, and all that its derivatives are made of.
#[derive(Debug)]
pub(super) struct Ascent<'g> {
    pub graph: &'g mut Graph,
    pub ties: Ties,
    pub prior: Prior,
    pub free: [bool; EXTRA],
    /// Scores, bias, parameter of ties.
    pub point: Vec<f64>,
    pub crowd: Crowd,
    /// For each edge: derivative of its log-likelihood by the score on the left, second derivative, and those by that
    /// score and the bias, and the parameter of ties.
    edges: Edges,
    sums: Sums,
}

#[derive(Debug)]
struct Edges {
    slope: Vec<f64>,
    bend: Vec<f64>,
    by_bias: Vec<f64>,
    by_tie: Vec<f64>,
}

/// Sums over edges that belong to no item.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    log: f64,
    slope: [f64; EXTRA],
    bend: [f64; EXTRA],
    cross: f64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.log += other.log;
        self.cross += other.cross;
        for i in 0..EXTRA {
            self.slope[i] += other.slope[i];
            self.bend[i] += other.bend[i];
        }
    }
}

impl<'g> Ascent<'g> {
    /// At the foot: scores as given, or all 0.
    pub fn new(graph: &'g mut Graph, ties: Ties, prior: Prior, bias: bool, start: Option<&[f64]>) -> Result<Self> {
        let (n, m) = (graph.n_items(), graph.ends.len());
        let mut point = zeros(n + EXTRA)?;
        if let Some(start) = start {
            if start.len() != n + EXTRA || start.iter().any(|x| !x.is_finite()) {
                return Err(Error::invalid(format!("the start must be {} finite numbers", n + EXTRA)));
            }
            point.copy_from_slice(start);
        }
        let has_ties = graph.has_ties;
        let tie_edges = if has_ties { m } else { 0 };
        let bias_edges = if bias { m } else { 0 };
        let edges = Edges { slope: zeros(m)?, bend: zeros(m)?, by_bias: zeros(bias_edges)?, by_tie: zeros(tie_edges)? };
        // A log without ties shows only that they are rare: wins alone are modeled then.
        let ties = if has_ties { ties } else { Ties::Half };
        let free = [bias, has_ties];
        Ok(Self { graph, ties, prior, free, point, crowd: Crowd::default(), edges, sums: Sums::default() })
    }

    /// The probability model at this point.
    pub fn outcomes(&self) -> Outcomes {
        Outcomes { ties: self.ties, tie: self.point[self.graph.n_items() + 1] }
    }

    /// By how much the left item of an edge is ahead in the eyes of a worker.
    #[inline(always)]
    pub fn difference(&self, edge: usize) -> f64 {
        let [left, right] = self.graph.ends[edge];
        self.point[left as usize] - self.point[right as usize]
    }

    /// Looks around at the point, and returns the objective of scores, bias and ties: the slopes' own prior is not in
    /// it.
    pub fn look(&mut self, control: &Control) -> Result<f64> {
        let (outcomes, bias) = (self.outcomes(), self.point[self.graph.n_items()]);
        let mut edges =
            std::mem::replace(&mut self.edges, Edges { slope: vec![], bend: vec![], by_bias: vec![], by_tie: vec![] });
        let workers = &self.graph.workers;
        let Edges { slope, bend, by_bias, by_tie } = &mut edges;
        let (m, free) = (slope.len(), self.free);
        // Unused columns are as many empty slices.
        let bias_chunk = if free[0] { EDGES } else { 1 };
        let tie_chunk = if free[1] { EDGES } else { 1 };
        let mut bias_parts: Vec<&mut [f64]> = by_bias.chunks_mut(bias_chunk).collect();
        let mut tie_parts: Vec<&mut [f64]> = by_tie.chunks_mut(tie_chunk).collect();
        bias_parts.resize_with(m.div_ceil(EDGES), Default::default);
        tie_parts.resize_with(m.div_ceil(EDGES), Default::default);
        let this = &*self;
        let parts: Vec<Result<Sums>> = slope
            .par_chunks_mut(EDGES)
            .zip(bend.par_chunks_mut(EDGES))
            .zip(bias_parts)
            .zip(tie_parts)
            .enumerate()
            .map(|(block, (((slope, bend), by_bias), by_tie))| {
                control.check()?;
                let first = block * EDGES;
                let mut worker = workers.partition_point(|&start| start as usize <= first) - 1;
                let (mut sums, mut product) = (Sums::default(), LogProduct::ONE);
                for i in 0..slope.len() {
                    let edge = first + i;
                    while workers[worker + 1] as usize <= edge {
                        worker += 1;
                    }
                    let (a, own) = this.crowd.of(worker);
                    let outcome = outcomes.at(a * this.difference(edge) + bias + own, this.graph.counts[edge]);
                    outcome.collect(&mut sums.log, &mut product);
                    slope[i] = a * outcome.slope;
                    bend[i] = a * a * outcome.bend;
                    if free[0] {
                        sums.slope[0] += outcome.slope;
                        sums.bend[0] += outcome.bend;
                        by_bias[i] = a * outcome.bend;
                    }
                    if free[1] {
                        sums.slope[1] += outcome.tie_slope;
                        sums.bend[1] += outcome.tie_bend;
                        sums.cross += outcome.cross;
                        by_tie[i] = a * outcome.cross;
                    }
                }
                sums.log -= product.ln();
                Ok(sums)
            })
            .collect();
        self.edges = edges;
        let mut sums = Sums::default();
        for part in parts {
            sums.add(&part?);
        }
        let scores = self.prior_of_scores();
        let extra: f64 = self.extra().map(|x| x[0]).iter().sum();
        self.sums = sums;
        Ok(sums.log + scores + extra)
    }

    /// The log-density of the scores' prior, but for a constant.
    pub fn prior_of_scores(&self) -> f64 {
        self.point[..self.graph.n_items()].iter().map(|&score| self.prior.at(score)[0]).sum()
    }

    /// The prior of the bias and the parameter of ties, where they are free.
    fn extra(&self) -> [[f64; 3]; EXTRA] {
        let n = self.graph.n_items();
        let at = |i: usize| if self.free[i] { self.prior.at(self.point[n + i]) } else { [0.0, 0.0, 1.0] };
        [at(0), at(1)]
    }

    /// The gradient where it was last looked.
    pub fn gradient(&self, control: &Control) -> Result<Vec<f64>> {
        let n = self.graph.n_items();
        let mut gradient = zeros(n + EXTRA)?;
        self.graph.flow(&self.edges.slope, &mut gradient[..n], control)?;
        gradient.iter_mut().zip(&self.point[..n]).for_each(|(to, &score)| *to += self.prior.at(score)[1]);
        for (i, extra) in self.extra().iter().enumerate() {
            gradient[n + i] = if self.free[i] { self.sums.slope[i] + extra[1] } else { 0.0 };
        }
        Ok(gradient)
    }

    /// The second derivatives where it was last looked.
    pub fn curvature(&self, control: &Control) -> Result<Curvature<'_>> {
        let n = self.graph.n_items();
        let mut halves = zeros(self.graph.n_halves())?;
        self.graph.gather(&self.edges.bend, &mut halves, control)?;
        let mut diagonal = zeros(n + EXTRA)?;
        for_items(&mut diagonal[..n], 1, control, &|item, to| {
            let own: f64 = halves[self.graph.halves_of(item)].iter().sum();
            to[0] = own + self.prior.at(self.point[item])[2];
        })?;
        let extra = self.extra();
        let corner = if self.free[0] && self.free[1] { self.sums.cross } else { 0.0 };
        for i in 0..EXTRA {
            diagonal[n + i] = if self.free[i] { self.sums.bend[i] + extra[i][2] } else { 1.0 };
        }
        let mut border = [vec![], vec![]];
        for (column, edges) in border.iter_mut().zip([&self.edges.by_bias, &self.edges.by_tie]) {
            if !edges.is_empty() {
                *column = zeros(n)?;
                self.graph.flow(edges, column, control)?;
            }
        }
        Ok(Curvature { graph: self.graph, halves, diagonal, border, corner })
    }

    /// Makes a step of Newton's method from where it was last looked, and looks again; returns the objective there and
    /// how far the point was from the summit: the mean square of its error, in standard errors.
    pub fn step(&mut self, objective: f64, goal: f64, control: &Control) -> Result<(f64, f64)> {
        let gradient = self.gradient(control)?;
        let curvature = self.curvature(control)?;
        let distance = curvature.distance(&gradient);
        let way = solve::<1>(&curvature, &gradient, exactness(distance, goal), control)?;
        let gain: f64 = gradient.iter().zip(&way).map(|(a, b)| a * b).sum();
        let before = copied(&self.point)?;
        let mut length = 1.0;
        loop {
            for ((to, from), way) in self.point.iter_mut().zip(&before).zip(&way) {
                *to = from + length * way;
            }
            let reached = self.look(control)?;
            if reached >= objective + 1e-4 * length * gain - LEVEL * objective.abs() {
                return Ok((reached, gain / self.graph.n_items() as f64));
            }
            length *= 0.5;
            if length < 1e-9 {
                // No way up: rounding is all that is left.
                self.point.copy_from_slice(&before);
                return Ok((self.look(control)?, 0.0));
            }
        }
    }
}

/// A symmetric, positive definite matrix: the graph's, with a border for the bias and the parameter of ties.
#[derive(Debug)]
pub(super) struct Curvature<'g> {
    graph: &'g Graph,
    halves: Vec<f64>,
    pub diagonal: Vec<f64>,
    border: [Vec<f64>; EXTRA],
    corner: f64,
}

impl Matrix for Curvature<'_> {
    fn diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    fn times<const B: usize>(&self, vectors: &[f64], product: &mut [f64], control: &Control) -> Result<()> {
        let n = self.graph.n_items();
        let row = |i: usize| -> &[f64; B] { (&vectors[i * B..(i + 1) * B]).try_into().unwrap_or(&[0.0; B]) };
        let (bias, tie) = (row(n), row(n + 1));
        for_items(&mut product[..n * B], B, control, &|item, to| {
            let mut sum = [0.0; B];
            for at in self.graph.halves_of(item) {
                let (weight, other) = (self.halves[at], row(self.graph.half(at).other));
                sum.iter_mut().zip(other).for_each(|(sum, x)| *sum += weight * x);
            }
            let own = row(item);
            for lane in 0..B {
                to[lane] = self.diagonal[item] * own[lane] - sum[lane];
            }
            for (column, extra) in self.border.iter().zip([bias, tie]) {
                if !column.is_empty() {
                    to.iter_mut().zip(extra).for_each(|(to, x)| *to += column[item] * x);
                }
            }
        })?;
        let ends = [[bias, tie], [tie, bias]];
        for (i, column) in self.border.iter().enumerate() {
            let mut sum = [0.0; B];
            for (item, weight) in column.iter().enumerate() {
                sum.iter_mut().zip(row(item)).for_each(|(sum, x)| *sum += weight * x);
            }
            for lane in 0..B {
                product[(n + i) * B + lane] =
                    sum[lane] + self.diagonal[n + i] * ends[i][0][lane] + self.corner * ends[i][1][lane];
            }
        }
        Ok(())
    }
}
