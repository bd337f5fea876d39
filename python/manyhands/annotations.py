"""The annotation table: one immutable, sparse record of who said what about which task."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core, persist
from manyhands.errors import DataWarning
from manyhands.frames import column, resolve_columns
from manyhands.names import Codes, Column, Names, sequence

if TYPE_CHECKING:
    import pyarrow as pa

Repeats = Literal["keep", "first", "last", "error"]
Missing = Literal["drop", "error"]

MAX_CLASSES = 65_535


class Annotations:
    """An immutable, sparse table of (task, worker, label) triples.

    Made by one of the constructors below or by :func:`manyhands.read`. Ids may be integers, text, booleans, dates,
    categories or any hashable Python value. Names are kept in sorted order, rows in task order and by worker
    within a task: the same annotations give the same table, whatever order and frame library they came in.

    A worker's second answer to the same task is kept and counts as another vote, unless `repeats` says otherwise. Rows
    without a label (null, NaN, empty text) are set aside with a warning, or refused with ``missing="error"``; tasks that
    lose all their rows that way are listed in :attr:`unlabelled`.

    Memory: 5 bytes an annotation (6 above 256 classes; 8 more with weights) and 4 a task, besides the names.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_arrays(["a", "a", "b"], ["ann", "bob", "ann"], ["cat", "dog", "dog"])
    >>> votes
    <Annotations: 3 annotations of 2 tasks by 2 workers, 2 classes>
    >>> votes.classes.tolist()
    ['cat', 'dog']
    """

    __slots__ = ("_classes", "_table", "_tasks", "_unlabelled", "_workers")

    def __init__(
        self, table: _core.Table, tasks: Names, workers: Names, classes: Names, unlabelled: Names | None = None
    ) -> None:
        self._table = table
        self._tasks = tasks
        self._workers = workers
        self._classes = classes
        self._unlabelled = unlabelled if unlabelled is not None else tasks.take(np.zeros(0, np.int64))

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        weight: str | None = None,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
        classes: Iterable[Any] | None = None,
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame
            The log, one row an annotation. Anything with the Arrow PyCapsule interface will do.
        task, worker, label
            Column names. Where one is not given, the frame must have exactly one column with a well-known name
            (``task``, ``task_id``, ``item``, … ``worker``, ``annotator``, … ``label``, ``answer``, …).
        weight
            Column of weights: an annotation of weight 2 counts as two. None for equal weights.
        repeats
            What to do with a worker's further answers to the same task: ``"keep"`` them all, only the ``"first"``
            or ``"last"`` row, or ``"error"``.
        missing
            ``"drop"`` rows without a label, with a warning, or ``"error"``.
        classes
            All classes, in the order their codes shall have. By default the labels that occur, sorted.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"item": [1, 1, 2], "rater": ["x", "y", "x"], "answer": [True, False, True]}
        >>> mh.Annotations.from_frame(log, task="item", worker="rater", label="answer").n_tasks
        2
        """
        found = resolve_columns(frame, task=task, worker=worker, label=label)
        return cls._build(
            Column(column(frame, found["task"]), f"task column '{found['task']}'"),
            Column(column(frame, found["worker"]), f"worker column '{found['worker']}'"),
            Column(column(frame, found["label"]), f"label column '{found['label']}'"),
            None if weight is None else _weights(column(frame, weight), f"weight column '{weight}'"),
            repeats=repeats,
            missing=missing,
            classes=classes,
        )

    @classmethod
    def from_arrays(
        cls,
        tasks: Any,
        workers: Any,
        labels: Any,
        weights: Any = None,
        *,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
        classes: Iterable[Any] | None = None,
    ) -> Self:
        """Build a table from three columns of equal length: lists, arrays, Series or Arrow arrays of ids.

        Other parameters are those of :meth:`from_frame`.
        """
        return cls._build(
            Column(tasks, "tasks"),
            Column(workers, "workers"),
            Column(labels, "labels"),
            None if weights is None else _weights(weights, "weights"),
            repeats=repeats,
            missing=missing,
            classes=classes,
        )

    @classmethod
    def from_dense(
        cls, matrix: npt.ArrayLike, *, missing: Any = -1, classes: Iterable[Any] | None = None
    ) -> Self:
        """Build a table from a (tasks × workers) matrix of labels with `missing` (or NaN) where there is none.

        Tasks and workers are named by their row and column; tasks without labels are listed in :attr:`unlabelled`.

        Examples
        --------
        >>> import manyhands as mh
        >>> mh.Annotations.from_dense([[0, 1, -1], [1, 1, 0]]).n_annotations
        5
        """
        dense = np.asarray(matrix)
        if dense.ndim != 2:
            raise ValueError(f"the matrix must be tasks × workers, not of shape {dense.shape}")
        given = dense != missing
        if dense.dtype.kind == "f":
            given &= ~np.isnan(dense)
        elif dense.dtype == object:
            given &= np.frompyfunc(lambda x: x is not None and x == x, 1, 1)(dense).astype(np.bool_)  # noqa: PLR0124
        tasks, workers = np.nonzero(given)
        built = cls.from_arrays(tasks, workers, dense[given], classes=classes)
        empty = np.flatnonzero(~given.any(axis=1))
        if len(empty):
            _warn_unlabelled(0, empty)
        return cls(built._table, built._tasks, built._workers, built._classes, Names(empty))

    @classmethod
    def from_codes(
        cls,
        tasks: npt.ArrayLike,
        workers: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        n_tasks: int,
        n_workers: int,
        n_classes: int,
        weights: npt.ArrayLike | None = None,
    ) -> Self:
        """Build a table from columns that are codes already: whole numbers from 0, which are also the names.

        The quickest way in: nothing is looked up. Codes that do not occur are tasks, workers or classes without
        annotations.
        """
        for what, count in (("n_tasks", n_tasks), ("n_workers", n_workers), ("n_classes", n_classes)):
            if count < 1:
                raise ValueError(f"{what} must be at least 1, not {count}")
        _check_classes(n_classes, "n_classes")
        table = _core.Table(
            _as_codes(tasks, "tasks", np.uint32),
            _as_codes(workers, "workers", np.uint32),
            _as_codes(labels, "labels", np.uint16),
            None if weights is None else np.ascontiguousarray(weights, np.float64),
            n_tasks,
            n_workers,
            n_classes,
        )
        return cls(table, *(Names(np.arange(n)) for n in (n_tasks, n_workers, n_classes)))

    @classmethod
    def _build(
        cls,
        tasks: Column,
        workers: Column,
        labels: Column,
        weights: npt.NDArray[np.float64] | None,
        *,
        repeats: Repeats,
        missing: Missing,
        classes: Iterable[Any] | None,
        parse_integers: bool = False,
    ) -> Self:
        _check_choice("repeats", repeats, ("keep", "first", "last", "error"))
        _check_choice("missing", missing, ("drop", "error"))
        _check_lengths(tasks, workers, labels, weights)
        _refuse_missing(tasks, workers)
        absent = labels.missing()
        unlabelled = None
        if absent is not None:
            task_codes, task_names = tasks.encode(parse_integers=parse_integers)
            unlabelled = _set_aside(labels, absent, missing, task_codes, task_names)
            keep = ~absent
            for one in (tasks, workers, labels):
                one.filter(keep)
            weights = None if weights is None else weights[keep]
        task_codes, task_names = tasks.encode(parse_integers=parse_integers)
        worker_codes, worker_names = workers.encode(parse_integers=parse_integers)
        label_codes, class_names = labels.encode(parse_integers=parse_integers)
        label_codes, class_names = _with_classes(label_codes, class_names, classes)
        _check_classes(len(class_names), labels.what)
        table = _core.Table(
            task_codes,
            worker_codes,
            label_codes.astype(np.uint16),
            weights,
            len(task_names),
            len(worker_names),
            len(class_names),
            "keep" if repeats == "error" else repeats,
        )
        if repeats == "error":
            _refuse_repeats(table, task_names, worker_names)
        return cls(table, task_names, worker_names, class_names, unlabelled)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self._table.n_tasks

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return self._table.n_workers

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self._table.n_classes

    @property
    def n_annotations(self) -> int:
        """Number of annotations."""
        return self._table.n_annotations

    def __len__(self) -> int:
        return self.n_annotations

    @property
    def tasks(self) -> npt.NDArray[Any]:
        """Names of the tasks, in code order; results are aligned with it."""
        return self._tasks.values

    @property
    def workers(self) -> npt.NDArray[Any]:
        """Names of the workers, in code order."""
        return self._workers.values

    @property
    def classes(self) -> npt.NDArray[Any]:
        """Names of the classes, in code order."""
        return self._classes.values

    @property
    def unlabelled(self) -> npt.NDArray[Any]:
        """Names of tasks that came in with rows but without a single label; they are not part of the table."""
        return self._unlabelled.values

    @property
    def labels_per_task(self) -> npt.NDArray[np.int64]:
        """Number of annotations of each task, (n_tasks,)."""
        return np.diff(self._table.offsets().astype(np.int64))

    @property
    def labels_per_worker(self) -> npt.NDArray[np.int64]:
        """Number of annotations by each worker, (n_workers,)."""
        return self._table.worker_counts().astype(np.int64)

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.uint16]]:
        """Task, worker and label code of every annotation, in task order: fresh arrays, 10 bytes an annotation."""
        return self._table.columns()

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """Weight of every annotation, aligned with :meth:`codes`; None where all weigh the same."""
        return self._table.weights()

    def to_frame(self) -> pa.Table:
        """Return the annotations as an Arrow table: task, worker, label, and weight where there are weights."""
        import pyarrow as pa

        names = (self._tasks, self._workers, self._classes)
        columns = [name.take(code).arrow() for name, code in zip(names, self.codes(), strict=True)]
        table = pa.table(columns, names=["task", "worker", "label"])
        return table if self.weights is None else table.append_column("weight", pa.array(self.weights))

    def __repr__(self) -> str:
        weighted = ", weighted" if self.weights is not None else ""
        return (
            f"<Annotations: {_count(self.n_annotations, 'annotation')} of {_count(self.n_tasks, 'task')} "
            f"by {_count(self.n_workers, 'worker')}, {_count(self.n_classes, 'class', 'classes')}{weighted}>"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        mine, theirs = (self._tasks, self._workers, self._classes), (other._tasks, other._workers, other._classes)
        if mine != theirs or self.n_annotations != other.n_annotations:
            return False
        same = all(np.array_equal(a, b) for a, b in zip(self.codes(), other.codes(), strict=True))
        a, b = self.weights, other.weights
        return same and ((a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b)))

    __hash__ = None  # type: ignore[assignment]

    # ----------------------------------------------------------------------------------------------- subsets

    def select(self, *, tasks: Iterable[Any] | None = None, workers: Iterable[Any] | None = None) -> Self:
        """Return the annotations of some tasks, by some workers, or both.

        Classes stay as they are; workers without an annotation left are dropped, and so are tasks, which are
        listed in :attr:`unlabelled` of the result if they were not left out by name. O(annotations).

        Parameters
        ----------
        tasks, workers
            Names to keep, or a boolean mask aligned with :attr:`tasks` or :attr:`workers`.
        """
        task_keep = _mask(self._tasks, tasks, "task")
        worker_keep = _mask(self._workers, workers, "worker")
        task_codes, worker_codes, _ = self.codes()
        built, kept = self._subset(task_keep[task_codes] & worker_keep[worker_codes])
        lost = np.flatnonzero(task_keep & ~kept)
        return type(self)(built._table, built._tasks, built._workers, built._classes, self._tasks.take(lost))

    def sample(
        self, *, fraction: float | None = None, per_task: int | None = None, seed: int = 0
    ) -> Self:
        """Return a random part of the annotations: a fraction of all, or at most some number per task.

        Examples
        --------
        >>> import manyhands as mh
        >>> votes = mh.Annotations.from_dense([[0, 1, 1], [1, 1, 0]])
        >>> votes.sample(per_task=2).labels_per_task.tolist()
        [2, 2]
        """
        if (fraction is None) == (per_task is None):
            raise ValueError("give either fraction= or per_task=")
        key = np.random.default_rng(seed).random(self.n_annotations)
        if fraction is not None:
            if not 0 < fraction <= 1:
                raise ValueError(f"fraction must lie in (0, 1], not {fraction}")
            keep = np.zeros(self.n_annotations, np.bool_)
            keep[np.argpartition(key, round(fraction * len(key)) - 1)[: round(fraction * len(key))]] = True
            if not keep.any():
                raise ValueError(f"a fraction of {fraction} leaves none of {self.n_annotations} annotations")
        else:
            if per_task is None or per_task < 1:
                raise ValueError(f"per_task must be at least 1, not {per_task}")
            offsets = self._table.offsets().astype(np.int64)
            order = np.lexsort((key, self.codes()[0]))
            place = np.arange(len(key)) - np.repeat(offsets[:-1], np.diff(offsets))
            keep = np.zeros(len(key), np.bool_)
            keep[order[place < per_task]] = True
        return self._subset(keep)[0]

    def _subset(self, keep: npt.NDArray[np.bool_]) -> tuple[Self, npt.NDArray[np.bool_]]:
        """The marked annotations, and which tasks still have one."""
        if not keep.any():
            raise ValueError("no annotation is left: the selected tasks and workers have none in common")
        task_codes, worker_codes, labels = (codes[keep] for codes in self.codes())
        task_codes, tasks, kept = _compact(task_codes, self._tasks)
        worker_codes, workers, _ = _compact(worker_codes, self._workers)
        weights = None if self.weights is None else self.weights[keep]
        table = _core.Table(task_codes, worker_codes, labels, weights, len(tasks), len(workers), self.n_classes)
        return type(self)(table, tasks, workers, self._classes), kept

    # ------------------------------------------------------------------------------------------ description

    def describe(self) -> Description:
        """Summarise the table: sizes, labels per task and worker, overlap, agreement. O(annotations)."""
        per_task, per_worker = self.labels_per_task, self.labels_per_worker
        agreeing, pairs = self._table.agreeing_pairs()
        return Description(
            n_annotations=self.n_annotations,
            n_tasks=self.n_tasks,
            n_workers=self.n_workers,
            n_classes=self.n_classes,
            n_unlabelled=len(self._unlabelled),
            n_repeats=self._table.n_repeats(),
            labels_per_task=Spread.of(per_task),
            labels_per_worker=Spread.of(per_worker),
            overlap=float(np.mean(per_task > 1)),
            agreement=agreeing / pairs if pairs else float("nan"),
            n_components=self._table.n_components(),
            class_shares={
                _text(name): count / self.n_annotations
                for name, count in zip(self.classes.tolist(), self._table.label_counts().tolist(), strict=True)
            },
        )

    # ------------------------------------------------------------------------------------------- persistence

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a versioned file that holds data only; read it back with :func:`manyhands.load`."""
        tasks, workers, labels = self.codes()
        arrays = {"task_codes": tasks, "worker_codes": workers, "label_codes": labels}
        if self.weights is not None:
            arrays["weights"] = self.weights
        for part in ("tasks", "workers", "classes", "unlabelled"):
            arrays |= persist.pack_names(part, getattr(self, f"_{part}"))
        persist.write(path, "annotations", {}, arrays)

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        tasks, workers, classes, unlabelled = (
            content.names(part) for part in ("tasks", "workers", "classes", "unlabelled")
        )
        n = content.array("task_codes", np.uint32, ndim=1).shape[0]
        table = _core.Table(
            content.array("task_codes", np.uint32, shape=(n,)),
            content.array("worker_codes", np.uint32, shape=(n,)),
            content.array("label_codes", np.uint16, shape=(n,)),
            content.array("weights", np.float64, shape=(n,)) if "weights" in content.arrays else None,
            len(tasks),
            len(workers),
            len(classes),
        )
        return cls(table, tasks, workers, classes, unlabelled)

    def __reduce__(self) -> tuple[Any, ...]:
        names = tuple(n.values for n in (self._tasks, self._workers, self._classes, self._unlabelled))
        return _unpickle, (type(self), *self.codes(), self.weights, *names)


@dataclass(frozen=True)
class Spread:
    """How a count is spread: smallest, quartiles, largest, and mean."""

    min: int
    q25: float
    median: float
    q75: float
    max: int
    mean: float

    @classmethod
    def of(cls, counts: npt.NDArray[np.int64]) -> Spread:
        """Summarise an array of counts."""
        q25, median, q75 = (float(q) for q in np.quantile(counts, (0.25, 0.5, 0.75)))
        return cls(int(counts.min()), q25, median, q75, int(counts.max()), float(counts.mean()))

    def __str__(self) -> str:
        return (
            f"mean {self.mean:.2f}, median {self.median:g} "
            f"(quartiles {self.q25:g}–{self.q75:g}, range {self.min:,}–{self.max:,})"
        )


@dataclass(frozen=True)
class Description:
    """What :meth:`Annotations.describe` returns; prints as a short report.

    ``overlap`` is the share of tasks with two or more labels, ``agreement`` the share of equal labels among all pairs
    on the same task, ``n_components`` the number of separate groups of workers that share no task (methods that compare
    workers can only compare within a group).
    """

    n_annotations: int
    n_tasks: int
    n_workers: int
    n_classes: int
    n_unlabelled: int
    n_repeats: int
    labels_per_task: Spread
    labels_per_worker: Spread
    overlap: float
    agreement: float
    n_components: int
    class_shares: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers and dictionaries, for JSON."""
        out = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("labels_per_task", "labels_per_worker"):
            out[name] = vars(out[name])
        return out

    def __str__(self) -> str:
        shown = sorted(self.class_shares.items(), key=lambda item: -item[1])[:10]
        more = "" if len(self.class_shares) <= 10 else f", and {len(self.class_shares) - 10} more"
        return "\n".join(
            (
                f"annotations        {self.n_annotations:,}",
                f"tasks              {self.n_tasks:,}  (and {self.n_unlabelled:,} without a label)",
                f"workers            {self.n_workers:,}  ({self.n_components:,} separate groups)",
                f"classes            {self.n_classes:,}  ({', '.join(f'{k} {v:.1%}' for k, v in shown)}{more})",
                f"labels per task    {self.labels_per_task}",
                f"labels per worker  {self.labels_per_worker}",
                f"overlap            {self.overlap:.1%} of tasks have two or more labels",
                f"agreement          {self.agreement:.1%} of pairs of labels on a task are equal",
                f"repeats            {self.n_repeats:,} further answers by a worker to the same task",
            )
        )


