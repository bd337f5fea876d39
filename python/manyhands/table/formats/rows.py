"""Plain rows: objects of JSON, lists within columns, and wide tables, as logs with one answer a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyhands.errors import FileFormatError

if TYPE_CHECKING:
    import pyarrow as pa


def frame_of(rows: Sequence[Any], where: str) -> pa.Table:
    """Make a table of objects, all with the same plain fields."""
    if len(rows) == 1 and isinstance(rows[0], Mapping) and all(isinstance(column, list) for column in rows[0].values()):
        return _table(dict(rows[0]), where)  # an object of columns
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise FileFormatError(f"value {number} of {where} is {type(row).__name__}, not an object with fields")
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _table({name: [row.get(name) for row in rows] for name in names}, where)


def _table(columns: Mapping[str, list[Any]], where: str) -> pa.Table:
    import pyarrow as pa

    if len({len(column) for column in columns.values()}) > 1:
        raise FileFormatError(f"{where} holds columns of unequal length")
    try:
        return pa.table({name: pa.array(column) for name, column in columns.items()})
    except (pa.ArrowException, OverflowError, UnicodeError):
        raise FileFormatError(
            f"{where} holds fields whose values are of several types, or of none that a table has; convert it to CSV"
        ) from None


def exploded(table: pa.Table) -> pa.Table:
    """Give every element of list columns a row of its own; columns of lists must have equally many in each row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    listed = [name for name in table.column_names if is_list(table.column(name).type)]
    if not listed:
        return table
    lengths = [pc.fill_null(pc.list_value_length(table.column(name)), 0) for name in listed]
    for name, length in zip(listed[1:], lengths[1:], strict=True):
        if not length.equals(lengths[0]):
            raise ValueError(
                f"columns {listed[0]!r} and {name!r} hold lists of unequal length in some row; "
                "each answer needs its worker: mend them, or name the columns to use"
            )
    parent = pc.list_parent_indices(table.column(listed[0]).combine_chunks())
    columns = {
        _singular(name, table.column_names, listed): pc.list_flatten(table.column(name).combine_chunks())
        if name in listed
        else table.column(name).take(parent)
        for name in table.column_names
    }
    return pa.table(columns)


def _singular(name: str, names: Sequence[str], listed: Sequence[str]) -> str:
    """The name of one element of a list: annotators become annotator."""
    one = name.removesuffix("s")
    return one if name in listed and one != name and one not in names else name


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of lists."""
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind))
