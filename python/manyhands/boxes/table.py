"""The table of boxes and points: who saw which object where."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base import persist
from manyhands._base.checks import check_choice, counted
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Spread
from manyhands._base.frames import WELL_KNOWN, known_among, names_of
from manyhands._base.ids import Ids, encode_ids
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands._base.task_table import Answers, Payload

Floats = npt.NDArray[np.float64]
#: The numbers of a box, by what they are, and those of a point.
_CORNERS = ("x1", "y1", "x2", "y2")
_POINT = ("x", "y")
_FORMATS = {"xyxy": _CORNERS, "xywh": ("x", "y", "width", "height"), "cxcywh": ("cx", "cy", "width", "height")}
#: Coordinates beyond this leave sums and differences of them no room.
_FARTHEST = 1e300
_NUMBERS = tuple(dict.fromkeys(role for roles in _FORMATS.values() for role in roles))
Format = Literal["xyxy", "xywh", "cxcywh"]


class Boxes(Answers):
    """An immutable table of (task, worker, box, label) rows: which objects each worker saw in each image.

    A box is four numbers, left, top, right and bottom, and a point is two. A worker has as many rows in a task as they
    drew boxes; one who looked and saw nothing has a row whose numbers are all missing. Numbers that are infinite, boxes
    of which some are missing, and boxes without area are refused. Ids are those of :class:`~manyhands.Annotations`.

    Memory: 43 bytes per row for boxes and 27 for points, in addition to the names.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.Boxes.from_arrays(["a", "a", "a"], ["u", "v", "w"], [[0, 0, 4, 4], [0, 0, 5, 4], [None] * 4])
    <Boxes: 2 boxes in 1 task by 3 workers>
    """

    __slots__ = ("_classes", "_label_codes", "_numbers", "_seen")
    spec: ClassVar[KindSpec] = KindSpec(
        word="boxes",
        required=("task", "worker", *_CORNERS),
        optional=("label", *(role for role in _NUMBERS if role not in _CORNERS)),
        if_there=("label",),
        numbers=frozenset(_NUMBERS),
        telling=tuple(_FORMATS.values()),
        parts=("classes", "numbers", "label_codes", "seen"),
    )
    _file_kind: ClassVar[str] = "boxes"
    _table: _core.CodeTable
    _classes: Names
    #: Numbers of each row of the table, 0 where nothing was seen; the code of its label, and whether it is a box.
    _numbers: Floats
    _label_codes: npt.NDArray[np.uint16]
    _seen: npt.NDArray[np.bool_]

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        box: Iterable[str] | None = None,
        label: str | None = None,
        format: Format = "xyxy",
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame
            The log, one row a box. A row whose numbers are all missing says that the worker saw nothing.
        task, worker
            Column names, as for :meth:`Annotations.from_frame`.
        box
            Columns of left, top, right and bottom, or what `format` says, or of the two numbers of points. Well known
            are ``x1``, ``y1``, ``x2``, ``y2`` or ``xmin``, ``ymin``, ``xmax``, ``ymax``, also ``x``, ``y``, ``w``,
            ``h``, and for points ``x``, ``y``.
        label
            Column of what the objects are; taken where it has a well-known name, and none is needed.
        format
            What the four columns of `box` are: ``"xyxy"``, or left, top, width and height (``"xywh"``), or the centre
            in place of left and top (``"cxcywh"``).

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"image": [1, 1], "worker": ["u", "v"], "x": [3.0, 3.5], "y": [4, 4]}
        >>> mh.Boxes.from_frame(log, task="image", box=("x", "y"))
        <Boxes: 2 points in 1 task by 2 workers>
        """
        if isinstance(box, str):
            raise TypeError(f"box= names four columns, or two for points, not one: {box!r}")
        check_choice("format", format, tuple(_FORMATS))
        if box is None:
            if format != "xyxy":
                raise ValueError(f"format={format!r} is of the columns that box= names; others go by their own names")
            roles = cls._needed(names_of(frame), ())[2:]
            named: list[str | None] = [None] * len(roles)
        else:
            named = list(box)
            if len(named) not in (2, 4):
                raise ValueError(f"box= names four columns, or two for points, not {len(named)}")
            roles = _FORMATS[format] if len(named) == 4 else _POINT
        given = {"task": task, "worker": worker, **dict(zip(roles, named, strict=True))}
        return cls._of_frame(frame, given, {"label": label})

    @classmethod
    def _needed(cls, names: Sequence[str], named: Collection[str]) -> tuple[str, ...]:
        forms = (*_FORMATS.values(), _POINT)
        # What was named tells most; of well-known names the corners, and points where there is nothing more.
        chosen = [role for role in named if role in _NUMBERS]
        fitting = [roles for roles in forms if set(chosen) <= set(roles)]
        if not fitting:
            raise ValueError(f"{', '.join(chosen)} are not of one box: it has {', or '.join(map(', '.join, forms))}")
        there = [roles for roles in fitting if all(r in chosen or known_among(names, WELL_KNOWN[r]) for r in roles)]
        if there and there[0] == _POINT and not chosen and {"width", "height"} <= {name.lower() for name in names}:
            raise ValueError(
                "x, y, width and height may be boxes, or points in images of that size; say which are meant: "
                'box=("x", "y"), or box=("x", "y", "width", "height") with format="xywh"'
            )
        return ("task", "worker", *(there or fitting)[0])

    @classmethod
    def from_arrays(cls, tasks: Any, workers: Any, boxes: Any, labels: Any = None, *, format: Format = "xyxy") -> Self:
        """Build a table from ids of tasks and workers, boxes (rows, 4) or points (rows, 2), and labels if there are.

        A row of numbers that are all None or NaN says that the worker looked at the task and saw nothing. `format` is
        that of :meth:`from_frame`, and means nothing to points.

        Examples
        --------
        >>> import manyhands as mh
        >>> mh.Boxes.from_arrays([1], ["u"], [[2, 3, 4, 5]], format="xywh").boxes.tolist()
        [[2.0, 3.0, 6.0, 8.0]]
        """
        check_choice("format", format, tuple(_FORMATS))
        numbers = np.asarray(boxes)
        if numbers.ndim != 2 or numbers.shape[1] not in (2, 4):
            raise ValueError(f"boxes has shape {numbers.shape}; it must be (rows, 4), or (rows, 2) for points")
        roles = _FORMATS[format] if numbers.shape[1] == 4 else _POINT
        ids = {"task": Column(tasks, "tasks"), "worker": Column(workers, "workers")}
        ids |= {} if labels is None else {"label": Column(labels, "labels")}
        others = {
            role: [(column, f"boxes[:, {i}]")] for i, (role, column) in enumerate(zip(roles, numbers.T, strict=True))
        }
        return cls._of_columns(Columns(ids, others))

    @classmethod
    def _of_columns(cls, columns: Columns) -> Self:
        tasks, workers, labels = columns.ids["task"], columns.ids["worker"], columns.ids.get("label")
        roles = next(roles for roles in (*_FORMATS.values(), _POINT) if columns.others.keys() >= {*roles})
        given = [columns.others[role][0] for role in roles]
        values = [checks.checked_values(*column) for column in given]
        sizes = {"tasks": len(tasks), "workers": len(workers)}
        sizes |= {what: len(each) for each, (_, what) in zip(values, given, strict=True)}
        checks.check_sizes(sizes if labels is None else sizes | {"labels": len(labels)}, "(task, worker, box)")
        checks.refuse_missing_ids(tasks, workers)
        boxes = np.stack(values, axis=1)
        seen = _checked(boxes, [what for _, what in given], roles)
        boxes = _corners(boxes, roles)
        codes, classes = _labels(labels, seen)
        ids = encode_ids(tasks, workers)
        _refuse_both(ids, seen)
        numbers = np.where(seen[:, None], boxes, 0.0)
        # One order whatever that of the rows was.
        order = np.lexsort((seen, codes, *numbers.T[::-1], ids.worker_codes, ids.task_codes))
        names = ids.workers.take(np.zeros(0, np.int64)) if classes is None else classes
        parts = (names, np.ascontiguousarray(numbers[order]), codes[order], seen[order])
        payload = Payload(np.arange(len(order)), len(order), parts)
        links = (ids.task_codes[order], ids.worker_codes[order])
        table = cls._compiled(*links, payload, None, len(ids.tasks), len(ids.workers))
        return cls(table, ids.tasks, ids.workers, *parts)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def n_dims(self) -> int:
        """Numbers of a box: 4, or 2 for points."""
        return int(self._numbers.shape[1])

    @property
    def n_boxes(self) -> int:
        """Number of boxes, or of points; rows that say that nothing is there are not counted."""
        return int(self._seen.sum())

    @property
    def classes(self) -> npt.NDArray[Any]:
        """What objects can be, in code order; empty where boxes have no labels."""
        return self._classes.values

    @property
    def boxes(self) -> Floats:
        """Boxes in the order of :meth:`to_frame`, (n_annotations, n_dims); NaN where a worker saw nothing."""
        return np.where(self._seen[:, None], self._numbers, np.nan)

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """Which rows of :meth:`to_frame` are boxes; the others say that the worker saw nothing."""
        return self._seen.copy()

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.int64]]:
        """Task, worker and label code of every row, in task order: fresh arrays; labels are 0 where there are none."""
        tasks, workers, _ = self._table.columns()
        return tasks, workers, self._label_codes.astype(np.int64)

    def _facts(self) -> Iterable[Fact]:
        seen, (tasks, workers, labels) = self._seen, self.codes()
        empty = self.n_annotations - self.n_boxes
        counts = np.bincount(labels[seen], minlength=len(self._classes)).tolist() if len(self._classes) else []
        named = {str(name): int(n) for name, n in zip(self.classes.tolist(), counts, strict=True)}
        yield from self._about("boxes", f"{self.n_boxes:,}, and {empty:,} times nothing")
        yield Fact("n_boxes", self.n_boxes)
        yield Fact("n_empty", empty)
        for name, codes, n in (("task", tasks, self.n_tasks), ("worker", workers, self.n_workers)):
            yield Fact(f"boxes_per_{name}", Spread.of(np.bincount(codes[seen], minlength=n)), f"boxes per {name}")
        yield Fact("labels", named, "labels", ", ".join(f"{name} {n:,}" for name, n in named.items()) or "none")

    def __repr__(self) -> str:
        n = self.n_boxes
        boxes = counted(n, "point") if self.n_dims == 2 else f"{n:,} box{'' if n == 1 else 'es'}"
        who = f"{counted(self.n_tasks, 'task')} by {counted(self.n_workers, 'worker')}"
        labels = f", {counted(len(self._classes), 'label')}" if len(self._classes) else ""
        return f"<Boxes: {boxes} in {who}{labels}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self.n_dims, self._classes)

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self._table.columns()[:2], self._numbers, self._label_codes, self._seen)

    def _part(self, table: Any, tasks: Names, workers: Names, unlabelled: Names) -> Self:
        of, by, rows = table.columns()
        parts = (self._classes, self._numbers[rows], self._label_codes[rows], self._seen[rows])
        kept = self._compiled(of, by, Payload(np.arange(len(rows)), len(rows)), None, len(tasks), len(workers))
        return type(self)(kept, tasks, workers, *parts, unlabelled=unlabelled)

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        import pyarrow as pa

        roles = _CORNERS if self.n_dims == 4 else _POINT
        columns = {role: pa.array(self._numbers[:, i], mask=~self._seen) for i, role in enumerate(roles)}
        if not len(self._classes):
            return columns
        labels = pa.array(self._label_codes.astype(np.int64), mask=~self._seen)
        return columns | {"label": self._classes.arrow().take(labels)}

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        rows: dict[str, npt.NDArray[Any]] = {
            "numbers": self._numbers,
            "label_codes": self._label_codes,
            "seen": self._seen,
        }
        return rows | {"seen": self._seen} | persist.pack_names("classes", self._classes)

    @classmethod
    def _unpacked(cls, content: persist.Content, task_codes: Codes, tasks: Names) -> Payload:
        classes, n = content.names("classes"), len(task_codes)
        numbers = content.array("numbers", np.float64, ndim=2)
        labels = content.array("label_codes", np.uint16, shape=(n,))
        seen = content.array("seen", np.bool_, shape=(n,))
        if not _whole(numbers, labels, seen, len(classes)):
            raise content.damaged("its boxes are not what manyhands writes")
        return Payload(np.arange(n), n, (classes, numbers, labels, seen))


