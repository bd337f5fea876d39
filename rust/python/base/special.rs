//! Functions of distributions.

use numpy::{PyArrayDyn, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::Error;
use crate::base::memory::zeros;
use crate::base::special;
use crate::python::{array, slice, work};

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
