//! One step of Newton's method on the numbers of a task or worker.

use rayon::prelude::*;

use crate::Result;
use crate::base::memory::{filled, zeros};
use crate::base::num::{LEVEL, cholesky, cholesky_solve};

/// No step changes a number by more than this.
const LONGEST: f64 = 4.0;
/// A step is halved at most so often before it is given up.
const HALVINGS: usize = 20;

/// What the numbers of a task or worker stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Every cell of a matrix.
    Free,
    /// Sums of cells: for each place between two classes, of all cells with truth below it or not, and label below it
    /// or not.
    Ordinal,
}

impl Shape {
    pub fn new(ordinal: bool) -> Self {
        if ordinal { Self::Ordinal } else { Self::Free }
    }

    pub fn n_numbers(self, k: usize) -> usize {
        match self {
            Self::Free => k * k,
            // One class has no place between classes; its numbers do nothing.
            Self::Ordinal => 4 * (k - 1).max(1),
        }
    }

    /// Which of the numbers of a place a cell adds: `place` classes lie below it.
    #[inline]
    fn part(place: usize, class: usize, label: usize) -> usize {
        4 * (place - 1) + 2 * usize::from(class >= place) + usize::from(label >= place)
    }

    /// Writes the matrix that some numbers stand for.
    fn write(self, numbers: &[f64], k: usize, cells: &mut [f64]) {
        match self {
            Self::Free => cells.copy_from_slice(numbers),
            Self::Ordinal => {
                for (cell, x) in cells.iter_mut().enumerate() {
                    *x = (1..k).map(|place| numbers[Self::part(place, cell / k, cell % k)]).sum();
                }
            }
        }
    }
}

/// All tasks, or all workers.
pub(super) struct Side {
    pub shape: Shape,
    pub k: usize,
    pub penalty: f64,
    /// What is fitted: the numbers of each task or worker.
    pub numbers: Vec<f64>,
    /// Exponentials of the matrices that they stand for.
    pub factors: Vec<f64>,
}

impl Side {
    /// All numbers zero.
    pub fn new(n: usize, k: usize, ordinal: bool, penalty: f64) -> Result<Self> {
        let shape = Shape::new(ordinal);
        let (numbers, factors) = (zeros(n * shape.n_numbers(k))?, filled(1.0, n * k * k)?);
        Ok(Self { shape, k, penalty, numbers, factors })
    }

    /// The factors of one task or worker.
    pub fn of(&self, i: u32) -> &[f64] {
        let cells = self.k * self.k;
        &self.factors[i as usize * cells..(i as usize + 1) * cells]
    }

    /// The matrices themselves.
    pub fn matrices(self) -> Vec<f64> {
        let Self { shape, k, numbers, mut factors, .. } = self;
        if shape == Shape::Free {
            return numbers;
        }
        let blocks = factors.par_chunks_mut(k * k).zip(numbers.par_chunks(shape.n_numbers(k)));
        blocks.for_each(|(cells, numbers)| shape.write(numbers, k, cells));
        factors
    }
}

/// Writes the probabilities of the labels of a task of a class, and returns that of `label`.
#[inline]
pub(super) fn chances(own: &[f64], other: &[f64], class: usize, label: usize, out: &mut [f64]) -> f64 {
    let row = class * out.len()..(class + 1) * out.len();
    let mut total = 0.0;
    for (p, (a, b)) in out.iter_mut().zip(own[row.clone()].iter().zip(&other[row])) {
        *p = a * b;
        total += *p;
    }
    out.iter_mut().for_each(|p| *p /= total);
    out[label]
}

/// Moves the numbers of one task or worker uphill; everything that takes.
pub(super) struct Climber {
    shape: Shape,
    k: usize,
    penalty: f64,
    /// Slope of the log-likelihood in each cell.
    slope: Vec<f64>,
    /// How it curves down, (classes × labels × labels), lower triangles.
    curvature: Vec<f64>,
    /// The same in the numbers, where these are not the cells.
    curve: Vec<f64>,
    step: Vec<f64>,
    numbers: Vec<f64>,
    factors: Vec<f64>,
    chances: Vec<f64>,
}

impl Climber {
    pub fn new(shape: Shape, k: usize, penalty: f64) -> Result<Self> {
        let n = shape.n_numbers(k);
        Ok(Self {
            shape,
            k,
            penalty,
            slope: zeros(k * k)?,
            curvature: zeros(k * k * k)?,
            curve: zeros(if shape == Shape::Free { 0 } else { n * n })?,
            step: zeros(n)?,
            numbers: zeros(n)?,
            factors: zeros(k * k)?,
            chances: zeros(k)?,
        })
    }

    /// Forgets the labels added.
    pub fn forget(&mut self) {
        self.slope.fill(0.0);
        self.curvature.fill(0.0);
    }

    /// Adds a label on a task that is of some class with so much weight.
    pub fn add(&mut self, own: &[f64], other: &[f64], class: usize, label: usize, weight: f64) {
        let k = self.k;
        chances(own, other, class, label, &mut self.chances);
        let slope = &mut self.slope[class * k..(class + 1) * k];
        let curvature = &mut self.curvature[class * k * k..(class + 1) * k * k];
        slope[label] += weight;
        for (l, p) in self.chances.iter().enumerate() {
            let mass = weight * p;
            slope[l] -= mass;
            let row = &mut curvature[l * k..=l * k + l];
            row.iter_mut().zip(&self.chances).for_each(|(b, q)| *b -= mass * q);
            row[l] += mass;
        }
    }

