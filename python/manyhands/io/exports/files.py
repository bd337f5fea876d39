"""The files of an export: opened once, parsed when a reader asks, and named apart from one another."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from manyhands._base.archives import ARCHIVE
from manyhands._base.sources import Source
from manyhands._base.streams import header_of, read_columns
from manyhands.errors import FileFormatError
from manyhands.io.exports.documents import json_or_lines, text_of, xml_root
from manyhands.io.exports.export import UNKNOWN, Answer, Dropped, Part


class ExportFile:
    """One file of an export.

    Parameters
    ----------
    source
        The file.
    name : str
        What distinguishes it from the other files of the export: its stem, or the part of its path that differs.
    alone : bool, default True
        Whether it is the only file.
    worker_from_file : bool, default False
        Whether the file is one worker's, whatever annotators it names.
    """

    def __init__(self, source: Source, name: str, *, alone: bool = True, worker_from_file: bool = False) -> None:
        self.source = source
        self.path = source.path
        self.where = str(source)
        #: The worker whose file this is, where a file is one worker's.
        self.worker = name
        self._alone = alone
        self.worker_from_file = worker_from_file

    @property
    def is_table(self) -> bool:
        """Whether the file is a CSV or Parquet table."""
        return self.source.kind != "document"

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns of a table; none for a document."""
        return header_of(self.source) if self.is_table else []

    def distinct_columns(self) -> list[str]:
        """Return the names of the columns of a table, which must differ for its rows to be dictionaries."""
        twice = next((name for place, name in enumerate(self.columns) if name in self.columns[:place]), None)
        if twice is not None:
            raise FileFormatError(f"{self.where} has several columns called {twice!r}; rename them, or keep one")
        return self.columns

    @cached_property
    def text(self) -> str:
        """The document as text."""
        return text_of(self.path, self.source.content())

    @property
    def is_xml(self) -> bool:
        """Whether the document is XML, by its first character."""
        return not self.is_table and self.text.lstrip().startswith("<")

    @property
    def is_json(self) -> bool:
        """Whether the document is JSON or JSONL, by its first character."""
        return not self.is_table and self.text.lstrip()[:1] in ("{", "[")

    @cached_property
    def xml(self) -> Any:
        """Root element of an XML document."""
        return xml_root(self.text, self.where)

    @cached_property
    def rows(self) -> list[Any]:
        """Values of a JSON or JSONL document, or rows of a table as dictionaries."""
        if self.is_table:
            rows: list[Any] = read_columns(self.source, self.distinct_columns()).to_pylist()
            return rows
        return json_or_lines(self.text, self.where)

    def annotator(self, name: Any) -> Any:
        """Return the worker of an answer: the name the file gives, the file's own if asked for, or `UNKNOWN`."""
        if self.worker_from_file:
            return self.worker
        return UNKNOWN if name is None or name == "" else name

    def numbered(self, number: int) -> Any:
        """Return an id for a task that has none: its number, with the file's name if there are several files."""
        return number if self._alone else f"{self.worker}#{number}"


class Contents:
    """What tasks are about, to notice one id that stands for two of them, as in exports of two projects."""

    def __init__(self) -> None:
        self._seen: dict[Any, tuple[str, ExportFile]] = {}

    def check(self, task: Any, content: Any, file: ExportFile) -> None:
        """Raise if the task is about something else elsewhere; signatures of addresses do not count."""
        key = json.dumps(without_signatures(content), sort_keys=True, default=str)
        first_key, other = self._seen.setdefault(task, (key, file))
        if first_key != key:
            places = file.where if other is file else f"{other.where} and {file.where}"
            raise FileFormatError(
                f"task {task!r} has two contents in {places}: {_shorten(first_key)} and {_shorten(key)}; read exports "
                "of different projects one at a time"
            )


def without_signatures(content: Any) -> Any:
    """Content without the parts of addresses that differ from export to export."""
    if isinstance(content, Mapping):
        return {str(name): without_signatures(value) for name, value in content.items()}
    if isinstance(content, list):
        return [without_signatures(value) for value in content]
    if isinstance(content, str) and re.match(r"\w+://|/", content):
        return content.partition("?")[0]
    return content


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


#: What INCEpTION and WebAnno call the files that no annotator wrote: the document as it was, and what curators decided.
_INITIAL, _CURATED = "INITIAL_CAS", "CURATION_USER"


def with_curation(answer: Answer) -> Part:
    """Return an answer of INCEpTION as gold if it is the curators', or as dropped if the document came with it."""
    if answer.worker == _CURATED:
        return replace(answer, source="gold")
    if answer.worker == _INITIAL:
        return Dropped(f"initial annotations of documents ({_INITIAL})", len(answer.said), answer.question)
    return answer


@dataclass(frozen=True)
class Reader:
    """How exports of one platform are recognized and read."""

    name: str
    #: What a file of the platform has, for messages: "columns HITId and WorkerId".
    expects: str
    recognizes: Callable[[ExportFile], bool]
    #: Yields every answer of all files, counts of what no table can hold, and what can be read in several ways.
    answers: Callable[[Sequence[ExportFile]], Iterator[Part]]
    #: Whether a file is about one item, so that a worker has several files.
    file_per_item: bool = False
    #: What separates several labels in one text.
    sep: str | None = None


def export_files(sources: Sequence[Source], *, worker_from_file: bool = False) -> list[ExportFile]:
    """Return the files of an export, with names that distinguishes them."""
    names = distinct_names([source.path for source in sources])
    alone = len(sources) == 1
    return [
        ExportFile(source, name, alone=alone, worker_from_file=worker_from_file)
        for source, name in zip(sources, names, strict=True)
    ]


def parts_of(path: Path) -> tuple[str, ...]:
    """Return the names along a path, that of the file first and without its ending, as those of archives."""
    whole = path.resolve()
    return (whole.stem, *(part.removesuffix(ARCHIVE) for part in whole.parts[-2:0:-1]))


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Name files by their stems, or by the parts of their paths that differ where stems are equal.

    ``ann/annotations.xml`` and ``bob/annotations.xml`` are ``ann`` and ``bob``.
    """
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    whole = [path.resolve() for path in paths]
    if len(set(whole)) < len(whole):
        twice = next(path for place, path in enumerate(whole) if path in whole[:place])
        raise ValueError(f"{str(twice)!r} is named twice; name each file once")
    parts = [parts_of(path)[::-1] for path in whole]
    least = min(map(len, parts))
    equal = {place for place in range(1, least + 1) if len({part[-place] for part in parts}) == 1}
    shared = 0
    while shared < least and len({part[shared] for part in parts}) == 1:
        shared += 1
    names = [
        "/".join(part[place] for place in range(shared, len(part)) if len(part) - place not in equal) for part in parts
    ]
    if all(names) and len(set(names)) == len(names):
        return names
    names = ["/".join(part[shared:]) for part in parts]
    if all(names) and len(set(names)) == len(names):
        return names
    return ["/".join(path.parts[shared + 1 :]) for path in whole]


def rows_of(files: Sequence[ExportFile]) -> Iterator[tuple[ExportFile, int, Any]]:
    """Yield the rows of all files, each with its file and its number there, counted from 1."""
    for file in files:
        for number, row in enumerate(file.rows, 1):
            yield file, number, row
