"""The table of numbers: who gave which task what value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base import persist
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import check_choice, counted
from manyhands._base.columns import Columns
from manyhands._base.description import RatingsDescription, Spread, Values
from manyhands._base.ids import encode_ids
from manyhands._base.names import Codes, Column, Names
from manyhands._base.task_table import Answers


class Ratings(Answers):
    """An immutable, sparse table of (task, worker, value) rows, where values are numbers or points of several numbers.

    Made by one of the constructors below or by :func:`manyhands.read` with ``kind="numeric"``. Ids are those of
    :class:`~manyhands.Annotations`, and so are repeats and missing answers: a row without a value (null, NaN) is set
    aside with a warning, one of several numbers if any of them is missing. Infinite values are refused.

    Memory: 4 bytes a row and 8 for each of its numbers (8 more with weights) and 4 a task, besides the names.

    Examples
    --------
    >>> import manyhands as mh
    >>> ratings = mh.Ratings.from_arrays(["a", "a", "b"], ["ann", "bob", "ann"], [3.5, 4.0, 1.0])
    >>> ratings
    <Ratings: 3 ratings of 2 tasks by 2 workers>
    >>> ratings.values.tolist()
    [3.5, 4.0, 1.0]
    """

    __slots__ = ("_dimensions",)
    _kind: ClassVar[str] = "numeric"
    _roles: ClassVar[tuple[str, ...]] = ("task", "worker", "value")
    _numbers: ClassVar[frozenset[str]] = frozenset({"value", "weight"})
    _settings: ClassVar[tuple[str, ...]] = ("repeats", "missing")
    _telling: ClassVar[tuple[tuple[str, ...], ...]] = (("value",),)
    _file_kind: ClassVar[str] = "ratings"
    _table: _core.Ratings

    def __init__(
        self,
        table: _core.Ratings,
        tasks: Names,
        workers: Names,
        dimensions: Names,
        unlabelled: Names | None = None,
    ) -> None:
        super().__init__(table, tasks, workers, unlabelled)
        self._dimensions = dimensions

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        value: str | Iterable[str] | None = None,
        weight: str | None = None,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame
            The log, one row an answer. Anything with the Arrow PyCapsule interface will do.
        task, worker
            Column names, as for :meth:`Annotations.from_frame`.
        value
            The column of values (well known are ``value``, ``score``, ``rating``, ``number``), or several, such as
            ``["x", "y"]`` for points.
        weight, repeats, missing
            As for :meth:`Annotations.from_frame`.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"item": [1, 1, 2], "rater": ["u", "v", "u"], "x": [0.5, 1.5, 2.0], "y": [4, 4, 3]}
        >>> mh.Ratings.from_frame(log, value=["x", "y"])
        <Ratings: 3 ratings of 2 tasks by 2 workers, 2 numbers each>
        """
        given = {"task": task, "worker": worker, "value": value}
        return cls._of_frame(frame, given, {"weight": weight}, repeats=repeats, missing=missing)

    @classmethod
    def from_arrays(
        cls,
        tasks: Any,
        workers: Any,
        values: Any,
        weights: Any = None,
        *,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from columns of equal length: ids of tasks and workers, and values, (rows,) or (rows, numbers).

        Other parameters are those of :meth:`from_frame`.
        """
        ids = {"task": Column(tasks, "tasks"), "worker": Column(workers, "workers")}
        points = values if np.ndim(values) == 2 else None
        if points is None:
            numbers = [(values, "values")]
        else:
            numbers = [(column, f"values[:, {place}]") for place, column in enumerate(np.asarray(points).T)]
        others = {"value": numbers} | ({} if weights is None else {"weight": [(weights, "weights")]})
        return cls._of_columns(Columns(ids, others), repeats=repeats, missing=missing)

    @classmethod
    def _of_columns(cls, columns: Columns, *, repeats: Repeats = "keep", missing: Missing = "drop") -> Self:
        check_choice("repeats", repeats, ("keep", "first", "last", "error"))
        check_choice("missing", missing, ("drop", "error"))
        tasks, workers, given = columns.ids["task"], columns.ids["worker"], columns.others["value"]
        weights = columns.only("weight")
        values = [checks.checked_values(*column) for column in given]
        numbers = None if weights is None else checks.checked_weights(*weights)
        sizes = {
            "tasks": len(tasks),
            "workers": len(workers),
            **{what: len(v) for v, (_, what) in zip(values, given, strict=True)},
        }
        checks.check_sizes(sizes if numbers is None else sizes | {"weights": len(numbers)}, "(task, worker, value)")
        checks.refuse_missing_ids(tasks, workers)
        points = np.stack(values, axis=1)
        absent: npt.NDArray[np.bool_] = np.asarray(np.isnan(points).any(axis=1))
        keep: Any = slice(None)
        if absent.any():
            checks.refuse_missing_answers(", ".join(what for _, what in given), absent, missing)
            keep = ~absent
        ids = encode_ids(tasks, workers, absent if absent.any() else None, said="value")
        table = _core.Ratings(
            ids.task_codes,
            ids.worker_codes,
            points[keep],
            None if numbers is None else numbers[keep],
            len(ids.tasks),
            len(ids.workers),
            "keep" if repeats == "error" else repeats,
        )
        if repeats == "error":
            checks.refuse_repeats(table, ids.tasks, ids.workers)
        return cls(table, ids.tasks, ids.workers, _dimensions(given), ids.unlabelled)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.Ratings:
        """The compiled table of codes and values: frozen, and what kernels take."""
        return self._table

    @property
    def n_dims(self) -> int:
        """Numbers of an answer: 1, or more for points."""
        return self._table.dims

    @property
    def dimensions(self) -> npt.NDArray[Any]:
        """Names of the numbers of an answer, in their order."""
        return self._dimensions.values

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """Values in the order of :meth:`to_frame`: (n_annotations,), or (n_annotations, n_dims) for points."""
        return self.codes()[2]

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.float64]]:
        """Task and worker code and value of every answer, in task order: fresh arrays."""
        tasks, workers, values = self._table.columns()
        return tasks, workers, values[:, 0] if self.n_dims == 1 else values

    def describe(self) -> RatingsDescription:
        """Summarise the table: sizes, answers of a task and of a worker, how values are spread. O(answers)."""
        values = self._table.columns()[2]
        return RatingsDescription(
            n_annotations=self.n_annotations,
            n_tasks=self.n_tasks,
            n_workers=self.n_workers,
            n_unlabelled=len(self._unlabelled),
            n_repeats=self._table.n_repeats(),
            labels_per_task=Spread.of(self.labels_per_task),
            labels_per_worker=Spread.of(self.labels_per_worker),
            overlap=float(np.mean(self.labels_per_task > 1)),
            n_components=self._table.n_components(),
            values={
                str(name): Values(*(float(f(column)) for f in (np.min, np.median, np.mean, np.max, np.std)))
                for name, column in zip(self.dimensions.tolist(), values.T, strict=True)
            },
        )

    def __repr__(self) -> str:
        ratings = counted(self.n_annotations, "rating")
        tasks, workers = counted(self.n_tasks, "task"), counted(self.n_workers, "worker")
        each = f", {self.n_dims} numbers each" if self.n_dims > 1 else ""
        weighted = ", weighted" if self.weights is not None else ""
        return f"<Ratings: {ratings} of {tasks} by {workers}{each}{weighted}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self.n_dims)

    def _part(self, table: _core.Ratings, tasks: Names, workers: Names, unlabelled: Names) -> Self:
        return type(self)(table, tasks, workers, self._dimensions, unlabelled)

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        return dict(zip(self.dimensions.tolist(), said.T, strict=True))

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        return {"values": said} | persist.pack_names("dimensions", self._dimensions)

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        tasks, workers, unlabelled = cls._names_in(content)
        task_codes, worker_codes, weights = cls._links_in(content)
        dimensions = content.names("dimensions")
        values = content.array("values", np.float64, shape=(len(task_codes), len(dimensions)))
        table = _core.Ratings(task_codes, worker_codes, values, weights, len(tasks), len(workers))
        return cls(table, tasks, workers, dimensions, unlabelled)

    def __reduce__(self) -> tuple[Any, ...]:
        names = (self._tasks, self._workers, self._dimensions, self._unlabelled)
        return _unpickle, (type(self), self._table.columns(), self.weights, names)


def _unpickle(cls: type[Ratings], columns: tuple[Any, Any, Any], weights: Any, names: tuple[Names, ...]) -> Ratings:
    return cls(_core.Ratings(*columns, weights, len(names[0]), len(names[1])), *names)


def _dimensions(given: list[tuple[Any, str]]) -> Names:
    """Names of the numbers of an answer: ``value``, or those of the columns."""
    if len(given) == 1:
        return Names(np.array(["value"], object))
    return Names(np.array([what.partition("column ")[2].strip("'\"") or what for _, what in given], object))
