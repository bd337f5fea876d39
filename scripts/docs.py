"""Builds the documentation's site: ``make docs`` calls this, and needs no network.

The pages are the files in ``docs``, which are read on GitHub as well, and some that live elsewhere for the same reason.
They are put together in ``target/docs/source`` with links bent to where pages are there, with the reference
(`reference`), and with a navigation read off the lists in ``docs/README.md``, the site's first page. Sphinx then makes
``target/docs/html``; what it warns of is an error, and so is a public name that did not get onto a page.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "target" / "docs"
#: Pages of the site that are not in ``docs``, and what they are called there.
ELSEWHERE = {
    "benches/README.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
FIRST = "docs/README.md"
#: A link in Markdown: its target, and what is behind the ``#``.
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(#[^)\s]*)?\)")
PAGE = (".md", ".ipynb")


def pages(root: Path = ROOT) -> dict[str, str]:
    """Give the files that are pages, and where each is in the site."""
    docs = sorted(path.relative_to(root).as_posix() for path in (root / "docs").rglob("*") if path.suffix in PAGE)
    placed = {path: "index.md" if path == FIRST else path.removeprefix("docs/") for path in docs}
    return placed | ELSEWHERE


def prose(path: Path) -> str:
    """Read what a page says in Markdown, code aside."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "\n\n".join(
            "".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"
        )
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)


def links(page: str, root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Give the links of a page within the repository: the file that each leads to, and the heading in it or nothing."""
    for target, heading in LINK.findall(prose(root / page)):
        yield posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) if target else page, heading[1:]


def headings(page: str, root: Path = ROOT) -> set[str]:
    """List the headings of a page as links name them."""
    titles = re.findall(r"^#{1,6} +(.*?)\s*$", prose(root / page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(root: Path = ROOT) -> Iterator[str]:
    """Name the links within the repository that lead nowhere."""
    known = pages(root)
    for page in [*known, "README.md"]:
        for target, heading in links(page, root):
            if not (root / target).exists():
                yield f"{page} links to {target}, which does not exist"
            elif heading and heading not in headings(target, root):
                yield f"{page} links to #{heading} of {target}, which has no such heading"


def navigation(root: Path = ROOT) -> dict[str, list[str]]:
    """Read the groups of pages off the first page: headings with lists whose items begin with a link."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in (root / FIRST).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif item := re.match(r"- \[[^\]]*\]\(([^)#]*)\)", line):
            found.setdefault(title, []).append(posixpath.normpath(posixpath.join("docs", item[1])))
    return found


def bend(text: str, page: str, placed: dict[str, str], repository: str) -> str:
    """Lead a page's links to where the pages are in the site, and those to other files to the repository."""

    def there(match: re.Match[str]) -> str:
        if not match[1]:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), match[1]))
        if target in placed:
            where = posixpath.relpath(placed[target], posixpath.dirname(placed[page]) or ".")
        elif target.startswith("docs/"):
            return match[0]
        else:
            where = f"{repository}/blob/main/{target}"
        return f"]({where}{match[2] or ''})"

    return LINK.sub(there, text)


def toctrees(placed: dict[str, str]) -> str:
    """Write the navigation as Sphinx wants it."""
    groups = {title: [placed[page] for page in listed] for title, listed in navigation().items()}
    groups.setdefault("Reference", []).insert(0, "reference/index")
    blocks = (
        f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(files) + "\n```"
        for title, files in groups.items()
    )
    return "\n\n".join(blocks)


def assemble(out: Path) -> None:
    """Put the sources of the site together."""
    import reference

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(ROOT / "docs", out, ignore=shutil.ignore_patterns("*.md", "*.ipynb", "__pycache__", ".*"))
    placed = pages()
    for page, place in placed.items():
        text = bend((ROOT / page).read_text(encoding="utf-8"), page, placed, project["urls"]["Repository"])
        if page == FIRST:
            text += "\n" + toctrees(placed) + "\n"
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_text(text, encoding="utf-8")
    (out / "reference").mkdir()
    for name, text in reference.files().items():
        (out / "reference" / name).write_text(text, encoding="utf-8")


def missing(html: Path) -> list[str]:
    """Name what should have been written up and is not on any page of the site."""
    import reference
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((html / "objects.inv").read_bytes(), uri="")
    there = {name for kind in inventory.data for name in inventory.data[kind]}
    return [path for page in reference.pages() for path in page.names if path not in there]


def main() -> int:
    """Build the site, and return an exit code."""
    from sphinx.cmd.build import main as sphinx

    if found := list(broken_links()):
        print("\n".join(found), file=sys.stderr)
        return 1
    assemble(OUT / "source")
    # Fonts and scripts come with the theme: nothing is fetched.
    failed = sphinx(
        ["-q", "-W", "--keep-going", "-b", "html", "-d", str(OUT / "trees"), str(OUT / "source"), str(OUT / "html")]
    )
    if not failed and (left := missing(OUT / "html")):
        print(f"not on any page: {', '.join(left)}", file=sys.stderr)
        failed = 1
    if not failed:
        print(f"the site is in {os.path.relpath(OUT / 'html' / 'index.html')}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
