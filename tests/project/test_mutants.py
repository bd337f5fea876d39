"""The script that changes code at random: what it changes, what it leaves alone, and that it cleans up."""

import ast
import contextlib
import dataclasses
import importlib.util
import json
import sys
from collections import Counter
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


def test_every_file_is_in_one_area(mutants):
    """A package that comes new has to be given the tests that judge changes of it."""
    package = ROOT / mutants.PACKAGE
    found = Counter(path for area in mutants.AREAS for path in mutants.modules(area))
    for path in package.rglob("*.py"):
        name = path.relative_to(package).with_suffix("").as_posix()
        wanted = name not in sys.modules["mutant_areas"].LEFT_OUT
        assert found[path] == wanted, f"{name}.py is in {found[path]} areas of scripts/mutant_areas.py: name it in one"


def test_a_mark_at_every_change_leaves_the_code_as_it_was(mutants, tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path = tmp_path / "m.py"
    path.write_text(
        "def f(a, b):\n    é = -a + 2\n    é += b\n    if é < b < 9:\n        raise ValueError\n    return é\n"
    )
    text, without = mutants.marked(path, list(enumerate(mutants.mutants_of(path))))
    assert without == []
    reached, names = [], {}
    exec(compile(text, "m", "exec"), {"_reached": reached.append}, names)
    assert names["f"](3, 9) == 8
    assert sorted(reached) == list(range(len(mutants.mutants_of(path))))


def test_a_copy_holds_all_that_the_checkout_does(mutants):
    """Tests read scripts, examples and documents; a list of what they need went out of date."""
    with mutants.Workplace() as place:
        for name in ("scripts/exports.py", "tests/data", "docs", "rust", "Cargo.lock", mutants.PACKAGE):
            assert (place.folder / name).exists(), name
        assert list((place.folder / mutants.PACKAGE).glob("_core*.*")), "the compiled extension is missing"
    assert not place.folder.exists()


def test_equivalent_changes_are_changes_of_the_code(mutants):
    paths = [path for area in mutants.AREAS for path in mutants.modules(area)]
    known = {mutant.key for path in paths for mutant in mutants.mutants_of(path)} if mutants.EQUIVALENTS else set()
    assert not mutants.EQUIVALENTS.keys() - known, "remove what is no longer in the code"


def test_check_lists_are_narrowed_to_the_classes_of_a_file(mutants):
    voting = mutants.tests_of("aggregators", "python/manyhands/categorical/voting.py")
    assert voting == [
        ["tests/categorical/test_voting.py"],
        ["tests/categorical/test_aggregators.py", "-k", "MajorityVote or WeightedVote"],
    ]


def test_a_sample_can_be_drawn_again(mutants):
    one, other = (mutants.drawn("audit", 3, seed) for seed in (1, 2))
    assert one == mutants.drawn("audit", 3, 1)
    assert one != other


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


def test_switches_within_each_other_are_all_there_once(rust):
    pytest.importorskip("tree_sitter_rust")
    changes = [_change(rust, i, genre, old, new) for i, (genre, old, new, *_) in enumerate(SWITCHED, 1)]
    made = sys.modules["rust_switches"].Switches(RUST.encode(), changes).text
    for i in range(1, len(SWITCHED) + 1):
        assert made.count(f"on({i})") == 1, i


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


def test_a_change_of_the_core_is_named_by_its_line_before_and_after(rust):
    place = {"start": {"line": 1, "column": 11}, "end": {"line": 1, "column": 12}}
    item = {"file": "rust/a/f.rs", "genre": "BinaryOperator", "replacement": "-", "span": place}
    key = sys.modules["rust_switches"]._key
    assert key(item, "    é + a + b;\n") == "a/f.rs: é + a + b; → é + a - b;"
    item |= {"genre": "FnValue", "name": "rust/a/f.rs:1:5: replace f -> u8 with 0"}
    assert key(item, "    é + a + b;\n") == "a/f.rs: é + a + b;: replace f -> u8 with 0"


def test_equivalent_changes_of_the_core_are_of_lines_it_has(rust):
    for key in rust.RUST_EQUIVALENTS:
        path, _, rest = key.partition(": ")
        lines = [line.strip() for line in (ROOT / "rust" / path).read_text(encoding="utf-8").splitlines()]
        assert any(line and rest.startswith((f"{line} → ", f"{line}: ")) for line in lines), f"remove {key}"


def test_what_survived_is_found_again_where_the_code_has_it(rust, tmp_path, capsys):
    changes = [
        dataclasses.replace(_change(rust, number, "BinaryOperator", "+", "-"), key=key)
        for number, key in enumerate("abc", 1)
    ]
    results = [("a", "", "audit"), ("b", "pytest", "audit"), ("c", "", "shards"), ("gone", "", "audit")]
    content = [{"key": key, "noticed_by": by, "area": area} for key, by, area in results]
    report = tmp_path / "rust.json"
    report.write_text(json.dumps({"changes": content}))
    left = rust.survivors_of(report, changes, ["audit"])
    assert [(change.key, change.area) for change in left] == [("a", "audit")]
    assert "gone" in capsys.readouterr().out


def test_tests_of_python_judge_what_those_of_rust_let_pass(rust, tmp_path, monkeypatch):
    changes = [
        dataclasses.replace(_change(rust, number, "BinaryOperator", "+", "-"), area="audit", name=key, key=key)
        for number, key in enumerate(["rust", "python", "nothing", "broken", "argued"], 1)
    ]
    asked = []

    class Court:
        def __init__(self, place, given):
            self.changes = [change for change in given if change.key != "broken"]

        def by_rust(self, change):
            return {"noticed_by": "cargo test" if change.key == "rust" else "", "how": "", "tests": 1}

        def by_python(self, change):
            asked.append(change.key)
            return {"noticed_by": "pytest" if change.key == "python" else "", "how": "", "tests": 2}

    monkeypatch.setattr(rust, "Court", Court)
    monkeypatch.setattr(rust, "Workplace", contextlib.nullcontext)
    monkeypatch.setattr(rust, "RUST_EQUIVALENTS", {"argued": "makes no difference"})
    results, missing = rust.run_rust(changes, tmp_path / "rust.json", seed=1)
    assert asked == ["python", "nothing"]
    # Tried, noticed by either, not noticed, of these never run, equivalent, not compiled.
    assert rust.table(results, missing).splitlines()[-1] == "| audit | 4 | 1 | 1 | 1 | 0 | 1 | 1 |"
    left = rust.survivors_of(tmp_path / "rust.json", changes, ["audit"])
    assert [change.key for change in left] == ["nothing"]
    assert rust.run_rust(changes[-1:], tmp_path / "rust.json") == (results[:1], {})


def test_quick_tests_judge_first_and_the_slow_in_growing_groups(rust):
    tests = [(0.1, "a"), (0.5, "b"), (0.9, "c"), (4.0, "d"), (9.0, "e")]
    assert [[name for _, name in group] for group in rust._groups(tests)] == [["a", "b"], ["c", "d"], ["e"]]


def test_tests_that_fail_on_the_sound_code_judge_nothing(mutants, capsys):
    log = "7\n@shared\n3\n5\n@0.5 a\n@0.1 b\n3\n@failed c\n5\n@2.0 d[x y]\n"
    reached = sys.modules["mutant_tests"].reached_in(log)
    tests = [(0.5, "a"), (0.1, "b"), (2.0, "d[x y]")]
    assert reached == {3: tests[:1], 5: [tests[0], tests[2]], 7: tests}
    assert "c" in capsys.readouterr().out
