//! Passes of EM, one part of the annotations at a time; and loops whose passes Python makes.

use numpy::{PyArray1, PyArray2, PyReadonlyArrayDyn, PyReadwriteArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::base::control::Control;
use crate::base::memory::{copied, with_room};
use crate::base::parallel::each_block;
use crate::categorical::em::{self, Factors, Held, Mode, Model, Opening, Parameters, Passes, Shape, Sizes, Sums};
use crate::python::categorical::shards::Shard;
use crate::python::table::Table;
use crate::python::{Found, Line, array, choose, shape, slice, work, work_asking, writable};
use crate::{Error, Result};

type Floats<'py> = PyReadonlyArrayDyn<'py, f64>;

/// A part of the annotations, and how its workers are numbered.
struct Part<'a> {
    held: Held<'a>,
    /// The place of each worker in the crowd, if the part numbers them in a way of its own.
    who: Option<&'a [u32]>,
    /// Workers of the log, where the part knows how many there are.
    crowd: Option<usize>,
}

impl Table {
    fn part(&self) -> Part<'_> {
        Part { held: Held::Table(&self.0), who: None, crowd: None }
    }
}

impl Shard {
    fn part(&self) -> Part<'_> {
        Part { held: Held::Shard(&self.0), who: self.0.who(), crowd: Some(self.0.crowd()) }
    }
}

/// Where sums are added, and how workers of a part are numbered there.
struct Crowd<'a> {
    /// Numbers of each worker.
    width: usize,
    /// Numbers of all workers.
    len: usize,
    /// The place of each worker of the part, if the part numbers them in a way of its own.
    who: Option<&'a [u32]>,
}

impl<'a> Crowd<'a> {
    fn new(part: &Part<'a>, model: Model, len: usize) -> PyResult<Self> {
        let width = model.n_counts(part.held.sizes().shape);
        let m = len / width;
        if let Some(crowd) = part.crowd.filter(|crowd| crowd * width != len) {
            return Err(Error::invalid(format!("the shard is of a crowd of {crowd} workers, not of {m}")).into());
        }
        if let Some(bad) = part.who.and_then(|who| who.iter().find(|w| **w as usize >= m)) {
            return Err(Error::invalid(format!("the shard names worker {bad} of a crowd of {m}")).into());
        }
        Ok(Self { width, len, who: part.who })
    }

    /// What `counts` and `classes` must be for sums of a part; checked before any work.
    fn of_sums(
        part: &Part<'a>,
        model: Model,
        counts: &mut PyReadwriteArrayDyn<'_, f64>,
        classes: &mut PyReadwriteArrayDyn<'_, f64>,
    ) -> PyResult<Self> {
        let Sizes { n_workers, shape } = part.held.sizes();
        let crowd = part.who.map_or(n_workers, |_| counts.shape().first().copied().unwrap_or(0));
        let len = crowd.saturating_mul(model.n_counts(shape));
        writable("counts", counts, len)?;
        writable("classes", classes, shape.classes)?;
        Self::new(part, model, len)
    }

    /// The factors of the part's workers, if they are not those of all workers in the order given.
    fn rows_of(&self, factors: &[f64]) -> Result<Option<Vec<f64>>> {
        let Some(who) = self.who else { return Ok(None) };
        if factors.len() != self.len {
            return Err(Error::invalid(format!("factors hold {} numbers, not {}", factors.len(), self.len)));
        }
        let mut rows = with_room(who.len() * self.width)?;
        who.iter().for_each(|w| rows.extend_from_slice(&factors[*w as usize * self.width..][..self.width]));
        Ok(Some(rows))
    }

    /// Adds the sums of a part in place; returns its log-evidence.
    fn add(
        &self,
        part: &Sums,
        counts: &mut PyReadwriteArrayDyn<'_, f64>,
        classes: &mut PyReadwriteArrayDyn<'_, f64>,
    ) -> PyResult<f64> {
        let counts = writable("counts", counts, self.len)?;
        match self.who {
            None => plus(counts, &part.workers),
            Some(who) => {
                for (worker, row) in who.iter().zip(part.workers.chunks_exact(self.width)) {
                    plus(&mut counts[*worker as usize * self.width..][..self.width], row);
                }
            }
        }
        plus(writable("classes", classes, part.classes.len())?, &part.classes);
        Ok(part.log_evidence)
    }
}

fn plus(to: &mut [f64], other: &[f64]) {
    to.iter_mut().zip(other).for_each(|(a, b)| *a += b);
}

