"""doccano: a line a document with its labels; who gave them is the name of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manyhands.table.formats.export import Answer, one_or_set

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


def answers(rows: list[Any], where: str, worker: str) -> Iterator[Answer]:
    """Yield all answers of a file, which belongs to one worker."""
    for row in rows:
        if not isinstance(row, Mapping) or "id" not in row:
            continue
        task = row["id"]
        if isinstance(row.get("annotations"), list):
            yield from _old(task, row["annotations"], worker)
            continue
        given = row.get("entities", row.get("label")) or []
        spans = [_span(one) for one in given]
        if "entities" in row or (spans and all(span is not None for span in spans)):
            yield Answer("spans", "spans", task, worker, [span for span in spans if span is not None])
        else:
            kind, said = one_or_set(given)
            yield Answer("label", kind, task, worker, said)


def _span(one: Any) -> tuple[Any, Any, Any] | None:
    if isinstance(one, Mapping) and "start_offset" in one:
        return one["start_offset"], one.get("end_offset"), one.get("label")
    return (one[0], one[1], one[2]) if isinstance(one, list) and len(one) == 3 else None


def _old(task: Any, annotations: list[Any], worker: str) -> Iterator[Answer]:
    """Annotations as old versions wrote them: each with its user, if with anything."""
    by: dict[Any, list[Mapping[str, Any]]] = {}
    for one in annotations:
        if isinstance(one, Mapping):
            by.setdefault(one.get("user", worker), []).append(one)
    for user, ones in by.items():
        if any("start_offset" in one for one in ones):
            yield Answer("spans", "spans", task, user, [span for one in ones if (span := _span(one)) is not None])
        else:
            kind, said = one_or_set([one.get("label") for one in ones])
            yield Answer("label", kind, task, user, said)
