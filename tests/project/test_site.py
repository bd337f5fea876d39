"""The documentation's site: every page can be reached, every link leads somewhere, every public name is written up."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from types import ModuleType

import pytest

import manyhands as mh

ROOT = Path(__file__).parents[2]


def script(name: str) -> ModuleType:
    """Import a script by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module(name)


if not (ROOT / "scripts").exists():
    pytest.skip("the scripts are not here", allow_module_level=True)
docs = script("docs")


def test_links_lead_somewhere() -> None:
    assert sum(1 for page in docs.pages() for _ in docs.links(page)) > 50
    assert list(docs.broken_links()) == []


def test_links_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for page in [*docs.ELSEWHERE, "README.md", "docs/README.md"]:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text("# A page: on `this`\n\n```sh\n[not](a-link.md)\n```\n", encoding="utf-8")
    cells = [{"cell_type": "markdown", "source": ["[up](../README.md#a-page-on-this)", " [no](README.md#none)"]}]
    (tmp_path / "docs" / "x.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    (tmp_path / "docs" / "y.md").write_text("[x](x.ipynb) [z](z.md) [w](https://z.md) [self](#none)", encoding="utf-8")
    assert [line.split(", which")[0] for line in docs.broken_links(tmp_path)] == [
        "docs/x.ipynb links to #none of docs/README.md",
        "docs/y.md links to docs/z.md",
        "docs/y.md links to #none of docs/y.md",
    ]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [page for pages in docs.navigation().values() for page in pages]
    assert sorted(listed) == sorted(set(docs.pages()) - {docs.FIRST}), "docs/README.md lists every page, once"


def test_links_are_bent_to_where_pages_are_in_the_site() -> None:
    placed = {"docs/a.md": "a.md", "docs/b/c.ipynb": "b/c.ipynb", "CHANGELOG.md": "changelog.md"}
    text = "[a](../a.md#x) [c](../../CHANGELOG.md) [l](../../LICENSE) ![p](../images/p.svg) [w](https://w.org) [h](#h)"
    assert docs.bend(text, "docs/b/c.ipynb", placed, "https://repo") == (
        "[a](../a.md#x) [c](../changelog.md) [l](https://repo/blob/main/LICENSE) ![p](../images/p.svg) "
        "[w](https://w.org) [h](#h)"
    )


def test_every_public_name_is_written_up() -> None:
    pytest.importorskip("torch")
    pages = script("reference").pages()
    written = [path for page in pages for path in page.names]
    assert len(written) == len(set(written)) > 250
    things = [thing for page in pages for thing in page.names.values()]
    for name in {*dir(mh), *mh.__all__} - {name for name in dir(mh) if name.startswith("__")}:
        thing = getattr(mh, name)
        offered = [getattr(thing, one) for one in getattr(thing, "__all__", ())] if inspect.ismodule(thing) else [thing]
        for one in offered:
            assert inspect.ismodule(one) or any(one is other for other in things), f"{name}: {one} is on no page"
    # What classes inherit is written up with the class it comes from.
    methods = {getattr(thing, "to_frame", None) for thing in things if inspect.isclass(thing)}
    assert mh.DawidSkene.to_frame in methods


def test_pages_of_the_reference_hold_what_they_document() -> None:
    pytest.importorskip("torch")
    files = script("reference").files()
    assert ".. autoclass:: manyhands.DawidSkene\n   :members:" in files["categorical.rst"]
    assert ".. autofunction:: manyhands.audit.spammers" in files["audit.rst"]
    assert "   usage: manyhands aggregate" in files["command-line.rst"]
    for name in files:
        assert name == "index.rst" or f"   {name.removesuffix('.rst')}\n" in files["index.rst"]
