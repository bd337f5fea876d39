//! Same or different: evidence of pairs, clusters and memberships of items.

use numpy::{PyArray1, PyArray3, PyReadonlyArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::table::Table;
use super::{Found, array, shape, slice, work};
use crate::clustering::{self, MembershipOptions, Pairs};

#[pymethods]
impl Table {
    /// Log-odds that each pair is the same, from those of each worker's answers (workers × 2).
    #[allow(clippy::needless_pass_by_value)]
    fn pair_evidence<'py>(
        &self,
        py: Python<'py>,
        log_odds: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let log_odds = slice("log_odds", &log_odds)?;
        let evidence = work(py, None, |control| clustering::pair_evidence(&self.0, log_odds, control))?;
        Ok(PyArray1::from_vec(py, evidence))
    }

    /// How often each worker answered each of the two, by what is true, (workers × 2 true × 2 answered).
    #[allow(clippy::needless_pass_by_value)]
    fn pair_counts<'py>(
        &self,
        py: Python<'py>,
        same: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let same = slice("same", &same)?;
        let counts = work(py, None, |control| clustering::pair_counts(&self.0, same, control))?;
        array(py, [self.0.n_workers(), 2, 2], counts)
    }

    /// Fits memberships of items and skills of workers: `memberships`, `counts` and the course.
    #[pyo3(signature = (left, right, start, prior, *, max_iter, tol, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn membership_fit<'py>(
        &self,
        py: Python<'py>,
        left: PyReadonlyArrayDyn<'py, u32>,
        right: PyReadonlyArrayDyn<'py, u32>,
        start: PyReadonlyArrayDyn<'py, f64>,
        prior: PyReadonlyArrayDyn<'py, f64>,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let [n_items, n_clusters] = shape("start", &start, [None, None])?;
        let pairs = Pairs { left: slice("left", &left)?, right: slice("right", &right)?, n_items };
        shape("prior", &prior, [Some(2), Some(2)])?;
        let prior = slice("prior", &prior)?.try_into().map_err(|_| PyValueError::new_err("prior must be 2 × 2"))?;
        let options = MembershipOptions { start: slice("start", &start)?, n_clusters, prior, max_iter, tol };
        let fit =
            work(py, progress.as_ref(), |control| clustering::membership_fit(&self.0, &pairs, &options, control))?;
        let output = Found::new(py).array("memberships", [n_items, n_clusters], fit.memberships)?.array(
            "counts",
            [self.0.n_workers(), 2, 2],
            fit.counts,
        )?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }
}

/// The partition that local search finds from another: `clusters`, `n_clusters` and `objective`.
#[pyfunction]
#[pyo3(signature = (left, right, evidence, start, *, concentration, seed))]
#[allow(clippy::needless_pass_by_value)]
pub fn cluster_search<'py>(
    py: Python<'py>,
    left: PyReadonlyArrayDyn<'py, u32>,
    right: PyReadonlyArrayDyn<'py, u32>,
    evidence: PyReadonlyArrayDyn<'py, f64>,
    start: PyReadonlyArrayDyn<'py, u32>,
    concentration: Option<f64>,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let start = slice("start", &start)?;
    let pairs = Pairs { left: slice("left", &left)?, right: slice("right", &right)?, n_items: start.len() };
    let evidence = slice("evidence", &evidence)?;
    let result =
        work(py, None, |control| clustering::cluster_search(&pairs, evidence, start, concentration, seed, control))?;
    let dict = Found::new(py).list("clusters", result.clusters)?.with("n_clusters", result.n_clusters)?;
    Ok(dict.with("objective", result.objective)?.dict())
}

/// How probable each cluster near an item is, given the clusters of all others: `offsets`, `clusters` and `shares`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn cluster_shares<'py>(
    py: Python<'py>,
    left: PyReadonlyArrayDyn<'py, u32>,
    right: PyReadonlyArrayDyn<'py, u32>,
    evidence: PyReadonlyArrayDyn<'py, f64>,
    clusters: PyReadonlyArrayDyn<'py, u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let clusters = slice("clusters", &clusters)?;
    let pairs = Pairs { left: slice("left", &left)?, right: slice("right", &right)?, n_items: clusters.len() };
    let evidence = slice("evidence", &evidence)?;
    let result = work(py, None, |control| clustering::cluster_shares(&pairs, evidence, clusters, control))?;
    let dict = Found::new(py).list("offsets", result.offsets)?.list("clusters", result.clusters)?;
    Ok(dict.list("shares", result.shares)?.dict())
}
