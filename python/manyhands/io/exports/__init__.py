"""Exports of labeling platforms: which format a file is, and what was answered in it.

A platform is a module with a `READER`: its name, a function that recognizes a file, and one that yields the answers of
all files as `Answer`, what no table can hold as `Dropped`, and what can be read in several ways as `Ambiguous`.
Nothing of a file is executed, and what is read is bounded by the memory there is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from manyhands._base.checks import check_choice, plural, preview, warn_of_data
from manyhands._base.columns import Chosen
from manyhands._base.frames import WELL_KNOWN, known_among
from manyhands._base.sources import CONLL, Layout, PathLike, Source, sources_of
from manyhands._base.streams import column_names, read_columns
from manyhands.errors import FileFormatError, argument
from manyhands.io.exports import (
    arena,
    argilla,
    brat,
    coco,
    cvat,
    deepeval,
    doccano,
    inspect_ai,
    label_studio,
    label_studio_rows,
    labelbox,
    labelme,
    langfuse,
    lm_eval,
    mlflow,
    otel,
    phoenix,
    prodigy,
    promptfoo,
    sagemaker,
    sheets,
    via,
    webanno,
    webanno2,
    zooniverse,
)
from manyhands.io.exports.documents import naming, of_format
from manyhands.io.exports.export import Export
from manyhands.io.exports.files import ExportFile, Reader, distinct_names, export_files
from manyhands.io.exports.rows import (
    KEYED,
    WORKERS,
    column_of_workers,
    frame_of,
    is_list,
    one_row_per_worker,
    plain_rows,
)
from manyhands.io.exports.unsupported import reject_unsupported
from manyhands.sequences.conll import tags_in

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "Export", "open_export", "sources_to_read"]

#: Every platform that is read, the most specific first: doccano's field names are the least specific.
READERS: tuple[Reader, ...] = (
    label_studio.READER,
    label_studio_rows.READER,
    labelbox.READER,
    labelme.READER,
    via.READER,
    inspect_ai.READER,
    inspect_ai.ANSWERS_READER,
    lm_eval.READER,
    lm_eval.ANSWERS_READER,
    deepeval.READER,
    promptfoo.READER,
    mlflow.READER,
    langfuse.READER,
    otel.READER,
    *arena.READERS,
    zooniverse.READER,
    brat.READER,
    prodigy.READER,
    argilla.READER,
    phoenix.READER,
    sagemaker.READER,
    coco.READER,
    cvat.READER,
    webanno.READER,
    webanno2.READER,
    *sheets.READERS,
    doccano.READER,
)
FORMATS = ("auto", "csv", "parquet", "json", *(reader.name for reader in READERS), "conll")


def sources_to_read(source: PathLike | Iterable[PathLike], layout: Layout, asked: str = "auto") -> list[Source]:
    """Return the files that paths name; of folders and archives, those of one format.

    Parameters
    ----------
    source : path or sequence of path
        Paths, globs, folders, zip archives.
    layout : str
        Format of CSV files.
    asked : str, default "auto"
        The format that was asked for, or ``"auto"``.
    """
    check_choice("format", asked, FORMATS)
    sources = sources_of(source, layout, asked)
    # The text that a file of brat is about is read with it.
    marked = {one.path.with_suffix(".txt") for one in sources if one.path.suffix.lower() == brat.ENDING}
    sources = [one for one in sources if one.path not in marked]
    if len(sources) < 2 or not all(one.contained for one in sources):
        return sources
    by_format: dict[str, list[Source]] = {}
    for one, file in zip(sources, export_files(sources), strict=True):
        by_format.setdefault(_format_of(file), []).append(one)
    if asked != "auto":
        return by_format.get(asked, sources)
    exports = [name for name in by_format if name not in ("csv", "parquet", "json")]
    formats = exports or list(by_format)
    if len(formats) > 1:
        counts = ", ".join(f"{name} ({plural(len(by_format[name]), 'file')})" for name in formats)
        raise ValueError(
            f"{_container(source)} holds files of several formats: choose one with {argument('format')}; they "
            f"are {counts}"
        )
    left = sum(map(len, by_format.values())) - len(by_format[formats[0]])
    if left:
        warn_of_data(
            f"{_container(source)}: read {plural(len(by_format[formats[0]]), 'file')} of format {formats[0]}; "
            f"{plural(left, 'other file')} left out"
        )
    return by_format[formats[0]]


def _container(source: PathLike | Iterable[PathLike]) -> str:
    items = [source] if isinstance(source, str | os.PathLike) else list(source)
    return preview([os.fspath(item) for item in items])


def _format_of(file: ExportFile) -> str:
    """Name the format of a file of a folder or an archive."""
    if file.path.suffix.lower() in CONLL:
        return "conll"
    try:
        reader = next((one for one in READERS if one.recognizes(file)), None)
    except FileFormatError:
        if not file.is_table:
            raise
        reader = None  # a text that is not a table
    return reader.name if reader is not None else file.source.kind if file.is_table else "json"


def open_export(
    sources: list[Source],
    asked: str,
    named: Mapping[str, Chosen] | None = None,
    *,
    layout: str = "long",
    worker_from_file: bool = False,
) -> Export | pa.Table | None:
    """Read what is not a log with one answer per row: an export of a platform, or a table made of a document.

    Parameters
    ----------
    sources : list
        The files, all of one format.
    asked : str
        Their format, or ``"auto"``.
    named : mapping or None, default None
        Columns that the caller named, by role. Where they name the workers, a table is plain, and not a platform's.
    layout : str, default "long"
        How the keys of a JSON object of objects are read: ``"by-worker"`` or ``"by-task"``.
    worker_from_file : bool, default False
        Whether each file is one worker's, called by the file's name.

    Returns
    -------
    Export, Table or None
        None for CSV and Parquet files with one answer per row, which are read otherwise.
    """
    check_choice("format", asked, FORMATS)
    tagged = [source.path.suffix.lower() in CONLL for source in sources]
    if asked == "conll" or (asked == "auto" and all(tagged)):
        names = distinct_names([source.path for source in sources])
        return tags_in(dict(zip(names, sources, strict=True)))
    files = export_files(sources, worker_from_file=worker_from_file)
    documents = [not file.is_table for file in files]
    if any(documents) and not all(documents):
        table, document = files[documents.index(False)], files[documents.index(True)]
        raise ValueError(f"{table.where} is a table and {document.where} a document; read them one kind at a time")
    named = named or {}
    plain = asked in ("csv", "parquet") or (asked == "auto" and (named.get("worker") is not None or layout in KEYED))
    reader = None if plain and (files[0].is_table or layout in KEYED) else _reader_of(files, asked)
    if reader is not None:
        name = preview([str(source.path) for source in sources])
        with naming(name, *(str(source.path) for source in sources)), of_format(reader.name, name):
            return Export.of(name, reader.answers(files), 1 if reader.file_per_item else len(files), reader.sep)
    if layout in KEYED and worker_from_file:
        raise ValueError(
            f"{argument('layout', layout)} names the workers, and so does "
            f"{argument('worker_from_file', True)}; choose one"
        )
    if files[0].is_table:
        if layout in KEYED:
            raise ValueError(f"{argument('layout', layout)} is for JSON documents, and {files[0].where} is a table")
        return None if worker_from_file else _of_several_workers(sources, named)
    rows = [
        {**row, WELL_KNOWN["worker"][0]: file.worker} if worker_from_file else row
        for file in files
        for row in plain_rows(file.rows, file.where, layout)
    ]
    if not rows:
        raise ValueError(f"{files[0].where} holds no answers: it is empty")
    table = frame_of(rows)
    return table if worker_from_file else one_row_per_worker(table, files[0].where, named)


def _reader_of(files: Sequence[ExportFile], asked: str) -> Reader | None:
    """Return the reader of the format that was asked for, or the one that recognizes all files; None for plain rows."""
    if asked == "json":
        return None
    if asked != "auto":
        reader = next(one for one in READERS if one.name == asked)
        for file in files:
            if not reader.recognizes(file):
                raise ValueError(f"{file.where} is not of format {asked!r}: it needs {reader.expects}")
        return reader
    readers = [next((one for one in READERS if one.recognizes(file)), None) for file in files]
    for file, file_reader in zip(files, readers, strict=True):
        if file_reader is None:
            reject_unsupported(file)
    names = {"plain rows" if one is None else one.name: file.where for one, file in zip(readers, files, strict=True)}
    if len(names) > 1:
        listing = ", ".join(f"{where} is {name}" for name, where in names.items())
        raise ValueError(f"the files are of several formats ({listing}); read them one format at a time")
    if readers[0] is None and files[0].is_xml:
        raise ValueError(f"{files[0].where} is XML, but not an export of images from CVAT")
    return readers[0]


def _of_several_workers(sources: list[Source], named: Mapping[str, Chosen]) -> pa.Table | None:
    """Return a table with several workers in a row as one with a row for each; None for any other table."""
    import pyarrow as pa

    names = column_names(sources[0])
    column = column_of_workers(names, named.get("worker"))
    if column is None or not (_holds_lists(sources[0], column) or known_among([column], WORKERS)):
        return None
    table = pa.concat_tables([read_columns(source, names) for source in sources])
    apart = one_row_per_worker(table, str(sources[0]), named)
    return None if apart is table else apart


def _holds_lists(source: Source, column: str) -> bool:
    if source.kind != "parquet":
        return False
    return is_list(source.parquet.schema.to_arrow_schema().field(column).type)
