"""Every example in the README and the documentation runs, in a folder of its own, or says why it does not.

A page's blocks of Python share their names and run in order; a block of a session must print what it shows. Lines of
shell run in order too. What a page takes for granted, such as a log, is in a comment that readers do not see (``<!--
given … -->``), and a block that cannot run here has one that says why (``<!-- not run: … -->``).
"""

from __future__ import annotations

import doctest
import json
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from manyhands.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "benches" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
BLOCK = re.compile(r"^<!-- (given|not run:)(.*?)-->|^```(python|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Give what is to run: ``python`` or ``sh``, and the block."""
    excused = False
    for comment, words, language, block in BLOCK.findall(text):
        if comment == "given":
            yield "python", words
        elif comment:
            assert len(words.split()) >= 2, f"why is it not run? {words}"
            excused = True
        elif excused:
            excused = False
        else:
            yield language, block
    assert not excused, "a block is excused that is not there"


def session(block: str, names: dict) -> None:
    """Run a block that shows what is printed, and compare."""
    example = doctest.DocTestParser().get_doctest(block, names, "block", None, None)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    runner.run(example, out=said.append, clear_globs=False)
    names.update(example.globs)
    assert runner.failures == 0, "".join(said)


def shell(line: str) -> None:
    """Run a line: a command of ours in this process, or a whole pipeline in a shell."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    if words[0] == "manyhands" and not {"|", "<", ">", ";"} & set(words) and "<(" not in line:
        assert main(words[1:]) in (0, None), line
    elif sys.platform != "win32":
        ours = f'manyhands() {{ "{sys.executable}" -m manyhands "$@"; }}\nset -o pipefail\n'
        subprocess.run(["bash", "-c", ours + line], check=True, capture_output=True, timeout=600)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    # A module of its own, since what is pickled must be found again.
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    names = vars(module)
    names["EXPORTS"] = ROOT / "tests" / "data" / "exports"
    text = page.read_text(encoding="utf-8")
    if re.search(r"^(?:import|from) torch\b", text, re.MULTILINE):
        pytest.importorskip("torch")
    for language, block in blocks(text):
        if language == "sh":
            for line in block.replace("\\\n", " ").splitlines():
                shell(line)
        elif block.lstrip().startswith(">>>"):
            session(block, names)
        else:
            exec(compile(block, page.name, "exec"), names)


def test_blocks_are_found_and_excused_with_a_reason() -> None:
    text = "<!-- given\na = 1\n-->\n```python\nb\n```\n<!-- not run: no network -->\n```sh\nc\n```\n```text\nd\n```\n"
    assert list(blocks(text)) == [("python", "\na = 1\n"), ("python", "b\n")]
    with pytest.raises(AssertionError, match="not run"):
        list(blocks("<!-- not run: -->\n```sh\nc\n```\n"))
    with pytest.raises(AssertionError, match="not there"):
        list(blocks("<!-- not run: no network -->\n"))


def cells(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def shown(cell: dict) -> str:
    """Give what a cell printed when it was saved."""
    return "".join("".join(output["text"]) for output in cell["outputs"] if output.get("name") == "stdout")


def test_there_are_five_tutorials() -> None:
    assert [path.stem for path in TUTORIALS] == ["auditing", "deferring", "first-log", "judging", "learning"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run_and_were_saved_with_what_they_print(path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Without Jupyter: cells are plain Python. What networks print depends on the machine, and is not compared."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    trains = "torch" in path.read_text(encoding="utf-8")
    if trains:
        pytest.importorskip("torch")
    names: dict = {"__name__": "__main__"}
    for cell in cells(path):
        with warnings.catch_warnings():
            # Of showing pictures where there is no screen.
            warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
            exec(compile("".join(cell["source"]), path.name, "exec"), names)
        printed = capsys.readouterr().out
        if not trains:
            assert printed == shown(cell), "run `make notebooks`"


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_were_saved_whole(path: Path) -> None:
    outputs = [output for cell in cells(path) for output in cell["outputs"]]
    assert len(outputs) >= 5
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
