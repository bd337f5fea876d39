//! Draws from the posterior of Dawid–Skene.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::em::{self, Assignment, Model, Options, Sampling, Start};
use crate::python::table::Table;
use crate::python::{Found, choose, slice, work};

#[pymethods]
impl Table {
    /// Draws from the posterior of Dawid–Skene by Gibbs sampling; `pseudo` and `class_pseudo` are Dirichlet parameters.
    ///
    /// Chains begin with parameters drawn given the counts that `posterior` leads to expect.
    #[pyo3(signature = (*, model, posterior, pseudo, class_pseudo, n_chains, warmup, draws, seed,
                    keep_confusion=false, gold=None, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn gibbs_fit<'py>(
        &self,
        py: Python<'py>,
        model: &str,
        posterior: PyReadonlyArrayDyn<'py, f64>,
        pseudo: PyReadonlyArrayDyn<'py, f64>,
        class_pseudo: PyReadonlyArrayDyn<'py, f64>,
        n_chains: usize,
        warmup: usize,
        draws: usize,
        seed: u64,
        keep_confusion: bool,
        gold: Option<PyReadonlyArrayDyn<'py, i32>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = Options {
            model: choose("model", model, &Model::NAMES)?,
            assignment: Assignment::Soft,
            start: Start::Posterior(slice("posterior", &posterior)?),
            pseudo: slice("pseudo", &pseudo)?,
            class_pseudo: slice("class_pseudo", &class_pseudo)?,
            gold: gold.as_ref().map(|g| slice("gold", g)).transpose()?,
            accelerate: false,
            max_iter: 0,
            tol: 0.0,
        };
        let sampling = Sampling { n_chains, warmup, draws, keep_confusion, seed };
        let fit = work(py, progress.as_ref(), |control| em::fit_gibbs(&self.0, &options, &sampling, control))?;
        let (m, k) = (self.0.n_workers(), self.0.n_labels());
        let mut draws_output = Found::new(py)
            .array("prior", [n_chains, draws, k], fit.prior_draws)?
            .array("accuracy", [n_chains, draws, m], fit.accuracy_draws)?
            .array("log_density", [n_chains, draws], fit.log_density)?;
        if keep_confusion {
            draws_output = draws_output.array("confusion", [n_chains, draws, m, k, k], fit.confusion_draws)?;
        }
        let output = Found::new(py)
            .array("posterior", self.rows(), fit.posterior)?
            .array("confusion", self.blocks(), fit.confusion)?
            .list("prior", fit.prior)?;
        Ok(output.with("draws", draws_output.dict())?.dict())
    }
}
