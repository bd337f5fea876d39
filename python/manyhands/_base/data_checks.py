"""What a table rejects or sets aside, and how it reports it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import COUNTS, LEAST_COUNT, MOST_COUNT, plural, preview, warn_of_data
from manyhands._base.limits import check_memory
from manyhands._base.names import Codes, Column, Names, sequence
from manyhands.errors import argument

MAX_CLASSES = 65_535


#: Below that many bytes, names and tables are made without asking whether there is room.
_SMALL = 1 << 24


def check_names_memory(n_tasks: int, n_workers: int) -> None:
    """Raise for more names than there is room for, each a whole number."""
    most = np.iinfo(np.uint32).max
    if max(n_tasks, n_workers) > most:
        raise ValueError(f"more than {most} tasks or workers, the most that one table can hold")
    n_bytes = 8 * (n_tasks + n_workers)
    if n_bytes > _SMALL:
        what = f"names of {plural(n_tasks, 'task')} and {plural(n_workers, 'worker')}"
        check_memory(n_bytes, what, "leave out those without annotations")


def made_table(
    tasks: Codes,
    workers: Codes,
    labels: npt.NDArray[np.uint16],
    weights: npt.NDArray[np.float64] | None,
    n_tasks: int,
    n_workers: int,
    n_labels: int,
    repeats: str = "keep",
    n_classes: int | None = None,
) -> _core.Table:
    """Build the compiled table, if there is room for it: 4 bytes per task twice, 5 to 14 an annotation."""
    row = 5 + (n_labels > 256) + (0 if weights is None else 8)
    n_bytes = 8 * n_tasks + row * len(tasks)
    if n_bytes > _SMALL:
        what = f"a table of {plural(len(tasks), 'annotation')} of {plural(n_tasks, 'task')}"
        check_memory(n_bytes, what, "leave out tasks without annotations, or take a part of the log")
    return _core.Table(tasks, workers, labels, weights, n_tasks, n_workers, n_labels, repeats, n_classes)


def check_lengths(tasks: Column, workers: Column, labels: Column | None, weights: npt.NDArray[Any] | None) -> None:
    """Raise for columns of unequal length or without rows."""
    lengths = {"tasks": tasks, "workers": workers, "labels": labels, "weights": weights}
    check_sizes({name: len(column) for name, column in lengths.items() if column is not None}, "(task, worker, label)")


def check_sizes(sizes: Mapping[str, int], row: str) -> None:
    """Raise for columns of unequal length, given by name, or without rows; `row` specifies what one is."""
    if len(set(sizes.values())) > 1:
        raise ValueError(f"columns differ in length: {', '.join(f'{n:,} {k}' for k, n in sizes.items())}")
    if not all(sizes.values()):
        raise ValueError(f"there are no annotations: the table needs at least one {row} row")


def check_n_classes(n: int, what: str) -> None:
    """Raise for more classes than labels of sixteen bits can distinguish."""
    if n > MAX_CLASSES:
        raise ValueError(
            f"{what} holds {n:,} distinct labels, more than the {MAX_CLASSES:,} classes a table can have; "
            "is it an id, a number or free text rather than a class?"
        )


def refuse_missing_ids(*columns: Column, needs: str = "a task and a worker") -> None:
    """Raise for rows without a task or a worker, or what else they need."""
    for one in columns:
        absent = one.missing()
        if absent is not None:
            raise ValueError(f"{_missing_in(one.what, absent)}; every annotation needs {needs}: fill or drop them")


def refuse_missing_answers(what: str, absent: npt.NDArray[np.bool_], missing: str) -> None:
    """Raise for rows without an answer if the caller wants that, or if there are no others."""
    if missing == "error":
        raise ValueError(f"{_missing_in(what, absent)}; fill or drop them, or choose {argument('missing', 'drop')}")
    if absent.all():
        raise ValueError(f"{_missing_in(what, absent)}: there is nothing to aggregate")


def _missing_in(what: str, absent: npt.NDArray[np.bool_]) -> str:
    return (
        f"{what} is missing (null, NaN or empty) in {int(absent.sum()):,} of {len(absent):,} rows, "
        f"first at row {int(np.argmax(absent))}"
    )


def refuse_repeats(table: _core.Table | _core.Ratings | _core.CodeTable, tasks: Names, workers: Names) -> None:
    """Raise for a worker's second answer to the same task."""
    first = table.first_repeat()
    if first is not None:
        task, worker = tasks.values[[first[0]]].tolist()[0], workers.values[[first[1]]].tolist()[0]
        raise ValueError(
            f"worker {worker!r} labeled task {task!r} more than once ({table.n_repeats():,} such rows)"
            f"; choose {argument('repeats', 'keep')}, 'first' or 'last'"
        )


def warn_unlabelled(n_rows: int, tasks: Names, said: str = "label") -> None:
    """Warn about the rows that were set aside because they lack an answer, and the tasks that have no other row."""
    parts = [f"set aside {plural(n_rows, 'row')} without a {said}"] if n_rows else []
    if len(tasks):
        have = "has" if len(tasks) == 1 else "have"
        parts.append(
            f"{plural(len(tasks), 'task')} {have} no {said} at all and will get no answer "
            f"({preview(tasks.values.tolist())}; see .unlabelled)"
        )
    warn_of_data("; ".join(parts))


