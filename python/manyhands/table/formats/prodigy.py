"""Prodigy: a line an answer, with the annotator's session, accepted options, spans, or a label accepted or rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.table.formats.export import Answer, Dropped, Status, one_or_set
from manyhands.table.formats.files import ExportFile, Reader, rows_of
from manyhands.table.formats.spans import Document, is_place

NAME = "prodigy"
_STATUS: Mapping[Any, Status] = {"accept": "given", "reject": "given", "ignore": "skipped"}


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSONL looks like such an export."""
    return any(isinstance(row, Mapping) and "answer" in row and "_input_hash" in row for row in rows[:10])


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield all answers of an export.

    The task is the input, since the same text may be asked about with other suggestions. Whoever rejects a suggested
    label says no to it: an answer to the question that the label is.
    """
    for file, _, row in rows_of(files):
        if not isinstance(row, Mapping):
            continue
        task = row.get("_input_hash")
        worker = file.annotator(row.get("_annotator_id") or row.get("_session_id"))
        status = _STATUS.get(row.get("answer"), "skipped")
        rest = (row.get("_timestamp"), None, status)
        rejected = row.get("answer") == "reject"
        if "accept" in row and "options" in row:
            kind, said = one_or_set(row["accept"] or [])
            yield Answer(
                "choice", kind, task, worker, said, row.get("_timestamp"), None, "rejected" if rejected else status
            )
        elif _marks(row):
            marked = [span for span in row.get("spans") or [] if isinstance(span, Mapping)]
            spans = [(span.get("start"), span.get("end"), span.get("label")) for span in marked]
            status = "rejected" if rejected else status
            when = row.get("_timestamp")
            yield Answer("spans", "sequences", task, worker, spans, when, None, status, document=_document(row))
        elif "label" in row:
            yield Answer(str(row["label"]), "classes", task, worker, "no" if rejected else "yes", *rest)
        else:
            yield Answer("accept", "classes", task, worker, "no" if rejected else "yes", *rest)


def _marks(row: Mapping[str, Any]) -> bool:
    """Whether spans were marked, or could have been; a line without any has no field for them."""
    view = str(row.get("_view_id", ""))
    return view in ("ner_manual", "spans_manual") or ("spans" in row and view.startswith(("ner", "spans")))


def _document(row: Mapping[str, Any]) -> Document:
    """The text of a line and its tokens, where it has them."""
    text, cut = row.get("text"), row.get("tokens")
    places = [(one.get("start"), one.get("end")) for one in cut or [] if isinstance(one, Mapping)]
    tokens = tuple((start, end) for start, end in places if is_place(start) and is_place(end) and start < end)
    known = tokens and len(tokens) == len(cut or [])
    return Document(text if isinstance(text, str) else None, tokens if known else None)


READER = Reader(NAME, "lines with 'answer' and '_input_hash'", lambda file: file.is_json and knows(file.rows), answers)
