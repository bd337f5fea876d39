"""Columns out of any data frame, without importing its library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Column names that need not be spelt out; matched exactly.
_TASK = ("task", "task_id", "item", "item_id", "question", "question_id", "example", "example_id", "object")
_WORKER = ("worker", "worker_id", "annotator", "annotator_id", "rater", "rater_id")
WELL_KNOWN = {
    "task": _TASK,
    "worker": (*_WORKER, "performer", "judge", "labeler"),
    "label": ("label", "answer", "response", "annotation", "vote", "rating", "value"),
}


def take_columns(frame: Any, **given: str | None) -> dict[str, tuple[str, Any]]:
    """Return the name and the data, in whatever form its library has it, of each role's column.

    The column of a role is the given one, or else the only one with a well-known name. A frame that is a
    query or a stream is read once.
    """
    frame = _readable(frame)
    names = [str(name) for name in _column_names(frame)]
    found = match_columns(names, given)
    if _library(frame) == "duckdb":
        import pyarrow as pa

        quoted = ('"' + name.replace('"', '""') + '"' for name in found.values())
        frame = pa.table(frame.project(", ".join(quoted)))
    return {role: (name, _column(frame, names, name)) for role, name in found.items()}


def match_columns(names: Sequence[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Find the column of each role among `names`; see `take_columns`."""
    role_of: dict[str, str] = {}
    for role, choice in given.items():
        name = _well_known(names, role) if choice is None else choice
        if name not in names:
            raise KeyError(f"no {role} column {name!r}; the columns are {_listed(names)}")
        if names.count(name) > 1:
            raise ValueError(f"several columns are called {name!r}; the columns are {_listed(names)}")
        if name in role_of:
            raise ValueError(f"column {name!r} cannot be both {role_of[name]} and {role}; name another with {role}=…")
        role_of[name] = role
    return {role: name for name, role in role_of.items()}


def _well_known(names: Sequence[str], role: str) -> str:
    known = [name for name in WELL_KNOWN[role] if name in names]
    if len(known) == 1:
        return known[0]
    why = f"several columns could be the {role} ({_listed(known)})"
    if not known:
        why = f"no column has a well-known name for the {role}"
    raise KeyError(f"{why}: name it with {role}=…; the columns are {_listed(names)}")


def _library(frame: Any) -> str:
    return type(frame).__module__.split(".")[0].lstrip("_")


def _readable(frame: Any) -> Any:
    """Return a frame that has columns by name: itself, or the table of its Arrow stream."""
    if type(frame).__name__ == "LazyFrame":
        raise TypeError("a LazyFrame has no data yet; call .collect() on it first")
    if isinstance(frame, Mapping) or _column_names(frame) is not None:
        return frame
    if not hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "__getitem__"):
        raise TypeError(f"expected a data frame or a mapping of columns, not {type(frame).__name__}")
    import pyarrow as pa

    return pa.table(frame)


def _column_names(frame: Any) -> Any:
    if isinstance(frame, Mapping):
        return frame
    names = getattr(frame, "column_names", None)  # pyarrow
    return getattr(frame, "columns", None) if names is None else names  # pandas, polars, duckdb


def _column(frame: Any, names: Sequence[str], name: str) -> Any:
    if isinstance(frame, Mapping):
        return frame[next(key for key in frame if str(key) == name)]
    if _library(frame) == "pandas":
        return frame.iloc[:, names.index(name)]  # whatever type the column's label has
    return frame[name]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:20])
    return shown + (", …" if len(names) > 20 else "") if names else "none"
