"""The table of masks: who marked which pixels of which image."""

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
from manyhands._base.checks import counted, warn_of_data
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Spread
from manyhands._base.ids import Ids
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Names
from manyhands._base.task_table import Answers, Parsed, Payload
from manyhands.masks.runs import Drawn, OneMask, Runs, checked_size, filled, from_polygons, from_rle, runs_of, to_rle

#: What is marked, in images of black and white.
_WHITE = 255
_NOTHING: OneMask = (np.zeros(0, np.int64),) * 3


class Masks(Answers):
    """An immutable table of (task, worker, mask) rows: which pixels of an image are of which class.

    A mask is an array of booleans or of whole numbers, 0 for background; all masks of a task have one shape. Where all
    are in black and white, 0 and 255, white is what is marked, with a warning. Masks are
    kept as runs of equal pixels. Ids and repeats are those of :class:`~manyhands.Annotations`; a mask that is None is
    set aside with a warning. An empty mask is an answer: nothing is there.

    Memory: 24 bytes per run, 8 per row (8 more with weights), and the names; an outline crosses each row of pixels
    about twice.

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
    )
    _file_kind: ClassVar[str] = "masks"
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
        frame
            The log, one row a mask.
        task, worker, weight, repeats, missing
            As for :meth:`Annotations.from_frame`.
        mask
            Column name of the masks (well known are ``mask``, ``segmentation`` and ``rle``): arrays, nested lists, or
            run-lengths as COCO has them, ``{"size": [height, width], "counts": …}``, compressed or not, also as JSON
            text.
        """
        given = {"task": task, "worker": worker, "mask": mask}
        return cls._of_frame(frame, given, {"weight": weight}, repeats=repeats, missing=missing)

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
        """Build a table from ids of tasks and workers, and masks, which may come from a generator, one at a time.

        Other parameters are those of :meth:`from_frame`, and so are the forms of masks.
        """
        settings = {"repeats": repeats, "missing": missing}
        return cls._of_arrays(settings, tasks=tasks, workers=workers, masks=arrays, weights=weights)

    @classmethod
    def from_polygons(
        cls, tasks: Any, workers: Any, polygons: Iterable[Any], shape: tuple[int, int], **settings: Any
    ) -> Self:
        """Build a table from outlines: each answer is a list of polygons, each a list of (x, y) or flat x, y, x, y, ….

        Pixels belong to a polygon if their centres do; one polygon within another is a hole. A polygon that crosses
        itself is refused.

        Parameters
        ----------
        tasks, workers
            Ids, as for :meth:`from_arrays`.
        polygons
            The outlines of each answer, none for an empty mask; None is a missing one.
        shape
            Height and width of the images.
        settings
            Others of :meth:`from_arrays`.

        Examples
        --------
        >>> import manyhands as mh
        >>> masks = mh.Masks.from_polygons([1], ["u"], [[[0, 0, 3, 0, 3, 2, 0, 2]]], (4, 4))
        >>> masks.mask(0).sum()
        np.int64(6)
        """
        size = checked_size(shape)
        made = (
            None if rings is None else from_polygons(rings, size, f"polygons at row {row}")
            for row, rings in enumerate(polygons)
        )
        return cls.from_arrays(tasks, workers, made, **settings)

    @classmethod
    def _of_columns(cls, columns: Columns, **settings: Any) -> Self:
        made = super()._of_columns(columns, **settings)
        # Masks in the order of the table, whatever that of the rows was.
        tasks, workers, rows = made._table.columns()
        runs = _binary(made._runs.take(rows.astype(np.int64)))
        order = Payload(np.arange(len(rows)), len(rows))
        table = cls._compiled(tasks, workers, order, made.weights, made.n_tasks, made.n_workers)
        n_classes = max(int(runs.classes.max(initial=1)) + 1, 2)
        return cls(table, made._tasks, made._workers, runs, made._shapes, n_classes, unlabelled=made._unlabelled)

    @classmethod
    def _parsed(cls, columns: Columns) -> Parsed:
        data, what = columns.others["mask"][0]
        read = [_read(mask, f"{what} at row {row}") for row, mask in enumerate(_each(data))]

        def encode(ids: Ids) -> Payload:
            found = [one for one in read if one is not None]
            shapes = _shapes(ids.task_codes, ids.tasks, [shape for _, shape in found])
            return Payload(np.arange(len(found)), len(found), (Runs.joined([runs for runs, _ in found]), shapes, 0))

        return Parsed({what: len(read)}, encode, np.array([one is None for one in read], np.bool_))

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def n_classes(self) -> int:
        """Number of classes that pixels can have, background included."""
        return self._n_classes

    @property
    def shapes(self) -> npt.NDArray[np.int64]:
        """Shape of each task's masks, (n_tasks, dimensions)."""
        return self._shapes.copy()

    def mask(self, row: int) -> npt.NDArray[Any]:
        """The mask of a row of :meth:`to_frame`, as an array: of booleans where there are two classes."""
        tasks, _, said = self._table.columns()
        shape = tuple(self._shapes[tasks[row]].tolist())
        return filled(self._runs.one(int(said[row])), shape, self._n_classes)

    def _facts(self) -> Iterable[Fact]:
        sizes = self._runs.sizes()[self._table.columns()[2]]
        empty = int((sizes == 0).sum())
        yield from self._about("masks", f"{self.n_annotations:,}, {empty:,} of them empty")
        yield Fact("n_classes", self._n_classes, "classes", f"{self._n_classes:,}, background included")
        yield Fact("n_empty", empty)
        yield Fact("pixels", Spread.of(sizes), "marked pixels")
        yield from self._spreads("masks")

    def __repr__(self) -> str:
        masks, tasks = counted(self.n_annotations, "mask"), counted(self.n_tasks, "task")
        weighted = ", weighted" if self.weights is not None else ""
        who = counted(self.n_workers, "worker")
        return f"<Masks: {masks} of {tasks} by {who}, {self._n_classes} classes{weighted}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._n_classes, self._shapes.tolist())

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        tasks, workers, said = self._table.columns()
        runs = self._runs.take(said.astype(np.int64))
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
            raise content.damaged("its shapes are not those of its tasks")
        if not _whole(runs, shapes.prod(axis=1)[task_codes], int(n_classes[0])):
            raise content.damaged("its masks are not within their images")
        return Payload(np.arange(len(task_codes)), len(task_codes), (runs, shapes, int(n_classes[0])))


