//! Rows on the probability simplex: projection, and least squares.

use rayon::prelude::*;

use super::{finite, sized};
use crate::Result;
use crate::base::control::Control;
use crate::base::memory::zeros;

/// Replaces a row of finite numbers by the nearest point of the simplex, in Euclidean distance; for numbers that are
/// not finite it ends soon, with a row that is not a point of the simplex.
///
/// Michelot's method: repeatedly shift the positive entries to sum to one and drop those that fall below zero. O(k)
/// time for most rows, O(k²) at worst.
#[inline]
pub(crate) fn project(row: &mut [f64]) {
    // Entries one or more below the largest end at zero; that also keeps sums of huge numbers exact.
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.iter_mut().for_each(|x| *x -= largest);
    let mut shift = f64::NEG_INFINITY;
    let mut next = -1.0;
    // Shifts rise, and each drops an entry; what is not a number compares as no rise.
    while next > shift {
        shift = next;
        let (mut sum, mut count) = (0.0, 0.0);
        for &x in row.iter() {
            // Adding zeros instead of branching: which entries stay is hard to predict.
            let stays = x > shift;
            sum += if stays { x } else { 0.0 };
            count += if stays { 1.0 } else { 0.0 };
        }
        next = (sum - 1.0) / count;
    }
    row.iter_mut().for_each(|x| *x = (*x - shift).max(0.0));
}

/// A pivot below this share of the largest column means that the columns are affinely dependent.
const DEPENDENT: f64 = 1e-10;

/// The ridge under affinely dependent columns, as a share of the largest.
///
/// Its square bounds what it costs in the objective (1e-12); rounding over its square bounds the error along directions
/// in which only the ridge decides (1e-4).
const RIDGE: f64 = 1e-6;

/// Gradients within this share of the largest possible count as equal.
const FLAT: f64 = 1e-13;

/// Targets farther off than this many times the design's largest entry are drawn in, so that rounding hide the simplex.
///
/// From there only the target's direction counts, but for corners that differ by less than 1e-8 along it.
const FAR: f64 = 1e8;

/// Targets per job.
const TARGETS: usize = 16;

/// For each target, a row of `dim` numbers, the point `x` of the simplex that minimizes ‖design · x − target‖².
///
/// The design is (`dim` × `k`). The active-set method on an orthogonal factorization of the design, updated by
/// rotations: no normal equations are formed, so the answer is as accurate as the data allow. Where the columns of the
/// design are affinely dependent the minimizer is not unique; a ridge of 1e-6 of the largest column then picks, to
/// about 1e-4, the one of least norm. Time O(targets · k · (dim + k · changes of the active set)), memory O(dim · k +
/// targets · k).
pub fn simplex_lstsq(design: &[f64], k: usize, targets: &[f64], dim: usize, control: &Control) -> Result<Vec<f64>> {
    sized("design", design.len(), dim * k)?;
    let n = targets.len().checked_div(dim).unwrap_or(0);
    sized("targets", targets.len(), n * dim)?;
    finite("design", design)?;
    finite("targets", targets)?;
    let mut out = zeros(n * k)?;
    if out.is_empty() {
        return Ok(out);
    }
    let design = Design::new(design, k, dim);
    out.par_chunks_mut(TARGETS * k).zip(targets.par_chunks(TARGETS * dim)).try_for_each_init(
        || Solver::new(k, dim),
        |solver, (rows, targets)| {
            control.check()?;
            for (row, target) in rows.chunks_exact_mut(k).zip(targets.chunks_exact(dim)) {
                solver.load(&design, target);
                solver.solve();
                row.copy_from_slice(&solver.x);
            }
            Ok(())
        },
    )?;
    Ok(out)
}

/// An orthogonal factorization of the design with one row added, equal in all columns.
///
/// The row changes nothing where the entries of `x` sum to one, but makes the columns independent wherever they are
/// affinely so: just when the minimizer is unique.
struct Design {
    scale: f64,
    /// The length of the longest column, and the entry of the row that was added.
    weight: f64,
    /// The orthonormal columns, one after the other.
    q: Vec<f64>,
    /// The triangle, (k × k).
    r: Vec<f64>,
}

