//! Capacities of workers.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::audit::capacity::{Stop, capacities};
use crate::python::{array, shape, slice, work};

/// Numbers by worker, class frequencies of each, and numbers by worker.
type Capacities<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// Capacities in bits of confusion matrices (workers × true × observed), the class frequencies that reach them (workers ×
/// classes), and by how much each may fall short of the true capacity.
#[pyfunction]
#[pyo3(signature = (confusion, *, tol, max_iter))]
#[allow(clippy::needless_pass_by_value)]
pub fn channel_capacity<'py>(
    py: Python<'py>,
    confusion: PyReadonlyArrayDyn<'py, f64>,
    tol: f64,
    max_iter: usize,
) -> PyResult<Capacities<'py>> {
    let [n_workers, n_classes, n_labels] = shape("confusion", &confusion, [None; 3])?;
    let (channels, stop) = (slice("confusion", &confusion)?, Stop { tol, max_iter });
    let result = work(py, None, |control| capacities(channels, n_classes, n_labels, stop, control))?;
    let (capacity, prior, gap) = result;
    Ok((PyArray1::from_vec(py, capacity), array(py, [n_workers, n_classes], prior)?, PyArray1::from_vec(py, gap)))
}
