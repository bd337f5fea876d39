"""Plain rows: objects of JSON in any arrangement, and rows of several workers, as logs with one answer per row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyhands._base.checks import plural, preview, warn_of_data
from manyhands._base.columns import Chosen
from manyhands._base.frames import WELL_KNOWN, known_among
from manyhands._base.names import MIXED
from manyhands.errors import FileFormatError, argument

if TYPE_CHECKING:
    import pyarrow as pa

#: How the keys of a JSON object of objects are read: the role of the outer key, and that of the inner one.
KEYED = {"by-worker": ("worker", "task"), "by-task": ("task", "worker")}
#: Names of columns that hold several workers, or several answers, in one row.
WORKERS = tuple(f"{name}s" for name in WELL_KNOWN["worker"])
_LABELS = tuple(f"{name}s" for name in (*WELL_KNOWN["label"], *WELL_KNOWN["value"]))


def plain_rows(values: Sequence[Any], where: str, layout: str = "long") -> list[Mapping[str, Any]]:
    """Return the rows of a JSON document: a list of objects, an object of columns, or an object keyed by ids.

    Parameters
    ----------
    values : sequence
        The values of the document.
    where : str
        What messages call it.
    layout : str, default "long"
        ``"by-worker"`` for ``{worker: {task: label}}``, ``"by-task"`` for ``{task: {worker: label}}``.
    """
    content = values[0] if len(values) == 1 and isinstance(values[0], Mapping) else None
    rows = _rows_of_object(content, where, layout) if content else None
    if rows is None and layout in KEYED:
        raise ValueError(f"{argument('layout', layout)} is for one JSON object of objects, which {where} is not")
    rows = list(values) if rows is None else rows
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise FileFormatError(f"value {number} of {where} is {type(row).__name__}, not an object with fields")
    return rows


def _rows_of_object(content: Mapping[str, Any], where: str, layout: str) -> list[Any] | None:
    """Return the rows of an object of lists or of objects; None for an object that is one row."""
    parts = list(content.values())
    if all(isinstance(part, list) for part in parts):
        if any(parts) and all(isinstance(one, Mapping) for part in parts for one in part):
            return [_with_task(row, key) for key, part in content.items() for row in part]
        if len({len(part) for part in parts}) > 1:
            raise FileFormatError(f"{where} holds columns of unequal length")
        return [dict(zip(content, row, strict=True)) for row in zip(*parts, strict=True)]
    if not all(isinstance(part, Mapping) for part in parts):
        return None
    fields = [name for name in parts[0] if all(name in part for part in parts)]
    if layout in KEYED:
        return _pairs(content, where, layout)
    if known_among(list(content), WELL_KNOWN["worker"]) and all(part.keys() == parts[0].keys() for part in parts):
        return [{name: part[key] for name, part in content.items()} for key in parts[0]]
    if known_among(fields, (*WELL_KNOWN["worker"], *WORKERS)):
        return _records(content, fields)
    if all(not isinstance(value, Mapping | list) for part in parts for value in part.values()):
        raise ValueError(
            f"{where} is an object of objects with keys {preview(list(content))} outside and "
            f"{preview(list(dict.fromkeys(key for part in parts for key in part)))} inside; say which are the workers: "
            f"{argument('layout', 'by-worker')} for {{worker: {{task: label}}}}, "
            f"{argument('layout', 'by-task')} for {{task: {{worker: label}}}}"
        )
    return None


def _pairs(content: Mapping[str, Mapping[str, Any]], where: str, layout: str) -> list[Any]:
    outer, inner = KEYED[layout]
    rows = [
        {outer: one, inner: other, "label": value} for one, part in content.items() for other, value in part.items()
    ]
    odd = next((row for row in rows if isinstance(row["label"], Mapping)), None)
    if odd is not None:
        raise FileFormatError(
            f"{where}: the answer of worker {odd['worker']!r} to task {odd['task']!r} is an object, not a label"
        )
    return rows


def _records(content: Mapping[str, Mapping[str, Any]], fields: Sequence[str]) -> list[Any]:
    """Rows keyed by an id, which is the task unless a field names it.

    Where rows have several workers each, a field that is the same in all rows names what was asked, and not the task.
    """
    task_names = known_among(fields, WELL_KNOWN["task"])
    several = not known_among(fields, WELL_KNOWN["worker"])
    constant = len(content) > 1 and all(len({str(row[name]) for row in content.values()}) == 1 for name in task_names)
    if task_names and not (several and constant):
        return [{"key": key, **row} for key, row in content.items()]
    return [_with_task(row, key) for key, row in content.items()]


def _with_task(row: Mapping[str, Any], key: Any) -> dict[str, Any]:
    """Return a row with its key as the task, and fields that bear such a name out of the way."""
    reserved = known_among(list(row), WELL_KNOWN["task"])
    return {"task": key} | {f"{name} (field)" if name in reserved else name: value for name, value in row.items()}


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make a table of rows, with nulls for fields that a row does not have.

    A field whose values no column can hold becomes one of nested JSON, which is rejected only where it is used.
    """
    import pyarrow as pa

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        column = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(column)
        except (pa.ArrowException, OverflowError, UnicodeError):
            columns[name] = pa.array([None if value is None else {MIXED: json.dumps(value)} for value in column])
    return pa.table(columns)


