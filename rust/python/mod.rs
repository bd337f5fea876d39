//! Everything that touches Python: conversion, errors, the interpreter lock, Ctrl-C and progress.
//!
//! Only tables, numbers and contiguous arrays of a fixed dtype come in; only freshly owned arrays go out. Every call
//! that does work goes through [`work`].

mod agreement;
mod audit;
mod base;
mod boxes;
mod categorical;
mod clustering;
mod codes;
mod defer;
mod learn;
mod masks;
mod moments;
mod multilabel;
mod numeric;
mod objects;
mod pairwise;
mod sequences;
mod table;
mod texts;

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use numpy::ndarray::{Array, IntoDimension};
use numpy::{Element, PyArray, PyArray1, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::Error;
use crate::base::control::Control;
use crate::base::threads;
use crate::categorical::em::{Fit, Sizes, Solution};

/// How often the waiting thread looks for Ctrl-C and reports progress.
const TICK: Duration = Duration::from_millis(50);

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(message) => PyValueError::new_err(message),
            Error::OutOfMemory(_) => PyMemoryError::new_err(error.to_string()),
            Error::File(message) => PyOSError::new_err(message),
            Error::Cancelled => PyKeyboardInterrupt::new_err("interrupted"),
        }
    }
}

/// Runs `job` on a pool while this thread, detached from the interpreter, waits for it.
///
/// Every tick it re-attaches to look for Ctrl-C and to call `progress(step, objective)`; an exception from either
/// cancels the job and is raised once the job has stopped. The last step is reported too, however short the job was. A
/// panic in the job becomes a `RuntimeError`.
fn work<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    job: impl FnOnce(&Control) -> crate::Result<T> + Send,
) -> PyResult<T> {
    let no_questions = &mut |_: Python<'_>, question: Infallible| match question {};
    work_asking(py, progress, no_questions, |control, _: &Line<Infallible, Infallible>| job(control))
}

/// Rows that a pass is through with sooner than another thread would begin.
const FEW_ROWS: usize = 1 << 13;

/// The same for one pass over this many rows, which stays on this thread where they are few: handing a job over and
/// waiting for it takes longer, and most of all where a loop of short passes runs next to other work. The job must not
/// call for a pool.
fn pass<T: Send>(py: Python<'_>, n_rows: usize, job: impl FnOnce(&Control) -> crate::Result<T> + Send) -> PyResult<T> {
    if n_rows > FEW_ROWS {
        return work(py, None, job);
    }
    py.check_signals()?;
    match catch_unwind(AssertUnwindSafe(|| job(&Control::default()))) {
        Ok(result) => Ok(result?),
        Err(panic) => Err(bug(&*panic)),
    }
}

