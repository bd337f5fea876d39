//! Dawid–Skene with groups of workers that share a latent answer.

use numpy::{PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::em::{self, GroupedOptions, Layers};
use crate::python::table::Table;
use crate::python::{Found, array, shape, slice, work};

#[pymethods]
impl Table {
    /// Fits Dawid–Skene with groups of workers that share a latent answer, from given matrices.
    #[pyo3(signature = (groups, workers, answers, prior, *, pseudo, group_pseudo, class_pseudo, max_iter, tol,
                    progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn grouped_fit<'py>(
        &self,
        py: Python<'py>,
        groups: PyReadonlyArrayDyn<'py, u32>,
        workers: PyReadonlyArrayDyn<'py, f64>,
        answers: PyReadonlyArrayDyn<'py, f64>,
        prior: PyReadonlyArrayDyn<'py, f64>,
        pseudo: PyReadonlyArrayDyn<'py, f64>,
        group_pseudo: PyReadonlyArrayDyn<'py, f64>,
        class_pseudo: PyReadonlyArrayDyn<'py, f64>,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let k = self.0.n_classes();
        let [n, ..] = shape("answers", &answers, [None, Some(k), Some(k)])?;
        let options = GroupedOptions {
            start: Layers {
                groups: slice("groups", &groups)?,
                workers: slice("workers", &workers)?,
                answers: slice("answers", &answers)?,
                prior: slice("prior", &prior)?,
            },
            pseudo: slice("pseudo", &pseudo)?,
            group_pseudo: slice("group_pseudo", &group_pseudo)?,
            class_pseudo: slice("class_pseudo", &class_pseudo)?,
            max_iter,
            tol,
        };
        let fit = work(py, progress.as_ref(), |control| em::fit_grouped(&self.0, &options, control))?;
        let output = Found::fit(py, self, fit.fit)?.array("workers", self.blocks(), fit.workers)?;
        Ok(output.array("answers", [n, k, k], fit.answers)?.dict())
    }

    /// Class posteriors (tasks × classes) under given matrices of workers and of their groups.
    #[allow(clippy::needless_pass_by_value)]
    fn grouped_posterior<'py>(
        &self,
        py: Python<'py>,
        groups: PyReadonlyArrayDyn<'py, u32>,
        workers: PyReadonlyArrayDyn<'py, f64>,
        answers: PyReadonlyArrayDyn<'py, f64>,
        prior: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let layers = Layers {
            groups: slice("groups", &groups)?,
            workers: slice("workers", &workers)?,
            answers: slice("answers", &answers)?,
            prior: slice("prior", &prior)?,
        };
        let posterior = work(py, None, |control| em::posterior_grouped(&self.0, layers, control))?;
        array(py, self.rows(), posterior)
    }
}
