//! Margins of weighted votes.

use numpy::{PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::margin::{gibbs, vote};
use crate::python::table::Table;
use crate::python::{Found, array, slice, work};

#[pymethods]
impl Table {
    /// Fits weights and answers with wide margins, from the majority vote.
    #[pyo3(signature = (*, cost, margin, max_iter, tol, progress=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn margin_fit<'py>(
        &self,
        py: Python<'py>,
        cost: f64,
        margin: f64,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = vote::Options { cost, margin, max_iter, tol };
        let fit = work(py, progress.as_ref(), |control| vote::margin_fit(&self.0, &options, control))?;
        let output = Found::new(py).list("weights", fit.weights)?.list("answers", fit.answers)?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }

    /// Draws from the posterior of a Crowd-SVM, from the majority vote, and averages.
    #[pyo3(signature = (*, cost, margin, variance, pseudo_count, draws, burn_in, seed, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn crowd_svm_fit<'py>(
        &self,
        py: Python<'py>,
        cost: f64,
        margin: f64,
        variance: f64,
        pseudo_count: f64,
        draws: usize,
        burn_in: usize,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = gibbs::Options { cost, margin, variance, pseudo_count, draws, burn_in, seed };
        let fit = work(py, progress.as_ref(), |control| gibbs::crowd_svm_fit(&self.0, &options, control))?;
        let output = Found::new(py)
            .array("posterior", self.rows(), fit.posterior)?
            .array("confusion", self.blocks(), fit.confusion)?
            .list("weights", fit.weights)?;
        Ok(output.dict())
    }

    /// Class posteriors (tasks × classes) under given confusion matrices and weights.
    #[pyo3(signature = (confusion, weights, *, cost, margin))]
    #[allow(clippy::needless_pass_by_value)]
    fn crowd_svm_posterior<'py>(
        &self,
        py: Python<'py>,
        confusion: PyReadonlyArrayDyn<'py, f64>,
        weights: PyReadonlyArrayDyn<'py, f64>,
        cost: f64,
        margin: f64,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (confusion, weights) = (slice("confusion", &confusion)?, slice("weights", &weights)?);
        let posterior =
            work(py, None, |control| gibbs::crowd_svm_posterior(&self.0, confusion, weights, cost, margin, control))?;
        array(py, self.rows(), posterior)
    }
}
