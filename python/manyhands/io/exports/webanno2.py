"""WebAnno TSV 2: one token per line with a column per feature; who annotated is the name of the file.

Facts from WebAnno's documentation and samples: a first line may name the layers, ``# layer | feature | feature # …``;
then each sentence has lines ``#id=`` and ``#text=``, and a line per token with its number, its word and the features.
Spans are tagged B- and I-, stacked ones with a bar between them; O and _ are not annotations. A layer with a feature
``AttachTo=`` is one of relations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from manyhands._base.sources import WEBANNO_2
from manyhands.errors import FileFormatError
from manyhands.io.exports.export import Answer, Dropped, Part
from manyhands.io.exports.files import ExportFile, Reader, parts_of, with_curation
from manyhands.io.exports.spans import Document

NAME = "webanno-tsv2"
_TAG = re.compile(r"([BI])-(.*)", re.DOTALL)
_NOTHING = ("_", "O", "")
#: What a layer of relations has: a column of the tokens that others are attached to.
_ENDS = "AttachTo="
_RELATION = "relation "


def answers(files: Sequence[ExportFile]) -> Iterator[Part]:
    """Yield the spans of each column that is tagged B- and I-; values of other columns are counted as dropped.

    The folder is the document, and the file its annotator, as in TSV 3.
    """
    read = [(file, *_read(file)) for file in files]
    names = dict.fromkeys(name for _, _, columns in read for name, cells in columns.items() if _is_tagged(cells))
    tagged = [name for name in names if _RELATION not in name]
    lost: Counter[str] = Counter()
    for file, document, columns in read:
        worker, folder = parts_of(file.path)[:2]
        for name in tagged:
            spans = _spans(columns.get(name, []), document.tokens or ())
            yield with_curation(Answer(name, "sequences", folder, file.annotator(worker), spans, document=document))
        for name, cells in columns.items():
            if name not in tagged and _ENDS not in name:
                what = "relations" if _RELATION in name else f"values of {name}"
                lost[f"{what} (not spans tagged B- and I-)"] += sum(cell not in _NOTHING for cell in cells)
    for what, count in (+lost).items():
        yield Dropped(what, count)


def _is_tagged(cells: list[str]) -> bool:
    filled = [part for cell in cells if cell not in _NOTHING for part in cell.split("|")]
    return bool(filled) and all(_TAG.match(part) or part in _NOTHING for part in filled)


def _read(file: ExportFile) -> tuple[Document, dict[str, list[str]]]:
    """Return the document with its tokens, and the cells of each column by name."""
    names: list[str] = []
    cells: list[list[str]] = []
    sentences: list[str] = []
    tokens: list[tuple[int, int]] = []
    start = at = 0
    for number, line in enumerate(file.text.split("\n"), 1):
        line = line.rstrip("\r")
        if line.startswith("#text="):
            start = at = sum(len(text) + 1 for text in sentences)
            sentences.append(line[6:])
        elif line.lstrip().startswith("# ") and not sentences:
            names = _features(line)
        elif line and not line.startswith("#id="):
            word, *values = line.split("\t")[1:] or [""]
            place = sentences[-1].find(word, at - start) if sentences and word else -1
            if place < 0:
                raise FileFormatError(f"line {number} of {file.where}: {word!r} is not in the text of its sentence")
            tokens.append((start + place, start + place + len(word)))
            at = start + place + len(word)
            cells.append(values)
    width = max(map(len, cells), default=0)
    columns = {
        names[column] if column < len(names) else f"column {column + 3}": [
            row[column] if column < len(row) else "_" for row in cells
        ]
        for column in range(width)
    }
    return Document("\n".join(sentences), tuple(tokens)), columns


def _features(line: str) -> list[str]:
    """Names of the columns that a line of layers declares; those of a layer that attaches tokens are marked."""
    names = []
    for layer in line.split("#")[1:]:
        name, *features = (part.strip() for part in layer.split("|"))
        relation = _RELATION if any(feature.startswith(_ENDS) for feature in features) else ""
        names += [f"{relation}{name.rpartition('.')[2]}.{feature}" for feature in features if feature]
    return names


def _spans(cells: list[str], tokens: Sequence[tuple[int, int]]) -> list[tuple[int, int, str]]:
    """Spans of a column: those of each label go on where a token continues them."""
    spans_read: list[tuple[int, int, str]] = []
    running: dict[str, int] = {}
    for (begin, end), cell in zip(tokens, cells, strict=False):
        going: dict[str, int] = {}
        for part in cell.split("|"):
            matched = _TAG.match(part)
            if matched is None:
                continue
            mark, label = matched.groups()
            if mark == "I" and label in running:
                place = running[label]
                spans_read[place] = (spans_read[place][0], end, label)
            else:
                place = len(spans_read)
                spans_read.append((begin, end, label))
            going[label] = place
        running = going
    return spans_read


READER = Reader(
    NAME,
    "sentences with lines '#id=' and '#text='",
    lambda file: not file.is_table and WEBANNO_2.match(file.text[:100_000].encode()) is not None,
    answers,
    file_per_item=True,
)
