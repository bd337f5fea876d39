//! GLAD (Whitehill et al. 2009): workers of different ability on tasks of different difficulty.
//!
//! Worker `w` answers task `n` rightly with probability σ(ability[w] · exp(ease[n])), and errors are spread evenly.
//! Abilities and eases have normal priors of variance one. A pass is coordinate ascent, every step of which can only
//! raise the penalized log-likelihood: each task moves its ease (the posterior is summed out, so that is an ascent in
//! one dimension), each worker its ability given the posteriors (a concave ascent in one dimension, the M-step of EM),
//! and at last all abilities are multiplied by one number and all eases divided by it, which the labels cannot tell
//! apart but the priors can.

use rayon::prelude::*;

use crate::base::control::Control;
use crate::base::course::{Course, Tolerance};
use crate::base::memory::{copied, par_collected, reserve, zeros};
use crate::base::num::{LEVEL, softmax};
use crate::categorical::table::{Table, WorkerOrder};
use crate::{Error, Result};

/// Tasks, and workers, that one job handles between two looks at the control.
const BLOCK: usize = 1 << 9;
/// No step changes a coordinate by more than this.
const LONGEST: f64 = 1.0;
/// A step is halved at most so often before it is given up.
const HALVINGS: usize = 20;
/// Steps of a task whose workers are known, and the length at which they end.
const STEPS_ALONE: usize = 100;
const STILL: f64 = 1e-12;
/// Steps that settle the common factor.
const STEPS_TOGETHER: usize = 5;

/// Arguments of [`glad_fit`].
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Class prior, (classes); it stays as it is.
    pub prior: &'a [f64],
    /// Prior mean, and start, of each worker's ability.
    pub ability: &'a [f64],
    /// Prior mean, and start, of each task's ease.
    pub ease: &'a [f64],
    /// Most passes.
    pub max_iter: usize,
    /// Stop when the objective changes by less than this share of itself.
    pub tol: f64,
}

/// What [`glad_fit`] found.
#[derive(Debug)]
pub struct Fit {
    /// Class posterior of each task, (tasks × classes).
    pub posterior: Vec<f64>,
    /// Ability of each worker.
    pub ability: Vec<f64>,
    /// Ease of each task: the logarithm of its inverse difficulty.
    pub ease: Vec<f64>,
    /// Probability of a right answer of each worker, averaged over the tasks they labeled.
    pub accuracy: Vec<f64>,
    /// The penalized log-likelihood, up to a constant, at the start and after each pass.
    pub history: Vec<f64>,
    /// Passes made.
    pub n_iter: usize,
    /// Whether the stopping rule was met.
    pub converged: bool,
}

/// Fits abilities and eases.
///
/// Time O(annotations + tasks · classes) a pass, with a few exponentials for each annotation. Memory in addition to the
/// result: 8 bytes per task, and the table in worker order (5 to 6 bytes per annotation), which is kept with the table.
pub fn glad_fit(table: &Table, options: &Options<'_>, control: &Control) -> Result<Fit> {
    validate(table, options)?;
    let order = table.by_worker(control)?;
    let mut model = Model::new(table, options, control)?;
    let mut course = Course { history: vec![model.move_tasks(1)?], ..Course::default() };
    while course.running(options.max_iter) {
        model.move_workers(order)?;
        model.rescale();
        let objective = model.move_tasks(1)?;
        course.advance(objective, Tolerance::Share(options.tol), control);
    }
    let accuracy = model.accuracy(order)?;
    let Model { posterior, ability, ease, .. } = model;
    let Course { history, n_iter, converged, .. } = course;
    Ok(Fit { posterior, ability, ease, accuracy, history, n_iter, converged })
}

/// Class posteriors (tasks × classes) of tasks labeled by workers of known ability: each task takes its most probable
/// ease.
pub fn glad_posterior(table: &Table, options: &Options<'_>, control: &Control) -> Result<Vec<f64>> {
    validate(table, options)?;
    let mut model = Model::new(table, options, control)?;
    model.move_tasks(STEPS_ALONE)?;
    Ok(model.posterior)
}

