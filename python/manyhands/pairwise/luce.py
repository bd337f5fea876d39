"""Plackett–Luce: rankings as choices of the best among what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import (
    check_between,
    check_choice,
    check_flag,
    check_number,
    check_positive,
    counted,
    warn_unless_converged,
)
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, ItemFitted
from manyhands._base.items import codes_of
from manyhands._base.overlap import Doubts
from manyhands._base.progress import Callback
from manyhands.pairwise import _intervals
from manyhands.pairwise.base import ItemEstimator, RankFit, SlopeFit, no_intervals, said_of_groups
from manyhands.pairwise.bradley_terry import BY_PRIOR
from manyhands.pairwise.rankings_table import Rankings

if TYPE_CHECKING:
    import pyarrow as pa

#: Standard errors take the square of the items in memory and their cube in time.
MOST_ITEMS = 2000


class RankingEstimator(ItemEstimator[Rankings]):
    """Base of all models of rankings."""

    _kind: ClassVar[str] = "rankings"
    _file_kind: ClassVar[str] = "model of rankings"

    def _count_answers(self, votes: Rankings) -> npt.NDArray[np.int64]:
        return np.bincount(votes.codes()[1], minlength=votes.n_items)

    def _rows_about(self, table: Rankings, task: Any) -> pa.Table:
        item = codes_of(table._items, [task], "item")[0]
        frame, entries = table.to_frame(), table.codes()[1]
        lists, ranks = (arrow.to_numpy(frame.column(name)) for name in ("task", "rank"))
        mine = np.flatnonzero(entries == item)
        place = np.full(table.n_annotations, -1)
        place[lists[mine]] = ranks[mine]
        # Of the other items of each list, how many are on the side of this one where their scores put them.
        scores = np.append(self.scores_, np.nan)[self._fitted().items.match(table._items)]
        others = (place[lists] > 0) & (entries != item)
        right = np.sign(ranks - place[lists]) == np.sign(scores[item] - scores[entries])
        counts = (np.bincount(lists, others & right, len(place)), np.bincount(lists, others, len(place)))
        with np.errstate(invalid="ignore"):
            agreement = (counts[0] / counts[1])[lists[mine]]
        shown = arrow.take(frame, mine).drop_columns(["task", "item"])
        return arrow.table({name: shown.column(name) for name in shown.column_names} | {"agreement": agreement})


class PlackettLuce(RankingEstimator, default=True):
    r"""Scores by which an item is put first in proportion to :math:`e^{a_m s_i}`, and so on among the rest.

    Worker m sees differences of scores with a slope :math:`a_m`, as in :class:`WorkerBradleyTerry`, which this model is
    for rankings of two items. A ranking says something of the items in it and nothing of others.

    Time: some ten Newton steps of some tens of passes over all entries. Memory: about 60 bytes an entry, and with
    intervals 16 bytes for each pair of items.

    Parameters
    ----------
    workers
        Whether workers have slopes of their own; needs more than one.
    spread
        Standard deviation of slopes; None to learn it.
    prior
        Standard deviation of scores before any ranking.
    intervals
        ``"sandwich"``, from the differences between workers (rankings, where there are fewer than ten workers), never
        narrower than the model's own and widened as in :class:`WorkerBradleyTerry`; or ``"none"``. More than 2,000
        items have none.
    level
        The probability with which intervals shall cover the truth.
    max_iter, tol
        Most iterations, and the error of scores and slopes, in standard errors, at which to stop.

    References
    ----------
    R. L. Plackett, "The analysis of permutations", Applied Statistics 24, 1975.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Rankings.from_lists([["a", "b", "c"], ["a", "c", "b"], ["b", "a", "c"]])
    >>> mh.pairwise.PlackettLuce().fit(votes).ranks_.tolist()
    [1, 2, 3]
    """

    _fit_type: ClassVar[type[Fit]] = SlopeFit

    def __init__(
        self,
        workers: bool = True,
        spread: float | None = None,
        prior: float = 3.0,
        intervals: Literal["sandwich", "none"] = "sandwich",
        level: float = 0.95,
        max_iter: int = 200,
        tol: float = 1e-2,
    ) -> None:
        self.workers = workers
        self.spread = spread
        self.prior = prior
        self.intervals = intervals
        self.level = level
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        check_flag("workers", self.workers)
        check_positive("prior", self.prior)
        if self.spread is not None:
            check_positive("spread", self.spread)
        check_choice("intervals", self.intervals, ("sandwich", "none"))
        check_between("level", self.level, such_as=0.95)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("tol", self.tol, least=0)

    def _doubts(self, votes: Rankings) -> Doubts:
        asked = self.intervals != "none"
        return Doubts(quiet=_intervals.few_workers(votes.n_workers, "rankings") if asked else ())

    def _fit(self, votes: Rankings, progress: Callback | None) -> RankFit:
        self._check()
        n, m, components = votes.n_items, votes.n_workers, votes.components
        clusters = _intervals.clusters_of(votes.labels_per_worker)
        wanted = self.intervals == "sandwich"
        remarks = list(said_of_groups(components, votes._items, BY_PRIOR))
        if wanted and n > MOST_ITEMS:
            wanted = False
            remarks.append(f"There are no intervals: {counted(n, 'item')} are more than the {MOST_ITEMS:,} they allow.")
        found = votes.table.plackett_luce_fit(
            slopes=bool(self.workers) and m > 1,
            prior=float(self.prior),
            spread=None if self.spread is None else float(self.spread),
            errors=wanted,
            by_worker=clusters[0] == "workers",
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            progress=progress,
        )
        warn_unless_converged(found["converged"], self)
        scores: Array = found["scores"]
        errors, intervals = no_intervals(n)
        if wanted:
            of_slopes = (found["slopes"], found["slope_errors"], float(found["spread"]))
            errors, intervals = _intervals.of_scores(
                scores,
                model=found["model"],
                clustered=found["sandwich"],
                components=components,
                prior=self.prior,
                clusters=clusters,
                level=self.level,
                offset=_intervals.shrinkage_offset(*of_slopes, votes.labels_per_worker),
            )
        slopes = found["slopes"]
        return SlopeFit(
            scores=scores,
            errors=errors,
            intervals=intervals,
            components=components,
            slope=slopes if len(slopes) else np.ones(m),
            slope_error=found["slope_errors"] if len(slopes) else np.zeros(m),
            slope_spread=float(found["spread"]),
            history=found["history"],
            n_iter=found["n_iter"],
            converged=found["converged"],
            remarks=tuple(remarks),
        )

    @property
    def slopes_(self) -> Array:
        """Slope of each worker, (n_workers,): 1 for an average one, 0 for guesses, below 0 for the opposite."""
        return self._fitted().fit_as(SlopeFit).slope

    @property
    def spread_(self) -> float:
        """Standard deviation of slopes, as given or learnt; NaN where there are none."""
        return self._fitted().fit_as(SlopeFit).slope_spread

    def _slopes(self, now: ItemFitted[RankFit], workers: Any) -> Array | float:
        return self._of_named(now, workers, now.fit_as(SlopeFit).slope, 1.0)
