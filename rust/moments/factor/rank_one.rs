//! Rank-one fits to what pairs of workers have in common.
//!
//! Workers of skill `x` give a symmetric matrix `C` with `C[i, j] ≈ x[i] x[j]` off the diagonal. The diagonal has no
//! information and is missing, and so are all pairs that share no task: `C` comes as a list of pairs, with a weight
//! each, and only the pairs are ever visited. The sign of `x` is open, in each connected component of the graph of
//! pairs: the caller settles it.
//!
//! * [`spectral`]: the weighted least-squares fit within [-1, 1], by damped alternating least squares;
//! * [`ratio`]: the ratio of two leading eigenvectors (Dalvi and others 2013);
//! * [`gradient`]: the same least squares, by projected gradient (Ma and others 2018);
//! * [`msr`]: means of what is left when each worker's most extreme neighbors are set aside (Ma and Olshevsky 2020).
//!
//! Each is O(pairs) time an iteration and 24 bytes per pair's end. One job per worker, which reads all others' numbers
//! and writes its own: no answer depends on the threads.
//!
//! Where two ways to set signs explain the pairs alike, iterations stand on a fence, off which growing rounding would
//! push them. Sums are such as do not depend on the order of workers ([`Sum`]): they stay there, in any order.

use rayon::prelude::*;

use super::Adjacency;
use crate::base::control::Control;
use crate::base::course::Course;
use crate::base::memory::{collected, filled, par_tried, push, with_room, zeros};
use crate::base::num::Sum;
use crate::{Error, Result};

/// Workers that one job handles at least.
const WORKERS: usize = 16;
/// A step is taken if the objective rises by no more than this, which is rounding.
const SLACK: f64 = 1e-14;
/// How often a step is halved before the point counts as a minimum.
const HALVINGS: usize = 40;
/// Skills squared count as at least this where a step is divided by them: steps stay bounded where all skills vanish.
const LEAST_SQUARE: f64 = 0.01;
/// The first guess of a skill squared is at least this.
const LEAST_START: f64 = 0.01;
/// [`msr`] keeps skills above this: it divides by them.
const LEAST_SKILL: f64 = 1e-3;
/// Ratios this close (relatively) to a worker's own value are neither above nor below it.
const SAME: f64 = 1e-12;
/// [`msr`] halves its steps when this many of them have brought values no closer to where they want to go.
const PATIENCE: usize = 20;
/// What pulls both ways alike leaves no more than this of a worker's side, and that is rounding.
const BALANCED: f64 = 1e-9;
/// Most iterations that settle the signs in [`msr`].
const SIGN_STEPS: usize = 200;

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Most iterations.
    pub max_iter: usize,
    /// Stop when no number moves by more than this; 0 for all iterations.
    pub tol: f64,
}

