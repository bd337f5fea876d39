//! One pass over a part of the annotations, for a caller that drives a loop over several parts: shards in files or on
//! other machines, batches of a stream.
//!
//! A part is a table of whole tasks, or a shard of them. Its sums are its own, begun at zero: added up in a fixed order
//! they give the same bits whatever adds them.

use super::cells::Held;
use super::estimate::{Estimate, Maximum, Variational};
use super::model::{Grouped, Model, with_model};
use super::pass::Opening;
use super::shard::{InMemory, table_of};
use super::solver::{Sizes, tied, write_factors};
use super::sums::{Factors, Mode, Passes, Sums};
use super::{expect_len, finite, validate_known, validate_model};
use crate::base::control::Control;
use crate::base::memory::{copied, with_room};
use crate::base::num::{FLOOR, winner_of};
use crate::{Error, Result};

/// How far the sum of a row of given posteriors may be from one.
const SLACK: f64 = 1e-6;

/// The expected counts of a start that has no parameters.
pub fn open<'a>(
    part: impl Into<Held<'a>>,
    model: Model,
    opening: Opening<'_>,
    gold: Option<&[i32]>,
    control: &Control,
) -> Result<Sums> {
    let part = part.into();
    let (mut sums, mut passes) = prepared(part, model, gold, control)?;
    if let Opening::Given(posterior) = opening {
        let k = part.rows().shape.classes;
        expect_len("the posterior", posterior.len(), part.rows().n_tasks() * k)?;
        finite("the posterior", posterior)?;
        // Rescaled in silence, rows would count as what they are not.
        if let Some((task, row)) =
            posterior.chunks_exact(k).enumerate().find(|(_, row)| (row.iter().sum::<f64>() - 1.0).abs() > SLACK)
        {
            let sum: f64 = row.iter().sum();
            return Err(Error::invalid(format!("the posterior of task {task} sums to {sum}, not to one")));
        }
    }
    passes.open(model, opening, &mut sums)?;
    Ok(sums)
}

/// The expected counts under the factors, and the log-evidence.
pub fn gather<'a>(
    part: impl Into<Held<'a>>,
    model: Model,
    factors: Factors<'_>,
    mode: Mode,
    gold: Option<&[i32]>,
    control: &Control,
) -> Result<Sums> {
    let part = part.into();
    let (mut sums, mut passes) = prepared(part, model, gold, control)?;
    validate_factors(part, model, factors)?;
    passes.gather(model, factors, mode, &mut sums)?;
    Ok(sums)
}

/// The answer of each task.
#[derive(Debug, Default)]
pub struct Answers {
    /// The most probable class, the lowest of those that tie.
    pub winner: Vec<u16>,
    /// Its probability.
    pub confidence: Vec<f32>,
    /// Whether another class is as probable.
    pub tied: Vec<bool>,
}

impl Answers {
    pub(super) fn with_room(len: usize) -> Result<Self> {
        Ok(Self { winner: with_room(len)?, confidence: with_room(len)?, tied: with_room(len)? })
    }

    /// Takes down the answer that a task's posterior gives.
    pub(super) fn take(&mut self, row: &[f64]) {
        let (winner, tie) = winner_of(row);
        self.winner.push(winner);
        self.confidence.push(row[usize::from(winner)] as f32);
        self.tied.push(tie);
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.winner.extend_from_slice(&other.winner);
        self.confidence.extend_from_slice(&other.confidence);
        self.tied.extend_from_slice(&other.tied);
    }
}

