//! Pairs of workers who agree more often than chance.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::audit::copies::{self, Excess};
use crate::audit::null_model::Beliefs;
use crate::python::table::Table;
use crate::python::{array, slice, work};

#[pymethods]
impl Table {
    /// Pairs of workers who agree more often than chance, given what is believed of classes and workers.
    ///
    /// A dictionary of pairs, counts (common tasks, equal answers, longest run), chances (expected, variance, p-value), tested.
    #[pyo3(signature = (posterior, confusion, strata, *, min_overlap, share, most, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn pair_excess<'py>(
        &self,
        py: Python<'py>,
        posterior: PyReadonlyArrayDyn<'py, f64>,
        confusion: PyReadonlyArrayDyn<'py, f64>,
        strata: PyReadonlyArrayDyn<'py, u8>,
        min_overlap: usize,
        share: f64,
        most: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let beliefs = Beliefs {
            posterior: slice("posterior", &posterior)?,
            confusion: slice("confusion", &confusion)?,
            strata: slice("strata", &strata)?,
        };
        let options = Excess { beliefs, min_overlap, share, most };
        let pairs = work(py, progress.as_ref(), |control| copies::pair_excess(&self.0, &options, control))?;
        let n = pairs.pairs.len() / 2;
        let result = PyDict::new(py);
        result.set_item("pairs", array(py, [n, 2], pairs.pairs)?)?;
        result.set_item("counts", array(py, [n, 3], pairs.counts)?)?;
        result.set_item("chances", array(py, [n, 3], pairs.chances)?)?;
        result.set_item("n_tested", pairs.n_tested)?;
        Ok(result)
    }
}
