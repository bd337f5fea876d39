"""Arize Phoenix: annotations of spans of a trace, by people, models and code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manyhands.table.formats.export import Answer

NAME = "phoenix"


def knows(rows: list[Any]) -> bool:
    """Whether rows look like such an export."""
    return any(isinstance(row, Mapping) and "span_id" in row and "annotator_kind" in row for row in rows[:10])


def answers(rows: list[Any], where: str) -> Iterator[Answer]:
    """Yield all answers: a label where there is one, a number otherwise. Models and code are workers here."""
    for row in rows:
        if not isinstance(row, Mapping) or "span_id" not in row:
            continue
        nested = row.get("result")
        result: Mapping[str, Any] = nested if isinstance(nested, Mapping) else row
        worker = row.get("user_id") or row.get("identifier") or str(row.get("annotator_kind", "unknown")).lower()
        question = str(row.get("name") or row.get("annotation_name") or "label")
        if result.get("label") is not None:
            yield Answer(question, "classes", row["span_id"], worker, result["label"], row.get("created_at"))
        elif result.get("score") is not None:
            yield Answer(question, "numbers", row["span_id"], worker, float(result["score"]), row.get("created_at"))
