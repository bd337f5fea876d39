"""What a table refuses or sets aside, and how it says so."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands.errors import ConvergenceWarning, DataWarning
from manyhands.limits import free_memory
from manyhands.names import Codes, Column, Names, sequence

MAX_CLASSES = 65_535
#: What a label may count that counts at all, as in the compiled table: beyond, sums and products leave the range of a
#: double.
LEAST_COUNT, MOST_COUNT = 1e-30, 1e15
COUNTS = f"0 or between {LEAST_COUNT:g} and {MOST_COUNT:g}"

#: Below so many bytes, names and tables are made without asking whether there is room.
_SMALL = 1 << 24


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a setting that is not one of a few."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def check_number(name: str, value: Any, *, least: float, most: float | None = None, whole: bool = False) -> None:
    """Refuse a setting that is not a finite number, or not a whole one where that is needed, or too small or large."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"{name} must be a {'whole ' if whole else ''}number, not {value!r}")
    if not isinstance(value, int) and not np.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    if most is not None and value > most:
        raise ValueError(f"{name} must be at most {most}, not {value}")
    if value >= 2**63:
        raise ValueError(f"{name} must be below 2**63, not {value}")


def check_flag(name: str, value: Any) -> None:
    """Refuse a setting that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def countable(counts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Mark numbers that can count labels: 0, or neither too small nor too large for sums and products of them."""
    counts = np.asarray(counts)
    return np.asarray((counts == 0) | ((counts >= LEAST_COUNT) & (counts <= MOST_COUNT)))


def check_count(name: str, value: Any) -> None:
    """Refuse a setting that cannot be a number of imaginary labels; 0 is one."""
    _refuse_uncountable(name, value, COUNTS)
    check_number(name, value, least=0)


def _refuse_uncountable(name: str, value: Any, range_: str) -> None:
    if isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0 and not countable(value):
        raise ValueError(f"{name} must be {range_}, not {value:g}")


def check_memory(needed: int, what: str, instead: str) -> None:
    """Refuse what cannot fit in memory, before anything is allocated; where nobody says how much is free, try."""
    free = free_memory()
    if free is not None and needed > free:
        raise MemoryError(
            f"{what} would take at least {_gigabytes(needed)}, and {_gigabytes(free)} are free; {instead}"
        )


def _gigabytes(n: int) -> str:
    return f"{n / 2**30:,.1f} GB"


def check_names_memory(n_tasks: int, n_workers: int) -> None:
    """Refuse more names than there is room for, each a whole number."""
    most = np.iinfo(np.uint32).max
    if max(n_tasks, n_workers) > most:
        raise ValueError(f"more than {most} tasks or workers, which is all that one table can tell apart")
    needed = 8 * (n_tasks + n_workers)
    if needed > _SMALL:
        what = f"names of {counted(n_tasks, 'task')} and {counted(n_workers, 'worker')}"
        check_memory(needed, what, "leave out those without annotations")


def made_table(
    tasks: Codes,
    workers: Codes,
    labels: npt.NDArray[np.uint16],
    weights: npt.NDArray[np.float64] | None,
    n_tasks: int,
    n_workers: int,
    n_classes: int,
    repeats: str = "keep",
    n_true: int | None = None,
) -> _core.Table:
    """Build the compiled table, if there is room for it: 4 bytes a task twice, 5 to 14 an annotation."""
    row = 5 + (n_classes > 256) + (0 if weights is None else 8)
    needed = 8 * n_tasks + row * len(tasks)
    if needed > _SMALL:
        what = f"a table of {counted(len(tasks), 'annotation')} of {counted(n_tasks, 'task')}"
        check_memory(needed, what, "leave out tasks without annotations, or take a part of the log")
    return _core.Table(tasks, workers, labels, weights, n_tasks, n_workers, n_classes, repeats, n_true)


def check_positive(name: str, value: Any) -> None:
    """Refuse a setting that is not a number above zero, or so near to it or so large that nothing can be made of it."""
    _refuse_uncountable(name, value, f"between {LEAST_COUNT:g} and {MOST_COUNT:g}")
    check_number(name, value, least=0)
    if value == 0:
        raise ValueError(f"{name} must be above 0")