/// Methods of classes that hold annotations for passes of EM.
macro_rules! part_methods {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            /// Adds the expected counts of a start to `counts` and `classes`: "shares", "majority" or "random"; or of a
            /// `posterior`.
            ///
            /// `first` is the number of its first task among those of all parts. Sums of a part are made apart and then
            /// added.
            #[pyo3(signature = (*, counts, classes, model="full", start="shares", seed=0, first=0, posterior=None, gold=None))]
            #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
            fn em_open(
                &self,
                py: Python<'_>,
                mut counts: PyReadwriteArrayDyn<'_, f64>,
                mut classes: PyReadwriteArrayDyn<'_, f64>,
                model: &str,
                start: &str,
                seed: u64,
                first: usize,
                posterior: Option<Floats<'_>>,
                gold: Option<PyReadonlyArrayDyn<'_, i32>>,
            ) -> PyResult<()> {
                let model = choose("model", model, &Model::NAMES)?;
                let random = Opening::RandomVote { seed, first };
                let openings = [("shares", Opening::Shares), ("majority", Opening::Majority), ("random", random)];
                let posterior_opening = posterior.as_ref().map(|posterior| slice("posterior", posterior).map(Opening::Given));
                let opening = posterior_opening.unwrap_or_else(|| choose("start", start, &openings))?;
                let gold = gold.as_ref().map(|g| slice("gold", g)).transpose()?;
                let part = self.part();
                let crowd = Crowd::of_sums(&part, model, &mut counts, &mut classes)?;
                let sums = work(py, None, |control| em::open(part.held, model, opening, gold, control))?;
                crowd.add(&sums, &mut counts, &mut classes).map(|_| ())
            }

            /// Adds the expected counts under the factors to `counts` and `classes`; returns the log-evidence.
            ///
            /// `factors` and `prior` are what a loop passes on, or `em_factors`.
            #[pyo3(signature = (factors, prior, *, counts, classes, model="full", hard=false, voted_only=false, gold=None))]
            #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
            fn em_gather(
                &self,
                py: Python<'_>,
                factors: Floats<'_>,
                prior: Floats<'_>,
                mut counts: PyReadwriteArrayDyn<'_, f64>,
                mut classes: PyReadwriteArrayDyn<'_, f64>,
                model: &str,
                hard: bool,
                voted_only: bool,
                gold: Option<PyReadonlyArrayDyn<'_, i32>>,
            ) -> PyResult<f64> {
                let model = choose("model", model, &Model::NAMES)?;
                let (factors, prior) = (slice("factors", &factors)?, slice("prior", &prior)?);
                let gold = gold.as_ref().map(|g| slice("gold", g)).transpose()?;
                let part = self.part();
                let crowd = Crowd::of_sums(&part, model, &mut counts, &mut classes)?;
                let mode = Mode { hard, voted_only };
                let sums = work(py, None, |control| {
                    let own = crowd.rows_of(factors)?;
                    let factors = Factors { workers: own.as_deref().unwrap_or(factors), classes: prior };
                    em::gather(part.held, model, factors, mode, gold, control)
                })?;
                crowd.add(&sums, &mut counts, &mut classes)
            }

            /// The answer of each task under the factors: `winner`, `confidence` and whether it is `tied`; the
            /// `log_evidence`; and the `posterior`, where it is asked for.
            #[pyo3(signature = (factors, prior, *, model="full", posterior=false, gold=None))]
            #[allow(clippy::needless_pass_by_value)]
            fn em_answers<'py>(
                &self,
                py: Python<'py>,
                factors: Floats<'py>,
                prior: Floats<'py>,
                model: &str,
                posterior: bool,
                gold: Option<PyReadonlyArrayDyn<'py, i32>>,
            ) -> PyResult<Bound<'py, PyDict>> {
                let model = choose("model", model, &Model::NAMES)?;
                let (factors, prior) = (slice("factors", &factors)?, slice("prior", &prior)?);
                let gold = gold.as_ref().map(|g| slice("gold", g)).transpose()?;
                let part = self.part();
                let crowd = Crowd::new(&part, model, factors.len())?;
                let (answers, rows, log_evidence) = work(py, None, |control| {
                    let own = crowd.rows_of(factors)?;
                    let factors = Factors { workers: own.as_deref().unwrap_or(factors), classes: prior };
                    em::answers(part.held, model, factors, gold, posterior, control)
                })?;
                let output = Found::new(py)
                    .list("winner", answers.winner)?
                    .list("confidence", answers.confidence)?
                    .list("tied", answers.tied)?
                    .with("log_evidence", log_evidence)?;
                Ok(if posterior { output.array("posterior", part.held.n_rows(), rows)? } else { output }.dict())
            }
        }
    };
}

