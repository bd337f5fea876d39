//! Agreement.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::table::Table;
use super::{array, choose, slice, work};
use crate::agreement::{self, Chance, Coefficient, Scale, Shape, Summary};

/// A coefficient of the labels that meet on a task, and the same without each of some groups of the tasks.
#[pyfunction]
#[pyo3(signature = (table, *, coefficient, shape, positions, groups=0, seed=0))]
#[allow(clippy::needless_pass_by_value)]
pub fn agreement_by_counts<'py>(
    py: Python<'py>,
    table: &Table,
    coefficient: &str,
    shape: &str,
    positions: PyReadonlyArrayDyn<'py, f64>,
    groups: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let coefficient = choose("coefficient", coefficient, &Coefficient::NAMES)?;
    let scale = Scale { shape: choose("shape", shape, &Shape::NAMES)?, positions: slice("positions", &positions)? };
    let found =
        work(py, None, |control| agreement::agreement_by_counts(&table.0, coefficient, scale, groups, seed, control))?;
    let result = PyDict::new(py);
    result.set_item("value", found.value)?;
    result.set_item("worst", found.worst)?;
    result.set_item("left_out", PyArray1::from_vec(py, found.left_out.values))?;
    result.set_item("sizes", PyArray1::from_vec(py, found.left_out.sizes))?;
    result.set_item("n_tasks", found.n_tasks)?;
    result.set_item("n_pairs", found.n_pairs)?;
    Ok(result)
}

/// Agreement of every pair of workers beyond chance ("own" or "shared" labels), and a summary of it ("alone" for a single
/// pair, "even", "overlap", or the "ratio" of pairs with one worker to all others), also without each of some groups of
/// the tasks.
#[pyfunction]
#[pyo3(signature = (table, *, chance, shape, positions, summary, min_overlap=1, worker=0, groups=0, seed=0))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn agreement_by_pairs<'py>(
    py: Python<'py>,
    table: &Table,
    chance: &str,
    shape: &str,
    positions: PyReadonlyArrayDyn<'py, f64>,
    summary: &str,
    min_overlap: usize,
    worker: u32,
    groups: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let chance = choose("chance", chance, &[("own", Chance::Own), ("shared", Chance::Shared)])?;
    let scale = Scale { shape: choose("shape", shape, &Shape::NAMES)?, positions: slice("positions", &positions)? };
    let summaries = [
        ("alone", Summary::Alone),
        ("even", Summary::Even),
        ("overlap", Summary::ByOverlap),
        ("ratio", Summary::Ratio(worker)),
    ];
    let summary = choose("summary", summary, &summaries)?;
    let found = work(py, None, |control| {
        agreement::agreement_by_pairs(&table.0, chance, scale, summary, min_overlap, groups, seed, control)
    })?;
    let result = PyDict::new(py);
    result.set_item("value", found.value)?;
    result.set_item("worst", found.worst)?;
    result.set_item("left_out", PyArray1::from_vec(py, found.left_out.values))?;
    result.set_item("sizes", PyArray1::from_vec(py, found.left_out.sizes))?;
    result.set_item("n_tasks", found.n_tasks)?;
    result.set_item("n_pairs", found.n_pairs)?;
    result.set_item("pairs", array(py, [found.overlap.len(), 2], found.pairs)?)?;
    result.set_item("overlap", PyArray1::from_vec(py, found.overlap))?;
    result.set_item("coefficients", PyArray1::from_vec(py, found.coefficients))?;
    Ok(result)
}
