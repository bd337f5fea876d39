//! Methods that optimise a criterion of their own: minimax entropy and margins.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::table::Table;
use super::{array, set_course, slice, work};
use crate::margin::{gibbs, vote};
use crate::{minimax, votes};

/// Fits the multipliers of minimax entropy, from vote shares.
#[pyfunction]
#[pyo3(signature = (table, *, ordinal, worker_penalty, task_penalty, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn minimax_fit<'py>(
    py: Python<'py>,
    table: &Table,
    ordinal: bool,
    worker_penalty: f64,
    task_penalty: f64,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = minimax::Options { ordinal, worker_penalty, task_penalty, max_iter, tol };
    let fit = work(py, progress.as_ref(), |control| minimax::minimax_fit(&table.0, &options, control))?;
    let [n, k] = table.rows();
    let result = PyDict::new(py);
    result.set_item("posterior", array(py, table.rows(), fit.posterior)?)?;
    result.set_item("confusion", array(py, table.blocks(), fit.confusion)?)?;
    result.set_item("sigma", array(py, table.blocks(), fit.sigma)?)?;
    result.set_item("tau", array(py, [n, k, k], fit.tau)?)?;
    set_course(&result, fit.history, fit.n_iter, fit.converged)?;
    Ok(result)
}

/// Class posteriors (tasks × classes) of tasks labelled by workers of known multipliers.
#[pyfunction]
#[pyo3(signature = (table, sigma, *, ordinal, task_penalty))]
#[allow(clippy::needless_pass_by_value)]
pub fn minimax_posterior<'py>(
    py: Python<'py>,
    table: &Table,
    sigma: PyReadonlyArrayDyn<'py, f64>,
    ordinal: bool,
    task_penalty: f64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let sigma = slice("sigma", &sigma)?;
    let posterior =
        work(py, None, |control| minimax::minimax_posterior(&table.0, sigma, ordinal, task_penalty, control))?;
    array(py, table.rows(), posterior)
}

/// Fits weights and answers with wide margins, from the majority vote.
#[pyfunction]
#[pyo3(signature = (table, *, cost, margin, max_iter, tol, progress=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn margin_fit<'py>(
    py: Python<'py>,
    table: &Table,
    cost: f64,
    margin: f64,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = vote::Options { cost, margin, max_iter, tol };
    let fit = work(py, progress.as_ref(), |control| vote::margin_fit(&table.0, &options, control))?;
    let result = PyDict::new(py);
    result.set_item("weights", PyArray1::from_vec(py, fit.weights))?;
    result.set_item("answers", PyArray1::from_vec(py, fit.answers))?;
    set_course(&result, fit.history, fit.n_iter, fit.converged)?;
    Ok(result)
}

/// Posterior (tasks × classes) under workers whose weights are log-odds.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn vote_softmax<'py>(
    py: Python<'py>,
    table: &Table,
    worker_weights: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let weights = slice("worker_weights", &worker_weights)?;
    let posterior = work(py, None, |control| votes::softmax(&table.0, weights, control))?;
    array(py, table.rows(), posterior)
}

/// Draws from the posterior of a Crowd-SVM, from the majority vote, and averages.
#[pyfunction]
#[pyo3(signature = (table, *, cost, margin, variance, pseudo_count, draws, burn_in, seed, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn crowd_svm_fit<'py>(
    py: Python<'py>,
    table: &Table,
    cost: f64,
    margin: f64,
    variance: f64,
    pseudo_count: f64,
    draws: usize,
    burn_in: usize,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = gibbs::Options { cost, margin, variance, pseudo_count, draws, burn_in, seed };
    let fit = work(py, progress.as_ref(), |control| gibbs::crowd_svm_fit(&table.0, &options, control))?;
    let result = PyDict::new(py);
    result.set_item("posterior", array(py, table.rows(), fit.posterior)?)?;
    result.set_item("confusion", array(py, table.blocks(), fit.confusion)?)?;
    result.set_item("weights", PyArray1::from_vec(py, fit.weights))?;
    Ok(result)
}

/// Class posteriors (tasks × classes) under given confusion matrices and weights.
#[pyfunction]
#[pyo3(signature = (table, confusion, weights, *, cost, margin))]
#[allow(clippy::needless_pass_by_value)]
pub fn crowd_svm_posterior<'py>(
    py: Python<'py>,
    table: &Table,
    confusion: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    cost: f64,
    margin: f64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (confusion, weights) = (slice("confusion", &confusion)?, slice("weights", &weights)?);
    let posterior =
        work(py, None, |control| gibbs::crowd_svm_posterior(&table.0, confusion, weights, cost, margin, control))?;
    array(py, table.rows(), posterior)
}
