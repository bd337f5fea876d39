"""The README's examples do what they say, and docstrings have the form they should."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from manyhands.cli import main

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


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


def test_the_page_on_architecture_draws_the_layers_that_lint_checks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    layers = [layer.strip("()") for layer in contract["layers"] if layer != "__main__"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = page.split("## Who may import whom")[1].split("```")[1].strip().splitlines()
    assert [line.split("  ")[0].strip() for line in drawn] == [*layers, "_core"]


def docstrings() -> Iterator[tuple[str, str]]:
    """Every docstring of the package, and where it is."""
    for path in sorted((ROOT / "python").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}", text


def test_no_heading_of_a_docstring_is_run_into_its_text() -> None:
    found = list(docstrings())
    assert len(found) > 500
    sections = "Parameters|Returns|Yields|Raises|Warns|Attributes|Notes|References|Examples|See Also"
    flat = re.compile(rf"\b({sections}) -{{3,}}|^-{{3,}} +\S", re.MULTILINE)
    assert [where for where, text in found if flat.search(text)] == []
    # A heading is a line of its own, and so is what underlines it, as long as the heading.
    heading = re.compile(rf"^({sections})\n(-+)$", re.MULTILINE)
    assert [w for w, text in found for name, line in heading.findall(text) if len(name) != len(line)] == []
    bare = re.compile(rf"^({sections})\n(?!-+$)", re.MULTILINE)
    assert [where for where, text in found if bare.search(text)] == []
