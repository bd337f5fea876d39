//! Plackett–Luce: a ranking is a row of choices, each of the best among what remains, with workers who differ.
//!
//! Item i is chosen from a set with probability `exp(slope_m · score_i)` over the sum for the set. By Newton's method,
//! the second derivatives of a list applied to a vector in time linear in its length.

use rayon::prelude::*;

use super::conjugate_gradients::{Matrix, solve};
use super::newton::Crowd;
use super::rankings::Rankings;
use super::worker_slopes::{Evidence, Scores, Spread, Workers, alone, exactness};
use crate::base::control::Control;
use crate::base::course::Course;
use crate::base::memory::{collected, copied, filled, zeros};
use crate::base::num::{LEVEL, cholesky, cholesky_solve};
use crate::{Error, Result};

/// What to fit, and how long.
#[derive(Debug, Clone, Copy)]
pub struct LuceOptions {
    /// Whether workers have slopes.
    pub slopes: bool,
    /// The standard deviation of scores before any ranking.
    pub prior: f64,
    /// The standard deviation of slopes; NaN where it is to be learned.
    pub spread: f64,
    /// Whether standard errors are wanted, which takes the cube of the items in time and their square in memory.
    pub errors: bool,
    /// Whether workers, and not single lists, are independent.
    pub by_worker: bool,
    /// Most iterations.
    pub max_iter: usize,
    /// The error of scores and slopes at which to stop, in their standard errors.
    pub tol: f64,
}

/// A fit.
#[derive(Debug, Clone)]
pub struct LuceFit {
    /// Score of each item.
    pub scores: Vec<f64>,
    /// Slope of each worker; empty where they have none.
    pub slopes: Vec<f64>,
    /// Standard errors of the slopes, given the scores.
    pub slope_errors: Vec<f64>,
    /// The standard deviation of slopes.
    pub spread: f64,
    /// Variances of scores by the model, and by what clusters say; empty where they were not asked for.
    pub variances: [Vec<f64>; 2],
    /// The log-likelihood and the log-density of the priors, after each iteration at the last spread.
    pub history: Vec<f64>,
    /// Iterations made.
    pub n_iter: usize,
    /// Whether the tolerance was met.
    pub converged: bool,
}

/// Lists of a chunk.
const LISTS: usize = 1 << 10;

/// Fits the model: O(entries) memory and time for each iteration and step of conjugate gradients.
pub fn plackett_luce_fit(table: &Rankings, options: &LuceOptions, control: &Control) -> Result<LuceFit> {
    let usable = |x: f64| x.is_finite() && x > 0.0;
    if !usable(options.prior) || options.tol.is_nan() || options.tol < 0.0 || options.spread <= 0.0 {
        return Err(Error::invalid("prior and spread must be finite and above 0, or the spread NaN to learn it"));
    }
    let mut ascent = Ascent::new(table, options.prior.powi(-2))?;
    let goal = options.tol * options.tol;
    let mut course = Course::default();
    let mut active: Vec<bool> = zeros(table.n_workers())?;
    (0..table.len()).for_each(|list| active[table.workers()[list] as usize] |= table.weight(list) > 0.0);
    let spread: Spread = [options.spread, f64::NAN];
    let mut workers = Workers::new(active, [options.slopes, false], spread);
    let objective = ascent.look(control)?;
    if options.slopes {
        alone(&mut ascent, objective, options.max_iter, 0.1, &mut course, control)?;
        workers.together(&mut ascent, options.max_iter, goal, &mut course, control)?;
    } else {
        alone(&mut ascent, objective, options.max_iter, goal, &mut course, control)?;
    }
    let variances = if options.errors { ascent.variances(options.by_worker, control)? } else { [vec![], vec![]] };
    let [slope_errors, _] = workers.errors;
    Ok(LuceFit {
        scores: ascent.scores,
        slopes: ascent.crowd.slopes,
        slope_errors,
        spread: workers.spread[0],
        variances,
        history: course.history,
        n_iter: course.n_iter,
        converged: course.converged,
    })
}

