"""WebAnno TSV of INCEpTION: tokens with spans in layers; who annotated is the name of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from manyhands.errors import FileFormatError
from manyhands.table.formats.export import Answer
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


def answers(text: str, where: str, document: str, worker: str) -> Iterator[Answer]:
    """Yield the spans of each feature of a document, which is one task, as one answer a feature.

    Offsets count UTF-16 units in the file; here they count characters, as in Python.
    """
    layers: list[_Layer] = []
    sentences: list[str] = []
    spans: dict[str, dict[str, tuple[int, int, str]]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("#T_SP=", "#T_CH=", "#T_RL=")):
            name, *features = line.partition("=")[2].split("|")
            layers.append(_Layer(name.rpartition(".")[2], features if line.startswith("#T_SP=") else []))
        elif line.startswith("#Text="):
            sentences.append(line[6:])
        elif line and not line.startswith("#") and "." not in line.partition("\t")[0].partition("-")[2]:
            _token(line, number, layers, spans, where)
    place = _characters("\n".join(sentences))
    for question, found in spans.items():
        if not any(label for _, _, label in found.values()):
            continue  # a feature that nobody filled in
        said = sorted((place(start), place(end), label) for start, end, label in found.values())
        yield Answer(question, "spans", document, worker, said)


def _token(
    line: str, number: int, layers: list[_Layer], spans: dict[str, dict[str, tuple[int, int, str]]], where: str
) -> None:
    cells = line.split("\t")
    if len(cells) < 3 or "-" not in cells[1]:
        raise FileFormatError(f"line {number} of {where} is no token of WebAnno TSV 3: {line[:40]!r}")
    begin, end = map(int, cells[1].split("-"))
    columns = iter(cells[3:])
    for layer in layers:
        for feature in layer.features:
            question = f"{layer.name}.{feature}"
            for place, stacked in enumerate(_split(next(columns, "_"))):
                matched = _NUMBERED.match(stacked)
                label, group = matched.groups() if matched else (stacked, None)
                if label == "_":
                    continue
                key = f"{group}" if group else f"{number}/{place}"
                held = spans.setdefault(question, {}).get(key)
                first = begin if held is None else min(held[0], begin)
                spans[question][key] = (first, end if held is None else max(held[1], end), _plain(label or ""))


def _split(cell: str) -> list[str]:
    """The annotations of a token that are stacked in one cell."""
    return re.split(r"(?<!\\)\|", cell)


def _plain(label: str) -> str:
    return "" if label == "*" else _ESCAPED.sub(r"\1", label)


def _characters(text: str) -> Callable[[int], int]:
    """A function from places in UTF-16 units to places in characters."""
    if text.isascii() or max(map(ord, text), default=0) < 0x10000:
        return lambda place: place
    places = {}
    units = 0
    for count, letter in enumerate(text):
        places[units] = count
        units += 2 if ord(letter) > 0xFFFF else 1
    places[units] = len(text)
    return lambda place: places.get(place, place)
