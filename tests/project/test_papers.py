"""The page of the papers' items names nothing that does not exist."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "papers.md"
NAME = re.compile(r"`(mh\.[^`]*)`")


def names() -> list[str]:
    return sorted(set(NAME.findall(PAGE.read_text(encoding="utf-8"))))


def look_up(tree: ast.expr) -> Any:
    """What an expression names: attributes are looked up, of calls the function is, and its keywords are parameters."""
    if isinstance(tree, ast.Name):
        return pytest.importorskip("manyhands")
    if isinstance(tree, ast.Call):
        function = look_up(tree.func)
        parameters = inspect.signature(function).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        for keyword in tree.keywords:
            assert takes_any or keyword.arg in parameters, f"{function.__name__} has no parameter {keyword.arg!r}"
        positional = [
            one for one in parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
        assert len(tree.args) <= len(positional) or any(one.kind is one.VAR_POSITIONAL for one in parameters.values())
        return Result(function)
    assert isinstance(tree, ast.Attribute)
    owner = look_up(tree.value)
    if isinstance(owner, Result):
        return owner.attribute(tree.attr)
    return getattr(owner, tree.attr)


class Result:
    """What a call returns, by its annotation."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def attribute(self, name: str) -> Any:
        module = inspect.getmodule(self.function)
        kind = (
            self.function
            if inspect.isclass(self.function)
            else getattr(module, str(inspect.signature(self.function).return_annotation))
        )
        assert hasattr(kind, name) or name in getattr(kind, "__dataclass_fields__", {}), (
            f"{kind.__name__} has no {name}"
        )
        return name


@pytest.mark.parametrize("name", names())
def test_every_name_exists(name):
    pytest.importorskip("torch")
    look_up(ast.parse(name, mode="eval").body)


def test_every_item_has_a_name():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 165
    for row in rows:
        assert "`" in row.split("|")[4], row
    assert "partly" not in PAGE.read_text(encoding="utf-8").partition("## Cited methods")[0]
