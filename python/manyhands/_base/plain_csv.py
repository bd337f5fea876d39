"""Plain CSV files, read by the compiled core: from bytes to codes, without a text per row.

A column comes as an Arrow dictionary. Whatever is not plain (a ragged line, a quote within a field, bytes that are not
UTF-8) is left to Arrow's reader, which accepts or reports it.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands import _core
from manyhands._base import arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands._base.sources import Source

#: Bytes that are read at a time: they stay in the processor's cache until they are parsed.
_BLOCK = 1 << 23


def read_plain_csv(source: Source, names: Sequence[str], columns: Sequence[str]) -> list[pa.DictionaryArray] | None:
    """Read columns of a CSV file as text; None if the file is not plain.

    Parameters
    ----------
    source
        The file.
    names : sequence of str
        All its columns.
    columns : sequence of str
        Those to read.
    """
    unique_columns = list(dict.fromkeys(columns))
    if source.encoding != "utf-8" or len(names) < 2 or any(names.count(name) > 1 for name in unique_columns):
        return None
    places = [names.index(name) for name in unique_columns]
    reader = _core.CsvReader(ord(source.delimiter), len(names), places, source.layout.header)
    if not all(_read_blocks(source, reader)):
        return None
    data_by_name = dict(zip(unique_columns, map(_dictionary, reader.finish()), strict=True))
    return [data_by_name[name] for name in columns]


def _read_blocks(source: Source, reader: _core.CsvReader) -> Iterator[bool]:
    """Read a file block by block, the next one meanwhile; yields whether each is plain."""
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    with source.open_watched() as stream, ThreadPoolExecutor(1) as ahead:
        block = stream.read(_BLOCK).removeprefix(codecs.BOM_UTF8)
        if block[:1] in (b"\n", b"\r"):  # before the header
            yield False
            return
        while block:
            coming = ahead.submit(stream.read, _BLOCK)
            used = reader.read(np.frombuffer(block, np.uint8), False)
            yield used is not None
            following = coming.result()
            if not following:
                yield reader.read(np.frombuffer(block[used:], np.uint8), True) is not None
                return
            # A row longer than all that was read is read again with more.
            block = block[used:] + following


def _dictionary(column: tuple[Any, Any, Any]) -> pa.DictionaryArray:
    import pyarrow as pa

    codes, offsets, data = column
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    return pa.DictionaryArray.from_arrays(arrow.from_numpy(codes.view(np.int32)), texts)
