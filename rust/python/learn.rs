//! Steps on tables of which a batch touches few rows.

use numpy::{PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::{pass, shape, slice, writable};
use crate::learn::{self, Step, Tables};

type Table<'py> = PyReadwriteArrayDyn<'py, f32>;

/// Moves rows of `table` (rows × width), and Adam's averages `mean` and `square` of them, in place.
#[pyfunction]
#[pyo3(signature = (table, mean, square, rows, gradient, *, rate, betas, eps, number))]
#[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
pub fn adam_rows<'py>(
    py: Python<'py>,
    mut table: Table<'py>,
    mut mean: Table<'py>,
    mut square: Table<'py>,
    rows: PyReadonlyArrayDyn<'py, i64>,
    gradient: PyReadonlyArrayDyn<'py, f32>,
    rate: f64,
    betas: [f64; 2],
    eps: f64,
    number: u64,
) -> PyResult<()> {
    let (rows, len) = (slice("rows", &rows)?, table.len());
    let [_, width] = shape("gradient", &gradient, [Some(rows.len()), None])?;
    let tables = Tables {
        table: writable("table", &mut table, len)?,
        mean: writable("mean", &mut mean, len)?,
        square: writable("square", &mut square, len)?,
        width,
    };
    let (gradient, step) = (slice("gradient", &gradient)?, Step { rate, betas, eps, number });
    pass(py, rows.len(), |control| learn::adam_rows(tables, rows, gradient, step, control))
}
