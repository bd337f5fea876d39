//! Every case to one option, each option within its capacities, at the greatest total score.
//!
//! A flow of least cost in which the options are the nodes: an edge from one option to another is the case that is
//! moved between them at the least loss. With a pool behind the options, which takes at least the lower and at most the
//! upper capacity of each, surpluses are sent along shortest paths to where cases are wanted (Ahuja, Magnanti & Orlin
//! 1993, ch. 9). The potentials of the nodes are the offsets with which a plain arg max gives the same answer, ties
//! aside; those of a sample of the cases leave few surpluses to be sent.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::named;
use crate::base::control::Control;
use crate::base::memory::{filled, par_tried, push, with_room, zeros};
use crate::{Error, Result};

/// Below this many cases, offsets start at zero; above, from a solution for every so-manieth case.
const SMALL: usize = 1 << 11;
const STRIDE: usize = 8;

/// Scores farther from zero than this are rejected: differences of scores, and sums of them along a path, must be
/// numbers.
const MOST_SCORE: f64 = 1e300;

const ROWS_PER_BLOCK: usize = 1 << 12;

/// How many cases each option takes at least and at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacities {
    lower: Vec<u64>,
    upper: Vec<u64>,
}

impl Capacities {
    /// Capacities of which some choice takes all of `n` cases.
    pub fn new(lower: &[u64], upper: &[u64], n: usize) -> Result<Self> {
        if lower.is_empty() || lower.len() != upper.len() {
            return Err(Error::invalid(format!(
                "there are {} lower and {} upper capacities",
                lower.len(),
                upper.len()
            )));
        }
        if let Some(k) = (0..lower.len()).find(|&k| lower[k] > upper[k]) {
            let (l, u) = (lower[k], upper[k]);
            return Err(Error::invalid(format!("option {k} must take at least {l} cases but may take at most {u}")));
        }
        let n = n as u64;
        let total = |each: &[u64]| each.iter().fold(0_u64, |sum, c| sum.saturating_add(*c));
        if total(lower) > n {
            return Err(Error::invalid(format!(
                "options must take at least {} cases, but there are {n}",
                total(lower)
            )));
        }
        if total(upper) < n {
            return Err(Error::invalid(format!("options may take at most {} cases, but there are {n}", total(upper))));
        }
        Ok(Self { lower: lower.to_vec(), upper: upper.iter().map(|u| *u.min(&n)).collect() })
    }

    /// Capacities in proportion, rounded away from each other so that they can be kept if these can.
    fn scaled(&self, n: usize, to: usize) -> Self {
        let scale = |c: &u64| u128::from(*c) * to as u128;
        Self {
            lower: self.lower.iter().map(|l| (scale(l) / n as u128) as u64).collect(),
            upper: self.upper.iter().map(|u| scale(u).div_ceil(n as u128) as u64).collect(),
        }
    }
}

/// An assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Assigned {
    /// The option of each case.
    pub option: Vec<u32>,
    /// What is to be added to the options' scores for every case to be with a best one: positive only where an option
    /// takes no more than it must, negative only where it takes all it may.
    pub offsets: Vec<f64>,
}

/// The assignment of cases, rows of scores for each of `k` options, with the greatest total score; minus infinity marks
/// an option that a case does not allow.
///
/// Exact but for rounding: no better assignment gains more than about 1e-15 of the largest score for each case. Time
/// O(cases × options) and O(options²) for each surplus case, of which there are about √cases × options; memory
/// O(√cases × options²) beyond the scores and the result.
pub fn assign(scores: &[f64], k: usize, capacities: &Capacities, control: &Control) -> Result<Assigned> {
    if k != capacities.lower.len() || !scores.len().is_multiple_of(k) {
        let n_options = capacities.lower.len();
        return Err(Error::invalid(format!("there are capacities for {n_options} options and scores for {k}")));
    }
    check(scores, k, control)?;
    solve(scores, k, capacities, control)
}

