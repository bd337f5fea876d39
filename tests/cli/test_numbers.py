"""Logs of numbers on the command line."""

import csv
import json

import pytest

from manyhands.cli import main


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    rows = [(task, worker, 2 * task + worker % 3) for task in range(12) for worker in range(4)]
    path.write_text("task,worker,value\n" + "".join(f"{t},{w},{v}\n" for t, w, v in rows))
    return path


@pytest.mark.parametrize("method", [None, "mean", "gaussian-crowd"])
def test_aggregate(log, tmp_path, method):
    out, workers = tmp_path / "values.csv", tmp_path / "workers.csv"
    chosen = [] if method is None else ["--method", method]
    assert main(["aggregate", str(log), "-o", str(out), "--workers", str(workers), "--quiet", *chosen]) in (0, None)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(rows[0]) == ["task", "value", "confidence", "error", "low", "high"]
    assert float(rows[5]["value"]) == pytest.approx(10.75, abs=0.3)
    assert list(next(csv.DictReader(workers.read_text().splitlines()))) == [
        "worker",
        "n_answers",
        "skill",
        "skill_error",
        "bias",
        "scale",
        "noise",
    ]


def test_agreement(log, capsys):
    assert main(["agreement", str(log), "--json"]) in (0, None)
    found = json.loads(capsys.readouterr().out)["agreement"]
    assert list(found) == ["icc-1", "icc-2", "icc-3", "icc-1k", "icc-2k", "icc-3k", "pearson"]
    assert found["icc-3"]["value"] == pytest.approx(1)
    assert found["icc-2"]["value"] < 1


def test_workers(log, capsys):
    assert main(["workers", str(log), "--quiet"]) in (0, None)
    assert "noise" in capsys.readouterr().out
