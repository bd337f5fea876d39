"""Ids of tasks, workers and classes: any kind of value in, dense codes and their names out.

Names are kept in sorted order, so that a table does not depend on the order of its rows. Columns of integers and text
are encoded in the compiled core without a Python object per row; of dates and decimals, Arrow finds the distinct ones.
Where a column has no type, as in a list, Arrow is asked only if all its values are of one type that it keeps exactly:
of several, Arrow makes one, and ids that differ would become the same. All other values are handled one by one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, values
from manyhands.errors import argument

if TYPE_CHECKING:
    import pyarrow as pa

Codes = npt.NDArray[np.uint32]
#: The field of values in a document that no column can hold: of several types, or nested.
MIXED = "json"


class Names:
    """The distinct values of a column, in code order.

    Holds a NumPy array of numbers, booleans or objects, or an Arrow array of text (2 million names as Python
    objects would cost more than the whole table); `values` converts on first use.
    """

    __slots__ = ("_index", "_store", "_values", "shown")

    def __init__(self, store: Any, shown: pa.Array | None = None) -> None:
        self._store = store
        #: What each name stands for, a text or an address, where that is known: an Arrow array of text, aligned.
        self.shown = shown
        self._values: npt.NDArray[Any] | None = store if isinstance(store, np.ndarray) else None
        self._index: dict[Any, int] | None = None

    @property
    def values(self) -> npt.NDArray[Any]:
        """The names, read-only: an array of integers, floats, booleans, or objects (text and all else)."""
        if self._values is None:
            self._values = values.as_objects(self._store.to_pylist())
        self._values.flags.writeable = False
        return self._values

    def __len__(self) -> int:
        return len(self._store)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names):
            return NotImplemented
        if not isinstance(self._store, np.ndarray) and not isinstance(other._store, np.ndarray):
            return bool(self._store.equals(other._store))
        if self.values.dtype != other.values.dtype:  # as floats, unlike integers may be the same
            return bool(self.values.tolist() == other.values.tolist())
        return np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Names, (self._store, self.shown)  # without the caches

    def is_plain(self) -> bool:
        """Whether the names are text, integers or booleans."""
        return not isinstance(self._store, np.ndarray) or self._store.dtype.kind in "iub"

    def arrow(self) -> pa.Array:
        """Return the names as an Arrow array."""
        import pyarrow as pa

        if not isinstance(self._store, np.ndarray):
            return self._store
        if self._store.dtype != object:
            return arrow.from_numpy(self._store)
        column = values.as_arrow(self._store.tolist()) if len(self._store) else pa.nulls(0, pa.large_string())
        if column is None:
            examples = ", ".join(repr(name) for name in self._store[:3])
            raise TypeError(f"no Arrow type can hold the ids {examples}, …; use integers or text as ids")
        return column

    def take(self, index: npt.NDArray[Any]) -> Names:
        """Return the names at the given codes."""
        array = isinstance(self._store, np.ndarray)
        spellings = None if self.shown is None else arrow.take(self.shown, index)
        return Names(self._store[index] if array else arrow.take(self._store, index), spellings)

    def showing(self, shown: pa.Array | None) -> Names:
        """Return the names with what they stand for."""
        return Names(self._store, shown)

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
        quick = isinstance(wanted, np.ndarray) and wanted.dtype.kind in "biufU"
        items = np.asarray(wanted).tolist() if quick else values.plain_values(wanted, "a name")
        return np.fromiter((self._index.get(name, -1) for name in items), np.int64, len(items))

    def match(self, other: Names) -> npt.NDArray[np.int64]:
        """For each of `other`'s names its code here, -1 where there is none."""
        mine, theirs = self._store, other._store
        if isinstance(mine, np.ndarray) != isinstance(theirs, np.ndarray):
            return self.find(other.values)
        if not isinstance(mine, np.ndarray):
            import pyarrow.compute as pc

            return arrow.to_numpy(pc.index_in(theirs, value_set=mine).fill_null(-1)).astype(np.int64)
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


