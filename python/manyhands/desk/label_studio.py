"""What Label Studio's webhooks and ML backends ask, and logs that are aggregate_rows on request."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from importlib.metadata import version as version_of
from typing import Any
from xml.etree import ElementTree

from manyhands.desk.desk import ConflictError, Desk
from manyhands.desk.questions import AnswerError, plain
from manyhands.errors import spelling

#: Controls that can hold an answer, by the form of the question: tag, type of a result, name of its value.
_CONTROLS = {
    "choice": ("choices", "choices", "choices"),
    "labels": ("choices", "choices", "choices"),
    "number": ("number", "number", "number"),
    "text": ("textarea", "textarea", "text"),
    "spans": ("labels", "labels", "labels"),
}
#: Webhook actions that carry an annotation.
_ACTIONS = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED")
#: Characters of a labeling configuration.
_LONGEST = 1_000_000


def version() -> str:
    """The version that predictions are marked with."""
    return f"manyhands {version_of('manyhands')}"


def predict(desk: Desk, content: Mapping[str, Any]) -> dict[str, Any]:
    """Answer the request of an ML backend: one prediction per task, empty for tasks that the log does not have."""
    tasks = content.get("tasks")
    if not isinstance(tasks, list):
        raise ValueError("tasks must be a list")
    control = _control(desk, content.get("label_config"))
    return {"results": [_prediction(desk, _id(one), control) for one in tasks], "model_version": version()}


def _prediction(desk: Desk, task: Any, control: dict[str, str]) -> dict[str, Any]:
    question = desk.question
    try:
        row = question.row(task)
    except KeyError:
        return {"result": [], "score": 0.0, "model_version": version()}
    record = desk.decisions().get(row)
    answer = question.proposed(row) if record is None else record["answer"]
    sure = 1.0 if record is not None else float(question.confidence[row])
    tag, name = control["type"], control.pop("value", "") or _CONTROLS.get(question.form, ("", "", ""))[2]
    control["value"] = name
    where = {one: control[one] for one in ("from_name", "to_name")} | {"type": tag}
    return {
        "result": [{**where, "value": value} for value in _values(question, row, answer, name)],
        "score": sure if math.isfinite(sure) else 0.0,
        "model_version": version(),
    }


def _values(question: Any, row: int, answer: Any, name: str) -> list[dict[str, Any]]:
    """An answer as values of regions."""
    if question.form == "spans":
        spans = question.in_text(row, answer)
        return [{"start": one["start"], "end": one["end"], "text": one["text"], name: [one["tag"]]} for one in spans]
    if question.form == "number":
        return [{name: answer}]
    return [{name: [str(one) for one in (answer if isinstance(answer, list) else [answer])]}]


def _control(desk: Desk, config: Any) -> dict[str, str]:
    """Names of the control that takes the answers, from a labeling configuration."""
    form = desk.question.form
    if form not in _CONTROLS:
        raise ValueError(f"predictions for Label Studio are not made from {desk.question.votes.kind} answers")
    tag, kind, value = _CONTROLS[form]
    control = {"from_name": "label", "to_name": "text", "type": kind, "value": value}
    if config is None or config == "":
        return control
    if not isinstance(config, str) or len(config) > _LONGEST or "<!" in config.replace("<!--", ""):
        raise ValueError("label_config must be the XML of a labeling configuration, without declarations")
    try:
        root = ElementTree.fromstring(config)
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"label_config is not XML: {error}") from None
    for element in root.iter():
        if str(element.tag).lower() in (tag, "rating" if form == "number" else tag):
            attributes = element.attrib
            rating = str(element.tag).lower() == "rating"
            return {
                "from_name": attributes.get("name", "label"),
                "to_name": attributes.get("toName", "text"),
                "type": "rating" if rating else kind,
                "value": "rating" if rating else value,
            }
    raise ValueError(f"label_config has no control for these answers: a {tag} element")


def webhook(desk: Desk, content: Mapping[str, Any]) -> dict[str, Any]:
    """Take an annotation that is marked as ground truth for a decision; all else is acknowledged and left."""
    action, annotation = content.get("action"), content.get("annotation")
    if action not in _ACTIONS or not isinstance(annotation, Mapping):
        return {"recorded": False, "reason": f"only {' and '.join(_ACTIONS)} are recorded"}
    if annotation.get("ground_truth") is not True:
        return {"recorded": False, "reason": "the annotation is not marked as ground truth"}
    task = _id(content.get("task"))
    person = _person(annotation.get("completed_by"))
    row = desk.question.row(task)
    answer = _answer_of(desk, row, annotation.get("result"))
    record = desk.decisions().get(row)
    if record is not None:
        if record["answer"] == desk.question.parse(row, answer):
            return {"recorded": True}
        if record["client"] != "webhook":
            raise ConflictError(f"task {task!r} was decided at the desk already")
        raise ConflictError(f"task {task!r} has another decision; take that back first")
    desk.adjudicate(task, answer, by=person, client="webhook", why="webhook")
    return {"recorded": True}


def _answer_of(desk: Desk, row: int, result: Any) -> Any:
    """The answer in the regions of an annotation."""
    form = desk.question.form
    if form not in _CONTROLS:
        raise ValueError(f"{desk.question.votes.kind} answers are not taken from Label Studio")
    regions = [one for one in result if isinstance(one, Mapping)] if isinstance(result, list) else []
    values = [one["value"] for one in regions if isinstance(one.get("value"), Mapping)]
    if form == "spans":
        question: Any = desk.question
        return [
            {"start": start, "end": end, "tag": tag}
            for one in values
            for start, end in [question.from_text(row, one.get("start"), one.get("end"))]
            for tag in (one.get("labels") if isinstance(one.get("labels"), list) else [None])
        ]
    names = ("number", "rating") if form == "number" else (_CONTROLS[form][2],)
    contents = [one[name] for one in values for name in names if name in one]
    if form == "labels" and not contents:
        return []
    if len(contents) != 1:
        raise AnswerError(f"the annotation must have one answer, not {len(contents)}")
    (answer,) = contents
    if form in ("choice", "text") and isinstance(answer, list):
        if len(answer) != 1:
            raise AnswerError(f"the annotation must have one answer, not {len(answer)}")
        (answer,) = answer
    if form in ("choice", "labels"):
        answer = _as_classes(desk, answer)
    return answer


def _as_classes(desk: Desk, answer: Any) -> Any:
    """Classes in the type of the log: Label Studio writes all of them as text."""
    question: Any = desk.question
    by_text = {str(one): one for one in (question.classes if question.form == "choice" else question.labels)}
    if isinstance(answer, list):
        return [by_text.get(one, one) if isinstance(one, str) else one for one in answer]
    return by_text.get(answer, answer) if isinstance(answer, str) else answer


def _id(task: Any) -> Any:
    """The id of a task of Label Studio; of one that this desk exported, its own."""
    if not isinstance(task, Mapping):
        raise ValueError("a task must be an object with an id")
    data = task.get("data")
    if isinstance(data, Mapping) and isinstance(data.get("task"), str | int):
        return data["task"]
    if not isinstance(task.get("id"), str | int) or isinstance(task["id"], bool):
        raise ValueError("a task must have an id")
    return task["id"]


def _person(who: Any) -> str:
    if isinstance(who, Mapping):
        who = who.get("email") or who.get("id")
    return "" if who is None else str(who)[:200]


def aggregate_rows(rows: list[Mapping[str, Any]], kind: str | None) -> dict[str, Any]:
    """Aggregate rows of a log with the default method."""
    from manyhands._aggregate import aggregate

    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    nested = [name for name, column in columns.items() if any(isinstance(one, Mapping) for one in column)]
    if nested:
        raise ValueError(f"column {nested[0]!r} holds objects; values must be texts, numbers or lists")
    with warnings.catch_warnings(record=True) as messages, spelling(lambda name, value: name):
        warnings.simplefilter("always")
        model = aggregate(columns, kind=kind)
    return {
        "kind": model._kind,
        "answers": plain(model.to_frame().to_pylist()),
        "workers": plain(model.workers_frame().to_pylist()),
        "warnings": [str(one.message) for one in messages],
    }
