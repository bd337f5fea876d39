"""Columns of span logs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from manyhands._base.columns import Columns, columns_of
from manyhands._base.frames import WELL_KNOWN, if_there, known_among
from manyhands._base.names import Column

#: Roles of the columns with span positions.
PLACES = ("start", "end")


def holds_spans(names: Sequence[str], named: Collection[str]) -> bool:
    """Return whether a log has one row per span (instead of per token); `named` are the roles passed by the caller."""
    if "position" in named or any(place in named for place in PLACES):
        return "position" not in named
    return not known_among(names, WELL_KNOWN["position"]) and all(known_among(names, WELL_KNOWN[p]) for p in PLACES)


def readers_of(readers: Any) -> tuple[Column, Column]:
    """Return the document and worker columns of `readers`."""
    if isinstance(readers, tuple):
        return Column(readers[0], "documents of readers"), Column(readers[1], "workers of readers")
    columns = columns_of(readers, {"sequence": None, "worker": None}, ())
    return columns.ids["sequence"], columns.ids["worker"]


def span_columns(columns: tuple[Any, ...], named: dict[str, Any], layer: Any) -> Columns:
    """Return span columns by role, from a frame or from separate columns."""
    if len(columns) == 1:
        frame = columns[0]
        roles = {("sequence" if role == "document" else role): name for role, name in named.items()}
        if roles["tag"] is None:
            roles["tag"] = if_there(frame, "tag") or if_there(frame, "label")
        if roles["tag"] is None:
            del roles["tag"]
        span_roles = columns_of(frame, roles, PLACES)
        span_roles.ids["document"] = span_roles.ids.pop("sequence")
        if layer is not None:
            span_roles.ids["layer"] = columns_of(frame, {"layer": layer}, ()).ids["layer"]
        return span_roles
    roles = named | dict(zip(named, columns, strict=False))
    missing = [role for role, data in roles.items() if data is None and role != "tag"]
    if missing or len(columns) > len(named):
        raise TypeError(
            "from_spans takes a frame, or the columns document, start, end, worker and tag"
            + (f"; missing: {missing[0]}" if missing else f"; got {len(columns)} columns")
        )
    roles = {role: data for role, data in (roles | {"layer": layer}).items() if data is not None}
    ids = {role: Column(data, f"{role}s") for role, data in roles.items() if role not in PLACES}
    return Columns(ids, {role: [(roles[role], f"{role}s")] for role in PLACES})
