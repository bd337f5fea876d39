"""Scores with valid intervals: human labels corrected by what judges predict (prediction-powered inference)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands.metrics.intervals import student_quantile

Ints = npt.NDArray[np.int64]

LEVEL = 0.95
#: Folds of the regression; labels below which judges are left out; labels that the fit of the gain uses up.
_FOLDS, FEWEST, _SPENT = 10, 20, 4.0
#: Penalties of the regression: on the consensus, whose slope is expected, and on each judge.
_RIDGE_CONSENSUS, _RIDGE_JUDGE = 3.0, 20.0
#: Least slope that is expected of the consensus.
_LEAST_SLOPE = 0.01
_TINY = 1e-12


@dataclass(frozen=True)
class Score:
    """A mean over all items with its interval.

    Attributes
    ----------
    estimate
        The share or mean, from human labels and judges.
    low, high
        Its 95 % interval. For a share, Wilson's with the effective number of labels.
    n_gold
        Human labels behind it.
    worth_labels
        How many human labels alone would give such an interval.
    most_labels
        The most labels that it could be worth with any number of items, given how well judges predict: a ceiling.
    correlation
        Of the judges' prediction with the human labels, out of fold; NaN if either does not vary.
    gold_only
        The estimate, low and high from the human labels alone.
    n_items
        Items that the score is about.
    what
        What is estimated, such as "share of 'pass'".
    warnings
        What is doubtful.
    """

    estimate: float
    low: float
    high: float
    n_gold: int
    worth_labels: float
    most_labels: float
    correlation: float
    gold_only: tuple[float, float, float]
    n_items: int
    what: str = "mean"
    warnings: tuple[str, ...] = ()

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __repr__(self) -> str:
        return (
            f"<{self.what} {self.estimate:.3f}, 95 % interval {self.low:.3f}–{self.high:.3f}; "
            f"{self.n_gold:,} human labels worth {self.worth_labels:,.0f}>"
        )


@dataclass(frozen=True)
class Difference:
    """How much higher one system scores than another.

    Attributes
    ----------
    estimate, low, high
        The difference of the means, and its 95 % interval.
    n_gold
        Items of both systems with human labels if paired, otherwise labels of both.
    worth_labels
        How many of them alone would give such an interval.
    paired
        Whether the same items have human labels for both systems.
    first, second
        The systems; positive numbers are in favor of the first.
    """

    estimate: float
    low: float
    high: float
    n_gold: int
    worth_labels: float
    paired: bool
    first: str
    second: str
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        verdict = (
            f"{self.first} is better"
            if self.low > 0
            else f"{self.second} is better"
            if self.high < 0
            else "no difference is shown"
        )
        return (
            f"<{self.first} − {self.second}: {self.estimate:+.3f}, 95 % interval {self.low:+.3f} to {self.high:+.3f}; "
            f"{verdict}>"
        )


@dataclass(frozen=True)
class Design:
    """How labels were drawn: weights, strata and clusters of the labeled items, and of the others.

    Weights are inverse sampling probabilities up to a factor. Strata are codes; items of a cluster are drawn together
    or resemble each other.
    """

    weights: Array
    strata: Ints
    clusters: Ints
    #: Strata and clusters of the items without a label.
    other_strata: Ints
    other_clusters: Ints

    @classmethod
    def simple(cls, n: int, n_others: int) -> Design:
        """Items drawn at random."""
        zeros = np.zeros(n, np.int64), np.zeros(n_others, np.int64)
        return cls(np.ones(n), zeros[0], np.arange(n), zeros[1], n + np.arange(n_others))

    def balanced(self) -> Array:
        """Weights that sum to one, and in each stratum to its share of all items."""
        strata, code = np.unique(self.strata, return_inverse=True)
        within = np.bincount(code, self.weights)
        everything = np.concatenate([self.strata, self.other_strata])
        share = np.array([(everything == one).sum() for one in strata], float)
        return np.asarray(self.weights / within[code] * (share / share.sum())[code])

    @property
    def even(self) -> bool:
        """Whether all items had the same chance of a label, as far as weights and strata show."""
        return not (np.ptp(self.weights) or np.ptp(self.strata))

    def means(self, values: Array) -> tuple[Array, Array]:
        """Weighted mean of values in the stratum of each labeled item, and of each other item."""
        weights = self.balanced()
        strata, code = np.unique(self.strata, return_inverse=True)
        mean = np.bincount(code, weights * values) / np.bincount(code, weights)
        return mean[code], mean[np.searchsorted(strata, self.other_strata)]

    def variance(self, values: Array) -> tuple[float, float]:
        """Variance of the weighted mean of values, and its degrees of freedom: sums by cluster within strata.

        Each stratum counts one more cluster with the variance of all strata: few labels that happen to be alike in a
        stratum do not show that there is no variance. With equal variances the estimate is unbiased, and with one
        stratum it is the usual one.
        """
        weights = self.balanced()
        code = np.unique(self.strata, return_inverse=True)[1]
        names, cluster = np.unique(np.stack([code, self.clusters]), axis=1, return_inverse=True)
        cluster, of = np.ravel(cluster), names[0]
        size = np.bincount(of).astype(np.float64)
        sums = np.bincount(cluster, weights * (values - self.means(values)[0]))
        squares = np.bincount(of, (sums - (np.bincount(of, sums) / size)[of]) ** 2)
        scale = np.bincount(of, np.bincount(cluster, weights) ** 2) / size
        freedom = size - 1
        if not freedom.any():  # A cluster per stratum: all that there is, is the variance around the whole mean.
            sums = np.bincount(cluster, weights * (values - weights @ values))
            return float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1), max(len(sums) - 1.0, 1.0)
        parts = squares + scale * (squares / scale).sum() / freedom.sum()
        total = float(parts.sum())
        # Satterthwaite's: a large stratum with few labels leaves few degrees of freedom.
        return total, total**2 / float((parts**2 / np.maximum(freedom, 1)).sum()) if total > 0 else freedom.sum()

    def variance_of_mean(self, values: Array, clusters: Ints) -> float:
        """Variance of a mean over items, by cluster."""
        if len(values) < 2:
            return 0.0
        _, code = np.unique(clusters, return_inverse=True)
        sums = np.bincount(np.ravel(code), values - values.mean())
        return float((sums**2).sum() / len(values) ** 2 * len(sums) / max(len(sums) - 1, 1))

    def folds(self) -> Ints:
        """A fold for each label, the same within a cluster; clusters are dealt in a fixed random order."""
        names, code = np.unique(self.clusters, return_inverse=True)
        order = np.random.default_rng(0).permutation(len(names))
        return np.asarray(order[np.ravel(code)] % min(_FOLDS, len(names)), np.int64)


def predict(
    reference: Array,
    others: Callable[[Array], Array],
    n_others: int,
    y: Array,
    design: Design,
    bounds: tuple[float, float],
) -> tuple[Array, Array]:
    """Predict labels by a ridge regression on consensus and judges: out of fold, and the mean of folds for others.

    The first feature is the judges' consensus, whose slope is expected to be what a logistic slope of one amounts to.

    Parameters
    ----------
    known
        Features of the labeled items, (n_labels, 1 + n_judges).
    others : callable
        Function that multiplies the features of the other items by coefficients.
    n_others : int
        Number of these items.
    y, design
        The labels, and how they were drawn.
    bounds
        Least and largest value of a label.
    """
    fold, n = design.folds(), len(y)
    penalty = np.diag(np.r_[_RIDGE_CONSENSUS, np.full(reference.shape[1] - 1, _RIDGE_JUDGE)])
    at, of = np.zeros(n), np.zeros(n_others)
    turns = int(fold.max()) + 1
    for turn in range(turns):
        train = fold != turn if turns > 1 else np.ones(n, np.bool_)
        mean, center, slope = y[train].mean(), reference[train].mean(axis=0), np.zeros(reference.shape[1])
        spread = bounds[1] - bounds[0]
        share = (mean - bounds[0]) / spread
        slope[0] = max(share * (1 - share), _LEAST_SLOPE) * spread
        offsets = reference[train] - center
        slope += np.linalg.solve(offsets.T @ offsets + penalty, offsets.T @ (y[train] - mean - offsets @ slope))
        at[fold == turn] = np.clip(mean + (reference[fold == turn] - center) @ slope, *bounds)
        of += np.clip(mean + others(slope) - center @ slope, *bounds) / turns
    return at, of


@dataclass(frozen=True)
class Powered:
    """A mean with what is needed for its interval."""

    mean: float
    gold: float
    #: Variance of the mean of labels alone and its degrees of freedom, and the share of it that is left.
    variance: float
    freedom: float
    ratio: float
    #: Labels of a simple random sample that would give this variance, and the most that there can be.
    n_simple: float
    n_most: float
    weight: float
    correlation: float


def powered_mean(y: Array, at: Array, of: Array, design: Design) -> Powered:
    """Combine labels with predictions: `at` for the labeled items, out of fold, `of` for the others."""
    weights, n = design.balanced(), len(y)
    gold = float(weights @ y)
    spread = float(weights @ (y - gold) ** 2) * n / max(n - 1, 1)
    constant = spread < _TINY
    variance, freedom = _variance(y, np.zeros(n), np.zeros(len(of)), design)
    n_simple = spread / variance if not constant and variance > 0 else _size_by_design(design, weights)
    offsets = at - float(weights @ at)
    own = float(weights @ offsets**2) * n / max(n - 1, 1)
    every = np.concatenate([at, of])
    others = float(of.var() if design.even else every.var()) if len(of) else 0.0
    correlation = math.nan
    weight = 0.0
    if not constant and own > _TINY and others > _TINY and n >= FEWEST:
        shared = float(weights @ (offsets * (y - gold))) * n / max(n - 1, 1)
        more = n / len(of) if design.even else 0.0
        weight = float(np.clip(shared / ((1 + more) * max(own, others)), 0.0, 1.0))
        correlation = shared / math.sqrt(own * spread)
    corrected = _variance(y, weight * at, weight * of, design)[0]
    ratio = 1.0 if constant or weight == 0.0 or variance <= 0 else min(1.0, corrected / variance)
    # The weight and the predictions are fitted to these labels: what is left of the variance is larger than it looks,
    # in proportion to itself where judges predict well, and not at all where they do not help.
    ratio += ratio * (1.0 - ratio) * _SPENT / (n + _SPENT)
    # Items without a label are like all items only if all had the same chance of a label.
    center = float((of if design.even else every).mean()) if len(of) else 0.0
    mean = gold + (weight * (center - float(weights @ at)) if len(of) else 0.0)
    # Strata may make labels count for more than a simple sample; clusters and unequal probabilities may not.
    n_most = math.inf if np.ptp(design.strata) else float(n)
    return Powered(mean, gold, variance, freedom, ratio, n_simple, n_most, weight, correlation)


def _variance(y: Array, at: Array, of: Array, design: Design) -> tuple[float, float]:
    """Variance of labels less predictions, plus that of the mean prediction of items; and degrees of freedom."""
    rest = y - at
    variance, freedom = design.variance(rest)
    if design.even:
        return variance + design.variance_of_mean(of, design.other_clusters), freedom
    # How many items are in each stratum is by chance too.
    own, others = design.means(rest)
    values = np.concatenate([at + own, of + others])
    return variance + design.variance_of_mean(values, np.concatenate([design.clusters, design.other_clusters])), freedom


def _size_by_design(design: Design, weights: Array) -> float:
    """Labels in effect where all are alike: by the weights of clusters."""
    sums = np.bincount(np.unique(design.clusters, return_inverse=True)[1], weights)
    return float(sums.sum() ** 2 / (sums**2).sum())


def wilson(share: float, n: float, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval of a share of n labels."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    middle = (share + z * z / 2 / n) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / 4 / n**2)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def score_of(
    y: Array, at: Array, of: Array, design: Design, *, share: bool, bounds: tuple[float, float], what: str
) -> Score:
    """Score with an interval; see `powered_mean` for the parameters."""
    part = powered_mean(y, at, of, design)
    n = len(y)
    interval = _interval(part.mean, part, part.ratio, share, bounds)
    alone = _interval(part.gold, part, 1.0, share, bounds)
    estimate = min(max(part.mean, bounds[0]), bounds[1])
    explained = 0.0 if math.isnan(part.correlation) else min(max(part.correlation, 0.0), 0.999) ** 2
    warnings: tuple[str, ...] = ()
    if n < FEWEST:
        warnings += (f"With fewer than {FEWEST} human labels, judges do not enter the score.",)
    return Score(
        estimate=estimate,
        low=min(interval[0], estimate),
        high=max(interval[1], estimate),
        n_gold=n,
        worth_labels=n / part.ratio,
        most_labels=n / (1 - explained),
        correlation=part.correlation,
        gold_only=(part.gold, *alone),
        n_items=n + len(of),
        what=what,
        warnings=warnings,
    )


def _interval(
    mean: float, part: Powered, ratio: float, share: bool, bounds: tuple[float, float]
) -> tuple[float, float]:
    t = student_quantile(LEVEL, part.freedom)
    if share:
        n = part.n_simple / t**2
        if math.isfinite(part.n_most):
            n = min(n, part.n_most / student_quantile(LEVEL, part.n_most - 1) ** 2)
        n *= NormalDist().inv_cdf(0.5 + LEVEL / 2) ** 2 / ratio
        return wilson(min(max(mean, 0.0), 1.0), max(n, 1.0))
    # Labels that are all alike do not have a variance of 0: one more of them may be anywhere on the scale.
    least = ((bounds[1] - bounds[0]) / max(part.n_simple, 1.0)) ** 2 / 12
    half = math.sqrt(ratio) * _reach(part, least if part.variance < _TINY else 0.0)
    return max(mean - half, bounds[0]), min(mean + half, bounds[1])


def _reach(part: Powered, least: float) -> float:
    """Half-width of the interval of a mean from labels alone, at least that of a simple sample of as many labels."""
    t = student_quantile(LEVEL, part.freedom)
    if part.variance < _TINY or math.isinf(part.n_most):
        return t * math.sqrt(max(part.variance, least))
    simple = max(part.variance * part.n_simple / part.n_most, least)
    return max(t * math.sqrt(part.variance), student_quantile(LEVEL, part.n_most - 1) * math.sqrt(simple))


def difference_of(d: Array, at: Array, of: Array, design: Design, names: tuple[str, str], spread: float) -> Difference:
    """Mean of paired differences with an interval."""
    part = powered_mean(d, at, of, design)
    n = len(d)
    # One more item that differs, for either system, must not come as a surprise.
    least = float(((d - part.gold) ** 2).sum() + spread**2) / (n + 2) / max(min(part.n_simple, part.n_most), 1.0)
    half = math.sqrt(part.ratio) * _reach(part, least)
    warnings = () if n >= FEWEST else (f"With fewer than {FEWEST} pairs of human labels, judges do not enter.",)
    return Difference(
        estimate=min(max(part.mean, -spread), spread),
        low=max(part.mean - half, -spread),
        high=min(part.mean + half, spread),
        n_gold=n,
        worth_labels=n / part.ratio,
        paired=True,
        first=names[0],
        second=names[1],
        warnings=warnings,
    )
