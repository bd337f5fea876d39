"""What is asked about each kind of answers: the form of the question, valid answers, and what counts as right."""

from __future__ import annotations

import itertools
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import preview
from manyhands._base.names import Column, Names
from manyhands._base.spelling import did_you_mean

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Characters of an answer that is a text.
LONGEST = 100_000
#: Spans or labels of an answer.
MOST_PARTS = 10_000


class AnswerError(ValueError):
    """An answer that the kind does not have."""


class Question(ABC):
    """The question about each task of a fitted log.

    Parameters
    ----------
    model : estimator
        A fitted model.
    votes : table
        The answers it was fitted to.
    within : float, optional
        Numbers: the largest distance that counts as equal.
    """

    #: How the page asks.
    form: ClassVar[str] = ""
    #: Columns of gold in addition to the task.
    columns: ClassVar[tuple[str, ...]] = ("label",)
    #: What stands in the place of a task.
    noun: ClassVar[str] = "task"

    def __init__(self, model: Any, votes: Any, within: float | None = None) -> None:
        self.model, self.votes = model, votes
        self.names: Names = self._names()
        self.confidence: Floats = np.asarray(self._confidence(), np.float64)
        self._rows: dict[str, int] | None = None
        self._frame = votes.to_frame()
        self._starts: tuple[Ints, Ints] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def _names(self) -> Names:
        names: Names = self.model._about
        return names

    def _confidence(self) -> Any:
        return self.model.confidence_

    # -------------------------------------------------------------------------------------------------- tasks

    def task(self, row: int) -> Any:
        """The id of a task as JSON has it."""
        return plain(self.names.arrow()[row].as_py() if self.names.is_plain() else self.names.values[row])

    def row(self, task: Any) -> int:
        """The row of a task; raises for one that the log does not have."""
        if self._rows is None:
            self._rows = {key(plain(name)): row for row, name in enumerate(self.names.values.tolist())}
        row = self._rows.get(key(task), -1)
        if row < 0 and isinstance(task, str):
            # Ids in addresses are text.
            row = next((self._rows[one] for one in (task, *_as_number(task)) if one in self._rows), -1)
        if row < 0:
            some = (self.task(one) for one in range(min(len(self), 1000)))
            raise KeyError(f"the log has no {self.noun} {task!r}{did_you_mean(str(task), map(str, some))}")
        return row

    def shown(self, row: int) -> str | None:
        """What the task shows to annotators."""
        texts = self.names.shown
        return None if texts is None else texts[row].as_py()

    # ------------------------------------------------------------------------------------------------ answers

    def about(self) -> dict[str, Any]:
        """The form of the question, for the page."""
        return {"form": self.form, "kind": self.votes.kind}

    def content(self, row: int) -> dict[str, Any]:
        """What the page needs to ask about one task."""
        return {}

    @abstractmethod
    def parse(self, row: int, answer: Any) -> Any:
        """Check an answer and return it in the form that is stored; raises `AnswerError`."""

    @abstractmethod
    def proposed(self, row: int) -> Any:
        """The aggregated answer to a task, in the form that is stored."""

    def is_right(self, row: int, answer: Any) -> bool:
        """Whether the aggregated answer agrees with a decision."""
        return bool(self.proposed(row) == answer)

    def gold(self, row: int, answer: Any) -> list[dict[str, Any]]:
        """Rows of gold, without the task."""
        return [{self.columns[0]: answer}]

    # -------------------------------------------------------------------------------------------------- votes

    def given(self, row: int) -> list[dict[str, Any]]:
        """The answers of the annotators to a task: worker and answer."""
        order, starts = self._places()
        part = self._frame.take(order[starts[row] : starts[row + 1]])
        return [{name: plain(value) for name, value in one.items()} for one in self._without_task(part).to_pylist()]

    def wrong_votes(self, row: int, answer: Any) -> tuple[int, int] | None:
        """Votes on a task and those that differ from a decision; None where votes are not compared as wholes."""
        return None

    def _without_task(self, part: Any) -> Any:
        return part.drop_columns([part.column_names[0]])

    def _codes(self) -> Ints:
        """The row of the task of each line of the log."""
        return _codes_among(self.names, self._frame.column(0))

    def _places(self) -> tuple[Ints, Ints]:
        """Lines of the log in the order of tasks, and where those of each task begin."""
        if self._starts is None:
            self._starts = group_rows(self._codes(), len(self))
        return self._starts


