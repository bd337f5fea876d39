"""Label Studio as CSV or JSON-MIN: one annotation per row, fields of the task and results side by side.

Facts from Label Studio's converter: a row has the fields of the task, its ``id``, the results by the name of their
control, ``annotator``, ``annotation_id``, ``created_at``, ``updated_at`` and ``lead_time``. A single choice or a single
text is a string, several choices are ``{"choices": [...]}``, and all else is a list of regions without their type; in
CSV these are JSON. Nothing specifies which columns are fields and which are results.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import argument
from manyhands.io.exports import label_studio
from manyhands.io.exports.export import Part
from manyhands.io.exports.files import ExportFile, Reader

NAME = "label-studio-rows"
_TELLING = ("id", "annotation_id", "annotator", "lead_time")
_ABOUT = (*_TELLING, "created_at", "updated_at", "agreement")
#: Where the file and the id of a row's task are kept: no column has this name.
_TASK = "\0task"
#: The field of a region that shows its type, and the type.
_TYPES = {
    name: name
    for name in (
        "choices",
        "taxonomy",
        "rating",
        "number",
        "labels",
        "hypertextlabels",
        "paragraphlabels",
        "timeserieslabels",
        "timelinelabels",
        "videolabels",
        "rectanglelabels",
        "polygonlabels",
        "brushlabels",
        "ellipselabels",
        "keypointlabels",
    )
} | {"selected": "pairwise", "ranker": "ranker", "datetime": "datetime"}
#: A text that is longer was written, and not chosen.
_LONGEST_CHOICE = 100


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield what the annotations of a project say: rows are put together to tasks, and read as these are.

    A column of regions is a result, and so is one whose values differ between annotations of a task. A column with one
    value per task may be either: it is a field if every task has another value, and otherwise listed among the
    questions, to be chosen from.
    """
    # Ids of other projects' tasks may be the same: files are looked at one by one.
    rows = [
        {name: _value(file, cell) for name, cell in row.items()} | {_TASK: (file.where, str(row.get("id")))}
        for file in files
        for row in file.rows
    ]
    results = {name: _textual(rows, name) for name in _names(rows) if _is_result(rows, name)}
    if not results:
        raise ValueError(
            f"{files[0].where}: no column of this Label Studio export is a result: each has one value per task, and "
            f"another for every task; name the columns: {argument('task', 'id')}, "
            f"{argument('worker', 'annotator')}, {argument('label')}"
        )
    project = []
    for file in files:
        tasks: dict[str, dict[str, Any]] = {}
        for row in file.rows:
            row = {name: _value(file, cell) for name, cell in row.items()}
            task = tasks.setdefault(str(row["id"]), {"id": row["id"], "data": {}, "annotations": []})
            task["data"] |= {name: cell for name, cell in row.items() if name not in (*_ABOUT, *results)}
            regions = [
                region | {"from_name": name}
                for name, textual in results.items()
                for region in _regions(row.get(name), textual)
            ]
            task["annotations"].append(
                {
                    "completed_by": row.get("annotator"),
                    "created_at": row.get("created_at"),
                    "lead_time": _seconds(row.get("lead_time")),
                    "result": regions,
                }
            )
        as_tasks = copy.copy(file)
        vars(as_tasks)["rows"] = list(tasks.values())
        project.append(as_tasks)
    yield from label_studio.answers(project)


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for name in dict.fromkeys(name for row in rows for name in row) if name not in (*_ABOUT, _TASK)]


def _value(file: ExportFile, cell: Any) -> Any:
    """A cell of a CSV file that is JSON, parsed; all others as they are."""
    if not file.is_table or not isinstance(cell, str) or cell.lstrip()[:1] not in ("[", "{"):
        return cell
    try:
        return json.loads(cell)
    except (json.JSONDecodeError, RecursionError):
        return cell


def _seconds(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _is_result(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    cells = [(row[_TASK], row.get(name)) for row in rows]
    filled = [(task, cell) for task, cell in cells if cell not in (None, "", [])]
    if any(_of_regions(cell) for _, cell in filled):
        return True
    if not filled or any(isinstance(cell, list | Mapping) for _, cell in filled):
        return False
    by_task: dict[Any, set[str]] = {}
    for task, cell in cells:
        by_task.setdefault(task, set()).add("" if cell is None else str(cell))
    if any(len(values) > 1 for values in by_task.values()):
        return True
    return len({str(cell) for _, cell in filled}) < len({task for (_, task), _ in filled})


def _of_regions(cell: Any) -> bool:
    parts = cell if isinstance(cell, list) else [cell]
    return any(isinstance(part, Mapping) and _type_of(part) is not None for part in parts)


def _type_of(region: Mapping[str, Any]) -> str | None:
    kind_known = next((kind for field, kind in _TYPES.items() if field in region), None)
    if kind_known is None and set(region) <= {"text", "meta"} and isinstance(region.get("text"), list):
        return "textarea"
    if kind_known is None and {"x", "y", "width", "height"} <= set(region):
        return "rectangle"
    if kind_known is None and {"original_width", "points"} <= set(region):
        return "polygon"
    return kind_known


def _textual(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether the strings of a column were written: some are long, or of several lines."""
    cells = [row.get(name) for row in rows]
    return any(isinstance(cell, str) and (len(cell) > _LONGEST_CHOICE or "\n" in cell.strip()) for cell in cells)


def _regions(cell: Any, textual: bool) -> Iterator[dict[str, Any]]:
    """Yield the regions of a cell, as the full export has them."""
    for part in cell if isinstance(cell, list) else [cell]:
        if isinstance(part, Mapping):
            kind = _type_of(part) or "unknown"
            sizes = {key: part[key] for key in ("original_width", "original_height") if key in part}
            yield {"type": kind, "value": dict(part), **sizes}
        elif part not in (None, ""):
            value = {"text": [part]} if textual else {"choices": [part]}
            yield {"type": "textarea" if textual else "choices", "value": value}


def _recognizes(file: ExportFile) -> bool:
    if file.is_table:
        return all(name in file.columns for name in _TELLING)
    rows = file.rows if file.is_json else []
    return bool(rows) and all(
        isinstance(row, Mapping) and "data" not in row and all(name in row for name in _TELLING) for row in rows[:10]
    )


READER = Reader(NAME, f"fields {', '.join(_TELLING)}", _recognizes, answers)