/// The same for a job that has questions to Python on the way: `answer` is called by this thread, attached, while the
/// job waits. What it raises is treated like Ctrl-C.
fn work_asking<T: Send, Q: Send, A: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    answer: &mut (dyn FnMut(Python<'_>, Q) -> PyResult<A> + Send),
    job: impl FnOnce(&Control, &Line<Q, A>) -> crate::Result<T> + Send,
) -> PyResult<T> {
    let pool = threads::lease()?;
    let control = Control::default();
    py.detach(|| {
        let mut outcome = None;
        let waited = pool.in_place_scope(|scope| {
            let ((asks, questions), (replies, answers)) = (channel(), channel());
            let (outcome, control) = (&mut outcome, &control);
            // The job runs on the pool while this closure, on the calling thread, waits for it.
            scope.spawn(move |_| {
                let line = Line { asks, answers };
                *outcome = Some(catch_unwind(AssertUnwindSafe(|| job(control, &line))));
            });
            wait(&questions, &replies, answer, progress, control)
        });
        let reported = waited?;
        match outcome {
            Some(Ok(result)) => {
                let result = result?;
                if control.progress().0 > reported {
                    Python::attach(|py| tick(py, progress, &control))?;
                }
                Ok(result)
            }
            Some(Err(panic)) => Err(bug(&*panic)),
            None => Err(bug(&"the job ended without a result")),
        }
    })
}

/// How a job asks, and is answered.
struct Line<Q, A> {
    asks: Sender<Q>,
    /// Nothing where the question raised an exception.
    answers: Receiver<Option<A>>,
}

impl<Q, A> Line<Q, A> {
    fn ask(&self, question: Q) -> crate::Result<A> {
        self.asks.send(question).map_err(|_| Error::Cancelled)?;
        self.answers.recv().ok().flatten().ok_or(Error::Cancelled)
    }
}

/// Answers questions and looks around every tick, until the job has ended; returns the last step that was reported.
fn wait<Q, A>(
    questions: &Receiver<Q>,
    replies: &Sender<Option<A>>,
    answer: &mut (dyn FnMut(Python<'_>, Q) -> PyResult<A> + Send),
    progress: Option<&Py<PyAny>>,
    control: &Control,
) -> PyResult<u64> {
    let mut last = Ok(0);
    let mut looked = Instant::now();
    loop {
        match questions.recv_timeout(TICK) {
            Err(RecvTimeoutError::Disconnected) => return last,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(question) => {
                let answered = last.is_ok().then(|| Python::attach(|py| answer(py, question)));
                let reply = match answered {
                    Some(Ok(reply)) => Some(reply),
                    Some(Err(error)) => {
                        last = Err(error);
                        None
                    }
                    None => None,
                };
                // The receiver stays open before the job ends.
                let _ = replies.send(reply);
                if last.is_ok() && looked.elapsed() < TICK {
                    continue;
                }
            }
        }
        if last.is_ok() {
            last = Python::attach(|py| tick(py, progress, control));
            looked = Instant::now();
        }
        if last.is_err() {
            control.cancel();
        }
    }
}

/// Looks for Ctrl-C and reports progress; returns the step that was reported.
fn tick(py: Python<'_>, progress: Option<&Py<PyAny>>, control: &Control) -> PyResult<u64> {
    py.check_signals()?;
    let now = control.progress();
    if let Some(callback) = progress {
        callback.call1(py, now)?;
    }
    Ok(now.0)
}

fn bug(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    PyRuntimeError::new_err(format!("internal error in manyhands, please report it: {text}"))
}

/// The numbers of a contiguous array, whatever its shape.
fn slice<'a, T: Element>(name: &str, array: &'a PyReadonlyArrayDyn<'_, T>) -> PyResult<&'a [T]> {
    // `as_slice` alone would take an array in Fortran order too, and read it in the wrong one.
    let in_order = array.is_c_contiguous().then(|| array.as_slice().ok()).flatten();
    in_order.ok_or_else(|| PyTypeError::new_err(format!("{name} must be a C-contiguous array")))
}

/// The numbers of a contiguous array of this many, to be changed where they are.
fn writable<'a, T: Element>(
    name: &str,
    array: &'a mut PyReadwriteArrayDyn<'_, T>,
    len: usize,
) -> PyResult<&'a mut [T]> {
    if !array.is_c_contiguous() || array.len() != len {
        return Err(PyValueError::new_err(format!("{name} must be a C-contiguous array of {len} numbers")));
    }
    array.as_slice_mut().map_err(|error| PyTypeError::new_err(format!("{name}: {error}")))
}

/// The shape of an array, or an error unless it is of this many dimensions and has the lengths that are given.
fn shape<const N: usize, T: Element>(
    name: &str,
    array: &PyReadonlyArrayDyn<'_, T>,
    wanted: [Option<usize>; N],
) -> PyResult<[usize; N]> {
    let got: Option<[usize; N]> = array.shape().try_into().ok();
    got.filter(|got| got.iter().zip(wanted).all(|(n, wanted)| wanted.is_none_or(|w| w == *n))).ok_or_else(|| {
        let sizes: Vec<String> = wanted.iter().map(|n| n.map_or("any".to_owned(), |n| n.to_string())).collect();
        let expected = sizes.join(", ");
        PyValueError::new_err(format!("{name} must be of shape ({expected}), not {:?}", array.shape()))
    })
}

/// Numbers as an array of the shape given.
fn array<T: Element, D: IntoDimension>(
    py: Python<'_>,
    shape: D,
    values: Vec<T>,
) -> PyResult<Bound<'_, PyArray<T, D::Dim>>> {
    let array = Array::from_shape_vec(shape.into_dimension(), values);
    Ok(PyArray::from_owned_array(py, array.map_err(|error| PyValueError::new_err(error.to_string()))?))
}

/// What a kernel found, on its way to a dictionary.
struct Found<'py>(Bound<'py, PyDict>);

impl<'py> Found<'py> {
    fn new(py: Python<'py>) -> Self {
        Self(PyDict::new(py))
    }

    /// With whatever Python takes as it is.
    fn with(self, name: &str, value: impl IntoPyObject<'py>) -> PyResult<Self> {
        self.0.set_item(name, value)?;
        Ok(self)
    }

    /// With an array of one dimension.
    fn list<T: Element>(self, name: &str, values: Vec<T>) -> PyResult<Self> {
        let values = PyArray1::from_vec(self.0.py(), values);
        self.with(name, values)
    }

    /// With an array of the shape given.
    fn array<T: Element, D: IntoDimension>(self, name: &str, shape: D, values: Vec<T>) -> PyResult<Self> {
        let values = array(self.0.py(), shape, values)?;
        self.with(name, values)
    }

    /// With how an iteration went.
    fn course(self, history: Vec<f64>, n_iter: usize, converged: bool) -> PyResult<Self> {
        self.list("history", history)?.with("n_iter", n_iter)?.with("converged", converged)
    }

