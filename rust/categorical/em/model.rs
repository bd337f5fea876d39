//! What a worker model is: how a confusion matrix is parametrised, and what E- and M-steps do with it.
//!
//! To add one: write `model/<model>.rs` with an implementation of [`WorkerModel`] and of [`Grouped`], and add its lines
//! here: to the modules, to [`Model`] and to `with_model`.

pub(super) mod class;
pub(super) mod full;
pub(super) mod one_coin;

use std::ops::Range;

/// The size of a confusion matrix: what can be true, and what can be observed.
///
/// The first labels are the classes, in the same order; those after them are abstentions, which are never true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of classes.
    pub classes: usize,
    /// Number of labels, at least as many; only the full model takes more.
    pub labels: usize,
}

impl Shape {
    /// Nothing can be observed but classes.
    pub const fn square(k: usize) -> Self {
        Self { classes: k, labels: k }
    }

    /// Number of cells of a matrix.
    pub const fn cells(self) -> usize {
        self.classes * self.labels
    }

    /// Where the row of a class lies in a matrix stored label-first.
    pub fn row(self, class: usize) -> impl Iterator<Item = usize> + Clone {
        (0..self.labels).map(move |label| label * self.classes + class)
    }
}

/// How a worker's confusion matrix is parametrised, and what its E- and M-steps do with it.
///
/// A worker is `n_params` numbers. The E-step multiplies *factors* derived from them, the M-step turns expected
/// *counts* into new ones. Methods act on one worker's slice of each table, or on what [`WorkerModel::locate`] finds of
/// it. Matrices are (true × observed).
pub trait WorkerModel: Copy + Send + Sync + 'static {
    /// Which of the models it is.
    const MODEL: Model;
    /// Numbers that describe one worker.
    fn n_params(shape: Shape) -> usize;
    /// Expected counts from which the M-step makes one worker's parameters; the E-step reads as many factors.
    fn n_counts(shape: Shape) -> usize;
    /// Whether the factors are the parameters themselves, so that no second table is needed.
    const FACTORS_ARE_PARAMS: bool = false;
    /// Whether [`WorkerModel::multiply`] ever takes out a common factor.
    const HAS_COMMON_FACTOR: bool = false;

    /// Derives the factors from the parameters.
    fn write_factors(params: &[f64], shape: Shape, factors: &mut [f64]);
    /// Which factors, and which counts, of all workers' an annotation touches, and its label; there are `k` classes.
    ///
    /// `cell` is worker · labels + label. The methods below are given that part of either table.
    #[inline(always)]
    fn locate(cell: usize, k: usize) -> (Range<usize>, usize) {
        let (worker, label, n) = (cell / k, cell % k, Self::n_counts(Shape::square(k)));
        (worker * n..(worker + 1) * n, label)
    }
    /// Multiplies `evidence[k]` by the probability of `label` under class k; returns a factor common to all classes.
    fn multiply(factors: &[f64], label: usize, evidence: &mut [f64]) -> f64;
    /// The same in log space, to the power of `weight`; `factors` hold logarithms. Returns the common summand.
    fn multiply_log(factors: &[f64], label: usize, weight: f64, evidence: &mut [f64]) -> f64;
    /// Adds an annotation of the given weight and posterior to the counts.
    fn add(counts: &mut [f64], label: usize, weight: f64, posterior: &[f64]);

    /// The parameters that maximize the expected log-likelihood of `counts` plus `pseudo` counts.
    fn maximise(counts: &[f64], pseudo: &[f64], shape: Shape, params: &mut [f64]);
    /// The log-density that `pseudo` counts give the parameters, up to a constant.
    fn log_prior(params: &[f64], pseudo: &[f64], shape: Shape) -> f64;

    /// Sums a matrix of counts into the counts of this model.
    fn tie(matrix: &[f64], shape: Shape, counts: &mut [f64]);
    /// The confusion matrix of the parameters.
    fn confusion(params: &[f64], shape: Shape, matrix: &mut [f64]);

    /// Parameters to a space without constraints, in which steps may be extrapolated; of the same length.
    fn to_natural(params: &mut [f64], shape: Shape);
    /// Back from that space.
    fn from_natural(params: &mut [f64], shape: Shape);
}

/// A worker model whose counts fall into groups with a Dirichlet prior each: group g is every `n_groups`-th count from
/// g on.
pub(super) trait Grouped: WorkerModel {
    fn n_groups(shape: Shape) -> usize;
    /// The factors of the E-step, in place of what is expected of each count's probability.
    fn fold(expected: &mut [f64], shape: Shape);
    /// A (true × observed) matrix that [`WorkerModel::tie`] sums to these counts, even where the model is.
    fn untie(counts: &[f64], shape: Shape, matrix: &mut [f64]);
}

/// The worker models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A free confusion matrix per worker.
    Full,
    /// One accuracy per worker and class, errors spread evenly.
    Class,
    /// One accuracy per worker, errors spread evenly.
    OneCoin,
}

impl Model {
    /// Every model by name.
    pub const NAMES: [(&str, Self); 3] = [("full", Self::Full), ("class", Self::Class), ("one-coin", Self::OneCoin)];

    /// Expected counts of one worker.
    pub fn n_counts(self, shape: Shape) -> usize {
        with_model!(self, |W| W::n_counts(shape))
    }
}

/// Runs `$body` with `$W` bound to the worker model's type.
macro_rules! with_model {
    ($model:expr, |$W:ident| $body:expr) => {
        match $model {
            $crate::categorical::em::model::Model::Full => {
                type $W = $crate::categorical::em::model::full::Full;
                $body
            }
            $crate::categorical::em::model::Model::Class => {
                type $W = $crate::categorical::em::model::class::Class;
                $body
            }
            $crate::categorical::em::model::Model::OneCoin => {
                type $W = $crate::categorical::em::model::one_coin::OneCoin;
                $body
            }
        }
    };
}
pub(super) use with_model;
