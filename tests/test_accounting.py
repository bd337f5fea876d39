"""Accounting of readers: what a file holds is in the table, or reported as dropped.

An entry is an answer, or for answers of many parts (boxes, spans, masks, points) one part. `CASES` has a count by hand
for every sample: entries of workers by question, and entries that no table can hold. New readers add samples.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manyhands as mh
from manyhands.table.formats import Export, opened
from manyhands.table.formats.export import Answer
from manyhands.table.sources import Layout, Source, expand

SAMPLES = Path(__file__).parent / "data" / "exports"
#: Real exports, which are not part of the repository.
REAL = Path(__file__).parents[2] / "shared" / "data" / "exports"
PARTS = ("boxes", "masks", "shapes", "sequences", "intervals")


@dataclass(frozen=True)
class Case:
    """What the files of an export hold, counted without the reader."""

    files: str
    #: Entries of workers by question, whether they count or not.
    entries: dict[str, int]
    #: Entries in no table, by the words that report them.
    dropped: dict[str, int] = field(default_factory=dict)
    #: Answers (of any status) by question where they differ from entries: annotators who marked nothing count too.
    answers: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


#: Samples by format, and by what they hold.
CASES: dict[str, Case] = {
    "label-studio": Case("label_studio.json", {"mood": 4, "stars": 2}),
    "prodigy": Case("prodigy.jsonl", {"choice": 4}),
    "prodigy, spans": Case("prodigy_spans.jsonl", {"spans": 5}, answers={"spans": 5}),
    "doccano": Case("doccano/*.jsonl", {"label": 4}),
    "doccano, spans": Case("doccano_spans/*.jsonl", {"spans": 3}, answers={"spans": 4}),
    "argilla": Case("argilla.json", {"tone": 4}),
    "argilla, nested": Case("argilla_nested.json", {"tone": 2, "score": 1}),
    "mturk": Case("mturk.csv", {"label": 4}),
    "sagemaker": Case("sagemaker.json", {"category": 3}),
    "cvat": Case("cvat/*.xml", {"tag": 4, "boxes": 2}, answers={"boxes": 4}),
    "webanno": Case("webanno/*/*.tsv", {"NamedEntity.value": 5}, answers={"NamedEntity.value": 2}),
    "phoenix": Case("phoenix.jsonl", {"correct": 3}),
}


def export_of(pattern: str, folder: Path = SAMPLES, **settings: Any) -> Export:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.DataWarning)
        export = opened([Source(path, Layout()) for path in expand(str(folder / pattern))], "auto", **settings)
    assert isinstance(export, Export)
    return export


def entries(answer: Answer) -> int:
    return len(answer.said) if answer.kind in PARTS else 1


def by_workers(export: Export) -> list[Answer]:
    return [answer for answer in export.answers if answer.source == "worker"]


def check(export: Export, case: Case) -> None:
    """Compare what was read with the count by hand, then every table with what was read."""
    counts: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    for answer in by_workers(export):
        counts[answer.question] += entries(answer)
        answers[answer.question] += 1
    assert dict(counts) == case.entries
    assert {name: answers[name] for name in case.answers} == case.answers
    dropped: Counter[str] = Counter()
    for part in export.dropped:
        dropped[part.what] += part.count
    assert dict(dropped) == case.dropped
    for question in export.questions:
        check_table(export, question)


def check_table(export: Export, question: str) -> None:
    """The table of a question holds what counts, and the warning has the number of all else."""
    kind = export.questions[question]
    asked = [answer for answer in by_workers(export) if answer.question == question]
    given = [answer for answer in asked if answer.status == "given"]
    left = export.left_out(question)
    if kind not in ("shapes", "intervals") and given and not export.ambiguous:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table: Any = export.table(question)
        shown = " ".join(str(one.message) for one in caught)
        for what, count in left.items():
            assert re.search(rf"dropped .*{count:,} {re.escape(what)}", shown)
        assert size_of(table, kind) == sum(map(entries, given))


def size_of(table: Any, kind: str) -> int:
    """Entries of a table."""
    if kind == "boxes":
        return int((~np.isnan(table.boxes[:, 0])).sum())
    if kind == "sequences":
        return int(table.spans().num_rows)
    if kind == "masks":
        return sum(bool(table.mask(row).any()) for row in range(table.n_annotations))
    return int(table.n_annotations)


@pytest.mark.parametrize("name", CASES)
def test_answers_of_samples_are_in_tables_or_reported(name: str) -> None:
    case = CASES[name]
    check(export_of(case.files, **case.settings), case)
