"""What an export of a labeling platform holds: answers to its questions, whatever their kind."""

from __future__ import annotations

import json
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from manyhands._base import arrow
from manyhands._base.checks import plural, preview, warn_of_data
from manyhands._base.table import Records
from manyhands.errors import DataWarning, FileFormatError, argument
from manyhands.io.exports.documents import naming
from manyhands.io.exports.shapes import as_text, unite
from manyhands.io.exports.spans import Document, is_place
from manyhands.io.shown import COLUMN as SHOWN
from manyhands.io.shown import check_shows, chosen_field
from manyhands.masks.table import Masks
from manyhands.sequences.encode import OverlapError
from manyhands.sequences.table import Sequences
from manyhands.texts.words import token_offsets

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of the answer, by kind of answer; a kind with several values an answer has a row for each.
SAID: Mapping[str, tuple[str, ...]] = {
    "categorical": ("label",),
    "numeric": ("value",),
    "pairwise": ("left", "right", "winner"),
    "rankings": ("item", "rank"),
    "multilabel": ("labels",),
    "texts": ("text",),
    "sequences": ("start", "end", "label", "text"),
    "intervals": ("start", "end", "label"),
    "boxes": ("x1", "y1", "x2", "y2", "label"),
    "masks": ("mask", "label"),
    "shapes": ("shape", "label"),
}
#: Kinds of which one answer is any number of rows.
_MANY = ("rankings", "sequences", "intervals", "boxes", "masks", "shapes")

#: Kinds in which an answer without rows is an answer, too: that there was nothing to mark.
SEEN_NOTHING = ("sequences", "boxes", "masks")

#: Kinds of answers that are verdicts of judges; where a log has several, the first is taken.
VERDICTS = ("categorical", "numeric", "pairwise")
#: What may be known of a verdict besides task, worker, answer and criterion, in the order of columns.
EXTRAS = (
    "system",
    "item",
    "repeat",
    "cluster",
    "position",
    "length",
    "left_length",
    "right_length",
    "family",
    "annotator_kind",
    "when",
    "explanation",
    "failure",
)

#: What stands between the parts of a name.
_JOINT = " / "
#: Who gave an answer of which the export does not say.
UNKNOWN = "unknown"

