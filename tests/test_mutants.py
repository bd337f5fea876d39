"""The script that changes code at random: what it changes, what it leaves alone, and that it cleans up."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def mutants():
    path = ROOT / "scripts" / "mutants.py"
    if not path.exists():
        pytest.skip("the scripts are not here")
    spec = importlib.util.spec_from_file_location("mutants", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


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
    for area in mutants.AREAS:
        for path in mutants.modules(area):
            for test, *_ in mutants.tests_of(area, str(path.relative_to(ROOT))):
                assert (ROOT / test).is_file(), test


def test_check_lists_are_narrowed_to_the_classes_of_a_file(mutants):
    voting = mutants.tests_of("aggregators", "python/manyhands/aggregators/voting.py")
    assert voting == [["tests/test_voting.py"], ["tests/test_aggregators.py", "-k", "MajorityVote or WeightedVote"]]


def test_a_sample_can_be_drawn_again(mutants):
    one, other = (mutants.drawn("cli, persist", 3, seed) for seed in (1, 2))
    assert one == mutants.drawn("cli, persist", 3, 1)
    assert one != other
