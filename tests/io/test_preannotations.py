"""Answers go back to the platform they came from, and come in again as predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import complaint, run

import manyhands as mh

SAMPLES = Path(__file__).parents[1] / "data" / "exports"
QUIET = pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")


def written(path: Path) -> list[Any]:
    text = path.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


@QUIET
@pytest.mark.parametrize(
    ("sample", "question", "name"),
    [
        ("label_studio.json", "mood", "pre.json"),
        ("argilla.json", None, "pre.json"),
        ("argilla.json", None, "pre.jsonl"),
        ("argilla_nested.json", "tone", "pre.jsonl"),
    ],
)
def test_classes_come_back_as_predictions(sample: str, question: str | None, name: str, tmp_path: Path) -> None:
    votes = mh.read(SAMPLES / sample, question=question)
    model = mh.MajorityVote().fit(votes)
    path = tmp_path / name
    assert mh.io.preannotate(SAMPLES / sample, model, path, question=question, name="crowd 1") == votes.n_tasks
    again = mh.read(path, predictions=True)
    assert again.workers.tolist() == ["crowd 1"]
    assert [row["label"] for row in again.to_frame().to_pylist()] == model.labels_.tolist()
    assert again.tasks.tolist() == votes.tasks.tolist()
    with pytest.raises(ValueError, match=r"predictions?"):
        mh.read(path)


@QUIET
def test_what_label_studio_is_told(tmp_path: Path) -> None:
    model = mh.MajorityVote().fit(mh.read(SAMPLES / "label_studio.json", question="mood"))
    path = tmp_path / "pre.json"
    mh.io.preannotate(SAMPLES / "label_studio.json", model, path, question="mood")
    first = written(path)[0]
    region = {"from_name": "mood", "to_name": "text", "type": "choices", "value": {"choices": ["good"]}}
    assert first == {
        "id": 11,
        "data": {"text": "the meal was lovely"},
        "predictions": [{"model_version": "manyhands", "score": 1.0, "result": [region]}],
    }
    stars = mh.aggregate(mh.read(SAMPLES / "label_studio.json", question="stars"))
    mh.io.preannotate(SAMPLES / "label_studio.json", stars, path, question="stars")
    (told,) = written(path)
    value = told["predictions"][0]["result"][0]["value"]
    assert value == {"rating": round(stars.to_frame().column("value")[0].as_py())}  # stars are whole
    assert isinstance(value["rating"], int)
    assert "score" not in told["predictions"][0]


def region(name: str, kind: str, value: Any) -> dict[str, Any]:
    return {"from_name": name, "to_name": "text", "type": kind, "value": {kind: value}}


def test_sets_and_paths_come_back_as_they_were(tmp_path: Path) -> None:
    export, path = tmp_path / "export.json", tmp_path / "pre.json"
    results = [region("topics", "choices", ["a", "b"]), region("kind", "taxonomy", [["animal", "dog"]])]
    task = {"id": "t1", "data": {}, "annotations": [{"completed_by": n, "result": results} for n in (1, 2, 3)]}
    export.write_text(json.dumps([task]))
    for question, kind, value in (("topics", "choices", ["a", "b"]), ("kind", "taxonomy", [["animal", "dog"]])):
        model = mh.aggregate(mh.read(export, question=question))
        mh.io.preannotate(export, model, path, question=question)
        (told,) = written(path)[0]["predictions"][0]["result"]
        assert told == region(question, kind, value)


@QUIET
def test_what_argilla_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pre.jsonl"
    flat = mh.MajorityVote().fit(mh.read(SAMPLES / "argilla.json"))
    mh.io.preannotate(SAMPLES / "argilla.json", flat, path)
    record = written(path)[1]
    assert record == {
        "id": "r2",
        "text": "bye",
        "tone.suggestion": "rude",
        "tone.suggestion.score": 1.0,
        "tone.suggestion.agent": "manyhands",
    }
    nested = mh.MajorityVote().fit(mh.read(SAMPLES / "argilla_nested.json", question="tone"))
    mh.io.preannotate(SAMPLES / "argilla_nested.json", nested, path, question="tone")
    suggestion = {"value": "kind", "score": 1.0, "agent": "manyhands"}
    assert written(path) == [{"id": "r1", "fields": {"text": "hello"}, "suggestions": {"tone": suggestion}}]


@QUIET
def test_what_cannot_go_back(tmp_path: Path) -> None:
    model = mh.MajorityVote().fit(mh.read(SAMPLES / "label_studio.json", question="mood"))
    path = tmp_path / "pre.json"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"export": SAMPLES / "prodigy.jsonl"}, "'label-studio'.*'argilla'"),
        ({"export": SAMPLES / "crowdflower.csv"}, "export"),
        ({"question": None}, "questions"),
        (
            {"export": SAMPLES / "label_studio_shapes.json", "question": "note"},
            "pre-annotations",
        ),
        ({"export": SAMPLES / "argilla.json", "question": None}, "2 tasks"),
        ({"path": tmp_path / "pre.jsonl"}, "label-studio.*[.]json"),
        ({"format": "prodigy"}, "format"),
        ({"format": "argilla"}, "export"),
        ({"export": "-"}, "stream"),
    ]
    for change, message in cases:
        given = {"export": SAMPLES / "label_studio.json", "path": path, "question": "mood"} | change
        with pytest.raises(ValueError, match=message):
            mh.io.preannotate(given.pop("export"), model, given.pop("path"), **given)
    with pytest.raises(TypeError, match=r"'stars'.*MajorityVote"):
        mh.io.preannotate(SAMPLES / "label_studio.json", model, path, question="stars")
    assert not list(tmp_path.iterdir())


def test_the_command_line_writes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pre, labels = tmp_path / "pre.json", tmp_path / "labels.csv"
    export = SAMPLES / "label_studio.json"
    run("aggregate", export, "--question mood -q -o", labels, "--preannotations", pre)
    assert [task["id"] for task in written(pre)] == [11, 12]
    capsys.readouterr()
    log = tmp_path / "log.csv"
    log.write_text("task,worker,label\n1,a,x\n")
    pre.unlink()
    labels.unlink()
    said = complaint(capsys, "aggregate", log, "-o", labels, "--preannotations", pre)
    assert "pre-annotations need one" in said
    said = complaint(capsys, "aggregate", export, "--question mood -o", labels, "--preannotations", tmp_path / "p.xml")
    assert "takes files ending in .json" in said
    assert not labels.exists()
