//! Bradley–Terry models of comparisons, with workers who see leads more or less clearly, or the wrong way round.

use rayon::prelude::*;

use super::graph::{Fold, Graph};
use super::newton::{Ascent, Crowd, EXTRA, Prior};
use super::outcome::Ties;
use super::table::Comparisons;
use super::worker_slopes::{Evidence, Scores, Spread, Workers, alone};
use crate::base::control::Control;
use crate::base::course::Course;
use crate::base::memory::{filled, push, zeros};
use crate::{Error, Result};

/// Whether comparisons favor the item on the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftBias {
    /// They do not.
    None,
    /// As much with all workers.
    Shared,
    /// Each worker in their own way.
    Worker,
}

/// What to fit, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// What becomes of ties.
    pub ties: Ties,
    /// Whether comparisons favor the left.
    pub left_bias: LeftBias,
    /// Whether workers have slopes.
    pub slopes: bool,
    /// The standard deviation of scores before any comparison.
    pub prior: f64,
    /// How far workers spread; NaN where that is to be learned.
    pub spread: Spread,
    /// Scores, bias and parameter of ties to start from.
    pub start: Option<&'a [f64]>,
    /// Most iterations.
    pub max_iter: usize,
    /// The error of scores and slopes at which to stop, in their standard errors.
    pub tol: f64,
}

/// What was found of items, workers and outcomes.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    /// Score of each item, then the bias to the left and the parameter of ties: NaN where there are no ties.
    pub point: Vec<f64>,
    /// Slope of each worker; empty where they have none.
    pub slopes: Vec<f64>,
    /// How far each worker's bias is from the crowd's; empty where they have none of their own.
    pub biases: Vec<f64>,
}

/// A fit.
#[derive(Debug, Clone)]
pub struct Fit {
    /// What was found.
    pub found: Parameters,
    /// Standard errors of slopes and biases, given the scores.
    pub worker_errors: [Vec<f64>; 2],
    /// How far workers spread.
    pub spread: Spread,
    /// The log-likelihood and the log-density of the priors, after each iteration at the last spread.
    pub history: Vec<f64>,
    /// Iterations made.
    pub n_iter: usize,
    /// Whether the tolerance was met.
    pub converged: bool,
}

/// Fits a Bradley–Terry model: O(comparisons) memory, and time for each iteration and step of conjugate gradients.
pub fn bradley_terry_fit(table: &Comparisons, options: &Options<'_>, control: &Control) -> Result<Fit> {
    check(options)?;
    let own = [options.slopes, options.left_bias == LeftBias::Worker];
    let fold = match options.left_bias {
        _ if own.contains(&true) => Fold::Workers,
        LeftBias::None => Fold::Pairs,
        _ => Fold::Sides,
    };
    let mut graph = Graph::new(table, options.ties, fold, control)?;
    if graph.ends.is_empty() {
        return Err(Error::invalid("all comparisons weigh 0: there is nothing to learn from"));
    }
    let prior = Prior::Normal(options.prior.powi(-2));
    let bias = options.left_bias != LeftBias::None;
    let mut ascent = Ascent::new(&mut graph, options.ties, prior, bias, options.start)?;
    let mut course = Course::default();
    let mut workers = Workers::new(active(table)?, own, options.spread);
    let objective = ascent.look(control)?;
    let goal = options.tol * options.tol;
    if own.contains(&true) {
        // Near enough for a first look at the workers.
        alone(&mut ascent, objective, options.max_iter, 0.1, &mut course, control)?;
        workers.together(&mut ascent, options.max_iter, goal, &mut course, control)?;
    } else {
        alone(&mut ascent, objective, options.max_iter, goal, &mut course, control)?;
    }
    let mut point = std::mem::take(&mut ascent.point);
    if !ascent.free[1] {
        let last = point.len() - 1;
        point[last] = f64::NAN;
    }
    let Crowd { slopes, biases } = std::mem::take(&mut ascent.crowd);
    Ok(Fit {
        found: Parameters { point, slopes, biases },
        worker_errors: workers.errors,
        spread: workers.spread,
        history: course.history,
        n_iter: course.n_iter,
        converged: course.converged,
    })
}

