"""Reading logs from files: CSV (plain or compressed) and Parquet, one file, many, a glob, or stdin."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from manyhands.checks import listed
from manyhands.errors import FileFormatError
from manyhands.table import arrow
from manyhands.table.annotations import Annotations
from manyhands.table.building import Missing, Repeats, build, build_soft
from manyhands.table.columns import Columns, spread
from manyhands.table.frames import match_columns
from manyhands.table.kinds import table_of
from manyhands.table.names import Column
from manyhands.table.order import Array, as_numbers, ranks, without_ranks
from manyhands.table.records import Records
from manyhands.table.sources import (
    COMPRESSED,
    CSV,
    Layout,
    PathLike,
    Source,
    bare_suffix,
    enough_memory,
    expand,
    kind_of,
    reading,
)

if TYPE_CHECKING:
    import pyarrow as pa


@overload
def read(
    source: PathLike | Iterable[PathLike],
    *,
    kind: Literal["classes"] = ...,
    task: str | None = ...,
    worker: str | None = ...,
    label: str | None = ...,
    weight: str | None = ...,
    confidence: str | None = ...,
    probabilities: Iterable[str] | None = ...,
    repeats: Repeats = ...,
    missing: Missing = ...,
    classes: Iterable[Any] | None = ...,
    abstain: Any = ...,
    labels_as_text: bool = ...,
    delimiter: str | None = ...,
    encoding: str | None = ...,
    header: bool = ...,
) -> Annotations: ...
@overload
def read(source: PathLike | Iterable[PathLike], *, kind: str, **settings: Any) -> Any: ...
def read(
    source: PathLike | Iterable[PathLike],
    *,
    kind: str = "classes",
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
    labels_as_text: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    **others: Any,
) -> Any:
    """Read a log of annotations from files.

    Parameters
    ----------
    source
        A path, a glob such as ``"logs/*.parquet"``, or several of either. The ending says what a file is:
        ``.csv``, ``.tsv`` or ``.txt`` (also with ``.gz``, ``.bz2``, ``.zst``, ``.lz4``), ``.parquet`` or
        ``.pq``. ``"-"`` is the standard input; it and pipes tell by their content what they are.
    kind
        What the answers are: ``"classes"``, or ``"numbers"`` for :class:`~manyhands.Ratings`, ….
    task, worker, label, weight, confidence, repeats, missing, classes, abstain
        As for :meth:`Annotations.from_frame`; other kinds take those that their own ``from_frame`` has.
    probabilities
        Columns of probabilities, one a class, in place of labels, as for :meth:`Annotations.from_soft`.
    labels_as_text
        Whether labels are names, whatever they look like: ``2`` and ``2.50`` stay text. Otherwise a column of numbers
        with fractions is refused, since scores are no classes.
    delimiter
        What separates the fields of a CSV file. By default a comma, or a tab for ``.tsv``; a first line without any
        shows whether it is a semicolon, a tab or a bar.
    encoding
        The encoding of CSV files, such as ``"latin-1"``. By default UTF-8, or UTF-16 if its byte order mark is there.
    header
        Whether the first line of a CSV file names the columns. Otherwise they are called ``"1"``, ``"2"`` and so on.
    **others
        What the ``from_frame`` of another kind takes besides, such as ``value=`` for numbers.

    Returns
    -------
    Annotations
        The table, or that of the kind that was asked for.

    Notes
    -----
    Fields of a CSV file are read as text; a column becomes integers only if every value is one in plain form, so that
    ``007`` and ``7`` stay two ids. An empty field is missing; ``NA`` or ``null`` are names like any other.

    Where a column is text in one file and numbers in another, all of it is treated like the text of a CSV file.

    Only the needed columns are read. Time and memory are linear in the size of the file; the peak is about the text of
    three columns, and beside it all of what comes from a pipe.
    """
    layout = Layout(delimiter, encoding, header)
    paths = expand(source)
    if kind != "classes":
        alone = {"confidence": confidence, "probabilities": probabilities, "labels_as_text": labels_as_text or None}
        chosen = {
            "task": task,
            "worker": worker,
            "label": label,
            "weight": weight,
            "classes": classes,
            "abstain": abstain,
        }
        defaults = {"repeats": repeats, "missing": missing}
        return _read_kind(table_of(kind), [Source(path, layout) for path in paths], alone | chosen | others, defaults)
    if others:
        raise TypeError(f"read() of classes takes no {next(iter(others))}=; is the log of another kind? (kind=…)")
    soft = None if probabilities is None else [*probabilities]
    ids: dict[str, str | None] = {"task": task, "worker": worker}
    if soft is None:
        ids["label"] = label
        numbers = {role: name for role, name in (("weight", weight), ("confidence", confidence)) if name is not None}
    else:
        _refuse_beside_probabilities(label=label, weight=weight, confidence=confidence, classes=classes)
        numbers = {f"probability of {name!r}": name for name in soft}
    with enough_memory(listed([str(path) for path in paths])):
        columns, read = _read_files([Source(path, layout) for path in paths], ids, numbers, labels_as_text)
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


def _read_kind(
    table: type[Records], sources: list[Source], given: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Records:
    """Read a table of any kind; `given` are columns by role and settings, None where nothing was asked."""
    known = (*table._roles, *table._options, *table._settings)
    asked = {name: value for name, value in given.items() if value is not None}
    for name in asked:
        if name not in known:
            raise TypeError(f"{name}= means nothing to a log of {table._kind}, which takes {', '.join(known)}")
    settings = {name: value for name, value in defaults.items() if name in table._settings}
    settings |= {name: asked.pop(name) for name in table._settings if name in asked}
    wanted = spread(
        {role: asked.get(role) for role in table._roles if role in asked or role not in table._options} | asked
    )
    others = {role: role in table._numbers for role in table._numbers | table._raw}
    with enough_memory(listed([str(one.path) for one in sources])):
        found = [_find_columns(one, dict(wanted.values())) for one in sources]
        numbers = [what for (role, _), (what, _) in wanted.items() if others.get(role)]
        files = [
            _read_roles(one, names, [names[what] for what in numbers])
            for one, names in zip(sources, found, strict=True)
        ]
        columns = Columns()
        for (role, _), (what, _) in wanted.items():
            data, parse = _joined(what, [file.pop(what) for file in files], sources)
            called = f"{role} column {found[0][what]!r}"
            if role in others:
                columns.others.setdefault(role, []).append((data, called))
            else:
                columns.ids[role] = Column(data, called, parse_integers=parse, sound=True)
        made: Records = table._of_columns(columns, **settings)
    return made


def read_in_order(
    source: PathLike | Iterable[PathLike], order: str, *, layout: Layout, labels_as_text: bool = False, **settings: Any
) -> tuple[Annotations, Array]:
    """Read a log with a column that says when annotations were made: numbers, dates or times, also as text.

    Parameters
    ----------
    source
        As in :func:`read`.
    order
        The column.
    layout
        How CSV files are written.
    labels_as_text
        As in :func:`read`.
    **settings
        Columns of ids, and ``repeats``, ``missing`` and ``abstain``, as in :func:`read`.

    Returns
    -------
    votes : Annotations
        The log.
    when : ndarray of shape (n_annotations,)
        Ranks in that order, equal for equal times, aligned with ``votes.to_frame()``.
    """
    ids = {role: settings.pop(role) for role in ("task", "worker", "label")} | {"order": order}
    sources = [Source(path, layout) for path in expand(source)]
    with enough_memory(listed([str(one.path) for one in sources])):
        (*columns, when), _ = _read_files(sources, ids, {}, labels_as_text)
        moments = ranks(as_numbers(when.data, when.what))
        parts = build(*columns, weights=(moments, when.what), confidence=None, classes=None, **settings)
    return without_ranks(Annotations(*parts))


def _read_files(
    sources: list[Source], ids: Mapping[str, str | None], numbers: Mapping[str, str], labels_as_text: bool
) -> tuple[list[Column], dict[str, tuple[Any, str]]]:
    """Read the columns of ids, and those of numbers with what messages call them."""
    found = [_find_columns(one, {**ids, **numbers}) for one in sources]
    files = [_read_roles(one, names, numbers.values()) for one, names in zip(sources, found, strict=True)]
    columns = []
    for role in ids:
        # Taking each column out keeps one copy of its text in memory, not two.
        data, parse = _joined(role, [file.pop(role) for file in files], sources)
        if labels_as_text and role == "label":
            data, parse = _decoded(data).cast("large_string"), False
        columns.append(Column(data, f"{role} column {found[0][role]!r}", parse_integers=parse, sound=True))
    return columns, {
        role: (_joined(role, [file.pop(role) for file in files], sources)[0], f"{role} column {name!r}")
        for role, name in numbers.items()
    }


def _refuse_beside_probabilities(**others: Any) -> None:
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"{name}= means nothing beside probabilities=, which give each class a column")


def read_table(path: PathLike, columns: Iterable[str] | None = None, delimiter: str | None = None) -> pa.Table:
    """Read some columns of a CSV or Parquet file, CSV fields as text."""
    source = Source(path, Layout(delimiter))
    return read_columns(source, column_names(source) if columns is None else list(columns))


def write_table(table: pa.Table, path: PathLike) -> None:
    """Write an Arrow table as CSV or Parquet, by the ending of the path."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    target = Path(path)
    if kind_of(target) == "parquet":
        pyarrow.parquet.write_table(table, target)
        return
    options = pyarrow.csv.WriteOptions(delimiter=CSV[bare_suffix(target)], quoting_style="needed")
    codec = COMPRESSED.get(target.suffix.lower())
    name = os.fspath(target)
    with pa.CompressedOutputStream(name, codec) if codec else pa.OSFile(name, "wb") as sink:
        pyarrow.csv.write_csv(table, sink, options)


