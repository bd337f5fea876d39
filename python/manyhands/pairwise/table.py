"""Table of pairwise comparisons: two items and the winner, by worker."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow, persist
from manyhands._base import data_checks as checks
from manyhands._base.building import Missing
from manyhands._base.checks import check_choice, plural, preview
from manyhands._base.columns import Columns
from manyhands._base.description import Fact
from manyhands._base.items import ItemRecords, compact_codes, encode_sides, encode_workers
from manyhands._base.kind import KindSpec
from manyhands._base.names import Codes, Column, Names
from manyhands.errors import argument

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T", bound="Comparisons")
#: Left and right items, outcomes, workers and contexts as codes; item, worker and context names.
_Codes = tuple[Codes, Codes, npt.NDArray[np.uint8], Codes, Codes | None]
_Names = tuple[Names, Names, Names | None]

LEFT, RIGHT, TIE = 0, 1, 2
#: Words for a winner other than an item id, as used by arena and judge logs.
WORDS = {
    **dict.fromkeys(("left", "a", "first"), LEFT),
    **dict.fromkeys(("right", "b", "second"), RIGHT),
    **dict.fromkeys(("tie", "draw", "tie (bothbad)", "both_bad", "equal"), TIE),
}
#: Words for a side with a prefix: model_a, output_2, [[B]].
_SIDE = re.compile(
    r"\[\[([ab])\]\]|(?:model|output|response|assistant|answer|option|candidate|item|system)[ _-]?([ab12])"
)
#: Numeric codes of the sides and of ties.
_NUMBERS = {1.0: LEFT, 2.0: RIGHT, 1.5: TIE}
#: Values allowed in `winners`.
_OUTCOMES = {"left": LEFT, "right": RIGHT, "tie": TIE}


class Comparisons(ItemRecords):
    """Immutable, sparse table of pairwise comparisons: two items, and which one a worker preferred.

    Build it with :meth:`from_frame` or :meth:`from_arrays`, or read a file with :func:`manyhands.read` and
    ``kind="pairwise"``. The winner is the id of one of the two items; or ``"tie"`` (also ``"draw"``, ``"tie
    (bothbad)"``, ``"both_bad"``); or a side: ``"left"``, ``"a"`` and ``"model_a"``, ``"right"``, ``"b"`` and
    ``"model_b"``, or 1 and 2 with 1.5 for a tie. Use `winners` for other codes. A word that is also an item id means
    the item. Contradictory comparisons are allowed; comparisons of an item with itself, and winners that are neither
    side, raise.

    Memory: 13 bytes per comparison, 4 more with contexts and 8 more with weights, plus names.

    Examples
    --------
    >>> import manyhands as mh
    >>> games = mh.Comparisons.from_arrays(["a", "b", "c"], ["b", "c", "a"], ["a", "tie", "c"], ["x", "y", "x"])
    >>> games
    <Comparisons: 3 comparisons of 3 items by 2 workers, 1 tie>
    """

    __slots__ = ("_contexts",)
    spec: ClassVar[KindSpec] = KindSpec(
        word="pairwise",
        required=("left", "right", "winner"),
        optional=("worker", "context", "weight"),
        if_there=("worker",),
        settings=("missing", "winners"),
        telling=(("left", "right", "winner"),),
        unit="item",
        ranked=True,
        reliability=True,
        note="Scores compare the items of this log only; the difference between two scores has a meaning.",
    )
    _answer: ClassVar[str] = "a winner"
    _table: _core.Comparisons

    def __init__(self, table: _core.Comparisons, items: Names, workers: Names, contexts: Names | None = None) -> None:
        super().__init__(table, items, workers)
        self._contexts = contexts

    # ------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        left: str | None = None,
        right: str | None = None,
        winner: str | None = None,
        worker: str | None = None,
        context: str | None = None,
        weight: str | None = None,
        missing: Missing = "drop",
        winners: Mapping[Any, str] | None = None,
    ) -> Self:
        """Build a table from a pandas, polars, pyarrow or duckdb frame, or a mapping of columns.

        Parameters
        ----------
        frame : DataFrame, Arrow table or mapping of columns
            The log, one row per comparison. Any object with the Arrow PyCapsule interface works.
        left, right, winner : str, optional
            Column names. Defaults are well-known names such as ``left``, ``right``, ``model_a``, ``model_b``,
            ``winner`` and ``label``.
        worker : str, optional
            Column of worker ids. By default a column with a well-known name, if there is one; otherwise all comparisons
            belong to a single worker.
        context : str, optional
            Column of contexts, such as the language of a question; see :meth:`select`.
        weight : str, optional
            Column of weights.
        missing : {"drop", "error"}, default "drop"
            Drop rows without a winner with a warning, or raise.
        winners : mapping of value to {"left", "right", "tie"}, optional
            Meaning of other values in the winner column: ``{0: "left", 1: "right", -1: "tie"}``.

        Returns
        -------
        Comparisons
            The table.

        Examples
        --------
        >>> import manyhands as mh
        >>> log = {"model_a": ["x", "y"], "model_b": ["y", "z"], "winner": ["model_a", "tie"], "judge": ["j1", "j2"]}
        >>> mh.Comparisons.from_frame(log)
        <Comparisons: 2 comparisons of 3 items by 2 workers, 1 tie>
        """
        columns = {"left": left, "right": right, "winner": winner}
        options = {"worker": worker, "context": context, "weight": weight}
        return cls._of_frame(frame, columns, options, missing=missing, winners=winners)

    @classmethod
    def from_arrays(
        cls,
        left: Any,
        right: Any,
        winner: Any,
        workers: Any = None,
        contexts: Any = None,
        weights: Any = None,
        *,
        missing: Missing = "drop",
        winners: Mapping[Any, str] | None = None,
    ) -> Self:
        """Build a table from columns of equal length: lists, arrays, Series or Arrow arrays.

        For the parameters, see :meth:`from_frame`.
        """
        columns = {"left": left, "right": right, "winner": winner, "workers": workers, "contexts": contexts}
        return cls._of_arrays({"missing": missing, "winners": winners}, **columns, weights=weights)

    @classmethod
    def _of_columns(
        cls, columns: Columns, *, missing: Missing = "drop", winners: Mapping[Any, str] | None = None
    ) -> Self:
        return _from_codes(cls, *cls._encode(columns, missing, winners))

    @classmethod
    def _encode(
        cls, columns: Columns, missing: Missing, winners: Mapping[Any, str] | None = None
    ) -> tuple[_Codes, npt.NDArray[np.float64] | None, _Names]:
        """Encode the columns; return codes in log order, weights, and item, worker and context names."""
        needs = "two items and, if there are such columns, a worker and a context"
        numbers = cls._answered(columns, missing, needs)
        ids = columns.ids
        left, right, items = encode_sides(ids["left"], ids["right"])
        outcomes = _outcomes(ids["winner"], left, right, items, winners)
        workers, worker_names = encode_workers(ids.get("worker"), len(left))
        contexts, context_names = ids["context"].encode() if "context" in ids else (None, None)
        return (left, right, outcomes, workers, contexts), numbers, (items, worker_names, context_names)

    @classmethod
    def _with_places(cls, frame: Any, named: Mapping[str, str | None]) -> tuple[Self, npt.NDArray[np.int64]]:
        """Build a table from a frame in which each row has a winner; also return the table row of each frame row."""
        columns = {role: named.get(role) for role in cls.spec.required}
        options = {role: named.get(role) for role in cls.spec.optional}
        codes, weights, names = cls._encode(cls._columns_in(frame, columns, options), "error")
        left, right, outcomes, workers, contexts = codes
        # Sort order of the table. Rows with equal keys are interchangeable.
        keys = [key for key in (weights, contexts, outcomes, right, left, workers) if key is not None]
        places = np.empty(len(left), np.int64)
        places[np.lexsort(keys)] = np.arange(len(left))
        return _from_codes(cls, codes, weights, names), places

    @classmethod
    def from_codes(
        cls, left: Codes, right: Codes, outcomes: npt.NDArray[np.uint8], workers: Codes, *, n_items: int, n_workers: int
    ) -> Self:
        """Build a table from columns of codes, which also serve as names.

        Outcomes are 0 if the left item won, 1 if the right item won, and 2 for a tie.
        """
        table = _core.Comparisons(left, right, outcomes, workers, None, None, n_items, n_workers, 0)
        return cls(table, Names(np.arange(n_items)), Names(np.arange(n_workers)))

    # ---------------------------------------------------------------------------------------------- contents

    @property
    def table(self) -> _core.Comparisons:
        """Compiled table of codes (read-only), as passed to the kernels."""
        return self._table

    @property
    def contexts(self) -> npt.NDArray[Any] | None:
        """Context names, in code order; None without contexts."""
        return None if self._contexts is None else self._contexts.values

    @property
    def components(self) -> npt.NDArray[np.int64]:
        """Connected component of each item, shape (n_items,); no comparisons connect different components."""
        return self._table.components().astype(np.int64)

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.uint8], Codes, Codes | None]:
        """Return left item, right item, outcome (0 left, 1 right, 2 tie), worker and context codes, as new arrays."""
        return self._table.columns()

    def __repr__(self) -> str:
        games, items = plural(self.n_annotations, "comparison"), plural(self.n_items, "item")
        ties = int((self.codes()[2] == TIE).sum())
        tie_text = f", {plural(ties, 'tie')}" if ties else ""
        kinds = "" if self._contexts is None else f", {plural(len(self._contexts), 'context')}"
        weighted = ", weighted" if self.weights is not None else ""
        return f"<Comparisons: {games} of {items} by {plural(self.n_workers, 'worker')}{tie_text}{kinds}{weighted}>"

    def _identity(self) -> tuple[Any, ...]:
        return (*super()._identity(), self._contexts)

    def _columns(self) -> tuple[npt.NDArray[Any] | None, ...]:
        return (*self.codes(), self.weights)

    def _facts(self) -> Iterable[Fact]:
        left, right, outcomes, _, _ = self.codes()
        per_item = np.bincount(np.concatenate([left, right]), minlength=self.n_items)
        n_decided, groups = int((outcomes != TIE).sum()), int(self.components.max()) + 1
        ties = float(np.mean(outcomes == TIE))
        won = float((outcomes == LEFT).sum() / n_decided) if n_decided else float("nan")
        fewest, median = int(per_item.min()), float(np.median(per_item))
        linked = f"{self.n_items:,}, in {plural(groups, 'group')} of items compared with each other"
        yield Fact("n_annotations", self.n_annotations, "comparisons")
        yield Fact("n_items", self.n_items, "items", linked)
        yield Fact("n_workers", self.n_workers, "workers")
        yield Fact("n_contexts", 0 if self._contexts is None else len(self._contexts))
        yield Fact("n_components", groups)
        yield Fact("ties", ties, "ties", f"{ties:.1%}")
        yield Fact("left_wins", won, "left wins", f"{won:.1%} of the others")
        yield Fact("fewest_per_item", fewest, "per item", f"at least {fewest:,}, median {median:,.0f}")
        yield Fact("median_per_item", median)

    def to_frame(self) -> pa.Table:
        """Return the comparisons as an Arrow table: left, right, winner, worker, ….

        The winner is an item id. Ties are ``"tie"`` if item ids are strings and none is called so, and null otherwise.
        """
        left, right, outcomes, workers, contexts = self.codes()
        items = self._items.arrow()
        columns = {"left": arrow.take(items, left), "right": arrow.take(items, right)}
        columns["winner"] = _winners(items, np.where(outcomes == RIGHT, right, left), outcomes == TIE)
        columns["worker"] = arrow.take(self._workers.arrow(), workers)
        if self._contexts is not None and contexts is not None:
            columns["context"] = arrow.take(self._contexts.arrow(), contexts)
        return arrow.table(columns if self.weights is None else columns | {"weight": self.weights})

    # ----------------------------------------------------------------------------------------------- subsets

    def select(
        self,
        *,
        items: Iterable[Any] | None = None,
        workers: Iterable[Any] | None = None,
        contexts: Iterable[Any] | None = None,
    ) -> Self:
        """Return the comparisons between some items, by some workers, in some contexts.

        Items, workers and contexts without comparisons are dropped. O(comparisons).

        Parameters
        ----------
        items, workers, contexts : iterable of names or boolean mask, optional
            Names to keep; all by default. A mask is aligned with :attr:`items`, :attr:`workers` or :attr:`contexts`.

        Returns
        -------
        Comparisons
            The selected comparisons.

        Examples
        --------
        >>> import manyhands as mh
        >>> games = mh.Comparisons.from_arrays(["a", "b"], ["b", "c"], ["a", "c"], contexts=["en", "de"])
        >>> games.select(contexts=["de"]).items.tolist()
        ['b', 'c']
        """
        left, right, _, by, where = self.codes()
        keep_item = checks.mask_of(self._items, items, "item")
        keep = keep_item[left] & keep_item[right] & checks.mask_of(self._workers, workers, "worker")[by]
        if contexts is not None:
            if self._contexts is None or where is None:
                raise ValueError(
                    f"these comparisons have no contexts: pass the column as {argument('context')} when reading them"
                )
            keep &= checks.mask_of(self._contexts, contexts, "context")[where]
        return self.rows(keep)

    def rows(self, keep: npt.NDArray[np.bool_]) -> Self:
        """Return the rows where the mask is True, in the order of :meth:`to_frame`; see :meth:`select`."""
        if not np.any(keep):
            raise ValueError("no comparison is left: check the names passed")
        left, right, outcomes, workers, contexts = self._table.keep(np.ascontiguousarray(keep, np.bool_)).columns()
        ends, items = compact_codes(np.concatenate([left, right]), self._items)
        workers, worker_names = compact_codes(workers, self._workers)
        context_names = self._contexts
        if contexts is not None and context_names is not None:
            contexts, context_names = compact_codes(contexts, context_names)
        weights = None if self.weights is None else self.weights[keep]
        sizes = (len(items), len(worker_names), 0 if context_names is None else len(context_names))
        halves = (np.ascontiguousarray(ends[: len(left)]), np.ascontiguousarray(ends[len(left) :]))
        table = _core.Comparisons(*halves, outcomes, workers, contexts, weights, *sizes)
        return type(self)(table, items, worker_names, context_names)

    # ------------------------------------------------------------------------------------------- persistence

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        left, right, outcomes, workers, contexts = self.codes()
        arrays: dict[str, npt.NDArray[Any]] = {"left": left, "right": right, "outcomes": outcomes, "by": workers}
        if contexts is not None and self._contexts is not None:
            arrays |= {"where": contexts} | persist.pack_names("contexts", self._contexts)
        return arrays

    @classmethod
    def _load(cls, content: persist.Content) -> Self:
        items, workers = content.names("items"), content.names("workers")
        left = content.array("left", np.uint32, ndim=1)
        right, by = (content.array(name, np.uint32, shape=left.shape) for name in ("right", "by"))
        outcomes = content.array("outcomes", np.uint8, shape=left.shape)
        weights, has_places = content.weights(len(left)), "where" in content.arrays
        where = content.array("where", np.uint32, shape=left.shape) if has_places else None
        contexts = content.names("contexts") if has_places else None
        sizes = (len(items), len(workers), 0 if contexts is None else len(contexts))
        try:
            table = _core.Comparisons(left, right, outcomes, by, where, weights, *sizes)
        except ValueError as error:
            raise content.damaged(str(error)) from None
        return cls(table, items, workers, contexts)


def _from_codes(cls: type[T], codes: _Codes, weights: npt.NDArray[np.float64] | None, names: _Names) -> T:
    """Build a table from codes."""
    items, workers, contexts = names
    sizes = (len(items), len(workers), 0 if contexts is None else len(contexts))
    return cls(_core.Comparisons(*codes, weights, *sizes), items, workers, contexts)


def outcomes_of(
    left: Column, right: Column, winner: Column, winners: Mapping[Any, str] | None = None
) -> npt.NDArray[np.uint8]:
    """Return the outcome of each row: 0 if the left item won, 1 if the right one did, 2 for a tie."""
    left_codes, right_codes, items = encode_sides(left, right)
    return _outcomes(winner, left_codes, right_codes, items, winners)


def _outcomes(
    winner: Column, left: Codes, right: Codes, items: Names, winners: Mapping[Any, str] | None
) -> npt.NDArray[np.uint8]:
    """Return the outcome of each row, from `winners`, an item id, or a word for a side."""
    side_of = {str(name): side for name, side in (winners or {}).items()}
    for name, side in side_of.items():
        check_choice(f"winners[{name!r}]", side, tuple(_OUTCOMES))
    codes, names = winner.encode()
    item_codes = items.match(names)
    words = np.full(len(names), -1)
    values = names.values.tolist()
    for place, name in enumerate(values):
        if str(name) in side_of:
            item_codes[place], words[place] = -1, _OUTCOMES[side_of[str(name)]]
        elif item_codes[place] < 0 and isinstance(name, str):
            item_codes[place] = items.find([int(name)])[0] if _is_integer(name) else -1
            words[place] = -1 if item_codes[place] >= 0 else _word(name)
    unknown = (item_codes < 0) & (words < 0)
    numbers = [_number(values[place]) for place in np.flatnonzero(unknown)]
    if 2.0 in numbers and set(numbers) <= set(_NUMBERS):
        words[unknown] = [_NUMBERS[number] for number in numbers if number is not None]
    elif unknown.any():
        raise ValueError(
            f"{winner.what} contains {preview(names.values[unknown].tolist())}, which is neither an item on either "
            f"side nor one of {', '.join(WORDS)}; map these values to left, right or tie with "
            f"{argument('winners')}, or drop these rows"
        )
    item = item_codes[codes]
    outcomes = np.where(item == left, LEFT, np.where(item == right, RIGHT, words[codes]))
    neither = outcomes < 0
    if neither.any():
        row = int(np.argmax(neither))
        names_at = [items.values[[code]].tolist()[0] for code in (int(item[row]), left[row], right[row])]
        word = " (a word that is also an item id means the item)" if _word(str(names_at[0])) >= 0 else ""
        raise ValueError(
            f"{winner.what} is {names_at[0]!r} at row {row}, where {names_at[1]!r} was compared with {names_at[2]!r}"
            f"{word}; {int(neither.sum()):,} such rows: correct or drop them"
        )
    return outcomes.astype(np.uint8)


def _word(name: str) -> int:
    """Return the outcome that a word stands for, or -1."""
    text = name.strip().casefold()
    side = _SIDE.fullmatch(text)
    if side is not None:
        return LEFT if (side[1] or side[2]) in ("a", "1") else RIGHT
    return WORDS.get(text, -1)


def _number(name: Any) -> float | None:
    try:
        return None if isinstance(name, bool) else float(name)
    except (TypeError, ValueError):
        return None


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and str(int(text)) == text


def _winners(items: pa.Array, better: npt.NDArray[Any], tied: npt.NDArray[np.bool_]) -> pa.Array:
    """Return winners by name, with ``"tie"`` or null for ties."""
    import pyarrow as pa
    import pyarrow.compute as pc

    won = arrow.take(items, better)
    if not tied.any():
        return won
    is_text = pa.types.is_string(won.type) or pa.types.is_large_string(won.type)
    free = is_text and not pc.any(pc.equal(items, "tie")).as_py()
    return pc.if_else(pa.array(tied), pa.scalar("tie" if free else None, won.type), won)