Status = Literal["given", "skipped", "rejected", "empty", "several", "failed"]
#: How answers that do not count are reported, by status.
_NOT_COUNTED: Mapping[str, str] = {
    "skipped": "skipped answers",
    "rejected": "rejected answers",
    "empty": "answers without a label",
    "several": "answers with several labels",
    "failed": "verdicts that failed",
}
#: Why an answer that does not count is not a verdict of a judge, by status; rejected ones were taken back.
_FAILURES: Mapping[str, str] = {
    "skipped": "skipped",
    "empty": "without a label",
    "several": "several labels",
    "failed": "failed",
}
#: What questions about numbers are called where the same name has classes, too.
NUMBER = " (number)"
Source = Literal["worker", "model", "gold"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer in an export: annotator, question, task, value, time and status."""

    question: str
    kind: str
    task: Any
    worker: Any
    #: As `SAID` has it: one value, a tuple of values, or for kinds of several rows, a list of tuples.
    said: Any
    when: Any = None
    seconds: float | None = None
    status: Status = "given"
    source: Source = "worker"
    #: What spans are of.
    document: Document | None = None
    #: What else is known of a verdict, by the columns in `EXTRAS`.
    extra: Mapping[str, Any] | None = None

    def rows(self) -> list[tuple[Any, ...]]:
        """The answer, as rows of the columns of its kind."""
        if self.kind == "sequences":
            document = self.document or Document()
            return [(start, end, label, document.quoted(start, end)) for start, end, label in self.said]
        if self.kind == "masks":
            sizes = {label: region.size for region, label in self.said}
            return [(as_text(unite(self.said, label, size)), label) for label, size in sizes.items()]
        if self.kind in _MANY:
            return list(self.said)
        return [self.said if isinstance(self.said, tuple) else (self.said,)]


@dataclass(frozen=True, slots=True)
class Dropped:
    """Part of an export that no table can hold, and why; reported wherever answers are used."""

    #: What was dropped and why, in the plural: "ellipses (not supported)".
    what: str
    count: int = 1
    #: The question it would have answered; None if it concerns the whole export.
    question: str | None = None


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Why answers can be read in more than one way, and what the caller can do; they get no table."""

    reason: str
    #: The question; None if it concerns the whole export.
    question: str | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """What a task is about: fields that the platform shows to workers, such as a text or the address of an image."""

    task: Any
    fields: Mapping[str, Any]


#: What a reader yields.
Part = Answer | Dropped | Ambiguous | Item


@dataclass
class Export:
    """Answers of an export, by question."""

    #: What messages call the export: its path and format.
    name: str
    answers: list[Answer] = field(default_factory=list)
    #: What was in the files and is in none of the answers.
    dropped: list[Dropped] = field(default_factory=list)
    ambiguous: list[Ambiguous] = field(default_factory=list)
    n_files: int = 1
    #: Fields of tasks, by task.
    items: dict[Any, Mapping[str, Any]] = field(default_factory=dict)
    #: What separates several labels in one text, on this platform.
    sep: str | None = None

    def __post_init__(self) -> None:
        if not self.answers:
            lost = f" that can be read (dropped: {_tally(self.dropped)})" if self.dropped else ""
            raise ValueError(f"{self.name} holds no answers{lost}: nothing was annotated, or it is another format")

    @classmethod
    def of(cls, name: str, parts: Iterable[Part], n_files: int = 1, sep: str | None = None) -> Export:
        """Collect what a reader yields."""
        parts = list(parts)
        answers = settled_kinds(part for part in parts if isinstance(part, Answer))
        dropped = [part for part in parts if isinstance(part, Dropped)]
        items = {part.task: part.fields for part in parts if isinstance(part, Item)}
        ambiguous = [part for part in parts if isinstance(part, Ambiguous)]
        return cls(name, answers, dropped, ambiguous, n_files, items, sep)

    def shown(self, asked: str, tasks: Iterable[Any]) -> dict[Any, str]:
        """Return a field of tasks as text: the one that was asked for, or with ``"auto"`` the one workers see."""
        texts = {
            answer.task: {"text": answer.document.text}
            for answer in self.answers
            if answer.document is not None and answer.document.text is not None
        }
        texts_by_task = {str(task): text for task, text in chosen_field(texts | self.items, asked, self.name).items()}
        # Parts of an item are tasks of their own, called by the item and the part.
        texts_shown = {
            task: texts_by_task.get(str(task), texts_by_task.get(str(task).rpartition(_JOINT)[0])) for task in tasks
        }
        return {task: text for task, text in texts_shown.items() if text is not None}

    def left_out(self, asked: str | None = None, *, predictions: bool = False) -> dict[str, int]:
        """Count what the files hold of a question and its table does not, by reason."""
        question = self.question(asked)
        sources = ("worker", "model") if predictions else ("worker",)
        counts = Counter(
            answer.status
            for answer in self.answers
            if answer.question == question and answer.source in sources and answer.status != "given"
        )
        total: Counter[str] = Counter({_NOT_COUNTED[status]: n for status, n in sorted(counts.items())})
        for part in self.dropped:
            if part.question in (None, question):
                total[part.what] += part.count
        return dict(total)

    @property
    def questions(self) -> dict[str, str]:
        """The questions that were asked, and the kind of their answers, those with most answers first."""
        counts = Counter((answer.question, answer.kind) for answer in self.answers if answer.source == "worker")
        counts = counts or Counter((answer.question, answer.kind) for answer in self.answers)
        kinds: dict[str, str] = {}
        for (question, kind), _ in counts.most_common():
            kinds.setdefault(question, kind)
        return kinds

    def question(self, asked: str | None = None) -> str:
        """Return the question that was asked for, or the only one there is."""
        kinds = self.questions
        if asked is not None:
            if asked not in kinds:
                lost = [part for part in self.dropped if part.question == asked]
                if lost:
                    raise ValueError(f"{self.name}: no answer to {asked!r} can be read (dropped: {_tally(lost)})")
                raise ValueError(f"{self.name} has no question {asked!r}; it has {preview(list(kinds))}")
            return asked
        if len(kinds) > 1:
            listing = ", ".join(f"{question!r} ({kind})" for question, kind in kinds.items())
            raise ValueError(
                f"{self.name} holds several questions: choose one with {argument('question')}; they are {listing}"
            )
        return next(iter(kinds))

    def question_named(self, column: str, asked: str | None = None) -> str:
        """Return the question of a column that was named as the label, with or without the platform's prefix."""
        question = next((one for one in self.questions if column in (one, f"Answer.{one}", f"OUTPUT:{one}")), column)
        if asked is not None and asked != question:
            raise ValueError(
                f"{argument('label', column)} and {argument('question', asked)} name two questions of "
                f"{self.name}; name one"
            )
        return self.question(question)

    def chosen(self, asked: str | None = None, *, predictions: bool = False) -> list[Answer]:
        """Return the answers to a question that count: by workers, and by models if they are asked for."""
        question = self.question(asked)
        sources = ("worker", "model") if predictions else ("worker",)
        asked_of = [answer for answer in self.answers if answer.question == question]
        counting = [answer for answer in asked_of if answer.source in sources]
        answered = [answer for answer in counting if answer.status == "given"]
        for part in self.ambiguous:
            if part.question in (None, question):
                raise ValueError(f"{self.name}: {part.reason}")
        left = self.left_out(question, predictions=predictions)
        if left:
            reasons = ", ".join(f"{n:,} {what}" for what, n in left.items())
            n_kept = plural(len(answered), "answer")
            hint = (
                f" ({argument('kind', 'multilabel')} counts those without a label as empty sets)"
                if _NOT_COUNTED["empty"] in left
                else ""
            )
            warnings.warn(f"{self.name}: dropped {reasons}; {n_kept} left{hint}", DataWarning, stacklevel=3)
        if not answered:
            models = sum(answer.source == "model" for answer in asked_of)
            hint = (
                f"; {plural(models, 'prediction')} of models can count as workers' ({argument('predictions', True)})"
                if models
                else ""
            )
            raise ValueError(f"{self.name} holds no answer of a worker to {question!r}{hint}")
        kinds = {self.questions[question], *(answer.kind for answer in answered)}
        if len(kinds) > 1:
            raise ValueError(f"{self.name}: answers to {question!r} are of several kinds: {', '.join(sorted(kinds))}")
        nameless = sum(answer.worker == UNKNOWN for answer in answered)
        if nameless == len(answered):
            raise ValueError(
                f"{self.name} does not say who gave its answers to {question!r}; if each file is one annotator's, pass "
                f"{argument('worker_from_file', True)}, otherwise export it with its annotators"
            )
        if nameless:
            warnings.warn(
                f"{self.name}: {plural(nameless, 'answer')} without an annotator count as those of one worker, "
                f"{UNKNOWN!r}",
                DataWarning,
                stacklevel=3,
            )
        workers = {answer.worker for answer in answered}
        if self.n_files > 1 and len(workers) == 1:
            warn_of_data(
                f"{self.name}: {self.n_files:,} files, but one worker, {next(iter(workers))!r}; if each file is one "
                f"annotator's, pass {argument('worker_from_file', True)}"
            )
        return answered

    def as_kind(self, asked: str | None, kind: str, *, sep: str | None = None) -> Export:
        """Return the export with the answers to a question turned into another kind, if they can be.

        Classes become sets of the labels that `sep`, or the platform's mark, separates, or else of one label each.
        """
        question = self.question(asked)
        question_kind = self.questions[question]
        if kind == question_kind:
            return self
        turn = _TURNED.get((question_kind, kind))
        between = self.sep if sep is None else sep
        if (question_kind, kind) == ("categorical", "multilabel") and between is not None:
            turn = _split_at(between)
        if turn is None:
            raise ValueError(f"{self.name}: answers to {question!r} are {question_kind}, not {kind}")
        try:
            answers = [
                replace(turn(one), kind=kind) if one.question == question and one.kind == question_kind else one
                for one in self.answers
            ]
        except ValueError as error:
            raise ValueError(f"{self.name}: answers to {question!r} are {question_kind}, not {kind}: {error}") from None
        return replace(self, answers=answers)

    def columns(
        self, asked: str | None = None, *, predictions: bool = False, all_rows: bool = False
    ) -> dict[str, list[Any]]:
        """Answers to a question as columns: task, worker, the answer; with `all_rows` all there is to know."""
        question = self.question(asked)
        kind = self.questions[question]
        answers = (
            [answer for answer in self.answers if answer.question == question]
            if all_rows
            else self.chosen(question, predictions=predictions)
        )
        names = ("task", "worker", *SAID[kind], *(("when", "seconds", "status", "source") if all_rows else ()))
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for answer in answers:
            for values in answer.rows() or ([(None,) * len(SAID[kind])] if all_rows or kind in SEEN_NOTHING else []):
                row = (answer.task, answer.worker, *values)
                extra = (answer.when, answer.seconds, answer.status, answer.source) if all_rows else ()
                for name, value in zip(names, (*row, *extra), strict=True):
                    columns[name].append(value)
        return columns

    def verdict_columns(
        self, asked: str | None = None, kind: str | None = None, *, predictions: bool = False
    ) -> dict[str, list[Any]]:
        """Return all verdicts of one kind as columns, those that failed included; of all questions unless one is asked.

        Parameters
        ----------
        asked : str or None, default None
            A question; by default all whose answers are of the kind.
        kind : str or None, default None
            ``"categorical"``, ``"numeric"`` or ``"pairwise"``. By default the only one that there is, or classes.
        predictions : bool, default False
            Whether predictions of models count too.
        """
        for part in self.ambiguous:
            if asked is None or part.question in (None, asked):
                raise ValueError(f"{self.name}: {part.reason}")
        questions = self.questions
        questions_used = {self.question(asked): questions[self.question(asked)]} if asked is not None else questions
        kind = self._kind_of_verdicts(questions_used, kind)
        questions_used = {
            question: question_kind for question, question_kind in questions_used.items() if question_kind == kind
        }
        sources = ("worker", "model") if predictions else ("worker",)
        answers = [
            answer
            for answer in self.answers
            if answer.question in questions_used and answer.source in sources and answer.status != "rejected"
        ]
        if all(answer.worker == UNKNOWN for answer in answers):
            raise ValueError(f"{self.name} does not name the judges of its verdicts")
        lost = self.left_out(next(iter(questions_used))) if len(questions_used) == 1 else {}
        lost = {what: n for what, n in lost.items() if what not in {_NOT_COUNTED[status] for status in _FAILURES}}
        if lost:
            warn_of_data(f"{self.name}: dropped {', '.join(f'{n:,} {what}' for what, n in lost.items())}")
        columns: dict[str, list[Any]] = {name: [] for name in ("task", "worker", *SAID[kind])}
        extras: dict[str, list[Any]] = {name: [] for name in ("criterion", *EXTRAS)}
        for answer in answers:
            is_given = answer.status == "given"
            said = answer.rows()[0] if is_given else (None,) * len(SAID[kind])
            if kind == "pairwise" and not is_given:
                said = (*answer.said[:2], None)
            for name, value in zip(columns, (answer.task, answer.worker, *said), strict=True):
                columns[name].append(value)
            more = {"when": answer.when, **(answer.extra or {}), "criterion": answer.question.removesuffix(NUMBER)}
            more["failure"] = None if is_given else more.get("failure") or _FAILURES[answer.status]
            for name, values in extras.items():
                values.append(more.get(name))
        if len(questions_used) == 1:
            del extras["criterion"]
        return columns | {name: values for name, values in extras.items() if any(one is not None for one in values)}

    def _kind_of_verdicts(self, questions: Mapping[str, str], asked: str | None) -> str:
        kinds = [kind for kind in VERDICTS if kind in questions.values()]
        if asked is not None and asked not in kinds:
            listing = ", ".join(f"{question!r} ({kind})" for question, kind in questions.items())
            raise ValueError(f"{self.name}: {argument('kind', asked)} is not among its answers, which are {listing}")
        if not kinds:
            listing = ", ".join(f"{question!r} ({kind})" for question, kind in questions.items())
            raise ValueError(f"{self.name} holds no verdicts: they are {', '.join(VERDICTS)}, and it holds {listing}")
        if asked is None and len(kinds) > 1:
            warn_of_data(
                f"{self.name} holds {' and '.join(kinds)} verdicts; took the {kinds[0]} ones "
                f"({argument('kind', kinds[1])} takes the others)"
            )
        return kinds[0] if asked is None else asked

    def known(self, asked: str | None = None, kind: str | None = None) -> dict[str, list[Any]] | None:
        """Return the truth that the export holds for the verdicts of `verdict_columns`; None where it holds none."""
        questions = self.questions if asked is None else {self.question(asked): self.questions[self.question(asked)]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            kind = self._kind_of_verdicts(questions, kind)
        same_kind = [question for question, question_kind in questions.items() if question_kind == kind]
        truth_of = {
            (one.question, one.task): one.rows()[0][-1]
            for one in self.answers
            if one.source == "gold" and one.question in same_kind and one.status == "given" and one.kind == kind
        }
        if not truth_of:
            return None
        columns = {"task": [task for _, task in truth_of], SAID[kind][-1]: list(truth_of.values())}
        criteria = {"criterion": [question.removesuffix(NUMBER) for question, _ in truth_of]}
        return columns if len(same_kind) == 1 else columns | criteria

    def table(
        self, asked: str | None = None, *, predictions: bool = False, show: str | None = None, **settings: Any
    ) -> Records:
        """Make the table of a question's answers, of the kind they are."""
        with naming(self.name):
            table = self._table(asked, predictions=predictions, **settings)
            if show is None:
                return table
            check_shows(type(table))
            answers: Any = table
            result: Records = answers.showing(self.shown(show, answers.tasks.tolist()))
            return result

    def _table(self, asked: str | None = None, *, predictions: bool = False, **settings: Any) -> Records:
        question = self.question(asked)
        kind = self.questions[question]
        table_class: Any = Records._kinds.get(kind)
        if table_class is None or not hasattr(table_class, "from_frame"):
            raise ValueError(f"{self.name}: answers to {question!r} are {kind}: {CANNOT}")
        if kind == "sequences":
            return self._sequences(self.chosen(question, predictions=predictions), **settings)
        if kind == "masks":
            return self._masks(self.chosen(question, predictions=predictions), **settings)
        columns = self.columns(question, predictions=predictions)
        columns_given: dict[str, Any] = {role: role for role in columns if role in table_class.spec.roles}
        if kind == "boxes":
            corners = SAID[kind][:4]
            pointed = all(side is None for side in columns["x2"]) and any(side is not None for side in columns["x1"])
            columns_given = {role: role for role in columns_given if role not in corners} | {
                "box": corners[: 2 if pointed else 4]
            }
            if not any(label is not None for label in columns["label"]):
                del columns_given["label"], columns["label"]
        table: Records = table_class.from_frame(columns, **columns_given, **settings)
        return table

    def _sequences(self, given: list[Answer], *, repeats: str = "keep", **settings: Any) -> Sequences:
        """Make the table of spans: in tokens of the texts, or in characters where the export lacks a text."""
        if settings:
            raise ValueError(f"{next(iter(settings))}= is for a log with a row for each tag; {self.name} holds spans")
        given = self._once(given, repeats)
        for answer in given:
            for start, end, _ in answer.said:
                if not (is_place(start) and is_place(end)):
                    raise ValueError(
                        f"{self.name}: document {answer.task!r} has a span from {start!r} to {end!r}; places are whole "
                        "numbers, counted from 0"
                    )
        tokens = self._tokens(given)
        marked = [self._touching(answer, None if tokens is None else tokens[answer.task]) for answer in given]
        blank = sum(len(answer.said) - len(spans) for answer, spans in zip(given, marked, strict=True))
        if blank:
            warn_of_data(f"{self.name}: dropped {plural(blank, 'span')} without a token (only blanks are marked)")
        rows = [
            (answer.task, start, end, answer.worker, label)
            for answer, spans in zip(given, marked, strict=True)
            for start, end, label in spans or [(None, None, None)]
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        if all(label is None for label in columns[4]):
            columns.pop()
        try:
            return Sequences.from_spans(*columns, tokens=tokens)
        except OverlapError as overlap:
            kinds = list(dict.fromkeys(label for label in columns[-1] if label is not None))
            if len(columns) < 5 or len(kinds) < 2:
                raise
            warnings.warn(f"{self.name}: {overlap.what}; each tag has a layer of its own", DataWarning, stacklevel=3)
        # A worker who read a document read all of its layers.
        read = dict.fromkeys((answer.task, answer.worker) for answer in given)
        layered = [(*row, row[-1]) for row in rows if row[1] is not None]
        layered += [(task, None, None, worker, None, kind) for task, worker in read for kind in kinds]
        *columns, layers = (list(column) for column in zip(*layered, strict=True))
        return Sequences.from_spans(*columns, layer=layers, tokens=tokens)

    def _touching(self, answer: Answer, tokens: list[tuple[int, int]] | None) -> list[tuple[Any, ...]]:
        """Return the spans of an answer that touch a token, cut off behind the last one: texts may end in blanks."""
        if tokens is None:
            return list(answer.said)
        text = None if answer.document is None else answer.document.text
        last = tokens[-1][1]
        length = last if text is None else len(text)
        spans = []
        for start, end, label in answer.said:
            if end > length:
                raise ValueError(
                    f"{self.name}: the span from {start} to {end} goes beyond document {answer.task!r}, which has "
                    f"{length:,} characters"
                )
            first = bisect_right(tokens, start, key=lambda token: token[1])
            if end <= start or (first < len(tokens) and tokens[first][0] < end):
                spans.append((start, min(end, last) if start < last else end, label))
        return spans

    def _masks(self, given: list[Answer], **settings: Any) -> Masks:
        """Make the table of masks: one for each label of an image, empty by those who did not draw it there."""
        sizes: dict[Any, dict[Any, tuple[int, int]]] = {}
        for answer in given:
            for region, label in answer.said:
                sizes.setdefault(answer.task, {}).setdefault(label, region.size)
        lost = dict.fromkeys(answer.task for answer in given if answer.task not in sizes)
        if lost:
            warn_of_data(f"{self.name}: left out {plural(len(lost), 'image')} in which no worker drew anything")
        if not sizes:
            raise ValueError(f"{self.name}: no worker drew anything")
        several = len({label for labels in sizes.values() for label in labels}) > 1
        rows = [(answer, label) for answer in given for label in sizes.get(answer.task, ())]
        tasks = [path_name((answer.task, label)) if several else answer.task for answer, label in rows]
        masks = (self._mask(answer, label, sizes[answer.task][label]) for answer, label in rows)
        return Masks.from_arrays(tasks, [answer.worker for answer, _ in rows], masks, **settings)

    def _mask(self, answer: Answer, label: Any, size: tuple[int, int]) -> Any:
        try:
            return unite(answer.said, label, size)
        except ValueError as error:
            raise ValueError(f"{self.name}: image {answer.task!r} by worker {answer.worker!r}: {error}") from None

    def _once(self, given: list[Answer], repeats: str) -> list[Answer]:
        """One answer of each worker to each document."""
        ordered = given[::-1] if repeats == "last" else given
        latest: dict[tuple[Any, Any], Answer] = {}
        for answer in ordered:
            key = (answer.task, answer.worker)
            if key in latest and repeats not in ("first", "last"):
                raise ValueError(
                    f"{self.name}: worker {answer.worker!r} read document {answer.task!r} more than once; choose "
                    f"{argument('repeats', 'first')} or 'last'"
                )
            latest.setdefault(key, answer)
        return list(latest.values())[:: -1 if repeats == "last" else 1]

    def _tokens(self, given: list[Answer]) -> dict[Any, list[tuple[int, int]]] | None:
        """Tokens of each document: the platform's, or words and signs; None where a document with spans has no text."""
        tokens_of: dict[Any, list[tuple[int, int]]] = {}
        texts: dict[Any, Document] = {}
        for answer in given:
            document = answer.document
            if document is None or (document.text is None and document.tokens is None):
                continue
            if texts.setdefault(answer.task, document) != document:
                raise ValueError(f"{self.name}: document {answer.task!r} has two texts, and places mean one of them")
            if answer.task not in tokens_of:
                cut = document.tokens or token_offsets(document.text or "")
                tokens_of[answer.task] = [*cut] or [(0, 1)]
        tasks = dict.fromkeys(answer.task for answer in given)
        lacking = dict.fromkeys(answer.task for answer in given if answer.said and answer.task not in tokens_of)
        if not lacking:
            return {task: tokens_of.get(task, [(0, 1)]) for task in tasks}
        if tokens_of:
            warnings.warn(
                f"{self.name}: {plural(len(lacking), 'document')} of {len(tasks):,} without a text "
                f"({preview(list(lacking))}): each character of all is a token",
                DataWarning,
                stacklevel=4,
            )
        return None

    def gold(self, asked: str | None = None) -> pa.Table | None:
        """Return the known answers in the export, with a column of tasks; None if it has none."""
        question = self.question(asked)
        names = ("task", *SAID[self.questions[question]])
        gold_of = {
            one.task: one
            for one in self.answers
            if one.source == "gold" and one.question == question and one.status == "given"
        }
        nothing = [(None,) * (len(names) - 1)] if self.questions[question] in SEEN_NOTHING else []
        rows = [(task, *values) for task, answer in gold_of.items() for values in answer.rows() or nothing]
        if not rows:
            return None
        return arrow.table({name: as_column(part) for name, part in zip(names, zip(*rows, strict=True), strict=True)})

    def to_frame(self, asked: str | None = None, show: str | None = None) -> pa.Table:
        """Return all answers to a question, also those that do not count, with when, status and source."""
        columns = {
            name: values
            for name, values in self.columns(asked, all_rows=True).items()
            if any(v is not None for v in values)
        }
        if show is not None:
            texts = self.shown(show, columns["task"])
            columns[SHOWN] = [texts.get(task) for task in columns["task"]]
        return arrow.table({name: as_column(values) for name, values in columns.items()})


def _tally(parts: Iterable[Dropped]) -> str:
    total: Counter[str] = Counter()
    for part in parts:
        total[part.what] += part.count
    return ", ".join(f"{n:,} {what}" for what, n in total.items())


#: What can be done with answers of a kind that has no table of its own.
CANNOT = "this version cannot aggregate them; `manyhands import` writes them to a table"


def as_column(values: Iterable[Any]) -> Any:
    """Values as an Arrow column; what is mixed becomes text."""
    import pyarrow as pa

    values = list(values)
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values])


def one_or_set(labels: Any) -> tuple[str, Any]:
    """Return the kind of an answer of one or several labels, and the answer: a single label is a class."""
    labels = list(labels)
    return ("categorical", labels[0]) if len(labels) == 1 else ("multilabel", labels)


def path_name(parts: Iterable[Any]) -> str:
    """Join names into one that no other names join into: a part that holds the separator is quoted."""
    texts = [str(part) for part in parts]
    return _JOINT.join(
        json.dumps(text, ensure_ascii=False) if _JOINT in text or text[:1] == '"' else text for text in texts
    )


def _with_nothing_marked(answers: list[Answer]) -> list[Answer]:
    """Take empty answers to questions about marks for what they are, and leave out questions without such answers."""
    marks = {answer.question: answer.kind for answer in answers if answer.kind in SEEN_NOTHING}
    answers = [
        replace(answer, kind=marks[answer.question])
        if answer.kind == "multilabel" and not answer.said and answer.question in marks
        else answer
        for answer in answers
    ]
    answered = {answer.question for answer in answers if answer.kind not in SEEN_NOTHING or answer.said}
    return [answer for answer in answers if answer.question in answered] or answers


def _refuse_odd(answer: Answer) -> None:
    """Raise for invalid ids, and for rows that lack columns."""
    for what, name in (("task", answer.task), ("worker", answer.worker)):
        if isinstance(name, list | dict):
            raise FileFormatError(f"{what} {str(name)[:60]} is a {type(name).__name__}, and no id")
    if answer.kind in ("numeric", "texts", "categorical") and isinstance(answer.said, list | dict):
        raise FileFormatError(f"task {answer.task!r}: {str(answer.said)[:60]} is not one value")
    width = len(SAID[answer.kind]) - (answer.kind == "sequences")
    for row in answer.said if answer.kind in _MANY else ():
        if len(row) != width or isinstance(row[-1], list | dict):
            raise FileFormatError(f"task {answer.task!r}: {str(row)[:60]} are not {', '.join(SAID[answer.kind])}")


def settled_kinds(answers: Iterable[Answer]) -> list[Answer]:
    """Give all answers to a question one kind: sets where any answer is a set, marks where any answer is marks."""
    answers = _with_nothing_marked(list(answers))
    for answer in answers:
        _refuse_odd(answer)
    sets = {answer.question for answer in answers if answer.kind == "multilabel" and answer.said}
    return [
        _as_set(answer)
        if answer.question in sets and answer.kind == "categorical"
        else _as_class(answer)
        if answer.question not in sets and answer.kind == "multilabel"
        else answer
        for answer in answers
    ]


# ------------------------------------------------------------------------------------------------- conversions


def _as_set(answer: Answer) -> Answer:
    """A class as a set of one label; an answer without a label as the empty set."""
    if answer.status == "empty" or answer.said is None:
        return replace(
            answer, kind="multilabel", said=[], status="given" if answer.status == "empty" else answer.status
        )
    return replace(answer, kind="multilabel", said=[answer.said])


def _split_at(sep: str) -> Callable[[Answer], Answer]:
    """Turn classes into sets of the labels between separators."""

    def turn(answer: Answer) -> Answer:
        if not isinstance(answer.said, str):
            return _as_set(answer)
        return replace(
            answer, kind="multilabel", said=[part.strip() for part in answer.said.split(sep) if part.strip()]
        )

    return turn


def _as_class(answer: Answer) -> Answer:
    """A set of one label as a class; others cannot be one, and do not count."""
    labels = list(answer.said or [])
    if len(labels) == 1:
        return replace(answer, kind="categorical", said=labels[0])
    status: Status = "several" if labels else "empty"
    return replace(answer, kind="categorical", said=None, status=status if answer.status == "given" else answer.status)


def _number_as_class(answer: Answer) -> Answer:
    if answer.said is None:
        return answer
    if not float(answer.said).is_integer():
        raise ValueError(f"{answer.said} is not a whole number")
    return replace(answer, said=int(answer.said))


def _class_as_number(answer: Answer) -> Answer:
    return answer if answer.said is None else replace(answer, said=float(answer.said))


def _class_as_text(answer: Answer) -> Answer:
    return answer if answer.said is None else replace(answer, said=str(answer.said))


#: How answers of one kind become answers of another.
_TURNED: Mapping[tuple[str, str], Callable[[Answer], Answer]] = {
    ("categorical", "multilabel"): _as_set,
    ("multilabel", "categorical"): _as_class,
    ("numeric", "categorical"): _number_as_class,
    ("categorical", "numeric"): _class_as_number,
    ("texts", "categorical"): _class_as_text,
    ("categorical", "texts"): _class_as_text,
}
