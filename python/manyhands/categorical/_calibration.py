"""How sure an answer may be of itself where errors on one task are correlated."""

from __future__ import annotations

from math import erfc, exp, hypot, pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core, metrics
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array
from manyhands.categorical._passes import expected_counts
from manyhands.categorical._streamed import StreamedPosterior
from manyhands.categorical.shards.passes import Part

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


def error_correlation(
    held: Any, posterior: Array | StreamedPosterior, prior: Array, crowd_prior: Array, expected: Array | None = None
) -> tuple[float, float]:
    """Correlation of the errors on one task, and its standard error, given what a `HierarchicalDawidSkene` found.

    ``expected`` are its `expected_counts`, where they are at hand.
    """
    counts = (expected_counts(held, posterior) if expected is None else expected) + crowd_prior
    if not isinstance(posterior, StreamedPosterior):
        table: _core.Table = held
        return table.error_correlation(posterior, counts, prior)
    table, rows = _sample(posterior)
    return table.error_correlation(rows, counts, prior, sampled=True)


def _sample(posterior: StreamedPosterior) -> tuple[_core.Table, Array]:
    """The tasks of a log in shards that the estimate looks at, those it would in memory, and their posteriors."""
    shards, expect = posterior.shards, posterior.of_part
    n_annotations = shards.n_annotations

    def look(part: Part) -> tuple[tuple[npt.NDArray[Any], ...], Array] | None:
        sampled_rows = _core.correlation_sample(part.first, part.shard.n_tasks, n_annotations)
        if not len(sampled_rows):
            return None
        table = part.shard.table()
        place = np.full(table.n_tasks, -1, np.int64)
        place[sampled_rows] = np.arange(len(sampled_rows))
        tasks, workers, labels = table.columns()
        keep = place[tasks] >= 0
        weights = table.weights()
        weights = np.ones(len(tasks)) if weights is None else weights
        columns = (place[tasks[keep]], part.shard.who()[workers[keep]], labels[keep], weights[keep])
        return columns, expect(part)[sampled_rows]

    columns: list[tuple[npt.NDArray[Any], ...]] = []
    rows: list[Array] = []
    n = 0
    for sample in shards.each(look):
        if sample is not None:
            (tasks, *others), mine = sample
            columns.append((tasks + n, *others))
            rows.append(mine)
            n += len(mine)
    tasks, workers, labels, *more = (np.concatenate(column) for column in zip(*columns, strict=True))
    weights = more[0] if shards.directory.sizes.weighted else None
    return made_table(
        tasks.astype(np.uint32), workers, labels, weights, n, shards.n_workers, shards.n_classes
    ), np.concatenate(rows)


def probability_of_correlation(correlation: float, error: float, odds: float = _ODDS) -> float:
    """How probable it is that errors are correlated at all, given an estimate, its standard error and prior odds."""
    error = hypot(error, _SLACK)
    independent = _density(correlation / error) / error
    # The mean of the normal density of the estimate over the Gamma distribution, by completing the square.
    margin = (correlation - error**2 / _SCALE) / error
    tilt = exp(0.5 * (error / _SCALE) ** 2 - correlation / _SCALE)
    dependent = tilt * error * (margin * 0.5 * erfc(-margin / sqrt(2)) + _density(margin)) / _SCALE**2
    return odds * dependent / (odds * dependent + independent)


def discount(correlation: float, error: float) -> float:
    """What confidences are discounted with, given an estimate of the correlation and its standard error.

    The usual discount times the probability that errors are correlated at all. The size of the estimate does not enter:
    a task that misleads all workers in the same way looks easy, so that the estimate sees only a part of what real
    crowds share, and on real logs it indicates whether to discount but not by how much.
    """
    return CORRELATION * probability_of_correlation(correlation, error)


def _density(x: float) -> float:
    return exp(-0.5 * x * x) / sqrt(2 * pi)


def information(confusion: Array) -> Array:
    """Bits that one answer of each worker carries of classes that are equally frequent, (n_workers,)."""
    k = confusion.shape[1]
    return metrics.information(confusion, np.full(k, 1 / k))


def calibrate(posterior: Array, votes: Array, correlation: float, even: float = 0.0) -> Array:
    """Calibrated posteriors of tasks by their effective votes; labels stay the same."""
    return _core.pool_posteriors([posterior], np.ones(1), votes, correlation, even)[0]
