"""Table of numeric answers by task and worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base import persist
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import plural
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Values, in_groups
from manyhands._base.ids import Ids
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands._base.task_table import Answers, Parsed, Payload


class Ratings(Answers):
    """Immutable, sparse table of (task, worker, value) rows with numbers or points as values.

    Build it with :meth:`from_frame` or :meth:`from_arrays`, or read a file with :func:`manyhands.read` and
    ``kind="numeric"``. Ids, repeats and missing answers are handled as in :class:`~manyhands.Annotations`: rows without
    a value (null, NaN), or with an incomplete point, are set aside with a warning. Infinite values raise.

    Memory: 4 bytes per row and 8 per number (8 more with weights), and 4 per task, plus names.

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
    spec: ClassVar[KindSpec] = KindSpec(
        word="numeric",
        required=("task", "worker", "value"),
        numbers=frozenset({"value", "weight"}),
        settings=("repeats", "missing"),
        telling=(("value",),),
        parts=("dimensions",),
        reliability=True,
        note=(
            "A bias that all workers share cannot be identified from their answers. Values and intervals may lie "
            "outside the range of the answers, because each worker's bias is removed."
        ),
    )
    _table: _core.Ratings
    _dimensions: Names

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
        frame : DataFrame, Arrow table or mapping of columns
            The log, one row per answer. Any object with the Arrow PyCapsule interface works.
        task, worker : str, optional
            Column names, as for :meth:`Annotations.from_frame`.
        value : str or list of str, optional
            Column of values (well-known names are ``value``, ``score``, ``rating`` and ``number``), or several columns
            for points, such as ``["x", "y"]``.
        weight, repeats, missing
            As for :meth:`Annotations.from_frame`.

        Returns
        -------
        Ratings
            The table.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"item": [1, 1, 2], "rater": ["u", "v", "u"], "x": [0.5, 1.5, 2.0], "y": [4, 4, 3]}
        >>> mh.Ratings.from_frame(log, value=["x", "y"])
        <Ratings: 3 ratings of 2 tasks by 2 workers, 2 numbers each>
        """
        columns = {"task": task, "worker": worker, "value": value}
        return cls._of_frame(frame, columns, {"weight": weight}, repeats=repeats, missing=missing)

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
        """Build a table from columns of equal length; values have shape (rows,) or (rows, dimensions).

        For the other parameters, see :meth:`from_frame`.
        """
        settings = {"repeats": repeats, "missing": missing}
        if np.ndim(values) != 2:
            return cls._of_arrays(settings, tasks=tasks, workers=workers, values=values, weights=weights)
        ids = {"task": Column(tasks, "tasks"), "worker": Column(workers, "workers")}
        numbers = [(column, f"values[:, {place}]") for place, column in enumerate(np.asarray(values).T)]
        others = {"value": numbers} | ({} if weights is None else {"weight": [(weights, "weights")]})
        return cls._of_columns(Columns(ids, others), repeats=repeats, missing=missing)

    @classmethod
    def _parsed(cls, columns: Columns) -> Parsed:
        value_columns = columns.others["value"]
        values = [checks.checked_values(*column) for column in value_columns]
        sizes = {what: len(each) for each, (_, what) in zip(values, value_columns, strict=True)}
        if len(set(sizes.values())) > 1:
            checks.check_sizes(sizes, "(task, worker, value)")
        points = np.stack(values, axis=1)
        absent: npt.NDArray[np.bool_] = np.asarray(np.isnan(points).any(axis=1))

        def encode(ids: Ids) -> Payload:
            return Payload(points[~absent] if absent.any() else points, parts=(_dimensions(value_columns),))

        return Parsed(sizes, encode, absent)

    @classmethod
    def _compiled(
        cls,
        tasks: Codes,
        workers: Codes,
        payload: Payload,
        weights: npt.NDArray[np.float64] | None,
        n_tasks: int,
        n_workers: int,
        repeats: str = "keep",
    ) -> _core.Ratings:
        return _core.Ratings(tasks, workers, payload.answers, weights, n_tasks, n_workers, repeats)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.Ratings:
        """Compiled table of codes and values (read-only), as passed to the kernels."""
        return self._table

    @property
    def n_dims(self) -> int:
        """Numbers per answer: 1, or more for points."""
        return self._table.dims

    @property
    def dimensions(self) -> npt.NDArray[Any]:
        """Names of the numbers of an answer, in order."""
        return self._dimensions.values

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """Values in the order of :meth:`to_frame`, shape (n_annotations,), or (n_annotations, n_dims) for points."""
        return self.codes()[2]

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.float64]]:
        """Return task code, worker code and value of every answer in task order, as new arrays."""
        tasks, workers, values = self._table.columns()
        return tasks, workers, values[:, 0] if self.n_dims == 1 else values

    def _facts(self) -> Iterable[Fact]:
        values, groups, n_without = self._table.columns()[2], self._table.n_components(), len(self._unlabelled)
        yield Fact("n_annotations", self.n_annotations, "ratings")
        yield Fact("n_tasks", self.n_tasks, "tasks", f"{self.n_tasks:,}  (and {n_without:,} without a value)")
        yield Fact("n_workers", self.n_workers, "workers", f"{self.n_workers:,}  ({in_groups(groups)})")
        yield Fact("n_unlabelled", n_without)
        yield Fact("n_components", groups)
        spread = {
            str(name): Values(*(float(f(column)) for f in (np.min, np.median, np.mean, np.max, np.std)))
            for name, column in zip(self.dimensions.tolist(), values.T, strict=True)
        }
        yield Fact("values", spread)
        yield from (Fact("", str(each), name) for name, each in spread.items())
        overlap = float(np.mean(self.labels_per_task > 1))
        yield from self._spreads("ratings")
        yield Fact("overlap", overlap, "overlap", f"{overlap:.1%} of tasks have two or more ratings")

    def __repr__(self) -> str:
        ratings = plural(self.n_annotations, "rating")
        tasks, workers = plural(self.n_tasks, "task"), plural(self.n_workers, "worker")
        each = f", {self.n_dims} numbers each" if self.n_dims > 1 else ""
        weighted = ", weighted" if self.weights is not None else ""
        return f"<Ratings: {ratings} of {tasks} by {workers}{each}{weighted}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self.n_dims)

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        return dict(zip(self.dimensions.tolist(), said.T, strict=True))

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        return {"values": said} | persist.pack_names("dimensions", self._dimensions)

    @classmethod
    def _unpacked(cls, content: persist.Content, task_codes: Codes, tasks: Names) -> Payload:
        dimensions = content.names("dimensions")
        values = content.array("values", np.float64, shape=(len(task_codes), len(dimensions)))
        return Payload(values, parts=(dimensions,))


def _dimensions(value_columns: list[tuple[Any, str]]) -> Names:
    """Names of the numbers of an answer: ``value``, or the column names."""
    if len(value_columns) == 1:
        return Names(np.array(["value"], object))
    return Names(np.array([what.partition("column ")[2].strip("'\"") or what for _, what in value_columns], object))
