//! Passes over ratings.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::table::Ratings;
use super::{array, pass, slice, work};
use crate::Error;
use crate::numeric::{self, Noise, Prior, View};

type Pair<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>);
type Step<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

#[pymethods]
impl Ratings {
    /// One step of the Gaussian model: tasks, sums of workers, residuals by others (empty unless `shapes` are given).
    #[pyo3(signature = (dim, unit, centre, workers, prior, *, freedom=None, last=None, shapes=None, residuals=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn gaussian_pass<'py>(
        &self,
        py: Python<'py>,
        dim: usize,
        unit: f64,
        centre: f64,
        workers: PyReadonlyArrayDyn<'py, f64>,
        prior: (f64, f64),
        freedom: Option<f64>,
        last: Option<PyReadonlyArrayDyn<'py, f64>>,
        shapes: Option<PyReadonlyArrayDyn<'py, f64>>,
        residuals: Option<PyReadonlyArrayDyn<'py, f64>>,
    ) -> PyResult<Step<'py>> {
        let view = View::new(&self.0, dim, unit, centre)?;
        let workers = slice("workers", &workers)?;
        let (mean, precision) = prior;
        let noise = match (freedom, &last, &shapes, &residuals) {
            (None, None, None, None) => Noise::Normal,
            (Some(freedom), Some(last), None, None) => Noise::Student(freedom, slice("last", last)?),
            (None, None, Some(shapes), Some(rows)) => {
                Noise::Others(slice("shapes", shapes)?, slice("residuals", rows)?)
            }
            _ => return Err(Error::invalid("freedom goes with last, shapes go with residuals").into()),
        };
        let prior = Prior { mean, precision };
        let passed = pass(py, self.0.len(), |control| numeric::gaussian_pass(&view, workers, prior, noise, control))?;
        let width = passed.sums.len() / self.0.n_workers().max(1);
        Ok((
            array(py, [self.0.n_tasks(), 2], passed.tasks)?,
            array(py, [self.0.n_workers(), width], passed.sums)?,
            PyArray1::from_vec(py, passed.residuals),
        ))
    }

    /// Weight, mean, sum of squares and share of each task; weight, sum and sum of squares of each worker's differences.
    #[pyo3(signature = (dim, unit, centre, worker_weights=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn spread<'py>(
        &self,
        py: Python<'py>,
        dim: usize,
        unit: f64,
        centre: f64,
        worker_weights: Option<PyReadonlyArrayDyn<'py, f64>>,
    ) -> PyResult<Pair<'py>> {
        let view = View::new(&self.0, dim, unit, centre)?;
        let weights = worker_weights.as_ref().map(|weights| slice("worker_weights", weights)).transpose()?;
        let result = pass(py, self.0.len(), |control| numeric::spread(&view, weights, control))?;
        Ok((array(py, [self.0.n_tasks(), 4], result.tasks)?, array(py, [self.0.n_workers(), 3], result.workers)?))
    }

    /// Trimmed means of the tasks; with a trim of one half, medians.
    fn trimmed_means<'py>(
        &self,
        py: Python<'py>,
        dim: usize,
        unit: f64,
        centre: f64,
        trim: f64,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let view = View::new(&self.0, dim, unit, centre)?;
        Ok(PyArray1::from_vec(py, work(py, None, |control| numeric::trimmed(&view, trim, control))?))
    }

    /// Sums of the normal equations of each worker's factors, from ratings less their workers' means.
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn covariance_sums<'py>(
        &self,
        py: Python<'py>,
        dim: usize,
        unit: f64,
        centre: f64,
        means: PyReadonlyArrayDyn<'py, f64>,
        factors: PyReadonlyArrayDyn<'py, f64>,
        rank: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let view = View::new(&self.0, dim, unit, centre)?;
        let (means, factors) = (slice("means", &means)?, slice("factors", &factors)?);
        let sums = work(py, None, |control| numeric::covariance_sums(&view, means, factors, rank, control))?;
        array(py, [self.0.n_workers(), rank + rank * rank], sums)
    }

    /// Expectation and variance of `target` · f on each task.
    #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
    fn factor_scores<'py>(
        &self,
        py: Python<'py>,
        dim: usize,
        unit: f64,
        centre: f64,
        means: PyReadonlyArrayDyn<'py, f64>,
        precisions: PyReadonlyArrayDyn<'py, f64>,
        factors: PyReadonlyArrayDyn<'py, f64>,
        target: PyReadonlyArrayDyn<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let view = View::new(&self.0, dim, unit, centre)?;
        let of_workers = (slice("means", &means)?, slice("precisions", &precisions)?);
        let of_factors = (slice("factors", &factors)?, slice("target", &target)?);
        let scores = work(py, None, |control| numeric::factor_scores(&view, of_workers, of_factors, control))?;
        array(py, [self.0.n_tasks(), 2], scores.tasks)
    }
}
