//! Dawid–Skene with classes that have subtypes.

use numpy::{PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::em::{self, SubtypesOptions};
use crate::python::table::Table;
use crate::python::{Found, array, slice, work};

#[pymethods]
impl Table {
    /// Fits EBCC, in which classes have subtypes, by variational Bayes from a random division of votes among subtypes.
    #[pyo3(signature = (*, n_subtypes, pseudo, class_pseudo, subtype_pseudo, seed, max_iter, tol, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn subtypes_fit<'py>(
        &self,
        py: Python<'py>,
        n_subtypes: usize,
        pseudo: PyReadonlyArrayDyn<'py, f64>,
        class_pseudo: PyReadonlyArrayDyn<'py, f64>,
        subtype_pseudo: f64,
        seed: u64,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = SubtypesOptions {
            n_subtypes,
            pseudo: slice("pseudo", &pseudo)?,
            class_pseudo: slice("class_pseudo", &class_pseudo)?,
            subtype_pseudo,
            seed,
            max_iter,
            tol,
        };
        let fit = work(py, progress.as_ref(), |control| em::fit_subtypes(&self.0, &options, control))?;
        let (m, k) = (self.0.n_workers(), self.0.n_labels());
        let output = Found::fit(py, self, fit.fit)?
            .array("concentration", [m, k, n_subtypes, k], fit.concentration)?
            .list("class_concentration", fit.class_concentration)?;
        Ok(output.array("subtype_concentration", [k, n_subtypes], fit.subtype_concentration)?.dict())
    }

    /// Class posteriors (tasks × classes) under given Dirichlet posteriors of the parameters of EBCC.
    #[allow(clippy::needless_pass_by_value)]
    fn subtypes_posterior<'py>(
        &self,
        py: Python<'py>,
        class_concentration: PyReadonlyArrayDyn<'py, f64>,
        subtype_concentration: PyReadonlyArrayDyn<'py, f64>,
        concentration: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let classes = slice("class_concentration", &class_concentration)?;
        let subtypes = slice("subtype_concentration", &subtype_concentration)?;
        let workers = slice("concentration", &concentration)?;
        let posterior = work(py, None, |control| em::posterior_subtypes(&self.0, classes, subtypes, workers, control))?;
        array(py, self.rows(), posterior)
    }
}
