//! The extrapolation of SQUAREM (Varadhan & Roland 2008): how far to go beyond two steps of a fixed-point iteration.
//!
//! From three iterates x0, x1 and x2 with r = x1 − x0 and v = (x2 − x1) − r, the next one is x0 + 2s·r + s²·v with step
//! s = ‖r‖ / ‖v‖, at least 1 (s = 1 gives x2 itself).

use rayon::prelude::*;

use crate::Result;
use crate::base::memory::par_collected;

/// Numbers per block in the sums over a point: fixed, so that they are the same on any number of threads.
const BLOCK: usize = 1 << 14;

/// How long extrapolations may be: longer after one that was cut short, shorter after one that was rejected.
#[derive(Debug)]
pub(crate) struct Reach(f64);

impl Default for Reach {
    fn default() -> Self {
        Self(4.0)
    }
}

impl Reach {
    /// Takes note of an extrapolation that lowered the objective.
    pub fn refused(&mut self) {
        self.0 = f64::max(1.0, self.0 / 4.0);
    }

    /// The step of the extrapolation from three iterates; none where it would not go beyond the last of them.
    pub fn step(&mut self, zero: &[f64], one: &[f64], two: &[f64]) -> Option<f64> {
        let step = step_length(zero, one, two);
        if !step.is_finite() || step <= 1.0 {
            return None;
        }
        if step > self.0 {
            self.0 *= 4.0;
        }
        Some(step.min(self.0))
    }

    /// The point that an extrapolation from three iterates reaches, where there is one to make.
    pub fn extrapolate(&mut self, [zero, one, two]: [&Vec<f64>; 3]) -> Result<Option<Vec<f64>>> {
        let Some(step) = self.step(zero, one, two) else { return Ok(None) };
        let points = zero.par_iter().zip(one).zip(two);
        par_collected(points.map(|((x0, x1), x2)| extrapolate(step, *x0, *x1, *x2))).map(Some)
    }
}

/// One coordinate of the point that an extrapolation reaches.
#[inline(always)]
pub(crate) fn extrapolate(step: f64, x0: f64, x1: f64, x2: f64) -> f64 {
    let (r, v) = (x1 - x0, x2 - 2.0 * x1 + x0);
    x0 + 2.0 * step * r + step * step * v
}

fn step_length(zero: &[f64], one: &[f64], two: &[f64]) -> f64 {
    let blocks: Vec<(f64, f64)> = zero
        .par_chunks(BLOCK)
        .zip(one.par_chunks(BLOCK))
        .zip(two.par_chunks(BLOCK))
        .map(|((zero, one), two)| {
            zero.iter().zip(one).zip(two).fold((0.0, 0.0), |(rr, vv), ((x0, x1), x2)| {
                let (r, v) = (x1 - x0, x2 - 2.0 * x1 + x0);
                (rr + r * r, vv + v * v)
            })
        })
        .collect();
    let (rr, vv) = blocks.into_iter().fold((0.0, 0.0), |sums, block| (sums.0 + block.0, sums.1 + block.1));
    (rr / vv).sqrt()
}