def _unpickle(cls: type[Annotations], *state: Any) -> Annotations:
    tasks, workers, labels, weights, *names = state
    task_names, worker_names, class_names, unlabelled = (sequence(n) for n in names)
    table = _core.Table(tasks, workers, labels, weights, len(task_names), len(worker_names), len(class_names))
    return cls(table, task_names, worker_names, class_names, unlabelled)


# ------------------------------------------------------------------------------------------------------ checks


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _check_lengths(tasks: Column, workers: Column, labels: Column, weights: npt.NDArray[np.float64] | None) -> None:
    sizes = {"tasks": len(tasks), "workers": len(workers), "labels": len(labels)}
    if weights is not None:
        sizes["weights"] = len(weights)
    if len(set(sizes.values())) > 1:
        raise ValueError(f"columns differ in length: {', '.join(f'{n:,} {k}' for k, n in sizes.items())}")
    if not len(tasks):
        raise ValueError("there are no annotations: the table needs at least one (task, worker, label) row")


def _refuse_missing(*columns: Column) -> None:
    for one in columns:
        absent = one.missing()
        if absent is not None:
            raise ValueError(
                f"{one.what} is missing (null, NaN or empty) in {int(absent.sum()):,} of {len(one):,} rows, first at row "
                f"{int(np.argmax(absent))}; an annotation needs a task and a worker: fill or drop those rows"
            )


