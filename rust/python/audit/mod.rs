//! Who is in the crowd: factors of what pairs of workers say, and answers next to those of all others.

pub mod capacity;
pub mod copies;
pub mod drift;

use numpy::{PyArray1, PyArray2, PyArray3, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::audit::leave_one_out;
use crate::audit::reputation;
use crate::moments::factor::low_rank::{self, Options};
use crate::python::table::Table;
use crate::python::{array, shape, slice, work};

/// Sums by class and label, and sums of squares by class.
type Sums<'py> = (Bound<'py, PyArray3<f64>>, Bound<'py, PyArray2<f64>>);

/// Units that each worker is charged with, and contested answers that they gave.
type Charges<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<u32>>);

/// Fits factors (workers × width × rank) whose products are the blocks of the pairs (pairs × width × width).
#[pyfunction]
#[pyo3(signature = (pairs, blocks, weights, start, *, ridge, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn low_rank_fit<'py>(
    py: Python<'py>,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    blocks: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    start: PyReadonlyArrayDyn<'py, f64>,
    ridge: f64,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let [n_workers, width, rank] = shape("start", &start, [None, None, None])?;
    let [n_pairs, _] = shape("pairs", &pairs, [None, Some(2)])?;
    shape("blocks", &blocks, [Some(n_pairs), Some(width), Some(width)])?;
    let options = Options {
        pairs: slice("pairs", &pairs)?,
        blocks: slice("blocks", &blocks)?,
        weights: slice("weights", &weights)?,
        width,
        rank,
        ridge,
        max_iter,
        tol,
    };
    let start = slice("start", &start)?;
    let fit = work(py, progress.as_ref(), |control| low_rank::low_rank_fit(start, &options, control))?;
    let result = PyDict::new(py);
    result.set_item("factor", array(py, [n_workers, width, rank], fit.factor)?)?;
    result.set_item("n_iter", fit.n_iter)?;
    result.set_item("converged", fit.converged)?;
    Ok(result)
}

/// Trace and squared norm of what factors leave of each block, (pairs × 2).
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn low_rank_residuals<'py>(
    py: Python<'py>,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    blocks: PyReadonlyArrayDyn<'py, f64>,
    factor: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let [_, width, rank] = shape("factor", &factor, [None, None, None])?;
    let [n_pairs, _] = shape("pairs", &pairs, [None, Some(2)])?;
    shape("blocks", &blocks, [Some(n_pairs), Some(width), Some(width)])?;
    let (pairs, blocks, factor) = (slice("pairs", &pairs)?, slice("blocks", &blocks)?, slice("factor", &factor)?);
    let rest = work(py, None, |control| low_rank::low_rank_residuals(pairs, blocks, factor, [width, rank], control))?;
    array(py, [n_pairs, 2], rest)
}

#[pymethods]
impl Table {
    /// Each worker's labels by the classes that all others indicate (workers × classes × labels), and sums of squares
    /// of the latter (workers × classes).
    #[allow(clippy::needless_pass_by_value)]
    fn leave_one_out_sums<'py>(
        &self,
        py: Python<'py>,
        posterior: PyReadonlyArrayDyn<'py, f64>,
        confusion: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Sums<'py>> {
        let (posterior, confusion) = (slice("posterior", &posterior)?, slice("confusion", &confusion)?);
        let result =
            work(py, None, |control| leave_one_out::leave_one_out_sums(&self.0, posterior, confusion, control))?;
        let [m, k, _] = self.blocks();
        Ok((array(py, self.blocks(), result.cross)?, array(py, [m, k], result.squares)?))
    }

    /// What each worker is charged with for answers that others contradict, and how many such answers they gave.
    ///
    /// A unit an answer, shared by all who gave it, or borne by one of them such that loads are as even as they can be
    /// (hard).
    #[pyo3(signature = (*, hard, progress=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn answer_penalties<'py>(
        &self,
        py: Python<'py>,
        hard: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Charges<'py>> {
        let result = work(py, progress.as_ref(), |control| reputation::penalties(&self.0, hard, control))?;
        Ok((PyArray1::from_vec(py, result.units), PyArray1::from_vec(py, result.n_contested)))
    }
}
