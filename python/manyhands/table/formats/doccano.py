"""doccano: a line a document with its labels; who gave them is the name of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.table.formats.export import Answer, Dropped, one_or_set
from manyhands.table.formats.files import ExportFile, Reader
from manyhands.table.formats.spans import Document, Span, from_utf16, is_place

NAME = "doccano"


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSONL looks like such an export."""
    return any(
        isinstance(row, Mapping)
        and "id" in row
        and ("text" in row or "data" in row)
        and (isinstance(row.get("label"), list) or "entities" in row or isinstance(row.get("annotations"), list))
        and "answer" not in row
        for row in rows[:10]
    )


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield all answers of an export, one worker's per file unless annotations name their user."""
    for file in files:
        yield from _in_file(file)


def _in_file(file: ExportFile) -> Iterator[Answer]:
    """Yield all answers of a file, which belongs to one worker.

    Places of spans count units of UTF-16 (doccano's issue 2290). A document without a mark, among others with some, was
    read, and nothing was marked.
    """
    rows, worker = file.rows, file.worker
    marking = any(_is_marked(row) for row in rows if isinstance(row, Mapping))
    for row in rows:
        if not isinstance(row, Mapping) or "id" not in row:
            continue
        task = row["id"]
        if isinstance(row.get("annotations"), list):
            yield from _old(row, file)
            continue
        given = row.get("entities", row.get("label")) or []
        if _is_marked(row) or (marking and not given):
            yield _spans(row, worker, given)
        else:
            kind, said = one_or_set(given)
            yield Answer("label", kind, task, worker, said)


def _is_marked(row: Mapping[str, Any]) -> bool:
    """Whether the labels of a document are spans."""
    given = row.get("label")
    return "entities" in row or (isinstance(given, list) and bool(given) and all(map(_span, given)))


def _spans(row: Mapping[str, Any], worker: Any, given: list[Any]) -> Answer:
    text = row.get("text", row.get("data"))
    text = text if isinstance(text, str) else None
    place = from_utf16(text or "")
    said = [
        (place(start), place(end), label) if is_place(start) and is_place(end) else (start, end, label)
        for start, end, label in filter(None, map(_span, given))
    ]
    return Answer("spans", "sequences", row["id"], worker, said, document=Document(text))


def _span(one: Any) -> Span | None:
    if isinstance(one, Mapping) and "start_offset" in one:
        return one["start_offset"], one.get("end_offset"), one.get("label")
    return (one[0], one[1], one[2]) if isinstance(one, list) and len(one) == 3 else None


def _old(row: Mapping[str, Any], file: ExportFile) -> Iterator[Answer]:
    """Annotations as old versions wrote them: each with its user, if with anything."""
    by: dict[Any, list[Mapping[str, Any]]] = {}
    for one in row["annotations"]:
        if isinstance(one, Mapping):
            by.setdefault(file.annotator(one.get("user", file.worker)), []).append(one)
    for user, ones in by.items():
        if any("start_offset" in one for one in ones):
            yield _spans(row, user, ones)
        else:
            kind, said = one_or_set([one.get("label") for one in ones])
            yield Answer("label", kind, row["id"], user, said)


READER = Reader(
    NAME,
    "lines with 'id', 'text', and 'label', 'entities' or 'annotations'",
    lambda file: file.is_json and knows(file.rows),
    answers,
)
