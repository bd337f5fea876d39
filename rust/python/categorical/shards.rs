//! Parts of a log as they lie in files, as a frozen Python class.

use std::path::PathBuf;

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::base::memory::{collected, copied};
use crate::categorical::shards::Shard as CoreShard;
use crate::python::table::Table;
use crate::python::{slice, work};

/// Whole tasks of a log, as they lie in a file; immutable. What takes a table for a pass of EM takes a shard too.
///
/// Made of the bytes of a file; `read` reads one. Without `check` only checksums are looked at, which is enough for what
/// was checked before.
#[pyclass(frozen, module = "manyhands._core")]
pub struct Shard(pub CoreShard);

#[pymethods]
impl Shard {
    #[new]
    #[pyo3(signature = (data, *, check=true))]
    #[allow(clippy::needless_pass_by_value)]
    fn new(py: Python<'_>, data: PyReadonlyArrayDyn<'_, u8>, check: bool) -> PyResult<Self> {
        let data = slice("data", &data)?;
        work(py, None, |_| CoreShard::from_bytes(data, check)).map(Self)
    }

    #[staticmethod]
    #[pyo3(signature = (path, *, check=true))]
    #[allow(clippy::needless_pass_by_value)]
    fn read(py: Python<'_>, path: PathBuf, check: bool) -> PyResult<Self> {
        work(py, None, |_| CoreShard::read(&path, check)).map(Self)
    }

    /// The annotations of a table, whose workers are the whole crowd.
    #[staticmethod]
    fn of(py: Python<'_>, table: &Table) -> PyResult<Self> {
        work(py, None, |_| CoreShard::of(&table.0)).map(Self)
    }

    #[getter]
    fn n_tasks(&self) -> usize {
        self.0.n_tasks()
    }
    #[getter]
    fn n_annotations(&self) -> usize {
        self.0.len()
    }
    #[getter]
    fn n_workers(&self) -> usize {
        self.0.n_workers()
    }
    #[getter]
    fn crowd(&self) -> usize {
        self.0.crowd()
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
    fn checksum(&self) -> u32 {
        self.0.checksum()
    }
    #[getter]
    fn n_bytes(&self) -> usize {
        self.0.bytes().len()
    }
    #[getter]
    fn weighted(&self) -> bool {
        self.0.rows().weights.is_some()
    }

    /// The bytes of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.bytes())
    }

    /// Where its workers stand in the crowd.
    fn who<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let everybody = || collected((0..self.0.n_workers()).map(|worker| worker as u32));
        Ok(PyArray1::from_vec(py, self.0.who().map_or_else(everybody, copied)?))
    }

    /// The table of its annotations, with codes of its own for workers: their places among `who`.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        work(py, None, |_| self.0.table()).map(Table)
    }

    /// The same annotations without abstentions, of the same tasks and workers.
    fn without_abstentions(&self, py: Python<'_>) -> PyResult<Self> {
        work(py, None, |_| self.0.without_abstentions()).map(Self)
    }
}
