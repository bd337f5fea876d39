"""Logs of other kinds: drawn, aggregated and measured on the command line, and in Python the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import complaint

import manyhands as mh
from manyhands import metrics
from manyhands.cli import main

#: How a log of each kind is drawn, a measure of it, and the least, or for errors the most, that the default reaches.
KINDS: dict[str, tuple[str, str, float]] = {
    "numeric": ("--tasks 60 --workers 8", "rmse", -0.7),
    "pairwise": ("--items 12 --workers 8 --comparisons 600", "kendall", 0.6),
    "clustering": ("--items 30 --workers 10 --clusters 3 --set pairs=0.5", "adjusted_rand", 0.5),
    "multilabel": ("--tasks 60 --workers 8 --labels 4", "f1", 0.8),
    "texts": ("--tasks 20 --workers 8", "word_error_rate", -0.1),
    "masks": ("--tasks 6 --set size=32", "iou", 0.8),
    "boxes": ("--tasks 20", "f1", 0.9),
    "sequences": ("--tasks 40 --workers 8 --types 2", "f1", 0.7),
}


@pytest.mark.filterwarnings("ignore::manyhands.errors.OverlapWarning")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_drawn_log_is_measured(kind: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes, measure, least = KINDS[kind]
    log, truth, out = (str(tmp_path / f"{name}.{ending}") for name in ("log", "truth", "out"))
    assert main(["simulate", "--kind", kind, *sizes.split(), "--seed", "3", "-o", log, "--truth", truth, "-q"]) == 0
    asked = ["aggregate", log, "--kind", kind, "--evaluate", truth, "-o", out]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["evaluation"]
    assert (-found[measure] if least < 0 else found[measure]) >= least
    assert main(asked) == 0
    assert f"{measure.replace('_', ' ')} {found[measure]:.4f}" in capsys.readouterr().out
    if ending == "csv":
        page = tmp_path / "page.html"
        assert main(["report", log, "--kind", kind, "--evaluate", truth, "-o", str(page), "-q"]) == 0
        told = page.read_text("utf-8")
        assert f"{found[measure]:.4f}" in told
        data = json.loads(told.partition('id="data">')[2].partition("</script>")[0])
        assert data["tables"]["workers"]["rows"]
        assert data["tables"]["tasks"]["rows"]
        names = [column["name"] for column in data["tables"]["tasks"]["columns"]]
        if "confidence" in names and kind != "pairwise":  # items are listed by rank
            sure = [row[names.index("confidence")] for row in data["tables"]["tasks"]["rows"]]
            assert sure == sorted(sure)
        # What a page refers to is there.
        assert set(re.findall(r'data-chart="(\w+)"', told)) == set(data["charts"])
        assert set(re.findall(r'href="#([a-z]+)"', told)) <= set(re.findall(r'id="([a-z]+)"', told))


def test_numbers_of_two_dimensions_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, truth = tmp_path / "log.csv", tmp_path / "truth.csv"
    rows = [(task, worker, task, 10 * task) for task in range(6) for worker in "abc"]
    log.write_text("task,worker,x,y\n" + "".join(f"{t},{w},{x},{y}\n" for t, w, x, y in rows))
    truth.write_text("task,x,y\n" + "".join(f"{t},{t + 3},{10 * t + 4}\n" for t in range(6)))
    asked = ["aggregate", str(log), "--kind", "numeric", "--columns", "value=x,y", "--method", "median"]
    assert main([*asked, "--evaluate", str(truth), "-o", str(tmp_path / "out.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["evaluation"]
    assert found["rmse"] == pytest.approx(5)  # the distance of (3, 4)


def test_winners_are_mapped_to_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "games.csv"
    log.write_text("left,right,winner\nx,y,0\nx,y,1\ny,z,1\n")
    assert main(["describe", str(log), "--kind", "pairwise", "--winners", "0=left,1=right", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_annotations"] == 3
    assert "0=left" in complaint(capsys, f"describe {log} --kind pairwise --winners left")


def test_measures_are_those_of_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = mh.simulate(30, 6, 2, seed=5, kind="sequences")
    model = mh.aggregate(drawn.log)
    log, spans = tmp_path / "log.csv", tmp_path / "spans.csv"
    from manyhands._base.write import write_table

    write_table(drawn.log.to_frame(), log)
    write_table(drawn.truth.spans().drop_columns(["worker"]), spans)
    assert main(["aggregate", str(log), "--evaluate", str(spans), "-o", str(tmp_path / "out.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["evaluation"]
    # Only sequences that the file knows of count.
    named = set(drawn.truth.spans().column("sequence").to_pylist())
    for relaxed, start in ((False, ""), (True, "relaxed_")):
        wanted = metrics.span_scores(model, drawn.truth, relaxed=relaxed, sequences=named)
        assert found[f"{start}f1"] == pytest.approx(wanted.f1)
        assert found[f"{start}precision"] == pytest.approx(wanted.precision)
    assert found["n_tasks"] == len(named)


def test_columns_of_the_truth_are_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, truth = tmp_path / "log.csv", tmp_path / "truth.csv"
    log.write_text("task,worker,value\n" + "".join(f"q{t},{w},{t}\n" for t in range(6) for w in "abc"))
    # What has the well-known names are other ids and other values.
    truth.write_text("task,value,document,level\n" + "".join(f"q{5 - t},99,q{t},{t + 2}\n" for t in range(6)))
    command = [
        "aggregate",
        str(log),
        "--kind",
        "numeric",
        "--method",
        "mean",
        "-o",
        str(tmp_path / "out.csv"),
        "--json",
    ]
    assert main([*command, "--evaluate", str(truth), "--truth-task", "document", "--truth-label", "level"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluation"]["rmse"] == pytest.approx(2)


BAD = {
    "task,heard\n1,a\n": "no column for the text",
    "task,text\nx,a\n": "knows none of the log's ids",
    "task,text\n1,a\n1,b\n": "several answers to one id",
}


@pytest.mark.parametrize("content", BAD)
def test_bad_truth_is_named(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, truth = tmp_path / "log.csv", tmp_path / "truth.csv"
    log.write_text("task,worker,text\n1,a,x y\n1,b,x y\n1,c,x z\n")
    truth.write_text(content)
    assert BAD[content] in complaint(capsys, "aggregate", log, "--evaluate", truth, "-o", tmp_path / "out.csv")
    assert "rover does not take --gold" in complaint(capsys, "aggregate", log, "--gold", truth)


def test_sets_and_clusters_are_compared() -> None:
    found = metrics.set_scores([[], ["a"], ["a", "b"]], [[], ["b"], ["b", "a"]])
    assert (found.exact, found.jaccard, found.f1) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert metrics.set_scores([[]], [[]]).f1 == 1
    from oracles.similarity import adjusted_rand

    for a, b in (([0, 0, 1, 1, 2], [1, 1, 0, 2, 2]), ([0, 1, 2], [0, 0, 2]), ([0, 0, 0], [0, 1, 2])):
        assert metrics.adjusted_rand(a, b) == pytest.approx(adjusted_rand(np.array(a), np.array(b)))
    assert metrics.adjusted_rand([0, 1, 2], [2, 1, 0]) == 1
    with pytest.raises(ValueError, match=r"2 items.*1"):
        metrics.adjusted_rand([0, 1], [0])
    with pytest.raises(ValueError, match="set"):
        metrics.set_scores([], [])
    assert metrics.mask_dice([[[1, 2]]], [[[1, 1]]]) == pytest.approx((2 / 3 + 0) / 2)
