//! Successive projection: the vertices of a set of points.

use rayon::prelude::*;

use super::{finite, sized};
use crate::base::control::Control;
use crate::base::memory::{collected, zeros};
use crate::{Error, Result};

/// Residual norms within this share of the largest count as tied.
const TIE: f64 = 1e-12;

/// Residual norms below this share of the largest norm of a point are rounding, and count as zero.
const ROUNDING: f64 = 1e-14;

/// Numbers per job.
const BLOCK: usize = 1 << 14;

/// Picks `n_pick` of the points, rows of `dim` numbers; returns which, and the norm of each one's residual.
///
/// Each pick is the point farthest from the span of those before it (Araújo et al. 2001; Gillis & Vavasis 2014). Where the
/// points are convex combinations of `n_pick` linearly independent ones among them, exactly those are picked. The lowest
/// index wins a tie, no point is picked twice, and a point that lies in the span to rounding has residual 0. Time O(points ·
/// dim · picks), memory that of a copy of the points.
pub fn spa(points: &[f64], dim: usize, n_pick: usize, control: &Control) -> Result<(Vec<u32>, Vec<f64>)> {
    let n = points.len().checked_div(dim).unwrap_or(0);
    sized("points", points.len(), n * dim)?;
    finite("points", points)?;
    if n_pick > n || n > u32::MAX as usize {
        return Err(Error::invalid(format!("{n_pick} of {n} points cannot be picked; ask for at most {n}")));
    }
    let largest = points.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
    // To numbers near one, so that squares neither overflow nor vanish.
    let scale = if largest > 0.0 { largest } else { 1.0 };
    let mut residual: Vec<f64> = collected(points.iter().map(|x| x / scale))?;
    let mut length = zeros(n)?;
    let mut direction = vec![0.0; dim];
    let mut rounding = 0.0;
    let (mut picks, mut lengths) = (Vec::with_capacity(n_pick), Vec::with_capacity(n_pick));
    for i in 0..n_pick {
        remove(&mut residual, &mut length, &direction, control)?;
        picks.iter().for_each(|&p: &u32| length[p as usize] = -1.0);
        let most = length.iter().copied().fold(0.0, f64::max);
        if i == 0 {
            rounding = ROUNDING * most;
        }
        let limit = if most > rounding { most * (1.0 - TIE) } else { 0.0 };
        // There is one: at least the longest, and points that are left have lengths of at least 0.
        let pick = length.iter().position(|&x| x >= limit).unwrap_or(0);
        let norm = if length[pick] > rounding { length[pick] } else { 0.0 };
        let share = if norm > 0.0 { 1.0 / norm } else { 0.0 };
        direction.iter_mut().zip(&residual[pick * dim..]).for_each(|(to, x)| *to = x * share);
        picks.push(pick as u32);
        lengths.push(norm * scale);
    }
    Ok((picks, lengths))
}

/// Takes the component along a unit vector (or the zero vector) out of every row, and writes the norms of the rest.
fn remove(rows: &mut [f64], length: &mut [f64], direction: &[f64], control: &Control) -> Result<()> {
    let dim = direction.len();
    if dim == 0 {
        return Ok(());
    }
    let per_job = (BLOCK / dim).max(1);
    rows.par_chunks_mut(per_job * dim).zip(length.par_chunks_mut(per_job)).try_for_each(|(rows, length)| {
        control.check()?;
        for (row, length) in rows.chunks_exact_mut(dim).zip(length) {
            let along: f64 = row.iter().zip(direction).map(|(x, u)| x * u).sum();
            row.iter_mut().zip(direction).for_each(|(x, u)| *x -= along * u);
            *length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_vertices() {
        // The second and fourth points are mixtures of the others.
        let points = [3.0, 0.0, 0.0, 1.5, 1.0, 0.0, 0.0, 2.0, 0.0, 1.0, 0.6, 0.4, 0.0, 0.0, 1.0];
        let (picks, lengths) = spa(&points, 3, 4, &Control::default()).unwrap();
        assert_eq!(picks, [0, 2, 4, 1]);
        assert_eq!(lengths, [3.0, 2.0, 1.0, 0.0]);
    }

    #[test]
    fn odd_points() {
        let control = Control::default();
        assert_eq!(spa(&[0.0; 4], 2, 2, &control).unwrap(), (vec![0, 1], vec![0.0, 0.0]));
        assert_eq!(spa(&[], 0, 0, &control).unwrap(), (vec![], vec![]));
        assert_eq!(spa(&[1e200, 1e200], 1, 1, &control).unwrap(), (vec![0], vec![1e200]));
        assert!(spa(&[1.0, 2.0, 3.0], 2, 1, &control).is_err());
        assert!(spa(&[1.0, 2.0], 2, 2, &control).is_err());
        assert!(spa(&[1.0, f64::NAN], 2, 1, &control).is_err());
    }
}