    /// What every fit of Dawid–Skene has.
    fn fit(py: Python<'py>, table: &table::Table, fit: Fit) -> PyResult<Self> {
        let output = Self::new(py)
            .array("posterior", table.rows(), fit.posterior)?
            .array("confusion", table.blocks(), fit.confusion)?
            .list("prior", fit.prior)?;
        output.course(fit.history, fit.n_iter, fit.converged)
    }

    /// What every loop of Dawid–Skene has that knows no table.
    fn solution(py: Python<'py>, sizes: Sizes, solution: Solution) -> PyResult<Self> {
        let Sizes { n_workers, shape } = sizes;
        let output = Self::new(py)
            .array("confusion", [n_workers, shape.classes, shape.labels], solution.confusion)?
            .list("prior", solution.prior)?;
        output.course(solution.course.history, solution.course.n_iter, solution.course.converged)
    }

    fn dict(self) -> Bound<'py, PyDict> {
        self.0
    }
}

/// A name out of a fixed set, or an error that lists the set.
fn choose<T: Copy>(name: &str, given: &str, choices: &[(&str, T)]) -> PyResult<T> {
    choices.iter().find(|(text, _)| *text == given).map(|(_, value)| *value).ok_or_else(|| {
        let allowed: Vec<&str> = choices.iter().map(|(text, _)| *text).collect();
        PyValueError::new_err(format!("{name} must be one of {}, not '{given}'", allowed.join(", ")))
    })
}

/// Sets the number of threads of all later calls.
#[pyfunction]
fn set_num_threads(n_threads: i64) -> PyResult<()> {
    // A negative number is as wrong as none, and reported in the same words.
    Ok(threads::set_num_threads(usize::try_from(n_threads).unwrap_or(0))?)
}

/// The number of threads in use.
#[pyfunction]
fn get_num_threads() -> PyResult<usize> {
    Ok(threads::num_threads()?)
}

/// The compiled core of manyhands. Private: use the package.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::agreement::agreement_by_coincidences;
    #[pymodule_export]
    use super::audit::capacity::channel_capacity;
    #[pymodule_export]
    use super::audit::{low_rank_fit, low_rank_residuals};
    #[pymodule_export]
    use super::base::encode::{CsvReader, canonical_integers, encode_integers, encode_strings};
    #[pymodule_export]
    use super::base::num::winners;
    #[pymodule_export]
    use super::base::special::beta_quantile;
    #[pymodule_export]
    use super::boxes::{match_boxes, nearest_points};
    #[pymodule_export]
    use super::categorical::consensus::pool_posteriors;
    #[pymodule_export]
    use super::categorical::dependence::correlation_sample;
    #[pymodule_export]
    use super::categorical::em::bayes::bayes_fit;
    #[pymodule_export]
    use super::categorical::em::em_fit;
    #[pymodule_export]
    use super::categorical::em::hierarchy::{crowd_prior, dirichlet_step, hierarchy_fit};
    #[pymodule_export]
    use super::categorical::em::passes::em_factors;
    #[pymodule_export]
    use super::categorical::linked::linked_beliefs;
    #[pymodule_export]
    use super::categorical::shards::Shard;
    #[pymodule_export]
    use super::categorical::simulate::simulate;
    #[pymodule_export]
    use super::clustering::{cluster_search, cluster_shares};
    #[pymodule_export]
    use super::codes::CodeTable;
    #[pymodule_export]
    use super::defer::{assign, projection_apply, projection_fit, projection_reach, projection_solve, projection_sums};
    #[pymodule_export]
    use super::learn::adam_rows;
    #[pymodule_export]
    use super::masks::{
        coco_counts, coco_lengths, coco_runs, crossing_sides, densest, mask_bytes, mask_columns, mask_pixels,
        mask_runs, mask_vote, polygon_runs, shape_likeness, shape_masks, staple,
    };
    #[pymodule_export]
    use super::moments::components;
    #[pymodule_export]
    use super::moments::factor::{assignment, cpd_fit, nmf_fit, simplex_lstsq, spa};
    #[pymodule_export]
    use super::moments::rank_one::{rank_one_fit, rank_one_graph};
    #[pymodule_export]
    use super::multilabel::{relevance_fit, relevance_posterior};
    #[pymodule_export]
    use super::objects::{scheme_fit, value_distances, word_distances};
    #[pymodule_export]
    use super::pairwise::{Comparisons, Rankings};
    #[pymodule_export]
    use super::sequences::{sequence_decode, sequence_evidence, sequence_fit};
    #[pymodule_export]
    use super::table::{Ratings, Table};
    #[pymodule_export]
    use super::texts::{align_texts, edit_counts};
    #[pymodule_export]
    use super::{get_num_threads, set_num_threads};
}
