//! The dual of the projection onto bounds for the options' shares: one unknown for each option, however many rows.
//!
//! With rows `q` of weight `w` (Σ w = 1), the projection tilts each by the same factors exp(t), where t minimizes
//!
//! > F(t) = Σ w ln Σ q exp(t) + Σ g(t),   g(t) = −lower · t where t ≥ 0, −upper · t where t ≤ 0
//!
//! (Nguyen et al. 2025, Eq. 9, whose two multipliers of an option are the two signs of t). F is convex; its smooth part
//! has the shares as gradient, so that at the minimum a share is at its lower bound where t > 0, at its upper bound
//! where t < 0, and between them where t = 0.

use super::named;
use super::rows::Sums;
use crate::{Error, Result};

/// Shares closer to their bounds than this are as good as arithmetic allows.
const TOLERANCE: f64 = 1e-11;

/// Bounds that miss feasibility by no more than this are taken for rounded ones and fixed.
const SLACK: f64 = 1e-9;

/// Bounds closer than this are taken for equal, and an upper bound below it for zero.
const EQUAL: f64 = 1e-12;

/// Passes over the rows before Newton's method and the gradient method give up.
const NEWTON_PASSES: usize = 200;
const GRADIENT_PASSES: usize = 20_000;

/// How the dual is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Newton's method on the options whose bounds bind, within a region that is trusted.
    Newton,
    /// Accelerated proximal gradients.
    Gradient,
}

/// Bounds that some shares satisfy, each as tight as the others make it.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    lower: Vec<f64>,
    upper: Vec<f64>,
    /// The bounds as they were asked for.
    asked: [Vec<f64>; 2],
}

impl Bounds {
    /// Checks the bounds and tightens them: what the others need at least, or can take at most, bounds an option too.
    pub fn new(lower: &[f64], upper: &[f64]) -> Result<Self> {
        if lower.is_empty() || lower.len() != upper.len() {
            return Err(Error::invalid(format!("there are {} lower and {} upper bounds", lower.len(), upper.len())));
        }
        for (k, (l, u)) in lower.iter().zip(upper).enumerate() {
            if !(0.0..=1.0).contains(l) || !(0.0..=1.0).contains(u) {
                return Err(Error::invalid(format!("the bounds of option {k} are {l} and {u}; shares lie in [0, 1]")));
            }
            if l > u {
                return Err(Error::invalid(format!("option {k} has the lower bound {l} above its upper bound {u}")));
            }
        }
        let (least, most): (f64, f64) = (lower.iter().sum(), upper.iter().sum());
        if least > 1.0 + SLACK {
            return Err(Error::invalid(format!("lower bounds sum to {least}: more than all the work; lower some")));
        }
        if most < 1.0 - SLACK {
            return Err(Error::invalid(format!("upper bounds sum to {most}: less than all the work; raise some")));
        }
        // Bounds that were equal stay so: both are scaled by the same number.
        let scale = if least > 1.0 { least } else { most.min(1.0) };
        let (least, most) = (least / scale, most / scale);
        let mut tight = Self { lower: vec![], upper: vec![], asked: [lower.to_vec(), upper.to_vec()] };
        for (l, u) in lower.iter().zip(upper).map(|(l, u)| (l / scale, u / scale)) {
            let low = l.max(1.0 - (most - u)).min(u);
            let high = u.min(1.0 - (least - l)).max(low);
            let high = if high - low <= EQUAL { low } else { high };
            tight.lower.push(if high <= EQUAL { 0.0 } else { low });
            tight.upper.push(if high <= EQUAL { 0.0 } else { high });
        }
        Ok(tight)
    }

    /// Where to start: no tilt, but options that may have no share are shut.
    pub fn start(&self) -> Vec<f64> {
        self.upper.iter().map(|&u| if u == 0.0 { f64::NEG_INFINITY } else { 0.0 }).collect()
    }

    fn len(&self) -> usize {
        self.lower.len()
    }

    fn fixed(&self, k: usize) -> bool {
        self.lower[k] == self.upper[k]
    }

    /// Σ g(t).
    fn penalty(&self, tilt: &[f64]) -> f64 {
        let of = |(k, &t): (usize, &f64)| if t == 0.0 || self.upper[k] == 0.0 { 0.0 } else { -self.bound(k, t) * t };
        tilt.iter().enumerate().map(of).sum()
    }

    /// The bound that an option with this tilt must meet.
    fn bound(&self, k: usize, tilt: f64) -> f64 {
        if tilt > 0.0 { self.lower[k] } else { self.upper[k] }
    }

