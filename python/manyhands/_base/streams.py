"""Columns of CSV and Parquet files, by role, joined over several files."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands._base import arrow
from manyhands._base.columns import Columns, Wanted, joined_ids
from manyhands._base.frames import WELL_KNOWN, guesses_among, known_among, match_columns
from manyhands._base.names import Column
from manyhands._base.plain_csv import read_plain_csv
from manyhands._base.sources import Source, reading
from manyhands.errors import FileFormatError, MissingColumnError, argument

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a Parquet file that are read at a time, where they are.
_ROWS = 1 << 18
#: Roles of ids, which are encoded anyway.
_CODED = ("task", "worker", "label")
#: Most bytes per value of a column of codes and its dictionary.
_CODE_BYTES = 8
#: Rows that determine whether a column repeats itself.
_LOOKED_AT = 1 << 16


def read_roles(
    sources: list[Source],
    wanted: Wanted,
    *,
    numbers: Collection[str],
    raw: Collection[str] = (),
    as_text: bool = False,
    weak: bool = False,
    workers: Sequence[str] | None = None,
) -> Columns:
    """Read columns of files by role.

    Parameters
    ----------
    sources : list
        The files.
    wanted
        The columns, as `spread` lists them.
    numbers, raw : collection of str
        The roles that hold no ids.
    as_text : bool, default False
        Whether labels are names whatever they look like.
    weak : bool, default False
        Whether weak names of columns will do.
    workers : sequence of str or None, default None
        The worker whose file each is, in place of a column.
    """
    if workers is not None:
        wanted = {key: column for key, column in wanted.items() if key[0] != "worker"}
    columns_by_key = dict(wanted.values())
    names_by_source = [find_columns(one, columns_by_key, weak=weak) for one in sources]
    of_numbers = [what for (role, _), (what, _) in wanted.items() if role in numbers]
    files = [
        _read_roles(one, names, [names[what] for what in of_numbers])
        for one, names in zip(sources, names_by_source, strict=True)
    ]
    names = column_names(sources[0])
    columns = Columns(guesses=guesses_among(names_by_source[0], columns_by_key, names), all_names=names)
    ids: dict[str, list[Column]] = {}
    if workers is not None:
        counts = [len(next(iter(file.values()))) for file in files]
        ids["worker"] = [Column(np.repeat(np.array(workers, object), counts), "names of files")]
    for (role, _), (what, _) in wanted.items():
        columns.names.setdefault(role, []).append(names_by_source[0][what])
        # Taking each column out keeps one copy of its text in memory, not two.
        data, parse = _join(what, [file.pop(what) for file in files], sources)
        what_column = f"{role} column {names_by_source[0][what]!r}"
        if role in numbers or role in raw:
            columns.others.setdefault(role, []).append((data, what_column))
            continue
        if as_text and role == "label":
            data, parse = _decode(data).cast("large_string"), False
        ids.setdefault(role, []).append(Column(data, what_column, parse_integers=parse, sound=True))
    columns.ids = {role: joined_ids(role, parts) for role, parts in ids.items()}
    return columns


def find_columns(source: Source, given: Mapping[str, str | None], *, weak: bool = False) -> dict[str, str]:
    """Return the name of each role's column in a file, given or well known."""
    names = column_names(source)
    try:
        return match_columns(names, given, weak=weak)
    except MissingColumnError as error:
        wide = (
            f"; if each worker has a column, say {argument('layout', 'wide')}"
            if error.parameter == "worker" and not known_among(names, [given["worker"], *WELL_KNOWN["worker"]])
            else ""
        )
        raise MissingColumnError(f"{source.path}: {error}{source.hint(names)}{wide}", error.parameter) from None
    except ValueError as error:
        raise ValueError(f"{source.path}: {error}") from None


def column_names(source: Source) -> list[str]:
    """Return the names of a file's columns, which are read once."""
    if source.columns is None:
        source.columns = _column_names(source)
    return [*source.columns]


