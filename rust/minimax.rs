//! Minimax conditional entropy (Zhou et al. 2012, 2014): workers and tasks that confuse classes, each in their own way.
//!
//! Worker `w` says `l` on task `n` of class `c` with a probability proportional to exp(tau[n][c, l] + sigma[w][c,
//! l]): the distribution of greatest entropy with the confusions that each worker and each task was seen to have. Its
//! multipliers tau and sigma maximise the dual, which is the log-likelihood with classes summed out, less half the
//! penalties times the squares of the multipliers (that is how far confusions may differ from those that were seen).
//! Where classes are ordered, a matrix is a sum over the places between two classes of four numbers each, for truth
//! and label below or not below it.
//!
//! A pass moves every worker given the posteriors (the M-step of EM), then every task with its posterior summed out.
//! Each takes one step of Newton's method on a block of its own, halved until the block's part does not fall: so
//! neither does the objective.

use rayon::prelude::*;

use crate::control::Control;
use crate::course::{Course, Tolerance};
use crate::memory::{clear, collected, copied, filled, ready, zeros};
use crate::num::{LEVEL, cholesky, cholesky_solve, normalise, softmax};
use crate::table::{Table, WorkerOrder};
use crate::{Error, Result, votes};

/// More than this is not asked for.
const MOST_BYTES: usize = 1 << 34;
/// Tasks that one job handles.
const BLOCK: usize = 1 << 8;
/// Rows of a worker between two looks at the control.
const ROWS_PER_CHECK: usize = 1 << 10;
/// No step changes a number by more than this.
const LONGEST: f64 = 4.0;
/// A step is halved at most so often before it is given up.
const HALVINGS: usize = 20;
/// Steps of a task whose workers are known, and the length at which they end.
const STEPS_ALONE: usize = 100;
const STILL: f64 = 1e-12;
/// Posterior probabilities below this add nothing that a sum would show.
const NOTHING: f64 = 1e-16;

/// Everything [`minimax_fit`] can be told.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether classes are ordered by their codes.
    pub ordinal: bool,
    /// Penalty of each worker's numbers.
    pub worker_penalty: f64,
    /// Penalty of each task's numbers.
    pub task_penalty: f64,
    /// Most passes.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself.
    pub tol: f64,
}