    /// How far a share is from what its tilt implies; negative below, positive above.
    fn miss(&self, k: usize, tilt: f64, share: f64) -> f64 {
        if tilt == 0.0 { share - share.clamp(self.lower[k], self.upper[k]) } else { share - self.bound(k, tilt) }
    }
}

/// Adds the same number to all tilts, which changes no row: the one that minimizes F, or none if it is minimal.
fn centre(tilt: &mut [f64], lower: &[f64], upper: &[f64]) {
    let slope = |c: f64, side: f64| -> f64 {
        let of = |((t, l), u): ((&f64, &f64), &f64)| match if t + c == 0.0 { side } else { t + c } {
            f64::NEG_INFINITY => 0.0,
            t if t > 0.0 => *l,
            _ => *u,
        };
        1.0 - tilt.iter().zip(lower).zip(upper).map(of).sum::<f64>()
    };
    let (before, after) = (slope(0.0, -1.0), slope(0.0, 1.0));
    if before <= EQUAL && after >= -EQUAL {
        return;
    }
    let mut breaks: Vec<f64> = tilt.iter().filter(|t| t.is_finite()).map(|t| -t).collect();
    breaks.retain(|c| if after < 0.0 { *c > 0.0 } else { *c < 0.0 });
    breaks.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let reached = |c: &f64| if after < 0.0 { slope(*c, 1.0) >= -EQUAL } else { slope(*c, -1.0) <= EQUAL };
    if let Some(c) = breaks.iter().find(|c| reached(c)).or(breaks.last()).copied() {
        tilt.iter_mut().for_each(|t| *t += c);
    }
}

/// The rows, as the dual sees them.
pub trait Evaluate {
    /// Sums over the rows tilted by `exp(tilt)`; with second moments if asked for.
    fn sums(&mut self, tilt: &[f64], second: bool) -> Result<Sums>;

    /// Weight of the rows whose first option with a positive probability, in the order given, is the one at each place.
    fn reach(&mut self, order: &[u32]) -> Result<Vec<f64>>;
}

/// A solution of the dual.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Logarithm of the factor of each option.
    pub tilt: Vec<f64>,
    /// The share of each option.
    pub shares: Vec<f64>,
    /// Mean divergence of the tilted rows from the given ones.
    pub kl: f64,
    /// How far the worst share is from what its tilt implies.
    pub residual: f64,
    /// Passes over the rows.
    pub n_iter: usize,
    /// The method that found it.
    pub method: Method,
}

impl Found {
    /// Whether shares meet the bounds, and tilts the conditions of a minimum, to 1e-9.
    pub fn converged(&self) -> bool {
        self.residual <= SLACK
    }
}

/// Minimizes F from `start`, an earlier tilt.
///
/// Newton's method passes over the rows a few times; where it gets stuck, gradients go on from there. Bounds that the
/// zeros among the probabilities make impossible are an error that names the options.
pub fn solve(bounds: &Bounds, start: &[f64], method: Method, rows: &mut dyn Evaluate) -> Result<Found> {
    let mut search = Search { bounds, rows, passes: 0 };
    let mut point = search.at(start.to_vec(), method == Method::Newton)?;
    let mut used = method;
    if method == Method::Newton {
        point = search.newton(point)?;
    }
    if point.residual > SLACK {
        search.refuse_impossible(&point.tilt)?;
        (point, used) = (search.gradient(point)?, Method::Gradient);
    }
    if point.residual > SLACK {
        search.refuse_impossible(&point.tilt)?;
    }
    // Shut options have no share to multiply.
    let shift: f64 = point.tilt.iter().zip(&point.shares).filter(|(t, _)| t.is_finite()).map(|(t, s)| t * s).sum();
    let kl = (shift - point.log).max(0.0);
    let Point { mut tilt, shares, residual, .. } = point;
    // Where all bounds are equalities, F does not depend on a number added to all tilts. Zero on average is as good as
    // any, as far as it suits the bounds that were asked for.
    if (0..bounds.len()).all(|k| bounds.fixed(k)) {
        let open = tilt.iter().filter(|t| t.is_finite());
        let mean = open.clone().sum::<f64>() / open.count() as f64;
        tilt.iter_mut().for_each(|t| *t -= mean);
    }
    centre(&mut tilt, &bounds.asked[0], &bounds.asked[1]);
    Ok(Found { tilt, shares, kl, residual, n_iter: search.passes, method: used })
}

