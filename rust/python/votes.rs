//! Counting votes.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::table::Table;
use super::{array, slice, work};
use crate::categorical::votes;

/// Rows of tasks, and numbers by class.
type Shares<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// Two numbers a worker.
type Pair<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

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

/// Weight of each worker's annotations that name the answer (a class code, -1 for none), and of all with an answer.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn worker_agreement<'py>(
    py: Python<'py>,
    table: &Table,
    answers: PyReadonlyArrayDyn<'py, i32>,
) -> PyResult<Pair<'py>> {
    let answers = slice("answers", &answers)?;
    let (agree, all) = work(py, None, |control| votes::agreement(&table.0, answers, control))?;
    Ok((PyArray1::from_vec(py, agree), PyArray1::from_vec(py, all)))
}
