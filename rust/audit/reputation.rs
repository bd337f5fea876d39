//! Reputation: what a worker is charged with for answers that others contradict.
//!
//! Only tasks on which two classes were named count. A *soft* penalty shares one unit for each answer that was given to
//! such a task among all who gave it. A *hard* penalty gives the whole unit to one of them, such that units are spread
//! as evenly as they can be: an optimal semi-matching. Who gives answers that few others give cannot hand them on.

mod semi_matching;

use crate::Result;
use crate::base::control::Control;
use crate::base::memory::{copied, push, with_room, zeros};
use crate::categorical::table::Table;

/// How many rows are handled between two looks at [`Control::check`].
const ROWS_PER_CHECK: usize = 1 << 16;

/// Which worker gave which answer to a task that is contested, by answer and by worker.
#[derive(Debug)]
pub(crate) struct Contested {
    /// Answer `a` was given by `workers[offsets[a]..offsets[a + 1]]`, ascending.
    offsets: Vec<u32>,
    workers: Vec<u32>,
    /// Worker `w` gave `answers[starts[w]..starts[w + 1]]`, ascending.
    starts: Vec<u32>,
    answers: Vec<u32>,
}

impl Contested {
    /// Finds the answers. Abstentions and rows without weight are left out; a repeated answer counts once.
    pub fn of(table: &Table, control: &Control) -> Result<Self> {
        let (mut offsets, mut workers) = (with_room(1)?, Vec::new());
        let mut labels_given: Vec<(u32, u32)> = Vec::new();
        offsets.push(0);
        for task in 0..table.n_tasks() {
            if task.is_multiple_of(ROWS_PER_CHECK) {
                control.check()?;
            }
            labels_given.clear();
            for row in table.rows_of(task) {
                let label = table.labels().get(row);
                if label < table.n_classes() && table.weights().is_none_or(|w| w[row] > 0.0) {
                    push(&mut labels_given, (label as u32, table.workers()[row]))?;
                }
            }
            labels_given.sort_unstable();
            labels_given.dedup();
            if labels_given.first().map(|one| one.0) == labels_given.last().map(|one| one.0) {
                continue;
            }
            for same in labels_given.chunk_by(|a, b| a.0 == b.0) {
                for &(_, worker) in same {
                    push(&mut workers, worker)?;
                }
                push(&mut offsets, workers.len() as u32)?;
            }
        }
        let (starts, answers) = turned(&offsets, &workers, table.n_workers())?;
        Ok(Self { offsets, workers, starts, answers })
    }

    fn n_answers(&self) -> usize {
        self.offsets.len() - 1
    }

    fn n_workers(&self) -> usize {
        self.starts.len() - 1
    }

    /// Which worker gave an answer.
    fn givers(&self, answer: u32) -> &[u32] {
        let answer = answer as usize;
        &self.workers[self.offsets[answer] as usize..self.offsets[answer + 1] as usize]
    }

    /// What a worker answered.
    fn given(&self, worker: u32) -> &[u32] {
        let worker = worker as usize;
        &self.answers[self.starts[worker] as usize..self.starts[worker + 1] as usize]
    }
}

/// The same links from the other side: where each worker's begin, and the answers.
fn turned(offsets: &[u32], workers: &[u32], n_workers: usize) -> Result<(Vec<u32>, Vec<u32>)> {
    let mut starts = zeros::<u32>(n_workers + 1)?;
    for &worker in workers {
        starts[worker as usize + 1] += 1;
    }
    for worker in 0..n_workers {
        starts[worker + 1] += starts[worker];
    }
    let (mut next, mut answers) = (copied(&starts)?, zeros(workers.len())?);
    for (answer, ends) in offsets.windows(2).enumerate() {
        for &worker in &workers[ends[0] as usize..ends[1] as usize] {
            let at = &mut next[worker as usize];
            answers[*at as usize] = answer as u32;
            *at += 1;
        }
    }
    Ok((starts, answers))
}

/// What workers are charged with.
#[derive(Debug)]
pub struct Penalties {
    /// Units by worker: a sum of shares, or a number of answers.
    pub units: Vec<f64>,
    /// Contested answers that each worker gave.
    pub n_contested: Vec<u32>,
}

