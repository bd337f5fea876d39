//! Factorizations.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::moments::factor::{self, Fit, agreement, cpd, nmf};
use crate::python::table::Table;
use crate::python::{Found, array, shape, slice, work};

/// Indices of points, and their distances.
type Picks<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f64>>);

/// Picks the vertices of points (points × dimensions): their indices, and the norms of their residuals.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn spa<'py>(py: Python<'py>, points: PyReadonlyArrayDyn<'py, f64>, n_pick: usize) -> PyResult<Picks<'py>> {
    let [_, dim] = shape("points", &points, [None, None])?;
    let points = slice("points", &points)?;
    let (picks, residuals) = work(py, None, |control| factor::spa::spa(points, dim, n_pick, control))?;
    Ok((PyArray1::from_vec(py, picks), PyArray1::from_vec(py, residuals)))
}

/// For each row of targets (n × dimensions) the point of the simplex that design (dimensions × classes) maps nearest to
/// it.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn simplex_lstsq<'py>(
    py: Python<'py>,
    design: PyReadonlyArrayDyn<'py, f64>,
    targets: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let [dim, k] = shape("design", &design, [None, None])?;
    let [n, _] = shape("targets", &targets, [None, Some(dim)])?;
    if dim == 0 || k == 0 {
        return Err(PyValueError::new_err(format!("design must have rows and columns, not shape ({dim}, {k})")));
    }
    let (design, targets) = (slice("design", &design)?, slice("targets", &targets)?);
    let rows = work(py, None, |control| factor::simplex::simplex_lstsq(design, k, targets, dim, control))?;
    array(py, [n, k], rows)
}

/// The column of each row in the one-to-one assignment of the largest total score.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn assignment<'py>(py: Python<'py>, score: PyReadonlyArrayDyn<'py, f64>) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let [k, columns] = shape("score", &score, [None, None])?;
    if k != columns {
        return Err(PyValueError::new_err(format!("score must be square, not of shape ({k}, {columns})")));
    }
    let score = slice("score", &score)?;
    Ok(PyArray1::from_vec(py, work(py, None, |control| factor::assignment::assignment(score, k, control))?))
}

/// Fits prior and confusion matrices to the label counts of pairs of workers, in the Kullback–Leibler divergence.
#[pyfunction]
#[pyo3(signature = (pairs, joint, prior, confusion, *, weights, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn nmf_fit<'py>(
    py: Python<'py>,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    joint: PyReadonlyArrayDyn<'py, f64>,
    prior: PyReadonlyArrayDyn<'py, f64>,
    confusion: PyReadonlyArrayDyn<'py, f64>,
    weights: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let [k] = shape("prior", &prior, [None])?;
    shape("confusion", &confusion, [None, Some(k), Some(k)])?;
    let [n_pairs, _] = shape("pairs", &pairs, [None, Some(2)])?;
    shape("joint", &joint, [Some(n_pairs), Some(k), Some(k)])?;
    shape("weights", &weights, [Some(n_pairs)])?;
    let options = nmf::Options {
        pairs: slice("pairs", &pairs)?,
        joint: slice("joint", &joint)?,
        weights: slice("weights", &weights)?,
        prior: slice("prior", &prior)?,
        confusion: slice("confusion", &confusion)?,
        max_iter,
        tol,
    };
    let fit = work(py, progress.as_ref(), |control| nmf::nmf_fit(&options, control))?;
    dictionary(py, fit)
}

/// Fits prior and confusion matrices to frequencies of the labels of triples, pairs and single workers, in least
/// squares.
#[pyfunction]
#[pyo3(signature = (n_workers, prior, confusion, *, triples, triple_values, triple_weights, pairs, pair_values,
                    pair_weights, first_values, first_weights, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn cpd_fit<'py>(
    py: Python<'py>,
    n_workers: usize,
    prior: PyReadonlyArrayDyn<'py, f64>,
    confusion: PyReadonlyArrayDyn<'py, f64>,
    triples: PyReadonlyArrayDyn<'py, u32>,
    triple_values: PyReadonlyArrayDyn<'py, f64>,
    triple_weights: PyReadonlyArrayDyn<'py, f64>,
    pairs: PyReadonlyArrayDyn<'py, u32>,
    pair_values: PyReadonlyArrayDyn<'py, f64>,
    pair_weights: PyReadonlyArrayDyn<'py, f64>,
    first_values: PyReadonlyArrayDyn<'py, f64>,
    first_weights: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let [k] = shape("prior", &prior, [None])?;
    let (k, m) = (Some(k), Some(n_workers));
    shape("confusion", &confusion, [m, k, k])?;
    let [n, _] = shape("triples", &triples, [None, Some(3)])?;
    shape("triple_values", &triple_values, [Some(n), k, k, k])?;
    shape("triple_weights", &triple_weights, [Some(n)])?;
    let [n, _] = shape("pairs", &pairs, [None, Some(2)])?;
    shape("pair_values", &pair_values, [Some(n), k, k])?;
    shape("pair_weights", &pair_weights, [Some(n)])?;
    shape("first_values", &first_values, [m, k])?;
    shape("first_weights", &first_weights, [m])?;
    let options = cpd::Options {
        prior: slice("prior", &prior)?,
        confusion: slice("confusion", &confusion)?,
        triples: cpd::Order {
            groups: slice("triples", &triples)?,
            values: slice("triple_values", &triple_values)?,
            weights: slice("triple_weights", &triple_weights)?,
        },
        pairs: cpd::Order {
            groups: slice("pairs", &pairs)?,
            values: slice("pair_values", &pair_values)?,
            weights: slice("pair_weights", &pair_weights)?,
        },
        first_values: slice("first_values", &first_values)?,
        first_weights: slice("first_weights", &first_weights)?,
        max_iter,
        tol,
    };
    let fit = work(py, progress.as_ref(), |control| cpd::cpd_fit(&options, control))?;
    dictionary(py, fit)
}

fn dictionary(py: Python<'_>, fit: Fit) -> PyResult<Bound<'_, PyDict>> {
    let k = fit.prior.len();
    let n_workers = fit.confusion.len() / (k * k);
    let output = Found::new(py).list("prior", fit.prior)?.array("confusion", [n_workers, k, k], fit.confusion)?;
    Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
}

#[pymethods]
impl Table {
    /// Weight of equal labels of each pair of workers, (pairs).
    #[allow(clippy::needless_pass_by_value)]
    fn pair_agreement<'py>(
        &self,
        py: Python<'py>,
        pairs: PyReadonlyArrayDyn<'py, u32>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let pairs = slice("pairs", &pairs)?;
        let agree = work(py, None, |control| agreement::pair_agreement(&self.0, pairs, control))?;
        Ok(PyArray1::from_vec(py, agree))
    }
}
