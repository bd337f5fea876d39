//! Max-margin majority vote: weights of workers under which the answer to each task wins by far.
//!
//! What an answer lacks of a margin to every other class, named or not, is its loss. Weights and answers minimize
//! half the squared weights plus the cost of all losses, by turns: given the answers the weights are those of a
//! support vector machine with a block of dual variables for each task; given the weights the answer is the class
//! with the greatest score.
//!
//! The dual variables of a task share out the cost among its classes; the answer has what the others leave. A sweep
//! visits every task, and moves what it can from the class that presses least to the one that presses most. It goes
//! by the order of the tasks on one thread, for every move changes the weights that the next one sees.

use rayon::prelude::*;

use super::{Ballot, UNNAMED, check_positive};
use crate::Result;
use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{copied, zeros};
use crate::base::num::winners;
use crate::categorical::table::Table;
use crate::categorical::votes;

/// Tasks between two looks at the control.
const BLOCK: usize = 1 << 10;
/// Most sweeps of a pass.
const SWEEPS: usize = 20;
/// A share of the cost below this counts as zero, and so is a difference below this share of the margin: classes that
/// press equally may differ by rounding, and which of them is taken must not hang on that.
const NOTHING: f64 = 1e-12;

/// Arguments of [`margin_fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What a loss of one costs.
    pub cost: f64,
    /// How far an answer should be ahead.
    pub margin: f64,
    /// Most passes.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself, and weights are known as well.
    pub tol: f64,
}

/// What [`margin_fit`] found.
#[derive(Debug)]
pub struct Fit {
    /// Weight of each worker.
    pub weights: Vec<f64>,
    /// Class of each task's answer.
    pub answers: Vec<u16>,
    /// Minus the objective after each pass.
    pub history: Vec<f64>,
    /// Passes made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// Fits weights and answers, from the majority vote.
///
/// Time O(annotations + tasks) a sweep, of which a pass takes at most [`SWEEPS`], with a look at the objective after
/// each. Memory: 8 bytes per annotation, 12 bytes per task and 16 bytes per worker; 8 bytes per task and class at the
/// start.
pub fn margin_fit(table: &Table, options: &Options, control: &Control) -> Result<Fit> {
    check_positive(&[("cost", options.cost), ("margin", options.margin)])?;
    let problem = Problem { table, options, control };
    let majority = winners(&votes::shares(table, None, control)?.0, table.n_labels(), control)?.0;
    let mut dual = Dual::new(table, copied(&majority)?)?;
    let (mut answers, mut weights) = (majority, copied(&dual.weights)?);
    let mut better = copied(&answers)?;
    let mut objective = f64::INFINITY;
    let mut course = Course::default();
    while course.running(options.max_iter) {
        let solved = problem.solve(&mut dual, &mut better)?;
        let [now, then] = problem.judge(&dual.weights, &answers, &mut better)?;
        // Sweeps ascent the dual; the objective itself may yet be above that of weights found before.
        if now <= objective {
            objective = then;
            weights.copy_from_slice(&dual.weights);
            std::mem::swap(&mut answers, &mut better);
            dual.release(table, &answers);
        }
        course.advance(-objective, Tolerance::Share(options.tol), control);
        course.converged &= solved;
    }
    let Course { history, n_iter, converged, .. } = course;
    Ok(Fit { weights, answers, history, n_iter, converged })
}

/// What the weights are sums of.
struct Dual {
    /// The class of each task's answer.
    answers: Vec<u16>,
    /// How much of the cost each class has, in the first row that names it.
    shares: Vec<f64>,
    /// How much of the cost a class has that no worker named, for each task.
    unnamed: Vec<f64>,
    weights: Vec<f64>,
    ballot: Ballot,
}

impl Dual {
    /// All cost with the answers.
    fn new(table: &Table, answers: Vec<u16>) -> Result<Self> {
        Ok(Self {
            answers,
            shares: zeros(table.len())?,
            unnamed: zeros(table.n_tasks())?,
            weights: zeros(table.n_workers())?,
            ballot: Ballot::new(table.n_labels()),
        })
    }

