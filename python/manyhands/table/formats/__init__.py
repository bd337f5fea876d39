"""Exports of labelling platforms: which format a file is, and what was answered in it.

A platform is a module with a `READER`: its name, a function that recognizes a file, and one that yields the answers of
all files as `Answer`, what no table can hold as `Dropped`, and what can be read in several ways as `Ambiguous`.
Nothing of a file is executed, and what is read is bounded by the memory there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from manyhands.checks import check_choice, listed
from manyhands.table.columns import Chosen
from manyhands.table.conll import tags_in
from manyhands.table.formats import (
    argilla,
    coco,
    cvat,
    doccano,
    label_studio,
    phoenix,
    prodigy,
    sagemaker,
    sheets,
    webanno,
)
from manyhands.table.formats.documents import of_format
from manyhands.table.formats.export import Export
from manyhands.table.formats.files import ExportFile, Reader, distinct_names, export_files
from manyhands.table.formats.rows import exploded, frame_of, is_list
from manyhands.table.frames import WELL_KNOWN, known_among
from manyhands.table.sources import CONLL, Source
from manyhands.table.streams import read_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "Export", "opened"]

#: Every platform that is read, the most particular first: doccano's fields are the least telling.
READERS: tuple[Reader, ...] = (
    label_studio.READER,
    prodigy.READER,
    argilla.READER,
    phoenix.READER,
    sagemaker.READER,
    coco.READER,
    cvat.READER,
    webanno.READER,
    *sheets.READERS,
    doccano.READER,
)
FORMATS = ("auto", "csv", "parquet", "json", *(reader.name for reader in READERS), "conll")


def opened(
    sources: list[Source], asked: str, named: Chosen = None, *, worker_from_file: bool = False
) -> Export | pa.Table | None:
    """Read what is not a log with one answer per row: an export of a platform, or a table made of a document.

    Parameters
    ----------
    sources
        The files, all of one format.
    asked
        Their format, or ``"auto"``.
    named
        The columns of workers, if they were named: columns are then the caller's business, and no platform's.
    worker_from_file
        Whether each file of an export is one worker's, called by the file's name.

    Returns
    -------
    Export, Table or None
        None for CSV and Parquet files with one answer per row, which are read otherwise.
    """
    check_choice("format", asked, FORMATS)
    tagged = [source.path.suffix.lower() in CONLL for source in sources]
    if asked == "conll" or (asked == "auto" and all(tagged)):
        paths = [source.path for source in sources]
        return tags_in(dict(zip(distinct_names(paths), paths, strict=True)))
    files = export_files(sources, worker_from_file=worker_from_file)
    documents = [not file.is_table for file in files]
    if any(documents) and not all(documents):
        raise ValueError("the files are tables and documents; read them one kind at a time")
    if asked in ("csv", "parquet") or (files[0].is_table and named is not None and asked == "auto"):
        return _lists(sources, named)
    reader = _reader_of(files, asked)
    if reader is not None:
        name = listed([str(source.path) for source in sources])
        with of_format(reader.name, name):
            return Export.of(name, reader.answers(files), len(files))
    if files[0].is_table:
        return _lists(sources, named)
    rows = [row for file in files for row in file.rows]
    if not rows:
        raise ValueError(f"{files[0].where} holds no answers: it is empty")
    return exploded(frame_of(rows, files[0].where))


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
    found = [next((one for one in READERS if one.recognizes(file)), None) for file in files]
    names = dict.fromkeys("a plain table" if one is None else one.name for one in found)
    if len(names) > 1:
        raise ValueError(f"the files are of several formats ({', '.join(names)}); read them one format at a time")
    if found[0] is None and files[0].is_xml:
        raise ValueError(f"{files[0].where} is XML, but not an export of images from CVAT")
    return found[0]


def _lists(sources: list[Source], named: Chosen) -> pa.Table | None:
    """A table whose workers come in lists, several in a row, as one with a row for each; None for another table."""
    if sources[0].kind != "parquet":
        return None
    import pyarrow as pa
    import pyarrow.parquet

    with sources[0].open() as stream:
        schema = pyarrow.parquet.read_schema(stream)
    known = [named] if isinstance(named, str) else [*(named or known_among(schema.names, WELL_KNOWN["worker"]))]
    lists = [name for name in known if name in schema.names and is_list(schema.field(name).type)]
    if not lists:
        return None
    return exploded(pa.concat_tables([read_columns(source, schema.names) for source in sources]))
