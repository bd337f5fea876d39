"""Attributes of tasks or workers, as they are given: never guessed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base.checks import plural, preview, warn_of_data
from manyhands._base.frames import names_of, take_columns
from manyhands._base.names import Column, Names
from manyhands.categorical.table import Annotations, as_annotations
from manyhands.io.side_tables import read_beside

Ints: TypeAlias = npt.NDArray[np.int64]

#: More values than this are measurements and not groups.
_MOST_GROUPS = 50


@dataclass(frozen=True)
class Attribute:
    """The group of each task, or of each worker: codes of `groups`, -1 where it is not known."""

    codes: Ints
    groups: Names

    @property
    def named(self) -> list[Any]:
        """Names of the groups."""
        return list(self.groups.values.tolist())


def read_votes(votes: Any, attribute: Any, about: str) -> tuple[Annotations, Attribute]:
    """A log, and the attribute of its tasks or workers in any form that `gaps` takes."""
    column = None
    if isinstance(attribute, str) and not isinstance(votes, Annotations) and attribute in names_of(votes):
        columns = take_columns(votes, **{about: None, "attribute": attribute})
        column = _per_name(columns[about][1], columns["attribute"][1], attribute, about)
    table = as_annotations(votes)
    names = table._tasks if about == "task" else table._workers
    return table, attribute_of(attribute if column is None else column, names, about)


def attribute_of(given: Any, names: Names, about: str) -> Attribute:
    """The attribute of tasks or workers by name; warns of those that it does not cover."""
    ids, values = _pairs(given, names, about)
    place, values = metrics.match_gold(names.values, (ids, values), unknown="ignore")
    codes, groups = Column(values.tolist(), "attribute").encode()
    if len(groups) < 2:
        raise ValueError(f"the attribute has only the value {groups.values.tolist()[0]!r}; a gap needs two groups")
    if len(groups) > _MOST_GROUPS:
        raise ValueError(f"the attribute has {len(groups):,} values; join them to groups, at most {_MOST_GROUPS}")
    group_codes = np.full(len(names), -1, np.int64)
    group_codes[place] = codes
    if (group_codes < 0).any():
        lacking = plural(int((group_codes < 0).sum()), about)
        warn_of_data(f"the attribute does not cover {lacking} of {len(names):,}, which are left out")
    return Attribute(group_codes, groups)


def _pairs(given: Any, names: Names, about: str) -> tuple[Any, Any]:
    """Ids and values."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str | os.PathLike):
        return _of_file(given[0], about, names, str(given[1]))
    if isinstance(given, str | os.PathLike):
        if not Path(given).exists():
            raise ValueError(f"{str(given)!r} is neither a column of the log nor a file; give a mapping, or a file")
        return _of_file(given, about, names, None)
    if isinstance(given, tuple):
        if len(given) != 2:
            raise ValueError(f"attribute must be a pair ({about}s, values), not a tuple of {len(given)}")
        return given
    if isinstance(given, Mapping) and not _is_frame(given, about):
        return list(given.keys()), list(given.values())
    if _is_frame(given, about):
        others = [name for name in names_of(given) if name != about]
        if len(others) != 1:
            raise ValueError(f"a frame of attributes has {about} and one column more, not {preview(others, 5)}")
        columns = take_columns(given, **{about: about, "attribute": others[0]})
        return Column(columns[about][1], about).names().values, list(_plain(columns["attribute"][1]))
    if hasattr(given, "index") and hasattr(given, "to_numpy"):
        return given.index.to_numpy(), given.to_numpy()
    values = list(given) if isinstance(given, Iterable) else []
    if len(values) != len(names):
        raise ValueError(
            f"attribute must be a mapping from {about}s, a pair, a frame, a file, a column of the log, or "
            f"{len(names):,} values in the order of its {about}s"
        )
    return names.values, values


def _is_frame(given: Any, about: str) -> bool:
    try:
        columns = hasattr(given, "__arrow_c_stream__") or hasattr(given, "columns") or isinstance(given, Mapping)
        return bool(columns and about in names_of(given))
    except (TypeError, ValueError, AttributeError):
        return False


def _of_file(path: Any, about: str, names: Names, column: str | None) -> tuple[Any, Any]:
    ids, columns = read_beside(path, about, names, wanted=() if column is None else (column,))
    if len(columns) != 1:
        raise ValueError(f"{path} has the columns {preview(list(columns), 5)}; name one: (path, column)")
    return ids, _plain(next(iter(columns.values())))


def _plain(column: Any) -> list[Any]:
    values = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _per_name(ids: Any, values: Any, column: str, about: str) -> dict[Any, Any]:
    """The value of each task or worker in a column of the log, which must be the same in all its rows."""
    groups: dict[Any, Any] = {}
    for name, value in zip(_plain(ids), _plain(values), strict=True):
        if value is None or value != value:  # NaN
            continue
        if groups.setdefault(name, value) != value:
            raise ValueError(
                f"column {column!r} has {groups[name]!r} and {value!r} for {about} {name!r}: not an attribute of "
                f"{about}s"
            )
    return groups
