//! Semi-matchings whose loads are as even as they can be.
//!
//! A semi-matching hands every answer to one of its givers. It is optimal (its sum of squared loads is the least) if no
//! answer can be passed on, by way of others, from a worker to one whose load is lower by two (Harvey, Ladner, Lovász
//! and Tamir 2003). Loads are evened out around a threshold, by the shortest ways from all above it to all below it at
//! once (Hopcroft and Karp 1973, Dinic 1970). Any worker that can still be reached from above then holds the threshold
//! or more and hands on nothing to the others, who hold the threshold or less: two problems, each with half of the
//! range of loads.

use super::{Contested, ROWS_PER_CHECK};
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{collected, filled, push, with_room, zeros};

const UNSEEN: u32 = u32::MAX;

/// The worker that each answer is handed to.
pub(super) fn semi_matching(contested: &Contested, control: &Control) -> Result<Vec<u32>> {
    let n_workers = contested.n_workers();
    let mut search = Search {
        contested,
        control,
        bearer: greedy(contested, control)?,
        load: zeros(n_workers)?,
        part: zeros(n_workers)?,
        distance: filled(UNSEEN, n_workers)?,
        next_answer: zeros(n_workers)?,
        next_giver: zeros(contested.n_answers())?,
        queue: with_room(n_workers)?,
        path: Vec::new(),
    };
    for &worker in &search.bearer {
        search.load[worker as usize] += 1;
    }
    let mut order: Vec<u32> = collected(0..n_workers as u32)?;
    let mut parts = vec![(0, n_workers)];
    let mut n_parts = 1;
    while let Some((begin, end)) = parts.pop() {
        let members = &mut order[begin..end];
        let loads = members.iter().map(|&worker| search.load[worker as usize]);
        let (Some(low), Some(high)) = (loads.clone().min(), loads.max()) else { continue };
        if high - low < 2 {
            continue;
        }
        let threshold = low + (high - low) / 2;
        search.even_out(members, threshold)?;
        // The last search reached no worker below the threshold: what it saw is closed.
        members.sort_unstable_by_key(|&worker| (search.distance[worker as usize] == UNSEEN, worker));
        let above = members.partition_point(|&worker| search.distance[worker as usize] != UNSEEN);
        for &worker in &members[..above] {
            search.part[worker as usize] = n_parts;
        }
        n_parts += 1;
        // Few: each part has half of the range of loads.
        parts.extend([(begin, begin + above), (begin + above, end)]);
        control.report(order.len() - parts.iter().map(|(begin, end)| end - begin).sum::<usize>(), 0.0);
    }
    Ok(search.bearer)
}

/// Hands every answer to the giver with the least so far; those that only one worker gave come first.
fn greedy(contested: &Contested, control: &Control) -> Result<Vec<u32>> {
    let mut bearer = zeros(contested.n_answers())?;
    let mut load = zeros::<u32>(contested.n_workers())?;
    for alone in [true, false] {
        for answer in 0..contested.n_answers() as u32 {
            if (answer as usize).is_multiple_of(ROWS_PER_CHECK) {
                control.check()?;
            }
            let givers = contested.givers(answer);
            if (givers.len() == 1) == alone {
                let &least = givers.iter().min_by_key(|&&worker| load[worker as usize]).unwrap_or(&givers[0]);
                bearer[answer as usize] = least;
                load[least as usize] += 1;
            }
        }
    }
    Ok(bearer)
}

struct Search<'a> {
    contested: &'a Contested,
    control: &'a Control,
    /// Who bears each answer, and how many each worker bears.
    bearer: Vec<u32>,
    load: Vec<u32>,
    /// Workers of different parts hand nothing to each other.
    part: Vec<u32>,
    /// How many answers must be passed on from a worker above the threshold to reach a worker.
    distance: Vec<u32>,
    /// What was tried in this phase, of a worker's answers and of an answer's givers.
    next_answer: Vec<u32>,
    next_giver: Vec<u32>,
    queue: Vec<u32>,
    /// Answers that are passed on, each by its bearer.
    path: Vec<u32>,
}

