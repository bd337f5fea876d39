//! Small numerical pieces shared by the kernels.

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::memory::zeros;
use crate::{Error, Result};

/// No probability is kept below this: a product of [`BLOCK`] of them, times a floored prior, is still a normal number.
pub const FLOOR: f64 = 1e-30;

/// A value lower by less than this share of itself is level: sums over labels in another order differ by as much. Else
/// rounding would choose which of the last, smallest steps of an ascent are taken.
pub const LEVEL: f64 = 1e-13;

/// How many probabilities may be multiplied before the product must be rescaled (see [`FLOOR`]).
pub const BLOCK: usize = 8;

/// A sum that does not depend on the order of its terms.
///
/// What each addition rounds off is added up next to it (Neumaier's way). That is exact to the last bit unless terms
/// differ by fifteen orders of magnitude. It is for methods whose iterations would otherwise blow rounding up: where a
/// table is symmetric, they stay on the fence, and no order of workers pushes them off it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    rounded: f64,
    lost: f64,
}

impl Sum {
    /// Adds a term.
    #[inline(always)]
    pub fn add(&mut self, term: f64) {
        let total = self.rounded + term;
        let (larger, smaller) =
            if self.rounded.abs() >= term.abs() { (self.rounded, term) } else { (term, self.rounded) };
        self.lost += (larger - total) + smaller;
        self.rounded = total;
    }

    /// The sum of what was added.
    #[inline(always)]
    pub fn value(self) -> f64 {
        self.rounded + self.lost
    }

    /// The sum of all terms.
    #[inline(always)]
    pub fn of(terms: impl IntoIterator<Item = f64>) -> f64 {
        let mut sum = Self::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum.value()
    }
}

/// The logarithm of a long product, at one `ln` for the whole of it.
///
/// Each factor is split into a power of two, whose exponents are added exactly, and a mantissa in [1, 2); the mantissas
/// are multiplied, which loses no more precision than adding as many logarithms would. Their product is split in turn
/// when it has grown large, once in hundreds of factors.
#[derive(Debug, Clone, Copy)]
pub struct LogProduct {
    mantissa: f64,
    exponent: i64,
    /// Logarithms added as they are: factors that were computed in log space, or that are not normal numbers.
    rest: f64,
}

/// Factors are multiplied up to this size: one more mantissa does not overflow.
const LARGE: f64 = 1e300;

const EXPONENT_MASK: u64 = 0x7ff0_0000_0000_0000;
const EXPONENT_OF_ONE: u64 = 0x3ff0_0000_0000_0000;

impl LogProduct {
    /// The empty product.
    pub const ONE: Self = Self { mantissa: 1.0, exponent: 0, rest: 0.0 };

    /// Multiplies by `factor`, which must be positive.
    #[inline(always)]
    pub fn multiply(&mut self, factor: f64) {
        if factor < f64::MIN_POSITIVE {
            self.rest += factor.ln();
            return;
        }
        let (mantissa, exponent) = split(factor);
        self.mantissa *= mantissa;
        self.exponent += exponent;
        if self.mantissa > LARGE {
            let (mantissa, exponent) = split(self.mantissa);
            self.mantissa = mantissa;
            self.exponent += exponent;
        }
    }

    /// Multiplies by two to the power of `exponent`.
    #[inline(always)]
    pub fn shift(&mut self, exponent: i64) {
        self.exponent += exponent;
    }

    /// Multiplies by `exp(log)`.
    #[inline(always)]
    pub fn add_log(&mut self, log: f64) {
        self.rest += log;
    }

    /// The natural logarithm of the product.
    pub fn ln(&self) -> f64 {
        self.exponent as f64 * std::f64::consts::LN_2 + self.mantissa.ln() + self.rest
    }
}

/// Splits a positive normal number into a mantissa in [1, 2) and an exponent of two.
#[inline(always)]
fn split(x: f64) -> (f64, i64) {
    let bits = x.to_bits();
    let exponent = ((bits & EXPONENT_MASK) >> 52) as i64 - 1023;
    (f64::from_bits((bits & !EXPONENT_MASK) | EXPONENT_OF_ONE), exponent)
}