def _refuse_repeats(table: _core.Table, tasks: Names, workers: Names) -> None:
    first = table.first_repeat()
    if first is not None:
        task, worker = tasks.values[first[0]], workers.values[first[1]]
        raise ValueError(
            f"worker {worker!r} labelled task {task!r} more than once ({table.n_repeats():,} such rows in all); "
            "choose repeats='keep', 'first' or 'last'"
        )


def _set_aside(
    labels: Column, absent: npt.NDArray[np.bool_], missing: Missing, task_codes: Codes, tasks: Names
) -> Names:
    """The tasks that lose all their rows; warns, or raises if rows without a label are not allowed."""
    n = int(absent.sum())
    if missing == "error":
        raise ValueError(
            f"{labels.what} is missing (null, NaN or empty) in {n:,} of {len(labels):,} rows, first at row "
            f"{int(np.argmax(absent))}; fill or drop them, or choose missing='drop'"
        )
    if n == len(absent):
        raise ValueError(f"{labels.what} is missing (null, NaN or empty) in all {n:,} rows: there is nothing to aggregate")
    left = np.bincount(task_codes[~absent], minlength=len(tasks)) > 0
    lost = np.flatnonzero(~left)
    _warn_unlabelled(n, tasks.values[lost])
    return tasks.take(lost)


