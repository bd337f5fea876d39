//! Agreement.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::table::Table;
use super::{Found, array, choose, slice, work};
use crate::agreement::{self, Chance, Coefficient, Coincidences, Scale, Shape, Summary};
use crate::base::memory::copied;

#[pymethods]
impl Table {
    /// A coefficient of the labels that meet on a task, and the same without each of some groups of the tasks.
    #[pyo3(signature = (*, coefficient, shape, positions, groups=0, seed=0))]
    #[allow(clippy::needless_pass_by_value)]
    fn agreement_by_counts<'py>(
        &self,
        py: Python<'py>,
        coefficient: &str,
        shape: &str,
        positions: PyReadonlyArrayDyn<'py, f64>,
        groups: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let coefficient = choose("coefficient", coefficient, &Coefficient::NAMES)?;
        let scale = Scale { shape: choose("shape", shape, &Shape::NAMES)?, positions: slice("positions", &positions)? };
        let fit = work(py, None, |control| {
            agreement::agreement_by_counts(&self.0, coefficient, scale, groups, seed, control)
        })?;
        let result = PyDict::new(py);
        result.set_item("value", fit.value)?;
        result.set_item("worst", fit.worst)?;
        result.set_item("left_out", PyArray1::from_vec(py, fit.left_out.values))?;
        result.set_item("sizes", PyArray1::from_vec(py, fit.left_out.sizes))?;
        result.set_item("n_tasks", fit.n_tasks)?;
        result.set_item("n_pairs", fit.n_pairs)?;
        Ok(result)
    }

    /// Sums over the tasks of a part, which may be added up: `pairs` of labels that meet, `classes`, `n`, `n_paired` and
    /// `n_pairs`.
    #[pyo3(signature = (*, coefficient))]
    fn coincidences<'py>(&self, py: Python<'py>, coefficient: &str) -> PyResult<Bound<'py, PyDict>> {
        let coefficient = choose("coefficient", coefficient, &Coefficient::NAMES)?;
        let result = work(py, None, |control| agreement::coincidences(&self.0, coefficient, control))?;
        let k = result.classes.len();
        let sums = Found::new(py).array("pairs", [k, k], result.pairs)?.list("classes", result.classes)?;
        Ok(sums.with("n", result.n)?.with("n_paired", result.n_paired)?.with("n_pairs", result.n_pairs)?.dict())
    }
}

/// A coefficient from the sums of `coincidences`, and one minus it if all labels that meet were as far apart as can be.
#[pyfunction]
#[pyo3(signature = (pairs, classes, n, n_paired, *, coefficient, shape, positions))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn agreement_by_coincidences<'py>(
    py: Python<'py>,
    pairs: PyReadonlyArrayDyn<'py, f64>,
    classes: PyReadonlyArrayDyn<'py, f64>,
    n: f64,
    n_paired: f64,
    coefficient: &str,
    shape: &str,
    positions: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<(f64, f64)> {
    let coefficient = choose("coefficient", coefficient, &Coefficient::NAMES)?;
    let scale = Scale { shape: choose("shape", shape, &Shape::NAMES)?, positions: slice("positions", &positions)? };
    let (pairs, classes) = (copied(slice("pairs", &pairs)?)?, copied(slice("classes", &classes)?)?);
    let sums = Coincidences { pairs, classes, n, n_paired, n_pairs: 0 };
    work(py, None, |_| agreement::agreement_by_coincidences(&sums, coefficient, scale))
}

#[pymethods]
impl Table {
    /// Agreement of every pair of workers beyond chance ("own" or "shared" labels), and a summary of it ("alone" for a single
    /// pair, "even", "overlap", or the "ratio" of pairs with one worker to all others, "plain-ratio" without its correction), also without each of some groups of
    /// the tasks.
    #[pyo3(signature = (*, chance, shape, positions, summary, min_overlap=1, worker=0, groups=0, seed=0))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn agreement_by_pairs<'py>(
        &self,
        py: Python<'py>,
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
            ("plain-ratio", Summary::PlainRatio(worker)),
        ];
        let summary = choose("summary", summary, &summaries)?;
        let fit = work(py, None, |control| {
            agreement::agreement_by_pairs(&self.0, chance, scale, summary, min_overlap, groups, seed, control)
        })?;
        let result = PyDict::new(py);
        result.set_item("value", fit.value)?;
        result.set_item("worst", fit.worst)?;
        result.set_item("left_out", PyArray1::from_vec(py, fit.left_out.values))?;
        result.set_item("sizes", PyArray1::from_vec(py, fit.left_out.sizes))?;
        result.set_item("n_tasks", fit.n_tasks)?;
        result.set_item("n_pairs", fit.n_pairs)?;
        result.set_item("pairs", array(py, [fit.overlap.len(), 2], fit.pairs)?)?;
        result.set_item("overlap", PyArray1::from_vec(py, fit.overlap))?;
        result.set_item("coefficients", PyArray1::from_vec(py, fit.coefficients))?;
        result.set_item("squashed", PyArray1::from_vec(py, fit.squashed))?;
        Ok(result)
    }
}
