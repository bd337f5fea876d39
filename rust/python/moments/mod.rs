//! Moments.

pub mod factor;
pub mod rank_one;

use numpy::{PyArray1, PyArray2, PyArray3, PyArray4, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::moments;
use crate::python::table::Table;
use crate::python::{array, slice, work};

/// Pairs, their overlaps and their blocks.
type Pairs<'py> = (Bound<'py, PyArray2<u32>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray3<f64>>);

/// Triples, their overlaps and their blocks.
type Triples<'py> = (Bound<'py, PyArray2<u32>>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray4<f64>>);

/// A block for each worker, and overlaps.
type Cross<'py> = (Bound<'py, PyArray3<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl Table {
    /// Weight of each worker's labels, (workers × classes).
    fn moments_first<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let first = work(py, None, |control| moments::moments_first(&self.0, control))?;
        array(py, [self.0.n_workers(), self.0.n_labels()], first)
    }

    /// Pairs of workers (first < second), the weight of what both labeled, and the weight of each pair of labels.
    ///
    /// Without `joint` the blocks are left out: their array has no entries.
    #[pyo3(signature = (*, min_overlap, max_partners, joint=true))]
    fn moments_pairs<'py>(
        &self,
        py: Python<'py>,
        min_overlap: f64,
        max_partners: usize,
        joint: bool,
    ) -> PyResult<Pairs<'py>> {
        let k = self.0.n_labels();
        let result =
            work(py, None, |control| moments::moments_pairs(&self.0, min_overlap, max_partners, joint, control))?;
        let n = result.overlap.len();
        Ok((
            array(py, [n, 2], result.pairs)?,
            PyArray1::from_vec(py, result.overlap),
            array(py, [if joint { n } else { 0 }, k, k], result.joint)?,
        ))
    }

    /// Triples of workers (ascending) of which all pairs are in `pairs`, their overlaps, and the weight of each triple
    /// of labels.
    ///
    /// Without `joint` the blocks are left out: their array has no entries.
    #[pyo3(signature = (pairs, *, min_overlap, max_triples, joint=true))]
    #[allow(clippy::needless_pass_by_value)]
    fn moments_triples<'py>(
        &self,
        py: Python<'py>,
        pairs: PyReadonlyArrayDyn<'py, u32>,
        min_overlap: f64,
        max_triples: usize,
        joint: bool,
    ) -> PyResult<Triples<'py>> {
        let (k, pairs) = (self.0.n_labels(), slice("pairs", &pairs)?);
        let result = work(py, None, |control| {
            moments::moments_triples(&self.0, pairs, min_overlap, max_triples, joint, control)
        })?;
        let n = result.overlap.len();
        Ok((
            array(py, [n, 3], result.triples)?,
            PyArray1::from_vec(py, result.overlap),
            array(py, [if joint { n } else { 0 }, k, k, k], result.joint)?,
        ))
    }

    /// Second (3 × classes × classes) and third moments of three groups of workers, and the number of tasks behind
    /// them.
    #[allow(clippy::needless_pass_by_value)]
    fn moments_groups<'py>(
        &self,
        py: Python<'py>,
        groups: PyReadonlyArrayDyn<'py, u8>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (k, groups) = (self.0.n_labels(), slice("groups", &groups)?);
        let groups_result = work(py, None, |control| moments::moments_groups(&self.0, groups, control))?;
        let result = PyDict::new(py);
        result.set_item("second", array(py, [3, k, k], groups_result.second)?)?;
        result.set_item("third", array(py, [k, k, k], groups_result.third)?)?;
        result.set_item("n_tasks", groups_result.n_tasks)?;
        Ok(result)
    }

    /// For each worker the mean of its label times the average label of the group after its own, and the weight behind
    /// it.
    #[allow(clippy::needless_pass_by_value)]
    fn moments_cross<'py>(&self, py: Python<'py>, groups: PyReadonlyArrayDyn<'py, u8>) -> PyResult<Cross<'py>> {
        let groups = slice("groups", &groups)?;
        let result = work(py, None, |control| moments::moments_cross(&self.0, groups, control))?;
        Ok((array(py, self.blocks(), result.cross)?, PyArray1::from_vec(py, result.overlap)))
    }
}

/// The number of the connected component of each worker in the graph of pairs, in the order of their lowest worker.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn components<'py>(
    py: Python<'py>,
    n_workers: usize,
    pairs: PyReadonlyArrayDyn<'py, u32>,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let pairs = slice("pairs", &pairs)?;
    let numbers = work(py, None, |_| moments::components(n_workers, pairs))?;
    Ok(PyArray1::from_vec(py, numbers))
}