class Column:
    """A column on its way to codes: its Arrow form, or its objects where Arrow has no form for them.

    `what` names it in messages; `parse_integers` reads text as integers if every value is one in canonical
    form; `sound` states that Arrow data need not be looked at again.
    """

    def __init__(self, data: Any, what: str, *, parse_integers: bool = False, sound: bool = False) -> None:
        self.what = what
        self.parse_integers = parse_integers
        self.data = _canonical(data, what, sound)

    def __len__(self) -> int:
        return len(self.data)

    def missing(self) -> npt.NDArray[np.bool_] | None:
        """Which rows hold nothing: null, NaN or empty text; None where no row does."""
        mask: npt.NDArray[np.bool_] | None
        if isinstance(self.data, np.ndarray):
            mask = np.fromiter((values.is_missing(x) for x in self.data), np.bool_, len(self.data))
        else:
            mask = arrow.missing(self.data)
        return mask if mask is not None and mask.any() else None

    def filter(self, keep: npt.NDArray[np.bool_]) -> None:
        """Keep only the marked rows."""
        self.data = self.at(np.flatnonzero(keep)).data

    def at(self, rows: npt.NDArray[np.intp]) -> Column:
        """Return the rows at the given places, as often as they are given."""
        copied = copy.copy(self)
        copied.data = self.data[rows] if isinstance(self.data, np.ndarray) else arrow.take(self.data, rows)
        return copied

    def is_boolean(self) -> bool:
        """Whether every row is true or false."""
        import pyarrow as pa

        return not isinstance(self.data, np.ndarray) and pa.types.is_boolean(self.data.type)

    def encode(self) -> tuple[Codes, Names]:
        """Codes of the rows and their names, in sorted order; no row may be missing."""
        return _encode(self.data, self.what, self.parse_integers)

    def names(self) -> Names:
        """Return the rows themselves as names, in their order."""
        import pyarrow as pa

        data = self.data
        if isinstance(data, np.ndarray):
            return Names(values.tidy(data.tolist()))
        if pa.types.is_dictionary(data.type):
            data = data.dictionary_decode()
        if pa.types.is_large_string(data.type):
            return Names(data)
        if arrow.is_number(data.type):
            return Names(_numbers(data).copy())  # Arrow may have kept the caller's own array
        return Names(values.as_objects(_python_values(data, self.what)))


# ------------------------------------------------------------------------------------------------- into Arrow


def _canonical(data: Any, what: str, sound: bool) -> Any:
    """Turn a column into one Arrow array of a type that is supported, or an array of objects."""
    import pyarrow as pa

    column = data if isinstance(data, pa.Array | pa.ChunkedArray) else _convert(data, what)
    if isinstance(column, np.ndarray):
        return column
    if not sound:
        arrow.check_sound(column, what)
    if not arrow.is_supported(column.type):
        return _foreign_values(data, column, what)
    column = arrow.one_chunk(column)
    return arrow.plain_dictionary(column) if pa.types.is_dictionary(column.type) else arrow.plain_text(column)


def _foreign_values(data: Any, column: Any, what: str) -> npt.NDArray[np.object_]:
    """Return the Python values of a column that Arrow holds as bytes, UUIDs and the like."""
    import pyarrow as pa

    if data is column and pa.types.is_nested(column.type):
        kind, some = column.type, next((value for value in column.to_pylist() if value is not None), None)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            several = (
                f"; if each row has several labels, pass {argument('kind', 'multilabel')} and labels=…"
                if "label" in what
                else ""
            )
            raise TypeError(f"{what} holds lists, such as {str(some)[:60]}; each row needs a single value{several}")
        if isinstance(some, dict) and [*some] == [MIXED]:
            example = f"values of several types, or nested ones, such as {some[MIXED][:60]}"
            raise TypeError(f"{what} holds {example}; each row needs a single value, all of one type")
        raise TypeError(f"{what} holds Arrow {kind}; an id must be a single value, such as a number or text")
    return values.hashable(column.to_pylist() if data is column else data, what)


def _convert(data: Any, what: str) -> Any:
    """Turn the data into an Arrow array, or an array of objects where Arrow cannot hold them as they are."""
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise TypeError(f"{what} must be a column of ids, not a single {type(data).__name__}")
    shape = getattr(data, "shape", (0,))
    if len(shape) != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {tuple(shape)}")
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype):  # also a Series of pandas that is no more than an array
        return _from_numpy(data if isinstance(data, np.ndarray) else np.asarray(data), what)
    if hasattr(dtype, "categories") and type(data).__module__.startswith("pandas"):
        return _from_categories(data, what)
    pandas = type(data).__module__.startswith("pandas")
    if str(dtype) != "Object" and (pandas or any(hasattr(data, name) for name in _ARROW_METHODS)):
        return _from_typed(data, what)
    return _from_numpy(np.asarray(data), what) if hasattr(data, "__array__") else _from_values(data, what)


#: What a column of values of one type can be asked by Arrow. polars has a type "Object" for all else.
_ARROW_METHODS = ("__arrow_c_stream__", "__arrow_c_array__", "__arrow_array__")


