"""Table of bounding boxes and points by task and worker."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base import persist
from manyhands._base.checks import check_choice, plural
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Spread
from manyhands._base.frames import WELL_KNOWN, known_among, names_of
from manyhands._base.ids import Ids, encode_ids
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands._base.task_table import Answers, Payload

Floats = npt.NDArray[np.float64]
#: Column roles of boxes by format, and of points.
_CORNERS = ("x1", "y1", "x2", "y2")
_POINT = ("x", "y")
_FORMATS = {"xyxy": _CORNERS, "xywh": ("x", "y", "width", "height"), "cxcywh": ("cx", "cy", "width", "height")}
#: Maximum absolute coordinate, so that sums and differences stay finite.
_FARTHEST = 1e300
_NUMBERS = tuple(dict.fromkeys(role for roles in _FORMATS.values() for role in roles))
Format = Literal["xyxy", "xywh", "cxcywh"]


class Boxes(Answers):
    """Immutable table of (task, worker, box, label) rows: the objects that each worker drew in each image.

    Build it with :meth:`from_frame` or :meth:`from_arrays`, or read a file with :func:`manyhands.read` and
    ``kind="boxes"``. A box has four numbers (left, top, right, bottom), a point has two. A worker has one row per box
    in a task; a row with all numbers missing means that the worker annotated the task and drew nothing. Infinite or
    incomplete boxes and boxes without area raise. Ids are as in :class:`~manyhands.Annotations`.

    Memory: 43 bytes per row for boxes and 27 for points, plus names.

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
        unit="object",
        note="Objects that no worker drew cannot be detected. Corners are relative to where most workers put them.",
    )
    _table: _core.CodeTable
    _classes: Names
    #: Per row: coordinates (0 for empty rows), label code, and whether the row is a box.
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
        frame : DataFrame, Arrow table or mapping of columns
            The log, one row per box. A row with all numbers missing means that the worker drew nothing in the task.
        task, worker : str, optional
            Column names, as for :meth:`Annotations.from_frame`.
        box : list of str, optional
            Four columns in the order of `format`, or two columns of points. Well-known names are ``x1``, ``y1``,
            ``x2``, ``y2``; ``xmin``, ``ymin``, ``xmax``, ``ymax``; ``x``, ``y``, ``w``, ``h``; and for points ``x``,
            ``y``.
        label : str, optional
            Column of object labels. By default a column with a well-known name, if there is one.
        format : {"xyxy", "xywh", "cxcywh"}, default "xyxy"
            Meaning of the four columns: two corners; left, top, width and height; or center, width and height.

        Returns
        -------
        Boxes
            The table.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"image": [1, 1], "worker": ["u", "v"], "x": [3.0, 3.5], "y": [4, 4]}
        >>> mh.Boxes.from_frame(log, task="image", box=("x", "y"))
        <Boxes: 2 points in 1 task by 2 workers>
        """
        if isinstance(box, str):
            raise TypeError(f"box= takes four column names, or two for points, not the single name {box!r}")
        check_choice("format", format, tuple(_FORMATS))
        if box is None:
            if format != "xyxy":
                raise ValueError(f"format={format!r} requires box=; without it, columns are recognized by their names")
            roles = cls._needed(names_of(frame), ())[2:]
            role_columns: list[str | None] = [None] * len(roles)
        else:
            role_columns = list(box)
            if len(role_columns) not in (2, 4):
                raise ValueError(f"box= takes four column names, or two for points, not {len(role_columns)}")
            roles = _FORMATS[format] if len(role_columns) == 4 else _POINT
        columns = {"task": task, "worker": worker, **dict(zip(roles, role_columns, strict=True))}
        return cls._of_frame(frame, columns, {"label": label})

    @classmethod
    def _needed(cls, names: Sequence[str], named: Collection[str]) -> tuple[str, ...]:
        forms = (*_FORMATS.values(), _POINT)
        # Columns passed by the caller decide; otherwise corners are preferred to points.
        numeric_roles = [role for role in named if role in _NUMBERS]
        fitting = [roles for roles in forms if set(numeric_roles) <= set(roles)]
        if not fitting:
            raise ValueError(f"{', '.join(numeric_roles)} do not form a box; use {', or '.join(map(', '.join, forms))}")
        there = [
            roles for roles in fitting if all(r in numeric_roles or known_among(names, WELL_KNOWN[r]) for r in roles)
        ]
        if (
            there
            and there[0] == _POINT
            and not numeric_roles
            and {"width", "height"} <= {name.lower() for name in names}
        ):
            raise ValueError(
                "x, y, width and height are ambiguous: boxes, or points in images of that size; pass "
                'box=("x", "y"), or box=("x", "y", "width", "height") with format="xywh"'
            )
        return ("task", "worker", *(there or fitting)[0])

    @classmethod
    def from_arrays(cls, tasks: Any, workers: Any, boxes: Any, labels: Any = None, *, format: Format = "xyxy") -> Self:
        """Build a table from task ids, worker ids, boxes (rows, 4) or points (rows, 2), and optional labels.

        A row of None or NaN means that the worker drew nothing in the task. `format` is as in :meth:`from_frame`, and
        is ignored for points.

        Examples
        --------
        >>> import manyhands as mh
        >>> mh.Boxes.from_arrays([1], ["u"], [[2, 3, 4, 5]], format="xywh").boxes.tolist()
        [[2.0, 3.0, 6.0, 8.0]]
        """
        check_choice("format", format, tuple(_FORMATS))
        numbers = np.asarray(boxes)
        if numbers.ndim != 2 or numbers.shape[1] not in (2, 4):
            raise ValueError(f"boxes must have shape (rows, 4), or (rows, 2) for points, not {numbers.shape}")
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
        number_columns = [columns.others[role][0] for role in roles]
        values = [checks.checked_values(*column) for column in number_columns]
        sizes = {"tasks": len(tasks), "workers": len(workers)}
        sizes |= {what: len(each) for each, (_, what) in zip(values, number_columns, strict=True)}
        checks.check_sizes(sizes if labels is None else sizes | {"labels": len(labels)}, "(task, worker, box)")
        checks.refuse_missing_ids(tasks, workers)
        boxes = np.stack(values, axis=1)
        is_box = _check_boxes(boxes, [what for _, what in number_columns], roles)
        boxes = _corners(boxes, roles)
        codes, classes = _labels(labels, is_box)
        ids = encode_ids(tasks, workers)
        _check_contradictions(ids, is_box)
        numbers = np.where(is_box[:, None], boxes, 0.0)
        # Sorted, so that the table does not depend on the order of rows.
        order = np.lexsort((is_box, codes, *numbers.T[::-1], ids.worker_codes, ids.task_codes))
        names = ids.workers.take(np.zeros(0, np.int64)) if classes is None else classes
        parts = (names, np.ascontiguousarray(numbers[order]), codes[order], is_box[order])
        payload = Payload(np.arange(len(order)), len(order), parts)
        links = (ids.task_codes[order], ids.worker_codes[order])
        table = cls._compiled(*links, payload, None, len(ids.tasks), len(ids.workers))
        return cls(table, ids.tasks, ids.workers, *parts)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def n_dims(self) -> int:
        """Numbers per box: 4, or 2 for points."""
        return int(self._numbers.shape[1])

    @property
    def n_boxes(self) -> int:
        """Number of boxes or points, without empty rows."""
        return int(self._seen.sum())

    @property
    def classes(self) -> npt.NDArray[Any]:
        """Labels of objects, in code order; empty if boxes have no labels."""
        return self._classes.values

    @property
    def boxes(self) -> Floats:
        """Boxes in the order of :meth:`to_frame`, shape (n_annotations, n_dims); NaN for empty rows."""
        return np.where(self._seen[:, None], self._numbers, np.nan)

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """Which rows of :meth:`to_frame` are boxes; the others mark images in which a worker drew nothing."""
        return self._seen.copy()

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.int64]]:
        """Return task, worker and label code of every row in task order, as new arrays; label 0 if there are none."""
        tasks, workers, _ = self._table.columns()
        return tasks, workers, self._label_codes.astype(np.int64)

    def _facts(self) -> Iterable[Fact]:
        is_box, (tasks, workers, labels) = self._seen, self.codes()
        empty = self.n_annotations - self.n_boxes
        counts = np.bincount(labels[is_box], minlength=len(self._classes)).tolist() if len(self._classes) else []
        label_counts = {str(name): int(n) for name, n in zip(self.classes.tolist(), counts, strict=True)}
        yield from self._about("boxes", f"{self.n_boxes:,}, and {empty:,} times nothing")
        yield Fact("n_boxes", self.n_boxes)
        yield Fact("n_empty", empty)
        for name, codes, n in (("task", tasks, self.n_tasks), ("worker", workers, self.n_workers)):
            yield Fact(f"boxes_per_{name}", Spread.of(np.bincount(codes[is_box], minlength=n)), f"boxes per {name}")
        yield Fact(
            "labels", label_counts, "labels", ", ".join(f"{name} {n:,}" for name, n in label_counts.items()) or "none"
        )

    def __repr__(self) -> str:
        n = self.n_boxes
        boxes = plural(n, "point") if self.n_dims == 2 else f"{n:,} box{'' if n == 1 else 'es'}"
        who = f"{plural(self.n_tasks, 'task')} by {plural(self.n_workers, 'worker')}"
        labels = f", {plural(len(self._classes), 'label')}" if len(self._classes) else ""
        return f"<Boxes: {boxes} in {who}{labels}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self.n_dims, self._classes)

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self._table.columns()[:2], self._numbers, self._label_codes, self._seen)

    def _part(self, table: Any, tasks: Names, workers: Names, unlabelled: Names) -> Self:
        of, by, rows = table.columns()
        parts = (self._classes, self._numbers[rows], self._label_codes[rows], self._seen[rows])
        merged = self._compiled(of, by, Payload(np.arange(len(rows)), len(rows)), None, len(tasks), len(workers))
        return type(self)(merged, tasks, workers, *parts, unlabelled=unlabelled)

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
        is_seen = content.array("seen", np.bool_, shape=(n,))
        if not _whole(numbers, labels, is_seen, len(classes)):
            raise content.damaged("its boxes are invalid")
        return Payload(np.arange(n), n, (classes, numbers, labels, is_seen))


def _check_boxes(boxes: Floats, whats: list[str], roles: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Return which rows are boxes; raise for incomplete boxes and boxes without area."""
    absent = np.isnan(boxes)
    partly = absent.any(axis=1) & ~absent.all(axis=1)
    if partly.any():
        row = int(np.argmax(partly))
        what = whats[int(np.argmax(absent[row]))]
        raise ValueError(
            f"{what} is missing at row {row}, but the other numbers are not; complete or drop that row "
            "(all numbers missing means that the worker drew nothing)"
        )
    far = np.abs(np.where(absent, 0.0, boxes)) > _FARTHEST
    if far.any():
        row, column = np.argwhere(far)[0].tolist()
        raise ValueError(
            f"{whats[column]} contains {boxes[row, column]:g} at row {row}, which is too large to subtract; "
            "scale the coordinates down"
        )
    for low, high in ((0, 2), (1, 3)) if boxes.shape[1] == 4 else ():
        sized = roles[high] in ("width", "height")
        without_area = boxes[:, high] <= (0.0 if sized else boxes[:, low])
        if without_area.any():
            row = int(np.argmax(without_area))
            other = "" if sized else f", and {whats[low]} is {boxes[row, low]:g}"
            fix = (
                "pass points as two numbers"
                if sized
                else "boxes are left, top, right, bottom: swap the corners, pass format='xywh' for widths, "
                "or pass points as two numbers"
            )
            raise ValueError(f"row {row} has a box without area: {whats[high]} is {boxes[row, high]:g}{other}; {fix}")
    return np.asarray(~absent.all(axis=1))


