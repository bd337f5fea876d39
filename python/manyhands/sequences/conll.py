"""Reader for CoNLL files: one token per line, an empty line after each sequence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhands._base.sources import Source
from manyhands.errors import FileFormatError

if TYPE_CHECKING:
    import pyarrow as pa

_TAG = re.compile(r"[BILOUSEM]-.+|O")
#: Marks a missing tag in files with one column per worker.
_NO_TAG = "?"


def read_columns(source: Any) -> tuple[list[int], list[int], list[Any], list[str | None]]:
    """Return the sequence, position, worker and tag of each row; see `Sequences.from_conll`."""
    rows: tuple[list[int], list[int], list[Any], list[str | None]] = ([], [], [], [])
    if isinstance(source, Mapping):
        words_of: dict[int, tuple[list[str], Any]] = {}
        for worker, path in source.items():
            for place, lines in enumerate(_sequences(path)):
                words = [fields[0] for _, fields in lines]
                _compare(place, words, worker, *words_of.setdefault(place, (words, worker)))
                for position, (_, fields) in enumerate(lines):
                    _add(rows, place, position, worker, fields[-1])
    else:
        for place, lines in enumerate(_sequences(source)):
            workers = _workers_of(source, lines)
            for position, (_, fields) in enumerate(lines):
                for worker in workers:
                    tag = fields[worker + 1]
                    _add(rows, place, position, worker, None if tag == _NO_TAG else tag)
    if not rows[0]:
        raise ValueError("the file contains no tags: expected one token per line, the word first, then the tags")
    return rows


def _compare(place: int, words: list[str], worker: Any, other_words: list[str], other: Any) -> None:
    """Raise if two workers tagged different words."""
    if len(words) != len(other_words):
        raise ValueError(
            f"sequence {place} has {len(words)} tokens by worker {worker!r} but {len(other_words)} by worker "
            f"{other!r}: all files must use the same tokenization"
        )
    for position, (word, other_word) in enumerate(zip(words, other_words, strict=True)):
        if word != other_word:
            raise ValueError(
                f"token {position} of sequence {place} is {word!r} by worker {worker!r} but {other_word!r} by worker "
                f"{other!r}: all files must contain the same words in the same order"
            )


def tags_in(sources: Mapping[str, Source]) -> pa.Table:
    """Return one row per tag, from one file with a column per worker or from one file per worker."""
    import pyarrow as pa

    rows = read_columns(next(iter(sources.values())) if len(sources) == 1 else sources)
    return pa.table(dict(zip(("sequence", "position", "worker", "label"), rows, strict=True)))


def _workers_of(source: Any, lines: list[tuple[int, list[str]]]) -> list[int]:
    """Workers with at least one tag in a sequence whose lines have one column per worker."""
    width = len(lines[0][1])
    for number, fields in lines:
        if len(fields) != width:
            raise ValueError(f"{source}: line {number} has {len(fields)} columns, expected {width}")
    return [worker for worker in range(width - 1) if any(fields[worker + 1] != _NO_TAG for _, fields in lines)]


def _add(rows: Iterable[list[Any]], *row: Any) -> None:
    for column, value in zip(rows, row, strict=True):
        column.append(value)


def _sequences(source: str | os.PathLike[str] | Source) -> Iterator[list[tuple[int, list[str]]]]:
    """Yield the lines of each sequence as (line number, fields)."""
    lines: list[tuple[int, list[str]]] = []
    try:
        path, data = (source.path, source.content()) if isinstance(source, Source) else (Path(source), None)
        content = (path.read_bytes() if data is None else data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not UTF-8 text: invalid byte at offset {error.start}") from None
    text_lines = content.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    tags = {line.split()[-1] for line in text_lines if line.strip() and not line.startswith("# ")}
    for number, line in enumerate(text_lines, 1):
        fields = line.split("\t") if "\t" in line else line.split()
        if not line.strip():
            if lines:
                yield lines
            lines = []
        elif not (line.startswith("-DOCSTART-") or (line.startswith("# ") and not _is_token(fields, lines, tags))):
            if len(fields) < 2:
                raise ValueError(f"{path}: line {number} has no tag after {fields[0]!r}")
            lines.append((number, fields))
    if lines:
        yield lines


def _is_token(fields: list[str], before: list[tuple[int, list[str]]], tags: set[str]) -> bool:
    """Return whether a line that starts with ``#`` is a token: as wide as the previous line, or first and tagged."""
    if before:
        return len(fields) == len(before[-1][1])
    return fields[-1] in tags or _TAG.fullmatch(fields[-1]) is not None