def _warn_unlabelled(n_rows: int, tasks: npt.NDArray[Any]) -> None:
    parts = [f"set aside {n_rows:,} rows without a label"] if n_rows else []
    if len(tasks):
        shown = ", ".join(repr(t) for t in tasks[:3].tolist()) + (", …" if len(tasks) > 3 else "")
        parts.append(f"{len(tasks):,} tasks have no label at all and will get no answer ({shown}; see .unlabelled)")
    warnings.warn("; ".join(parts), DataWarning, stacklevel=_outside())


def _outside() -> int:
    """Stack level of the first caller outside this package."""
    import sys

    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("manyhands"):
        frame, level = frame.f_back, level + 1
    return level


def _check_classes(n: int, what: str) -> None:
    if n > MAX_CLASSES:
        raise ValueError(
            f"{what} holds {n:,} distinct labels, more than the {MAX_CLASSES:,} classes a table can have; "
            "is it an id, a number or free text rather than a class?"
        )


def _with_classes(codes: Codes, names: Names, classes: Iterable[Any] | None) -> tuple[Codes, Names]:
    if classes is None:
        return codes, names
    fixed = sequence(classes)
    if len(set(fixed.values.tolist())) != len(fixed):
        raise ValueError("classes must be distinct")
    code_of = fixed.match(names) if len(fixed) else np.full(len(names), -1)
    if (code_of < 0).any():
        unknown = names.values[code_of < 0].tolist()
        raise ValueError(
            f"labels {', '.join(map(repr, unknown[:3]))}{', …' if len(unknown) > 3 else ''} are not among the given classes "
            f"({', '.join(map(repr, fixed.values[:5].tolist()))}{', …' if len(fixed) > 5 else ''})"
        )
    return code_of.astype(np.uint32)[codes], fixed