    /// Takes up new answers; where one has changed, all cost goes to it.
    fn release(&mut self, table: &Table, answers: &[u16]) {
        for (task, (mine, answer)) in self.answers.iter_mut().zip(answers).enumerate() {
            if mine != answer {
                *mine = *answer;
                self.shares[table.rows_of(task)].fill(0.0);
                self.unnamed[task] = 0.0;
            }
        }
        self.add_up(table);
    }

    /// Sums up the weights; returns how much of the cost the answers do not have.
    fn add_up(&mut self, table: &Table) -> f64 {
        self.weights.fill(0.0);
        let mut total = 0.0;
        for task in 0..table.n_tasks() {
            let spent = self.shares[table.rows_of(task)].iter().sum::<f64>() + self.unnamed[task];
            if spent == 0.0 {
                continue;
            }
            total += spent;
            self.ballot.count(table, task, &self.weights);
            for row in table.rows_of(task) {
                let class = table.labels().get(row);
                let share = self.ballot.get(class).map_or(0.0, |candidate| self.shares[candidate.row]);
                let vote = if class == usize::from(self.answers[task]) { spent } else { -share };
                self.weights[table.workers()[row] as usize] += vote * table.weights().map_or(1.0, |w| w[row]);
            }
        }
        total
    }

    /// Moves cost between two classes of a task, as far as that helps.
    fn visit(&mut self, table: &Table, task: usize, options: &Options) {
        self.ballot.count(table, task, &self.weights);
        let answer = usize::from(self.answers[task]);
        let (mut spent, near) = (0.0, NOTHING * options.margin);
        let (mut most, mut least) = ((answer, self.ballot.score(answer)), (answer, f64::INFINITY));
        let mut consider = |class: usize, pressure: f64, share: f64| {
            spent += share;
            if pressure > most.1 + near {
                most = (class, pressure);
            }
            if share > NOTHING * options.cost && pressure < least.1 - near {
                least = (class, pressure);
            }
        };
        for candidate in self.ballot.named.iter().filter(|candidate| candidate.class != answer) {
            consider(candidate.class, options.margin + candidate.score, self.shares[candidate.row]);
        }
        if self.ballot.leaves_others(answer) {
            consider(UNNAMED, options.margin, self.unnamed[task]);
        }
        let rest = options.cost - spent;
        if rest > NOTHING * options.cost && self.ballot.score(answer) < least.1 - near {
            least = (answer, self.ballot.score(answer));
        }
        let gap = most.1 - least.1;
        if gap <= near {
            return;
        }
        let (from, to) = (least.0, most.0);
        let has = if from == answer { rest } else { *self.share(task, from) };
        let amount = has.min(gap / square_distance(table, task, from, to));
        for (class, change) in [(from, -amount), (to, amount)] {
            if class != answer {
                *self.share(task, class) += change;
            }
        }
        for row in table.rows_of(task) {
            let vote = side(table.labels().get(row), from, to) * table.weights().map_or(1.0, |w| w[row]);
            self.weights[table.workers()[row] as usize] += amount * vote;
        }
    }

    /// The share of a class that is not the answer.
    fn share(&mut self, task: usize, class: usize) -> &mut f64 {
        match (class != UNNAMED).then(|| self.ballot.get(class)).flatten() {
            Some(named) => &mut self.shares[named.row],
            None => &mut self.unnamed[task],
        }
    }
}

/// Sign of a vote in a move between classes: 1 for the class that loses, -1 for the one that gains, 0 for others.
fn side(class: usize, from: usize, to: usize) -> f64 {
    f64::from(i8::from(class == from) - i8::from(class == to))
}

/// How much the weights' square changes with a move of one between two classes; zero where no worker named either.
fn square_distance(table: &Table, task: usize, from: usize, to: usize) -> f64 {
    let (mut total, mut sum, mut worker) = (0.0, 0.0, u32::MAX);
    for row in table.rows_of(task) {
        // The rows of a worker follow one another.
        if table.workers()[row] != worker {
            total += sum * sum;
            (sum, worker) = (0.0, table.workers()[row]);
        }
        sum += side(table.labels().get(row), from, to) * table.weights().map_or(1.0, |w| w[row]);
    }
    total + sum * sum
}

struct Problem<'a> {
    table: &'a Table,
    options: &'a Options,
    control: &'a Control,
}

