//! Masks of several workers.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Found, pass, shape, slice, work};
use crate::masks::{self, Drawings, Given, Hands, Polygons, Pull, StapleOptions};
use crate::objects::Tasks;

/// Pixels that take as long as a row of a table.
const PIXELS_A_ROW: usize = 64;

type Lists<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

type Lengths<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u16>>);

fn lists(py: Python<'_>, runs: masks::Runs) -> Lists<'_> {
    let list = |values| PyArray1::from_vec(py, values);
    (list(runs.begins), list(runs.ends), list(runs.classes))
}

fn with_masks(found: Found<'_>, masks: masks::Found) -> PyResult<Found<'_>> {
    found
        .list("starts", masks.starts)?
        .list("begins", masks.runs.begins)?
        .list("ends", masks.runs.ends)?
        .list("classes", masks.runs.classes)?
        .list("confidence", masks.confidence)
}

/// Pixels of a mask, booleans as bytes.
#[derive(FromPyObject)]
pub enum Pixels<'py> {
    /// Up to 255 classes.
    Bytes(PyReadonlyArrayDyn<'py, u8>),
    /// More.
    Words(PyReadonlyArrayDyn<'py, u16>),
}

/// The runs of one mask.
#[derive(FromPyObject)]
pub struct OneMask<'py>(PyReadonlyArrayDyn<'py, i64>, PyReadonlyArrayDyn<'py, i64>, PyReadonlyArrayDyn<'py, i64>);

impl OneMask<'_> {
    fn given(&self) -> PyResult<Given<'_>> {
        Ok(Given {
            begins: slice("begins", &self.0)?,
            ends: slice("ends", &self.1)?,
            classes: slice("classes", &self.2)?,
        })
    }
}

/// Begins, ends and classes of the runs of a mask.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn mask_runs<'py>(py: Python<'py>, pixels: Pixels<'py>) -> PyResult<Lists<'py>> {
    let result = match &pixels {
        Pixels::Bytes(pixels) => {
            let pixels = slice("pixels", pixels)?;
            pass(py, pixels.len() / PIXELS_A_ROW, |_| masks::mask_runs(pixels))?
        }
        Pixels::Words(pixels) => {
            let pixels = slice("pixels", pixels)?;
            pass(py, pixels.len() / PIXELS_A_ROW, |_| masks::mask_runs(pixels))?
        }
    };
    Ok(lists(py, result))
}

/// The pixels that runs stand for.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn mask_pixels<'py>(py: Python<'py>, runs: OneMask<'py>, size: usize) -> PyResult<Bound<'py, PyArray1<u16>>> {
    let input = runs.given()?;
    let result = pass(py, size / PIXELS_A_ROW, |_| masks::mask_pixels::<u16>(input, size))?;
    Ok(PyArray1::from_vec(py, result))
}

/// The same of masks with no class but background and one more, as bytes that are 0 or 1.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn mask_bytes<'py>(py: Python<'py>, runs: OneMask<'py>, size: usize) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let input = runs.given()?;
    let result = pass(py, size / PIXELS_A_ROW, |_| masks::mask_pixels::<u8>(input, size))?;
    Ok(PyArray1::from_vec(py, result))
}

/// Run-lengths of COCO, and their classes.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn coco_lengths<'py>(py: Python<'py>, runs: OneMask<'py>, size: Vec<i64>) -> PyResult<Lengths<'py>> {
    let input = runs.given()?;
    let (lengths, values) = work(py, None, |_| masks::coco_lengths(input, &size))?;
    Ok((PyArray1::from_vec(py, lengths), PyArray1::from_vec(py, values)))
}

/// Runs of a mask given as run-lengths of COCO.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn coco_runs<'py>(
    py: Python<'py>,
    lengths: PyReadonlyArrayDyn<'py, i64>,
    values: PyReadonlyArrayDyn<'py, u16>,
    size: Vec<i64>,
) -> PyResult<Lists<'py>> {
    let (lengths, values) = (slice("lengths", &lengths)?, slice("values", &values)?);
    Ok(lists(py, work(py, None, |_| masks::coco_runs(lengths, values, &size))?))
}

/// The lengths in COCO's short text.
#[pyfunction]
pub fn coco_counts<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let result = pass(py, text.len(), |_| masks::coco_counts(text))?;
    Ok(PyArray1::from_vec(py, result))
}

