//! Which boxes, or points, of several workers are of one object.
//!
//! The two groups that are most alike on average become one, as long as they share no worker and are alike enough.
//! Pairs of boxes that do not overlap are unlike altogether and are never listed: what is listed are neighbors along
//! the first axis that meet along the second, so that cost grows with the overlaps and not with the square of the
//! boxes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use crate::base::components::Components;
use crate::base::control::Control;
use crate::base::memory::{collected, filled, par_tried, push, with_room, zeros};
use crate::objects::Tasks;
use crate::{Error, Result};

/// Looks between two looks at the control.
const BLOCK: usize = 1 << 16;

/// Rounding must not part what is exactly at the limit.
const SLACK: f64 = 1e-12;

/// How alike points are that are a radius apart: the least of one object.
const NEAR: f64 = 0.5;

/// Boxes or points by task, those of a task by their first number.
#[derive(Debug, Clone, Copy)]
pub struct Drawn<'a> {
    /// Where the boxes of each task begin, and where the last end.
    pub tasks: Tasks<'a>,
    /// Which worker drew each.
    pub workers: &'a [u32],
    /// Left, top, right and bottom of each, or the two numbers of a point.
    pub numbers: &'a [f64],
    /// Numbers of each: 4, or 2.
    pub dims: usize,
}

impl Drawn<'_> {
    fn check(&self) -> Result<()> {
        self.tasks.check(self.workers.len())?;
        if !(self.dims == 2 || self.dims == 4) || self.numbers.len() != self.workers.len() * self.dims {
            return Err(Error::invalid("boxes have four numbers each, and points two"));
        }
        if !self.numbers.iter().all(|x| x.is_finite()) {
            return Err(Error::invalid("boxes must be finite"));
        }
        let sorted = |task: usize| self.tasks.rows(task).is_sorted_by(|a, b| self.at(*a)[0] <= self.at(*b)[0]);
        if !(0..self.tasks.len()).all(sorted) {
            return Err(Error::invalid("boxes of a task must be in the order of their first numbers"));
        }
        let flat = |b: &[f64]| b[2] <= b[0] || b[3] <= b[1];
        if self.dims == 4 && self.numbers.chunks_exact(4).any(flat) {
            return Err(Error::invalid("boxes must have an area"));
        }
        Ok(())
    }

    fn at(&self, row: usize) -> &[f64] {
        &self.numbers[row * self.dims..(row + 1) * self.dims]
    }

    /// How alike two are: intersection over union, or 1 for points at one place and a half for those a radius apart.
    fn alike(&self, a: usize, b: usize, radius: f64) -> f64 {
        let (a, b) = (self.at(a), self.at(b));
        if self.dims == 4 {
            return overlap(a, b);
        }
        let far = (a[0] - b[0]).hypot(a[1] - b[1]);
        if radius == 0.0 { f64::from(u8::from(far == 0.0)) } else { 1.0 / (1.0 + far / radius) }
    }

    /// How far to the right whatever may be alike to a box can begin.
    fn reach(&self, row: usize, radius: f64) -> f64 {
        // One part in a billion more: what is exactly a radius away must not be lost by rounding.
        if self.dims == 4 { self.at(row)[2] } else { self.at(row)[0] + radius * (1.0 + 1e-9) }
    }
}

/// Intersection over union, relative to the larger sizes, so that nothing over- or underflows.
fn overlap(a: &[f64], b: &[f64]) -> f64 {
    let (mut both, mut one, mut other) = (1.0, 1.0, 1.0);
    for axis in 0..2 {
        let (mine, theirs) = (a[axis + 2] - a[axis], b[axis + 2] - b[axis]);
        let unit = f64::max(mine, theirs);
        both *= (f64::min(a[axis + 2], b[axis + 2]) - f64::max(a[axis], b[axis])).max(0.0) / unit;
        one *= mine / unit;
        other *= theirs / unit;
    }
    both / (one + other - both)
}

/// The group of each box, numbered over all tasks by their first boxes. `least` is how alike boxes of one object are on
/// average, and `radius` how far apart points may be.
///
/// Time O(p log p) for the p pairs of boxes of a task that overlap, or of points that a chain of near ones connects,
/// besides those that meet along the first axis only; memory O(p).
pub fn match_boxes(drawn: &Drawn<'_>, least: f64, radius: f64, control: &Control) -> Result<Vec<u32>> {
    drawn.check()?;
    if !(least > 0.0 && least <= 1.0 && radius >= 0.0 && radius.is_finite()) {
        return Err(Error::invalid(
            "boxes of one object overlap by more than nothing, and points are at a finite distance",
        ));
    }
    let least = if drawn.dims == 4 { least } else { NEAR };
    let each = (0..drawn.tasks.len()).into_par_iter();
    let results = par_tried(each.map(|task| one_task(drawn, task, least, radius, control)))?;
    let mut groups = with_room(drawn.workers.len())?;
    let mut n = 0;
    for task in results {
        let most = task.iter().max().map_or(0, |g| g + 1);
        groups.extend(task.iter().map(|g| n + g));
        n += most;
    }
    Ok(groups)
}

