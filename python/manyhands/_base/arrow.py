"""Arrow arrays: between them and NumPy, their text, and whether what strangers hand over is sound.

PyArrow's own ``array`` and ``to_numpy`` import pandas wherever it is installed, and ``is_null`` and ``take`` import
``pyarrow.compute``: either costs a short command more than all of its work. The conversions here do without, for short
columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa


# ------------------------------------------------------------------------------------------------------- types


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of numbers or booleans."""
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of text."""
    import pyarrow.types as types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_supported(kind: pa.DataType) -> bool:
    """Whether ids of an Arrow type are encoded as they are; others become Python values first."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return is_supported(kind.value_type)
    if is_text(kind) or is_number(kind) or types.is_decimal(kind) or types.is_null(kind):
        return True
    return bool(types.is_temporal(kind) and not types.is_interval(kind))


# ------------------------------------------------------------------------------------------ to and from NumPy


def from_numpy(values: npt.NDArray[Any]) -> pa.Array:
    """Return numbers or booleans as an Arrow array, which keeps the memory of numbers."""
    import pyarrow as pa

    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return pa.Array.from_buffers(pa.from_numpy_dtype(native.dtype), len(native), [None, pa.py_buffer(native)])


def table(columns: dict[str, Any]) -> pa.Table:
    """Return a table of columns that are Arrow's or arrays of numbers or booleans."""
    import pyarrow as pa

    return pa.table({name: from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in columns.items()})


def to_numpy(column: Any) -> npt.NDArray[Any]:
    """Return an Arrow column of numbers or booleans without nulls; numbers in one chunk without a copy."""
    import pyarrow as pa

    column = one_chunk(column)
    data, start, n = column.buffers()[1], column.offset, len(column)
    if pa.types.is_boolean(column.type):
        bits = np.frombuffer(data, np.uint8) if n else np.zeros(0, np.uint8)
        return np.unpackbits(bits, count=start + n, bitorder="little")[start:].astype(np.bool_)
    dtype = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(data, dtype, n, start * dtype.itemsize) if n else np.zeros(0, dtype)


def lists(n: int, rows: npt.NDArray[np.int64], values: Any) -> Any:
    """Return a column of `n` lists, of values with the row of each, which must not fall."""
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    return pa.LargeListArray.from_arrays(from_numpy(offsets), one_chunk(values))


def flat(frame: Any) -> Any:
    """A table for a file of text: lists become their items with bars between them, as sets of labels are read."""
    import pyarrow as pa

    for place, field in enumerate(frame.schema):
        if pa.types.is_list(field.type) or pa.types.is_large_list(field.type):
            texts = [None if one is None else "|".join(map(str, one)) for one in frame.column(place).to_pylist()]
            frame = frame.set_column(place, field.name, [pa.array(texts, pa.large_string())])
    return frame


#: Most rows of text that are taken without Arrow.
_FEW = 1 << 16


def take(column: Any, index: npt.NDArray[Any]) -> Any:
    """Return the rows of an Arrow array or table at some places."""
    import pyarrow as pa

    if len(index) > _FEW or not isinstance(column, pa.LargeStringArray) or column.null_count:
        return column.take(from_numpy(index))
    offsets, data = text_buffers(column)
    starts, lengths = offsets[:-1][index], np.diff(offsets)[index]
    ends = np.cumsum(lengths)
    places = np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths)
    buffers = [None, pa.py_buffer(np.concatenate([[0], ends]).astype(np.int64)), pa.py_buffer(data[places])]
    return pa.Array.from_buffers(pa.large_string(), len(index), buffers)


def nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Mark the rows of an Arrow array that are null."""
    bits = column.buffers()[0]
    if bits is None or not column.null_count:
        return np.full(len(column), column.null_count > 0)  # all of them, or none
    start, n = column.offset, len(column)
    valid = np.unpackbits(np.frombuffer(bits, np.uint8), count=start + n, bitorder="little")[start:]
    return ~valid.astype(np.bool_)


# ------------------------------------------------------------------------------------------------------ chunks


def one_chunk(column: Any) -> pa.Array:
    """Join the chunks of a column."""
    import pyarrow as pa

    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type) and (stacked := _stack(column.chunks)) is not None:
        return stacked
    if pa.types.is_dictionary(column.type):
        wide = pa.dictionary(pa.int32(), pa.large_string())
        chunks = [plain_dictionary(chunk, pa.int32()) for chunk in column.chunks]
        column = pa.chunked_array(chunks, chunks[0].type if chunks else wide).unify_dictionaries()
    else:
        column = plain_text(column)  # before joining: 32 bits may not address the text of all chunks
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _stack(chunks: list[pa.DictionaryArray]) -> pa.DictionaryArray | None:
    """Join dictionaries of text, one after the other without looking for equal values; None where that cannot be."""
    import pyarrow as pa

    if not chunks or not is_text(chunks[0].type.value_type) or any(chunk.null_count for chunk in chunks):
        return None
    unique_values: list[pa.Array] = []
    size = 0
    indices = np.empty(sum(map(len, chunks)), np.int32)
    row = 0
    for chunk in chunks:
        # Batches of one row group often share its dictionary.
        if not unique_values or not chunk.dictionary.equals(unique_values[-1]):
            size += len(chunk.dictionary)
            unique_values.append(chunk.dictionary)
            if size > np.iinfo(np.int32).max:
                return None
        first = size - len(unique_values[-1])
        # In 32 bits: indices of 8 would wrap around without a word.
        np.add(to_numpy(chunk.indices), first, out=indices[row : row + len(chunk)], dtype=np.int32, casting="unsafe")
        row += len(chunk)
    return pa.DictionaryArray.from_arrays(from_numpy(indices), pa.concat_arrays([*map(plain_text, unique_values)]))


def plain_text(column: Any) -> Any:
    """Make text `large_string`; leave anything else as it is."""
    import pyarrow as pa

    short = is_text(column.type) and not pa.types.is_large_string(column.type)
    return column.cast(pa.large_string()) if short else column


def plain_dictionary(column: pa.DictionaryArray, index: pa.DataType | None = None) -> pa.DictionaryArray:
    """Make the text of a dictionary `large_string`; joined chunks may need wider indices than each has."""
    import pyarrow as pa

    indices = column.indices if index is None else column.indices.cast(index)
    return pa.DictionaryArray.from_arrays(indices, plain_text(column.dictionary))


# -------------------------------------------------------------------------------------------- text and nothing


def offsets_of(column: pa.LargeStringArray) -> npt.NDArray[np.int64]:
    """Where each text begins, and where the last one ends."""
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column) + 1, np.int64)
    return np.frombuffer(buffer, np.int64, len(column) + 1, column.offset * 8)


def text_buffers(column: pa.LargeStringArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets and bytes of Arrow text, without a copy; the first offset need not be 0."""
    buffer = column.buffers()[2]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.zeros(0, np.uint8)
    return offsets_of(column), data


def missing(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which rows are null, NaN or empty text; None where Arrow shows at once that no row is."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        bad = missing(column.dictionary)
        if column.indices.null_count == 0 and bad is None:
            return None
        absent = nulls(column.indices)
        # In NumPy: a scalar of Arrow's, to fill nulls with, would import pandas where it is installed.
        codes = np.where(absent, 0, to_numpy(column.indices))
        return absent if bad is None or not len(bad) else absent | bad[codes]
    masks = []
    if column.null_count:
        masks.append(nulls(column))
    if pa.types.is_floating(column.type):
        masks.append(np.isnan(to_numpy(column)))
    elif pa.types.is_large_string(column.type):
        offsets = offsets_of(column)
        masks.append(offsets[1:] == offsets[:-1])
    return np.logical_or.reduce(masks) if masks else None


# ----------------------------------------------------------------------------------------------------- soundness


def check_sound(column: Any, what: str) -> None:
    """Raise for Arrow data that is invalid for its type: damaged, or text that is not valid UTF-8.

    Arrow does not check its buffers, so invalid text would only fail where it is printed or saved.
    """
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        if "UTF8" not in reason:  # only then are its buffers safe to look at
            raise ValueError(f"{what} is damaged Arrow data: {reason}") from None
        where, bad = _not_text(column)
        raise ValueError(
            f"{what} holds text that is not valid UTF-8 {where} ({bad[:20]!r}); decode it with the encoding that "
            "it was written in"
        ) from None


def _not_text(column: Any) -> tuple[str, bytes]:
    """Find the first text that is not valid: where it is, and its bytes."""
    import pyarrow as pa

    start = 0
    for chunk in [column] if isinstance(column, pa.Array) else column.chunks:
        shared = pa.types.is_dictionary(chunk.type)
        values = plain_text(chunk.dictionary if shared else chunk)
        for place, raw in enumerate(values.view(pa.large_binary()).to_pylist()):
            if not _decodes(raw):
                rows = chunk.indices.to_pylist() if shared else range(len(chunk))
                return f"at row {start + rows.index(place)}" if place in rows else "in its dictionary", raw
        start += len(chunk)
    return "somewhere", b""


def _decodes(raw: bytes | None) -> bool:
    try:
        return raw is None or raw.decode() is not None
    except UnicodeDecodeError:
        return False
