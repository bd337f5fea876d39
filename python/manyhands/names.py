"""Ids of tasks, workers and classes: any kind of value in, dense codes and their names out.

Names are kept in sorted order, so that a table does not depend on the order of its rows. Columns of integers
and text are encoded in the compiled core without a Python object per row; dates and decimals go through
Arrow's dictionary encoding, and only values that Arrow cannot hold (tuples, mixed types) are handled one by
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.uint32]


class Names:
    """The distinct values of a column, in code order.

    Holds a NumPy array of numbers, booleans or objects, or an Arrow array of text (2 million names as Python
    objects would cost more than the whole table); `values` converts on first use.
    """

    __slots__ = ("_index", "_store", "_values")

    def __init__(self, store: Any) -> None:
        self._store = store
        self._values: npt.NDArray[Any] | None = store if isinstance(store, np.ndarray) else None
        self._index: dict[Any, int] | None = None

    @property
    def values(self) -> npt.NDArray[Any]:
        """The names, read-only: an array of integers, floats, booleans, or objects (text and all else)."""
        if self._values is None:
            self._values = self._store.to_numpy(zero_copy_only=False)
        self._values.flags.writeable = False
        return self._values

    def __len__(self) -> int:
        return len(self._store)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names):
            return NotImplemented
        if not isinstance(self._store, np.ndarray) and not isinstance(other._store, np.ndarray):
            return bool(self._store.equals(other._store))
        return np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Names, (self._store,)  # without the caches

    def arrow(self) -> pa.Array:
        """Return the names as an Arrow array."""
        import pyarrow as pa

        if not isinstance(self._store, np.ndarray):
            return self._store
        try:
            return pa.array(self._store)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            shown = ", ".join(repr(name) for name in self._store[:3])
            raise TypeError(f"no Arrow type can hold the ids {shown}, …; use integers or text as ids") from None

    def take(self, index: npt.NDArray[Any]) -> Names:
        """Return the names at the given codes."""
        if isinstance(self._store, np.ndarray):
            return Names(self._store[index])
        import pyarrow as pa

        return Names(self._store.take(pa.array(index)))

    def joined(self, other: Names) -> Names:
        """Return the names of both, in sorted order."""
        if not len(other):
            return self
        return Column([*self.values.tolist(), *other.values.tolist()], "names").encode()[1]

    def followed_by(self, other: Names) -> Names:
        """Return these names and then the others, which must all be different."""
        if not isinstance(self._store, np.ndarray) and not isinstance(other._store, np.ndarray):
            import pyarrow as pa

            return Names(pa.concat_arrays([self._store, other._store]))
        if self.values.dtype == other.values.dtype:
            return Names(np.concatenate([self.values, other.values]))
        return sequence([*self.values.tolist(), *other.values.tolist()])

    def find(self, wanted: Iterable[Any]) -> npt.NDArray[np.int64]:
        """Codes of the wanted names, -1 where there is none. O(len(self)) once, then O(1) a name."""
        if self._index is None:
            self._index = {name: code for code, name in enumerate(self.values.tolist())}
        items = _python_values(wanted)
        return np.fromiter((self._index.get(name, -1) for name in items), np.int64, len(items))

    def match(self, other: Names) -> npt.NDArray[np.int64]:
        """For each of `other`'s names its code here, -1 where there is none."""
        mine, theirs = self._store, other._store
        if isinstance(mine, np.ndarray) != isinstance(theirs, np.ndarray):
            return self.find(other.values)
        if not isinstance(mine, np.ndarray):
            import pyarrow.compute as pc

            found = pc.index_in(theirs, value_set=mine).fill_null(-1)
            return found.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
        # Unlike numbers (an integer and a float) compare exactly only as Python's.
        if mine.dtype != theirs.dtype or mine.dtype == object or not len(mine):
            return self.find(theirs)
        order = np.argsort(mine)  # classes have the order the user gave them
        at = order[np.searchsorted(mine, theirs, sorter=order).clip(max=len(mine) - 1)]
        return np.where(mine[at] == theirs, at, -1)


