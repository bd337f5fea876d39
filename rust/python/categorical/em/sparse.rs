//! The one-coin model with a great many classes.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::em::sparse::{self, Options, Start};
use crate::python::table::Table;
use crate::python::{Found, choose, slice, work};

#[pymethods]
impl Table {
    /// Fits the one-coin model; posteriors are those of the classes named on a task, and one number for all others.
    ///
    /// `start` is "shares" or "majority"; `prior` and `accuracy` replace it where given.
    #[pyo3(signature = (*, start, pseudo, class_pseudo, max_iter, tol, prior=None, accuracy=None, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn sparse_fit<'py>(
        &self,
        py: Python<'py>,
        start: &str,
        pseudo: (f64, f64),
        class_pseudo: f64,
        max_iter: usize,
        tol: f64,
        prior: Option<PyReadonlyArrayDyn<'py, f64>>,
        accuracy: Option<PyReadonlyArrayDyn<'py, f64>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let start = match (&prior, &accuracy) {
            (Some(prior), Some(accuracy)) => Start::Parameters(slice("prior", prior)?, slice("accuracy", accuracy)?),
            _ => choose("start", start, &[("shares", Start::Shares), ("majority", Start::Majority)])?,
        };
        let options = Options { start, pseudo: pseudo.into(), class_pseudo, max_iter, tol };
        let fit = work(py, progress.as_ref(), |control| sparse::fit(&self.0, &options, control))?;
        let output = Found::new(py)
            .list("offsets", fit.offsets)?
            .list("classes", fit.classes)?
            .list("probabilities", fit.probabilities)?
            .list("rest", fit.rest)?
            .list("accuracy", fit.accuracy)?
            .list("prior", fit.prior)?
            .list("winners", fit.winners)?
            .list("confidence", fit.confidence)?
            .list("tied", fit.tied)?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }
}
