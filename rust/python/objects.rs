//! Answers of any kind that have a distance.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Found, choose, shape, slice, work};
use crate::objects::{self, Answering, Measure, Norm, Scheme, Tasks};

/// Distances between points of numbers, (answers × answers) for each task, on end.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn value_distances<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, u32>,
    values: PyReadonlyArrayDyn<'py, f64>,
    measure: &str,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let measure = choose("measure", measure, &[("absolute", Measure::Absolute), ("squared", Measure::Squared)])?;
    let [_, dims] = shape("values", &values, [None, None])?;
    let (tasks, values) = (Tasks(slice("offsets", &offsets)?), slice("values", &values)?);
    let result = work(py, None, |control| objects::value_distances(tasks, values, dims, measure, control))?;
    Ok(PyArray1::from_vec(py, result))
}

/// Distances between words, answer i being `codes[starts[i]:starts[i + 1]]`, (answers × answers) for each task, on end.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn word_distances<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, u32>,
    starts: PyReadonlyArrayDyn<'py, u32>,
    codes: PyReadonlyArrayDyn<'py, u32>,
    measure: &str,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let measures = [
        ("hamming", Measure::Hamming),
        ("jaccard", Measure::Jaccard),
        ("kendall", Measure::Kendall),
        ("levenshtein", Measure::Levenshtein),
    ];
    let measure = choose("measure", measure, &measures)?;
    let tasks = Tasks(slice("offsets", &offsets)?);
    let (starts, codes) = (slice("starts", &starts)?, slice("codes", &codes)?);
    let result = work(py, None, |control| objects::word_distances(tasks, starts, codes, measure, control))?;
    Ok(PyArray1::from_vec(py, result))
}

/// Answers and weights by turns: medoids by `distances` and `rank`, or means of `values`.
///
/// `power` is the exponent of the losses, or None for logarithms of their shares.
#[pyfunction]
#[pyo3(signature = (offsets, workers, counts, n_workers, *, distances=None, rank=None, values=None, power, strength,
                    max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn scheme_fit<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, u32>,
    workers: PyReadonlyArrayDyn<'py, u32>,
    counts: Option<PyReadonlyArrayDyn<'py, f64>>,
    n_workers: usize,
    distances: Option<PyReadonlyArrayDyn<'py, f64>>,
    rank: Option<PyReadonlyArrayDyn<'py, u32>>,
    values: Option<PyReadonlyArrayDyn<'py, f64>>,
    power: Option<f64>,
    strength: f64,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let answering = match &values {
        Some(values) => {
            let [_, dims] = shape("values", values, [None, None])?;
            Answering::Mean { values: slice("values", values)?, dims }
        }
        None => Answering::Medoid {
            distances: distances.as_ref().map_or(Ok(&[][..]), |d| slice("distances", d))?,
            rank: rank.as_ref().map_or(Ok(&[][..]), |r| slice("rank", r))?,
        },
    };
    let scheme = Scheme {
        tasks: Tasks(slice("offsets", &offsets)?),
        workers: slice("workers", &workers)?,
        n_workers,
        counts: counts.as_ref().map(|c| slice("counts", c)).transpose()?,
        answering,
        norm: power.map_or(Norm::Log, Norm::Power),
        strength,
        max_iter,
        tol,
    };
    let fit = work(py, progress.as_ref(), |control| objects::scheme_fit(&scheme, control))?;
    let dims = if fit.rows.is_empty() { 0 } else { fit.means.len() / fit.rows.len() };
    let output = Found::new(py)
        .array("means", [fit.rows.len(), dims], fit.means)?
        .list("rows", fit.rows)?
        .list("tied", fit.tied)?
        .list("spread", fit.spread)?
        .list("weights", fit.weights)?
        .list("losses", fit.losses)?;
    Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
}