/// Groups of a task's boxes, numbered by their first ones.
fn one_task(drawn: &Drawn<'_>, task: usize, least: f64, radius: f64, control: &Control) -> Result<Vec<u32>> {
    control.check()?;
    let rows = drawn.tasks.rows(task);
    let (first, n) = (rows.start, rows.len());
    let mut parts = Components::new(n)?;
    let mut pairs: Vec<Pair> = vec![];
    let mut looks = 0_usize;
    for i in 0..n {
        let reach = drawn.reach(first + i, radius);
        for j in i + 1..n {
            looks += 1;
            if looks.is_multiple_of(BLOCK) {
                control.check()?;
            }
            if drawn.at(first + j)[0] > reach {
                break;
            }
            let alike = drawn.alike(first + i, first + j, radius);
            if alike >= least {
                parts.join(i as u32, j as u32);
            }
            if drawn.dims == 4 && alike > 0.0 {
                push(&mut pairs, (i as u32, j as u32, alike))?;
            }
        }
    }
    if drawn.dims == 2 {
        pairs = chained_points(drawn, first, n, radius, &mut parts, control)?;
    } else {
        // Boxes that not even a chain connects are never joined.
        pairs.retain(|(i, j, _)| parts.root(*i) == parts.root(*j));
    }
    Linkage::new(&drawn.workers[rows], least, &pairs, control)?.run(control)
}

/// Two boxes and how alike they are.
type Pair = (u32, u32, f64);

/// All pairs of points that a chain of near ones connects.
fn chained_points(
    drawn: &Drawn<'_>,
    first: usize,
    n: usize,
    radius: f64,
    parts: &mut Components,
    control: &Control,
) -> Result<Vec<Pair>> {
    let mut members: Vec<Vec<u32>> = vec![];
    let mut place = filled(u32::MAX, n)?;
    for i in 0..n as u32 {
        let root = parts.root(i) as usize;
        if place[root] == u32::MAX {
            place[root] = members.len() as u32;
            push(&mut members, vec![])?;
        }
        push(&mut members[place[root] as usize], i)?;
    }
    let mut pairs = vec![];
    for part in members {
        for (at, &i) in part.iter().enumerate() {
            control.check()?;
            for &j in &part[at + 1..] {
                push(&mut pairs, (i, j, drawn.alike(first + i as usize, first + j as usize, radius)))?;
            }
        }
    }
    Ok(pairs)
}

/// Two groups that may be joined; the most alike, then the first, is the greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Join {
    mean: f64,
    first: u32,
    second: u32,
}

impl Eq for Join {}

impl Ord for Join {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.mean.total_cmp(&other.mean);
        order.then(other.first.cmp(&self.first)).then(other.second.cmp(&self.second))
    }
}

impl PartialOrd for Join {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Average linkage of groups that share no worker. A group goes by its first box.
struct Linkage {
    least: f64,
    group: Vec<u32>,
    size: Vec<u32>,
    /// Workers of each group, in order; none for what has been joined to another.
    workers: Vec<Vec<u32>>,
    /// Groups that are at all alike to each, in order, with the sum over their boxes; entries of those joined away
    /// linger.
    near: Vec<Vec<(u32, f64)>>,
    /// Joins, some of them out of date.
    heap: BinaryHeap<Join>,
}

impl Linkage {
    fn new(workers: &[u32], least: f64, pairs: &[Pair], control: &Control) -> Result<Self> {
        let n = workers.len();
        let mut near = with_room(n)?;
        near.resize_with(n, Vec::new);
        for block in pairs.chunks(BLOCK) {
            control.check()?;
            for &(i, j, alike) in block {
                push(&mut near[i as usize], (j, alike))?;
                push(&mut near[j as usize], (i, alike))?;
            }
        }
        for list in &mut near {
            control.check()?;
            let list: &mut Vec<(u32, f64)> = list;
            list.sort_unstable_by_key(|pair| pair.0);
        }
        let mut linkage = Self {
            least: least - SLACK,
            group: collected((0..n).map(|i| i as u32))?,
            size: filled(1, n)?,
            workers: collected(workers.iter().map(|&worker| vec![worker]))?,
            near,
            heap: BinaryHeap::new(),
        };
        for block in pairs.chunks(BLOCK) {
            control.check()?;
            block.iter().try_for_each(|&(i, j, alike)| linkage.list(i, j, alike))?;
        }
        Ok(linkage)
    }

