"""Successive projection on answers given jointly with one worker, and from there to the whole crowd."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands.moments._factors import (
    Blocks,
    Factors,
    match_classes,
    normalize_rows,
    prior_told_by,
    told_by,
    told_by_all,
)
from manyhands.moments.statistics import Moments

#: Workers whose answers are searched for vertices, and of these, whose vertices are carried to the whole crowd.
_SEARCHED, _TRIED = 64, 12
#: A column with a smaller share of the average column's count than this is too noisy to be a vertex.
_LEAST_COUNT = 0.2
#: Pairs on which candidates are compared.
_COMPARED = 5_000


def multi_spa(moments: Moments, refine: int = 10) -> Factors:
    """Factors by successive projection, one component of the co-label graph after the other.

    Each component has its own reference worker and its own naming of the classes; priors are averaged with the number
    of labels as weights.
    """
    m, k = moments.n_workers, moments.n_classes
    blocks = Blocks(moments)
    component = _core.components(m, moments.pairs)
    confusion = np.full((m, k, k), 1.0 / k)
    solved = np.zeros(m, bool)
    prior = np.zeros(k)
    sizes = np.bincount(component)
    for number in np.flatnonzero(sizes > 1):
        members = np.flatnonzero(component == number)
        found_prior, confusion[members] = _solve(moments, blocks, members)
        solved[members] = True
        prior += found_prior * moments.first[members].sum()
    for _ in range(refine):
        confusion = told_by_all(blocks, confusion, solved)
    if refine:
        prior = prior_told_by(confusion[solved], normalize_rows(moments.first[solved]))
    n_groups = int((sizes > 1).sum())
    remarks = (f"The workers fall into {n_groups} groups that share no tasks, each solved alone.",) * (n_groups > 1)
    return Factors(normalize_rows(prior), confusion, solved, np.zeros(0), remarks=remarks)


def _solve(moments: Moments, blocks: Blocks, members: npt.NDArray[np.intp]) -> tuple[Array, Array]:
    """Prior and confusion matrices of one component: the best of several references."""
    answers = normalize_rows(moments.first[members])
    compared = _best_supported(moments, members)
    candidates: list[tuple[float, Array, Array]] = []
    for reference, vertices in _references(blocks, members):
        confusion = _carry(blocks, members, reference, vertices)
        prior = prior_told_by(confusion, answers)
        candidates.append((_misfit(*compared, prior, confusion), prior, confusion))
    _, prior, confusion = min(candidates, key=lambda candidate: candidate[0])
    prior, confusion, _ = match_classes(prior, confusion, moments.first[members].sum(axis=1))
    return prior, confusion


def _references(blocks: Blocks, members: npt.NDArray[np.intp]) -> list[tuple[int, Array]]:
    """Workers jointly with which the others' answers spread out most, and the vertices (K, K) of that spread."""
    by_support = members[np.argsort(-blocks.support[members], kind="stable")][:_SEARCHED]
    candidates = []
    for worker in by_support.tolist():
        vertices, count = _vertices(blocks.of(worker))
        # The least singular value is what the answers tell apart; so much of it may be noise.
        spread = np.linalg.svd(vertices, compute_uv=False)[-1] - 1.0 / np.sqrt(max(count, 1.0))
        candidates.append((spread, worker, vertices))
    candidates.sort(key=lambda candidate: -candidate[0])
    return [(worker, vertices) for _, worker, vertices in candidates[:_TRIED]]


def _vertices(joint: Array) -> tuple[Array, float]:
    """Rows of a worker's confusion matrix, in any order: the vertices of its answers given each answer of a partner.

    `joint` is (partners, own label, partner's label). Also returns the smallest count behind a vertex.
    """
    k = joint.shape[1]
    columns = joint.swapaxes(1, 2).reshape(-1, k)
    count = columns.sum(axis=1)
    frequent = np.flatnonzero(count > _LEAST_COUNT * count.mean())
    points = columns[frequent] / count[frequent, None]
    picks, _ = _core.spa(np.ascontiguousarray(points), min(k, len(frequent)))
    vertices = np.full((k, k), 1.0 / k)
    vertices[: len(picks)] = points[picks]
    return normalize_rows(vertices), float(count[frequent][picks].min())


def _carry(blocks: Blocks, members: npt.NDArray[np.intp], reference: int, vertices: Array) -> Array:
    """Confusion matrices of all members, each identified by the best worker solved before it."""
    k = len(vertices)
    place = {worker: i for i, worker in enumerate(members.tolist())}
    confusion = np.full((len(members), k, k), 1.0 / k)
    confusion[place[reference]] = vertices
    solved = np.zeros(len(members), bool)
    solved[place[reference]] = True
    frontier = [reference]
    while frontier:
        best: dict[int, tuple[float, Array]] = {}
        for parent in frontier:
            parent_confusion = confusion[place[parent]]
            worth = np.linalg.svd(parent_confusion, compute_uv=False)[-1] ** 2
            joint = blocks.of(parent)
            estimate = told_by(parent_confusion, joint)
            for child, matrix, overlap in zip(
                blocks.partners(parent).tolist(), estimate, joint.sum(axis=(1, 2)).tolist(), strict=True
            ):
                trust = worth * overlap
                if not solved[place[child]] and (child not in best or trust > best[child][0]):
                    best[child] = (trust, matrix)
        for child, (_, matrix) in best.items():
            confusion[place[child]], solved[place[child]] = matrix, True
        frontier = sorted(best)
    return confusion


def _best_supported(moments: Moments, members: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], Array]:
    """The pairs on which candidates are compared, as places among `members` (pairs, 2), and their counts."""
    place = np.full(moments.n_workers, -1, np.intp)
    place[members] = np.arange(len(members))
    ends = place[moments.pairs.astype(np.intp)]
    inside = np.flatnonzero(ends[:, 0] >= 0)
    nearest = inside[np.argsort(-moments.pair_overlap[inside], kind="stable")[:_COMPARED]]
    return ends[nearest], moments.pair_joint[nearest]


def _misfit(ends: npt.NDArray[np.intp], joint: Array, prior: Array, confusion: Array) -> float:
    """Kullback–Leibler divergence of pairs from what the parameters say, up to a constant, weighted by overlap."""
    first, second = ends.T
    model = np.einsum("k,pkl,pkj->plj", prior, confusion[first], confusion[second], optimize=True)
    return -float((joint * np.log(np.maximum(model, 1e-12))).sum())
