//! Dawid–Skene with priors: variational Bayes, and priors learnt from the crowd.

use numpy::{PyArray1, PyArray2, PyArrayDyn, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

use super::aggregate::found;
use super::table::Table;
use super::{array, choose, slice, work};
use crate::Error;
use crate::em::{self, Assignment, Hierarchy, HierarchyFit, HierarchyOptions, Learnt, Model, Options, Start};
use crate::memory::zeros;
use crate::special;

/// Fits Dawid–Skene by variational Bayes; `pseudo` and `class_pseudo` are Dirichlet parameters.
///
/// `start` is "shares", "majority" or "protected" (at most `protected` passes); a `posterior` replaces it where given.
#[pyfunction]
#[pyo3(signature = (table, *, model, start, pseudo, class_pseudo, max_iter, tol, protected=0, accelerate=false,
                    gold=None, posterior=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn bayes_fit<'py>(
    py: Python<'py>,
    table: &Table,
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
    let starts = [
        ("shares", (Start::Shares, None)),
        ("majority", (Start::Majority, None)),
        ("protected", (Start::Majority, Some(protected))),
    ];
    let (start, protected) = match &posterior {
        Some(posterior) => (Start::Posterior(slice("posterior", posterior)?), None),
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
    let fit = work(py, progress.as_ref(), |control| em::fit_bayes(&table.0, &options, protected, control))?;
    let result = found(py, table, fit.fit)?;
    result.set_item("concentration", array(py, table.blocks(), fit.concentration)?)?;
    result.set_item("class_concentration", PyArray1::from_vec(py, fit.class_concentration))?;
    Ok(result)
}

/// Class posteriors (tasks × classes) under given Dirichlet posteriors of the parameters.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn bayes_posterior<'py>(
    py: Python<'py>,
    table: &Table,
    model: &str,
    class_concentration: PyReadonlyArrayDyn<'py, f64>,
    concentration: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let model = choose("model", model, &Model::NAMES)?;
    let classes = slice("class_concentration", &class_concentration)?;
    let workers = slice("concentration", &concentration)?;
    let posterior = work(py, None, |control| em::posterior_bayes(&table.0, model, classes, workers, control))?;
    array(py, table.rows(), posterior)
}

/// Fits Dawid–Skene with priors of the workers that are learnt from the crowd, one fit for each of `priors`: "crowd" or
/// "spammer", and a strength of the latter, learnt where it is None. They share their start.
///
/// What was learnt of the crowd is `alpha`, or `competence`, `guesses` and `strength`.
#[pyfunction]
#[pyo3(signature = (table, priors, *, class_pseudo, protected, max_iter, tol, gold=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn hierarchy_fit<'py>(
    py: Python<'py>,
    table: &Table,
    priors: Vec<(String, Option<f64>)>,
    class_pseudo: PyReadonlyArrayDyn<'py, f64>,
    protected: usize,
    max_iter: usize,
    tol: f64,
    gold: Option<PyReadonlyArrayDyn<'py, i32>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let kind = |(name, strength): &(String, Option<f64>)| {
        choose("prior", name, &[("crowd", Hierarchy::Crowd), ("spammer", Hierarchy::Spammer(*strength))])
    };
    let priors = priors.iter().map(kind).collect::<PyResult<Vec<_>>>()?;
    let options = HierarchyOptions {
        class_pseudo: slice("class_pseudo", &class_pseudo)?,
        gold: gold.as_ref().map(|g| slice("gold", g)).transpose()?,
        protected,
        max_iter,
        tol,
    };
    let fits = work(py, progress.as_ref(), |control| em::fit_hierarchies(&table.0, &priors, &options, control))?;
    fits.into_iter().map(|fit| hierarchy_found(py, table, fit)).collect()
}

fn hierarchy_found<'py>(py: Python<'py>, table: &Table, fit: HierarchyFit) -> PyResult<Bound<'py, PyDict>> {
    let result = found(py, table, fit.fit)?;
    let (m, k) = (table.0.n_workers(), table.0.n_labels());
    match fit.learnt {
        Learnt::Crowd(alpha) => result.set_item("alpha", array(py, [k, k], alpha)?)?,
        Learnt::Spammer { competence, guesses, strength } => {
            result.set_item("competence", PyArray1::from_vec(py, competence))?;
            result.set_item("guesses", array(py, [m, k], guesses)?)?;
            result.set_item("strength", strength)?;
        }
    }
    Ok(result)
}

/// Quantiles at `p` of Beta distributions, of the shape of their parameters.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn beta_quantile<'py>(
    py: Python<'py>,
    a: PyReadonlyArrayDyn<'py, f64>,
    b: PyReadonlyArrayDyn<'py, f64>,
    p: f64,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let shape = a.shape().to_vec();
    let (a, b) = (slice("a", &a)?, slice("b", &b)?);
    if a.len() != b.len() {
        return Err(Error::invalid(format!("a holds {} numbers and b {}", a.len(), b.len())).into());
    }
    let quantiles = work(py, None, |control| {
        let mut quantiles = zeros(a.len())?;
        let blocks = quantiles.par_chunks_mut(256).zip(a.par_chunks(256)).zip(b.par_chunks(256));
        blocks.try_for_each(|((to, a), b)| {
            control.check()?;
            to.iter_mut().zip(a).zip(b).for_each(|((to, a), b)| *to = special::beta_quantile(p, *a, *b));
            Ok(())
        })?;
        Ok(quantiles)
    })?;
    array(py, shape, quantiles)
}
