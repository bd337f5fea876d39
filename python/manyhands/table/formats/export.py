"""What an export of a labelling platform holds: answers to its questions, whatever their kind."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from manyhands.checks import counted, listed
from manyhands.errors import DataWarning
from manyhands.table import arrow
from manyhands.table.records import Records

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of what was said, by kind of answer; a kind with several values an answer has a row for each.
SAID: Mapping[str, tuple[str, ...]] = {
    "classes": ("label",),
    "numbers": ("value",),
    "comparisons": ("left", "right", "winner"),
    "rankings": ("item", "rank"),
    "sets": ("labels",),
    "texts": ("text",),
    "spans": ("start", "end", "label"),
    "boxes": ("x1", "y1", "x2", "y2", "label"),
    "shapes": ("shape", "label"),
}
#: Kinds of which one answer is any number of rows.
_MANY = ("rankings", "spans", "boxes", "shapes")

#: Kinds of which an answer without rows says something too: that there was nothing to see.
_SEEN_NOTHING = ("boxes",)

#: Who gave an answer of which the export does not say.
UNKNOWN = "unknown"

Status = Literal["given", "skipped", "rejected"]
Source = Literal["worker", "model", "gold"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer in an export: who said what to which question about which task, when, and whether it counts."""

    question: str
    kind: str
    task: Any
    worker: Any
    #: As `SAID` has it: one value, a tuple of values, or for kinds of many rows a list of tuples.
    said: Any
    when: Any = None
    seconds: float | None = None
    status: Status = "given"
    source: Source = "worker"

    def rows(self) -> list[tuple[Any, ...]]:
        """What was said, as rows of the columns of its kind."""
        if self.kind in _MANY:
            return list(self.said)
        return [self.said if isinstance(self.said, tuple) else (self.said,)]


