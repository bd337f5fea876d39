//! Texts: many answers of one task side by side, word by word or letter by letter.
//!
//! An answer is a row of tokens. Those of a task are put into slots, each token into one, in their order: what stands
//! in one slot are different versions of the same place. The cost of an alignment is the sum, over all two answers, of
//! the slots in which they differ, an empty one included.

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::{clear, filled, par_tried, push, ready, with_room, zeros};
use crate::objects::{Tasks, edits};
use crate::{Error, Result};

/// Most rounds in which each answer is taken out and put back where it fits best.
const ROUNDS: usize = 20;

/// Distinct answers of each task, in an order of their own: answer i is `tokens[starts[i]..starts[i + 1]]`, and was
/// given `counts[i]` times.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'a> {
    /// Where the answers of each task begin.
    pub tasks: Tasks<'a>,
    /// Where the tokens of each answer begin.
    pub starts: Tasks<'a>,
    /// Codes of the tokens.
    pub tokens: &'a [u32],
    /// How often each answer was given.
    pub counts: &'a [u32],
}

/// Tokens in slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Alignment {
    /// The slot of each token, from 0 in each task.
    pub slots: Vec<u32>,
    /// Number of slots of each task.
    pub n_slots: Vec<u32>,
    /// Cost of each task's alignment: slots in which two answers differ, over all two of them.
    pub costs: Vec<f64>,
}

impl<'a> Texts<'a> {
    fn check(&self) -> Result<()> {
        self.starts.check(self.tokens.len())?;
        self.tasks.check(self.starts.len())?;
        if self.counts.len() != self.starts.len() || self.counts.contains(&0) {
            return Err(Error::invalid("counts must be one positive number for each answer"));
        }
        Ok(())
    }

    fn text(&self, answer: usize) -> &'a [u32] {
        &self.tokens[self.starts.rows(answer)]
    }
}

/// Aligns the answers of each task, whatever their order was: from the answer nearest to all others outwards, then each
/// taken out and put back, until no cost falls.
///
/// Time O(D² L² + R D L S) for a task of D distinct answers of length L in S slots and R rounds, a few; memory O(L S).
pub fn align_texts(texts: &Texts<'_>, control: &Control) -> Result<Alignment> {
    texts.check()?;
    let results = par_tried((0..texts.tasks.len()).into_par_iter().map_init(Scratch::default, |scratch, task| {
        control.check()?;
        one_task(texts, task, scratch, control)
    }))?;
    let mut alignment = Alignment {
        slots: with_room(texts.tokens.len())?,
        n_slots: with_room(results.len())?,
        costs: with_room(results.len())?,
    };
    for task in results {
        for slots in &task.places {
            alignment.slots.extend_from_slice(slots);
        }
        alignment.n_slots.push(task.slots.len() as u32);
        alignment.costs.push(task.cost());
    }
    Ok(alignment)
}

/// Least numbers of edits between the texts of two lists, pair by pair.
///
/// Time O(length²) a pair.
pub fn edit_counts(one: (Tasks<'_>, &[u32]), other: (Tasks<'_>, &[u32]), control: &Control) -> Result<Vec<u32>> {
    one.0.check(one.1.len())?;
    other.0.check(other.1.len())?;
    if one.0.len() != other.0.len() {
        return Err(Error::invalid(format!("{} texts cannot be compared with {}", one.0.len(), other.0.len())));
    }
    let longest = (0..other.0.len()).map(|row| other.0.rows(row).len()).max().unwrap_or(0);
    par_tried((0..one.0.len()).into_par_iter().map_init(
        || zeros::<u32>(longest + 1),
        |row, pair| edits(&one.1[one.0.rows(pair)], &other.1[other.0.rows(pair)], ready(row)?, control),
    ))
}

/// What a thread works with.
#[derive(Default)]
struct Scratch {
    row: Vec<u32>,
    costs: Vec<u64>,
    steps: Vec<u8>,
}

/// Where a token goes, or what a slot gets.
const TAKE: u8 = 0;
const SKIP: u8 = 1;
const OPEN: u8 = 2;

