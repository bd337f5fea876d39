//! Dawid–Skene with priors learned from the crowd.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::base::control::Control;
use crate::categorical::em::{self, Common, Hierarchy, HierarchyFit, Learnt, OrdinalCrowd, Sizes};
use crate::python::categorical::em::passes::{Called, Holder};
use crate::python::{Found, array, choose, pass, shape, slice, work};

/// Fits Dawid–Skene with priors of the workers that are learned from the crowd, one fit for each of `priors`: "crowd",
/// "spammer" or "ordered", and a prior strength of the latter two, learned where it is None. They share their start.
/// `votes` as for [`super::em::em_fit`].
///
/// What was learned of the crowd is `alpha`; or `competence`, `guesses` and `strength`; or `thresholds`, which end with
/// the slope, their `mean` and `covariance` in the crowd, and `strength`.
#[pyfunction]
#[pyo3(signature = (votes, priors, *, class_pseudo, protected, max_iter, tol, gold=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn hierarchy_fit<'py>(
    py: Python<'py>,
    votes: &Bound<'py, PyAny>,
    priors: Vec<(String, Option<f64>)>,
    class_pseudo: PyReadonlyArrayDyn<'py, f64>,
    protected: usize,
    max_iter: usize,
    tol: f64,
    gold: Option<PyReadonlyArrayDyn<'py, i32>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let kind = |(name, strength): &(String, Option<f64>)| {
        let ordered = Hierarchy::Ordered(*strength);
        let kinds = [("crowd", Hierarchy::Crowd), ("spammer", Hierarchy::Spammer(*strength)), ("ordered", ordered)];
        choose("prior", name, &kinds)
    };
    let priors = priors.iter().map(kind).collect::<PyResult<Vec<_>>>()?;
    let options = Common {
        class_pseudo: slice("class_pseudo", &class_pseudo)?,
        gold: gold.as_ref().map(|g| slice("gold", g)).transpose()?,
        protected,
        max_iter,
        tol,
    };
    match Holder::new(votes)? {
        Holder::Table(table) => {
            let fits =
                work(py, progress.as_ref(), |control| em::fit_hierarchies(&table.0, &priors, &options, control))?;
            let one = |fit: HierarchyFit| with_learnt(Found::fit(py, table, fit.fit)?, table.sizes(), fit.learnt);
            fits.into_iter().map(one).collect()
        }
        Holder::Elsewhere(passes) => {
            let sizes = passes.sizes;
            let job = |passes: &mut Called<'_>, control: &Control| {
                em::solve_hierarchies(passes, sizes, &priors, &options, control, |_, solution| solution)
            };
            let fits = passes.work(py, progress.as_ref(), options.gold, job)?;
            fits.into_iter().map(|fit| with_learnt(Found::solution(py, sizes, fit.fit)?, sizes, fit.learnt)).collect()
        }
    }
}

/// Dirichlet parameters of workers' rows, labels by classes, learned from their expected counts, workers by labels by
/// classes, in this many steps of Minka's fixed point from `start` or, without, from a pseudo-worker.
#[pyfunction]
#[pyo3(signature = (counts, *, rounds, start=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn crowd_prior<'py>(
    py: Python<'py>,
    counts: PyReadonlyArrayDyn<'py, f64>,
    rounds: usize,
    start: Option<PyReadonlyArrayDyn<'py, f64>>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let [_, k, _] = shape("counts", &counts, [None; 3])?;
    shape("counts", &counts, [None, Some(k), Some(k)])?;
    if k == 0 {
        return Err(PyValueError::new_err("counts must be of at least one class"));
    }
    if let Some(start) = &start {
        shape("start", start, [Some(k); 2])?;
    }
    let start = start.as_ref().map(|start| slice("start", start)).transpose()?;
    let counts = slice("counts", &counts)?;
    if counts.iter().any(|n| !(*n >= 0.0 && n.is_finite())) {
        return Err(PyValueError::new_err("counts must be finite and not negative"));
    }
    if start.is_some_and(|start| start.iter().any(|a| !(*a > 0.0 && a.is_finite()))) {
        return Err(PyValueError::new_err("start must be finite and positive"));
    }
    let alpha = work(py, None, |control| em::crowd_prior(counts, k, start, rounds, control))?;
    array(py, [k, k], alpha)
}

/// Adds what was learned of the crowd to a fit.
fn with_learnt(found: Found<'_>, sizes: Sizes, learnt: Learnt) -> PyResult<Bound<'_, PyDict>> {
    let (m, k) = (sizes.n_workers, sizes.shape.classes);
    let result = match learnt {
        Learnt::Crowd(alpha) => found.array("alpha", [k, k], alpha)?,
        Learnt::Spammer { competence, guesses, strength } => {
            found.list("competence", competence)?.array("guesses", [m, k], guesses)?.with("strength", strength)?
        }
        Learnt::Ordered(OrdinalCrowd { theta, mean, covariance, strength }) => found
            .array("thresholds", [m, k], theta)?
            .list("mean", mean)?
            .array("covariance", [k, k], covariance)?
            .with("strength", strength)?,
    };
    Ok(result.dict())
}

/// One step of Minka's fixed point from `alpha` towards the Dirichlet parameters that rows of counts were drawn with,
/// with one pseudo-row more.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn dirichlet_step<'py>(
    py: Python<'py>,
    alpha: PyReadonlyArrayDyn<'py, f64>,
    counts: PyReadonlyArrayDyn<'py, f64>,
    imaginary: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (alpha, imaginary) = (slice("alpha", &alpha)?, slice("imaginary", &imaginary)?);
    let counts = slice("counts", &counts)?;
    let result = pass(py, counts.len(), |control| em::dirichlet_step(alpha, counts, imaginary, control))?;
    Ok(PyArray1::from_vec(py, result))
}
