"""The architecture page shows the layers that the linter checks."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_on_architecture_draws_the_layers_that_lint_checks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    layers = [layer.strip("()").split(" | ") for layer in [*contract["layers"], "_core"]]
    level = {name: number for number, layer in enumerate(layers) for name in layer}
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = page.split("## Layers")[1].split("```")[1].strip().splitlines()
    lines = [{level[name] for name in line.split("  ")[0].strip().split(" | ")} for line in drawn]
    assert all(len(line) == 1 for line in lines)
    order = [number for line in lines for number in line]
    assert order == sorted(set(order))
