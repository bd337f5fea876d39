//! Passes over rows of probabilities that are tilted: multiplied by one factor per option, and scaled to sum to one.

use std::ops::AddAssign;

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::base::num::LogProduct;
use crate::{Error, Result};

/// Rows that sum to one no better than this are rejected; what is left is scaled away.
const SUM_TOLERANCE: f64 = 1e-5;

/// Below this, products of probabilities and factors may have lost digits by underflow: the row is done in log space.
const SAFE: f64 = 1e-280;

/// How many rows are visited between two looks at [`Control::check`].
const ROWS_PER_CHECK: usize = 1 << 10;

/// Rows whose second moments are added at once, so that the sums are loaded and stored once for all of them.
const TOGETHER: usize = 4;

/// Probabilities (rows × options), the weight of each row (one where there are none), and the number of the first row,
/// by which messages count.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    values: &'a [f64],
    options: usize,
    weights: Option<&'a [f64]>,
    first: usize,
}

impl<'a> Rows<'a> {
    /// Rows whose entries are at least 0 and sum to one; each is looked at.
    pub fn new(
        values: &'a [f64],
        options: usize,
        weights: Option<&'a [f64]>,
        first: usize,
        control: &Control,
    ) -> Result<Self> {
        if options == 0 || !values.len().is_multiple_of(options) {
            return Err(Error::invalid(format!("{} numbers do not make rows of {options}", values.len())));
        }
        let n = values.len() / options;
        if let Some(weights) = weights.filter(|weights| weights.len() != n) {
            return Err(Error::invalid(format!("there are {} weights for {n} rows", weights.len())));
        }
        let rows = Self { values, options, weights, first };
        rows.check(control)?;
        Ok(rows)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.options
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of options.
    pub fn options(&self) -> usize {
        self.options
    }

    fn check(&self, control: &Control) -> Result<()> {
        let k = self.options;
        self.values.par_chunks(ROWS_PER_CHECK * k).enumerate().try_for_each(|(block, values)| {
            control.check()?;
            let bad = pulp::Arch::new().dispatch(|| values.chunks_exact(k).position(|row| !is_distribution(row)));
            let Some(at) = bad else { return Ok(()) };
            let row = &values[at * k..(at + 1) * k];
            let at = self.first + block * ROWS_PER_CHECK + at;
            Err(Error::invalid(match row.iter().find(|x| **x < 0.0 || x.is_nan()) {
                Some(x) => format!("probabilities hold {x} in row {at}; they must be at least 0"),
                None => format!("row {at} of the probabilities sums to {}, not to 1", sum(row)),
            }))
        })
    }

    /// Every this many rows, copied: about `n` of them, and their weights.
    pub(super) fn sample(&self, n: usize) -> (Vec<f64>, Option<Vec<f64>>) {
        let stride = (self.len() / n).max(1);
        let values = self.values.chunks_exact(self.options).step_by(stride).flatten().copied().collect();
        (values, self.weights.map(|weights| weights.iter().step_by(stride).copied().collect()))
    }

    /// Rows that were checked as part of others.
    pub(super) fn of_checked(values: &'a [f64], options: usize, weights: Option<&'a [f64]>) -> Self {
        Self { values, options, weights, first: 0 }
    }

    /// Cuts the rows into chunks by their number and width, and gives what `visit` makes of each, in their order.
    fn by_chunk<T: Send>(&self, visit: impl Fn(Self) -> Result<T> + Sync) -> Result<Vec<T>> {
        const LEAST: usize = 1 << 11;
        /// Second moments of all chunks together take no more numbers than this, if two chunks do.
        const ROOM: usize = 1 << 22;
        let (n, k) = (self.len(), self.options);
        let most = (ROOM / (k * k)).clamp(2, 128);
        let size = n.div_ceil((n / LEAST).clamp(1, most)).max(1);
        (0..n.div_ceil(size))
            .into_par_iter()
            .map(|chunk| {
                let (start, end) = (chunk * size, n.min((chunk + 1) * size));
                visit(Self {
                    values: &self.values[start * k..end * k],
                    weights: self.weights.map(|weights| &weights[start..end]),
                    first: self.first + start,
                    ..*self
                })
            })
            .collect()
    }

    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| weights[row])
    }
}

#[inline(always)]
fn is_distribution(row: &[f64]) -> bool {
    let least = row.iter().fold(0.0, |a: f64, x| if *x < a { *x } else { a });
    least >= 0.0 && (sum(row) - 1.0).abs() <= SUM_TOLERANCE
}

