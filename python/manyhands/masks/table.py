"""The table of masks: who marked which pixels of which image."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base import persist
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import check_choice, counted, warn_of_data
from manyhands._base.columns import Columns
from manyhands._base.description import MasksDescription, Spread
from manyhands._base.ids import encode_ids
from manyhands._base.names import Column, Names
from manyhands._base.task_table import Answers
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

    Memory: 24 bytes a run, besides 12 bytes a row and the names; an outline crosses each row of pixels about twice.

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
    _kind: ClassVar[str] = "masks"
    _roles: ClassVar[tuple[str, ...]] = ("task", "worker", "mask")
    _raw: ClassVar[frozenset[str]] = frozenset({"mask"})
    _settings: ClassVar[tuple[str, ...]] = ("repeats", "missing")
    _telling: ClassVar[tuple[tuple[str, ...], ...]] = (("mask",),)
    _file_kind: ClassVar[str] = "masks"
    _table: _core.Ratings

    def __init__(
        self,
        table: _core.Ratings,
        tasks: Names,
        workers: Names,
        runs: Runs,
        shapes: npt.NDArray[np.int64],
        n_classes: int,
        unlabelled: Names | None = None,
    ) -> None:
        super().__init__(table, tasks, workers, unlabelled)
        self._runs, self._shapes, self._n_classes = runs, shapes, n_classes

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
        ids = {"task": Column(tasks, "tasks"), "worker": Column(workers, "workers")}
        others: dict[str, list[tuple[Any, str]]] = {"mask": [(arrays, "masks")]}
        others |= {} if weights is None else {"weight": [(weights, "weights")]}
        return cls._of_columns(Columns(ids, others), repeats=repeats, missing=missing)

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
    def _of_columns(cls, columns: Columns, *, repeats: Repeats = "keep", missing: Missing = "drop") -> Self:
        check_choice("repeats", repeats, ("keep", "first", "last", "error"))
        check_choice("missing", missing, ("drop", "error"))
        tasks, workers, given = columns.ids["task"], columns.ids["worker"], columns.only("weight")
        data, what = columns.others["mask"][0]
        read = [_read(mask, f"{what} at row {row}") for row, mask in enumerate(_each(data))]
        weights = None if given is None else checks.checked_weights(*given)
        sizes = {"tasks": len(tasks), "workers": len(workers), what: len(read)}
        checks.check_sizes(sizes if weights is None else sizes | {"weights": len(weights)}, "(task, worker, mask)")
        checks.refuse_missing_ids(tasks, workers)
        absent = np.array([one is None for one in read], np.bool_)
        if absent.any():
            checks.refuse_missing_answers(what, absent, missing)
            weights = None if weights is None else weights[~absent]
        found = [one for one in read if one is not None]
        ids = encode_ids(tasks, workers, absent if absent.any() else None, said="mask")
        shapes = _shapes(ids.task_codes, ids.tasks, [shape for _, shape in found])
        rows = np.arange(len(found), dtype=np.float64)[:, None]
        settled = "keep" if repeats == "error" else repeats
        table = _core.Ratings(
            ids.task_codes, ids.worker_codes, rows, weights, len(ids.tasks), len(ids.workers), settled
        )
        if repeats == "error":
            checks.refuse_repeats(table, ids.tasks, ids.workers)
        # Masks in the order of the table, whatever that of the rows was.
        task_codes, worker_codes, order = table.columns()
        runs = _binary(Runs.joined([found[int(row)][0] for row in order[:, 0]]))
        rows = np.arange(len(order), dtype=np.float64)[:, None]
        table = _core.Ratings(task_codes, worker_codes, rows, table.weights(), len(ids.tasks), len(ids.workers))
        n_classes = max(int(runs.classes.max(initial=1)) + 1, 2)
        return cls(table, ids.tasks, ids.workers, runs, shapes, n_classes, ids.unlabelled)

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
        return filled(self._runs.one(int(said[row, 0])), shape, self._n_classes)

    def describe(self) -> MasksDescription:
        """Summarise the table in numbers; prints as a short report. O(runs)."""
        sizes = self._runs.sizes()[self._table.columns()[2][:, 0].astype(np.int64)]
        return MasksDescription(
            n_annotations=self.n_annotations,
            n_tasks=self.n_tasks,
            n_workers=self.n_workers,
            n_classes=self._n_classes,
            n_empty=int((sizes == 0).sum()),
            n_repeats=self._table.n_repeats(),
            pixels=Spread.of(sizes),
            labels_per_task=Spread.of(self.labels_per_task),
            labels_per_worker=Spread.of(self.labels_per_worker),
        )

    def __repr__(self) -> str:
        masks, tasks = counted(self.n_annotations, "mask"), counted(self.n_tasks, "task")
        weighted = ", weighted" if self.weights is not None else ""
        who = counted(self.n_workers, "worker")
        return f"<Masks: {masks} of {tasks} by {who}, {self._n_classes} classes{weighted}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._n_classes, self._shapes.tolist())

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        tasks, workers, said = self._table.columns()
        runs = self._runs.take(said[:, 0].astype(np.int64))
        return tasks, workers, runs.starts, runs.begins, runs.ends, runs.classes, self.weights

    def _part(self, table: _core.Ratings, tasks: Names, workers: Names, unlabelled: Names) -> Self:
        shapes = self._shapes[self._tasks.match(tasks)]
        return type(self)(table, tasks, workers, self._runs, shapes, self._n_classes, unlabelled)

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        tasks = self._table.columns()[0]
        rows = zip(tasks.tolist(), said[:, 0].astype(int).tolist(), strict=True)
        return {
            "mask": [json.dumps(to_rle(self._runs.one(row), tuple(self._shapes[task].tolist()))) for task, row in rows]
        }

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        runs = self._runs.take(said[:, 0].astype(np.int64))
        parts = {"starts": runs.starts, "begins": runs.begins, "ends": runs.ends, "classes": runs.classes}
        return {**parts, "shapes": self._shapes, "n_classes": np.array([self._n_classes])}

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        tasks, workers, unlabelled = cls._names_in(content)
        task_codes, worker_codes, weights = cls._links_in(content)
        starts = content.array("starts", np.int64, shape=(len(task_codes) + 1,))
        begins = content.array("begins", np.int64, ndim=1)
        ends, classes = (content.array(name, np.int64, shape=begins.shape) for name in ("ends", "classes"))
        shapes = content.array("shapes", np.int64, ndim=2)
        n_classes = content.array("n_classes", np.int64, shape=(1,))
        runs = Runs(starts, begins, ends, classes)
        if len(shapes) != len(tasks) or (shapes < 0).any() or (shapes > 1 << 20).any():
            raise content.damaged("its shapes are not those of its tasks")
        rows = np.arange(len(task_codes), dtype=np.float64)[:, None]
        table = _core.Ratings(task_codes, worker_codes, rows, weights, len(tasks), len(workers))
        if not _whole(runs, shapes.prod(axis=1)[task_codes], int(n_classes[0])):
            raise content.damaged("its masks are not within their images")
        return cls(table, tasks, workers, runs, shapes, int(n_classes[0]), unlabelled)

    def __reduce__(self) -> tuple[Any, ...]:
        names = (self._tasks, self._workers, self._runs, self._shapes, self._n_classes, self._unlabelled)
        return _unpickle, (type(self), self._table.columns(), self.weights, names)


def _unpickle(cls: type[Masks], columns: tuple[Any, Any, Any], weights: Any, names: tuple[Any, ...]) -> Masks:
    return cls(_core.Ratings(*columns, weights, len(names[0]), len(names[1])), *names)


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
