//! Random streams and discrete draws.
//!
//! Every stream is keyed by what it is for and by the chunk it serves, never by the thread that runs it: that is what
//! makes a simulation repeat bit for bit on any number of threads.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Result;
use crate::base::memory::{collected, filled, with_room};
use crate::base::num::{GOLDEN, scramble, to_unit};

/// Rows up to this length are searched by counting, which has no branch to mispredict; longer ones by bisection.
const COUNTED: usize = 32;

/// What a stream of random numbers is used for. Two purposes never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The true class of each task.
    Truth = 1,
    /// How many workers label each task.
    Count = 2,
    /// Which workers label each task.
    Choice = 3,
    /// What the workers say.
    Label = 4,
    /// The answer a group of colluders agrees on for a task.
    Shared = 5,
}

/// One word that depends on all of `words` and on their order.
pub(crate) fn key<const L: usize>(words: [u64; L]) -> u64 {
    words
        .into_iter()
        .fold(0, |state: u64, word| scramble(state.wrapping_add(GOLDEN) ^ scramble(word.wrapping_add(GOLDEN))))
}

/// The stream of one purpose for one chunk of work.
pub(crate) fn stream(seed: u64, purpose: Purpose, chunk: usize) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(key([seed, purpose as u64, chunk as u64]))
}

/// A number drawn uniformly from `[0, 1)`.
#[inline]
pub(crate) fn unit(rng: &mut impl Rng) -> f64 {
    to_unit(rng.next_u64())
}

/// An index below `n` and an independent number in `[0, 1)`, both from one 64-bit draw.
///
/// The index is off uniform by less than `n / 2^64`, which no sample that fits in memory can show.
#[inline]
fn split(rng: &mut impl Rng, n: usize) -> (usize, f64) {
    let product = u128::from(rng.next_u64()) * n as u128;
    ((product >> 64) as usize, to_unit(product as u64))
}

/// An index drawn uniformly below `n`.
#[inline]
pub(crate) fn below(rng: &mut impl Rng, n: usize) -> usize {
    split(rng, n).0
}

/// Turns a row of probabilities into the row that [`search`] reads: running sums, then 2 from the last possible class on,
/// so that neither rounding nor a zero can let an impossible class be drawn.
pub(crate) fn accumulate(row: &mut [f64]) {
    let last = row.iter().rposition(|&p| p > 0.0).unwrap_or(0);
    let mut sum = 0.0;
    for p in &mut row[..last] {
        sum += *p;
        *p = sum;
    }
    row[last..].fill(2.0);
}

/// The class whose share of `[0, 1)` holds `u`, from a row made by [`accumulate`].
#[inline]
pub(crate) fn search(row: &[f64], u: f64) -> u16 {
    if row.len() <= COUNTED {
        row.iter().map(|&sum| u16::from(sum <= u)).sum()
    } else {
        row.partition_point(|&sum| sum <= u) as u16
    }
}

/// Walker's alias table (built by Vose's method): one draw in constant time from any weights.
#[derive(Debug)]
pub(crate) struct Alias {
    /// For each slot: the share of it that is its own, and the index that owns the rest.
    slots: Vec<(f64, u32)>,
}

impl Alias {
    /// Builds the table. The weights must be finite and not negative, and one of them positive.
    pub(crate) fn new(weights: &[f64]) -> Result<Self> {
        // Scaled twice, by the largest first: the sum of the weights themselves could overflow.
        let largest = weights.iter().copied().fold(0.0, f64::max);
        let total: f64 = weights.iter().map(|w| w / largest).sum();
        let mean = total / weights.len() as f64;
        let mut share: Vec<f64> = collected(weights.iter().map(|w| w / largest / mean))?;
        let heaviest = weights.iter().position(|&w| w == largest).unwrap_or(0);

        // Any of them may end among the small.
        let (mut small, mut large) = (with_room(weights.len())?, with_room(weights.len())?);
        (0..weights.len()).for_each(|i| if share[i] < 1.0 { &mut small } else { &mut large }.push(i as u32));
        let mut slots = filled((1.0, 0), weights.len())?;
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            slots[low as usize] = (share[low as usize], high);
            let rest = (share[high as usize] + share[low as usize]) - 1.0;
            share[high as usize] = rest;
            if rest < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        // Rounding may leave slots unpaired; they are full, unless their owner must never be drawn.
        for i in small.into_iter().chain(large) {
            slots[i as usize] = if weights[i as usize] > 0.0 { (1.0, i) } else { (0.0, heaviest as u32) };
        }
        Ok(Self { slots })
    }

    /// Draws an index in proportion to the weights.
    #[inline]
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> u32 {
        let (index, u) = split(rng, self.slots.len());
        let (own, other) = self.slots[index];
        if u < own { index as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn search_returns_the_class_whose_share_holds_u(
            weights in prop::collection::vec(prop_oneof![Just(0.0), 1e-9..1.0_f64], 1..80),
            u in 0.0..1.0_f64,
        ) {
            let total: f64 = weights.iter().sum();
            prop_assume!(total > 0.0);
            let row: Vec<f64> = weights.iter().map(|w| w / total).collect();
            let mut sums = row.clone();
            accumulate(&mut sums);
            let class = usize::from(search(&sums, u));
            prop_assert!(row[class] > 0.0);
            let before: f64 = row[..class].iter().sum();
            prop_assert!(before <= u + 1e-12 && u <= before + row[class] + 1e-12);
        }

        #[test]
        fn alias_table_holds_the_weights(
            weights in prop::collection::vec(prop_oneof![Just(0.0), 1e-12..1e6_f64, 1e200..1e300_f64], 1..60),
        ) {
            prop_assume!(weights.iter().any(|&w| w > 0.0));
            let table = Alias::new(&weights).unwrap();
            let mut mass = vec![0.0; weights.len()];
            for (index, &(own, other)) in table.slots.iter().enumerate() {
                mass[index] += own;
                mass[other as usize] += 1.0 - own;
            }
            let largest = weights.iter().copied().fold(0.0, f64::max);
            let total: f64 = weights.iter().map(|w| w / largest).sum();
            for (got, &weight) in mass.iter().zip(&weights) {
                let expected = weight / largest / total * weights.len() as f64;
                prop_assert!((got - expected).abs() < 1e-9, "{got} is not {expected}");
                prop_assert!(weight > 0.0 || *got == 0.0, "a zero weight can be drawn");
            }
        }
    }

    /// A stream of the least number there is.
    struct Zeros;

    impl rand::TryRng for Zeros {
        type Error = std::convert::Infallible;

        fn try_next_u32(&mut self) -> std::result::Result<u32, Self::Error> {
            Ok(0)
        }

        fn try_next_u64(&mut self) -> std::result::Result<u64, Self::Error> {
            Ok(0)
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> std::result::Result<(), Self::Error> {
            bytes.fill(0);
            Ok(())
        }
    }

    #[test]
    fn not_even_the_least_number_draws_a_zero_weight() {
        assert_eq!(Alias::new(&[0.0, 1.0, 2.0]).unwrap().draw(&mut Zeros), 2);
        assert_eq!(Alias::new(&[1.0, 1.0]).unwrap().draw(&mut Zeros), 0);
    }

    #[test]
    fn keys_depend_on_every_word_and_on_their_order() {
        let words = [key([1, 2, 3]), key([1, 3, 2]), key([0, 2, 3]), key([1, 2]), key([0, 1, 2]), key([1, 2, 0])];
        for (i, a) in words.iter().enumerate() {
            assert!(words[i + 1..].iter().all(|b| a != b));
        }
    }
}
