"""doccano: one document per line with its labels; the annotator is the name of the file, unless users are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Dropped, Item, Part, one_or_set
from manyhands.io.exports.files import Contents, ExportFile, Reader
from manyhands.io.exports.spans import Document, Span, from_utf16, is_place

NAME = "doccano"
#: Where the content of a document is, and where its labels are, in the versions and kinds of projects.
_CONTENT = ("text", "data", "filename")
_LABELS = ("label", "labels", "entities", "cats", "annotations", "bbox", "segments")
_OTHERS = ("id", "meta", "metadata", "relations", "comments", "annotation_approver", "upload_name")
#: What fields of other logs begin with: doccano names no worker in a line.
_WORKERS = ("annotator", "worker", "rater", "judge", "labeler", "performer", "user", "coder", "created_by")
#: Columns of its tables, of old versions and of new ones.
_TABLES = (("annotation_approver", "id", "label", "user"), ("id", "data", "label"))


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSONL looks like such an export."""
    return any(isinstance(row, Mapping) and _is_line(row) for row in rows[:10])


def _is_line(row: Mapping[str, Any]) -> bool:
    fields = [str(name).lower() for name in row]
    if "answer" in fields or any(name.startswith(_WORKERS) for name in fields):
        return False
    if not any(isinstance(row.get(name), list) for name in _LABELS) or not any(name in row for name in _CONTENT):
        return False
    return "id" in row or set(fields) <= {*_CONTENT, *_LABELS, *_OTHERS}


def _recognizes(file: ExportFile) -> bool:
    if file.is_table:
        names = set(file.columns) - {"Comments"}
        return names >= set(_TABLES[0]) or names == set(_TABLES[1])
    return file.is_json and knows(file.rows)


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers of an export, one worker's per file unless annotations name their user.

    Places of spans count units of UTF-16 (doccano's issue 2290). A document without a mark, among others with some, was
    read, and nothing was marked.
    """
    rows: list[tuple[ExportFile, Mapping[str, Any]]] = []
    for file in files:
        for row in _lines_of_table(file) if file.is_table else file.rows:
            if isinstance(row, Mapping):
                rows.append((file, row))
            else:
                yield Dropped("lines that are not objects")
    numbered = any(row.get("id") is not None for _, row in rows)
    marking = any(_is_marked(row.get(name)) for _, row in rows for name in ("label", "labels"))
    contents = Contents()
    for file, row in rows:
        content = next((row[name] for name in _CONTENT if row.get(name) is not None), None)
        # Without ids a document is its content.
        task = row.get("id") if numbered else content
        if task is None:
            yield Dropped("lines without 'id'")
            continue
        contents.check(task, content, file)
        yield Item(task, {"text": content})
        yield from _line(row, task, content if isinstance(content, str) else None, file, marking)


def _line(row: Mapping[str, Any], task: Any, text: str | None, file: ExportFile, marking: bool) -> Iterator[Part]:
    """Yield the answers about one document."""
    if isinstance(row.get("annotations"), list):
        yield from _by_users(row["annotations"], task, text, file)
    for name in ("label", "labels"):
        if name in row:
            values = row[name] if isinstance(row[name], list) else [row[name]] if row[name] is not None else []
            if _is_marked(values) or (marking and not values):
                yield from _spans(task, text, file.worker, values)
            else:
                yield _classes("label", task, file.worker, values)
    if isinstance(row.get("entities"), list):
        yield from _spans(task, text, file.worker, row["entities"])
    if isinstance(row.get("cats"), list):
        yield _classes("cats", task, file.worker, row["cats"])
    if isinstance(row.get("bbox"), list):
        yield Answer("bbox", "boxes", task, file.worker, [_box(one, task) for one in row["bbox"]])
    if row.get("segments"):
        yield Dropped("segments of images (not supported)", len(row["segments"]))
    if row.get("relations"):
        yield Dropped("relations (not supported)", len(row["relations"]))


def _classes(question: str, task: Any, worker: Any, given: list[Any]) -> Answer:
    for one in given:
        if isinstance(one, list | dict):
            raise FileFormatError(
                f"document {task!r} has the label {str(one)[:60]}; labels are names, or spans as start, end and name"
            )
    kind, answer = one_or_set(given)
    return Answer(question, kind, task, worker, answer)


def _is_marked(given: Any) -> bool:
    """Whether labels of a document are spans."""
    return isinstance(given, list) and bool(given) and all(map(_span, given))


def _spans(task: Any, text: str | None, worker: Any, given: list[Any]) -> Iterator[Part]:
    place = from_utf16(text or "")
    spans = [_span(one) for one in given]
    spans_read = [
        (place(span[0]), place(span[1]), span[2]) if is_place(span[0]) and is_place(span[1]) else span
        for span in spans
        if span is not None
    ]
    if len(spans_read) < len(given):
        yield Dropped("labels that are not spans", len(given) - len(spans_read), "spans")
    yield Answer("spans", "sequences", task, worker, spans_read, document=Document(text))


def _span(one: Any) -> Span | None:
    if isinstance(one, Mapping) and one.get("start_offset") is not None:
        return one["start_offset"], one.get("end_offset"), one.get("label")
    return (one[0], one[1], one[2]) if isinstance(one, list) and len(one) == 3 else None


def _box(one: Any, task: Any) -> tuple[float, float, float, float, Any]:
    """Sides and label of a rectangle."""
    try:
        left, top, width, height = (float(one[name]) for name in ("x", "y", "width", "height"))
    except (KeyError, TypeError, ValueError):
        raise FileFormatError(f"document {task!r} has a box without x, y, width and height: {str(one)[:60]}") from None
    return left, top, left + width, top + height, one.get("label")


def _by_users(annotations: list[Any], task: Any, text: str | None, file: ExportFile) -> Iterator[Part]:
    """Annotations as old versions wrote them: each with its user, if with anything."""
    by: dict[Any, list[Mapping[str, Any]]] = {}
    for one in annotations:
        if isinstance(one, Mapping):
            by.setdefault(file.annotator(one.get("user", file.worker)), []).append(one)
        else:
            yield Dropped("annotations that are not objects")
    for user, ones in by.items():
        marked = [one for one in ones if one.get("start_offset") is not None]
        others = [one for one in ones if one.get("start_offset") is None]
        typed = [one for one in others if "label" not in one and one.get("text") is not None]
        labels = [one.get("label") for one in others if "label" in one or one.get("text") is None]
        if marked:
            yield from _spans(task, text, user, list(marked))
        for one in typed:
            yield Answer("text", "texts", task, user, str(one["text"]))
        if labels:
            yield _classes("label", task, user, labels)


def _lines_of_table(file: ExportFile) -> Iterator[Mapping[str, Any]]:
    """Rows of a table as lines: an annotation per row with its user, or labels of a document with # between them."""
    for row in file.rows:
        if "user" in row:
            numbers = {name: int(row[name]) for name in ("start_offset", "end_offset") if row.get(name)}
            yield {"id": row["id"], "text": row.get("text"), "annotations": [dict(row, **numbers)]}
        else:
            yield {**row, "label": str(row["label"] or "").split("#") if row["label"] else []}


READER = Reader(
    NAME,
    "lines with 'text' (or 'data', 'filename') and a list in 'label' (or 'labels', 'entities', 'annotations', 'bbox')",
    _recognizes,
    answers,
)
