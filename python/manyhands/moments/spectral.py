"""Spectral methods: eigenvectors of moment matrices and tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice, check_number, check_stopping
from manyhands._base.estimator import Array
from manyhands._base.progress import Callback
from manyhands.categorical.base import Aggregator, ClassFit, fit_of
from manyhands.categorical.table import Annotations
from manyhands.moments._factors import (
    Blocks,
    Factors,
    drawn_towards,
    match_classes,
    normalize_rows,
    prior_told_by,
    told_by,
    with_unsaid,
)
from manyhands.moments._spa import multi_spa
from manyhands.moments.multi_spa import MomentAggregator
from manyhands.moments.statistics import Moments

#: Workers times classes beyond which the dense matrix of SymmetricNMF would pass half a gigabyte.
LARGEST = 8_192
#: Imputed frequencies that move less than this have settled.
_SETTLED = 1e-10
#: Singular values below this share of what an even, perfect crowd has count as zero.
_SHORT_RANK = 1e-3
_POWER_STEPS = 60


class SymmetricNMF(MomentAggregator):
    """Symmetric factorization of the completed matrix of all pairs (Ibrahim & Fu 2021).

    The blocks of all pairs of workers, put side by side, form a matrix ``H Hᵀ`` of rank ``n_classes``, where ``H``
    stacks the confusion matrices times the square root of the prior. The diagonal blocks (a worker with itself) are
    never seen, others may not be. The diagonal is imputed from blocks that are, ``R[m, m] = R[m, r] R[n, r]⁻¹ R[n, m]``
    through two workers ``n`` and ``r``, other gaps from a first factorization; then all of them from the low-rank fit,
    until it settles. The leading eigenvectors are rotated until they are non-negative, alternating between a cut at
    zero and the nearest rotation.

    Parameters
    ----------
    impute : int, default 50
        Rounds of re-imputation from the low-rank fit.
    gaps : {"factors", "blocks"}, default "factors"
        First value of blocks of two workers who share no task: ``"factors"``, from a first factorization, or
        ``"blocks"``, through two other workers as for the diagonal, ``R[m, j] = R[m, r] R[n, r]⁻¹ R[n, j]``, as
        published (from the factorization where no such workers exist). Published settings are ``gaps="blocks",
        impute=0``.
    threshold : float, default 0.0
        Entries of the factor below it are set to zero in each rotation (the shifted ReLU of the paper).
    max_iter, tol
        Stop after `max_iter` rotations, or when the objective changes by less than `tol` of itself.
    min_overlap, max_partners, shrink
        See :class:`MultiSPA`.

    Notes
    -----
    A dense matrix of (workers · classes)² doubles: at most 8,192 workers · classes, an error beyond. O((workers ·
    classes)² · classes) time a round. ``history_`` is the negative squared distance between the rotated eigenvectors
    and the non-negative factor.

    References
    ----------
    Ibrahim & Fu (2021). Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative matrix
    factorization. ICML.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 12, 3, labels_per_task=8, seed=1)
    >>> model = mh.moments.SymmetricNMF().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.9
    True
    """

    def __init__(
        self,
        *,
        impute: int = 50,
        gaps: Literal["factors", "blocks"] = "factors",
        threshold: float = 0.0,
        max_iter: int = 500,
        tol: float = 1e-9,
        min_overlap: float = 1.0,
        max_partners: int = 64,
        shrink: float = 1.0,
    ) -> None:
        self.impute = impute
        self.gaps = gaps
        self.threshold = threshold
        self.max_iter = max_iter
        self.tol = tol
        self.min_overlap = min_overlap
        self.max_partners = max_partners
        self.shrink = shrink

    def _check(self) -> None:
        super()._check()
        check_number("impute", self.impute, least=0, whole=True)
        check_choice("gaps", self.gaps, ("factors", "blocks"))
        check_number("threshold", self.threshold, least=0)
        check_stopping(self.max_iter, self.tol)

    def _moments(self, votes: Annotations) -> Moments:
        if votes.n_workers * votes.n_classes > LARGEST:
            raise ValueError(
                f"SymmetricNMF makes a dense square matrix of workers × classes, {votes.n_workers:,} × "
                f"{votes.n_classes} here; the limit is {LARGEST:,}. CoupledNMF fits the same model and stays sparse."
            )
        return super()._moments(votes)

    def _factorise(self, moments: Moments, progress: Callback | None) -> Factors:
        start = multi_spa(moments)
        k = moments.n_classes
        solved = np.flatnonzero(start.solved)
        matrix, has_block = _assemble(moments, solved)
        guess = (np.sqrt(start.prior)[:, None] * start.confusion[solved]).swapaxes(1, 2).reshape(-1, k)
        matrix = np.where(has_block, matrix, _impute(moments, solved, guess, self.gaps == "blocks"))
        basis = _leading(matrix, guess, steps=50)
        for _ in range(self.impute):
            before, basis = basis, _leading(np.where(has_block, matrix, basis @ basis.T), basis, steps=3)
            if np.abs(basis @ (basis.T @ before) - before @ (before.T @ before)).max() < _SETTLED:
                break
        factor, history, converged = self._rotate(basis, guess, progress)
        prior, confusion = _read_off(factor.reshape(len(solved), k, k))
        whole = start.confusion.copy()
        whole[solved] = confusion
        return Factors(prior, whole, start.solved, history, len(history), converged, remarks=start.remarks)

    def _rotate(self, basis: Array, guess: Array, progress: Callback | None) -> tuple[Array, Array, bool]:
        """The rotation of `basis` that is closest to non-negative, from the one closest to `guess`."""
        rotation = _nearest_rotation(basis, guess)
        history: list[float] = []
        while len(history) < self.max_iter:
            factor = basis @ rotation
            factor = np.where(factor >= self.threshold, np.maximum(factor, 0.0), 0.0)
            rotation = _nearest_rotation(basis, factor)
            history.append(-float(np.square(factor - basis @ rotation).sum()))
            if progress is not None:
                progress(len(history), history[-1])
            if len(history) > 1 and history[-1] - history[-2] <= self.tol * abs(history[-1]) + 1e-15:
                return factor, np.array(history), True
        return factor, np.array(history), False


def _assemble(moments: Moments, workers: npt.NDArray[np.intp]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """All pair frequencies in one matrix (workers · classes)², and which entries were seen."""
    n, k = len(workers), moments.n_classes
    place = np.full(moments.n_workers, -1, np.intp)
    place[workers] = np.arange(n)
    a, b = place[moments.pairs.astype(np.intp)].T
    blocks = np.zeros((n, n, k, k))
    blocks[a, b] = moments.pair_frequencies
    blocks[b, a] = moments.pair_frequencies.swapaxes(1, 2)
    has_block = np.zeros((n, n), bool)
    has_block[a, b] = has_block[b, a] = True
    matrix = blocks.swapaxes(1, 2).reshape(n * k, n * k)
    return matrix, np.kron(has_block, np.ones((k, k), bool)).astype(bool)


def _impute(moments: Moments, workers: npt.NDArray[np.intp], guess: Array, all_gaps: bool) -> Array:
    """First value of every block: through two other workers for the diagonal or `all_gaps`, else that of `guess`."""
    k = moments.n_classes
    blocks = Blocks(moments)
    out = guess @ guess.T
    for i, worker in enumerate(workers.tolist()):
        for j in range(i, len(workers) if all_gaps else i + 1):
            other = int(workers[j])
            if other in blocks.partners(worker):
                continue
            through = _through(blocks, worker, other)
            if through is not None:
                rows, columns = slice(i * k, (i + 1) * k), slice(j * k, (j + 1) * k)
                out[rows, columns] = (through + through.T) / 2 if i == j else through
                out[columns, rows] = out[rows, columns].T
    return out


def _through(blocks: Blocks, worker: int, other: int) -> Array | None:
    """Block of two workers, ``R[m, r] R[n, r]⁻¹ R[n, j]``, by the best conditioned pair of partners r and n."""
    partners, joint = blocks.partners(worker), blocks.of(worker)
    theirs, their_joint = blocks.partners(other), blocks.of(other)
    overlap, their_overlap = joint.sum(axis=(1, 2)), their_joint.sum(axis=(1, 2))
    best: tuple[float, Array] | None = None
    mine = np.argsort(-overlap, kind="stable")[:8].tolist()
    for place, i in enumerate(np.argsort(-their_overlap, kind="stable")[:8].tolist()):
        # A worker and itself: each pair of partners once.
        for r in mine[place + 1 :] if worker == other else mine:
            between = np.flatnonzero(blocks.partners(int(theirs[i])) == partners[r])
            if not len(between):
                continue
            bridge = blocks.of(int(theirs[i]))[between[0]]
            bridge = bridge / bridge.sum()
            trust = np.linalg.svd(bridge, compute_uv=False)[-1]
            if trust > 1e-6 and (best is None or trust > best[0]):
                left, right = joint[r] / overlap[r], their_joint[i] / their_overlap[i]
                best = (trust, left @ np.linalg.solve(bridge, right.T))
    return None if best is None else best[1]


def _leading(matrix: Array, start: Array, *, steps: int) -> Array:
    """Leading eigenvectors of a symmetric matrix, each times the root of its (positive) eigenvalue.

    By orthogonal iteration from the span of `start`, which is close.
    """
    vectors = np.linalg.qr(start)[0]
    for _ in range(steps):
        vectors = np.linalg.qr(matrix @ vectors)[0]
    values, rotation = np.linalg.eigh(vectors.T @ matrix @ vectors)
    return np.asarray(vectors @ rotation * np.sqrt(np.maximum(values, 0.0)))


def _nearest_rotation(basis: Array, factor: Array) -> Array:
    """The orthogonal matrix Q with ``basis @ Q`` closest to `factor` (Procrustes)."""
    u, _, v = np.linalg.svd(basis.T @ factor)
    return np.asarray(u @ v)


def _read_off(factor: Array) -> tuple[Array, Array]:
    """Prior and confusion matrices from (workers, label, class) factors with the root of the prior in them."""
    prior = normalize_rows(np.square(factor.sum(axis=1).mean(axis=0)))
    return prior, normalize_rows(factor.swapaxes(1, 2))


class SpectralDS(Aggregator):
    """Spectral start of Dawid–Skene: an orthogonal tensor decomposition, then EM (Zhang et al. 2014).

    Workers are divided into three groups at random. The average answers of the groups to a task are independent given
    its class, so their second and third moments, whitened, form a tensor whose eigenvectors are the groups' confusion
    matrices: the robust power method finds them. Each worker's own matrix follows from its joint answers with another
    group, by least squares on the simplex; a few passes of EM then sharpen all of them.

    Parameters
    ----------
    em_passes : int, default 1
        Passes of EM after the decomposition; 0 for the decomposition alone.
    groupings : int, default 5
        Random divisions into groups that are tried; the one with the highest likelihood wins.
    restarts : int, default 20
        Random starts of the power method, for each component.
    shrink : float, default 1.0
        Pseudo-counts per row of each confusion matrix, spread evenly (as `pseudo_count` of :class:`DawidSkene`).
    seed : int, default 0
        Seed of the groups and of the starts.

    Notes
    -----
    Two passes over the annotations, then small matrices: O(annotations · classes² + restarts · classes⁴) time, memory
    O(workers · classes²). Needs tasks with labels from all three groups; where there are none, or where the groups tell
    fewer classes apart than there are, `remarks_` reports it and EM starts from the majority.

    Assumes that the crowd is better than chance on average. ``history_`` is the log-likelihood of the EM passes.

    References
    ----------
    Zhang, Chen, Zhou & Jordan (2014). Spectral methods meet EM: a provably optimal algorithm for crowdsourcing.
    NeurIPS; Journal of Machine Learning Research 17 (2016).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(2000, 12, 3, labels_per_task=8, seed=1)
    >>> model = mh.moments.SpectralDS().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.9
    True
    """

    _skipped_checks: ClassVar[Mapping[str, str]] = {"renaming_workers": "groups of workers are drawn by position"}

    def __init__(
        self, *, em_passes: int = 1, groupings: int = 5, restarts: int = 20, shrink: float = 1.0, seed: int = 0
    ) -> None:
        self.em_passes = em_passes
        self.groupings = groupings
        self.restarts = restarts
        self.shrink = shrink
        self.seed = seed

    def _iterations(self) -> int | None:
        return self.em_passes

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_number("em_passes", self.em_passes, least=0, whole=True)
        check_number("groupings", self.groupings, least=1, whole=True)
        check_number("restarts", self.restarts, least=1, whole=True)
        check_number("shrink", self.shrink, least=0)
        check_number("seed", self.seed, least=0, whole=True)
        rng = np.random.default_rng(self.seed)
        counts = votes.table.moments_first()
        fits = []
        for _ in range(self.groupings if votes.n_classes > 1 else 1):
            remark_text = self._decompose(votes, counts, rng)
            if not isinstance(remark_text, str):
                prior, confusion, remarks = remark_text
                fits.append(self._em(votes, {"start": "", "prior": prior, "confusion": confusion}, remarks, progress))
        if not fits:
            return self._em(votes, {"start": "majority"}, (str(remark_text),), progress)
        return max(fits, key=lambda fit: float(fit.history[-1]))

    def _em(
        self, votes: Annotations, start: dict[str, Any], remarks: tuple[str, ...], progress: Callback | None
    ) -> ClassFit:
        """The EM passes from a start."""
        k = votes.n_classes
        fit = _core.em_fit(
            votes.table,
            model="full",
            assignment="soft",
            pseudo=np.full((k, k), self.shrink / k),
            class_pseudo=np.zeros(k),
            max_iter=self.em_passes,
            tol=0.0,
            progress=progress,
            **start,
        )
        return replace(fit_of(fit, remarks), converged=True)

    def _decompose(
        self, votes: Annotations, counts: Array, rng: np.random.Generator
    ) -> tuple[Array, Array, tuple[str, ...]] | str:
        """Prior, confusion matrices and warnings by one division into groups; or why it failed."""
        labels, has_answers = counts.sum(axis=1), counts.sum(axis=0) > 0
        if has_answers.sum() == 1:
            return (
                has_answers.astype(np.float64),
                np.full((votes.n_workers, *2 * has_answers.shape), 1.0 / len(has_answers)),
                (),
            )
        groups = _three_groups(labels, rng)
        moments = votes.table.moments_groups(groups)
        if not moments["n_tasks"]:
            return "No task has labels from three groups of workers: EM started from the majority."
        square, cube = np.ix_(range(3), has_answers, has_answers), np.ix_(has_answers, has_answers, has_answers)
        factors = _group_factors(moments["second"][square], moments["third"][cube], rng, self.restarts)
        if factors is None:
            return "The groups of workers tell fewer classes apart than there are: EM started from the majority."
        prior, matrices = factors
        cross, _ = votes.table.moments_cross(groups)
        cross = cross[:, has_answers][:, :, has_answers]
        confusion = np.empty_like(cross)
        for group in range(3):
            mine = np.flatnonzero(groups == group)
            # Rows: labels of the other group, columns: the worker's own label.
            confusion[mine] = told_by(matrices[(group + 1) % 3], np.ascontiguousarray(cross[mine].swapaxes(1, 2)))
        even = np.full(2 * (has_answers.sum(),), 1.0 / has_answers.sum())
        confusion = drawn_towards(even, confusion, labels[:, None] * prior, self.shrink)
        prior, confusion, doubts = match_classes(prior, confusion, labels)
        return *with_unsaid(has_answers, prior, confusion), doubts


def _three_groups(labels: Array, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Groups at random, with about as many labels each: the busiest workers are dealt out first."""
    order = np.lexsort((rng.random(len(labels)), -labels))
    groups = np.empty(len(labels), np.uint8)
    for start in range(0, len(order), 3):
        few = order[start : start + 3]
        groups[few] = rng.permutation(3)[: len(few)]
    return groups


