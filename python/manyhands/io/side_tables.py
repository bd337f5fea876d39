"""Files that say more of a log's tasks or workers, a row each, with ids in the types that the log has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from manyhands._base.frames import WELL_KNOWN, known_among
from manyhands._base.names import Column, Names
from manyhands._base.sources import Layout, PathLike, one_source
from manyhands._base.streams import column_names, read_columns
from manyhands.categorical.gold import in_types_of


def read_beside(
    path: PathLike,
    role: str,
    known: Names,
    *,
    wanted: Sequence[str] = (),
    numbers: Sequence[str] = (),
    layout: Layout | None = None,
) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """Read columns about tasks or workers from a CSV or Parquet file.

    Parameters
    ----------
    path : path
        The file, or a stream of it.
    role : str
        What the rows are about, ``"task"`` or ``"worker"``: its column has a well-known name.
    known : sequence
        The names that the log has for them.
    wanted : sequence of str, default ()
        Columns that must be there; all but that of ids where none is named.
    numbers : sequence of str, default ()
        Columns of numbers, which need not be there.
    layout : str or None, default None
        How a CSV file is written.

    Returns
    -------
    ids : ndarray of shape (n_rows,)
        In the types of the log where it knows them.
    columns : dict
        The columns that were found, as Arrow's.
    """
    source = one_source(path, layout)
    names = column_names(source)
    ids = list(dict.fromkeys(known_among(names, WELL_KNOWN[role])))
    if len(ids) != 1:
        raise ValueError(f"{source.path}: no single column of {role}s among {', '.join(names)}; call it {role}")
    lacking = [name for name in wanted if name not in names]
    if lacking:
        raise ValueError(f"{source.path}: no column {lacking[0]!r}; the columns are {', '.join(names)}")
    there = [name for name in numbers if name in names]
    rest = list(wanted) or [name for name in names if name not in (*ids, *numbers)]
    table = read_columns(source, [*ids, *there, *rest], numbers=there)
    integers = source.kind == "csv" and known.values.dtype.kind == "i"
    column = Column(table.column(ids[0]), f"column {ids[0]!r}", parse_integers=integers, sound=True)
    if column.missing() is not None:
        raise ValueError(f"{source.path}: column {ids[0]!r} lacks a {role} in some row")
    return in_types_of(known, column), {name: table.column(name) for name in (*there, *rest)}
