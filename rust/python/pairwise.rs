//! Comparisons and rankings, and the scores that explain them.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Found, choose, slice, work};
use crate::base::memory::{copied, zeros};
use crate::pairwise::{
    self, CentralityOptions, Clusters, Comparisons as CoreComparisons, CrowdOptions, ErrorOptions, LeftBias,
    LuceOptions, Options, Parameters, Rankings as CoreRankings, Rows, Ties,
};

type Column<'py, T> = Bound<'py, PyArray1<T>>;
type Codes<'py> = PyReadonlyArrayDyn<'py, u32>;
type Numbers<'py> = PyReadonlyArrayDyn<'py, f64>;

/// Left, right, outcome and worker of all rows, and their contexts if they have any.
type Columns<'py> = (Column<'py, u32>, Column<'py, u32>, Column<'py, u8>, Column<'py, u32>, Option<Column<'py, u32>>);

fn ties_of(name: &str) -> PyResult<Ties> {
    choose("ties", name, &[("davidson", Ties::Davidson), ("rao-kupper", Ties::RaoKupper), ("half", Ties::Half)])
}

/// Comparisons as codes, by worker; immutable.
#[pyclass(frozen, module = "manyhands._core")]
pub struct Comparisons(CoreComparisons);

#[pymethods]
impl Comparisons {
    #[new]
    #[pyo3(signature = (left, right, outcomes, workers, contexts, weights, n_items, n_workers, n_contexts))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        left: Codes<'_>,
        right: Codes<'_>,
        outcomes: PyReadonlyArrayDyn<'_, u8>,
        workers: Codes<'_>,
        contexts: Option<Codes<'_>>,
        weights: Option<Numbers<'_>>,
        n_items: usize,
        n_workers: usize,
        n_contexts: usize,
    ) -> PyResult<Self> {
        let rows = Rows {
            left: slice("left", &left)?,
            right: slice("right", &right)?,
            outcomes: slice("outcomes", &outcomes)?,
            workers: slice("workers", &workers)?,
            contexts: contexts.as_ref().map(|codes| slice("contexts", codes)).transpose()?,
            weights: weights.as_ref().map(|weights| slice("weights", weights)).transpose()?,
            n_items,
            n_workers,
            n_contexts,
        };
        work(py, None, |control| CoreComparisons::new(&rows, control)).map(Self)
    }

    #[getter]
    fn n_items(&self) -> usize {
        self.0.n_items()
    }
    #[getter]
    fn n_workers(&self) -> usize {
        self.0.n_workers()
    }
    #[getter]
    fn n_contexts(&self) -> usize {
        self.0.n_contexts()
    }
    #[getter]
    fn n_annotations(&self) -> usize {
        self.0.len()
    }

    /// Left, right, outcome, worker and context of all rows.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Columns<'py>> {
        let workers = work(py, None, |_| self.0.workers())?;
        let contexts = self.0.contexts().map(copied).transpose()?;
        Ok((
            PyArray1::from_vec(py, copied(self.0.left())?),
            PyArray1::from_vec(py, copied(self.0.right())?),
            PyArray1::from_vec(py, copied(self.0.outcomes())?),
            PyArray1::from_vec(py, workers),
            contexts.map(|contexts| PyArray1::from_vec(py, contexts)),
        ))
    }

    /// Weights of all rows, or None.
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Option<Column<'py, f64>>> {
        let weights = self.0.weights().map(copied).transpose()?;
        Ok(weights.map(|weights| PyArray1::from_vec(py, weights)))
    }

    /// Comparisons by each worker.
    fn worker_counts<'py>(&self, py: Python<'py>) -> Column<'py, u64> {
        PyArray1::from_vec(py, self.0.offsets().windows(2).map(|rows| u64::from(rows[1] - rows[0])).collect())
    }

    /// For each item how often it was compared, better, and level.
    fn item_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, numpy::PyArray2<f64>>> {
        let counts = work(py, None, |_| self.0.item_counts())?;
        super::array(py, [self.0.n_items(), 3], counts)
    }

    /// The group of items to which each belongs that are compared with each other.
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Column<'py, u32>> {
        Ok(PyArray1::from_vec(py, work(py, None, |_| self.0.components())?.0))
    }

    /// The rows that are marked, of the same items, workers and contexts.
    #[allow(clippy::needless_pass_by_value)]
    fn keep(&self, py: Python<'_>, mask: PyReadonlyArrayDyn<'_, bool>) -> PyResult<Self> {
        let mask = slice("mask", &mask)?;
        work(py, None, |_| self.0.keep(mask)).map(Self)
    }

    /// The same rows under other weights.
    #[allow(clippy::needless_pass_by_value)]
    fn counted(&self, py: Python<'_>, weights: Numbers<'_>) -> PyResult<Self> {
        let weights = slice("weights", &weights)?;
        work(py, None, |control| self.0.counted(weights, control)).map(Self)
    }
}

