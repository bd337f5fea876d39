"""Plackett–Luce model of rankings."""

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
    plural,
    warn_unless_converged,
)
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, ItemFitted
from manyhands._base.items import codes_of
from manyhands._base.overlap import Doubts
from manyhands._base.progress import Callback
from manyhands.pairwise import _intervals
from manyhands.pairwise.base import (
    ItemEstimator,
    RankFit,
    SlopeFit,
    crowd_average,
    disconnected_items_warning,
    no_intervals,
)
from manyhands.pairwise.bradley_terry import BY_PRIOR
from manyhands.pairwise.rankings_table import Rankings

if TYPE_CHECKING:
    import pyarrow as pa

#: Maximum number of items with standard errors, which need quadratic memory and cubic time.
MOST_ITEMS = 2000


class RankingEstimator(ItemEstimator[Rankings]):
    """Base class of ranking models."""

    _kind: ClassVar[str] = "rankings"

    def _count_answers(self, votes: Rankings) -> npt.NDArray[np.int64]:
        return np.bincount(votes.codes()[1], minlength=votes.n_items)

    def _rows_about(self, table: Rankings, task: Any) -> pa.Table:
        item = codes_of(table._items, [task], "item")[0]
        frame, entries = table.to_frame(), table.codes()[1]
        lists, ranks = (arrow.to_numpy(frame.column(name)) for name in ("task", "rank"))
        mine = np.flatnonzero(entries == item)
        place = np.full(table.n_annotations, -1)
        place[lists[mine]] = ranks[mine]
        # Share of the other items of each list that are on the side of this one where their scores put them.
        scores = np.append(self.scores_, np.nan)[self._fitted().items.match(table._items)]
        others = (place[lists] > 0) & (entries != item)
        right = np.sign(ranks - place[lists]) == np.sign(scores[item] - scores[entries])
        counts = (np.bincount(lists, others & right, len(place)), np.bincount(lists, others, len(place)))
        with np.errstate(invalid="ignore"):
            agreement = (counts[0] / counts[1])[lists[mine]]
        rows = arrow.take(frame, mine).drop_columns(["task", "item"])
        return arrow.table({name: rows.column(name) for name in rows.column_names} | {"agreement": agreement})


class PlackettLuce(RankingEstimator, default=True):
    r"""Plackett–Luce model: items are chosen one after the other in proportion to :math:`e^{a_m s_i}`.

    Use it for rankings of several items. Rankings may be partial: a ranking carries no information about items that it
    does not contain. For rankings of two items it equals :class:`WorkerBradleyTerry`, with a slope :math:`a_m` per
    worker.

    Parameters
    ----------
    workers : bool, default True
        Estimate a slope per worker (if there are at least two).
    slope_spread : float or None, default None
        Standard deviation of the slopes; None estimates it.
    prior : float, default 3.0
        Prior standard deviation of the scores.
    intervals : {"sandwich", "none"}, default "sandwich"
        ``"sandwich"`` is clustered by worker (by ranking if there are fewer than ten workers), never narrower than the
        model-based interval, and widened as in :class:`WorkerBradleyTerry`. Not available beyond 2,000 items.
    level : float, default 0.95
        Confidence level of the intervals.
    max_iter : int, default 200
        Maximum number of Newton iterations.
    tol : float, default 1e-2
        Error of the scores and slopes, in standard errors, at which the fit has converged.

    Notes
    -----
    Time: about ten Newton steps, each with tens of passes over all entries. Memory: about 60 bytes per entry, plus 16
    bytes per pair of items for intervals.

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
        slope_spread: float | None = None,
        prior: float = 3.0,
        intervals: Literal["sandwich", "none"] = "sandwich",
        level: float = 0.95,
        max_iter: int = 200,
        tol: float = 1e-2,
    ) -> None:
        self.workers = workers
        self.slope_spread = slope_spread
        self.prior = prior
        self.intervals = intervals
        self.level = level
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        check_flag("workers", self.workers)
        check_positive("prior", self.prior)
        if self.slope_spread is not None:
            check_positive("slope_spread", self.slope_spread)
        check_choice("intervals", self.intervals, ("sandwich", "none"))
        check_between("level", self.level, such_as=0.95)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("tol", self.tol, least=0)

    def _doubts(self, votes: Rankings) -> Doubts:
        has_intervals = self.intervals != "none"
        return Doubts(quiet=_intervals.few_workers_warning(votes.n_workers, "rankings") if has_intervals else ())

    def _fit(self, votes: Rankings, progress: Callback | None) -> RankFit:
        self._check()
        n, m, components = votes.n_items, votes.n_workers, votes.components
        clusters = _intervals.independent_units(votes.labels_per_worker)
        with_intervals = self.intervals == "sandwich"
        remarks = list(disconnected_items_warning(components, votes._items, BY_PRIOR))
        if with_intervals and n > MOST_ITEMS:
            with_intervals = False
            remarks.append(f"Intervals were skipped: {plural(n, 'item')} exceed the limit of {MOST_ITEMS:,}.")
        result = votes.table.plackett_luce_fit(
            slopes=bool(self.workers) and m > 1,
            prior=float(self.prior),
            spread=None if self.slope_spread is None else float(self.slope_spread),
            errors=with_intervals,
            by_worker=clusters[0] == "workers",
            max_iter=int(self.max_iter),
            tol=float(self.tol),
            progress=progress,
        )
        warn_unless_converged(result["converged"], self)
        scores: Array = result["scores"]
        errors, intervals = no_intervals(n)
        if with_intervals:
            of_slopes = (result["slopes"], result["slope_errors"], float(result["spread"]))
            errors, intervals = _intervals.score_intervals(
                scores,
                model=result["model"],
                clustered=result["sandwich"],
                components=components,
                prior=self.prior,
                clusters=clusters,
                level=self.level,
                offset=_intervals.shrinkage_offset(*of_slopes, votes.labels_per_worker),
            )
        slopes = result["slopes"]
        return SlopeFit(
            scores=scores,
            errors=errors,
            intervals=intervals,
            components=components,
            slope=slopes if len(slopes) else np.ones(m),
            slope_error=result["slope_errors"] if len(slopes) else np.zeros(m),
            slope_spread=float(result["spread"]),
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
            remarks=tuple(remarks),
        )

    @property
    def slopes_(self) -> Array:
        """Slope of each worker, shape (n_workers,): 1 is average, 0 is guessing, below 0 is reversed."""
        return self._fitted().fit_as(SlopeFit).slope

    @property
    def slope_spread_(self) -> float:
        """Standard deviation of the slopes, fixed or estimated; NaN if there are no slopes."""
        return self._fitted().fit_as(SlopeFit).slope_spread

    def _worker_parameters(self, now: ItemFitted[RankFit]) -> tuple[Array, Array]:
        slopes = now.fit_as(SlopeFit).slope
        return slopes, np.zeros(len(slopes))

    def _crowd(self, now: ItemFitted[RankFit]) -> tuple[Array, Array, Array]:
        return crowd_average(now.n_labels, *self._worker_parameters(now))
