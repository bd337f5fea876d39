"""What the methods of moments share: blocks by worker, the step from one worker to others, names for the classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands.moments.statistics import Moments

Codes = npt.NDArray[np.intp]

#: A class with a smaller share of the prior than this counts as empty.
_NO_MASS = 1e-12
#: Share of its trace added to a Gram matrix, so that it has a root where partners hold too little information.
_RIDGE = 1e-14
#: A name is doubtful if another has this much of its support.
_NEARLY = 0.8


@dataclass(frozen=True)
class Factors:
    """Parameters found from moments: the prior (K,), and confusion matrices (M, K, K) of the workers `solved` marks."""

    prior: Array
    confusion: Array
    solved: npt.NDArray[np.bool_]
    history: Array
    n_iter: int = 1
    converged: bool = True
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Blocks:
    """The pairs of each worker, seen from that worker."""

    moments: Moments

    @cached_property
    def _ends(self) -> tuple[Codes, Codes, Codes]:
        """Pairs listed from both ends, sorted by worker: offsets, partner, and the pair (flipped from P on)."""
        pairs = self.moments.pairs.astype(np.intp)
        workers = np.concatenate([pairs[:, 0], pairs[:, 1]])
        order = np.argsort(workers, kind="stable")
        offsets = np.searchsorted(workers[order], np.arange(self.moments.n_workers + 1))
        return offsets, np.concatenate([pairs[:, 1], pairs[:, 0]])[order], order

    def partners(self, worker: int) -> Codes:
        """Workers who share tasks with this one."""
        offsets, partners, _ = self._ends
        return partners[offsets[worker] : offsets[worker + 1]]

    def of(self, worker: int) -> Array:
        """Counts of each of the worker's pairs, (partners, own label, partner's label)."""
        offsets, _, order = self._ends
        at = order[offsets[worker] : offsets[worker + 1]]
        flipped = at >= len(self.moments.pairs)
        blocks = self.moments.pair_joint[at - flipped * len(self.moments.pairs)]
        return np.where(flipped[:, None, None], blocks.swapaxes(1, 2), blocks)

    @cached_property
    def order(self) -> Codes:
        """Workers in an order that follows from the answer, whatever they and the classes are called."""
        joint = self.moments.pair_joint
        powers = [self._sums((joint**power).sum(axis=(1, 2))) for power in (3, 2)]
        return np.lexsort((*powers, self.moments.first.sum(axis=1)))

    @cached_property
    def support(self) -> Array:
        """Co-labels of each worker with any worker, (M,)."""
        return self._sums(self.moments.pair_overlap)

    def _sums(self, of_pairs: Array) -> Array:
        ends = self.moments.pairs.astype(np.intp)
        n = self.moments.n_workers
        return np.asarray(np.bincount(ends[:, 0], of_pairs, n) + np.bincount(ends[:, 1], of_pairs, n), np.float64)


def told_by(known: Array, joint: Array) -> Array:
    """Confusion matrices of workers from joint answers with one whose confusion matrix is known.

    Where a worker answers ``l``, the known worker's answers are a mixture of the rows of `known`, with the
    probabilities of the classes given ``l`` as shares: least squares on the simplex finds them, Bayes' rule turns them
    round.

    `joint` is (workers, the known one's label, the worker's label), counts or frequencies; returns (workers, K, K).
    """
    n, k, _ = joint.shape
    answers = joint.swapaxes(1, 2).reshape(n * k, k)
    mass = answers.sum(axis=1)
    targets = np.ascontiguousarray(answers / np.where(mass > 0, mass, 1.0)[:, None])
    shares = _core.simplex_lstsq(np.ascontiguousarray(known.T), targets)
    weighted = (shares * mass[:, None]).reshape(n, k, k)
    return normalize_rows(weighted.swapaxes(1, 2))


def told_by_all(blocks: Blocks, confusion: Array, solved: npt.NDArray[np.bool_]) -> Array:
    """Every worker's confusion matrix as estimated from all of its partners, each with the tasks it shares.

    The step of :func:`told_by` with the partners' answers stacked; all workers at once, from the same `confusion`.
    """
    k = confusion.shape[-1]
    grams = confusion @ confusion.swapaxes(1, 2)
    out = confusion.copy()
    for worker in np.flatnonzero(solved).tolist():
        partners, joint = blocks.partners(worker), blocks.of(worker)
        mass = joint.sum(axis=2)
        # For each of the worker's labels: the gram matrix of the stack, and its product with the partners' answers.
        gram = np.tensordot(mass.T, grams[partners], axes=1)
        pull = np.einsum("pkj,plj->lk", confusion[partners], joint, optimize=True)
        for label in np.flatnonzero(mass.sum(axis=0)).tolist():
            root = np.linalg.cholesky(gram[label] + _RIDGE * np.trace(gram[label]) * np.eye(k))
            shares = _core.simplex_lstsq(root.T.copy(), np.linalg.solve(root, pull[label])[None])
            out[worker, :, label] = shares[0] * mass[:, label].sum()
        out[worker, :, mass.sum(axis=0) == 0] = 0.0
        out[worker] = normalize_rows(out[worker])
    return out


def normalize_rows(rows: Array) -> Array:
    """Rows that sum to one; a row without mass becomes even."""
    rows = np.maximum(rows, 0.0)
    total = rows.sum(axis=-1, keepdims=True)
    empty = total <= _NO_MASS
    return np.ascontiguousarray(np.where(empty, 1.0 / rows.shape[-1], rows / np.where(empty, 1.0, total)))


def drawn_towards(centre: Array, confusion: Array, labels: Array, shrink: float) -> Array:
    """Confusion matrices drawn towards `centre` by `shrink` labels a row, where there are `labels` (M, K) behind it."""
    share = (shrink / (labels + shrink) if shrink else np.zeros_like(labels))[..., None]
    return normalize_rows((1.0 - share) * confusion + share * centre)


def prior_told_by(confusion: Array, answers: Array) -> Array:
    """The class prior from label frequencies (n, K) of workers with known confusion matrices (n, K, K)."""
    k = confusion.shape[-1]
    design = confusion.swapaxes(1, 2).reshape(-1, k)
    return np.asarray(_core.simplex_lstsq(np.ascontiguousarray(design), answers.reshape(1, -1))[0])


def match_classes(prior: Array, confusion: Array, weights: Array) -> tuple[Array, Array, tuple[str, ...]]:
    """Give factors the names of classes: the assignment under which answers and classes go together best.

    Factors come in any order. The crowd, each worker counted with its weight, is assumed to be better than chance on
    average: it names a class more often where that class is true than elsewhere. The order with the largest sum of
    these differences wins. It is doubtful, and reported as such, where a factor raises another class's share nearly as
    much.
    """
    average = np.average(confusion, axis=0, weights=weights)
    lift = average - prior @ average
    # Row i is what the crowd specifies where factor i is true: the factor becomes the class it names.
    names = _core.assignment(np.ascontiguousarray(prior[:, None] * lift))
    order = np.argsort(names.astype(np.intp))
    lift = lift[order]
    others = np.where(np.eye(len(order), dtype=bool), -np.inf, lift).max(axis=1)
    doubtful = int((others >= _NEARLY * lift.diagonal()).sum())
    remarks = (
        f"Which factor is which class is doubtful for {doubtful} of {len(order)} classes: the crowd's answers point to "
        "another one.",
    ) * (doubtful > 0)
    return prior[order], np.ascontiguousarray(confusion[:, order]), remarks


def of_classes(moments: Moments, said: npt.NDArray[np.bool_]) -> Moments:
    """The moments of the classes that a worker named; nothing is known of the others, so nothing is lost."""
    if said.all():
        return moments
    return replace(
        moments,
        n_classes=int(said.sum()),
        first=np.ascontiguousarray(moments.first[:, said]),
        pair_joint=np.ascontiguousarray(moments.pair_joint[:, said][:, :, said]),
        triple_joint=np.ascontiguousarray(moments.triple_joint[:, said][:, :, said][:, :, :, said]),
    )


def with_unsaid(said: npt.NDArray[np.bool_], prior: Array, confusion: Array) -> tuple[Array, Array]:
    """Parameters of the classes that a worker named, among all classes: the others have no mass, and even rows."""
    k = len(said)
    whole = np.zeros(k)
    whole[said] = prior
    rows = np.full((len(confusion), k, k), 1.0 / k)
    rows[:, said] = 0.0
    at = np.flatnonzero(said)
    rows[:, at[:, None], at] = confusion
    return whole, rows
