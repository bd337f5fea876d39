"""Base class of numeric aggregators: values with errors, worker parameters, prediction, persistence."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import check_between, plural
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, names, numbers
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands._base.results import Columns, reliability
from manyhands.numeric.table import Ratings

if TYPE_CHECKING:
    import pyarrow as pa

#: Level of `intervals_`.
LEVEL = 0.9


@dataclass(frozen=True, kw_only=True)
class ValueFit(Fit):
    """Estimates for numeric answers; shapes are (tasks, dimensions) and (workers, dimensions)."""

    values: Array = field(metadata=numbers("nd"))
    #: Standard errors of the values.
    errors: Array = field(metadata=numbers("nd", least=0))
    #: Mean deviation of a worker at a value of average size.
    bias: Array = field(metadata=numbers("md"))
    #: Slope of a worker's ratings against the values.
    scale: Array = field(metadata=numbers("md"))
    #: Residual standard deviation.
    noise: Array = field(metadata=numbers("md", least=0))


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueFitted(TaskFitted[ValueFit]):
    """Fitted state of a numeric aggregator, with the names of the dimensions."""

    dimensions: Names = field(metadata=names("d"))


class NumericAggregator(TaskEstimator[Ratings, ValueFit, ValueFitted]):
    """Base class of numeric aggregators. Subclasses implement ``_fit`` and ``_predict``."""

    _kind: ClassVar[str] = "numeric"
    _answer: ClassVar[str] = "values_"
    _fit_type: ClassVar[type[Fit]] = ValueFit
    _fitted_type: ClassVar[type[ValueFitted]] = ValueFitted

    # --------------------------------------------------------------------------------------------------- fit

    def _check_room(self, votes: Ratings) -> None:
        # Values, errors, scratch space and worker parameters.
        n_bytes = 8 * votes.n_dims * (6 * votes.n_tasks + 24 * votes.n_workers)
        tasks, workers = plural(votes.n_tasks, "task"), plural(votes.n_workers, "worker")
        check_memory(n_bytes, f"{type(self).__name__} of {tasks} and {workers}", "fit fewer tasks at a time")

    # ----------------------------------------------------------------------------------------------- results

    def _flat(self, array: Array) -> Array:
        """Drop the last axis if there is a single dimension."""
        return array[:, 0] if array.shape[1] == 1 else array

    @property
    def values_(self) -> Array:
        """Value of each task, shape (n_tasks,), or (n_tasks, n_dims) for points."""
        return self._flat(self._fitted().fit.values)

    @property
    def errors_(self) -> Array:
        """Standard error of each value, same shape as :attr:`values_`."""
        return self._flat(self._fitted().fit.errors)

    @property
    def confidence_(self) -> Array:
        """Reliability of each value, shape (n_tasks,): V / (V + error²) with V the variance of the values.

        1 means that the value has no error. For points, the minimum over dimensions. See :meth:`intervals` for
        intervals.
        """
        return self._reliability(self._fitted().fit)

    def _reliability(self, fit: ValueFit) -> Array:
        least: Array = np.min([reliability(*each) for each in zip(fit.values.T, fit.errors.T, strict=True)], axis=0)
        return least

    @property
    def intervals_(self) -> Array:
        """90 % intervals, shape (n_tasks, 2), or (n_tasks, n_dims, 2) for points; see :meth:`intervals`."""
        return self.intervals()

    def intervals(self, level: float = LEVEL) -> Array:
        """Return the lower and upper ends of intervals, shape (n_tasks, 2), or (n_tasks, n_dims, 2) for points.

        Parameters
        ----------
        level : float, default 0.9
            Share of true values that the intervals should contain, assuming normal errors of size :attr:`errors_`.

        Returns
        -------
        ndarray
            Lower and upper ends on the last axis.
        """
        return np.stack([self._flat(end) for end in self._ends(self._fitted().fit, level)], axis=-1)

    def _ends(self, fit: ValueFit, level: float) -> tuple[Array, Array]:
        """Lower and upper ends, (n_tasks, n_dims)."""
        # Imported here to keep `import manyhands` fast.
        from statistics import NormalDist

        check_between("level", level, such_as=LEVEL)
        # Ends that overflow are clipped to the largest finite number.
        with np.errstate(over="ignore"):
            margin = NormalDist().inv_cdf(0.5 + level / 2) * fit.errors
            ends = fit.values - margin, fit.values + margin
        largest = np.finfo(np.float64).max
        low, high = (np.clip(end, -largest, largest) for end in ends)
        return low, high

    @property
    def bias_(self) -> Array:
        """Mean deviation of each worker at an average value, shape (n_workers,), or (n_workers, n_dims) for points."""
        return self._flat(self._fitted().fit.bias)

    @property
    def scale_(self) -> Array:
        """Slope of each worker's ratings against the values, same shape as :attr:`bias_`."""
        return self._flat(self._fitted().fit.scale)

    @property
    def noise_(self) -> Array:
        """Residual standard deviation of each worker's ratings, same shape as :attr:`bias_`."""
        return self._flat(self._fitted().fit.noise)

    def _columns(self, now: ValueFitted, **arrays: Array) -> dict[str, Array]:
        """Columns of a frame; with several dimensions prefixed by their names: ``x_bias``, ``y_bias``."""
        dimension_names = now.dimensions.values.tolist()
        if len(dimension_names) == 1:
            return {what: array[:, 0] for what, array in arrays.items()}
        columns = {
            (name, what): array[:, i] for i, name in enumerate(dimension_names) for what, array in arrays.items()
        }
        return {name if what == "value" else f"{name}_{what}": column for (name, what), column in columns.items()}

    def to_frame(self) -> pa.Table:
        """Return the task, value, confidence, standard error and 90 % interval of each task as an Arrow table.

        Columns: ``task``, ``value``, ``confidence``, ``error``, ``low``, ``high``. The schema metadata contains the
        ``level``. With several dimensions: ``x``, ``y``, …, ``confidence``, ``x_error``, ``x_low``, ``x_high``, ….
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
        # Scaled so that squares do not overflow.
        unit = np.maximum(np.abs(fit.values).max(axis=0, initial=0.0), np.abs(fit.noise).max(axis=0, initial=0.0))
        unit = np.where(unit > 0, unit, 1.0)
        signal = fit.scale * np.std(fit.values / unit, axis=0)
        with np.errstate(invalid="ignore"):
            skill = (signal / np.hypot(signal, fit.noise / unit)).mean(axis=1)
        return {"skill": skill} | self._columns(now, bias=fit.bias, scale=fit.scale, noise=fit.noise)

    # -------------------------------------------------------------------------------------------- prediction

    def predict(self, votes: Any) -> Array:
        """Return values of new or old tasks, using the fitted worker parameters.

        Parameters
        ----------
        votes : Ratings or anything that converts to it
            Ratings of the tasks. Workers that were not in ``fit`` get the average worker's parameters.

        Returns
        -------
        ndarray of shape (votes.n_tasks,) or (votes.n_tasks, n_dims)
            Value of each task.
        """
        now = self._fitted()
        ratings = Ratings._as_table(votes)
        if ratings.n_dims != len(now.dimensions):
            raise ValueError(
                f"the ratings have {plural(ratings.n_dims, 'number')} each, but the model was fitted to "
                f"{len(now.dimensions)}: {', '.join(map(str, now.dimensions.values.tolist()))}"
            )
        return self._flat(self._predict(now, ratings, now.workers.match(ratings._workers)))

    @abstractmethod
    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        """Return values, (tasks, dimensions); ``known[m]`` is the code in ``fit`` of worker m, or -1."""