struct Point {
    tilt: Vec<f64>,
    shares: Vec<f64>,
    /// Mean logarithm of what rows are divided by.
    log: f64,
    objective: f64,
    residual: f64,
    /// Second derivatives of the smooth part, (options × options); or nothing.
    hessian: Vec<f64>,
}

struct Search<'a> {
    bounds: &'a Bounds,
    rows: &'a mut dyn Evaluate,
    passes: usize,
}

impl Search<'_> {
    fn at(&mut self, tilt: Vec<f64>, second: bool) -> Result<Point> {
        self.passes += 1;
        let k = self.bounds.len();
        let Sums { weight, log, mut shares, second: mut hessian } = self.rows.sums(&tilt, second)?;
        if weight.is_nan() || weight <= 0.0 {
            return Err(Error::invalid("there are no rows of positive weight to project"));
        }
        shares.iter_mut().for_each(|share| *share /= weight);
        hessian.iter_mut().for_each(|h| *h /= -weight);
        if second {
            (0..k).for_each(|i| hessian[i * k + i] += shares[i]);
        }
        let log = log / weight;
        let objective = log + self.bounds.penalty(&tilt);
        let misses = (0..k).map(|i| self.bounds.miss(i, tilt[i], shares[i]).abs());
        let residual = misses.fold(0.0, f64::max);
        Ok(Point { tilt, shares, log, objective, residual, hessian })
    }

    /// Newton's method on the tilts that are free, each kept on its side of zero within a step, in a region that grows
    /// while the quadratic model of F holds and shrinks where it fails.
    fn newton(&mut self, mut point: Point) -> Result<Point> {
        const FIRST_RADIUS: f64 = 4.0;
        const LEAST_RADIUS: f64 = 1e-13;
        const NEAR: f64 = 1e-3;
        // Tilts undo ratios of probabilities, whose logarithms are below 750: beyond, they run away.
        let most = 1e3 * self.bounds.len() as f64;
        let mut radius = FIRST_RADIUS;
        let mut second = point.residual > NEAR;
        while point.residual > TOLERANCE && self.passes < NEWTON_PASSES && radius > LEAST_RADIUS {
            let tilt = self.step(&point, radius);
            let (gain, length) = self.forecast(&point, &tilt);
            if length > most {
                break;
            }
            let mut next = self.at(tilt, second)?;
            let ratio = if gain > 0.0 { (point.objective - next.objective) / gain } else { 0.0 };
            // Near the minimum F is flat to the last digit, and only the residual indicates progress.
            let better = next.residual <= 0.5 * point.residual;
            if ratio < 0.25 && !better {
                radius = 0.25 * length.min(radius);
            } else if ratio > 0.75 {
                radius = radius.max(4.0 * length);
            }
            // Close by, second derivatives hardly change and old ones serve, while they serve well.
            second = next.residual > NEAR || next.residual > 0.1 * point.residual;
            if ratio > 1e-4 || better {
                if next.hessian.is_empty() {
                    next.hessian = point.hessian;
                }
                point = next;
            }
            let runs_away = point.tilt.iter().any(|t| t.is_finite() && t.abs() > most);
            if runs_away {
                break;
            }
        }
        Ok(point)
    }

    /// The tilts a step on, none changing by more than `radius` before they are centered.
    fn step(&self, point: &Point, radius: f64) -> Vec<f64> {
        let k = self.bounds.len();
        let largest = (0..k).map(|i| point.hessian[i * k + i]).fold(0.0, f64::max);
        let mut damping = (1e-14 * largest).max(1e-300);
        let change = loop {
            let model = Model { bounds: self.bounds, point, damping };
            match model.minimise().filter(|change| change.iter().all(|d| d.abs() <= radius)) {
                Some(change) => break change,
                None if damping.is_finite() => damping *= 8.0,
                // Not even the shortest step is a number: stay.
                None => break vec![0.0; k],
            }
        };
        // What a change brings to zero is zero, regardless of rounding.
        let mut tilt: Vec<f64> =
            point.tilt.iter().zip(&change).map(|(t, d)| if *d == -t { 0.0 } else { t + d }).collect();
        centre(&mut tilt, &self.bounds.lower, &self.bounds.upper);
        tilt
    }

    /// Predicted fall of F under the quadratic model on the way to `tilt`, and how far that is, the centering aside.
    fn forecast(&self, point: &Point, tilt: &[f64]) -> (f64, f64) {
        let k = tilt.len();
        let change: Vec<f64> =
            tilt.iter().zip(&point.tilt).map(|(a, b)| if a.is_finite() { a - b } else { 0.0 }).collect();
        let open = || (0..k).filter(|&i| tilt[i].is_finite());
        let linear: f64 = open().map(|i| change[i] * point.shares[i]).sum();
        let curved: f64 = open()
            .map(|i| change[i] * point.hessian[i * k..(i + 1) * k].iter().zip(&change).map(|(h, d)| h * d).sum::<f64>())
            .sum();
        let penalty = self.bounds.penalty(tilt) - self.bounds.penalty(&point.tilt);
        let (low, high) = open().fold((0.0_f64, 0.0_f64), |(low, high), i| (low.min(change[i]), high.max(change[i])));
        (-(linear + 0.5 * curved + penalty), high - low)
    }

    /// Proximal gradients with momentum, which is dropped where it leads uphill (O'Donoghue & Candès 2015).
    fn gradient(&mut self, start: Point) -> Result<Point> {
        // The second derivatives of a logarithm of sums of exponentials are at most one half.
        const STEP: f64 = 2.0;
        let (mut best, mut tilt) = (Point { hessian: vec![], ..start }, None::<Vec<f64>>);
        let mut ahead = best.tilt.clone();
        let mut momentum = 1.0_f64;
        let most = self.passes + GRADIENT_PASSES;
        while best.residual > TOLERANCE && self.passes < most {
            let point = self.at(ahead.clone(), false)?;
            let next: Vec<f64> = (0..ahead.len()).map(|i| self.proximal(i, &point, STEP)).collect();
            let converged = next.iter().zip(&ahead).all(|(a, b)| a == b || (a - b).abs() <= STEP * TOLERANCE);
            let last = tilt.replace(next.clone()).unwrap_or_else(|| next.clone());
            let uphill: f64 = next
                .iter()
                .zip(&ahead)
                .zip(&last)
                .filter(|((next, _), _)| next.is_finite())
                .map(|((next, ahead), last)| (ahead - next) * (next - last))
                .sum();
            let following = f64::midpoint(1.0, (1.0 + 4.0 * momentum * momentum).sqrt());
            let weight = if uphill > 0.0 { 0.0 } else { (momentum - 1.0) / following };
            momentum = if uphill > 0.0 { 1.0 } else { following };
            ahead = next.iter().zip(&last).map(|(a, b)| if a == b { *a } else { a + weight * (a - b) }).collect();
            if converged || self.passes.is_multiple_of(16) {
                let candidate = self.at(next, false)?;
                if candidate.residual < best.residual {
                    best = candidate;
                } else if converged {
                    break;
                }
            }
        }
        Ok(best)
    }

    /// Where a gradient step leads one tilt, zero holding it while its share is between its bounds.
    fn proximal(&self, i: usize, point: &Point, step: f64) -> f64 {
        let to = point.tilt[i] - step * point.shares[i];
        let (up, down) = (to + step * self.bounds.lower[i], to + step * self.bounds.upper[i]);
        if up > 0.0 {
            up
        } else if down < 0.0 {
            down
        } else {
            0.0
        }
    }

    /// Looks for options that together must have more than the rows with a probability of them weigh, or less than the
    /// rows weigh that have no other. Where there are any, their tilts went furthest.
    fn refuse_impossible(&mut self, tilt: &[f64]) -> Result<()> {
        let mut order: Vec<u32> = (0..tilt.len() as u32).collect();
        order.sort_by(|&a, &b| tilt[b as usize].total_cmp(&tilt[a as usize]));
        let reach = self.rows.reach(&order)?;
        let weight: f64 = reach.iter().sum();
        let (mut reached, mut least) = (0.0, 0.0);
        let options: Vec<usize> = order.iter().map(|&option| option as usize).collect();
        let percent = |share: f64| format!("{:.6}%", 100.0 * share);
        for (place, &option) in options.iter().enumerate() {
            reached += reach[place] / weight;
            least += self.bounds.lower[option];
            let (first, rest) = options.split_at(place + 1);
            if least > reached + SLACK {
                let (names, least, reached) = (named(first), percent(least), percent(reached));
                return Err(Error::invalid(format!(
                    "{names} must have at least {least} of the work, but only rows that make up {reached} of it have a \
                     positive probability there; lower the bounds"
                )));
            }
            let others: f64 = rest.iter().map(|&k| self.bounds.upper[k]).sum();
            if 1.0 - reached > others + SLACK {
                let (names, others, stuck) = (named(rest), percent(others), percent(1.0 - reached));
                return Err(Error::invalid(format!(
                    "{names} may have at most {others} of the work, but rows that make up {stuck} of it have no \
                     positive probability elsewhere; raise the bounds"
                )));
            }
        }
        Ok(())
    }
}

