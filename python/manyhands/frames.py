"""Columns out of any data frame, without importing its library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Column names that need not be spelt out, in order of preference; matched exactly.
WELL_KNOWN = {
    "task": ("task", "task_id", "item", "item_id", "question", "question_id", "example", "example_id", "object"),
    "worker": ("worker", "worker_id", "annotator", "annotator_id", "rater", "rater_id", "performer", "judge", "labeler"),
    "label": ("label", "answer", "response", "annotation", "vote", "rating", "value"),
}


def column_names(frame: Any) -> list[str]:
    """Names of a frame's columns."""
    if isinstance(frame, Mapping):
        return [str(name) for name in frame]
    if type(frame).__name__ == "LazyFrame":
        raise TypeError("a LazyFrame has no data yet; call .collect() on it first")
    names = getattr(frame, "column_names", None)  # pyarrow
    if names is None:
        names = getattr(frame, "columns", None)  # pandas, polars, duckdb
    if names is None:
        raise TypeError(f"expected a data frame or a mapping of columns, not {type(frame).__name__}")
    return [str(name) for name in names]


def column(frame: Any, name: str) -> Any:
    """One column, in whatever form its library has it."""
    names = column_names(frame)
    if name not in names:
        raise KeyError(f"no column {name!r}; the columns are {_listed(names)}")
    if type(frame).__module__.split(".")[0].lstrip("_") == "duckdb":
        return frame.select(name).fetch_arrow_table().column(0)
    try:
        return frame[name]
    except (TypeError, KeyError, IndexError):
        import pyarrow as pa

        return pa.table(frame).column(name)


def resolve_columns(frame: Any, **given: str | None) -> dict[str, str]:
    """The column of each role: the given one, or the only one with a well-known name."""
    return match_columns(column_names(frame), given)


def match_columns(names: Sequence[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """The column of each role among `names`; see `resolve_columns`."""
    found = {}
    for role, name in given.items():
        if name is not None:
            if name not in names:
                raise KeyError(f"no {role} column {name!r}; the columns are {_listed(names)}")
            found[role] = name
            continue
        known = [n for n in WELL_KNOWN[role] if n in names]
        if len(known) != 1:
            why = "several columns could be" if known else "no column has a well-known name for"
            which = f" ({_listed(known)})" if known else ""
            raise KeyError(
                f"{why} the {role}{which}: name it with {role}=…; the columns are {_listed(names)}"
            )
        found[role] = known[0]
    return found


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:20])
    return shown + (", …" if len(names) > 20 else "") if names else "none"