def check_between(name: str, value: Any, *, such_as: float | None = None) -> None:
    """Refuse a setting that does not lie between 0 and 1, neither of which will do."""
    check_number(name, value, least=0)
    if not 0 < value < 1:
        example = "" if such_as is None else f", such as {such_as}"
        raise ValueError(f"{name} must lie between 0 and 1{example}, not {value}")


#: Finite strengths of a prior for which differences of gamma functions keep enough of their digits.
_STRENGTHS = (1e-6, 1e9)


def check_strength(strength: Any) -> float | None:
    """Refuse a strength that is neither a positive number nor None, which asks to learn it."""
    if strength is None:
        return None
    if isinstance(strength, bool) or not isinstance(strength, int | float):
        raise TypeError(f"strength must be a number or None, not {strength!r}")
    if not strength > 0:
        raise ValueError(f"strength must be positive, or None to learn it, not {strength}")
    if not (_STRENGTHS[0] <= strength <= _STRENGTHS[1] or strength == float("inf")):
        raise ValueError(
            f"strength must be between {_STRENGTHS[0]:g} and {_STRENGTHS[1]:g}, inf for workers who are exactly like "
            f"their kind, or None to learn it, not {strength}"
        )
    return float(strength)


def check_stopping(max_iter: Any, tol: Any) -> None:
    """Refuse what cannot end an iteration."""
    check_number("max_iter", max_iter, least=1, whole=True)
    check_number("tol", tol, least=0)


def check_pairing(min_overlap: Any, max_partners: Any) -> None:
    """Refuse what cannot choose pairs of workers."""
    check_number("min_overlap", min_overlap, least=0)
    check_number("max_partners", max_partners, least=1, whole=True)


def check_lengths(tasks: Column, workers: Column, labels: Column | None, weights: npt.NDArray[Any] | None) -> None:
    """Refuse columns of unequal length or without rows."""
    given = {"tasks": tasks, "workers": workers, "labels": labels, "weights": weights}
    sizes = {name: len(column) for name, column in given.items() if column is not None}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"columns differ in length: {', '.join(f'{n:,} {k}' for k, n in sizes.items())}")
    if not len(tasks):
        raise ValueError("there are no annotations: the table needs at least one (task, worker, label) row")


def check_n_classes(n: int, what: str) -> None:
    """Refuse more classes than labels of sixteen bits can tell apart."""
    if n > MAX_CLASSES:
        raise ValueError(
            f"{what} holds {n:,} distinct labels, more than the {MAX_CLASSES:,} classes a table can have; "
            "is it an id, a number or free text rather than a class?"
        )


def refuse_missing_ids(*columns: Column) -> None:
    """Refuse rows without a task or a worker."""
    for one in columns:
        absent = one.missing()
        if absent is not None:
            raise ValueError(
                f"{_missing_in(one, absent)}; every annotation needs a task and a worker: fill or drop them"
            )


def refuse_missing_labels(labels: Column, absent: npt.NDArray[np.bool_], missing: str) -> None:
    """Refuse rows without a label if the caller wants that, or if there are no others."""
    if missing == "error":
        raise ValueError(f"{_missing_in(labels, absent)}; fill or drop them, or choose missing='drop'")
    if absent.all():
        raise ValueError(f"{_missing_in(labels, absent)}: there is nothing to aggregate")


def _missing_in(column: Column, absent: npt.NDArray[np.bool_]) -> str:
    return (
        f"{column.what} is missing (null, NaN or empty) in {int(absent.sum()):,} of {len(column):,} rows, "
        f"first at row {int(np.argmax(absent))}"
    )


def refuse_repeats(table: _core.Table, tasks: Names, workers: Names) -> None:
    """Refuse a worker's second answer to the same task."""
    first = table.first_repeat()
    if first is not None:
        task, worker = tasks.values[[first[0]]].tolist()[0], workers.values[[first[1]]].tolist()[0]
        raise ValueError(
            f"worker {worker!r} labelled task {task!r} more than once ({table.n_repeats():,} such rows)"
            "; choose repeats='keep', 'first' or 'last'"
        )


