//! Workers whose answers change.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::audit::drift;
use crate::audit::null_model::Beliefs;
use crate::python::table::Table;
use crate::python::{array, slice, work};

#[pymethods]
impl Table {
    /// Workers whose answers change along an order of the annotations, given what is believed of classes and workers.
    ///
    /// A dictionary, by worker: p, at (answers before the change), what (label or their number), shares (before, after), `told` (number of answers).
    #[pyo3(signature = (posterior, confusion, strata, when, *, share=0.0, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn answer_drift<'py>(
        &self,
        py: Python<'py>,
        posterior: PyReadonlyArrayDyn<'py, f64>,
        confusion: PyReadonlyArrayDyn<'py, f64>,
        strata: PyReadonlyArrayDyn<'py, u8>,
        when: PyReadonlyArrayDyn<'py, f64>,
        share: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let beliefs = Beliefs {
            posterior: slice("posterior", &posterior)?,
            confusion: slice("confusion", &confusion)?,
            strata: slice("strata", &strata)?,
        };
        let when = slice("when", &when)?;
        let drift = work(py, progress.as_ref(), |control| drift::answer_drift(&self.0, beliefs, when, share, control))?;
        let result = PyDict::new(py);
        result.set_item("shares", array(py, [drift.p.len(), 2], drift.shares)?)?;
        result.set_item("p", PyArray1::from_vec(py, drift.p))?;
        result.set_item("at", PyArray1::from_vec(py, drift.at))?;
        result.set_item("what", PyArray1::from_vec(py, drift.what))?;
        result.set_item("told", PyArray1::from_vec(py, drift.told))?;
        Ok(result)
    }
}
