"""Labelbox: NDJSON of export v2 with the labels of each data row, and the lines that its import takes.

Facts from Labelbox's documentation and samples: a row has ``data_row``, ``media_attributes`` and ``projects``, each of
these with ``labels``; a label has ``label_details`` with ``created_by``, ``performance_details`` with ``skipped``, and
``annotations`` with ``objects`` and ``classifications``. The place of a text entity is that of its first and of its
last character. Masks are addresses of images. Lines for the import have ``dataRow`` and one annotation each, and no
annotator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Dropped, Item, Part, Source, Status
from manyhands.io.exports.files import ExportFile, Reader, rows_of
from manyhands.io.exports.shapes import of_polygons, size_of
from manyhands.io.exports.spans import Document

NAME = "labelbox"
_KINDS = {"boxes": "boxes", "points": "boxes", "masks": "masks", "shapes": "shapes", "spans": "sequences"}


def _is_row(row: Any) -> bool:
    return isinstance(row, Mapping) and isinstance(row.get("data_row"), Mapping) and "projects" in row


def _is_line(row: Any) -> bool:
    return (
        isinstance(row, Mapping) and isinstance(row.get("dataRow"), Mapping) and bool({"schemaId", "name"} & set(row))
    )


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSON looks like such an export, or like lines for the import."""
    return bool(rows) and (all(map(_is_row, rows[:10])) or all(map(_is_line, rows[:10])))


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers: classifications by their names, objects by their forms with their names as labels."""
    labels: list[_Label] = []
    lost: Counter[str] = Counter()
    several = len({project for _, _, row in rows_of(files) if _is_row(row) for project in row["projects"]}) > 1
    name = _naming([row["data_row"] for _, _, row in rows_of(files) if _is_row(row)])
    for file, number, row in rows_of(files):
        where = f"row {number} of {file.where}"
        if not (_is_row(row) or _is_line(row)):
            raise FileFormatError(f"{where} has neither 'data_row' and 'projects' nor 'dataRow'")
        labels += (
            _labels_of_row(file, row, where, name, several=several)
            if _is_row(row)
            else [_label_of_line(file, row, where)]
        )
    labels = _join_lines(labels)
    forms = dict.fromkeys((label.project, form) for label in labels for form in label.objects(lost))
    for label in labels:
        if label.item:
            yield Item(label.task, label.item)
        yield from label.classified(lost)
        shapes = label.objects(Counter())
        matching_forms = [form for project, form in forms if project == label.project]
        for form in matching_forms if label.complete else shapes:
            yield label.answer(
                form, _KINDS[form], shapes.get(form, []), document=label.document if form == "spans" else None
            )
    for what, count in (+lost).items():
        yield Dropped(what, count)


class _Label:
    """Answers of one annotator to a data row."""

    def __init__(self, task: Any, worker: Any, where: str, *, complete: bool) -> None:
        self.task, self.worker, self.where = task, worker, where
        #: Whether an object that is missing was not there to see: lines of the import hold one annotation each.
        self.complete = complete
        self.features: list[Mapping[str, Any]] = []
        self.classifications: list[Mapping[str, Any]] = []
        self.when: Any = None
        self.seconds: float | None = None
        self.status: Status = "given"
        self.source: Source = "worker"
        self.size: tuple[int, int] | None = None
        self.document = Document()
        self.item: Mapping[str, Any] = {}
        #: The project, where there are several: their questions are different questions.
        self.project: str | None = None

    def answer(self, question: str, kind: str, said: Any, document: Document | None = None) -> Answer:
        return Answer(
            question if self.project is None else f"{self.project}: {question}",
            kind,
            self.task,
            self.worker,
            said,
            self.when,
            self.seconds,
            self.status,
            self.source,
            document,
        )

    def classified(self, lost: Counter[str]) -> Iterator[Answer]:
        """Yield the answers to questions about the whole data row."""
        for one in self.classifications:
            question = str(one.get("name") or one.get("schemaId"))
            answer = one.get("answer")
            if "radio_answer" in one or isinstance(answer, Mapping):
                choice = one.get("radio_answer", answer)
                yield self.answer(question, "categorical", _choices(choice))
                lost["classifications within a classification"] += len(choice.get("classifications") or [])
            elif "checklist_answers" in one or "checklist_answer" in one or isinstance(answer, list):
                several = one.get("checklist_answers", one.get("checklist_answer", answer)) or []
                yield self.answer(question, "multilabel", [_choices(part) for part in several])
                lost["classifications within a classification"] += sum(
                    len(part.get("classifications") or []) for part in several if isinstance(part, Mapping)
                )
            elif "text_answer" in one or isinstance(answer, str):
                text = one["text_answer"].get("content") if "text_answer" in one else answer
                yield self.answer(question, "texts", text)
            else:
                lost["classifications of other types"] += 1

    def objects(self, lost: Counter[str]) -> dict[str, list[Any]]:
        """What was drawn or marked, by form."""
        shapes_by_kind: dict[str, list[Any]] = {}
        for one in self.features:
            label = one.get("name") or one.get("schemaId")
            box = one.get("bounding_box") or one.get("bbox")
            place = one.get("location") or one.get("text_location")
            if isinstance(box, Mapping):
                left, top, width, height = (
                    _number(box, name, self.where) for name in ("left", "top", "width", "height")
                )
                shapes_by_kind.setdefault("boxes", []).append((left, top, left + width, top + height, label))
            elif isinstance(one.get("point"), Mapping):
                point = _point(one["point"], self.where)
                shapes_by_kind.setdefault("points", []).append((*point, None, None, label))
            elif isinstance(place, Mapping):
                shapes_by_kind.setdefault("spans", []).append((place.get("start"), _behind(place.get("end")), label))
            elif isinstance(one.get("polygon"), list) and self.size is not None:
                outline = [_point(point, self.where) for point in one["polygon"]]
                shapes_by_kind.setdefault("masks", []).append((of_polygons([outline], self.size, self.where), label))
            elif isinstance(one.get("line"), list):
                shapes_by_kind.setdefault("shapes", []).append(
                    (str([_point(point, self.where) for point in one["line"]]), label)
                )
            else:
                lost[_unread(one)] += 1
            lost["classifications of objects"] += len(one.get("classifications") or [])
        return shapes_by_kind


def _unread(one: Mapping[str, Any]) -> str:
    if isinstance(one.get("mask"), Mapping):
        return "masks (stored elsewhere, at an address)"
    if isinstance(one.get("polygon"), list):
        return "polygons in images of unknown size (export with media attributes)"
    return f"objects of kind {one.get('annotation_kind') or 'unknown'!r}"


def _choices(answer: Any) -> Any:
    if not isinstance(answer, Mapping):
        return answer
    return answer.get("name") or answer.get("value") or answer.get("schemaId") or None


def _behind(end: Any) -> Any:
    return end + 1 if isinstance(end, int) else end


def _number(given: Mapping[str, Any], name: str, where: str) -> float:
    try:
        return float(given[name])
    except (KeyError, TypeError, ValueError):
        raise FileFormatError(f"{where}: {name!r} of an object is {given.get(name)!r}, which is not a number") from None


def _point(given: Any, where: str) -> tuple[float, float]:
    if not isinstance(given, Mapping):
        raise FileFormatError(f"{where}: a point is an object with 'x' and 'y', not {str(given)[:40]}")
    return _number(given, "x", where), _number(given, "y", where)


def _naming(data_rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the field that names data rows: the first that all of them have, and that no two of them share."""
    ids = {row.get("id") for row in data_rows}
    for name in ("external_id", "global_key"):
        pairs = {(row.get("id"), row.get(name)) for row in data_rows}
        if all(value for _, value in pairs) and len({value for _, value in pairs}) == len(ids) == len(pairs):
            return name
    return "id"