impl Problem<'_> {
    /// Sweeps until the objective, for the answers as they are, is known well enough; returns whether it is.
    fn solve(&self, dual: &mut Dual, scratch: &mut [u16]) -> Result<bool> {
        for _ in 0..SWEEPS {
            for task in 0..self.table.n_tasks() {
                if task.is_multiple_of(BLOCK) {
                    self.control.check()?;
                }
                dual.visit(self.table, task, self.options);
            }
            let spent = dual.add_up(self.table);
            let [above, _] = self.judge(&dual.weights, &dual.answers, scratch)?;
            let below = self.options.margin * spent - half_square(&dual.weights);
            if above - below <= self.options.tol * above {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The objective with the answers as they are, and with the best ones, which are written.
    fn judge(&self, weights: &[f64], answers: &[u16], better: &mut [u16]) -> Result<[f64; 2]> {
        let (table, margin) = (self.table, self.options.margin);
        let blocks: Vec<[f64; 2]> = answers
            .par_chunks(BLOCK)
            .zip(better.par_chunks_mut(BLOCK))
            .enumerate()
            .map(|(block, (answers, better))| {
                self.control.check()?;
                let mut ballot = Ballot::new(table.n_labels());
                let mut sums = [0.0; 2];
                for (i, (answer, better)) in answers.iter().zip(better).enumerate() {
                    ballot.count(table, block * BLOCK + i, weights);
                    let winner = ballot.winner(usize::from(*answer), margin);
                    *better = winner as u16;
                    sums[0] += ballot.lack(usize::from(*answer), margin);
                    sums[1] += ballot.lack(winner, margin);
                }
                Ok(sums)
            })
            .collect::<Result<_>>()?;
        let total = |which: usize| blocks.iter().map(|sums| sums[which]).sum::<f64>();
        Ok([0, 1].map(|which| half_square(weights) + self.options.cost * total(which)))
    }
}

fn half_square(weights: &[f64]) -> f64 {
    0.5 * weights.iter().map(|x| x * x).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::of_rows;
    use proptest::prelude::*;

    const OPTIONS: Options = Options { cost: 0.3, margin: 1.0, max_iter: 20, tol: 0.0 };

    proptest! {
        #[test]
        fn the_objective_never_falls_and_weights_add_up(
            rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120), weighted in any::<bool>(),
        ) {
            let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
            let table = of_rows(&rows, weighted.then_some(&weights[..]), [15, 6, 4]);
            let fit = margin_fit(&table, &OPTIONS, &Control::default()).unwrap();
            for pair in fit.history.windows(2) {
                prop_assert!(pair[1] >= pair[0], "{:?}", fit.history);
            }
            let mut dual = Dual::new(&table, fit.answers).unwrap();
            for _ in 0..5 {
                (0..15).for_each(|task| dual.visit(&table, task, &OPTIONS));
            }
            let weights = dual.weights.clone();
            let spent = dual.add_up(&table);
            prop_assert!(dual.weights.iter().zip(&weights).all(|(a, b)| (a - b).abs() < 1e-9));
            prop_assert!(spent <= 15.0 * OPTIONS.cost * (1.0 + 1e-9));
            prop_assert!(dual.shares.iter().chain(&dual.unnamed).all(|x| *x >= 0.0));
        }

        #[test]
        fn the_dual_meets_the_objective(
            rows in prop::collection::vec((0_u32..10, 0_u32..6, 0_u16..3), 1..60), cost in 0.05..2.0_f64,
        ) {
            let table = of_rows(&rows, None, [10, 6, 3]);
            let options = Options { cost, tol: 1e-4, ..OPTIONS };
            let control = Control::default();
            let problem = Problem { table: &table, options: &options, control: &control };
            let answers = winners(&votes::shares(&table, None, &control).unwrap().0, 3, &control).unwrap().0;
            let (mut dual, mut scratch) = (Dual::new(&table, answers.clone()).unwrap(), answers);
            // Where the two meet, neither can be improved.
            prop_assert!((0..200).any(|_| problem.solve(&mut dual, &mut scratch).unwrap()));
        }
    }

    #[test]
    fn bad_options_are_named() {
        let table = of_rows(&[(0, 0, 0)], None, [1, 1, 2]);
        let error = margin_fit(&table, &Options { cost: 0.0, ..OPTIONS }, &Control::default()).unwrap_err();
        assert!(error.to_string().contains("a cost of 0 is not"));
    }
}
