"""The table of same or different: who said of which two items that they are the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base import data_checks as checks
from manyhands._base.building import Missing, Repeats
from manyhands._base.checks import check_choice, counted
from manyhands._base.columns import Columns
from manyhands._base.description import Fact, Spread
from manyhands._base.ids import compact
from manyhands._base.items import ItemRecords, encode_sides
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands.errors import argument

if TYPE_CHECKING:
    import pyarrow as pa

#: Words for the two answers, in small letters.
SAME = ("same", "yes", "y", "true", "t", "match", "equal", "1")
DIFFERENT = ("different", "no", "n", "false", "f", "mismatch", "unequal", "0")


class Similarities(ItemRecords):
    """An immutable, sparse table of (left, right, worker, same) rows: a worker on whether two items are the same.

    Made by one of the constructors below or by :func:`manyhands.read` with ``kind="clustering"``. The two items of a
    row are a pair without order, so that ``(a, b)`` and ``(b, a)`` are one pair and any item may stand on either side;
    an item beside itself is refused. Only pairs that somebody was asked about take room.

    Memory: 5 bytes an answer (8 more with weights) and 12 a pair, besides the names.

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
    )
    _file_kind: ClassVar[str] = "similarities"
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
        frame
            The log, one row an answer. Anything with the Arrow PyCapsule interface will do.
        left, right
            Column names of the two items; which is left does not matter. Well known are ``left``, ``right`` and
            ``item_a``, ``item_b`` and their like.
        worker
            Column name, as for :meth:`Annotations.from_frame`.
        same
            Column name of the answers: true or false, 1 or 0, or one of the words same, yes, true, match, equal and
            different, no, false, mismatch, unequal, in small or capital letters. Anything else is refused.
        weight, repeats, missing
            As for :meth:`Annotations.from_frame`; a repeat is a worker's second answer about the same two items.
        """
        given = {"left": left, "right": right, "worker": worker, "same": same}
        return cls._of_frame(frame, given, {"weight": weight}, repeats=repeats, missing=missing)

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
        """Build a table from columns of equal length; parameters are those of :meth:`from_frame`."""
        columns = {"left": left, "right": right, "workers": workers, "same": same, "weights": weights}
        return cls._of_arrays({"repeats": repeats, "missing": missing}, **columns)

    @classmethod
    def _of_columns(cls, columns: Columns, *, repeats: Repeats = "keep", missing: Missing = "drop") -> Self:
        check_choice("repeats", repeats, ("keep", "first", "last", "error"))
        weights = cls._answered(columns, missing, "two items and a worker")
        left, right, workers, said = (columns.ids[role] for role in cls.spec.required)
        answers = _answers(said)
        one, other, items = encode_sides(left, right)
        worker_codes, worker_names = workers.encode()
        pairs, ends_low, ends_high = _pairs_of(np.minimum(one, other), np.maximum(one, other), len(items))
        policy = "keep" if repeats == "error" else repeats
        table = checks.made_table(pairs, worker_codes, answers, weights, len(ends_low), len(worker_names), 2, policy)
        made = cls(table, items, worker_names, ends_low, ends_high)
        if repeats == "error":
            made._refuse_repeats()
        return made

    def _refuse_repeats(self) -> None:
        first = self._table.first_repeat()
        if first is not None:
            pair, worker = first
            names = [self.items[[codes[pair]]].tolist()[0] for codes in (self._left, self._right)]
            raise ValueError(
                f"worker {self.workers[[worker]].tolist()[0]!r} answered more than once about {names[0]!r} and "
                f"{names[1]!r} ({self._table.n_repeats():,} such rows); choose {argument('repeats', 'keep')}, "
                "'first' or 'last'"
            )

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.Table:
        """The compiled table of codes, whose tasks are the pairs: frozen, and what kernels take."""
        return self._table

    @property
    def n_pairs(self) -> int:
        """Number of pairs that somebody was asked about."""
        return len(self._left)

    @property
    def labels_per_pair(self) -> npt.NDArray[np.int64]:
        """Number of answers about each pair, (n_pairs,)."""
        offsets = self._table.offsets().astype(np.int64)
        return offsets[1:] - offsets[:-1]

    def pairs(self) -> tuple[Codes, Codes]:
        """Codes of the two items of each pair, the lower first: fresh arrays of length n_pairs."""
        return self._left.copy(), self._right.copy()

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.uint16]]:
        """Pair, worker and answer (1 for same) of every row, in pair order: fresh arrays."""
        return self._table.columns()

    def to_frame(self) -> pa.Table:
        """Return the answers as an Arrow table: left, right, worker, same, and weight if there are weights."""
        pairs, workers, said = self._table.columns()
        names = self._items.arrow()
        columns = {
            "left": arrow.take(names, self._left[pairs]),
            "right": arrow.take(names, self._right[pairs]),
            "worker": arrow.take(self._workers.arrow(), workers),
            "same": said.astype(np.bool_),
        }
        return arrow.table(columns if self.weights is None else columns | {"weight": self.weights})

    def _facts(self) -> Iterable[Fact]:
        agree, both = self._table.agreeing_pairs()
        agreement = agree / both if both else float("nan")
        asked = 2 * self.n_pairs / (self.n_items * (self.n_items - 1))
        same = float(self._table.label_counts()[1]) / self.n_annotations
        groups = _core.components(self.n_items, np.stack(self.pairs(), axis=1))
        yield Fact("n_annotations", self.n_annotations, "answers", f"{self.n_annotations:,}, {same:.1%} of them same")
        yield Fact("n_items", self.n_items, "items")
        yield Fact("n_pairs", self.n_pairs, "pairs", f"{self.n_pairs:,}, {asked:.2%} of all")
        yield Fact("n_workers", self.n_workers, "workers")
        yield Fact("labels_per_pair", Spread.of(self.labels_per_pair), "answers per pair")
        yield Fact("labels_per_worker", Spread.of(self.labels_per_worker), "answers per worker")
        yield Fact("asked", asked)
        yield Fact("same", same)
        yield Fact("agreement", agreement, "agreement", f"{agreement:.1%}" if both else "no pair has two answers")
        yield Fact("n_components", int(groups.max()) + 1, "components")
        yield Fact("n_repeats", self._table.n_repeats(), "repeats")

    def __repr__(self) -> str:
        answers, pairs = counted(self.n_annotations, "answer"), counted(self.n_pairs, "pair")
        items, workers = counted(self.n_items, "item"), counted(self.n_workers, "worker")
        weighted = ", weighted" if self.weights is not None else ""
        return f"<Similarities: {answers} on {pairs} of {items} by {workers}{weighted}>"

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self.pairs(), *self.codes(), self.weights)

    # ----------------------------------------------------------------------------------------------- subsets

    def select(self, *, items: Iterable[Any] | None = None, workers: Iterable[Any] | None = None) -> Self:
        """Return the answers about pairs of some items, by some workers, or both.

        Items and workers without an answer left are no longer part of the table. O(answers).

        Parameters
        ----------
        items, workers
            Names to keep, or a boolean mask aligned with :attr:`items` or :attr:`workers`. A pair is kept where both
            of its items are.

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
        return self._kept((item_keep[self._left] & item_keep[self._right])[pairs] & worker_keep[worker_codes])

    def _kept(self, keep: npt.NDArray[np.bool_]) -> Self:
        """The answers that are marked."""
        if not keep.any():
            raise ValueError("no annotation is left: the selected items and workers have none in common")
        kept = self._table.keep(keep)
        asked = np.diff(kept.offsets().astype(np.int64)) > 0
        ends, items, _ = compact(np.concatenate([self._left[asked], self._right[asked]]), self._items)
        workers = self._workers.take(np.flatnonzero(kept.worker_counts()))
        left, right = np.split(ends, 2)
        return type(self)(kept.compacted(), items, workers, left, right)

    # ------------------------------------------------------------------------------------------- persistence

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        pairs, workers, said = self._table.columns()
        ends = {"left": self._left, "right": self._right}
        return {**ends, "pair_codes": pairs, "worker_codes": workers, "same": said}

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        items, workers = content.names("items"), content.names("workers")
        left = content.array("left", np.uint32, ndim=1)
        right = content.array("right", np.uint32, shape=left.shape)
        pairs = content.array("pair_codes", np.uint32, ndim=1)
        worker_codes = content.array("worker_codes", np.uint32, shape=pairs.shape)
        said = content.array("same", np.uint16, shape=pairs.shape)
        if not (left < right).all() or (right >= len(items)).any():
            raise content.damaged("its pairs are not of two items each")
        table = checks.made_table(pairs, worker_codes, said, content.weights(len(pairs)), len(left), len(workers), 2)
        return cls(table, items, workers, left, right)


def _answers(column: Column) -> npt.NDArray[np.uint16]:
    """1 for same and 0 for different, whatever words a column has for them."""
    codes, names = column.encode()
    meaning = np.zeros(len(names), np.uint16)
    for place, value in enumerate(names.values.tolist()):
        word = str(int(value)) if isinstance(value, bool | int | float) and value in (0, 1) else str(value)
        word = word.strip().casefold()
        if word not in SAME + DIFFERENT:
            row = int(np.argmax(codes == place))
            raise ValueError(
                f"{column.what} holds {value!r} at row {row}, which says neither same nor different: "
                f"use true and false, 1 and 0, or words such as {', '.join(SAME[:3])} and {', '.join(DIFFERENT[:3])}"
            )
        meaning[place] = word in SAME
    return meaning[codes]


def _pairs_of(low: Codes, high: Codes, n_items: int) -> tuple[Codes, Codes, Codes]:
    """The pair of each row by its code, and the items of each pair."""
    keys, codes = np.unique(low.astype(np.uint64) * np.uint64(n_items) + high, return_inverse=True)
    low_ends, high_ends = np.divmod(keys, np.uint64(n_items))
    return codes.astype(np.uint32), low_ends.astype(np.uint32), high_ends.astype(np.uint32)
