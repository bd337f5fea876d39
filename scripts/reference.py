"""The pages of the reference: every public name of the package, found by walking it, and every command.

A module is public where neither its name nor a parent's begins with an underscore and it says what it offers in
``__all__``, or where a public one offers it. Each of its names is written up once, under the shortest path by which
users reach it (`manyhands.DawidSkene` and not `manyhands.categorical.DawidSkene`). Classes show their own methods; what
they inherit is shown with the class it comes from, on the page of bases.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import io
import os
import pkgutil
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest import mock

import manyhands
from manyhands import cli

#: Modules without a page: the command line has one of its own, the root offers the tables, and the extension of Inspect
#: (docs/judge-logs.md) needs Inspect.
NOT_IMPORTED = ("manyhands.cli", "manyhands.table", "manyhands.compat.inspect_ai")
#: What the pages are called, where that of the package would say little.
TITLES = {"manyhands": "Tables, reading and the default", "manyhands.compat.crowdkit": "Twins of crowd-kit"}


@dataclass
class Page:
    """What one page of the reference documents: a module, and names by the paths under which they are written up."""

    module: str
    names: dict[str, object] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Its file, without the suffix."""
        return self.module.removeprefix("manyhands.").replace(".", "-")

    @property
    def title(self) -> str:
        """Its heading."""
        return TITLES.get(self.module, self.module)


def public_modules() -> Iterator[ModuleType]:
    """Give every public module, those nearest to the root first."""
    found = {"manyhands": manyhands}
    for info in pkgutil.walk_packages(manyhands.__path__, "manyhands."):
        private = any(part.startswith("_") for part in info.name.split("."))
        if not private and not info.name.startswith(NOT_IMPORTED):
            module = importlib.import_module(info.name)
            if hasattr(module, "__all__"):
                found[info.name] = module
                found |= {
                    thing.__name__: thing
                    for thing in map(module.__dict__.get, module.__all__)
                    if inspect.ismodule(thing)
                }
    yield from sorted(found.values(), key=lambda module: module.__name__.count("."))


def offered(module: ModuleType) -> list[str]:
    """List the names that a module offers: all that it says, and what it finds only when asked for."""
    if hasattr(module, "__all__"):
        later = sorted(name for name in dir(module) if not name.startswith("__") and name not in vars(module))
        return [*module.__all__, *later]
    own = {name: thing for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__}
    return sorted(name for name, thing in own.items() if callable(thing) and not name.startswith("_"))


def path_of(module: ModuleType, name: str) -> str:
    """Say how users reach a name of a module: from the root where it, or its module, is there too."""
    if at_root(name, getattr(module, name)):
        return f"manyhands.{name}"
    last = module.__name__.rpartition(".")[2]
    return f"manyhands.{last}.{name}" if at_root(last, module) else f"{module.__name__}.{name}"


def at_root(name: str, thing: object) -> bool:
    """Say whether the root offers this very thing under a name."""
    return name in dir(manyhands) and getattr(manyhands, name) is thing


def pages() -> list[Page]:
    """List the pages of the library, every public name on one of them."""
    modules = list(public_modules())
    root, packages = modules[0], modules[1:]
    seen: set[int] = set()
    found = []
    # The root's names come last: most belong to a package, and are written up with their kin.
    for module in [*packages, root]:
        page = Page(module.__name__)
        for name in offered(module):
            thing = getattr(module, name)
            if not inspect.ismodule(thing) and id(thing) not in seen:
                seen.add(id(thing))
                page.names[path_of(module, name)] = thing
        if page.names:
            found.append(page)
    return [found[-1], *sorted(found[:-1], key=lambda page: page.module), bases(found)]


def bases(documented: list[Page]) -> Page:
    """Collect the classes that public ones derive from, and that are not public themselves."""
    classes = [thing for page in documented for thing in page.names.values() if inspect.isclass(thing)]
    lines = [base for cls in classes for base in cls.__mro__[1:]]
    ours = {base for base in lines if base.__module__.startswith("manyhands.") and base not in classes}
    named = sorted((base for base in ours if not base.__name__.startswith("_")), key=lambda base: base.__name__)
    return Page("bases", {f"{base.__module__}.{base.__name__}": base for base in named})


def entry(path: str, thing: Any) -> str:
    """Write the directive that documents one name."""
    if inspect.isclass(thing):
        return f".. autoclass:: {path}\n   :members:\n   :show-inheritance:\n"
    if callable(thing):
        return f".. autofunction:: {path}\n"
    # A constant has no docstring to show; here each is a choice of names.
    module, _, name = path.rpartition(".")
    return f".. py:data:: {name}\n   :module: {module}\n\n   {', '.join(f'``{choice}``' for choice in thing)}\n"


def heading(text: str, mark: str = "=") -> str:
    """Underline a heading."""
    return f"{text}\n{mark * len(text)}\n"


def render(page: Page) -> str:
    """Write a page: what the module says of itself, a table of its names, then each of them."""
    if page.module == "bases":
        start = [
            heading("What classes have in common"),
            "What the classes on the other pages inherit: fitting, answers, tables of workers and tasks, files.",
        ]
    else:
        # A function may go by the name of its module, and then it is the function that users reach.
        hidden = not inspect.ismodule(getattr(manyhands, page.file, manyhands))
        about = f".. automodule:: {page.module}" + "\n   :no-index:" * hidden
        start = [heading(page.title), about, f".. py:currentmodule:: {page.module}"]
    table = "\n".join(
        [
            ".. autosummary::\n   :nosignatures:\n",
            *(f"   ~{path}" for path, thing in page.names.items() if callable(thing)),
        ]
    )
    return "\n\n".join([*start, table, *(entry(path, thing) for path, thing in page.names.items())]) + "\n"


def commands() -> str:
    """Write the page of the command line: every command's own help."""
    parser = cli._parser()
    (actions,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    parts = [heading("Command line"), help_of()]
    for name in actions.choices:
        parts += [heading(f"manyhands {name}", "-"), help_of(name)]
    return "\n".join(parts)


def help_of(*command: str) -> str:
    """Indent a command's help as a block of plain text, as wide as a page."""
    out = io.StringIO()
    with mock.patch.dict(os.environ, {"COLUMNS": "96"}), redirect_stdout(out), suppress(SystemExit):
        cli.main([*command, "--help"])
    return "::\n\n" + textwrap.indent(out.getvalue(), "   ")


def index(listed: list[Page]) -> str:
    """Write the first page of the reference, which lists the others."""
    lines = [heading("Reference"), "Every public name, from its docstring, and every command.\n", ".. toctree::\n"]
    return "\n".join([*lines, "   command-line", *(f"   {page.file}" for page in listed)]) + "\n"


def files() -> dict[str, str]:
    """Give the files of the reference and what is in them."""
    listed = pages()
    written = {f"{page.file}.rst": render(page) for page in listed}
    return {"index.rst": index(listed), "command-line.rst": commands(), **written}
