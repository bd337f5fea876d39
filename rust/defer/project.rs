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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows whose second derivatives come out far too large, so that Newton's method creeps.
    struct Stiff<'a>(InMemory<'a>);

    impl Evaluate for Stiff<'_> {
        fn sums(&mut self, tilt: &[f64], second: bool) -> Result<Sums> {
            let mut sums = self.0.sums(tilt, second)?;
            let k = tilt.len();
            for (cell, value) in sums.second.iter_mut().enumerate() {
                let diagonal = if cell / k == cell % k { sums.shares[cell / k] } else { 0.0 };
                *value = diagonal - 1e6 * (diagonal - *value);
            }
            Ok(sums)
        }

        fn reach(&mut self, order: &[u32]) -> Result<Vec<f64>> {
            self.0.reach(order)
        }
    }

    #[test]
    fn gradients_go_on_where_newton_is_stuck() {
        let values: Vec<f64> = (0..60).map(|i| 1.0 + f64::from(i * 7 % 11)).collect();
        let values: Vec<f64> =
            values.chunks(3).flat_map(|row| row.iter().map(|v| v / row.iter().sum::<f64>())).collect();
        let bounds = Bounds::new(&[0.5, 0.0, 0.2], &[0.6, 0.2, 1.0]).unwrap();
        let control = Control::default();
        let memory = || InMemory { rows: Rows::of_checked(&values, 3, None), control: &control, passes: 0 };
        let expected = solve(&bounds, &bounds.start(), Method::Newton, &mut memory()).unwrap();
        assert_eq!(expected.method, Method::Newton);
        let found = solve(&bounds, &bounds.start(), Method::Newton, &mut Stiff(memory())).unwrap();
        assert_eq!(found.method, Method::Gradient);
        assert!(found.converged());
        for (a, b) in found.shares.iter().zip(&expected.shares) {
            assert!((a - b).abs() < 1e-8, "{a} is not {b}");
        }
    }
}
