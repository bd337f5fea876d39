"""What all models of items share: scores, ranks, intervals, workers, prediction, files."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import counted
from manyhands._base.estimator import Array, Estimator
from manyhands._base.fitted import Fit, ItemFitted, codes, number, numbers
from manyhands._base.items import codes_of
from manyhands._base.names import Names
from manyhands._base.results import Columns, reliability
from manyhands.pairwise._intervals import rank_intervals, ranks_of
from manyhands.pairwise.rankings_table import Rankings
from manyhands.pairwise.table import Comparisons

if TYPE_CHECKING:
    import pyarrow as pa

A = TypeVar("A", Comparisons, Rankings)


@dataclass(frozen=True, kw_only=True)
class RankFit(Fit):
    """What is found of items, and of workers."""

    scores: Array = field(metadata=numbers("i"))
    #: Standard errors, NaN where none were asked for, and intervals, (n_items, 2).
    errors: Array = field(metadata=numbers("i", infinite=True, missing=True))
    intervals: Array = field(metadata=numbers("i2", infinite=True, missing=True))
    #: The group of each item within which items are linked by comparisons.
    components: npt.NDArray[np.int64] = field(metadata=codes("i", "i"))

    def of_workers(self) -> dict[str, Array]:
        """What was learnt of each worker, by column."""
        return {}


@dataclass(frozen=True, kw_only=True)
class SlopeFit(RankFit):
    """Scores, and how clearly workers see leads."""

    slope: Array = field(metadata=numbers("m", infinite=True, missing=True))
    slope_error: Array = field(metadata=numbers("m", infinite=True, missing=True))
    slope_spread: float = field(metadata=number(infinite=True, missing=True))

    def of_workers(self) -> dict[str, Array]:
        """What was learnt of each worker, by column."""
        return {"slope": self.slope, "slope_error": self.slope_error}


class ItemEstimator(Estimator[A, RankFit, ItemFitted[RankFit]]):
    """Base of what scores items.

    :meth:`predict_proba` goes by ``_slopes``, ``_biases`` and ``_chances`` of a method.
    """

    _parts: ClassVar[tuple[str, ...]] = ("items", "workers")
    _fit_type: ClassVar[type[Fit]] = RankFit
    _fitted_type: ClassVar[type[ItemFitted[Any]]] = ItemFitted
    _answer: ClassVar[str] = "scores_"
    #: Numbers of each worker, and of all answers, by name.
    _of_workers: ClassVar[tuple[str, ...]] = ()
    _of_all: ClassVar[tuple[str, ...]] = ()

    # ----------------------------------------------------------------------------------------------- results

    @property
    def items_(self) -> npt.NDArray[Any]:
        """Names of the items, in the order of all results about them."""
        return self._fitted().items.values

    @property
    def scores_(self) -> Array:
        """Score of each item, (n_items,); they average 0 within each of :attr:`components_`."""
        return self._fitted().fit.scores

    @property
    def confidence_(self) -> Array:
        """Reliability of each score, (n_items,): V / (V + error²), with V the variance of the scores; 1 is exact.

        A score is never exactly right: this is the share of what sets the items apart that is not error. NaN where no
        standard errors were asked for. See :attr:`rank_intervals_` for the places that an item may have.
        """
        fit = self._fitted().fit
        return reliability(fit.scores, fit.errors)

    @property
    def errors_(self) -> Array:
        """Standard error of each score, (n_items,); NaN where none were asked for."""
        return self._fitted().fit.errors

    @property
    def intervals_(self) -> Array:
        """Interval of each score, (n_items, 2); from -inf to inf where none were asked for."""
        return self._fitted().fit.intervals

    @property
    def ranks_(self) -> npt.NDArray[np.int64]:
        """Place of each item, (n_items,): 1 for the highest score; equal scores share the better place."""
        return ranks_of(self.scores_)

    @property
    def rank_intervals_(self) -> npt.NDArray[np.int64]:
        """The best and the worst place of each item, (n_items, 2): past all items whose intervals lie beyond its own.

        Without intervals, every place is possible.
        """
        return rank_intervals(self.intervals_)

    @property
    def components_(self) -> npt.NDArray[np.int64]:
        """The group of each item, (n_items,): no answers link items of two groups, however indirectly."""
        return self._fitted().fit.components

    def to_frame(self) -> pa.Table:
        """Return the items from the best to the worst, as an Arrow table.

        Its columns are item, score, confidence and rank; with intervals, error, low, high (the metadata of the schema
        holds their ``level``), rank_low and rank_high; and component, where there are several.
        """
        now = self._fitted()
        return self._rows(now, np.argsort(-now.fit.scores, kind="stable"))

    def _rows(self, now: ItemFitted[RankFit], order: npt.NDArray[np.int64]) -> pa.Table:
        """What :meth:`to_frame` returns of some items."""
        fit = now.fit
        columns = {
            "item": arrow.take(now.items.arrow(), order),
            "score": fit.scores[order],
            "confidence": reliability(fit.scores, fit.errors)[order],
            "rank": ranks_of(fit.scores)[order],
        }
        if not np.isnan(fit.errors).any():
            (low, high), (best, worst) = fit.intervals[order].T, rank_intervals(fit.intervals)[order].T
            columns |= {"error": fit.errors[order], "low": low, "high": high, "rank_low": best, "rank_high": worst}
        several = fit.components.max() > 0
        frame = arrow.table(columns | ({"component": fit.components[order]} if several else {}))
        return frame.replace_schema_metadata({"level": str(self.get_params().get("level", ""))})

    def _one_row_each(self) -> pa.Table:
        now = self._fitted()
        return self._rows(now, np.arange(len(now.items)))

    def _skills(self) -> Columns:
        # ``slope_error`` and ``left_bias_error`` take scores and the spread over workers as known. They are too small
        # where that spread is learned to be small although workers differ (docs/evidence/coverage.md).
        named = {"slope": "skill", "reliability": "skill", "slope_error": "skill_error"}
        return {named.get(name, name): values for name, values in self._fitted().fit.of_workers().items()}

    # -------------------------------------------------------------------------------------------- prediction

    def _slopes(self, now: ItemFitted[RankFit], workers: Any) -> Array | float:
        """How clearly workers see leads: 1 for the average one."""
        return 1.0

    def _chances(self, now: ItemFitted[RankFit], leads: Array, biases: Array | float) -> Array:
        """Probabilities of left, right and tie, (n, 3), at leads of the left item."""
        ahead = leads + biases
        win = np.exp(-np.logaddexp(0.0, -ahead))
        return np.stack([win, 1.0 - win, np.zeros_like(win)], axis=-1)

    def _biases(self, now: ItemFitted[RankFit], workers: Any) -> Array | float:
        """How far workers favour the left."""
        return 0.0

    def predict_proba(self, left: Any, right: Any, *, workers: Any = None) -> Array:
        """Probabilities that the left item is better, the right one, and neither, (n, 3); rows sum to one.

        Parameters
        ----------
        left, right
            Names of items that were seen in ``fit``: two of them, or two lists of the same length.
        workers
            Names of the workers who would compare, one for all or one a row; by default the average worker of the
            crowd, for whom one who was not seen in ``fit`` also counts.
        """
        now = self._fitted()
        sides = [now.fit.scores[codes_of(now.items, side, "item")] for side in (left, right)]
        if len(sides[0]) != len(sides[1]):
            raise ValueError(f"there are {len(sides[0]):,} items on the left and {len(sides[1]):,} on the right")
        leads = self._slopes(now, workers) * (sides[0] - sides[1])
        return self._chances(now, leads, self._biases(now, workers))

    def predict(self, left: Any, right: Any, *, workers: Any = None) -> npt.NDArray[Any]:
        """Name of the item of each pair that is more likely to be preferred, (n,); the left one if both are as likely.

        Parameters are those of :meth:`predict_proba`.
        """
        self._fitted()
        one = copy(self)
        now = one._fitted()
        chances = one.predict_proba(left, right, workers=workers)
        sides = [codes_of(now.items, side, "item") for side in (left, right)]
        return now.items.values[np.where(chances[:, 0] >= chances[:, 1], *sides)]

    def _of_named(self, now: ItemFitted[RankFit], workers: Any, values: Array, else_: float) -> Array | float:
        """A number of each of the workers that are named; that of an average one for those who are not known."""
        if workers is None:
            return else_
        given = [workers] if isinstance(workers, str) or np.ndim(workers) == 0 else workers
        place = now.workers.find(given)
        return np.where(place >= 0, values[place], else_)


class ComparisonEstimator(ItemEstimator[Comparisons]):
    """Base of all models of comparisons."""

    _kind: ClassVar[str] = "pairwise"
    _file_kind: ClassVar[str] = "model of comparisons"

    def _count_answers(self, votes: Comparisons) -> npt.NDArray[np.int64]:
        return np.bincount(np.concatenate(votes.codes()[:2]), minlength=votes.n_items)

    def _rows_about(self, table: Comparisons, task: Any) -> pa.Table:
        item = codes_of(table._items, [task], "item")[0]
        left, right = table.codes()[:2]
        return table.rows((left == item) | (right == item)).to_frame()

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        scores = np.append(self.scores_, np.nan)
        items = self._fitted().items
        left, right, winner = (items.find(rows.column(side).to_pylist()) for side in ("left", "right", "winner"))
        said = np.where(winner == left, 1.0, np.where(winner == right, -1.0, 0.0))
        return {"agreement": 0.5 + 0.5 * said * np.sign(scores[left] - scores[right])}


def said_of_groups(components: npt.NDArray[np.int64], items: Names, how: str) -> tuple[str, ...]:
    """A remark, if items fall into groups that nothing links, that names some of them and says what scores rest on."""
    n_groups = int(components.max()) + 1
    if n_groups == 1:
        return ()
    firsts = np.unique(components, return_index=True)[1]
    sizes = np.bincount(components)
    order = np.argsort(-sizes, kind="stable")[:3]
    shown = [
        f"{counted(int(sizes[group]), 'item')} with {items.values[[firsts[group]]].tolist()[0]!r}" for group in order
    ]
    more = ", …" if n_groups > 3 else ""
    return (
        f"The items fall into {n_groups:,} groups that are never compared with each other ({'; '.join(shown)}{more}; "
        f"see components_): {how}, and says nothing of one group beside another.",
    )


def no_intervals(n: int) -> tuple[Array, Array]:
    """Errors and intervals that nobody asked for."""
    return np.full(n, np.nan), np.stack([np.full(n, -np.inf), np.full(n, np.inf)], axis=1)
