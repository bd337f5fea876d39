//! Dawid–Skene with workers who belong to communities.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::em::{self, Common, CommunityOptions};
use crate::python::table::Table;
use crate::python::{Found, shape, slice, work};

#[pymethods]
impl Table {
    /// Fits Dawid–Skene with workers who belong to communities, from given prototypes (communities × true × observed).
    ///
    /// `strength` of the prototypes is learned where it is not given.
    #[pyo3(signature = (prototypes, *, pseudo, share_pseudo, class_pseudo, protected, max_iter, tol, strength=None,
                    gold=None, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn community_fit<'py>(
        &self,
        py: Python<'py>,
        prototypes: PyReadonlyArrayDyn<'py, f64>,
        pseudo: PyReadonlyArrayDyn<'py, f64>,
        share_pseudo: f64,
        class_pseudo: PyReadonlyArrayDyn<'py, f64>,
        protected: usize,
        max_iter: usize,
        tol: f64,
        strength: Option<f64>,
        gold: Option<PyReadonlyArrayDyn<'py, i32>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (m, k) = (self.0.n_workers(), self.0.n_labels());
        let [n, ..] = shape("prototypes", &prototypes, [None, Some(k), Some(k)])?;
        let options = CommunityOptions {
            prototypes: slice("prototypes", &prototypes)?,
            strength,
            pseudo: slice("pseudo", &pseudo)?,
            share_pseudo,
            common: Common {
                class_pseudo: slice("class_pseudo", &class_pseudo)?,
                gold: gold.as_ref().map(|g| slice("gold", g)).transpose()?,
                protected,
                max_iter,
                tol,
            },
        };
        let fit = work(py, progress.as_ref(), |control| em::fit_community(&self.0, &options, control))?;
        let output = Found::fit(py, self, fit.fit)?
            .array("membership", [m, n], fit.membership)?
            .array("prototypes", [n, k, k], fit.prototypes)?
            .list("shares", fit.shares)?;
        Ok(output.with("strength", fit.strength)?.dict())
    }
}
