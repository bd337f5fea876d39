"""Prodigy: one answer per line, with a session and accepted options, spans, or a label accepted or rejected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manyhands.errors import FileFormatError, argument
from manyhands.io.exports.export import Ambiguous, Answer, Dropped, Item, Part, Status, one_or_set
from manyhands.io.exports.files import ExportFile, Reader, rows_of
from manyhands.io.exports.shapes import of_polygons, size_of
from manyhands.io.exports.spans import Document, is_place

NAME = "prodigy"
#: Fields that may be shown to annotators.
_SHOWN = ("text", "html", "image", "audio", "video", "prompt", "path", "url")
_STATUS: Mapping[Any, Status] = {"accept": "given", "reject": "given", "ignore": "skipped"}
#: Sessions without a name are called by the time at which the server was started.
_BY_TIME = re.compile(r"(?:.*-)?\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")
#: Sets of options that are few enough to be questions, and questions that are too many.
_FEW = 10
_MOST_QUESTIONS = 200
#: An option: its id, and what annotators see of it.
_Option = tuple[Any, Any]


def knows(rows: list[Any]) -> bool:
    """Whether parsed JSONL looks like such an export."""
    return any(isinstance(row, Mapping) and "answer" in row and "_input_hash" in row for row in rows[:10])


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers of an export.

    The task is the input, since the same text may be asked about with other suggestions. An annotator who rejects a
    suggested label answers "no" to the question that the label is.
    """
    rows: list[tuple[ExportFile, Mapping[str, Any]]] = []
    for file, _, row in rows_of(files):
        if isinstance(row, Mapping) and row.get("_input_hash") is not None:
            rows.append((file, row))
        else:
            yield Dropped("lines without '_input_hash'")
    questions = _questions(rows)
    names = [_annotator(row) for _, row in rows]
    sessions = [name for name in names if _is_time(name)]
    unnamed = bool(sessions) and all(name is None or _is_time(name) for name in names)
    if unnamed and not files[0].worker_from_file:
        yield Ambiguous(
            f"session ids such as {sessions[0]!r} are times at which the server was started, not annotators; if each "
            f"file is one annotator's, pass {argument('worker_from_file', True)}, otherwise name sessions "
            "(?session=name)"
        )
    for (file, row), name in zip(rows, names, strict=True):
        # Sessions by time next to named ones are of unknown annotators.
        worker = file.annotator(None if _is_time(name) and not unnamed else name)
        yield Item(row["_input_hash"], {field: row[field] for field in _SHOWN if isinstance(row.get(field), str)})
        yield from _line(row, worker, questions)


def _annotator(row: Mapping[str, Any]) -> Any:
    return row.get("_annotator_id") or row.get("_session_id")


def _is_time(name: Any) -> bool:
    return isinstance(name, str) and _BY_TIME.fullmatch(name) is not None


def _line(row: Mapping[str, Any], worker: Any, questions: Mapping[frozenset[_Option], str]) -> Iterator[Part]:
    """Yield the answers of a line, and what of it no table can hold."""
    task, when = row["_input_hash"], row.get("_timestamp")
    status = _STATUS.get(row.get("answer"), "skipped")
    rejected = row.get("answer") == "reject"
    whole: Status = "rejected" if rejected else status
    view = str(row.get("_view_id", ""))
    if row.get("relations"):
        yield Dropped("relations (not supported)", len(row["relations"]))
    typed = row.get("user_input")
    if _is_choice(row):
        options = _options(row)
        accepted = row["accept"] if isinstance(row["accept"], list) else [row["accept"]]
        kind, value_read = one_or_set([_text(one, options) for one in accepted if one is not None])
        yield Answer(questions[frozenset(options)], kind, task, worker, value_read, when, None, whole)
    elif view == "image_manual":
        yield from _rectangles(row, task, worker, when, whole)
    elif "audio_spans" in row:
        times = [(one.get("start"), one.get("end"), one.get("label")) for one in _each(row, "audio_spans")]
        yield Answer("audio_spans", "intervals", task, worker, times, when, None, whole)
    elif view in ("ner_manual", "spans_manual") or ("spans" in row and view.startswith(("ner", "spans"))):
        # A line in which nothing was marked has no field for spans.
        spans = [(span.get("start"), span.get("end"), span.get("label")) for span in _each(row, "spans")]
        yield Answer("spans", "sequences", task, worker, spans, when, None, whole, document=_document(row))
    elif "label" in row:
        yield Answer(str(row["label"]), "categorical", task, worker, "no" if rejected else "yes", when, None, status)
    elif isinstance(typed, str):
        yield Answer("user_input", "texts", task, worker, typed, when, None, whole)
        return
    else:
        yield Answer("accept", "categorical", task, worker, "no" if rejected else "yes", when, None, status)
    if isinstance(typed, str) and typed:
        yield Dropped("texts typed next to another answer ('user_input')")


