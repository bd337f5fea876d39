"""Match known answers (gold) with tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice, preview
from manyhands._base.frames import known_among, named_columns, well_known
from manyhands.metrics._checks import (
    Bools,
    Ints,
    Values,
    as_values,
    check_same_length,
    family_of,
    lookup,
    missing,
    show,
)

_NAMED_IN_ERRORS = 3


def match_gold(
    tasks: npt.ArrayLike, gold: object, *, unknown: Literal["raise", "ignore"] = "raise"
) -> tuple[Ints, Values]:
    """Align known answers with tasks.

    Use it before any metric that compares answers with the truth.

    Cost: for G gold labels O((N + G) log N) time with integer ids, O(N + G) hashing with others; O(N + G)
    memory.

    Parameters
    ----------
    tasks : array-like of shape (N,)
        Distinct task ids, such as ``votes.tasks`` or ``model.tasks_``.
    gold : mapping, pair, frame or pandas Series
        A mapping from task to label, a tuple ``(tasks, labels)`` of arrays, a frame with the columns ``task``
        and ``label`` (pandas, polars, pyarrow, duckdb), or a pandas Series of labels indexed by task. A
        missing label (None, NaN) means that the task has no gold. Each task at most once.
    unknown : {"raise", "ignore"}, default "raise"
        What to do with gold for ids that are not among ``tasks``.

    Returns
    -------
    index : ndarray of shape (n_gold,)
        Ascending positions in ``tasks``.
    truth : ndarray of shape (n_gold,)
        The gold label of each.

    Raises
    ------
    ValueError
        If gold is empty, lists a task twice, has unknown tasks, or matches no task at all.

    Examples
    --------
    >>> from manyhands import metrics
    >>> index, truth = metrics.match_gold(["t1", "t2", "t3"], {"t3": "dog", "t1": "cat"})
    >>> index, truth
    (array([0, 2]), array(['cat', 'dog'], dtype='<U3'))

    Together with a fitted model: ``metrics.accuracy(model.labels_[index], truth)``.
    """
    check_choice("unknown", unknown, ("raise", "ignore"))
    names = as_values("tasks", tasks)
    ids, labels = _gold_of(gold)
    place = lookup(names, ids, what="tasks")
    matches = place >= 0
    if not matches.all() and (unknown == "raise" or not matches.any()):
        raise ValueError(_unknown_tasks(names, ids, matches))
    return _in_order(names, place[matches], labels[matches])


class InPart(NamedTuple):
    """Tasks of a part whose truth is known."""

    #: Ascending places in the part, the gold label of each, and where it stands in gold.
    places: Ints
    truth: Values
    rows: Ints
    #: A task of the part.
    example: Values


def match_gold_in_parts(
    each: Callable[[Callable[[npt.ArrayLike], InPart]], Iterable[InPart]], gold: object
) -> tuple[list[InPart], Values]:
    """Align known answers with tasks that come in parts, as `match_gold` does for each part; also return gold's ids.

    `each` maps a function over the tasks of each part. Gold for ids in none of the parts raises ValueError.
    """
    ids, labels = _gold_of(gold)

    def look(tasks: npt.ArrayLike) -> InPart:
        names = as_values("tasks", tasks)
        place = lookup(names, ids, what="tasks")
        rows = np.flatnonzero(place >= 0)
        places, ordered = _in_order(names, place[rows], rows)
        return InPart(places, labels[ordered], ordered, names[:1])

    parts, matches = list(each(look)), np.zeros(len(ids), np.bool_)
    for part in parts:
        matches[part.rows] = True
    if not matches.all():
        raise ValueError(_unknown_tasks(parts[-1].example, ids, matches))
    return parts, ids


def match_answers(names: Values, gold: Any, role: str, *, key: str = "task") -> tuple[Ints, list[Any]]:
    """Align known answers of any type with tasks or items: ascending positions in `names`, and the answer of each.

    Gold is a mapping, a pair of sequences, a frame or the path of a file, with columns whose names are well known for
    `key` and `role`, or ``truth`` or ``gold``. Ids of a file are compared as they are written.
    """
    if isinstance(gold, str | os.PathLike):
        ids, answers = _columns_of_answers(_read(gold), role, key, str(gold))
        names = np.array([str(name) for name in names.tolist()], object)
        ids = [str(one) for one in ids]
    elif isinstance(gold, Mapping):
        ids, answers = list(gold.keys()), list(gold.values())
    elif isinstance(gold, tuple):
        if len(gold) != 2 or len(gold[0]) != len(gold[1]):
            raise ValueError(f"gold must be a pair ({key}s, answers) of equal lengths")
        ids, answers = (np.asarray(gold[0]).tolist(), list(gold[1]))
    elif _is_series(gold):
        ids, answers = gold.index.tolist(), gold.tolist()
    else:
        try:
            ids, answers = _columns_of_answers(gold, role, key, "gold")
        except TypeError:
            raise TypeError(
                f"gold is a {type(gold).__name__}; give a mapping {key} -> {role}, a tuple ({key}s, answers), a frame "
                f"with the columns {key} and {role}, or the path of a file"
            ) from None
    there = [place for place, one in enumerate(answers) if not (one is None or (isinstance(one, float) and one != one))]
    if not there:
        raise ValueError("gold is empty: it must hold at least one answer")
    index, rows = match_gold(names, ([ids[place] for place in there], np.array(there)))
    return index, [answers[row] for row in rows.tolist()]


def _read(path: str | os.PathLike[str]) -> Any:
    from manyhands._base.sources import one_source
    from manyhands._base.streams import column_names, read_columns

    source = one_source(path)
    return read_columns(source, column_names(source))


def _columns_of_answers(frame: Any, role: str, key: str, what: str) -> tuple[list[Any], list[Any]]:
    names, columns, _ = named_columns(frame)
    texts = [str(name) for name in names]
    lists = []
    for choices in (well_known(key), (role, "truth", "gold", "ground_truth", *well_known(role), *well_known("label"))):
        names_there = next((one for name in choices if (one := known_among(texts, (name,)))), None)
        if names_there is None:
            raise ValueError(f"{what} has no column {choices[0]!r}; its columns are {preview(texts)}")
        column = columns[texts.index(names_there[0])]
        lists.append(column.to_pylist() if hasattr(column, "to_pylist") else list(column))
    return lists[0], lists[1]


def _gold_of(gold: object) -> tuple[Values, Values]:
    """Return task ids and labels, without missing labels."""
    ids, labels = _gold_columns(gold)
    check_same_length("gold's tasks", ids, "gold's labels", labels)
    _check_ids(missing(ids))
    return _drop_unlabelled(ids, labels)


def _in_order(names: Values, place: Ints, labels: Values) -> tuple[Ints, Values]:
    """Return places in ascending order, each once, and their labels."""
    order = np.argsort(place, kind="stable")
    place = place[order]
    twice = np.flatnonzero(place[1:] == place[:-1])
    if len(twice):
        raise ValueError(f"gold has task {show(names[place[twice[0]]])} more than once; keep one label per task")
    return place, labels[order]


def _gold_columns(gold: Any) -> tuple[Values, Values]:
    """Return task ids and labels from any accepted form of gold."""
    if isinstance(gold, Mapping):
        if set(gold) == {"task", "label"} and all(isinstance(one, list | np.ndarray) for one in gold.values()):
            raise ValueError(
                "gold is a dict of columns; pass a mapping task -> label, a pair (tasks, labels) or a frame"
            )
        pair: tuple[Any, Any] = list(gold.keys()), list(gold.values())
    elif isinstance(gold, tuple):
        if len(gold) != 2:
            raise ValueError(f"gold must be a pair (tasks, labels), not a tuple of {len(gold)}")
        pair = gold
    elif _is_series(gold):
        pair = gold.index, gold
    elif hasattr(gold, "__arrow_c_stream__"):
        pair = _frame_columns(gold)
    elif hasattr(gold, "collect"):
        raise TypeError("gold is a lazy frame; call collect() on it first")
    else:
        raise TypeError(
            f"gold is a {type(gold).__name__}; give a mapping task -> label, a tuple (tasks, labels), a "
            "frame with the columns task and label, or a pandas Series indexed by task"
        )
    if not len(pair[0]):
        raise ValueError("gold is empty: it has no labels")
    return as_values("gold's tasks", pair[0]), as_values("gold's labels", pair[1])


def _is_series(gold: Any) -> bool:
    """Return whether gold is a pandas Series, without importing pandas (the ``index`` of a list is a method)."""
    index = getattr(gold, "index", None)
    return index is not None and not callable(index) and not hasattr(gold, "columns") and hasattr(gold, "to_numpy")


def _frame_columns(frame: Any) -> tuple[Values, Values]:
    import pyarrow as pa

    table = pa.table(frame)
    lacking = [name for name in ("task", "label") if name not in table.column_names]
    if lacking:
        names = table.column_names
        raise ValueError(f"gold has no column {lacking[0]!r}; its columns are {names}; name them task and label")
    ids, labels = table["task"], table["label"]
    if ids.null_count:
        _check_ids(~np.asarray(ids.is_valid()))
    has_label = np.asarray(labels.is_valid())
    # NumPy has no null: integers would become floats, and a null in a dictionary one of its values.
    if pa.types.is_primitive(labels.type):
        return ids.to_numpy()[has_label], labels.drop_null().to_numpy()
    return ids.to_numpy()[has_label], labels.to_numpy()[has_label]


def _check_ids(absent: Bools) -> None:
    if absent.any():
        raise ValueError(f"gold has no task id at row {absent.argmax()}; remove the row or name its task")


def _drop_unlabelled(ids: Values, labels: Values) -> tuple[Values, Values]:
    absent = missing(labels)
    if absent.all():
        raise ValueError("gold is empty: it must hold at least one label")
    return (ids[~absent], labels[~absent]) if absent.any() else (ids, labels)


def _unknown_tasks(names: Values, ids: Values, known: Bools) -> str:
    """Return the message for gold tasks that are not in the log."""
    lost = ids[~known]
    some = ", ".join(map(show, lost[:_NAMED_IN_ERRORS])) + (", …" if len(lost) > _NAMED_IN_ERRORS else "")
    verb = "is" if len(lost) == 1 else "are"
    text = f"{len(lost)} of {len(ids)} gold task ids {verb} not in the log: {some}"
    ours, theirs = family_of(names), family_of(lost)
    if ours != theirs:
        return f"{text}; gold's ids are {theirs} but the tasks' ids are {ours}: convert one of them"
    return f"{text}; remove them" + (
        ', or match them with metrics.match_gold(…, unknown="ignore")' if known.any() else " or check the ids"
    )
