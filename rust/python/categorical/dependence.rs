//! How strongly errors on one task are correlated.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::categorical::dependence;
use crate::python::table::Table;
use crate::python::{slice, work};

#[pymethods]
impl Table {
    /// The correlation of errors on one task, and its standard error, from a fit that takes workers to err
    /// independently.
    ///
    /// The table is all of the log, or has been `sampled` from it: the tasks of `correlation_sample`.
    #[pyo3(signature = (posterior, counts, prior, *, sampled=false))]
    #[allow(clippy::needless_pass_by_value)]
    fn error_correlation(
        &self,
        py: Python<'_>,
        posterior: PyReadonlyArrayDyn<'_, f64>,
        counts: PyReadonlyArrayDyn<'_, f64>,
        prior: PyReadonlyArrayDyn<'_, f64>,
        sampled: bool,
    ) -> PyResult<(f64, f64)> {
        let (posterior, counts, prior) =
            (slice("posterior", &posterior)?, slice("counts", &counts)?, slice("prior", &prior)?);
        work(py, None, |control| dependence::error_correlation(&self.0, posterior, counts, prior, sampled, control))
    }
}

/// Which tasks of a part are looked at, whose first is number `first` of a log of this many annotations.
#[pyfunction]
pub fn correlation_sample(
    py: Python<'_>,
    first: u64,
    n_tasks: usize,
    n_annotations: u64,
) -> PyResult<Bound<'_, PyArray1<u32>>> {
    Ok(PyArray1::from_vec(py, dependence::looked_at(first, n_tasks, n_annotations)?))
}