# ------------------------------------------------------------------------------------------------------- columns


def _find_columns(source: Source, given: Mapping[str, str | None]) -> dict[str, str]:
    names = column_names(source)
    try:
        return match_columns(names, given)
    except KeyError as error:
        raise KeyError(f"{source.path}: {error.args[0]}{source.hint(names)}") from None
    except ValueError as error:
        raise ValueError(f"{source.path}: {error}") from None


def column_names(source: Source) -> list[str]:
    """Return the names of a file's columns."""
    with reading(source), source.open() as stream:
        if source.kind == "parquet":
            import pyarrow.parquet

            return list(pyarrow.parquet.read_schema(stream).names)
        import pyarrow.csv

        options = pyarrow.csv.ReadOptions(encoding=source.encoding, autogenerate_column_names=not source.layout.header)
        with pyarrow.csv.open_csv(stream, read_options=options, parse_options=_parse_options(source)) as reader:
            names = list(reader.schema.names)
    return names if source.layout.header else [str(place + 1) for place in range(len(names))]


def _parse_options(source: Source) -> Any:
    import pyarrow.csv

    return pyarrow.csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True)


def _read_roles(source: Source, names: Mapping[str, str], numbers: Iterable[str]) -> dict[str, pa.ChunkedArray]:
    """Read the column of each role."""
    table = read_columns(source, list(names.values()), numbers)
    return {role: table.column(name) for role, name in names.items()}


