"""Base classes of comparison and ranking models: scores, ranks, intervals, prediction, persistence."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import plural
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
    """Estimates of items and workers."""

    scores: Array = field(metadata=numbers("i"))
    #: Standard errors (NaN if not computed) and intervals, (n_items, 2).
    errors: Array = field(metadata=numbers("i", infinite=True, missing=True))
    intervals: Array = field(metadata=numbers("i2", infinite=True, missing=True))
    #: Connected component of each item in the comparison graph.
    components: npt.NDArray[np.int64] = field(metadata=codes("i", "i"))

    def of_workers(self) -> dict[str, Array]:
        """Return the estimates per worker, by column name."""
        return {}


@dataclass(frozen=True, kw_only=True)
class SlopeFit(RankFit):
    """Scores, and one slope per worker."""

    slope: Array = field(metadata=numbers("m", infinite=True, missing=True))
    slope_error: Array = field(metadata=numbers("m", infinite=True, missing=True))
    slope_spread: float = field(metadata=number(infinite=True, missing=True))

    def of_workers(self) -> dict[str, Array]:
        """Return the estimates per worker, by column name."""
        return {"slope": self.slope, "slope_error": self.slope_error}


class ItemEstimator(Estimator[A, RankFit, ItemFitted[RankFit]]):
    """Base class of models that score items.

    Subclasses customize :meth:`predict_proba` through ``_worker_parameters``,
    ``_crowd`` and ``_chances``.
    """

    _parts: ClassVar[tuple[str, ...]] = ("items", "workers")
    _fit_type: ClassVar[type[Fit]] = RankFit
    _fitted_type: ClassVar[type[ItemFitted[Any]]] = ItemFitted
    _answer: ClassVar[str] = "scores_"
    #: Names of the public attributes with one value per worker, and of those with a single value.
    _of_workers: ClassVar[tuple[str, ...]] = ()
    _of_all: ClassVar[tuple[str, ...]] = ()

    # ----------------------------------------------------------------------------------------------- results

    @property
    def items_(self) -> npt.NDArray[Any]:
        """Item ids, in the order of all per-item results."""
        return self._fitted().items.values

    @property
    def scores_(self) -> Array:
        """Score of each item, shape (n_items,); scores average 0 within each of :attr:`components_`."""
        return self._fitted().fit.scores

    @property
    def confidence_(self) -> Array:
        """Reliability of each score, shape (n_items,): V / (V + error²) with V the variance of the scores.

        1 means that the score has no error. NaN if standard errors were not computed. :attr:`rank_intervals_` gives the
        plausible ranks of each item.
        """
        fit = self._fitted().fit
        return reliability(fit.scores, fit.errors)

    @property
    def errors_(self) -> Array:
        """Standard error of each score, shape (n_items,); NaN if not computed."""
        return self._fitted().fit.errors

    @property
    def intervals_(self) -> Array:
        """Confidence interval of each score, shape (n_items, 2); (-inf, inf) if not computed."""
        return self._fitted().fit.intervals

    @property
    def ranks_(self) -> npt.NDArray[np.int64]:
        """Rank of each item, shape (n_items,): 1 for the highest score; equal scores share the better rank."""
        return ranks_of(self.scores_)

    @property
    def rank_intervals_(self) -> npt.NDArray[np.int64]:
        """Best and worst plausible rank of each item, shape (n_items, 2), from overlaps of the intervals.

        Without intervals, every rank is plausible.
        """
        return rank_intervals(self.intervals_)

    @property
    def components_(self) -> npt.NDArray[np.int64]:
        """Connected component of each item, shape (n_items,); no comparisons connect different components."""
        return self._fitted().fit.components

    def to_frame(self) -> pa.Table:
        """Return the items from best to worst as an Arrow table.

        Columns: item, score, confidence and rank; with intervals also error, low, high, rank_low and rank_high (the
        schema metadata contains the ``level``); component if there are several.
        """
        now = self._fitted()
        return self._rows(now, np.argsort(-now.fit.scores, kind="stable"))

    def _rows(self, now: ItemFitted[RankFit], order: npt.NDArray[np.int64]) -> pa.Table:
        """Rows of :meth:`to_frame` for some items."""
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
        # ``slope_error`` and ``left_bias_error`` condition on the scores and on the estimated spread over workers. They
        # are too small if that spread is underestimated (docs/evidence/coverage.md).
        renamed = {"slope": "skill", "reliability": "skill", "slope_error": "skill_error"}
        return {renamed.get(name, name): values for name, values in self._fitted().fit.of_workers().items()}

    # -------------------------------------------------------------------------------------------- prediction

    def _worker_parameters(self, now: ItemFitted[RankFit]) -> tuple[Array, Array]:
        """Slope and left bias of each worker, shape (n_workers,) each."""
        m = len(now.workers)
        return np.ones(m), np.zeros(m)

    def _crowd(self, now: ItemFitted[RankFit]) -> tuple[Array, Array, Array]:
        """Weights, slopes and left biases that represent a worker who is not named."""
        return np.ones(1), np.ones(1), np.zeros(1)

    def _chances(self, now: ItemFitted[RankFit], leads: Array, biases: Array) -> Array:
        """Probabilities of left, right and tie, (n, 3), given score differences (left minus right)."""
        ahead = leads + biases
        win = np.exp(-np.logaddexp(0.0, -ahead))
        return np.stack([win, 1.0 - win, np.zeros_like(win)], axis=-1)

    def predict_proba(self, left: Any, right: Any, *, workers: Any = None) -> Array:
        """Return the probabilities that the left item wins, the right item wins, or they tie; rows sum to one.

        Parameters
        ----------
        left, right : item id or list of item ids
            Items to compare; all must have been in ``fit``. Both lists must have the same length.
        workers : worker id or list of worker ids, optional
            Workers who compare, one for all pairs or one per pair. By default, and for workers that were not in
            ``fit``, a worker drawn from the crowd: probabilities are averaged over the workers, weighted by their
            numbers of answers.

        Returns
        -------
        ndarray of shape (n, 3)
            Probabilities of left, right and tie.
        """
        now = self._fitted()
        sides = [now.fit.scores[codes_of(now.items, side, "item")] for side in (left, right)]
        if len(sides[0]) != len(sides[1]):
            raise ValueError(f"left has {len(sides[0]):,} items, but right has {len(sides[1]):,}: pass equal lengths")
        differences = sides[0] - sides[1]
        codes = np.full(1, -1)
        if workers is not None:
            codes = now.workers.find([workers] if isinstance(workers, str) or np.ndim(workers) == 0 else workers)
        differences, codes = np.broadcast_arrays(differences, codes)
        chances = np.zeros((len(differences), 3))
        unnamed = codes < 0
        if unnamed.any():
            for weight, slope, bias in zip(*self._crowd(now), strict=True):
                leads = slope * differences[unnamed]
                chances[unnamed] += weight * self._chances(now, leads, np.full(len(leads), bias))
        if not unnamed.all():
            slopes, biases = (values[codes[~unnamed]] for values in self._worker_parameters(now))
            chances[~unnamed] = self._chances(now, slopes * differences[~unnamed], biases)
        return chances

    def predict(self, left: Any, right: Any, *, workers: Any = None) -> npt.NDArray[Any]:
        """Return the item of each pair that is more likely to win, shape (n,); the left one if both are equally likely.

        Parameters are those of :meth:`predict_proba`.
        """
        self._fitted()
        one = copy(self)
        now = one._fitted()
        chances = one.predict_proba(left, right, workers=workers)
        sides = [codes_of(now.items, side, "item") for side in (left, right)]
        return now.items.values[np.where(chances[:, 0] >= chances[:, 1], *sides)]


class ComparisonEstimator(ItemEstimator[Comparisons]):
    """Base class of comparison models."""

    _kind: ClassVar[str] = "pairwise"

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
        outcome = np.where(winner == left, 1.0, np.where(winner == right, -1.0, 0.0))
        return {"agreement": 0.5 + 0.5 * outcome * np.sign(scores[left] - scores[right])}


def disconnected_items_warning(components: npt.NDArray[np.int64], items: Names, how: str) -> tuple[str, ...]:
    """Return a warning if the comparison graph has several components: their sizes and what makes scores comparable."""
    n_groups = int(components.max()) + 1
    if n_groups == 1:
        return ()
    firsts = np.unique(components, return_index=True)[1]
    sizes = np.bincount(components)
    order = np.argsort(-sizes, kind="stable")[:3]
    examples = [
        f"{plural(int(sizes[group]), 'item')} with {items.values[[firsts[group]]].tolist()[0]!r}" for group in order
    ]
    more = ", …" if n_groups > 3 else ""
    return (
        f"The items form {n_groups:,} groups without comparisons between them ({'; '.join(examples)}{more}; "
        f"see components_): {how}. Do not compare scores of different groups.",
    )


def no_intervals(n: int) -> tuple[Array, Array]:
    """Return NaN errors and infinite intervals, for fits without intervals."""
    return np.full(n, np.nan), np.stack([np.full(n, -np.inf), np.full(n, np.inf)], axis=1)


#: Most groups of workers whose predictions are averaged.
_CROWD_GROUPS = 64


def crowd_average(n_answers: npt.NDArray[np.int64], slopes: Array, biases: Array) -> tuple[Array, Array, Array]:
    """Return weights, slopes and biases of groups of similar workers, weighted by their numbers of answers.

    Workers in order of their slopes are cut into at most 64 groups of about equal weight.
    """
    if np.ptp(slopes) == 0 and np.ptp(biases) == 0:
        return np.ones(1), slopes[:1], biases[:1]
    order = np.lexsort((biases, slopes))
    weights = n_answers[order] / n_answers.sum()
    before = np.cumsum(weights) - weights
    group = np.arange(len(order)) if len(order) <= _CROWD_GROUPS else (before * _CROWD_GROUPS).astype(np.int64)
    group = np.unique(group, return_inverse=True)[1]
    total = np.bincount(group, weights)
    mean_slopes, mean_biases = (np.bincount(group, weights * values[order]) / total for values in (slopes, biases))
    return np.asarray(total, np.float64), np.asarray(mean_slopes), np.asarray(mean_biases)