def _weights(data: Any, what: str) -> npt.NDArray[np.float64]:
    import pyarrow as pa

    if isinstance(data, pa.ChunkedArray | pa.Array):
        data = data.to_numpy(zero_copy_only=False) if isinstance(data, pa.Array) else data.to_numpy()
    try:
        weights = np.ascontiguousarray(data, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must hold numbers") from None
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what} holds {weights[row]} at row {row}; weights must be finite and at least 0")
    return weights


def _as_codes(values: npt.ArrayLike, what: str, dtype: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    codes = np.asarray(values)
    if codes.dtype.kind not in "ui":
        raise TypeError(f"{what} must be whole numbers (codes), not {codes.dtype}; use from_arrays for other ids")
    if codes.size and (codes.min() < 0 or codes.max() > np.iinfo(dtype).max):
        raise ValueError(f"{what} must lie between 0 and {np.iinfo(dtype).max:,}")
    return np.ascontiguousarray(codes, dtype)


def _mask(names: Names, wanted: Iterable[Any] | None, what: str) -> npt.NDArray[np.bool_]:
    if wanted is None:
        return np.ones(len(names), np.bool_)
    if isinstance(wanted, np.ndarray) and wanted.dtype == np.bool_:
        if wanted.shape != (len(names),):
            raise ValueError(f"the {what} mask has shape {wanted.shape}, not ({len(names)},)")
        return wanted
    wanted = list(wanted)
    codes = names.find(wanted)
    if (codes < 0).any():
        raise KeyError(f"no {what} is called {wanted[int(np.argmax(codes < 0))]!r}")
    keep = np.zeros(len(names), np.bool_)
    keep[codes] = True
    return keep


def _compact(codes: Codes, names: Names) -> tuple[Codes, Names, npt.NDArray[np.bool_]]:
    """Renumbers the codes that occur."""
    used = np.zeros(len(names), np.bool_)
    used[codes] = True
    rank = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
    return rank[codes], names.take(np.flatnonzero(used)), used


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _text(name: Any) -> str:
    return name if isinstance(name, str) else repr(name)


def as_annotations(votes: Any) -> Annotations:
    """The table itself, or the table of a frame whose columns have well-known names."""
    if isinstance(votes, Annotations):
        return votes
    if isinstance(votes, Mapping) or hasattr(votes, "__arrow_c_stream__") or hasattr(votes, "columns"):
        return Annotations.from_frame(votes)
    raise TypeError(
        f"expected Annotations or a frame, not {type(votes).__name__}; see Annotations.from_frame, from_arrays, from_dense"
    )
