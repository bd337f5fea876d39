"""Every page of the documentation can be reached, every link leads somewhere, every public name is documented."""

from __future__ import annotations

import importlib
import inspect
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


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [page for pages in docs.navigation().values() for page in pages]
    assert sorted(listed) == sorted(set(docs.pages()) - {docs.FIRST}), "docs/README.md lists every page, once"


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
