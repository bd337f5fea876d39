"""Zooniverse: a CSV file with one classification of a subject per row, its answers as JSON in ``annotations``.

Facts from the classification exports of Panoptes: ``annotations`` is a list of tasks of the workflow, each with the
task's key, its question as ``task_label``, and a ``value``: a text for a single choice, a list of texts for several,
a list of marks with a tool for drawings, a list of choices for a survey, a list of tasks for a combination, null for a
question that was left out. ``user_name`` of a volunteer who was not logged in is ``not-logged-in-`` and a hash of the
network address. ``subject_data`` has the fields of the subject's manifest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from manyhands.errors import FileFormatError
from manyhands.io.exports.documents import parse_json
from manyhands.io.exports.export import Answer, Dropped, Item, Part, Source, Status
from manyhands.io.exports.files import ExportFile, Reader, rows_of

NAME = "zooniverse"
_TELLING = ("classification_id", "workflow_id", "annotations", "subject_ids")
_POINT, _BOX = ("x", "y"), ("x", "y", "width", "height")


@dataclass(frozen=True)
class _Task:
    """A task of a workflow that a volunteer answered about a subject."""

    key: str
    workflow: str
    label: str
    kind: str
    value: Any


@dataclass(frozen=True)
class _Classification:
    """One row: who classified which subject, and the tasks that were answered."""

    subject: str
    worker: Any
    when: Any
    seconds: float | None
    gold: bool
    tasks: tuple[_Task, ...]
    fields: Mapping[str, Any]


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield the answers to each task of each workflow; marks are points or boxes, those of other tools are dropped."""
    rows = [_classification(file, number, row) for file, number, row in rows_of(files)]
    names = _names(rows)
    numeric = _numeric(rows)
    drawing = _Drawings(rows)
    lost: Counter[tuple[str, str | None]] = Counter()
    for row in rows:
        for _, image in [(0, row.subject), *drawing.images(row.subject)]:
            yield Item(image, row.fields)
        sources: tuple[Source, ...] = ("worker", "gold") if row.gold else ("worker",)
        for task in row.tasks:
            question = names[task.workflow, task.key, task.label]
            for kind, value, status, part, about in _read_answers(task, row, drawing, numeric, lost, question):
                for source in sources:
                    yield Answer(
                        question if part is None else f"{question}.{part}",
                        kind,
                        about,
                        row.worker,
                        value,
                        row.when,
                        row.seconds,
                        status,
                        source,
                    )
    for (what, asked), count in (+lost).items():
        yield Dropped(what, count, asked)


def _classification(file: ExportFile, number: int, row: Mapping[str, Any]) -> _Classification:
    where = f"line {number + 1} of {file.where}"
    content = parse_json(row.get("annotations") or "[]", f"'annotations' in {where}")
    if not isinstance(content, list):
        raise FileFormatError(f"'annotations' in {where} is not a list")
    metadata = _object(row.get("metadata"), f"'metadata' in {where}")
    data = _object(row.get("subject_data"), f"'subject_data' in {where}")
    fields: Any = next(iter(data.values()), {})
    address = row.get("user_ip")
    name = row.get("user_name") or row.get("user_id") or (f"not-logged-in-{address}" if address else None)
    workflow = str(row.get("workflow_name") or row.get("workflow_id"))
    return _Classification(
        subject=str(row["subject_ids"]),
        worker=file.annotator(name),
        when=row.get("created_at"),
        seconds=_seconds(metadata),
        gold=str(row.get("gold_standard")).lower() == "true",
        tasks=tuple(task for one in content for task in _tasks(one, workflow, where)),
        fields={key: value for key, value in fields.items() if key != "retired"} if isinstance(fields, Mapping) else {},
    )


def _object(text: Any, where: str) -> Mapping[str, Any]:
    content = parse_json(text, where) if text else {}
    return content if isinstance(content, Mapping) else {}


def _seconds(metadata: Mapping[str, Any]) -> float | None:
    try:
        start, end = (datetime.fromisoformat(str(metadata[name])) for name in ("started_at", "finished_at"))
    except (KeyError, ValueError):
        return None
    return (end - start).total_seconds() if (start.tzinfo is None) == (end.tzinfo is None) else None


def _tasks(one: Any, workflow: str, where: str) -> Iterator[_Task]:
    """Yield a task, or the tasks within a combination of tasks."""
    if not isinstance(one, Mapping) or "value" not in one:
        raise FileFormatError(f"'annotations' in {where} has a task without a value: {str(one)[:60]}")
    value = one["value"]
    if isinstance(value, list) and value and all(isinstance(part, Mapping) and "task" in part for part in value):
        for part in value:
            yield from _tasks(part, workflow, where)
        return
    label = " ".join(str(one.get("task_label") or "").split())
    yield _Task(str(one.get("task")), workflow, label, str(one.get("taskType") or one.get("task_type") or ""), value)


def _names(rows: Sequence[_Classification]) -> dict[tuple[str, str, str], str]:
    """Name each question: by the task's key, with the workflow where there are several, with its text where it changed.

    A task that was edited between versions of a workflow is another question.
    """
    task_key = dict.fromkeys((task.workflow, task.key, task.label) for row in rows for task in row.tasks)
    workflows = {workflow for workflow, _, _ in task_key}
    texts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for workflow, key, label in task_key:
        texts[workflow, key].append(label)
    names = {}
    for workflow, key, label in task_key:
        name = f"{workflow}: {key}" if len(workflows) > 1 else key
        names[workflow, key, label] = f"{name} ({label[:60]})" if len(texts[workflow, key]) > 1 else name
    clash = [name for name, n in Counter(names.values()).items() if n > 1]
    return {
        task_key: f"{name} #{texts[task_key[:2]].index(task_key[2]) + 1}" if name in clash else name
        for task_key, name in names.items()
    }


