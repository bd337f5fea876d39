"""The README says what it should, and docstrings have the form they should; test_examples.py runs all examples."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_first_example_gives_the_labels_that_its_votes_suggest() -> None:
    (example,) = blocks("python")
    names: dict = {}
    exec(example, names)
    assert names["model"].labels_.tolist() == ["cat", "dog", "cat", "dog"]
    np.testing.assert_allclose(names["model"].posterior_.sum(axis=1), 1)


def test_the_readme_is_one_screen_and_a_half() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 110
    shell = blocks("sh")[1].splitlines()
    assert len(shell) == 5
    assert all(line.startswith("manyhands ") for line in shell)


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
