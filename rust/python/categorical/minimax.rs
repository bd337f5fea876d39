//! Confusions of workers and of tasks, by minimax entropy.

use numpy::{PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::minimax;
use crate::python::table::Table;
use crate::python::{Found, array, slice, work};

#[pymethods]
impl Table {
    /// Fits the multipliers of minimax entropy, from vote shares.
    #[pyo3(signature = (*, ordinal, worker_penalty, task_penalty, max_iter, tol, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn minimax_fit<'py>(
        &self,
        py: Python<'py>,
        ordinal: bool,
        worker_penalty: f64,
        task_penalty: f64,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = minimax::Options { ordinal, worker_penalty, task_penalty, max_iter, tol };
        let fit = work(py, progress.as_ref(), |control| minimax::minimax_fit(&self.0, &options, control))?;
        let [n, k] = self.rows();
        let output = Found::new(py)
            .array("posterior", self.rows(), fit.posterior)?
            .array("confusion", self.blocks(), fit.confusion)?
            .array("sigma", self.blocks(), fit.sigma)?
            .array("tau", [n, k, k], fit.tau)?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }

    /// Class posteriors (tasks × classes) of tasks labeled by workers of known multipliers.
    #[pyo3(signature = (sigma, *, ordinal, task_penalty))]
    #[allow(clippy::needless_pass_by_value)]
    fn minimax_posterior<'py>(
        &self,
        py: Python<'py>,
        sigma: PyReadonlyArrayDyn<'py, f64>,
        ordinal: bool,
        task_penalty: f64,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let sigma = slice("sigma", &sigma)?;
        let posterior =
            work(py, None, |control| minimax::minimax_posterior(&self.0, sigma, ordinal, task_penalty, control))?;
        array(py, self.rows(), posterior)
    }
}
