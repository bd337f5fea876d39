"""Means and medians, without a model of workers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number, countable, preview
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.names import sequence
from manyhands._base.progress import Callback
from manyhands.numeric._units import Units
from manyhands.numeric.base import NumericAggregator, ValueFit, ValueFitted
from manyhands.numeric.table import Ratings

#: Warning if no task has two ratings.
SINGLE_RATINGS_WARNING = (
    "No task has more than one rating, so noise cannot be estimated: standard errors are the standard "
    "deviation of all ratings, which is an upper bound."
)


class _Simple(NumericAggregator):
    """Base class of values that depend only on the ratings of their own task."""

    def _worker_weights(self, ratings: Ratings) -> Array | None:
        """Return worker weights, or None if all are equal."""
        return None

    def _weights_for(self, now: ValueFitted, known: npt.NDArray[np.int64]) -> Array | None:
        """Return the weights of the workers of another table, by their codes in fit."""
        return None

    def _check(self) -> None:
        """Raise if a setting is invalid."""

    @abstractmethod
    def _middle(self, table: _core.Ratings, view: tuple[int, float, float], means: Array) -> Array:
        """Return the value of each task for one dimension, given the means."""

    def _inefficiency(self, counts: Array) -> Array:
        """Return the variance relative to that of a mean of as many normal ratings."""
        return np.ones_like(counts)

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        self._check()
        table, units = votes.table, Units.of(votes.table)
        weights = self._worker_weights(votes)
        dim_results = []
        remarks: tuple[str, ...] = ()
        for dim in range(votes.n_dims):
            tasks, workers = table.spread(*units.view(dim), weights)
            variance = pooled_variance(tasks)
            if variance is None:
                remarks, variance = (SINGLE_RATINGS_WARNING,), 1.0
            values = self._middle(table, units.view(dim), tasks[:, 1])
            errors = np.sqrt(variance * self._inefficiency(1.0 / tasks[:, 3]) * tasks[:, 3])
            dim_results.append((values, errors, *differences(workers, variance)))
        values, errors, bias, noise = (np.stack(columns, axis=1) for columns in zip(*dim_results, strict=True))
        return ValueFit(
            values=units.back(values),
            errors=units.sizes(errors),
            bias=units.sizes(bias),
            scale=np.ones_like(bias),
            noise=units.sizes(noise),
            history=np.zeros(0),
            remarks=remarks,
        )

    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        units = Units.of(ratings.table)
        weights = self._weights_for(now, known)
        columns = []
        for dim in range(ratings.n_dims):
            means = ratings.table.spread(*units.view(dim), weights)[0][:, 1]
            columns.append(self._middle(ratings.table, units.view(dim), means))
        return units.back(np.stack(columns, axis=1))


def pooled_variance(tasks: Array) -> float | None:
    """Variance of ratings around their task means; None if no task has two ratings."""
    total, _, squares, share = tasks.T
    freedom = float((total * (1.0 - share)).sum())
    return max(float(squares.sum()) / freedom, 0.0) if freedom > 1e-9 * float(total.sum()) else None


def differences(workers: Array, variance: float) -> tuple[Array, Array]:
    """Mean and standard deviation of workers' differences from the values; the pooled deviation for a single rating."""
    total, deviation_sums, squares = workers.T
    bias = np.divide(deviation_sums, total, out=np.zeros_like(deviation_sums), where=total > 0)
    rest = np.maximum(squares - deviation_sums * bias, 0.0)
    noise = np.divide(rest, total - 1.0, out=np.full_like(deviation_sums, variance), where=total > 1.5)
    return bias, np.sqrt(noise)


class Mean(_Simple):
    """Mean of the ratings of each task.

    A baseline that treats all workers alike. Standard errors assume independent ratings with a common (pooled) variance
    around the task means. A weight counts a rating that many times. A worker's bias is the mean difference from the
    values.

    Notes
    -----
    Time O(ratings), no additional memory.

    Examples
    --------
    >>> import manyhands as mh
    >>> ratings = mh.Ratings.from_arrays(["a", "a", "b", "b"], ["u", "v", "u", "v"], [1.0, 3.0, 4.0, 6.0])
    >>> model = mh.numeric.Mean().fit(ratings)
    >>> model.values_.tolist(), model.bias_.tolist()
    ([2.0, 5.0], [-1.0, 1.0])
    """

    def _middle(self, table: _core.Ratings, view: tuple[int, float, float], means: Array) -> Array:
        return means


def _median_inefficiency(counts: Array) -> Array:
    """Variance of a median relative to that of a mean of as many normal ratings: from 1 to π/2.

    Accurate to 0.01 for integers. For even counts, the mean of the two middle ratings is more efficient.
    """
    even = 0.5 + 0.5 * np.cos(math.pi * counts)  # 1 for even numbers, 0 for odd ones
    return np.maximum(1.0, math.pi / 2 * counts / (counts + 0.5 + 0.78 * even))


