"""Cells of CSV files that a spreadsheet would take for formulas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: How text begins that spreadsheets evaluate.
_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")
_PATTERN = r"^[=+\-@\t\r]"
_ESCAPED: ContextVar[bool] = ContextVar("escaped", default=False)


@contextmanager
def escaping_formulas(wanted: bool = True) -> Iterator[None]:
    """Write text that begins like a formula with an apostrophe before it, in all CSV output until the block ends."""
    token = _ESCAPED.set(wanted)
    try:
        yield
    finally:
        _ESCAPED.reset(token)


def escape_formulas(table: Any) -> Any:
    """An Arrow table as it is written to a CSV file; the same one unless formulas are to be escaped."""
    if not _ESCAPED.get():
        return table
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            changed = pc.replace_substring_regex(column, pattern=f"({_PATTERN})", replacement=r"'\1")
            table = table.set_column(place, field.name, changed)
    return table


def escaped_cell(value: Any) -> Any:
    """A cell as it is written to a CSV file."""
    formula = isinstance(value, str) and value.startswith(_BEGINNINGS)
    return f"'{value}" if formula and _ESCAPED.get() else value
