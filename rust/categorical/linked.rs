//! Tasks that are linked: their classes are alike where edges say so (a Potts prior), by belief propagation.
//!
//! A message from a task to a neighbor indicates which class the neighbor has, by all that the task knows from
//! elsewhere. Sweeps go through the tasks forth and back and send messages at once, so that a chain in the order of its
//! tasks is done in one sweep, exactly, and any forest in as many as its longest path turns about. Where edges form
//! cycles, messages may go around, and what they settle to is an approximation (Bethe's).

use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::base::num::softmax;
use crate::{Error, Result};

/// Tasks between two looks at the control.
const BLOCK: usize = 1 << 12;

/// The strongest link, of either sign.
const STRONG: f64 = 100.0;
/// A weight is at least one and this.
const LEAST: f64 = f64::EPSILON - 1.0;

/// Edges of tasks, each from both ends.
#[derive(Debug, Clone, Copy)]
pub struct Graph<'a> {
    /// Where the neighbors of each task begin, and where the last end.
    pub offsets: &'a [u32],
    /// Neighbors.
    pub neighbours: &'a [u32],
    /// For each, the place of the same edge among the neighbors of the other end.
    pub opposite: &'a [u32],
}

/// What [`propagate`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct Beliefs {
    /// Class probabilities, (tasks × classes).
    pub posterior: Vec<f64>,
    /// Expected number of edges both ends of which are of one class.
    pub agreement: f64,
    /// Sweeps made, and the largest change of a message's logarithm in the last.
    pub sweeps: usize,
    /// The largest change of a message in the last sweep.
    pub change: f64,
}

impl Graph<'_> {
    fn validate(&self, n: usize) -> Result<()> {
        let len = self.neighbours.len();
        let runs = self.offsets.len() == n + 1
            && self.offsets[0] == 0
            && self.offsets.windows(2).all(|w| w[0] <= w[1])
            && self.offsets[n] as usize == len
            && self.opposite.len() == len;
        let paired = |task: usize| {
            self.edges(task).all(|e| {
                let (other, back) = (self.neighbours[e] as usize, self.opposite[e] as usize);
                other < n
                    && other != task
                    && back < len
                    && self.neighbours[back] as usize == task
                    && self.opposite[back] as usize == e
                    && self.edges(other).contains(&back)
            })
        };
        if runs && (0..n).all(paired) {
            Ok(())
        } else {
            Err(Error::invalid("edges of linked tasks do not fit together"))
        }
    }

    fn edges(&self, task: usize) -> std::ops::Range<usize> {
        self.offsets[task] as usize..self.offsets[task + 1] as usize
    }
}

/// Class probabilities of linked tasks under evidence, (tasks × classes) logarithms: ends of an edge are of one class
/// exp(`strength`) times as readily as of any two others.
///
/// Time O(edges · classes) a sweep; memory 16 bytes an edge and class, and 8 a task and class.
pub fn propagate(
    graph: &Graph<'_>,
    evidence: &[f64],
    k: usize,
    strength: f64,
    max_sweeps: usize,
    tol: f64,
    control: &Control,
) -> Result<Beliefs> {
    let n = evidence.len().checked_div(k).unwrap_or(0);
    if k == 0
        || n * k != evidence.len()
        || !evidence.iter().all(|x| x.is_finite())
        || strength.is_nan()
        || strength.abs() > STRONG
    {
        return Err(Error::invalid("evidence of linked tasks must be finite, and links no stronger than 100"));
    }
    graph.validate(n)?;
    let mut messages = zeros(graph.neighbours.len() * k)?;
    let mut belief = vec![0.0; k];
    let mut sender = Sender { graph, evidence, k, gain: strength.exp_m1(), rest: vec![0.0; k] };
    let (mut sweeps, mut change) = (0, f64::INFINITY);
    while sweeps < max_sweeps && change > tol {
        change = 0.0;
        for (i, task) in (0..n).chain((0..n).rev()).enumerate() {
            if i.is_multiple_of(BLOCK) {
                control.check()?;
            }
            sender.believe(task, &messages, &mut belief);
            change = f64::max(change, sender.send(task, &belief, &mut messages));
        }
        sweeps += 1;
    }
    let mut posterior = zeros(n * k)?;
    let mut agreement = 0.0;
    for (task, row) in posterior.chunks_exact_mut(k).enumerate() {
        sender.believe(task, &messages, row);
        agreement += sender.agreement(task, row, &messages, &mut belief);
        softmax(row);
    }
    Ok(Beliefs { posterior, agreement, sweeps, change })
}

/// What sends messages, with room to make them.
struct Sender<'a> {
    graph: &'a Graph<'a>,
    evidence: &'a [f64],
    k: usize,
    /// exp(prior strength) - 1.
    gain: f64,
    rest: Vec<f64>,
}

