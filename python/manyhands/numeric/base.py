"""What all aggregators of numbers share: values with errors, workers by how they rate, prediction, files."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import check_between, counted
from manyhands._base.estimator import Array, TaskModel
from manyhands._base.fitted import Fit, TaskFitted, names, numbers
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
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
    spread: Array = field(metadata=numbers("nd", least=0))
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


class NumericAggregator(TaskModel[Ratings, ValueFit, ValueFitted]):
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
    def spread_(self) -> Array:
        """The standard error of each value, of the same shape."""
        return self._flat(self._fitted().fit.spread)

    @property
    def confidence_(self) -> Array:
        """NaN, (n_tasks,): a number is never exactly right. Use :attr:`spread_` and :meth:`intervals`."""
        return super().confidence_

    @property
    def intervals_(self) -> Array:
        """Intervals that hold nine values in ten, (n_tasks, 2), or (n_tasks, n_dims, 2); see :meth:`intervals`."""
        return self.intervals()

    def intervals(self, level: float = LEVEL) -> Array:
        """Lower and upper ends of intervals about the values, (n_tasks, 2), or (n_tasks, n_dims, 2) for points.

        Parameters
        ----------
        level
            The share of values that they are to hold; by normal errors of the size :attr:`spread_`.
        """
        return np.stack([self._flat(end) for end in self._ends(self._fitted().fit, level)], axis=-1)

    def _ends(self, fit: ValueFit, level: float) -> tuple[Array, Array]:
        """Lower and upper ends, (n_tasks, n_dims)."""
        # Not worth a place in every import of the library.
        from statistics import NormalDist

        check_between("level", level, such_as=LEVEL)
        # Of the largest numbers that there are, ends are no larger.
        with np.errstate(over="ignore"):
            away = NormalDist().inv_cdf(0.5 + level / 2) * fit.spread
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
        """Return task, value, standard error and the ends of its 90 % interval, as an Arrow table (``.to_pandas()``).

        With several numbers they go by their names: ``x``, ``x_spread``, ``x_lower``, ``x_upper``, ``y``, ….
        """
        return super().to_frame()

    def _to_frame(self, now: ValueFitted) -> pa.Table:
        low, high = self._ends(now.fit, LEVEL)
        columns = self._columns(now, value=now.fit.values, spread=now.fit.spread, lower=low, upper=high)
        return arrow.table({"task": now.tasks.arrow(), **columns})

    def tasks_frame(self) -> pa.Table:
        """Return one row a task, as an Arrow table: what to look at first.

        The columns of :meth:`to_frame`, and ``n_labels``, the ratings that a value rests on, where the fit was made in
        this process.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"task": ["a", "a", "b"], "worker": [1, 2, 1], "value": [1.0, 3.0, 5.0]}
        >>> mh.numeric.Mean().fit(log).tasks_frame().sort_by([("spread", "descending")]).column("n_labels").to_pylist()
        [1, 2]
        """
        return self._beside_answers(self._fitted())

    def workers_frame(self) -> pa.Table:
        """Return one row a worker, as an Arrow table: ``n_labels``, ``bias``, ``scale`` and ``noise``.

        Bias is what the worker adds to a value of average size, scale by how much the worker's ratings rise where the
        value rises by one, noise the standard deviation of the rest. With several numbers: ``x_bias``, ``y_bias``, ….
        """
        now = self._fitted()
        columns = self._columns(now, bias=now.fit.bias, scale=now.fit.scale, noise=now.fit.noise)
        return arrow.table({"worker": now.workers.arrow(), "n_labels": now.n_labels, **columns})

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
