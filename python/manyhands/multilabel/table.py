"""The table of sets: who said which labels of a task."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base import data_checks as checks
from manyhands._base.building import Repeats
from manyhands._base.checks import check_choice, counted
from manyhands._base.columns import Columns, columns_of
from manyhands._base.description import SetsDescription, Spread, class_texts
from manyhands._base.ids import encode_ids
from manyhands._base.names import Codes, Column, Names
from manyhands._base.task_table import Answers
from manyhands._base.values import as_objects
from manyhands.errors import argument

Ints = npt.NDArray[np.int64]


class MultiLabels(Answers):
    """An immutable, sparse table of (task, worker, set of labels) rows.

    A worker who names some labels of a task says no to all others that could be said, its *inventory*: an empty set is
    an answer, and not a missing one. Made by one of the constructors below or by :func:`manyhands.read` with
    ``kind="multilabel"``. Ids are those of :class:`~manyhands.Annotations`. A worker's second answer to the same task
    counts as another, unless `repeats` says otherwise.

    Memory: 12 bytes a row, 8 for each label of each distinct set, and 4 a task, besides the names.

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"task": [1, 1, 2], "worker": ["ann", "bob", "ann"], "labels": ["cat|dog", "cat", ""]}
    >>> mh.MultiLabels.from_frame(log)
    <MultiLabels: 3 answers to 2 tasks by 2 workers, 2 labels>
    """

    __slots__ = ("_labels", "_members", "_starts")
    _kind: ClassVar[str] = "multilabel"
    _roles: ClassVar[tuple[str, ...]] = ("task", "worker", "labels")
    _options: ClassVar[tuple[str, ...]] = ()
    _numbers: ClassVar[frozenset[str]] = frozenset()
    _raw: ClassVar[frozenset[str]] = frozenset({"labels"})
    _settings: ClassVar[tuple[str, ...]] = ("sep", "inventory", "repeats")
    _telling: ClassVar[tuple[tuple[str, ...], ...]] = (("labels",),)
    _file_kind: ClassVar[str] = "multilabels"
    _table: _core.Ratings

    def __init__(
        self,
        table: _core.Ratings,
        tasks: Names,
        workers: Names,
        labels: Names,
        starts: Ints,
        members: Ints,
        unlabelled: Names | None = None,
    ) -> None:
        super().__init__(table, tasks, workers, unlabelled)
        self._labels = labels
        #: Distinct sets, which the table holds numbers of: where the labels of each begin, and their codes, ascending.
        self._starts, self._members = starts, members

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        labels: str | Iterable[str] | None = None,
        label: str | None = None,
        sep: str | None = "|",
        inventory: Iterable[Any] | None = None,
        repeats: Repeats = "keep",
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame
            The log. Anything with the Arrow PyCapsule interface will do.
        task, worker
            Column names, as for :meth:`Annotations.from_frame`.
        labels
            The column of sets, one row per answer: lists, sets or text. Null and empty text are empty sets. Several
            columns in a list are one per label, each with 1 or true where the label was said, and 0 or false elsewhere.
        label
            In place of `labels`: the column of a log in long form, a row for each label that a worker says of a task. A
            row without a label says that there was an answer, if only an empty one.
        sep
            What separates the labels of a text; None where each text is one label.
        inventory
            All labels that could be said, in the order of their codes. By default those that were, sorted.
        repeats
            As for :meth:`Annotations.from_frame`. The long form has none: rows of a worker and task are one answer.

        Examples
        --------
        >>> import manyhands as mh
        >>> long = {"task": [1, 1, 1], "worker": ["ann", "ann", "bob"], "label": ["cat", "dog", None]}
        >>> mh.MultiLabels.from_frame(long, label="label").to_frame().column("labels").to_pylist()
        [['cat', 'dog'], []]
        """
        if label is not None:
            if labels is not None or repeats != "keep":
                raise ValueError(
                    f"{argument('label')} is for the long form, a row a label, and goes with neither labels= "
                    "nor repeats="
                )
            columns = columns_of(frame, {"task": task, "worker": worker, "label": label}, (), weak=cls._weak)
            return cls._of_long(columns, inventory)
        columns = columns_of(frame, {"task": task, "worker": worker, "labels": labels}, cls._raw, weak=cls._weak)
        return cls._made(columns, sep=sep, inventory=inventory, repeats=repeats)

    @classmethod
    def from_arrays(
        cls,
        tasks: Any,
        workers: Any,
        labels: Any,
        *,
        sep: str | None = "|",
        inventory: Iterable[Any] | None = None,
        repeats: Repeats = "keep",
    ) -> Self:
        """Build a table from columns of equal length: ids of tasks and workers, and sets.

        Other parameters are those of :meth:`from_frame`.
        """
        ids = {"task": Column(tasks, "tasks"), "worker": Column(workers, "workers")}
        columns = Columns(ids, {"labels": [(labels, "labels")]})
        return cls._of_columns(columns, sep=sep, inventory=inventory, repeats=repeats)

    @classmethod
    def _of_columns(
        cls,
        columns: Columns,
        *,
        sep: str | None = "|",
        inventory: Iterable[Any] | None = None,
        repeats: Repeats = "keep",
    ) -> Self:
        check_choice("repeats", repeats, ("keep", "first", "last", "error"))
        if sep is not None and (not isinstance(sep, str) or not sep):
            raise ValueError(f"sep must be text of at least one character, or None, not {sep!r}")
        (data, what), *others = columns.others["labels"]
        if others:
            data, inventory = _from_flags(columns), inventory or columns.names["labels"]
            what, sep = "the columns of labels", None
        lengths, said = _spread(data, what, sep)
        tasks, workers = columns.ids["task"], columns.ids["worker"]
        sizes = {"tasks": len(tasks), "workers": len(workers), what: len(lengths)}
        checks.check_sizes(sizes, "(task, worker, labels)")
        checks.refuse_missing_ids(tasks, workers)
        codes, names = _encoded(said, what, inventory)
        ids = encode_ids(tasks, workers)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        numbers, starts, members = distinct(len(lengths), rows, codes, len(names))
        kept = "keep" if repeats == "error" else repeats
        points = numbers.astype(np.float64)[:, None]
        n_tasks, n_workers = len(ids.tasks), len(ids.workers)
        table = _core.Ratings(ids.task_codes, ids.worker_codes, points, None, n_tasks, n_workers, kept)
        if repeats == "error":
            checks.refuse_repeats(table, ids.tasks, ids.workers)
        return cls(table, ids.tasks, ids.workers, names, starts, members)

    @classmethod
    def _of_long(cls, columns: Columns, inventory: Iterable[Any] | None) -> Self:
        tasks, workers, label = (columns.ids[role] for role in ("task", "worker", "label"))
        checks.check_sizes(
            {"tasks": len(tasks), "workers": len(workers), "labels": len(label)}, "(task, worker, label)"
        )
        checks.refuse_missing_ids(tasks, workers)
        absent = label.missing()
        said = np.ones(len(label), np.bool_) if absent is None else ~absent
        ids = encode_ids(tasks, workers)
        n_tasks, n_workers = len(ids.tasks), len(ids.workers)
        answers, row_of = np.unique(ids.task_codes.astype(np.int64) * n_workers + ids.worker_codes, return_inverse=True)
        rows = label.data.to_pylist() if hasattr(label.data, "to_pylist") else list(label.data)
        spoken = [row for row, there in zip(rows, said.tolist(), strict=True) if there]
        codes, names = _encoded(spoken, label.what, inventory)
        numbers, starts, members = distinct(len(answers), row_of[said], codes, len(names))
        task_codes, worker_codes = (part.astype(np.uint32) for part in (answers // n_workers, answers % n_workers))
        table = _core.Ratings(task_codes, worker_codes, numbers.astype(np.float64)[:, None], None, n_tasks, n_workers)
        return cls(table, ids.tasks, ids.workers, names, starts, members)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.Ratings:
        """The compiled table of codes and numbers of sets: frozen, and what kernels take."""
        return self._table

    @property
    def n_labels(self) -> int:
        """Number of labels that could be said."""
        return len(self._labels)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """Names of the labels that could be said, in code order."""
        return self._labels.values

    @property
    def sets(self) -> npt.NDArray[np.object_]:
        """The distinct sets, as tuples of names, shorter ones first: what the last of :meth:`codes` are places in."""
        names = self._labels.values[self._members].tolist()
        return as_objects([tuple(names[a:b]) for a, b in pairwise(self._starts.tolist())])

    def describe(self) -> SetsDescription:
        """Summarise the table in numbers; prints as a short report. O(answers and what they say)."""
        answers, labels = self.said()
        sizes = np.bincount(answers, minlength=self.n_annotations)
        shares = np.bincount(labels, minlength=self.n_labels) / max(self.n_annotations, 1)
        return SetsDescription(
            n_annotations=self.n_annotations,
            n_tasks=self.n_tasks,
            n_workers=self.n_workers,
            n_labels=self.n_labels,
            n_empty=int((sizes == 0).sum()),
            n_repeats=self._table.n_repeats(),
            labels_per_answer=Spread.of(sizes),
            answers_per_task=Spread.of(self.labels_per_task),
            answers_per_worker=Spread.of(self.labels_per_worker),
            label_shares=dict(zip(class_texts(self.labels), shares.tolist(), strict=True)),
        )

    def codes(self) -> tuple[Codes, Codes, Ints]:
        """Task and worker code of every answer, and the number of its set, in task order: fresh arrays."""
        tasks, workers, values = self._table.columns()
        return tasks, workers, values[:, 0].astype(np.int64)

    def said(self) -> tuple[Ints, Ints]:
        """Answer and label code of everything that was said, answers in the order of :meth:`codes`: fresh arrays."""
        return _members_of(self.codes()[2], self._starts, self._members)

    def __repr__(self) -> str:
        answers, tasks = counted(self.n_annotations, "answer"), counted(self.n_tasks, "task")
        workers, labels = counted(self.n_workers, "worker"), counted(self.n_labels, "label")
        return f"<MultiLabels: {answers} to {tasks} by {workers}, {labels}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._labels)

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self.codes()[:2], *self.said())

    def _part(self, table: _core.Ratings, tasks: Names, workers: Names, unlabelled: Names) -> Self:
        return type(self)(table, tasks, workers, self._labels, self._starts, self._members, unlabelled)

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        answers, codes = _members_of(said[:, 0].astype(np.int64), self._starts, self._members)
        return {"labels": arrow.lists(len(said), answers, self._labels.take(codes).arrow())}

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        sets = {"sets": said[:, 0].astype(np.int64), "starts": self._starts, "members": self._members}
        return sets | persist.pack_names("labels", self._labels)

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        tasks, workers, unlabelled = cls._names_in(content)
        task_codes, worker_codes, _ = cls._links_in(content)
        labels = content.names("labels")
        sets = content.array("sets", np.int64, shape=task_codes.shape)
        starts, members = content.array("starts", np.int64, ndim=1), content.array("members", np.int64, ndim=1)
        sound = len(starts) and starts[0] == 0 and starts[-1] == len(members) and (np.diff(starts) >= 0).all()
        sound = sound and ((sets >= 0) & (sets < len(starts) - 1)).all()
        if not sound or not ((members >= 0) & (members < len(labels))).all():
            raise content.damaged("its sets are not those of its answers and labels")
        table = _core.Ratings(
            task_codes, worker_codes, sets.astype(np.float64)[:, None], None, len(tasks), len(workers)
        )
        return cls(table, tasks, workers, labels, starts, members, unlabelled)

    def __reduce__(self) -> tuple[Any, ...]:
        names = (self._tasks, self._workers, self._labels, self._starts, self._members, self._unlabelled)
        return _unpickle, (type(self), self._table.columns(), names)


def _unpickle(cls: type[MultiLabels], columns: tuple[Any, Any, Any], parts: tuple[Any, ...]) -> MultiLabels:
    return cls(_core.Ratings(*columns, None, len(parts[0]), len(parts[1])), *parts)


#: How a column of one label says whether it was said.
_FLAGS = {**dict.fromkeys(("1", "1.0", "true", "yes"), True), **dict.fromkeys(("0", "0.0", "false", "no"), False)}


def _from_flags(columns: Columns) -> list[list[str]]:
    """The labels of every row, from one column per label."""
    rows: list[list[str]] = []
    for name, (data, what) in zip(columns.names["labels"], columns.others["labels"], strict=True):
        flags = _listed(data)
        rows = rows or [[] for _ in flags]
        for place, flag in enumerate(flags):
            said = _FLAGS.get(str(flag).strip().lower())
            if said is None:
                shown = "no value" if _is_missing(flag) or flag == "" else repr(flag)
                raise ValueError(
                    f"{what} holds {shown} at row {place}; a column for each label holds 1 or 0, or true or false"
                )
            if said:
                rows[place].append(name)
    return rows


def _listed(data: Any) -> list[Any]:
    """The values of a column, whatever library it is from."""
    return list(
        data.to_pylist() if hasattr(data, "to_pylist") else data.to_list() if hasattr(data, "to_list") else data
    )


def _spread(data: Any, what: str, sep: str | None) -> tuple[Ints, list[Any]]:
    """How many labels each row says, and all of them, one after the other."""
    rows = _listed(data)
    lengths, said = np.zeros(len(rows), np.int64), []
    for place, row in enumerate(rows):
        items = _items(row, sep)
        if items is None or any(_is_missing(item) for item in items):
            shown = "a label that is missing" if items is not None else f"{row!r}, a {type(row).__name__}"
            raise TypeError(
                f"{what} holds {shown} at row {place}; give lists of labels, or text with sep= between them, or list "
                "the columns where each label has one"
            )
        lengths[place] = len(items)
        said.extend(items)
    return lengths, said


def _items(row: Any, sep: str | None) -> list[Any] | None:
    """The labels of a row; None for what is no set."""
    if isinstance(row, str):
        parts = [row] if sep is None else row.split(sep)
        return [part.strip() for part in parts if part.strip()]
    if isinstance(row, list | tuple | set | frozenset | np.ndarray):
        return list(row)
    return [] if _is_missing(row) else None


def _is_missing(item: Any) -> bool:
    return item is None or (isinstance(item, float) and item != item) or type(item).__name__ in ("NAType", "NaTType")


def _encoded(said: list[Any], what: str, inventory: Iterable[Any] | None) -> tuple[Ints, Names]:
    """Codes of what was said, and the inventory."""
    fixed = None if inventory is None else checks.fixed_classes(inventory, "inventory")
    if not said:
        if fixed is None:
            raise ValueError(f"{what} holds no label at all: name those that could have been said in inventory=")
        return np.zeros(0, np.int64), fixed
    codes, names = Column(said, what).encode()
    if fixed is not None:
        codes, names = checks.recoded(codes, names, fixed, "the inventory"), fixed
    return codes.astype(np.int64), names


def distinct(n_rows: int, rows: Ints, codes: Ints, n_labels: int) -> tuple[Ints, Ints, Ints]:
    """Number the distinct sets, shorter ones first: the set of each row, and all sets as `MultiLabels` keeps them."""
    pairs = np.unique(rows * n_labels + codes)
    rows, codes = pairs // max(n_labels, 1), pairs % max(n_labels, 1)
    lengths = np.bincount(rows, minlength=n_rows)
    first = np.cumsum(lengths) - lengths
    numbers, sizes, members = np.zeros(n_rows, np.int64), [0], [np.zeros(0, np.int64)]
    for length in np.unique(lengths):
        here = np.flatnonzero(lengths == length)
        if not length:
            sets, which = np.zeros((1, 0), np.int64), np.zeros(len(here), np.int64)
        else:
            sets, which = np.unique(codes[first[here][:, None] + np.arange(length)], axis=0, return_inverse=True)
        numbers[here] = len(sizes) - 1 + which.reshape(-1)
        sizes += [int(length)] * len(sets)
        members.append(sets.reshape(-1))
    return numbers, np.cumsum(sizes), np.concatenate(members)


def _members_of(numbers: Ints, starts: Ints, members: Ints) -> tuple[Ints, Ints]:
    """Row and label of everything that is in the sets of some rows."""
    lengths = starts[numbers + 1] - starts[numbers]
    rows = np.repeat(np.arange(len(numbers)), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return rows, members[starts[numbers][rows] + places]