#[pymethods]
impl Comparisons {
    /// Scores, and what else a Bradley–Terry model has.
    #[pyo3(signature = (*, ties, left_bias, slopes, prior, slope_spread=None, bias_spread=None, start=None, max_iter,
                    tol, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn bradley_terry_fit<'py>(
        &self,
        py: Python<'py>,
        ties: &str,
        left_bias: &str,
        slopes: bool,
        prior: f64,
        slope_spread: Option<f64>,
        bias_spread: Option<f64>,
        start: Option<Numbers<'_>>,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let biases = [("none", LeftBias::None), ("shared", LeftBias::Shared), ("worker", LeftBias::Worker)];
        let options = Options {
            ties: ties_of(ties)?,
            left_bias: choose("left_bias", left_bias, &biases)?,
            slopes,
            prior,
            spread: [slope_spread.unwrap_or(f64::NAN), bias_spread.unwrap_or(f64::NAN)],
            start: start.as_ref().map(|start| slice("start", start)).transpose()?,
            max_iter,
            tol,
        };
        let fit = work(py, progress.as_ref(), |control| pairwise::bradley_terry_fit(&self.0, &options, control))?;
        let [slope_errors, bias_errors] = fit.worker_errors;
        let output = Found::new(py)
            .list("point", fit.found.point)?
            .list("slopes", fit.found.slopes)?
            .list("biases", fit.found.biases)?
            .list("slope_errors", slope_errors)?
            .list("bias_errors", bias_errors)?
            .list("spread", fit.spread.to_vec())?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }

    /// Variances of all scores: by the model, by clusters, and how far they may be off.
    #[pyo3(signature = (*, point, slopes, biases, ties, left_bias, prior, clusters, n_probes, seed, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn bradley_terry_errors<'py>(
        &self,
        py: Python<'py>,
        point: Numbers<'_>,
        slopes: Numbers<'_>,
        biases: Numbers<'_>,
        ties: &str,
        left_bias: bool,
        prior: f64,
        clusters: &str,
        n_probes: usize,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Column<'py, f64>, Column<'py, f64>, [f64; 2])> {
        let clusters_by_name = [("workers", Clusters::Workers), ("comparisons", Clusters::Comparisons)];
        let options = ErrorOptions {
            ties: ties_of(ties)?,
            left_bias,
            prior,
            clusters: choose("clusters", clusters, &clusters_by_name)?,
            n_probes,
            seed,
        };
        let result = Parameters {
            point: copied(slice("point", &point)?)?,
            slopes: copied(slice("slopes", &slopes)?)?,
            biases: copied(slice("biases", &biases)?)?,
        };
        let errors =
            work(py, progress.as_ref(), |control| pairwise::bradley_terry_errors(&self.0, &result, &options, control))?;
        Ok((PyArray1::from_vec(py, errors.model), PyArray1::from_vec(py, errors.sandwich), errors.inexact))
    }

    /// Scores and reliabilities of `CrowdBT`.
    #[pyo3(signature = (*, link, hits, misses, max_iter, tol, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn crowd_bt_fit<'py>(
        &self,
        py: Python<'py>,
        link: f64,
        hits: f64,
        misses: f64,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = CrowdOptions { link, reports: [hits, misses], max_iter, tol };
        let fit = work(py, progress.as_ref(), |control| pairwise::crowd_bt_fit(&self.0, &options, control))?;
        let output = Found::new(py).list("scores", fit.scores)?.list("reliability", fit.reliability)?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }

    /// Logarithms of visits of the walk that leaves losers.
    #[pyo3(signature = (*, prior, max_iter, tol, progress=None))]
    #[allow(clippy::needless_pass_by_value)]
    fn rank_centrality_fit<'py>(
        &self,
        py: Python<'py>,
        prior: f64,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let options = CentralityOptions { prior, max_iter, tol };
        let (scores, history, n_iter, converged) =
            work(py, progress.as_ref(), |control| pairwise::rank_centrality_fit(&self.0, &options, control))?;
        Ok(Found::new(py).list("scores", scores)?.course(history, n_iter, converged)?.dict())
    }
}