def sequence(names: Iterable[Any], what: str = "names") -> Names:
    """Names in the order given: a list, an array, a Series, the keys of a mapping."""
    column = Column(names, what)
    if column.missing() is not None:
        raise ValueError(f"{what} must not hold a missing value (null, NaN or empty)")
    return column.names()


def _plain(value: Any) -> Any:
    """Turn a NumPy or Arrow scalar into the Python value that hashes and compares alike."""
    if isinstance(value, np.datetime64 | np.timedelta64) and isinstance(value.item(), int):
        import pyarrow as pa

        value = pa.scalar(value)  # nanoseconds, which NumPy turns into integers
    if hasattr(value, "as_py"):
        return value.as_py()
    return value.item() if isinstance(value, np.generic) else value


def _python_values(items: Iterable[Any]) -> list[Any]:
    if hasattr(items, "to_pylist"):
        return list(items.to_pylist())
    if isinstance(items, np.ndarray) and items.dtype.kind not in "mM":
        return list(items.tolist())
    return [_plain(item) for item in items]


def _objects(items: Sequence[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(items), object)
    out[:] = items
    return out


class Column:
    """A column on its way to codes: its Arrow form, or its objects where Arrow has no form for them.

    `what` names it in messages; `parse_integers` reads text as integers if every value is one in canonical
    form.
    """

    def __init__(self, data: Any, what: str, *, parse_integers: bool = False) -> None:
        self.what = what
        self.parse_integers = parse_integers
        self.data = _canonical(data, what)

    def __len__(self) -> int:
        return len(self.data)

    def missing(self) -> npt.NDArray[np.bool_] | None:
        """Which rows hold nothing: null, NaN or empty text; None where no row does."""
        mask: npt.NDArray[np.bool_] | None
        if isinstance(self.data, np.ndarray):
            mask = np.fromiter((is_missing(x) for x in self.data), np.bool_, len(self.data))
        else:
            mask = _arrow_missing(self.data)
        return mask if mask is not None and mask.any() else None

    def filter(self, keep: npt.NDArray[np.bool_]) -> None:
        """Keep only the marked rows."""
        if isinstance(self.data, np.ndarray):
            self.data = self.data[keep]
            return
        import pyarrow as pa

        self.data = self.data.filter(pa.array(keep))

    def is_boolean(self) -> bool:
        """Whether every row is true or false."""
        import pyarrow as pa

        return not isinstance(self.data, np.ndarray) and pa.types.is_boolean(self.data.type)

    def encode(self) -> tuple[Codes, Names]:
        """Codes of the rows and their names, in sorted order; no row may be missing."""
        return _encode(self.data, self.parse_integers)

    def names(self) -> Names:
        """Return the rows themselves as names, in their order."""
        import pyarrow as pa

        data = self.data
        if isinstance(data, np.ndarray):
            return Names(data)
        if pa.types.is_dictionary(data.type):
            data = data.dictionary_decode()
        if pa.types.is_large_string(data.type):
            return Names(data)
        # A copy: Arrow may have kept the caller's own array.
        return Names(_numbers(data).copy() if is_number(data.type) else _objects(data.to_pylist()))


def is_missing(value: Any) -> bool:
    """Whether a value stands for nothing: None, NaN, pandas.NA, NaT or empty text."""
    # pandas.NA answers no question, so ask for it by name; NaN is the only value that differs from itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return not value if isinstance(value, str) else bool(value != value)


# ------------------------------------------------------------------------------------------------- into Arrow


def _canonical(data: Any, what: str) -> Any:
    """Turn a column into one Arrow array of a type that `_is_supported`, or an array of objects."""
    import pyarrow as pa

    if isinstance(data, pa.Array | pa.ChunkedArray):
        column = _one_chunk(data) if _is_supported(data.type) else _unsupported(data, what)
    else:
        column = _convert(data, what)
    if isinstance(column, np.ndarray):
        return column
    if pa.types.is_dictionary(column.type):
        return _plain_dictionary(column)
    return plain_text(column)


def _unsupported(column: Any, what: str) -> npt.NDArray[np.object_]:
    """Return the Python values of an Arrow array that holds bytes, UUIDs and the like."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        raise TypeError(f"{what} holds Arrow {column.type}; an id must be a single value, such as a number or text")
    return _hashable(column.to_pylist(), what)


def _convert(data: Any, what: str) -> Any:
    """Turn the data into an Arrow array, or an array of objects where Arrow cannot hold them."""
    import pyarrow as pa

    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise TypeError(f"{what} must be a column of ids, not a single {type(data).__name__}")
    shape = getattr(data, "shape", (0,))
    if len(shape) != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {shape}")
    if isinstance(data, np.ndarray):
        data = data.astype(data.dtype.newbyteorder("="), copy=False)
    elif isinstance(data, Mapping) or not hasattr(data, "__getitem__"):
        data = list(data)  # a generator can be read only once
    try:
        stream = hasattr(data, "__arrow_c_stream__")
        column = pa.chunked_array(data) if stream else pa.array(data, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _hashable(data, what)
    return _one_chunk(column) if _is_supported(column.type) else _hashable(data, what)


def _hashable(data: Iterable[Any], what: str) -> npt.NDArray[np.object_]:
    objects = _objects([_plain(value) for value in data])
    for row, value in enumerate(objects):
        try:
            hash(value)
        except TypeError:
            kind = type(value).__name__
            raise TypeError(f"{what} at row {row} is a {kind}, which cannot be an id") from None
    return objects


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of numbers or booleans."""
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_supported(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _is_supported(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return True
    if is_number(kind) or types.is_decimal(kind) or types.is_null(kind):
        return True
    return bool(types.is_temporal(kind) and not types.is_interval(kind))


def _one_chunk(column: Any) -> pa.Array:
    import pyarrow as pa

    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        wide = pa.dictionary(pa.int32(), pa.large_string())
        chunks = [_plain_dictionary(chunk, pa.int32()) for chunk in column.chunks]
        column = pa.chunked_array(chunks, chunks[0].type if chunks else wide).unify_dictionaries()
    else:
        column = plain_text(column)  # before joining: 32 bits may not address the text of all chunks
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def plain_text(column: Any) -> Any:
    """Make text `large_string`; leave anything else as it is."""
    import pyarrow as pa

    short = pa.types.is_string(column.type) or pa.types.is_string_view(column.type)
    return column.cast(pa.large_string()) if short else column


def _plain_dictionary(column: pa.DictionaryArray, index: pa.DataType | None = None) -> pa.DictionaryArray:
    """Make the text of a dictionary `large_string`; joined chunks may need wider indices than each has."""
    import pyarrow as pa

    indices = column.indices if index is None else column.indices.cast(index)
    return pa.DictionaryArray.from_arrays(indices, plain_text(column.dictionary))


def _arrow_missing(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        bad = _arrow_missing(column.dictionary)
        if column.indices.null_count == 0 and bad is None:
            return None
        nulls: npt.NDArray[np.bool_] = column.indices.is_null().to_numpy(zero_copy_only=False)
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return nulls if bad is None or not len(bad) else nulls | bad[codes]
    masks = []
    if column.null_count:
        masks.append(column.is_null())
    if pa.types.is_floating(column.type):
        masks.append(pc.is_nan(column).fill_null(True))
    elif pa.types.is_large_string(column.type):
        offsets = _offsets(column)
        empty = offsets[1:] == offsets[:-1]
        if empty.any():
            masks.append(pa.array(empty))
    if not masks:
        return None
    arrays = [mask.to_numpy(zero_copy_only=False) for mask in masks]
    return np.logical_or.reduce(arrays)  # type: ignore[no-any-return]


def _offsets(column: pa.LargeStringArray) -> npt.NDArray[np.int64]:
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column) + 1, np.int64)
    return np.frombuffer(buffer, np.int64, len(column) + 1, column.offset * 8)


def text_buffers(column: pa.LargeStringArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets and bytes of Arrow text, without a copy; the first offset need not be 0."""
    buffer = column.buffers()[2]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.zeros(0, np.uint8)
    return _offsets(column), data


# ------------------------------------------------------------------------------------------------- into codes


def _encode(column: Any, parse_integers: bool) -> tuple[Codes, Names]:
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return _encode_objects(column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _encode_dictionary(column, parse_integers)
    if pa.types.is_large_string(kind):
        offsets, data = text_buffers(column)
        values = _core.canonical_integers(offsets, data) if parse_integers else None
        if values is not None:
            return _encode_numbers(values)
        codes, rows = _core.encode_strings(offsets, data)
        return codes, Names(column.take(pa.array(rows)))
    if is_number(kind):
        return _encode_numbers(_numbers(column))
    distinct = column.dictionary_encode()
    codes, names = _encode_objects(_objects(distinct.dictionary.to_pylist()))
    return codes[distinct.indices.to_numpy()], names


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Numbers as int64, else float64 or uint64; booleans as they are."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    values = column.to_numpy()
    if pa.types.is_integer(column.type):
        fits = values.dtype != np.uint64 or not len(values) or values.max() < 2**63
        return values.astype(np.int64, copy=False) if fits else values  # type: ignore[no-any-return]
    values = values.astype(np.float64, copy=False) + 0.0  # -0.0 is no id of its own
    if (np.abs(values) < 2**53).all():
        whole = values.astype(np.int64)
        if np.array_equal(whole, values):
            return whole  # type: ignore[no-any-return]  # an integer column with gaps reaches us as floats
    return values  # type: ignore[no-any-return]


def _encode_numbers(values: npt.NDArray[Any]) -> tuple[Codes, Names]:
    if values.dtype.kind in "ib":
        codes, names = _core.encode_integers(np.ascontiguousarray(values, np.int64))
        return codes, Names(names.astype(values.dtype, copy=False))
    distinct, inverse = np.unique(values, return_inverse=True)
    return inverse.astype(np.uint32), Names(distinct)


def _encode_dictionary(column: pa.DictionaryArray, parse_integers: bool) -> tuple[Codes, Names]:
    """Encode the values that occur, and map the rows."""
    import pyarrow as pa

    rows = column.indices.to_numpy(zero_copy_only=False)
    occurs = np.zeros(len(column.dictionary), np.bool_)
    occurs[rows] = True
    used = np.flatnonzero(occurs)
    codes, names = _encode(column.dictionary.take(pa.array(used)), parse_integers)
    lookup = np.zeros(len(occurs), np.uint32)
    lookup[used] = codes
    return lookup[rows], names


def _encode_objects(column: npt.NDArray[np.object_]) -> tuple[Codes, Names]:
    """One dictionary look-up a row: for ids that Arrow cannot hold."""
    seen: dict[Any, int] = {}
    codes = np.fromiter((seen.setdefault(value, len(seen)) for value in column), np.uint32, len(column))
    items = list(seen)
    # Sorted by print first: where the values' own order leaves some undecided, rows must not decide it.
    order = sorted(range(len(items)), key=lambda i: _print_order(items[i]))
    with suppress(TypeError):  # values of several types have no order of their own
        order = sorted(order, key=items.__getitem__)
    rank = np.empty(len(items), np.uint32)
    rank[order] = np.arange(len(items), dtype=np.uint32)
    return rank[codes], Names(_objects([items[i] for i in order]))


def _print_order(value: Any) -> tuple[bool, float, str, str]:
    """Numbers by size (1, 1.0 and True are one id), then all else by type and print."""
    if isinstance(value, int | float):
        return (False, value, "", "")
    return (True, 0, type(value).__name__, repr(value))
