//! Abilities and difficulties: GLAD.

use numpy::{PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::glad;
use crate::python::table::Table;
use crate::python::{Found, array, slice, work};

#[pymethods]
impl Table {
    /// Fits GLAD from the prior means of abilities and eases.
    #[pyo3(signature = (prior, ability, ease, *, max_iter, tol, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn glad_fit<'py>(
        &self,
        py: Python<'py>,
        prior: PyReadonlyArrayDyn<'py, f64>,
        ability: PyReadonlyArrayDyn<'py, f64>,
        ease: PyReadonlyArrayDyn<'py, f64>,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = glad::Options {
            prior: slice("prior", &prior)?,
            ability: slice("ability", &ability)?,
            ease: slice("ease", &ease)?,
            max_iter,
            tol,
        };
        let fit = work(py, progress.as_ref(), |control| glad::glad_fit(&self.0, &options, control))?;
        let output = Found::new(py)
            .array("posterior", self.rows(), fit.posterior)?
            .list("ability", fit.ability)?
            .list("ease", fit.ease)?
            .list("accuracy", fit.accuracy)?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }

    /// Class posteriors (tasks × classes) of tasks labeled by workers of known ability.
    #[allow(clippy::needless_pass_by_value)]
    fn glad_posterior<'py>(
        &self,
        py: Python<'py>,
        prior: PyReadonlyArrayDyn<'py, f64>,
        ability: PyReadonlyArrayDyn<'py, f64>,
        ease: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let options = glad::Options {
            prior: slice("prior", &prior)?,
            ability: slice("ability", &ability)?,
            ease: slice("ease", &ease)?,
            max_iter: 0,
            tol: 0.0,
        };
        let posterior = work(py, None, |control| glad::glad_posterior(&self.0, &options, control))?;
        array(py, self.rows(), posterior)
    }
}