/// A rank-one fit.
#[derive(Debug, Clone)]
pub struct Fit {
    /// One number per worker; 0 where the pairs carry no information.
    pub vector: Vec<f64>,
    /// The objective after each iteration, where there is one; for [`msr`] how far `x xᵀ` moved (Frobenius norm).
    pub history: Vec<f64>,
    /// Iterations made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

impl Fit {
    fn of(vector: Vec<f64>, course: Course) -> Self {
        let Course { history, n_iter, converged, .. } = course;
        Self { vector, history, n_iter, converged }
    }
}

/// The pairs of each worker with their values, ready to be summed over.
#[derive(Debug, Clone)]
pub struct Links {
    offsets: Vec<usize>,
    ends: Vec<End>,
    /// Weight of each worker's pairs.
    degrees: Vec<f64>,
    total: f64,
}

#[derive(Debug, Clone, Copy)]
struct End {
    partner: u32,
    value: f64,
    weight: f64,
}

impl Links {
    /// Lists `pairs`, a flat list of (first, second), at both ends. Pairs of weight 0 are left out.
    pub fn new(n_workers: usize, pairs: &[u32], values: &[f64], weights: &[f64]) -> Result<Self> {
        let graph = Adjacency::new(n_workers, pairs)?;
        let n_pairs = pairs.len() / 2;
        if values.len() != n_pairs || weights.len() != n_pairs {
            return Err(Error::invalid(format!(
                "{} values and {} weights for {n_pairs} pairs of workers",
                values.len(),
                weights.len()
            )));
        }
        if let Some(bad) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::invalid(format!("the value {} of pair {bad} is not finite", values[bad])));
        }
        if let Some(bad) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(Error::invalid(format!(
                "the weight {} of pair {bad} is not a finite number >= 0",
                weights[bad]
            )));
        }
        let mut ends = with_room(pairs.len())?;
        let mut offsets = with_room(n_workers + 1)?;
        let mut degrees = with_room(n_workers)?;
        offsets.push(0);
        for worker in 0..n_workers {
            let mut degree = Sum::default();
            for link in graph.of(worker) {
                let pair = link.pair as usize;
                if weights[pair] > 0.0 {
                    ends.push(End { partner: link.partner, value: values[pair], weight: weights[pair] });
                    degree.add(weights[pair]);
                }
            }
            offsets.push(ends.len());
            degrees.push(degree.value());
        }
        let total = Sum::of(degrees.iter().copied());
        Ok(Self { offsets, ends, degrees, total })
    }

    fn len(&self) -> usize {
        self.degrees.len()
    }

    fn of(&self, worker: usize) -> &[End] {
        &self.ends[self.offsets[worker]..self.offsets[worker + 1]]
    }

    /// One number of each worker, in parallel.
    fn each<T: Send>(&self, control: &Control, one: impl Fn(usize, &[End]) -> T + Sync) -> Result<Vec<T>> {
        self.try_each(control, |worker, ends| Ok(one(worker, ends)))
    }

    fn try_each<T: Send>(&self, control: &Control, one: impl Fn(usize, &[End]) -> Result<T> + Sync) -> Result<Vec<T>> {
        par_tried((0..self.len()).into_par_iter().with_min_len(WORKERS).map(|worker| {
            control.check()?;
            one(worker, self.of(worker))
        }))
    }

    /// The skill that all workers would have if they were alike; 0 for those without a pair.
    fn start(&self, magnitude_only: bool) -> Result<Vec<f64>> {
        let of = |value: f64| if magnitude_only { value.abs() } else { value };
        let agreement = Sum::of(self.ends.iter().map(|end| end.weight * of(end.value)));
        let mean = if self.total > 0.0 { agreement / self.total } else { 0.0 };
        let skill = mean.clamp(LEAST_START, 1.0).sqrt();
        collected(self.degrees.iter().map(|&degree| if degree > 0.0 { skill } else { 0.0 }))
    }
}

/// The objective at a point, and what the next step is made of.
struct Point {
    /// Weighted mean of squared residuals.
    objective: f64,
    /// Σⱼ wᵢⱼ (Cᵢⱼ − xᵢxⱼ) xⱼ: against the gradient.
    pulls: Vec<f64>,
    /// Σⱼ wᵢⱼ xⱼ²: the second derivative.
    bends: Vec<f64>,
    /// Σⱼ wᵢⱼ (xⱼ² + |2xᵢxⱼ − Cᵢⱼ|): bounds a row of the second derivatives.
    rows: Vec<f64>,
}

fn evaluate(links: &Links, x: &[f64], control: &Control) -> Result<Point> {
    let sums = links.each(control, |worker, ends| {
        let own = x[worker];
        let mut sums = [Sum::default(); 4];
        for end in ends {
            let other = x[end.partner as usize];
            let residual = end.value - own * other;
            sums[0].add(end.weight * residual * residual);
            sums[1].add(end.weight * residual * other);
            sums[2].add(end.weight * other * other);
            sums[3].add(end.weight * (other * other + (residual - own * other).abs()));
        }
        sums.map(Sum::value)
    })?;
    let squares = Sum::of(sums.iter().map(|s| s[0]));
    let part = |i: usize| collected(sums.iter().map(|s| s[i]));
    Ok(Point {
        objective: if links.total > 0.0 { squares / links.total } else { 0.0 },
        pulls: part(1)?,
        bends: part(2)?,
        rows: part(3)?,
    })
}

