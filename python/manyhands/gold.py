"""Known labels from files, in the types that a log's ids have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.annotations import Annotations
from manyhands.frames import WELL_KNOWN, match_columns
from manyhands.io import PathLike, _column_names, _expand, _kind, read_table
from manyhands.names import Column, Names

#: Names of the column of known labels that need not be spelt out, before those of a log's labels.
WELL_KNOWN_TRUTH = ("truth", "gold", "true_label", "gold_label", "ground_truth", "class")


def read_gold(
    path: PathLike,
    votes: Annotations,
    *,
    task: str | None = None,
    label: str | None = None,
    like: tuple[str | None, str | None] = (None, None),
    delimiter: str | None = None,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Read the known labels of some tasks, as ``gold=`` and :func:`manyhands.metrics.match_gold` take them.

    A CSV file holds text and a Parquet file types, so the same task may be ``"7"`` here and ``7`` in the log.
    Ids and labels come back in the types that the log has; those that it does not know stay as they are.

    Time and memory are linear in the rows. Where the types of two Parquet files differ, every distinct value
    and every name of the log is looked up in Python.

    Parameters
    ----------
    path
        A CSV or Parquet file, one row a task.
    votes
        The log.
    task, label
        Column names. Where one is not given, the file must have exactly one column with a well-known name:
        ``task``, ``task_id``, ``item``, …, and ``truth``, ``gold``, ``true_label``, ``gold_label``,
        ``ground_truth``, ``class``, or else ``label``, ``answer``, ….
    like
        What the log's columns of tasks and labels are called: names that are tried where none is well known.
    delimiter
        What separates the fields of a CSV file; by default a comma, or a tab for ``.tsv``.

    Returns
    -------
    tasks, labels : ndarray of shape (n_gold,)
        In the order of the rows; rows without a label are left out.
    """
    (source,) = _expand([path])[:1]
    names = _gold_columns(source, task, label, like, delimiter)
    table = read_table(source, names.values(), delimiter)
    text = _kind(source) == "csv"
    tasks = _column(table, names["task"], votes._tasks, text)
    labels = _column(table, names["label"], votes._classes, text)
    absent = labels.missing()
    if absent is not None:
        tasks.filter(~absent)
        labels.filter(~absent)
    if not len(tasks):
        raise ValueError(f"{source}: column {names['label']!r} holds no label")
    if (missing := tasks.missing()) is not None:
        raise ValueError(f"{source}: there is a label without a task in row {int(np.argmax(missing))}")
    return _in_types_of(votes._tasks, tasks), _in_types_of(votes._classes, labels)


def _gold_columns(
    path: Path,
    task: str | None,
    label: str | None,
    like: tuple[str | None, str | None],
    delimiter: str | None,
) -> dict[str, str]:
    names = _column_names(path, delimiter)
    # A log's names for labels come second: a file may hold the winner of a vote beside the truth.
    label = label or _only(names, WELL_KNOWN_TRUTH) or _only(names, WELL_KNOWN["label"]) or _only(names, like[1:])
    task = task or _only(names, WELL_KNOWN["task"]) or _only(names, like[:1])
    try:
        return match_columns(names, {"task": task, "label": label})
    except (KeyError, ValueError) as error:
        raise type(error)(f"{path}: {error.args[0]}") from None


def _only(names: Sequence[str], known: Sequence[str | None]) -> str | None:
    """Return the only one of the known names that occurs."""
    found = [name for name in names if name in known]
    return found[0] if len(found) == 1 else None


def _column(table: Any, name: str, known: Names, text: bool) -> Column:
    # Text is read as integers by the log's own rule, and only if that made integers of the log's.
    integers = text and known.values.dtype.kind == "i"
    return Column(table.column(name), f"column {name!r}", parse_integers=integers)


def _in_types_of(known: Names, column: Column) -> npt.NDArray[Any]:
    """Return the rows, those equal to a known name when written out as that name."""
    codes, found = column.encode()
    if _kind_of(known) == _kind_of(found):
        return found.values[codes]
    written = _writer(known)
    name_of = {written(name): name for name in known.values.tolist()}
    values = [name_of.get(written(value), value) for value in found.values.tolist()]
    # Objects only where they must be: arrays of numbers are matched much faster.
    alike = {type(value) for value in values} == {type(known.values[:1].tolist()[0])}
    out = np.empty(len(values), known.values.dtype if alike else object)
    out[:] = values
    return out[codes]


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
