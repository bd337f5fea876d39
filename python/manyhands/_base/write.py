"""Write Arrow tables to CSV or Parquet files, atomically."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhands._base import arrow
from manyhands._base.atomic import atomic_write
from manyhands._base.formulas import escape_formulas
from manyhands._base.sources import COMPRESSED, CSV, PathLike, bare_suffix, kind_of

if TYPE_CHECKING:
    import pyarrow as pa


def write_table(table: pa.Table, path: PathLike) -> None:
    """Write an Arrow table to a CSV or Parquet file, by its ending; the file appears when it is whole."""
    write_frames([table], path)


def write_frames(frames: Iterable[pa.Table], path: PathLike) -> None:
    """Write tables of the same columns, one after the other, to a CSV or Parquet file that appears when it is whole."""
    frames = (
        iter(frames) if kind_of(Path(path)) == "parquet" else (escape_formulas(arrow.flat(frame)) for frame in frames)
    )
    first = next(frames)
    with atomic_write(path) as part, _writer(part, first.schema) as writer:
        for frame in chain([first], frames):
            writer.write_table(frame)


@contextmanager
def _writer(target: Path, schema: pa.Schema) -> Iterator[Any]:
    """Something with ``write_table`` for a CSV or Parquet file, by the ending of its path."""
    import pyarrow as pa

    if kind_of(target) == "parquet":
        import pyarrow.parquet

        with target.open("wb") as file, pyarrow.parquet.ParquetWriter(file, schema) as writer:
            yield writer
        return
    import pyarrow.csv

    options = pyarrow.csv.WriteOptions(delimiter=CSV[bare_suffix(target)], quoting_style="needed")
    codec = COMPRESSED.get(target.suffix.lower())
    with (
        target.open("wb") as file,  # Arrow itself would reject a name that is not UTF-8
        pa.CompressedOutputStream(file, codec) if codec else pa.PythonFile(file, "w") as sink,
        pyarrow.csv.CSVWriter(sink, schema, write_options=options) as writer,
    ):
        yield writer