/// Charges workers with the answers that others contradict, each shared by all who gave it (soft) or borne by one
/// (hard).
///
/// Soft is O(annotations). Hard is O(annotations) for each of some phases of a search, the fewer the more evenly
/// answers can be spread, at most as many as the root of the number of workers for each halving of the largest load.
/// Memory: 8 bytes a contested annotation and 4 an answer; hard another 8 an answer and 24 bytes per worker.
pub fn penalties(table: &Table, hard: bool, control: &Control) -> Result<Penalties> {
    let contested = Contested::of(table, control)?;
    let mut n_contested = with_room(contested.n_workers())?;
    n_contested.extend(contested.starts.windows(2).map(|ends| ends[1] - ends[0]));
    let mut units = zeros(contested.n_workers())?;
    if hard {
        for &worker in &semi_matching::semi_matching(&contested, control)? {
            units[worker as usize] += 1.0;
        }
    } else {
        for answer in 0..contested.n_answers() as u32 {
            let givers = contested.givers(answer);
            for &worker in givers {
                units[worker as usize] += 1.0 / givers.len() as f64;
            }
        }
    }
    Ok(Penalties { units, n_contested })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::categorical::table::tests::of_rows;
    use proptest::prelude::*;

    /// Least sum of squared loads over all ways to hand every answer to one of its givers.
    fn least(contested: &Contested, answer: usize, loads: &mut [u32]) -> u32 {
        if answer == contested.n_answers() {
            return loads.iter().map(|load| load * load).sum();
        }
        let mut best = u32::MAX;
        for &worker in contested.givers(answer as u32) {
            loads[worker as usize] += 1;
            best = best.min(least(contested, answer + 1, loads));
            loads[worker as usize] -= 1;
        }
        best
    }

    proptest! {
        #[test]
        fn loads_are_as_even_as_they_can_be(rows in prop::collection::vec((0_u32..5, 0_u32..5, 0_u16..3), 1..22)) {
            let table = of_rows(&rows, None, [5, 5, 3]);
            let contested = Contested::of(&table, &Control::default()).unwrap();
            let result = penalties(&table, true, &Control::default()).unwrap();
            let squares: f64 = result.units.iter().map(|load| load * load).sum();
            prop_assert_eq!(squares, f64::from(least(&contested, 0, &mut [0; 5])));
            prop_assert!(result.units.iter().zip(&result.n_contested).all(|(&load, &n)| load <= f64::from(n)));
        }
    }

    #[test]
    fn what_nobody_contradicts_is_not_charged() {
        // All agree on the first task; on the second, one worker stands alone; the third is repeated and abstained
        // from.
        let rows = [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1), (1, 2, 0), (2, 0, 1), (2, 0, 1), (2, 1, 2)];
        let table = of_rows(&rows, None, [3, 3, 3]).with_classes(2).unwrap();
        let soft = penalties(&table, false, &Control::default()).unwrap();
        assert_eq!((soft.units, soft.n_contested), (vec![0.5, 0.5, 1.0], vec![1, 1, 1]));
        let hard = penalties(&table, true, &Control::default()).unwrap();
        assert_eq!(hard.units.iter().sum::<f64>(), 2.0);
        assert_eq!(hard.units[2], 1.0);
    }

    #[test]
    fn a_long_chain_is_evened_out() {
        // Answer i may go to worker i or i + 1, but for many at the first worker's that may only go there or to the
        // second.
        let n = 200_u32;
        let mut rows: Vec<(u32, u32, u16)> = (0..n).flat_map(|i| [(i, i, 0), (i, i + 1, 0), (i, n + 1, 1)]).collect();
        rows.extend((n..n + 100).flat_map(|i| [(i, 0, 0), (i, 1, 0), (i, n + 1, 1)]));
        let table = of_rows(&rows, None, [n as usize + 100, n as usize + 2, 2]);
        let result = penalties(&table, true, &Control::default()).unwrap();
        let chain = &result.units[..=n as usize];
        // 300 answers among 201 workers; the hundred, and the one between them, stay with the first two.
        assert_eq!(chain.iter().sum::<f64>(), 300.0);
        assert_eq!(result.units[n as usize + 1], 300.0);
        assert!((chain[0] - chain[1]).abs() <= 1.0 && chain[0] + chain[1] == 101.0, "{chain:?}");
        assert!(chain[2..].iter().all(|load| *load <= 1.0 + f64::EPSILON), "{chain:?}");
    }

    #[test]
    fn a_cancelled_search_stops() {
        let control = Control::default();
        control.cancel();
        let table = of_rows(&[(0, 0, 0), (0, 1, 1)], None, [1, 2, 2]);
        assert_eq!(penalties(&table, true, &control).err(), Some(Error::Cancelled));
    }
}