def fixed_classes(classes: Iterable[Any], what: str = "classes") -> Names:
    """Return the labels a caller gave, in their order."""
    fixed = sequence(classes, what)
    items = fixed.values.tolist()
    if not items:
        raise ValueError(f"{what} is empty; name at least one label, or leave it out")
    if len(set(items)) < len(items):
        twice = Counter(items).most_common(1)[0][0]
        raise ValueError(f"{what} names {twice!r} more than once")
    return fixed


def checked_order(ordered: Any, classes: Names, *, given: bool = False) -> bool:
    """Return whether classes have an order; reject one that cannot be known: that of names as they happen to sort."""
    if not isinstance(ordered, bool):
        raise TypeError(f"ordered must be True or False, not {ordered!r}")
    if ordered and not given and not has_numbers(classes):
        order = preview(classes.values.tolist(), 5)
        raise ValueError(f"ordered=True needs the order of {order}: name all classes, the lowest first, in classes=")
    return ordered


def has_numbers(names: Names) -> bool:
    """Return whether names are numbers, which have an order of their own."""
    return names.values.dtype.kind in "biuf"


def recode(codes: Codes, names: Names, classes: Names, what: str = "the given classes") -> Codes:
    """Turn label codes from places in `names` into places in `classes`."""
    code_of = classes.match(names)
    if (code_of < 0).any():
        unknown = names.values[code_of < 0].tolist()
        which = f"label {unknown[0]!r} is" if len(unknown) == 1 else f"labels {preview(unknown)} are"
        raise ValueError(f"{which} not among {what} ({preview(classes.values.tolist(), 5)})")
    return code_of.astype(np.uint32)[codes]


def checked_weights(data: Any, what: str) -> npt.NDArray[np.float64]:
    """Return weights as numbers that can count labels; what is too small for that next to others counts as 0."""
    weights = checked_amounts(data, what)
    large, small = weights > MOST_COUNT, (weights > 0) & (weights < LEAST_COUNT)
    bad = large if large.any() or not small.any() or (weights >= LEAST_COUNT).any() else small
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{what} holds {weights[row]:g} at row {row}; a weight is a number of labels and must be {COUNTS}: "
            f"{'divide' if large.any() else 'multiply'} all weights by a number, or drop the row"
        )
    if small.any():
        row, n = int(np.argmax(small)), int(small.sum())
        which = f"{plural(n, 'row')} below {LEAST_COUNT:g} (first at row {row}, {weights[row]:g})"
        warn_of_data(f"{what} holds {which}: next to nothing, counted as 0")
        weights = np.where(small, 0.0, weights)
    return weights


def checked_amounts(data: Any, what: str) -> npt.NDArray[np.float64]:
    """Return a column of numbers that are finite and not negative."""
    weights = _numbers(data, what)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what} holds {weights[row]} at row {row}; weights must be finite and at least 0")
    return weights


def checked_values(data: Any, what: str) -> npt.NDArray[np.float64]:
    """Return a column of numbers, NaN where there is none."""
    values = _numbers(data, what)
    bad = np.isinf(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what} holds {values[row]} at row {row}; values must be finite: fix or drop that row")
    return values


def _numbers(data: Any, what: str) -> npt.NDArray[np.float64]:
    """A column of numbers, whatever they are."""
    import pyarrow as pa

    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    numbers = data.to_numpy() if isinstance(data, pa.ChunkedArray) else np.asarray(data)
    if numbers.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {numbers.shape}")
    try:
        # Objects may be decimals and None, but NumPy would also read numbers out of text.
        if numbers.dtype.kind not in "biufO" or (numbers.dtype == object and any(isinstance(w, str) for w in numbers)):
            raise TypeError
        return np.ascontiguousarray(numbers, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must hold numbers") from None


def checked_codes(values: npt.ArrayLike, what: str, dtype: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    """Return codes as the unsigned integers the table takes."""
    codes = np.asarray(values)
    if codes.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {codes.shape}")
    if codes.size and codes.dtype.kind not in "ui":
        raise TypeError(f"{what} must be whole numbers (codes), not {codes.dtype}; use from_arrays for other ids")
    if codes.size and (codes.min() < 0 or codes.max() > np.iinfo(dtype).max):
        raise ValueError(f"{what} must lie between 0 and {np.iinfo(dtype).max:,}")
    return np.ascontiguousarray(codes, dtype)


def mask_of(names: Names, wanted: Any, what: str) -> npt.NDArray[np.bool_]:
    """Mark the wanted names: all for None, else those named, or marked by a boolean column."""
    keep = np.zeros(len(names), np.bool_)
    if wanted is None:
        return ~keep
    column = Column(wanted, f"{what}s")
    if column.missing() is not None:
        raise ValueError(f"the {what}s to select must not hold a missing value (null, NaN or empty)")
    if column.is_boolean() and names.values.dtype != np.bool_:
        if len(column) != len(names):
            raise ValueError(f"the {what} mask has {len(column):,} entries for {plural(len(names), what)}")
        return np.asarray(column.names().values)
    distinct = column.names()
    codes = names.match(distinct)
    if (codes < 0).any():
        raise KeyError(f"no {what} is called {distinct.values[codes < 0].tolist()[0]!r}")
    keep[codes] = True
    return keep
