"""``manyhands audit``: one page about a crowd."""

import json

import pyarrow.parquet as pq
import pytest
from commands import complaint, rows, run

import manyhands as mh
from manyhands._base import arrow
from manyhands._base.write import write_table

#: Two who copy and two who guess, among twenty.
LEAGUE = [0, 0] + [-1] * 18


@pytest.fixture
def audited(tmp_path, monkeypatch):
    """A folder with a log in which w00 and w01 copy, w18 and w19 always say the same, and w10 changes half-way."""
    monkeypatch.chdir(tmp_path)
    crowd = mh.simulate(
        600, 20, 3, crowd="one-coin", accuracy=(0.6, 0.9), labels_per_task=8, groups=LEAGUE, copying=0.9, seed=1
    )
    log = crowd.log.to_frame().to_pydict()
    for row, (task, worker) in enumerate(zip(log["task"], log["worker"], strict=True)):
        if worker >= 18 or (worker == 10 and task >= 300):
            log["label"][row] = 2
    log["worker"] = [f"w{worker:02}" for worker in log["worker"]]
    log["when"] = [f"2026-03-{1 + task // 25:02}T12:00:00" for task in log["task"]]
    write_table(arrow.table(log), "log.csv")
    return tmp_path


def test_the_page_names_who_was_planted(audited, capsys):
    run("audit log.csv --order when -o workers.csv")
    page = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "w18, w19" in page["spammers"]
    assert "none found" in page["colluders"]
    assert "1 pair" in page["copies"]
    assert "w10" in page["drift"]
    assert "3 workers" in page["without"]
    found = {row["worker"]: row for row in rows("workers.csv")}
    assert [name for name, row in found.items() if row["spammer"] == "true"] == ["w18", "w19"]
    assert [name for name, row in found.items() if row["copy"] == "true"] == ["w00", "w01"]
    assert found["w10"]["drifted"] == "true"


def test_json_holds_all_of_it(audited, capsys):
    run("audit log.csv --json")
    found = json.loads(capsys.readouterr().out)
    assert found["spammers"] == ["w18", "w19"]
    assert found["drift"] is None
    assert {found["copies"][0]["worker"], found["copies"][0]["other"]} == {"w00", "w01"}
    assert found["without"]["n_workers"] == 3
    assert len(found["workers"]) == 20
    assert 0 < found["carrying"] <= 20
    assert found["bits_per_task"] > found["bits_needed"]


def test_workers_go_to_stdout_or_a_file(audited, capsys):
    run("audit log.csv -o -")
    out, err = capsys.readouterr()
    assert out.startswith('"worker","n_answers"')
    assert "spammers" in err
    run("audit log.csv -o workers.parquet -q")
    assert pq.read_table("workers.parquet").num_rows == 20


def test_the_log_without_flagged_workers_can_be_aggregated_again(audited, capsys):
    run("audit log.csv --clean clean.csv")
    assert "clean.csv" in capsys.readouterr().out
    left = {row["worker"] for row in rows("clean.csv")}
    review = mh.audit.review(mh.read("log.csv"))
    assert {"w18", "w19"} <= set(review.workers.tolist())
    assert left == {f"w{n:02}" for n in range(20)} - set(review.workers.tolist())
    run("aggregate clean.csv -o labels.csv -q")
    assert len(rows("labels.csv")) == 600
    assert "is written in the same run" in complaint(capsys, "audit log.csv -o a.csv --clean a.csv")
    assert "name of a file" in complaint(capsys, "audit log.csv --clean -")


def test_what_cannot_be_told_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(mh.simulate(30, 2, 2, labels_per_task=2, seed=1).log.to_frame(), "log.csv")
    run("audit log.csv")
    out = capsys.readouterr().out
    assert "warning" in out
    assert "no worker to leave out" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("audit log.csv --order nowhere", "nowhere"),
        ("audit log.csv --order worker", "worker"),
        ("audit log.csv --order when --columns weight=task", "weight=…"),
        ("audit log.csv --json -o -", "stdout"),
        ("audit missing.csv", "missing.csv"),
    ],
)
def test_bad_input_is_told_in_a_line(audited, words, said, capsys):
    assert said in complaint(capsys, words)


def test_a_review_is_its_parts(audited):
    votes = mh.read("log.csv")
    found = mh.audit.review(votes)
    assert found.spammers.workers.tolist() == mh.audit.spammers(votes).workers.tolist()
    assert found.copies.frame().equals(mh.audit.copies(votes).frame())
    assert found.drift is None
    kept = votes.without(found.workers.tolist())
    assert kept.n_workers == 20 - len(found.workers) == 17
    assert "2 spammers" in repr(found)
    assert found.frame().column("worker").to_pylist() == votes.workers.tolist()
