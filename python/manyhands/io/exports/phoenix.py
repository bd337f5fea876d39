"""Arize Phoenix: annotations of spans of a trace, by people, models and code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.io.exports.export import Answer, Dropped, Part
from manyhands.io.exports.files import ExportFile, Reader, rows_of

NAME = "phoenix"


def knows(rows: list[Any]) -> bool:
    """Whether rows look like such an export."""
    return any(isinstance(row, Mapping) and "span_id" in row and "annotator_kind" in row for row in rows[:10])


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers: a label where there is one, a number otherwise. Models and code are workers here."""
    for file, _, row in rows_of(files):
        if not isinstance(row, Mapping) or row.get("span_id") is None:
            yield Dropped("rows without 'span_id'")
            continue
        nested = row.get("result")
        result: Mapping[str, Any] = nested if isinstance(nested, Mapping) else row
        kind = str(row.get("annotator_kind", "unknown")).lower()
        # A person without a name is an unknown one, and not the same as others without.
        worker = file.annotator(row.get("user_id") or row.get("identifier") or (None if kind == "human" else kind))
        question = str(row.get("name") or row.get("annotation_name") or "label")
        if result.get("label") is not None:
            yield Answer(question, "categorical", row["span_id"], worker, result["label"], row.get("created_at"))
        elif isinstance(result.get("score"), int | float):
            yield Answer(question, "numeric", row["span_id"], worker, float(result["score"]), row.get("created_at"))
        else:
            yield Dropped("annotations without a label or a score", 1, question)


READER = Reader(
    NAME, "rows with 'span_id' and 'annotator_kind'", lambda file: file.is_json and knows(file.rows), answers
)
