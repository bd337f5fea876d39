//! Boxes and points of several workers.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::{shape, slice, work};
use crate::boxes::{self, Drawn};
use crate::objects::Tasks;

/// The group of each box or point, numbered over all tasks; those of a task are in the order of their first numbers.
#[pyfunction]
#[pyo3(signature = (offsets, workers, boxes, *, least, radius))]
#[allow(clippy::needless_pass_by_value)]
pub fn match_boxes<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, u32>,
    workers: PyReadonlyArrayDyn<'py, u32>,
    boxes: PyReadonlyArrayDyn<'py, f64>,
    least: f64,
    radius: f64,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let [_, dims] = shape("boxes", &boxes, [None, None])?;
    let numbers = slice("boxes", &boxes)?;
    let input =
        Drawn { tasks: Tasks(slice("offsets", &offsets)?), workers: slice("workers", &workers)?, numbers, dims };
    Ok(PyArray1::from_vec(py, work(py, None, |control| boxes::match_boxes(&input, least, radius, control))?))
}

/// For each point the distances to the nearest of another worker in its task, and to the nearest of the same.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, clippy::type_complexity)]
pub fn nearest_points<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, u32>,
    workers: PyReadonlyArrayDyn<'py, u32>,
    points: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
    let [_, dims] = shape("points", &points, [None, Some(2)])?;
    let numbers = slice("points", &points)?;
    let input =
        Drawn { tasks: Tasks(slice("offsets", &offsets)?), workers: slice("workers", &workers)?, numbers, dims };
    let (others, own) = work(py, None, |control| boxes::nearest_points(&input, control))?;
    Ok((PyArray1::from_vec(py, others), PyArray1::from_vec(py, own)))
}