/// What [`minimax_fit`] found.
#[derive(Debug)]
pub struct Fit {
    /// Class posterior of each task, (tasks × classes).
    pub posterior: Vec<f64>,
    /// Probabilities of each worker's labels, averaged over the tasks they labelled, (workers × classes × classes).
    pub confusion: Vec<f64>,
    /// Multipliers of each worker, (workers × classes × classes).
    pub sigma: Vec<f64>,
    /// Multipliers of each task, (tasks × classes × classes).
    pub tau: Vec<f64>,
    /// The objective after each pass.
    pub history: Vec<f64>,
    /// Passes made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// Fits the multipliers, from vote shares.
///
/// Time O(annotations · classes³) a pass where posteriors are open, O(annotations · classes²) where they are sharp,
/// and O((tasks + workers) · classes⁴) to solve for the steps. Memory: two numbers for each cell of a matrix of each
/// task and worker (16 · classes² bytes), and the table in worker order.
pub fn minimax_fit(table: &Table, options: &Options, control: &Control) -> Result<Fit> {
    validate(table, options.ordinal, &[options.worker_penalty, options.task_penalty])?;
    let order = table.by_worker(control)?;
    let mut model = Model {
        table,
        control,
        workers: Side::new(table.n_workers(), table.n_labels(), options.ordinal, options.worker_penalty)?,
        tasks: Side::new(table.n_tasks(), table.n_labels(), options.ordinal, options.task_penalty)?,
        posterior: votes::shares(table, None, control)?.0,
    };
    let mut course = Course::default();
    while course.n_iter < options.max_iter && !course.converged {
        model.move_workers(order)?;
        let objective = model.move_tasks(1)?;
        course.advance(objective, Tolerance::Share(options.tol), control);
    }
    let confusion = model.confusion(order)?;
    let Model { workers, tasks, posterior, .. } = model;
    let (sigma, tau) = (workers.matrices(), tasks.matrices());
    let Course { history, n_iter, converged, .. } = course;
    Ok(Fit { posterior, confusion, sigma, tau, history, n_iter, converged })
}

/// Class posteriors (tasks × classes) of tasks labelled by workers of known multipliers, (workers × classes × classes).
pub fn minimax_posterior(
    table: &Table,
    sigma: &[f64],
    ordinal: bool,
    task_penalty: f64,
    control: &Control,
) -> Result<Vec<f64>> {
    validate(table, ordinal, &[task_penalty])?;
    let k = table.n_labels();
    if sigma.len() != table.n_workers() * k * k || sigma.iter().any(|x| !x.is_finite()) {
        return Err(Error::invalid(format!("sigma must hold {} finite numbers", table.n_workers() * k * k)));
    }
    // The workers stay where they are: only their exponentials are read.
    let mut workers = Side::new(0, k, ordinal, task_penalty)?;
    workers.factors = collected(sigma.iter().map(|x| x.exp()))?;
    let tasks = Side::new(table.n_tasks(), k, ordinal, task_penalty)?;
    let mut model = Model { table, control, workers, tasks, posterior: zeros(table.n_tasks() * k)? };
    model.move_tasks(STEPS_ALONE)?;
    Ok(model.posterior)
}

fn validate(table: &Table, ordinal: bool, penalties: &[f64]) -> Result<()> {
    if let Some(bad) = penalties.iter().find(|x| !(x.is_finite() && **x > 0.0)) {
        return Err(Error::invalid(format!("a penalty of {bad} is not a positive number")));
    }
    let (k, blocks) = (table.n_labels(), table.n_tasks() + table.n_workers());
    let cells = k.saturating_mul(k);
    let each = Shape::new(ordinal).n_numbers(k).saturating_add(cells);
    let numbers = blocks.saturating_mul(each).saturating_add(cells.saturating_mul(k));
    let bytes = numbers.saturating_mul(size_of::<f64>());
    if bytes > MOST_BYTES {
        let gib = |bytes: usize| bytes >> 30;
        return Err(Error::invalid(format!(
            "matrices of {k} × {k} classes for {} tasks and {} workers would take {} GiB, more than {} GiB; lay rare \
             classes together, or choose a model without a matrix for each task",
            table.n_tasks(),
            table.n_workers(),
            gib(bytes),
            gib(MOST_BYTES),
        )));
    }
    Ok(())
}

/// What the numbers of a task or worker stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Every cell of a matrix.
    Free,
    /// Sums of cells: for each place between two classes, of all cells with truth below it or not, and label below it
    /// or not.
    Ordinal,
}

impl Shape {
    fn new(ordinal: bool) -> Self {
        if ordinal { Self::Ordinal } else { Self::Free }
    }