/// Runs of the pixels within polygons.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn polygon_runs<'py>(
    py: Python<'py>,
    starts: PyReadonlyArrayDyn<'py, i64>,
    corners: PyReadonlyArrayDyn<'py, f64>,
    height: i64,
    width: i64,
) -> PyResult<Lists<'py>> {
    let polygons = Polygons { starts: slice("starts", &starts)?, corners: slice("corners", &corners)? };
    Ok(lists(py, work(py, None, |control| masks::polygon_runs(&polygons, height, width, control))?))
}

/// Two sides of a polygon that cross, if there are any.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn crossing_sides<'py>(py: Python<'py>, corners: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Option<(usize, usize)>> {
    let corners = slice("corners", &corners)?;
    work(py, None, |control| masks::crossing_sides(corners, control))
}

/// Where values of such widths lie most densely.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn densest<'py>(
    py: Python<'py>,
    values: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    widths: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<f64> {
    let (values, weights, widths) = (slice("values", &values)?, slice("weights", &weights)?, slice("widths", &widths)?);
    pass(py, 8 * values.len(), |_| masks::densest(values, weights, widths))
}

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
    let result = work(py, None, |control| masks::mask_columns(&drawings, control))?;
    let output = Found::new(py)
        .list("stretch_starts", result.stretch_starts)?
        .list("ends", result.ends)?
        .list("columns", result.columns)?
        .list("column_starts", result.column_starts)?
        .list("pixels", result.pixels)?
        .list("said", result.said)?;
    Ok(output.dict())
}

/// What distances from outlines indicate about the masks of each image; see `mask_columns` for the runs.
#[pyfunction]
#[pyo3(signature = (runs, *, most))]
#[allow(clippy::needless_pass_by_value)]
pub fn shape_likeness<'py>(py: Python<'py>, runs: Runs<'py>, most: f64) -> PyResult<Bound<'py, PyDict>> {
    let drawings = runs.drawings()?;
    let result = work(py, None, |control| masks::shape_likeness(&drawings, most, control))?;
    let output = Found::new(py)
        .list("means", result.means)?
        .list("products", result.products)?
        .list("spread", result.spread)?
        .list("middle", result.middle)?
        .list("thickness", result.thickness)?
        .list("disputed", result.disputed)?
        .list("marked", result.marked)?;
    Ok(output.dict())
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
    let result = work(py, None, |control| masks::shape_masks(&drawings, most, &pull, control))?;
    Ok(with_masks(Found::new(py), result)?.dict())
}

/// Masks of the classes that most workers gave; see `mask_columns` for the runs.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn mask_vote<'py>(
    py: Python<'py>,
    runs: Runs<'py>,
    weights: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let (drawings, weights) = (runs.drawings()?, slice("weights", &weights)?);
    let (result, disputed) = work(py, None, |control| masks::mask_vote(&drawings, weights, control))?;
    Ok(with_masks(Found::new(py), result)?.list("disputed", disputed)?.dict())
}

/// Masks by workers whose recall of each class is learned; see `mask_columns` for the runs.
#[pyfunction]
#[pyo3(signature = (
    runs, workers, weights, n_workers, n_classes, *, asymmetry, strength, max_iter, tol, chances, progress = None
))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
pub fn staple<'py>(
    py: Python<'py>,
    runs: Runs<'py>,
    workers: PyReadonlyArrayDyn<'py, u32>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    n_workers: usize,
    n_classes: usize,
    asymmetry: f64,
    strength: Option<f64>,
    max_iter: usize,
    tol: f64,
    chances: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let drawings = runs.drawings()?;
    let hands =
        Hands { workers: slice("workers", &workers)?, weights: slice("weights", &weights)?, n_workers, n_classes };
    let options = StapleOptions { asymmetry, strength, max_iter, tol, chances };
    let result = work(py, progress.as_ref(), |control| masks::staple(&drawings, hands, options, control))?;
    let columns = result.chances.len() / n_classes.max(1);
    let output = with_masks(Found::new(py), result.found)?
        .array("recall", [n_workers, n_classes], result.recall)?
        .list("accuracy", result.accuracy)?
        .list("disputed", result.disputed)?
        .array("chances", [columns, n_classes], result.chances)?
        .with("n_iter", result.n_iter)?
        .with("converged", result.converged)?;
    Ok(output.dict())
}