def _each(row: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = row.get(name) or []
    for one in items if isinstance(items, list) else [items]:
        if not isinstance(one, Mapping):
            raise FileFormatError(f"{name!r} of a line holds {str(one)[:60]}, which is not an object")
    return list(items)


# --------------------------------------------------------------------------------------------------------- options


def _is_choice(row: Mapping[str, Any]) -> bool:
    """Whether options were chosen among, also where the line does not have them."""
    return isinstance(row.get("accept"), list) or ("accept" in row and "options" in row)


def _options(row: Mapping[str, Any]) -> list[_Option]:
    """The options of a line as ids and texts; ids alone where two have the same text."""
    options = row["options"] if isinstance(row.get("options"), list) else []
    for one in options:
        if isinstance(one, Mapping) and isinstance(one.get("id"), list | dict):
            raise FileFormatError(f"an option has the id {str(one['id'])[:60]}, which is a {type(one['id']).__name__}")
    pairs = [(one.get("id"), one.get("text")) for one in options if isinstance(one, Mapping)]
    texts = [text for _, text in pairs]
    are_names = all(isinstance(text, str) and text for text in texts) and len(set(texts)) == len(texts)
    return pairs if are_names else [(name, None) for name, _ in pairs]


def _text(chosen: Any, options: Sequence[_Option]) -> Any:
    """What annotators saw of the option that was chosen."""
    return next((name if text is None else text for name, text in options if name == chosen), chosen)


def _questions(rows: Sequence[tuple[ExportFile, Mapping[str, Any]]]) -> dict[frozenset[_Option], str]:
    """The question that each set of options asks.

    Sets are of one question where they share at least half of their options: some may be added in time, or left out for
    an input. They are of two where an id has two texts, or where one annotator answered both about one input. Where
    every input has options of its own, as in a quiz, all are one question.
    """
    option_sets: dict[frozenset[_Option], set[Any]] = {}
    ordered: dict[frozenset[_Option], list[_Option]] = {}
    for file, row in rows:
        if _is_choice(row):
            options = _options(row)
            option_sets.setdefault(frozenset(options), set()).add((file.worker, _annotator(row), row["_input_hash"]))
            ordered.setdefault(frozenset(options), options)
    inputs = [{task for _, _, task in ones} for ones in option_sets.values()]
    alone = sum(map(len, inputs)) == len(set().union(*inputs))
    if alone and len(option_sets) > _FEW and 2 * len(option_sets) > sum(map(len, inputs)):
        return dict.fromkeys(option_sets, "choice")
    groups: list[_Group] = []
    group_of: dict[frozenset[_Option], int] = {}
    for options_of in sorted(option_sets, key=lambda one: -len(one)):
        fitting = (place for place, group in enumerate(groups) if group.takes(options_of, option_sets[options_of]))
        place = next(fitting, len(groups))
        if place == _MOST_QUESTIONS:
            raise FileFormatError(
                f"options differ from line to line, which are more than {_MOST_QUESTIONS} questions; make a table with "
                "columns task, worker and label"
            )
        if place == len(groups):
            groups.append(_Group(ordered[options_of]))
        groups[place].add(options_of, option_sets[options_of])
        group_of[options_of] = place
    names = _names([group.first for group in groups])
    return {options_of: names[place] for options_of, place in group_of.items()}


class _Group:
    """Sets of options that ask one question."""

    def __init__(self, first: list[_Option]) -> None:
        self.first = first
        self._texts: dict[Any, Any] = {}
        self._asked: set[Any] = set()

    def takes(self, options: frozenset[_Option], asked: set[Any]) -> bool:
        """Whether options can be of the same question."""
        shared = [self._texts[name] == text for name, text in options if name in self._texts]
        enough = 2 * len(shared) >= min(len(options), len(self._texts))
        return bool(shared) and enough and all(shared) and not asked & self._asked

    def add(self, options: frozenset[_Option], asked: set[Any]) -> None:
        """Add options, and who was asked them about which input."""
        self._texts.update(options)
        self._asked |= asked


def _names(groups: Sequence[Sequence[_Option]]) -> list[str]:
    """A name for each question: its first options, as many as distinguish it from the others."""
    if len(groups) == 1:
        return ["choice"]
    texts = [[str(name if text is None else text) for name, text in options] or ["no options"] for options in groups]
    for length in range(1, max(map(len, texts), default=0) + 1):
        names = [f"choice: {', '.join(one[:length])}{', …' if length < len(one) else ''}" for one in texts]
        if len(set(names)) == len(names):
            return names
    return [f"choice {place}" for place in range(1, len(groups) + 1)]


# ----------------------------------------------------------------------------------------------------------- marks


def _rectangles(row: Mapping[str, Any], task: Any, worker: Any, when: Any, status: Status) -> Iterator[Part]:
    """Yield the rectangles of an image, and its polygons."""
    boxes, masks = [], []
    size = size_of(row.get("height"), row.get("width"))
    for one in _each(row, "spans"):
        label = one.get("label")
        if one.get("type", "rect") == "rect" and all(name in one for name in ("x", "y", "width", "height")):
            left, top = float(one["x"]), float(one["y"])
            boxes.append((left, top, left + float(one["width"]), top + float(one["height"]), label))
        elif size is not None and isinstance(one.get("points"), list):
            masks.append((of_polygons([one["points"]], size, f"image {task!r}"), label))
        else:
            yield Dropped("shapes of images without width and height")
    yield Answer("boxes", "boxes", task, worker, boxes, when, None, status)
    yield Answer("masks", "masks", task, worker, masks, when, None, status)


def _document(row: Mapping[str, Any]) -> Document:
    """The text of a line and its tokens, where it has them."""
    text, cut = row.get("text"), row.get("tokens")
    places = [(one.get("start"), one.get("end")) for one in cut or [] if isinstance(one, Mapping)]
    tokens = tuple((start, end) for start, end in places if is_place(start) and is_place(end) and start < end)
    has_tokens = tokens and len(tokens) == len(cut or [])
    return Document(text if isinstance(text, str) else None, tokens if has_tokens else None)


READER = Reader(NAME, "lines with 'answer' and '_input_hash'", lambda file: file.is_json and knows(file.rows), answers)