/// Answers of a task in slots.
struct Network<'a> {
    texts: Vec<(&'a [u32], u64)>,
    /// The slots of each answer's tokens; none for an answer that is not in yet.
    places: Vec<Vec<u32>>,
    inside: Vec<bool>,
    /// What stands in each slot, and how often.
    slots: Vec<Vec<(u32, u64)>>,
}

fn one_task<'a>(texts: &Texts<'a>, task: usize, scratch: &mut Scratch, control: &Control) -> Result<Network<'a>> {
    let rows = texts.tasks.rows(task);
    let n = rows.len();
    let mut network =
        Network { texts: with_room(n)?, places: with_room(n)?, inside: filled(false, n)?, slots: Vec::new() };
    for row in rows {
        network.texts.push((texts.text(row), u64::from(texts.counts[row])));
        network.places.push(Vec::new());
    }
    for answer in network.outwards(scratch, control)? {
        control.check()?;
        let steps = network.best(answer, scratch, control)?;
        network.put(answer, &steps.0)?;
    }
    for _ in 0..ROUNDS {
        let mut fell = false;
        for answer in 0..n {
            fell |= n > 1 && network.moved(answer, scratch, control)?;
        }
        if !fell {
            break;
        }
    }
    Ok(network)
}

impl Network<'_> {
    /// Answers from the one nearest to all others outwards; equally near ones in their own order.
    fn outwards(&self, scratch: &mut Scratch, control: &Control) -> Result<Vec<usize>> {
        let n = self.texts.len();
        let longest = self.texts.iter().map(|(text, _)| text.len()).max().unwrap_or(0);
        clear(&mut scratch.row, longest + 1)?;
        let mut apart = zeros::<u32>(n * n)?;
        for a in 0..n {
            for b in 0..a {
                let distance = edits(self.texts[a].0, self.texts[b].0, &mut scratch.row, control)?;
                (apart[a * n + b], apart[b * n + a]) = (distance, distance);
            }
        }
        let far = |a: usize| (0..n).map(|b| self.texts[b].1 * u64::from(apart[a * n + b])).sum::<u64>();
        let mut order = with_room(n)?;
        order.extend(0..n);
        if let Some(medoid) = (0..n).min_by_key(|&a| (far(a), a)) {
            order.sort_unstable_by_key(|&a| (apart[medoid * n + a], a != medoid, a));
        }
        Ok(order)
    }

    fn total(&self) -> u64 {
        self.texts.iter().zip(&self.inside).filter(|(_, inside)| **inside).map(|((_, count), _)| count).sum()
    }

    fn held(slot: &[(u32, u64)]) -> u64 {
        slot.iter().map(|(_, count)| count).sum()
    }

    fn count(slot: &[(u32, u64)], token: u32) -> u64 {
        slot.iter().find(|(held, _)| *held == token).map_or(0, |(_, count)| *count)
    }

    /// The cheapest way to put an answer into the slots, and what it costs; of equal ways the one that opens none.
    fn best(&self, answer: usize, scratch: &mut Scratch, control: &Control) -> Result<(Vec<u8>, u64)> {
        let (text, total) = (self.texts[answer].0, self.total());
        let wide = self.slots.len() + 1;
        let cells = (text.len() + 1).checked_mul(wide).ok_or(Error::OutOfMemory(usize::MAX))?;
        clear(&mut scratch.steps, cells)?;
        clear(&mut scratch.costs, wide)?;
        let (costs, steps) = (&mut scratch.costs, &mut scratch.steps);
        for j in 1..wide {
            costs[j] = costs[j - 1] + Self::held(&self.slots[j - 1]);
            steps[j] = SKIP;
        }
        for (i, &token) in text.iter().enumerate() {
            if i % 256 == 255 {
                control.check()?;
            }
            let mut diagonal = costs[0];
            costs[0] += total;
            steps[(i + 1) * wide] = OPEN;
            for j in 1..wide {
                let slot = &self.slots[j - 1];
                let ways = [
                    (diagonal + total - Self::count(slot, token), TAKE),
                    (costs[j - 1] + Self::held(slot), SKIP),
                    (costs[j] + total, OPEN),
                ];
                diagonal = costs[j];
                let (cost, step) = ways.into_iter().min().unwrap_or_default();
                costs[j] = cost;
                steps[(i + 1) * wide + j] = step;
            }
        }
        let cost = costs[wide - 1];
        let mut path = with_room(text.len() + wide)?;
        let (mut i, mut j) = (text.len(), wide - 1);
        while i > 0 || j > 0 {
            let step = steps[i * wide + j];
            path.push(step);
            i -= usize::from(step != SKIP);
            j -= usize::from(step != OPEN);
        }
        path.reverse();
        Ok((path, cost))
    }

    /// Puts an answer into the slots along a path.
    fn put(&mut self, answer: usize, path: &[u8]) -> Result<()> {
        let mut slots = zeros::<u32>(self.slots.len())?;
        let mut places = with_room(self.texts[answer].0.len())?;
        let mut now = 0;
        let mut old = 0;
        for &step in path {
            if step != OPEN {
                slots[old] = now;
                old += 1;
            }
            if step != SKIP {
                places.push(now);
            }
            now += 1;
        }
        for place in self.places.iter_mut().flatten() {
            *place = slots[*place as usize];
        }
        self.places[answer] = places;
        self.inside[answer] = true;
        self.fill(now as usize)
    }

    /// Counts again what stands in this many slots.
    fn fill(&mut self, n_slots: usize) -> Result<()> {
        self.slots = with_room(n_slots)?;
        self.slots.resize_with(n_slots, Vec::new);
        for ((text, count), places) in self.texts.iter().zip(&self.places) {
            for (&token, &place) in text.iter().zip(places) {
                let slot = &mut self.slots[place as usize];
                match slot.iter_mut().find(|(held, _)| *held == token) {
                    Some((_, held)) => *held += count,
                    None => push(slot, (token, *count))?,
                }
            }
        }
        Ok(())
    }

    /// Takes an answer out of its slots; those that it leaves empty are closed. Returns where its tokens would go back.
    fn take_out(&mut self, answer: usize) -> Result<Vec<u8>> {
        let (text, count) = self.texts[answer];
        let old = std::mem::take(&mut self.places[answer]);
        self.inside[answer] = false;
        let mut path = with_room(self.slots.len())?;
        let mut slots = zeros::<u32>(self.slots.len())?;
        let (mut now, mut at) = (0, 0);
        for (place, slot) in self.slots.iter().enumerate() {
            let mine = at < old.len() && old[at] as usize == place;
            let alone = mine && Self::held(slot) == count && slot[0].0 == text[at];
            at += usize::from(mine);
            slots[place] = now;
            now += u32::from(!alone);
            path.push(if alone {
                OPEN
            } else if mine {
                TAKE
            } else {
                SKIP
            });
        }
        for place in self.places.iter_mut().flatten() {
            *place = slots[*place as usize];
        }
        self.fill(now as usize)?;
        Ok(path)
    }

    /// What a path costs an answer.
    fn price(&self, answer: usize, path: &[u8]) -> u64 {
        let (text, total) = (self.texts[answer].0, self.total());
        let (mut i, mut j, mut cost) = (0, 0, 0);
        for &step in path {
            cost += match step {
                TAKE => total - Self::count(&self.slots[j], text[i]),
                SKIP => Self::held(&self.slots[j]),
                _ => total,
            };
            i += usize::from(step != SKIP);
            j += usize::from(step != OPEN);
        }
        cost
    }

    /// Takes an answer out and puts it back where it costs least; returns whether that is less than before.
    fn moved(&mut self, answer: usize, scratch: &mut Scratch, control: &Control) -> Result<bool> {
        control.check()?;
        let old = self.take_out(answer)?;
        let before = self.price(answer, &old);
        let (path, cost) = self.best(answer, scratch, control)?;
        let falls = cost < before;
        self.put(answer, if falls { &path } else { &old })?;
        Ok(falls)
    }

    /// Slots in which two answers differ, over all two of them.
    fn cost(&self) -> f64 {
        let total = self.total() as f64;
        let same = |slot: &Vec<(u32, u64)>| {
            let empty = total - Self::held(slot) as f64;
            slot.iter().map(|(_, count)| (*count as f64).powi(2)).sum::<f64>() + empty * empty
        };
        self.slots.iter().map(|slot| (total * total - same(slot)) / 2.0).sum()
    }
}

#[cfg(test)]
mod tests;
