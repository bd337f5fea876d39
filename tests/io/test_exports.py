"""Exports of labelling platforms, from samples made by hand after each platform's documentation."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import complaint

import manyhands as mh
from manyhands._base.sources import Layout, Source, expand
from manyhands.cli import main
from manyhands.io.exports import Export, open_export
from manyhands.io.exports.export import Answer, one_or_set

SAMPLES = Path(__file__).parents[1] / "data" / "exports"

#: What a question of a sample is read into: file, settings, and the rows of task, worker and answer.
CLASSES: dict[str, tuple[str, dict[str, Any], list[tuple[Any, ...]]]] = {
    "label-studio": (
        "label_studio.json",
        {"question": "mood"},
        [(11, "2", "good"), (11, "ann@example.org", "good"), (12, "ann@example.org", "bad")],
    ),
    "prodigy": ("prodigy.jsonl", {}, [(101, "mail-ann", "spam"), (101, "mail-bob", "ham"), (102, "mail-ann", "ham")]),
    "doccano": (
        "doccano/*.jsonl",
        {},
        [(1, "ann", "positive"), (1, "bob", "positive"), (2, "ann", "negative"), (2, "bob", "positive")],
    ),
    "argilla": ("argilla.json", {}, [("r1", "u1", "kind"), ("r1", "u2", "rude"), ("r2", "u1", "rude")]),
    "mturk": ("mturk.csv", {}, [("H1", "W1", "cat"), ("H1", "W2", "cat"), ("H2", "W1", "dog")]),
    "crowdflower": ("crowdflower.csv", {}, [("1", "901", "sunny"), ("2", "901", "rain"), ("2", "903", "rain")]),
    "toloka": ("toloka.tsv", {}, [("t1", "w1", "yes"), ("t2", "w1", "no"), ("t2", "w3", "no")]),
    "sagemaker": (
        "sagemaker.json",
        {},
        [("0", "private.a", "cat"), ("0", "private.b", "dog"), ("1", "private.a", "dog")],
    ),
    "cvat": (
        "cvat/*.xml",
        {"question": "tag"},
        [("a.png", "job1", "day"), ("a.png", "job2", "day"), ("b.png", "job1", "night"), ("b.png", "job2", "day")],
    ),
    "phoenix": ("phoenix.jsonl", {}, [("s1", "ann", "yes"), ("s1", "judge-a", "no"), ("s2", "ann", "no")]),
    "json": ("plain.json", {}, [(1, "a", "x"), (1, "b", "y"), (2, "a", "x")]),
}


def rows_of(votes: mh.Annotations) -> list[tuple[Any, ...]]:
    return list(zip(*votes.to_frame().to_pydict().values(), strict=True))


def export(name: str, asked: str = "auto") -> Export:
    found = open_export([Source(path, Layout()) for path in expand(str(SAMPLES / name))], asked)
    assert isinstance(found, Export)
    return found


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
@pytest.mark.parametrize("name", CLASSES)
def test_exports_become_tables(name: str) -> None:
    path, settings, wanted = CLASSES[name]
    for asked in ("auto", name):
        assert rows_of(mh.read(str(SAMPLES / path), format=asked, **settings)) == wanted


@pytest.mark.parametrize(
    ("name", "question", "warning"),
    [
        ("label_studio.json", "mood", "1 skipped"),
        ("mturk.csv", None, "1 rejected"),
        ("argilla.json", None, "1 skipped"),
    ],
)
def test_what_does_not_count_is_left_out_aloud(name: str, question: str | None, warning: str) -> None:
    with pytest.warns(mh.errors.DataWarning, match=f"{warning}"):
        mh.read(SAMPLES / name, question=question)


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_models_are_workers_only_where_asked() -> None:
    votes = mh.read(SAMPLES / "label_studio.json", question="mood", predictions=True)
    assert "v3" in votes.workers.tolist()
    assert "gpt" in mh.read(SAMPLES / "argilla.json", predictions=True).workers.tolist()
    assert "gpt" not in mh.read(SAMPLES / "argilla.json").workers.tolist()


@pytest.mark.filterwarnings("ignore:.*1 relations:manyhands.errors.DataWarning")
def test_the_kind_follows_from_the_export() -> None:
    stars = mh.read(SAMPLES / "label_studio.json", question="stars")
    assert isinstance(stars, mh.Ratings)
    assert stars.values.tolist() == [5.0, 4.0]
    assert mh.read(SAMPLES / "argilla_nested.json", question="score").values.tolist() == [7.0]
    assert isinstance(mh.read(SAMPLES / "label_studio_shapes.json", question="note"), mh.Texts)
    with pytest.raises(ValueError, match="'stars'"):
        mh.read(SAMPLES / "label_studio.json", question="stars", kind="sequences")


def choices(*chosen: list[str]) -> Export:
    said = enumerate(map(one_or_set, chosen))
    return Export.of("e", [Answer("q", kind, 1, f"w{n}", labels) for n, (kind, labels) in said])


def test_one_empty_answer_does_not_turn_classes_into_sets() -> None:
    with pytest.warns(mh.errors.DataWarning, match="1 answers.*2 answers.*kind='multilabel'"):
        votes = choices(["a"], [], ["b"]).table()
    assert isinstance(votes, mh.Annotations)
    assert rows_of(votes) == [(1, "w0", "a"), (1, "w2", "b")]
    assert isinstance(choices(["a"], [], ["b", "a"]).table(), mh.MultiLabels)


def test_an_asked_kind_is_obeyed_by_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = choices(["a"], [], ["b"]).as_kind(None, "multilabel")
    assert sets.columns()["labels"] == [["a"], [], ["b"]]
    mixed = choices(["a"], [], ["b", "a"])
    with pytest.warns(mh.errors.DataWarning, match="1 answers.*1 answers"):
        assert rows_of(mixed.as_kind("q", "categorical").table()) == [(1, "w0", "a")]  # type: ignore[arg-type]
    assert mixed.as_kind(None, "categorical").as_kind(None, "multilabel").questions == {"q": "multilabel"}
    stars = mh.read(SAMPLES / "label_studio.json", question="stars", kind="categorical")
    assert stars.classes.tolist() == [4, 5]
    with pytest.raises(ValueError, match="'q'"):
        choices(["a"]).as_kind(None, "numeric")
    with pytest.raises(ValueError, match="'q'"):
        choices(["a"]).as_kind(None, "boxes")
    with pytest.raises(ValueError, match=r"'r'.*'q'"):
        choices(["a"]).question("r")
    out = tmp_path / "labels.csv"
    log = [str(SAMPLES / "label_studio.json"), "--question", "mood", "--kind"]
    assert main(["aggregate", *log, "multilabel", "-o", str(out), "-q"]) == 0
    assert out.read_text().startswith('"task","labels"')
    assert main(["describe", str(SAMPLES / "label_studio.json"), "--question", "stars", "--kind", "categorical"]) == 0
    assert "classes" in capsys.readouterr().out


def test_several_questions_must_be_chosen_from() -> None:
    with pytest.raises(ValueError, match=r"question=….*'mood'"):
        mh.read(SAMPLES / "label_studio.json")
    with pytest.raises(ValueError, match=r"'moods'.*'mood'.*'stars'"):
        mh.read(SAMPLES / "label_studio.json", question="moods")


def test_gold_comes_along() -> None:
    for name, question, wanted in (
        ("label_studio.json", "mood", {"task": [11], "label": ["good"]}),
        ("toloka.tsv", None, {"task": ["t2"], "label": ["no"]}),
        ("crowdflower.csv", None, {"task": ["2"], "label": ["rain"]}),
    ):
        gold = export(name).gold(question)
        assert gold is not None
        assert gold.to_pydict() == wanted
    assert export("mturk.csv").gold() is None


@pytest.mark.filterwarnings("ignore:.*1 relations:manyhands.errors.DataWarning")
def test_spans_boxes_and_texts_are_kept() -> None:
    shapes = export("label_studio_shapes.json")
    assert shapes.questions == {
        "box": "boxes",
        "ner": "sequences",
        "kind": "categorical",
        "better": "pairwise",
        "note": "texts",
    }
    box = shapes.columns("box")
    assert [box[name] for name in ("x1", "y1", "x2", "y2", "label")] == [[20.0], [20.0], [80.0], [60.0], ["dog"]]
    assert shapes.columns("kind")["label"] == ["animal / dog"]
    assert shapes.columns("note")["text"] == ["a dog\nbarking"]
    letter = export("webanno/*/*.tsv").columns()
    assert letter["task"] == ["letter.txt"] * 5
    assert letter["worker"] == ["ann"] * 3 + ["bob"] * 2
    # The face takes two units of UTF-16 and one character.
    assert list(zip(letter["start"], letter["end"], letter["label"], strict=True))[:3] == [
        (0, 3, "PER"),
        (8, 15, "PER"),
        (18, 23, "DA_TE"),
    ]


def test_all_there_is_to_know_is_in_the_frame() -> None:
    frame = export("label_studio.json").to_frame("mood").to_pydict()
    assert frame["status"] == ["given", "given", "given", "given", "given", "skipped"]
    assert frame["source"] == ["worker", "gold", "worker", "model", "worker", "worker"]
    assert frame["seconds"][0] == 4.2
    assert frame["when"][0] == "2026-03-01T09:10:00Z"


def test_settings_of_a_table_are_taken_by_exports(tmp_path: Path) -> None:
    task = {"id": 1, "data": {"text": "t"}, "annotations": []}
    for number, mood in enumerate(("good", "bad")):
        result = [{"from_name": "mood", "to_name": "text", "type": "choices", "value": {"choices": [mood]}}]
        task["annotations"].append({"id": number, "completed_by": 1, "result": result})
    path = tmp_path / "twice.json"
    path.write_text(json.dumps([task]))
    for repeats, mood in (("first", "good"), ("last", "bad")):
        assert mh.read(path, repeats=repeats).to_frame()["label"].to_pylist() == [mood]


def test_lists_and_wide_tables(tmp_path: Path) -> None:
    wanted = [(1, "a", "x"), (1, "b", "y"), (2, "a", "x")]
    assert rows_of(mh.read(SAMPLES / "lists.jsonl")) == wanted
    import pandas as pd

    lists = tmp_path / "lists.parquet"
    pd.read_json(SAMPLES / "lists.jsonl", lines=True).rename(columns={"annotators": "annotator"}).to_parquet(lists)
    assert rows_of(mh.read(lists, label="label")) == wanted
    wide = mh.read(SAMPLES / "wide.csv", layout="wide")
    assert rows_of(wide) == [
        ("q1", "ann", "yes"),
        ("q1", "bob", "yes"),
        ("q1", "cy", "no"),
        ("q2", "ann", "no"),
        ("q2", "cy", "no"),
    ]
    with pytest.raises(ValueError, match="layout='wide'"):
        mh.read(SAMPLES / "wide.csv")


def test_several_columns_are_one_id(tmp_path: Path) -> None:
    log = {"task": [1, 1, 1], "judge": ["a", "a", "b / c"], "prompt": [1, 2, 1], "label": ["x", "y", "x"]}
    votes = mh.Annotations.from_frame(log, worker=["judge", "prompt"])
    assert votes.workers.tolist() == ["a | 1", "a | 2", "b / c | 1"]
    path = tmp_path / "log.csv"
    votes.to_frame().to_pandas().to_csv(path, index=False)
    path.write_text("task,judge,prompt,label\n1,a,1,x\n1,a,2,y\n1,b / c,1,x\n")
    assert mh.read(path, worker=["judge", "prompt"]) == votes
    with pytest.raises(ValueError, match="annotation"):
        mh.Annotations.from_frame(log | {"prompt": [1, None, 1]}, worker=["judge", "prompt"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"id": 1, "data": {}, "annotations": [', "JSON.*line 1"),
        ("[" * 100_000, "nested"),
        ('{"a": 1}\n{"b": ', "line 2.*JSON"),
        ("[]", "answers"),
        ("[1, 2]", "value 1.*int"),
        ('[{"task": 1, "worker": "a"}]', "label"),
    ],
)
def test_bad_documents_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        mh.read(path)


def test_bombs_and_strangers_are_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.xml"
    bomb.write_text('<!DOCTYPE a [<!ENTITY b "cc">]><annotations><image name="&b;"/></annotations>')
    with pytest.raises(mh.errors.FileFormatError, match="document"):
        mh.read(bomb)
    with pytest.raises(ValueError, match="'prodigy'"):
        mh.read(SAMPLES / "label_studio.json", format="prodigy")
    with pytest.raises(ValueError, match=r"'mturk'.*HITId"):
        mh.read(SAMPLES / "crowdflower.csv", format="mturk")
    with pytest.raises(ValueError, match="format"):
        mh.read(SAMPLES / "label_studio.json", format="excel")
    with pytest.raises(mh.errors.FileFormatError, match="output manifest"):
        mh.read(SAMPLES / "sagemaker_manifest.jsonl")


def nameless(*workers: Any) -> str:
    result = [{"from_name": "mood", "to_name": "text", "type": "choices", "value": {"choices": ["good"]}}]
    given = [{"result": result} | ({} if worker is None else {"completed_by": worker}) for worker in workers]
    return json.dumps([{"id": 1, "data": {}, "annotations": given}])


def test_answers_without_an_annotator_are_no_worker(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(nameless(None, None))
    with pytest.raises(ValueError, match="'mood'"):
        mh.read(path)
    path.write_text(nameless(None, 7))
    with pytest.warns(mh.errors.DataWarning, match="1 answer"):
        assert mh.read(path).workers.tolist() == ["7", "unknown"]


def test_arena_tables_are_comparisons(capsys: pytest.CaptureFixture[str]) -> None:
    arena = str(SAMPLES / "arena.csv")
    assert main(["aggregate", arena, "-q"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()[1:]] == ['"gpt"', '"claude"', '"llama"']
    assert "4 comparisons of 3 items by 2 workers, 2 ties" in repr(mh.read(arena))
    assert mh.read(arena) == mh.read(arena, kind="pairwise")


def exports_script() -> Any:
    path = Path(__file__).parents[2] / "scripts" / "exports.py"
    spec = importlib.util.spec_from_file_location("exports", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_sample_is_taken_to_answers_by_the_script(tmp_path: Path) -> None:
    script = exports_script()
    named = {path.split("/")[0] for (path, *_), _ in script.EXPORTS.values()}
    # Other forms of those, and labels without workers.
    others = {"argilla_nested.json", "label_studio_shapes.json", "labelbox_import.ndjson", "sagemaker_manifest.jsonl"}
    assert named | others == {path.name for path in SAMPLES.iterdir()}
    script.taken("label-studio", tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} >= {".parquet", ".csv", ".html"}


#: Bad input as it is typed, and what is said of it.
BAD = {
    "cut.json": ('[{"id": 1, "data": {}, "annotations": [', "", "is not valid JSON"),
    "bomb.json": ("[" * 200_000, "", "nested too deeply"),
    "who.json": (nameless(None), "", "does not say who"),
    "two.json": ((SAMPLES / "label_studio.json").read_text("utf-8"), "", "choose one with --question; they are 'mood'"),
    "other.json": ((SAMPLES / "label_studio.json").read_text("utf-8"), "--from prodigy", "not of format 'prodigy'"),
    "sound.json": (
        (SAMPLES / "label_studio_spans.json").read_text("utf-8").replace('"end":', '"channel": 0, "end":'),
        "",
        "the export holds intervals: this version cannot aggregate them",
    ),
    "no-worker.csv": ("task,label\n1,x\n", "", "if each worker has a column, say --layout wide"),
    "broad.csv": (",".join(f"c{n}" for n in range(100_000)) + "\n", "", "no column has a well-known name for the task"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, options, said = BAD[name]
    (tmp_path / name).write_text(content)
    out = tmp_path / "labels.csv"
    assert said in complaint(capsys, "aggregate", tmp_path / name, options, "-o", out)
    assert not out.exists()


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning", "ignore::manyhands.errors.OverlapWarning")
def test_boxes_of_exports_are_aggregated(tmp_path: Path) -> None:
    out = tmp_path / "boxes.csv"
    shapes = SAMPLES / "label_studio_shapes.json"
    assert main(["aggregate", str(shapes), "--question", "box", "-o", str(out), "-q"]) == 0
    assert '"dog"' in out.read_text()
    assert isinstance(mh.read(shapes, question="box"), mh.Boxes)
    cvat = [str(path) for path in sorted((SAMPLES / "cvat").glob("*.xml"))]
    assert isinstance(mh.read(cvat, question="boxes"), mh.Boxes)
    # Who drew nothing saw nothing, and boxes may be of no class.
    drawn = [("a", [(0, 0, 4, 4, None)]), ("b", [(0, 0, 4, 5, None)]), ("c", [])]
    bare = Export("bare", [Answer("boxes", "boxes", 1, worker, said) for worker, said in drawn]).table()
    assert repr(bare) == "<Boxes: 2 boxes in 1 task by 3 workers>"


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
def test_the_command_line_takes_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    out = tmp_path / "labels.csv"
    assert main(["aggregate", str(SAMPLES / "label_studio.json"), "--question", "mood", "-o", str(out), "-q"]) == 0
    assert out.read_text().splitlines()[1].startswith('11,"good"')
    assert main(["aggregate", str(SAMPLES / "wide.csv"), "--layout", "wide", "--method", "majority"]) == 0
    assert '"q1","yes"' in capsys.readouterr().out
    text = (SAMPLES / "plain.json").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["aggregate", "-", "--method", "majority"]) == 0
    assert '1,"x"' in capsys.readouterr().out
    gold = tmp_path / "gold.csv"
    assert (
        main(["import", str(SAMPLES / "toloka.tsv"), "-o", str(tmp_path / "log.csv"), "--gold", str(gold), "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["questions"] == {"result": "categorical"}
    assert gold.read_text() == '"task","label"\n"t2","no"\n'
    assert main(["import", str(SAMPLES / "wide.csv")]) == 2
    assert "is already a table" in capsys.readouterr().err