impl Design {
    fn new(design: &[f64], k: usize, dim: usize) -> Self {
        let largest = design.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
        let scale = if largest > 0.0 { largest } else { 1.0 };
        let column = |j: usize| (0..dim).map(move |i| design[i * k + j] / scale);
        let longest = (0..k).map(|j| column(j).map(|x| x * x).sum::<f64>()).fold(0.0, f64::max).sqrt();
        let weight = if longest > 0.0 { longest } else { 1.0 };
        let mut columns: Vec<Vec<f64>> = (0..k).map(|j| column(j).chain([weight]).collect()).collect();
        let (q, r) = orthogonalise(&columns, DEPENDENT * weight).unwrap_or_else(|| {
            for (j, column) in columns.iter_mut().enumerate() {
                column.extend((0..k).map(|i| if i == j { RIDGE * weight } else { 0.0 }));
            }
            // A threshold of zero is always passed.
            orthogonalise(&columns, 0.0).unwrap_or_default()
        });
        Self { scale, weight, q, r }
    }
}

/// Gram–Schmidt, twice over: orthonormal columns and the triangle; nothing where a pivot is below `least`.
fn orthogonalise(columns: &[Vec<f64>], least: f64) -> Option<(Vec<f64>, Vec<f64>)> {
    let (k, height) = (columns.len(), columns.first().map_or(0, Vec::len));
    let mut q: Vec<f64> = Vec::with_capacity(k * height);
    let mut r = vec![0.0; k * k];
    for (j, column) in columns.iter().enumerate() {
        let mut rest = column.clone();
        for _ in 0..2 {
            for (i, unit) in q.chunks_exact(height).enumerate() {
                let along = dot(unit, &rest);
                rest.iter_mut().zip(unit).for_each(|(x, u)| *x -= along * u);
                r[i * k + j] += along;
            }
        }
        let pivot = dot(&rest, &rest).sqrt();
        if pivot < least {
            return None;
        }
        r[j * k + j] = pivot;
        q.extend(rest.iter().map(|x| x / pivot));
    }
    Some((q, r))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The active-set method for one target, and its scratch.
struct Solver {
    k: usize,
    /// The design's columns and, last, the target, in an orthonormal basis that turns with the set of free entries: the
    /// columns of free entries form a triangle. (k × (k + 1)).
    w: Vec<f64>,
    target: Vec<f64>,
    /// Entries that are not held at zero, in the order of the triangle's columns.
    free: Vec<usize>,
    x: Vec<f64>,
    /// The minimizer over the free entries without regard to sign, and the solution of a transposed triangle.
    z: Vec<f64>,
    u: Vec<f64>,
    tolerance: f64,
}

impl Solver {
    fn new(k: usize, dim: usize) -> Self {
        Self {
            k,
            w: vec![0.0; k * (k + 1)],
            target: vec![0.0; dim + 1],
            free: Vec::with_capacity(k),
            x: vec![0.0; k],
            z: vec![0.0; k],
            u: vec![0.0; k],
            tolerance: 0.0,
        }
    }

    /// Starts at the center of the simplex with all entries free.
    fn load(&mut self, design: &Design, target: &[f64]) {
        let k = self.k;
        let largest = target.iter().fold(0.0, |a: f64, x| a.max((x / design.scale).abs()));
        let shrink = if largest > FAR { FAR / largest } else { 1.0 };
        self.target.iter_mut().zip(target).for_each(|(to, x)| *to = x / design.scale * shrink);
        self.target[target.len()] = design.weight;
        let height = design.q.len() / k;
        for (i, row) in self.w.chunks_exact_mut(k + 1).enumerate() {
            row[..k].copy_from_slice(&design.r[i * k..(i + 1) * k]);
            row[k] = dot(&design.q[i * height..(i + 1) * height], &self.target);
        }
        let length = dot(&self.target, &self.target).sqrt();
        self.tolerance = FLAT * design.weight * (design.weight + length);
        self.free.clear();
        self.free.extend(0..k);
        self.x.fill(1.0 / k as f64);
    }

    fn solve(&mut self) {
        let mut added = None;
        // Far more changes than any problem has needed; each leaves a point of the simplex that is no worse.
        for _ in 0..20 * (self.k + 1) {
            let slope = self.minimise();
            if self.advance() {
                added = self.steepest(slope);
                let Some(j) = added else { break };
                self.release(j);
            } else if added.is_some_and(|j| !self.free.contains(&j)) {
                // The entry just freed would turn negative: its gradient was rounding.
                break;
            }
        }
        let total: f64 = self.x.iter().sum();
        self.x.iter_mut().for_each(|x| *x /= total);
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.w[row * (self.k + 1) + column]
    }

    /// Writes the minimizer over the free entries, summing to one, to `z`; returns the gradient common to them.
    fn minimise(&mut self) -> f64 {
        let (k, n) = (self.k, self.free.len());
        for i in 0..n {
            let partial: f64 = (0..i).map(|h| self.at(h, self.free[i]) * self.u[h]).sum();
            self.u[i] = (1.0 - partial) / self.at(i, self.free[i]);
        }
        let short = 1.0 - (0..n).map(|i| self.u[i] * self.at(i, k)).sum::<f64>();
        let slope = short / dot(&self.u[..n], &self.u[..n]);
        for i in (0..n).rev() {
            let partial: f64 = (i + 1..n).map(|h| self.at(i, self.free[h]) * self.z[h]).sum();
            self.z[i] = (self.at(i, k) + slope * self.u[i] - partial) / self.at(i, self.free[i]);
        }
        if n == 1 {
            self.z[0] = 1.0;
        }
        slope
    }

    /// Moves `x` to `z`, or as far towards it as the simplex allows; returns whether it arrived.
    fn advance(&mut self) -> bool {
        let mut share = 1.0;
        for (&j, &z) in self.free.iter().zip(&self.z) {
            if z < 0.0 {
                share = f64::min(share, self.x[j] / (self.x[j] - z));
            }
        }
        let arrived = self.free.iter().zip(&self.z).all(|(_, &z)| z >= 0.0);
        for at in (0..self.free.len()).rev() {
            let (j, z) = (self.free[at], self.z[at]);
            if arrived {
                self.x[j] = z;
                continue;
            }
            let stops = z < 0.0 && self.x[j] / (self.x[j] - z) <= share;
            self.x[j] = if stops { 0.0 } else { (self.x[j] + share * (z - self.x[j])).max(0.0) };
            if stops && self.free.len() > 1 {
                self.hold(at);
            }
        }
        arrived
    }

    /// The held entry whose gradient lies farthest below that of the free ones.
    fn steepest(&self, slope: f64) -> Option<usize> {
        let (k, n) = (self.k, self.free.len());
        let gradient = |j: usize| {
            let inside: f64 = (0..n).map(|i| self.at(i, j) * self.u[i]).sum();
            let outside: f64 = (n..k).map(|i| self.at(i, j) * self.at(i, k)).sum();
            slope * inside - outside
        };
        (0..k)
            .filter(|j| !self.free.contains(j))
            .map(|j| (gradient(j), j))
            .filter(|(g, _)| *g < slope - self.tolerance)
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, j)| j)
    }

    /// Holds the free entry at position `at` at zero.
    fn hold(&mut self, at: usize) {
        self.free.remove(at);
        for i in at..self.free.len() {
            self.rotate(i, i + 1, self.free[i]);
        }
    }

    /// Frees entry `j`.
    fn release(&mut self, j: usize) {
        let n = self.free.len();
        for i in n + 1..self.k {
            self.rotate(n, i, j);
        }
        self.free.push(j);
    }

    /// Rotates two rows so that the lower one's entry in `column` becomes zero.
    fn rotate(&mut self, upper: usize, lower: usize, column: usize) {
        let (a, b) = (self.at(upper, column), self.at(lower, column));
        let length = a.hypot(b);
        if b == 0.0 || length == 0.0 {
            return;
        }
        let (cosine, sine) = (a / length, b / length);
        let width = self.k + 1;
        let (above, below) = self.w.split_at_mut(lower * width);
        let above = &mut above[upper * width..(upper + 1) * width];
        for (x, y) in above.iter_mut().zip(&mut below[..width]) {
            (*x, *y) = (cosine * *x + sine * *y, cosine * *y - sine * *x);
        }
        below[column] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CLOSE: f64 = 1e-10;
    const CLOSE_WITH_RIDGE: f64 = 1e-3;

    fn gradients(design: &[f64], k: usize, target: &[f64], x: &[f64]) -> Vec<f64> {
        let residual: Vec<f64> = design.chunks_exact(k).zip(target).map(|(row, b)| dot(row, x) - b).collect();
        (0..k).map(|j| design.chunks_exact(k).zip(&residual).map(|(row, r)| row[j] * r).sum()).collect()
    }

    proptest! {
        #[test]
        fn projections_are_nearest(k in 1_usize..7, numbers in prop::collection::vec(-2.0_f64..2.0, 7)) {
            let row = &numbers[..k];
            let mut x = row.to_vec();
            project(&mut x);
            prop_assert!((x.iter().sum::<f64>() - 1.0).abs() < CLOSE);
            // All positive entries lie below their numbers by the same amount, and no number at zero lies higher.
            let shifts: Vec<f64> = x.iter().zip(row).map(|(x, y)| y - x).collect();
            let shift = x.iter().zip(&shifts).find(|(x, _)| **x > 0.0).map(|(_, s)| *s).unwrap();
            for (x, s) in x.iter().zip(&shifts) {
                let holds = if *x > 0.0 { (s - shift).abs() < CLOSE } else { *x == 0.0 && *s <= shift + CLOSE };
                prop_assert!(holds, "{x} from {row:?}");
            }
        }

        #[test]
        fn least_squares_meet_their_conditions(
            k in 1_usize..8,
            dim in 1_usize..9,
            numbers in prop::collection::vec(-1.0_f64..1.0, 72),
        ) {
            let (design, target) = (&numbers[..dim * k], &numbers[63..63 + dim]);
            let x = simplex_lstsq(design, k, target, dim, &Control::default()).unwrap();
            prop_assert!((x.iter().sum::<f64>() - 1.0).abs() < CLOSE && x.iter().all(|x| *x >= 0.0));
            let gradient = gradients(design, k, target, &x);
            let least = gradient.iter().copied().fold(f64::INFINITY, f64::min);
            for (x, g) in x.iter().zip(&gradient) {
                prop_assert!(*x < CLOSE || *g < least + CLOSE, "{x} at slope {}", g - least);
            }
        }
    }

    #[test]
    fn rows_that_hold_no_numbers_end_too() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for mut row in [[bad, 0.0, 1.0], [bad; 3], [1.0, bad, -bad]] {
                project(&mut row);
            }
        }
        let mut row = [1e300, -1e300, 1e300];
        project(&mut row);
        assert_eq!(row, [0.5, 0.0, 0.5]);
    }

    #[test]
    fn odd_designs() {
        let control = Control::default();
        assert_eq!(simplex_lstsq(&[5.0], 1, &[1.0, 2.0], 1, &control).unwrap(), [1.0, 1.0]);
        let equal = simplex_lstsq(&[1.0, 1.0, 1.0, 1.0], 2, &[0.0, 3.0], 2, &control).unwrap();
        assert!(equal.iter().all(|x| (x - 0.5).abs() < CLOSE_WITH_RIDGE));
        let zero = simplex_lstsq(&[0.0; 6], 3, &[1.0, 1.0], 2, &control).unwrap();
        assert!(zero.iter().all(|x| (x - 1.0 / 3.0).abs() < CLOSE_WITH_RIDGE));
        let far = simplex_lstsq(&[1.0, 0.0, 0.0, 1.0], 2, &[-1e300, 1e300], 2, &control).unwrap();
        assert_eq!(far, [0.0, 1.0]);
        assert!(simplex_lstsq(&[1.0, 0.0], 1, &[1.0], 1, &control).is_err());
    }
}