/// Goes downhill from the start, within [-1, 1], each time along `step`, halved until the objective does not rise.
fn descend(
    links: &Links,
    options: &Options,
    control: &Control,
    step: impl Fn(&Point) -> Result<Vec<f64>>,
) -> Result<Fit> {
    let mut x = links.start(false)?;
    let mut here = evaluate(links, &x, control)?;
    let mut course = Course::default();
    while course.running(options.max_iter) {
        let direction = step(&here)?;
        let mut size = 1.0;
        let mut accepted = None;
        for _ in 0..HALVINGS {
            let shifted = x.iter().zip(&direction).map(|(x, d)| (x + size * d).clamp(-1.0, 1.0));
            let trial: Vec<f64> = collected(shifted)?;
            let there = evaluate(links, &trial, control)?;
            if there.objective <= here.objective + SLACK {
                accepted = Some((trial, there));
                break;
            }
            size /= 2.0;
        }
        if let Some((trial, there)) = accepted {
            let change = largest_change(&x, &trial);
            course.converged = options.tol > 0.0 && change <= options.tol;
            (x, here) = (trial, there);
        } else {
            course.converged = true;
        }
        course.record(-here.objective, control);
    }
    Ok(Fit::of(x, course))
}

fn largest_change(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// The weighted least-squares fit `Σ w (C − x xᵀ)²` with every number in [-1, 1], by alternating least squares, all
/// workers at once.
///
/// With every pair seen and equal weights this is the leading eigenvector of `C`, its missing diagonal filled in by the
/// fit. A worker's least-squares value given the others is `Σⱼ wᵢⱼ Cᵢⱼ xⱼ / Σⱼ wᵢⱼ xⱼ²`; going half way there, or less
/// where that would raise the objective, keeps the scale from swinging to and fro.
pub fn spectral(links: &Links, options: &Options, control: &Control) -> Result<Fit> {
    descend(links, options, control, |here| {
        let sums = here.pulls.iter().zip(&here.bends).zip(&links.degrees);
        collected(sums.map(|((pull, bend), degree)| 0.5 * divide(*pull, bend.max(LEAST_SQUARE * degree))))
    })
}

/// The same fit as [`spectral`], by projected gradient in the metric of the workers' weights.
///
/// The step is one over a bound on the second derivatives, halved where that would raise the objective.
pub fn gradient(links: &Links, options: &Options, control: &Control) -> Result<Fit> {
    descend(links, options, control, |here| {
        let rows = here.rows.iter().zip(&links.degrees);
        let steepest = rows.map(|(row, degree)| divide(*row, *degree)).fold(LEAST_SQUARE, f64::max);
        let pulls = here.pulls.iter().zip(&links.degrees);
        collected(pulls.map(|(pull, degree)| divide(*pull, *degree) / steepest))
    })
}

fn divide(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// The ratio of the leading eigenvectors of the agreement values, `w C`, and of the weights, `w`.
///
/// Pairs that share no task count as 0 in both, as they do in the paper, and diagonals are filled in by the rank-one
/// fits. Each connected component has eigenvectors of its own.
pub fn ratio(links: &Links, components: &[u32], options: &Options, control: &Control) -> Result<Fit> {
    if components.len() != links.len() {
        return Err(Error::invalid(format!("{} component numbers for {} workers", components.len(), links.len())));
    }
    let agreement = leading(links, components, |end| end.weight * end.value, options, control)?;
    let weight = leading(links, components, |end| end.weight, options, control)?;
    let vector = agreement.scaled.iter().zip(&weight.scaled).map(|(a, n)| if *n > 1e-9 { a / n } else { 0.0 });
    Ok(Fit {
        vector: collected(vector)?,
        history: Vec::new(),
        n_iter: agreement.n_iter.max(weight.n_iter),
        converged: agreement.converged && weight.converged,
    })
}

struct Leading {
    /// The eigenvector times the root of its value.
    scaled: Vec<f64>,
    n_iter: usize,
    converged: bool,
}

/// The leading eigenvector of each component by power iteration.
///
/// The matrix is shifted by half its largest row sum, which makes the algebraically largest eigenvalue the dominant
/// one.
fn leading(
    links: &Links,
    components: &[u32],
    entry: impl Fn(&End) -> f64 + Sync,
    options: &Options,
    control: &Control,
) -> Result<Leading> {
    let n = links.len();
    let n_components = components.iter().max().map_or(0, |c| *c as usize + 1);
    let of = |worker: usize| components[worker] as usize;
    let reach = links.each(control, |_, ends| Sum::of(ends.iter().map(|end| entry(end).abs())))?;
    let mut shift = zeros::<f64>(n_components)?;
    (0..n).for_each(|i| shift[of(i)] = shift[of(i)].max(reach[i] / 2.0));
    let mut x: Vec<f64> = collected(reach.iter().map(|&r| f64::from(u8::from(r > 0.0))))?;
    unit(&mut x, components, n_components)?;
    let mut values = zeros(n_components)?;
    let mut result = Leading { scaled: Vec::new(), n_iter: 0, converged: false };
    while result.n_iter < options.max_iter && !result.converged {
        let mut next = links.each(control, |i, ends| {
            let product = Sum::of(ends.iter().map(|end| entry(end) * x[end.partner as usize]));
            product + (f64::max(values[of(i)], 0.0) * x[i] * x[i] + shift[of(i)]) * x[i]
        })?;
        let products = (0..n).map(|i| x[i] * (next[i] - shift[of(i)] * x[i]));
        let before = std::mem::replace(&mut values, by_component(products, components, n_components)?);
        unit(&mut next, components, n_components)?;
        result.n_iter += 1;
        // The value feeds the diagonal, which can still be on its way when the vector stands.
        let converged = values.iter().zip(&before).all(|(a, b)| (a - b).abs() <= options.tol * a.abs());
        result.converged = options.tol > 0.0 && converged && largest_change(&x, &next) <= options.tol;
        x = next;
        control.report(result.n_iter, f64::NAN);
    }
    result.scaled = collected((0..n).map(|i| x[i] * values[of(i)].max(0.0).sqrt()))?;
    Ok(result)
}

/// Sums over each component's workers.
fn by_component(terms: impl Iterator<Item = f64>, components: &[u32], n_components: usize) -> Result<Vec<f64>> {
    let mut sums = filled(Sum::default(), n_components)?;
    terms.zip(components).for_each(|(term, &c)| sums[c as usize].add(term));
    collected(sums.into_iter().map(Sum::value))
}

/// Gives each component's part unit length; a part of zeros stays.
fn unit(x: &mut [f64], components: &[u32], n_components: usize) -> Result<()> {
    let squares = by_component(x.iter().map(|x| x * x), components, n_components)?;
    x.iter_mut().zip(components).for_each(|(x, &c)| *x = divide(*x, squares[c as usize].sqrt()));
    Ok(())
}

/// Skills from means of `C / x` over each worker's neighbors, less those furthest from the worker's own value.
///
/// Signs are settled first, by a leading eigenvector of `w C` with its rows normalized, and taken out of `C`. Then, of
/// the ratios of worker `i`, the `trim[i]` largest of those above the worker's present value and the `trim[i]` smallest
/// of those below it are set aside; the worker moves half way to the mean of the rest, or stays where none is left. So
/// `trim[i]` neighbors can say what they like without taking the value outside the range of what the others say. Ratios
/// count by `w x²`, the inverse of their variance, and skills are kept to 1. Steps are halved when [`PATIENCE`] of them
/// have led no further, because values can circle around the point where a neighbor is let in again.
pub fn msr(links: &Links, trim: &[u32], options: &Options, control: &Control) -> Result<Fit> {
    if trim.len() != links.len() {
        return Err(Error::invalid(format!("{} numbers to trim for {} workers", trim.len(), links.len())));
    }
    let mut x = links.start(true)?;
    let sides = signs(links, &x, control)?;
    let mut course = Course::default();
    let (mut step, mut closest, mut idle) = (0.5, f64::INFINITY, 0);
    while course.running(options.max_iter) {
        let next = links.try_each(control, |worker, ends| {
            let ratio = |end: &End| {
                let partner = end.partner as usize;
                let other = x[partner];
                // Zero has a sign, which would order ties: adding zero takes it away.
                (end.value * sides[worker] * sides[partner] / other + 0.0, end.weight * other * other)
            };
            let mut ratios: Vec<(f64, f64)> = collected(ends.iter().map(ratio))?;
            let own = x[worker];
            Ok(match reduced_mean(&mut ratios, own, trim[worker] as usize) {
                Some(mean) => (own + step * (mean - own)).clamp(LEAST_SKILL, 1.0),
                None => own,
            })
        })?;
        let change = largest_change(&x, &next);
        course.converged = options.tol > 0.0 && change <= options.tol;
        if change / step < closest * (1.0 - 1e-3) {
            (closest, idle) = (change / step, 0);
        } else {
            idle += 1;
        }
        if idle == PATIENCE {
            (step, idle) = (step / 2.0, 0);
        }
        course.record(distance(&x, &next), control);
        x = next;
    }
    Ok(Fit::of(collected(x.iter().zip(sides).map(|(x, side)| x * side))?, course))
}

/// The weighted mean of what is left of (value, weight) without the `trim` furthest on either side of `own`.
///
/// Selection, not sorting: linear time.
fn reduced_mean(values: &mut [(f64, f64)], own: f64, trim: usize) -> Option<f64> {
    let order = |a: &(f64, f64), b: &(f64, f64)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
    let below = values.iter().filter(|v| v.0 < own - own.abs() * SAME).count().min(trim);
    let above = values.iter().filter(|v| v.0 > own + own.abs() * SAME).count().min(trim);
    let mut left = values;
    if below > 0 {
        left.select_nth_unstable_by(below - 1, order);
        left = &mut left[below..];
    }
    if above > 0 {
        let end = left.len() - above;
        left.select_nth_unstable_by(end, order);
        left = &mut left[..end];
    }
    let weight = Sum::of(left.iter().map(|v| v.1));
    (weight > 0.0).then(|| Sum::of(left.iter().map(|v| v.0 * v.1)) / weight)
}

/// The Frobenius norm of `x xᵀ − y yᵀ`.
fn distance(x: &[f64], y: &[f64]) -> f64 {
    // (x xᵀ − y yᵀ) = ½ (d sᵀ + s dᵀ) with s = x + y and d = x − y: no difference of large numbers.
    let (mut ss, mut dd, mut sd) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (s, d) = (x + y, x - y);
        ss += s * s;
        dd += d * d;
        sd += s * d;
    }
    (0.5 * (ss * dd + sd * sd)).sqrt()
}

/// One of ±1 for each worker, such that the signs of `C` are explained best; up to one sign in each component.
fn signs(links: &Links, x: &[f64], control: &Control) -> Result<Vec<f64>> {
    let pull = |end: &End| end.weight * end.value * x[end.partner as usize];
    let reach = links.each(control, |_, ends| Sum::of(ends.iter().map(|end| pull(end).abs())))?;
    let mut sides: Vec<f64> = filled(1.0, links.len())?;
    for _ in 0..SIGN_STEPS {
        let mut next = links.each(control, |worker, ends| {
            let product = Sum::of(ends.iter().map(|end| pull(end) * sides[end.partner as usize]));
            let side = 0.5 * (sides[worker] + divide(product, reach[worker]));
            if side.abs() < BALANCED { 0.0 } else { side }
        })?;
        let largest = next.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
        if largest == 0.0 {
            break;
        }
        next.iter_mut().for_each(|side| *side /= largest);
        let change = largest_change(&sides, &next);
        sides = next;
        if change <= BALANCED {
            break;
        }
    }
    collected(sides.iter().map(|&side| if side < 0.0 { -1.0 } else { 1.0 }))
}

/// The graph of the pairs: each worker's component (numbered by lowest member), and whether it has a cycle of odd
/// length.
///
/// Without one the workers fall into two sides of which no worker is paired with their own, and only products of a
/// skill from either are determined.
pub fn graph(n_workers: usize, pairs: &[u32], control: &Control) -> Result<(Vec<u32>, Vec<bool>)> {
    let graph = Adjacency::new(n_workers, pairs)?;
    let mut component = filled(u32::MAX, n_workers)?;
    let mut side = zeros::<bool>(n_workers)?;
    let mut odd = Vec::new();
    let mut open = Vec::new();
    for first in 0..n_workers {
        if component[first] != u32::MAX {
            continue;
        }
        control.check()?;
        let number = odd.len() as u32;
        push(&mut odd, false)?;
        component[first] = number;
        push(&mut open, first)?;
        while let Some(worker) = open.pop() {
            for link in graph.of(worker) {
                let partner = link.partner as usize;
                if component[partner] == u32::MAX {
                    component[partner] = number;
                    side[partner] = !side[worker];
                    push(&mut open, partner)?;
                } else if side[partner] == side[worker] {
                    odd[number as usize] = true;
                }
            }
        }
    }
    let odd = collected(component.iter().map(|&c| odd[c as usize]))?;
    Ok((component, odd))
}

#[cfg(test)]
mod tests;
