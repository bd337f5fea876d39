"""The prose lint finds the patterns that it names, and leaves plain English and code alone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "prose.py"


@pytest.fixture(scope="module")
def prose():
    spec = importlib.util.spec_from_file_location("prose", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["prose"] = module
    spec.loader.exec_module(module)
    return module


def rules(prose, path: str, text: str) -> list[str]:
    return [hit.rule.name.split(" ")[0] for hit in prose.hits_in(path, text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It returns one label a task.", ["P1"]),
        ("5 bytes an annotation, 12 ns a row", ["P1", "P1"]),
        ("a row a worker", ["P1"]),
        ("one label\na task", ["P1"]),
        ("an answer of a worker, and one is a task", []),
        ("once a day; two make a pair; the label a worker gave", []),
        ("It foretells what it was told.", ["P2", "P3"]),
        ("`told` and [a link](told.md) are code", []),
        ("tell spammers apart", []),
        ("Whoever mends it shall be thanked", ["P4", "P6", "P7"]),
        ("There is no compiler, and the file is no longer there", []),
        ("the file is no table", ["P8"]),
        ("the camp and its members", ["P10", "P10"]),
        ("the prior strength; a task worth a second look", []),
        ("an imaginary label stands still", ["P11", "P11"]),
        ("It refuses labels in colour", ["P12", "P14"]),
        ("# What cannot be", ["P9"]),
        ("# What is a confidence?", []),
        ("```python\nfound = told  # it foretells\n```", ["P2"]),
    ],
)
def test_prose_is_matched_and_code_is_not(prose, text: str, expected: list[str]) -> None:
    assert sorted(rules(prose, "a.md", text)) == sorted(expected)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.py", "found = 1\n", ["P5"]),
        ("a.py", "rows, found = f(found=2)\n", ["P5"]),
        ("a.py", "for known in names:\n    pass\n", ["P5"]),
        ("a.py", "def settled(a): ...\ndef embed(a): ...\ndef f():\n    def aligned(): ...\n", ["P5"]),
        ("a.py", "class Climb: ...\n", ["P10"]),
        ("a.py", 'x = "found"\ny = r"told .*"\nz = f"{n} bytes a row"\n', ["P1"]),
        ("a.py", '"""Sum.\n\n>>> said\n\'it told us\'\n"""\n', []),
        ("a.rs", "let found = 1; // nobody's\nlet a = b'\"';\n", ["P5", "P4"]),
        ("a.rs", '/// Whom it is\nfn settled() { panic!("refused {n}") }', ["P7", "P5", "P12"]),
    ],
)
def test_comments_strings_and_names_of_programs(prose, path: str, text: str, expected: list[str]) -> None:
    assert sorted(rules(prose, path, text)) == sorted(expected)


def test_lines_are_those_of_the_file(prose) -> None:
    text = '"""One.\n\nTwo `a\nb` words.\n"""\n\nx = 1  # shall\n'
    assert [hit.line for hit in prose.hits_in("a.py", text)] == [7]


def test_more_hits_than_allowed_fail(prose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowance = tmp_path / "prose.json"
    allowance.write_text('{"clean": ["docs/a.md"], "counts": {"docs": 2}}')
    monkeypatch.setattr(prose, "ALLOWED", allowance)
    hits = [*prose.hits_in("docs/b.md", "told"), *prose.hits_in("docs/c.md", "told")]
    assert prose.check(hits) == []
    assert len(prose.check([*hits, *prose.hits_in("docs/d.md", "told")])) == 1
    assert [line.split(":")[0] for line in prose.check(list(prose.hits_in("docs/a.md", "told")))] == ["docs/a.md"]
