"""What all aggregators of numbers share: values with errors, workers by how they rate, prediction, files."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import check_between, counted
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, names, numbers
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands._base.results import Columns, reliability
from manyhands.numeric.table import Ratings

if TYPE_CHECKING:
    import pyarrow as pa

#: The level of `intervals_`.
LEVEL = 0.9


@dataclass(frozen=True, kw_only=True)
class ValueFit(Fit):
    """What an aggregator learns from a table of numbers, of shapes (tasks, numbers) and (workers, numbers)."""

    values: Array = field(metadata=numbers("nd"))
    #: Standard errors of the values.
    errors: Array = field(metadata=numbers("nd", least=0))
    #: What a worker adds to a value of average size.
    bias: Array = field(metadata=numbers("md"))
    #: By how much a worker's ratings change where the value changes by one.
    scale: Array = field(metadata=numbers("md"))
    #: Standard deviation of what is left.
    noise: Array = field(metadata=numbers("md", least=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueFitted(TaskFitted[ValueFit]):
    """A fit of numbers, and what they are called."""

    dimensions: Names = field(metadata=names("d"))


class NumericAggregator(TaskEstimator[Ratings, ValueFit, ValueFitted]):
    """Base of all aggregators of numbers: a subclass gives ``_fit`` and ``_predict``."""

    _kind: ClassVar[str] = "numeric"
    _file_kind: ClassVar[str] = "numeric"
    _answer: ClassVar[str] = "values_"
    _fit_type: ClassVar[type[Fit]] = ValueFit
    _fitted_type: ClassVar[type[ValueFitted]] = ValueFitted

    # --------------------------------------------------------------------------------------------------- fit

    def _check_room(self, votes: Ratings) -> None:
        # Values, errors and scratch of a pass, and what is known of workers.
        needed = 8 * votes.n_dims * (6 * votes.n_tasks + 24 * votes.n_workers)
        tasks, workers = counted(votes.n_tasks, "task"), counted(votes.n_workers, "worker")
        check_memory(needed, f"{type(self).__name__} of {tasks} and {workers}", "fit the tasks in parts")

    # ----------------------------------------------------------------------------------------------- results

    def _flat(self, array: Array) -> Array:
        """One column as a list of numbers."""
        return array[:, 0] if array.shape[1] == 1 else array

    @property
    def values_(self) -> Array:
        """The value of each task, (n_tasks,), or (n_tasks, n_dims) for points."""
        return self._flat(self._fitted().fit.values)

    @property
    def errors_(self) -> Array:
        """The standard error of each value, of the same shape."""
        return self._flat(self._fitted().fit.errors)

    @property
    def confidence_(self) -> Array:
        """Reliability of each value, (n_tasks,): V / (V + error²), with V the variance of the values; 1 is exact.

        A number is never exactly right: this is the share of what sets the values apart that is not error, for points
        that of the least reliable number. See :meth:`intervals` for intervals.
        """
        return self._reliability(self._fitted().fit)

    def _reliability(self, fit: ValueFit) -> Array:
        least: Array = np.min([reliability(*each) for each in zip(fit.values.T, fit.errors.T, strict=True)], axis=0)
        return least

    @property
    def intervals_(self) -> Array:
        """Intervals that hold nine values in ten, (n_tasks, 2), or (n_tasks, n_dims, 2); see :meth:`intervals`."""
        return self.intervals()

    def intervals(self, level: float = LEVEL) -> Array:
        """Lower and upper ends of intervals about the values, (n_tasks, 2), or (n_tasks, n_dims, 2) for points.

        Parameters
        ----------
        level
            The share of values that they are to hold; by normal errors of the size :attr:`errors_`.
        """
        return np.stack([self._flat(end) for end in self._ends(self._fitted().fit, level)], axis=-1)

    def _ends(self, fit: ValueFit, level: float) -> tuple[Array, Array]:
        """Lower and upper ends, (n_tasks, n_dims)."""
        # Not worth a place in every import of the library.
        from statistics import NormalDist

        check_between("level", level, such_as=LEVEL)
        # Of the largest numbers that there are, ends are no larger.
        with np.errstate(over="ignore"):
            away = NormalDist().inv_cdf(0.5 + level / 2) * fit.errors
            ends = fit.values - away, fit.values + away
        largest = np.finfo(np.float64).max
        low, high = (np.clip(end, -largest, largest) for end in ends)
        return low, high

    @property
    def bias_(self) -> Array:
        """What each worker adds to a value of average size, (n_workers,), or (n_workers, n_dims) for points."""
        return self._flat(self._fitted().fit.bias)

    @property
    def scale_(self) -> Array:
        """By how much each worker's ratings rise where the value rises by one, of the shape of :attr:`bias_`."""
        return self._flat(self._fitted().fit.scale)

    @property
    def noise_(self) -> Array:
        """Standard deviation of what bias and scale leave of each worker's ratings, of the shape of :attr:`bias_`."""
        return self._flat(self._fitted().fit.noise)

    def _columns(self, now: ValueFitted, **arrays: Array) -> dict[str, Array]:
        """Columns of a frame, named after the numbers where there are several: ``x_bias``, ``y_bias``."""
        called = now.dimensions.values.tolist()
        if len(called) == 1:
            return {what: array[:, 0] for what, array in arrays.items()}
        columns = {(name, what): array[:, i] for i, name in enumerate(called) for what, array in arrays.items()}
        return {name if what == "value" else f"{name}_{what}": column for (name, what), column in columns.items()}

    def to_frame(self) -> pa.Table:
        """Return task, value, ``confidence``, ``error`` and the 90 % interval, ``low`` to ``high``, as an Arrow table.

        ``error`` is the standard error. The metadata of the schema holds the ``level`` of the interval. With several
        numbers they go by their names: ``x``, ``y``, …, ``confidence``, ``x_error``, ``x_low``, ``x_high``, ….
        """
        return super().to_frame()

    def _to_frame(self, now: ValueFitted) -> pa.Table:
        low, high = self._ends(now.fit, LEVEL)
        values = self._columns(now, value=now.fit.values)
        rest = self._columns(now, error=now.fit.errors, low=low, high=high)
        frame = arrow.table({"task": now.tasks.arrow(), **values, "confidence": self._reliability(now.fit), **rest})
        return frame.replace_schema_metadata({"level": str(LEVEL)})

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        now = self._fitted()
        ratings = np.stack([arrow.to_numpy(column) for column in rows.columns[1 : 1 + len(now.dimensions)]], axis=1)
        return self._columns(now, residual=ratings - now.fit.values[place])

    def _skills(self) -> Columns:
        now = self._fitted()
        fit = now.fit
        # In units in which no square overflows.
        unit = np.maximum(np.abs(fit.values).max(axis=0, initial=0.0), np.abs(fit.noise).max(axis=0, initial=0.0))
        unit = np.where(unit > 0, unit, 1.0)
        signal = fit.scale * np.std(fit.values / unit, axis=0)
        with np.errstate(invalid="ignore"):
            skill = (signal / np.hypot(signal, fit.noise / unit)).mean(axis=1)
        return {"skill": skill} | self._columns(now, bias=fit.bias, scale=fit.scale, noise=fit.noise)

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, votes: Any) -> Array:
        """Values of tasks, old or new, from ratings by known workers: (votes.n_tasks,), or (votes.n_tasks, n_dims).

        Workers are as they were learnt; one who was not seen in ``fit`` counts as the crowd's average worker.
        """
        now = self._fitted()
        ratings = Ratings._as_table(votes)
        if ratings.n_dims != len(now.dimensions):
            raise ValueError(
                f"ratings of {counted(ratings.n_dims, 'number')} each, for a model of {len(now.dimensions)}: "
                f"{', '.join(map(str, now.dimensions.values.tolist()))}"
            )
        return self._flat(self._predict(now, ratings, now.workers.match(ratings._workers)))

    @abstractmethod
    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        """Values of ratings whose worker m was worker known[m] in fit, or nobody where that is -1: (tasks, numbers)."""
