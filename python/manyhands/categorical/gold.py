"""Known labels from files, in the types that a log's ids have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.frames import WELL_KNOWN, known_among, match_columns
from manyhands._base.names import Column, Names
from manyhands._base.sources import Layout, PathLike, Source, one_source
from manyhands._base.streams import column_names, read_columns
from manyhands._base.values import as_objects
from manyhands.categorical.table import Annotations

#: Names of the column of known labels that need not be spelled out, before those of a log's labels.
WELL_KNOWN_TRUTH = ("truth", "gold", "true_label", "gold_label", "ground_truth", "class")


def read_gold(
    path: PathLike,
    votes: Annotations,
    *,
    task: str | None = None,
    label: str | None = None,
    like: tuple[str | None, str | None] = (None, None),
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Read the known labels of some tasks, as ``gold=`` and :func:`manyhands.metrics.match_gold` take them.

    A CSV file holds text and a Parquet file types, so the same task may be ``"7"`` here and ``7`` in the log.
    Ids and labels come back in the types that the log has; those that it does not know stay as they are.

    Time and memory are linear in the rows. Where the types of two Parquet files differ, every distinct value
    and every name of the log is looked up in Python.

    Parameters
    ----------
    path : path
        A CSV or Parquet file, or a stream of either, one row per task. A task may be named again with the same label.
    votes : Annotations
        The log.
    task, label : str or None, default None
        Column names. Where one is not given, the file must have exactly one column with a well-known name:
        ``task``, ``task_id``, ``item``, …, and ``truth``, ``gold``, ``true_label``, ``gold_label``,
        ``ground_truth``, ``class``, or else ``label``, ``answer``, ….
    like
        What the log's columns of tasks and labels are called: names that are tried where none is well known.
    delimiter, encoding, header
        How a CSV file is written, as for :func:`manyhands.read`.

    Returns
    -------
    tasks, labels : ndarray of shape (n_gold,)
        Each task once, in the order of the rows; rows without a label are left out.

    Raises
    ------
    ValueError
        If a task has two labels that differ, or a label no task.
    """
    source = one_source(path, Layout(delimiter, encoding, header))
    names = _gold_columns(source, task, label, like)
    table = read_columns(source, [*names.values()])
    text = source.kind == "csv"
    tasks = _column(table, names["task"], votes._tasks, text)
    labels = _column(table, names["label"], votes._classes, text)
    absent = labels.missing()
    if absent is not None:
        tasks.filter(~absent)
        labels.filter(~absent)
    if not len(tasks):
        raise ValueError(f"{source.path}: column {names['label']!r} holds no label")
    if (missing := tasks.missing()) is not None:
        row = np.flatnonzero(np.ones(len(missing), np.bool_) if absent is None else ~absent)[int(np.argmax(missing))]
        raise ValueError(f"{source.path}: there is a label without a task in row {int(row)}")
    task_ids, truth = in_types_of(votes._tasks, tasks), in_types_of(votes._classes, labels)
    first = _first_rows(tasks, labels, task_ids, truth, source)
    return task_ids[first], truth[first]


def _first_rows(
    tasks: Column, labels: Column, known: npt.NDArray[Any], truth: npt.NDArray[Any], source: Source
) -> npt.NDArray[np.intp]:
    """Return the first row of each task; raise if a later one has another label."""
    codes, names = tasks.encode()
    first = np.full(len(names), len(codes), np.intp)
    np.minimum.at(first, codes, np.arange(len(codes)))
    label_codes = labels.encode()[0]
    other = np.flatnonzero(label_codes != label_codes[first[codes]])
    if len(other):
        row, before = int(other[0]), int(first[codes[other[0]]])
        task, (one, two) = known[[row]].tolist()[0], truth[[before, row]].tolist()
        raise ValueError(f"{source.path}: task {task!r} has two labels that differ, {one!r} and {two!r}; keep one")
    return np.sort(first)


def _gold_columns(
    source: Source, task: str | None, label: str | None, like: tuple[str | None, str | None]
) -> dict[str, str]:
    names = column_names(source)
    # A log's names for labels come second: a file may hold the winner of a vote next to the truth.
    label = label or _only(names, WELL_KNOWN_TRUTH) or _only(names, WELL_KNOWN["label"]) or _only(names, like[1:])
    task = task or _only(names, WELL_KNOWN["task"]) or _only(names, like[:1])
    try:
        return match_columns(names, {"task": task, "label": label})
    except ValueError as error:
        raise ValueError(f"{source.path}: {error}{source.hint(names)}") from None


def _only(names: Sequence[str], known: Sequence[str | None]) -> str | None:
    """Return the only one of the known names that occurs."""
    matches = known_among(names, known)
    return matches[0] if len(matches) == 1 else None


def _column(table: Any, name: str, known: Names, text: bool) -> Column:
    # Text is read as integers by the log's own rule, and only if that made integers of the log's.
    integers = text and known.values.dtype.kind == "i"
    return Column(table.column(name), f"column {name!r}", parse_integers=integers, sound=True)


def in_types_of(known: Names, column: Column) -> npt.NDArray[Any]:
    """Return the rows, those equal to a known name when written out as that name."""
    codes, distinct = column.encode()
    if _kind_of(known) == _kind_of(distinct):
        return distinct.values[codes]
    names, writer = known.values.tolist(), _writer(known)
    name_of: dict[Any, Any] = {}
    for name in names:
        # What two names are written as is neither of them.
        name_of[writer(name)] = None if writer(name) in name_of else name
    exact = set(names)
    values = [x if x in exact or (name := name_of.get(writer(x))) is None else name for x in distinct.values.tolist()]
    # Objects only where they must be: arrays of numbers are matched much faster.
    if known.values.dtype != object and {*map(type, values)} == {type(names[0])}:
        with suppress(OverflowError):
            return np.array(values, known.values.dtype)[codes]
    return as_objects(values)[codes]


def _kind_of(names: Names) -> str:
    values = names.values
    if values.dtype.kind != "O":
        return values.dtype.kind
    return type(values[0]).__name__ if len(values) else ""


def _writer(known: Names) -> Callable[[Any], Any]:
    """Return how to write values out so that they can be compared with the known names."""
    kind = known.values.dtype.kind
    if kind == "b":
        return lambda value: str(value).lower()  # True, true, TRUE
    return _number if kind == "f" else str


def _number(value: Any) -> Any:
    """Return a number for text that is one: "2" and "2.0" are the same float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)
