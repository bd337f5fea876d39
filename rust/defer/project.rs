//! The projection of rows that are all in memory.

use super::dual::{Bounds, Evaluate, Found, Method, solve};
use super::rows::{Rows, Sums, apply, reach, sums};
use crate::Result;
use crate::base::control::Control;

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
    let solution = solve(bounds, &start, method, &mut InMemory { rows: *rows, control, passes: 0 })?;
    Ok(Projection { values: apply(rows, &solution.tilt, control)?, found: solution })
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

    /// Rows whose second derivatives are NaN.
    struct Broken<'a>(InMemory<'a>);

    impl Evaluate for Broken<'_> {
        fn sums(&mut self, tilt: &[f64], second: bool) -> Result<Sums> {
            let mut sums = self.0.sums(tilt, second)?;
            sums.second.fill(f64::NAN);
            Ok(sums)
        }

        fn reach(&mut self, order: &[u32]) -> Result<Vec<f64>> {
            self.0.reach(order)
        }
    }

    fn three_options() -> Vec<f64> {
        let values: Vec<f64> = (0..60).map(|i| 1.0 + f64::from(i * 7 % 11)).collect();
        values.chunks(3).flat_map(|row| row.iter().map(|v| v / row.iter().sum::<f64>())).collect()
    }

    #[test]
    fn gradients_go_on_where_second_derivatives_are_no_numbers() {
        let (values, control) = (three_options(), Control::default());
        let bounds = Bounds::new(&[0.5, 0.0, 0.2], &[0.6, 0.2, 1.0]).unwrap();
        let rows = InMemory { rows: Rows::of_checked(&values, 3, None), control: &control, passes: 0 };
        let result = solve(&bounds, &bounds.start(), Method::Newton, &mut Broken(rows)).unwrap();
        assert!(result.method == Method::Gradient && result.converged());
    }

    #[test]
    fn two_options_are_tilted_by_the_root_of_their_share() {
        let (control, n) = (Control::default(), 50);
        let first = |i: usize| 0.05 + 0.9 * (i * 13 % n) as f64 / n as f64;
        let values: Vec<f64> = (0..n).flat_map(|i| [first(i), 1.0 - first(i)]).collect();
        let share =
            |t: f64| (0..n).map(|i| first(i) * t.exp() / (first(i) * t.exp() + 1.0 - first(i))).sum::<f64>() / n as f64;
        let (mut low, mut high) = (0.0, 20.0);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if share(middle) < 0.7 { low = middle } else { high = middle }
        }
        let rows = Rows::new(&values, 2, None, 0, &control).unwrap();
        for method in [Method::Newton, Method::Gradient] {
            // Both bounds agree.
            for (lower, upper) in [([0.7, 0.0], [1.0, 1.0]), ([0.0, 0.0], [1.0, 0.3])] {
                let bounds = Bounds::new(&lower, &upper).unwrap();
                let Projection { values: tilted, found } = project(&rows, &bounds, method, &control).unwrap();
                assert!((found.tilt[0] - found.tilt[1] - low).abs() < 1e-6, "{:?}, not {low}", found.tilt);
                assert!((found.shares[0] - 0.7).abs() < 1e-9);
                let kl: f64 = tilted.iter().zip(&values).map(|(p, q)| p * (p / q).ln()).sum::<f64>() / n as f64;
                assert!((found.kl - kl).abs() < 1e-9, "{} is not {kl}", found.kl);
            }
        }
        // Bounds that are kept anyway change nothing.
        let loose = Bounds::new(&[0.1, 0.1], &[0.9, 0.9]).unwrap();
        let result = project(&rows, &loose, Method::Newton, &control).unwrap();
        assert!(result.values.iter().zip(&values).all(|(p, q)| (p - q).abs() < 1e-12) && result.found.kl < 1e-12);
    }

    #[test]
    fn a_sample_saves_large_problems_passes() {
        let (control, n) = (Control::default(), 8 * SAMPLE);
        let values: Vec<f64> =
            (0..n).map(|i| 0.01 + 0.98 * (i * 7919 % 10_007) as f64 / 10_007.0).flat_map(|p| [p, 1.0 - p]).collect();
        let rows = Rows::of_checked(&values, 2, None);
        let bounds = Bounds::new(&[0.9, 0.0], &[1.0, 1.0]).unwrap();
        let cold =
            solve(&bounds, &bounds.start(), Method::Newton, &mut InMemory { rows, control: &control, passes: 0 });
        let warm = project(&rows, &bounds, Method::Newton, &control).unwrap().found;
        assert!(warm.n_iter < cold.as_ref().unwrap().n_iter, "{} and {:?} passes", warm.n_iter, cold);
        assert!((warm.shares[0] - 0.9).abs() < 1e-9);
    }

    #[test]
    fn gradients_go_on_where_newton_is_stuck() {
        let (values, control) = (three_options(), Control::default());
        let bounds = Bounds::new(&[0.5, 0.0, 0.2], &[0.6, 0.2, 1.0]).unwrap();
        let memory = || InMemory { rows: Rows::of_checked(&values, 3, None), control: &control, passes: 0 };
        let expected = solve(&bounds, &bounds.start(), Method::Newton, &mut memory()).unwrap();
        assert_eq!(expected.method, Method::Newton);
        let result = solve(&bounds, &bounds.start(), Method::Newton, &mut Stiff(memory())).unwrap();
        assert_eq!(result.method, Method::Gradient);
        assert!(result.converged());
        for (a, b) in result.shares.iter().zip(&expected.shares) {
            assert!((a - b).abs() < 1e-8, "{a} is not {b}");
        }
    }
}