fn check(scores: &[f64], k: usize, control: &Control) -> Result<()> {
    scores.par_chunks(ROWS_PER_BLOCK * k).enumerate().try_for_each(|(block, scores)| {
        control.check()?;
        for (at, row) in scores.chunks_exact(k).enumerate() {
            let at = block * ROWS_PER_BLOCK + at;
            let usable = |score: &f64| score.abs() <= MOST_SCORE || *score == f64::NEG_INFINITY;
            if let Some(bad) = row.iter().find(|score| !usable(score)) {
                return Err(Error::invalid(format!(
                    "scores hold {bad:e} in row {at}; use numbers between -{MOST_SCORE:e} and {MOST_SCORE:e}, or -inf to \
                     forbid"
                )));
            }
            if row.iter().all(|s| *s == f64::NEG_INFINITY) {
                return Err(Error::invalid(format!("row {at} of the scores allows no option: all are -inf")));
            }
        }
        Ok(())
    })
}

fn solve(scores: &[f64], k: usize, capacities: &Capacities, control: &Control) -> Result<Assigned> {
    let n = scores.len() / k;
    let mut offsets = vec![0.0; k];
    if n > SMALL {
        let mut sample = with_room(n.div_ceil(STRIDE) * k)?;
        sample.extend(scores.chunks_exact(k).step_by(STRIDE).flatten());
        let scaled = capacities.scaled(n, sample.len() / k);
        // What a sample makes impossible may be possible.
        if let Ok(found) = solve(&sample, k, &scaled, control) {
            offsets = found.offsets;
        }
    }
    let mut flow = Flow::new(scores, k, capacities, offsets, control)?;
    while flow.send()? {
        control.check()?;
    }
    let pool = flow.potential[k];
    Ok(Assigned { offsets: flow.potential[..k].iter().map(|y| y - pool).collect(), option: flow.option })
}

/// A case and what is lost by moving it. The cheaper move is the greater, so that heaps give it first.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Move {
    loss: f64,
    row: u32,
}

impl Eq for Move {}

impl Ord for Move {
    fn cmp(&self, other: &Self) -> Ordering {
        other.loss.total_cmp(&self.loss).then(other.row.cmp(&self.row))
    }
}

impl PartialOrd for Move {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The cheapest moves between two options, some of them out of date, and the loss from which on moves were left out.
#[derive(Debug, Clone, Default)]
struct Moves {
    heap: BinaryHeap<Move>,
    cut: f64,
}

/// An assignment on its way. The pool is the node after the last option.
struct Flow<'a> {
    scores: &'a [f64],
    k: usize,
    capacities: &'a Capacities,
    option: Vec<u32>,
    /// Cases each option sends on to the pool, always within its capacities.
    on: Vec<u64>,
    /// Cases each node has too many, or too few.
    surplus: Vec<i64>,
    potential: Vec<f64>,
    /// For each pair of options.
    moves: Vec<Moves>,
    /// The loss of the cheapest move of each pair.
    loss: Vec<f64>,
    /// How many moves are listed for a pair.
    limit: usize,
}

