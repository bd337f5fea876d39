//! Sets of labels with skills pooled over labels.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Found, array, slice, work};
use crate::multilabel::{self, Design, Patterns, Rates};

/// The arrays of a [`Design`].
#[derive(FromPyObject)]
pub struct Sets<'py> {
    #[pyo3(attribute)]
    starts: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    rows: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    task_starts: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    labels: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    pair_workers: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    pair_labels: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    spare: PyReadonlyArrayDyn<'py, f64>,
    #[pyo3(attribute)]
    sizes: (usize, usize, usize),
}

impl Sets<'_> {
    fn design(&self) -> PyResult<Design<'_>> {
        Ok(Design {
            starts: slice("starts", &self.starts)?,
            rows: slice("rows", &self.rows)?,
            task_starts: slice("task_starts", &self.task_starts)?,
            labels: slice("labels", &self.labels)?,
            pair_workers: slice("pair_workers", &self.pair_workers)?,
            pair_labels: slice("pair_labels", &self.pair_labels)?,
            spare: slice("spare", &self.spare)?,
            sizes: self.sizes.into(),
        })
    }
}

/// Fits a binary model for each label, with rates of workers pooled over labels. `sets` has the arrays of a design.
///
/// `start` has the shares of labels in patterns, (patterns × labels), and none of them where labels are independent. Of hits
/// and of false alarms there are `rates` of pairs, the `centre`, and what `workers` and `labels` add to it.
#[pyfunction]
#[pyo3(signature = (sets, start, *, max_iter, tol, progress=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn relevance_fit<'py>(
    py: Python<'py>,
    sets: Sets<'py>,
    start: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (design, start) = (sets.design()?, slice("start", &start)?);
    let fit = work(py, progress.as_ref(), |control| multilabel::relevance_fit(&design, start, max_iter, tol, control))?;
    let [hits, alarms] = fit.rates;
    let n_patterns = fit.patterns.shares.len();
    let output = Found::new(py)
        .list("posterior", fit.posterior)?
        .with("patterns", array(py, [n_patterns, fit.prior.len()], fit.patterns.rates)?)?
        .list("pattern_shares", fit.patterns.shares)?
        .list("prior", fit.prior)?
        .with("hits", rates(py, hits)?)?
        .with("alarms", rates(py, alarms)?)?;
    Ok(output.course(vec![], fit.n_iter, fit.converged)?.dict())
}

fn rates(py: Python<'_>, found: Rates) -> PyResult<Bound<'_, PyDict>> {
    let Rates { rates, centre, workers, labels, variances, strength } = found;
    let parameters = Found::new(py)
        .list("rates", rates)?
        .list("workers", workers)?
        .list("labels", labels)?
        .list("variances", variances.to_vec())?
        .with("centre", centre)?
        .with("strength", strength)?;
    Ok(parameters.dict())
}

/// Probabilities of candidates under given rates of hits and false alarms, shares of patterns and of the labels in each.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn relevance_posterior<'py>(
    py: Python<'py>,
    sets: Sets<'py>,
    hits: PyReadonlyArrayDyn<'py, f64>,
    alarms: PyReadonlyArrayDyn<'py, f64>,
    shares: PyReadonlyArrayDyn<'py, f64>,
    patterns: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let design = sets.design()?;
    let rates = [slice("hits", &hits)?, slice("alarms", &alarms)?];
    let patterns =
        Patterns { shares: slice("shares", &shares)?.to_vec(), rates: slice("patterns", &patterns)?.to_vec() };
    let result = work(py, None, |control| multilabel::relevance_posterior(&design, rates, &patterns, control))?;
    Ok(PyArray1::from_vec(py, result))
}