def read_columns(source: Source, columns: list[str], numbers: Iterable[str] = ()) -> pa.Table:
    """Read columns of a file; those of a CSV file are text, except `numbers`. All text is valid."""
    import pyarrow as pa

    if source.kind == "parquet":
        import pyarrow.parquet

        with reading(source), source.open() as stream:
            table = pyarrow.parquet.ParquetFile(stream).read(columns=columns)
        _check_text(source, table, columns)
        return table
    import pyarrow.csv

    names = None if source.layout.header else column_names(source)
    types = {name: pa.float64() if name in numbers else pa.large_string() for name in columns}
    with reading(source), source.open_watched() as stream:
        return pyarrow.csv.read_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(block_size=1 << 22, encoding=source.encoding, column_names=names),
            parse_options=_parse_options(source),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=columns, column_types=types, null_values=[""], strings_can_be_null=True
            ),
        )


def _check_text(source: Source, table: pa.Table, columns: list[str]) -> None:
    for name in columns:
        try:
            arrow.check_sound(table.column(name), f"column {name!r}")
        except ValueError as error:
            raise FileFormatError(f"cannot read {source}: {error}") from None


def _joined(role: str, columns: list[pa.ChunkedArray], sources: list[Source]) -> tuple[pa.ChunkedArray, bool]:
    """Join a column's parts from several files; also tells whether its text may be read as integers."""
    import pyarrow as pa
    import pyarrow.types as types

    parse = all(source.kind == "csv" for source in sources)
    if len({column.type for column in columns}) > 1:
        columns = [arrow.plain_text(_decoded(column)) for column in columns]
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
        shown = ", ".join(f"{kind} in {one}" for kind, one in kinds.items())
        raise TypeError(f"the {role} column has types that do not go together: {shown}; convert one") from None


def _refuse_to_merge(kinds: Sequence[pa.DataType]) -> None:
    """Refuse types that Arrow makes one though their values differ in Python: text and bytes, decimals and floats."""
    import pyarrow as pa
    import pyarrow.types as types

    texts = [types.is_large_string(kind) for kind in kinds]
    decimals, floats = any(map(types.is_decimal, kinds)), any(map(types.is_floating, kinds))
    if any(texts) != all(texts) or (decimals and floats):
        raise pa.ArrowTypeError("Unable to merge")


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