/// The objective at a point, and what its derivatives are made of.
struct Ascent<'t> {
    table: &'t Rankings,
    precision: f64,
    scores: Vec<f64>,
    crowd: Crowd,
    /// Entries by item: where those of each item begin, and which they are.
    offsets: Vec<u32>,
    places: Vec<u32>,
    /// For each entry: weight of its item among its list's, and one over the sum of what remained when it was chosen.
    shares: Vec<[f64; 2]>,
    /// The derivative of the log-likelihood by the score of each entry, and the second, its sign changed.
    slopes: Vec<[f64; 2]>,
}

impl<'t> Ascent<'t> {
    fn new(table: &'t Rankings, precision: f64) -> Result<Self> {
        let n = table.n_items();
        let mut offsets: Vec<u32> = zeros(n + 1)?;
        table.items().iter().for_each(|&item| offsets[item as usize + 1] += 1);
        (0..n).for_each(|item| offsets[item + 1] += offsets[item]);
        let (mut next, mut places) = (copied(&offsets)?, zeros(table.items().len())?);
        for (entry, &item) in table.items().iter().enumerate() {
            places[next[item as usize] as usize] = entry as u32;
            next[item as usize] += 1;
        }
        let entries = table.items().len();
        let (shares, slopes) = (zeros(entries)?, zeros(entries)?);
        Ok(Self { table, precision, scores: zeros(n)?, crowd: Crowd::default(), offsets, places, shares, slopes })
    }

    /// Runs a job on chunks of lists, each with its rows of two columns of entries.
    fn for_lists<T: Send>(
        &self,
        rows: &mut [[f64; 2]],
        control: &Control,
        job: &(dyn Fn(usize, &mut [[f64; 2]]) -> T + Sync),
    ) -> Result<Vec<T>> {
        let mut rest = rows;
        let mut parts = vec![];
        for first in (0..self.table.len()).step_by(LISTS) {
            let last = (first + LISTS).min(self.table.len());
            let len = (self.table.offsets()[last] - self.table.offsets()[first]) as usize;
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(len);
            rest = tail;
            parts.push((first..last, part));
        }
        let results: Vec<Result<Vec<T>>> = parts
            .into_par_iter()
            .map(|(lists, mut part)| {
                control.check()?;
                let mut results_of_part = Vec::with_capacity(lists.len());
                for list in lists {
                    let (own, tail) = std::mem::take(&mut part).split_at_mut(self.table.entries(list).len());
                    part = tail;
                    results_of_part.push(job(list, own));
                }
                Ok(results_of_part)
            })
            .collect();
        let mut all = crate::base::memory::with_room(self.table.len())?;
        for part in results {
            all.extend(part?);
        }
        Ok(all)
    }

    fn worker_slope(&self, list: usize) -> f64 {
        self.crowd.of(self.table.workers()[list] as usize).0
    }

    /// For each item the sum of a number over its entries.
    fn gathered(&self, entries: &(dyn Fn(usize) -> f64 + Sync), out: &mut [f64]) {
        out.par_iter_mut().enumerate().with_min_len(64).for_each(|(item, to)| {
            let places = &self.places[self.offsets[item] as usize..self.offsets[item + 1] as usize];
            *to = places.iter().map(|&entry| entries(entry as usize)).sum();
        });
    }

    fn gradient(&self) -> Result<Vec<f64>> {
        let mut gradient = zeros(self.scores.len())?;
        self.gathered(&|entry| self.slopes[entry][0], &mut gradient);
        gradient.iter_mut().zip(&self.scores).for_each(|(to, score)| *to -= self.precision * score);
        Ok(gradient)
    }

    fn curvature(&self) -> Result<Curvature<'_, 't>> {
        let mut diagonal = zeros(self.scores.len())?;
        self.gathered(&|entry| self.slopes[entry][1], &mut diagonal);
        diagonal.iter_mut().for_each(|to| *to += self.precision);
        Ok(Curvature { ascent: self, diagonal })
    }

