"""What tasks show to workers is carried from files to answers, reports and explanations, and changes none of them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from commands import complaint

import manyhands as mh
from manyhands.cli import main

SAMPLES = Path(__file__).parents[1] / "data" / "exports"
LOG = "task,worker,label,text\n1,a,x,first\n1,b,x,first\n2,a,y,https://example.org/2.png\n2,b,x,\n3,a,x,\n3,b,y,\n"
#: An annotation of Label Studio.
ANNOTATION = {
    "completed_by": 1,
    "result": [{"from_name": "mood", "to_name": "text", "type": "choices", "value": {"choices": ["good"]}}],
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def test_a_column_of_a_table_is_shown(log: Path, tmp_path: Path) -> None:
    votes = mh.read(log, show="text")
    assert votes.shown == {1: "first", 2: "https://example.org/2.png"}
    assert votes == mh.read(log)
    assert mh.read(log).shown == {}
    rows = [dict(zip(LOG.split("\n")[0].split(","), line.split(","), strict=True)) for line in LOG.split()[1:]]
    (tmp_path / "log.json").write_text(json.dumps(rows))
    assert mh.read(tmp_path / "log.json", show="text").shown == {str(task): text for task, text in votes.shown.items()}


@pytest.mark.parametrize("chosen", [{}, {"worker": ["ann", "bob"]}], ids=["all", "chosen"])
def test_what_a_wide_table_shows_is_no_worker(chosen: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("task,text,ann,bob\n1,first,x,y\n2,second,x,\n")
    votes = mh.read(path, layout="wide", show="text", **chosen)
    assert votes.workers.tolist() == ["ann", "bob"]
    assert votes.classes.tolist() == ["x", "y"]
    assert list(votes.shown.values()) == ["first", "second"]
    with pytest.raises(ValueError, match=r"column 'txt'.*'task'.*'text'.*'ann'.*'bob'"):
        mh.read(path, layout="wide", show="txt", **chosen)


def test_what_is_shown_stays_with_its_task(log: Path, tmp_path: Path) -> None:
    votes = mh.read(log, show="text")
    assert votes.select(tasks=[2, 3]).shown == {2: "https://example.org/2.png"}
    assert votes.without(["b"]).shown == votes.shown
    assert votes.sample(per_task=1).shown == votes.shown
    assert pickle.loads(pickle.dumps(votes)).shown == votes.shown
    votes.save(tmp_path / "votes.mh")
    assert mh.load(tmp_path / "votes.mh", mh.Annotations).shown == votes.shown
    model = mh.MajorityVote().fit(votes)
    model.save(tmp_path / "model.mh")
    assert mh.load(tmp_path / "model.mh").explain(1, votes).shown == "first"


def tables() -> dict[str, Any]:
    ids = ([1, 1, 2], ["a", "b", "a"])
    return {
        "classes": mh.Annotations.from_arrays(*ids, ["x", "y", "x"]),
        "numbers": mh.Ratings.from_arrays(*ids, [1.0, 2.5, 3.0]),
        "sets": mh.MultiLabels.from_arrays(*ids, [["x"], ["x", "y"], []]),
        "texts": mh.Texts.from_arrays(*ids, ["one two", "one", "three"]),
        "boxes": mh.Boxes.from_arrays(*ids, [(0, 0, 2, 2), (0, 0, 3, 3), (1, 1, 2, 2)]),
        "masks": mh.Masks.from_arrays(*ids, [[[1, 0]], [[1, 1]], [[0, 1]]]),
        "sequences": mh.Sequences.from_spans([1, 1, 2], [0, 0, 1], [2, 1, 3], ["a", "b", "a"], ["x", "x", "y"]),
    }


@pytest.mark.parametrize("kind", tables())
def test_tables_of_all_kinds_of_tasks_show(kind: str, tmp_path: Path) -> None:
    votes = tables()[kind]
    shown = votes.showing({2: "second", 9: "of no task"})
    assert shown.shown == {2: "second"}
    assert shown == votes
    shown.save(tmp_path / "table.mh")
    assert mh.load(tmp_path / "table.mh").shown == {2: "second"}
    assert shown.without(["b"]).shown == {2: "second"}


def test_what_cannot_be_shown_is_named(log: Path) -> None:
    with pytest.raises(ValueError, match=r"column 'label'.*task 2"):
        mh.read(log, show="label")
    with pytest.raises(ValueError, match="column 'texts'"):
        mh.read(log, show="texts")
    with pytest.raises(TypeError, match="int"):
        mh.read(log).showing({1: 5})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="show=…"):
        mh.read(SAMPLES / "arena.csv", show="model_a")
    with pytest.raises(ValueError, match=r"'txt'.*'text'"):
        mh.read(SAMPLES / "doccano", show="txt")
    task = {"id": 1, "data": {"left": "a", "right": "b"}, "annotations": [ANNOTATION]}
    log.with_suffix(".json").write_text(json.dumps([task]))
    with pytest.raises(ValueError, match=r"show=….*'left'.*'right'"):
        mh.read(log.with_suffix(".json"), show="auto")


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning")
@pytest.mark.parametrize(
    ("sample", "settings", "task", "wanted"),
    [
        ("label_studio.json", {"question": "mood"}, 11, None),
        ("label_studio_rows.csv", {"question": "mood"}, "1", "good movie"),
        ("prodigy.jsonl", {}, 101, None),
        ("doccano", {}, 1, None),
        ("mturk.csv", {}, "H1", None),
        ("zooniverse.csv", {"question": "T0", "show": "url"}, "101", "https://example.org/cam101.jpg"),
        ("labelbox.ndjson", {"question": "weather"}, "street.jpg", "https://example.org/street.jpg"),
        ("brat", {}, "letter", "Ann goes to  Paris today"),
        ("inspect.json", {"question": "score"}, 1, "Question 1"),
        ("inspect.json", {"question": "score", "show": "output"}, 2, "Answer 2"),
    ],
)
def test_exports_show_what_their_platform_shows(sample: str, settings: Any, task: Any, wanted: str | None) -> None:
    shown = mh.read(SAMPLES / sample, **({"show": "auto"} | settings)).shown
    if wanted is None:
        assert isinstance(shown[task], str)
        assert shown[task]
    else:
        assert shown[task] == wanted


@pytest.mark.filterwarnings("ignore::manyhands.errors.DataWarning", "ignore::manyhands.errors.OverlapWarning")
def test_the_command_line_writes_it_next_to_tasks(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "labels.csv"
    assert main(["aggregate", str(log), "--show", "text", "-o", str(out), "-q"]) == 0
    assert [line.split(",")[:3] for line in out.read_text().splitlines()][:3] == [
        ['"task"', '"shown"', '"label"'],
        ["1", '"first"', '"x"'],
        ["2", '"https://example.org/2.png"', '"x"'],
    ]
    spans = tmp_path / "spans.csv"
    assert main(["aggregate", str(SAMPLES / "brat"), "--show", "auto", "-o", str(spans), "-q"]) == 0
    assert '"Ann goes to  Paris today"' in spans.read_text()
    assert main(["import", str(SAMPLES / "brat"), "--show", "auto", "-o", str(spans), "-q"]) == 0
    assert '"Ann goes to  Paris today"' in spans.read_text()
    capsys.readouterr()
    assert main(["explain", str(log), "--id", "1", "--show", "text", "-q"]) == 0
    assert "  first\n" in capsys.readouterr().out
    assert "differs within task" in complaint(capsys, "aggregate", log, "--show", "label")


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")
def test_reports_show_texts_and_links_but_no_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    votes = mh.Annotations.from_arrays([1, 1, 2, 2], ["a", "b", "a", "b"], ["x", "y", "x", "x"])
    votes = votes.showing({1: evil, 2: "javascript:alert(2)"})
    page = tmp_path / "page.html"
    mh.MajorityVote().fit(votes).report(page, audit=False)
    text = page.read_text(encoding="utf-8")
    assert evil not in text
    assert "what the task shows to workers" in text
    # Only addresses of the web become links.
    assert r"/^https?:\/\/[^\s]+$/" in text
