"""CrowdBT: Bradley–Terry with a reliability per worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from manyhands._base.checks import check_positive, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, ItemFitted, numbers
from manyhands._base.progress import Callback
from manyhands.pairwise.base import ComparisonEstimator, RankFit, disconnected_items_warning, no_intervals
from manyhands.pairwise.table import Comparisons


@dataclass(frozen=True, kw_only=True)
class ReliabilityFit(RankFit):
    """Scores, and the reliability of each worker."""

    reliability: Array = field(metadata=numbers("m", infinite=True, missing=True))

    def of_workers(self) -> dict[str, Array]:
        """Return the estimates per worker, by column name."""
        return {"reliability": self.reliability}


class CrowdBT(ComparisonEstimator):
    r"""Bradley–Terry model with workers who report the opposite preference with probability 1 - ω.

    Use it if some workers answer at random or invert their answers, whatever the score difference. Ties count as half a
    win for each item. There are no intervals.

    Parameters
    ----------
    link : float, default 0.1
        Pseudo-wins and pseudo-losses of every item against a virtual item of score 0. They keep scores finite and
        connect separate components.
    hits : float, default 4.0
        Prior pseudo-count of correct reports per worker.
    misses : float, default 1.0
        Prior pseudo-count of inverted reports per worker.
    max_iter : int, default 1000
        Maximum number of EM iterations.
    tol : float, default 1e-8
        Relative change of the objective at which the fit has converged.

    Notes
    -----
    Time: O(comparisons) per iteration and per conjugate-gradient step, of which there may be hundreds. Memory: about
    150 bytes per comparison.

    The left item is reported as better with probability :math:`\omega_m\sigma(s_l - s_r) + (1 - \omega_m)\sigma(s_r -
    s_l)`. The reliability ω is 1 for a perfect worker, 1/2 for guessing and 0 for inverted answers. EM starts from
    scores that treat all workers as reliable.

    References
    ----------
    X. Chen, P. N. Bennett, K. Collins-Thompson and E. Horvitz, "Pairwise ranking aggregation in a crowdsourced
    setting", WSDM 2013.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(12, [1.0, 1.0, 1.0, 1.0, -1.0], 2000, seed=1, kind="pairwise")
    >>> bool(mh.pairwise.CrowdBT().fit(crowd.log).reliability_[-1] < 0.5)
    True
    """

    _fit_type: ClassVar[type[Fit]] = ReliabilityFit

    def __init__(
        self, link: float = 0.1, hits: float = 4.0, misses: float = 1.0, max_iter: int = 1000, tol: float = 1e-8
    ) -> None:
        self.link = link
        self.hits = hits
        self.misses = misses
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Comparisons, progress: Callback | None) -> RankFit:
        for name in ("link", "hits", "misses"):
            check_positive(name, getattr(self, name))
        check_stopping(self.max_iter, self.tol)
        counts = {name: float(getattr(self, name)) for name in ("link", "hits", "misses")}
        result = votes.table.crowd_bt_fit(**counts, max_iter=self.max_iter, tol=float(self.tol), progress=progress)
        warn_unless_converged(result["converged"], self)
        components = votes.components
        errors, intervals = no_intervals(votes.n_items)
        return ReliabilityFit(
            scores=result["scores"],
            errors=errors,
            intervals=intervals,
            components=components,
            reliability=result["reliability"],
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
            remarks=disconnected_items_warning(
                components, votes._items, "only the link to a virtual item puts their scores on one scale"
            ),
        )

    @property
    def reliability_(self) -> Array:
        """Probability of each worker to report their true preference, shape (n_workers,)."""
        return self._fitted().fit_as(ReliabilityFit).reliability

    def predict_proba(self, left: Any, right: Any, *, workers: Any = None) -> Array:
        """Return the probabilities that the left item wins, the right item wins, or they tie; shape (n, 3).

        Parameters
        ----------
        left, right : item id or list of item ids
            Items to compare; all must have been in ``fit``. Both lists must have the same length.
        workers : worker id or list of worker ids, optional
            Workers who compare. By default, a perfectly reliable worker.
        """
        return super().predict_proba(left, right, workers=workers)

    def _worker_parameters(self, now: ItemFitted[RankFit]) -> tuple[Array, Array]:
        reliability = now.fit_as(ReliabilityFit).reliability
        return np.ones(len(reliability)), reliability

    def _crowd(self, now: ItemFitted[RankFit]) -> tuple[Array, Array, Array]:
        return np.ones(1), np.ones(1), np.ones(1)

    def _chances(self, now: ItemFitted[RankFit], leads: Array, biases: Array) -> Array:
        true_preference = super()._chances(now, leads, np.zeros_like(leads))
        reliability = biases[:, None]
        return np.asarray(reliability * true_preference + (1.0 - reliability) * true_preference[:, [1, 0, 2]])