def warn_unlabelled(n_rows: int, tasks: Names) -> None:
    """Tell how many rows were set aside, and which tasks have no other."""
    parts = [f"set aside {counted(n_rows, 'row')} without a label"] if n_rows else []
    if len(tasks):
        have = "has" if len(tasks) == 1 else "have"
        parts.append(
            f"{counted(len(tasks), 'task')} {have} no label at all and will get no answer "
            f"({listed(tasks.values.tolist())}; see .unlabelled)"
        )
    warn_of_data("; ".join(parts))


def warn_unless_converged(converged: bool, model: Any, advice: str = "raise max_iter") -> None:
    """Tell that an iteration with a tolerance ended without meeting it; `model` has ``max_iter`` and ``tol``."""
    if not converged and model.tol > 0:
        stopped = f"{type(model).__name__} stopped at max_iter={model.max_iter} before tol={model.tol:g} was met"
        warn_of_convergence(f"{stopped}; {advice}")


def warn_of_convergence(message: str) -> None:
    """Tell whoever called the library that an answer is not final."""
    warnings.warn(message, ConvergenceWarning, stacklevel=_outside())


def warn_of_data(message: str) -> None:
    """Tell whoever called the library what becomes of their data."""
    warnings.warn(message, DataWarning, stacklevel=_outside())


def _outside() -> int:
    """Stack level of the first caller outside this package, as seen by the calling function."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "manyhands":
        frame, level = frame.f_back, level + 1
    return level


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


def recoded(codes: Codes, names: Names, classes: Names) -> Codes:
    """Turn label codes from places in `names` into places in `classes`."""
    code_of = classes.match(names)
    if (code_of < 0).any():
        unknown = names.values[code_of < 0].tolist()
        which = f"label {unknown[0]!r} is" if len(unknown) == 1 else f"labels {listed(unknown)} are"
        raise ValueError(f"{which} not among the given classes ({listed(classes.values.tolist(), 5)})")
    return code_of.astype(np.uint32)[codes]


def checked_weights(data: Any, what: str) -> npt.NDArray[np.float64]:
    """Return weights as numbers that can count labels; what is too small for that beside others counts as 0."""
    weights = checked_amounts(data, what)
    large, small = weights > MOST_COUNT, (weights > 0) & (weights < LEAST_COUNT)
    bad = large if large.any() or not small.any() or (weights >= LEAST_COUNT).any() else small
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{what} holds {weights[row]:g} at row {row}; a weight counts a label so many times and must be {COUNTS}: "
            f"{'divide' if large.any() else 'multiply'} all weights by a number, or drop the row"
        )
    if small.any():
        row, n = int(np.argmax(small)), int(small.sum())
        which = f"{counted(n, 'row')} below {LEAST_COUNT:g} (first at row {row}, {weights[row]:g})"
        warnings.warn(f"{what} holds {which}: next to nothing, counted as 0", DataWarning, stacklevel=_outside())
        weights = np.where(small, 0.0, weights)
    return weights


def checked_amounts(data: Any, what: str) -> npt.NDArray[np.float64]:
    """Return a column of numbers that are finite and not negative."""
    import pyarrow as pa

    if isinstance(data, pa.Array):
        data = pa.chunked_array([data])
    given = data.to_numpy() if isinstance(data, pa.ChunkedArray) else np.asarray(data)
    if given.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {given.shape}")
    try:
        # Objects may be decimals and None, but NumPy would also read numbers out of text.
        if given.dtype.kind not in "biufO" or (given.dtype == object and any(isinstance(w, str) for w in given)):
            raise TypeError
        weights = np.ascontiguousarray(given, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must hold numbers") from None
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{what} holds {weights[row]} at row {row}; weights must be finite and at least 0")
    return weights


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
            raise ValueError(f"the {what} mask has {len(column):,} entries for {counted(len(names), what)}")
        return np.asarray(column.names().values)
    found = column.names()
    codes = names.match(found)
    if (codes < 0).any():
        raise KeyError(f"no {what} is called {found.values[codes < 0].tolist()[0]!r}")
    keep[codes] = True
    return keep


def counted(n: int, one: str, many: str | None = None) -> str:
    """``3 tasks``, ``1 task``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def listed(items: list[Any], most: int = 3) -> str:
    """List the first few, for a message."""
    return ", ".join(map(repr, items[:most])) + (", …" if len(items) > most else "")
