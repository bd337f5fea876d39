"""Label Studio: tasks with annotations and predictions, each a list of regions that name their question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.table.formats.documents import need
from manyhands.table.formats.export import SEEN_NOTHING, Answer, Dropped, Source, Status, one_or_set
from manyhands.table.formats.files import ExportFile, Reader
from manyhands.table.formats.shapes import Region, bounds, ellipse, of_brush, of_polygons, size_of, warn_of_turned
from manyhands.table.formats.spans import Document, counted_by, is_place, text_among

NAME = "label-studio"

#: Regions that are labels of a whole task.
CHOICES = ("choices", "taxonomy")
_SPANS = ("labels", "hypertextlabels")
_INTERVALS = ("labels", "hypertextlabels", "paragraphlabels", "timeserieslabels", "videolabels", "timelinelabels")
_BOXES = ("rectanglelabels", "rectangle")
_DRAWN = ("polygonlabels", "polygon", "brushlabels", "brush", "ellipselabels", "ellipse")


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like such an export."""
    return any(
        isinstance(row, Mapping)
        and "data" in row
        and ("annotations" in row or "completions" in row or "predictions" in row)
        for row in rows[:10]
    )


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield all answers of an export."""
    rows = [row for file in files for row in file.rows]
    asked = _asked(rows)
    warn_of_turned(sum(map(_is_turned, _drawn_in(rows))), files[0].where)
    for file in files:
        yield from _in_file(file, asked)


def _in_file(file: ExportFile, asked: Mapping[str, tuple[str, str | None]]) -> Iterator[Answer]:
    for number, task in enumerate(file.rows, 1):
        place = f"task {number} of {file.where}"
        need(task, "data", place)
        name = task.get("id", file.numbered(number))
        for annotation in task.get("annotations", task.get("completions")) or []:
            if isinstance(annotation, Mapping):
                yield from _annotation(task, name, annotation, asked, file)
        for prediction in task.get("predictions") or []:
            if isinstance(prediction, Mapping):
                worker = prediction.get("model_version") or "model"
                yield from _regions(task, name, worker, prediction, "given", "model")


def _asked(rows: list[Any]) -> dict[str, tuple[str, str | None]]:
    """Questions whose answers are marks, to which an annotation without any says that there is nothing.

    Each with its kind, and the name of the text that is marked, if it is one.
    """
    found: dict[str, tuple[str, str | None]] = {}
    for region in _drawn_in(rows):
        said = _said(region)
        if said is not None and said[0] in SEEN_NOTHING:
            plain = said[0] == "sequences" and "globalOffsets" not in region["value"]
            named = str(region.get("to_name", "text")) if plain else None
            found.setdefault(str(region.get("from_name", "label")), (said[0], named))
    return found


def _drawn_in(rows: list[Any]) -> Iterator[Mapping[str, Any]]:
    """All regions of workers' annotations."""
    for task in rows:
        for annotation in task.get("annotations", task.get("completions")) or [] if isinstance(task, Mapping) else []:
            for region in annotation.get("result") or [] if isinstance(annotation, Mapping) else []:
                if isinstance(region, Mapping):
                    yield region


def _is_turned(region: Mapping[str, Any]) -> bool:
    value = region.get("value")
    if str(region.get("type", "")).lower() not in _BOXES or not isinstance(value, Mapping):
        return False
    return _number(value, "rotation") % 360 != 0


def _annotation(
    task: Mapping[str, Any],
    name: Any,
    annotation: Mapping[str, Any],
    asked: Mapping[str, tuple[str, str | None]],
    file: ExportFile,
) -> Iterator[Answer]:
    status: Status = "skipped" if annotation.get("was_cancelled") else "given"
    worker = file.annotator(_worker(annotation.get("completed_by")))
    sources: tuple[Source, ...] = ("worker", "gold") if annotation.get("ground_truth") else ("worker",)
    for source in sources:
        found = list(_regions(task, name, worker, annotation, status if source == "worker" else "given", source))
        yield from found
        if status == "given":
            answered = {answer.question for answer in found}
            for question, (kind, named) in asked.items():
                if question not in answered:
                    document = None if named is None else Document(text_among(_fields(task), named, []))
                    yield Answer(question, kind, name, worker, [], source=source, document=document)


def _worker(by: Any) -> Any:
    """The annotator as text: a number, or of an object with a number and an address the latter."""
    if isinstance(by, Mapping):
        by = by.get("email") or by.get("id")
    return None if by is None else str(by)


def _fields(task: Mapping[str, Any]) -> Mapping[str, Any]:
    return task["data"] if isinstance(task["data"], Mapping) else {}


