"""Reading logs from files: CSV (plain or compressed) and Parquet, one file, many, or a glob."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhands.annotations import Annotations
from manyhands.arrow import is_number, plain_text
from manyhands.building import Missing, Repeats, build, build_soft
from manyhands.errors import FileFormatError
from manyhands.frames import match_columns
from manyhands.names import Column

if TYPE_CHECKING:
    import pyarrow as pa

PathLike = str | os.PathLike[str]

_CSV = {".csv": ",", ".tsv": "\t", ".txt": ","}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_PARQUET = {".parquet", ".pq"}


def read(
    source: PathLike | Iterable[PathLike],
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    weight: str | None = None,
    confidence: str | None = None,
    probabilities: Iterable[str] | None = None,
    repeats: Repeats = "keep",
    missing: Missing = "drop",
    classes: Iterable[Any] | None = None,
    abstain: Any = None,
    delimiter: str | None = None,
) -> Annotations:
    """Read a log of annotations from files.

    Parameters
    ----------
    source
        A path, a glob such as ``"logs/*.parquet"``, or several of either. The ending says what a file is:
        ``.csv``, ``.tsv`` or ``.txt`` (also with ``.gz``, ``.bz2``, ``.zst``, ``.lz4``), ``.parquet`` or
        ``.pq``.
    task, worker, label, weight, confidence, repeats, missing, classes, abstain
        As for :meth:`Annotations.from_frame`.
    probabilities
        Columns of probabilities, one a class, in place of labels, as for :meth:`Annotations.from_soft`.
    delimiter
        What separates the fields of a CSV file; by default a comma, or a tab for ``.tsv``.

    Notes ----- Fields of a CSV file are read as text; a column becomes integers only if every value is one
    in plain form, so that ``007`` and ``7`` stay two ids. An empty field is missing; ``NA`` or ``null`` are
    names like any other.

    Where a column is text in one file and numbers in another, all of it is treated like the text of a CSV
    file.

    Only the needed columns are read. Time and memory are linear in the size of the file; the peak is about
    the text of three columns.
    """
    paths = _expand(source)
    soft = None if probabilities is None else [*probabilities]
    ids: dict[str, str | None] = {"task": task, "worker": worker}
    if soft is None:
        ids["label"] = label
        numbers = {role: name for role, name in (("weight", weight), ("confidence", confidence)) if name is not None}
    else:
        _refuse_beside_probabilities(label=label, weight=weight, confidence=confidence, classes=classes)
        numbers = {f"probability of {name!r}": name for name in soft}
    found = [_find_columns(path, ids | numbers, delimiter) for path in paths]
    files = [_read_one(path, names, [*numbers.values()], delimiter) for path, names in zip(paths, found, strict=True)]
    columns = []
    for role in ids:
        # Taking each column out keeps one copy of its text in memory, not two.
        data, parse = _joined(role, [file.pop(role) for file in files], paths)
        columns.append(Column(data, f"{role} column {found[0][role]!r}", parse_integers=parse))
    read = {
        role: (_joined(role, [file.pop(role) for file in files], paths)[0], f"{role} column {name!r}")
        for role, name in numbers.items()
    }
    if soft is not None:
        return Annotations(*build_soft(columns, [data for data, _ in read.values()], soft, abstain))
    parts = build(
        *columns,
        weights=read.get("weight"),
        confidence=read.get("confidence"),
        repeats=repeats,
        missing=missing,
        classes=classes,
        abstain=abstain,
    )
    return Annotations(*parts)


def _refuse_beside_probabilities(**others: Any) -> None:
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"{name}= means nothing beside probabilities=, which give each class a column")


def read_table(path: PathLike, columns: Iterable[str] | None = None, delimiter: str | None = None) -> pa.Table:
    """Read some columns of a CSV or Parquet file, CSV fields as text."""
    return _read_columns(Path(path), None if columns is None else list(columns), delimiter)


def write_table(table: pa.Table, path: PathLike) -> None:
    """Write an Arrow table as CSV or Parquet, by the ending of the path."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    target = Path(path)
    if _kind(target) == "parquet":
        pyarrow.parquet.write_table(table, target)
        return
    options = pyarrow.csv.WriteOptions(delimiter=_CSV[_bare_suffix(target)], quoting_style="needed")
    codec = _COMPRESSED.get(target.suffix.lower())
    name = os.fspath(target)
    with pa.CompressedOutputStream(name, codec) if codec else pa.OSFile(name, "wb") as sink:
        pyarrow.csv.write_csv(table, sink, options)


