"""Groups of workers who agree with one another beyond chance, found from pairs."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands._base.progress import Callback
from manyhands.categorical._excess import Beliefs, Excess
from manyhands.categorical._matrices import with_diagonal
from manyhands.categorical._priors import row_pseudo

Codes = npt.NDArray[np.int64]

#: What the agreement of two workers must exceed, in standard deviations, to speak for one group: each is tried.
_THRESHOLDS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
#: Rounds in which every worker may change its group, and of the effects of workers.
_ROUNDS = 20
_EFFECTS = 10
#: How often a group is right at the start, and pseudo-counts in each row of a matrix, as a pair (right, wrong).
_RIGHT = 0.8
PSEUDO_COUNT = (0.1, 0.01)


@dataclass(frozen=True)
class Grouping:
    """Groups of workers.

    ``codes`` is the group of each worker, numbered in the order of their first workers; a worker who depends on no
    other is a group of one. ``z`` is how far the members of each agree beyond chance, in standard deviations, and
    ``log_p`` the logarithm of the probability that any group of the size does where none depend; NaN for one.
    ``n_pairs`` is how many pairs of workers could be compared.
    """

    codes: Codes
    z: Array
    log_p: Array
    n_pairs: int


def find_groups(known: Beliefs, compared: Excess, *, rate: float) -> Grouping:
    """Find groups whose members agree beyond chance, with at most this probability of any where none depend.

    `compared` are all pairs of workers who share enough tasks.

    For each of some thresholds, workers are moved between groups as long as the sum over pairs within groups of
    agreement less the threshold rises (Louvain's way). A group of size s is kept if it would be surprising as the most
    agreeing of all groups of its size; of the thresholds the one whose groups are most surprising in all wins.

    Workers who disagree with a faction look like a faction themselves. So each group must also raise the likelihood of
    a two-layer model, as in :class:`GroupDawidSkene`, by more than its parameters cost (BIC), or it is dissolved.
    """
    m = known.table.n_workers
    pairs = _Pairs.of(compared, m)
    best, codes = 0.0, np.arange(m)
    for threshold in _THRESHOLDS:
        candidate_groups = _move_workers(pairs.a, pairs.b, pairs.z - threshold, m)
        evidence = -pairs.log_p(candidate_groups)[1]
        is_kept = evidence > -log(rate)
        total = evidence[is_kept].sum()
        if total > best:
            best, codes = total, np.where(is_kept[candidate_groups], candidate_groups, m + np.arange(m))
    codes = _in_order(codes)
    codes = _confirm_groups(known, codes)
    strength, log_p = pairs.log_p(codes)
    return Grouping(codes, strength, np.where(np.isnan(strength), np.nan, log_p), len(pairs.a))


def _confirm_groups(known: Beliefs, codes: Codes) -> Codes:
    """The groups without which a model of groups would be less likely."""
    m, k = len(codes), len(known.prior)
    groups = np.flatnonzero(np.bincount(codes) > 1)
    if not len(groups) or k == 1:
        return codes
    whole = fit_layers(known.table, codes, known.confusion, known.prior)
    worth = 0.5 * k * (k - 1) * log(known.table.n_tasks)
    left = codes.copy()
    for group in groups:
        own = codes == group
        apart = np.where(own, codes.max() + 1 + np.arange(m), codes)
        members = np.where(own[:, None, None], whole["confusion"], whole["workers"])
        used, apart = np.unique(apart, return_inverse=True)
        answers = np.broadcast_to(np.eye(k), (len(used), k, k)).copy()
        is_kept = used <= codes.max()
        answers[is_kept] = whole["answers"][used[is_kept]]
        without = fit_layers(known.table, apart, members, whole["prior"], answers)
        if whole["history"][-1] - without["history"][-1] <= worth:
            left[own] = codes.max() + 1 + np.flatnonzero(own)
    return _in_order(left)


def fit_layers(
    table: _core.Table,
    codes: Codes,
    members: Array,
    prior: Array,
    answers: Array | None = None,
    *,
    pseudo: Array | None = None,
    class_pseudo: Array | None = None,
    max_iter: int = 50,
    tol: float = 1e-6,
    progress: Callback | None = None,
) -> _core._GroupedFit:
    """Fit two layers from given matrices; those of groups, if not given, are right four times in five."""
    k = len(prior)
    start = with_diagonal(np.full(int(codes.max()) + 1, _RIGHT), k) if answers is None else answers
    counts = row_pseudo(PSEUDO_COUNT, k) if pseudo is None else pseudo
    return table.grouped_fit(
        codes.astype(np.uint32),
        members,
        start,
        prior,
        pseudo=counts,
        group_pseudo=counts,
        class_pseudo=np.zeros(k) if class_pseudo is None else class_pseudo,
        max_iter=max_iter,
        tol=tol,
        progress=progress,
    )


@dataclass(frozen=True)
class _Pairs:
    """Pairs of workers, and how far they agree beyond chance, in standard deviations."""

    a: Codes
    b: Codes
    z: Array

    @classmethod
    def of(cls, found: Excess, m: int) -> _Pairs:
        a, b = found.pairs.T.astype(np.int64)
        z = (found.agreements - found.expected) / np.sqrt(np.maximum(found.variance, 1e-12))
        return cls(a, b, _without_effects(a, b, z, m))

    def log_p(self, codes: Codes) -> tuple[Array, Array]:
        """How far each group agrees, and a bound on the logarithm of its probability, over all groups of its size."""
        n, m = codes.max() + 1, len(codes)
        inside = codes[self.a] == codes[self.b]
        of_pair = codes[self.a][inside]
        pairs = np.bincount(of_pair, minlength=n)
        strength = np.bincount(of_pair, self.z[inside], minlength=n) / np.sqrt(np.maximum(pairs, 1))
        strength[pairs == 0] = np.nan
        sizes = np.bincount(codes, minlength=n)
        choices = np.array([lgamma(m + 1) - lgamma(s + 1) - lgamma(m - s + 1) for s in sizes])
        return strength, np.minimum(choices - 0.5 * np.maximum(np.nan_to_num(strength), 0.0) ** 2, 0.0)


def _without_effects(a: Codes, b: Codes, z: Array, m: int) -> Array:
    """Agreement less what either worker has with all workers: an answer of one's own is off with all who met it."""
    degree = np.maximum(np.bincount(a, minlength=m) + np.bincount(b, minlength=m), 1)
    effects = np.zeros(m)
    for _ in range(_EFFECTS):
        left = z - effects[a] - effects[b]
        # Half a step each: both workers of a pair move.
        effects += 0.5 * (np.bincount(a, left, m) + np.bincount(b, left, m)) / degree
    rest: Array = z - effects[a] - effects[b]
    return rest


def _in_order(codes: Codes) -> Codes:
    """Groups numbered in the order of their first workers."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[inverse]


def _move_workers(a: Codes, b: Codes, weights: Array, m: int) -> Codes:
    """Groups for which the weights within them have no larger sum that moving one worker, or group, leads to."""
    codes = np.arange(m)
    while True:
        n = codes.max() + 1
        joint = _Links.of(codes[a], codes[b], weights, n)
        moves = joint.settled()
        if moves.max() + 1 == n:
            return codes
        codes = moves[codes]


@dataclass(frozen=True)
class _Links:
    """A graph with weights, both ways, sorted by where links begin."""

    offsets: Codes
    others: Codes
    weights: Array

    @classmethod
    def of(cls, a: Codes, b: Codes, weights: Array, n: int) -> _Links:
        apart = a != b
        a, b, weights = a[apart], b[apart], weights[apart]
        key, inverse = np.unique(np.minimum(a, b) * n + np.maximum(a, b), return_inverse=True)
        joint = np.bincount(inverse, weights, len(key)) if len(key) else np.zeros(0)
        low, high = key // n, key % n
        ends, others = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.argsort(ends, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))])
        return cls(offsets, others[order], np.concatenate([joint, joint])[order])

    def settled(self) -> Codes:
        """Moves each node to the group it gains most from, in rounds, until none does."""
        n = len(self.offsets) - 1
        begins = np.repeat(np.arange(n), np.diff(self.offsets))
        # Those with most to gain first, whatever their codes.
        order = np.argsort(-np.bincount(begins, np.maximum(self.weights, 0.0), n), kind="stable")
        # A node that leaves for itself gets a number of its own.
        groups, sums = np.arange(n), np.zeros(2 * n)
        for _ in range(_ROUNDS):
            moves = 0
            for node in order:
                part = slice(self.offsets[node], self.offsets[node + 1])
                near, weights = groups[self.others[part]], self.weights[part]
                np.add.at(sums, near, weights)
                here = sums[groups[node]]
                best = near[np.argmax(sums[near])] if len(near) else n + node
                if sums[best] <= 0.0:
                    best = n + node
                gain = sums[best] - here
                sums[near] = 0.0
                if gain > 1e-12:
                    groups[node] = best
                    moves += 1
            if not moves:
                break
        return np.unique(groups, return_inverse=True)[1]