/// The sum in four interleaved parts, which compiles to wide registers.
#[inline(always)]
fn sum(values: &[f64]) -> f64 {
    let mut parts = [0.0; 4];
    let fours = values.chunks_exact(4);
    let rest: f64 = fours.remainder().iter().sum();
    for four in fours {
        parts.iter_mut().zip(four).for_each(|(part, x)| *part += x);
    }
    (parts[0] + parts[1]) + (parts[2] + parts[3]) + rest
}

/// What the dual and its derivatives are made of; sums over rows, which can be added for parts of the rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sums {
    /// Weight of the rows.
    pub weight: f64,
    /// Weighted sum of the logarithms of what rows are divided by.
    pub log: f64,
    /// Weighted sum of the tilted rows, (options).
    pub shares: Vec<f64>,
    /// Weighted sum of the outer products of the tilted rows with themselves, (options × options); or nothing.
    pub second: Vec<f64>,
}

impl AddAssign<&Sums> for Sums {
    fn add_assign(&mut self, other: &Sums) {
        self.weight += other.weight;
        self.log += other.log;
        self.shares.iter_mut().zip(&other.shares).for_each(|(a, b)| *a += b);
        self.second.iter_mut().zip(&other.second).for_each(|(a, b)| *a += b);
    }
}

/// Logarithms of the factors, and the factors themselves with the largest scaled to one.
struct Tilt<'a> {
    log: &'a [f64],
    largest: f64,
    factor: Vec<f64>,
}

impl<'a> Tilt<'a> {
    fn new(log: &'a [f64], options: usize) -> Result<Self> {
        let largest = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if log.len() != options || !largest.is_finite() || log.iter().any(|t| t.is_nan()) {
            return Err(Error::invalid(format!("tilt must be {options} numbers, not all infinite")));
        }
        Ok(Self { log, largest, factor: log.iter().map(|t| (t - largest).exp()).collect() })
    }

    /// Writes the tilted row and gives the sum it was divided by, as (z, rest): its logarithm is ln z + rest, up to the
    /// largest of the tilts. A row of which nothing is left gives z = 0.
    #[inline(always)]
    fn row(&self, row: &[f64], out: &mut [f64]) -> (f64, f64) {
        out.iter_mut().zip(row).zip(&self.factor).for_each(|((out, q), factor)| *out = q * factor);
        let z = sum(out);
        if z < SAFE {
            return self.row_in_logs(row, out);
        }
        let scale = 1.0 / z;
        out.iter_mut().for_each(|p| *p *= scale);
        (z, 0.0)
    }

    #[cold]
    #[inline(never)]
    fn row_in_logs(&self, row: &[f64], out: &mut [f64]) -> (f64, f64) {
        out.iter_mut().zip(row).zip(self.log).for_each(|((out, q), t)| *out = q.ln() + (t - self.largest));
        let largest = out.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            out.fill(0.0);
            return (0.0, 0.0);
        }
        out.iter_mut().for_each(|p| *p = (*p - largest).exp());
        let z = sum(out);
        out.iter_mut().for_each(|p| *p /= z);
        (z, largest)
    }
}

fn nothing_left(row: usize) -> Error {
    Error::invalid(format!(
        "row {row} of the probabilities gives all of it to options whose share must be 0; allow it another option, or \
         raise the upper bound of one it has"
    ))
}

/// Sums over the rows tilted by `exp(tilt)`; with second moments if asked for.
///
/// Time O(rows × options), or × options² with second moments; memory that of the sums.
pub fn sums(rows: &Rows, tilt: &[f64], second: bool, control: &Control) -> Result<Sums> {
    let k = rows.options;
    let tilt = Tilt::new(tilt, k)?;
    let empty = || -> Result<Sums> {
        Ok(Sums { shares: vec![0.0; k], second: zeros(if second { k * k } else { 0 })?, ..Sums::default() })
    };
    let parts = rows.by_chunk(|chunk| {
        let mut part = empty()?;
        let mut scratch = vec![0.0; TOGETHER * k];
        let mut log = LogProduct::ONE;
        let arch = pulp::Arch::new();
        let mut first = chunk.first;
        for (at, values) in chunk.values.chunks(ROWS_PER_CHECK * k).enumerate() {
            control.check()?;
            let from = at * ROWS_PER_CHECK;
            let weights = chunk.weights.map(|weights| &weights[from..from + values.len() / k]);
            let rows = Rows { values, options: k, weights, first };
            first += rows.len();
            arch.dispatch(Block { rows, tilt: &tilt, part: &mut part, scratch: &mut scratch, log: &mut log })?;
        }
        part.log += log.ln() + part.weight * tilt.largest;
        Ok(part)
    })?;
    let mut total = empty()?;
    parts.iter().for_each(|part| total += part);
    for i in 0..if second { k } else { 0 } {
        for j in 0..i {
            total.second[i * k + j] = total.second[j * k + i];
        }
    }
    Ok(total)
}