def _expand(source: PathLike | Iterable[PathLike]) -> list[Path]:
    items = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths: list[Path] = []
    for item in items:
        text = os.fspath(item)
        if Path(text).is_file():
            paths.append(Path(text))
        elif Path(text).is_dir():
            raise IsADirectoryError(f"{text!r} is a folder; name its files with a glob such as '{text}/*.parquet'")
        elif glob.has_magic(text):
            found = sorted(name for name in glob.glob(text, recursive=True) if Path(name).is_file())
            if not found:
                raise FileNotFoundError(f"no file matches {text!r}")
            paths.extend(map(Path, found))
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


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what Arrow says of a bad file into an error that names it."""
    import pyarrow as pa

    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise FileFormatError(
            f"cannot read {str(path)!r}: {reason} (is the file truncated, or not what its name says?)"
        ) from error


def _find_columns(path: Path, given: Mapping[str, str | None], delimiter: str | None) -> dict[str, str]:
    try:
        return match_columns(_column_names(path, delimiter), given)
    except KeyError as error:
        raise KeyError(f"{path}: {error.args[0]}") from None
    except ValueError as error:
        if isinstance(error, FileFormatError):
            raise
        raise ValueError(f"{path}: {error}") from None


def _column_names(path: Path, delimiter: str | None) -> list[str]:
    import pyarrow.csv
    import pyarrow.parquet

    parquet = _kind(path) == "parquet"
    with _reading(path):
        if parquet:
            return list(pyarrow.parquet.read_schema(path).names)
        with pyarrow.csv.open_csv(path, parse_options=_parse_options(path, delimiter)) as reader:
            return list(reader.schema.names)


def _parse_options(path: Path, delimiter: str | None) -> Any:
    import pyarrow.csv

    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()):
        raise ValueError(f"delimiter must be a single ASCII character, not {delimiter!r}")
    return pyarrow.csv.ParseOptions(delimiter=delimiter or _CSV[_bare_suffix(path)], newlines_in_values=True)


def _read_one(
    path: Path, names: Mapping[str, str], numbers: list[str], delimiter: str | None
) -> dict[str, pa.ChunkedArray]:
    """Read the column of each role."""
    table = _read_columns(path, list(names.values()), delimiter, numbers)
    return {role: table.column(name) for role, name in names.items()}


def _read_columns(
    path: Path, columns: list[str] | None, delimiter: str | None, numbers: Iterable[str] = ()
) -> pa.Table:
    """Read columns of a file; those of a CSV file are text, except `numbers`."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if _kind(path) == "parquet":
        with _reading(path):
            # Without partitioning, which would take folders called "task=7" for a column.
            return pyarrow.parquet.read_table(path, columns=columns, partitioning=None)
    wanted = columns if columns is not None else _column_names(path, delimiter)
    types = {name: pa.float64() if name in numbers else pa.large_string() for name in wanted}
    parse_options = _parse_options(path, delimiter)
    with _reading(path):
        return pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(block_size=1 << 22),
            parse_options=parse_options,
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=wanted, column_types=types, null_values=[""], strings_can_be_null=True
            ),
        )


def _joined(role: str, columns: list[pa.ChunkedArray], paths: list[Path]) -> tuple[pa.ChunkedArray, bool]:
    """Join a column's parts from several files; also tells whether its text may be read as integers."""
    import pyarrow as pa
    import pyarrow.types as types

    parse = all(_kind(path) == "csv" for path in paths)
    if len({column.type for column in columns}) > 1:
        columns = [plain_text(_decoded(column)) for column in columns]
        if any(types.is_large_string(column.type) for column in columns):
            numeric = [is_number(column.type) and not types.is_boolean(column.type) for column in columns]
            parse = parse or any(numeric)
            columns = [
                column.cast(pa.large_string()) if number or types.is_null(column.type) else column
                for column, number in zip(columns, numeric, strict=True)
            ]
    try:
        parts = [pa.table({role: column}) for column in columns]
        return pa.concat_tables(parts, promote_options="permissive").column(0), parse
    except pa.ArrowException:
        kinds = {column.type: path for column, path in zip(reversed(columns), reversed(paths), strict=True)}
        shown = ", ".join(f"{kind} in {str(path)!r}" for kind, path in kinds.items())
        raise TypeError(f"the {role} column has types that do not go together: {shown}; convert one") from None


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
