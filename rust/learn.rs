//! Adam on the rows of a table that a batch touches.
//!
//! A step of a network that learns about its annotators moves a few hundred rows of a table that may have millions.
//! Each row is fetched once: its gradients are added up, its averages and its numbers moved, and all written back.

use crate::base::control::Control;
use crate::base::memory::{prefetch, with_room, zeros};
use crate::{Error, Result};

/// How many rows ahead memory is asked for.
const AHEAD: usize = 4;

/// How far a step goes.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Of the learning rate; corrections of the averages' start are its own.
    pub rate: f64,
    /// Shares of the average and of the average square that stay.
    pub betas: [f64; 2],
    /// Added to the root of the average square.
    pub eps: f64,
    /// The number of this step, from one.
    pub number: u64,
}

/// A table and Adam's averages of it, all (rows × width).
#[derive(Debug)]
pub struct Tables<'a> {
    /// What is learned.
    pub table: &'a mut [f32],
    /// Averages of the gradients.
    pub mean: &'a mut [f32],
    /// Averages of their squares.
    pub square: &'a mut [f32],
    /// How many numbers a row has.
    pub width: usize,
}

/// Moves the rows that have a gradient; the others, and their averages, stay as they are.
///
/// `gradient` has a row for each of `rows`, among which one may come several times: these are added up, in their order.
/// Time O(rows touched · (width + log rows touched)).
pub fn adam_rows(tables: Tables, rows: &[i64], gradient: &[f32], step: Step, control: &Control) -> Result<()> {
    let Tables { table, mean, square, width } = tables;
    let n_rows = table.len().checked_div(width).unwrap_or(0);
    if n_rows * width != table.len() || mean.len() != table.len() || square.len() != table.len() {
        return Err(Error::invalid(format!("the averages must be as large as the table, of rows of {width} numbers")));
    }
    if gradient.len() != rows.len() * width {
        return Err(Error::invalid(format!("{} gradients are not {} rows of {width}", gradient.len(), rows.len())));
    }
    if let Some(row) = rows.iter().find(|row| usize::try_from(**row).map_or(true, |row| row >= n_rows)) {
        return Err(Error::invalid(format!("a gradient is for row {row}, and the table has {n_rows} of them")));
    }
    let places = places(rows)?;
    let mut sum = zeros(width)?;
    let (rule, arch) = (Rule::of(step), pulp::Arch::new());
    let mut n_before = 0;
    for same in places.chunk_by(|a, b| a.0 == b.0) {
        control.check()?;
        n_before += same.len();
        // Rows are all over the tables, and each is waited for unless it is asked for some rows ahead.
        if let Some((later, _)) = places.get(n_before + AHEAD) {
            let later = *later as usize * width..(*later as usize + 1) * width;
            [&*table, mean, square].into_iter().for_each(|data| prefetch(data, later.clone()));
        }
        let own = same[0].0 as usize * width..(same[0].0 as usize + 1) * width;
        let gradient_of = |at: u32| &gradient[at as usize * width..][..width];
        sum.copy_from_slice(gradient_of(same[0].1));
        for (_, at) in &same[1..] {
            sum.iter_mut().zip(gradient_of(*at)).for_each(|(sum, more)| *sum += more);
        }
        let (table, mean, square) = (&mut table[own.clone()], &mut mean[own.clone()], &mut square[own]);
        arch.dispatch(|| rule.apply(&sum, table, mean, square));
    }
    Ok(())
}

/// Rows and the places of their gradients, those of one row side by side and in their order.
fn places(rows: &[i64]) -> Result<Vec<(u32, u32)>> {
    let fits = |n: usize| u32::try_from(n).map_err(|_| Error::invalid(format!("{n} rows are more than a step takes")));
    fits(rows.len())?;
    fits(rows.iter().max().map_or(0, |row| *row as usize))?;
    let mut places = with_room(rows.len())?;
    places.extend(rows.iter().enumerate().map(|(at, row)| (*row as u32, at as u32)));
    places.sort_unstable();
    Ok(places)
}

/// What a step does to a number, in the precision of the tables.
struct Rule {
    towards: f32,
    wider: f32,
    rate: f32,
    eps: f32,
}

impl Rule {
    fn of(step: Step) -> Self {
        let [first, second] = step.betas;
        let number = i32::try_from(step.number).unwrap_or(i32::MAX);
        let rate = step.rate * (1.0 - second.powi(number)).sqrt() / (1.0 - first.powi(number));
        Self { towards: (1.0 - first) as f32, wider: (1.0 - second) as f32, rate: rate as f32, eps: step.eps as f32 }
    }

    #[inline(always)]
    fn apply(&self, gradient: &[f32], table: &mut [f32], mean: &mut [f32], square: &mut [f32]) {
        for (((g, x), m), s) in gradient.iter().zip(table).zip(mean).zip(square) {
            *m += (g - *m) * self.towards;
            *s += (g * g - *s) * self.wider;
            *x -= self.rate * (*m / (s.sqrt() + self.eps));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step = Step { rate: 0.1, betas: [0.9, 0.999], eps: 1e-8, number: 1 };

    fn stepped(rows: &[i64], gradient: &[f32]) -> Result<Vec<f32>> {
        let (mut table, mut mean, mut square) = (vec![1.0; 6], vec![0.0; 6], vec![0.0; 6]);
        let tables = Tables { table: &mut table, mean: &mut mean, square: &mut square, width: 2 };
        adam_rows(tables, rows, gradient, STEP, &Control::default()).map(|()| table)
    }

    #[test]
    fn the_first_step_is_the_rate_and_others_rest() {
        let result = stepped(&[2, 0, 2], &[1.0, -4.0, 0.5, 0.0, 1.0, -4.0]).unwrap();
        let expected = [0.9, 1.0, 1.0, 1.0, 0.9, 1.1];
        assert!(result.iter().zip(expected).all(|(a, b): (&f32, f32)| (a - b).abs() < 1e-6), "{result:?}");
    }

    #[test]
    fn gradients_of_a_row_are_added_up() {
        assert_eq!(stepped(&[1, 1], &[3.0, 1.0, -3.0, 1.0]).unwrap(), stepped(&[1], &[0.0, 2.0]).unwrap());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (rows, gradient) in [(&[3][..], &[0.0, 0.0][..]), (&[-1], &[0.0, 0.0]), (&[1], &[0.0])] {
            assert!(matches!(stepped(rows, gradient), Err(Error::Invalid(_))), "{rows:?}");
        }
    }
}