part_methods!(Table);
part_methods!(Shard);

/// What passes read of parameters: factors of the workers, from matrices (workers × true × observed), and of the
/// classes, from a prior (classes) or one for each task.
///
/// Parameters are probabilities (counts will do), or `concentrations`, those of Dirichlet posteriors.
#[pyfunction]
#[pyo3(signature = (confusion, prior, *, model="full", concentrations=false))]
#[allow(clippy::needless_pass_by_value, clippy::type_complexity)]
pub fn em_factors<'py>(
    py: Python<'py>,
    confusion: Floats<'py>,
    prior: Floats<'py>,
    model: &str,
    concentrations: bool,
) -> PyResult<(Bound<'py, PyArray2<f64>>, Bound<'py, PyAny>)> {
    let model = choose("model", model, &Model::NAMES)?;
    let [n_workers, classes, labels] = shape("confusion", &confusion, [None, None, None])?;
    let sizes = checked_sizes(n_workers, classes, labels)?;
    let shape = prior.shape().to_vec();
    if shape.len() > 2 || shape.last() != Some(&classes) {
        return Err(PyValueError::new_err(format!(
            "prior must hold {classes} numbers a row, not be of shape {shape:?}"
        )));
    }
    let parameters = if concentrations { Parameters::Concentrations } else { Parameters::Probabilities };
    let (confusion, prior) = (slice("confusion", &confusion)?, slice("prior", &prior)?);
    let (workers, classes) = work(py, None, |_| em::factors(model, parameters, sizes, prior, confusion))?;
    Ok((array(py, [n_workers, model.n_counts(sizes.shape)], workers)?, array(py, shape, classes)?.into_any()))
}

/// Sizes that a loop can work with.
fn checked_sizes(n_workers: usize, classes: usize, labels: usize) -> PyResult<Sizes> {
    const MOST: usize = 1 << 57;
    let cells = n_workers.checked_mul(classes).and_then(|n| n.checked_mul(labels.max(2)));
    if n_workers == 0 || classes == 0 || labels < classes || labels > 1 << 16 || cells.is_none_or(|n| n > MOST) {
        return Err(PyValueError::new_err(format!(
            "there can be no passes over labels of {n_workers} workers, {classes} classes and {labels} labels"
        )));
    }
    Ok(Sizes { n_workers, shape: Shape { classes, labels } })
}

