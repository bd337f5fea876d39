"""``manyhands judges``: a panel of judges from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import complaint, rows, run, write_rows

from manyhands.cli import main

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def verdicts(tmp_path, monkeypatch):
    """Two versions, three judges, and labels of 60 items of each."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines, human = [], []
    for version, rate in (("v1", 0.5), ("v2", 0.9)):
        for task in range(150):
            good = rng.random() < rate
            for judge in ("a", "b", HOSTILE):
                reply = good if rng.random() < 0.85 else not good
                lines.append([f"t{task}", version, judge, "pass" if reply else "fail", 100 + task])
            if task < 60:
                human.append([f"t{task}", version, "pass" if good else "fail"])
    lines[5][3] = "error"
    write_rows("v.csv", ["task", "system", "judge", "verdict", "length"], *lines)
    write_rows("h.csv", ["task", "system", "label"], *human)
    return tmp_path


def test_everything_is_written(verdicts, capsys):
    code = main(
        [
            "judges",
            "v.csv",
            "--gold",
            "h.csv",
            "--compare",
            "system",
            "-o",
            "j.html",
            "--json",
            "j.json",
            "--markdown",
            "m.md",
            "--fused",
            "f.csv",
            "--next",
            "n.csv",
            "--next-labels",
            "20",
        ]
    )
    assert code == 0
    content = json.loads(Path("j.json").read_text())
    assert content["passed"]
    assert content["findings"] == []
    assert [row["system"] for row in content["scores"]] == ["v1", "v2"]
    assert content["n_failed"] == 1
    (one,) = content["panels"][0]["differences"]
    assert 0.2 < one["low"] < one["estimate"] < one["high"]
    assert len(rows("f.csv")) == 300
    assert len(rows("n.csv")) == 20
    assert "0.0" not in {row["probability"] for row in rows("n.csv")}
    figures_html = capsys.readouterr().out
    assert "score v1" in figures_html
    assert "j.html" in figures_html
    page = Path("j.html").read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert page.count("<section") == 7
    assert HOSTILE not in Path("m.md").read_text()


def test_json_goes_to_stdout(verdicts, capsys):
    run("judges v.csv --gold h.csv --json")
    assert json.loads(capsys.readouterr().out)["n_gold"] == 120
    run("judges v.csv --gold h.csv --format json")
    assert json.loads(capsys.readouterr().out)["n_gold"] == 120


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ("--min-score .8", "v1"),
        ("--max-width .01", "0.01"),
        ("--min-effective 9", "effective judges"),
    ],
)
def test_a_limit_that_does_not_hold(verdicts, capsys, limits, named):
    assert main(f"judges v.csv --gold h.csv --compare system --json j.json {limits}".split()) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert named in line
    content = json.loads(Path("j.json").read_text())
    assert not content["passed"]
    assert named in content["findings"][0]


def test_a_limit_of_a_system_without_human_labels(verdicts, capsys):
    write_rows("h.csv", ["task", "system", "label"], *[[f"t{task}", "v1", "pass"] for task in range(30)])
    assert main(["judges", "v.csv", "--gold", "h.csv", "--compare", "system", "--min-score", ".1", "-o", "j.html"]) == 2
    assert "'v2' has 0 human labels" in capsys.readouterr().err
    assert not Path("j.html").exists()


def test_tables_name_the_criterion_where_there_are_several(verdicts):
    for name in ("v.csv", "h.csv"):
        each = rows(name)
        write_rows(
            name, [*each[0], "criterion"], *[[*row.values(), what] for row in each for what in ("tone", "facts")]
        )
    assert main(["judges", "v.csv", "--gold", "h.csv", "--compare", "system", "-o", "j.html", "-q"]) == 0
    page = Path("j.html").read_text()
    for section in ("Differences</h3>", 'id="h-judges"', 'id="h-biases"', 'id="h-failures"'):
        assert "Criterion" in page.split(section)[1].split("</thead>")[0]
    assert main(["judges", "v.csv", "--columns", "criterion=none", "-q"]) == 2


