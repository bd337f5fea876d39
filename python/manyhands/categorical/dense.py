"""From a matrix or frame of labels, tasks × workers, to a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base import building
from manyhands._base import data_checks as checks
from manyhands._base.checks import preview
from manyhands._base.frames import WELL_KNOWN, named_columns, normalize_name
from manyhands._base.names import Codes, Column
from manyhands._base.values import as_objects, is_missing
from manyhands.errors import argument

#: In a matrix without names, a column with fewer labels is not enough to infer its role.
_ENOUGH_LABELS = 5
#: From here on, floats have no room for all integers.
_EXACT = 2**53


def build_dense(
    matrix: Any,
    *,
    task: str | None = None,
    missing: Any = -1,
    classes: Iterable[Any] | None = None,
    abstain: Any = None,
    fold_labels: bool = False,
    chosen: bool = False,
) -> building.Parts:
    """Build a table from labels in tasks × workers; see `Annotations.from_dense`.

    With `chosen`, the caller named the columns of workers, so that all of them are.
    """
    dense, ids, workers = _take_apart(matrix, task, chosen=chosen)
    is_label = _is_label(dense, missing)
    dense = np.asarray(dense)
    if not is_label.any():
        raise ValueError(f"the matrix, of shape {dense.shape}, holds no label")
    labels = Column(dense[is_label], "the matrix")
    rows, columns = np.nonzero(is_label)
    _refuse_ids_among_labels(labels.encode()[0], columns, len(dense), workers)
    table, tasks, names, classes_out, _, notes = building.build(
        ids.at(rows),
        (workers or Column(np.arange(dense.shape[1]), "workers")).at(columns),
        labels,
        weights=None,
        confidence=None,
        repeats="keep",
        missing="drop",
        classes=classes,
        abstain=abstain,
        fold_labels=fold_labels,
    )
    unlabelled = ids.at(np.flatnonzero(~is_label.any(axis=1))).encode()[1]
    if len(unlabelled):
        checks.warn_unlabelled(0, unlabelled)
    return table, tasks, names, classes_out, unlabelled, notes


def _is_label(dense: npt.NDArray[Any], missing: Any) -> npt.NDArray[np.bool_]:
    """Which entries are labels."""
    is_label: npt.NDArray[np.bool_] = ~np.ma.getmaskarray(dense)
    dense = np.asarray(dense)
    # Values first: some, such as pandas.NA, cannot be compared.
    absent = Column(dense[is_label], "the matrix").missing()
    if absent is not None:
        is_label[is_label] = ~absent
    if not is_missing(missing):
        is_label[is_label] = dense[is_label] != missing
    return is_label


# ------------------------------------------------------------------------------------------------------ frames


def _take_apart(matrix: Any, task: str | None, *, chosen: bool) -> tuple[npt.NDArray[Any], Column, Column | None]:
    """Return the labels, the names of the rows, and those of the columns if they have any."""
    if not (isinstance(matrix, Mapping) or hasattr(type(matrix), "columns") or hasattr(type(matrix), "column_names")):
        dense = np.asanyarray(matrix)
        if dense.ndim != 2:
            raise ValueError(f"the matrix must be tasks × workers, not of shape {dense.shape}")
        if task is not None:
            raise ValueError(f"{argument('task', task)} names a column of a frame, and the matrix has no names")
        return dense, Column(np.arange(len(dense)), "tasks"), None
    names, columns, index = named_columns(matrix)
    _refuse_long_log(names)
    if task is not None:
        if task not in map(str, names):
            raise ValueError(f"no task column {task!r}; the columns are {preview(list(names), 20)}")
        at = [str(name) for name in names].index(task)
        index = columns.pop(at)
        names = [*names[:at], *names[at + 1 :]]
    if not columns:
        raise ValueError("the frame has no column of labels; it needs one for each worker")
    if not chosen:
        _refuse_known_answers(names)
    arrays = [_as_array(column) for column in columns]
    ids = Column(np.arange(len(arrays[0])) if index is None else index, "tasks" if task is None else f"column {task!r}")
    workers = Column(as_objects(names), "the frame's columns")
    for column, what in ((ids, "rows"), (workers, "columns")):
        _refuse_twice(column, what)
    return _stack(arrays), ids, workers


def _as_array(column: Any) -> npt.NDArray[Any]:
    """Return a column as NumPy has it, or as objects where nulls would turn integers into floats."""
    nulls = getattr(column, "null_count", 0)
    if nulls() if callable(nulls) else nulls:
        return as_objects(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())
    return np.asarray(column)


def _stack(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the matrix of these columns; of unlike types, only numbers that floats hold exactly become one."""
    if len({len(array) for array in arrays}) > 1:
        raise ValueError(f"columns differ in length: {', '.join(f'{len(array):,}' for array in arrays)}")
    same = len({array.dtype for array in arrays}) == 1
    if same or all(array.dtype.kind == "f" or _is_exact(array) for array in arrays):
        return np.stack(arrays, axis=1)
    out = np.empty((len(arrays[0]), len(arrays)), object)
    for place, array in enumerate(arrays):
        out[:, place] = as_objects(array.tolist() if array.dtype.kind not in "mM" else list(array))
    return out