fn validate(table: &Table, options: &Options<'_>) -> Result<()> {
    let expected = [
        ("prior", options.prior, table.n_labels()),
        ("ability", options.ability, table.n_workers()),
        ("ease", options.ease, table.n_tasks()),
    ];
    for (what, given, wanted) in expected {
        if given.len() != wanted {
            return Err(Error::invalid(format!("{what} holds {} numbers, not {wanted}", given.len())));
        }
        if let Some(bad) = given.iter().find(|x| !x.is_finite()) {
            return Err(Error::invalid(format!("{what} holds {bad}, which is not a finite number")));
        }
    }
    match options.prior.iter().find(|p| **p < 0.0) {
        Some(bad) => Err(Error::invalid(format!("prior holds {bad}, which is not a probability"))),
        None => Ok(()),
    }
}

/// A function at a point: its value, its slope, and a positive estimate of how it curves down.
#[derive(Debug, Clone, Copy)]
struct Point {
    value: f64,
    slope: f64,
    bend: f64,
}

/// One step uphill from `at`, halved until the value does not fall, but for rounding; returns where it led, and the
/// function there.
///
/// `evaluate` was last called at the place that is returned.
fn ascend(at: f64, from: Point, mut evaluate: impl FnMut(f64) -> Point) -> (f64, Point) {
    let mut step = (from.slope / from.bend).clamp(-LONGEST, LONGEST);
    for _ in 0..HALVINGS {
        let there = evaluate(at + step);
        if there.value >= from.value - LEVEL * from.value.abs() {
            return (at + step, there);
        }
        step /= 2.0;
    }
    (at, evaluate(at))
}

/// ln(1 + exp(x)) and 1 / (1 + exp(-x)), with one exponential.
#[inline(always)]
fn softplus_and_sigmoid(x: f64) -> (f64, f64) {
    let e = (-x.abs()).exp();
    let softplus = x.max(0.0) + e.ln_1p();
    let small = e / (1.0 + e);
    (softplus, if x >= 0.0 { 1.0 - small } else { small })
}

/// What the labels of tasks say, given the workers.
struct Tasks<'a> {
    table: &'a Table,
    log_prior: Vec<f64>,
    /// Prior means of the eases.
    mean: &'a [f64],
    /// Logarithm of the number of ways to be wrong.
    errors: f64,
}

impl<'a> Tasks<'a> {
    fn new(table: &'a Table, options: &Options<'a>) -> Self {
        let log_prior = options.prior.iter().map(|p| p.max(f64::MIN_POSITIVE).ln()).collect();
        let errors = (table.n_labels().max(2) as f64 - 1.0).ln();
        Self { table, log_prior, mean: options.ease, errors }
    }

    /// The log-evidence of a task and the log-density of its ease; writes the posterior.
    fn evaluate(
        &self,
        task: usize,
        ease: f64,
        ability: &[f64],
        posterior: &mut [f64],
        scratch: &mut Vec<f64>,
    ) -> Point {
        let (table, pace) = (self.table, ease.exp());
        let (rows, off) = (table.rows_of(task), ease - self.mean[task]);
        let mut point = Point { value: -0.5 * off * off, slope: -off, bend: 1.0 };
        posterior.copy_from_slice(&self.log_prior);
        scratch.clear();
        for row in rows.clone() {
            let weight = table.weights().map_or(1.0, |w| w[row]);
            let x = ability[table.workers()[row] as usize] * pace;
            let (softplus, right) = softplus_and_sigmoid(x);
            point.value -= weight * (softplus + self.errors);
            point.slope -= weight * right * x;
            point.bend += weight * x * x * right * (1.0 - right);
            posterior[table.labels().get(row)] += weight * (x + self.errors);
            scratch.push(weight * x);
        }
        point.value += softmax(posterior);
        for (row, x) in rows.zip(&*scratch) {
            point.slope += posterior[table.labels().get(row)] * x;
        }
        point
    }
}

struct Model<'a> {
    ability: Vec<f64>,
    ease: Vec<f64>,
    posterior: Vec<f64>,
    tasks: Tasks<'a>,
    /// Prior means of the abilities.
    mean: &'a [f64],
    control: &'a Control,
}

impl<'a> Model<'a> {
    /// At the prior means.
    fn new(table: &'a Table, options: &Options<'a>, control: &'a Control) -> Result<Self> {
        Ok(Self {
            ability: copied(options.ability)?,
            ease: copied(options.ease)?,
            posterior: zeros(table.n_tasks() * table.n_labels())?,
            tasks: Tasks::new(table, options),
            mean: options.ability,
            control,
        })
    }

