"""``manyhands fairness``: gaps between groups."""

import json

import pytest
from commands import complaint, rows, run, write_rows


@pytest.fixture
def grouped(log, crowd):
    tasks = crowd.log.tasks.tolist()
    write_rows("groups.csv", ["task", "side", "other"], *[[task, "ab"[i % 2], 1] for i, task in enumerate(tasks)])
    write_rows("workers.csv", ["worker", "side"], *[[w, "ab"[i % 2]] for i, w in enumerate(crowd.log.workers.tolist())])
    return log


def test_gaps_of_a_log(grouped, capsys):
    run("fairness log.csv --attribute groups.csv:side --positive c1 --evaluate truth.csv -o gaps.csv")
    page = capsys.readouterr().out
    assert "demographic_parity" in page
    found = rows("gaps.csv")
    assert len(found) == 4 * 21
    assert {row["of"] for row in found} == {"aggregate", "worker"}
    run("fairness log.csv --attribute workers.csv --about worker --positive c1 --positive c2")


def test_answers_that_keep_a_gap(grouped, capsys):
    command = "fairness log.csv --attribute groups.csv:side --positive c1 --gap 0.01 --answers labels.csv --json"
    run(command)
    found = json.loads(capsys.readouterr().out)
    assert found["fair"]["gap"] <= 0.01 + 1e-9
    assert len(rows("labels.csv")) == 300
    run(command, "--within --measure equal_opportunity")
    assert json.loads(capsys.readouterr().out)["fair"]["gap"] <= 0.01 + 1e-9


@pytest.mark.parametrize(
    ("arguments", "what"),
    [("--attribute groups.csv:side --gap 0.1", "say which matter"),
     ("--attribute groups.csv --positive c1", "name one"),
     ("--attribute none.csv", "none.csv"), ("--attribute groups.csv:side --positive z", "no class"),
     ("--attribute groups.csv:other --positive c1", "only the value"),
     ("--attribute groups.csv:side --answers l.csv", "--gap"),
     ("--attribute workers.csv --about worker --positive c1 --gap 0.1", "attribute of tasks")],
)  # fmt: skip
def test_slips_are_told(grouped, capsys, arguments, what):
    assert what in complaint(capsys, f"fairness log.csv {arguments}")
