"""Exports that are tables with columns of their platform's: Mechanical Turk, CrowdFlower, Toloka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manyhands.table.formats.export import Answer, Dropped, Status
from manyhands.table.formats.files import ExportFile, Reader

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Sheet:
    """A platform's table: the columns that tell it, those of ids, and how to find questions and states."""

    name: str
    telling: tuple[str, ...]
    task: str
    worker: str
    #: From the columns to questions: the name of each, its column, and that of its gold.
    questions: Callable[[Sequence[str]], list[tuple[str, str, str | None]]]
    status: Callable[[Row], Status]
    when: str | None = None
    seconds: str | None = None

    def recognizes(self, file: ExportFile) -> bool:
        """Whether a file is a table of this platform, by its columns."""
        return all(name in file.columns for name in self.telling)

    def answers(self, files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
        """Yield all answers, and what is known of each task once."""
        rows = [(file, row) for file in files for row in file.rows]
        for question, column, gold in self.questions(
            list(dict.fromkeys(name for file in files for name in file.columns))
        ):
            kind = _kind(row.get(column) for _, row in rows)
            known = set()
            for file, row in rows:
                task = row.get(self.task)
                when = row.get(self.when) if self.when else None
                said = _said(row.get(column), kind)
                if said is not None:
                    seconds = _number(row.get(self.seconds)) if self.seconds else None
                    worker = file.annotator(row.get(self.worker))
                    yield Answer(question, kind, task, worker, said, when, seconds, self.status(row))
                if gold and _said(row.get(gold), kind) is not None and task not in known:
                    known.add(task)
                    yield Answer(question, kind, task, None, _said(row[gold], kind), source="gold")


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _kind(values: Iterator[Any]) -> str:
    """Numbers where all values are numbers and some have fractions, as in other logs; classes otherwise."""
    given = [value for value in values if value not in (None, "")]
    numbers = [_number(value) for value in given]
    whole = all(number is not None and number.is_integer() for number in numbers)
    return "classes" if not given or None in numbers or whole else "numbers"


def _said(value: Any, kind: str) -> Any:
    if value in (None, ""):
        return None
    return float(value) if kind == "numbers" else value


def _prefixed(prefix: str, gold: str | None = None) -> Callable[[Sequence[str]], list[tuple[str, str, str | None]]]:
    """Questions are the columns with a prefix, and their gold is under another."""

    def find(names: Sequence[str]) -> list[tuple[str, str, str | None]]:
        found = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        golden = {one: f"{gold}{one}" for one in found if gold is not None and f"{gold}{one}" in names}
        return [(one, f"{prefix}{one}", golden.get(one)) for one in found]

    return find


def _with_gold(names: Sequence[str]) -> list[tuple[str, str, str | None]]:
    """Questions of CrowdFlower: the columns that have one of gold beside them."""
    return [(name, name, f"{name}_gold") for name in names if f"{name}_gold" in names]


_TOLOKA: Mapping[Any, Status] = {"APPROVED": "given", "SUBMITTED": "given", "REJECTED": "rejected", None: "given"}

MTURK = Sheet(
    "mturk",
    ("HITId", "WorkerId", "AssignmentStatus"),
    "HITId",
    "WorkerId",
    _prefixed("Answer."),
    lambda row: "rejected" if row.get("AssignmentStatus") == "Rejected" or row.get("Reject") else "given",
    "SubmitTime",
    "WorkTimeInSeconds",
)
CROWDFLOWER = Sheet(
    "crowdflower",
    ("_unit_id", "_worker_id"),
    "_unit_id",
    "_worker_id",
    _with_gold,
    lambda row: "rejected" if str(row.get("_tainted")).lower() == "true" else "given",
    "_created_at",
)
TOLOKA = Sheet(
    "toloka",
    ("ASSIGNMENT:worker_id", "ASSIGNMENT:task_id"),
    "ASSIGNMENT:task_id",
    "ASSIGNMENT:worker_id",
    _prefixed("OUTPUT:", "GOLDEN:"),
    lambda row: _TOLOKA.get(row.get("ASSIGNMENT:status"), "skipped"),
    "ASSIGNMENT:submitted",
)
READERS = tuple(
    Reader(sheet.name, f"columns {', '.join(sheet.telling)}", sheet.recognizes, sheet.answers)
    for sheet in (MTURK, CROWDFLOWER, TOLOKA)
)
