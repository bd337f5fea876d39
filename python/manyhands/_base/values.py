"""Python values as ids: which of them are the same, which stand for nothing, and the order they come in.

Ids are the same if Python considers them equal, with equal hashes, as in a set. So 1, 1.0 and True are one id, and so
are an hour in two time zones; a date and a datetime, a time with a zone and one without, 1 and "1" are not. A scalar of
NumPy or Arrow counts as the Python value that it stands for.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

#: Types whose equal values always print alike, with each other.
_ONE_FORM = {str, int, bytes, dt.date, dt.timedelta, uuid.UUID}
#: Types of which Arrow keeps lists as they are.
_ARROW_KINDS = {*_ONE_FORM, bool, float, dt.datetime, dt.time, decimal.Decimal}
#: How deep tuples may be nested: Python hashes them by recursion, and has no guard against the end of the stack.
_DEEPEST = 100
#: Arrow's nearest to NumPy's units of time; a year or a month is of no fixed length.
_FINE = dict.fromkeys(("ns", "ps", "fs", "as"), "ns") | {unit: unit for unit in ("s", "ms", "us")}
_TIMES = _FINE | dict.fromkeys(("Y", "M", "W", "D"), "D") | dict.fromkeys(("h", "m"), "s")
_DURATIONS = _FINE | dict.fromkeys(("W", "D", "h", "m"), "s")
#: From here on, floats have no room for all integers.
_EXACT = 2**53


def as_objects(items: Sequence[Any]) -> npt.NDArray[np.object_]:
    """Return an array of objects, whatever they are."""
    out = np.empty(len(items), object)
    out[:] = items
    return out


def is_missing(value: Any) -> bool:
    """Whether a value stands for nothing: None, NaN, pandas.NA, NaT or empty text."""
    # pandas.NA answers no question, so ask for it by name; NaN is the only value that differs from itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return not value if isinstance(value, str) else bool(value != value)


# ------------------------------------------------------------------------------------------------ plain values


def plain_values(items: Iterable[Any], what: str) -> list[Any]:
    """Return the Python values that scalars of NumPy and Arrow stand for; all else as it is."""
    values = list(items)
    foreign = {kind: reader for kind in set(map(type, values)) if (reader := _reader(kind)) is not None}
    if not foreign:
        return values
    for row, value in enumerate(values):
        if (read := foreign.get(type(value))) is not None:
            try:
                values[row] = read(value)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{what} at row {row} is {value!r}: {error}; give it as text") from None
    return values


def _reader(kind: type) -> Callable[[Any], Any] | None:
    """Return what turns a scalar of this type into a Python value; None for Python's own."""
    if issubclass(kind, np.datetime64 | np.timedelta64):
        return _time
    if issubclass(kind, np.generic) or (
        hasattr(kind, "__array__") and hasattr(kind, "item") and kind is not np.ndarray
    ):
        return _item
    return (lambda scalar: scalar.as_py()) if hasattr(kind, "as_py") else None


def _item(scalar: Any) -> Any:
    if isinstance(scalar, np.longdouble | np.clongdouble):  # whose item is itself
        plain = (float if isinstance(scalar, np.longdouble) else complex)(scalar)
        return plain if plain == scalar else scalar
    return scalar.item() if getattr(scalar, "shape", ()) == () else scalar


def _time(scalar: Any) -> Any:
    """Turn a NumPy time into a date, datetime, timedelta, or one of pandas' for nanoseconds."""
    if np.isnat(scalar):
        return None
    plain = plain_times(scalar[None])[0]
    value = plain.item()
    if isinstance(value, int) and np.datetime_data(plain.dtype)[0] == "ns":
        value = _nanoseconds(plain)
    if isinstance(value, int):
        raise ValueError("a time beyond what Python's dates hold")
    return value


def _nanoseconds(scalar: Any) -> Any:
    coarse = scalar.astype(scalar.dtype.str.replace("ns", "us"))
    if coarse.astype(scalar.dtype) == scalar:
        return coarse.item()
    try:
        import pandas as pd
    except ImportError:
        raise ValueError("a time of nanoseconds needs pandas, since Python has none") from None
    return (pd.Timestamp if isinstance(scalar, np.datetime64) else pd.Timedelta)(scalar)


