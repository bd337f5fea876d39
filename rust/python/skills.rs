//! Methods that estimate skills.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::table::Table;
use super::{array, set_course, slice, work};
use crate::control::Control;
use crate::factor::agreement;
use crate::factor::rank_one::{self, Fit, Links, Options};
use crate::kos;

/// Scores of the tasks, weights of the workers, and who had nothing to say.
type Messages<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<bool>>);

/// Component of each worker, and whether it has an odd cycle.
type Graph<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<bool>>);

/// Runs a method on the values of pairs of workers.
fn rank_one_fit<'py>(
    py: Python<'py>,
    n_workers: usize,
    [values, weights]: [&PyReadonlyArrayDyn<'py, f64>; 2],
    pairs: &PyReadonlyArrayDyn<'py, u32>,
    progress: Option<&Py<PyAny>>,
    method: impl FnOnce(&Links, &Control) -> crate::Result<Fit> + Send,
) -> PyResult<Bound<'py, PyDict>> {
    let (pairs, values, weights) = (slice("pairs", pairs)?, slice("values", values)?, slice("weights", weights)?);
    let fit = work(py, progress, |control| method(&Links::new(n_workers, pairs, values, weights)?, control))?;
    let result = PyDict::new(py);
    result.set_item("vector", PyArray1::from_vec(py, fit.vector))?;
    set_course(&result, fit.history, fit.n_iter, fit.converged)?;
    Ok(result)
}

/// Weight of equal labels of each pair of workers, (pairs).
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn pair_agreement<'py>(
    py: Python<'py>,
    table: &Table,
    pairs: PyReadonlyArrayDyn<'py, u32>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let pairs = slice("pairs", &pairs)?;
    let agree = work(py, None, |control| agreement::pair_agreement(&table.0, pairs, control))?;
    Ok(PyArray1::from_vec(py, agree))
}

/// Least-squares fit of a vector whose products are the values of the pairs.
#[pyfunction]
#[pyo3(signature = (n_workers, pairs, values, weights, *, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn rank_one_spectral<'py>(
    py: Python<'py>,
    n_workers: usize,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    values: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = Options { max_iter, tol };
    rank_one_fit(py, n_workers, [&values, &weights], &pairs, progress.as_ref(), |links, control| {
        rank_one::spectral(links, &options, control)
    })
}

/// Ratio of the leading eigenvectors of weighted values and of weights, component by component.
#[pyfunction]
#[pyo3(signature = (n_workers, pairs, values, weights, *, components, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn rank_one_ratio<'py>(
    py: Python<'py>,
    n_workers: usize,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    values: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    components: PyReadonlyArrayDyn<'py, u32>,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let components = slice("components", &components)?;
    let options = Options { max_iter, tol };
    rank_one_fit(py, n_workers, [&values, &weights], &pairs, progress.as_ref(), |links, control| {
        rank_one::ratio(links, components, &options, control)
    })
}

/// The least-squares fit with every number in [-1, 1], by projected gradient.
#[pyfunction]
#[pyo3(signature = (n_workers, pairs, values, weights, *, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn rank_one_gradient<'py>(
    py: Python<'py>,
    n_workers: usize,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    values: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = Options { max_iter, tol };
    rank_one_fit(py, n_workers, [&values, &weights], &pairs, progress.as_ref(), |links, control| {
        rank_one::gradient(links, &options, control)
    })
}

/// Skills from trimmed means of ratios; `trim` neighbours of each worker are set aside on either side.
#[pyfunction]
#[pyo3(signature = (n_workers, pairs, values, weights, *, trim, plain, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn rank_one_msr<'py>(
    py: Python<'py>,
    n_workers: usize,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    values: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    trim: PyReadonlyArrayDyn<'py, u32>,
    plain: bool,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let trim = slice("trim", &trim)?;
    let options = Options { max_iter, tol };
    rank_one_fit(py, n_workers, [&values, &weights], &pairs, progress.as_ref(), |links, control| {
        rank_one::msr(links, trim, plain, &options, control)
    })
}

/// Component of each worker in the graph of the pairs, and whether the component has a cycle of odd length.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn rank_one_graph<'py>(
    py: Python<'py>,
    n_workers: usize,
    pairs: PyReadonlyArrayDyn<'py, u32>,
) -> PyResult<Graph<'py>> {
    let pairs = slice("pairs", &pairs)?;
    let (components, odd) = work(py, None, |control| rank_one::graph(n_workers, pairs, control))?;
    Ok((PyArray1::from_vec(py, components), PyArray1::from_vec(py, odd)))
}

/// Messages of Karger, Oh and Shah: scores (tasks × classes), weights (workers), who fell silent (workers).
#[pyfunction]
#[pyo3(signature = (table, *, n_iter, seed, progress=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn kos_fit<'py>(
    py: Python<'py>,
    table: &Table,
    n_iter: usize,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Messages<'py>> {
    let fit = work(py, progress.as_ref(), |control| kos::fit(&table.0, n_iter, seed, control))?;
    let weights = PyArray1::from_vec(py, fit.weights);
    Ok((array(py, table.rows(), fit.scores)?, weights, PyArray1::from_vec(py, fit.silent)))
}