/// Rankings as codes, by worker; immutable.
#[pyclass(frozen, module = "manyhands._core")]
pub struct Rankings(CoreRankings);

#[pymethods]
impl Rankings {
    #[new]
    #[pyo3(signature = (offsets, items, workers, weights, n_items, n_workers))]
    #[allow(clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        offsets: Codes<'_>,
        items: Codes<'_>,
        workers: Codes<'_>,
        weights: Option<Numbers<'_>>,
        n_items: usize,
        n_workers: usize,
    ) -> PyResult<Self> {
        let (offsets, items) = (slice("offsets", &offsets)?, slice("items", &items)?);
        let workers = slice("workers", &workers)?;
        let weights = weights.as_ref().map(|weights| slice("weights", weights)).transpose()?;
        let sizes = [n_items, n_workers];
        work(py, None, |control| CoreRankings::new(offsets, items, workers, weights, sizes, control)).map(Self)
    }

    #[getter]
    fn n_items(&self) -> usize {
        self.0.n_items()
    }
    #[getter]
    fn n_workers(&self) -> usize {
        self.0.n_workers()
    }
    #[getter]
    fn n_annotations(&self) -> usize {
        self.0.len()
    }

    /// Where lists begin, their items, and the worker of each list.
    #[allow(clippy::type_complexity)]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<(Column<'py, u32>, Column<'py, u32>, Column<'py, u32>)> {
        let (offsets, items, workers) = work(py, None, |_| self.0.columns())?;
        Ok((PyArray1::from_vec(py, offsets), PyArray1::from_vec(py, items), PyArray1::from_vec(py, workers)))
    }

    /// Weights of all lists, or None.
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Option<Column<'py, f64>>> {
        let weights = self.0.weights().map(copied).transpose()?;
        Ok(weights.map(|weights| PyArray1::from_vec(py, weights)))
    }

    /// Rankings by each worker.
    fn worker_counts<'py>(&self, py: Python<'py>) -> PyResult<Column<'py, u64>> {
        let mut counts: Vec<u64> = zeros(self.0.n_workers())?;
        self.0.workers().iter().for_each(|&worker| counts[worker as usize] += 1);
        Ok(PyArray1::from_vec(py, counts))
    }

    /// The group of items to which each belongs that are ranked with each other.
    fn components<'py>(&self, py: Python<'py>) -> PyResult<Column<'py, u32>> {
        Ok(PyArray1::from_vec(py, work(py, None, |_| self.0.components())?.0))
    }

    /// The lists that are marked, of the same items and workers.
    #[allow(clippy::needless_pass_by_value)]
    fn keep(&self, py: Python<'_>, mask: PyReadonlyArrayDyn<'_, bool>) -> PyResult<Self> {
        let mask = slice("mask", &mask)?;
        work(py, None, |control| self.0.keep(mask, control)).map(Self)
    }

    /// The same lists under other weights.
    #[allow(clippy::needless_pass_by_value)]
    fn counted(&self, py: Python<'_>, weights: Numbers<'_>) -> PyResult<Self> {
        let weights = slice("weights", &weights)?;
        work(py, None, |control| self.0.counted(weights, control)).map(Self)
    }
}

#[pymethods]
impl Rankings {
    /// Scores and slopes of a Plackett–Luce model.
    #[pyo3(signature = (*, slopes, prior, spread=None, errors, by_worker, max_iter, tol, progress=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value, clippy::fn_params_excessive_bools)]
    fn plackett_luce_fit<'py>(
        &self,
        py: Python<'py>,
        slopes: bool,
        prior: f64,
        spread: Option<f64>,
        errors: bool,
        by_worker: bool,
        max_iter: usize,
        tol: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let spread = spread.unwrap_or(f64::NAN);
        let options = LuceOptions { slopes, prior, spread, errors, by_worker, max_iter, tol };
        let fit = work(py, progress.as_ref(), |control| pairwise::plackett_luce_fit(&self.0, &options, control))?;
        let [model, sandwich] = fit.variances;
        let output = Found::new(py)
            .list("scores", fit.scores)?
            .list("slopes", fit.slopes)?
            .list("slope_errors", fit.slope_errors)?
            .list("model", model)?
            .list("sandwich", sandwich)?
            .with("spread", fit.spread)?;
        Ok(output.course(fit.history, fit.n_iter, fit.converged)?.dict())
    }
}
