"""The stub of the compiled core: everything in it has a caller in the package (stubtest compares it with the core)."""

from __future__ import annotations

import ast
from pathlib import Path

import manyhands

_PACKAGE = Path(manyhands.__file__).parent


def test_every_function_and_method_of_the_core_is_used() -> None:
    stub = ast.parse((_PACKAGE / "_core.pyi").read_text(encoding="utf-8"))
    functions = [node.name for node in stub.body if isinstance(node, ast.FunctionDef)]
    # Others of the stub are protocols and dictionaries, which describe arguments and results.
    tables = [node for node in stub.body if isinstance(node, ast.ClassDef) and node.decorator_list]
    methods = {node.name for table in tables for node in table.body if isinstance(node, ast.FunctionDef)}
    used = set()
    for path in _PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.ImportFrom):
                used.update(name.name for name in node.names)
    assert sorted({*functions, *methods} - used - {"__new__"}) == []
