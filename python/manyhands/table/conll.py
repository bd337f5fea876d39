"""Tags in columns of text files: a token a line, an empty line after each sequence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhands.errors import FileFormatError

if TYPE_CHECKING:
    import pyarrow as pa

#: What stands for no tag where each worker has a column.
_UNSAID = "?"


def read_columns(source: Any) -> tuple[list[int], list[int], list[Any], list[str | None]]:
    """Return sequence, position, worker and tag of each row; see `Sequences.from_conll`."""
    rows: tuple[list[int], list[int], list[Any], list[str | None]] = ([], [], [], [])
    if isinstance(source, Mapping):
        lengths: dict[int, tuple[int, Any]] = {}
        for worker, path in source.items():
            for place, lines in enumerate(_sequences(path)):
                seen = lengths.setdefault(place, (len(lines), worker))
                if seen[0] != len(lines):
                    raise ValueError(
                        f"sequence {place} has {len(lines)} tokens by worker {worker!r} and {seen[0]} by worker "
                        f"{seen[1]!r}: the files are cut into tokens in different ways"
                    )
                for position, (_, fields) in enumerate(lines):
                    _add(rows, place, position, worker, fields[-1])
    else:
        for place, lines in enumerate(_sequences(source)):
            said = _workers_of(source, lines)
            for position, (_, fields) in enumerate(lines):
                for worker in said:
                    tag = fields[worker + 1]
                    _add(rows, place, position, worker, None if tag == _UNSAID else tag)
    if not rows[0]:
        raise ValueError("there is no tag in the file: it needs a token a line, its word first and then tags")
    return rows


def tags_in(paths: Sequence[Path]) -> pa.Table:
    """Return a row for each tag: those of one file with a column a worker, or of several with a file a worker."""
    import pyarrow as pa

    by_name = {path.stem: path for path in paths}
    if len(by_name) < len(paths):
        raise ValueError("a file of tags is one worker's, and called by their name; several of these have the same")
    rows = read_columns(paths[0] if len(paths) == 1 else by_name)
    return pa.table(dict(zip(("sequence", "position", "worker", "label"), rows, strict=True)))


def _workers_of(source: Any, lines: list[tuple[int, list[str]]]) -> list[int]:
    """Who tagged anything in a sequence whose lines have a column for each worker."""
    width = len(lines[0][1])
    for number, fields in lines:
        if len(fields) != width:
            raise ValueError(f"{source}: line {number} has {len(fields)} columns, not {width}")
    return [worker for worker in range(width - 1) if any(fields[worker + 1] != _UNSAID for _, fields in lines)]


def _add(rows: Iterable[list[Any]], *row: Any) -> None:
    for column, value in zip(rows, row, strict=True):
        column.append(value)


def _sequences(path: str | os.PathLike[str]) -> Iterator[list[tuple[int, list[str]]]]:
    """The lines of each sequence, with their numbers, cut into fields."""
    lines: list[tuple[int, list[str]]] = []
    try:
        content = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not text in UTF-8: byte {error.start} is none of it") from None
    with StringIO(content) as file:
        for number, line in enumerate(file, 1):
            text = line.rstrip("\n")
            if not text.strip():
                if lines:
                    yield lines
                lines = []
            elif not text.startswith(("-DOCSTART-", "# ")):
                fields = text.split("\t") if "\t" in text else text.split()
                if len(fields) < 2:
                    raise ValueError(f"{path}: line {number} has no tag beside {fields[0]!r}")
                lines.append((number, fields))
    if lines:
        yield lines
