"""The method for same or different that predicts held-out answers best."""

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

#: Share of the pairs that are held out, and how few held-out pairs are too few to judge by.
_HELD_OUT = 0.1
_FEWEST = 10

#: Memberships, items × clusters, up to which crowdclustering is considered.
_MOST_MEMBERSHIPS = 1 << 24

_METHODS = (CrowdClustering, CorrelationClustering)


@dataclass(frozen=True, kw_only=True)
class ChosenFit(ClusterFit):
    """Clusters by the better of two methods."""

    #: Mean log-loss of held-out answers of each method; NaN where they were not compared.
    losses: Array = field(metadata=numbers("2", missing=True))


class ChosenClustering(Clustering, default=True):
    """Crowdclustering or correlation clustering, whichever predicts answers about pairs it has not seen.

    Few large clusters and many small ones call for different methods, and a log does not say which it holds. So a tenth
    of the pairs is held out, both methods are fitted to the rest, and the one whose memberships and skills give the
    held-out answers the higher probability is fitted to all. This is what :func:`manyhands.aggregate` uses.

    Parameters
    ----------
    seed
        What decides which pairs are held out; both methods use it too.

    Notes
    -----
    Where fewer than ten pairs can be held out, so that their items occur in other pairs too, nothing can be judged and
    correlation clustering is used. So it is where crowdclustering starts from more than 2²⁴ memberships
    (items × clusters, 256 MB): with clusters that many, items are best linked one by one. Time and memory are those of
    both methods, twice the time of the one that is chosen.

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
        """Mean log-loss of held-out answers of each method; NaN where the methods were not compared."""
        losses = self._fitted().fit_as(ChosenFit).losses
        return {method.__name__: float(loss) for method, loss in zip(_METHODS, losses, strict=True)}

    @property
    def method_(self) -> str:
        """The method that was chosen."""
        return _chosen(self._fitted().fit_as(ChosenFit).losses).__name__

    def _fit(self, votes: Similarities, progress: Callback | None) -> ClusterFit:
        check_number("seed", self.seed, least=0, whole=True)
        held = _held_out(votes, self.seed)
        losses: Array = np.full(2, np.nan)
        crowd, single = CrowdClustering(seed=self.seed), CorrelationClustering(seed=self.seed)
        crowd._most_memberships = _MOST_MEMBERSHIPS
        try:
            if held is not None:
                losses = np.array([_loss(method, votes, held) for method in (crowd, single)])
            fit = (crowd if _chosen(losses) is CrowdClustering else single)._fit(votes, progress)
        except TooManyMemberships:
            losses = np.full(2, np.nan)
            fit = single._fit(votes, progress)
        return ChosenFit(**vars(fit), losses=losses)


def _chosen(losses: Array) -> type[CrowdClustering] | type[CorrelationClustering]:
    return CrowdClustering if losses[0] <= losses[1] else CorrelationClustering


def _held_out(votes: Similarities, seed: int) -> npt.NDArray[np.bool_] | None:
    """Pairs to hold out: a random tenth, none of whose items then occurs in no other pair. None where those are few."""
    left, right = votes.pairs()
    held = np.random.default_rng(seed).random(votes.n_pairs) < _HELD_OUT
    left_over = np.bincount(np.concatenate([left[~held], right[~held]]), minlength=votes.n_items) > 0
    held &= left_over[left] & left_over[right]
    return held if held.sum() >= _FEWEST else None


def _loss(model: Clustering, votes: Similarities, held: npt.NDArray[np.bool_]) -> float:
    """Mean log-loss of the held-out answers under a model of the others."""
    pairs, workers, said = votes.codes()
    mine = held[pairs]
    rest = votes._kept(~mine)
    # Not by `fit`, which would warn of doubts about a part of the answers.
    now = model._state = model._publish(model._fit(rest, None), rest)
    left, right = votes.pairs()
    same = model.predict_proba(votes.items[left[pairs[mine]]], votes.items[right[pairs[mine]]])
    known = now.workers.match(votes._workers)[workers[mine]]
    recall, specificity = (
        np.where(known >= 0, skill[known], skill.mean()) for skill in (now.fit.recall, now.fit.specificity)
    )
    says = np.clip(same * recall + (1 - same) * (1 - specificity), 1e-12, 1 - 1e-12)
    weights = None if votes.weights is None else votes.weights[mine]
    if weights is not None and not weights.any():
        weights = None
    return float(np.average(-np.where(said[mine] == 1, np.log(says), np.log1p(-says)), weights=weights))