class Median(_Simple):
    """Median of the ratings of each task (of each dimension for points).

    Use it if ratings contain outliers. Weights count ratings; for even counts, the median is the mean of the two middle
    ratings. Standard errors are those of medians of normal ratings, up to √(π/2) times those of means; they are too
    large if workers differ in noise (90 % intervals then contain 91 to 96 %).

    Notes
    -----
    Time O(ratings · log(ratings per task)). If most workers give the same number, such as zero, the median ignores the
    others and is worse than the mean.

    Examples
    --------
    >>> import manyhands as mh
    >>> ratings = mh.Ratings.from_arrays(["a", "a", "a"], ["u", "v", "w"], [1.0, 2.0, 60.0])
    >>> mh.numeric.Median().fit(ratings).values_.round(9).tolist()
    [2.0]
    """

    def _middle(self, table: _core.Ratings, view: tuple[int, float, float], means: Array) -> Array:
        return table.trimmed_means(*view, 0.5)

    def _inefficiency(self, counts: Array) -> Array:
        return _median_inefficiency(counts)


class TrimmedMean(_Simple):
    """Mean of the ratings of each task without the lowest and highest ones.

    A compromise between :class:`Mean` and :class:`Median`.

    Parameters
    ----------
    trim : float, default 0.2
        Share of ratings dropped at each end, from 0 (the mean) to 0.5 (the median). A rating at the boundary counts
        partially: of four ratings, a share of 0.1 leaves 0.6 of the lowest and of the highest.

    Notes
    -----
    Time O(ratings · log(ratings per task)). Standard errors are interpolated between those of the mean and the median.

    Examples
    --------
    >>> import manyhands as mh
    >>> ratings = mh.Ratings.from_arrays(["a"] * 4, ["u", "v", "w", "x"], [0.0, 2.0, 3.0, 90.0])
    >>> mh.numeric.TrimmedMean(0.25).fit(ratings).values_.round(9).tolist()
    [2.5]
    """

    def __init__(self, trim: float = 0.2) -> None:
        self.trim = trim

    def _check(self) -> None:
        check_number("trim", self.trim, least=0, most=0.5)

    def _middle(self, table: _core.Ratings, view: tuple[int, float, float], means: Array) -> Array:
        return table.trimmed_means(*view, float(self.trim))

    def _inefficiency(self, counts: Array) -> Array:
        return 1.0 + 2.0 * self.trim * (_median_inefficiency(counts) - 1.0)


@dataclass(frozen=True, kw_only=True)
class WeightedValueFit(ValueFit):
    """Weighted means."""

    #: Weight of each worker.
    weights: Array = field(metadata=numbers("m"))


class WeightedMean(_Simple):
    """Mean of the ratings of each task, with a given weight per worker.

    Parameters
    ----------
    weights : mapping of worker id to float
        Weight of every worker, 0 or positive. Required. If all workers of a task have weight 0, its value is the plain
        mean.

    Notes
    -----
    Time O(ratings). In ``predict``, workers that were not in ``fit`` get the average weight.

    Examples
    --------
    >>> import manyhands as mh
    >>> ratings = mh.Ratings.from_arrays(["a", "a"], ["u", "v"], [1.0, 5.0])
    >>> mh.numeric.WeightedMean({"u": 3.0, "v": 1.0}).fit(ratings).values_.tolist()
    [2.0]
    """

    _fit_type: ClassVar[type[Fit]] = WeightedValueFit

    def __init__(self, weights: Mapping[Any, float] | None = None) -> None:
        self.weights = weights

    @property
    def weights_(self) -> Array:
        """Weight of each worker, shape (n_workers,)."""
        return self._fitted().fit_as(WeightedValueFit).weights

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        return WeightedValueFit(**vars(super()._fit(votes, progress)), weights=self._worker_weights(votes))

    def _weights_for(self, now: ValueFitted, known: npt.NDArray[np.int64]) -> Array | None:
        return now.carried_over(now.fit_as(WeightedValueFit).weights, known)

    def _worker_weights(self, ratings: Ratings) -> Array:
        if not isinstance(self.weights, Mapping):
            raise TypeError(f"weights must be a mapping from workers to numbers, not {self.weights!r}")
        place = sequence(self.weights).match(ratings._workers) if len(self.weights) else np.full(ratings.n_workers, -1)
        if (place < 0).any():
            raise ValueError(
                f"weights has no entry for the workers {preview(ratings.workers[place < 0].tolist())}; add one for each"
            )
        worker_weights = np.asarray(list(self.weights.values()), np.float64)[place]
        if not countable(worker_weights).all():
            odd = ratings.workers[~countable(worker_weights)].tolist()
            raise ValueError(f"weights of the workers {preview(odd)} must be 0 or between 1e-30 and 1e15")
        return worker_weights

    def _middle(self, table: _core.Ratings, view: tuple[int, float, float], means: Array) -> Array:
        return means
