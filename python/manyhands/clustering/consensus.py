"""ChosenClustering: the default for pairs, chosen by held-out log-loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands.clustering.base import ClusterFit, Clustering
from manyhands.clustering.crowd import CorrelationClustering, CrowdClustering, TooManyMemberships
from manyhands.clustering.table import Similarities

#: Share of held-out pairs, and minimum number of held-out pairs for a comparison.
_HELD_OUT = 0.1
_FEWEST = 10

#: Maximum number of memberships (items × clusters) for which crowdclustering is considered.
_MOST_MEMBERSHIPS = 1 << 24

_METHODS = (CrowdClustering, CorrelationClustering)


@dataclass(frozen=True, kw_only=True)
class ChosenFit(ClusterFit):
    """Estimated clusters, with the held-out losses of both methods."""

    #: Held-out log-loss of each method; NaN if they were not compared.
    losses: Array = field(metadata=numbers("2", missing=True))


class ChosenClustering(Clustering, default=True):
    """Crowdclustering or correlation clustering, whichever predicts held-out answers better.

    The default for pairs: few large clusters and many small clusters need different methods.

    Parameters
    ----------
    seed : int, default 0
        Random seed of the held-out pairs and of both methods.

    Notes
    -----
    Both methods are fitted to 90 % of the pairs; the one with the lower log-loss on the other 10 % is fitted to all
    pairs. Correlation clustering is used without a comparison if fewer than ten pairs can be held out (their items must
    occur in other pairs), or if crowdclustering would need more than 2²⁴ initial memberships (items × clusters,
    256 MB). Time and memory are those of both methods, plus another fit of the chosen one.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(200, 12, 4, pairs=2000, answers_per_pair=2, seed=1, kind="clustering")
    >>> model = mh.aggregate(crowd.log)
    >>> model.method_, model.n_clusters_
    ('CrowdClustering', 4)
    """

    _fit_type: ClassVar[type[Fit]] = ChosenFit

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed

    @property
    def losses_(self) -> dict[str, float]:
        """Held-out log-loss of each method; NaN if they were not compared."""
        losses = self._fitted().fit_as(ChosenFit).losses
        return {method.__name__: float(loss) for method, loss in zip(_METHODS, losses, strict=True)}

    @property
    def method_(self) -> str:
        """Name of the chosen method."""
        return _better_method(self._fitted().fit_as(ChosenFit).losses).__name__

    def _fit(self, votes: Similarities, progress: Callback | None) -> ClusterFit:
        check_number("seed", self.seed, least=0, whole=True)
        held_out = _held_out(votes, self.seed)
        losses: Array = np.full(2, np.nan)
        crowd, single = CrowdClustering(seed=self.seed), CorrelationClustering(seed=self.seed)
        crowd._most_memberships = _MOST_MEMBERSHIPS
        try:
            if held_out is not None:
                losses = np.array([_loss(method, votes, held_out) for method in (crowd, single)])
            fit = (crowd if _better_method(losses) is CrowdClustering else single)._fit(votes, progress)
        except TooManyMemberships:
            losses = np.full(2, np.nan)
            fit = single._fit(votes, progress)
        return ChosenFit(**vars(fit), losses=losses)


def _better_method(losses: Array) -> type[CrowdClustering] | type[CorrelationClustering]:
    return CrowdClustering if losses[0] <= losses[1] else CorrelationClustering


def _held_out(votes: Similarities, seed: int) -> npt.NDArray[np.bool_] | None:
    """Select a random tenth of the pairs whose items also occur in other pairs; None if there are too few."""
    left, right = votes.pairs()
    is_held_out = np.random.default_rng(seed).random(votes.n_pairs) < _HELD_OUT
    left_over = np.bincount(np.concatenate([left[~is_held_out], right[~is_held_out]]), minlength=votes.n_items) > 0
    is_held_out &= left_over[left] & left_over[right]
    return is_held_out if is_held_out.sum() >= _FEWEST else None


def _loss(model: Clustering, votes: Similarities, held: npt.NDArray[np.bool_]) -> float:
    """Log-loss of held-out answers under a model fitted to the others."""
    pairs, workers, answers = votes.codes()
    is_held_out = held[pairs]
    training_table = votes._select_rows(~is_held_out)
    # `fit` would warn about the overlap of this subset of the answers.
    now = model._state = model._publish(model._fit(training_table, None), training_table)
    left, right = votes.pairs()
    same = model.predict_proba(votes.items[left[pairs[is_held_out]]], votes.items[right[pairs[is_held_out]]])
    worker_codes = now.workers.match(votes._workers)[workers[is_held_out]]
    recall, specificity = (
        np.where(worker_codes >= 0, skill[worker_codes], skill.mean())
        for skill in (now.fit.recall, now.fit.specificity)
    )
    p_same = np.clip(same * recall + (1 - same) * (1 - specificity), 1e-12, 1 - 1e-12)
    weights = None if votes.weights is None else votes.weights[is_held_out]
    if weights is not None and not weights.any():
        weights = None
    return float(np.average(-np.where(answers[is_held_out] == 1, np.log(p_same), np.log1p(-p_same)), weights=weights))