def test_the_page_lists_failures_or_states_that_there_are_none(verdicts):
    everything = "Every judge gave a verdict on every item."
    assert main(["judges", "v.csv", "-o", "j.html", "-q"]) == 0
    page = Path("j.html").read_text()
    assert everything not in page
    assert "1 of 300" in page.split('id="h-failures"')[1]
    log = Path("v.csv").read_text().replace(",error,", ",pass,")
    Path("v.csv").write_text(log)
    assert main(["judges", "v.csv", "-o", "j.html", "-q"]) == 0
    assert everything in Path("j.html").read_text()


def test_limits_that_hold(verdicts):
    assert (
        main(
            [
                "judges",
                "v.csv",
                "--gold",
                "h.csv",
                "--min-score",
                ".5",
                "--max-width",
                ".2",
                "--min-effective",
                "1",
                "-q",
            ]
        )
        == 0
    )


def test_without_human_labels(verdicts, capsys):
    run("judges v.csv --json")
    content = json.loads(capsys.readouterr().out)
    assert content["scores"] is None
    assert content["why_no_scores"]
    assert not content["panels"][0]["effective_judges"]["measured"]
    run("judges v.csv -o j.html -q")
    assert "human labels" in Path("j.html").read_text()


def test_drift_confusion_and_the_next_labels_are_in_every_output(verdicts, capsys):
    rng = np.random.default_rng(1)
    lines = []
    for task in range(400):
        good = rng.random() < 0.5
        for judge in ("a", "b", "c", "d"):
            reply = good if rng.random() < 0.9 else not good
            if judge == "d" and task >= 200:
                reply = True
            lines.append([task, judge, "pass" if reply else "fail", task])
    write_rows("t.csv", ["task", "judge", "verdict", "time"], *lines)
    gold = [[task, "pass" if task % 2 else "fail"] for task in range(40)]
    write_rows("g.csv", ["task", "label"], *gold)
    run("judges t.csv --gold g.csv -o j.html --json j.json --markdown m.md --next-labels 30")
    content = json.loads(Path("j.json").read_text())
    assert [row["judge"] for row in content["drift"] if row["found"]] == ["d"]
    (part,) = content["panels"]
    assert part["next_labels"]["n"] == 30
    assert part["next_labels"]["half_width_after"] < part["next_labels"]["half_width"]
    assert sum(row["pass"] + row["fail"] for row in part["confusion"] if row["judge"] == "a") == 40
    for text in (Path("j.html").read_text(), Path("m.md").read_text(), capsys.readouterr().out):
        assert "d changed after" in text
        assert "30 more human labels would narrow" in text
    assert "Verdicts by human label" in Path("j.html").read_text()
    run("judges v.csv --json j.json -q")
    content = json.loads(Path("j.json").read_text())
    assert content["drift"] is None
    assert content["panels"][0]["confusion"] is None


def test_named_columns_and_scores(verdicts):
    write_rows("s.csv", ["who", "what", "grade_given"], *[[j, t, (t + j) % 5 + 1] for t in range(60) for j in range(3)])
    write_rows("g.csv", ["what", "grade_given"], *[[t, t % 5 + 1] for t in range(40)])
    run("judges s.csv --gold g.csv --columns judge=who,task=what,verdict=grade_given --scale 1,5 --json j.json -q")
    (row,) = json.loads(Path("j.json").read_text())["scores"]
    assert 1 <= row["low"] < row["estimate"] < row["high"] <= 5


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("v.csv --min-score .5", "--gold"),
        ("v.csv --gold missing.csv", "missing.csv"),
        ("missing.csv", "missing.csv"),
        ("v.csv -o v.csv", "html"),
        ("v.csv --gold h.csv --json h.csv", "h.csv"),
        ("v.csv --json --markdown -", "stdout"),
        ("v.csv --compare version_of", "version_of"),
        ("v.csv --format csv", "csv"),
        ("v.csv --values pass", "pass"),
        ("v.csv --scale 5,1", "5,1"),
        ("v.csv --gold h.csv --positive great", "great"),
    ],
)
def test_errors_name_what_is_wrong(verdicts, capsys, arguments, named):
    before = sorted(path.name for path in Path().iterdir())
    assert named in complaint(capsys, f"judges {arguments}")
    assert sorted(path.name for path in Path().iterdir()) == before
