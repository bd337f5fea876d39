//! Workloads: projections and assignments.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{array, choose, shape, slice, work};
use crate::Error;
use crate::base::control::Control;
use crate::defer::{self, Bounds, Capacities, Evaluate, Found, Method, Rows, Sums};

type Floats<'py> = PyReadonlyArrayDyn<'py, f64>;

/// Weight, logarithms, shares and second moments of tilted rows.
type Parts<'py> = (f64, f64, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray2<f64>>);

/// The option of each case, and the offset of each option.
type Assigned<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<f64>>);

const METHODS: [(&str, Method); 2] = [("newton", Method::Newton), ("gradient", Method::Gradient)];

/// Checks rows of probabilities and runs `job` on them.
fn with_rows<'py, T: Send>(
    py: Python<'py>,
    values: &Floats<'py>,
    weights: Option<&Floats<'py>>,
    first: usize,
    progress: Option<&Py<PyAny>>,
    job: impl FnOnce(&Rows, &Control) -> crate::Result<T> + Send,
) -> PyResult<T> {
    let [_, options] = shape("probabilities", values, [None, None])?;
    let values = slice("probabilities", values)?;
    let weights = weights.map(|weights| slice("weights", weights)).transpose()?;
    work(py, progress, |control| job(&Rows::new(values, options, weights, first, control)?, control))
}

/// Projects rows of probabilities (rows × options) onto bounds for their mean.
#[pyfunction]
#[pyo3(signature = (probabilities, lower, upper, *, weights=None, method="newton", progress=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn projection_fit<'py>(
    py: Python<'py>,
    probabilities: Floats<'py>,
    lower: Floats<'py>,
    upper: Floats<'py>,
    weights: Option<Floats<'py>>,
    method: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let [n, options] = shape("probabilities", &probabilities, [None, None])?;
    let (bounds, method) = (checked(&lower, &upper)?, choose("method", method, &METHODS)?);
    let job = |rows: &Rows, control: &Control| defer::project(rows, &bounds, method, control);
    let solution = with_rows(py, &probabilities, weights.as_ref(), 0, progress.as_ref(), job)?;
    let result = dictionary(py, solution.found)?;
    result.set_item("probabilities", array(py, [n, options], solution.values)?)?;
    Ok(result)
}

/// Finds the tilt of rows that are only known through two functions of Python: `sums(tilt, second)` and `reach(order)`.
#[pyfunction]
#[pyo3(signature = (lower, upper, sums, reach, *, method="newton"))]
#[allow(clippy::needless_pass_by_value)]
pub fn projection_solve<'py>(
    py: Python<'py>,
    lower: Floats<'py>,
    upper: Floats<'py>,
    sums: Bound<'py, PyAny>,
    reach: Bound<'py, PyAny>,
    method: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let (bounds, method) = (checked(&lower, &upper)?, choose("method", method, &METHODS)?);
    let mut rows = Called { sums, reach, raised: None };
    let result = defer::solve(&bounds, &bounds.start(), method, &mut rows);
    match (rows.raised, result) {
        (Some(error), _) => Err(error),
        (None, found) => dictionary(py, found?),
    }
}

/// Rows behind functions of Python; what these raise is kept while the search stops.
struct Called<'py> {
    sums: Bound<'py, PyAny>,
    reach: Bound<'py, PyAny>,
    raised: Option<PyErr>,
}

impl Called<'_> {
    fn keep<T>(&mut self, found: PyResult<T>) -> crate::Result<T> {
        found.map_err(|error| {
            self.raised = Some(error);
            Error::Cancelled
        })
    }
}

impl Evaluate for Called<'_> {
    fn sums(&mut self, tilt: &[f64], second: bool) -> crate::Result<Sums> {
        let call = || {
            let answer = self.sums.call1((PyArray1::from_slice(self.sums.py(), tilt), second))?;
            let (weight, log, shares, second): (f64, f64, Floats<'_>, Floats<'_>) = answer.extract()?;
            Ok(Sums {
                weight,
                log,
                shares: slice("shares", &shares)?.to_vec(),
                second: slice("second", &second)?.to_vec(),
            })
        };
        let result = call();
        self.keep(result)
    }

    fn reach(&mut self, order: &[u32]) -> crate::Result<Vec<f64>> {
        let call = || {
            let answer = self.reach.call1((PyArray1::from_slice(self.reach.py(), order),))?;
            let weights: Floats<'_> = answer.extract()?;
            Ok(slice("reach", &weights)?.to_vec())
        };
        let result = call();
        self.keep(result)
    }
}