class Classes(Question):
    """One of several classes."""

    form = "choice"

    def __init__(self, model: Any, votes: Any, within: float | None = None) -> None:
        super().__init__(model, votes, within)
        self.classes = [plain(one) for one in votes.classes.tolist()]
        self._code = {key(one): code for code, one in enumerate(self.classes)}
        self._proposed = votes._classes.find(model.answers_)
        task_codes, _, self._labels = votes.table.columns()
        self._task_codes = np.asarray(task_codes, np.int64)

    def about(self) -> dict[str, Any]:
        """The form of the question, for the page."""
        return super().about() | {"classes": self.classes, "ordered": bool(self.votes.ordered)}

    def parse(self, row: int, answer: Any) -> Any:
        """Return the class."""
        return self.classes[self._class(answer)]

    def _class(self, answer: Any) -> int:
        code = self._code.get(key(answer)) if _is_scalar(answer) else None
        if code is None:
            hint = did_you_mean(str(answer)[:100], map(str, self.classes))
            raise AnswerError(f"answer {_short(answer)} is not one of the classes {preview(self.classes, 10)}{hint}")
        return code

    def proposed(self, row: int) -> Any:
        """The aggregated class."""
        code = int(self._proposed[row])
        return self.classes[code] if code >= 0 else None

    def _codes(self) -> Ints:
        return self._task_codes

    def wrong_votes(self, row: int, answer: Any) -> tuple[int, int]:
        """Votes on a task, and those that differ from a decision."""
        order, starts = self._places()
        answers = self._labels[order[starts[row] : starts[row + 1]]]
        return len(answers), int((answers != self._class(answer)).sum())


class LabelSets(Question):
    """Any number of labels."""

    form = "labels"
    columns = ("labels",)

    def __init__(self, model: Any, votes: Any, within: float | None = None) -> None:
        super().__init__(model, votes, within)
        self.labels = [plain(one) for one in votes.labels.tolist()]
        self._place = {key(one): place for place, one in enumerate(self.labels)}
        self._answers = model.to_frame().column("labels")

    def about(self) -> dict[str, Any]:
        """The form of the question, for the page."""
        return super().about() | {"classes": self.labels}

    def parse(self, row: int, answer: Any) -> Any:
        """Return the labels in the order of the log's labels."""
        if not isinstance(answer, list) or len(answer) > MOST_PARTS:
            raise AnswerError("answer must be a list of labels")
        unknown = [one for one in answer if not _is_scalar(one) or key(one) not in self._place]
        if unknown:
            raise AnswerError(f"label {_short(unknown[0])} is not one of {preview(self.labels, 10)}")
        return [self.labels[place] for place in sorted({self._place[key(one)] for one in answer})]

    def proposed(self, row: int) -> Any:
        """The aggregated labels."""
        return self.parse(row, [plain(one) for one in self._answers[row].as_py()])

    def gold(self, row: int, answer: Any) -> list[dict[str, Any]]:
        """Rows of gold, without the task."""
        return [{"labels": "|".join(map(str, answer))}]

    def wrong_votes(self, row: int, answer: Any) -> tuple[int, int]:
        """Votes on a task, and those that differ from a decision."""
        answers = [{key(one) for one in vote["labels"]} for vote in self.given(row)]
        decision = {key(one) for one in answer}
        return len(answers), sum(one != decision for one in answers)


class Numbers(Question):
    """A number."""

    form = "number"
    columns = ("value",)

    def __init__(self, model: Any, votes: Any, within: float | None = None) -> None:
        super().__init__(model, votes, within)
        if getattr(votes, "n_dims", 1) != 1:
            raise ValueError("the desk asks for one number per task; the log holds vectors")
        self._values = np.asarray(model.answers_, np.float64)
        self._within = within

    def about(self) -> dict[str, Any]:
        """The form of the question, for the page."""
        answers = np.asarray(self.votes.values, np.float64)
        return super().about() | {"low": float(answers.min()), "high": float(answers.max()), "within": self._within}

    def parse(self, row: int, answer: Any) -> Any:
        """Return the number."""
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not math.isfinite(answer):
            raise AnswerError(f"answer must be a finite number, not {_short(answer)}")
        return float(answer)

    def proposed(self, row: int) -> Any:
        """The aggregated number."""
        return float(self._values[row])

    def is_right(self, row: int, answer: Any) -> bool:
        """Whether the aggregated number is close enough; without `within`, as close as it is precise."""
        within = self._within if self._within is not None else 1e-9 * max(1.0, abs(answer))
        return bool(abs(self.proposed(row) - answer) <= within)