    /// Every task ascends at most this many steps; returns the objective they reach.
    fn move_tasks(&mut self, n_steps: usize) -> Result<f64> {
        let (k, tasks, ability, control) = (self.tasks.table.n_labels(), &self.tasks, &self.ability, self.control);
        let blocks: Vec<f64> = self
            .posterior
            .par_chunks_mut(BLOCK * k)
            .zip(self.ease.par_chunks_mut(BLOCK))
            .enumerate()
            .map(|(block, (posterior, ease))| {
                control.check()?;
                let mut scratch = vec![];
                let mut sum = 0.0;
                for (i, (posterior, ease)) in posterior.chunks_exact_mut(k).zip(ease).enumerate() {
                    let task = block * BLOCK + i;
                    scratch.clear();
                    reserve(&mut scratch, tasks.table.rows_of(task).len())?;
                    let mut evaluate = |at| tasks.evaluate(task, at, ability, posterior, &mut scratch);
                    let mut point = evaluate(*ease);
                    for _ in 0..n_steps {
                        let before = *ease;
                        (*ease, point) = ascend(before, point, &mut evaluate);
                        if (*ease - before).abs() < STILL {
                            break;
                        }
                    }
                    sum += point.value;
                }
                Ok(sum)
            })
            .collect::<Result<_>>()?;
        Ok(blocks.iter().sum::<f64>() + self.log_density())
    }

    /// The log-density of the abilities, up to a constant.
    fn log_density(&self) -> f64 {
        self.ability.iter().zip(self.mean).map(|(a, mean)| -0.5 * (a - mean) * (a - mean)).sum()
    }

    /// Every worker ascends one step, given the posteriors.
    fn move_workers(&mut self, order: &WorkerOrder) -> Result<()> {
        let (posterior, mean, control) = (&self.posterior, self.mean, self.control);
        let k = self.tasks.table.n_labels();
        let pace: Vec<f64> = par_collected(self.ease.par_iter().map(|ease| ease.exp()))?;
        self.ability.par_iter_mut().enumerate().with_max_len(BLOCK).try_for_each_init(
            Vec::new,
            |answers, (w, ability)| {
                control.check()?;
                answers.clear();
                reserve(answers, (order.offsets[w + 1] - order.offsets[w]) as usize)?;
                answers.extend((order.offsets[w] as usize..order.offsets[w + 1] as usize).map(|at| {
                    let task = order.tasks[at] as usize;
                    let weight = order.weights.as_ref().map_or(1.0, |weights| weights[at]);
                    (pace[task], posterior[task * k + order.labels.get(at)], weight)
                }));
                let evaluate = |at: f64| {
                    let off = at - mean[w];
                    let mut point = Point { value: -0.5 * off * off, slope: -off, bend: 1.0 };
                    for &(pace, right, weight) in &*answers {
                        let (softplus, expected) = softplus_and_sigmoid(at * pace);
                        point.value += weight * (right * at * pace - softplus);
                        point.slope += weight * (right - expected) * pace;
                        point.bend += weight * pace * pace * expected * (1.0 - expected);
                    }
                    point
                };
                *ability = ascend(*ability, evaluate(*ability), evaluate).0;
                Ok(())
            },
        )
    }

    /// Multiplies all abilities by one factor and divides all paces by it, as the priors like best.
    fn rescale(&mut self) {
        let pairs = || self.ability.iter().zip(self.mean);
        let (squares, products) = pairs().fold((0.0, 0.0), |(s, p), (a, mean)| (s + a * a, p + a * mean));
        let off: f64 = self.ease.iter().zip(self.tasks.mean).map(|(ease, mean)| ease - mean).sum();
        let n = self.ease.len() as f64;
        let evaluate = |log: f64| {
            let factor = log.exp();
            Point {
                value: factor * products - 0.5 * factor * factor * squares + log * off - 0.5 * n * log * log,
                slope: factor * products - factor * factor * squares + off - n * log,
                bend: 2.0 * factor * factor * squares + factor * products.abs() + n,
            }
        };
        let mut log = 0.0;
        for _ in 0..STEPS_TOGETHER {
            log = ascend(log, evaluate(log), evaluate).0;
        }
        self.ability.iter_mut().for_each(|a| *a *= log.exp());
        self.ease.iter_mut().for_each(|ease| *ease -= log);
    }

