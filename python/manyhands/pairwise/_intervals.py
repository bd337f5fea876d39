"""Confidence intervals of scores and ranks from variances."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_between, check_choice, check_number
from manyhands._base.estimator import Array
from manyhands.metrics.intervals import offset_errors, student_quantile

#: Minimum number of workers for standard errors clustered by worker.
LEAST_CLUSTERS = 10
#: Upper limit of the assumed shrinkage of a slope.
_MOST_SHRINKAGE = 0.8
METHODS = ("sandwich", "bootstrap", "none")


def check_intervals(intervals: str, level: float, n_resamples: int, seed: int) -> None:
    """Raise if a setting of the intervals is invalid."""
    check_choice("intervals", intervals, METHODS)
    check_between("level", level, such_as=0.95)
    check_number("n_resamples", n_resamples, least=2, whole=True)
    check_number("seed", seed, least=0, whole=True)


def independent_units(n_per_worker: npt.NDArray[np.int64]) -> tuple[str, int]:
    """Return the independent unit (workers if there are enough of them, else comparisons) and the number of units."""
    n_workers = int((n_per_worker > 0).sum())
    return ("workers", n_workers) if n_workers >= LEAST_CLUSTERS else ("comparisons", int(n_per_worker.sum()))


def few_workers_warning(n_workers: int, what: str) -> tuple[str, ...]:
    """Return a warning if there are too few workers to account for differences between workers."""
    if not 1 < n_workers < LEAST_CLUSTERS:
        return ()
    return (
        f"Intervals treat {what} as independent: {n_workers} workers are too few to estimate differences between "
        f"workers (at least {LEAST_CLUSTERS} are needed), so intervals ignore worker-specific preferences.",
    )


def shrinkage_offset(slopes: Array, errors: Array, spread: float, n_per_worker: npt.NDArray[np.int64]) -> float:
    """Return the relative inflation of scores caused by the shrinkage of worker slopes toward their mean.

    A slope with standard error e is shrunk toward 1 by a factor (e / spread)². Scores fitted with the shrunk slopes a
    instead of the original slopes a* are inflated by Σ n·a·a* / Σ n·a² - 1, most if some workers guess.
    """
    if not len(slopes) or not spread > 0:
        return 0.0
    shrinkage = np.minimum((errors / spread) ** 2, _MOST_SHRINKAGE)
    unshrunk = 1.0 + (slopes - 1.0) / (1.0 - shrinkage)
    total = float(n_per_worker @ slopes**2)
    return float(n_per_worker @ (slopes * unshrunk)) / total - 1.0 if total > 0 else 0.0


def score_intervals(
    scores: Array,
    *,
    model: Array,
    clustered: Array,
    components: npt.NDArray[np.int64],
    prior: float,
    clusters: tuple[str, int],
    level: float,
    offset: float,
) -> tuple[Array, Array]:
    """Return standard errors and intervals of scores that average 0 in their component.

    Clustered variances underestimate the uncertainty of items that won every comparison. Therefore no interval is
    narrower than the model-based one (without the variance of the component mean). Intervals clustered by worker use
    quantiles of Student's t.

    Parameters
    ----------
    scores, model, clustered : ndarray of shape (n_items,)
        Scores, their model-based variances and their clustered variances (sandwich or bootstrap).
    components : ndarray of shape (n_items,)
        Connected component of each item.
    prior : float
        Prior standard deviation of scores.
    clusters : tuple of str and int
        Independent unit and number of units.
    level : float
        Confidence level.
    offset : float
        Possible relative inflation of scores; see `shrinkage_offset`.
    """
    what, n = clusters
    sizes = np.bincount(components)[components]
    model_errors = np.sqrt(np.maximum(model - prior**2 / sizes, 0.0))
    clustered_errors = np.sqrt(clustered * (n / (n - 1) if n > 1 else 1.0))
    normal = student_quantile(level, None)
    wide = student_quantile(level, n - 1 if what == "workers" else None)
    errors = offset_errors(offset * scores, np.maximum(model_errors, clustered_errors), level)
    reach = normal * offset_errors(offset * scores, np.maximum(model_errors, wide / normal * clustered_errors), level)
    return errors, np.stack([scores - reach, scores + reach], axis=1)


def ranks_of(scores: Array) -> npt.NDArray[np.int64]:
    """Return ranks of scores, 1 for the highest; equal scores share the better rank."""
    return np.searchsorted(np.sort(-scores), -scores, side="left") + 1


def rank_intervals(intervals: Array) -> npt.NDArray[np.int64]:
    """Return the best and worst rank of each item, given the intervals of the others. O(n log n)."""
    low, high = np.sort(intervals[:, 0]), np.sort(intervals[:, 1])
    n = len(intervals)
    above = n - np.searchsorted(low, intervals[:, 1], side="right")
    below = np.searchsorted(high, intervals[:, 0], side="left")
    return np.stack([above + 1, n - below], axis=1)
