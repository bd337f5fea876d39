"""What leaves a desk: known answers, adjudicated answers, the trail, and files for labeling platforms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhands._base import arrow
from manyhands._base.atomic import atomic_write, check_output
from manyhands._base.checks import check_choice
from manyhands._base.write import write_table

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.desk.desk import Desk

#: What can be written.
PARTS = ("gold", "labels", "trail", "label-studio", "argilla")
#: The platforms, and the endings of their files.
_PLATFORMS = {"label-studio": (".json",), "argilla": (".json", ".jsonl")}
#: What a control of Label Studio is called, by the form of the question, and the name of its value.
_CONTROLS = {
    "choice": ("choices", "choices"),
    "labels": ("choices", "choices"),
    "number": ("number", "number"),
    "text": ("textarea", "text"),
    "pair": ("pairwise", "selected"),
    "spans": ("labels", "labels"),
}


def gold(desk: Desk) -> pa.Table:
    """Decisions that stand, as known answers."""
    rows = []
    for row, record in desk.decisions().items():
        rows += [{**_ids(desk, row), **one} for one in desk.question.gold(row, record["answer"])]
    return _frame(desk, rows, {})


def labels(desk: Desk) -> pa.Table:
    """Answers of all tasks, with decisions in the place of what was aggregated."""
    question, records = desk.question, desk.decisions()
    rows = []
    for row in range(len(question)):
        record = records.get(row)
        if record is None:
            answer, sure = question.proposed(row), question.confidence[row]
        else:
            answer, sure = record["answer"], 1.0
        more = {"confidence": float(sure), "decided": record is not None}
        rows += [{**_ids(desk, row), **one, **more} for one in question.gold(row, answer)]
    return _frame(desk, rows, {"confidence": float, "decided": bool})


def trail(desk: Desk) -> pa.Table:
    """Every record of the journal."""
    import pyarrow as pa

    records = desk.journal.records
    text = {name: [_text(one.get(name)) for one in records] for name in ("task", "before", "answer")}
    return arrow.table(
        {
            "n": pa.array([one["n"] for one in records], pa.int64()),
            "at": pa.array([one["at"] for one in records], pa.string()),
            "by": pa.array([one["by"] for one in records], pa.string()),
            "action": pa.array([one["do"] for one in records], pa.string()),
            "task": pa.array(text["task"], pa.string()),
            "before": pa.array(text["before"], pa.string()),
            "after": pa.array(text["answer"], pa.string()),
            "confidence": pa.array([one.get("confidence") for one in records], pa.float64()),
            "why": pa.array([one.get("why") for one in records], pa.string()),
            "note": pa.array([one.get("note") or None for one in records], pa.string()),
        }
    )


def check_export(path: str, part: str) -> None:
    """Raise unless a part can be written to a path."""
    check_choice("part", part, PARTS)
    endings = _PLATFORMS.get(part, (".csv", ".parquet"))
    if Path(path).suffix.lower() not in endings:
        raise ValueError(f"cannot write {path!r}: {part} takes files ending in {' or '.join(endings)}")
    check_output(path)


def export(desk: Desk, path: str, part: str = "gold", source: str | None = None, question: str | None = None) -> int:
    """Write what was decided.

    Parameters
    ----------
    desk : Desk
        The desk, which may be read only.
    path : str
        The file: ``.csv`` or ``.parquet``; ``.json`` for platforms, for Argilla also ``.jsonl``.
    part : {"gold", "labels", "trail", "label-studio", "argilla"}
        Decisions as known answers; answers of all tasks; the trail; decisions for a platform.
    source : str, optional
        The platform's export that the log came from: its content and names of controls are kept.
    question : str, optional
        Which question of it was answered, where it has several.

    Returns
    -------
    int
        How many rows or tasks were written.
    """
    check_export(path, part)
    if part not in _PLATFORMS:
        frame = {"gold": gold, "labels": labels, "trail": trail}[part](desk)
        write_table(frame, path)
        return int(frame.num_rows)
    records = _from_export(desk, source, part, question) if source is not None else _from_scratch(desk, part)
    lines = [json.dumps(one, ensure_ascii=False, allow_nan=False) for one in records]
    with atomic_write(path) as file:
        whole = "\n".join(lines) + "\n" if path.lower().endswith(".jsonl") else "[\n" + ",\n".join(lines) + "\n]\n"
        file.write_text(whole, "utf-8")
    return len(records)


class _Decided:
    """The decisions of a desk, as pre-annotations take a model."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def to_frame(self) -> pa.Table:
        """Task, answer and confidence of what was decided."""
        question, records = self._desk.question, self._desk.decisions()
        return arrow.table(
            {
                "task": [question.task(row) for row in records],
                question.columns[0]: [one["answer"] for one in records.values()],
                "confidence": [1.0] * len(records),
            }
        )