def _corners(boxes: Floats, roles: tuple[str, ...]) -> Floats:
    """Convert boxes to left, top, right, bottom; points are unchanged."""
    if roles in (_CORNERS, _POINT):
        return boxes
    with np.errstate(over="ignore", invalid="ignore"):
        low = boxes[:, :2] - (boxes[:, 2:] / 2 if roles == _FORMATS["cxcywh"] else 0)
        corners = np.concatenate([low, low + boxes[:, 2:]], axis=1)
    invalid = ~np.isfinite(corners).all(axis=1) & np.isfinite(boxes).all(axis=1) | (corners[:, 2:] <= low).any(axis=1)
    if invalid.any():
        row = int(np.argmax(invalid))
        raise ValueError(f"row {row} has a box out of floating-point range: {boxes[row].tolist()}; rescale all boxes")
    return corners


def _labels(labels: Column | None, is_box: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.uint16], Names | None]:
    """Return label codes of boxes (0 for other rows) and label names."""
    codes = np.zeros(len(is_box), np.uint16)
    if labels is None or not is_box.any():
        return codes, None
    missing = labels.missing()
    unlabelled = is_box & missing if missing is not None else np.zeros(len(is_box), np.bool_)
    if unlabelled.any():
        row = int(np.argmax(unlabelled))
        raise ValueError(
            f"{labels.what} is missing at row {row}, which has a box; add it, drop the row, or omit labels"
        )
    what = labels.what
    labels.filter(is_box)
    label_codes, names = labels.encode()
    checks.check_n_classes(len(names), what)
    codes[is_box] = label_codes
    return codes, names


def _check_contradictions(ids: Ids, is_box: npt.NDArray[np.bool_]) -> None:
    """Raise if a worker has both a box and an empty row in a task."""
    pairs = ids.task_codes.astype(np.int64) * len(ids.workers) + ids.worker_codes
    contradictory = np.flatnonzero(~is_box & np.isin(pairs, pairs[is_box]))
    if len(contradictory):
        row = int(contradictory[0])
        task, worker = ids.tasks.values[ids.task_codes[row]], ids.workers.values[ids.worker_codes[row]]
        raise ValueError(
            f"row {row} marks task {task!r} of worker {worker!r} as empty, but another row has a box; drop one of them"
        )


def _whole(numbers: Floats, labels: npt.NDArray[Any], is_box: npt.NDArray[np.bool_], n_classes: int) -> bool:
    """Return whether the rows of a file are valid boxes or points with valid labels."""
    if len(numbers) != len(is_box) or numbers.shape[1] not in (2, 4):
        return False
    good = labels < max(n_classes, 1)
    if numbers.shape[1] == 4:
        good &= ~is_box | ((numbers[:, 2] > numbers[:, 0]) & (numbers[:, 3] > numbers[:, 1]))
    return bool(good.all())
