//! Sets of labels with skills pooled over labels.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Found, slice, work};
use crate::relevance::{self, Design, Rates};

/// The arrays of a [`Design`].
#[derive(FromPyObject)]
pub struct Sets<'py> {
    #[pyo3(attribute)]
    starts: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    rows: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    pair_starts: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    pair_rows: PyReadonlyArrayDyn<'py, u32>,
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
            pair_starts: slice("pair_starts", &self.pair_starts)?,
            pair_rows: slice("pair_rows", &self.pair_rows)?,
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
/// Of hits and of false alarms there are `rates` of pairs, the `centre`, and what `workers` and `labels` add to it.
#[pyfunction]
#[pyo3(signature = (sets, *, max_iter, tol, progress=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn relevance_fit<'py>(
    py: Python<'py>,
    sets: Sets<'py>,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let design = sets.design()?;
    let fit = work(py, progress.as_ref(), |control| relevance::relevance_fit(&design, max_iter, tol, control))?;
    let [hits, alarms] = fit.rates;
    let found = Found::new(py)
        .list("posterior", fit.posterior)?
        .list("prior", fit.prior)?
        .with("hits", rates(py, hits)?)?
        .with("alarms", rates(py, alarms)?)?;
    Ok(found.course(vec![], fit.n_iter, fit.converged)?.dict())
}

fn rates(py: Python<'_>, found: Rates) -> PyResult<Bound<'_, PyDict>> {
    let Rates { rates, centre, workers, labels, variances, strength } = found;
    let made = Found::new(py)
        .list("rates", rates)?
        .list("workers", workers)?
        .list("labels", labels)?
        .list("variances", variances.to_vec())?
        .with("centre", centre)?
        .with("strength", strength)?;
    Ok(made.dict())
}

/// Probabilities of candidates under given rates of hits and false alarms, and shares of the labels.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn relevance_posterior<'py>(
    py: Python<'py>,
    sets: Sets<'py>,
    hits: PyReadonlyArrayDyn<'py, f64>,
    alarms: PyReadonlyArrayDyn<'py, f64>,
    prior: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let design = sets.design()?;
    let rates = [slice("hits", &hits)?, slice("alarms", &alarms)?];
    let prior = slice("prior", &prior)?;
    let found = work(py, None, |control| relevance::relevance_posterior(&design, rates, prior, control))?;
    Ok(PyArray1::from_vec(py, found))
}