    /// Variances of all scores, from the whole matrix.
    fn variances(&self, by_worker: bool, control: &Control) -> Result<[Vec<f64>; 2]> {
        let n = self.scores.len();
        let mut matrix: Vec<f64> = zeros(n * n)?;
        for list in 0..self.table.len() {
            let (entries, a) = (self.table.entries(list), self.worker_slope(list));
            let scale = self.table.weight(list) * a * a;
            let (mut once, mut twice) = (0.0, 0.0);
            for one in entries.clone() {
                let [share, left] = self.shares[one];
                once += left;
                twice += left * left;
                let (row, sums) = (self.table.items()[one] as usize, twice);
                matrix[row * n + row] += scale * share * (once - share * sums);
                for other in one + 1..entries.end {
                    let column = self.table.items()[other] as usize;
                    let both = scale * share * self.shares[other][0] * sums;
                    matrix[row * n + column] -= both;
                    matrix[column * n + row] -= both;
                }
            }
            control.check()?;
        }
        if !cholesky(&mut matrix, self.precision, n) {
            return Err(Error::invalid("the scores have no finite standard errors"));
        }
        let mut inverse: Vec<f64> = zeros(n * n)?;
        (0..n).for_each(|i| inverse[i * n + i] = 1.0);
        cholesky_solve(&matrix, &mut inverse, n, n);
        control.check()?;
        let model = collected((0..n).map(|i| inverse[i * n + i]))?;
        let mut sandwich = zeros(n)?;
        sandwich.par_iter_mut().enumerate().try_for_each(|(i, to)| {
            control.check()?;
            let (mut total, mut sum) = (0.0, 0.0);
            for list in 0..self.table.len() {
                let new = list == 0 || self.table.workers()[list] != self.table.workers()[list - 1];
                if new {
                    total += sum * sum;
                    sum = 0.0;
                }
                let entries = self.table.entries(list);
                let likelihood: f64 =
                    entries.map(|at| self.slopes[at][0] * inverse[i * n + self.table.items()[at] as usize]).sum();
                if by_worker {
                    sum += likelihood;
                } else {
                    // A list that counts so often is so many that say the same.
                    let weight = self.table.weight(list);
                    total += if weight > 0.0 { likelihood * likelihood / weight } else { 0.0 };
                }
            }
            *to = total + sum * sum;
            Ok::<(), Error>(())
        })?;
        Ok([model, sandwich])
    }
}

impl Scores for Ascent<'_> {
    fn look(&mut self, control: &Control) -> Result<f64> {
        let (mut shares, mut slopes) = (std::mem::take(&mut self.shares), std::mem::take(&mut self.slopes));
        let this = &*self;
        let logs = this.for_lists(&mut shares, control, &|list, rows| this.choose(list, rows))?;
        let fixed_shares = &shares;
        this.for_lists(&mut slopes, control, &|list, rows| {
            let (a, weight) = (this.worker_slope(list), this.table.weight(list));
            let (mut once, mut twice) = (0.0, 0.0);
            for (to, &[share, left]) in rows.iter_mut().zip(&fixed_shares[this.table.entries(list)]) {
                once += left;
                twice += left * left;
                let indicator = if left > 0.0 { 1.0 } else { 0.0 };
                *to = [weight * a * (indicator - share * once), weight * a * a * share * (once - share * twice)];
            }
        })?;
        (self.shares, self.slopes) = (shares, slopes);
        let scores: f64 = self.scores.iter().map(|score| score * score).sum();
        Ok(logs.iter().sum::<f64>() - 0.5 * self.precision * scores)
    }

    fn step(&mut self, objective: f64, goal: f64, control: &Control) -> Result<(f64, f64)> {
        let gradient = self.gradient()?;
        let curvature = self.curvature()?;
        let distance = curvature.distance(&gradient);
        let way = solve::<1>(&curvature, &gradient, exactness(distance, goal), control)?;
        let gain: f64 = gradient.iter().zip(&way).map(|(a, b)| a * b).sum();
        let before = copied(&self.scores)?;
        let mut length = 1.0;
        loop {
            for ((to, from), way) in self.scores.iter_mut().zip(&before).zip(&way) {
                *to = from + length * way;
            }
            let reached = self.look(control)?;
            if reached >= objective + 1e-4 * length * gain - LEVEL * objective.abs() {
                return Ok((reached, gain / self.scores.len() as f64));
            }
            length *= 0.5;
            if length < 1e-9 {
                self.scores.copy_from_slice(&before);
                return Ok((self.look(control)?, 0.0));
            }
        }
    }

    fn crowd(&mut self) -> &mut Crowd {
        &mut self.crowd
    }

    fn evidence(&self, n_workers: usize, control: &Control) -> Result<Vec<Evidence>> {
        let mut evidence = filled(Evidence::default(), n_workers)?;
        for list in 0..self.table.len() {
            if list % LISTS == 0 {
                control.check()?;
            }
            let (entries, weight) = (self.table.entries(list), self.table.weight(list));
            let (mut mean, mut square) = (0.0, 0.0);
            let sums = &mut evidence[self.table.workers()[list] as usize];
            // From the last choice back: what remains grows by one.
            for entry in entries.rev() {
                let ([share, left], score) = (self.shares[entry], self.scores[self.table.items()[entry] as usize]);
                mean += share * score;
                square += share * score * score;
                if left > 0.0 {
                    let expected = mean * left;
                    sums.slope[0] += weight * (score - expected);
                    sums.bend[0] += weight * (square * left - expected * expected).max(0.0);
                }
            }
        }
        Ok(evidence)
    }
}

