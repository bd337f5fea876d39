"""Label Studio: tasks with annotations and predictions, each a list of regions that name their question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from manyhands.table.formats.documents import need
from manyhands.table.formats.export import UNKNOWN, Answer, Source, Status, one_or_set

NAME = "label-studio"

#: Regions that are labels of a whole task.
CHOICES = ("choices", "taxonomy")
_SPANS = ("labels", "hypertextlabels", "paragraphlabels", "timeserieslabels")
_SHAPES = ("polygonlabels", "brushlabels", "keypointlabels", "ellipselabels")


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like such an export."""
    return any(
        isinstance(row, Mapping)
        and "data" in row
        and ("annotations" in row or "completions" in row or "predictions" in row)
        for row in rows[:10]
    )


def answers(rows: list[Any], where: str) -> Iterator[Answer]:
    """Yield all answers of an export."""
    for number, task in enumerate(rows, 1):
        place = f"task {number} of {where}"
        name = task.get("id", number) if isinstance(task, Mapping) else number
        need(task, "data", place)
        for annotation in task.get("annotations", task.get("completions")) or []:
            if isinstance(annotation, Mapping):
                yield from _annotation(name, annotation)
        for prediction in task.get("predictions") or []:
            if isinstance(prediction, Mapping):
                worker = prediction.get("model_version") or "model"
                yield from _regions(name, worker, prediction, "given", "model")


def _annotation(task: Any, annotation: Mapping[str, Any]) -> Iterator[Answer]:
    status: Status = "skipped" if annotation.get("was_cancelled") else "given"
    found = list(_regions(task, _worker(annotation.get("completed_by")), annotation, status, "worker"))
    yield from found
    if annotation.get("ground_truth"):
        yield from _regions(task, _worker(annotation.get("completed_by")), annotation, "given", "gold")


def _worker(by: Any) -> Any:
    """The annotator as text: a number, or of an object with a number and an address the latter."""
    if isinstance(by, Mapping):
        by = by.get("email") or by.get("id")
    return UNKNOWN if by is None else str(by)


def _regions(task: Any, worker: Any, annotation: Mapping[str, Any], status: Status, source: Source) -> Iterator[Answer]:
    by_question: dict[tuple[str, str], list[Any]] = {}
    for region in annotation.get("result") or []:
        found = _said(region) if isinstance(region, Mapping) else None
        if found is not None:
            kind, said = found
            by_question.setdefault((str(region.get("from_name", "label")), kind), []).append(said)
    seconds = annotation.get("lead_time")
    when = annotation.get("created_at")
    for (question, kind), said in by_question.items():
        if kind in ("spans", "boxes", "shapes"):
            yield Answer(question, kind, task, worker, said, when, seconds, status, source)
            continue
        if kind == "sets":
            kind, labels = one_or_set([label for part in said for label in part])
            yield Answer(question, kind, task, worker, labels, when, seconds, status, source)
            continue
        for one in said:
            yield Answer(question, kind, task, worker, one, when, seconds, status, source)


def _said(region: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Kind and content of a region; None for one that answers nothing (a relation, an unknown type)."""
    kind, value = str(region.get("type", "")).lower(), region.get("value")
    if not isinstance(value, Mapping):
        return None
    if kind in CHOICES:
        chosen = value.get(kind) or []
        return "sets", [choice_name(one) for one in chosen]
    if kind in ("rating", "number"):
        return "numbers", value.get(kind)
    if kind == "pairwise":
        winner = value.get("selected")
        return "comparisons", ("left", "right", winner if winner in ("left", "right") else "tie")
    if kind == "textarea":
        text = value.get("text")
        return "texts", "\n".join(map(str, text)) if isinstance(text, list) else text
    if kind in _SPANS and "start" in value:
        return "spans", (value["start"], value.get("end"), _first(value, kind))
    if kind in ("rectanglelabels", "rectangle"):
        x, y = float(value.get("x", 0)), float(value.get("y", 0))
        corner = (x + float(value.get("width", 0)), y + float(value.get("height", 0)))
        return "boxes", (*_pixels(region, x, y), *_pixels(region, *corner), _first(value, kind))
    if kind in _SHAPES:
        return "shapes", (str(value.get("points") or value.get("rle") or dict(value)), _first(value, kind))
    return None


def choice_name(choice: Any) -> Any:
    """A choice as one label: a path through a taxonomy is joined."""
    return " / ".join(map(str, choice)) if isinstance(choice, list) else choice


def _pixels(region: Mapping[str, Any], x: float, y: float) -> tuple[float, float]:
    """A point in pixels; it is given in per cent of the image."""
    width, height = region.get("original_width"), region.get("original_height")
    return (x * float(width) / 100 if width else x, y * float(height) / 100 if height else y)


def _first(value: Mapping[str, Any], kind: str) -> Any:
    labels = value.get(kind) or value.get("labels") or [None]
    return labels[0] if isinstance(labels, list) else labels