    /// Probability of a right answer of each worker, averaged over their labels; without any, on a task of average
    /// ease.
    fn accuracy(&self, order: &WorkerOrder) -> Result<Vec<f64>> {
        let average = self.ease.iter().sum::<f64>() / self.ease.len() as f64;
        let right = |ability: f64, ease: f64| softplus_and_sigmoid(ability * ease.exp()).1;
        par_collected(self.ability.par_iter().enumerate().map(|(w, &ability)| {
            let rows = order.offsets[w] as usize..order.offsets[w + 1] as usize;
            let (sum, total) = rows.fold((0.0, 0.0), |(sum, total), at| {
                let weight = order.weights.as_ref().map_or(1.0, |weights| weights[at]);
                (sum + weight * right(ability, self.ease[order.tasks[at] as usize]), total + weight)
            });
            if total > 0.0 { sum / total } else { right(ability, average) }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categorical::table::tests::{LOG as ROWS, LOG_WEIGHTS as WEIGHTS, of_rows};
    use proptest::prelude::*;

    /// Fifteen tasks, six workers, four classes.
    fn table(rows: &[(u32, u32, u16)], weights: Option<&[f64]>) -> Table {
        of_rows(rows, weights, [15, 6, 4])
    }

    const START: Options<'_> =
        Options { prior: &[0.25; 4], ability: &[1.0; 6], ease: &[1.0; 15], max_iter: 40, tol: 0.0 };

    proptest! {
        #[test]
        fn the_objective_never_falls(
            rows in prop::collection::vec((0_u32..15, 0_u32..6, 0_u16..4), 1..200), weighted in any::<bool>(),
        ) {
            let weights: Vec<f64> = (0..rows.len()).map(|i| 0.5 + (i % 3) as f64).collect();
            let fit = glad_fit(&table(&rows, weighted.then_some(&weights[..])), &START, &Control::default()).unwrap();
            for pair in fit.history.windows(2) {
                prop_assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs().max(1.0), "{:?}", fit.history);
            }
            prop_assert!(fit.ability.iter().chain(&fit.ease).all(|x| x.abs() < 50.0));
            for row in fit.posterior.chunks_exact(4) {
                prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }

        #[test]
        fn slopes_are_slopes(
            rows in prop::collection::vec((0_u32..2, 0_u32..6, 0_u16..4), 1..30), ease in -2.0..2.0_f64,
        ) {
            let table = table(&rows, None);
            let tasks = Tasks::new(&table, &START);
            let value = |at| tasks.evaluate(0, at, &[1.5, -0.5, 0.2, 3.0, 1.0, 0.0], &mut [0.0; 4], &mut vec![]);
            let slope = (value(ease + 1e-5).value - value(ease - 1e-5).value) / 2e-5;
            prop_assert!((slope - value(ease).slope).abs() < 1e-5 * (1.0 + slope.abs()), "{slope}");
        }
    }

    const PRIOR: [f64; 4] = [0.4, 0.3, 0.2, 0.1];

    fn right(ability: f64, ease: f64) -> f64 {
        1.0 / (1.0 + (-ability * ease.exp()).exp())
    }

    /// The log-likelihood and the log-density of the priors, and the posteriors, written out.
    fn by_hand(ability: &[f64], ease: &[f64], options: &Options<'_>) -> (f64, Vec<f64>) {
        let mut joint: Vec<f64> = ease.iter().flat_map(|_| PRIOR.map(f64::ln)).collect();
        for (&(task, worker, label), weight) in ROWS.iter().zip(WEIGHTS) {
            let p = right(ability[worker as usize], ease[task as usize]);
            for class in 0..4 {
                let likelihood = if class == usize::from(label) { p } else { (1.0 - p) / 3.0 };
                joint[task as usize * 4 + class] += weight * likelihood.ln();
            }
        }
        let log: f64 = joint.chunks_exact_mut(4).map(softmax).sum();
        let off = |x: &[f64], mean: &[f64]| x.iter().zip(mean).map(|(x, mean)| (x - mean) * (x - mean)).sum::<f64>();
        (log - 0.5 * off(ability, options.ability) - 0.5 * off(ease, options.ease), joint)
    }

    #[test]
    fn the_objective_is_the_penalised_log_likelihood_and_at_its_summit() {
        let options = Options { prior: &PRIOR, ability: &[0.8; 6], ease: &[0.3; 15], max_iter: 500, tol: 0.0 };
        let fit = glad_fit(&table(&ROWS, Some(&WEIGHTS)), &options, &Control::default()).unwrap();
        let (log, posterior) = by_hand(&fit.ability, &fit.ease, &options);
        assert!((fit.history[fit.n_iter] - log).abs() < 1e-9, "{} is not {log}", fit.history[fit.n_iter]);
        assert!(fit.posterior.iter().zip(&posterior).all(|(a, b)| (a - b).abs() < 1e-9));
        for (i, step) in (0..21).flat_map(|i| [(i, -1e-4), (i, 1e-4)]) {
            let (mut ability, mut ease) = (fit.ability.clone(), fit.ease.clone());
            *ability.iter_mut().chain(&mut ease).nth(i).unwrap() += step;
            assert!(by_hand(&ability, &ease, &options).0 < log + 1e-9, "number {i} can do better");
        }
        for (w, accuracy) in fit.accuracy.iter().enumerate() {
            let labels = ROWS.iter().zip(WEIGHTS).filter(|((_, worker, _), _)| *worker as usize == w);
            let (sum, total) = labels.fold((0.0, 0.0), |(sum, total), ((task, ..), weight)| {
                (sum + weight * right(fit.ability[w], fit.ease[*task as usize]), total + weight)
            });
            assert!((accuracy - sum / total).abs() < 1e-12);
        }
    }

    #[test]
    fn tasks_alone_take_their_best_ease() {
        let (ability, means) = ([1.5, -0.5, 0.2, 3.0, 1.0, 0.7], [0.3; 15]);
        let options = Options { prior: &PRIOR, ability: &ability, ease: &means, max_iter: 0, tol: 0.0 };
        let posterior = glad_posterior(&table(&ROWS, Some(&WEIGHTS)), &options, &Control::default()).unwrap();
        // By trying them all.
        let mut best = vec![(f64::NEG_INFINITY, vec![]); 15];
        for step in -3000..3000 {
            let at = f64::from(step) * 1e-3;
            for (task, best) in best.iter_mut().enumerate() {
                let mut ease = means;
                ease[task] = at;
                let (log, rows) = by_hand(&ability, &ease, &options);
                if log > best.0 {
                    *best = (log, rows[task * 4..][..4].to_vec());
                }
            }
        }
        for (result, (_, wanted)) in posterior.chunks_exact(4).zip(&best) {
            assert!(result.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 2e-3), "{result:?}, not {wanted:?}");
        }
    }

    #[test]
    fn a_worker_without_labels_is_judged_on_an_average_task() {
        let fit = glad_fit(&table(&ROWS[..1], None), &START, &Control::default()).unwrap();
        let average = fit.ease.iter().sum::<f64>() / 15.0;
        assert!((fit.accuracy[5] - right(fit.ability[5], average)).abs() < 1e-12);
    }

    #[test]
    fn many_labels_on_a_task_stay_finite() {
        let rows: Vec<(u32, u32, u16)> = (0..20_000).map(|i| (i / 10_000, i % 6, (i % 3) as u16)).collect();
        let fit = glad_fit(&table(&rows, None), &START, &Control::default()).unwrap();
        assert!(fit.posterior.iter().chain(&fit.ability).chain(&fit.ease).chain(&fit.history).all(|x| x.is_finite()));
    }

    #[test]
    fn bad_options_are_named() {
        let table = table(&[(0, 0, 0)], None);
        let fails = |options: &Options<'_>| glad_fit(&table, options, &Control::default()).unwrap_err().to_string();
        assert!(fails(&Options { ability: &[1.0], ..START }).contains("ability holds 1 numbers, not 6"));
        assert!(fails(&Options { ease: &[f64::NAN; 15], ..START }).contains("NaN"));
        assert!(fails(&Options { prior: &[-1.0; 4], ..START }).contains("not a probability"));
    }
}