def _column_names(source: Source) -> list[str]:
    if source.kind == "parquet":
        with reading(source):
            return list(source.parquet.schema.to_arrow_schema().names)
    import pyarrow.csv

    with reading(source), source.open_kept() as stream:
        options = pyarrow.csv.ReadOptions(encoding=source.encoding, autogenerate_column_names=not source.layout.header)
        with pyarrow.csv.open_csv(stream, read_options=options, parse_options=_parse_options(source)) as reader:
            names = list(reader.schema.names)
    return names if source.layout.header else [str(place + 1) for place in range(len(names))]


def header_of(source: Source) -> list[str]:
    """Return the names of a file's columns, also where its rows are of other lengths; reading those names the line."""
    try:
        return column_names(source)
    except FileFormatError as error:
        if source.kind != "csv" or not source.layout.header:
            raise
        try:
            return next(csv_lines(source))
        except (StopIteration, OSError, UnicodeError, csv.Error):
            raise error from None


def csv_lines(source: Source) -> Iterator[list[str]]:
    """Yield the fields of every line of a CSV file, whatever their number, but for empty lines."""
    encoding = "utf-8-sig" if source.encoding == "utf-8" else source.encoding
    with source.open() as stream, io.TextIOWrapper(stream, encoding, newline="") as text:
        yield from filter(None, csv.reader(text, delimiter=source.delimiter))


def padded_rows(source: Source, optional: Collection[str]) -> list[dict[str, str | None]] | None:
    """Return the rows of a CSV file of which some lack the last columns, if these are optional; None if not."""
    header, *lines = csv_lines(source)
    if any(len(line) > len(header) or not set(header[len(line) :]) <= set(optional) for line in lines):
        return None
    return [dict(zip_longest(header, (field or None for field in line))) for line in lines]


def _parse_options(source: Source) -> Any:
    import pyarrow.csv

    return pyarrow.csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True)


def _read_roles(source: Source, names: Mapping[str, str], numbers: Iterable[str]) -> dict[str, pa.ChunkedArray]:
    """Read the column of each role, a batch of rows at a time; text that repeats itself is kept as codes."""
    import pyarrow as pa

    if source.kind == "csv" and {*names} <= {*_CODED}:
        with reading(source):
            plain = read_plain_csv(source, column_names(source), list(names.values()))
        if plain is not None:
            return {role: pa.chunked_array([column]) for role, column in zip(names, plain, strict=True)}
    parts: dict[str, list[Any]] = {role: [] for role in names}
    repetitive: dict[str, bool] = {}
    coded = [name for role, name in names.items() if role in _CODED]
    for batch in batches(source, list(names.values()), numbers, watched=True, coded=coded):
        for role, name in names.items():
            column = batch.column(name)
            if repetitive.setdefault(role, role in _CODED and _repeats_itself(column)):
                column = column.dictionary_encode()
            parts[role].append(column)
    if not repetitive:  # no rows, but types all the same
        table = read_columns(source, list(names.values()), numbers)
        return {role: table.column(name) for role, name in names.items()}
    return {role: pa.chunked_array(columns) for role, columns in parts.items()}


def _stored_as_codes(source: Source, columns: Iterable[str]) -> list[str]:
    """Return those of the columns of a Parquet file whose values are almost all stored as codes of a dictionary."""
    content, schema = source.parquet, source.parquet.schema.to_arrow_schema()
    groups = [content.row_group(group) for group in range(content.num_row_groups)]
    stored = []
    for name in columns:
        if not arrow.is_text(schema.field(name).type):
            continue
        places = [i for i in range(content.num_columns) if content.schema.column(i).path == name]
        parts = [group.column(place) for group in groups for place in places]
        coded = len(places) == 1 and all(part.has_dictionary_page for part in parts)
        # A dictionary that grew too large is followed by plain values, which take more room than codes.
        size = sum(part.total_uncompressed_size for part in parts)
        if coded and size <= _CODE_BYTES * sum(part.num_values for part in parts):
            stored.append(name)
    return stored


def _repeats_itself(column: pa.Array) -> bool:
    """Whether a column is text of which most rows repeat others."""
    import pyarrow as pa

    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    some = column.slice(0, _LOOKED_AT)
    return text and 2 * len(some.unique()) <= len(some)


