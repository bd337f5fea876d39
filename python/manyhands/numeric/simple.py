"""Values without a model of workers: means, medians, and means without the ends or by given weights."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number, countable, listed
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.names import sequence
from manyhands._base.progress import Callback
from manyhands.numeric._units import Units
from manyhands.numeric.base import NumericAggregator, ValueFit, ValueFitted
from manyhands.numeric.table import Ratings

#: Said where no task has two ratings.
ALONE = (
    "No task has more than one rating, so that nothing tells noise from truth: standard errors are the standard "
    "deviation of all ratings, which is the most that they can be."
)


class _Simple(NumericAggregator):
    """A value that needs the ratings of its own task alone; workers are judged by how far they are from it."""

    def _given_weights(self, ratings: Ratings) -> Array | None:
        """How much workers count; None if all count the same."""
        return None

    def _weights_for(self, now: ValueFitted, known: npt.NDArray[np.int64]) -> Array | None:
        """The same of the workers of another table, by their codes in fit."""
        return None

    def _check(self) -> None:
        """Refuse odd settings."""

    @abstractmethod
    def _middle(self, table: _core.Ratings, view: tuple[int, float, float], means: Array) -> Array:
        """The value of each task, for one number of the answers, where the means are known."""

    def _inefficiency(self, counts: Array) -> Array:
        """How many times the variance of a mean of so many normal ratings its variance is."""
        return np.ones_like(counts)

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        self._check()
        table, units = votes.table, Units.of(votes.table)
        weights = self._given_weights(votes)
        found = []
        remarks: tuple[str, ...] = ()
        for dim in range(votes.n_dims):
            tasks, workers = table.spread(*units.view(dim), weights)
            variance = pooled_variance(tasks)
            if variance is None:
                remarks, variance = (ALONE,), 1.0
            values = self._middle(table, units.view(dim), tasks[:, 1])
            errors = np.sqrt(variance * self._inefficiency(1.0 / tasks[:, 3]) * tasks[:, 3])
            found.append((values, errors, *differences(workers, variance)))
        values, errors, bias, noise = (np.stack(columns, axis=1) for columns in zip(*found, strict=True))
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
    """The variance of ratings about the means of their tasks; None where no task has two."""
    total, _, squares, share = tasks.T
    freedom = float((total * (1.0 - share)).sum())
    return max(float(squares.sum()) / freedom, 0.0) if freedom > 1e-9 * float(total.sum()) else None


def differences(workers: Array, variance: float) -> tuple[Array, Array]:
    """Mean and standard deviation of workers' differences from the values; the crowd's deviation for one rating."""
    total, away, squares = workers.T
    bias = np.divide(away, total, out=np.zeros_like(away), where=total > 0)
    rest = np.maximum(squares - away * bias, 0.0)
    noise = np.divide(rest, total - 1.0, out=np.full_like(away, variance), where=total > 1.5)
    return bias, np.sqrt(noise)


class Mean(_Simple):
    """The mean of the ratings of each task.

    Standard errors are those of means of independent ratings whose variance about their tasks is the same everywhere
    (pooled). A weight counts a rating so many times. A worker's bias is the mean difference from the values.

    Notes
    -----
    O(ratings) time, no memory beyond the answer.

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
    """How many times the variance of a mean of so many normal ratings that of their median is: from 1 to π/2.

    Within a hundredth for whole numbers; the mean of two in the middle, of an even number, is more efficient.
    """
    even = 0.5 + 0.5 * np.cos(math.pi * counts)  # 1 for even numbers, 0 for odd ones
    return np.maximum(1.0, math.pi / 2 * counts / (counts + 0.5 + 0.78 * even))


class Median(_Simple):
    """The median of the ratings of each task, of each number for itself.

    Weights count ratings; with an even number of them it lies halfway between the two in the middle. Standard errors
    are those of medians of normal ratings, by up to √(π/2) larger than those of means: too large where workers differ
    in noise (90 % intervals then hold 91 to 96 %).

    Notes
    -----
    O(ratings · log(ratings of a task)) time. Where most workers give the same number, zero say, a median drops what the
    others tell: on such data it is worse than the mean.

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
    """The mean of the ratings of each task without a share of them at either end.

    Parameters
    ----------
    trim
        The share left out at either end, from 0 (the mean) to 0.5 (the median). A rating at the edge counts with the
        part of its weight that is within: of four ratings, a tenth leaves six tenths of the lowest and highest.

    Notes
    -----
    Standard errors are those of the mean, raised towards the median's with the share that is left out.
    O(ratings · log(ratings of a task)) time.

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
    """Means by weights."""

    #: The weight of each worker.
    weights: Array = field(metadata=numbers("m"))


class WeightedMean(_Simple):
    """The mean of the ratings of each task, where workers count by weights that are given.

    Parameters
    ----------
    weights
        A mapping from every worker to a weight, 0 or a positive number; it must be given. A task whose raters all have
        weight 0 has the plain mean of their ratings.

    Notes
    -----
    A worker that ``predict`` meets for the first time has the average weight. O(ratings) time.

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
        """The weight of each worker, (n_workers,)."""
        return self._fitted().fit_as(WeightedValueFit).weights

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        return WeightedValueFit(**vars(super()._fit(votes, progress)), weights=self._given_weights(votes))

    def _weights_for(self, now: ValueFitted, known: npt.NDArray[np.int64]) -> Array | None:
        return now.carried_over(now.fit_as(WeightedValueFit).weights, known)

    def _given_weights(self, ratings: Ratings) -> Array:
        if not isinstance(self.weights, Mapping):
            raise TypeError(f"weights must be a mapping from workers to numbers, not {self.weights!r}")
        place = sequence(self.weights).match(ratings._workers) if len(self.weights) else np.full(ratings.n_workers, -1)
        if (place < 0).any():
            raise ValueError(
                f"weights lack the workers {listed(ratings.workers[place < 0].tolist())}; give each a number"
            )
        given = np.asarray(list(self.weights.values()), np.float64)[place]
        if not countable(given).all():
            odd = ratings.workers[~countable(given)].tolist()
            raise ValueError(f"weights of the workers {listed(odd)} are neither 0 nor between 1e-30 and 1e15")
        return given

    def _middle(self, table: _core.Ratings, view: tuple[int, float, float], means: Array) -> Array:
        return means
