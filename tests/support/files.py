"""What tests of saved files share."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import manyhands as mh
from manyhands._base.sources import one_source
from manyhands._base.streams import column_names, read_columns


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Return columns of a CSV or Parquet file, fields of a CSV file as text."""
    source = one_source(path)
    return read_columns(source, columns or column_names(source))


def try_load(path: Path, content: bytes) -> object:
    """What the file holds, or None where it is refused; any other exception is the test's failure."""
    path.write_bytes(content)
    try:
        return mh.load(path)
    except mh.errors.FileFormatError:
        return None


VOTES = mh.Annotations.from_arrays(
    ["a", "a", "b", "c", "c"], [3, 1, 1, 2, 3], ["x", "y", "y", "x", "x"], [1.0, 0.5, 2.0, 1.0, 0.0]
)