def _labels_of_row(
    file: ExportFile, row: Mapping[str, Any], where: str, name: str, *, several: bool
) -> Iterator[_Label]:
    """Yield the labels of a data row of export v2."""
    about = row["data_row"]
    task = about.get(name)
    media = row.get("media_attributes") or {}
    content = about.get("row_data")
    for key, project in row["projects"].items():
        for one in project.get("labels") or []:
            details, effort = one.get("label_details") or {}, one.get("performance_details") or {}
            label = _Label(task, file.annotator(details.get("created_by")), where, complete=True)
            label.project = str(project.get("name") or key) if several else None
            label.when, label.seconds = details.get("created_at"), effort.get("seconds_to_create")
            label.status = "skipped" if effort.get("skipped") or one.get("skipped") else "given"
            label.source = "gold" if details.get("is_benchmark_reference") else "worker"
            label.size = size_of(media.get("height"), media.get("width"))
            label.item = {"row_data": content, "external_id": about.get("external_id")}
            if isinstance(content, str) and "://" not in content[:20]:
                label.document = Document(content)
            annotations = one.get("annotations") or {}
            label.features = list(annotations.get("objects") or [])
            label.classifications = list(annotations.get("classifications") or [])
            if annotations.get("frames"):
                raise FileFormatError(f"{where} is a label of a video, which is not read; export the frames as images")
            yield label


def _label_of_line(file: ExportFile, row: Mapping[str, Any], where: str) -> _Label:
    """Return the label of a line that Labelbox imports, which has one annotation and names no annotator."""
    data = row["dataRow"]
    label = _Label(data.get("globalKey") or data.get("id"), file.annotator(None), where, complete=False)
    (label.classifications if "answer" in row else label.features).append(row)
    label.source = "gold" if row.get("isBenchmarkReferenceLabel") else "worker"
    return label


def _join_lines(labels: list[_Label]) -> list[_Label]:
    """Put the lines of a data row together, of which each holds one annotation."""
    first: dict[tuple[Any, Any, Source], _Label] = {}
    merged_labels = []
    for label in labels:
        if (
            label.complete
            or (first_label := first.setdefault((label.task, label.worker, label.source), label)) is label
        ):
            merged_labels.append(label)
        else:
            first_label.features += label.features
            first_label.classifications += label.classifications
    return merged_labels


READER = Reader(
    NAME,
    "rows with 'data_row' and 'projects', or with 'dataRow'",
    lambda file: file.is_json and knows(file.rows),
    answers,
)
