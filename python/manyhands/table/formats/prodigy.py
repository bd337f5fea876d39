"""Prodigy: a line an answer, with the annotator's session, accepted options, spans, or a label accepted or rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manyhands.table.formats.export import UNKNOWN, Answer, Status, one_or_set

NAME = "prodigy"
_STATUS: Mapping[Any, Status] = {"accept": "given", "reject": "given", "ignore": "skipped"}


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSONL looks like such an export."""
    return any(isinstance(row, Mapping) and "answer" in row and "_input_hash" in row for row in rows[:10])


def answers(rows: list[Any], where: str) -> Iterator[Answer]:
    """Yield all answers of an export.

    The task is the input, since the same text may be asked about with other suggestions. Whoever rejects a suggested
    label says no to it: an answer to the question that the label is.
    """
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        task, worker = row.get("_input_hash"), row.get("_annotator_id") or row.get("_session_id") or UNKNOWN
        status = _STATUS.get(row.get("answer"), "skipped")
        rest = (row.get("_timestamp"), None, status)
        rejected = row.get("answer") == "reject"
        if "accept" in row and "options" in row:
            kind, said = one_or_set(row["accept"] or [])
            yield Answer(
                "choice", kind, task, worker, said, row.get("_timestamp"), None, "rejected" if rejected else status
            )
        elif "spans" in row and str(row.get("_view_id", "")).startswith(("ner", "spans")):
            spans = [(span.get("start"), span.get("end"), span.get("label")) for span in row["spans"] or []]
            yield Answer(
                "spans", "spans", task, worker, spans, row.get("_timestamp"), None, "rejected" if rejected else status
            )
        elif "label" in row:
            yield Answer(str(row["label"]), "classes", task, worker, "no" if rejected else "yes", *rest)
        else:
            yield Answer("accept", "classes", task, worker, "no" if rejected else "yes", *rest)
