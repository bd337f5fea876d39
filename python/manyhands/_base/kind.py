"""What the library knows about a kind of answers, in one place: `KindSpec`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True, kw_only=True)
class KindSpec:
    """Declares a kind of answers: its columns, its settings, and what its folder is called.

    Readers, the command line, files, simulations and reports work from it. Each table has one, as its `spec`.
    """

    #: The kind's word: ``--kind``, its folder, its docs page and the kind of its files.
    word: str
    #: Columns that a log of this kind must have, by role.
    required: tuple[str, ...]
    #: Columns that it may have; they are looked for only where they are named.
    optional: tuple[str, ...] = ("weight",)
    #: The optional ones that are also taken where a column with a well-known name is there.
    if_there: tuple[str, ...] = ()
    #: Roles of columns of numbers, and of columns that the kind parses itself; all others are ids.
    numbers: frozenset[str] = frozenset({"weight"})
    raw: frozenset[str] = frozenset()
    #: Other parameters of `from_frame`, by name.
    settings: tuple[str, ...] = ()
    #: Roles whose well-known columns together show that a log is of this kind, for each form it has.
    telling: tuple[tuple[str, ...], ...] = ()
    #: What a table keeps in addition to its compiled table and names: attributes in the order of its constructor.
    parts: tuple[str, ...] = ()
    #: Constructors that a message can point to.
    makers: tuple[str, ...] = ("from_frame", "from_arrays")
    #: The package under `manyhands`, where it is not the word.
    folder: str = ""
    #: What an answer is about, where it is not a task, such as ``"span"``.
    unit: str = ""
    #: Whether the answers are the places of items in one ranking.
    ranked: bool = False
    #: Whether ``confidence`` is a reliability and not a probability that an answer is correct.
    reliability: bool = False
    #: What ``confidence`` means for answers that are not right or wrong as a whole, and what its mean states of
    #: ``{n}`` answers.
    confidence: str = ""
    expected: str = ""
    #: What results of the kind rest on, for readers of a report.
    note: str = ""

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of all columns that a log of this kind can have."""
        return (*self.required, *self.optional)

    def path(self, name: str) -> str:
        """Where a module of the kind is, such as ``"metrics"``; a kind in another's folder may have its own there."""
        shared = f"manyhands.{self.folder or self.word}.{name}"
        own = f"{shared}_{self.word}"
        return own if self.folder and find_spec(own) else shared

    def has(self, name: str) -> bool:
        """Whether the kind's folder has a module of that name."""
        return find_spec(self.path(name)) is not None

    def module(self, name: str) -> Any:
        """Import a module of the kind's folder."""
        return import_module(self.path(name))
