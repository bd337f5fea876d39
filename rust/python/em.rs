//! Votes and EM.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::passes::{Called, Holder};
use super::table::Table;
use super::{Found, array, choose, slice, work};
use crate::control::Control;
use crate::em::{self, Assignment, Fit, Model, Options, Sizes, Solution, Start};
use crate::{consensus, dependence, num, votes};

/// Two arrays of the same length.
type Pair<'py, A, B> = (Bound<'py, PyArray1<A>>, Bound<'py, PyArray1<B>>);

/// Rows of tasks, and numbers by class or task.
type Shares<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// Vote shares (tasks × classes), each vote counting its worker's weight if weights are given, and their sums by class.
#[pyfunction]
#[pyo3(signature = (table, worker_weights=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn vote_shares<'py>(
    py: Python<'py>,
    table: &Table,
    worker_weights: Option<PyReadonlyArrayDyn<'py, f64>>,
) -> PyResult<Shares<'py>> {
    let weights = worker_weights.as_ref().map(|w| slice("worker_weights", w)).transpose()?;
    let (shares, totals) = work(py, None, |control| votes::shares(&table.0, weights, control))?;
    Ok((array(py, [table.0.n_tasks(), totals.len()], shares)?, PyArray1::from_vec(py, totals)))
}

/// Weight of each worker's annotations that name the answer (a class code, -1 for none), and of all with an answer.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn worker_agreement<'py>(
    py: Python<'py>,
    table: &Table,
    answers: PyReadonlyArrayDyn<'py, i32>,
) -> PyResult<Pair<'py, f64, f64>> {
    let answers = slice("answers", &answers)?;
    let (agree, all) = work(py, None, |control| votes::agreement(&table.0, answers, control))?;
    Ok((PyArray1::from_vec(py, agree), PyArray1::from_vec(py, all)))
}

/// Index of the largest entry of each row, lowest first, and whether another ties with it.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn winners<'py>(py: Python<'py>, rows: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Pair<'py, u16, bool>> {
    let width = rows.shape().last().copied().unwrap_or(0);
    let rows = slice("rows", &rows)?;
    let (winner, tied) = work(py, None, |control| num::winners(rows, width, control))?;
    Ok((PyArray1::from_vec(py, winner), PyArray1::from_vec(py, tied)))
}

/// The weighted average of posteriors (tasks × classes), tempered as `totals` votes on each task with this correlation
/// of their errors ask for and mixed with `even` parts of all classes, and how far the posteriors are from the average.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn pool_posteriors<'py>(
    py: Python<'py>,
    posteriors: Vec<PyReadonlyArrayDyn<'py, f64>>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    totals: PyReadonlyArrayDyn<'py, f64>,
    correlation: f64,
    even: f64,
) -> PyResult<Shares<'py>> {
    let rows = posteriors.iter().map(|rows| slice("posteriors", rows)).collect::<PyResult<Vec<_>>>()?;
    let (weights, totals) = (slice("weights", &weights)?, slice("totals", &totals)?);
    let doubt = consensus::Doubt { correlation, even };
    let (mixed, distance) = work(py, None, |control| consensus::pooled(&rows, weights, totals, doubt, control))?;
    let shape = [totals.len(), mixed.len() / totals.len()];
    Ok((array(py, shape, mixed)?, PyArray1::from_vec(py, distance)))
}

/// How many votes on each task count, if those that carry more information of each worker weigh more.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn effective_votes<'py>(
    py: Python<'py>,
    table: &Table,
    information: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let information = slice("information", &information)?;
    let votes = work(py, None, |control| consensus::effective_votes(&table.0, information, control))?;
    Ok(PyArray1::from_vec(py, votes))
}

/// The correlation of errors on one task, and its standard error, from a fit that takes workers to err independently.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn error_correlation(
    py: Python<'_>,
    table: &Table,
    posterior: PyReadonlyArrayDyn<'_, f64>,
    counts: PyReadonlyArrayDyn<'_, f64>,
    prior: PyReadonlyArrayDyn<'_, f64>,
) -> PyResult<(f64, f64)> {
    let (posterior, counts, prior) =
        (slice("posterior", &posterior)?, slice("counts", &counts)?, slice("prior", &prior)?);
    work(py, None, |control| dependence::error_correlation(&table.0, posterior, counts, prior, control))
}

/// Fits Dawid–Skene by EM to a table, or to whatever the passes of `votes` go through.
///
/// `start` is "shares", "majority" or "random"; `posterior`, or `prior` and `confusion`, replace it where given.
#[pyfunction]
#[pyo3(signature = (votes, *, model, assignment, start, pseudo, class_pseudo, max_iter, tol, accelerate=false, seed=0,
                    gold=None, posterior=None, prior=None, confusion=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn em_fit<'py>(
    py: Python<'py>,
    votes: &Bound<'py, PyAny>,
    model: &str,
    assignment: &str,
    start: &str,
    pseudo: PyReadonlyArrayDyn<'py, f64>,
    class_pseudo: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    accelerate: bool,
    seed: u64,
    gold: Option<PyReadonlyArrayDyn<'py, i32>>,
    posterior: Option<PyReadonlyArrayDyn<'py, f64>>,
    prior: Option<PyReadonlyArrayDyn<'py, f64>>,
    confusion: Option<PyReadonlyArrayDyn<'py, f64>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = match (&posterior, &prior, &confusion) {
        (Some(posterior), _, _) => Start::Posterior(slice("posterior", posterior)?),
        (None, Some(prior), Some(confusion)) => {
            Start::Parameters(slice("prior", prior)?, slice("confusion", confusion)?)
        }
        _ => choose(
            "start",
            start,
            &[("shares", Start::Shares), ("majority", Start::Majority), ("random", Start::RandomVote(seed))],
        )?,
    };
    let options = Options {
        model: choose("model", model, &Model::NAMES)?,
        assignment: choose(
            "assignment",
            assignment,
            &[("soft", Assignment::Soft), ("hard", Assignment::Hard), ("hard-then-soft", Assignment::HardThenSoft)],
        )?,
        start,
        pseudo: slice("pseudo", &pseudo)?,
        class_pseudo: slice("class_pseudo", &class_pseudo)?,
        gold: gold.as_ref().map(|g| slice("gold", g)).transpose()?,
        accelerate,
        max_iter,
        tol,
    };
    match Holder::new(votes)? {
        Holder::Table(table) => {
            let fit = work(py, progress.as_ref(), |control| em::fit(&table.0, &options, control))?;
            found(py, table, fit)
        }
        Holder::Elsewhere(passes) => {
            let sizes = passes.sizes;
            let job = |passes: &mut Called<'_>, control: &Control| em::solve(passes, sizes, &options, control);
            solved(py, sizes, passes.work(py, progress.as_ref(), options.gold, job)?)
        }
    }
}

/// A fit as Python takes it.
pub(super) fn found<'py>(py: Python<'py>, table: &Table, fit: Fit) -> PyResult<Bound<'py, PyDict>> {
    Ok(Found::fit(py, table, fit)?.dict())
}

/// The same of a loop that knows no table.
pub(super) fn solved(py: Python<'_>, sizes: Sizes, solution: Solution) -> PyResult<Bound<'_, PyDict>> {
    let Sizes { n_workers, shape } = sizes;
    let found = Found::new(py)
        .array("confusion", [n_workers, shape.classes, shape.labels], solution.confusion)?
        .list("prior", solution.prior)?;
    let course = solution.course;
    Ok(found.course(course.history, course.n_iter, course.converged)?.dict())
}
