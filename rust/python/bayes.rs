//! Dawid–Skene with priors: variational Bayes, and priors learnt from the crowd.

use numpy::{PyArray1, PyArrayDyn, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;

use super::em::{found, solved};
use super::passes::{Called, Holder};
use super::{array, choose, slice, work};
use crate::Error;
use crate::control::Control;
use crate::em::{self, Assignment, Common, Hierarchy, HierarchyFit, Learnt, Model, Options, Sizes, Start};
use crate::memory::zeros;
use crate::special;

/// Fits Dawid–Skene by variational Bayes, to what [`super::em::em_fit`] takes; `pseudo` and `class_pseudo` are Dirichlet parameters.
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
            let found_by = work(py, progress.as_ref(), |control| em::fit_bayes(&table.0, &options, control))?;
            let sizes = table.sizes();
            (found(py, table, found_by.fit)?, sizes, found_by.concentration, found_by.class_concentration)
        }
        Holder::Elsewhere(passes) => {
            let sizes = passes.sizes;
            let job = |passes: &mut Called<'_>, control: &Control| em::solve_bayes(passes, sizes, &options, control);
            let found_by = passes.work(py, progress.as_ref(), options.gold, job)?;
            (solved(py, sizes, found_by.fit)?, sizes, found_by.concentration, found_by.class_concentration)
        }
    };
    let Sizes { n_workers, shape } = sizes;
    result.set_item("concentration", array(py, [n_workers, shape.classes, shape.labels], concentration)?)?;
    result.set_item("class_concentration", PyArray1::from_vec(py, class_concentration))?;
    Ok(result)
}

/// Fits Dawid–Skene with priors of the workers that are learnt from the crowd, one fit for each of `priors`: "crowd" or
/// "spammer", and a strength of the latter, learnt where it is None. They share their start. `votes` as for
/// [`super::em::em_fit`].
///
/// What was learnt of the crowd is `alpha`, or `competence`, `guesses` and `strength`.
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
        choose("prior", name, &[("crowd", Hierarchy::Crowd), ("spammer", Hierarchy::Spammer(*strength))])
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
            let one = |fit: HierarchyFit| with_learnt(found(py, table, fit.fit)?, table.sizes(), fit.learnt);
            fits.into_iter().map(one).collect()
        }
        Holder::Elsewhere(passes) => {
            let sizes = passes.sizes;
            let job = |passes: &mut Called<'_>, control: &Control| {
                em::solve_hierarchies(passes, sizes, &priors, &options, control, |_, solution| solution)
            };
            let fits = passes.work(py, progress.as_ref(), options.gold, job)?;
            fits.into_iter().map(|fit| with_learnt(solved(py, sizes, fit.fit)?, sizes, fit.learnt)).collect()
        }
    }
}

/// Adds what was learnt of the crowd to a fit.
fn with_learnt(result: Bound<'_, PyDict>, sizes: Sizes, learnt: Learnt) -> PyResult<Bound<'_, PyDict>> {
    let (py, m, k) = (result.py(), sizes.n_workers, sizes.shape.classes);
    match learnt {
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