impl Ascent<'_> {
    /// Shares of a list's items and what remained at each choice; returns its log-likelihood.
    fn choose(&self, list: usize, rows: &mut [[f64; 2]]) -> f64 {
        let (a, items) = (self.worker_slope(list), &self.table.items()[self.table.entries(list)]);
        let score = |item: u32| a * self.scores[item as usize];
        let largest = items.iter().map(|&item| score(item)).fold(f64::NEG_INFINITY, f64::max);
        let (mut remains, mut log) = (0.0, 0.0);
        for (place, (row, &item)) in rows.iter_mut().zip(items).enumerate().rev() {
            let share = (score(item) - largest).exp().max(f64::MIN_POSITIVE);
            remains += share;
            // The last is not chosen: nothing else is left.
            let is_choice = place + 1 < items.len();
            *row = [share, if is_choice { 1.0 / remains } else { 0.0 }];
            log += if is_choice { score(item) - largest - remains.ln() } else { 0.0 };
        }
        self.table.weight(list) * log
    }
}

struct Curvature<'c, 't> {
    ascent: &'c Ascent<'t>,
    diagonal: Vec<f64>,
}

impl Matrix for Curvature<'_, '_> {
    fn diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    fn times<const B: usize>(&self, vectors: &[f64], product: &mut [f64], control: &Control) -> Result<()> {
        let ascent = self.ascent;
        for lane in 0..B {
            let mut entries: Vec<[f64; 2]> = zeros(ascent.shares.len())?;
            ascent.for_lists(&mut entries, control, &|list, rows| {
                let (own, a) = (ascent.table.entries(list), ascent.worker_slope(list));
                let (items, shares) = (&ascent.table.items()[own.clone()], &ascent.shares[own]);
                let vector = |item: u32| vectors[item as usize * B + lane];
                let mut mean = 0.0;
                for ((row, &item), &[share, _]) in rows.iter_mut().zip(items).zip(shares).rev() {
                    mean += share * vector(item);
                    row[1] = mean;
                }
                let scale = ascent.table.weight(list) * a * a;
                let (mut once, mut means) = (0.0, 0.0);
                for ((row, &item), &[share, left]) in rows.iter_mut().zip(items).zip(shares) {
                    once += left;
                    means += row[1] * left * left;
                    row[0] = scale * share * (vector(item) * once - means);
                }
            })?;
            let mut out = zeros(ascent.scores.len())?;
            ascent.gathered(&|entry| entries[entry][0], &mut out);
            for (item, out) in out.iter().enumerate() {
                product[item * B + lane] = out + ascent.precision * vectors[item * B + lane];
            }
        }
        Ok(())
    }
}
