//! Simulated crowds.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::categorical::simulate::{self as core, Collusion, Pattern, Spec};
use crate::python::{slice, work};

/// The truth, then the task, worker and label codes of the annotations.
type Log<'py> =
    (Bound<'py, PyArray1<u16>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u16>>);

/// Draws the truth of each task, who labels it, and what they say.
///
/// Exactly one of `per_task` (fewest and most labels), `density` (one probability per worker) and `pairs` (tasks,
/// workers) states which worker labels which task. `groups` has 2^32 - 1 for workers who belong to none.
#[pyfunction]
#[pyo3(signature = (n_tasks, n_workers, n_classes, *, prior, confusion, truth=None, per_task=None, density=None,
                    pairs=None, activity=None, groups=None, copying=1.0, seed=0))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn simulate<'py>(
    py: Python<'py>,
    n_tasks: usize,
    n_workers: usize,
    n_classes: usize,
    prior: PyReadonlyArrayDyn<'py, f64>,
    confusion: PyReadonlyArrayDyn<'py, f64>,
    truth: Option<PyReadonlyArrayDyn<'py, u16>>,
    per_task: Option<(usize, usize)>,
    density: Option<PyReadonlyArrayDyn<'py, f64>>,
    pairs: Option<(PyReadonlyArrayDyn<'py, u32>, PyReadonlyArrayDyn<'py, u32>)>,
    activity: Option<PyReadonlyArrayDyn<'py, f64>>,
    groups: Option<PyReadonlyArrayDyn<'py, u32>>,
    copying: f64,
    seed: u64,
) -> PyResult<Log<'py>> {
    let pattern = match (per_task, &density, &pairs) {
        (Some((min, max)), None, None) => Pattern::PerTaskRange(min, max),
        (None, Some(density), None) => Pattern::WorkerDensity(slice("density", density)?),
        (None, None, Some((tasks, workers))) => Pattern::Pairs(slice("pairs", tasks)?, slice("pairs", workers)?),
        _ => return Err(PyTypeError::new_err("give exactly one of per_task, density and pairs")),
    };
    let groups = groups.as_ref().map(|g| slice("groups", g)).transpose()?;
    let spec = Spec {
        n_tasks,
        n_workers,
        n_classes,
        prior: slice("prior", &prior)?,
        truth: truth.as_ref().map(|t| slice("truth", t)).transpose()?,
        confusion: slice("confusion", &confusion)?,
        pattern,
        activity: activity.as_ref().map(|a| slice("activity", a)).transpose()?,
        collusion: groups.map(|groups| Collusion { groups, copying }),
        seed,
    };
    let log = work(py, None, |control| core::simulate(&spec, control))?;
    Ok((
        PyArray1::from_vec(py, log.truth),
        PyArray1::from_vec(py, log.tasks),
        PyArray1::from_vec(py, log.workers),
        PyArray1::from_vec(py, log.labels),
    ))
}