/// A few rows: the unit that is compiled for the widest registers the processor has.
///
/// The arithmetic is the same to the bit on all of them: nothing is reordered and no product is fused with a sum.
struct Block<'a> {
    rows: Rows<'a>,
    tilt: &'a Tilt<'a>,
    part: &'a mut Sums,
    scratch: &'a mut [f64],
    log: &'a mut LogProduct,
}

impl pulp::NullaryFnOnce for Block<'_> {
    type Output = Result<()>;

    #[inline(always)]
    fn call(self) -> Result<()> {
        let Self { rows, tilt, part, scratch, log } = self;
        let k = rows.options;
        for (four, values) in rows.values.chunks(TOGETHER * k).enumerate() {
            let mut weights = [0.0; TOGETHER];
            for (i, row) in values.chunks_exact(k).enumerate() {
                let (at, tilted) = (four * TOGETHER + i, &mut scratch[i * k..(i + 1) * k]);
                let (z, rest) = tilt.row(row, tilted);
                if z == 0.0 {
                    return Err(nothing_left(rows.first + at));
                }
                let weight = rows.weight(at);
                if rows.weights.is_some() {
                    part.log += weight * (z.ln() + rest);
                } else {
                    log.multiply(z);
                    log.add_log(rest);
                }
                weights[i] = weight;
                part.weight += weight;
                part.shares.iter_mut().zip(&*tilted).for_each(|(share, p)| *share += weight * p);
            }
            if !part.second.is_empty() {
                add_second(&mut part.second, scratch, weights, k);
            }
        }
        Ok(())
    }
}

/// Adds the weighted outer products of four rows: the upper triangle, and up to three numbers to the left of it. Rows
/// that are not there have no weight.
#[inline(always)]
fn add_second(second: &mut [f64], rows: &[f64], weights: [f64; TOGETHER], k: usize) {
    let (a, rest) = rows.split_at(k);
    let (b, rest) = rest.split_at(k);
    let (c, d) = rest.split_at(k);
    for (i, sums) in second.chunks_exact_mut(k).enumerate() {
        let from = i & !3;
        let (wa, wb, wc, wd) = (weights[0] * a[i], weights[1] * b[i], weights[2] * c[i], weights[3] * d[i]);
        let columns = a[from..].iter().zip(&b[from..]).zip(&c[from..]).zip(&d[from..k]);
        for (sum, (((a, b), c), d)) in sums[from..].iter_mut().zip(columns) {
            *sum += (wa * a + wb * b) + (wc * c + wd * d);
        }
    }
}

/// The rows tilted by `exp(tilt)`.
///
/// Time O(rows × options), memory the result.
pub fn apply(rows: &Rows, tilt: &[f64], control: &Control) -> Result<Vec<f64>> {
    let k = rows.options;
    let tilt = Tilt::new(tilt, k)?;
    let mut out = zeros(rows.values.len())?;
    let blocks = out.par_chunks_mut(ROWS_PER_CHECK * k).zip(rows.values.par_chunks(ROWS_PER_CHECK * k));
    blocks.enumerate().try_for_each(|(block, (out, values))| {
        control.check()?;
        let lost = pulp::Arch::new().dispatch(|| {
            let mut pairs = values.chunks_exact(k).zip(out.chunks_exact_mut(k));
            pairs.position(|(row, out)| tilt.row(row, out).0 == 0.0)
        });
        lost.map_or(Ok(()), |at| Err(nothing_left(rows.first + block * ROWS_PER_CHECK + at)))
    })?;
    Ok(out)
}

/// Weight of the rows whose first option with a positive probability, in the order given, is the one at each place.
pub fn reach(rows: &Rows, order: &[u32], control: &Control) -> Result<Vec<f64>> {
    let k = rows.options;
    if order.len() != k || order.iter().any(|&option| option as usize >= k) {
        return Err(Error::invalid(format!("order must list the {k} options")));
    }
    let parts = rows.by_chunk(|chunk| {
        let mut part = vec![0.0; k];
        for (at, row) in chunk.values.chunks_exact(k).enumerate() {
            if at.is_multiple_of(ROWS_PER_CHECK) {
                control.check()?;
            }
            if let Some(place) = order.iter().position(|&option| row[option as usize] > 0.0) {
                part[place] += chunk.weight(at);
            }
        }
        Ok(part)
    })?;
    let mut total = vec![0.0; k];
    parts.iter().for_each(|part| total.iter_mut().zip(part).for_each(|(a, b)| *a += b));
    Ok(total)
}

#[cfg(test)]
mod tests;