class Written(Question):
    """A text."""

    form = "text"
    columns = ("text",)

    def __init__(self, model: Any, votes: Any, within: float | None = None) -> None:
        super().__init__(model, votes, within)
        self._texts = model.answers_

    def parse(self, row: int, answer: Any) -> Any:
        """Return the text with single spaces."""
        if not isinstance(answer, str) or len(answer) > LONGEST:
            raise AnswerError(f"answer must be a text of at most {LONGEST:,} characters")
        return _normalize(answer)

    def proposed(self, row: int) -> Any:
        """The aggregated text."""
        return _normalize(str(self._texts[row]))

    def wrong_votes(self, row: int, answer: Any) -> tuple[int, int]:
        """Votes on a task, and those that differ from a decision."""
        answers = [_normalize(str(vote["text"])) for vote in self.given(row)]
        return len(answers), sum(one != answer for one in answers)


class Spans(Question):
    """Labeled spans of tokens."""

    form = "spans"
    columns = ("start", "end", "tag")
    noun = "sequence"

    def __init__(self, model: Any, votes: Any, within: float | None = None) -> None:
        super().__init__(model, votes, within)
        self.types = [str(one) for one in votes.types.tolist()]
        self._grid = votes._grid
        self._proposed = _Grouped(model.spans_, self.names)
        self._marked = _Grouped(votes.spans(), self.names)

    def about(self) -> dict[str, Any]:
        """The form of the question, for the page."""
        return super().about() | {"classes": self.types}

    def content(self, row: int) -> dict[str, Any]:
        """The tokens, with the positions where they start and end."""
        begins, ends = self._bounds(row)
        text = self.shown(row) or ""
        words = text.split()
        if len(words) != len(begins):
            inside = bool(begins) and ends[-1] <= len(text)
            words = [text[a:b] if inside else str(a) for a, b in zip(begins, ends, strict=True)]
        return {"tokens": [list(one) for one in zip(begins, ends, words, strict=True)]}

    def in_text(self, row: int, answer: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Spans with the positions of characters in the text that the task shows, and their words."""
        text = self.shown(row) or ""
        starts, ends = self._characters(row)
        return [
            {**one, "start": start, "end": end, "text": text[start:end]}
            for one in answer
            for start, end in [(starts.get(one["start"], one["start"]), ends.get(one["end"], one["end"]))]
        ]

    def from_text(self, row: int, start: Any, end: Any) -> tuple[Any, Any]:
        """The positions of a span of characters as the log counts them."""
        starts, ends = ({place: token for token, place in one.items()} for one in self._characters(row))
        return (starts.get(start, start), ends.get(end, end)) if type(start) is type(end) is int else (start, end)

    def _characters(self, row: int) -> tuple[dict[int, int], dict[int, int]]:
        """Where each token starts and ends in the text, if the log counts tokens; else nothing."""
        begins, ends = self._bounds(row)
        words = list(re.finditer(r"\S+", self.shown(row) or ""))
        if begins != list(range(len(words))):
            return {}, {}
        return (
            {token: word.start() for token, word in zip(begins, words, strict=True)},
            {token: word.end() for token, word in zip(ends, words, strict=True)},
        )

    def _bounds(self, row: int) -> tuple[list[int], list[int]]:
        first = int(self._grid.starts[row])
        part = slice(first, first + int(self._grid.lengths[row]))
        return self._grid.begins[part].tolist(), self._grid.ends[part].tolist()

    def parse(self, row: int, answer: Any) -> Any:
        """Return the spans in their order; ends are exclusive."""
        begins, ends = map(set, self._bounds(row))
        if not isinstance(answer, list) or len(answer) > MOST_PARTS:
            raise AnswerError("answer must be a list of spans")
        spans = []
        for one in answer:
            if not isinstance(one, Mapping) or not all(type(one.get(name)) is int for name in ("start", "end")):
                raise AnswerError(f"a span must have whole numbers start and end and a tag, not {_short(one)}")
            if one["start"] not in begins or one["end"] not in ends or one["start"] >= one["end"]:
                raise AnswerError(
                    f"the span {one['start']}–{one['end']} does not begin and end with tokens of the task"
                )
            if one.get("tag") not in self.types:
                raise AnswerError(f"tag {_short(one.get('tag'))} is not one of {preview(self.types, 10)}")
            spans.append({name: one[name] for name in self.columns})
        spans.sort(key=_bounds_of)
        for one, following in itertools.pairwise(spans):
            if following["start"] < one["end"]:
                raise AnswerError(
                    f"spans {one['start']}–{one['end']} and {following['start']}–{following['end']} overlap"
                )
        return spans

    def proposed(self, row: int) -> Any:
        """The aggregated spans."""
        return self._listed(self._proposed.of(row))

    def _listed(self, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        spans = [{"start": int(one["start"]), "end": int(one["end"]), "tag": str(one["tag"])} for one in lines]
        return sorted(spans, key=_bounds_of)

    def gold(self, row: int, answer: Any) -> list[dict[str, Any]]:
        """Rows of gold, without the sequence; a sequence without spans has one row of nulls."""
        return answer or [dict.fromkeys(self.columns)]

    def given(self, row: int) -> list[dict[str, Any]]:
        """The spans that each annotator marked."""
        order, starts = self._places()
        part = self._frame.take(order[starts[row] : starts[row + 1]])
        marked = self._marked.of(row)
        workers = dict.fromkeys(part.column("worker").to_pylist())
        return [
            {"worker": plain(worker), "spans": self._listed([one for one in marked if one["worker"] == worker])}
            for worker in workers
        ]

    def wrong_votes(self, row: int, answer: Any) -> tuple[int, int]:
        """Votes on a task, and those that differ from a decision."""
        answers = self.given(row)
        return len(answers), sum(one["spans"] != answer for one in answers)


class Pairs(Question):
    """Which of two items is better, or neither."""

    form = "pair"
    columns = ("left", "right", "winner")
    noun = "pair"

    def _names(self) -> Names:
        frame = self.votes.to_frame()
        items = self.votes._items
        self.items = [plain(one) for one in items.values.tolist()]
        left, right = (_codes_among(items, frame.column(side)) for side in ("left", "right"))
        low, high = np.minimum(left, right), np.maximum(left, right)
        pairs, self._pair_of = np.unique(low * len(self.items) + high, return_inverse=True)
        self.low, self.high = pairs // len(self.items), pairs % len(self.items)
        ids = np.empty(len(pairs), object)
        ids[:] = [(self.items[a], self.items[b]) for a, b in zip(self.low.tolist(), self.high.tolist(), strict=True)]
        return Names(ids)

    def _confidence(self) -> Any:
        score = np.asarray(self.model.scores_, np.float64)
        place = {key(plain(one)): at for at, one in enumerate(self.model._about.values.tolist())}
        at = np.array([place[key(one)] for one in self.items], np.int64)
        gap = score[at[self.low]] - score[at[self.high]]
        self._winner = np.where(gap >= 0, self.low, self.high)
        return 1 / (1 + np.exp(-np.minimum(np.abs(gap), 700.0)))

    def task(self, row: int) -> Any:
        """The two items."""
        return [self.items[self.low[row]], self.items[self.high[row]]]

    def row(self, task: Any) -> int:
        """The row of a pair, in either order."""
        if isinstance(task, str):
            try:
                task = json.loads(task)
            except ValueError:
                task = None
        if isinstance(task, list) and len(task) == 2:
            for pair in (task, task[::-1]):
                try:
                    return super().row(pair)
                except KeyError:
                    continue
        raise KeyError(f"the log has no pair {task!r}; give a list of two items")

    def shown(self, row: int) -> str | None:
        """Nothing but the items."""
        return None

    def parse(self, row: int, answer: Any) -> Any:
        """Return the better item, or None for neither."""
        pair = self.task(row)
        if answer is None:
            return None
        if not _is_scalar(answer) or key(answer) not in map(key, pair):
            raise AnswerError(f"answer must be one of the two items {preview(pair)}, or null for neither")
        return pair[0] if key(answer) == key(pair[0]) else pair[1]

    def proposed(self, row: int) -> Any:
        """The item with the larger score."""
        return self.items[int(self._winner[row])]

    def gold(self, row: int, answer: Any) -> list[dict[str, Any]]:
        """Rows of gold; the winner of a tie is ``tie``."""
        left, right = self.task(row)
        return [{"left": left, "right": right, "winner": "tie" if answer is None else answer}]

    def _codes(self) -> Ints:
        return np.asarray(self._pair_of, np.int64)

    def _without_task(self, part: Any) -> Any:
        return part.drop_columns(["left", "right"])

    def wrong_votes(self, row: int, answer: Any) -> tuple[int, int]:
        """Votes on a pair, and those that differ from a decision."""
        answers = [vote["winner"] for vote in self.given(row)]
        return len(answers), sum(_key_or_none(one) != _key_or_none(answer) for one in answers)


class Shapes(Question):
    """Boxes or a mask, to accept or reject."""

    form = "accept"
    columns = ("right",)

    def __init__(self, model: Any, votes: Any, within: float | None = None) -> None:
        super().__init__(model, votes, within)
        frame = model.to_frame()
        self._masks = None if model._several_rows else frame.column("mask")
        self._boxes = _Grouped(frame, self.names) if model._several_rows else None

    def content(self, row: int) -> dict[str, Any]:
        """The shapes to draw."""
        if self._masks is not None:
            return {"mask": json.loads(self._masks[row].as_py())}
        assert self._boxes is not None
        names = ("x1", "y1", "x2", "y2", "label")
        return {"boxes": [{name: plain(one.get(name)) for name in names} for one in self._boxes.of(row)]}

    def parse(self, row: int, answer: Any) -> Any:
        """Return whether the shapes are accepted."""
        if not isinstance(answer, bool):
            raise AnswerError(f"answer must be true to accept or false to reject, not {_short(answer)}")
        return answer

    def proposed(self, row: int) -> Any:
        """The shapes are proposed as right."""
        return True


#: How each kind is asked.
_FORMS: dict[str, type[Question]] = {
    "categorical": Classes,
    "ordinal": Classes,
    "multilabel": LabelSets,
    "numeric": Numbers,
    "pairwise": Pairs,
    "sequences": Spans,
    "texts": Written,
    "boxes": Shapes,
    "masks": Shapes,
}


def question_of(model: Any, votes: Any, within: float | None = None) -> Question:
    """The question about the tasks of a fitted log; raises for kinds that a person cannot decide task by task."""
    kind = votes.kind
    if kind not in _FORMS:
        raise ValueError(f"the desk asks about {', '.join(_FORMS)} answers; the log holds {kind} answers")
    if within is not None and kind != "numeric":
        raise ValueError(f"within is for numbers; the log holds {kind} answers")
    if within is not None and not 0 <= within < math.inf:
        raise ValueError(f"within must be a finite number of at least 0, not {within}")
    return _FORMS[kind](model, votes, within)


def plain(value: Any) -> Any:
    """A value as JSON can hold it; numbers that JSON does not have become None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(one) for one in value]
    return str(value)