def _is_exact(array: npt.NDArray[Any]) -> bool:
    return array.dtype.kind in "iu" and bool((array < _EXACT).all() and (array > -_EXACT).all())


# ---------------------------------------------------------------------------------------------------- rejection


def _refuse_long_log(names: Sequence[Any]) -> None:
    well_known_names = {
        role: {normalize_name(name) for name in WELL_KNOWN[role]} for role in ("task", "worker", "label")
    }
    candidates = {
        role: [name for name in names if normalize_name(str(name)) in well_known_names[role]]
        for role in well_known_names
    }
    if all(candidates.values()):
        examples = ", ".join(repr(some[0]) for some in candidates.values())
        raise ValueError(
            f"the columns {examples} look like a log with a row for each answer, not like workers: use "
            "Annotations.from_frame"
        )


#: Columns of known answers, which no worker gave.
_GOLD = ("gold", "gold_label", "gold_standard", "golden", "truth", "ground_truth", "true_label", "correct_answer")


def _refuse_known_answers(names: Sequence[Any]) -> None:
    """Raise where one of the columns of workers bears the name of known answers."""
    gold_names = {normalize_name(name) for name in _GOLD}
    gold = [name for name in names if normalize_name(str(name)) in gold_names]
    if gold:
        rest = [name for name in names if name not in gold]
        raise ValueError(
            f"column {gold[0]!r} looks like known answers, not like a worker; leave it out, or, in a file, name the "
            f"columns of workers with {argument('worker')}: {preview(rest)}"
        )


def _refuse_twice(column: Column, what: str) -> None:
    if column.missing() is not None:
        raise ValueError(f"one of the {what} has no name (null, NaN or empty); name it or leave it out")
    codes, names = column.encode()
    if len(names) < len(codes):
        twice = names.take(np.flatnonzero(np.bincount(codes) > 1)[:1]).values.tolist()[0]
        raise ValueError(
            f"several {what} are called {twice!r}; there must be one row per task and one column per worker"
        )


def _refuse_ids_among_labels(codes: Codes, columns: npt.NDArray[np.intp], n_rows: int, workers: Column | None) -> None:
    """Reject a column that names the tasks: it has a value for each, all different, and more than all others have."""
    n_codes, n_columns = int(codes.max()) + 1, int(columns.max()) + 1
    pairs = np.unique(columns * n_codes + codes)
    of_column, of_pair = np.divmod(pairs, n_codes)
    shared = np.bincount(of_pair, minlength=n_codes) > 1
    distinct = np.bincount(of_column, minlength=n_columns)
    own = np.bincount(of_column[~shared[of_pair]], minlength=n_columns)
    complete = (distinct == n_rows) & (np.bincount(columns, minlength=n_columns) == n_rows)
    names = None if workers is None else workers.names()
    id_names = {"id", *map(normalize_name, WELL_KNOWN["task"])}
    for place in np.flatnonzero(complete & (n_columns > 1)).tolist():
        name = place if names is None else names.values[[place]].tolist()[0]
        is_id = names is not None and normalize_name(str(name)) in id_names
        least = _ENOUGH_LABELS if names is None else 3
        if is_id or (n_rows >= least and own[place] > n_codes - own[place]):
            cure = "leave it out" if names is None else f"name the tasks by it with task={str(name)!r}, or leave it out"
            raise ValueError(
                f"column {name!r} looks like the ids of tasks, not like a worker's labels: all of its {n_rows:,} "
                f"values differ, and {int(own[place]):,} occur nowhere else; {cure}"
            )
