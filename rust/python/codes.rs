//! The table of codes as a frozen Python class.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::table::{repeats_of, table_methods};
use super::{slice, work};
use crate::base::codes::CodeTable as CoreCodeTable;
use crate::base::links::Log;
use crate::base::memory::copied;

/// Columns of task and worker codes, and of codes of answers.
type Columns<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>);

/// Answers as codes, in task order; immutable.
#[pyclass(frozen, module = "manyhands._core")]
pub struct CodeTable(pub CoreCodeTable);

table_methods!(CodeTable {
    #[new]
    #[pyo3(signature = (tasks, workers, codes, weights, n_tasks, n_workers, n_codes, repeats="keep"))]
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    fn new(
        py: Python<'_>,
        tasks: PyReadonlyArrayDyn<'_, u32>,
        workers: PyReadonlyArrayDyn<'_, u32>,
        codes: PyReadonlyArrayDyn<'_, u32>,
        weights: Option<PyReadonlyArrayDyn<'_, f64>>,
        n_tasks: usize,
        n_workers: usize,
        n_codes: usize,
        repeats: &str,
    ) -> PyResult<Self> {
        let (repeats, codes) = (repeats_of(repeats)?, slice("codes", &codes)?);
        let log = Log {
            tasks: slice("tasks", &tasks)?,
            workers: slice("workers", &workers)?,
            weights: weights.as_ref().map(|w| slice("weights", w)).transpose()?,
            n_tasks,
            n_workers,
        };
        work(py, None, |control| CoreCodeTable::new(&log, codes, n_codes, repeats, control)).map(Self)
    }

    #[getter]
    fn n_codes(&self) -> usize {
        self.0.n_codes()
    }

    /// Task and worker codes of all rows, and the codes of their answers.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Columns<'py>> {
        let columns = |_: &_| Ok((self.0.tasks()?, copied(self.0.workers())?, copied(self.0.codes())?));
        let (tasks, workers, codes) = work(py, None, columns)?;
        Ok((PyArray1::from_vec(py, tasks), PyArray1::from_vec(py, workers), PyArray1::from_vec(py, codes)))
    }
});