def _numeric(rows: Sequence[_Classification]) -> set[tuple[str, str, str]]:
    """Questions whose values are all numbers, some with fractions, as those of sliders are."""
    numbers: dict[tuple[str, str, str], list[float | None]] = defaultdict(list)
    for row in rows:
        for task in row.tasks:
            if not isinstance(task.value, list | Mapping) and task.value is not None:
                number = None if isinstance(task.value, bool) else _number(task.value)
                numbers[task.workflow, task.key, task.label].append(number)
    return {
        key
        for key, values in numbers.items()
        if None not in values and not all(value.is_integer() for value in values if value is not None)
    }


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


class _Drawings:
    """What the drawing tasks of an export are: which of them have points and boxes, in which images of a subject."""

    def __init__(self, rows: Sequence[_Classification]) -> None:
        self.parts: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
        self.frames: dict[str, set[int]] = defaultdict(set)
        for row in rows:
            for task in row.tasks:
                for mark in _marks(task) or []:
                    part = _part(mark)
                    if part is not None:
                        self.parts[task.workflow, task.key, task.label][part] = None
                    self.frames[row.subject].add(_frame(mark))
        self.many = any(frame > 0 for frames in self.frames.values() for frame in frames)

    def images(self, subject: str) -> list[tuple[int, str]]:
        """Images of a subject that were drawn into, and the task that each is."""
        if not self.many:
            return [(0, subject)]
        return [(frame, f"{subject}#{frame}") for frame in sorted(self.frames[subject] or {0})]


def _marks(task: _Task) -> list[Mapping[str, Any]] | None:
    """Marks of a drawing task; None for a task of another type."""
    if not isinstance(task.value, list) or not task.value:
        return None
    are_marks = all(isinstance(one, Mapping) and not {"choice", "select_label"} & set(one) for one in task.value)
    return list(task.value) if are_marks else None


def _frame(mark: Mapping[str, Any]) -> int:
    frame = mark.get("frame", 0)
    return frame if isinstance(frame, int) else 0


def _part(mark: Mapping[str, Any]) -> str | None:
    """The kind of a mark: points or boxes; None for one of another tool."""
    sides = {name for name in ("x", "y", "width", "height", "r", "rx", "angle", "points") if mark.get(name) is not None}
    if sides == set(_POINT):
        return "points"
    return "boxes" if sides == set(_BOX) else None


_Said = tuple[str, Any, Status, str | None, Any]


def _read_answers(
    task: _Task,
    row: _Classification,
    drawing: _Drawings,
    numeric: set[tuple[str, str, str]],
    lost: Counter[tuple[str, str | None]],
    question: str,
) -> Iterator[_Said]:
    """Yield kind, content, status, part of the question and task of the answer; count what has no table."""
    key = (task.workflow, task.key, task.label)
    value = task.value
    if key in drawing.parts and (not value or _marks(task) is not None):
        status: Status = "skipped" if value is None else "given"
        for part in drawing.parts[key]:
            for frame, image in drawing.images(row.subject):
                marks = [one for one in value or [] if _part(one) == part and _frame(one) == frame]
                yield "boxes", [_sides(one, part) for one in marks], status, part, image
        others = sum(_part(one) is None for one in value or [])
        lost[f"marks of tools other than points and rectangles in task {task.key}", None] += others
        details = sum(bool(one.get("details")) for one in value or [])
        lost[
            f"marks with answers about the mark itself, in task {task.key} (the mark is read, the answers are not)",
            None,
        ] += details
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        if all("choice" in one for one in value):
            yield "multilabel", list(dict.fromkeys(str(one["choice"]) for one in value)), "given", None, row.subject
            more = sum(bool(one.get("answers")) for one in value)
            lost[
                "survey choices with answers about the choice (the choice is read, the answers are not)", question
            ] += more
        else:
            what = "drop-down lists" if any("select_label" in one for one in value) else "drawings"
            lost[f"answers to task {task.key} ({what} are not supported)", None] += 1
    elif isinstance(value, list):
        yield "multilabel", [str(one) for one in value], "given", None, row.subject
    elif isinstance(value, Mapping):
        lost[f"answers to task {task.key} (objects are not supported)", None] += 1
    elif value is None:
        yield "multilabel", [], "skipped", None, row.subject
    elif task.kind == "text":
        yield "texts", str(value), "given", None, row.subject
    elif key in numeric or task.kind == "slider":
        yield "numeric", _number(value), "given", None, row.subject
    else:
        yield "categorical", str(value), "given", None, row.subject


def _sides(mark: Mapping[str, Any], part: str) -> tuple[Any, ...]:
    x, y = float(mark["x"]), float(mark["y"])
    label = mark.get("tool_label", mark.get("tool"))
    if part == "points":
        return x, y, None, None, label
    return x, y, x + float(mark["width"]), y + float(mark["height"]), label


READER = Reader(
    NAME,
    f"columns {', '.join(_TELLING)}",
    lambda file: all(name in file.columns for name in _TELLING),
    answers,
)