def read_columns(source: Source, columns: list[str], numbers: Iterable[str] = ()) -> pa.Table:
    """Read columns of a file; those of a CSV file are text, except `numbers`. All text is valid."""
    if source.kind == "parquet":
        import pyarrow.parquet

        with reading(source), source.open() as stream:
            table = pyarrow.parquet.ParquetFile(stream).read(columns=columns)
        _check_text(source, table, columns)
        return table
    import pyarrow.csv

    options = _csv_options(source, columns, numbers)
    with reading(source), source.open_shared(watched=True) as stream:
        return pyarrow.csv.read_csv(stream, **options)


def batches(
    source: Source,
    columns: list[str],
    numbers: Iterable[str] = (),
    *,
    watched: bool = False,
    coded: Iterable[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield what `read_columns` reads, a batch of rows at a time.

    `watched` by the caller who keeps them, for memory; `coded` columns stay codes where a Parquet file stores them so.
    """
    if source.kind == "parquet":
        import pyarrow.parquet

        with reading(source), source.open() as stream:
            file = pyarrow.parquet.ParquetFile(stream, read_dictionary=_stored_as_codes(source, coded))
            for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
                _check_text(source, batch, columns)
                yield batch
        return
    import pyarrow.csv

    options = _csv_options(source, columns, numbers)
    with (
        reading(source),
        source.open_shared(watched=watched) as stream,
        pyarrow.csv.open_csv(stream, **options) as reader,
    ):
        yield from reader


def _csv_options(source: Source, columns: list[str], numbers: Iterable[str]) -> dict[str, Any]:
    """Options of Arrow to read some columns of a CSV file."""
    import pyarrow as pa
    import pyarrow.csv

    names = None if source.layout.header else column_names(source)
    types = {name: pa.float64() if name in numbers else pa.large_string() for name in columns}
    return {
        "read_options": pyarrow.csv.ReadOptions(block_size=1 << 22, encoding=source.encoding, column_names=names),
        "parse_options": _parse_options(source),
        "convert_options": pyarrow.csv.ConvertOptions(
            include_columns=columns, column_types=types, null_values=[""], strings_can_be_null=True
        ),
    }


def _check_text(source: Source, table: pa.Table | pa.RecordBatch, columns: list[str]) -> None:
    for name in columns:
        try:
            arrow.check_sound(table.column(name), f"column {name!r}")
        except ValueError as error:
            raise FileFormatError(f"cannot read {source}: {error}") from None


def _join(role: str, columns: list[pa.ChunkedArray], sources: list[Source]) -> tuple[pa.ChunkedArray, bool]:
    """Join a column's parts from several files; also returns whether its text may be read as integers."""
    import pyarrow as pa
    import pyarrow.types as types

    parse = all(source.kind == "csv" for source in sources)
    if len({column.type for column in columns}) > 1:
        columns = [arrow.plain_text(_decode(column)) for column in columns]
        if any(types.is_large_string(column.type) for column in columns):
            numeric = [arrow.is_number(column.type) and not types.is_boolean(column.type) for column in columns]
            parse = parse or any(numeric)
            columns = [
                column.cast(pa.large_string()) if number or types.is_null(column.type) else column
                for column, number in zip(columns, numeric, strict=True)
            ]
    try:
        _refuse_to_merge([column.type for column in columns])
        parts = [pa.table({role: column}) for column in columns]
        return pa.concat_tables(parts, promote_options="permissive").column(0), parse
    except pa.ArrowException:
        kinds = {column.type: one for column, one in zip(reversed(columns), reversed(sources), strict=True)}
        kinds_by_source = ", ".join(f"{kind} in {one}" for kind, one in kinds.items())
        raise TypeError(
            f"the {role} column has types that do not go together: {kinds_by_source}; convert one"
        ) from None


def _refuse_to_merge(kinds: Sequence[pa.DataType]) -> None:
    """Reject types that Arrow makes one though their values differ in Python: text and bytes, decimals and floats."""
    import pyarrow as pa
    import pyarrow.types as types

    texts = [types.is_large_string(kind) for kind in kinds]
    decimals, floats = any(map(types.is_decimal, kinds)), any(map(types.is_floating, kinds))
    if any(texts) != all(texts) or (decimals and floats):
        raise pa.ArrowTypeError("Unable to merge")


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
