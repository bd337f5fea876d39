//! Counting votes.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::categorical::votes;
use crate::python::table::Table;
use crate::python::{array, slice, work};

/// Rows of tasks, and numbers by class.
type Shares<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// Two numbers per worker.
type Pair<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl Table {
    /// Vote shares (tasks × classes), each vote counting its worker's weight if weights are given, and their sums by
    /// class.
    #[pyo3(signature = (worker_weights=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn vote_shares<'py>(
        &self,
        py: Python<'py>,
        worker_weights: Option<PyReadonlyArrayDyn<'py, f64>>,
    ) -> PyResult<Shares<'py>> {
        let weights = worker_weights.as_ref().map(|w| slice("worker_weights", w)).transpose()?;
        let (shares, totals) = work(py, None, |control| votes::shares(&self.0, weights, control))?;
        Ok((array(py, [self.0.n_tasks(), totals.len()], shares)?, PyArray1::from_vec(py, totals)))
    }

    /// Posterior (tasks × classes) under workers whose weights are log-odds.
    #[allow(clippy::needless_pass_by_value)]
    fn vote_softmax<'py>(
        &self,
        py: Python<'py>,
        worker_weights: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let weights = slice("worker_weights", &worker_weights)?;
        let posterior = work(py, None, |control| votes::softmax(&self.0, weights, control))?;
        array(py, self.rows(), posterior)
    }

    /// Weight of each worker's annotations that name the answer (a class code, -1 for none), and of all with an answer.
    #[allow(clippy::needless_pass_by_value)]
    fn worker_agreement<'py>(&self, py: Python<'py>, answers: PyReadonlyArrayDyn<'py, i32>) -> PyResult<Pair<'py>> {
        let answers = slice("answers", &answers)?;
        let (agree, all) = work(py, None, |control| votes::agreement(&self.0, answers, control))?;
        Ok((PyArray1::from_vec(py, agree), PyArray1::from_vec(py, all)))
    }
}
