//! Dawid–Skene with classes that have subtypes.

use numpy::{PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::table::Table;
use super::{Found, array, slice, work};
use crate::categorical::em::{self, SubtypesOptions};

/// Fits EBCC, in which classes have subtypes, by variational Bayes from a random division of votes among subtypes.
#[pyfunction]
#[pyo3(signature = (table, *, n_subtypes, pseudo, class_pseudo, subtype_pseudo, seed, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn subtypes_fit<'py>(
    py: Python<'py>,
    table: &Table,
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
    let fit = work(py, progress.as_ref(), |control| em::fit_subtypes(&table.0, &options, control))?;
    let (m, k) = (table.0.n_workers(), table.0.n_labels());
    let found = Found::fit(py, table, fit.fit)?
        .array("concentration", [m, k, n_subtypes, k], fit.concentration)?
        .list("class_concentration", fit.class_concentration)?;
    Ok(found.array("subtype_concentration", [k, n_subtypes], fit.subtype_concentration)?.dict())
}

/// Class posteriors (tasks × classes) under given Dirichlet posteriors of the parameters of EBCC.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn subtypes_posterior<'py>(
    py: Python<'py>,
    table: &Table,
    class_concentration: PyReadonlyArrayDyn<'py, f64>,
    subtype_concentration: PyReadonlyArrayDyn<'py, f64>,
    concentration: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let classes = slice("class_concentration", &class_concentration)?;
    let subtypes = slice("subtype_concentration", &subtype_concentration)?;
    let workers = slice("concentration", &concentration)?;
    let posterior = work(py, None, |control| em::posterior_subtypes(&table.0, classes, subtypes, workers, control))?;
    array(py, table.rows(), posterior)
}