/// Weight, sum of logarithms, sum and second moments of rows tilted by `exp(tilt)`; `first` is the number of the first.
#[pyfunction]
#[pyo3(signature = (probabilities, tilt, *, weights=None, second=false, first=0))]
#[allow(clippy::needless_pass_by_value)]
pub fn projection_sums<'py>(
    py: Python<'py>,
    probabilities: Floats<'py>,
    tilt: Floats<'py>,
    weights: Option<Floats<'py>>,
    second: bool,
    first: usize,
) -> PyResult<Parts<'py>> {
    let tilt = slice("tilt", &tilt)?;
    let job = |rows: &Rows, control: &Control| defer::sums(rows, tilt, second, control);
    let sums = with_rows(py, &probabilities, weights.as_ref(), first, None, job)?;
    let k = if second { tilt.len() } else { 0 };
    Ok((sums.weight, sums.log, PyArray1::from_vec(py, sums.shares), array(py, [k, k], sums.second)?))
}

/// Weight of the rows whose first option with a positive probability, in the order given, is the one at each place.
#[pyfunction]
#[pyo3(signature = (probabilities, order, *, weights=None))]
#[allow(clippy::needless_pass_by_value)]
pub fn projection_reach<'py>(
    py: Python<'py>,
    probabilities: Floats<'py>,
    order: PyReadonlyArrayDyn<'py, u32>,
    weights: Option<Floats<'py>>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let order = slice("order", &order)?;
    let job = |rows: &Rows, control: &Control| defer::reach(rows, order, control);
    let reached = with_rows(py, &probabilities, weights.as_ref(), 0, None, job)?;
    Ok(PyArray1::from_vec(py, reached))
}

/// Rows of probabilities tilted by `exp(tilt)`.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn projection_apply<'py>(
    py: Python<'py>,
    probabilities: Floats<'py>,
    tilt: Floats<'py>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let expected = shape("probabilities", &probabilities, [None, None])?;
    let tilt = slice("tilt", &tilt)?;
    let job = |rows: &Rows, control: &Control| defer::apply(rows, tilt, control);
    array(py, expected, with_rows(py, &probabilities, None, 0, None, job)?)
}

/// Assigns cases (rows × options) to options within capacities: the options, and offsets that make them the best.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)]
pub fn assign<'py>(
    py: Python<'py>,
    scores: Floats<'py>,
    lower: PyReadonlyArrayDyn<'py, u64>,
    upper: PyReadonlyArrayDyn<'py, u64>,
) -> PyResult<Assigned<'py>> {
    let [n, options] = shape("scores", &scores, [None, None])?;
    let capacities = Capacities::new(slice("lower", &lower)?, slice("upper", &upper)?, n)?;
    let scores = slice("scores", &scores)?;
    let result = work(py, None, |control| defer::assign(scores, options, &capacities, control))?;
    Ok((PyArray1::from_vec(py, result.option), PyArray1::from_vec(py, result.offsets)))
}

fn checked(lower: &Floats<'_>, upper: &Floats<'_>) -> PyResult<Bounds> {
    Ok(Bounds::new(slice("lower", lower)?, slice("upper", upper)?)?)
}

fn dictionary(py: Python<'_>, found: Found) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    let method = METHODS.iter().find(|(_, method)| *method == found.method).map(|(name, _)| *name);
    result.set_item("converged", found.converged())?;
    result.set_item("tilt", PyArray1::from_vec(py, found.tilt))?;
    result.set_item("shares", PyArray1::from_vec(py, found.shares))?;
    result.set_item("kl", found.kl)?;
    result.set_item("residual", found.residual)?;
    result.set_item("n_iter", found.n_iter)?;
    result.set_item("method", method)?;
    Ok(result)
}
