"""brat standoff: a file ``.ann`` of marks next to the ``.txt`` they are in.

Facts from brat's description of the format: a line is an id, a tab and content; ids of text-bound annotations begin
with T, and their content is a type with first and last offset in characters, the last exclusive, fragments separated by
semicolons, then a tab and the text. Other ids are of relations (R, *), events (E), attributes (A, M), normalizations
(N) and notes (#).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from manyhands._base.checks import plural, warn_of_data
from manyhands.errors import FileFormatError
from manyhands.io.exports.documents import text_of
from manyhands.io.exports.export import Answer, Dropped
from manyhands.io.exports.files import ExportFile, Reader, parts_of
from manyhands.io.exports.paths import worker_level
from manyhands.io.exports.spans import Document, Span

NAME = "brat"
ENDING = ".ann"
_TEXT_BOUND = re.compile(r"T\d+\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t.*)?$")
_OTHERS = {
    "R": "relations",
    "*": "relations",
    "E": "events",
    "A": "attributes",
    "M": "attributes",
    "N": "normalizations",
    "#": "notes",
}


def answers(files: Sequence[ExportFile]) -> Iterator[Answer | Dropped]:
    """Yield the spans of each file as one answer, none among them.

    Either folders are annotators and files documents, or the reverse: files with the same text are of one document, and
    so of different annotators. A span of several fragments counts as that many spans, with a warning.
    """
    texts = [_text(file) for file in files]
    level = worker_level(files, [text if text.strip() else file.where for file, text in zip(files, texts, strict=True)])
    lost: Counter[str] = Counter()
    n_split = 0
    for file, text in zip(files, texts, strict=True):
        names = parts_of(file.path)
        spans: list[Span] = []
        for number, line in enumerate(file.text.split("\n"), 1):
            line = line.rstrip("\r")
            if not line.strip():
                continue
            if line[0] != "T":
                if line[0] not in _OTHERS:
                    raise FileFormatError(f"line {number} of {file.where} is not brat standoff: {line[:40]!r}")
                lost[_OTHERS[line[0]]] += 1
                continue
            fragments = _fragments(line, f"line {number} of {file.where}")
            n_split += len(fragments) > 1
            spans += fragments
        task = names[1] if level == 0 else names[0]
        yield Answer("spans", "sequences", task, file.annotator(names[level]), spans, document=Document(text))
    if n_split:
        warn_of_data(
            f"{files[0].where}: {plural(n_split, 'span')} of several fragments; each fragment counts as a span"
        )
    for what, count in lost.items():
        yield Dropped(f"{what} (only spans are read)", count)


def _text(file: ExportFile) -> str:
    content = file.source.companion(".txt")
    if content is None:
        raise FileFormatError(f"{file.where} has no {file.path.stem}.txt next to it, which brat keeps the text in")
    return text_of(file.path.with_suffix(".txt"), content)


def _fragments(line: str, where: str) -> list[Span]:
    matched = _TEXT_BOUND.match(line)
    if matched is None:
        raise FileFormatError(f"{where} is not a text-bound annotation of brat: {line[:40]!r}")
    kind, places = matched.groups()
    pairs = [tuple(map(int, fragment.split())) for fragment in places.split(";")]
    return [(start, end, kind) for start, end in pairs]


READER = Reader(
    NAME,
    "files .ann with a .txt of the same name next to each",
    lambda file: not file.is_table and file.path.suffix.lower() == ENDING,
    answers,
    file_per_item=True,
)
