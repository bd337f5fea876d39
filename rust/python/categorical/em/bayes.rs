//! Dawid–Skene by variational Bayes.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::base::control::Control;
use crate::categorical::em::{self, Assignment, Model, Options, Sizes, Start};
use crate::python::categorical::em::passes::{Called, Holder};
use crate::python::{Found, choose, slice, work};

/// Fits Dawid–Skene by variational Bayes, to what [`super::em::em_fit`] takes; `pseudo` and `class_pseudo` are Dirichlet
/// parameters.
///
/// `start` is "shares", "majority" or "protected" (at most `protected` passes); a `posterior` replaces it where given.
#[pyfunction]
#[pyo3(signature = (votes, *, model, start, pseudo, class_pseudo, max_iter, tol, protected=0, accelerate=false,
                    gold=None, posterior=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn bayes_fit<'py>(
    py: Python<'py>,
    votes: &Bound<'py, PyAny>,
    model: &str,
    start: &str,
    pseudo: PyReadonlyArrayDyn<'py, f64>,
    class_pseudo: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    protected: usize,
    accelerate: bool,
    gold: Option<PyReadonlyArrayDyn<'py, i32>>,
    posterior: Option<PyReadonlyArrayDyn<'py, f64>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let starts = [("shares", Start::Shares), ("majority", Start::Majority), ("protected", Start::Protected(protected))];
    let start = match &posterior {
        Some(posterior) => Start::Posterior(slice("posterior", posterior)?),
        None => choose("start", start, &starts)?,
    };
    let options = Options {
        model: choose("model", model, &Model::NAMES)?,
        assignment: Assignment::Soft,
        start,
        pseudo: slice("pseudo", &pseudo)?,
        class_pseudo: slice("class_pseudo", &class_pseudo)?,
        gold: gold.as_ref().map(|g| slice("gold", g)).transpose()?,
        accelerate,
        max_iter,
        tol,
    };
    let (result, sizes, concentration, class_concentration) = match Holder::new(votes)? {
        Holder::Table(table) => {
            let fit = work(py, progress.as_ref(), |control| em::fit_bayes(&table.0, &options, control))?;
            let sizes = table.sizes();
            (Found::fit(py, table, fit.fit)?, sizes, fit.concentration, fit.class_concentration)
        }
        Holder::Elsewhere(passes) => {
            let sizes = passes.sizes;
            let job = |passes: &mut Called<'_>, control: &Control| em::solve_bayes(passes, sizes, &options, control);
            let fit = passes.work(py, progress.as_ref(), options.gold, job)?;
            (Found::solution(py, sizes, fit.fit)?, sizes, fit.concentration, fit.class_concentration)
        }
    };
    let Sizes { n_workers, shape } = sizes;
    let output = result.array("concentration", [n_workers, shape.classes, shape.labels], concentration)?;
    Ok(output.list("class_concentration", class_concentration)?.dict())
}
