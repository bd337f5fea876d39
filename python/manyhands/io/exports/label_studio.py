"""Label Studio: tasks with annotations and predictions, each a list of regions that name their question."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.documents import need
from manyhands.io.exports.export import (
    SEEN_NOTHING,
    Ambiguous,
    Answer,
    Dropped,
    Item,
    Part,
    Source,
    Status,
    one_or_set,
    path_name,
)
from manyhands.io.exports.files import Contents, ExportFile, Reader, without_signatures
from manyhands.io.exports.shapes import Region, bounds, ellipse, of_brush, of_polygons, size_of, warn_of_turned
from manyhands.io.exports.spans import Document, counted_by, is_place, text_among

NAME = "label-studio"

#: Regions that are labels of a whole task.
CHOICES = ("choices", "taxonomy")
_SPANS = ("labels", "hypertextlabels")
_INTERVALS = ("labels", "hypertextlabels", "paragraphlabels", "timeserieslabels", "videolabels", "timelinelabels")
_BOXES = ("rectanglelabels", "rectangle")
_POINTS = ("keypointlabels", "keypoint")
_DRAWN = ("polygonlabels", "polygon", "brushlabels", "brush", "ellipselabels", "ellipse")
_MARKS = (*_INTERVALS, *_BOXES, *_POINTS, *_DRAWN)
#: What the fields of two items that are compared differ by.
_SIDES = (("left", "right"), ("first", "second"), ("one", "two"), ("a", "b"), ("1", "2"), ("0", "1"))

#: What a region is about, next to its task: the name of an object (``to_name``) and the number of a page.
_Place = tuple[str, Any]


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like such an export."""
    return any(
        isinstance(row, Mapping)
        and (_is_old(row) or ("data" in row and ("annotations" in row or "predictions" in row)))
        for row in rows[:10]
    )


def _is_old(row: Mapping[str, Any]) -> bool:
    """Whether a task has completions, as annotations were called before 2021; elsewhere these are texts of a model."""
    completions = row.get("completions")
    return isinstance(completions, list) and any(isinstance(one, Mapping) and "result" in one for one in completions)


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers of an export."""
    project = _Project(files)
    warn_of_turned(sum(map(_is_turned, project.regions())), files[0].where)
    for file, number, task in project.tasks:
        name = task.get("id", file.numbered(number))
        yield Item(name, _fields(task))
        for annotation in _annotations(task):
            if isinstance(annotation, Mapping):
                yield from project.annotation(task, name, annotation, file)
            else:
                yield Dropped("annotations of which the export has only the number")
        for prediction in task.get("predictions") or []:
            if isinstance(prediction, Mapping):
                worker = prediction.get("model_version") or "model"
                for part in project.parts(task, name, worker, prediction, "given", "model"):
                    if isinstance(part, Answer):
                        yield part
        drafts = sum(bool(draft.get("result")) for draft in task.get("drafts") or [] if isinstance(draft, Mapping))
        if drafts:
            yield Dropped("drafts (not submitted)", drafts)
    yield from project.remarks()


def _annotations(task: Mapping[str, Any]) -> list[Any]:
    return list(task.get("annotations", task.get("completions")) or [])


def _regions(annotation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The regions of an annotation; aggregated completions of old versions have lists of them in a list."""
    regions: list[Mapping[str, Any]] = []
    for region in annotation.get("result") or []:
        regions += [one for one in (region if isinstance(region, list) else [region]) if isinstance(one, Mapping)]
    return regions


