//! Encoding of id columns.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::base::encode::{self, Strings};
use crate::python::{slice, work};

type Codes<'py, T> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<T>>);

/// Codes of 64-bit integers in sorted order, and the distinct values.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn encode_integers<'py>(py: Python<'py>, values: PyReadonlyArrayDyn<'py, i64>) -> PyResult<Codes<'py, i64>> {
    let values = slice("values", &values)?;
    let encoded = work(py, None, |control| encode::integers(values, control))?;
    Ok((PyArray1::from_vec(py, encoded.codes), PyArray1::from_vec(py, encoded.names)))
}

/// Codes of Arrow text in byte order, and for each code a row that holds its text.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn encode_strings<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, i64>,
    data: PyReadonlyArrayDyn<'py, u8>,
) -> PyResult<Codes<'py, u64>> {
    let (offsets, data) = (slice("offsets", &offsets)?, slice("data", &data)?);
    let encoded = work(py, None, |control| encode::strings(&Strings::new(offsets, data)?, control))?;
    Ok((PyArray1::from_vec(py, encoded.codes), PyArray1::from_vec(py, encoded.names)))
}

/// The integers that Arrow text spells in canonical form, or None if any row is not one.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn canonical_integers<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, i64>,
    data: PyReadonlyArrayDyn<'py, u8>,
) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
    let (offsets, data) = (slice("offsets", &offsets)?, slice("data", &data)?);
    let values = work(py, None, |control| encode::canonical_integers(&Strings::new(offsets, data)?, control))?;
    Ok(values.map(|v| PyArray1::from_vec(py, v)))
}
