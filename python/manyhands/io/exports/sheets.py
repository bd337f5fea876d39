"""Exports that are tables with columns of their platform's: Mechanical Turk, CrowdFlower, Toloka."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from manyhands._base.streams import padded_rows
from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Item, Part, Status, path_name
from manyhands.io.exports.files import ExportFile, Reader

Row = Mapping[str, Any]
#: What a row holds of a question: text, labels where they have columns of their own, or None where it is blank.
Cell = str | list[str] | None
#: The last part of a name that is numbered: coherence_2, text2.
_NUMBERED = re.compile(r"(.*?)[_.-]?(\d+)")


@dataclass(frozen=True)
class Question:
    """A question of a platform's table, and where its answers and its gold are in a row."""

    name: str
    cell: Callable[[Row], Cell]
    gold: Callable[[Row], Cell] | None = None
    #: Which of several items in one task it is about.
    item: int | None = None


@dataclass(frozen=True)
class Sheet:
    """A platform's table: the columns that identify it, those of ids, and how to find questions and states."""

    name: str
    telling: tuple[str, ...]
    worker: str
    #: From the columns and rows to the task of a row.
    tasks: Callable[[Sequence[str], Sequence[Row]], Callable[[Row], Any]]
    #: From the columns, rows and tasks to the questions; those of one name are about several items.
    questions: Callable[[Sequence[str], Sequence[Row], Callable[[Row], Any]], list[Question]]
    status: Callable[[Row], Status]
    when: str | None = None
    seconds: str | None = None
    #: What separates several labels in a cell.
    between: str | None = None
    #: Columns at the end of the header that rows may lack.
    optional: tuple[str, ...] = ()

    def recognizes(self, file: ExportFile) -> bool:
        """Whether a file is a table of this platform, by its columns."""
        return all(any(name.startswith(start) for name in file.columns) for start in self.telling)

    def answers(self, files: Sequence[ExportFile]) -> Iterator[Part]:
        """Yield all answers, blank ones as empty, and what is known of each task once."""
        rows = [(file, row) for file in files for row in self._rows(file)]
        bare = [row for _, row in rows]
        names = list(dict.fromkeys(name for file in files for name in file.columns))
        task = self.tasks(names, bare)
        questions: dict[str, list[Question]] = {}
        for question in self.questions(names, bare, task):
            questions.setdefault(question.name, []).append(question)
        question_names = {question.name for several in questions.values() for question in several}
        for row in bare:
            yield Item(task(row), _visible_fields(row, question_names))
        for several in questions.values():
            yield from self._answered(several, rows, task)

    def _rows(self, file: ExportFile) -> list[Row]:
        """Return the rows of a file, without blank lines; rows may lack optional columns at the end."""
        file.distinct_columns()
        try:
            rows: Sequence[Row] = file.rows
        except FileFormatError:
            padded = padded_rows(file.source, self.optional) if self.optional else None
            if padded is None:
                raise
            rows = padded
        return [row for row in rows if any(value not in (None, "") for value in row.values())]

    def _answered(
        self, questions: list[Question], rows: list[tuple[ExportFile, Row]], task: Callable[[Row], Any]
    ) -> Iterator[Part]:
        cells = [question.cell(row) for question in questions for _, row in rows]
        if all(cell is None for cell in cells):
            return
        kind = _kind(cells, self.between)
        names_seen = set()
        for question in questions:
            for file, row in rows:
                about = task(row) if question.item is None else path_name((task(row), question.item))
                answer = _read_answer(question.cell(row), kind, self.between)
                status = self.status(row)
                yield Answer(
                    question.name,
                    kind,
                    about,
                    file.annotator(row.get(self.worker)),
                    answer,
                    row.get(self.when) if self.when else None,
                    _number(row.get(self.seconds)) if self.seconds else None,
                    "empty" if answer is None and status == "given" else status,
                )
                gold = _read_answer(question.gold(row), kind, self.between) if question.gold else None
                if gold is not None and about not in names_seen:
                    names_seen.add(about)
                    yield Answer(question.name, kind, about, None, gold, source="gold")


