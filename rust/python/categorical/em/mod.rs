//! Dawid–Skene by EM.

pub mod bayes;
pub mod community;
pub mod gibbs;
pub mod grouped;
pub mod hierarchy;
pub mod passes;
pub mod sparse;
pub mod subtypes;

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::base::control::Control;
use crate::categorical::em::{self, Assignment, Model, Options, Start};
use crate::python::categorical::em::passes::{Called, Holder};
use crate::python::{Found, choose, slice, work};

/// Fits Dawid–Skene by EM to a table, or to whatever the passes of `votes` go through.
///
/// `start` is "shares", "majority" or "random"; `posterior`, or `prior` and `confusion`, replace it where given.
#[pyfunction]
#[pyo3(signature = (votes, *, model, assignment, start, pseudo, class_pseudo, max_iter, tol, accelerate=false, seed=0,
                    gold=None, posterior=None, prior=None, confusion=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn em_fit<'py>(
    py: Python<'py>,
    votes: &Bound<'py, PyAny>,
    model: &str,
    assignment: &str,
    start: &str,
    pseudo: PyReadonlyArrayDyn<'py, f64>,
    class_pseudo: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    accelerate: bool,
    seed: u64,
    gold: Option<PyReadonlyArrayDyn<'py, i32>>,
    posterior: Option<PyReadonlyArrayDyn<'py, f64>>,
    prior: Option<PyReadonlyArrayDyn<'py, f64>>,
    confusion: Option<PyReadonlyArrayDyn<'py, f64>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = match (&posterior, &prior, &confusion) {
        (Some(posterior), _, _) => Start::Posterior(slice("posterior", posterior)?),
        (None, Some(prior), Some(confusion)) => {
            Start::Parameters(slice("prior", prior)?, slice("confusion", confusion)?)
        }
        _ => choose(
            "start",
            start,
            &[("shares", Start::Shares), ("majority", Start::Majority), ("random", Start::RandomVote(seed))],
        )?,
    };
    let options = Options {
        model: choose("model", model, &Model::NAMES)?,
        assignment: choose(
            "assignment",
            assignment,
            &[("soft", Assignment::Soft), ("hard", Assignment::Hard), ("hard-then-soft", Assignment::HardThenSoft)],
        )?,
        start,
        pseudo: slice("pseudo", &pseudo)?,
        class_pseudo: slice("class_pseudo", &class_pseudo)?,
        gold: gold.as_ref().map(|g| slice("gold", g)).transpose()?,
        accelerate,
        max_iter,
        tol,
    };
    match Holder::new(votes)? {
        Holder::Table(table) => {
            let fit = work(py, progress.as_ref(), |control| em::fit(&table.0, &options, control))?;
            Ok(Found::fit(py, table, fit)?.dict())
        }
        Holder::Elsewhere(passes) => {
            let sizes = passes.sizes;
            let job = |passes: &mut Called<'_>, control: &Control| em::solve(passes, sizes, &options, control);
            Ok(Found::solution(py, sizes, passes.work(py, progress.as_ref(), options.gold, job)?)?.dict())
        }
    }
}
