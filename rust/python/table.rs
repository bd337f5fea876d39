//! The annotation table as a frozen Python class.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::{choose, slice, work};
use crate::memory::copied;
use crate::table::{Repeats, Rows, Table as CoreTable};

/// Columns of task, worker and label codes.
type Columns<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u16>>);

/// Annotations as codes, in task order; immutable.
#[pyclass(frozen, module = "manyhands._core")]
pub struct Table(pub CoreTable);

impl Table {
    /// The shape of a number for each task and class.
    pub fn rows(&self) -> [usize; 2] {
        [self.0.n_tasks(), self.0.n_classes()]
    }

    /// The shape of a confusion matrix, (true × observed), for each worker.
    pub fn blocks(&self) -> [usize; 3] {
        [self.0.n_workers(), self.0.n_classes(), self.0.n_labels()]
    }
}

#[pymethods]
impl Table {
    #[new]
    #[pyo3(signature = (tasks, workers, labels, weights, n_tasks, n_workers, n_labels, repeats="keep",
                        n_classes=None))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        tasks: PyReadonlyArrayDyn<'_, u32>,
        workers: PyReadonlyArrayDyn<'_, u32>,
        labels: PyReadonlyArrayDyn<'_, u16>,
        weights: Option<PyReadonlyArrayDyn<'_, f64>>,
        n_tasks: usize,
        n_workers: usize,
        n_labels: usize,
        repeats: &str,
        n_classes: Option<usize>,
    ) -> PyResult<Self> {
        let repeats =
            choose("repeats", repeats, &[("keep", Repeats::Keep), ("first", Repeats::First), ("last", Repeats::Last)])?;
        let rows = Rows {
            tasks: slice("tasks", &tasks)?,
            workers: slice("workers", &workers)?,
            labels: slice("labels", &labels)?,
            weights: weights.as_ref().map(|w| slice("weights", w)).transpose()?,
            n_tasks,
            n_workers,
            n_labels,
        };
        work(py, None, |control| CoreTable::new(&rows, repeats, control)?.with_classes(n_classes.unwrap_or(n_labels)))
            .map(Self)
    }

    #[getter]
    fn n_tasks(&self) -> usize {
        self.0.n_tasks()
    }
    #[getter]
    fn n_workers(&self) -> usize {
        self.0.n_workers()
    }
    #[getter]
    fn n_labels(&self) -> usize {
        self.0.n_labels()
    }
    #[getter]
    fn n_classes(&self) -> usize {
        self.0.n_classes()
    }
    #[getter]
    fn n_annotations(&self) -> usize {
        self.0.len()
    }

    /// Start of each task's rows, and the end of the last.
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        Ok(PyArray1::from_vec(py, copied(self.0.offsets())?))
    }

    /// Task, worker and label codes of all rows.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Columns<'py>> {
        let (tasks, workers, labels) = work(py, None, |_| self.0.columns())?;
        Ok((PyArray1::from_vec(py, tasks), PyArray1::from_vec(py, workers), PyArray1::from_vec(py, labels)))
    }

    /// Weights of all rows, or None.
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray1<f64>>>> {
        let weights = self.0.weights().map(copied).transpose()?;
        Ok(weights.map(|weights| PyArray1::from_vec(py, weights)))
    }

    /// Annotations of each worker.
    fn worker_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        Ok(PyArray1::from_vec(py, work(py, None, |_| self.0.worker_counts())?))
    }

    /// Annotations that give each label.
    fn label_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        Ok(PyArray1::from_vec(py, work(py, None, |_| Ok(self.0.label_counts()))?))
    }

    /// Agreeing and all pairs of annotations that share a task.
    fn agreeing_pairs(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        work(py, None, |_| Ok(self.0.agreeing_pairs()))
    }

    /// Connected components of the graph between workers and tasks.
    fn n_components(&self, py: Python<'_>) -> PyResult<usize> {
        work(py, None, |_| self.0.n_components())
    }

    /// Annotations of each group of workers that shares no task with the others.
    fn group_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        Ok(PyArray1::from_vec(py, work(py, None, |_| self.0.group_counts())?))
    }

    /// Annotations that repeat an earlier (task, worker).
    fn n_repeats(&self, py: Python<'_>) -> PyResult<usize> {
        work(py, None, |_| Ok(self.0.n_repeats()))
    }

    /// The first (task, worker) that occurs more than once, or None.
    fn first_repeat(&self, py: Python<'_>) -> PyResult<Option<(usize, usize)>> {
        work(py, None, |_| Ok(self.0.first_repeat()))
    }
}
