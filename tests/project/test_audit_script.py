"""`make audit` fails where a lookup failed or a dependency has a known vulnerability."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

#: What `cargo audit` says at the start, and what where that fails.
FETCH = "    Fetching advisory database from `https://github.com/RustSec/advisory-db.git`\n"
FAILED = FETCH + "error: couldn't fetch advisory database: git operation failed"


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch):
    """The script, the answers of the two programs, and the commands it ran."""
    path = Path(__file__).parents[2] / "scripts" / "audit.py"
    spec = importlib.util.spec_from_file_location("audit_script", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.cargo, module.pip, module.ran = (0, "", ""), sound("numpy"), []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        module.ran.append(command)
        answer = module.cargo if command[0] == "cargo" else (0, json.dumps({"dependencies": module.pip}), "")
        return subprocess.CompletedProcess(command, *answer)

    monkeypatch.setattr(module, "run", run)
    return module


def sound(*names: str) -> list[dict]:
    return [{"name": name, "version": "1", "vulns": []} for name in names]


def test_what_is_not_looked_up_is_no_success(audit, capsys: pytest.CaptureFixture) -> None:
    audit.cargo = (1, "", FAILED)
    audit.pip = [*sound("numpy"), {"name": "torch", "skip_reason": "not found"}]
    assert audit.main([]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert "Cargo.lock was not looked up" in said[0]
    assert "--no-fetch" in said[0]
    assert "1 of 2 were not looked up, such as torch" in said[2]


def test_weaknesses_are_named(audit, capsys: pytest.CaptureFixture) -> None:
    audit.cargo = (1, "RUSTSEC-2000-0001", FETCH + "error: 1 vulnerability found!")
    audit.pip = [{"name": "numpy", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}]
    assert audit.main([]) == 1
    said = capsys.readouterr()
    assert "RUSTSEC-2000-0001" in said.out
    assert "numpy 1: PYSEC-1, fixed in 2" in said.out
    assert "known weaknesses in numpy" in said.err