/// The answers under the factors, the posteriors (tasks × classes) if they are asked for, and the log-evidence.
///
/// Memory in addition to the results: 4 bytes per annotation for its cell.
pub fn answers<'a>(
    part: impl Into<Held<'a>>,
    model: Model,
    factors: Factors<'_>,
    gold: Option<&[i32]>,
    posterior: bool,
    control: &Control,
) -> Result<(Answers, Vec<f64>, f64)> {
    let part = part.into();
    validate_model(model, part.rows().shape)?;
    validate_known(part.rows(), gold)?;
    validate_factors(part, model, factors)?;
    let mut passes = InMemory::over(part, gold, control)?;
    let (answers, log_evidence) = passes.answers(model, factors, posterior)?;
    Ok((answers, passes.take_posterior(), log_evidence))
}

/// What parameters are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameters {
    /// Probabilities, or counts that are to be divided by their sums.
    Probabilities,
    /// Parameters of Dirichlet posteriors, as in a [`super::BayesFit`].
    Concentrations,
}

/// What the E-step reads of parameters: a prior (classes), or probabilities of classes for each task (tasks × classes),
/// and confusion matrices (workers × true × observed). Returns factors of the workers and of the classes.
///
/// Probabilities count as at least [`FLOOR`]: a prior and labels that contradict each other leave a posterior all the
/// same.
pub fn factors(
    model: Model,
    parameters: Parameters,
    sizes: Sizes,
    prior: &[f64],
    confusion: &[f64],
) -> Result<(Vec<f64>, Vec<f64>)> {
    validate_model(model, sizes.shape)?;
    if !prior.len().is_multiple_of(sizes.shape.classes) {
        expect_len("the given prior", prior.len(), sizes.shape.classes)?;
    }
    expect_len("the given confusion", confusion.len(), sizes.n_workers * sizes.shape.cells())?;
    finite("the given prior", prior)?;
    finite("the given confusion", confusion)?;
    with_model!(model, |W| match parameters {
        Parameters::Probabilities => read::<W, Maximum>(sizes, prior, confusion),
        Parameters::Concentrations => read::<W, Variational>(sizes, prior, confusion),
    })
}

fn read<W: Grouped, P: Estimate<W>>(sizes: Sizes, prior: &[f64], confusion: &[f64]) -> Result<(Vec<f64>, Vec<f64>)> {
    let params = tied::<W, P>(sizes, confusion)?;
    let workers = if P::FACTORS_ARE_PARAMS {
        params
    } else {
        let mut factors = table_of(sizes.n_workers * W::n_counts(sizes.shape))?;
        write_factors::<W, P>(&params, sizes.shape, &mut factors);
        factors
    };
    let mut classes = copied(prior)?;
    if prior.len() == sizes.shape.classes {
        P::settle_classes(&mut classes);
        P::write_class_factors(&mut classes);
    } else {
        classes.iter_mut().for_each(|p| *p = p.max(FLOOR));
    }
    Ok((workers, classes))
}

/// Empty sums, and passes over the table.
fn prepared<'a>(
    part: Held<'a>,
    model: Model,
    gold: Option<&'a [i32]>,
    control: &'a Control,
) -> Result<(Sums, InMemory<'a>)> {
    let Sizes { n_workers, shape } = part.rows().sizes();
    validate_model(model, shape)?;
    validate_known(part.rows(), gold)?;
    Ok((Sums::new(model, n_workers, shape)?, InMemory::over(part, gold, control)?))
}

fn validate_factors(part: Held<'_>, model: Model, factors: Factors<'_>) -> Result<()> {
    let Sizes { n_workers, shape } = part.rows().sizes();
    expect_len("factors", factors.workers.len(), n_workers * model.n_counts(shape))?;
    if factors.classes.len() != shape.classes {
        expect_len("the given prior", factors.classes.len(), part.rows().n_tasks() * shape.classes)?;
    }
    // Within these bounds products neither vanish nor overflow before they are rescaled.
    let good = |x: &&f64| !(0.5 * FLOOR..=2.0 / FLOOR).contains(*x);
    match factors.workers.iter().chain(factors.classes).find(good) {
        None => Ok(()),
        Some(bad) => Err(Error::invalid(format!("factors hold {bad}, which no parameters give"))),
    }
}