def plain_times(times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return NumPy times in a unit that Arrow has: days, or seconds and their thousandths; all values the same."""
    unit, step = np.datetime_data(times.dtype)
    unit_wanted = (_DURATIONS if times.dtype.kind == "m" else _TIMES).get(unit)
    if unit_wanted is None:
        raise ValueError(f"{times.dtype} has no fixed length")
    if unit_wanted == unit and step == 1:
        return times
    converted = times.astype(f"{times.dtype.kind}8[{unit_wanted}]")
    lost = (converted.astype(times.dtype) != times) & ~np.isnat(times)
    if lost.any():
        raise ValueError(f"{times[lost][0]!r} has no equal in {converted.dtype}, the nearest that ids can be")
    return converted


def hashable(values: Iterable[Any], what: str) -> npt.NDArray[np.object_]:
    """Return plain values as an array of objects; reject those that cannot be ids."""
    objects = as_objects(plain_values(values, what))
    for row, value in enumerate(objects):
        try:
            if isinstance(value, tuple) and _is_deep(value):
                raise TypeError
            hash(value)
        except TypeError:
            kind = type(value).__name__
            raise TypeError(f"{what} at row {row} is a {kind}, which cannot be an id") from None
    return objects


def _is_deep(value: tuple[Any, ...]) -> bool:
    level: list[tuple[Any, ...]] = [value]
    for _ in range(_DEEPEST):
        inner = {id(x): x for outer in level for x in outer if isinstance(x, tuple)}
        if not inner:
            return False
        level = list(inner.values())
    return True


# --------------------------------------------------------------------------------------------------- into codes


def encode(values: Sequence[Any]) -> tuple[npt.NDArray[np.uint32], list[Any]]:
    """Codes of the values and the distinct ones, in an order that rows do not decide: one look-up per row."""
    code_of: dict[Any, int] = {}
    codes = np.fromiter((code_of.setdefault(value, len(code_of)) for value in values), np.uint32, len(values))
    items = list(code_of) if _print_alike(values) else _canonical(values, codes, list(code_of))
    # Sorted by print first: where the values' own order leaves some undecided, rows must not decide it.
    order = sorted(range(len(items)), key=lambda i: _print_order(items[i]))
    if not any(isinstance(item, frozenset) for item in items):  # which are ordered only in part
        with suppress(TypeError, ValueError, ArithmeticError):  # values of several types have no order of their own
            order = sorted(order, key=items.__getitem__)
    rank = np.empty(len(items), np.uint32)
    rank[order] = np.arange(len(items), dtype=np.uint32)
    return rank[codes], [items[i] for i in order]


def _print_alike(values: Sequence[Any]) -> bool:
    """Whether equal values are sure to print alike: of a few types, or tuples of them."""
    kinds = set(map(type, values))
    if tuple in kinds:
        # Tuples within tuples are not looked into: they count as unsure.
        inner = set(map(type, chain.from_iterable(value for value in values if type(value) is tuple)))
        kinds = (kinds - {tuple}) | inner
    return kinds <= _ONE_FORM


def _canonical(values: Sequence[Any], codes: npt.NDArray[np.uint32], items: list[Any]) -> list[Any]:
    """Of values that are equal and print differently, such as 1 and True, take the same one in any order of rows."""
    for value, code in zip(values, codes.tolist(), strict=True):
        item = items[code]
        alike = value is item or (type(value) is type(item) and type(value) in _ONE_FORM)
        if not alike and _form_order(value) < _form_order(item):
            items[code] = value
    return items


def _form_order(value: Any) -> tuple[bool, str, int, str]:
    """Integers first, then the shorter print: 0.0 rather than -0.0, UTC rather than most zones."""
    text = repr(value)
    return (type(value) is not int, type(value).__name__, len(text), text)


def _print_order(value: Any) -> tuple[bool, float, str, str]:
    """Numbers by size, then all else by type and print."""
    if isinstance(value, int | float):
        return (False, value, "", "")
    return (True, 0, type(value).__name__, repr(value))


# ------------------------------------------------------------------------------------------------- compact forms


def tidy(items: Sequence[Any]) -> Any:
    """Return distinct values in the tightest form that loses nothing: numbers, booleans, Arrow text, or objects."""
    kinds = set(map(type, items))
    if kinds == {bool}:
        return np.array(items, np.bool_)
    if kinds and bool not in kinds:
        if all(issubclass(kind, str) for kind in kinds):
            return _as_text(items)
        if all(issubclass(kind, int | float) for kind in kinds):
            return _as_numbers(items)
    return as_objects(items)


def _as_text(items: Sequence[str]) -> Any:
    import pyarrow as pa

    try:
        text = pa.array([str.__str__(item) for item in items], pa.large_string())
    except UnicodeEncodeError:  # lone surrogates
        return as_objects(items)
    return text if len(text.unique()) == len(items) else as_objects(items)


def _as_numbers(items: Sequence[Any]) -> npt.NDArray[Any]:
    if all(isinstance(item, int) or (item.is_integer() and -_EXACT < item < _EXACT) for item in items):
        whole = [int(item) for item in items]
        for dtype in (np.int64, np.uint64):
            if np.iinfo(dtype).min <= min(whole) and max(whole) <= np.iinfo(dtype).max:
                return np.array(whole, dtype)
    elif all(isinstance(item, float) or -_EXACT < item < _EXACT for item in items):
        return np.array(items, np.float64) + 0.0  # -0.0 is not an id of its own
    return as_objects(items)


def as_arrow(items: Sequence[Any]) -> Any:
    """Return values as an Arrow array that gives back equal ones, or None where Arrow has no type for them.

    Only values of one type are shown to Arrow: of others it may make what they are not, or come down altogether.
    """
    import pyarrow as pa

    kinds = set(map(type, items))
    if kinds == {tuple}:
        kinds = set(map(type, chain.from_iterable(items)))
    pandas = {kind.__name__ for kind in kinds} <= {"Timestamp", "Timedelta"}
    if len(kinds) > 1 or not (pandas or kinds <= _ARROW_KINDS):
        return None
    try:
        column = pa.array(items)
        if pandas:  # which Arrow would cut to microseconds
            fine = pa.duration("ns") if pa.types.is_duration(column.type) else pa.timestamp("ns", column.type.tz)
            column = pa.array(items, fine)
        back = column.to_pylist()
    except (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError):
        return None
    return column if [tuple(x) if isinstance(x, list) else x for x in back] == list(items) else None
