//! How strongly errors on one task are correlated.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;

use super::table::Table;
use super::{slice, work};
use crate::dependence;

/// The correlation of errors on one task, and its standard error, from a fit that takes workers to err independently.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn error_correlation(
    py: Python<'_>,
    table: &Table,
    posterior: PyReadonlyArrayDyn<'_, f64>,
    counts: PyReadonlyArrayDyn<'_, f64>,
    prior: PyReadonlyArrayDyn<'_, f64>,
) -> PyResult<(f64, f64)> {
    let (posterior, counts, prior) =
        (slice("posterior", &posterior)?, slice("counts", &counts)?, slice("prior", &prior)?);
    work(py, None, |control| dependence::error_correlation(&table.0, posterior, counts, prior, control))
}
