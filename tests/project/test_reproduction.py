"""The page of reproduced figures is what its sources say, and its sources are sound."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHES = str(ROOT / "benches")
# Only for the import: a bench may have the name of a package that another test needs.
sys.path.insert(0, BENCHES)
import reproduce  # noqa: E402

sys.path.remove(BENCHES)


def test_the_page_is_what_the_stored_results_make():
    assert reproduce.PAGE.read_text() == reproduce.page(), "run benches/reproduce.py"


@pytest.mark.parametrize("name", reproduce.PAPERS)
def test_every_command_names_a_script(name):
    for result in reproduce.read(name).results:
        if result.command:
            assert (ROOT / result.command.split()[0]).is_file(), result.where
            assert result.data, result.where
            assert result.minutes > 0, result.where


def test_every_stored_result_is_shown():
    shown = {result.result for name in reproduce.PAPERS for result in reproduce.read(name).results}
    assert {path.stem for path in reproduce.STORED.glob("*.json")} == shown - {""}


def test_the_quick_half_is_quick():
    assert sum(result.minutes for result in reproduce.wanted("short")) < 30


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"verdict": "perhaps"}, "verdict"),
        ({"verdict": "holds"}, "command"),
        ({"verdict": "cannot be tried here", "sigh": 1}, "'sigh'"),
    ],
)
def test_a_misspelt_entry_is_refused(tmp_path, monkeypatch, entry, message):
    lines = [f"{key} = {value!r}" for key, value in {"where": "W", "claim": "C", "why": "Y", **entry}.items()]
    (tmp_path / "x.toml").write_text("\n".join(["title = 'T'", "source = 'S'", "[[result]]", *lines]))
    monkeypatch.setattr(reproduce, "STORED", tmp_path)
    with pytest.raises(SystemExit, match=message):
        reproduce.read("x")


def test_figures_of_the_paper_stand_beside_ours(tmp_path, monkeypatch):
    (tmp_path / "r.json").write_text('{"tables": {"A": [{"method": "m", "accuracy": "1 ± 0", "seconds a run": "9"}]}}')
    monkeypatch.setattr(reproduce, "STORED", tmp_path)
    given = {"where": "W", "claim": "C", "verdict": "holds", "why": "Y", "command": "c", "result": "r"}
    (table,) = reproduce.tables(reproduce.Result(**given, paper={"m": "2"}))
    assert [cell.strip() for cell in table.splitlines()[-1].strip("|").split("|")] == ["m", "2", "1 ± 0"]
    with pytest.raises(SystemExit, match="no row 'n'"):
        list(reproduce.tables(reproduce.Result(**given, paper={"n": "2"})))
    with pytest.raises(SystemExit, match="no table 'B'"):
        list(reproduce.tables(reproduce.Result(**given, tables=["B"])))
