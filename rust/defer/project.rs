//! The projection of rows that are all in memory.

use super::dual::{Bounds, Evaluate, Found, Method, solve};
use super::rows::{Rows, Sums, apply, reach, sums};
use crate::Result;
use crate::control::Control;

/// Rows of which a start is found. Their solution is about a hundredth off, and Newton's method doubles its digits.
const SAMPLE: usize = 1 << 14;

/// Projected rows, and how they were found.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// The tilted rows, (rows × options).
    pub values: Vec<f64>,
    /// The tilt.
    pub found: Found,
}

struct InMemory<'a> {
    rows: Rows<'a>,
    control: &'a Control,
    passes: usize,
}

impl Evaluate for InMemory<'_> {
    fn sums(&mut self, tilt: &[f64], second: bool) -> Result<Sums> {
        let sums = sums(&self.rows, tilt, second, self.control)?;
        self.passes += 1;
        self.control.report(self.passes, sums.log);
        Ok(sums)
    }

    fn reach(&mut self, order: &[u32]) -> Result<Vec<f64>> {
        reach(&self.rows, order, self.control)
    }
}

/// The rows nearest to the given ones, in mean Kullback–Leibler divergence from them, whose mean keeps the bounds.
///
/// Large problems start from the solution of a sample of the rows. Time O(rows × options²) a pass, of which there are
/// three or four; memory the result.
pub fn project(rows: &Rows, bounds: &Bounds, method: Method, control: &Control) -> Result<Projection> {
    let mut start = bounds.start();
    if rows.len() >= 8 * SAMPLE {
        let (values, weights) = rows.sample(SAMPLE);
        let rows = Rows::of_checked(&values, rows.options(), weights.as_deref());
        // What a sample makes impossible may be possible.
        if let Ok(found) = solve(bounds, &start, method, &mut InMemory { rows, control, passes: 0 })
            && found.converged()
        {
            start = found.tilt;
        }
    }
    let found = solve(bounds, &start, method, &mut InMemory { rows: *rows, control, passes: 0 })?;
    Ok(Projection { values: apply(rows, &found.tilt, control)?, found })
}