def _each(data: Any) -> Iterable[Any]:
    each: Iterable[Any] = data.to_pylist() if hasattr(data, "to_pylist") else data
    return each


def _read(mask: Any, what: str) -> tuple[OneMask, tuple[int, ...]] | None:
    """Runs and shape of a mask, whatever its form; None where there is none."""
    if mask is None or (isinstance(mask, float) and mask != mask):
        return None
    drawn = from_rle(mask, what) if isinstance(mask, str | bytes | dict) else mask
    if not isinstance(drawn, Drawn):
        pixels = _array(mask, what)
        drawn = Drawn(runs_of(pixels, what), pixels.shape) if pixels.ndim >= 2 else Drawn(_NOTHING, pixels.shape)
    if len(drawn.shape) < 2 or not math.prod(drawn.shape):
        raise ValueError(f"{what} has shape {drawn.shape}; a mask has rows and columns of pixels")
    return drawn.runs, drawn.shape


def _array(mask: Any, what: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(mask)
    except ValueError:
        raise ValueError(f"{what} has rows of different lengths; a mask has rows and columns of pixels") from None


def _binary(runs: Runs) -> Runs:
    """Masks of images in black and white as others: 255 is then no class but what is marked."""
    if not len(runs.classes) or not (runs.classes == _WHITE).all():
        return runs
    warn_of_data("masks hold 0 and 255 only: 255 is taken for what is marked, as 1 or True")
    return Runs(runs.starts, runs.begins, runs.ends, np.ones_like(runs.classes))


def _shapes(task_codes: npt.NDArray[Any], tasks: Names, shapes: list[tuple[int, ...]]) -> npt.NDArray[np.int64]:
    """The shape of each task's masks, which must be one."""
    if len({len(shape) for shape in shapes}) > 1:
        raise ValueError("masks differ in their number of dimensions; make a table of each")
    given = np.array(shapes, np.int64)
    found = np.zeros((len(tasks), given.shape[1]), np.int64)
    found[task_codes] = given
    odd = np.flatnonzero((found[task_codes] != given).any(axis=1))
    if len(odd):
        task, one, other = task_codes[odd[0]], shapes[odd[0]], tuple(found[task_codes[odd[0]]].tolist())
        name = tasks.values[[task]].tolist()[0]
        raise ValueError(f"masks of task {name!r} have shapes {one} and {other}; bring them to one size")
    return found


def _whole(runs: Runs, sizes: npt.NDArray[np.int64], n_classes: int) -> bool:
    """Whether runs are in order, within their images and of known classes."""
    n, counts = len(runs.begins), np.diff(runs.starts)
    if runs.starts[0] != 0 or runs.starts[-1] != n or (counts < 0).any() or n_classes < 2:
        return False
    of = np.repeat(np.arange(len(runs)), counts)
    good = (runs.begins >= 0) & (runs.begins < runs.ends) & (runs.ends <= sizes[of])
    good &= (runs.classes > 0) & (runs.classes < n_classes)
    apart = (of[1:] != of[:-1]) | (runs.begins[1:] >= runs.ends[:-1])
    return bool(good.all() and apart.all())
