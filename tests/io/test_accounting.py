"""Accounting of readers: what a file holds is in the table, or reported as dropped.

An entry is an answer, or for answers of many parts (boxes, spans, masks, points) one part. `CASES` has a count by hand
for every sample: entries of workers by question, and entries that no table can hold. New readers add samples.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import manyhands as mh
from manyhands._base.sources import Layout, expand
from manyhands.io.exports import Export, open_export, sources_to_read
from manyhands.io.exports.export import Answer

SAMPLES = Path(__file__).parents[1] / "data" / "exports"
#: Real exports, which are not part of the repository.
REAL = Path(__file__).parents[3] / "shared" / "data" / "exports"
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
    "label-studio, shapes": Case(
        "label_studio_shapes.json",
        {"box": 1, "ner": 1, "kind": 1, "better": 1, "note": 1},
        {"relations (not supported)": 1},
    ),
    "label-studio, spans": Case("label_studio_spans.json", {"ner": 8}, answers={"ner": 5}),
    "prodigy": Case("prodigy.jsonl", {"choice": 4}),
    "prodigy, spans": Case("prodigy_spans.jsonl", {"spans": 5}, answers={"spans": 5}),
    "doccano": Case("doccano/*.jsonl", {"label": 4}),
    "doccano, spans": Case("doccano_spans/*.jsonl", {"spans": 3}, answers={"spans": 4}),
    "argilla": Case("argilla.json", {"tone": 4}),
    "argilla, nested": Case("argilla_nested.json", {"tone": 2, "score": 1}),
    "argilla, spans": Case("argilla_spans.json", {"names": 4}, answers={"names": 4}),
    "mturk": Case("mturk.csv", {"label": 4}),
    "sagemaker": Case("sagemaker.json", {"category": 3}),
    "cvat": Case("cvat/*.xml", {"tag": 4, "boxes": 2}, answers={"boxes": 4}),
    "webanno": Case("webanno/*/*.tsv", {"NamedEntity.value": 5}, answers={"NamedEntity.value": 2}),
    "phoenix": Case("phoenix.jsonl", {"correct": 3}),
    "zooniverse": Case(
        "zooniverse.csv",
        {"T0": 5, "T1": 3, "T2.points": 2, "T2.boxes": 1, "T3": 2, "T4": 1},
        {
            "marks of tools other than points and rectangles in task T2": 1,
            "answers to task T5 (drop-down lists are not supported)": 1,
            "survey choices with answers about the choice (the choice is read, the answers are not)": 1,
        },
        answers={"T2.points": 3, "T2.boxes": 3},
    ),
    "label-studio-rows": Case("label_studio_rows.csv", {"mood": 4, "aspects": 3}),
    "label-studio-rows, JSON-MIN": Case("label_studio_min.json", {"stars": 3, "box": 2}, answers={"box": 3}),
    "labelbox": Case(
        "labelbox.ndjson",
        {"weather": 4, "seen": 2, "boxes": 2, "masks": 1},
        {"masks (stored elsewhere, at an address)": 1},
        answers={"boxes": 4, "masks": 4},
    ),
    "labelbox, import": Case("labelbox_import.ndjson", {"mood": 2, "spans": 1}, settings={"worker_from_file": True}),
    "brat": Case(
        "brat",
        {"spans": 6},
        {"relations (only spans are read)": 1, "notes (only spans are read)": 1},
        answers={"spans": 4},
    ),
    "labelme": Case(
        "labelme",
        {"boxes": 2, "points": 2, "masks": 2, "shapes": 2, "flags": 4},
        {"shapes of type 'mask' with 2 points (not supported)": 2},
        answers={"boxes": 4, "points": 4, "masks": 4},
    ),
    "via": Case("via/*.json", {"boxes": 2, "shapes": 2, "light": 4, "seen": 4}, answers={"boxes": 4}),
    "via, CSV": Case("via/*.csv", {"boxes": 1, "shapes": 1, "light": 2, "seen": 2}, answers={"boxes": 2}),
    "webanno-tsv2": Case(
        "webanno2",
        {"NamedEntity.value": 4},
        {"values of POS.PosValue (not spans tagged B- and I-)": 2},
        answers={"NamedEntity.value": 2},
    ),
    "inspect": Case("inspect.json", {"score": 4, "score (number)": 2}, {"samples without a score": 1}),
}


def export_of(pattern: str, folder: Path = SAMPLES, **settings: Any) -> Export:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mh.errors.DataWarning)
        export = open_export(sources_to_read(str(folder / pattern), Layout()), "auto", **settings)
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
    ambiguous = any(part.question in (None, question) for part in export.ambiguous)
    if kind not in ("shapes", "intervals") and given and not ambiguous:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table: Any = export.table(question)
        shown = " ".join(str(one.message) for one in caught)
        for what, count in left.items():
            assert re.search(rf"dropped .*{count:,} {re.escape(what)}", shown)
        assert size_of(table, kind) + merged(given, kind, shown) == sum(map(entries, given))


def merged(given: list[Answer], kind: str, shown: str) -> int:
    """Entries of answers that are one with others in the table: regions of a label, and spans that were given twice."""
    if kind == "masks":
        return sum(len(answer.said) - len({label for _, label in answer.said}) for answer in given)
    reported = re.findall(r"([\d,]+) (?:duplicate )?spans? (?:of the same worker|without a token)", shown)
    return sum(int(count.replace(",", "")) for count in reported)


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


def regions(text: str) -> int:
    """Regions of annotations, next to which there are some of predictions."""
    return sum(len(annotation["result"]) for task in json.loads(text) for annotation in task["annotations"])


def entities(text: str) -> int:
    """Names in the fifth column: those of several tokens or stacked ones have a number."""
    cells = [line.split("\t")[4] for line in text.splitlines() if re.match(r"\d+-\d+\t", line)]
    parts = [part for cell in cells for part in cell.split("|") if part != "_"]
    numbered = {part for part in parts if "[" in part}
    return len(numbered) + sum("[" not in part for part in parts)


#: Real exports: the files, and for each question a pattern in their text, entries for each time that it occurs, and
#: entries in all, counted by hand; then what is dropped.
PATTERNS: dict[str, tuple[str, dict[str, tuple[str | Callable[[str], int], int, int]], dict[str, int]]] = {
    "Label Studio, boxes of three": (
        "label-studio/evalme_test_bbox.json",
        {"label": (regions, 1, 91)},
        {},
    ),
    "Label Studio, turned boxes": ("label-studio/data_obb.json", {"label": (r'"type": "rectanglelabels"', 1, 25)}, {}),
    "Label Studio, boxes of one": (
        "label-studio/project-1-*.json",
        {"label": (r'"type": ?"rectanglelabels"', 1, 24)},
        {},
    ),
    "Label Studio, a choice": ("label-studio/csv_test2.json", {"uri_selection": (r'"type": "choices"', 1, 1)}, {}),
    "Label Studio, completions": (
        "label-studio/evalme_test_old_format.json",
        {"sentiment": (r'"type": "choices"', 1, 3)},
        {},
    ),
    "CVAT, a job": ("cvat/compare_annotations.xml", {"boxes": (r"<box ", 1, 24)}, {}),
    "CVAT, a project": (
        "cvat/for_images_export_project_annotations.xml",
        {
            "boxes": (r"<box ", 1, 3),
            "points": (r"<points ", 3, 9),
            "masks": (r"<polygon ", 1, 3),
            "shapes": (r"<polyline ", 1, 3),
        },
        {"attributes of shapes (not supported)": 12},
    ),
    "COCO, captions": ("coco/captions_val.json", {"captions": (r'"caption"', 1, 2)}, {}),
    "COCO, keypoints": (
        "coco/person_keypoints_val.json",
        {"boxes": (r'"bbox"', 1, 2), "masks": (r'"segmentation"', 1, 2), "keypoints": (r'"num_keypoints"', 3, 6)},
        {"attributes of annotations (not supported)": 2},
    ),
    "COCO, of Labelbox": (
        "coco/labelbox_instances.json",
        {"boxes": (r'"bbox"', 1, 62), "masks": (r'"segmentation"', 1, 62)},
        {},
    ),
    "doccano, spans": ("doccano/bsner_admin.jsonl", {"spans": (r'\[\d+,\d+,"', 1, 444)}, {}),
    "doccano, classes of users": ("doccano/classification.jsonl", {"label": (r'"label"', 1, 3)}, {}),
    "doccano, a table": ("doccano/classification.csv", {"label": (r"(?m)^,\d+,", 1, 3)}, {}),
    "doccano, spans of users": ("doccano/labeling.jsonl", {"spans": (r'"start_offset"', 1, 16)}, {}),
    "doccano, texts": ("doccano/seq2seq.jsonl", {"text": (r'\{"text"', 1, 3)}, {}),
    "doccano, blanks": ("doccano/span_with_trailing_space.jsonl", {"spans": (r'"signatory"', 1, 2)}, {}),
    "INCEpTION, tags and names": (
        "inception/tsv3_example2.tsv",
        {"POS.PosValue": (r"(?m)^\d+-\d+\t", 1, 86), "NamedEntity.value": (entities, 1, 9)},
        {"relations (not supported)": 86},
    ),
    "INCEpTION, stacked": (
        "inception/simpleSpanDiffWithLabelStackingTest/*.tsv",
        {"NamedEntity.value": (r"Champions\t.*?ORG\[1\]|ORG\[2\](?=\t\n1-9)", 1, 4)},
        {},
    ),
    "INCEpTION, labels": (
        "inception/simpleSpanDiffWithLabelTest/*.tsv",
        {"POS.PosValue": (r"\tN[NE]\t", 1, 2)},
        {},
    ),
    "Prodigy, single choice": (
        "prodigy/presto_distortion_part.jsonl",
        {"choice": (r'"answer"', 1, 183)},
        {"texts typed next to another answer ('user_input')": 7},
    ),
    "Prodigy, labels": ("prodigy/reddit-INSULT-textcat_120.jsonl", {"INSULT": (r'"answer"', 1, 120)}, {}),
    "Prodigy, four people": ("prodigy/person_*.jsonl", {"choice": (r'"answer"', 1, 200)}, {}),
    "Prodigy, three questions": (
        "prodigy/three_*.jsonl",
        {
            "choice: Study Type: option 0, …": (r'"text": ?"Study Type: option 0"', 1, 4),
            "choice: Substances: option 0, …": (r'"text": ?"Substances: option 0"', 1, 4),
            "choice: Condition: option 0, …": (r'"text": ?"Condition: option 0"', 1, 4),
        },
        {},
    ),
    "Zooniverse, two questions": (
        "zooniverse/cls_export.csv",
        {"T0": (r'""task"":""T0""', 1, 7), "T1": (r'""task"":""T1""', 1, 3)},
        {},
    ),
    "Labelbox, entities": ("labelbox/ndjson_text_entity_import.json", {"spans": (r'"location"', 1, 1)}, {}),
    "WebAnno TSV 2, stacked names": (
        "inception/tsv2_example.tsv",
        {"column 5": (r"(?<=[\t|])B-", 1, 11)},
        {f"values of column {n} (not spans tagged B- and I-)": 86 for n in (4, 7, 8)},
    ),
    "WebAnno TSV 2, parts of speech": (
        "inception/kappatest.tsv",
        {"POS.PosValue": (r"(?m)^1-\d\t\w+\tB-", 1, 9)},
        {"relations (not spans tagged B- and I-)": 9},
    ),
    "Inspect, one scorer": ("inspect/popularity.json", {"score": (r'"match": \{\s+"value": "[CI]"', 1, 3)}, {}),
}


@pytest.mark.skipif(not REAL.exists(), reason="the real exports are not there")
@pytest.mark.parametrize("name", PATTERNS)
def test_answers_of_real_exports_are_in_tables_or_reported(name: str) -> None:
    files, patterns, dropped = PATTERNS[name]
    text = "".join(path.read_text("utf-8") for path in expand(str(REAL / files)))
    for pattern, each, count in patterns.values():
        occurring = len(re.findall(pattern, text)) if isinstance(pattern, str) else pattern(text)
        assert occurring * each == count
    case = Case(files, {question: count for question, (_, _, count) in patterns.items()}, dropped)
    named = name.startswith(("Prodigy", "Labelbox")) and "single" not in name
    check(export_of(files, REAL, worker_from_file=named), case)
