"""Texts on the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pytest

from manyhands.cli import main


def test_texts_are_found_by_their_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out, workers = tmp_path / "log.csv", tmp_path / "out.csv", tmp_path / "workers.csv"
    log.write_text("task,worker,transcript\n1,a,the cat\n1,b,The cat\n1,c,a cat\n2,a,dog\n", encoding="utf-8")
    main(["aggregate", str(log), "-o", str(out), "--workers", str(workers)])
    found = pyarrow.csv.read_csv(out)
    assert found.column("text").to_pylist() == ["The cat", "dog"]
    assert {"worker", "skill", "omitted", "inserted"} <= set(pyarrow.csv.read_csv(workers).column_names)
    main(["aggregate", str(log), "--kind", "texts", "--method", "rasa", "-o", str(out)])
    assert "the cat" in out.read_text(encoding="utf-8").lower()


def test_labels_are_texts_where_those_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "out.csv"
    log.write_text("task,worker,label\n1,a,the cat\n1,b,the cat\n", encoding="utf-8")
    main(["aggregate", str(log), "--kind", "texts", "-o", str(out)])
    assert pyarrow.csv.read_csv(out).column("text").to_pylist() == ["the cat"]
    # A column of texts is theirs, whatever labels there are; and an option is called as the command line calls it.
    log.write_text("task,worker,label,text\n1,a,yes,the cat\n", encoding="utf-8")
    main(["aggregate", str(log), "--kind", "texts", "-o", str(out)])
    assert pyarrow.csv.read_csv(out).column("text").to_pylist() == ["the cat"]
    log.write_text("task,worker,words\n1,a,the cat\n", encoding="utf-8")
    assert main(["aggregate", str(log), "--kind", "texts", "-o", str(out)]) == 2
    assert "text=…" in capsys.readouterr().err
