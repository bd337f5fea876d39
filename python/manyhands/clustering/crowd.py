"""Clusters by maximum likelihood on memberships, and by correlation clustering."""

from __future__ import annotations

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_number, check_positive, check_stopping, counted, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.limits import check_memory
from manyhands._base.progress import Callback
from manyhands.clustering._memberships import Codes, Memberships
from manyhands.clustering.base import ClusterFit, Clustering, PairModel, crowd_counts, log_odds
from manyhands.clustering.table import Similarities

#: Turns of partition and skills from which memberships start, at most.
_TURNS = 12
#: A cluster below this share of the typical one's size does not start as one: its items join others.
_SMALL = 0.1
#: What a membership in the starting cluster counts for, beside an even spread.
_SURE = 0.9


class CorrelationClustering(Clustering):
    """Clusters whose pairs were found to be the same, by local search on the evidence of pairs.

    First every pair asked is a question of its own: Dawid–Skene with two answers, whose prior of workers is learnt from
    the crowd, gives each pair posterior log-odds of being the same. Then items are divided so that the sum of log-odds
    within clusters is as large as local search makes it. Number and sizes of clusters follow from the pairs alone.

    Suited to many small clusters (records of one thing, photographs of one person) and to pairs with several answers.
    For few large clusters of which few pairs were asked, see :class:`CrowdClustering`.

    Parameters
    ----------
    restarts
        How often the search is made, each time in another order of visits; the best is kept.
    seed
        What the orders follow from.

    Notes
    -----
    The best division is hard to find (no constant factor is guaranteed in general, and the known logarithmic one takes
    a linear programme over all pairs). What holds here: at the end no move of one item to another cluster or out on its
    own, and no union of two clusters, raises the sum; it is never below that of items all by themselves, 0. Which of
    several such divisions is found depends on the order of visits. Pairs that nobody was asked about count for nothing.

    An item's confidence is that of its cluster against those of its neighbours and one of its own, given the others.
    With one answer a pair, skills hardly show in pairs, and a remark says so.

    Time O(answers) for each of some 25 passes, and O(items + pairs) for each sweep of the search; memory
    O(items + pairs + workers).

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
        alone = np.arange(votes.n_items, dtype=np.uint32)
        runs = [
            _core.cluster_search(left, right, evidence, alone, concentration=None, seed=self.seed + run)
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
            remarks=_single(votes),
        )


def _single(votes: Similarities) -> tuple[str, ...]:
    """What to say where nearly all pairs have one answer."""
    if votes.n_annotations > 1.05 * votes.n_pairs or votes.n_pairs < 2:
        return ()
    return (
        "Nearly all pairs have one answer: skills of workers cannot be told from pairs alone, and what a pair's answer "
        "says is mostly the crowd's average; ask several workers about some pairs, or use CrowdClustering if clusters "
        "are few.",
    )


class TooManyMemberships(Exception):
    """Items × clusters are more than the caller allows."""


class CrowdClustering(Clustering):
    """Clusters and skills together: memberships of items that make the answers most likely (crowdclustering).

    An item is in cluster ``k`` with a probability that is learnt; worker ``m`` says same of two items of one cluster
    with probability ``recall_[m]`` and different of items of two clusters with ``specificity_[m]``, both drawn to
    the crowd's. Answers about other pairs tell of a pair: two items that a third is the same as are the same. So few
    answers an item are enough, wherever clusters are few: 1 % of the pairs of some thousand items.

    Parameters
    ----------
    n_clusters
        The most clusters there may be; None lets the answers say. Fewer are used where the answers call for no more.
    strength
        Imaginary answers about same and about different pairs that draw each worker to the crowd's average.
    max_iter, tol
        Stop after so many passes, or when the bound changes by less than `tol` of itself.
    seed
        What the orders of visits follow from that partitions are searched in.

    Notes
    -----
    Variational Bayes: memberships, cluster shares (one imaginary item each) and skills are independent a posteriori and
    updated in turn, so that the bound of the log-likelihood, `history_`, never falls. It starts from partitions that
    local search finds under a Chinese restaurant's prior, alternating with skills, for three concentrations (1, √items
    and items / 3); clusters smaller than a tenth of the typical size then give way, and the start whose bound ends
    highest is kept. So the number of clusters is chosen by the penalised likelihood, in which clusters pay for
    themselves. Which cluster an item starts in may depend on the order of items' names where answers leave it open.

    Time O(pairs · clusters + answers) a pass, three runs; memory O(items · clusters + pairs + workers).

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

    #: Items × clusters beyond which it raises `TooManyMemberships`; None for what memory holds.
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
            found = self._memberships(votes, clusters, progress)
            if best is None or found["history"][-1] > best["history"][-1]:
                best = found
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
        return (f"The answers call for {counted(used, 'cluster')}, fewer than the {self.n_clusters} allowed.",)

    def _partition(self, votes: Similarities, odds: Array, concentration: float) -> Codes:
        """Partition and skills by turns, hard memberships: cluster of each item."""
        left, right = votes.pairs()
        alone = np.arange(votes.n_items, dtype=np.uint32)
        clusters = alone
        for turn in range(_TURNS):
            evidence = votes.table.pair_evidence(odds)
            # The first skills are guesses, and what was built on them would stay.
            start = alone if turn < 2 else clusters
            found = _core.cluster_search(
                left, right, evidence, start, concentration=concentration, seed=self.seed + turn
            )
            if np.array_equal(found["clusters"], clusters):
                break
            clusters = found["clusters"]
            counts = votes.table.pair_counts((clusters[left] == clusters[right]).astype(np.float64))
            odds = log_odds(_shares(counts + crowd_counts(counts, self.strength)))
            if turn:
                concentration = _concentration(votes.n_items, found["n_clusters"])
        return clusters.astype(np.int64)

    def _memberships(self, votes: Similarities, clusters: Codes, progress: Callback | None) -> _core._MembershipFit:
        """Fit memberships that start from a partition."""
        left, right = votes.pairs()
        kept = _large(clusters, self.n_clusters)
        k = len(kept)
        what = f"memberships of {counted(votes.n_items, 'item')} in {counted(k, 'cluster')}"
        if self._most_memberships is not None and votes.n_items * k > self._most_memberships:
            raise TooManyMemberships
        check_memory(16 * votes.n_items * k, what, "use CorrelationClustering, or give n_clusters=")
        place = np.full(clusters.max() + 1, -1)
        place[kept] = np.arange(k)
        start = np.full((votes.n_items, k), 1.0 / k)
        sure = np.flatnonzero(place[clusters] >= 0)
        start[sure] *= 1 - _SURE
        start[sure, place[clusters[sure]]] += _SURE
        counts = votes.table.pair_counts((clusters[left] == clusters[right]).astype(np.float64))
        prior = crowd_counts(counts, self.strength)
        return votes.table.membership_fit(
            left, right, start, prior, max_iter=self.max_iter, tol=self.tol, progress=progress
        )


def _shares(counts: Array) -> Array:
    shares: Array = counts / counts.sum(axis=2, keepdims=True)
    return shares


def _large(clusters: Codes, most: int | None) -> Codes:
    """Clusters to start from: the largest so many, or those of a typical size."""
    sizes = np.bincount(clusters)
    if most is None:
        # Of n items in clusters of these sizes, the one that a random item is in has this many on average.
        typical = float((sizes.astype(np.float64) ** 2).sum() / sizes.sum())
        return np.flatnonzero(sizes >= max(1.0, _SMALL * typical))
    return np.sort(np.argsort(-sizes, kind="stable")[:most])


def _concentration(n_items: int, n_clusters: int) -> float:
    """The concentration of a Chinese restaurant that expects so many clusters: θ log(1 + items / θ)."""
    low, high = 1e-3, 1e3 * n_items
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if middle * np.log1p(n_items / middle) < n_clusters else (low, middle)
    return float(np.sqrt(low * high))
