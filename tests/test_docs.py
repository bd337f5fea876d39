"""The README's examples do what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from manyhands.cli import main

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_python_examples_run() -> None:
    aggregation, learning, deferral = blocks("python")
    names: dict = {}
    exec(aggregation, names)
    assert names["model"].labels_.tolist() == ["cat", "dog", "cat", "dog"]
    np.testing.assert_allclose(names["model"].posterior_.sum(axis=1), 1)
    exec(learning, names)
    assert names["learner"].score(names["X"], names["truth"]) > 0.8
    exec(deferral, names)
    assert np.bincount(names["decision"].who).tolist() == [200, 200, 200, 400]


def test_command_line_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("manyhands ")]
    assert len(lines) >= 4
    for line in lines:
        assert main(shlex.split(line)[1:]) in (0, None), line
    assert {"log.parquet", "truth.parquet", "labels.csv", "workers.csv"} <= {p.name for p in tmp_path.iterdir()}


def test_exactly_two_set_up_commands() -> None:
    commands = [line.split("#")[0].strip() for line in blocks("sh")[0].splitlines()]
    assert commands == ["make demo", "make test"]
