//! Members' posteriors made one.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::categorical::consensus;
use crate::python::table::Table;
use crate::python::{array, slice, work};

/// Rows of tasks, and a number for each.
type Pooled<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

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
) -> PyResult<Pooled<'py>> {
    let rows = posteriors.iter().map(|rows| slice("posteriors", rows)).collect::<PyResult<Vec<_>>>()?;
    let (weights, totals) = (slice("weights", &weights)?, slice("totals", &totals)?);
    let doubt = consensus::Doubt { correlation, even };
    let (mixed, distance) = work(py, None, |control| consensus::pooled(&rows, weights, totals, doubt, control))?;
    let shape = [totals.len(), mixed.len() / totals.len()];
    Ok((array(py, shape, mixed)?, PyArray1::from_vec(py, distance)))
}

#[pymethods]
impl Table {
    /// How many votes on each task count, if those that carry more information of each worker weigh more.
    #[allow(clippy::needless_pass_by_value)]
    fn effective_votes<'py>(
        &self,
        py: Python<'py>,
        information: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let information = slice("information", &information)?;
        let votes = work(py, None, |control| consensus::effective_votes(&self.0, information, control))?;
        Ok(PyArray1::from_vec(py, votes))
    }
}
