"""Crowdclustering and correlation clustering."""

from __future__ import annotations

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_number, check_positive, check_stopping, plural, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.limits import check_memory
from manyhands._base.progress import Callback
from manyhands.clustering._memberships import Codes, Memberships
from manyhands.clustering.base import ClusterFit, Clustering, PairModel, crowd_counts, log_odds
from manyhands.clustering.table import Similarities

#: Maximum number of alternations between partition and skills in the initialization.
_TURNS = 12
#: Clusters below this share of the typical size are dropped from the initialization.
_SMALL = 0.1
#: Initial probability of an item's cluster; the rest is uniform.
_SURE = 0.9


class CorrelationClustering(Clustering):
    """Correlation clustering: local search for the partition that agrees best with the evidence on pairs.

    Use it for many small clusters (records of one entity, photos of one person) and for pairs with several answers. For
    few large clusters with few pairs per item, use :class:`CrowdClustering`.

    Parameters
    ----------
    restarts : int, default 3
        Number of searches in different orders; the best result is kept.
    seed : int, default 0
        Random seed of the orders.

    Notes
    -----
    Time O(answers) for each of about 25 passes, plus O(items + pairs) per sweep of the search. Memory
    O(items + pairs + workers).

    First, Dawid–Skene with pairs as tasks gives the posterior log-odds that each pair is the same. Then local search
    maximizes the sum of log-odds within clusters; the number of clusters is not fixed. The problem is NP-hard (the best
    known guarantee is logarithmic and needs a linear program over all pairs). The result is a local optimum: no move of
    a single item and no merge of two clusters increases the sum, which is at least 0, the value of singletons. Pairs
    without answers have weight 0.

    The confidence of an item compares its cluster with the clusters of its neighbors and with a singleton, given all
    other items. With one answer per pair, worker skills are barely identified, and a warning reports it.

    References
    ----------
    N. Bansal, A. Blum and S. Chawla, "Correlation clustering", Machine Learning 56 (2004). V. D. Blondel et al., "Fast
    unfolding of communities in large networks", J. Stat. Mech. (2008).

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"left": list("aabcad") * 2, "right": list("bccdde") * 2, "same": [1, 1, 1, 0, 0, 1] * 2}
    >>> log["worker"] = ["u"] * 6 + ["v"] * 6
    >>> model = mh.clustering.CorrelationClustering().fit(mh.Similarities.from_frame(log))
    >>> dict(zip(model.items_.tolist(), model.clusters_.tolist(), strict=True))
    {'a': 0, 'b': 0, 'c': 0, 'd': 1, 'e': 1}
    """

    def __init__(self, *, restarts: int = 3, seed: int = 0) -> None:
        self.restarts = restarts
        self.seed = seed

    def _iterations(self) -> int | None:
        return None

    def _fit(self, votes: Similarities, progress: Callback | None) -> ClusterFit:
        check_number("restarts", self.restarts, least=1, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        model = PairModel.fit(votes, progress)
        evidence = model.evidence(votes)
        left, right = votes.pairs()
        singletons = np.arange(votes.n_items, dtype=np.uint32)
        runs = [
            _core.cluster_search(left, right, evidence, singletons, concentration=None, seed=self.seed + run)
            for run in range(self.restarts)
        ]
        best = max(runs, key=lambda run: run["objective"])
        shares = _core.cluster_shares(left, right, evidence, best["clusters"])
        memberships = Memberships(
            shares["offsets"].astype(np.int64),
            shares["clusters"].astype(np.int64),
            shares["shares"],
            best["n_clusters"],
        )
        return ClusterFit.of(
            memberships,
            model.confusion,
            best["clusters"].astype(np.int64),
            history=np.array([best["objective"]]),
            remarks=_single_answer_warning(votes),
        )


def _single_answer_warning(votes: Similarities) -> tuple[str, ...]:
    """Return a warning if nearly all pairs have a single answer."""
    if votes.n_annotations > 1.05 * votes.n_pairs or votes.n_pairs < 2:
        return ()
    return (
        "Nearly all pairs have one answer, so skills of workers are not identified and all answers get a similar "
        "weight; collect several answers for some pairs, or use CrowdClustering if there are few clusters.",
    )


class TooManyMemberships(Exception):
    """Raised if items × clusters exceeds the limit set by the caller."""


class CrowdClustering(Clustering):
    """Crowdclustering: joint estimation of cluster memberships and worker skills.

    Use it for few large clusters: transitivity makes 1 % of the pairs of some thousand items sufficient.

    Parameters
    ----------
    n_clusters : int or None, default None
        Maximum number of clusters; None estimates it. Clusters without support stay empty.
    strength : float, default 4.0
        Prior strength of worker skills: pseudo-count of answers, for same and for different pairs each, distributed as
        in the crowd.
    max_iter : int, default 200
        Maximum number of iterations.
    tol : float, default 1e-7
        Relative change of the bound at which the fit has converged.
    seed : int, default 0
        Random seed of the search for initial partitions.

    Notes
    -----
    Time O(pairs · clusters + answers) per iteration, with three runs. Memory O(items · clusters + pairs + workers).

    Worker ``m`` answers "same" with probability ``recall_[m]`` for items of one cluster, and "different" with
    probability ``specificity_[m]`` for items of two clusters. Inference is variational Bayes with independent
    memberships, cluster shares (a pseudo-count of one item each) and skills; the bound, `history_`, never decreases.
    Initial partitions come from local search under a Chinese restaurant process prior with three concentrations (1,
    √items and items / 3), alternating with skills. Clusters smaller than a tenth of the typical size are dropped, and
    the run with the highest bound is kept, which selects the number of clusters. Ties in the initialization may depend
    on the order of item ids.

    References
    ----------
    R. Gomes, P. Welinder, A. Krause and P. Perona, "Crowdclustering", NIPS (2011). J. Yi et al., "Semi-crowdsourced
    clustering", NIPS (2012).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(200, 12, 4, pairs=2000, answers_per_pair=2, seed=1, kind="clustering")
    >>> model = mh.clustering.CrowdClustering().fit(crowd.log)
    >>> model.n_clusters_
    4
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        strength: float = 4.0,
        max_iter: int = 200,
        tol: float = 1e-7,
        seed: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.strength = strength
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    #: Limit of items × clusters for `TooManyMemberships`; None is limited by memory only.
    _most_memberships: int | None = None

    def _check(self) -> None:
        if self.n_clusters is not None:
            check_number("n_clusters", self.n_clusters, least=1, whole=True)
        check_positive("strength", self.strength)
        check_stopping(self.max_iter, self.tol)
        check_number("seed", self.seed, least=0, whole=True)

    def _fit(self, votes: Similarities, progress: Callback | None) -> ClusterFit:
        self._check()
        model = PairModel.fit(votes, None)
        n = votes.n_items
        best: _core._MembershipFit | None = None
        for concentration in dict.fromkeys((1.0, float(np.sqrt(n)), max(1.0, n / 3))):
            clusters = self._partition(votes, log_odds(model.confusion), concentration)
            result = self._memberships(votes, clusters, progress)
            if best is None or result["history"][-1] > best["history"][-1]:
                best = result
        assert best is not None
        warn_unless_converged(best["converged"], self)
        return ClusterFit.of(
            Memberships.of_dense(best["memberships"]),
            best["counts"],
            history=best["history"],
            n_iter=best["n_iter"],
            converged=best["converged"],
            remarks=self._remarks(best["memberships"]),
        )

    def _remarks(self, memberships: Array) -> tuple[str, ...]:
        used = len(np.unique(memberships.argmax(axis=1)))
        if self.n_clusters is None or used >= self.n_clusters:
            return ()
        return (f"The answers support {plural(used, 'cluster')}, fewer than the {self.n_clusters} allowed.",)

    def _partition(self, votes: Similarities, odds: Array, concentration: float) -> Codes:
        """Alternate between a hard partition and worker skills; return the cluster of each item."""
        left, right = votes.pairs()
        singletons = np.arange(votes.n_items, dtype=np.uint32)
        clusters = singletons
        for turn in range(_TURNS):
            evidence = votes.table.pair_evidence(odds)
            # The first skills are rough, and a partition based on them would persist.
            start = singletons if turn < 2 else clusters
            result = _core.cluster_search(
                left, right, evidence, start, concentration=concentration, seed=self.seed + turn
            )
            if np.array_equal(result["clusters"], clusters):
                break
            clusters = result["clusters"]
            counts = votes.table.pair_counts((clusters[left] == clusters[right]).astype(np.float64))
            odds = log_odds(_shares(counts + crowd_counts(counts, self.strength)))
            if turn:
                concentration = _concentration(votes.n_items, result["n_clusters"])
        return clusters.astype(np.int64)

    def _memberships(self, votes: Similarities, clusters: Codes, progress: Callback | None) -> _core._MembershipFit:
        """Fit memberships, starting from a partition."""
        left, right = votes.pairs()
        kept_clusters = _large(clusters, self.n_clusters)
        k = len(kept_clusters)
        what = f"memberships of {plural(votes.n_items, 'item')} in {plural(k, 'cluster')}"
        if self._most_memberships is not None and votes.n_items * k > self._most_memberships:
            raise TooManyMemberships
        check_memory(16 * votes.n_items * k, what, "use CorrelationClustering, or pass n_clusters=")
        place = np.full(clusters.max() + 1, -1)
        place[kept_clusters] = np.arange(k)
        start = np.full((votes.n_items, k), 1.0 / k)
        assigned = np.flatnonzero(place[clusters] >= 0)
        start[assigned] *= 1 - _SURE
        start[assigned, place[clusters[assigned]]] += _SURE
        counts = votes.table.pair_counts((clusters[left] == clusters[right]).astype(np.float64))
        prior = crowd_counts(counts, self.strength)
        return votes.table.membership_fit(
            left, right, start, prior, max_iter=self.max_iter, tol=self.tol, progress=progress
        )


def _shares(counts: Array) -> Array:
    shares: Array = counts / counts.sum(axis=2, keepdims=True)
    return shares


def _large(clusters: Codes, most: int | None) -> Codes:
    """Return the clusters kept in the initialization: the largest `most`, or those of typical size."""
    sizes = np.bincount(clusters)
    if most is None:
        # Size of the cluster of a random item, on average.
        typical = float((sizes.astype(np.float64) ** 2).sum() / sizes.sum())
        return np.flatnonzero(sizes >= max(1.0, _SMALL * typical))
    return np.sort(np.argsort(-sizes, kind="stable")[:most])


def _concentration(n_items: int, n_clusters: int) -> float:
    """Concentration θ of a Chinese restaurant process with this expected number of clusters, θ log(1 + items / θ)."""
    low, high = 1e-3, 1e3 * n_items
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if middle * np.log1p(n_items / middle) < n_clusters else (low, middle)
    return float(np.sqrt(low * high))