class _Project:
    """What must be known of all tasks before one annotation can be read."""

    def __init__(self, files: Sequence[ExportFile]) -> None:
        #: Each task with its file and its number there.
        self.tasks: list[tuple[ExportFile, int, Mapping[str, Any]]] = []
        contents = Contents()
        for file in files:
            for number, task in enumerate(file.rows, 1):
                if not isinstance(task, Mapping) or "completions" not in task:
                    need(task, "data", f"task {number} of {file.where}")
                contents.check(task.get("id", file.numbered(number)), task.get("data"), file)
                self.tasks.append((file, number, task))
        self._addresses = dict(self._people())
        #: Questions whose answers are marks, with their kind and the name of the text that is marked, if it is one: an
        #: annotation without any states that there is nothing.
        self._marked: dict[str, tuple[str, str | None]] = {}
        #: Questions about several objects of a task, and about several pages of an object.
        self._several: set[str] = set()
        self._paged: set[str] = set()
        self._places: dict[tuple[str, Any], dict[_Place, None]] = {}
        self._sizes: dict[tuple[Any, _Place], tuple[float, float]] = {}
        #: How many boxes of a question are in pixels, and how many in per cent.
        self._units: dict[str, Counter[bool]] = {}
        self._unpaired: dict[str, str] = {}
        for file, number, task in self.tasks:
            for annotation in _annotations(task):
                objects: dict[str, set[str]] = {}
                for region in _regions(annotation) if isinstance(annotation, Mapping) else []:
                    self._note(task.get("id", file.numbered(number)), region)
                    objects.setdefault(_question(region), set()).add(_place(region)[0])
                # An object of another name in another annotation is one that was renamed.
                self._several |= {question for question, names in objects.items() if len(names - {""}) > 1}

    def regions(self) -> Iterator[Mapping[str, Any]]:
        """All regions of workers' annotations."""
        for _, _, task in self.tasks:
            for annotation in _annotations(task):
                yield from _regions(annotation) if isinstance(annotation, Mapping) else ()

    def remarks(self) -> Iterator[Ambiguous]:
        """Yield the questions whose answers can be read in several ways."""
        for question, units in self._units.items():
            if len(units) > 1:
                yield Ambiguous(
                    f"{units[False]:,} of {units.total():,} regions of {question!r} have no 'original_width' and "
                    "'original_height': some places are in pixels and some in per cent of the image; export them again",
                    question,
                )
        for question, reason in self._unpaired.items():
            yield Ambiguous(reason, question)

    def _people(self) -> Iterator[tuple[str, str]]:
        """Addresses of annotators by their numbers, which some annotations have alone."""
        for _, _, task in self.tasks:
            for annotation in _annotations(task):
                by = annotation.get("completed_by") if isinstance(annotation, Mapping) else None
                if isinstance(by, Mapping) and by.get("email") and by.get("id") is not None:
                    yield str(by["id"]), str(by["email"])

    def _worker(self, annotation: Mapping[str, Any]) -> str | None:
        """The annotator as text: the address, or the number of one whose address is nowhere."""
        by = annotation.get("completed_by")
        several = annotation.get("aggregated_completed_by")
        if by is None and isinstance(several, list) and len(several) == 1:
            by = several[0]
        if isinstance(by, Mapping):
            by = by.get("email") or by.get("id")
        return None if by is None else self._addresses.get(str(by), str(by))

    def _note(self, task: Any, region: Mapping[str, Any]) -> None:
        """Note what a region shows of its question."""
        question, place = _question(region), _place(region)
        kind = str(region.get("type", "")).lower()
        if kind not in _MARKS and kind not in CHOICES:
            return
        if place[1] is not None:
            self._paged.add(question)
        self._places.setdefault((question, task), {})[place] = None
        size = _original_size(region)
        if size is not None:
            self._sizes.setdefault((task, place), size)
        marks = _kind_of_marks(region)
        if marks in SEEN_NOTHING:
            plain = marks == "sequences" and "globalOffsets" not in region["value"]
            source_name = str(region.get("to_name", "text")) if plain else None
            self._marked.setdefault(question, (marks, source_name))

    def _task(self, question: str, task: Any, place: _Place) -> Any:
        """The id of what was asked about: a task, or an object or a page of it where a question is about several."""
        more: list[Any] = [place[0]] if question in self._several else []
        more += [place[1] or 0] if question in self._paged else []
        return path_name((task, *more)) if more else task

    def annotation(
        self, task: Mapping[str, Any], name: Any, annotation: Mapping[str, Any], file: ExportFile
    ) -> Iterator[Part]:
        """Yield the answers of an annotation, and empty ones to questions about marks of which it has none."""
        status: Status = "skipped" if annotation.get("was_cancelled") else "given"
        worker = file.annotator(self._worker(annotation))
        sources: tuple[Source, ...] = ("worker", "gold") if annotation.get("ground_truth") else ("worker",)
        for source in sources:
            counting: Status = status if source == "worker" else "given"
            parts = list(self.parts(task, name, worker, annotation, counting, source))
            yield from (part for part in parts if source == "worker" or isinstance(part, Answer))
            if status != "given":
                continue
            answered = {(part.question, part.task) for part in parts if isinstance(part, Answer)}
            unread = {part.question for part in parts if isinstance(part, Dropped)}
            for question, (kind, named) in self._marked.items():
                document = None if named is None else Document(text_among(_fields(task), named, []))
                for place in self._places.get((question, name), {("", None): None}):
                    about = self._task(question, name, place)
                    if (question, about) not in answered and question not in unread:
                        yield Answer(question, kind, about, worker, [], source=source, document=document)

    def parts(
        self, task: Mapping[str, Any], name: Any, worker: Any, annotation: Mapping[str, Any], status: Status, by: Source
    ) -> Iterator[Part]:
        """Yield the answers that an annotation or a prediction gives, and what of it cannot be read."""
        regions = _regions(annotation)
        labels = {
            region.get("id"): _labels(region["value"], "labels")
            for region in regions
            if region.get("type") == "labels" and _is_drawn(region.get("value")) and region.get("id") is not None
        }
        marks = {region.get("id") for region in regions if str(region.get("type", "")).lower() in _MARKS}
        grouped: dict[tuple[str, str, Any], list[tuple[Mapping[str, Any], Any]]] = {}
        for region in regions:
            question, kind = _question(region), str(region.get("type", "")).lower()
            about = self._task(question, name, _place(region))
            if kind == "labels" and region.get("id") in labels:
                if not any(one.get("id") == region.get("id") and one is not region for one in regions):
                    yield Dropped("labels without a shape", 1, question)
                continue
            inside = _is_drawn(region.get("value")) or "start" in (region.get("value") or {})
            if kind not in _MARKS and (inside or (region.get("id") is not None and region.get("id") in marks)):
                yield Dropped("answers about a single region (not supported)", 1, question)
                continue
            answer = self._said(region, name, _fields(task), labels.get(region.get("id")))
            if isinstance(answer, Dropped):
                yield answer
                continue
            for one in answer[1]:
                grouped.setdefault((question, answer[0], about), []).append((region, one))
        rest = (annotation.get("created_at"), annotation.get("lead_time"), status, by)
        for (question, kind, about), group in grouped.items():
            values = [one for _, one in group]
            if kind == "sequences":
                document, values = _text_and_places(_fields(task), [region for region, _ in group], values)
                yield Answer(question, kind, about, worker, values, *rest, document)
            elif kind in ("intervals", "boxes", "masks", "shapes"):
                yield Answer(question, kind, about, worker, values, *rest)
            elif kind == "multilabel":
                kind, choice = one_or_set([label for part in values for label in part])
                yield Answer(question, kind, about, worker, choice, *rest)
            else:
                for one in values:
                    yield Answer(question, kind, about, worker, one, *rest)

    def _said(
        self, region: Mapping[str, Any], task: Any, data: Mapping[str, Any], labels: list[Any] | None
    ) -> tuple[str, list[Any]] | Dropped:
        """Kind and content of a region, a mark for each of its labels; or why it has none."""
        kind, value, question = str(region.get("type", "")).lower(), region.get("value"), _question(region)
        if kind == "relation":
            return Dropped("relations (not supported)")
        if not isinstance(value, Mapping):
            return Dropped("regions without a value", 1, question)
        if kind in CHOICES:
            choices = value.get(kind)
            if choices is None:
                return Dropped("regions without a value", 1, question)
            return "multilabel", [[choice_name(one) for one in ([choices] if isinstance(choices, str) else choices)]]
        if kind in ("rating", "number", "textarea", "pairwise"):
            content = value.get({"textarea": "text", "pairwise": "selected"}.get(kind, kind))
            if content is None:
                return Dropped("regions without a value", 1, question)
            if kind == "textarea":
                return "texts", ["\n".join(map(str, content)) if isinstance(content, list) else content]
            return self._compared(question, task, data, content) if kind == "pairwise" else ("numeric", [content])
        names = labels or _labels(value, kind)
        span = _span(value) if kind in _SPANS else None
        if span is not None:
            return "sequences", [(*span, label) for label in names]
        if kind in _INTERVALS and ("start" in value or "ranges" in value):
            times = (str(value.get("start", value.get("ranges"))), str(value.get("end")))
            return "intervals", [(*times, label) for label in names]
        if kind in _DRAWN:
            return _draw_mask(kind, region, value, self._size(region, task), names)
        if kind in (*_BOXES, *_POINTS):
            size = self._size(region, task)
            self._units.setdefault(question, Counter())[size is not None] += 1
            sides = (
                _box(value, size)
                if kind in _BOXES
                else (*_pixels(size, _number(value, "x"), _number(value, "y")), None, None)
            )
            return "boxes", [(*sides, label) for label in names]
        return Dropped(f"{kind or 'unknown'} regions (not supported)", 1, question)

    def _size(self, region: Mapping[str, Any], task: Any) -> tuple[float, float] | None:
        """Width and height of the image of a region, by the region or by others in the same image."""
        return _original_size(region) or self._sizes.get((task, _place(region)))

    def _compared(self, question: str, task: Any, data: Mapping[str, Any], winner: Any) -> Any:
        """What a pairwise answer compares: the texts of two fields that differ by a side."""
        pairs = _pairs(data)
        if len(pairs) == 1:
            left, right = (without_signatures(data[name]) for name in pairs[0])
        else:
            listing = ", ".join(f"{one!r} and {other!r}" for one, other in pairs)
            fields = ", ".join(map(repr, data)) or "none"
            self._unpaired.setdefault(
                question,
                f"{question!r} compares a left with a right item, and "
                + (
                    f"several fields can be these: {listing}"
                    if pairs
                    else f"no two fields of task {task!r} can be these"
                )
                + f" (fields: {fields}); items are those of two fields such as 'text1' and 'text2' or 'model_a' and "
                "'model_b'. Rename the fields, or make a table of comparisons with `manyhands import`",
            )
            left, right = path_name((task, "left")), path_name((task, "right"))
        if left == right:
            return Dropped("comparisons of an item with itself", 1, question)
        return "pairwise", [(left, right, winner if winner in ("left", "right") else "tie")]


