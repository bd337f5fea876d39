"""The script that changes code at random: what it changes, what it leaves alone, and that it cleans up."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def mutants():
    path = ROOT / "scripts" / "mutants.py"
    if not path.exists():
        pytest.skip("the scripts are not here")
    spec = importlib.util.spec_from_file_location("mutants", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path.parent))
        patch.setitem(sys.modules, "mutants", module)  # dataclasses look there
        spec.loader.exec_module(module)
        yield module


SOURCE = '''"""Docstring with 1 and 2."""
from typing import TYPE_CHECKING, Literal, TypeAlias
if TYPE_CHECKING:
    LIMIT = 3
Size: TypeAlias = Literal[1, 2]
Array = Literal[3]

def f(x: Literal[4], y=5) -> Literal[6]:
    """Say 7."""
    if x < y:
        raise ValueError(f"{x + 8} is below {y}")
    work(x)
    warnings.warn("nine", stacklevel=9)
    é = "ü", x + 10
    return not x and é
'''


def test_only_what_runs_is_changed(mutants, tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path = tmp_path / "m.py"
    path.write_text(SOURCE, encoding="utf-8")
    found = mutants.mutants_of(path)
    assert {mutant.kind for mutant in found} == {
        "check removed",
        "call removed",
        "comparison",
        "condition negated",
        "constant",
        "arithmetic",
        "and, or",
        "sign dropped",
    }
    assert sorted(mutant.new for mutant in found if mutant.kind == "constant") == ["(11)", "(6)"]
    assert [mutant.old for mutant in found if mutant.kind == "call removed"] == ["work(x)"]
    before = ast.dump(ast.parse(SOURCE))
    for mutant in found:
        # Each is a change, at the place that it names, behind letters of more than one byte too.
        assert ast.dump(ast.parse(mutant.source())) != before
        assert mutant.old in SOURCE
    assert path.read_text(encoding="utf-8") == SOURCE


def test_every_file_has_tests_that_exist(mutants):
    for area, patterns in mutants.AREAS.items():
        for pattern in patterns:
            assert list((ROOT / mutants.PACKAGE).glob(f"{pattern}.py")), f"there is no {pattern}.py in {area!r}"
        for path in mutants.modules(area):
            assert mutants.tests_of(area, str(path.relative_to(ROOT))), f"{path} has no tests: name some in {area!r}"
        for test in {test for tests in patterns.values() for test in tests}:
            assert list((ROOT / "tests").glob(f"{test}.py")), f"there is no tests/{test}.py"


def test_every_file_is_in_an_area(mutants):
    package = ROOT / mutants.PACKAGE
    covered = {path for area in mutants.AREAS for path in mutants.modules(area)}
    left_out = sys.modules["mutant_areas"].LEFT_OUT
    missing = [path for path in package.rglob("*.py") if path not in covered and path.stem not in left_out]
    assert not missing, f"name these in scripts/mutant_areas.py: {missing}"


# ---------------------------------------------------------------------------------------- the compiled core


@pytest.fixture(scope="module")
def rust(mutants):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        patch.setitem(sys.modules, "mutants", mutants)
        yield importlib.import_module("rust_mutants")
        for name in ("rust_mutants", "rust_switches"):
            sys.modules.pop(name, None)


RUST = """fn f(a: i64, b: i64) -> i64 {
    let mut c = a + b // é
        * 2;
    c += a;
    if !(a < b) && c > 1 { return -c; }
    match a { 1 => 5, 2 if c > 3 => 6, _ => 7 }
}
"""

#: Kind of a change, the text it is about, what takes its place, and the line of the source that it makes.
SWITCHED = [
    ("FnValue", "let mut c = a + b // é\n        * 2", "0", 1, "{ if ON { return 0; } "),
    ("BinaryOperator", "+", "-", 2, "(if ON { (a) - (b          * 2) } else { a + b // é"),
    ("BinaryOperator", "*", "/", 3, "        * 2 });"),
    ("BinaryOperator", "+=", "-=", 4, "    (if ON { c -= (a) } else { c += a });"),
    ("UnaryOperator", "!", "", 5, "if (if ON { (a < b) } else { !(a < b) }) && c > 1"),
    ("BinaryOperator", "<", "<=", 5, "!((if ON { (a) <= (b) } else { a < b }))"),
    ("UnaryOperator", "-", "", 5, "return (if ON { c } else { -c });"),
    ("MatchArm", "1 => 5", "", 6, "{ 1 if !ON => 5,"),
    ("MatchArm", "2 if c > 3 => 6", "", 6, " 2 if !ON && ( c > 3) => 6,"),
    ("MatchArmGuard", "c > 3", "true", 6, " 2 if (if ON { true } else { c > 3 }) => 6,"),
]


def _change(rust, number, genre, old, new):
    start = RUST.encode().index(old.encode(), RUST.index("{"))
    return rust.Change(number, "", "rust/f.rs", 1, "", genre, start, start + len(old.encode()), new, "")


@pytest.mark.parametrize(("genre", "old", "new", "line", "text"), SWITCHED)
def test_a_switch_stands_for_a_change_and_moves_no_line(rust, genre, old, new, line, text):
    pytest.importorskip("tree_sitter_rust")
    switches = sys.modules["rust_switches"]
    made = switches.Switches(RUST.encode(), [_change(rust, 7, genre, old, new)]).text
    assert len(made.splitlines()) == len(RUST.splitlines())
    assert text.replace("ON", "crate::switches::on(7)") in made.splitlines()[line - 1]


def test_every_file_of_the_core_has_an_area_and_every_pattern_a_file(rust, mutants):
    files = [str(path.relative_to(ROOT / "rust")) for path in (ROOT / "rust").rglob("*.rs")]
    used = {
        (area, pattern) for path in files for area in [rust.area_of(path)] for pattern in rust.patterns_of(area, path)
    }
    for area, (patterns, tests) in rust.AREAS.items():
        for pattern in patterns:
            assert (area, pattern) in used, f"no file of the area {area!r} is called {pattern}"
        for test in tests:
            assert (ROOT / "tests" / f"{test}.py").is_file(), test
