//! Vectors whose products are given: skills from agreement.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::moments::factor::rank_one::{self, Links, Options};
use crate::python::{Found, choose, slice, work};

/// Component of each worker, and whether it has an odd cycle.
type Graph<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<bool>>);

#[derive(Clone, Copy)]
enum Method {
    Spectral,
    Gradient,
    Ratio,
    Msr,
}

/// Fits a vector whose products are the values of the pairs, by one of four methods.
///
/// "spectral" is least squares; "gradient" the same with every number in [-1, 1]; "ratio" takes the leading
/// eigenvectors of weighted values and of weights, for each of the `components` of the graph; "msr" trimmed means of
/// ratios, where `trim` neighbors of each worker are set aside on either side.
#[pyfunction]
#[pyo3(signature = (n_workers, pairs, values, weights, *, method, max_iter, tol, components=None, trim=None,
                    progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn rank_one_fit<'py>(
    py: Python<'py>,
    n_workers: usize,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    values: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    method: &str,
    max_iter: usize,
    tol: f64,
    components: Option<PyReadonlyArrayDyn<'py, u32>>,
    trim: Option<PyReadonlyArrayDyn<'py, u32>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (pairs, values, weights) = (slice("pairs", &pairs)?, slice("values", &values)?, slice("weights", &weights)?);
    let components = components.as_ref().map_or(Ok(&[][..]), |array| slice("components", array))?;
    let trim = trim.as_ref().map_or(Ok(&[][..]), |array| slice("trim", array))?;
    let methods = [
        ("spectral", Method::Spectral),
        ("gradient", Method::Gradient),
        ("ratio", Method::Ratio),
        ("msr", Method::Msr),
    ];
    let (method, options) = (choose("method", method, &methods)?, Options { max_iter, tol });
    let fit = work(py, progress.as_ref(), |control| {
        let links = Links::new(n_workers, pairs, values, weights)?;
        match method {
            Method::Spectral => rank_one::spectral(&links, &options, control),
            Method::Gradient => rank_one::gradient(&links, &options, control),
            Method::Ratio => rank_one::ratio(&links, components, &options, control),
            Method::Msr => rank_one::msr(&links, trim, &options, control),
        }
    })?;
    let output = Found::new(py).list("vector", fit.vector)?;
    Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
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
