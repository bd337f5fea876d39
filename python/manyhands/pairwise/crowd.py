"""CrowdBT: workers who say the opposite of what they see, now and then."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from manyhands._base.checks import check_positive, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, ItemFitted, numbers
from manyhands._base.progress import Callback
from manyhands.pairwise.base import ComparisonEstimator, RankFit, no_intervals, said_of_groups
from manyhands.pairwise.table import Comparisons


@dataclass(frozen=True, kw_only=True)
class ReliabilityFit(RankFit):
    """Scores, and probabilities of workers to report what they see."""

    reliability: Array = field(metadata=numbers("m", infinite=True, missing=True))

    def of_workers(self) -> dict[str, Array]:
        """What was learnt of each worker, by column."""
        return {"reliability": self.reliability}


class CrowdBT(ComparisonEstimator):
    r"""Bradley–Terry with workers who report the opposite of what they see with probability 1 - ω.

    The left item is named with probability :math:`\omega_m\sigma(s_l - s_r) + (1 - \omega_m)\sigma(s_r - s_l)`.
    A worker reports what they see with probability ω, and else the opposite, however large the lead: 1 for a perfect
    worker, 1/2 for one who guesses, 0 for one who means the opposite. By EM, from the scores of a crowd that is taken
    at its word. Ties are half a win for either. There are no intervals.

    Time: O(comparisons) an iteration and its conjugate gradients, of which there may be hundreds. Memory: about 150
    bytes a comparison.

    Parameters
    ----------
    link
        Wins, and as many losses, of every item against a virtual one of score 0: keeps scores finite, and joins items
        that nothing else links.
    hits, misses
        Imaginary true and false reports of each worker, the prior of ω.
    max_iter, tol
        Most iterations, and the change of the objective, as a share of itself, at which to stop.

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
        found = votes.table.crowd_bt_fit(**counts, max_iter=self.max_iter, tol=float(self.tol), progress=progress)
        warn_unless_converged(found["converged"], self)
        components = votes.components
        errors, intervals = no_intervals(votes.n_items)
        return ReliabilityFit(
            scores=found["scores"],
            errors=errors,
            intervals=intervals,
            components=components,
            reliability=found["reliability"],
            history=found["history"],
            n_iter=found["n_iter"],
            converged=found["converged"],
            remarks=said_of_groups(
                components, votes._items, "the link to a virtual item is all that puts their scores on one scale"
            ),
        )

    @property
    def reliability_(self) -> Array:
        """Probability of each worker to report what they see, (n_workers,)."""
        return self._fitted().fit_as(ReliabilityFit).reliability

    def predict_proba(self, left: Any, right: Any, *, workers: Any = None) -> Array:
        """Probabilities that the left item is better, the right one, and neither, (n, 3).

        Parameters
        ----------
        left, right
            Names of items that were seen in ``fit``: two of them, or two lists of the same length.
        workers
            Names of those who would report it; by default somebody who reports what they see.
        """
        return super().predict_proba(left, right, workers=workers)

    def _biases(self, now: ItemFitted[RankFit], workers: Any) -> Array | float:
        """Probability of the workers to report what they see."""
        return self._of_named(now, workers, now.fit_as(ReliabilityFit).reliability, 1.0)

    def _chances(self, now: ItemFitted[RankFit], leads: Array, biases: Array | float) -> Array:
        seen = super()._chances(now, leads, 0.0)
        true = np.asarray(biases)[..., None]
        return np.asarray(true * seen + (1.0 - true) * seen[:, [1, 0, 2]])
