"""Spans of exports: which text they are of, what its tokens are, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import manyhands as mh
from manyhands._base.sources import Layout, Source, expand
from manyhands.cli import main
from manyhands.io.exports import Export, open_export
from manyhands.io.exports.export import Answer
from manyhands.io.exports.spans import Document, text_among

SAMPLES = Path(__file__).parents[1] / "data" / "exports"

#: Samples, and for each reading (document, worker) the spans as start, end and tag.
SPANS: dict[str, tuple[str, int, dict[tuple[Any, str], list[tuple[int, int, str]]]]] = {
    "label-studio": (
        "label_studio_spans.json",
        7 + 5,
        {
            (21, "1"): [(2, 9, "PER"), (14, 17, "PER"), (21, 25, "LOC")],
            (21, "2"): [(2, 9, "PER"), (21, 25, "LOC")],  # an old version, which counts units of UTF-16
            (21, "3"): [(2, 9, "PER"), (14, 17, "PER")],
            (22, "1"): [],
            (22, "2"): [(0, 2, "PER")],
        },
    ),
    "prodigy": (
        "prodigy_spans.jsonl",
        5 + 3,  # its own tokens: "don't" is one
        {
            (201, "ner-ann"): [(0, 4, "LOC"), (15, 23, "LOC")],
            (201, "ner-bob"): [(0, 4, "LOC")],
            (202, "ner-ann"): [],
            (202, "ner-bob"): [(3, 8, "LOC")],
        },
    ),
    "doccano": (
        "doccano_spans/*.jsonl",
        4 + 2,
        {
            (1, "ann"): [(2, 5, "PER"), (10, 13, "PER")],
            (1, "bob"): [(2, 5, "PER")],
            (2, "ann"): [],
            (2, "bob"): [],
        },
    ),
    "argilla": (
        "argilla_spans.json",
        3 + 2,
        {("r1", "u1"): [(0, 3, "PER"), (8, 11, "PER")], ("r1", "u2"): [(0, 3, "PER")], ("r2", "u1"): []},
    ),
    "webanno": (
        "webanno/*/*.tsv",
        6,
        {
            ("letter.txt", "ann"): [(0, 3, "PER"), (8, 15, "PER"), (18, 23, "DA_TE")],
            ("letter.txt", "bob"): [(0, 3, "PER"), (12, 15, "PER")],
        },
    ),
}


def read_spans(table: mh.Sequences) -> dict[tuple[Any, str], list[tuple[int, int, str]]]:
    sequences, workers, _, _ = table.readings()
    found: dict[tuple[Any, str], list[tuple[int, int, str]]] = {
        (table.tasks[of], str(table.workers[by])): [] for of, by in zip(sequences, workers, strict=True)
    }
    for row in table.spans().to_pylist():
        found[row["sequence"], str(row["worker"])].append((row["start"], row["end"], row["tag"]))
    return found


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
@pytest.mark.parametrize("name", SPANS)
def test_exports_of_spans_become_sequences(name: str) -> None:
    path, n_tokens, wanted = SPANS[name]
    for settings in ({}, {"format": name}, {"kind": "sequences"}):
        table = mh.read(str(SAMPLES / path), **settings)
        assert isinstance(table, mh.Sequences)
        assert read_spans(table) == wanted
        assert table.n_tokens == n_tokens


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning", "ignore::manyhands.errors.OverlapWarning")
@pytest.mark.parametrize("name", SPANS)
def test_the_command_line_takes_spans_to_spans(name: str, tmp_path: Path) -> None:
    path = str(SAMPLES / SPANS[name][0])
    spans, answers = tmp_path / "spans.csv", tmp_path / "answers.csv"
    assert main(["aggregate", path, "-o", str(spans), "-q"]) == 0
    lines = spans.read_text("utf-8").splitlines()
    assert lines[0].startswith('"sequence","start","end","tag","probability"')
    assert len(lines) > 1
    # What `import` writes is a table for `from_spans`, with readers who marked nothing, and what was marked.
    assert main(["import", path, "-o", str(answers), "-q"]) == 0
    from files import read_table

    frame = read_table(answers)
    assert {"task", "worker", "start", "end", "label", "status"} <= set(frame.column_names)
    if name != "webanno":  # which has tokens instead of a text
        quoted = frame.to_pydict()
        assert all((end is None) == (text is None) for end, text in zip(quoted["end"], quoted["text"], strict=True))
        assert {"Ann", "Bob", "Bonn", "Kiel"} & set(quoted["text"])


def test_gold_spans_come_along(tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    sample = str(SAMPLES / "label_studio_spans.json")
    assert main(["import", sample, "-o", str(tmp_path / "a.csv"), "--gold", str(gold), "-q"]) == 0
    assert gold.read_text("utf-8").splitlines()[1:] == [
        '21,2,9,"PER","Ann Lee"',
        '21,14,17,"PER","Bob"',
        '21,21,25,"LOC","Bonn"',
    ]


def spans_of(*given: tuple[Any, str, list[Any], Document | None]) -> Export:
    return Export("e", [Answer("q", "sequences", task, who, said, document=text) for task, who, said, text in given])


def test_a_document_without_its_text_is_read_by_characters() -> None:
    known, unknown = Document("ab cd"), None
    with pytest.warns(mh.errors.DataWarning, match=r"1 document.*2 without.*2"):
        table = spans_of((1, "a", [(0, 2, "x")], known), (2, "a", [(3, 9, "x")], unknown)).table()
    assert table.lengths.tolist() == [2, 9]  # type: ignore[attr-defined]
    # One of which nobody marked anything needs none.
    table = spans_of((1, "a", [(0, 2, "x")], known), (2, "a", [], unknown)).table()
    assert table.lengths.tolist() == [2, 1]  # type: ignore[attr-defined]
    assert table._grid.begins.tolist() == [0, 3, 0]  # type: ignore[attr-defined]


def test_overlapping_spans_have_layers_by_tag() -> None:
    text = Document("the old man and the sea")
    nested = spans_of((1, "a", [(0, 11, "np"), (4, 7, "adj")], text), (1, "b", [(0, 11, "np")], text))
    with pytest.warns(mh.errors.DataWarning, match=r"'a'.*document 1 overlap"):
        table = nested.table()
    assert isinstance(table, mh.Sequences)
    assert sorted(map(str, table.tasks)) == ["1 / adj", "1 / np"]
    assert table.n_annotations == 4  # both read both layers
    with pytest.raises(ValueError, match="overlap"):
        spans_of((1, "a", [(0, 11, "np"), (4, 7, "np")], text)).table()


def test_doubtful_spans_are_refused_by_name() -> None:
    one, other = Document("ab cd"), Document("ab  cd")
    with pytest.raises(ValueError, match="document 1"):
        spans_of((1, "a", [(0, 2, "x")], one), (1, "b", [], other)).table()
    twice = spans_of((1, "a", [(0, 2, "x")], one), (1, "a", [], one))
    with pytest.raises(ValueError, match=r"'a'.*document 1 more.*'last'"):
        twice.table()
    assert read_spans(twice.table(repeats="first")) == {(1, "a"): [(0, 2, "x")]}  # type: ignore[arg-type]
    assert read_spans(twice.table(repeats="last")) == {(1, "a"): []}  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="document 1"):
        spans_of((1, "a", [(0, 9, "x")], one)).table()
    with pytest.raises(ValueError, match="gaps="):
        mh.read(str(SAMPLES / "webanno/*/*.tsv"), gaps="outside")


@pytest.mark.parametrize(
    ("fields", "named", "quoted", "wanted"),
    [
        ({"text": "a b"}, "body", [], "a b"),
        ({"head": "a b", "body": "c d", "n": 3}, "body", [], "c d"),
        ({"head": "a b", "body": "c d"}, "x", [(2, 3, "b")], "a b"),
        ({"head": "a b", "text": "c d"}, "x", [], "c d"),
        ({"head": "a b", "body": "c d"}, "x", [], None),
        ({"n": 3}, "text", [], None),
        # A quote that fits nowhere decides nothing.
        ({"head": "a b", "body": "c d"}, "body", [(0, 1, "z")], "c d"),
    ],
)
def test_the_text_is_found_among_fields(fields: Any, named: str, quoted: Any, wanted: str | None) -> None:
    assert text_among(fields, named, quoted) == wanted


def label_studio(tmp_path: Path, *values: dict[str, Any], kind: str = "labels") -> Export:
    result = [{"from_name": "q", "to_name": "t", "type": kind, "value": value} for value in values]
    path = tmp_path / "export.json"
    task = {"id": 1, "data": {"t": "<p>ab cd</p>"}, "annotations": [{"completed_by": 1, "result": result}]}
    path.write_text(json.dumps([task]))
    found = open_export([Source(one, Layout()) for one in expand(str(path))], "auto")
    assert isinstance(found, Export)
    return found


def test_spans_of_pages_count_what_is_read_and_sounds_are_named(tmp_path: Path) -> None:
    page = {"start": "/p[1]/text()[1]", "end": "/p[1]/text()[1]", "globalOffsets": {"start": 3, "end": 5}}
    table = label_studio(tmp_path, page | {"hypertextlabels": ["x"]}, kind="hypertextlabels").table()
    assert read_spans(table) == {(1, "1"): [(3, 5, "x")]}  # type: ignore[arg-type]
    assert table.lengths.tolist() == [5]  # type: ignore[attr-defined]
    sound = label_studio(tmp_path, {"start": 0.5, "end": 1.5, "channel": 0, "labels": ["x"]})
    assert sound.questions == {"q": "intervals"}
    with pytest.raises(ValueError, match="'q'"):
        sound.table()


@pytest.mark.parametrize("start", ["0", 0.5, -1, None, True, [1]])
def test_places_that_are_none_are_refused_as_bad_input(start: Any, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (SAMPLES / "prodigy_spans.jsonl").read_text("utf-8").splitlines()]
    rows[0]["spans"][0]["start"] = start
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with (
        pytest.raises(ValueError, match="document 201"),
        pytest.warns(mh.errors.DataWarning, match="dropped"),
    ):
        mh.read(path)
