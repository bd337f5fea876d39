//! Encoding of id columns.

use numpy::{PyArray1, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::Error;
use crate::base::csv::{self, Block};
use crate::base::encode::{self, Strings};
use crate::python::{slice, work};

type Codes<'py, T> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<T>>);

/// Codes of 64-bit integers in sorted order, and the distinct values.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn encode_integers<'py>(py: Python<'py>, values: PyReadonlyArrayDyn<'py, i64>) -> PyResult<Codes<'py, i64>> {
    let values = slice("values", &values)?;
    let encoded = work(py, None, |control| encode::integers(values, control))?;
    Ok((PyArray1::from_vec(py, encoded.codes), PyArray1::from_vec(py, encoded.names)))
}

/// Codes of Arrow text in byte order, and for each code a row that holds its text.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn encode_strings<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, i64>,
    data: PyReadonlyArrayDyn<'py, u8>,
) -> PyResult<Codes<'py, u64>> {
    let (offsets, data) = (slice("offsets", &offsets)?, slice("data", &data)?);
    let encoded = work(py, None, |control| encode::strings(&Strings::new(offsets, data)?, control))?;
    Ok((PyArray1::from_vec(py, encoded.codes), PyArray1::from_vec(py, encoded.names)))
}

/// The integers that Arrow text spells in canonical form, or None if any row is not one.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn canonical_integers<'py>(
    py: Python<'py>,
    offsets: PyReadonlyArrayDyn<'py, i64>,
    data: PyReadonlyArrayDyn<'py, u8>,
) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
    let (offsets, data) = (slice("offsets", &offsets)?, slice("data", &data)?);
    let values = work(py, None, |control| encode::canonical_integers(&Strings::new(offsets, data)?, control))?;
    Ok(values.map(|v| PyArray1::from_vec(py, v)))
}

/// Columns of a CSV file that comes in blocks of bytes.
#[pyclass(module = "manyhands._core")]
pub struct CsvReader(Option<csv::Reader>);

/// Codes of a column, offsets of its distinct texts, and their bytes.
type Column<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<u8>>);

#[pymethods]
impl CsvReader {
    /// A reader of the fields at `wanted`, of `n_fields` per line.
    #[new]
    #[allow(clippy::needless_pass_by_value)]
    fn new(delimiter: u8, n_fields: usize, wanted: Vec<usize>, header: bool) -> PyResult<Self> {
        Ok(Self(Some(csv::Reader::new(delimiter, n_fields, &wanted, header)?)))
    }

    /// Reads the whole rows of a block; returns how many bytes they are, or None if they are not plain.
    #[allow(clippy::needless_pass_by_value)]
    fn read(&mut self, py: Python<'_>, block: PyReadonlyArrayDyn<'_, u8>, last: bool) -> PyResult<Option<usize>> {
        let (reader, block) = (self.reader()?, slice("block", &block)?);
        match work(py, None, |control| reader.read(block, last, control))? {
            Block::Read(n) => Ok(Some(n)),
            Block::NotPlain => Ok(None),
        }
    }

    /// The columns that were wanted; the reader is of no use after that.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Column<'py>>> {
        self.reader()?;
        let Some(reader) = self.0.take() else { return Ok(vec![]) };
        let columns = work(py, None, |control| reader.finish(control))?;
        let array = |column: csv::TextColumn| {
            let (codes, offsets) = (PyArray1::from_vec(py, column.codes), PyArray1::from_vec(py, column.offsets));
            (codes, offsets, PyArray1::from_vec(py, column.data))
        };
        Ok(columns.into_iter().map(array).collect())
    }
}

impl CsvReader {
    fn reader(&mut self) -> PyResult<&mut csv::Reader> {
        self.0.as_mut().ok_or_else(|| Error::invalid("the reader has finished").into())
    }
}
