//! Models with latent competence or difficulty: MACE and GLAD.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::table::Table;
use super::{array, set_course, slice, work};
use crate::{glad, mace};

/// Fits MACE from given parameters, by EM or variational Bayes.
#[pyfunction]
#[pyo3(signature = (table, know, strategies, *, variational, competence, strategy, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn mace_fit<'py>(
    py: Python<'py>,
    table: &Table,
    know: PyReadonlyArrayDyn<'py, f64>,
    strategies: PyReadonlyArrayDyn<'py, f64>,
    variational: bool,
    competence: (f64, f64),
    strategy: f64,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = mace::Options {
        variational,
        competence: competence.into(),
        strategy,
        know: slice("know", &know)?,
        strategies: slice("strategies", &strategies)?,
        max_iter,
        tol,
    };
    let fit = work(py, progress.as_ref(), |control| mace::mace_fit(&table.0, &options, control))?;
    let result = PyDict::new(py);
    result.set_item("posterior", array(py, table.rows(), fit.posterior)?)?;
    result.set_item("know", PyArray1::from_vec(py, fit.know))?;
    result.set_item("strategies", array(py, [table.0.n_workers(), table.0.n_labels()], fit.strategies)?)?;
    set_course(&result, fit.history, fit.n_iter, fit.converged)?;
    Ok(result)
}

/// Fits GLAD from the prior means of abilities and eases.
#[pyfunction]
#[pyo3(signature = (table, prior, ability, ease, *, max_iter, tol, progress=None))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn glad_fit<'py>(
    py: Python<'py>,
    table: &Table,
    prior: PyReadonlyArrayDyn<'py, f64>,
    ability: PyReadonlyArrayDyn<'py, f64>,
    ease: PyReadonlyArrayDyn<'py, f64>,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = glad::Options {
        prior: slice("prior", &prior)?,
        ability: slice("ability", &ability)?,
        ease: slice("ease", &ease)?,
        max_iter,
        tol,
    };
    let fit = work(py, progress.as_ref(), |control| glad::glad_fit(&table.0, &options, control))?;
    let result = PyDict::new(py);
    result.set_item("posterior", array(py, table.rows(), fit.posterior)?)?;
    result.set_item("ability", PyArray1::from_vec(py, fit.ability))?;
    result.set_item("ease", PyArray1::from_vec(py, fit.ease))?;
    result.set_item("accuracy", PyArray1::from_vec(py, fit.accuracy))?;
    set_course(&result, fit.history, fit.n_iter, fit.converged)?;
    Ok(result)
}

/// Class posteriors (tasks × classes) of tasks labelled by workers of known ability.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn glad_posterior<'py>(
    py: Python<'py>,
    table: &Table,
    prior: PyReadonlyArrayDyn<'py, f64>,
    ability: PyReadonlyArrayDyn<'py, f64>,
    ease: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let options = glad::Options {
        prior: slice("prior", &prior)?,
        ability: slice("ability", &ability)?,
        ease: slice("ease", &ease)?,
        max_iter: 0,
        tol: 0.0,
    };
    let posterior = work(py, None, |control| glad::glad_posterior(&table.0, &options, control))?;
    array(py, table.rows(), posterior)
}
