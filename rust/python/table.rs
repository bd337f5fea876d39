//! The tables as frozen Python classes.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::{array, choose, shape, slice, work};
use crate::base::links::{Log, Repeats};
use crate::base::memory::copied;
use crate::categorical::em::{Shape, Sizes};
use crate::categorical::table::{Rows, Table as CoreTable};
use crate::numeric::table::Ratings as CoreRatings;

/// Columns of task, worker and label codes.
type Columns<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u16>>);

/// Columns of task and worker codes, and rows of values.
type ValueColumns<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray2<f64>>);

/// What to do with repeats, by its name.
pub(super) fn repeats_of(name: &str) -> PyResult<Repeats> {
    choose("repeats", name, &[("keep", Repeats::Keep), ("first", Repeats::First), ("last", Repeats::Last)])
}

/// The methods of a class of tables: its own, and those of the links that are in all of them.
macro_rules! table_methods {
    ($class:ident { $($own:tt)* }) => {
        #[pymethods]
        impl $class {
            $($own)*

            #[getter]
            fn n_tasks(&self) -> usize {
                self.0.n_tasks()
            }
            #[getter]
            fn n_workers(&self) -> usize {
                self.0.n_workers()
            }
            #[getter]
            fn n_annotations(&self) -> usize {
                self.0.len()
            }

            /// Start of each task's rows, and the end of the last.
            fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
                Ok(PyArray1::from_vec(py, copied(self.0.offsets())?))
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

            /// Connected components of the graph between workers and tasks.
            fn n_components(&self, py: Python<'_>) -> PyResult<usize> {
                work(py, None, |_| self.0.n_components())
            }

            /// The first worker of the group of each, whose workers share no task with others.
            fn worker_groups<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
                Ok(PyArray1::from_vec(py, work(py, None, |_| self.0.worker_groups())?))
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

            /// The rows that are marked, of the same tasks and workers.
            #[allow(clippy::needless_pass_by_value)]
            fn keep(&self, py: Python<'_>, mask: PyReadonlyArrayDyn<'_, bool>) -> PyResult<Self> {
                let mask = slice("mask", &mask)?;
                work(py, None, |_| self.0.keep(mask)).map(Self)
            }

            /// The same rows without the tasks and workers that have none.
            fn compacted(&self, py: Python<'_>) -> PyResult<Self> {
                work(py, None, |_| self.0.compacted()).map(Self)
            }
        }
    };
}
pub(super) use table_methods;

/// Annotations as codes, in task order; immutable.
#[pyclass(frozen, module = "manyhands._core")]
pub struct Table(pub CoreTable);

impl Table {
    /// How many workers there are, and numbers of classes and labels.
    pub fn sizes(&self) -> Sizes {
        let shape = Shape { classes: self.0.n_classes(), labels: self.0.n_labels() };
        Sizes { n_workers: self.0.n_workers(), shape }
    }

    /// The shape of a number for each task and class.
    pub fn rows(&self) -> [usize; 2] {
        [self.0.n_tasks(), self.0.n_classes()]
    }

    /// The shape of a confusion matrix, (true × observed), for each worker.
    pub fn blocks(&self) -> [usize; 3] {
        [self.0.n_workers(), self.0.n_classes(), self.0.n_labels()]
    }
}

table_methods!(Table {
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
        let repeats = repeats_of(repeats)?;
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
    fn n_labels(&self) -> usize {
        self.0.n_labels()
    }
    #[getter]
    fn n_classes(&self) -> usize {
        self.0.n_classes()
    }

    /// Task, worker and label codes of all rows.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Columns<'py>> {
        let (tasks, workers, labels) = work(py, None, |_| self.0.columns())?;
        Ok((PyArray1::from_vec(py, tasks), PyArray1::from_vec(py, workers), PyArray1::from_vec(py, labels)))
    }

    /// Annotations that give each label.
    fn label_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        Ok(PyArray1::from_vec(py, work(py, None, |_| Ok(self.0.label_counts()))?))
    }

    /// Agreeing and all pairs of annotations that share a task.
    fn agreeing_pairs(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        work(py, None, |_| Ok(self.0.agreeing_pairs()))
    }

    /// The same annotations under other codes of their labels.
    #[allow(clippy::needless_pass_by_value)]
    fn recoded(
        &self,
        py: Python<'_>,
        codes: PyReadonlyArrayDyn<'_, u16>,
        n_labels: usize,
        n_classes: usize,
    ) -> PyResult<Self> {
        let codes = slice("codes", &codes)?;
        work(py, None, |control| self.0.recoded(codes, n_labels, n_classes, control)).map(Self)
    }
});

/// Numbers that workers gave to tasks, in task order; immutable.
#[pyclass(frozen, module = "manyhands._core")]
pub struct Ratings(pub CoreRatings);

table_methods!(Ratings {
    #[new]
    #[pyo3(signature = (tasks, workers, values, weights, n_tasks, n_workers, repeats="keep"))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        tasks: PyReadonlyArrayDyn<'_, u32>,
        workers: PyReadonlyArrayDyn<'_, u32>,
        values: PyReadonlyArrayDyn<'_, f64>,
        weights: Option<PyReadonlyArrayDyn<'_, f64>>,
        n_tasks: usize,
        n_workers: usize,
        repeats: &str,
    ) -> PyResult<Self> {
        let (repeats, [_, dims]) = (repeats_of(repeats)?, shape("values", &values, [None, None])?);
        let log = Log {
            tasks: slice("tasks", &tasks)?,
            workers: slice("workers", &workers)?,
            weights: weights.as_ref().map(|w| slice("weights", w)).transpose()?,
            n_tasks,
            n_workers,
        };
        let values = slice("values", &values)?;
        work(py, None, |control| CoreRatings::new(&log, values, dims, repeats, control)).map(Self)
    }

    #[getter]
    fn dims(&self) -> usize {
        self.0.dims()
    }

    /// Task and worker codes of all rows, and their values.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<ValueColumns<'py>> {
        let columns = |_: &_| Ok((self.0.tasks()?, copied(self.0.workers())?, copied(self.0.values())?));
        let (tasks, workers, values) = work(py, None, columns)?;
        let values = array(py, [self.0.len(), self.0.dims()], values)?;
        Ok((PyArray1::from_vec(py, tasks), PyArray1::from_vec(py, workers), values))
    }
});