    fn n_numbers(self, k: usize) -> usize {
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
struct Side {
    shape: Shape,
    k: usize,
    penalty: f64,
    /// What is fitted: the numbers of each task or worker.
    numbers: Vec<f64>,
    /// Exponentials of the matrices that they stand for.
    factors: Vec<f64>,
}

impl Side {
    /// All numbers zero.
    fn new(n: usize, k: usize, ordinal: bool, penalty: f64) -> Result<Self> {
        let shape = Shape::new(ordinal);
        let (numbers, factors) = (zeros(n * shape.n_numbers(k))?, filled(1.0, n * k * k)?);
        Ok(Self { shape, k, penalty, numbers, factors })
    }

    /// The factors of one task or worker.
    fn of(&self, i: u32) -> &[f64] {
        let cells = self.k * self.k;
        &self.factors[i as usize * cells..(i as usize + 1) * cells]
    }

    /// The matrices themselves.
    fn matrices(self) -> Vec<f64> {
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
fn chances(own: &[f64], other: &[f64], class: usize, label: usize, out: &mut [f64]) -> f64 {
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
struct Climber {
    shape: Shape,
    k: usize,
    penalty: f64,
    /// Slope of the log-likelihood in each cell.
    slope: Vec<f64>,
    /// How it bends down, (classes × labels × labels), lower triangles.
    bend: Vec<f64>,
    /// The same in the numbers, where these are not the cells.
    curve: Vec<f64>,
    step: Vec<f64>,
    numbers: Vec<f64>,
    factors: Vec<f64>,
    chances: Vec<f64>,
}

impl Climber {
    fn new(shape: Shape, k: usize, penalty: f64) -> Result<Self> {
        let n = shape.n_numbers(k);
        Ok(Self {
            shape,
            k,
            penalty,
            slope: zeros(k * k)?,
            bend: zeros(k * k * k)?,
            curve: zeros(if shape == Shape::Free { 0 } else { n * n })?,
            step: zeros(n)?,
            numbers: zeros(n)?,
            factors: zeros(k * k)?,
            chances: zeros(k)?,
        })
    }

    /// Forgets the labels added.
    fn forget(&mut self) {
        self.slope.fill(0.0);
        self.bend.fill(0.0);
    }

    /// Adds a label on a task that is of some class with so much weight.
    fn add(&mut self, own: &[f64], other: &[f64], class: usize, label: usize, weight: f64) {
        let k = self.k;
        chances(own, other, class, label, &mut self.chances);
        let slope = &mut self.slope[class * k..(class + 1) * k];
        let bend = &mut self.bend[class * k * k..(class + 1) * k * k];
        slope[label] += weight;
        for (l, p) in self.chances.iter().enumerate() {
            let mass = weight * p;
            slope[l] -= mass;
            let row = &mut bend[l * k..=l * k + l];
            row.iter_mut().zip(&self.chances).for_each(|(b, q)| *b -= mass * q);
            row[l] += mass;
        }
    }

    /// What the penalty takes.
    fn charge(&self, numbers: &[f64]) -> f64 {
        0.5 * self.penalty * numbers.iter().map(|x| x * x).sum::<f64>()
    }

    /// The step of Newton's method, no longer than [`LONGEST`] in any number.
    fn aim(&mut self, numbers: &[f64]) {
        let k = self.k;
        self.step.iter_mut().zip(numbers).for_each(|(s, x)| *s = -self.penalty * x);
        let solved = match self.shape {
            Shape::Free => {
                self.step.iter_mut().zip(&self.slope).for_each(|(s, g)| *s += g);
                let mut blocks = self.bend.chunks_exact_mut(k * k).zip(self.step.chunks_exact_mut(k));
                blocks.all(|(bend, step)| newton(bend, self.penalty, step))
            }
            Shape::Ordinal => {
                for (cell, g) in self.slope.iter().enumerate() {
                    (1..k).for_each(|place| self.step[Shape::part(place, cell / k, cell % k)] += g);
                }
                self.fold_bend();
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

    /// Turns the bend in the cells into that in the numbers: a cell is a sum of one number for each place.
    fn fold_bend(&mut self) {
        let (k, n) = (self.k, self.step.len());
        let mut half = vec![0.0; n];
        self.curve.fill(0.0);
        for class in 0..k {
            let bend = &self.bend[class * k * k..(class + 1) * k * k];
            for l in 0..k {
                half.fill(0.0);
                for m in 0..k {
                    let b = bend[l.max(m) * k + l.min(m)];
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
    fn climb(
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

/// Solves (bend + penalty · I) x = right in place, and says whether that could be done.
fn newton(bend: &mut [f64], penalty: f64, right: &mut [f64]) -> bool {
    let solved = cholesky(bend, penalty, right.len());
    if solved {
        cholesky_solve(bend, right, right.len(), 1);
    }
    solved
}

struct Model<'a> {
    table: &'a Table,
    control: &'a Control,
    workers: Side,
    tasks: Side,
    posterior: Vec<f64>,
}

impl Model<'_> {
    /// Every task climbs at most so many steps; returns the objective they reach.
    fn move_tasks(&mut self, n_steps: usize) -> Result<f64> {
        let (table, control) = (self.table, self.control);
        let Self { workers, tasks: Side { shape, k, penalty, numbers, factors }, posterior, .. } = self;
        let (k, n, workers) = (*k, shape.n_numbers(*k), &*workers);
        let blocks: Vec<f64> = posterior
            .par_chunks_mut(BLOCK * k)
            .zip(numbers.par_chunks_mut(BLOCK * n).zip(factors.par_chunks_mut(BLOCK * k * k)))
            .enumerate()
            .map(|(block, (posterior, (numbers, factors)))| {
                let mut climber = Climber::new(*shape, k, *penalty)?;
                let mut task = Task { table, control, workers, index: block * BLOCK, chances: vec![0.0; k] };
                let mut sum = 0.0;
                let own = numbers.chunks_exact_mut(n).zip(factors.chunks_exact_mut(k * k));
                for (posterior, (numbers, factors)) in posterior.chunks_exact_mut(k).zip(own) {
                    sum += task.climb(&mut climber, posterior, numbers, factors, n_steps)?;
                    task.index += 1;
                }
                Ok(sum)
            })
            .collect::<Result<_>>()?;
        let charge = 0.5 * self.workers.penalty * self.workers.numbers.iter().map(|x| x * x).sum::<f64>();
        Ok(blocks.iter().sum::<f64>() - charge)
    }

    /// Every worker climbs one step, given the posteriors.
    fn move_workers(&mut self, order: &WorkerOrder) -> Result<()> {
        let control = self.control;
        let Self { workers: Side { shape, k, penalty, numbers, factors }, tasks, posterior, .. } = self;
        let (k, tasks, posterior) = (*k, &*tasks, &*posterior);
        let blocks = numbers.par_chunks_mut(shape.n_numbers(k)).zip(factors.par_chunks_mut(k * k)).enumerate();
        blocks.try_for_each_init(
            || (Climber::new(*shape, k, *penalty), vec![0.0; k]),
            |(climber, chance), (w, (numbers, factors))| {
                let climber = ready(climber)?;
                let labels = Labels { order, tasks, posterior, control, worker: w };
                climber.forget();
                let mut value = 0.0;
                labels.each(|other, class, label, weight| {
                    value += weight * chances(factors, other, class, label, chance).ln();
                    climber.add(factors, other, class, label, weight);
                })?;
                let from = value - climber.charge(numbers);
                climber.climb(numbers, factors, from, |own| {
                    let mut value = 0.0;
                    labels.each(|other, class, label, weight| {
                        value += weight * chances(own, other, class, label, chance).ln();
                    })?;
                    Ok(value)
                })?;
                Ok(())
            },
        )
    }

    /// Probabilities of each worker's labels of each class, averaged over the tasks they labelled; on a task without
    /// confusions of its own where they labelled none of the class.
    fn confusion(&self, order: &WorkerOrder) -> Result<Vec<f64>> {
        let k = self.workers.k;
        let mut out = copied(&self.workers.factors)?;
        out.par_chunks_mut(k * k).enumerate().try_for_each_init(Vec::new, |sums, (w, out)| {
            let labels =
                Labels { order, tasks: &self.tasks, posterior: &self.posterior, control: self.control, worker: w };
            let (own, mut chance) = (self.workers.of(w as u32), vec![0.0; k]);
            clear(sums, k * k)?;
            labels.each(|other, class, label, weight| {
                chances(own, other, class, label, &mut chance);
                sums[class * k..(class + 1) * k].iter_mut().zip(&chance).for_each(|(sum, p)| *sum += weight * p);
            })?;
            for (row, sums) in out.chunks_exact_mut(k).zip(sums.chunks_exact(k)) {
                if sums.iter().any(|x| *x > 0.0) {
                    row.copy_from_slice(sums);
                }
                normalise(row);
            }
            Ok(())
        })?;
        Ok(out)
    }
}

/// One task and those who labelled it.
struct Task<'a> {
    table: &'a Table,
    control: &'a Control,
    workers: &'a Side,
    index: usize,
    chances: Vec<f64>,
}

impl Task<'_> {
    /// Worker's factors, label and weight of each row.
    fn rows(&self) -> impl Iterator<Item = (&[f64], usize, f64)> {
        self.table.rows_of(self.index).map(|row| {
            let weight = self.table.weights().map_or(1.0, |w| w[row]);
            (self.workers.of(self.table.workers()[row]), self.table.labels().get(row), weight)
        })
    }

    /// The log-likelihood of the labels, classes summed out; writes the posterior.
    fn evaluate(&self, own: &[f64], posterior: &mut [f64], chance: &mut [f64]) -> Result<f64> {
        self.control.check()?;
        posterior.fill(-(posterior.len() as f64).ln());
        for (other, label, weight) in self.rows() {
            for (class, log) in posterior.iter_mut().enumerate() {
                *log += weight * chances(own, other, class, label, chance).ln();
            }
        }
        Ok(softmax(posterior))
    }

    /// Takes at most so many steps uphill; returns the value they lead to.
    fn climb(
        &mut self,
        climber: &mut Climber,
        posterior: &mut [f64],
        numbers: &mut [f64],
        factors: &mut [f64],
        n_steps: usize,
    ) -> Result<f64> {
        let mut chance = std::mem::take(&mut self.chances);
        let mut value = self.evaluate(factors, posterior, &mut chance)? - climber.charge(numbers);
        for _ in 0..n_steps {
            climber.forget();
            for (other, label, weight) in self.rows() {
                for (class, q) in posterior.iter().enumerate().filter(|(_, q)| **q > NOTHING) {
                    climber.add(factors, other, class, label, weight * q);
                }
            }
            let evaluate = |own: &[f64]| self.evaluate(own, posterior, &mut chance);
            let (reached, length) = climber.climb(numbers, factors, value, evaluate)?;
            value = reached;
            if length < STILL {
                break;
            }
        }
        self.chances = chance;
        Ok(value)
    }
}

/// The labels of one worker.
struct Labels<'a> {
    order: &'a WorkerOrder,
    tasks: &'a Side,
    posterior: &'a [f64],
    control: &'a Control,
    worker: usize,
}

impl Labels<'_> {
    /// Calls `job` with the task's factors, a class, the label, and the weight that it has with the task of that class.
    fn each(&self, mut job: impl FnMut(&[f64], usize, usize, f64)) -> Result<()> {
        let k = self.tasks.k;
        for at in self.order.offsets[self.worker] as usize..self.order.offsets[self.worker + 1] as usize {
            if at.is_multiple_of(ROWS_PER_CHECK) {
                self.control.check()?;
            }
            let (task, label) = (self.order.tasks[at], self.order.labels.get(at));
            let weight = self.order.weights.as_ref().map_or(1.0, |weights| weights[at]);
            let (factors, first) = (self.tasks.of(task), task as usize * k);
            for (class, q) in self.posterior[first..first + k].iter().enumerate().filter(|(_, q)| **q > NOTHING) {
                job(factors, class, label, weight * q);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::of_rows;
    use proptest::prelude::*;

    const OPTIONS: Options =
        Options { ordinal: false, worker_penalty: 4.0, task_penalty: 10.0, max_iter: 25, tol: 0.0 };

    proptest! {
        #[test]
        fn the_objective_never_falls(
            rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..120),
            ordinal in any::<bool>(), weighted in any::<bool>(), lax in any::<bool>(),
        ) {
            let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
            let table = of_rows(&rows, weighted.then_some(&weights[..]), [15, 6, 4]);
            let options = Options { ordinal, worker_penalty: if lax { 0.01 } else { 4.0 }, ..OPTIONS };
            let fit = minimax_fit(&table, &options, &Control::default()).unwrap();
            for pair in fit.history.windows(2) {
                prop_assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0), "{:?}", fit.history);
            }
            for row in fit.posterior.chunks_exact(4).chain(fit.confusion.chunks_exact(4)) {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            prop_assert!(fit.sigma.iter().chain(&fit.tau).all(|x| x.is_finite()));
        }

        #[test]
        fn folding_the_bend_is_a_congruence(
            k in 2_usize..5, cells in prop::collection::vec(-1.0_f64..1.0, 64),
        ) {
            let mut climber = Climber::new(Shape::Ordinal, k, 1.0).unwrap();
            climber.bend.copy_from_slice(&cells[..k * k * k]);
            climber.fold_bend();
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
                    let bend = cells[c * k * k + l.max(m) * k + l.min(m)];
                    expected += a[c * k + l] * bend * b[c * k + m];
                }
                prop_assert!((climber.curve[i * n + j] - expected).abs() < 1e-9);
            }
        }
    }

    const ROWS: [(u32, u32, u16); 12] = [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 1),
        (1, 0, 2),
        (1, 2, 2),
        (1, 1, 0),
        (2, 0, 1),
        (2, 1, 2),
        (2, 2, 1),
        (3, 0, 1),
        (3, 1, 1),
        (3, 2, 0),
    ];
    const WEIGHTS: [f64; 12] = [1.0, 2.0, 0.5, 1.0, 1.5, 1.0, 3.0, 0.25, 1.0, 1.0, 2.0, 1.0];

    /// The probability that a worker says something of a task of some class.
    fn said(sigma: &[f64], tau: &[f64], (task, worker, label): (u32, u32, u16), class: usize) -> f64 {
        let log = |l: usize| tau[task as usize * 9 + class * 3 + l] + sigma[worker as usize * 9 + class * 3 + l];
        log(usize::from(label)).exp() / (0..3).map(|l| log(l).exp()).sum::<f64>()
    }

    /// The log-likelihood of the labels, classes summed out, and the posteriors, written out.
    fn by_hand(sigma: &[f64], tau: &[f64]) -> (f64, Vec<f64>) {
        let mut joint = vec![-(3_f64.ln()); 12];
        for (&row, weight) in ROWS.iter().zip(WEIGHTS) {
            (0..3).for_each(|class| joint[row.0 as usize * 3 + class] += weight * said(sigma, tau, row, class).ln());
        }
        (joint.chunks_exact_mut(3).map(softmax).sum(), joint)
    }

    fn charge(numbers: &[f64], penalty: f64) -> f64 {
        0.5 * penalty * numbers.iter().map(|x| x * x).sum::<f64>()
    }

    #[test]
    fn the_objective_is_the_penalised_log_likelihood_and_at_its_summit() {
        let table = of_rows(&ROWS, Some(&WEIGHTS), [4, 3, 3]);
        let options = Options { worker_penalty: 0.7, task_penalty: 1.3, max_iter: 300, ..OPTIONS };
        let fit = minimax_fit(&table, &options, &Control::default()).unwrap();
        let value = |sigma: &[f64], tau: &[f64]| by_hand(sigma, tau).0 - charge(sigma, 0.7) - charge(tau, 1.3);
        let summit = value(&fit.sigma, &fit.tau);
        assert!((fit.history[fit.n_iter - 1] - summit).abs() < 1e-9);
        let posterior = by_hand(&fit.sigma, &fit.tau).1;
        assert!(fit.posterior.iter().zip(&posterior).all(|(a, b)| (a - b).abs() < 1e-9));
        for (i, step) in (0..63).flat_map(|i| [(i, -1e-4), (i, 1e-4)]) {
            let (mut sigma, mut tau) = (fit.sigma.clone(), fit.tau.clone());
            *sigma.iter_mut().chain(&mut tau).nth(i).unwrap() += step;
            assert!(value(&sigma, &tau) < summit + 1e-9, "number {i} can do better");
        }
        // Confusion matrices are averages over the labels a worker gave, class by class.
        for (w, class) in (0..9).map(|i| (i / 3, i % 3)) {
            let (mut sums, mut total) = ([0.0; 3], 0.0);
            for (&(task, worker, _), weight) in
                ROWS.iter().zip(WEIGHTS).filter(|((_, worker, _), _)| *worker as usize == w)
            {
                let mass = weight * posterior[task as usize * 3 + class];
                (0..3).for_each(|l| sums[l] += mass * said(&fit.sigma, &fit.tau, (task, worker, l as u16), class));
                total += mass;
            }
            (0..3).for_each(|l| assert!((fit.confusion[w * 9 + class * 3 + l] - sums[l] / total).abs() < 1e-9));
        }
    }

    #[test]
    fn ordinal_matrices_are_sums_over_the_places_between_classes() {
        let table = of_rows(&ROWS, Some(&WEIGHTS), [4, 3, 3]);
        let options = Options { ordinal: true, max_iter: 100, ..OPTIONS };
        let fit = minimax_fit(&table, &options, &Control::default()).unwrap();
        for cell in fit.sigma.chunks_exact(9) {
            // Two labels differ by the place between them alone, which tells classes on the same side of it not apart.
            let step = |class: usize, label: usize| cell[class * 3 + label] - cell[class * 3 + label + 1];
            assert!((step(1, 0) - step(2, 0)).abs() < 1e-9 && (step(0, 1) - step(1, 1)).abs() < 1e-9);
        }
        let log = by_hand(&fit.sigma, &fit.tau);
        assert!(fit.posterior.iter().zip(&log.1).all(|(a, b)| (a - b).abs() < 1e-9));
        let mut cells = [0.0; 9];
        Shape::Ordinal.write(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0], 3, &mut cells);
        assert_eq!(cells, [17.0, 18.0, 34.0, 20.0, 24.0, 40.0, 68.0, 72.0, 136.0]);
    }

    #[test]
    fn tasks_alone_start_from_what_workers_say() {
        let table = of_rows(&ROWS, Some(&WEIGHTS), [4, 3, 3]);
        let sigma: Vec<f64> = (0..27).map(|i| f64::from(i * 5 % 7) / 3.0).collect();
        // Under so great a penalty tasks have no numbers of their own.
        let posterior = minimax_posterior(&table, &sigma, false, 1e12, &Control::default()).unwrap();
        assert!(posterior.iter().zip(by_hand(&sigma, &[0.0; 36]).1).all(|(a, b)| (a - b).abs() < 1e-9));
    }

    #[test]
    fn ten_thousand_labels_on_a_task_do_not_underflow() {
        let rows: Vec<(u32, u32, u16)> = (0..20_000).map(|i| (i / 10_000, i % 6, (i % 3) as u16)).collect();
        let fit = minimax_fit(&of_rows(&rows, None, [2, 6, 3]), &OPTIONS, &Control::default()).unwrap();
        assert!(fit.posterior.iter().chain(&fit.sigma).chain(&fit.history).all(|x| x.is_finite()));
    }

    #[test]
    fn bad_options_are_named() {
        let table = of_rows(&[(0, 0, 0)], None, [1, 1, 2]);
        let fails = |options: &Options| minimax_fit(&table, options, &Control::default()).unwrap_err().to_string();
        assert!(fails(&Options { worker_penalty: 0.0, ..OPTIONS }).contains("a penalty of 0 is not"));
        let wide = of_rows(&[(0, 0, 0)], None, [1, 1, 60_000]);
        let error = minimax_fit(&wide, &OPTIONS, &Control::default()).unwrap_err().to_string();
        assert!(error.contains("matrices of 60000 × 60000 classes"), "{error}");
        let error = minimax_posterior(&table, &[0.0], false, 1.0, &Control::default()).unwrap_err().to_string();
        assert!(error.contains("sigma must hold 4 finite numbers"));
    }
}