/// On which side of zero a tilt is to be, and so which bound its share is to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    Zero,
    Above,
    /// A tilt of minus infinity, which stays.
    Shut,
}

/// The quadratic model of F around a point, with the kinks of F and a damping that keeps steps short.
struct Model<'a> {
    bounds: &'a Bounds,
    point: &'a Point,
    damping: f64,
}

impl Model<'_> {
    /// The change of tilts that minimizes the model, by guessing the sides of all tilts and correcting the guess.
    ///
    /// The second derivatives are those of an M-matrix (no positive number off the diagonal), for which such a guess
    /// settles after a few rounds. Where rounding keeps it from settling, or from solving, there is no answer.
    fn minimise(&self) -> Option<Vec<f64>> {
        let k = self.bounds.len();
        let mut sides: Vec<Side> = (0..k).map(|i| self.first_side(i)).collect();
        for _ in 0..2 * k + 20 {
            let change = self.solve(&sides)?;
            let repaired: Vec<Side> = (0..k).map(|i| self.mended(i, sides[i], &change)).collect();
            if repaired == sides {
                return Some(change);
            }
            sides = repaired;
        }
        None
    }

    fn first_side(&self, i: usize) -> Side {
        let (t, share) = (self.point.tilt[i], self.point.shares[i]);
        if self.bounds.upper[i] == 0.0 {
            Side::Shut
        } else if t > 0.0 || (t == 0.0 && share < self.bounds.lower[i]) || self.bounds.fixed(i) {
            Side::Above
        } else if t < 0.0 || share > self.bounds.upper[i] {
            Side::Below
        } else {
            Side::Zero
        }
    }

    fn mended(&self, i: usize, side: Side, change: &[f64]) -> Side {
        let to = self.point.tilt[i] + change[i];
        match side {
            _ if self.bounds.fixed(i) => side,
            Side::Above if to < 0.0 => Side::Zero,
            Side::Below if to > 0.0 => Side::Zero,
            Side::Zero => {
                let row = &self.point.hessian[i * change.len()..(i + 1) * change.len()];
                let curved: f64 = row.iter().zip(change).map(|(h, d)| h * d).sum();
                let share = self.point.shares[i] + curved + self.damping * change[i];
                if share < self.bounds.lower[i] {
                    Side::Above
                } else if share > self.bounds.upper[i] {
                    Side::Below
                } else {
                    Side::Zero
                }
            }
            side => side,
        }
    }

    /// The change that brings tilts to zero whose side is that, and the other shares to their bounds, by Cholesky.
    fn solve(&self, sides: &[Side]) -> Option<Vec<f64>> {
        let Point { tilt, shares, hessian: h, .. } = self.point;
        let k = sides.len();
        let mut change: Vec<f64> = (0..k).map(|i| if sides[i] == Side::Zero { -tilt[i] } else { 0.0 }).collect();
        let free: Vec<usize> = (0..k).filter(|&i| matches!(sides[i], Side::Above | Side::Below)).collect();
        let n = free.len();
        let mut x: Vec<f64> = Vec::with_capacity(n);
        let mut factor = vec![0.0; n * n];
        for (a, &i) in free.iter().enumerate() {
            for (b, &j) in free[..=a].iter().enumerate() {
                let dot: f64 = (0..b).map(|c| factor[a * n + c] * factor[b * n + c]).sum();
                let rest = h[i * k + j] - dot;
                factor[a * n + b] = if a == b { (rest + self.damping).sqrt() } else { rest / factor[b * n + b] };
            }
            let bound = if sides[i] == Side::Above { self.bounds.lower[i] } else { self.bounds.upper[i] };
            let fixed: f64 = h[i * k..(i + 1) * k].iter().zip(&change).map(|(h, d)| h * d).sum();
            let dot: f64 = (0..a).map(|c| factor[a * n + c] * x[c]).sum();
            x.push((bound - shares[i] - fixed - dot) / factor[a * n + a]);
        }
        for a in (0..n).rev() {
            let dot: f64 = (a + 1..n).map(|c| factor[c * n + a] * x[c]).sum();
            x[a] = (x[a] - dot) / factor[a * n + a];
        }
        free.iter().zip(&x).for_each(|(&i, x)| change[i] = *x);
        x.iter().all(|x| x.is_finite()).then_some(change)
    }
}

#[cfg(test)]
mod tests;