def _visible_fields(row: Row, asked: Collection[str]) -> dict[str, Any]:
    """Fields of a row that workers see: the inputs, or all but the platform's own, the questions and their gold."""
    inputs = {name: value for name, value in row.items() if name.startswith(("Input.", "INPUT:"))}
    if inputs:
        return {name[len("Input.") :]: value for name, value in inputs.items()}
    return {
        name: value
        for name, value in row.items()
        if name.removesuffix("_gold") not in asked and not name.startswith(("_", "Answer.", "OUTPUT:", "GOLDEN:"))
    }


def _number(value: Any) -> float | None:
    """A finite number; a label such as ``nan`` or ``inf`` is not a number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _kind(cells: Iterable[Cell], between: str | None) -> str:
    """Sets where several labels are in a cell; numbers where all are numbers and some have fractions; else classes."""
    filled_cells = [cell for cell in cells if cell is not None]
    if any(isinstance(cell, list) for cell in filled_cells):
        return "multilabel" if any(len(cell) > 1 for cell in filled_cells) else "categorical"
    texts = [cell for cell in filled_cells if isinstance(cell, str)]
    if between is not None and _are_sets(texts, between):
        return "multilabel"
    numbers = [_number(text) for text in texts]
    whole = all(number is not None and number.is_integer() for number in numbers)
    return "categorical" if None in numbers or whole else "numeric"


def _are_sets(texts: Sequence[str], between: str) -> bool:
    """Whether texts are sets of labels: most parts of those with a separator occur in other answers, too."""
    parts = [set(_parts(text, between)) for text in texts]
    set_labels = {part for labels in parts if len(labels) > 1 for part in labels}
    counts = Counter(part for labels in parts for part in labels)
    return bool(set_labels) and 2 * sum(counts[part] > 1 for part in set_labels) >= len(set_labels)


def _parts(text: str, between: str) -> list[str]:
    return [part.strip() for part in text.split(between) if part.strip()]


def _read_answer(cell: Cell, kind: str, between: str | None) -> Any:
    if cell is None or cell == []:
        return None
    if isinstance(cell, list):
        return cell if kind == "multilabel" else cell[0]
    if kind == "multilabel":
        return _parts(cell, between) if between is not None else [cell]
    return float(cell) if kind == "numeric" else cell


# ------------------------------------------------------------------------------------------------ questions and tasks


def _cell(column: str) -> Callable[[Row], Cell]:
    def read(row: Row) -> Cell:
        value = row.get(column)
        return None if value in (None, "") else str(value)

    return read


def _column(name: str) -> Callable[[Sequence[str], Sequence[Row]], Callable[[Row], Any]]:
    """Tasks that have a column of their own."""
    return lambda names, rows: lambda row: row.get(name)


def _outputs(names: Sequence[str], rows: Sequence[Row], task: Callable[[Row], Any]) -> list[Question]:
    """Questions of Toloka: the columns of outputs, with gold under the same name."""
    outputs = [name.removeprefix("OUTPUT:") for name in names if name.startswith("OUTPUT:")]
    golden = {name: _cell(f"GOLDEN:{name}") for name in outputs if f"GOLDEN:{name}" in names}
    return [Question(name, _cell(f"OUTPUT:{name}"), golden.get(name)) for name in outputs]


def _input_or_id(names: Sequence[str], rows: Sequence[Row]) -> Callable[[Row], Any]:
    """Tasks of Toloka: their id, or, in files as the site writes them, all inputs, as few as tell tasks apart."""
    column = "ASSIGNMENT:task_id"
    if column in names:
        return lambda row: row.get(column)
    inputs = [name for name in names if name.startswith("INPUT:")]
    n_tasks = len({_values(row, inputs) for row in rows})
    starts = [inputs[:length] for length in range(1, len(inputs) + 1)]
    fewest = next((some for some in starts if len({_values(row, some) for row in rows}) == n_tasks), inputs)
    return lambda row: row.get(fewest[0]) if len(fewest) == 1 else path_name(_values(row, fewest))


def _values(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple("" if row.get(name) is None else row[name] for name in names)


def _filled_in(names: Sequence[str], rows: Sequence[Row], task: Callable[[Row], Any]) -> list[Question]:
    """Questions of CrowdFlower: columns with gold, and all that are not the platform's and differ within a unit."""
    questions = []
    plain = [name for name in names if not name.startswith(("_", "orig_")) and not name.endswith(_GOLDS)]
    for name in plain:
        gold = f"{name}_gold"
        if gold in names or _differs_within(rows, task, name):
            questions.append(Question(name, _cell(name), _cell(gold) if gold in names else None))
    return questions or [Question(name, _cell(name)) for name in plain]


