"""How sure an answer may be of itself where errors on one task are correlated."""

from __future__ import annotations

from math import erfc, exp, hypot, pi, sqrt

import numpy as np
import numpy.typing as npt

from manyhands import _core, metrics
from manyhands.aggregators.passes import expected_counts
from manyhands.estimator import Array
from manyhands.table.annotations import Annotations

#: What confidences of a crowd are discounted with whose errors are correlated. Chosen on 24 real logs for the smallest
#: log-loss (benches/default.py).
CORRELATION = 0.5

#: What is shared out evenly over the classes of every task: whatever the votes, one answer in a hundred may be wrong
#: for a reason that no model knows, such as a slip in the log.
EVEN = 0.01

#: Odds, before a log is seen, that its errors are correlated: those of three real crowds of four clearly are.
_ODDS = 3.0
#: Scale of what the correlation is then: a Gamma distribution of shape two, which has the mean of real crowds, 0.25,
#: about their scatter, and little near zero.
_SCALE = 0.125
#: What an estimate may be off, however long the log, since no model of the crowd is quite true.
_SLACK = 0.02

#: Correlations that are tried where known classes can tell.
_GRID = np.concatenate([[0.01], np.geomspace(0.02, 1.0, 24)])


def error_correlation(votes: Annotations, posterior: Array, prior: Array, crowd_prior: Array) -> tuple[float, float]:
    """Correlation of the errors on one task, and its standard error, given what a `HierarchicalDawidSkene` found."""
    counts = expected_counts(votes.table, posterior) + crowd_prior
    return _core.error_correlation(votes.table, posterior, counts, prior)


def probability_of_correlation(correlation: float, error: float) -> float:
    """How probable it is that errors are correlated at all, given an estimate and its standard error."""
    error = hypot(error, _SLACK)
    independent = _density(correlation / error) / error
    # The mean of the normal density of the estimate over the Gamma distribution, by completing the square.
    moved = (correlation - error**2 / _SCALE) / error
    tilt = exp(0.5 * (error / _SCALE) ** 2 - correlation / _SCALE)
    dependent = tilt * error * (moved * 0.5 * erfc(-moved / sqrt(2)) + _density(moved)) / _SCALE**2
    return _ODDS * dependent / (_ODDS * dependent + independent)


def discount(correlation: float, error: float) -> float:
    """What confidences are discounted with, given an estimate of the correlation and its standard error.

    The usual discount times the probability that errors are correlated at all. The size of the estimate does not enter:
    a task that misleads everybody in the same way looks easy, so that the estimate sees only a part of what real crowds
    share, and on real logs it tells whether to discount but not by how much.
    """
    return CORRELATION * probability_of_correlation(correlation, error)


def _density(x: float) -> float:
    return exp(-0.5 * x * x) / sqrt(2 * pi)


def information(confusion: Array) -> Array:
    """Bits that one answer of each worker carries of classes that are equally frequent, (n_workers,)."""
    k = confusion.shape[1]
    return metrics.information(confusion, np.full(k, 1 / k))


def calibrated(posterior: Array, votes: Array, correlation: float, even: float = 0.0) -> Array:
    """Posteriors of tasks with so many effective votes; labels stay the same."""
    return _core.pool_posteriors([posterior], np.ones(1), votes, correlation, even)[0]


def best_correlation(posterior: Array, votes: Array, classes: npt.NDArray[np.int32]) -> tuple[float, float]:
    """The correlation with the smallest log-loss on known classes, and its standard deviation given them."""
    # A log-normal prior of one unit: a few tasks change little, and none leave the usual correlation.
    losses = 0.5 * np.log(_GRID / CORRELATION) ** 2
    if len(classes):
        for i, correlation in enumerate(_GRID):
            right = calibrated(posterior, votes, correlation, EVEN)[np.arange(len(classes)), classes]
            losses[i] -= np.log(right).sum()
    chances = np.exp(losses.min() - losses)
    mean = np.average(_GRID, weights=chances)
    return float(_GRID[losses.argmin()]), float(np.sqrt(np.average((_GRID - mean) ** 2, weights=chances)))
