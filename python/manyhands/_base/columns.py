"""Columns of a log by the role they have in a kind of answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from manyhands._base.frames import guesses_among, take_with_names
from manyhands._base.names import Column
from manyhands.errors import argument

#: The column of a role: its name, several names where the role has several columns, or None for a well-known name.
Chosen = str | Iterable[str] | None
#: Columns that are asked for: (role, place) to what messages call the role, and the column's name, if it is known.
Wanted = dict[tuple[str, int], tuple[str, str | None]]
#: What may stand between the parts of an id of several columns: the first that occurs in none of them.
_BETWEEN = (" / ", " | ", " :: ", " \u241f ")


@dataclass
class Columns:
    """Columns by role: those of ids, on their way to codes, and others as they are, with what messages call them."""

    ids: dict[str, Column] = field(default_factory=dict)
    others: dict[str, list[tuple[Any, str]]] = field(default_factory=dict)
    #: Names of the columns of each role.
    names: dict[str, list[str]] = field(default_factory=dict)
    #: Columns that were taken for what they are by weak names alone, by role, and all columns that there are.
    guesses: dict[str, str] = field(default_factory=dict)
    all_names: list[str] = field(default_factory=list)

    def only(self, role: str) -> tuple[Any, str] | None:
        """The one column of a role that is not for ids; None where there is none."""
        return self.others[role][0] if role in self.others else None


def spread(given: Mapping[str, Chosen]) -> Wanted:
    """All columns that are asked for: (role, place) to what messages call the role, and the name, if it is known."""
    requested: Wanted = {}
    for role, choice in given.items():
        if choice is None or isinstance(choice, str):
            requested[role, 0] = (role, choice)
            continue
        names = [*choice]
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{argument(role)} must name a column, or several in a list, not {choice!r}")
        requested |= {
            (role, place): (role if len(names) == 1 else f"{role} {name!r}", name) for place, name in enumerate(names)
        }
    return requested


def columns_of(frame: Any, given: Mapping[str, Chosen], others: Collection[str], *, weak: bool = False) -> Columns:
    """Take the columns of a frame by role; `others` are the roles that hold no ids. With `weak`, weak names will do."""
    requested = spread(given)
    names_wanted = dict(requested.values())
    columns_found, names = take_with_names(frame, names_wanted, weak=weak)
    columns = Columns(
        guesses=guesses_among({what: name for what, (name, _) in columns_found.items()}, names_wanted, names),
        all_names=names,
    )
    ids: dict[str, list[Column]] = {}
    for (role, _), (what, _) in requested.items():
        name, data = columns_found[what]
        columns.names.setdefault(role, []).append(name)
        if role in others:
            columns.others.setdefault(role, []).append((data, f"{role} column {name!r}"))
        else:
            ids.setdefault(role, []).append(Column(data, f"{role} column {name!r}"))
    columns.ids = {role: joined_ids(role, parts) for role, parts in ids.items()}
    return columns


def joined_ids(role: str, parts: list[Column]) -> Column:
    """Make one column of ids of several: their texts with something between them that none of them holds."""
    if len(parts) == 1:
        return parts[0]
    what = f"{role} columns {', '.join(part.what.partition('column ')[2] for part in parts)}"
    absent = [missing for part in parts if (missing := part.missing()) is not None]
    texts = [[str(value) for value in part.names().values.tolist()] for part in parts]
    between = next((mark for mark in _BETWEEN if not any(mark in text for column in texts for text in column)), None)
    if between is None:
        raise ValueError(
            f"{what} cannot be joined: they hold all of {', '.join(map(repr, _BETWEEN))}; join them yourself"
        )
    rows: list[str | None] = [between.join(row) for row in zip(*texts, strict=True)]
    for missing in absent:
        rows = [None if is_missing else row for row, is_missing in zip(rows, missing, strict=True)]
    return Column(rows, what)
