"""Tags in columns of text files: a token a line, an empty line after each sequence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

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
            for position, (number, fields) in enumerate(lines):
                if len(fields) != len(lines[0][1]):
                    raise ValueError(f"{source}: line {number} has {len(fields)} columns, not {len(lines[0][1])}")
                for worker, tag in enumerate(fields[1:]):
                    if tag != _UNSAID or any(other[worker + 1] != _UNSAID for _, other in lines):
                        _add(rows, place, position, worker, None if tag == _UNSAID else tag)
    if not rows[0]:
        raise ValueError("there is no tag in the file: it needs a token a line, its word first and then tags")
    return rows


def _add(rows: Iterable[list[Any]], *row: Any) -> None:
    for column, value in zip(rows, row, strict=True):
        column.append(value)


def _sequences(path: str | os.PathLike[str]) -> Iterator[list[tuple[int, list[str]]]]:
    """The lines of each sequence, with their numbers, cut into fields."""
    lines: list[tuple[int, list[str]]] = []
    with Path(path).open(encoding="utf-8-sig") as file:
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