def _pairs(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of fields whose names differ only by a side; those of models alone where there are such."""
    names = [str(name) for name, value in data.items() if isinstance(value, str)]
    pairs: dict[tuple[str, str], None] = {}
    for name in names:
        for left, right in _SIDES:
            around = r"\d" if left.isdigit() else "[A-Za-z]"
            for side in re.finditer(rf"(?<!{around}){left}(?!{around})", name, re.IGNORECASE):
                for form in (right, right.upper(), right.capitalize()):
                    other = name[: side.start()] + form + name[side.end() :]
                    if other in names and other != name:
                        pairs[name, other] = None
    models = [pair for pair in pairs if "model" in pair[0].lower()]
    return models or list(pairs)


def _question(region: Mapping[str, Any]) -> str:
    return str(region.get("from_name", "label"))


def _place(region: Mapping[str, Any]) -> _Place:
    page = region.get("item_index")
    return str(region.get("to_name") or ""), page if isinstance(page, int) else None


def _is_drawn(value: Any) -> bool:
    """Whether a value has a place in an image."""
    return isinstance(value, Mapping) and bool({"x", "points", "rle"} & set(value))


def _kind_of_marks(region: Mapping[str, Any]) -> str | None:
    """The kind of marks that a region is one of; None for one that is not a mark, or that no table can hold."""
    kind, value = str(region.get("type", "")).lower(), region.get("value")
    if not isinstance(value, Mapping):
        return None
    if kind in _SPANS and _span(value) is not None:
        return "sequences"
    if kind in (*_BOXES, *_POINTS):
        return "boxes"
    is_mask = kind in _DRAWN and size_of(region.get("original_height"), region.get("original_width")) is not None
    return "masks" if is_mask else None


def _is_turned(region: Mapping[str, Any]) -> bool:
    value = region.get("value")
    if str(region.get("type", "")).lower() not in _BOXES or not isinstance(value, Mapping):
        return False
    return _number(value, "rotation", 0) % 360 != 0


def _fields(task: Mapping[str, Any]) -> Mapping[str, Any]:
    data = task.get("data")
    return data if isinstance(data, Mapping) else {}


def _number(value: Mapping[str, Any], name: str, default: float | None = None) -> float:
    given = value.get(name)
    if given is None and default is not None:
        return default
    try:
        number = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise FileFormatError(f"a region has {name!r} {given!r}, which is not a number")
    return number


def _original_size(region: Mapping[str, Any]) -> tuple[float, float] | None:
    """Width and height of the image of a region, where it has both."""
    width, height = _number(region, "original_width", 0), _number(region, "original_height", 0)
    return (width, height) if width > 0 and height > 0 else None


def _box(value: Mapping[str, Any], size: tuple[float, float] | None) -> list[float]:
    """Sides of a rectangle in pixels; of one that is turned, around its upper left corner, those it lies within."""
    x, y, width, height = (_number(value, name) for name in ("x", "y", "width", "height"))
    corner, (right, bottom) = _pixels(size, x, y), _pixels(size, x + width, y + height)
    return bounds(corner, (right - corner[0], bottom - corner[1]), _number(value, "rotation", 0), corner)


def _draw_mask(
    kind: str,
    region: Mapping[str, Any],
    value: Mapping[str, Any],
    size: tuple[float, float] | None,
    labels: Iterable[Any],
) -> tuple[str, list[Any]]:
    """A polygon, an ellipse or a brush: a mask, or a shape where the size of its image is unknown."""
    pixels = None if size is None else size_of(size[1], size[0])
    if size is None or pixels is None:
        return "shapes", [(str(value.get("points") or value.get("rle") or dict(value)), label) for label in labels]
    mask = _region(kind, region, value, size, pixels)
    return "masks", [(mask, label) for label in labels]


def _region(
    kind: str, region: Mapping[str, Any], value: Mapping[str, Any], size: tuple[float, float], pixels: tuple[int, int]
) -> Region:
    where = f"region {region.get('id')!r} of {region.get('from_name')!r}"
    if kind.startswith("brush"):
        return of_brush(value.get("rle"), pixels, where)
    if kind.startswith("ellipse"):
        centre = _pixels(size, _number(value, "x"), _number(value, "y"))
        radii = _pixels(size, _number(value, "radiusX"), _number(value, "radiusY"))
        return of_polygons([ellipse(centre, radii, _number(value, "rotation", 0))], pixels, where)
    points = value.get("points") or []
    if not all(
        isinstance(point, list) and len(point) == 2 and set(map(type, point)) <= {int, float} for point in points
    ):
        raise FileFormatError(f"{where}: points are pairs of numbers")
    return of_polygons([[_pixels(size, *point) for point in points]], pixels, where)


def _span(value: Mapping[str, Any]) -> tuple[int, int] | None:
    """Where a region of a text is, in characters; None for one of a sound or of a line of a dialogue."""
    where = value.get("globalOffsets", value)
    if not isinstance(where, Mapping) or "channel" in value:
        return None
    start, end = where.get("start"), where.get("end")
    return (start, end) if is_place(start) and is_place(end) else None


def _text_and_places(
    fields: Mapping[str, Any], regions: list[Mapping[str, Any]], said: list[Any]
) -> tuple[Document, list[tuple[int, int, Any]]]:
    """The text that regions are of, and their places in it: versions of before 2022 count units of UTF-16."""
    quoted = [
        (start, end, region["value"]["text"])
        for region, (start, end, _) in zip(regions, said, strict=True)
        if isinstance(region["value"].get("text"), str)
    ]
    plain = not any("globalOffsets" in region["value"] for region in regions)
    source_name = str(regions[0].get("to_name", "text"))
    text = text_among(fields, source_name, quoted) if plain else None  # others are of pages, whose marks do not count
    place = counted_by(text, quoted)
    return Document(text), [(place(start), place(end), label) for start, end, label in said]


def choice_name(choice: Any) -> Any:
    """A choice as one label: a path through a taxonomy is joined."""
    return path_name(choice) if isinstance(choice, list) else choice


def _pixels(size: tuple[float, float] | None, x: float, y: float) -> tuple[float, float]:
    """A point in pixels; it is given in per cent of the image, and stays so where its size is unknown."""
    return (x, y) if size is None else (x * size[0] / 100, y * size[1] / 100)


def _labels(value: Mapping[str, Any], kind: str) -> list[Any]:
    """The labels of a region, which may have several; None alone where it has none."""
    labels = value.get(kind) or value.get("labels") or [None]
    return labels if isinstance(labels, list) else [labels]


READER = Reader(NAME, "tasks with 'data' and 'annotations'", lambda file: file.is_json and knows(file.rows), answers)