    /// Lists two groups if they are alike enough.
    fn list(&mut self, a: u32, b: u32, sum: f64) -> Result<()> {
        let mean = self.mean(a, b, sum);
        if mean >= self.least {
            self.heap.try_reserve(1).map_err(|_| Error::OutOfMemory(size_of::<Join>()))?;
            self.heap.push(Join { mean, first: a.min(b), second: a.max(b) });
        }
        Ok(())
    }

    fn mean(&self, a: u32, b: u32, sum: f64) -> f64 {
        sum / (f64::from(self.size[a as usize]) * f64::from(self.size[b as usize]))
    }

    fn run(mut self, control: &Control) -> Result<Vec<u32>> {
        let mut steps = 0_usize;
        while let Some(join) = self.heap.pop() {
            steps += 1;
            if steps.is_multiple_of(BLOCK >> 8) {
                control.check()?;
            }
            if self.holds(&join) {
                // A join goes through all groups that are at all alike.
                control.check()?;
                self.join(join.first, join.second)?;
            }
        }
        self.numbered()
    }

    /// Whether a listed join is of groups as they are, and of different workers.
    fn holds(&self, join: &Join) -> bool {
        let (a, b) = (join.first as usize, join.second as usize);
        let alive = !self.workers[a].is_empty() && !self.workers[b].is_empty();
        let sum = |list: &[(u32, f64)]| list.binary_search_by_key(&join.second, |pair| pair.0).map(|at| list[at].1);
        let as_is = || sum(&self.near[a]).is_ok_and(|sum| self.mean(join.first, join.second, sum) == join.mean);
        alive && as_is() && disjoint(&self.workers[a], &self.workers[b])
    }

    /// Makes the second group part of the first.
    fn join(&mut self, a: u32, b: u32) -> Result<()> {
        let theirs = std::mem::take(&mut self.workers[b as usize]);
        let workers = &mut self.workers[a as usize];
        theirs.into_iter().try_for_each(|worker| push(workers, worker))?;
        workers.sort_unstable();
        self.size[a as usize] += self.size[b as usize];
        self.group[b as usize] = a;
        let (mine, others) = (std::mem::take(&mut self.near[a as usize]), std::mem::take(&mut self.near[b as usize]));
        let mut both = with_room(mine.len() + others.len())?;
        added(&mine, &others, &mut both);
        both.retain(|(c, _)| *c != a && *c != b && !self.workers[*c as usize].is_empty());
        for &(c, sum) in &both {
            let list = &mut self.near[c as usize];
            match list.binary_search_by_key(&a, |pair| pair.0) {
                Ok(at) => list[at].1 = sum,
                Err(at) => {
                    crate::base::memory::grow(list, 1)?;
                    list.insert(at, (a, sum));
                }
            }
            if disjoint(&self.workers[a as usize], &self.workers[c as usize]) {
                self.list(a, c, sum)?;
            }
        }
        self.near[a as usize] = both;
        Ok(())
    }

    /// Numbers groups by their first boxes.
    fn numbered(self) -> Result<Vec<u32>> {
        let mut numbers = zeros(self.group.len())?;
        let mut n = 0;
        for i in 0..self.group.len() {
            // A group was joined to one that comes before it, which has its number already.
            let to = self.group[i] as usize;
            numbers[i] = if to == i { n } else { numbers[to] };
            n += u32::from(to == i);
        }
        Ok(numbers)
    }
}

/// Whether two ascending lists have nothing in common.
fn disjoint(a: &[u32], b: &[u32]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => return false,
        }
    }
    true
}

/// Sums of two ascending lists, by key.
fn added(a: &[(u32, f64)], b: &[(u32, f64)], out: &mut Vec<(u32, f64)>) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let order = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.0.cmp(&y.0),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        match order {
            Ordering::Less => out.push(a[i]),
            Ordering::Greater => out.push(b[j]),
            Ordering::Equal => out.push((a[i].0, a[i].1 + b[j].1)),
        }
        i += usize::from(order != Ordering::Greater);
        j += usize::from(order != Ordering::Less);
    }
}

