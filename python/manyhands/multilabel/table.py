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
from manyhands._base.checks import counted
from manyhands._base.columns import Columns, columns_of
from manyhands._base.description import Fact, Spread, class_texts, largest
from manyhands._base.ids import Ids, encode_ids
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands._base.task_table import Answers, Parsed, Payload
from manyhands._base.values import as_objects
from manyhands.errors import argument

Ints = npt.NDArray[np.int64]


class MultiLabels(Answers):
    """An immutable, sparse table of (task, worker, set of labels) rows.

    A worker who names some labels of a task says no to all others that could be said, its *inventory*: an empty set is
    an answer, and not a missing one. Made by one of the constructors below or by :func:`manyhands.read` with
    ``kind="multilabel"``. Ids are those of :class:`~manyhands.Annotations`. A worker's second answer to the same task
    counts as another, unless `repeats` says otherwise.

    Memory: 8 bytes per row, 8 per label of each distinct set, and 4 per task, in addition to the names.

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"task": [1, 1, 2], "worker": ["ann", "bob", "ann"], "labels": ["cat|dog", "cat", ""]}
    >>> mh.MultiLabels.from_frame(log)
    <MultiLabels: 3 answers to 2 tasks by 2 workers, 2 labels>
    """

    __slots__ = ("_labels", "_members", "_starts")
    spec: ClassVar[KindSpec] = KindSpec(
        word="multilabel",
        required=("task", "worker", "labels"),
        optional=(),
        numbers=frozenset(),
        raw=frozenset({"labels"}),
        settings=("sep", "inventory", "repeats"),
        telling=(("labels",),),
        parts=("labels", "starts", "members"),
    )
    _file_kind: ClassVar[str] = "multilabels"
    _table: _core.CodeTable
    _labels: Names
    #: Distinct sets, which the table holds numbers of: where the labels of each begin, and their codes, ascending.
    _starts: Ints
    _members: Ints

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
        columns = columns_of(frame, {"task": task, "worker": worker, "labels": labels}, cls.spec.raw, weak=cls._weak)
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
        settings = {"sep": sep, "inventory": inventory, "repeats": repeats}
        return cls._of_arrays(settings, tasks=tasks, workers=workers, labels=labels)

    @classmethod
    def _parsed(cls, columns: Columns, *, sep: str | None = "|", inventory: Iterable[Any] | None = None) -> Parsed:
        if sep is not None and (not isinstance(sep, str) or not sep):
            raise ValueError(f"sep must be text of at least one character, or None, not {sep!r}")
        (data, what), *others = columns.others["labels"]
        if others:
            data, inventory = _from_flags(columns), inventory or columns.names["labels"]
            what, sep = "the columns of labels", None
        lengths, said = _spread(data, what, sep)

        def encode(ids: Ids) -> Payload:
            codes, names = _encoded(said, what, inventory)
            return _distinct_sets(len(lengths), np.repeat(np.arange(len(lengths)), lengths), codes, names)

        return Parsed({what: len(lengths)}, encode)

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
        payload = _distinct_sets(len(answers), row_of[said], codes, names)
        task_codes, worker_codes = (part.astype(np.uint32) for part in (answers // n_workers, answers % n_workers))
        table = cls._compiled(task_codes, worker_codes, payload, None, n_tasks, n_workers)
        return cls(table, ids.tasks, ids.workers, *payload.parts)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.CodeTable:
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

    def _facts(self) -> Iterable[Fact]:
        answers, labels = self.said()
        sizes = np.bincount(answers, minlength=self.n_annotations)
        shares = np.bincount(labels, minlength=self.n_labels) / max(self.n_annotations, 1)
        named, empty = dict(zip(class_texts(self.labels), shares.tolist(), strict=True)), int((sizes == 0).sum())
        yield from self._about("answers", f"{self.n_annotations:,}, {empty:,} of them empty")
        yield Fact("n_labels", self.n_labels, "labels", f"{self.n_labels:,}  ({largest(named)})")
        yield Fact("n_empty", empty)
        yield Fact("labels_per_answer", Spread.of(sizes), "labels per answer")
        yield from self._spreads("answers")
        #: Share of the answers that say each label.
        yield Fact("label_shares", named)

    def codes(self) -> tuple[Codes, Codes, Ints]:
        """Task and worker code of every answer, and the number of its set, in task order: fresh arrays."""
        tasks, workers, sets = self._table.columns()
        return tasks, workers, sets.astype(np.int64)

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

    # ------------------------------------------------------------------------------------------- persistence

    def _said(self, said: npt.NDArray[Any]) -> dict[str, Any]:
        answers, codes = _members_of(said.astype(np.int64), self._starts, self._members)
        return {"labels": arrow.lists(len(said), answers, self._labels.take(codes).arrow())}

    def _packed(self, said: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        sets = {"sets": said, "starts": self._starts, "members": self._members}
        return sets | persist.pack_names("labels", self._labels)

    @classmethod
    def _unpacked(cls, content: persist.Content, task_codes: Codes, tasks: Names) -> Payload:
        labels = content.names("labels")
        sets = content.array("sets", np.uint32, shape=task_codes.shape)
        starts, members = content.array("starts", np.int64, ndim=1), content.array("members", np.int64, ndim=1)
        sound = len(starts) and starts[0] == 0 and starts[-1] == len(members) and (np.diff(starts) >= 0).all()
        if not sound or not ((members >= 0) & (members < len(labels))).all():
            raise content.damaged("its sets are not those of its answers and labels")
        return Payload(sets, len(starts) - 1, (labels, starts, members))


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


def _distinct_sets(n_rows: int, rows: Ints, codes: Ints, names: Names) -> Payload:
    """The payload of a table whose rows name the labels of some codes."""
    numbers, starts, members = distinct(n_rows, rows, codes, len(names))
    return Payload(numbers, len(starts) - 1, (names, starts, members))


def _members_of(numbers: Ints, starts: Ints, members: Ints) -> tuple[Ints, Ints]:
    """Row and label of everything that is in the sets of some rows."""
    lengths = starts[numbers + 1] - starts[numbers]
    rows = np.repeat(np.arange(len(numbers)), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return rows, members[starts[numbers][rows] + places]