impl<'a> Flow<'a> {
    fn new(
        scores: &'a [f64],
        k: usize,
        capacities: &'a Capacities,
        offsets: Vec<f64>,
        control: &Control,
    ) -> Result<Self> {
        let n = scores.len() / k;
        let mut option = zeros::<u32>(n)?;
        let blocks = option.par_chunks_mut(ROWS_PER_BLOCK).zip(scores.par_chunks(ROWS_PER_BLOCK * k));
        blocks.try_for_each(|(option, scores)| {
            control.check()?;
            option.iter_mut().zip(scores.chunks_exact(k)).for_each(|(option, row)| *option = best(row, &offsets));
            Ok(())
        })?;
        let mut surplus = vec![0_i64; k + 1];
        option.iter().for_each(|&a| surplus[a as usize] += 1);
        // What goes on to the pool must suit the offsets, or a path might gain.
        let on: Vec<u64> = (0..k)
            .map(|a| match offsets[a].total_cmp(&0.0) {
                Ordering::Greater => capacities.lower[a],
                Ordering::Less => capacities.upper[a],
                Ordering::Equal => (surplus[a] as u64).clamp(capacities.lower[a], capacities.upper[a]),
            })
            .collect();
        surplus.iter_mut().zip(&on).for_each(|(s, on)| *s -= *on as i64);
        surplus[k] = on.iter().sum::<u64>() as i64 - n as i64;
        let mut potential = offsets;
        potential.push(0.0);
        let mut flow = Self {
            scores,
            k,
            capacities,
            option,
            on,
            surplus,
            potential,
            moves: vec![],
            loss: filled(f64::INFINITY, k * k)?,
            limit: (1 << 9) + 4 * n.isqrt(),
        };
        let mut cases = vec![vec![]; k];
        (0..).zip(&flow.option).try_for_each(|(row, &a)| push(&mut cases[a as usize], row))?;
        let lists = (0..k * k).into_par_iter();
        let listed = |pair: usize| {
            control.check()?;
            flow.listed(pair / k, pair % k, cases[pair / k].iter().copied())
        };
        flow.moves = par_tried(lists.map(listed))?;
        (0..k).try_for_each(|a| flow.refresh(a))?;
        Ok(flow)
    }

    fn score(&self, row: u32, option: usize) -> f64 {
        self.scores[row as usize * self.k + option]
    }

    /// The cheapest moves from `a` to `b` of its cases.
    fn listed(&self, a: usize, b: usize, cases: impl Iterator<Item = u32>) -> Result<Moves> {
        if a == b {
            return Ok(Moves { heap: BinaryHeap::new(), cut: f64::INFINITY });
        }
        let mut moves = vec![];
        for row in cases {
            let loss = self.lost(row, a, b);
            if loss < f64::INFINITY {
                push(&mut moves, Move { loss, row })?;
            }
        }
        let mut cut = f64::INFINITY;
        if moves.len() > self.limit {
            cut = moves.select_nth_unstable_by(self.limit, |x, y| y.cmp(x)).1.loss;
            moves.truncate(self.limit);
        }
        Ok(Moves { heap: BinaryHeap::from(moves), cut })
    }

    fn lost(&self, row: u32, a: usize, b: usize) -> f64 {
        self.score(row, a) - self.score(row, b)
    }

    /// The cheapest move from `a` to `b`, if there is any.
    fn cheapest(&mut self, a: usize, b: usize) -> Result<Option<Move>> {
        let pair = a * self.k + b;
        loop {
            let Moves { heap, cut } = &mut self.moves[pair];
            while heap.peek().is_some_and(|top| self.option[top.row as usize] as usize != a) {
                heap.pop();
            }
            match heap.peek() {
                Some(top) if top.loss <= *cut => return Ok(Some(*top)),
                None if *cut == f64::INFINITY => return Ok(None),
                _ => {
                    let cases = (0..).zip(&self.option).filter(|(_, option)| **option as usize == a);
                    self.moves[pair] = self.listed(a, b, cases.map(|(row, _)| row))?;
                }
            }
        }
    }

    /// Looks up what moves from `a` cost now.
    fn refresh(&mut self, a: usize) -> Result<()> {
        for b in 0..self.k {
            self.loss[a * self.k + b] = self.cheapest(a, b)?.map_or(f64::INFINITY, |path| path.loss);
        }
        Ok(())
    }

    /// What a unit loses between two nodes, by the potentials; infinite where it cannot go.
    fn length(&self, a: usize, b: usize) -> f64 {
        let pool = self.k;
        let loss = match (a == pool, b == pool) {
            (false, false) => self.loss[a * self.k + b],
            (false, true) if self.on[a] < self.capacities.upper[a] => 0.0,
            (true, false) if self.on[b] > self.capacities.lower[b] => 0.0,
            _ => f64::INFINITY,
        };
        // Rounding aside, lengths are never negative.
        (loss + self.potential[a] - self.potential[b]).max(0.0)
    }

