//! Workers who know or spam: MACE.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::mace;
use crate::python::table::Table;
use crate::python::{Found, slice, work};

#[pymethods]
impl Table {
    /// Fits MACE from given parameters, by EM or variational Bayes.
    #[pyo3(signature = (know, strategies, *, variational, competence, strategy, max_iter, tol, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn mace_fit<'py>(
        &self,
        py: Python<'py>,
        know: PyReadonlyArrayDyn<'py, f64>,
        strategies: PyReadonlyArrayDyn<'py, f64>,
        variational: bool,
        competence: (f64, f64),
        strategy: f64,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = mace::Options {
            variational,
            competence: competence.into(),
            strategy,
            know: slice("know", &know)?,
            strategies: slice("strategies", &strategies)?,
            max_iter,
            tol,
        };
        let fit = work(py, progress.as_ref(), |control| mace::mace_fit(&self.0, &options, control))?;
        let output = Found::new(py).array("posterior", self.rows(), fit.posterior)?.list("know", fit.know)?.array(
            "strategies",
            [self.0.n_workers(), self.0.n_labels()],
            fit.strategies,
        )?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }
}
