//! Numbers that belong to no kernel.

use numpy::{PyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::base::num;
use crate::python::{slice, work};

/// The winner of each row, and whether it shares its place.
type Winners<'py> = (Bound<'py, PyArray1<u16>>, Bound<'py, PyArray1<bool>>);

/// Index of the largest entry of each row, lowest first, and whether another ties with it.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn winners<'py>(py: Python<'py>, rows: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Winners<'py>> {
    let width = rows.shape().last().copied().unwrap_or(0);
    let rows = slice("rows", &rows)?;
    let (winner, ties) = work(py, None, |control| num::winners(rows, width, control))?;
    Ok((PyArray1::from_vec(py, winner), PyArray1::from_vec(py, ties)))
}
