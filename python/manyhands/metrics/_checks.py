"""Checks and conversions that several measures share."""

from __future__ import annotations

from collections import Counter
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = npt.NDArray[Any]

#: The families, as :func:`family_of` names them, whose values may equal one another.
NUMBERS = ("integers", "floats", "booleans")

_SUM_TOLERANCE = 1e-6
_FAMILIES = {
    "i": "integers",
    "u": "integers",
    "b": "booleans",
    "f": "floats",
    "U": "strings",
    "S": "bytes",
    "M": "dates",
    "m": "durations",
}


def as_values(what: str, values: Any) -> Values:
    """One-dimensional, non-empty array of names, codes or ids, whose elements keep their types."""
    if isinstance(values, np.ma.MaskedArray):  # asarray would uncover what the mask hides
        values = np.ma.filled(values.astype(object), None)
    if isinstance(values, list | tuple) and _would_change(values):
        array = np.fromiter(values, dtype=object, count=len(values))
    else:
        array = np.asarray(values)
    if array.dtype.kind == "T":
        array = array.astype(object)
    if array.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {array.shape}")
    if not len(array):
        raise ValueError(f"{what} is empty: nothing to measure")
    return array


def _would_change(values: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether NumPy would turn None or numbers into text, or ids that are tuples into a matrix."""
    types = set(map(type, values))
    return tuple in types or len({issubclass(each, str | bytes) for each in types}) == 2


def missing(values: Values) -> Bools:
    """Where an array holds None, NaN, NaT or NA."""
    kind = values.dtype.kind
    if kind == "f":
        return np.isnan(values)
    if kind in "mM":
        return np.isnat(values)
    none = np.zeros(len(values), dtype=np.bool_)
    if kind != "O":
        return none
    # Most arrays of objects are all strings: their types alone show that nothing is missing.
    suspects = {each for each in set(map(type, values)) if _may_be_absent(each)}
    if not suspects:
        return none
    absent = (type(each) in suspects and not _equals_itself(each) for each in values)
    return np.fromiter(absent, dtype=np.bool_, count=len(values))


def _may_be_absent(kind: type) -> bool:
    # pandas' NA and NaT are known by name, so that pandas need not be imported.
    if kind is type(None) or kind.__name__ in ("NAType", "NaTType"):
        return True
    return issubclass(kind, Real) and not issubclass(kind, Integral)


def _equals_itself(value: Any) -> bool:
    return isinstance(value, Real) and bool(value == value)


def family_of(values: Values) -> str:
    """Name what the elements are, for error messages."""
    if values.dtype.kind != "O":
        return _FAMILIES.get(values.dtype.kind, str(values.dtype))
    types = set(map(type, values[~missing(values)]))
    for parent, word in ((str, "strings"), (bytes, "bytes"), (Integral, "integers"), (Real, "floats")):
        if types and all(issubclass(each, parent) for each in types):
            return word
    return "objects"


def as_truth(truth: npt.ArrayLike) -> Values:
    """True classes, as names or codes, none missing."""
    true = as_values("truth", truth)
    absent = missing(true)
    if absent.any():
        raise ValueError(f"truth is missing at position {absent.argmax()}; leave out tasks without truth")
    return true


def lookup(names: Values, keys: Values, *, what: str) -> Ints:
    """Position of every key among the distinct names, -1 where it is not there."""
    kinds = names.dtype.kind + keys.dtype.kind
    if kinds in ("MM", "mm"):  # units may differ
        common = np.result_type(names.dtype, keys.dtype)
        names, keys = names.astype(common).view(np.int64), keys.astype(common).view(np.int64)
    # Only integers are sorted: text hashes faster, and int64 and uint64 would meet as floats and lose digits.
    if kinds in ("MM", "mm") or (set(kinds) <= {"i", "u"} and np.result_type(names, keys).kind != "f"):
        return _lookup_sorted(names, keys, what)
    position = {name: at for at, name in enumerate(names.tolist())}
    if len(position) != len(names):
        repeated = Counter(names.tolist()).most_common(1)[0][0]
        raise ValueError(f"{what} must be distinct; {show(repeated)} occurs twice")
    return np.fromiter((position.get(key, -1) for key in keys.tolist()), np.int64, len(keys))


def _lookup_sorted(names: Values, keys: Values, what: str) -> Ints:
    order: Ints | None = None
    if np.any(names[1:] < names[:-1]):
        order = np.argsort(names, kind="stable")
        names = names[order]
    twice = np.flatnonzero(names[1:] == names[:-1])
    if len(twice):
        raise ValueError(f"{what} must be distinct; {show(names[twice[0]])} occurs twice")
    place = np.minimum(np.searchsorted(names, keys), len(names) - 1)
    present = names[place] == keys
    return np.where(present, place if order is None else order[place], -1)


def show(value: Any) -> str:
    """Write a value as plain Python would, whatever NumPy wraps it in."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def as_probabilities(what: str, axes: tuple[str, ...], values: npt.ArrayLike) -> Floats:
    """Float64 array whose last axis holds probabilities; errors name the first bad row."""
    array = np.asarray(values)
    ndim = len(axes) + 1
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold numbers, not {family_of(array)}")
    if array.ndim != ndim:
        raise ValueError(f"{what} must have {ndim} dimensions, not shape {array.shape}")
    if not array.size:
        raise ValueError(f"{what} is empty (shape {array.shape}): nothing to measure")
    table = array.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        total = table.sum(axis=-1)
    low = table.min(axis=-1)
    # Rows in float32 sum to one only as far as their digits go.
    narrow = float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0
    tolerance = max(_SUM_TOLERANCE, table.shape[-1] * narrow)
    for bad, value, says in (
        (~np.isfinite(total), total, "sums to"),
        (low < 0, low, "has the negative entry"),
        (np.abs(total - 1.0) > tolerance, total, "sums to"),
    ):
        if np.any(bad):
            where = tuple(np.argwhere(bad)[0])
            at = "".join(f" {word} {i}" for word, i in zip(axes, where, strict=True))
            raise ValueError(f"{what}{at} {says} {value[where]}; probabilities are at least 0 and sum to 1")
    return table


def as_finite(what: str, values: npt.ArrayLike) -> Floats:
    """One-dimensional, non-empty array of finite numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {array.shape}")
    if not array.size:
        raise ValueError(f"{what} is empty: nothing to measure")
    bad = ~np.isfinite(array)
    if bad.any():
        raise ValueError(f"{what} must be finite but holds {array[bad][0]} at position {bad.argmax()}")
    return array


def check_same_length(what: str, values: Values, other: str, others: Values) -> None:
    """Raise for two arrays of unequal length."""
    if len(values) != len(others):
        raise ValueError(f"{what} has {len(values)} rows but {other} has {len(others)}")
