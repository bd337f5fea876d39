//! One-to-one assignment: which column goes with which row.

use crate::base::control::Control;
use crate::{Error, Result};

/// Scores beyond this are scaled down, so that no sum of them overflows.
const LARGE: f64 = 1e100;

/// The permutation that maximizes the sum of `score[row, permutation[row]]` over the rows of a (`k` × `k`) matrix.
///
/// Shortest augmenting paths with potentials (the Hungarian method; Kuhn 1955, Jonker & Volgenant 1987): O(k³) time,
/// O(k) memory beyond the scores. Where several permutations are best, one of them is returned, always the same.
pub fn assignment(score: &[f64], k: usize, control: &Control) -> Result<Vec<u32>> {
    if score.len() != k * k {
        return Err(Error::invalid(format!("{} scores do not make a matrix of {k} rows and columns", score.len())));
    }
    if let Some(bad) = score.iter().find(|x| !x.is_finite()) {
        return Err(Error::invalid(format!("scores must be finite, not {bad}")));
    }
    let largest = score.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
    let scale = if largest > LARGE { 1.0 / largest } else { 1.0 };
    let mut search = Search::new(k);
    for row in 0..k {
        control.check()?;
        search.add_row(row, |i, j| -score[i * k + j] * scale);
    }
    let mut out = vec![0; k];
    search.row_of[..k].iter().enumerate().for_each(|(column, &row)| out[row] = column as u32);
    Ok(out)
}

/// Rows assigned so far. There is one column more than real ones: a row that is being added starts there.
struct Search {
    row_potential: Vec<f64>,
    column_potential: Vec<f64>,
    /// The row assigned to each column, or [`NONE`].
    row_of: Vec<usize>,
    /// The column before each on the path.
    before: Vec<usize>,
    distance: Vec<f64>,
    reached: Vec<bool>,
}

const NONE: usize = usize::MAX;

impl Search {
    fn new(k: usize) -> Self {
        Self {
            row_potential: vec![0.0; k],
            column_potential: vec![0.0; k + 1],
            row_of: vec![NONE; k + 1],
            before: vec![k; k + 1],
            distance: vec![f64::INFINITY; k + 1],
            reached: vec![false; k + 1],
        }
    }

    /// Assigns one more row, moving others where that is cheaper.
    fn add_row(&mut self, row: usize, cost: impl Fn(usize, usize) -> f64) {
        let k = self.row_potential.len();
        self.row_of[k] = row;
        self.distance.fill(f64::INFINITY);
        self.reached.fill(false);
        let mut at = k;
        while self.row_of[at] != NONE {
            self.reached[at] = true;
            let i = self.row_of[at];
            let (mut nearest, mut step) = (NONE, f64::INFINITY);
            for j in (0..k).filter(|&j| !self.reached[j]) {
                let reduced = cost(i, j) - self.row_potential[i] - self.column_potential[j];
                if reduced < self.distance[j] {
                    self.distance[j] = reduced;
                    self.before[j] = at;
                }
                if nearest == NONE || self.distance[j] < step {
                    (nearest, step) = (j, self.distance[j]);
                }
            }
            for j in 0..=k {
                if self.reached[j] {
                    self.row_potential[self.row_of[j]] += step;
                    self.column_potential[j] -= step;
                } else {
                    self.distance[j] -= step;
                }
            }
            at = nearest;
        }
        while at != k {
            let from = self.before[at];
            self.row_of[at] = self.row_of[from];
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The best total by trying every permutation of the columns that are left.
    fn best(score: &[f64], k: usize, row: usize, used: &mut Vec<bool>) -> f64 {
        if row == k {
            return 0.0;
        }
        let mut most = f64::NEG_INFINITY;
        for j in 0..k {
            if !used[j] {
                used[j] = true;
                most = most.max(score[row * k + j] + best(score, k, row + 1, used));
                used[j] = false;
            }
        }
        most
    }

    proptest! {
        #[test]
        fn no_permutation_is_better(k in 1_usize..6, numbers in prop::collection::vec(-3_i32..4, 25)) {
            let score: Vec<f64> = numbers[..k * k].iter().map(|&x| f64::from(x)).collect();
            let result = assignment(&score, k, &Control::default()).unwrap();
            let mut columns = result.clone();
            columns.sort_unstable();
            prop_assert_eq!(columns, (0..k as u32).collect::<Vec<_>>());
            let total: f64 = result.iter().enumerate().map(|(i, &j)| score[i * k + j as usize]).sum();
            prop_assert_eq!(total, best(&score, k, 0, &mut vec![false; k]));
        }
    }

    #[test]
    fn odd_scores() {
        let control = Control::default();
        assert!(assignment(&[], 0, &control).unwrap().is_empty());
        assert!(assignment(&[1.0, 2.0], 2, &control).is_err());
        assert!(assignment(&[f64::NAN], 1, &control).is_err());
        assert_eq!(assignment(&[-1e308, 1e308, 1e308, -1e308], 2, &control).unwrap(), [1, 0]);
        control.cancel();
        assert_eq!(assignment(&[1.0], 1, &control), Err(Error::Cancelled));
    }
}
