"""The linter finds files with open merges, and modules that import the whole library."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "scripts" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def git(tmp_path: Path):
    def run(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    try:
        run("init", "-q")
    except OSError:
        pytest.skip("git is not installed")
    return run


def test_merges_left_open_are_found(house, tmp_path: Path, git) -> None:
    ours, theirs = "<" * 7, ">" * 7
    for name, text in {
        "é.md": f"a\n{ours} HEAD\nb\n=======\nc\n{theirs} other\nd\n",
        "bare.txt": f"{theirs}\r\n",
        "quoted.py": f'MARK = "{ours} HEAD"\n >>> {theirs} 1\n{ours}{ours}\n=======\n',
        "bytes.bin": f"\0\n{ours} HEAD\n",
        "gone.md": f"{ours} HEAD\n",
    }.items():
        (tmp_path / name).write_bytes(text.encode())
    git("add", ".")
    (tmp_path / "gone.md").unlink()
    (tmp_path / "untracked.md").write_text(f"{ours} HEAD\n")
    found = [line.split(" ")[0] for line in house.open_merges(tmp_path)]
    assert sorted(found) == ["bare.txt:1", "é.md:2", "é.md:6"]


def test_only_the_top_imports_the_whole(house, tmp_path: Path) -> None:
    package = tmp_path / "python" / "manyhands"
    for name, line in {
        "table/a.py": "import manyhands as mh",
        "table/b.py": "def f():\n    from manyhands import Annotations",
        "table/c.py": "from manyhands import _core, table",
        "cli/d.py": "import manyhands as mh",
        "__init__.py": "from manyhands import table",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(line)
    assert [line.split(" ")[0] for line in house.whole_imports(tmp_path)] == [
        "python/manyhands/table/a.py:1",
        "python/manyhands/table/b.py:2",
    ]
