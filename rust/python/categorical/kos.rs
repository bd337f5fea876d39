//! Message passing.

use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::categorical::kos;
use crate::python::table::Table;
use crate::python::{array, work};

/// Scores of the tasks, weights of the workers, and who had nothing to say.
type Messages<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<bool>>);

#[pymethods]
impl Table {
    /// Messages of Karger, Oh and Shah: scores (tasks × classes), weights (workers), who fell silent (workers).
    #[pyo3(signature = (*, n_iter, seed, progress=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn kos_fit<'py>(
        &self,
        py: Python<'py>,
        n_iter: usize,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Messages<'py>> {
        let fit = work(py, progress.as_ref(), |control| kos::fit(&self.0, n_iter, seed, control))?;
        let weights = PyArray1::from_vec(py, fit.weights);
        Ok((array(py, self.rows(), fit.scores)?, weights, PyArray1::from_vec(py, fit.silent)))
    }
}