_GOLDS = ("_gold", "_gold_reason")


def _differs_within(rows: Sequence[Row], task: Callable[[Row], Any], name: str) -> bool:
    first: dict[Any, Any] = {}
    return any(first.setdefault(task(row), row.get(name)) != row.get(name) for row in rows)


def _answer_fields(names: Sequence[str], rows: Sequence[Row], task: Callable[[Row], Any]) -> list[Question]:
    """Questions of Mechanical Turk: fields of the form, and groups of buttons or boxes that have a column each.

    Where inputs are numbered, a task shows several items: questions that are numbered like them are also one question
    about each item, called by a star in place of the number.
    """
    fields = [name.removeprefix("Answer.") for name in names if name.startswith("Answer.")]
    groups: dict[str, list[str]] = {}
    for field in fields:
        stem, dot, option = field.rpartition(".")
        if dot and option:
            groups.setdefault(stem, []).append(option)
    ticked = {
        stem: options
        for stem, options in groups.items()
        if len(options) > 1 and stem not in fields and _are_ticks(rows, [f"Answer.{stem}.{one}" for one in options])
    }
    single = [field for field in fields if field.rpartition(".")[0] not in ticked]
    questions = [Question(field, _cell(f"Answer.{field}")) for field in single]
    questions += [Question(stem, _ticks(f"Answer.{stem}.", options)) for stem, options in ticked.items()]
    return [*questions, *_about_items(questions, names)]


def _are_ticks(rows: Sequence[Row], columns: Sequence[str]) -> bool:
    values = {str(row[column]).lower() for row in rows for column in columns if row.get(column) not in (None, "")}
    return bool(values) and values <= {"true", "false"}


def _ticks(prefix: str, options: Sequence[str]) -> Callable[[Row], Cell]:
    def read(row: Row) -> Cell:
        return [one for one in options if str(row.get(prefix + one)).lower() == "true"] or None

    return read


def _about_items(asked: Sequence[Question], names: Sequence[str]) -> list[Question]:
    inputs: dict[str, set[int]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match and name.startswith("Input."):
            inputs.setdefault(match[1], set()).add(int(match[2]))
    items = set().union(*(numbers for numbers in inputs.values() if len(numbers) > 1))
    several: dict[str, list[Question]] = {}
    for question in asked:
        match = _NUMBERED.fullmatch(question.name)
        if match and match[1] and int(match[2]) in items:
            star = f"{question.name[: match.start(2)]}*"
            several.setdefault(star, []).append(replace(question, name=star, item=int(match[2])))
    return [question for group in several.values() if len(group) > 1 for question in group]


_TOLOKA: Mapping[Any, Status] = {"APPROVED": "given", "SUBMITTED": "given", "REJECTED": "rejected", None: "given"}

MTURK = Sheet(
    "mturk",
    ("HITId", "WorkerId", "AssignmentStatus"),
    "WorkerId",
    _column("HITId"),
    _answer_fields,
    lambda row: "rejected" if row.get("AssignmentStatus") == "Rejected" or row.get("Reject") else "given",
    "SubmitTime",
    "WorkTimeInSeconds",
    between="|",
    optional=("Approve", "Reject"),
)
CROWDFLOWER = Sheet(
    "crowdflower",
    ("_unit_id", "_worker_id"),
    "_worker_id",
    _column("_unit_id"),
    _filled_in,
    lambda row: "rejected" if str(row.get("_tainted")).lower() == "true" else "given",
    "_created_at",
    between="\n",
)
TOLOKA = Sheet(
    "toloka",
    ("ASSIGNMENT:worker_id", "INPUT:", "OUTPUT:"),
    "ASSIGNMENT:worker_id",
    _input_or_id,
    _outputs,
    lambda row: _TOLOKA.get(row.get("ASSIGNMENT:status"), "skipped"),
    "ASSIGNMENT:submitted",
)
READERS = tuple(
    Reader(sheet.name, f"columns {', '.join(sheet.telling)}", sheet.recognizes, sheet.answers, sep=sheet.between)
    for sheet in (MTURK, CROWDFLOWER, TOLOKA)
)
