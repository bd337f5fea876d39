"""Table of segmentation masks by task and worker."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import persist
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import plural, warn_of_data
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Spread
from manyhands._base.ids import Ids
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Names
from manyhands._base.task_table import Answers, Parsed, Payload
from manyhands.masks.runs import (
    OneMask,
    ParsedMask,
    Runs,
    checked_size,
    from_polygons,
    from_rle,
    runs_of,
    to_array,
    to_rle,
)

#: Value of marked pixels in black-and-white images.
_WHITE = 255
_NOTHING: OneMask = (np.zeros(0, np.int64),) * 3


class Masks(Answers):
    """Immutable table of (task, worker, mask) rows: the class of each pixel of an image.

    Build it with :meth:`from_arrays`, :meth:`from_frame` or :meth:`from_polygons`, or read a file with
    :func:`manyhands.read` and ``kind="masks"``. A mask is an array of booleans or integers with 0 for background; all
    masks of a task have the same shape. If all masks contain only 0 and 255, the value 255 is treated as marked, with a
    warning. Ids and repeats are as in :class:`~manyhands.Annotations`. A mask that is None is set aside with a warning;
    an empty mask is an answer.

    Memory: 24 bytes per run of equal pixels and 8 per row (8 more with weights), plus names. An outline has about one
    run per row of pixels.

    Examples
    --------
    >>> import manyhands as mh
    >>> import numpy as np
    >>> square = np.zeros((4, 4), bool)
    >>> square[1:3, 1:3] = True
    >>> mh.Masks.from_arrays(["a", "a"], ["u", "v"], [square, ~square])
    <Masks: 2 masks of 1 task by 2 workers, 2 classes>
    """

    __slots__ = ("_n_classes", "_runs", "_shapes")
    spec: ClassVar[KindSpec] = KindSpec(
        word="masks",
        required=("task", "worker", "mask"),
        raw=frozenset({"mask"}),
        settings=("repeats", "missing"),
        telling=(("mask",),),
        parts=("runs", "shapes", "n_classes"),
        confidence="mean probability of the pixels on which workers differ",
        expected="Where workers differ, {mean} of the pixels are expected to be correct.",
        note="Confidence assumes independent errors.",
    )
    _table: _core.CodeTable
    _runs: Runs
    _shapes: npt.NDArray[np.int64]
    _n_classes: int

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        mask: str | None = None,
        weight: str | None = None,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame : DataFrame, Arrow table or mapping of columns
            The log, one row per mask.
        task, worker, weight, repeats, missing
            As for :meth:`Annotations.from_frame`.
        mask : str, optional
            Column of masks: arrays, nested lists, or COCO run-lengths ``{"size": [height, width], "counts": …}``,
            compressed or not, also as JSON text. Well-known names are ``mask``, ``segmentation`` and ``rle``.

        Returns
        -------
        Masks
            The table.
        """
        columns = {"task": task, "worker": worker, "mask": mask}
        return cls._of_frame(frame, columns, {"weight": weight}, repeats=repeats, missing=missing)

    @classmethod
    def from_arrays(
        cls,
        tasks: Any,
        workers: Any,
        arrays: Iterable[Any],
        weights: Any = None,
        *,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from task ids, worker ids and masks; masks may come from a generator.

        For the other parameters and the formats of masks, see :meth:`from_frame`.
        """
        settings = {"repeats": repeats, "missing": missing}
        return cls._of_arrays(settings, tasks=tasks, workers=workers, masks=arrays, weights=weights)

    @classmethod
    def from_polygons(
        cls, tasks: Any, workers: Any, polygons: Iterable[Any], shape: tuple[int, int], **settings: Any
    ) -> Self:
        """Build a table from outlines: each answer is a list of polygons, as (x, y) pairs or flat x, y, x, y, ….

        Pixels belong to a polygon if their center is inside; a nested polygon is a hole. Polygons that intersect
        themselves raise.

        Parameters
        ----------
        tasks, workers : columns of ids
            As for :meth:`from_arrays`.
        polygons : iterable of lists of polygons
            Outlines of each answer; an empty list is an empty mask, None a missing one.
        shape : tuple of int
            Height and width of the images.
        **settings
            Other parameters of :meth:`from_arrays`.

        Returns
        -------
        Masks
            The table.

        Examples
        --------
        >>> import manyhands as mh
        >>> masks = mh.Masks.from_polygons([1], ["u"], [[[0, 0, 3, 0, 3, 2, 0, 2]]], (4, 4))
        >>> masks.mask(0).sum()
        np.int64(6)
        """
        size = checked_size(shape)
        parsed_masks = (
            None if rings is None else from_polygons(rings, size, f"polygons at row {row}")
            for row, rings in enumerate(polygons)
        )
        return cls.from_arrays(tasks, workers, parsed_masks, **settings)

    @classmethod
    def _of_columns(cls, columns: Columns, **settings: Any) -> Self:
        table_of_rows = super()._of_columns(columns, **settings)
        # Sort masks into table order.
        tasks, workers, rows = table_of_rows._table.columns()
        runs = _binary(table_of_rows._runs.take(rows.astype(np.int64)))
        order = Payload(np.arange(len(rows)), len(rows))
        table = cls._compiled(
            tasks, workers, order, table_of_rows.weights, table_of_rows.n_tasks, table_of_rows.n_workers
        )
        n_classes = max(int(runs.classes.max(initial=1)) + 1, 2)
        return cls(
            table,
            table_of_rows._tasks,
            table_of_rows._workers,
            runs,
            table_of_rows._shapes,
            n_classes,
            unlabelled=table_of_rows._unlabelled,
        )

    @classmethod
    def _parsed(cls, columns: Columns) -> Parsed:
        data, what = columns.others["mask"][0]
        read = [_read(mask, f"{what} at row {row}") for row, mask in enumerate(_each(data))]

        def encode(ids: Ids) -> Payload:
            present = [one for one in read if one is not None]
            shapes = _shapes(ids.task_codes, ids.tasks, [shape for _, shape in present])
            return Payload(
                np.arange(len(present)), len(present), (Runs.joined([runs for runs, _ in present]), shapes, 0)
            )

        return Parsed({what: len(read)}, encode, np.array([one is None for one in read], np.bool_))

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def n_classes(self) -> int:
        """Number of classes of pixels, including background."""
        return self._n_classes

    @property
    def shapes(self) -> npt.NDArray[np.int64]:
        """Shape of the masks of each task, (n_tasks, dimensions)."""
        return self._shapes.copy()

    def mask(self, row: int) -> npt.NDArray[Any]:
        """Return the mask of a row of :meth:`to_frame` as an array; boolean if there are two classes."""
        tasks, _, mask_codes = self._table.columns()
        shape = tuple(self._shapes[tasks[row]].tolist())
        return to_array(self._runs.one(int(mask_codes[row])), shape, self._n_classes)

    def _facts(self) -> Iterable[Fact]:
        sizes = self._runs.sizes()[self._table.columns()[2]]
        empty = int((sizes == 0).sum())
        yield from self._about("masks", f"{self.n_annotations:,}, {empty:,} of them empty")
        yield Fact("n_classes", self._n_classes, "classes", f"{self._n_classes:,}, background included")
        yield Fact("n_empty", empty)
        yield Fact("pixels", Spread.of(sizes), "marked pixels")
        yield from self._spreads("masks")

    def __repr__(self) -> str:
        masks, tasks = plural(self.n_annotations, "mask"), plural(self.n_tasks, "task")
        weighted = ", weighted" if self.weights is not None else ""
        who = plural(self.n_workers, "worker")
        return f"<Masks: {masks} of {tasks} by {who}, {self._n_classes} classes{weighted}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._n_classes, self._shapes.tolist())

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        tasks, workers, mask_codes = self._table.columns()
        runs = self._runs.take(mask_codes.astype(np.int64))
        return tasks, workers, runs.starts, runs.begins, runs.ends, runs.classes, self.weights

    def _parts_for(self, tasks: Names) -> tuple[Any, ...]:
        return self._runs, self._shapes[self._tasks.match(tasks)], self._n_classes

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        tasks = self._table.columns()[0]
        rows = zip(tasks.tolist(), said.tolist(), strict=True)
        return {
            "mask": [json.dumps(to_rle(self._runs.one(row), tuple(self._shapes[task].tolist()))) for task, row in rows]
        }

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        runs = self._runs.take(said.astype(np.int64))
        parts = {"starts": runs.starts, "begins": runs.begins, "ends": runs.ends, "classes": runs.classes}
        return {**parts, "shapes": self._shapes, "n_classes": np.array([self._n_classes])}

    @classmethod
    def _unpacked(cls, content: persist.Content, task_codes: Codes, tasks: Names) -> Payload:
        starts = content.array("starts", np.int64, shape=(len(task_codes) + 1,))
        begins = content.array("begins", np.int64, ndim=1)
        ends, classes = (content.array(name, np.int64, shape=begins.shape) for name in ("ends", "classes"))
        shapes = content.array("shapes", np.int64, ndim=2)
        n_classes = content.array("n_classes", np.int64, shape=(1,))
        runs = Runs(starts, begins, ends, classes)
        if len(shapes) != len(tasks) or (shapes < 0).any() or (shapes > 1 << 20).any():
            raise content.damaged("the shapes do not match the tasks")
        if not _whole(runs, shapes.prod(axis=1)[task_codes], int(n_classes[0])):
            raise content.damaged("a mask exceeds its image")
        return Payload(np.arange(len(task_codes)), len(task_codes), (runs, shapes, int(n_classes[0])))


def _each(data: Any) -> Iterable[Any]:
    each: Iterable[Any] = data.to_pylist() if hasattr(data, "to_pylist") else data
    return each


def _read(mask: Any, what: str) -> tuple[OneMask, tuple[int, ...]] | None:
    """Return runs and shape of a mask in any accepted format; None if it is missing."""
    if mask is None or (isinstance(mask, float) and mask != mask):
        return None
    parsed = from_rle(mask, what) if isinstance(mask, str | bytes | dict) else mask
    if not isinstance(parsed, ParsedMask):
        pixels = _array(mask, what)
        parsed = (
            ParsedMask(runs_of(pixels, what), pixels.shape) if pixels.ndim >= 2 else ParsedMask(_NOTHING, pixels.shape)
        )
    if len(parsed.shape) < 2 or not math.prod(parsed.shape):
        raise ValueError(f"{what} has shape {parsed.shape}; a mask must have rows and columns of pixels")
    return parsed.runs, parsed.shape


def _array(mask: Any, what: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(mask)
    except ValueError:
        raise ValueError(f"{what} has rows of different lengths; a mask must be rectangular") from None


def _binary(runs: Runs) -> Runs:
    """Convert black-and-white masks (0 and 255) to marked pixels of class 1."""
    if not len(runs.classes) or not (runs.classes == _WHITE).all():
        return runs
    warn_of_data("masks contain only 0 and 255: 255 is treated as marked, like 1 or True")
    return Runs(runs.starts, runs.begins, runs.ends, np.ones_like(runs.classes))


def _shapes(task_codes: npt.NDArray[Any], tasks: Names, shapes: list[tuple[int, ...]]) -> npt.NDArray[np.int64]:
    """Return the shape of the masks of each task, which must be unique."""
    if len({len(shape) for shape in shapes}) > 1:
        raise ValueError("masks differ in their number of dimensions; build one table per number of dimensions")
    row_shapes = np.array(shapes, np.int64)
    task_shapes = np.zeros((len(tasks), row_shapes.shape[1]), np.int64)
    task_shapes[task_codes] = row_shapes
    mismatched = np.flatnonzero((task_shapes[task_codes] != row_shapes).any(axis=1))
    if len(mismatched):
        task, one, other = (
            task_codes[mismatched[0]],
            shapes[mismatched[0]],
            tuple(task_shapes[task_codes[mismatched[0]]].tolist()),
        )
        name = tasks.values[[task]].tolist()[0]
        raise ValueError(f"masks of task {name!r} have shapes {one} and {other}; resize them to a common shape")
    return task_shapes


def _whole(runs: Runs, sizes: npt.NDArray[np.int64], n_classes: int) -> bool:
    """Return whether runs are sorted, inside their images and of valid classes."""
    n, counts = len(runs.begins), np.diff(runs.starts)
    if runs.starts[0] != 0 or runs.starts[-1] != n or (counts < 0).any() or n_classes < 2:
        return False
    of = np.repeat(np.arange(len(runs)), counts)
    good = (runs.begins >= 0) & (runs.begins < runs.ends) & (runs.ends <= sizes[of])
    good &= (runs.classes > 0) & (runs.classes < n_classes)
    apart = (of[1:] != of[:-1]) | (runs.begins[1:] >= runs.ends[:-1])
    return bool(good.all() and apart.all())
