"""Tables without tasks: items that workers compared, workers that need not be named, and parts of items that occur."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import data_checks as checks
from manyhands._base.checks import check_choice, plural, preview, warn_of_data
from manyhands._base.columns import Columns
from manyhands._base.ids import compact
from manyhands._base.names import Codes, Column, Names
from manyhands._base.table import Records, Rows

#: Who made the records of a log that does not say.
EVERYBODY = "everybody"


def encode_workers(workers: Column | None, n_rows: int) -> tuple[Codes, Names]:
    """Codes and names of workers; a log that names none is one worker's."""
    if workers is None:
        return np.zeros(n_rows, np.uint32), Names(np.array([EVERYBODY], object))
    return workers.encode()


def compact_codes(codes: Codes, names: Names) -> tuple[Codes, Names]:
    """Codes from 0 without gaps, and the names that are left."""
    renumbered, left, _ = compact(codes, names)
    return renumbered, left


def codes_of(names: Names, wanted: Any, what: str) -> npt.NDArray[np.int64]:
    """Codes of names that must be known, or an error that names one that is not."""
    ids = [wanted] if isinstance(wanted, str) or np.ndim(wanted) == 0 else wanted
    codes = names.find(ids)
    if (codes < 0).any():
        unknown = [list(ids)[place] for place in np.flatnonzero(codes < 0)]
        raise KeyError(f"no {what} is called {preview(unknown)}")
    return codes


def checked_count(data: Any, what: str, n_rows: int) -> npt.NDArray[np.float64]:
    """Return weights, as many as there are rows."""
    weights = checks.checked_weights(data, what)
    if len(weights) != n_rows:
        raise ValueError(f"columns differ in length: {n_rows:,} rows, {len(weights):,} weights")
    return weights


class ItemRecords(Records):
    """Records of workers about items that they compared, rather than about tasks one by one."""

    __slots__ = ("_items",)
    _name_fields: ClassVar[tuple[str, ...]] = ("items", "workers")

    def __init__(self, table: Rows, items: Names, workers: Names) -> None:
        super().__init__(table, workers)
        self._items = items

    @property
    def items(self) -> npt.NDArray[Any]:
        """Names of the items, in code order; results are aligned with it."""
        return self._items.values

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self._items)

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._items)

    @classmethod
    def _answered(cls, columns: Columns, missing: str, needs: str) -> npt.NDArray[np.float64] | None:
        """Set rows without an answer, the last of the required columns, aside in all columns; return their weights.

        Raises for columns of unequal length, and for rows that lack what they need besides an answer.
        """
        check_choice("missing", missing, ("drop", "error"))
        ids, weight, answer = columns.ids, columns.only("weight"), cls.spec.required[-1]
        checks.check_sizes({role: len(column) for role, column in ids.items()}, f"({', '.join(cls.spec.required)})")
        checks.refuse_missing_ids(*(column for role, column in ids.items() if role != answer), needs=needs)
        weights = None if weight is None else checked_count(*weight, len(ids[answer]))
        absent = ids[answer].missing()
        if absent is None:
            return weights
        checks.refuse_missing_answers(ids[answer].what, absent, missing)
        warn_of_data(f"set aside {plural(int(absent.sum()), 'row')} without {cls._answer}")
        for column in ids.values():
            column.filter(~absent)
        return None if weights is None else weights[~absent]

    #: What messages call an answer.
    _answer: ClassVar[str] = "an answer"


def encode_sides(left: Column, right: Column) -> tuple[Codes, Codes, Names]:
    """Codes of the items on either side, and their names, whichever side they occur on; pairs of equal items raise."""
    (left_codes, left_names), (right_codes, right_names) = left.encode(), right.encode()
    if left_names.values.dtype.kind != right_names.values.dtype.kind and (left.parse_integers or right.parse_integers):
        # Names of one file: numbers on one side only are text on both.
        left.parse_integers = right.parse_integers = False
        (left_codes, left_names), (right_codes, right_names) = left.encode(), right.encode()
    items = left_names if left_names == right_names else left_names.joined(right_names)
    sides = ((left_codes, left_names), (right_codes, right_names))
    one, other = (items.match(names).astype(np.uint32)[codes] for codes, names in sides)
    same = one == other
    if same.any():
        row = int(np.argmax(same))
        item = items.values[[one[row]]].tolist()[0]
        raise ValueError(
            f"item {item!r} is compared with itself in {int(same.sum()):,} of {len(one):,} rows, first at row {row}; "
            "drop them: they say nothing of any item"
        )
    return one, other, items