fn check(options: &Options<'_>) -> Result<()> {
    if !(options.prior.is_finite() && options.prior > 0.0 && options.tol.is_finite() && options.tol >= 0.0) {
        return Err(Error::invalid("prior must be a finite number above 0, and tol one of at least 0"));
    }
    if options.spread.iter().any(|&spread| spread <= 0.0 || spread.is_infinite()) {
        return Err(Error::invalid("the spread of workers must be positive, or NaN to learn it"));
    }
    Ok(())
}

/// Checks that parameters fit a table.
pub(super) fn check_parameters(table: &Comparisons, found: &Parameters) -> Result<()> {
    let (n, w) = (table.n_items() + EXTRA, table.n_workers());
    let finite = found.point[..found.point.len().saturating_sub(1)].iter();
    let workers_fit = |values: &[f64]| values.is_empty() || values.len() == w;
    if found.point.len() != n || !workers_fit(&found.slopes) || !workers_fit(&found.biases) {
        return Err(Error::invalid(format!("parameters are not those of {} items and {w} workers", table.n_items())));
    }
    if !finite.chain(&found.slopes).chain(&found.biases).all(|x| x.is_finite()) {
        return Err(Error::invalid("parameters hold numbers that are not finite"));
    }
    Ok(())
}

/// Which workers compared anything.
fn active(table: &Comparisons) -> Result<Vec<bool>> {
    let mut active = zeros(table.n_workers())?;
    for (active, rows) in active.iter_mut().zip(table.offsets().windows(2)) {
        *active = (rows[0]..rows[1]).any(|row| table.weight(row as usize) > 0.0);
    }
    Ok(active)
}

impl Scores for Ascent<'_> {
    fn look(&mut self, control: &Control) -> Result<f64> {
        Self::look(self, control)
    }

    fn step(&mut self, objective: f64, goal: f64, control: &Control) -> Result<(f64, f64)> {
        Self::step(self, objective, goal, control)
    }

    fn crowd(&mut self) -> &mut Crowd {
        &mut self.crowd
    }

    fn evidence(&self, n_workers: usize, control: &Control) -> Result<Vec<Evidence>> {
        let (graph, outcomes, shared) = (&self.graph, self.outcomes(), self.point[self.graph.n_items()]);
        let workers = &graph.workers;
        let parts: Vec<Result<Vec<(usize, Evidence)>>> = graph
            .chunks()?
            .into_par_iter()
            .map(|edges| {
                control.check()?;
                let mut sums_by_worker: Vec<(usize, Evidence)> = vec![];
                let mut worker = workers.partition_point(|&start| start as usize <= edges.start) - 1;
                for edge in edges {
                    while workers[worker + 1] as usize <= edge {
                        worker += 1;
                    }
                    if sums_by_worker.last().is_none_or(|(last, _)| *last != worker) {
                        push(&mut sums_by_worker, (worker, Evidence::default()))?;
                    }
                    let (a, own) = self.crowd.of(worker);
                    let lead = self.difference(edge);
                    let one = outcomes.at(a * lead + shared + own, graph.counts[edge]);
                    if let Some((_, sums)) = sums_by_worker.last_mut() {
                        sums.slope[0] += one.slope * lead;
                        sums.slope[1] += one.slope;
                        sums.bend[0] += one.bend * lead * lead;
                        sums.bend[1] += one.bend;
                        sums.bend[2] += one.bend * lead;
                    }
                }
                Ok(sums_by_worker)
            })
            .collect();
        let mut evidence = filled(Evidence::default(), n_workers)?;
        for part in parts {
            for (worker, more) in part? {
                let sums = &mut evidence[worker];
                (0..2).for_each(|i| sums.slope[i] += more.slope[i]);
                (0..3).for_each(|i| sums.bend[i] += more.bend[i]);
            }
        }
        Ok(evidence)
    }
}
