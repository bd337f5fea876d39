//! Texts side by side.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Found, slice, work};
use crate::objects::Tasks;
use crate::texts::{self, Texts};

/// Slots of the tokens of texts, distinct ones of each task in their order; answer i is `tokens[starts[i]:starts[i + 1]]`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn align_texts<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, u32>,
    starts: PyReadonlyArrayDyn<'py, u32>,
    tokens: PyReadonlyArrayDyn<'py, u32>,
    counts: PyReadonlyArrayDyn<'py, u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let input = Texts {
        tasks: Tasks(slice("offsets", &offsets)?),
        starts: Tasks(slice("starts", &starts)?),
        tokens: slice("tokens", &tokens)?,
        counts: slice("counts", &counts)?,
    };
    let result = work(py, None, |control| texts::align_texts(&input, control))?;
    let output = Found::new(py).list("slots", result.slots)?.list("n_slots", result.n_slots)?;
    Ok(output.list("costs", result.costs)?.dict())
}

/// Least numbers of edits between the texts of two lists, pair by pair.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn edit_counts<'py>(
    py: Python<'py>,
    starts: PyReadonlyArrayDyn<'py, u32>,
    tokens: PyReadonlyArrayDyn<'py, u32>,
    other_starts: PyReadonlyArrayDyn<'py, u32>,
    other_tokens: PyReadonlyArrayDyn<'py, u32>,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let one = (Tasks(slice("starts", &starts)?), slice("tokens", &tokens)?);
    let other = (Tasks(slice("other_starts", &other_starts)?), slice("other_tokens", &other_tokens)?);
    let result = work(py, None, |control| texts::edit_counts(one, other, control))?;
    Ok(PyArray1::from_vec(py, result))
}