    /// What the penalty takes.
    pub fn charge(&self, numbers: &[f64]) -> f64 {
        0.5 * self.penalty * numbers.iter().map(|x| x * x).sum::<f64>()
    }

    /// The step of Newton's method, no longer than [`LONGEST`] in any number.
    fn aim(&mut self, numbers: &[f64]) {
        let k = self.k;
        self.step.iter_mut().zip(numbers).for_each(|(s, x)| *s = -self.penalty * x);
        let solved = match self.shape {
            Shape::Free => {
                self.step.iter_mut().zip(&self.slope).for_each(|(s, g)| *s += g);
                let mut blocks = self.curvature.chunks_exact_mut(k * k).zip(self.step.chunks_exact_mut(k));
                blocks.all(|(curvature, step)| newton(curvature, self.penalty, step))
            }
            Shape::Ordinal => {
                for (cell, g) in self.slope.iter().enumerate() {
                    (1..k).for_each(|place| self.step[Shape::part(place, cell / k, cell % k)] += g);
                }
                self.fold_curvature();
                newton(&mut self.curve, self.penalty, &mut self.step)
            }
        };
        let longest = self.step.iter().fold(0.0_f64, |most, s| most.max(s.abs()));
        if !solved || !longest.is_finite() {
            // Rounding made the matrix useless: no step is better than any.
            self.step.fill(0.0);
        } else if longest > LONGEST {
            self.step.iter_mut().for_each(|s| *s *= LONGEST / longest);
        }
    }

    /// Turns the curvature in the cells into that in the numbers: a cell is a sum of one number for each place.
    fn fold_curvature(&mut self) {
        let (k, n) = (self.k, self.step.len());
        let mut half = vec![0.0; n];
        self.curve.fill(0.0);
        for class in 0..k {
            let curvature = &self.curvature[class * k * k..(class + 1) * k * k];
            for l in 0..k {
                half.fill(0.0);
                for m in 0..k {
                    let b = curvature[l.max(m) * k + l.min(m)];
                    (1..k).for_each(|place| half[Shape::part(place, class, m)] += b);
                }
                for place in 1..k {
                    let row = Shape::part(place, class, l) * n;
                    self.curve[row..row + n].iter_mut().zip(&half).for_each(|(c, h)| *c += h);
                }
            }
        }
    }

    /// Takes a step that does not lower the value, where there is one; returns the value there and the step's length.
    ///
    /// `evaluate` was last called with the factors that are kept.
    pub fn ascend(
        &mut self,
        numbers: &mut [f64],
        factors: &mut [f64],
        from: f64,
        mut evaluate: impl FnMut(&[f64]) -> Result<f64>,
    ) -> Result<(f64, f64)> {
        self.aim(numbers);
        let least = from - LEVEL * from.abs();
        for _ in 0..HALVINGS {
            for (to, (x, s)) in self.numbers.iter_mut().zip(numbers.iter().zip(&self.step)) {
                *to = x + s;
            }
            self.shape.write(&self.numbers, self.k, &mut self.factors);
            self.factors.iter_mut().for_each(|x| *x = x.exp());
            let value = evaluate(&self.factors)? - self.charge(&self.numbers);
            if value >= least {
                numbers.copy_from_slice(&self.numbers);
                factors.copy_from_slice(&self.factors);
                return Ok((value, self.step.iter().fold(0.0, |most, s| most.max(s.abs()))));
            }
            self.step.iter_mut().for_each(|s| *s /= 2.0);
        }
        evaluate(factors)?;
        Ok((from, 0.0))
    }
}

/// Solves (curvature + penalty · I) x = right in place, and returns whether that was possible.
fn newton(curvature: &mut [f64], penalty: f64, right: &mut [f64]) -> bool {
    let solved = cholesky(curvature, penalty, right.len());
    if solved {
        cholesky_solve(curvature, right, right.len(), 1);
    }
    solved
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn folding_the_curvature_is_a_congruence(
            k in 2_usize..5, cells in prop::collection::vec(-1.0_f64..1.0, 64),
        ) {
            let mut climber = Climber::new(Shape::Ordinal, k, 1.0).unwrap();
            climber.curvature.copy_from_slice(&cells[..k * k * k]);
            climber.fold_curvature();
            let n = 4 * (k - 1);
            let basis = |i: usize| -> Vec<f64> {
                let mut out = vec![0.0; k * k];
                Shape::Ordinal.write(&(0..n).map(|j| f64::from(u8::from(i == j))).collect::<Vec<_>>(), k, &mut out);
                out
            };
            for (i, j) in (0..n * n).map(|ij| (ij / n, ij % n)) {
                let (a, b) = (basis(i), basis(j));
                let mut expected = 0.0;
                for (c, l, m) in (0..k * k * k).map(|at| (at / (k * k), at / k % k, at % k)) {
                    let second = cells[c * k * k + l.max(m) * k + l.min(m)];
                    expected += a[c * k + l] * second * b[c * k + m];
                }
                prop_assert!((climber.curve[i * n + j] - expected).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn an_ordinal_cell_is_a_sum_over_places() {
        let mut cells = [0.0; 9];
        Shape::Ordinal.write(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0], 3, &mut cells);
        assert_eq!(cells, [17.0, 18.0, 34.0, 20.0, 24.0, 40.0, 68.0, 72.0, 136.0]);
    }
}
