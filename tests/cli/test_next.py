"""``manyhands next``: a batch of labels to buy."""

import json

import pytest
from commands import complaint, rows, run, write_rows


def test_a_batch_of_tasks(log, capsys):
    run("next log.parquet --budget 50 -o batch.csv")
    found = rows("batch.csv")
    assert len(found) == 50
    assert list(found[0]) == ["task", "expected_gain", "score"]
    page = capsys.readouterr().out
    assert "50 labels" in page
    run("next log.parquet --budget 50")
    assert capsys.readouterr().out.count("\n") == 51


def test_workers_of_the_log_or_of_a_file(log, crowd):
    run("next log.csv --budget 30 --ask all --strategy information --explore thompson --seed 1 -o batch.csv")
    assert {row["worker"] for row in rows("batch.csv")} <= set(crowd.log.workers.tolist())
    some = crowd.log.workers[:6].tolist()
    write_rows("team.csv", ["worker", "capacity", "cost"], *[[name, 4, 1.5] for name in some])
    run("next log.csv --budget 18 --ask team.csv -o batch.csv")
    asked = [row["worker"] for row in rows("batch.csv")]
    assert set(asked) <= set(some)
    assert len(asked) <= 12
    assert max(map(asked.count, asked)) <= 4


def test_json_and_how_many_are_needed(log, capsys):
    run("next log.csv --budget 5 --accuracy 0.9 --error 0.05 --json")
    found = json.loads(capsys.readouterr().out)
    assert len(found["batch"]) == found["n_chosen"] == 5
    assert found["labels_needed"]["accuracy"] == 0.9


@pytest.mark.parametrize(
    ("arguments", "what"),
    [("--budget none", "number of labels"), ("--budget 5 --ask nobody.csv", "nobody.csv"),
     ("--budget 5 --error 2", "error"), ("--budget 2.5", "whole"), ("", "--budget"), ("--budget -1", "at least 0")],
)  # fmt: skip
def test_slips_are_told(log, capsys, arguments, what):
    assert what in complaint(capsys, f"next log.csv {arguments}")


def test_a_team_of_nobody_is_refused(log, capsys):
    write_rows("team.csv", ["worker", "capacity"], ["w1", 0])
    assert "available" in complaint(capsys, "next log.csv --budget 5 --ask team.csv")
    write_rows("team.csv", ["name"], ["w1"])
    assert "worker" in complaint(capsys, "next log.csv --budget 5 --ask team.csv")
