//! Four numbers at a time, in a form that compiles to wide registers where the processor has them.
//!
//! All operations act on each number alone, so that results are the same to the bit on every processor.

use std::ops::{Add, Div, Mul, Sub};

/// How many numbers.
pub(super) const LANES: usize = 4;

/// Four numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(32))]
pub(super) struct Lanes(pub [f64; LANES]);

macro_rules! elementwise {
    ($($trait:ident, $method:ident, $op:tt;)*) => {$(
        impl $trait for Lanes {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                let mut out = self;
                for i in 0..LANES {
                    out.0[i] = self.0[i] $op other.0[i];
                }
                out
            }
        }
    )*};
}

elementwise! {
    Add, add, +;
    Sub, sub, -;
    Mul, mul, *;
    Div, div, /;
}

impl Lanes {
    pub const ZERO: Self = Self([0.0; LANES]);

    #[inline(always)]
    pub fn all(x: f64) -> Self {
        Self([x; LANES])
    }

    /// The sum, pair by pair.
    #[inline(always)]
    pub fn sum(self) -> f64 {
        (self.0[0] + self.0[1]) + (self.0[2] + self.0[3])
    }

    #[inline(always)]
    pub fn max(self, other: Self) -> Self {
        let mut out = self;
        for i in 0..LANES {
            out.0[i] = if self.0[i] > other.0[i] { self.0[i] } else { other.0[i] };
        }
        out
    }

    /// Each number as its bits, changed.
    #[inline(always)]
    fn map_bits(self, change: impl Fn(u64) -> u64) -> Self {
        let mut out = self;
        for i in 0..LANES {
            out.0[i] = f64::from_bits(change(self.0[i].to_bits()));
        }
        out
    }

    /// The natural logarithm of positive normal numbers, to within an ulp or two.
    ///
    /// With x = 2^e · (1 + f), 1 + f between √½ and √2, and s = f / (2 + f), ln(1 + f) = 2 artanh s = f − s · f + s · R, of
    /// which R = 2 · (s²/3 + s⁴/5 + …) is the polynomial of FreeBSD's `e_log.c`.
    #[inline(always)]
    pub fn ln(self) -> Self {
        const MANTISSA: u64 = (1 << 52) - 1;
        const ONE: u64 = 1023 << 52;
        /// The bits of √½.
        const LOW: u64 = 0x3fe6_a09e_667f_3bcd;
        /// The bits of 2^52, to whose last places an exponent is added, and that number as it then reads for e = 0.
        const EXPONENT_BITS: u64 = 0x4330_0000_0000_0000;
        const EXPONENT_ZERO: f64 = 4_503_599_627_370_496.0 + 1023.0;
        const ODD: [f64; 4] =
            [6.666_666_666_666_735e-1, 2.857_142_874_366_239e-1, 1.818_357_216_161_805e-1, 1.479_819_860_511_658_6e-1];
        const EVEN: [f64; 3] = [3.999_999_999_940_942e-1, 2.222_219_843_214_978_4e-1, 1.531_383_769_920_937_3e-1];
        let bits = self.map_bits(|bits| bits.wrapping_add(ONE - LOW));
        let exponent = bits.map_bits(|bits| (bits >> 52) | EXPONENT_BITS) - Self::all(EXPONENT_ZERO);
        let f = bits.map_bits(|bits| (bits & MANTISSA) + LOW) - Self::all(1.0);
        let s = f / (Self::all(2.0) + f);
        let square = s * s;
        let fourth = square * square;
        let odd = (Self::all(ODD[3]) * fourth + Self::all(ODD[2])) * fourth + Self::all(ODD[1]);
        let even = (Self::all(EVEN[2]) * fourth + Self::all(EVEN[1])) * fourth + Self::all(EVEN[0]);
        let rest = (odd * fourth + Self::all(ODD[0])) * square + even * fourth;
        let half = Self::all(0.5) * f * f;
        exponent * Self::all(std::f64::consts::LN_2) + (f - (half - s * (half + rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn logarithms_are_accurate(exponent in -1000.0_f64..1000.0, near in -0.5_f64..0.5) {
            for x in [exponent.exp2(), 1.0 + near, 1.0 + 1e-9 * near] {
                let (result, expected) = (Lanes([x; LANES]).ln().0[0], x.ln());
                prop_assert!((result - expected).abs() <= 4.0 * f64::EPSILON * expected.abs(), "ln {x}: {result}");
            }
        }
    }

    #[test]
    fn each_lane_is_on_its_own() {
        let x = Lanes([1.0, 2.0, 4.0, 0.5]);
        assert_eq!(x.ln().0, [1.0_f64, 2.0, 4.0, 0.5].map(f64::ln));
        assert_eq!(x.max(Lanes::all(1.5)).0, [1.5, 2.0, 4.0, 1.5]);
        assert_eq!((x * x - x / x).sum(), 17.25);
    }
}