@dataclass
class Export:
    """Answers of an export, by question."""

    #: What messages call the export: its path and format.
    name: str
    answers: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.answers:
            raise ValueError(f"{self.name} holds no answers: nothing was annotated, or it is another format")

    @property
    def questions(self) -> dict[str, str]:
        """The questions that were asked, and the kind of their answers, those with most answers first."""
        counts = Counter((answer.question, answer.kind) for answer in self.answers if answer.source == "worker")
        counts = counts or Counter((answer.question, answer.kind) for answer in self.answers)
        return {question: kind for (question, kind), _ in counts.most_common()}

    def question(self, asked: str | None = None) -> str:
        """Return the question that was asked for, or the only one there is."""
        known = self.questions
        if asked is not None:
            if asked not in known:
                raise ValueError(f"{self.name} has no question {asked!r}; it has {listed(list(known))}")
            return asked
        if len(known) > 1:
            shown = ", ".join(f"{question!r} ({kind})" for question, kind in known.items())
            raise ValueError(f"{self.name} holds several questions: choose one with question=; they are {shown}")
        return next(iter(known))

    def chosen(self, asked: str | None = None, *, predictions: bool = False) -> list[Answer]:
        """Return the answers to a question that count: by workers, and by models if they are asked for."""
        question = self.question(asked)
        wanted = ("worker", "model") if predictions else ("worker",)
        asked_of = [answer for answer in self.answers if answer.question == question]
        counting = [answer for answer in asked_of if answer.source in wanted]
        given = [answer for answer in counting if answer.status == "given"]
        left = Counter(answer.status for answer in counting if answer.status != "given")
        if left:
            shown = " and ".join(f"{n:,} {status}" for status, n in sorted(left.items()))
            warnings.warn(
                f"{self.name}: left out {shown} of {counted(len(counting), 'answer')}", DataWarning, stacklevel=3
            )
        if not given:
            models = sum(answer.source == "model" for answer in asked_of)
            hint = (
                f"; {counted(models, 'prediction')} of models can count as workers' (predictions=True)"
                if models
                else ""
            )
            raise ValueError(f"{self.name} holds no answer of a worker to {question!r}{hint}")
        nameless = sum(answer.worker == UNKNOWN for answer in given)
        if nameless == len(given):
            raise ValueError(
                f"{self.name} does not say who gave its answers to {question!r}; export it with its annotators, or "
                "make a table with a column of workers"
            )
        if nameless:
            warnings.warn(
                f"{self.name}: {counted(nameless, 'answer')} without an annotator count as those of one worker, "
                f"{UNKNOWN!r}",
                DataWarning,
                stacklevel=3,
            )
        return given

    def columns(
        self, asked: str | None = None, *, predictions: bool = False, all_rows: bool = False
    ) -> dict[str, list[Any]]:
        """Answers to a question as columns: task, worker, what was said; with `all_rows` all there is to know."""
        question = self.question(asked)
        kind = self.questions[question]
        found = (
            [answer for answer in self.answers if answer.question == question]
            if all_rows
            else self.chosen(question, predictions=predictions)
        )
        names = ("task", "worker", *SAID[kind], *(("when", "seconds", "status", "source") if all_rows else ()))
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for answer in found:
            for said in answer.rows() or ([(None,) * len(SAID[kind])] if all_rows or kind in _SEEN_NOTHING else []):
                row = (answer.task, answer.worker, *said)
                extra = (answer.when, answer.seconds, answer.status, answer.source) if all_rows else ()
                for name, value in zip(names, (*row, *extra), strict=True):
                    columns[name].append(value)
        return columns

    def table(self, asked: str | None = None, *, predictions: bool = False, **settings: Any) -> Records:
        """Make the table of a question's answers, of the kind they are."""
        question = self.question(asked)
        kind = self.questions[question]
        made: Any = Records._kinds.get(kind)
        if made is None or not hasattr(made, "from_frame"):
            raise ValueError(f"{self.name}: answers to {question!r} are {kind}: {cannot(kind)}")
        columns = self.columns(question, predictions=predictions)
        named: dict[str, Any] = {role: role for role in columns if role in (*made._roles, *made._options)}
        if kind == "boxes":
            corners = SAID[kind][:4]
            named = {role: role for role in named if role not in corners} | {"box": corners}
            if not any(label is not None for label in columns["label"]):
                del named["label"], columns["label"]
        table: Records = made.from_frame(columns, **named, **settings)
        return table

    def gold(self, asked: str | None = None) -> tuple[list[Any], list[Any]] | None:
        """Return tasks whose answer the export itself knows, and those answers; None where there are none."""
        question = self.question(asked)
        known = {
            answer.task: answer.rows()[0][0]
            for answer in self.answers
            if answer.source == "gold" and answer.question == question and answer.rows()
        }
        return (list(known), list(known.values())) if known else None

    def to_frame(self, asked: str | None = None) -> pa.Table:
        """Return all answers to a question, also those that do not count, with when, status and source."""
        columns = {
            name: values
            for name, values in self.columns(asked, all_rows=True).items()
            if any(v is not None for v in values)
        }
        return arrow.table({name: _as_column(values) for name, values in columns.items()})


def cannot(kind: str) -> str:
    """Say what can be done with answers of a kind that has no table of its own."""
    if kind == "spans":
        return (
            "they are aggregated with their texts, by mh.Sequences.from_spans in Python; `manyhands import` writes the "
            "spans to a table for it"
        )
    return "this version cannot aggregate them; `manyhands import` writes them to a table"


def _as_column(values: Iterable[Any]) -> Any:
    """Values as an Arrow column; what is mixed becomes text."""
    import pyarrow as pa

    values = list(values)
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values])


def one_or_set(labels: Any) -> tuple[str, Any]:
    """Tell whether an answer of one or several labels is a class or a set, and give it: one label alone is a class."""
    labels = list(labels)
    return ("classes", labels[0]) if len(labels) == 1 else ("sets", labels)


def _of_set(answer: Answer) -> bool:
    """Whether an answer shows that its question asks for sets; one that was skipped says nothing."""
    return answer.kind == "sets" and (answer.status == "given" or bool(answer.said))


def settled_kinds(answers: Iterable[Answer]) -> list[Answer]:
    """Give all answers to a question one kind: sets where any answer is a set."""
    from dataclasses import replace

    answers = list(answers)
    sets = {answer.question for answer in answers if _of_set(answer)}
    answers = [
        replace(answer, kind="classes", said=None) if answer.kind == "sets" and answer.question not in sets else answer
        for answer in answers
    ]
    return [
        replace(answer, kind="sets", said=[answer.said])
        if answer.question in sets and answer.kind == "classes"
        else answer
        for answer in answers
    ]
