//! Sequences of tags.

use numpy::{PyArrayDyn, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Found, array, slice, work};
use crate::sequences::{self, Design, fit::Options};

/// The arrays of a [`Design`].
#[derive(FromPyObject)]
pub struct Tagged<'py> {
    #[pyo3(attribute)]
    starts: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    readings: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    workers: PyReadonlyArrayDyn<'py, u32>,
    #[pyo3(attribute)]
    tags: PyReadonlyArrayDyn<'py, u16>,
    #[pyo3(attribute)]
    sizes: (usize, usize, usize),
}

impl Tagged<'_> {
    fn design(&self) -> PyResult<Design<'_>> {
        Ok(Design {
            starts: slice("starts", &self.starts)?,
            readings: slice("readings", &self.readings)?,
            workers: slice("workers", &self.workers)?,
            tags: slice("tags", &self.tags)?,
            n_workers: self.sizes.0,
            n_tags: self.sizes.1,
            n_contexts: self.sizes.2,
        })
    }
}

/// Fits workers and steps to annotations, from probabilities of tags. `readings` has the arrays of a design.
#[pyfunction]
#[pyo3(signature = (readings, start, *, cells, prior, learn, first_rounds, steps, variational, max_iter, tol, progress=None))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
pub fn sequence_fit<'py>(
    py: Python<'py>,
    readings: Tagged<'py>,
    start: PyReadonlyArrayDyn<'py, f64>,
    cells: PyReadonlyArrayDyn<'py, i32>,
    prior: PyReadonlyArrayDyn<'py, f64>,
    learn: bool,
    first_rounds: usize,
    steps: PyReadonlyArrayDyn<'py, f64>,
    variational: bool,
    max_iter: usize,
    tol: f64,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let design = readings.design()?;
    let options = Options {
        cells: slice("cells", &cells)?,
        prior: slice("prior", &prior)?,
        learn,
        first_rounds,
        steps: slice("steps", &steps)?,
        variational,
        max_iter,
        tol,
    };
    let start = slice("start", &start)?;
    let fit = work(py, progress.as_ref(), |control| sequences::fit::fit(&design, start, &options, control))?;
    let (m, k, c) = (design.n_workers, design.n_tags, design.n_contexts);
    let n_iter = fit.history.len();
    let output = Found::new(py)
        .array("concentration", [m, c, k, k], fit.concentration)?
        .array("logs", [m, c, k, k], fit.logs)?
        .array("steps", [k + 1, k], fit.steps)?
        .array("log_steps", [k + 1, k], fit.log_steps)?
        .list("prior", fit.prior)?;
    Ok(output.course(fit.history, n_iter, fit.converged)?.dict())
}

/// Evidence of annotations by workers whose logarithms of probabilities are given.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn sequence_evidence<'py>(
    py: Python<'py>,
    readings: Tagged<'py>,
    logs: PyReadonlyArrayDyn<'py, f64>,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let design = readings.design()?;
    let logs = slice("logs", &logs)?;
    let result = work(py, None, |control| design.evidence(logs, control))?;
    array(py, vec![design.n_tokens(), design.n_tags], result)
}

/// Tags and segments of sequences under evidence and logarithms of steps; with `codes`, segments of those tags.
#[pyfunction]
#[pyo3(signature = (starts, evidence, steps, spans, codes=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn sequence_decode<'py>(
    py: Python<'py>,
    starts: PyReadonlyArrayDyn<'py, u32>,
    evidence: PyReadonlyArrayDyn<'py, f64>,
    steps: PyReadonlyArrayDyn<'py, f64>,
    spans: bool,
    codes: Option<PyReadonlyArrayDyn<'py, u16>>,
) -> PyResult<Bound<'py, PyDict>> {
    let codes = codes.as_ref().map(|codes| slice("codes", codes)).transpose()?;
    let (starts, evidence, steps) = (slice("starts", &starts)?, slice("evidence", &evidence)?, slice("steps", &steps)?);
    let result = work(py, None, |control| sequences::decode::decode(starts, evidence, steps, spans, codes, control))?;
    let n = result.codes.len();
    let k = result.posterior.len().checked_div(n).unwrap_or(0);
    let [first, last] = result.segments.ends;
    let [exact, start, end] = result.segments.probabilities;
    let spans_output = Found::new(py)
        .array("posterior", [n, k], result.posterior)?
        .list("codes", result.codes)?
        .list("starts", first)?
        .list("ends", last)?
        .list("types", result.segments.types)?
        .list("probability", exact)?
        .list("start_probability", start)?
        .list("end_probability", end)?;
    Ok(spans_output.dict())
}
