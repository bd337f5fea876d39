"""Checks of files and commits that no other tool makes: part of ``make lint``.

Commit subjects have at most 72 characters, only packages at the top import the library as a whole, no file contains
merge conflict markers, and prose keeps to the patterns of ``scripts/prose.py``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

MOST_CHARACTERS = 72
#: Commits up to this one were made before anybody counted.
BASE = "c309547"


def long_subjects(root: Path = ROOT, base: str = BASE) -> Iterator[str]:
    """Name the commits whose subjects are too long; none where git or the history is missing."""
    command = ["git", "-C", str(root), "log", "--no-merges", "--format=%h %s", f"{base}..HEAD"]
    try:
        log = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print(f"subjects of commits are not checked: there is no git, or no history back to {base}", file=sys.stderr)
        return
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > MOST_CHARACTERS:
            yield f"commit {commit} has a subject of {len(subject)} characters, more than {MOST_CHARACTERS}: {subject}"


#: How a line begins that git writes where a merge could not be settled. The bars and the line of equals signs are left
#: out: both occur in ordinary text, and never without these two.
MERGE_MARKS = (b"<" * 7, b">" * 7)


def open_merges(root: Path = ROOT) -> Iterator[str]:
    """Name the lines of tracked text files that a merge left unsettled; none where there is no git."""
    try:
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        print("files are not searched for open merges: there is no git, or no repository", file=sys.stderr)
        return
    for name in filter(None, listed.decode("utf-8", "surrogateescape").split("\0")):
        path = root / name
        if not path.is_file():  # deleted, or a link to nowhere
            continue
        content = path.read_bytes()
        if b"\0" in content:  # what git itself takes for no text
            continue
        for number, line in enumerate(content.splitlines(), 1):
            if line.startswith(MERGE_MARKS) and line[7:8] in (b"", b" "):
                yield f"{name}:{number} is where a merge was left open: settle it, and take the marks out"


#: Packages that may do as users do: nothing in the library imports them.
AT_THE_TOP = ("__main__", "cli", "compat", "plots", "spark", "testing")


def whole_imports(root: Path = ROOT) -> Iterator[str]:
    """Name the modules that import what the library exports, and so all of it, rather than the module they need."""
    package = root / "python" / "manyhands"
    modules = {"_core", *(path.stem for path in package.iterdir())}
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0].removesuffix(".py")
        # The check-list of a kind is imported by `manyhands.testing` alone.
        check_list = path.stem in ("checks", "checks_rankings")
        if part in AT_THE_TOP or check_list or (path.parent == package and part == "__init__"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [
                alias.name for alias in getattr(node, "names", []) if isinstance(node, ast.Import | ast.ImportFrom)
            ]
            plain = isinstance(node, ast.Import) and "manyhands" in names
            exported = isinstance(node, ast.ImportFrom) and node.module == "manyhands" and set(names) - modules
            if plain or exported:
                yield f"{path.relative_to(root).as_posix()}:{node.lineno} imports all of manyhands: name the module"


def main() -> int:
    """Print the problems; 1 if there are any."""
    import prose

    problems = [*long_subjects(), *whole_imports(), *open_merges()]
    print("\n".join(problems) if problems else "files and commits pass")
    return max(bool(problems), prose.main(["--check"]))


if __name__ == "__main__":
    sys.exit(main())