/// Divides by a power of two that brings the largest entry into [1, 2); returns its exponent (0 when all are zero).
#[inline(always)]
pub fn rescale(values: &mut [f64]) -> i64 {
    let largest = values.iter().copied().fold(0.0, f64::max);
    if largest < f64::MIN_POSITIVE {
        return 0;
    }
    let (factor, exponent) = inverse_power_of_two(largest);
    for value in values {
        *value *= factor;
    }
    exponent
}

/// The power of two by which a positive normal number must be multiplied to lie in [1, 2), and the exponent it takes
/// away.
///
/// The factor is exact and normal: at the very ends of the range it stops short.
#[inline(always)]
pub(crate) fn inverse_power_of_two(x: f64) -> (f64, i64) {
    let exponent = split(x).1.clamp(-1022, 1022);
    (f64::from_bits(((1023 - exponent) as u64) << 52), exponent)
}

/// A number in `[0, 1)` from 64 random bits.
#[inline]
pub(crate) fn to_unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// The increment of `SplitMix64`.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64-bit words that spreads any change of the input over all output bits (the finalizer of
/// `SplitMix64`).
pub(crate) fn scramble(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A number below `n` that depends on the seed and `i` alone: the i-th of a stream of `SplitMix64`.
#[inline]
pub(crate) fn pick(seed: u64, i: usize, n: usize) -> usize {
    let x = scramble(seed.wrapping_add((i as u64).wrapping_add(1).wrapping_mul(GOLDEN)));
    ((u128::from(x) * n as u128) >> 64) as usize
}

/// Scales `values` to sum to one; a sum too small to divide by gives equal shares.
#[inline]
pub fn normalise(values: &mut [f64]) {
    let total: f64 = values.iter().sum();
    if total > f64::MIN_POSITIVE / f64::EPSILON {
        for value in values {
            *value /= total;
        }
    } else {
        let share = 1.0 / values.len() as f64;
        values.fill(share);
    }
}

/// Replaces logarithms of weights by the weights' shares; returns the logarithm of their sum.
#[inline]
pub fn softmax(logs: &mut [f64]) -> f64 {
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let total: f64 = logs.iter().sum();
    logs.iter_mut().for_each(|x| *x /= total);
    largest + total.ln()
}

/// Whether an objective differs from the last one by less than a share `tol` of itself.
///
/// An objective of 0 that stays there (with one class everything is certain) has settled too, unless `tol` is 0.
pub(crate) fn settled(objective: f64, last: Option<f64>, tol: f64) -> bool {
    last.is_some_and(|last| (objective - last).abs() < tol * objective.abs().max(f64::MIN_POSITIVE))
}

/// Replaces the lower triangle of a symmetric matrix by L with L·Lᵀ = matrix + ridge·I; false if there is none.
pub(crate) fn cholesky(matrix: &mut [f64], ridge: f64, k: usize) -> bool {
    for i in 0..k {
        matrix[i * k + i] += ridge;
        for j in 0..=i {
            let explained: f64 = (0..j).map(|h| matrix[i * k + h] * matrix[j * k + h]).sum();
            let rest = matrix[i * k + j] - explained;
            matrix[i * k + j] = if i > j {
                rest / matrix[j * k + j]
            } else if rest > 0.0 {
                rest.sqrt()
            } else {
                return false;
            };
        }
    }
    true
}

/// Solves L·Lᵀ·X = right for all columns at once, in place.
pub(crate) fn cholesky_solve(l: &[f64], right: &mut [f64], k: usize, width: usize) {
    for i in 0..k {
        let (above, row) = right.split_at_mut(i * width);
        let row = &mut row[..width];
        for (h, other) in above.chunks_exact(width).enumerate() {
            row.iter_mut().zip(other).for_each(|(x, y)| *x -= l[i * k + h] * y);
        }
        row.iter_mut().for_each(|x| *x /= l[i * k + i]);
    }
    for i in (0..k).rev() {
        let (row, below) = right[i * width..].split_at_mut(width);
        for (h, other) in below.chunks_exact(width).enumerate() {
            row.iter_mut().zip(other).for_each(|(x, y)| *x -= l[(i + 1 + h) * k + i] * y);
        }
        row.iter_mut().for_each(|x| *x /= l[i * k + i]);
    }
}

/// The winner of each row of an (n × `width`) array, and whether another entry ties with it.
///
/// The lowest index wins a tie. Entries within a relative 1e-12 of the largest count as tied: shares of equal votes
/// reach their rows by different roundings.
pub fn winners(rows: &[f64], width: usize, control: &Control) -> Result<(Vec<u16>, Vec<bool>)> {
    const ROWS: usize = 1 << 11;
    if width == 0 || !rows.len().is_multiple_of(width) {
        return Err(Error::invalid(format!("{} numbers do not make rows of {width}", rows.len())));
    }
    let n = rows.len() / width;
    let mut winner = zeros::<u16>(n)?;
    let mut ties = zeros::<bool>(n)?;
    rows.par_chunks(ROWS * width).zip(winner.par_chunks_mut(ROWS)).zip(ties.par_chunks_mut(ROWS)).try_for_each(
        |((rows, winner), tied)| {
            control.check()?;
            for ((row, winner), tied) in rows.chunks_exact(width).zip(winner).zip(tied) {
                (*winner, *tied) = winner_of(row);
            }
            Ok(())
        },
    )?;
    Ok((winner, ties))
}

/// The same of one row.
pub(crate) fn winner_of(row: &[f64]) -> (u16, bool) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let limit = largest - largest.abs() * 1e-12;
    let mut near = row.iter().enumerate().filter(|(_, x)| **x >= limit);
    (near.next().map_or(0, |(k, _)| k as u16), near.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn log_product_matches_a_sum_of_logarithms(factors in prop::collection::vec(1e-300_f64..1e3, 0..200)) {
            let mut product = LogProduct::ONE;
            factors.iter().for_each(|&f| product.multiply(f));
            let expected: f64 = factors.iter().map(|f| f.ln()).sum();
            prop_assert!((product.ln() - expected).abs() <= 1e-10 * expected.abs().max(1.0));
        }

        #[test]
        fn rescale_is_exact(mut values in prop::collection::vec(1e-250_f64..1e-3, 1..20)) {
            let before = values.clone();
            let exponent = rescale(&mut values);
            let largest = values.iter().copied().fold(0.0, f64::max);
            prop_assert!((1.0..2.0).contains(&largest));
            for (a, b) in values.iter().zip(&before) {
                prop_assert_eq!(a * 2f64.powi(exponent as i32), *b);
            }
        }
    }

    #[test]
    fn subnormal_factors_are_counted() {
        let mut product = LogProduct::ONE;
        product.multiply(1e-310);
        assert!((product.ln() - 1e-310_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn random_words_are_those_of_splitmix() {
        // The reference generator's first numbers from the seed 1234567.
        let words = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423_u64];
        let mut state = 1_234_567_u64;
        for (i, word) in words.into_iter().enumerate() {
            state = state.wrapping_add(GOLDEN);
            assert_eq!(scramble(state), word);
            let share = word as f64 / 2f64.powi(64);
            assert!((to_unit(word) - share).abs() < 1e-15);
            assert_eq!(pick(1_234_567, i, 1000), (share * 1000.0) as usize);
        }
        assert_eq!((to_unit(0), to_unit(u64::MAX)), (0.0, 1.0 - f64::EPSILON / 2.0));
    }

    #[test]
    fn shares_sum_to_one() {
        let mut values = [1.0, 3.0, 0.0];
        normalise(&mut values);
        assert_eq!(values, [0.25, 0.75, 0.0]);
        // Too little to divide by.
        for nothing in [0.0, 1e-310] {
            let mut values = [nothing; 4];
            normalise(&mut values);
            assert_eq!(values, [0.25; 4]);
        }
        let mut logs = [1000.0, 1000.0 + 3_f64.ln()];
        assert!((softmax(&mut logs) - (1000.0 + 4_f64.ln())).abs() < 1e-12);
        assert!((logs[0] - 0.25).abs() < 1e-12 && (logs[1] - 0.75).abs() < 1e-12);
    }

    #[test]
    fn roots_and_solutions_multiply_back() {
        let matrix = [4.0, 2.0, 0.6, 2.0, 5.0, 1.0, 0.6, 1.0, 3.0];
        let mut root = matrix;
        assert!(cholesky(&mut root, 0.5, 3));
        for (i, j) in (0..9).map(|at| (at / 3, at % 3)).filter(|(i, j)| j <= i) {
            let product: f64 = (0..=j).map(|h| root[i * 3 + h] * root[j * 3 + h]).sum();
            let ridge = if i == j { 0.5 } else { 0.0 };
            assert!((product - matrix[i * 3 + j] - ridge).abs() < 1e-12);
        }
        let right = [1.0, -2.0, 0.0, 3.0, 2.0, 1.0];
        let mut x = right;
        cholesky_solve(&root, &mut x, 3, 2);
        for (i, column) in (0..6).map(|at| (at / 2, at % 2)) {
            let ridge = 0.5 * x[i * 2 + column];
            let product: f64 = (0..3).map(|j| matrix[i * 3 + j] * x[j * 2 + column]).sum::<f64>() + ridge;
            assert!((product - right[i * 2 + column]).abs() < 1e-12);
        }
        assert!(!cholesky(&mut [1.0, 2.0, 2.0, 1.0], 0.0, 2) && !cholesky(&mut [0.0], 0.0, 1));
    }

    #[test]
    fn sums_do_not_depend_on_the_order() {
        let mut terms: Vec<f64> = (1..200).map(|i| (-1_f64).powi(i) / f64::from(i)).collect();
        terms.extend([1e8 / 3.0, -1e8 / 3.0, 1.0 / 7.0]);
        let forward = Sum::of(terms.iter().copied());
        let backward = Sum::of(terms.iter().rev().copied());
        terms.sort_by(f64::total_cmp);
        assert_eq!([forward, backward], [Sum::of(terms.iter().copied()); 2]);
        assert_eq!((Sum::of([]), Sum::of([1e16, 1.0, -1e16])), (0.0, 1.0));
    }

    #[test]
    fn objectives_settle_by_their_own_size() {
        assert!(settled(-1000.0, Some(-1000.9), 1e-3) && !settled(-1000.0, Some(-1001.1), 1e-3));
        assert!(settled(-1000.0, Some(-999.1), 1e-3) && !settled(-1000.0, None, 1e-3));
        // With one class everything is certain from the start.
        assert!(settled(0.0, Some(0.0), 1e-6) && !settled(0.0, Some(0.0), 0.0) && !settled(0.0, Some(1.0), 1e-6));
        assert!(!settled(f64::NAN, Some(1.0), 1e-6));
    }

    #[test]
    fn powers_of_two_stop_short_at_the_ends() {
        for x in [f64::MIN_POSITIVE, 1e-300, 0.75, 1.0, 3.0, 1e300, f64::MAX] {
            let (factor, exponent) = inverse_power_of_two(x);
            assert!((1.0..4.0).contains(&(x * factor)), "{x}");
            assert_eq!(factor, 2f64.powi(-exponent as i32));
        }
        assert_eq!((rescale(&mut [0.0, 0.0]), rescale(&mut [3.0, 8.0])), (0, 3));
    }

    #[test]
    fn winners_tell_rounding_from_a_lead() {
        let rows = [1.0, 1.0 + 1e-13, 1.0, 1.0 + 1e-11, -2.0, -1.0, -1.0 - 1e-13, -1.0];
        let (winner, ties) = winners(&rows, 2, &Control::default()).unwrap();
        assert_eq!((winner, ties), (vec![0, 1, 1, 0], vec![true, false, false, true]));
    }

    #[test]
    fn winners_flag_ties_and_take_the_lowest() {
        let rows = [0.5, 0.5, 0.0, 0.1, 0.2, 0.7];
        let (winner, ties) = winners(&rows, 3, &Control::default()).unwrap();
        assert_eq!((winner, ties), (vec![0, 2], vec![true, false]));
        assert!(winners(&rows, 4, &Control::default()).is_err());
    }
}