    /// Sends one case from where there are too many to the nearest node that has too few; false where all have enough.
    fn send(&mut self) -> Result<bool> {
        let nodes = self.k + 1;
        if self.surplus.iter().all(|s| *s <= 0) {
            return Ok(false);
        }
        let mut distance: Vec<f64> = self.surplus.iter().map(|s| if *s > 0 { 0.0 } else { f64::INFINITY }).collect();
        let mut before = vec![nodes; nodes];
        let mut visited = vec![false; nodes];
        let end = loop {
            let open = (0..nodes).filter(|&v| !visited[v] && distance[v] < f64::INFINITY);
            let Some(at) = open.min_by(|&a, &b| distance[a].total_cmp(&distance[b])) else {
                return Err(self.impossible(&visited));
            };
            if self.surplus[at] < 0 {
                break at;
            }
            visited[at] = true;
            for v in (0..nodes).filter(|&v| !visited[v]) {
                let through = distance[at] + self.length(at, v);
                if through < distance[v] {
                    (distance[v], before[v]) = (through, at);
                }
            }
        };
        let most = distance[end];
        self.potential.iter_mut().zip(&distance).for_each(|(y, d)| *y += d.min(most));
        self.walk(end, &before)?;
        Ok(true)
    }

    /// Moves a case along each edge of the path that ends at `end`.
    fn walk(&mut self, end: usize, before: &[usize]) -> Result<()> {
        let (pool, nodes) = (self.k, self.k + 1);
        let mut moves = vec![];
        let mut at = end;
        self.surplus[end] += 1;
        while before[at] != nodes {
            let from = before[at];
            if from == pool {
                self.on[at] -= 1;
            } else if at == pool {
                self.on[from] += 1;
            } else if let Some(found) = self.cheapest(from, at)? {
                moves.push((found.row, at));
            }
            at = from;
        }
        self.surplus[at] -= 1;
        let mut changed = vec![false; self.k];
        // All cases were chosen before any moves: one that arrives must not be sent on along the same path.
        for (row, to) in moves {
            changed[self.option[row as usize] as usize] = true;
            changed[to] = true;
            self.option[row as usize] = to as u32;
            for other in (0..self.k).filter(|&other| other != to) {
                let loss = self.lost(row, to, other);
                if loss < f64::INFINITY {
                    self.moves[to * self.k + other].heap.push(Move { loss, row });
                }
            }
        }
        (0..self.k).filter(|&a| changed[a]).try_for_each(|a| self.refresh(a))
    }

    /// Why nothing more can be sent from the nodes that were reached.
    fn impossible(&self, reached: &[bool]) -> Error {
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..self.k).partition(|&a| reached[a]);
        let cases = |options: &[usize]| self.option.iter().filter(|a| options.contains(&(**a as usize))).count();
        if reached[self.k] {
            let least: u64 = outside.iter().map(|&a| self.capacities.lower[a]).sum();
            let (names, n) = (named(&outside), cases(&outside));
            return Error::invalid(format!("{names} must take at least {least} cases, but only {n} allow it"));
        }
        let most: u64 = inside.iter().map(|&a| self.capacities.upper[a]).sum();
        let (names, n) = (named(&inside), cases(&inside));
        Error::invalid(format!("{names} may take at most {most} cases, but {n} allow nothing else"))
    }
}

/// The first of the options with the greatest score and offset.
fn best(row: &[f64], offsets: &[f64]) -> u32 {
    let (mut best, mut most) = (0, f64::NEG_INFINITY);
    for (a, (score, offset)) in row.iter().zip(offsets).enumerate() {
        if score + offset > most {
            (best, most) = (a as u32, score + offset);
        }
    }
    best
}

#[cfg(test)]
mod tests;
