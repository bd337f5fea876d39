"""WebAnno TSV of INCEpTION: tokens with spans in layers; who annotated is the name of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from manyhands.errors import FileFormatError
from manyhands.table.formats.export import Answer, Dropped
from manyhands.table.formats.files import ExportFile, Reader
from manyhands.table.formats.spans import Document, from_utf16
from manyhands.table.sources import WEBANNO

NAME = "webanno"
_NUMBERED = re.compile(r"^(.*?)(?:\[(\d+)\])?$", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")


def knows(text: str) -> bool:
    """Whether a text is such a file."""
    return text.startswith(WEBANNO)


@dataclass
class _Layer:
    name: str
    features: list[str] = field(default_factory=list)


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield all answers of an export: the folder is the document, and the file its annotator."""
    for file in files:
        yield from _in_file(file.text, file.where, file.path.parent.name or file.path.stem, file.path.stem)


def _in_file(text: str, where: str, document: str, worker: str) -> Iterator[Answer]:
    """Yield the spans of each feature of a document, which is one task, as one answer a feature, none among them.

    Offsets count UTF-16 units in the file; here they count characters, as in Python.
    """
    layers: list[_Layer] = []
    sentences: list[str] = []
    spans: dict[str, dict[str, tuple[int, int, str]]] = {}
    tokens: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("#T_SP=", "#T_CH=", "#T_RL=")):
            name, *features = line.partition("=")[2].split("|")
            layers.append(_Layer(name.rpartition(".")[2], features if line.startswith("#T_SP=") else []))
        elif line.startswith("#Text="):
            sentences.append(line[6:])
        elif line and not line.startswith("#") and "." not in line.partition("\t")[0].partition("-")[2]:
            tokens.append(_token(line, number, layers, spans, where))
    place = from_utf16("\n".join(sentences))
    read = Document(tokens=tuple((place(start), place(end)) for start, end in tokens))
    for question, found in spans.items():
        # A feature that was not filled in anywhere marks nothing; only a layer without features is marks alone.
        marked = any(label for _, _, label in found.values()) or question.endswith(".")
        said = sorted((place(start), place(end), label) for start, end, label in found.values() if marked)
        yield Answer(question, "sequences", document, worker, said, document=read)


def _token(
    line: str, number: int, layers: list[_Layer], spans: dict[str, dict[str, tuple[int, int, str]]], where: str
) -> tuple[int, int]:
    """Note what is marked at a token, and return its place."""
    cells = line.split("\t")
    if len(cells) < 3 or "-" not in cells[1]:
        raise FileFormatError(f"line {number} of {where} is no token of WebAnno TSV 3: {line[:40]!r}")
    begin, end = map(int, cells[1].split("-"))
    columns = iter(cells[3:])
    for layer in layers:
        for feature in layer.features:
            question = f"{layer.name}.{feature}"
            marked = spans.setdefault(question, {})
            for place, stacked in enumerate(_split(next(columns, "_"))):
                matched = _NUMBERED.match(stacked)
                label, group = matched.groups() if matched else (stacked, None)
                if label == "_":
                    continue
                key = f"{group}" if group else f"{number}/{place}"
                held = marked.get(key)
                first = begin if held is None else min(held[0], begin)
                marked[key] = (first, end if held is None else max(held[1], end), _plain(label or ""))
    return begin, end


def _split(cell: str) -> list[str]:
    """The annotations of a token that are stacked in one cell."""
    return re.split(r"(?<!\\)\|", cell)


def _plain(label: str) -> str:
    return "" if label == "*" else _ESCAPED.sub(r"\1", label)


READER = Reader(
    NAME, "a first line '#FORMAT=WebAnno TSV'", lambda file: not file.is_table and knows(file.text), answers
)