impl Sender<'_> {
    /// Logarithms of a task's beliefs, by its evidence and all messages to it. That from the neighbor at `e` lies at
    /// `e`.
    fn believe(&self, task: usize, messages: &[f64], belief: &mut [f64]) {
        let k = self.k;
        belief.copy_from_slice(&self.evidence[task * k..(task + 1) * k]);
        for e in self.graph.edges(task) {
            belief.iter_mut().zip(&messages[e * k..]).for_each(|(b, m)| *b += m);
        }
    }

    /// Sends messages to all neighbors; returns the largest change.
    fn send(&mut self, task: usize, belief: &[f64], messages: &mut [f64]) -> f64 {
        let k = self.k;
        let mut most = 0.0;
        for e in self.graph.edges(task) {
            self.rest.iter_mut().zip(belief).zip(&messages[e * k..]).for_each(|((r, b), m)| *r = b - m);
            softmax(&mut self.rest);
            let back = self.graph.opposite[e] as usize;
            let message = &mut messages[back * k..(back + 1) * k];
            for (m, share) in message.iter_mut().zip(&self.rest) {
                // Shares sum to one: classes that differ from the neighbor's have weight one, the same has one and the
                // gain.
                let log = (self.gain * share).max(LEAST).ln_1p();
                most = f64::max(most, (log - *m).abs());
                *m = log;
            }
        }
        most
    }

    /// Expected number of edges to later neighbors that agree; `belief` are logarithms.
    fn agreement(&mut self, task: usize, belief: &[f64], messages: &[f64], other: &mut [f64]) -> f64 {
        let k = self.k;
        let mut total = 0.0;
        for e in self.graph.edges(task) {
            let neighbour = self.graph.neighbours[e] as usize;
            if neighbour < task {
                continue;
            }
            self.rest.iter_mut().zip(belief).zip(&messages[e * k..]).for_each(|((r, b), m)| *r = b - m);
            softmax(&mut self.rest);
            self.believe(neighbour, messages, other);
            let back = self.graph.opposite[e] as usize;
            other.iter_mut().zip(&messages[back * k..]).for_each(|(b, m)| *b -= m);
            softmax(other);
            let same: f64 = self.rest.iter().zip(&*other).map(|(a, b)| a * b).sum();
            total += (1.0 + self.gain) * same / (1.0 + self.gain * same).max(f64::EPSILON);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::{GOLDEN, scramble, to_unit};

    fn unit(i: usize) -> f64 {
        to_unit(scramble((i as u64).wrapping_mul(GOLDEN)))
    }

    /// Neighbors from pairs.
    fn graph(n: usize, pairs: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let mut ends: Vec<(u32, u32, usize)> =
            pairs.iter().enumerate().flat_map(|(i, (a, b))| [(*a, *b, i), (*b, *a, i)]).collect();
        ends.sort_unstable();
        let offsets = (0..=n).map(|t| ends.iter().filter(|e| (e.0 as usize) < t).count() as u32).collect();
        let find = |i: usize, from: u32| ends.iter().position(|e| e.2 == i && e.0 == from).unwrap() as u32;
        (offsets, ends.iter().map(|e| e.1).collect(), ends.iter().map(|e| find(e.2, e.1)).collect())
    }

    #[test]
    fn forests_agree_with_all_assignments() {
        const K: usize = 3;
        for (pairs, strength) in [
            (vec![(0, 1), (1, 2), (2, 3), (3, 4)], 0.7),
            (vec![(0, 3), (3, 1), (3, 4)], 2.0),
            (vec![(2, 0), (1, 4)], -0.5),
            (vec![], 1.0),
        ] {
            let (offsets, neighbours, opposite) = graph(5, &pairs);
            let graph = Graph { offsets: &offsets, neighbours: &neighbours, opposite: &opposite };
            let evidence: Vec<f64> = (0..15).map(|i| 3.0 * unit(i) - 1.0).collect();
            let result = propagate(&graph, &evidence, K, strength, 50, 1e-13, &Control::default()).unwrap();
            let (mut posterior, mut agreement, mut total) = ([0.0; 15], 0.0, 0.0);
            for i in 0..K.pow(5) {
                let classes: Vec<usize> = (0..5).map(|t| i / K.pow(t) % K).collect();
                let alike = pairs.iter().filter(|(a, b)| classes[*a as usize] == classes[*b as usize]).count() as f64;
                let log = strength * alike + classes.iter().enumerate().map(|(t, c)| evidence[t * K + c]).sum::<f64>();
                classes.iter().enumerate().for_each(|(t, c)| posterior[t * K + c] += log.exp());
                agreement += alike * log.exp();
                total += log.exp();
            }
            posterior.iter().zip(&result.posterior).for_each(|(p, q)| assert!((p / total - q).abs() < 1e-10));
            assert!((agreement / total - result.agreement).abs() < 1e-10);
        }
    }

    #[test]
    fn chains_take_one_sweep_and_cycles_stay_finite() {
        let pairs: Vec<(u32, u32)> = (0..99).map(|i| (i, i + 1)).collect();
        let (offsets, neighbours, opposite) = graph(100, &pairs);
        let chain = Graph { offsets: &offsets, neighbours: &neighbours, opposite: &opposite };
        let evidence: Vec<f64> = (0..200).map(|i| 1e3 * (unit(i) - 0.5)).collect();
        let run = |sweeps| propagate(&chain, &evidence, 2, 3.0, sweeps, 0.0, &Control::default()).unwrap().posterior;
        assert_eq!(run(1), run(5));
        let (offsets, neighbours, opposite) = graph(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]);
        let cycle = Graph { offsets: &offsets, neighbours: &neighbours, opposite: &opposite };
        let result = propagate(&cycle, &evidence[..8], 2, 5.0, 100, 1e-9, &Control::default()).unwrap();
        assert!(result.posterior.iter().all(|q| q.is_finite()) && result.agreement.is_finite());
        let wrong = Graph { opposite: &neighbours, ..cycle };
        assert!(propagate(&wrong, &evidence[..8], 2, 5.0, 1, 0.0, &Control::default()).is_err());
    }
}
