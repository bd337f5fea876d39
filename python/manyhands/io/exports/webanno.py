"""WebAnno TSV of INCEpTION: tokens with spans in layers; the annotator is the name of the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from manyhands._base.limits import check_memory
from manyhands._base.sources import WEBANNO
from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Dropped, Part
from manyhands.io.exports.files import ExportFile, Reader, with_curation
from manyhands.io.exports.spans import Document, from_utf16

NAME = "webanno"
_NUMBERED = re.compile(r"^(.*?)(?:\[(\d+)\])?$", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
#: What is read of layers that are not spans: how many there are.
_UNREAD = {"#T_CH=": "elements of chains (not supported)", "#T_RL=": "relations (not supported)"}


def knows(text: str) -> bool:
    """Whether a text is such a file."""
    return text.startswith(WEBANNO)


@dataclass
class _Read:
    """What one annotator marked in one document."""

    document: str
    worker: str
    #: Questions by layer, in the order of columns: a feature of a layer is a question.
    layers: dict[str, list[str]] = field(default_factory=dict)
    #: Spans by question and by what distinguishes them, in units of UTF-16.
    spans: dict[str, dict[str, tuple[int, int, str]]] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    tokens: list[tuple[int, int, str]] = field(default_factory=list)
    #: What each column is: the question it answers, or why it is not read; None for one without further information.
    columns: list[tuple[str | None, str | None]] = field(default_factory=list)


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield all answers of an export: the folder is the document, and the file its annotator.

    A document is one task, and all spans of a feature are one answer. A file lacks the layers in which nothing was
    marked: its annotator marked nothing there.
    """
    read = [_parse(file) for file in files]
    layers: dict[str, dict[str, None]] = {}
    for one in read:
        for layer, questions in one.layers.items():
            layers.setdefault(layer, {}).update(dict.fromkeys(questions))
    labelled = {
        question for one in read for question, spans in one.spans.items() if any(label for *_, label in spans.values())
    }
    question_names = []
    for features in layers.values():
        # A feature that no annotator filled in asks nothing; a layer without any that was is marks alone.
        question_names += [question for question in features if question in labelled] or list(features)[:1]
    for one in read:
        for what, count in one.unread.items():
            yield Dropped(what, count)
        text = _text(one)
        place = from_utf16(text)
        document = Document(text, tuple((place(start), place(end)) for start, end, _ in one.tokens))
        for question in question_names:
            spans = one.spans.get(question, {}).values()
            spans_sorted = sorted((place(start), place(end), label) for start, end, label in spans)
            yield with_curation(
                Answer(question, "sequences", one.document, one.worker, spans_sorted, document=document)
            )


def _parse(file: ExportFile) -> _Read:
    read = _Read(file.path.resolve().parent.name or file.path.stem, file.path.stem)
    for number, line in enumerate(file.text.split("\n"), 1):
        line = line.rstrip("\r")
        if line.startswith(("#T_SP=", "#T_CH=", "#T_RL=")):
            _header(line, read)
        elif line and not line.startswith("#"):
            _token(line, number, read, file.where)
    return read


def _header(line: str, read: _Read) -> None:
    """Note the columns of a layer: one for each feature, and for each end of a relation or a link."""
    name, *features = line.partition("=")[2].split("|")
    layer = name.rpartition(".")[2]
    if not line.startswith("#T_SP="):
        read.columns += [(None, _UNREAD[line[:6]]), *[(None, None)] * (len(features) - 1)]
        return
    linked = False
    for feature in features:
        if feature.startswith("ROLE_") or linked:
            read.columns.append((None, None if linked else "links between spans (not supported)"))
            linked = not linked
            continue
        read.columns.append((f"{layer}.{feature}", None))
        read.layers.setdefault(layer, []).append(f"{layer}.{feature}")


def _token(line: str, number: int, read: _Read, where: str) -> None:
    """Note a token, or a part of one, and what is marked there."""
    cells = line.split("\t")
    position = re.fullmatch(r"(\d+)-(\d+)", cells[1]) if len(cells) > 2 else None
    if position is None:
        raise FileFormatError(f"line {number} of {where} is not a token of WebAnno TSV 3: {line[:40]!r}")
    if any(cell not in ("", "_") for cell in cells[3 + len(read.columns) :]):
        raise FileFormatError(
            f"line {number} of {where} has {len(cells) - 3} columns of annotations, and the header names "
            f"{len(read.columns)}: a line such as '#T_SP=' is missing"
        )
    begin, end = map(int, position.groups())
    if "." not in cells[0].partition("-")[2]:  # parts are numbered 1-2.1
        read.tokens.append((begin, end, cells[2]))
    for (question, unread), cell in zip(read.columns, cells[3:], strict=False):
        if unread is not None:
            read.unread[unread] += sum(part != "_" for part in _split(cell))
        if question is None:
            continue
        marked = read.spans.setdefault(question, {})
        for place, stacked in enumerate(_split(cell)):
            matched = _NUMBERED.match(stacked)
            label, group = matched.groups() if matched else (stacked, None)
            if label in ("_", ""):
                continue
            key = f"{group}" if group else f"{number}/{place}"
            open_span = marked.get(key)
            first = begin if open_span is None else min(open_span[0], begin)
            marked[key] = (first, end if open_span is None else max(open_span[1], end), _plain(label or ""))


def _text(read: _Read) -> str:
    """The text of a document as far as tokens cover it, blanks elsewhere."""
    length = max((end for _, end, _ in read.tokens), default=0)
    check_memory(8 * length, f"the text of document {read.document!r}", "its places are wrong")
    units = bytearray(b" \0" * length)
    for begin, end, form in read.tokens:
        encoded = form.encode("utf-16-le")
        if len(encoded) == 2 * (end - begin):
            units[2 * begin : 2 * end] = encoded
    return units.decode("utf-16-le", "replace")


def _split(cell: str) -> list[str]:
    """The annotations of a token that are stacked in one cell."""
    return re.split(r"(?<!\\)\|", cell)


def _plain(label: str) -> str:
    return "" if label == "*" else _ESCAPED.sub(r"\1", label)


READER = Reader(
    NAME,
    "a first line '#FORMAT=WebAnno TSV'",
    lambda file: not file.is_table and knows(file.text),
    answers,
    file_per_item=True,
)