/// Holder of the annotations of a loop.
pub enum Holder<'a, 'py> {
    /// A table in memory.
    Table(&'a Table),
    /// An object of Python that makes the passes.
    Elsewhere(Elsewhere<'a, 'py>),
}

impl<'a, 'py> Holder<'a, 'py> {
    pub fn new(votes: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(table) = votes.cast::<Table>() {
            return Ok(Self::Table(table.get()));
        }
        let size = |name| votes.getattr(name)?.extract::<usize>();
        let sizes = checked_sizes(size("n_workers")?, size("n_classes")?, size("n_labels")?)?;
        Ok(Self::Elsewhere(Elsewhere { passes: votes, sizes }))
    }
}

/// An object with the methods `open`, `gather` and `conclude`, and the sizes `n_workers`, `n_classes` and `n_labels`.
pub struct Elsewhere<'a, 'py> {
    passes: &'a Bound<'py, PyAny>,
    pub sizes: Sizes,
}

/// What a loop asks for.
struct Question {
    model: Model,
    what: What,
}

enum What {
    Open { start: &'static str, seed: u64 },
    Gather { factors: Vec<f64>, prior: Vec<f64>, mode: Mode },
    Conclude { factors: Vec<f64>, prior: Vec<f64> },
}

impl Elsewhere<'_, '_> {
    /// Runs a loop whose passes this thread makes.
    pub fn work<T: Send>(
        &self,
        py: Python<'_>,
        progress: Option<&Py<PyAny>>,
        gold: Option<&[i32]>,
        job: impl FnOnce(&mut Called<'_>, &Control) -> Result<T> + Send,
    ) -> PyResult<T> {
        if gold.is_some() {
            return Err(PyValueError::new_err("give gold to the passes, which know the tasks, not to the loop"));
        }
        let (passes, sizes) = (self.passes.clone().unbind(), self.sizes);
        let answer = &mut |py: Python<'_>, question: Question| answered(passes.bind(py), sizes, question);
        work_asking(py, progress, answer, |control, line| job(&mut Called { line }, control))
    }
}

/// Calls the method that a question is for.
fn answered(passes: &Bound<'_, PyAny>, sizes: Sizes, Question { model, what }: Question) -> PyResult<Sums> {
    let (py, Sizes { n_workers, shape }) = (passes.py(), sizes);
    let name = Model::NAMES.iter().find(|(_, other)| *other == model).map(|(name, _)| *name);
    let width = model.n_counts(shape);
    let workers = |factors| array(py, [n_workers, width], factors);
    let how = [("model", name)].into_py_dict(py)?;
    if let What::Conclude { factors, prior } = what {
        let answer = passes.call_method("conclude", (workers(factors)?, PyArray1::from_vec(py, prior)), Some(&how))?;
        return Ok(Sums { workers: vec![], classes: vec![], log_evidence: finite_number(&answer)? });
    }
    let Sums { workers: counts, classes, .. } = Sums::new(model, n_workers, shape)?;
    let (counts, classes) = (workers(counts)?, PyArray1::from_vec(py, classes));
    how.set_item("counts", &counts)?;
    how.set_item("classes", &classes)?;
    let mut log_evidence = 0.0;
    match what {
        What::Open { start, seed } => {
            how.set_item("start", start)?;
            how.set_item("seed", seed)?;
            passes.call_method("open", (), Some(&how))?;
        }
        What::Gather { factors, prior, mode } => {
            how.set_item("hard", mode.hard)?;
            how.set_item("voted_only", mode.voted_only)?;
            let answer =
                passes.call_method("gather", (workers(factors)?, PyArray1::from_vec(py, prior)), Some(&how))?;
            log_evidence = finite_number(&answer)?;
        }
        What::Conclude { .. } => {}
    }
    let (counts, classes) = (counts.into_any().extract::<Floats<'_>>()?, classes.into_any().extract::<Floats<'_>>()?);
    let sums = Sums {
        workers: copied(slice("counts", &counts)?)?,
        classes: copied(slice("classes", &classes)?)?,
        log_evidence,
    };
    match sums.workers.iter().chain(&sums.classes).find(|x| !(x.is_finite() && **x >= 0.0)) {
        None => Ok(sums),
        Some(bad) => {
            Err(PyValueError::new_err(format!("a pass counted {bad} answers of a worker, or tasks of a class")))
        }
    }
}

fn finite_number(given: &Bound<'_, PyAny>) -> PyResult<f64> {
    let number: f64 = given.extract()?;
    if number.is_finite() {
        return Ok(number);
    }
    Err(PyValueError::new_err(format!("a pass gave the log-evidence {number}, which must be finite")))
}

/// Passes that are made at the other end of a line.
pub struct Called<'a> {
    line: &'a Line<Question, Sums>,
}

impl Called<'_> {
    fn ask(&self, model: Model, what: What, sums: &mut Sums) -> Result<()> {
        let answer = self.line.ask(Question { model, what })?;
        each_block(&mut sums.workers, 1, 1 << 13, &|first, sums| plus(sums, &answer.workers[first..]));
        plus(&mut sums.classes, &answer.classes);
        sums.log_evidence += answer.log_evidence;
        Ok(())
    }
}

impl Passes for Called<'_> {
    fn open(&mut self, model: Model, opening: Opening<'_>, sums: &mut Sums) -> Result<()> {
        let (start, seed) = match opening {
            Opening::Shares => ("shares", 0),
            Opening::Majority => ("majority", 0),
            Opening::RandomVote { seed, .. } => ("random", seed),
            Opening::Given(_) | Opening::RandomKinds(..) => {
                return Err(Error::invalid("the loop knows no tasks: give posteriors to the passes, not to it"));
            }
        };
        self.ask(model, What::Open { start, seed }, sums)
    }

    fn gather(&mut self, model: Model, factors: Factors<'_>, mode: Mode, sums: &mut Sums) -> Result<()> {
        let (factors, prior) = (copied(factors.workers)?, copied(factors.classes)?);
        self.ask(model, What::Gather { factors, prior, mode }, sums)
    }

    fn conclude(&mut self, model: Model, factors: Factors<'_>) -> Result<f64> {
        let (factors, prior) = (copied(factors.workers)?, copied(factors.classes)?);
        Ok(self.line.ask(Question { model, what: What::Conclude { factors, prior } })?.log_evidence)
    }
}
