//! Tasks that are linked.

use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::categorical::linked::{Graph, propagate};
use crate::python::{Found, shape, slice, work};

/// Class probabilities of linked tasks under evidence, by belief propagation.
#[pyfunction]
#[pyo3(signature = (offsets, neighbours, opposite, evidence, *, strength, max_sweeps, tol))]
#[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
pub fn linked_beliefs<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, u32>,
    neighbours: PyReadonlyArrayDyn<'py, u32>,
    opposite: PyReadonlyArrayDyn<'py, u32>,
    evidence: PyReadonlyArrayDyn<'py, f64>,
    strength: f64,
    max_sweeps: usize,
    tol: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let graph = Graph {
        offsets: slice("offsets", &offsets)?,
        neighbours: slice("neighbours", &neighbours)?,
        opposite: slice("opposite", &opposite)?,
    };
    let [n, k] = shape("evidence", &evidence, [None, None])?;
    let evidence = slice("evidence", &evidence)?;
    let result = work(py, None, |control| propagate(&graph, evidence, k, strength, max_sweeps, tol, control))?;
    let output = Found::new(py)
        .array("posterior", [n, k], result.posterior)?
        .with("agreement", result.agreement)?
        .with("n_sweeps", result.sweeps)?
        .with("change", result.change)?;
    Ok(output.dict())
}