impl Search<'_> {
    /// Passes answers on until no worker above the threshold can reach any worker below it.
    fn even_out(&mut self, members: &[u32], threshold: u32) -> Result<()> {
        while let Some(farthest) = self.measure(members, threshold)? {
            for &source in members {
                while self.load[source as usize] > threshold && self.pass_on(source, farthest, threshold)? {}
            }
        }
        Ok(())
    }

    /// Measures distances from those above the threshold; returns that of the nearest below it, if any can be reached.
    fn measure(&mut self, members: &[u32], threshold: u32) -> Result<Option<u32>> {
        self.queue.clear();
        for &worker in members {
            let above = self.load[worker as usize] > threshold;
            self.distance[worker as usize] = if above { 0 } else { UNSEEN };
            self.next_answer[worker as usize] = 0;
            if above {
                self.queue.push(worker);
            }
        }
        let (mut at, mut farthest, mut looked) = (0, None, 0);
        while let Some(&worker) = self.queue.get(at) {
            at += 1;
            let further = self.distance[worker as usize] + 1;
            if farthest.is_some_and(|farthest| further > farthest) {
                break;
            }
            for &answer in self.contested.given(worker) {
                if self.bearer[answer as usize] != worker {
                    continue;
                }
                self.next_giver[answer as usize] = 0;
                let givers = self.contested.givers(answer);
                looked += givers.len();
                for &other in givers {
                    if self.distance[other as usize] == UNSEEN
                        && self.part[other as usize] == self.part[worker as usize]
                    {
                        self.distance[other as usize] = further;
                        self.queue.push(other);
                        if self.load[other as usize] < threshold {
                            farthest = Some(further);
                        }
                    }
                }
                if looked >= ROWS_PER_CHECK {
                    self.control.check()?;
                    looked = 0;
                }
            }
        }
        Ok(farthest)
    }

    /// Passes one answer on from a worker to a worker below the threshold, by a shortest way; false if there is none
    /// left.
    fn pass_on(&mut self, source: u32, farthest: u32, threshold: u32) -> Result<bool> {
        self.control.check()?;
        self.path.clear();
        let mut worker = source;
        loop {
            let distance = self.distance[worker as usize];
            if distance == farthest && self.load[worker as usize] < threshold {
                self.load[worker as usize] += 1;
                self.load[source as usize] -= 1;
                // From the end: each answer goes to the bearer of the next, and the last to the worker that was
                // reached.
                while let Some(answer) = self.path.pop() {
                    worker = std::mem::replace(&mut self.bearer[answer as usize], worker);
                }
                return Ok(true);
            }
            if let Some((answer, other)) = self.onward(worker, farthest) {
                push(&mut self.path, answer)?;
                worker = other;
            } else if let Some(answer) = self.path.pop() {
                // A dead end: back to the bearer of the answer, and on to its next giver.
                worker = self.bearer[answer as usize];
                self.next_giver[answer as usize] += 1;
            } else {
                return Ok(false);
            }
        }
    }

    /// The next answer that a worker bears and can hand on to a worker one step further, and the worker that takes it.
    fn onward(&mut self, worker: u32, farthest: u32) -> Option<(u32, u32)> {
        let distance = self.distance[worker as usize];
        let assigned = self.contested.given(worker);
        if distance >= farthest {
            return None;
        }
        while let Some(&answer) = assigned.get(self.next_answer[worker as usize] as usize) {
            if self.bearer[answer as usize] == worker {
                let givers = self.contested.givers(answer);
                while let Some(&other) = givers.get(self.next_giver[answer as usize] as usize) {
                    let onward = self.distance[other as usize] == distance + 1;
                    if onward && self.part[other as usize] == self.part[worker as usize] {
                        return Some((answer, other));
                    }
                    self.next_giver[answer as usize] += 1;
                }
            }
            self.next_answer[worker as usize] += 1;
        }
        None
    }
}
