"""Columns of spans: which logs hold them, and where they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from manyhands._base.columns import Columns, columns_of
from manyhands._base.frames import WELL_KNOWN, if_there, known_among
from manyhands._base.names import Column

#: Roles that say where a span is.
PLACES = ("start", "end")


def holds_spans(names: Sequence[str], named: Collection[str]) -> bool:
    """Whether a log of such columns has a row for each span and not for each token; the caller named some roles."""
    if "position" in named or any(place in named for place in PLACES):
        return "position" not in named
    return not known_among(names, WELL_KNOWN["position"]) and all(known_among(names, WELL_KNOWN[p]) for p in PLACES)


def readers_of(readers: Any) -> tuple[Column, Column]:
    """Columns of documents and workers that say who read what."""
    if isinstance(readers, tuple):
        return Column(readers[0], "documents of readers"), Column(readers[1], "workers of readers")
    found = columns_of(readers, {"sequence": None, "worker": None}, ())
    return found.ids["sequence"], found.ids["worker"]


def span_columns(columns: tuple[Any, ...], named: dict[str, Any], layer: Any) -> Columns:
    """Columns of spans by role, out of a frame or as they were given."""
    if len(columns) == 1:
        frame = columns[0]
        given = {("sequence" if role == "document" else role): name for role, name in named.items()}
        if given["tag"] is None:
            given["tag"] = if_there(frame, "tag") or if_there(frame, "label")
        if given["tag"] is None:
            del given["tag"]
        found = columns_of(frame, given, PLACES)
        found.ids["document"] = found.ids.pop("sequence")
        if layer is not None:
            found.ids["layer"] = columns_of(frame, {"layer": layer}, ()).ids["layer"]
        return found
    given = named | dict(zip(named, columns, strict=False))
    lacking = [role for role, data in given.items() if data is None and role != "tag"]
    if lacking or len(columns) > len(named):
        raise TypeError(
            "from_spans takes a frame, or document, start, end, worker and tag, each a column"
            + (f"; there is no {lacking[0]}" if lacking else f", not {len(columns)} of them")
        )
    given = {role: data for role, data in (given | {"layer": layer}).items() if data is not None}
    ids = {role: Column(data, f"{role}s") for role, data in given.items() if role not in PLACES}
    return Columns(ids, {role: [(given[role], f"{role}s")] for role in PLACES})
