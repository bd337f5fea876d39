"""Known answers to a log, and how good a fit is by them: the `measures` that a kind's folder has for its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhands._base.checks import preview
from manyhands._base.frames import known_among, well_known
from manyhands._base.sources import Layout, Source
from manyhands._base.streams import column_names, read_columns
from manyhands._base.table import Records

if TYPE_CHECKING:
    import pyarrow as pa

#: Roles of what is known, which a column called ``truth`` has too.
_ANSWER = frozenset({"value", "score", "cluster", "labels", "text", "mask"})


def measures_of(kind: str) -> Callable[[Known, Any], dict[str, Any]]:
    """The function `measures` among the metrics of a kind; raises where it has none."""
    spec = Records._kinds[kind].spec
    function = getattr(spec.module("metrics"), "measures", None) if spec.has("metrics") else None
    if function is None:
        raise ValueError(f"there is no measure of {kind} answers")
    measures: Callable[[Known, Any], dict[str, Any]] = function
    return measures


class Known:
    """Known answers to some tasks of a log that is not of classes, to measure a fit by.

    Ids are compared as they are written, since a file of text has no others.

    Parameters
    ----------
    path : str
        The file of known answers.
    layout : str
        How it is written, if it is CSV.
    votes
        The log.
    task, label : str or None, default None
        Its columns of tasks or items and of answers, where they have no well-known names.
    """

    def __init__(
        self, path: str, layout: Layout, votes: Any, *, task: str | None = None, label: str | None = None
    ) -> None:
        source = Source(path, layout)
        self.source, self.votes = path, votes
        self._frame: pa.Table = read_columns(source, column_names(source))
        self._task, self._label = task, label

    def measure(self, model: Any) -> dict[str, Any]:
        """Return the measures of the kind, by name, and the number of tasks or items they rest on."""
        scores: dict[str, Any] = measures_of(self.votes.kind)(self, model)
        return scores

    def has(self, *roles: str) -> bool:
        """Whether the file has a column for each role."""
        return all(self._named(role) is not None for role in roles)

    def columns(self, *roles: str) -> dict[str, list[Any]]:
        """Columns by role, as lists."""
        data: dict[str, list[Any]] = {}
        for role in roles:
            name = self._named(role)
            if name is None:
                role_names = ", ".join(("truth", *well_known(role)))
                raise ValueError(
                    f"{self.source} has no column for the {role} (known are {role_names}); its columns are "
                    f"{preview(self._frame.column_names)}"
                )
            data[role] = self._frame.column(name).to_pylist()
        return data

    def _named(self, role: str) -> str | None:
        names = self._frame.column_names
        if role in ("task", "item", "sequence") and self._task is not None:
            return self._task if self._task in names else None
        if role in _ANSWER and self._label is not None:
            return self._label if self._label in names else None
        candidates = known_among(names, well_known(role))
        if role in _ANSWER:
            candidates = (
                known_among(names, (role,)) or known_among(names, ("truth", "gold", "ground_truth")) or candidates
            )
        return candidates[0] if candidates else None

    def matched(self, ours: Any, theirs: list[Any]) -> tuple[list[int], list[int]]:
        """Places of the ids that both know, in ours and in theirs; raises if there are none, or one is given twice."""
        place = {str(name): at for at, name in enumerate(ours)}
        rows = [(place[str(name)], row) for row, name in enumerate(theirs) if str(name) in place]
        if not rows:
            raise ValueError(f"{self.source} knows none of the log's ids; it has {preview(theirs[:3])}")
        if len({at for at, _ in rows}) < len(rows):
            raise ValueError(f"{self.source} knows several answers to one id; keep one")
        return [at for at, _ in rows], [row for _, row in rows]

    def grouped(self, ours: Any, theirs: list[Any]) -> dict[int, list[int]]:
        """Rows of the file for each of our tasks that it knows; raises if there are none."""
        place = {str(name): at for at, name in enumerate(ours)}
        rows_by_key: dict[int, list[int]] = {}
        for row, name in enumerate(theirs):
            if str(name) in place:
                rows_by_key.setdefault(place[str(name)], []).append(row)
        if not rows_by_key:
            raise ValueError(f"{self.source} knows none of the log's ids; it has {preview(theirs[:3])}")
        return rows_by_key

    def numbers(self, values: list[Any], what: str) -> Any:
        """A column of numbers, NaN where there is none."""
        try:
            return np.array([np.nan if value in (None, "") else float(value) for value in values])
        except (TypeError, ValueError):
            raise ValueError(f"{self.source}: the {what} must be numbers") from None
