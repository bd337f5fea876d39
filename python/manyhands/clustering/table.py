"""Table of same-or-different answers about pairs of items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base import data_checks as checks
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import check_choice, plural
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Spread
from manyhands._base.ids import compact
from manyhands._base.items import ItemRecords, encode_sides
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands.errors import argument

if TYPE_CHECKING:
    import pyarrow as pa

#: Words for the two answers, in lower case.
SAME = ("same", "yes", "y", "true", "t", "match", "equal", "1")
DIFFERENT = ("different", "no", "n", "false", "f", "mismatch", "unequal", "0")


class Similarities(ItemRecords):
    """Immutable, sparse table of (left, right, worker, same) rows: whether two items are the same, by worker.

    Build it with :meth:`from_frame` or :meth:`from_arrays`, or read a file with :func:`manyhands.read` and
    ``kind="clustering"``. Pairs are unordered: ``(a, b)`` and ``(b, a)`` are the same pair. Pairs of an item with
    itself raise. Only pairs with answers are stored.

    Memory: 5 bytes per answer (8 more with weights) and 12 per pair, plus names.

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"left": ["a", "c", "b"], "right": ["b", "a", "a"], "worker": [1, 1, 2], "same": ["yes", "no", "yes"]}
    >>> answers = mh.Similarities.from_frame(log)
    >>> answers
    <Similarities: 3 answers on 2 pairs of 3 items by 2 workers>
    >>> answers.to_frame().to_pydict()["same"]
    [True, True, False]
    """

    __slots__ = ("_left", "_right")
    spec: ClassVar[KindSpec] = KindSpec(
        word="clustering",
        required=("left", "right", "worker", "same"),
        settings=("repeats", "missing"),
        telling=(("left", "right", "same"),),
        unit="item",
    )
    _table: _core.Table

    def __init__(self, table: _core.Table, items: Names, workers: Names, left: Codes, right: Codes) -> None:
        super().__init__(table, items, workers)
        self._left, self._right = left, right

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        left: str | None = None,
        right: str | None = None,
        worker: str | None = None,
        same: str | None = None,
        weight: str | None = None,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame : DataFrame, Arrow table or mapping of columns
            The log, one row per answer. Any object with the Arrow PyCapsule interface works.
        left, right : str, optional
            Columns of the two items, in any order. Well-known names include ``left``, ``right``, ``item_a`` and
            ``item_b``.
        worker : str, optional
            Column of worker ids, as for :meth:`Annotations.from_frame`.
        same : str, optional
            Column of answers: booleans, 1 or 0, or one of the words same, yes, true, match, equal and different, no,
            false, mismatch, unequal, in any case. Other values raise.
        weight, repeats, missing
            As for :meth:`Annotations.from_frame`. A repeat is a second answer of a worker about the same pair.

        Returns
        -------
        Similarities
            The table.
        """
        columns = {"left": left, "right": right, "worker": worker, "same": same}
        return cls._of_frame(frame, columns, {"weight": weight}, repeats=repeats, missing=missing)

    @classmethod
    def from_arrays(
        cls,
        left: Any,
        right: Any,
        workers: Any,
        same: Any,
        weights: Any = None,
        *,
        repeats: Repeats = "keep",
        missing: Missing = "drop",
    ) -> Self:
        """Build a table from columns of equal length; for the parameters, see :meth:`from_frame`."""
        columns = {"left": left, "right": right, "workers": workers, "same": same, "weights": weights}
        return cls._of_arrays({"repeats": repeats, "missing": missing}, **columns)

    @classmethod
    def _of_columns(cls, columns: Columns, *, repeats: Repeats = "keep", missing: Missing = "drop") -> Self:
        check_choice("repeats", repeats, ("keep", "first", "last", "error"))
        weights = cls._answered(columns, missing, "two items and a worker")
        left, right, workers, same = (columns.ids[role] for role in cls.spec.required)
        answers = _answers(same)
        one, other, items = encode_sides(left, right)
        worker_codes, worker_names = workers.encode()
        pairs, ends_low, ends_high = _pairs_of(np.minimum(one, other), np.maximum(one, other), len(items))
        policy = "keep" if repeats == "error" else repeats
        table = checks.made_table(pairs, worker_codes, answers, weights, len(ends_low), len(worker_names), 2, policy)
        similarities = cls(table, items, worker_names, ends_low, ends_high)
        if repeats == "error":
            similarities._check_repeats()
        return similarities

    def _check_repeats(self) -> None:
        first = self._table.first_repeat()
        if first is not None:
            pair, worker = first
            names = [self.items[[codes[pair]]].tolist()[0] for codes in (self._left, self._right)]
            raise ValueError(
                f"worker {self.workers[[worker]].tolist()[0]!r} answered more than once about {names[0]!r} and "
                f"{names[1]!r} ({self._table.n_repeats():,} such rows); pass {argument('repeats', 'keep')}, "
                "'first' or 'last'"
            )

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.Table:
        """Compiled table of codes with pairs as tasks (read-only), as passed to the kernels."""
        return self._table

    @property
    def n_pairs(self) -> int:
        """Number of pairs with answers."""
        return len(self._left)

    @property
    def labels_per_pair(self) -> npt.NDArray[np.int64]:
        """Number of answers per pair, shape (n_pairs,)."""
        offsets = self._table.offsets().astype(np.int64)
        return offsets[1:] - offsets[:-1]

    def pairs(self) -> tuple[Codes, Codes]:
        """Return the item codes of each pair, lower code first, as new arrays of length n_pairs."""
        return self._left.copy(), self._right.copy()

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.uint16]]:
        """Return pair, worker and answer (1 for same) of every row in pair order, as new arrays."""
        return self._table.columns()

    def to_frame(self) -> pa.Table:
        """Return the answers as an Arrow table: left, right, worker, same, and weight if there are weights."""
        pairs, workers, same = self._table.columns()
        names = self._items.arrow()
        columns = {
            "left": arrow.take(names, self._left[pairs]),
            "right": arrow.take(names, self._right[pairs]),
            "worker": arrow.take(self._workers.arrow(), workers),
            "same": same.astype(np.bool_),
        }
        return arrow.table(columns if self.weights is None else columns | {"weight": self.weights})

    def _facts(self) -> Iterable[Fact]:
        agree, both = self._table.agreeing_pairs()
        agreement = agree / both if both else float("nan")
        density = 2 * self.n_pairs / (self.n_items * (self.n_items - 1))
        same = float(self._table.label_counts()[1]) / self.n_annotations
        groups = _core.components(self.n_items, np.stack(self.pairs(), axis=1))
        yield Fact("n_annotations", self.n_annotations, "answers", f"{self.n_annotations:,}, {same:.1%} of them same")
        yield Fact("n_items", self.n_items, "items")
        yield Fact("n_pairs", self.n_pairs, "pairs", f"{self.n_pairs:,}, {density:.2%} of all")
        yield Fact("n_workers", self.n_workers, "workers")
        yield Fact("labels_per_pair", Spread.of(self.labels_per_pair), "answers per pair")
        yield Fact("labels_per_worker", Spread.of(self.labels_per_worker), "answers per worker")
        yield Fact("asked", density)
        yield Fact("same", same)
        yield Fact("agreement", agreement, "agreement", f"{agreement:.1%}" if both else "no pair has two answers")
        yield Fact("n_components", int(groups.max()) + 1, "components")
        yield Fact("n_repeats", self._table.n_repeats(), "repeats")

    def __repr__(self) -> str:
        answers, pairs = plural(self.n_annotations, "answer"), plural(self.n_pairs, "pair")
        items, workers = plural(self.n_items, "item"), plural(self.n_workers, "worker")
        weighted = ", weighted" if self.weights is not None else ""
        return f"<Similarities: {answers} on {pairs} of {items} by {workers}{weighted}>"

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self.pairs(), *self.codes(), self.weights)

    # ----------------------------------------------------------------------------------------------- subsets

    def select(self, *, items: Iterable[Any] | None = None, workers: Iterable[Any] | None = None) -> Self:
        """Return the answers about pairs of some items, by some workers, or both.

        Items and workers without answers are dropped. O(answers).

        Parameters
        ----------
        items, workers : iterable of names or boolean mask, optional
            Names to keep; all by default. A mask is aligned with :attr:`items` or :attr:`workers`. A pair is kept if
            both items are.

        Returns
        -------
        Similarities
            The selected answers.

        Examples
        --------
        >>> import manyhands as mh
        >>> answers = mh.Similarities.from_arrays(["a", "b"], ["b", "c"], ["u", "v"], [True, False])
        >>> answers.select(workers=["u"])
        <Similarities: 1 answer on 1 pair of 2 items by 1 worker>
        """
        item_keep = checks.mask_of(self._items, items, "item")
        worker_keep = checks.mask_of(self._workers, workers, "worker")
        pairs, worker_codes, _ = self._table.columns()
        return self._select_rows((item_keep[self._left] & item_keep[self._right])[pairs] & worker_keep[worker_codes])

    def _select_rows(self, keep: npt.NDArray[np.bool_]) -> Self:
        """Return the rows where the mask is True."""
        if not keep.any():
            raise ValueError("no annotation is left: the selected items and workers share no answers")
        kept_table = self._table.keep(keep)
        has_answers = np.diff(kept_table.offsets().astype(np.int64)) > 0
        ends, items, _ = compact(np.concatenate([self._left[has_answers], self._right[has_answers]]), self._items)
        workers = self._workers.take(np.flatnonzero(kept_table.worker_counts()))
        left, right = np.split(ends, 2)
        return type(self)(kept_table.compacted(), items, workers, left, right)

    # ------------------------------------------------------------------------------------------- persistence

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        pairs, workers, same = self._table.columns()
        ends = {"left": self._left, "right": self._right}
        return {**ends, "pair_codes": pairs, "worker_codes": workers, "same": same}

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        items, workers = content.names("items"), content.names("workers")
        left = content.array("left", np.uint32, ndim=1)
        right = content.array("right", np.uint32, shape=left.shape)
        pairs = content.array("pair_codes", np.uint32, ndim=1)
        worker_codes = content.array("worker_codes", np.uint32, shape=pairs.shape)
        same = content.array("same", np.uint16, shape=pairs.shape)
        if not (left < right).all() or (right >= len(items)).any():
            raise content.damaged("a pair does not consist of two different items")
        table = checks.made_table(pairs, worker_codes, same, content.weights(len(pairs)), len(left), len(workers), 2)
        return cls(table, items, workers, left, right)


def _answers(column: Column) -> npt.NDArray[np.uint16]:
    """Return 1 for same and 0 for different, from any of the accepted words."""
    codes, names = column.encode()
    meaning = np.zeros(len(names), np.uint16)
    for place, value in enumerate(names.values.tolist()):
        word = str(int(value)) if isinstance(value, bool | int | float) and value in (0, 1) else str(value)
        word = word.strip().casefold()
        if word not in SAME + DIFFERENT:
            row = int(np.argmax(codes == place))
            raise ValueError(
                f"{column.what} contains {value!r} at row {row}, which is neither same nor different: "
                f"use booleans, 1 and 0, or words such as {', '.join(SAME[:3])} and {', '.join(DIFFERENT[:3])}"
            )
        meaning[place] = word in SAME
    return meaning[codes]


def _pairs_of(low: Codes, high: Codes, n_items: int) -> tuple[Codes, Codes, Codes]:
    """Return the pair code of each row, and the item codes of each pair."""
    keys, codes = np.unique(low.astype(np.uint64) * np.uint64(n_items) + high, return_inverse=True)
    low_ends, high_ends = np.divmod(keys, np.uint64(n_items))
    return codes.astype(np.uint32), low_ends.astype(np.uint32), high_ends.astype(np.uint32)