def _group_factors(second: Array, third: Array, rng: np.random.Generator, restarts: int) -> tuple[Array, Array] | None:
    """Prior (K,) and confusion matrices (3, K, K) of the groups, in one order of the classes; None if rank is short."""
    k = second.shape[-1]
    between = {(0, 1): second[0], (1, 2): second[1], (2, 0): second[2]}
    between |= {(b, a): block.T for (a, b), block in list(between.items())}
    if min(np.linalg.svd(block, compute_uv=False)[-1] for block in second) < _SHORT_RANK / k:
        return None
    matrices = []
    for c in range(3):
        a, b = (c + 1) % 3, (c + 2) % 3
        # Both other groups, carried into the space of group c.
        left = between[c, b] @ np.linalg.inv(between[a, b])
        right = between[c, a] @ np.linalg.inv(between[b, a])
        square = left @ between[a, b] @ right.T
        cube = np.moveaxis(third, (a, b, c), (0, 1, 2))
        cube = np.einsum("ijl,xi,yj->xyl", cube, left, right)
        factors = _tensor_factors((square + square.T) / 2, _symmetric(cube), rng, restarts)
        if factors is None:
            return None
        matrices.append(normalize_rows(factors))
    for c in (1, 2):
        # The prior times a permutation is what is left between two groups.
        left = np.linalg.pinv(matrices[0].T) @ between[0, c] @ np.linalg.pinv(matrices[c])
        matrices[c] = matrices[c][_core.assignment(np.ascontiguousarray(left)).astype(np.intp)]
    confusion = np.stack(matrices)
    return prior_told_by(confusion, second.sum(axis=2)), confusion