def _from_typed(data: Any, what: str) -> Any:
    import pyarrow as pa

    try:
        return pa.chunked_array(data) if hasattr(data, "__arrow_c_stream__") else pa.array(data, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return values.hashable(data, what)


def _from_numpy(data: npt.NDArray[Any], what: str) -> Any:
    import pyarrow as pa

    kind, masked = data.dtype.kind, isinstance(data, np.ma.MaskedArray)
    if kind in "Mm":
        try:
            return pa.array(values.plain_times(data), from_pandas=True)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{what} cannot be ids: {error}; give them as text") from None
    if (kind in "biu" or (kind == "f" and data.dtype.itemsize <= 8)) and not masked:
        return arrow.from_numpy(data)
    # NumPy's text has no length of its own, and Arrow ends it at the first NUL.
    if kind in "biu" or (kind == "U" and not masked and not _has_inner_nul(data)):
        try:
            return pa.array(data.astype(data.dtype.newbyteorder("="), copy=False), from_pandas=True)
        except (pa.ArrowException, ValueError):  # surrogates
            pass
    return _from_values(data.tolist() if kind != "f" or masked else list(data), what)


def _has_inner_nul(text: npt.NDArray[Any]) -> bool:
    if not text.size or not text.dtype.itemsize:
        return False
    points = np.ascontiguousarray(text).view(np.uint32).reshape(len(text), -1) != 0
    return bool((points[:, 1:] > points[:, :-1]).any())


def _from_categories(data: Any, what: str) -> Any:
    """Turn categories of pandas into an Arrow dictionary, or into objects."""
    import pyarrow as pa

    categorical = getattr(data, "array", data)
    codes = np.asarray(categorical.codes)
    kinds = _canonical(categorical.categories, what, sound=True)
    if isinstance(kinds, np.ndarray):
        return values.as_objects([*kinds, None])[codes]  # -1, the last, is not a category
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), kinds)


def _from_values(data: Iterable[Any], what: str) -> Any:
    """Turn Python values into an Arrow array if all are of one type that it keeps exactly, else into objects."""
    import pyarrow as pa

    items = values.plain_values(data, what)
    kinds = set(map(type, items)) - {type(None)}
    if len(kinds) > 1 and not kinds <= {int, str, bool}:
        items = [None if values.is_missing(item) else item for item in items]  # NaN among text is not a float
        kinds = set(map(type, items)) - {type(None)}
    types = {str: pa.large_string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), None: pa.null()}
    kind = kinds.pop() if len(kinds) == 1 else None if not kinds else object
    if kind in types:
        try:
            return pa.array(items, types[kind], from_pandas=True)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):
            pass  # integers beyond 64 bits, lone surrogates
    return values.hashable(items, what)


# ------------------------------------------------------------------------------------------------- into codes


def _encode(column: Any, what: str, parse_integers: bool) -> tuple[Codes, Names]:
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return _encode_values(column.tolist())
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _encode_dictionary(column, what, parse_integers)
    if pa.types.is_large_string(kind):
        offsets, data = arrow.text_buffers(column)
        numbers = _core.canonical_integers(offsets, data) if parse_integers else None
        if numbers is not None:
            return _encode_numbers(numbers)
        codes, rows = _core.encode_strings(offsets, data)
        return codes, Names(arrow.take(column, rows))
    if arrow.is_number(kind):
        return _encode_numbers(_numbers(column))
    try:
        distinct = column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # small decimals
        return _encode_values(_python_values(column, what))
    codes, names = _encode_values(_python_values(distinct.dictionary, what))
    return codes[arrow.to_numpy(distinct.indices)], names


def _python_values(column: pa.Array, what: str) -> list[Any]:
    """Return times and decimals as Python's."""
    import pyarrow as pa

    try:
        items: list[Any] = column.to_pylist()
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise ValueError(
            f"{what} holds Arrow {column.type} that Python's times cannot express ({error}); give it as text"
        ) from None
    if pa.types.is_time(column.type) and len(set(items)) < len(column.unique()):
        raise ValueError(f"{what} holds times of nanoseconds, which Python has not; give them as text")
    return items


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """Numbers as int64, else float64 or uint64; booleans as they are."""
    import pyarrow as pa

    numbers = arrow.to_numpy(column)
    if pa.types.is_boolean(column.type):
        return numbers
    if pa.types.is_integer(column.type):
        fits = numbers.dtype != np.uint64 or not len(numbers) or numbers.max() < 2**63
        return numbers.astype(np.int64, copy=False) if fits else numbers
    numbers = numbers.astype(np.float64, copy=False) + 0.0  # -0.0 is not an id of its own
    if (np.abs(numbers) < 2**53).all():
        whole = numbers.astype(np.int64)
        if np.array_equal(whole, numbers):
            return whole  # an integer column with gaps reaches us as floats
    return numbers


def _encode_numbers(numbers: npt.NDArray[Any]) -> tuple[Codes, Names]:
    if numbers.dtype.kind in "ib":
        codes, names = _core.encode_integers(np.ascontiguousarray(numbers, np.int64))
        return codes, Names(names.astype(numbers.dtype, copy=False))
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return inverse.astype(np.uint32), Names(distinct)


def _encode_dictionary(column: pa.DictionaryArray, what: str, parse_integers: bool) -> tuple[Codes, Names]:
    """Encode the values that occur, and map the rows."""
    rows = arrow.to_numpy(column.indices)
    occurs = np.zeros(len(column.dictionary), np.bool_)
    occurs[rows] = True
    used = np.flatnonzero(occurs)
    codes, names = _encode(arrow.take(column.dictionary, used), what, parse_integers)
    lookup = np.zeros(len(occurs), np.uint32)
    lookup[used] = codes
    return lookup[rows], names


def _encode_values(items: list[Any]) -> tuple[Codes, Names]:
    codes, distinct = values.encode(items)
    return codes, Names(values.tidy(distinct))
