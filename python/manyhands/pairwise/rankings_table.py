"""Table of rankings: lists of items from best to worst, by worker."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base import data_checks as checks
from manyhands._base.checks import plural
from manyhands._base.columns import Columns
from manyhands._base.description import Fact
from manyhands._base.items import ItemRecords, checked_count, compact_codes, encode_workers
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands.pairwise.table import Comparisons

if TYPE_CHECKING:
    import pyarrow as pa


class Rankings(ItemRecords):
    """Immutable, sparse table of rankings: lists of items from best to worst.

    Build it with :meth:`from_frame` or :meth:`from_lists`, or read a file with :func:`manyhands.read` and
    ``kind="rankings"``. Rankings may be partial, but must not contain ties.

    Memory: 4 bytes per entry and 8 per ranking (8 more with weights), plus names.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.Rankings.from_lists([["a", "b", "c"], ["b", "a"]], workers=["x", "y"])
    <Rankings: 2 rankings of 3 items by 2 workers>
    """

    __slots__ = ()
    spec: ClassVar[KindSpec] = KindSpec(
        word="rankings",
        required=("task", "item", "rank"),
        optional=("worker", "weight"),
        if_there=("worker",),
        numbers=frozenset({"rank", "weight"}),
        telling=(("item", "rank"),),
        makers=("from_frame", "from_lists"),
        folder="pairwise",
        unit="item",
        ranked=True,
        reliability=True,
        note="Scores compare the items of this log only; the difference between two scores has a meaning.",
    )
    _table: _core.Rankings

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        item: str | None = None,
        rank: str | None = None,
        worker: str | None = None,
        weight: str | None = None,
    ) -> Self:
        """Build a table from a frame with one row per item that a worker ranked in a task.

        Parameters
        ----------
        frame : DataFrame, Arrow table or mapping of columns
            The log.
        task : str, optional
            Column of task ids. A worker's rows of one task form one ranking.
        item : str, optional
            Column of item ids.
        rank : str, optional
            Column of ranks; the smallest is the best.
        worker : str, optional
            Column of worker ids. By default a column with a well-known name, if there is one.
        weight : str, optional
            Column of weights, constant within a ranking.

        Returns
        -------
        Rankings
            The table.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"task": [1, 1, 1], "item": ["a", "b", "c"], "rank": [2, 1, 3]}
        >>> mh.Rankings.from_frame(log).lists()
        [['b', 'a', 'c']]
        """
        columns = {"task": task, "item": item, "rank": rank}
        return cls._of_frame(frame, columns, {"worker": worker, "weight": weight})

    @classmethod
    def from_lists(cls, lists: Iterable[Sequence[Any]], workers: Any = None, weights: Any = None) -> Self:
        """Build a table from lists of items, best first.

        Parameters
        ----------
        lists : iterable of lists of item ids
            The rankings.
        workers : column of worker ids, optional
            Worker of each ranking; a single worker by default.
        weights : column of numbers, optional
            Weight of each ranking.

        Returns
        -------
        Rankings
            The table.
        """
        rankings = [list(one) for one in lists]
        if not rankings:
            raise ValueError("there are no rankings: the table needs at least one")
        lengths = np.array([len(one) for one in rankings])
        if not lengths.all():
            raise ValueError(f"ranking {int(np.argmin(lengths))} is empty: remove it")
        items = Column([item for one in rankings for item in one], "items")
        by = None if workers is None else Column(workers, "workers")
        sizes = {"rankings": len(rankings)} | ({} if by is None else {"workers": len(by)})
        checks.check_sizes(sizes, "ranking")
        checks.refuse_missing_ids(*([items] if by is None else [items, by]), needs="items, and a worker")
        counts = None if weights is None else checked_count(weights, "weights", len(rankings))
        item_codes, item_names = items.encode()
        worker_codes, worker_names = encode_workers(by, len(rankings))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
        _check_unique_items(np.repeat(np.arange(len(rankings)), lengths), item_codes, item_names)
        table = _core.Rankings(offsets, item_codes, worker_codes, counts, len(item_names), len(worker_names))
        return cls(table, item_names, worker_names)

    @classmethod
    def from_codes(cls, lists: Codes, workers: Codes, *, n_items: int, n_workers: int) -> Self:
        """Build a table from rankings of equal length given as codes, which also serve as names.

        `lists` has shape (n_rankings, length), best item first.
        """
        n, length = lists.shape
        offsets = np.arange(0, n * length + 1, length).astype(np.uint32)
        table = _core.Rankings(offsets, lists.ravel(), workers, None, n_items, n_workers)
        return cls(table, Names(np.arange(n_items)), Names(np.arange(n_workers)))

    @classmethod
    def _of_columns(cls, columns: Columns) -> Self:
        ids = columns.ids
        ranks, rank_column = columns.others["rank"][0]
        places = checks.checked_values(ranks, rank_column)
        checks.check_sizes(
            {**{role: len(one) for role, one in ids.items()}, "ranks": len(places)}, "(task, item, rank)"
        )
        checks.refuse_missing_ids(*ids.values(), needs="a task, an item and, if there is such a column, a worker")
        if np.isnan(places).any():
            row = int(np.argmax(np.isnan(places)))
            raise ValueError(
                f"{rank_column} is missing at row {row}; every item of a ranking needs a rank: drop that row"
            )
        weight_column = columns.only("weight")
        weights = None if weight_column is None else checked_count(*weight_column, len(places))
        (tasks, _), (items, item_names) = ids["task"].encode(), ids["item"].encode()
        workers, worker_names = encode_workers(ids.get("worker"), len(places))
        order = np.lexsort((places, workers, tasks))
        lists = np.stack([tasks[order], workers[order]], axis=1)
        starts = np.flatnonzero(np.r_[True, (lists[1:] != lists[:-1]).any(axis=1)])
        same = np.ones(len(order), np.bool_)
        same[starts] = False
        is_tied = np.r_[False, places[order][1:] == places[order][:-1]] & same
        if is_tied.any():
            row = int(order[np.argmax(is_tied)])
            raise ValueError(
                f"{rank_column} contains the rank {places[row]:g} twice in one ranking (row {row}); rankings must not "
                "have ties: convert them to pairwise comparisons (Comparisons), which allow ties"
            )
        counts = None
        if weights is not None:
            counts = weights[order][starts]
            if (np.repeat(counts, np.diff(np.r_[starts, len(order)])) != weights[order]).any():
                raise ValueError("the rows of a ranking have different weights; use one weight per ranking")
        _check_unique_items(np.cumsum(~same) - 1, items[order], item_names)
        table = _core.Rankings(
            np.r_[starts, len(order)].astype(np.uint32),
            items[order],
            np.ascontiguousarray(workers[order][starts]),
            counts,
            len(item_names),
            len(worker_names),
        )
        return cls(table, item_names, worker_names)

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.Rankings:
        """Compiled table of codes (read-only), as passed to the kernels."""
        return self._table

    @property
    def components(self) -> npt.NDArray[np.int64]:
        """Connected component of each item, shape (n_items,); no rankings connect different components."""
        return self._table.components().astype(np.int64)

    def codes(self) -> tuple[Codes, Codes, Codes]:
        """Return the offsets of the rankings, their item codes and worker codes, as new arrays."""
        return self._table.columns()

    def lists(self) -> list[list[Any]]:
        """Return the rankings as lists of item ids."""
        offsets, items, _ = self.codes()
        names = self._items.values[items].tolist()
        return [names[start:end] for start, end in itertools.pairwise(offsets)]

    def __repr__(self) -> str:
        weighted = ", weighted" if self.weights is not None else ""
        rankings, items = plural(self.n_annotations, "ranking"), plural(self.n_items, "item")
        return f"<Rankings: {rankings} of {items} by {plural(self.n_workers, 'worker')}{weighted}>"

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self.codes(), self.weights)

    def _facts(self) -> Iterable[Fact]:
        lengths, groups = np.diff(self.codes()[0]), int(self.components.max()) + 1
        shortest, longest = int(lengths.min()), int(lengths.max())
        linked = f"{self.n_items:,}, in {plural(groups, 'group')} of items ranked with each other"
        long = f"{self.n_annotations:,}, of {shortest:,} to {longest:,} items"
        yield Fact("n_annotations", self.n_annotations, "rankings", long)
        yield Fact("n_items", self.n_items, "items", linked)
        yield Fact("n_workers", self.n_workers, "workers")
        yield Fact("n_components", groups)
        yield Fact("shortest", shortest)
        yield Fact("longest", longest)

    def to_frame(self) -> pa.Table:
        """Return one row per item and ranking as an Arrow table: task (a number), worker, item, rank, …."""
        offsets, items, workers = self.codes()
        lengths: npt.NDArray[Any] = np.diff(offsets.astype(np.int64))
        lists = np.repeat(np.arange(len(lengths)), lengths)
        columns = {
            "task": lists,
            "worker": arrow.take(self._workers.arrow(), workers[lists]),
            "item": arrow.take(self._items.arrow(), items),
            "rank": np.arange(len(items)) - np.repeat(offsets[:-1].astype(np.int64), lengths) + 1,
        }
        return arrow.table(columns if self.weights is None else columns | {"weight": self.weights[lists]})

    def to_comparisons(self) -> Comparisons:
        """Return the comparisons implied by the rankings: each item beats all items ranked below it.

        A ranking of k items yields k (k - 1) / 2 dependent comparisons. Intervals clustered by worker account for the
        dependence; intervals by comparison do not.
        """
        offsets, items, workers = self.codes()
        left, right, lists = [], [], []
        for place, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
            better, worse = np.triu_indices(end - start, 1)
            left.append(items[start + better])
            right.append(items[start + worse])
            lists.append(np.full(len(better), place))
        which = np.concatenate(lists)
        if not len(which):
            raise ValueError("rankings of a single item contain no comparisons")
        weights = None if self.weights is None else self.weights[which]
        sides = (np.concatenate(left), np.concatenate(right), np.zeros(len(which), np.uint8))
        sizes = (self.n_items, self.n_workers, 0)
        table = _core.Comparisons(*sides, np.ascontiguousarray(workers[which]), None, weights, *sizes)
        return Comparisons(table, self._items, self._workers)

    # ----------------------------------------------------------------------------------------------- subsets

    def select(self, *, workers: Iterable[Any] | None = None) -> Self:
        """Return the rankings by some workers; items without rankings are dropped. O(entries).

        Parameters
        ----------
        workers : iterable of worker ids or boolean mask
            Workers to keep. A mask is aligned with :attr:`workers`.
        """
        keep = checks.mask_of(self._workers, workers, "worker")[self.codes()[2]]
        if not keep.any():
            raise ValueError("no ranking is left: check the names in workers")
        kept_table = self._table.keep(keep)
        offsets, items, by = kept_table.columns()
        item_codes, item_names = compact_codes(items, self._items)
        worker_codes, worker_names = compact_codes(by, self._workers)
        sizes = (len(item_names), len(worker_names))
        table = _core.Rankings(offsets, item_codes, worker_codes, kept_table.weights(), *sizes)
        return type(self)(table, item_names, worker_names)

    # ------------------------------------------------------------------------------------------- persistence

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        offsets, items, workers = self.codes()
        return {"offsets": offsets, "ranked": items, "by": workers}

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        items, workers = content.names("items"), content.names("workers")
        offsets, ranked, by = (content.array(name, np.uint32, ndim=1) for name in ("offsets", "ranked", "by"))
        try:
            table = _core.Rankings(offsets, ranked, by, content.weights(len(by)), len(items), len(workers))
        except ValueError as error:
            raise content.damaged(str(error)) from None
        return cls(table, items, workers)


def _check_unique_items(lists: npt.NDArray[Any], items: Codes, names: Names) -> None:
    """Raise if an item occurs twice in a ranking."""
    order = np.lexsort((items, lists))
    duplicate = (np.diff(lists[order]) == 0) & (np.diff(items[order].astype(np.int64)) == 0)
    if duplicate.any():
        at = order[int(np.argmax(duplicate))]
        raise ValueError(
            f"item {names.values[[items[at]]].tolist()[0]!r} is ranked twice in ranking {lists[at] + 1:,}; "
            "drop one of the rows, or give the rankings different task ids"
        )
