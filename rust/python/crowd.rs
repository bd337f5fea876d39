//! Dawid–Skene beyond independent workers of one kind: draws from the posterior, communities, subtypes of classes.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::aggregate::found;
use super::table::Table;
use super::{array, choose, shape, slice, work};
use crate::em::{self, Assignment, CommunityOptions, Model, Options, Sampling, Start, SubtypesOptions};

/// Draws from the posterior of Dawid–Skene by Gibbs sampling; `pseudo` and `class_pseudo` are Dirichlet parameters.
///
/// Chains begin with parameters drawn given the counts that `posterior` leads to expect.
#[pyfunction]
#[pyo3(signature = (table, *, model, posterior, pseudo, class_pseudo, n_chains, warmup, draws, seed,
                    keep_confusion=false, gold=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn gibbs_fit<'py>(
    py: Python<'py>,
    table: &Table,
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
    let fit = work(py, progress.as_ref(), |control| em::fit_gibbs(&table.0, &options, &sampling, control))?;
    let (m, k) = (table.0.n_workers(), table.0.n_labels());
    let result = PyDict::new(py);
    result.set_item("posterior", array(py, table.rows(), fit.posterior)?)?;
    result.set_item("confusion", array(py, table.blocks(), fit.confusion)?)?;
    result.set_item("prior", PyArray1::from_vec(py, fit.prior))?;
    let kept = PyDict::new(py);
    kept.set_item("prior", array(py, [n_chains, draws, k], fit.prior_draws)?)?;
    kept.set_item("accuracy", array(py, [n_chains, draws, m], fit.accuracy_draws)?)?;
    kept.set_item("log_density", array(py, [n_chains, draws], fit.log_density)?)?;
    if keep_confusion {
        kept.set_item("confusion", array(py, [n_chains, draws, m, k, k], fit.confusion_draws)?)?;
    }
    result.set_item("draws", kept)?;
    Ok(result)
}

/// Fits Dawid–Skene with workers who belong to communities, from given prototypes (communities × true × observed).
///
/// `strength` of the prototypes is learnt where it is not given.
#[pyfunction]
#[pyo3(signature = (table, prototypes, *, pseudo, share_pseudo, class_pseudo, protected, max_iter, tol, strength=None,
                    gold=None, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn community_fit<'py>(
    py: Python<'py>,
    table: &Table,
    prototypes: PyReadonlyArrayDyn<'py, f64>,
    pseudo: PyReadonlyArrayDyn<'py, f64>,
    share_pseudo: f64,
    class_pseudo: PyReadonlyArrayDyn<'py, f64>,
    protected: usize,
    max_iter: usize,
    tol: f64,
    strength: Option<f64>,
    gold: Option<PyReadonlyArrayDyn<'py, i32>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (m, k) = (table.0.n_workers(), table.0.n_labels());
    let [n, ..] = shape("prototypes", &prototypes, [None, Some(k), Some(k)])?;
    let options = CommunityOptions {
        prototypes: slice("prototypes", &prototypes)?,
        strength,
        pseudo: slice("pseudo", &pseudo)?,
        share_pseudo,
        class_pseudo: slice("class_pseudo", &class_pseudo)?,
        gold: gold.as_ref().map(|g| slice("gold", g)).transpose()?,
        protected,
        max_iter,
        tol,
    };
    let fit = work(py, progress.as_ref(), |control| em::fit_community(&table.0, &options, control))?;
    let result = found(py, table, fit.fit)?;
    result.set_item("membership", array(py, [m, n], fit.membership)?)?;
    result.set_item("prototypes", array(py, [n, k, k], fit.prototypes)?)?;
    result.set_item("shares", PyArray1::from_vec(py, fit.shares))?;
    result.set_item("strength", fit.strength)?;
    Ok(result)
}

/// Fits EBCC, in which classes have subtypes, by variational Bayes from a random division of votes among subtypes.
#[pyfunction]
#[pyo3(signature = (table, *, n_subtypes, pseudo, class_pseudo, subtype_pseudo, seed, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn subtypes_fit<'py>(
    py: Python<'py>,
    table: &Table,
    n_subtypes: usize,
    pseudo: PyReadonlyArrayDyn<'py, f64>,
    class_pseudo: PyReadonlyArrayDyn<'py, f64>,
    subtype_pseudo: f64,
    seed: u64,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = SubtypesOptions {
        n_subtypes,
        pseudo: slice("pseudo", &pseudo)?,
        class_pseudo: slice("class_pseudo", &class_pseudo)?,
        subtype_pseudo,
        seed,
        max_iter,
        tol,
    };
    let fit = work(py, progress.as_ref(), |control| em::fit_subtypes(&table.0, &options, control))?;
    let (m, k) = (table.0.n_workers(), table.0.n_labels());
    let result = found(py, table, fit.fit)?;
    result.set_item("concentration", array(py, [m, k, n_subtypes, k], fit.concentration)?)?;
    result.set_item("class_concentration", PyArray1::from_vec(py, fit.class_concentration))?;
    result.set_item("subtype_concentration", array(py, [k, n_subtypes], fit.subtype_concentration)?)?;
    Ok(result)
}

/// Class posteriors (tasks × classes) under given Dirichlet posteriors of the parameters of EBCC.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn subtypes_posterior<'py>(
    py: Python<'py>,
    table: &Table,
    class_concentration: PyReadonlyArrayDyn<'py, f64>,
    subtype_concentration: PyReadonlyArrayDyn<'py, f64>,
    concentration: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let classes = slice("class_concentration", &class_concentration)?;
    let subtypes = slice("subtype_concentration", &subtype_concentration)?;
    let workers = slice("concentration", &concentration)?;
    let posterior = work(py, None, |control| em::posterior_subtypes(&table.0, classes, subtypes, workers, control))?;
    array(py, table.rows(), posterior)
}
