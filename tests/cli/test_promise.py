"""``manyhands promise``: answers to deliver, and a plan for the rest."""

import json

import pytest
from commands import complaint, rows, run, write_rows

KEPT = "promise log.csv --gold truth.csv --error .1 -o kept.csv"


def test_kept_answers_and_the_rest(log, capsys):
    run(f"{KEPT} --confidence .9 --rest rest.csv --sets sets.csv")
    top, bottom = rows("kept.csv"), rows("rest.csv")
    assert len(top) + len(bottom) == 300
    assert min(float(row["confidence"]) for row in top) > max((float(row["confidence"]) for row in bottom), default=0)
    assert len(rows("sets.csv")) == 300
    assert "at most 10.0% wrong with confidence 0.9" in capsys.readouterr().out


def test_json_and_a_plan(log, crowd, capsys):
    truth = rows("truth.csv")
    write_rows("known.csv", ["task", "label"], *[list(row.values()) for row in truth[::2]])
    write_rows("team.csv", ["worker", "capacity", "cost", "accuracy"], ["Ann", 5, 2.0, 0.99], ["Bo", 900, 1.0, 0.9])
    run("promise log.csv --gold known.csv --ask team.csv --plan plan.csv -o kept.csv --error .05 --json")
    outcome = json.loads(capsys.readouterr().out)
    plan = rows("plan.csv")
    assert outcome["n_kept"] + outcome["n_rest"] == 300
    assert outcome["files"] == ["kept.csv", "plan.csv"]
    assert len(plan) <= outcome["n_rest"]
    assert [row["worker"] for row in plan].count("Ann") <= 5
    assert not {row["task"] for row in plan} & {row["task"] for row in truth[::2]}


def test_numbers_within_a_distance_and_verdicts(log, capsys):
    write_rows("n.csv", ["task", "worker", "value"], *[[t, w, t + w / 10] for t in range(80) for w in range(3)])
    write_rows("known.csv", ["task", "value"], *[[t, t] for t in range(0, 80, 2)])
    run("promise n.csv --kind numeric --gold known.csv --within .5 --error .1 -o kept.csv")
    assert len(rows("kept.csv")) == 80
    write_rows("words.csv", ["task", "worker", "text"], *[[t, w, f"a b {t}"] for t in range(80) for w in range(3)])
    write_rows("known.csv", ["task", "text"], *[[t, f"a b {t}"] for t in range(0, 80, 2)])
    run("promise words.csv --kind texts --gold known.csv --error .1 -o kept.csv")
    assert len(rows("kept.csv")) == 80


@pytest.mark.parametrize(
    ("arguments", "what"),
    [("", "--gold FILE"), ("--gold truth.csv --error 2", "error"), ("--gold truth.csv --plan plan.csv", "--ask"),
     ("--gold truth.csv -o log.csv", "read in the same run"), ("--gold none.csv", "none.csv"),
     ("--gold few.csv", "cannot support a promise")],
)  # fmt: skip
def test_slips_are_reported(log, capsys, arguments, what):
    write_rows("few.csv", ["task", "label"], *[list(row.values()) for row in rows("truth.csv")[:5]])
    assert what in complaint(capsys, f"promise log.csv {arguments}")
