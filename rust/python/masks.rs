//! Masks of several workers.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Found, shape, slice, work};
use crate::distance::Tasks;
use crate::masks::{self, Drawings, Pull};

/// Arrays that hold masks as runs.
#[derive(FromPyObject)]
pub struct Runs<'py>(
    PyReadonlyArrayDyn<'py, u32>,
    PyReadonlyArrayDyn<'py, i64>,
    PyReadonlyArrayDyn<'py, i64>,
    PyReadonlyArrayDyn<'py, i64>,
    PyReadonlyArrayDyn<'py, i64>,
    PyReadonlyArrayDyn<'py, i64>,
);

impl Runs<'_> {
    fn drawings(&self) -> PyResult<Drawings<'_>> {
        let [_, dims] = shape("shapes", &self.1, [None, None])?;
        Ok(Drawings {
            tasks: Tasks(slice("offsets", &self.0)?),
            shapes: slice("shapes", &self.1)?,
            dims,
            starts: slice("starts", &self.2)?,
            begins: slice("begins", &self.3)?,
            ends: slice("ends", &self.4)?,
            classes: slice("classes", &self.5)?,
        })
    }
}

/// Pixels that all masks of an image have alike, made one; runs are offsets, shapes, starts, begins, ends and classes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn mask_columns<'py>(py: Python<'py>, runs: Runs<'py>) -> PyResult<Bound<'py, PyDict>> {
    let drawings = runs.drawings()?;
    let found = work(py, None, |control| masks::mask_columns(&drawings, control))?;
    let made = Found::new(py)
        .list("stretch_starts", found.stretch_starts)?
        .list("ends", found.ends)?
        .list("columns", found.columns)?
        .list("column_starts", found.column_starts)?
        .list("pixels", found.pixels)?
        .list("said", found.said)?;
    Ok(made.dict())
}

/// What distances from outlines tell of the masks of each image; see `mask_columns` for the runs.
#[pyfunction]
#[pyo3(signature = (runs, *, most))]
#[allow(clippy::needless_pass_by_value)]
pub fn shape_likeness<'py>(py: Python<'py>, runs: Runs<'py>, most: f64) -> PyResult<Bound<'py, PyDict>> {
    let drawings = runs.drawings()?;
    let found = work(py, None, |control| masks::shape_likeness(&drawings, most, control))?;
    let made = Found::new(py)
        .list("means", found.means)?
        .list("products", found.products)?
        .list("spread", found.spread)?
        .list("middle", found.middle)?
        .list("disputed", found.disputed)?
        .list("marked", found.marked)?;
    Ok(made.dict())
}

/// Masks put together by shares, less biases, of distances from outlines; see `mask_columns` for the runs.
#[pyfunction]
#[pyo3(signature = (runs, share, bias, doubt, *, most))]
#[allow(clippy::needless_pass_by_value)]
pub fn shape_masks<'py>(
    py: Python<'py>,
    runs: Runs<'py>,
    share: PyReadonlyArrayDyn<'py, f64>,
    bias: PyReadonlyArrayDyn<'py, f64>,
    doubt: PyReadonlyArrayDyn<'py, f64>,
    most: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let drawings = runs.drawings()?;
    let pull = Pull { share: slice("share", &share)?, bias: slice("bias", &bias)?, doubt: slice("doubt", &doubt)? };
    let found = work(py, None, |control| masks::shape_masks(&drawings, most, &pull, control))?;
    let made = Found::new(py)
        .list("starts", found.starts)?
        .list("begins", found.begins)?
        .list("ends", found.ends)?
        .list("classes", found.classes)?
        .list("confidence", found.confidence)?;
    Ok(made.dict())
}
