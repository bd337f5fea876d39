//! Counting votes.

use numpy::{PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::table::Table;
use super::{array, slice, work};
use crate::votes;

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
