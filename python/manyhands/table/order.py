"""The order in which annotations were made, which a table itself does not keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.table import arrow
from manyhands.table.annotations import Annotations
from manyhands.table.checks import made_table

Array = npt.NDArray[np.float64]


def as_numbers(values: Any, what: str) -> Array:
    """Numbers, dates or times, also as text, as numbers; `what` names them in messages."""
    import pyarrow as pa

    try:
        column = arrow.one_chunk(values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values))
        if column.null_count:
            raise ValueError(f"{what} has no value in {column.null_count:,} places; drop those rows")
        if arrow.is_text(column.type):
            column = _parsed(column)
        if pa.types.is_temporal(column.type):
            unit = pa.time64("us") if pa.types.is_time(column.type) else pa.timestamp("us")
            column = column.cast(unit).cast(pa.int64())
        found: Array = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise TypeError(f"{what} must hold numbers, dates or times: {error}") from None
    if np.isnan(found).any():
        raise ValueError(f"{what} has no value in {int(np.isnan(found).sum()):,} places; drop those rows")
    return found


def _parsed(column: Any) -> Any:
    """Text as numbers, or as times in ISO 8601, with a zone or without."""
    import pyarrow as pa

    for kind in (pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid as error:
            last = error
    raise last


def ranks(when: Array) -> Array:
    """Ranks from 1 on, equal for equal times: they travel through the making of a table as weights."""
    found: Array = (np.unique(when, return_inverse=True)[1] + 1).astype(np.float64)
    return found


def without_ranks(ranked: Annotations) -> tuple[Annotations, Array]:
    """The table, and the ranks that it had for weights, aligned with its rows."""
    table = made_table(
        *ranked.codes(), None, ranked.n_tasks, ranked.n_workers, ranked.n_labels, n_classes=ranked.n_classes
    )
    names = (ranked._tasks, ranked._workers, ranked._classes, ranked._unlabelled, ranked._labels)
    return Annotations(table, *names), np.ones(table.n_annotations) if ranked.weights is None else ranked.weights