/// For each point the distances to the nearest of another worker in its task, and to the nearest of the same; infinite
/// where there is none.
///
/// Time grows with how many points are as near along the first axis as the nearest; memory O(points).
pub fn nearest_points(points: &Drawn<'_>, control: &Control) -> Result<(Vec<f64>, Vec<f64>)> {
    points.check()?;
    if points.dims != 2 {
        return Err(Error::invalid("points have two numbers each"));
    }
    let (mut others, mut own) =
        (filled(f64::INFINITY, points.workers.len())?, filled(f64::INFINITY, points.workers.len())?);
    let mut looks = 0_usize;
    for task in 0..points.tasks.len() {
        let rows = points.tasks.rows(task);
        for i in rows.clone() {
            let here = points.at(i);
            let mut look = |j: usize| {
                looks += 1;
                if looks.is_multiple_of(BLOCK) {
                    control.check()?;
                }
                let there = points.at(j);
                let across = (there[0] - here[0]).abs();
                if across > others[i] && across > own[i] {
                    return Ok(false);
                }
                let nearest = if points.workers[i] == points.workers[j] { &mut own[i] } else { &mut others[i] };
                *nearest = nearest.min(across.hypot(there[1] - here[1]));
                Ok::<bool, Error>(true)
            };
            for j in i + 1..rows.end {
                if !look(j)? {
                    break;
                }
            }
            for j in (rows.start..i).rev() {
                if !look(j)? {
                    break;
                }
            }
        }
    }
    Ok((others, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(workers: &[u32], numbers: &[f64], least: f64, radius: f64) -> Vec<u32> {
        let tasks = [0, workers.len() as u32];
        let dims = numbers.len() / workers.len();
        let input = Drawn { tasks: Tasks(&tasks), workers, numbers, dims };
        match_boxes(&input, least, radius, &Control::default()).unwrap()
    }

    #[test]
    fn boxes_that_overlap_most_are_joined_first() {
        let boxes = [0.0, 0.0, 4.0, 4.0, 0.5, 0.0, 4.5, 4.0, 0.6, 0.0, 4.6, 4.0, 9.0, 9.0, 10.0, 10.0];
        assert_eq!(grouped(&[0, 1, 2, 0], &boxes, 0.4, 0.0), [0, 0, 0, 1]);
        // The second and third are nearest; the first, of the same worker as the third, stays alone.
        assert_eq!(grouped(&[0, 1, 0, 1], &boxes, 0.4, 0.0), [0, 1, 1, 2]);
        assert_eq!(grouped(&[0, 0, 0, 0], &boxes, 0.4, 0.0), [0, 1, 2, 3]);
    }

    #[test]
    fn points_are_joined_within_the_radius() {
        let points = [0.0, 0.0, 1.0, 0.0, 5.0, 0.0, 6.0, 0.0];
        assert_eq!(grouped(&[0, 1, 0, 1], &points, 0.4, 1.0), [0, 0, 1, 1]);
        assert_eq!(grouped(&[0, 1, 0, 1], &points, 0.4, 0.9), [0, 1, 2, 3]);
        assert_eq!(grouped(&[0, 1], &[2.0, 2.0, 2.0, 2.0], 0.4, 0.0), [0, 0]);
        let tasks = [0, 4];
        let input = Drawn { tasks: Tasks(&tasks), workers: &[0, 1, 0, 1], numbers: &points, dims: 2 };
        let (others, own) = nearest_points(&input, &Control::default()).unwrap();
        assert_eq!((others, own), (vec![1.0; 4], vec![5.0; 4]));
    }

    #[test]
    fn what_is_no_list_of_boxes_is_refused() {
        let good = [0.0, 0.0, 1.0, 1.0, 2.0, 0.0, 3.0, 1.0];
        let attempt = |tasks: &[u32], workers: &[u32], numbers: &[f64], dims, least| {
            let input = Drawn { tasks: Tasks(tasks), workers, numbers, dims };
            match_boxes(&input, least, 0.0, &Control::default()).is_ok()
        };
        assert!(attempt(&[0, 2], &[0, 1], &good, 4, 0.5));
        assert!(!attempt(&[0, 1], &[0, 1], &good, 4, 0.5));
        assert!(!attempt(&[0, 2], &[0, 1], &good, 3, 0.5));
        assert!(!attempt(&[0, 2], &[0, 1], &good, 4, 0.0));
        assert!(!attempt(&[0, 2], &[0, 1], &good, 4, f64::NAN));
        assert!(!attempt(&[0, 2], &[0, 1], &[2.0, 0.0, 3.0, 1.0, 0.0, 0.0, 1.0, 1.0], 4, 0.5));
        assert!(!attempt(&[0, 1], &[0], &[0.0, 0.0, 0.0, 1.0], 4, 0.5));
        assert!(!attempt(&[0, 1], &[0], &[0.0, f64::NAN, 2.0, 1.0], 4, 0.5));
    }
}
