"""Gold: the tasks whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice
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
    """Find the tasks whose truth is known.

    Cost: for G gold labels O((N + G) log N) time with integer ids, O(N + G) hashing with others; O(N + G)
    memory.

    Parameters
    ----------
    tasks : array-like of shape (N,)
        Distinct task ids, such as ``votes.tasks`` or ``model.tasks_``.
    gold : mapping, pair, frame or pandas Series
        A mapping from task to label, a tuple ``(tasks, labels)`` of arrays, a frame with the columns ``task``
        and ``label`` (pandas, polars, pyarrow, duckdb), or a pandas Series of labels indexed by task. A
        missing label (None, NaN) means that the task has no gold. A task may be named once.
    unknown : {"raise", "ignore"}
        What to do with gold on ids that are not among ``tasks``.

    Returns
    -------
    index : ndarray of shape (n_gold,)
        Ascending positions in ``tasks``.
    truth : ndarray of shape (n_gold,)
        The gold label of each.

    Raises
    ------
    ValueError
        If gold is empty, names a task twice, names tasks that are unknown, or matches no task at all.

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
    known = place >= 0
    if not known.all() and (unknown == "raise" or not known.any()):
        raise ValueError(_unknown_tasks(names, ids, known))
    return _in_order(names, place[known], labels[known])


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
    """Find the tasks whose truth is known among tasks that come in parts; as `match_gold` of each part.

    `each` gives what a function makes of the tasks of each part. Gold on ids that are in none of them is refused. Also
    returns the ids of gold.
    """
    ids, labels = _gold_of(gold)

    def look(tasks: npt.ArrayLike) -> InPart:
        names = as_values("tasks", tasks)
        place = lookup(names, ids, what="tasks")
        rows = np.flatnonzero(place >= 0)
        places, ordered = _in_order(names, place[rows], rows)
        return InPart(places, labels[ordered], ordered, names[:1])

    found, seen = list(each(look)), np.zeros(len(ids), np.bool_)
    for part in found:
        seen[part.rows] = True
    if not seen.all():
        raise ValueError(_unknown_tasks(found[-1].example, ids, seen))
    return found, ids


def _gold_of(gold: object) -> tuple[Values, Values]:
    """Task ids and labels, without tasks that have none."""
    ids, labels = _gold_columns(gold)
    check_same_length("gold's tasks", ids, "gold's labels", labels)
    _refuse_missing_ids(missing(ids))
    return _drop_unlabelled(ids, labels)


def _in_order(names: Values, place: Ints, labels: Values) -> tuple[Ints, Values]:
    """Places in ascending order, each once, and their labels."""
    order = np.argsort(place, kind="stable")
    place = place[order]
    twice = np.flatnonzero(place[1:] == place[:-1])
    if len(twice):
        raise ValueError(f"gold names task {show(names[place[twice[0]]])} more than once; keep one label a task")
    return place, labels[order]


def _gold_columns(gold: Any) -> tuple[Values, Values]:
    """Task ids and labels out of any accepted form of gold."""
    if isinstance(gold, Mapping):
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
    return as_values("gold's tasks", pair[0]), as_values("gold's labels", pair[1])


def _is_series(gold: Any) -> bool:
    """Tell a pandas Series without importing pandas (lists have an ``index`` too, but it is a method)."""
    index = getattr(gold, "index", None)
    return index is not None and not callable(index) and not hasattr(gold, "columns") and hasattr(gold, "to_numpy")


def _frame_columns(frame: Any) -> tuple[Values, Values]:
    import pyarrow as pa

    table = pa.table(frame)
    lacking = [name for name in ("task", "label") if name not in table.column_names]
    if lacking:
        found = table.column_names
        raise ValueError(f"gold has no column {lacking[0]!r} but {found}; call them task and label")
    ids, labels = table["task"], table["label"]
    if ids.null_count:
        _refuse_missing_ids(~np.asarray(ids.is_valid()))
    has_label = np.asarray(labels.is_valid())
    # NumPy has no null: integers would become floats, and a null in a dictionary one of its values.
    if pa.types.is_primitive(labels.type):
        return ids.to_numpy()[has_label], labels.drop_null().to_numpy()
    return ids.to_numpy()[has_label], labels.to_numpy()[has_label]


def _refuse_missing_ids(absent: Bools) -> None:
    if absent.any():
        raise ValueError(f"gold has no task id at row {absent.argmax()}; remove the row or name its task")


def _drop_unlabelled(ids: Values, labels: Values) -> tuple[Values, Values]:
    absent = missing(labels)
    if absent.all():
        raise ValueError("gold is empty: it must hold at least one label")
    return (ids[~absent], labels[~absent]) if absent.any() else (ids, labels)


def _unknown_tasks(names: Values, ids: Values, known: Bools) -> str:
    """Say which gold tasks are unknown, and why that may be."""
    lost = ids[~known]
    some = ", ".join(map(show, lost[:_NAMED_IN_ERRORS])) + (", …" if len(lost) > _NAMED_IN_ERRORS else "")
    text = f"gold names {len(lost)} of its {len(ids)} tasks that are not among the tasks: {some}"
    ours, theirs = family_of(names), family_of(lost)
    if ours != theirs:
        return f"{text}; gold's ids are {theirs} but the tasks' ids are {ours}: convert one of them"
    return f"{text}; remove them" + (', or pass unknown="ignore"' if known.any() else " or check the ids")
