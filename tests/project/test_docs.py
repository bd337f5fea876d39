"""The example of the README works, and the architecture page draws the layers that the linter checks."""

from __future__ import annotations

import re
import tomllib
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


def test_the_page_on_architecture_draws_the_layers_that_lint_checks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    layers = [layer.strip("()") for layer in contract["layers"] if layer != "__main__"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = page.split("## Who may import whom")[1].split("```")[1].strip().splitlines()
    assert [line.split("  ")[0].strip() for line in drawn] == [*layers, "_core"]