def _from_export(desk: Desk, source: str, platform: str, question: str | None) -> list[dict[str, Any]]:
    """Decisions in the tasks or records of an export."""
    from tempfile import TemporaryDirectory

    from manyhands.io.exports.preannotations import Preannotations

    if not desk.decisions():
        return []
    with TemporaryDirectory() as folder:
        part = str(Path(folder) / "part.json")
        Preannotations(source, question=question, format=platform).write(_Decided(desk), part, name="manyhands desk")
        records: list[dict[str, Any]] = json.loads(Path(part).read_text("utf-8"))
    if platform == "label-studio":
        for one in records:
            result = one.pop("predictions")[0]["result"]
            one["annotations"] = [{"result": result, "ground_truth": True, "was_cancelled": False}]
    return records


def _from_scratch(desk: Desk, platform: str) -> list[dict[str, Any]]:
    """Decisions as new tasks or records."""
    question = desk.question
    if question.form not in _CONTROLS:
        raise ValueError(f"{question.votes.kind} decisions accept or reject shapes, which {platform} has no answer for")
    if question.form == "pair" and platform == "argilla":
        raise ValueError("Argilla has no question type for pairs; export gold instead")
    make = _label_studio if platform == "label-studio" else _argilla
    return [make(desk, row, record) for row, record in desk.decisions().items()]


def _label_studio(desk: Desk, row: int, record: Mapping[str, Any]) -> dict[str, Any]:
    question: Any = desk.question
    answer = record["answer"]
    kind, name = _CONTROLS[question.form]
    control = {"from_name": "label", "to_name": "text", "type": kind}
    if question.form == "spans":
        spans = question.in_text(row, answer)
        values = [{"start": one["start"], "end": one["end"], "text": one["text"], name: [one["tag"]]} for one in spans]
    elif question.form == "pair":
        sides = question.task(row)
        values = [{name: "left" if answer == sides[0] else "right"}] if answer is not None else []
    elif question.form == "number":
        values = [{name: answer}]
    else:
        values = [{name: [str(one) for one in (answer if isinstance(answer, list) else [answer])]}]
    result = [{**control, "value": value} for value in values]
    annotation = {
        "result": result,
        "ground_truth": True,
        "was_cancelled": False,
    }
    # Label Studio rejects annotations by people who have no account there.
    data = {"task": _text(question.task(row)), "text": question.shown(row), "adjudicator": record["by"]}
    if question.form == "pair":
        data |= dict(zip(("left", "right"), map(_text, question.task(row)), strict=True))
    return {"data": data, "annotations": [annotation]}


def _argilla(desk: Desk, row: int, record: Mapping[str, Any]) -> dict[str, Any]:
    question: Any = desk.question
    answer = record["answer"]
    if question.form == "spans":
        spans = question.in_text(row, answer)
        answer = [{"start": one["start"], "end": one["end"], "label": one["tag"]} for one in spans]
    elif question.form == "labels" or (question.form == "choice" and not question.votes.ordered):
        answer = [str(one) for one in answer] if isinstance(answer, list) else str(answer)  # ratings alone are numbers
    suggestion = {"value": answer, "score": 1.0, "agent": record["by"] or "manyhands desk"}
    fields = {"text": question.shown(row) or _text(question.task(row))}
    name = "spans" if question.form == "spans" else question.columns[0]
    return {"id": _text(question.task(row)), "fields": fields, "suggestions": {name: suggestion}}


def _ids(desk: Desk, row: int) -> dict[str, Any]:
    question = desk.question
    return {} if question.form == "pair" else {question.noun: question.task(row)}


def _frame(desk: Desk, rows: list[dict[str, Any]], more: Mapping[str, type]) -> pa.Table:
    """Rows as a table; ids keep their type."""
    import pyarrow as pa

    question = desk.question
    types: dict[str, Any] = {"confidence": pa.float64(), "decided": pa.bool_(), "start": pa.int64(), "end": pa.int64()}
    types |= {"text": pa.string(), "labels": pa.string(), "tag": pa.string()}
    types |= {"right": pa.bool_()} if question.form == "accept" else {}
    names = [*((question.noun,) if question.form != "pair" else ()), *question.columns, *more]
    columns = {}
    for name in names:
        values = [one[name] for one in rows]
        if name not in types and len({type(one) for one in values if one is not None}) > 1:
            values = [_text(one) for one in values]
        columns[name] = pa.array(values, types.get(name))
    return arrow.table(columns)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
