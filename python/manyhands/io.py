"""Reading logs from files: CSV (plain or compressed) and Parquet, one file, many, or a glob."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhands.annotations import Annotations, Missing, Repeats, _weights
from manyhands.errors import FileFormatError
from manyhands.frames import match_columns
from manyhands.names import Column

if TYPE_CHECKING:
    import pyarrow as pa

PathLike = str | os.PathLike[str]

_CSV = {".csv": ",", ".tsv": "\t", ".txt": ","}
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
_PARQUET = {".parquet", ".pq"}


def read(
    source: PathLike | Iterable[PathLike],
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    repeats: Repeats = "keep",
    missing: Missing = "drop",
    classes: Iterable[Any] | None = None,
    delimiter: str | None = None,
) -> Annotations:
    """Read a log of annotations from files.

    Parameters
    ----------
    source
        A path, a glob such as ``"logs/*.parquet"``, or several of either. The ending says what a file is: ``.csv``,
        ``.tsv`` (also ``.gz``, ``.bz2``, ``.zst``, ``.lz4``), ``.parquet`` or ``.pq``.
    task, worker, label, weight, repeats, missing, classes
        As for :meth:`Annotations.from_frame`.
    delimiter
        What separates the fields of a CSV file; by default a comma, or a tab for ``.tsv``.

    Notes
    -----
    Fields of a CSV file are read as text; a column becomes integers only if every value is one in plain form, so that
    ``007`` and ``7`` stay two ids. An empty field is missing; ``NA`` or ``null`` are names like any other.

    Only the needed columns are read. Time and memory are linear in the size of the file; the peak is about the text of
    three columns.
    """
    paths = _expand(source)
    given = {"task": task, "worker": worker, "label": label}
    tables = [_read_one(path, given, weight, delimiter) for path in paths]
    import pyarrow as pa

    whole = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
    del tables
    parts = []
    for role in ("task", "worker", "label"):
        # Dropping each column as it is taken keeps one copy of the text in memory, not two.
        parts.append(Column(whole.column(role), f"{role} column"))
        whole = whole.drop_columns([role])
    return Annotations._build(
        *parts,
        None if weight is None else _weights(whole.column("weight"), f"weight column '{weight}'"),
        repeats=repeats,
        missing=missing,
        classes=classes,
        parse_integers=all(_kind(path) == "csv" for path in paths),
    )


def read_table(path: PathLike, columns: Iterable[str] | None = None, delimiter: str | None = None) -> pa.Table:
    """Read some columns of a CSV or Parquet file, CSV fields as text."""
    return _guarded(Path(path), None if columns is None else list(columns), delimiter)


def write_table(table: pa.Table, path: PathLike) -> None:
    """Write an Arrow table as CSV or Parquet, by the ending of the path."""
    import pyarrow.csv
    import pyarrow.parquet

    kind = _kind(Path(path))
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        options = pyarrow.csv.WriteOptions(
            delimiter=_CSV[_bare_suffix(Path(path))], quoting_style="needed"
        )
        with _open_for_writing(Path(path)) as sink:
            pyarrow.csv.write_csv(table, sink, options)


def _open_for_writing(path: Path) -> Any:
    import pyarrow as pa

    compression = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}.get(path.suffix)
    return pa.CompressedOutputStream(str(path), compression) if compression else pa.OSFile(str(path), "wb")


def _expand(source: PathLike | Iterable[PathLike]) -> list[Path]:
    items = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths: list[Path] = []
    for item in items:
        text = os.fspath(item)
        if Path(text).is_file():
            paths.append(Path(text))
        elif glob.has_magic(text):
            found = sorted(glob.glob(text, recursive=True))
            if not found:
                raise FileNotFoundError(f"no file matches {text!r}")
            paths.extend(Path(f) for f in found)
        elif Path(text).is_dir():
            raise IsADirectoryError(f"{text!r} is a folder; name its files with a glob such as '{text}/*.parquet'")
        else:
            raise FileNotFoundError(f"there is no file {text!r}")
    if not paths:
        raise FileNotFoundError("no file was named")
    return paths


def _bare_suffix(path: Path) -> str:
    suffixes = [s.lower() for s in path.suffixes]
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] in _COMPRESSED else (suffixes or [""])[-1]


def _kind(path: Path) -> str:
    suffix = _bare_suffix(path)
    if suffix in _CSV:
        return "csv"
    if suffix in _PARQUET:
        return "parquet"
    known = ", ".join(sorted([*_CSV, *_PARQUET]))
    raise ValueError(f"cannot tell what kind of file {str(path)!r} is; its name should end in one of {known}")


def _read_one(
    path: Path, given: dict[str, str | None], weight: str | None, delimiter: str | None
) -> pa.Table:
    names = _column_names(path, delimiter)
    try:
        found = match_columns(names, given)
        if weight is not None:
            found |= {"weight": match_columns(names, {"weight": weight})["weight"]}
    except KeyError as error:
        raise KeyError(f"{path}: {error.args[0]}") from None
    if len(set(found.values())) < len(found):
        raise ValueError(f"{path}: each of task, worker and label needs a column of its own, not {found}")
    table = _guarded(path, list(found.values()), delimiter, weight)
    return table.select(list(found.values())).rename_columns(list(found))


def _column_names(path: Path, delimiter: str | None) -> list[str]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if _kind(path) == "parquet":
            return list(pyarrow.parquet.read_schema(path).names)
        with pyarrow.csv.open_csv(path, parse_options=_parse_options(path, delimiter)) as reader:
            return list(reader.schema.names)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _parse_options(path: Path, delimiter: str | None) -> Any:
    import pyarrow.csv

    return pyarrow.csv.ParseOptions(delimiter=delimiter or _CSV[_bare_suffix(path)], newlines_in_values=True)


def _guarded(
    path: Path, columns: list[str] | None, delimiter: str | None, number: str | None = None
) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if _kind(path) == "parquet":
            return pyarrow.parquet.read_table(path, columns=columns)
        wanted = columns if columns is not None else _column_names(path, delimiter)
        types = {name: pa.float64() if name == number else pa.large_string() for name in wanted}
        return pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(block_size=1 << 22),
            parse_options=_parse_options(path, delimiter),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=wanted, column_types=types, null_values=[""], strings_can_be_null=True
            ),
        )
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> Exception:
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return error
    reason = str(error).splitlines()[0]
    return FileFormatError(f"cannot read {str(path)!r}: {reason} (is the file truncated, or not what its name says?)")