def key(value: Any) -> str:
    """What two equal ids have in common, whichever type JSON gave them."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else f"\0{json.dumps(value)}"


def group_rows(codes: Ints, n: int) -> tuple[Ints, Ints]:
    """Places sorted by code, and where each of n codes begins among them."""
    is_sorted = not (codes[1:] < codes[:-1]).any()
    order = np.arange(len(codes)) if is_sorted else np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(n + 1))


class _Grouped:
    """Lines of a frame by the task in its first column."""

    def __init__(self, frame: Any, names: Names) -> None:
        self._frame = frame
        self._order, self._starts = group_rows(_codes_among(names, frame.column(0)), len(names))

    def of(self, row: int) -> list[dict[str, Any]]:
        """The lines of a task."""
        lines: list[dict[str, Any]] = self._frame.take(
            self._order[self._starts[row] : self._starts[row + 1]]
        ).to_pylist()
        return lines


def _bounds_of(span: Mapping[str, Any]) -> tuple[int, int]:
    return span["start"], span["end"]


def _key_or_none(value: Any) -> str | None:
    return None if value is None else key(value)


def _as_number(text: str) -> list[str]:
    try:
        return [key(json.loads(text))]
    except ValueError:
        return []


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _normalize(text: str) -> str:
    return " ".join(text.split())


def _codes_among(names: Names, column: Any) -> Ints:
    """Codes of a column of ids among names."""
    if not len(column):
        return np.zeros(0, np.int64)
    codes, distinct = Column(column, "ids").encode()
    return names.match(distinct)[codes]