def _symmetric(cube: Array) -> Array:
    """The average over the orders of the axes; sampling leaves the whitened tensor not quite symmetric."""
    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    return sum((cube.transpose(order) for order in orders), np.zeros_like(cube)) / 6


def _tensor_factors(square: Array, cube: Array, rng: np.random.Generator, restarts: int) -> Array | None:
    """Rows μ_h of ``square = Σ w_h μ_h μ_hᵀ``, ``cube = Σ w_h μ_h ∘ μ_h ∘ μ_h`` by the robust power method."""
    values, vectors = np.linalg.eigh(square)
    k = len(values)
    if values[0] <= _SHORT_RANK / k**2:
        return None
    whiten = vectors / np.sqrt(values)
    tensor = np.einsum("ijl,ia,jb,lc->abc", cube, whiten, whiten, whiten, optimize=True)
    back = vectors * np.sqrt(values)
    rows = np.empty((k, k))
    for h in range(k):
        value, vector = _eigenpair(tensor, rng, restarts)
        tensor = tensor - value * np.einsum("i,j,l->ijl", vector, vector, vector)
        rows[h] = value * (back @ vector)
    return rows


def _eigenpair(tensor: Array, rng: np.random.Generator, restarts: int) -> tuple[float, Array]:
    """The largest eigenvalue of a symmetric tensor that power iterations from random starts find, and its vector."""
    starts = rng.standard_normal((restarts, len(tensor)))
    vectors = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    for _ in range(_POWER_STEPS):
        images = np.einsum("abc,rb,rc->ra", tensor, vectors, vectors, optimize=True)
        size = np.linalg.norm(images, axis=1, keepdims=True)
        vectors = np.where(size > 0, images / np.where(size > 0, size, 1.0), vectors)
    values = np.einsum("abc,ra,rb,rc->r", tensor, vectors, vectors, vectors, optimize=True)
    best = int(values.argmax())
    return float(values[best]), vectors[best]
