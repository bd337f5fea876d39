"""Table of multi-label answers by task and worker."""

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
from manyhands._base.checks import plural
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
    """Immutable, sparse table of (task, worker, set of labels) rows.

    Build it with :meth:`from_frame` or :meth:`from_arrays`, or read a file with :func:`manyhands.read` and
    ``kind="multilabel"``. A set is an answer about all possible labels (the *inventory*): labels outside the set count
    as a no, and an empty set is an answer, not a missing one. Ids are as in :class:`~manyhands.Annotations`. A second
    answer of a worker to a task counts as another answer, unless `repeats` is passed.

    Memory: 8 bytes per row, 8 per label of each distinct set, and 4 per task, plus names.

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
        confidence="probability that the least certain label of the answer is correct",
        expected="At most {mean} of the {n} answers are expected to be correct in every label.",
        note="Confidence is the probability that the least certain label of an answer is correct.",
    )
    _table: _core.CodeTable
    _labels: Names
    #: Distinct sets: offsets, and label codes in ascending order. The compiled table stores set numbers.
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
        frame : DataFrame, Arrow table or mapping of columns
            The log. Any object with the Arrow PyCapsule interface works.
        task, worker : str, optional
            Column names, as for :meth:`Annotations.from_frame`.
        labels : str or list of str, optional
            Column of sets, one row per answer: lists, sets or text. Null and empty text are empty sets. A list of
            columns means one column per label, with 1 or true if the label was given, and 0 or false otherwise.
        label : str, optional
            Label column of a log in long form (instead of `labels`): one row per label given. A row without a label
            marks an answer that may be an empty set.
        sep : str or None, default "|"
            Separator of labels in text; None if each text is a single label.
        inventory : iterable of labels, optional
            All possible labels, in code order. By default all labels that occur, sorted.
        repeats : {"keep", "first", "last", "error"}, default "keep"
            As for :meth:`Annotations.from_frame`. Not available in long form, where all rows of a worker and task are
            one answer.

        Returns
        -------
        MultiLabels
            The table.

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
                    f"{argument('label')} reads the long form (one row per label) and cannot be combined with labels= "
                    "or repeats="
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
        """Build a table from columns of equal length: task ids, worker ids and sets.

        For the other parameters, see :meth:`from_frame`.
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
        lengths, label_values = _flatten_sets(data, what, sep)

        def encode(ids: Ids) -> Payload:
            codes, names = _encode_labels(label_values, what, inventory)
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
        present = np.ones(len(label), np.bool_) if absent is None else ~absent
        ids = encode_ids(tasks, workers)
        n_tasks, n_workers = len(ids.tasks), len(ids.workers)
        answers, row_of = np.unique(ids.task_codes.astype(np.int64) * n_workers + ids.worker_codes, return_inverse=True)
        rows = label.data.to_pylist() if hasattr(label.data, "to_pylist") else list(label.data)
        label_values = [row for row, there in zip(rows, present.tolist(), strict=True) if there]
        codes, names = _encode_labels(label_values, label.what, inventory)
        payload = _distinct_sets(len(answers), row_of[present], codes, names)
        task_codes, worker_codes = (part.astype(np.uint32) for part in (answers // n_workers, answers % n_workers))
        table = cls._compiled(task_codes, worker_codes, payload, None, n_tasks, n_workers)
        return cls(table, ids.tasks, ids.workers, *payload.parts)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.CodeTable:
        """Compiled table of codes and set numbers (read-only), as passed to the kernels."""
        return self._table

    @property
    def n_labels(self) -> int:
        """Number of possible labels."""
        return len(self._labels)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """Names of the possible labels, in code order."""
        return self._labels.values

    @property
    def sets(self) -> npt.NDArray[np.object_]:
        """Distinct sets as tuples of names, shorter ones first; the third array of :meth:`codes` indexes them."""
        names = self._labels.values[self._members].tolist()
        return as_objects([tuple(names[a:b]) for a, b in pairwise(self._starts.tolist())])

    def _facts(self) -> Iterable[Fact]:
        answers, labels = self.said()
        sizes = np.bincount(answers, minlength=self.n_annotations)
        shares = np.bincount(labels, minlength=self.n_labels) / max(self.n_annotations, 1)
        share_of_label, empty = (
            dict(zip(class_texts(self.labels), shares.tolist(), strict=True)),
            int((sizes == 0).sum()),
        )
        yield from self._about("answers", f"{self.n_annotations:,}, {empty:,} of them empty")
        yield Fact("n_labels", self.n_labels, "labels", f"{self.n_labels:,}  ({largest(share_of_label)})")
        yield Fact("n_empty", empty)
        yield Fact("labels_per_answer", Spread.of(sizes), "labels per answer")
        yield from self._spreads("answers")
        #: Share of answers that contain each label.
        yield Fact("label_shares", share_of_label)

    def codes(self) -> tuple[Codes, Codes, Ints]:
        """Return the task code, worker code and set number of every answer in task order, as new arrays."""
        tasks, workers, sets = self._table.columns()
        return tasks, workers, sets.astype(np.int64)

    def said(self) -> tuple[Ints, Ints]:
        """Return answer and label code of all labels given, in the order of :meth:`codes`, as new arrays."""
        return _members_of(self.codes()[2], self._starts, self._members)

    def __repr__(self) -> str:
        answers, tasks = plural(self.n_annotations, "answer"), plural(self.n_tasks, "task")
        workers, labels = plural(self.n_workers, "worker"), plural(self.n_labels, "label")
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
            raise content.damaged("the sets do not match the answers and labels")
        return Payload(sets, len(starts) - 1, (labels, starts, members))


#: Accepted values of one-column-per-label data.
_FLAGS = {**dict.fromkeys(("1", "1.0", "true", "yes"), True), **dict.fromkeys(("0", "0.0", "false", "no"), False)}


def _from_flags(columns: Columns) -> list[list[str]]:
    """Return the labels of every row, from one column per label."""
    rows: list[list[str]] = []
    for name, (data, what) in zip(columns.names["labels"], columns.others["labels"], strict=True):
        flags = _as_list(data)
        rows = rows or [[] for _ in flags]
        for place, flag in enumerate(flags):
            has_label = _FLAGS.get(str(flag).strip().lower())
            if has_label is None:
                problem = "no value" if _is_missing(flag) or flag == "" else repr(flag)
                raise ValueError(
                    f"{what} contains {problem} at row {place}; columns per label must contain 1 or 0, or true or false"
                )
            if has_label:
                rows[place].append(name)
    return rows


def _as_list(data: Any) -> list[Any]:
    """Return the values of a column of any library."""
    return list(
        data.to_pylist() if hasattr(data, "to_pylist") else data.to_list() if hasattr(data, "to_list") else data
    )


def _flatten_sets(data: Any, what: str, sep: str | None) -> tuple[Ints, list[Any]]:
    """Return the number of labels per row, and all labels."""
    rows = _as_list(data)
    lengths, label_values = np.zeros(len(rows), np.int64), []
    for place, row in enumerate(rows):
        items = _items(row, sep)
        if items is None or any(_is_missing(item) for item in items):
            problem = "a missing label" if items is not None else f"{row!r}, a {type(row).__name__}"
            raise TypeError(
                f"{what} contains {problem} at row {place}; pass lists of labels, text with a separator (sep=), or "
                "a list of columns with one column per label"
            )
        lengths[place] = len(items)
        label_values.extend(items)
    return lengths, label_values


def _items(row: Any, sep: str | None) -> list[Any] | None:
    """Return the labels of a row; None if the value is not a set."""
    if isinstance(row, str):
        parts = [row] if sep is None else row.split(sep)
        return [part.strip() for part in parts if part.strip()]
    if isinstance(row, list | tuple | set | frozenset | np.ndarray):
        return list(row)
    return [] if _is_missing(row) else None


def _is_missing(item: Any) -> bool:
    return item is None or (isinstance(item, float) and item != item) or type(item).__name__ in ("NAType", "NaTType")


def _encode_labels(label_values: list[Any], what: str, inventory: Iterable[Any] | None) -> tuple[Ints, Names]:
    """Return the codes of the labels given, and the inventory."""
    fixed = None if inventory is None else checks.fixed_classes(inventory, "inventory")
    if not label_values:
        if fixed is None:
            raise ValueError(f"{what} contains no labels: pass the possible labels as inventory=")
        return np.zeros(0, np.int64), fixed
    codes, names = Column(label_values, what).encode()
    if fixed is not None:
        codes, names = checks.recode(codes, names, fixed, "the inventory"), fixed
    return codes.astype(np.int64), names


def distinct(n_rows: int, rows: Ints, codes: Ints, n_labels: int) -> tuple[Ints, Ints, Ints]:
    """Number the distinct sets, shorter ones first: the set number of each row, and offsets and labels of all sets."""
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
    """Return the payload of a table from (row, label) pairs."""
    numbers, starts, members = distinct(n_rows, rows, codes, len(names))
    return Payload(numbers, len(starts) - 1, (names, starts, members))


def _members_of(numbers: Ints, starts: Ints, members: Ints) -> tuple[Ints, Ints]:
    """Return row and label of all labels in the sets of some rows."""
    lengths = starts[numbers + 1] - starts[numbers]
    rows = np.repeat(np.arange(len(numbers)), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return rows, members[starts[numbers][rows] + places]