def _regions(
    data: Mapping[str, Any], task: Any, worker: Any, annotation: Mapping[str, Any], status: Status, source: Source
) -> Iterator[Answer]:
    by_question: dict[tuple[str, str], list[Any]] = {}
    regions: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for region in annotation.get("result") or []:
        found = _said(region) if isinstance(region, Mapping) else None
        if found is not None:
            kind, said = found
            key = (str(region.get("from_name", "label")), kind)
            by_question.setdefault(key, []).append(said)
            regions.setdefault(key, []).append(region)
    seconds = annotation.get("lead_time")
    when = annotation.get("created_at")
    for (question, kind), said in by_question.items():
        if kind == "sequences":
            document, said = _placed(_fields(data), regions[question, kind], said)
            yield Answer(question, kind, task, worker, said, when, seconds, status, source, document)
            continue
        if kind in ("intervals", "boxes", "masks", "shapes"):
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
    span = _span(value) if kind in _SPANS else None
    if span is not None:
        return "sequences", (*span, _first(value, kind))
    if kind in _INTERVALS and ("start" in value or "ranges" in value):
        return "intervals", (str(value.get("start", value.get("ranges"))), str(value.get("end")), _first(value, kind))
    if kind in _BOXES:
        return "boxes", (*_box(region, value), _first(value, kind))
    if kind in ("keypointlabels", "keypoint"):
        return "boxes", (*_pixels(region, _number(value, "x"), _number(value, "y")), None, None, _first(value, kind))
    size = size_of(region.get("original_height"), region.get("original_width")) if kind in _DRAWN else None
    if size is not None:
        return "masks", (_region(kind, region, value, size), _first(value, kind))
    if kind in _DRAWN:
        return "shapes", (str(value.get("points") or value.get("rle") or dict(value)), _first(value, kind))
    return None


def _number(value: Mapping[str, Any], name: str) -> float:
    try:
        return float(value.get(name) or 0)
    except (TypeError, ValueError):
        raise FileFormatError(f"a region has {name!r} {value.get(name)!r}, which is no number") from None


def _box(region: Mapping[str, Any], value: Mapping[str, Any]) -> list[float]:
    """Sides of a rectangle in pixels; of one that is turned, around its upper left corner, those it lies within."""
    x, y, width, height = (_number(value, name) for name in ("x", "y", "width", "height"))
    corner, (right, bottom) = _pixels(region, x, y), _pixels(region, x + width, y + height)
    return bounds(corner, (right - corner[0], bottom - corner[1]), _number(value, "rotation"), corner)


def _region(kind: str, region: Mapping[str, Any], value: Mapping[str, Any], size: tuple[int, int]) -> Region:
    where = f"region {region.get('id')!r} of {region.get('from_name')!r}"
    if kind.startswith("brush"):
        return of_brush(value.get("rle"), size, where)
    if kind.startswith("ellipse"):
        centre = _pixels(region, _number(value, "x"), _number(value, "y"))
        radii = _pixels(region, _number(value, "radiusX"), _number(value, "radiusY"))
        return of_polygons([ellipse(centre, radii, _number(value, "rotation"))], size, where)
    points = value.get("points") or []
    if not all(
        isinstance(point, list) and len(point) == 2 and set(map(type, point)) <= {int, float} for point in points
    ):
        raise FileFormatError(f"{where}: points are pairs of numbers")
    return of_polygons([[_pixels(region, *point) for point in points]], size, where)


def _span(value: Mapping[str, Any]) -> tuple[int, int] | None:
    """Where a region of a text is, in characters; None for one of a sound or of a line of a dialogue."""
    where = value.get("globalOffsets", value)
    if not isinstance(where, Mapping) or "channel" in value:
        return None
    start, end = where.get("start"), where.get("end")
    return (start, end) if is_place(start) and is_place(end) else None


def _placed(
    fields: Mapping[str, Any], regions: list[Mapping[str, Any]], said: list[Any]
) -> tuple[Document, list[tuple[int, int, Any]]]:
    """The text that regions are of, and their places in it: versions of before 2022 count units of UTF-16."""
    quoted = [
        (start, end, region["value"]["text"])
        for region, (start, end, _) in zip(regions, said, strict=True)
        if isinstance(region["value"].get("text"), str)
    ]
    plain = not any("globalOffsets" in region["value"] for region in regions)
    named = str(regions[0].get("to_name", "text"))
    text = text_among(fields, named, quoted) if plain else None  # others are of pages, whose marks do not count
    place = counted_by(text, quoted)
    return Document(text), [(place(start), place(end), label) for start, end, label in said]


def choice_name(choice: Any) -> Any:
    """A choice as one label: a path through a taxonomy is joined."""
    return " / ".join(map(str, choice)) if isinstance(choice, list) else choice


def _pixels(region: Mapping[str, Any], x: float, y: float) -> tuple[float, float]:
    """A point in pixels; it is given in per cent of the image."""
    width, height = _number(region, "original_width"), _number(region, "original_height")
    return (x * width / 100 if width else x, y * height / 100 if height else y)


def _first(value: Mapping[str, Any], kind: str) -> Any:
    labels = value.get(kind) or value.get("labels") or [None]
    return labels[0] if isinstance(labels, list) else labels


READER = Reader(NAME, "tasks with 'data' and 'annotations'", lambda file: file.is_json and knows(file.rows), answers)
