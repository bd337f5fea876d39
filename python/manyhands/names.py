"""Ids of tasks, workers and classes: any kind of value in, dense codes and their names out.

Names are kept in sorted order, so that a table does not depend on the order of its rows. Columns of integers and text are
encoded in the compiled core without a Python object per row; other Arrow types go through Arrow's dictionary encoding, and
only values that Arrow cannot hold (tuples, mixed types) are handled one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.uint32]


class Names:
    """The distinct values of a column, in code order.

    Holds either a NumPy array or an Arrow array (text: 2 million names as Python objects would cost more than the whole
    table); `values` converts on first use.
    """

    __slots__ = ("_index", "_store", "_values")

    def __init__(self, store: Any) -> None:
        self._store = store
        self._values: npt.NDArray[Any] | None = store if isinstance(store, np.ndarray) else None
        self._index: dict[Any, int] | None = None

    @property
    def values(self) -> npt.NDArray[Any]:
        """The names as a read-only NumPy array: integers, floats, booleans, or objects (text and everything else)."""
        if self._values is None:
            self._values = self._store.to_numpy(zero_copy_only=False)
        self._values.flags.writeable = False
        return self._values

    def __len__(self) -> int:
        return len(self._store)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Names)
            and len(self) == len(other)
            and bool(np.all(self.values == other.values))
        )

    __hash__ = None  # type: ignore[assignment]

    def arrow(self) -> pa.Array:
        """The names as an Arrow array."""
        import pyarrow as pa

        return pa.array(self._store) if isinstance(self._store, np.ndarray) else self._store

    def take(self, index: npt.NDArray[Any]) -> Names:
        """The names at the given codes."""
        if isinstance(self._store, np.ndarray):
            return Names(self._store[index])
        import pyarrow as pa

        return Names(self._store.take(pa.array(index)))

    def find(self, wanted: Iterable[Any]) -> npt.NDArray[np.int64]:
        """Codes of the wanted names, -1 where there is none. O(len(self)) once, then O(1) a name."""
        if self._index is None:
            self._index = {name: code for code, name in enumerate(self.values.tolist())}
        wanted = wanted.tolist() if isinstance(wanted, np.ndarray) else list(wanted)
        return np.fromiter((self._index.get(_plain(name), -1) for name in wanted), np.int64, len(wanted))

    def match(self, other: Names) -> npt.NDArray[np.int64]:
        """For each of `other`'s names its code here, -1 where there is none."""
        mine, theirs = self._store, other._store
        if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray) and mine.dtype == theirs.dtype != object:
            at = np.searchsorted(mine, theirs).clip(0, max(len(mine) - 1, 0))
            return np.where(mine[at] == theirs, at, -1) if len(mine) else np.full(len(theirs), -1)
        return self.find(other.values)


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value that hashes and compares alike."""
    return value.item() if isinstance(value, np.generic) else value


def sequence(names: Iterable[Any]) -> Names:
    """Names from a sequence, in the order given."""
    items = names.tolist() if isinstance(names, np.ndarray) else [_plain(name) for name in names]
    if items and all(type(item) is int for item in items):
        return Names(np.array(items, np.int64))
    if items and all(isinstance(item, str) for item in items):
        import pyarrow as pa

        return Names(pa.array(items, pa.large_string()))
    if items and all(type(item) in (bool, float) for item in items):
        return Names(np.array(items))
    return Names(_objects(items))


def _objects(items: Sequence[Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(items), object)
    out[:] = items
    return out


class Column:
    """A column on its way to codes: its Arrow form, or its objects where Arrow has no form for them."""

    def __init__(self, data: Any, what: str) -> None:
        self.what = what
        self.data = _to_arrow(data, what)

    def __len__(self) -> int:
        return len(self.data)

    def missing(self) -> npt.NDArray[np.bool_] | None:
        """Which rows hold nothing: null, NaN or empty text; None where no row does."""
        if isinstance(self.data, np.ndarray):
            mask = np.fromiter((_is_missing(x) for x in self.data), np.bool_, len(self.data))
        else:
            mask = _arrow_missing(self.data)
        return mask if mask is not None and mask.any() else None

    def filter(self, keep: npt.NDArray[np.bool_]) -> None:
        """Keeps only the marked rows."""
        if isinstance(self.data, np.ndarray):
            self.data = self.data[keep]
            return
        import pyarrow as pa

        self.data = self.data.filter(pa.array(keep))

    def encode(self, *, parse_integers: bool = False) -> tuple[Codes, Names]:
        """Codes and names, with integers read out of text in canonical form if asked to."""
        if isinstance(self.data, np.ndarray):
            return _encode_objects(self.data)
        return _encode_arrow(self.data, parse_integers)


def _is_missing(value: Any) -> bool:
    # NaN is the only value that differs from itself; pandas.NA refuses to say, so ask by name.
    return value is None or value == "" or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)  # noqa: PLR0124


def _to_arrow(data: Any, what: str) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.ChunkedArray | pa.Array):
        column = data
    else:
        if isinstance(data, np.ndarray) and data.ndim != 1:
            raise ValueError(f"{what} must be one-dimensional, not of shape {data.shape}")
        column = _convert(data, what)
    if isinstance(column, pa.ChunkedArray):
        column = _one_chunk(column)
    if isinstance(column, np.ndarray):
        return column
    kind = column.type
    if pa.types.is_string_view(kind) or pa.types.is_string(kind):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(kind) and not pa.types.is_large_string(kind.value_type):
        return _plain_dictionary(column)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_nested(kind):
        raise TypeError(f"{what} holds Arrow {kind}; decode it to text or numbers first")
    return column


def _convert(data: Any, what: str) -> Any:
    """An Arrow array of the data, or an array of objects where Arrow cannot hold them."""
    import pyarrow as pa

    if hasattr(data, "__arrow_c_stream__"):
        return pa.chunked_array(data)
    try:
        column = pa.array(data, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return _hashable(data, what)
    nested = pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type)
    return _hashable(data, what) if nested else column


def _hashable(data: Iterable[Any], what: str) -> npt.NDArray[np.object_]:
    objects = _objects(list(data))
    for row, value in enumerate(objects):
        try:
            hash(value)
        except TypeError:
            raise TypeError(f"{what} at row {row} is a {type(value).__name__}, which cannot be an id") from None
    return objects


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    elif pa.types.is_string(column.type) or pa.types.is_string_view(column.type):
        # 64-bit offsets before joining: the text of all chunks may exceed what 32 bits address.
        column = column.cast(pa.large_string())
    if column.num_chunks == 1:
        return column.chunk(0)
    joined = column.combine_chunks()
    return joined.chunk(0) if isinstance(joined, pa.ChunkedArray) else joined


def _plain_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    import pyarrow as pa

    values = column.dictionary
    if pa.types.is_string(values.type) or pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    return pa.DictionaryArray.from_arrays(column.indices, values)


def _arrow_missing(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        bad = _arrow_missing(column.dictionary)
        if column.indices.null_count == 0 and bad is None:
            return None
        nulls = column.indices.is_null().to_numpy(zero_copy_only=False)
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        return nulls if bad is None or not len(bad) else nulls | bad[codes]
    masks = []
    if column.null_count:
        masks.append(column.is_null())
    if pa.types.is_floating(column.type):
        masks.append(pc.is_nan(column).fill_null(True))
    elif pa.types.is_large_string(column.type):
        empty = np.diff(_offsets(column)) == 0
        if empty.any():
            masks.append(pa.array(empty))
    if not masks:
        return None
    return np.logical_or.reduce([mask.to_numpy(zero_copy_only=False) for mask in masks])  # type: ignore[no-any-return]


def _offsets(column: pa.LargeStringArray) -> npt.NDArray[np.int64]:
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column) + 1, np.int64)
    return np.frombuffer(buffer, np.int64, len(column) + 1, column.offset * 8)


def _text(column: pa.LargeStringArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    buffer = column.buffers()[2]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.zeros(0, np.uint8)
    return _offsets(column), data


def _encode_arrow(column: pa.Array, parse_integers: bool) -> tuple[Codes, Names]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _encode_dictionary(column, parse_integers)
    if pa.types.is_large_string(kind):
        offsets, data = _text(column)
        values = _core.canonical_integers(offsets, data) if parse_integers else None
        if values is not None:
            return _encode_integers(values)
        codes, rows = _core.encode_strings(offsets, data)
        return codes, Names(column.take(pa.array(rows)))
    if pa.types.is_boolean(kind):
        codes, names = _encode_integers(column.cast(pa.uint8()).to_numpy().astype(np.int64))
        return codes, Names(names.values.astype(np.bool_))
    if pa.types.is_integer(kind):
        try:
            return _encode_integers(column.cast(pa.int64()).to_numpy())
        except pa.ArrowInvalid:
            pass  # beyond 63 bits: Arrow's own encoding holds them
    if pa.types.is_floating(kind):
        values = column.to_numpy().astype(np.float64)
        whole = values.astype(np.int64, copy=False) if np.all(np.abs(values) < 2**53) else None
        if whole is not None and np.array_equal(whole, values):
            # An integer column with gaps reaches us as floats.
            return _encode_integers(whole)
        names, inverse = np.unique(values, return_inverse=True)
        return inverse.astype(np.uint32), Names(names)
    return _encode_dictionary(column.dictionary_encode(), parse_integers)


def _encode_integers(values: npt.NDArray[np.int64]) -> tuple[Codes, Names]:
    codes, names = _core.encode_integers(np.ascontiguousarray(values))
    return codes, Names(names)


def _encode_dictionary(column: pa.DictionaryArray, parse_integers: bool) -> tuple[Codes, Names]:
    """Encodes the dictionary, drops its unused values, and maps the rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    raw = column.indices.to_numpy(zero_copy_only=False)
    used = np.unique(raw) if len(raw) else raw[:0]
    entries = column.dictionary.take(pa.array(used))
    direct = pa.types.is_large_string(entries.type) or pa.types.is_integer(entries.type)
    direct = direct or pa.types.is_floating(entries.type) or pa.types.is_boolean(entries.type)
    if direct:
        codes, names = _encode_arrow(entries, parse_integers)
    else:
        order = pc.sort_indices(entries)
        codes = np.empty(len(entries), np.uint32)
        codes[order.to_numpy()] = np.arange(len(entries), dtype=np.uint32)
        names = Names(entries.take(order))
    lookup = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.uint32)
    lookup[used] = codes
    return lookup[raw], names


def _encode_objects(column: npt.NDArray[np.object_]) -> tuple[Codes, Names]:
    """One dictionary look-up a row: for ids that Arrow cannot hold."""
    seen: dict[Any, int] = {}
    codes = np.fromiter((seen.setdefault(value, len(seen)) for value in column), np.uint32, len(column))
    items = list(seen)
    try:
        order = sorted(range(len(items)), key=items.__getitem__)
    except TypeError:
        # Mixed types have no order of their own: sort by type, then by how they print.
        order = sorted(range(len(items)), key=lambda i: (type(items[i]).__name__, repr(items[i])))
    rank = np.empty(len(items), np.uint32)
    rank[order] = np.arange(len(items), dtype=np.uint32)
    return rank[codes] if len(items) else codes, Names(_objects([items[i] for i in order]))