# ---------------------------------------------------------------------------------------- several workers in a row


def column_of_workers(names: Sequence[str], named: Chosen) -> str | None:
    """Return the column that may hold several workers in a row: the one that was named, or one of a known name."""
    if named is not None:
        return named if isinstance(named, str) and named in names else None
    candidates = known_among(names, WELL_KNOWN["worker"]) or known_among(names, WORKERS)
    return candidates[0] if len(candidates) == 1 else None


def one_row_per_worker(table: pa.Table, where: str, named: Mapping[str, Chosen]) -> pa.Table:
    """Give every worker of a row per row of its own, where the worker column holds several in a row; else the table.

    Several workers are a list, or text with commas under a name in the plural such as ``annotators``. All columns with
    as many elements in every row are taken apart with them; other lists stay as they are.

    Parameters
    ----------
    table : pyarrow.Table
        The log.
    where : str
        What messages call it.
    named : mapping
        The columns that the caller named, by role; these keep their names, others lose their plural.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names = table.column_names
    column = column_of_workers(names, named.get("worker"))
    if column is None or not (is_list(table.column(column).type) or _has_commas(table, column)):
        return table
    parts = {name: _parts(table, name, column, named) for name in names}
    counts = pc.fill_null(pc.list_value_length(parts[column]), 0)
    label = named.get("label")
    for name, part in parts.items():
        if part is None or pc.fill_null(pc.list_value_length(part), 0).equals(counts):
            continue
        if name == label or known_among([name], (*WELL_KNOWN["label"], *_LABELS)):
            differ = pc.not_equal(counts, pc.fill_null(pc.list_value_length(part), 0))
            raise ValueError(
                f"{where}: row {pc.index(differ, True).as_py() + 1} holds unequal numbers of {column!r} and {name!r}; "
                "each answer needs its worker"
            )
        parts[name] = None
    empty = int(pc.sum(pc.equal(counts, 0)).as_py() or 0)
    if empty:
        warn_of_data(f"{where}: dropped {plural(empty, 'row')} without a worker")
    parent = pc.list_parent_indices(parts[column])
    columns_kept = [name for role in named.values() for name in ([role] if isinstance(role, str) else role or ())]
    return pa.table(
        {
            name if name in columns_kept or part is None else _singular(name, names): table.column(name).take(parent)
            if part is None
            else pc.list_flatten(part)
            for name, part in parts.items()
        }
    )


def _parts(table: pa.Table, name: str, workers: str, named: Mapping[str, Chosen]) -> Any:
    """Return a column as lists, if it holds lists, or text with commas that goes with the workers; None otherwise."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(name).combine_chunks()
    if is_list(column.type):
        return column
    if is_list(table.column(workers).type) or pa.types.is_nested(column.type):
        return None
    if name not in (workers, named.get("label")) and not known_among([name], _LABELS):
        return None
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    return pc.split_pattern_regex(text, pattern=r"\s*,\s*")


def _has_commas(table: pa.Table, name: str) -> bool:
    """Whether a column in the plural holds several names with commas between them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(name)
    if not known_among([name], WORKERS) or not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ):
        return False
    return bool(pc.any(pc.match_substring(column, ",")).as_py())


def _singular(name: str, names: Sequence[str]) -> str:
    """The name of one element of a list: annotators become annotator."""
    one = name.removesuffix("s")
    return one if one and one not in names else name


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of lists."""
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind))