def _checked(boxes: Floats, whats: list[str], roles: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Which rows are boxes; refuses those of which a part is missing, and those without area."""
    absent = np.isnan(boxes)
    partly = absent.any(axis=1) & ~absent.all(axis=1)
    if partly.any():
        row = int(np.argmax(partly))
        what = whats[int(np.argmax(absent[row]))]
        raise ValueError(
            f"{what} is missing at row {row}, whose other numbers are there; mend or drop that row "
            "(all numbers missing say that the worker saw nothing)"
        )
    far = np.abs(np.where(absent, 0.0, boxes)) > _FARTHEST
    if far.any():
        row, column = np.argwhere(far)[0].tolist()
        raise ValueError(
            f"{whats[column]} holds {boxes[row, column]:g} at row {row}: differences of such numbers are not finite; "
            "scale the coordinates down"
        )
    for low, high in ((0, 2), (1, 3)) if boxes.shape[1] == 4 else ():
        sized = roles[high] in ("width", "height")
        flat = boxes[:, high] <= (0.0 if sized else boxes[:, low])
        if flat.any():
            row = int(np.argmax(flat))
            other = "" if sized else f", and {whats[low]} is {boxes[row, low]:g}"
            mend = (
                "give points as two numbers"
                if sized
                else "boxes are left, top, right, bottom: exchange the corners, say format='xywh' of widths, "
                "or give points as two numbers"
            )
            raise ValueError(f"row {row} has a box of no area: {whats[high]} is {boxes[row, high]:g}{other}; {mend}")
    return np.asarray(~absent.all(axis=1))


def _corners(boxes: Floats, roles: tuple[str, ...]) -> Floats:
    """Left, top, right and bottom, whatever the four numbers are; points as they are."""
    if roles in (_CORNERS, _POINT):
        return boxes
    with np.errstate(over="ignore", invalid="ignore"):
        low = boxes[:, :2] - (boxes[:, 2:] / 2 if roles == _FORMATS["cxcywh"] else 0)
        corners = np.concatenate([low, low + boxes[:, 2:]], axis=1)
    lost = ~np.isfinite(corners).all(axis=1) & np.isfinite(boxes).all(axis=1) | (corners[:, 2:] <= low).any(axis=1)
    if lost.any():
        row = int(np.argmax(lost))
        raise ValueError(f"row {row} has a box that numbers cannot hold: {boxes[row].tolist()}; scale all down or up")
    return corners


def _labels(labels: Column | None, seen: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.uint16], Names | None]:
    """Codes of the labels of boxes, 0 for other rows, and what the codes stand for."""
    codes = np.zeros(len(seen), np.uint16)
    if labels is None or not seen.any():
        return codes, None
    missing = labels.missing()
    bare = seen & missing if missing is not None else np.zeros(len(seen), np.bool_)
    if bare.any():
        row = int(np.argmax(bare))
        raise ValueError(f"{labels.what} is missing at row {row}, which has a box; label or drop it, or give no labels")
    what = labels.what
    labels.filter(seen)
    found, names = labels.encode()
    checks.check_n_classes(len(names), what)
    codes[seen] = found
    return codes, names


def _refuse_both(ids: Ids, seen: npt.NDArray[np.bool_]) -> None:
    """Refuse a worker who saw something in a task and nothing."""
    pairs = ids.task_codes.astype(np.int64) * len(ids.workers) + ids.worker_codes
    both = np.flatnonzero(~seen & np.isin(pairs, pairs[seen]))
    if len(both):
        row = int(both[0])
        task, worker = ids.tasks.values[ids.task_codes[row]], ids.workers.values[ids.worker_codes[row]]
        raise ValueError(
            f"row {row} says that worker {worker!r} saw nothing in task {task!r}, and another row has a box of theirs; "
            "drop one of them"
        )


def _whole(numbers: Floats, labels: npt.NDArray[Any], seen: npt.NDArray[np.bool_], n_classes: int) -> bool:
    """Whether rows of a file are boxes or points with known labels, or say that nothing is there."""
    if len(numbers) != len(seen) or numbers.shape[1] not in (2, 4):
        return False
    good = labels < max(n_classes, 1)
    if numbers.shape[1] == 4:
        good &= ~seen | ((numbers[:, 2] > numbers[:, 0]) & (numbers[:, 3] > numbers[:, 1]))
    return bool(good.all())
