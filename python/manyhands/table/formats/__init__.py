"""Exports of labelling platforms: which format a file is, and what was answered in it.

A format is a module with a `NAME`, `knows`, which tells it from others, and `answers`, which yields `Answer` objects.
Nothing of a file is executed, and what is read is bounded by the memory there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from manyhands.checks import check_choice, listed
from manyhands.table.columns import Chosen
from manyhands.table.conll import tags_in
from manyhands.table.formats import argilla, coco, cvat, doccano, label_studio, phoenix, prodigy, sagemaker, webanno
from manyhands.table.formats.documents import json_or_lines, of_format, text_of, xml_root
from manyhands.table.formats.export import Answer, Export, settled_kinds
from manyhands.table.formats.rows import exploded, frame_of, is_list
from manyhands.table.formats.sheets import SHEETS
from manyhands.table.frames import WELL_KNOWN, known_among
from manyhands.table.sources import CONLL, Source
from manyhands.table.streams import column_names, read_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "Export", "opened"]

#: Formats of objects; doccano is the least particular and comes last.
_OF_OBJECTS = (label_studio, prodigy, argilla, phoenix, sagemaker, coco, doccano)
#: Of which a file is one worker's, whose name it has.
_BY_FILE = ("doccano", "coco", "cvat", "webanno")
FORMATS = (
    "auto",
    "csv",
    "parquet",
    "json",
    *(one.NAME for one in _OF_OBJECTS),
    *(sheet.name for sheet in SHEETS),
    cvat.NAME,
    webanno.NAME,
    "conll",
)


def sheet_of(names: Sequence[str], asked: str) -> Any | None:
    """Return the platform whose table has such columns; None where it is a plain log."""
    for sheet in SHEETS:
        if asked == sheet.name:
            missing = [name for name in sheet.telling if name not in names]
            if missing:
                raise ValueError(f"the file is not of format {asked!r}: it has no column {listed(missing)}")
            return sheet
        if asked == "auto" and sheet.knows(names):
            return sheet
    return None


def opened(sources: list[Source], asked: str, named: Chosen = None) -> Export | pa.Table | None:
    """Read what is not a log with one answer a row: an export of a platform, or a table made of a document.

    Parameters
    ----------
    sources
        The files, all of one format.
    asked
        Their format, or ``"auto"``.
    named
        The columns of workers, if they were named: columns are then the caller's business, and no platform's.

    Returns
    -------
    Export, Table or None
        None for CSV and Parquet files with an answer a row, which are read otherwise.
    """
    check_choice("format", asked, FORMATS)
    tagged = [source.path.suffix.lower() in CONLL for source in sources]
    if asked == "conll" or (asked == "auto" and all(tagged)):
        return tags_in([source.path for source in sources])
    documents = [source.kind == "document" for source in sources]
    if any(documents):
        if not all(documents):
            raise ValueError("the files are tables and documents; read them one kind at a time")
        return _read_documents(sources, asked)
    if asked in ("csv", "parquet"):
        return None
    names = column_names(sources[0])
    sheet = sheet_of(names, asked) if named is None else None
    if sheet is not None:
        rows = [row for source in sources for row in read_columns(source, names).to_pylist()]
        return _export(sources, sheet.answers(names, rows, str(sources[0])))
    if argilla.flat_questions(dict.fromkeys(names)) and (asked == argilla.NAME or named is None):
        rows = [row for source in sources for row in read_columns(source, names).to_pylist()]
        return _export(sources, argilla.answers(rows, str(sources[0])))
    if asked != "auto":
        raise ValueError(f"{sources[0]} is not of format {asked!r}: its columns are others")
    return _lists(sources, named)


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


def _export(sources: list[Source], answers: Iterable[Answer]) -> Export:
    return Export(listed([str(source.path) for source in sources]), settled_kinds(answers))


def _read_documents(sources: list[Source], asked: str) -> Export | pa.Table:
    """Read documents of one format."""
    found: list[Answer] = []
    plain: list[Any] = []
    for source in sources:
        path, where = source.path, str(source)
        text = text_of(path, source.content())
        if asked == webanno.NAME or webanno.knows(text):
            with of_format(webanno.NAME, where):
                found += webanno.answers(text, where, path.parent.name or path.stem, path.stem)
        elif asked == cvat.NAME or text.lstrip().startswith("<"):
            root = xml_root(text, where)
            if not cvat.knows(root):
                raise ValueError(f"{where} is XML, but not an export of images from CVAT")
            with of_format(cvat.NAME, where):
                found += cvat.answers(root, where, path.stem)
        else:
            rows = json_or_lines(text, where)
            one = _format_of(rows, asked, where)
            if one is None:
                plain += rows
            else:
                more = (path.stem,) if one.NAME in _BY_FILE else ()
                with of_format(one.NAME, where):
                    found += one.answers(rows, where, *more)
    if plain and found:
        raise ValueError("the files are of several formats; read them one format at a time")
    return exploded(frame_of(plain, str(sources[0]))) if plain else _export(sources, found)


def _format_of(rows: list[Any], asked: str, where: str) -> Any | None:
    """Return the format of objects that was asked for, or that knows them; None for plain rows."""
    if asked == "json":
        return None
    for one in _OF_OBJECTS:
        knows = one.knows(rows)
        if asked == one.NAME and not knows:
            raise ValueError(f"{where} is not of format {asked!r}: its fields are others")
        if knows and asked in ("auto", one.NAME):
            return one
    if asked != "auto":
        raise ValueError(f"{where} is a document, not of format {asked!r}")
    return None
