"""Spammers: workers whose answers do not depend on the class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base.checks import check_between, check_choice, check_number, check_positive, plural
from manyhands._base.estimator import Array
from manyhands.audit._clusters import nearest_zero, shortest
from manyhands.audit._covariance import Covariances, check_partners
from manyhands.audit._crowd import Crowd, as_crowd
from manyhands.audit.result import Finding
from manyhands.categorical.table import Annotations

Mask = npt.NDArray[np.bool_]

#: The cluster nearest zero holds spammers if its center is less than this share as far from zero as the other's.
_APART = 0.5
#: Without such a cluster, spammers are workers whose factors are at most this share as long as those of the others.
_SHORT = 0.25
#: Mean number of common tasks per pair below which covariances are unreliable.
_SHARED = 10.0
#: Pseudo-answers that shrink a worker's label shares toward the class shares.
_PRIOR_ANSWERS = 1.0
#: Grid points of the distribution of honest workers' knowledge, above and below zero.
_POINTS, _POINTS_BELOW = 33, 9
#: Most iterations for that distribution, and the change below which they stop.
_PASSES, _TOLERANCE = 500, 1e-6
#: A share of spammers is rejected if its log-likelihood is this far below the best (one-sided, 5 %), and the number of
#: bisections that locate the smallest share that is not rejected.
_REJECTED, _BISECTIONS = 1.353, 6
#: Workers with fewer answers are not tested: the sum is not yet normal.
_FEWEST = 20
#: Least expected count of a cell in the test of dependence, and the probability that chance exempts a spammer.
_CELL, _EXEMPTED = 5.0, 1e-4


def spammers(
    votes: Any,
    *,
    method: str = "score",
    false_alarms: float = 0.05,
    least: float = 0.04,
    ridge: float = 40.0,
    max_partners: int | None = None,
    seed: int = 0,
) -> Finding:
    """Detect workers whose answers do not depend on the class.

    Use the default, ``method="score"``, for a stated rate of false alarms. Leave the flagged workers out with
    ``votes.without(finding)``.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations.
    method : {"score", "covariance"}, default "score"
        ``"score"`` compares each worker's answers with what all others answered to the same tasks. A worker is flagged
        if the probability of knowing at least as much as `least` is at most `false_alarms`, given the answers and the
        distribution of knowledge in this crowd. Workers with few answers are not flagged, nor any with fewer than 20.
        ``"covariance"`` flags workers whose answers have no covariance with those of others: it splits the covariances
        of pairs into a low-rank part and a diagonal, clusters the rows of the factor in two, and flags the cluster
        nearest zero. It has no stated error rate, and may flag workers with few answers.
    false_alarms : float, default 0.05
        For ``"score"``: largest probability that a flagged worker is not a spammer.
    least : float, default 0.04
        For ``"score"``: smallest score of Raykar and Yu of a worker who is not a spammer. A worker who knows the class
        of a share p of the tasks and guesses the others has score p²: 0.04 is one task in five.
    ridge : float, default 40.0
        For ``"covariance"``: ridge penalty on the factor, in units of common tasks. It shrinks the rows of workers who
        share few tasks with others toward zero: the larger it is, the more workers with few answers are flagged. The
        evidence page on auditing lists how many, for several values.
    max_partners : int, optional
        For ``"covariance"``: partners per worker, those with most common tasks. By default 256, fewer above 2,000
        workers, and at least 32.
    seed : int, default 0
        For ``"covariance"``: seed of the initial factors.

    Returns
    -------
    Finding
        Its evidence for ``"score"``: ``n_answers``; ``knows``, the estimated share of tasks whose class the worker
        knows, and its standard error ``knows_error``; ``score`` of Raykar and Yu, from the estimated confusion matrix;
        ``dependence``, the largest standardized deviation from independence of a cell of answers and classes;
        ``probability`` of being a spammer. For ``"covariance"``: ``n_answers``, ``n_partners``, and ``distance`` of the
        worker's row from zero.

    Notes
    -----
    Time: 25 iterations of Dawid–Skene for ``"score"``; for ``"covariance"`` O(Σ n²) once, over tasks with n
    annotations, and O(pairs · K³) per sweep, at most 200 sweeps. Memory: 16 K² bytes per worker; 8 K² bytes per pair,
    at most 1 GB.

    **Score.** Classes and confusion matrices come from :class:`~manyhands.categorical.HierarchicalDawidSkene`. A
    worker's own answer is divided out of the posterior ``q`` of each of its tasks. Assume that the worker knows the
    class with probability ``ρ`` and otherwise guesses, with overall label shares ``s``. The score statistic ``T = Σ
    (q[l] - mean q[l]) / s[l]`` over its answers ``l`` has mean ``ρ n v``, where ``v = Σ var q[l] / s[l]`` over the
    labels, and variance ``n (v + ρ Σ c[l] / s[l]² - ρ² v²)``, ``c`` being third central moments: where the others'
    answers do not determine the class, ``v`` is small and the worker remains undecided. The distribution of ``ρ`` over
    the crowd, either 0 or at least ``sqrt(least)`` in size, is estimated by maximum likelihood on a grid, with one
    pseudo-worker spread over it and the smallest share of spammers that a test at 5 % does not reject; the probability
    of 0 given ``T`` follows. A worker whose answers depend on the class in another way (a significant cell of answers
    and classes) is not flagged. The rate of false alarms assumes that errors are independent given the class.

    **Covariance.** One-hot answers are centered by each worker's own frequencies, so that the numbering of classes does
    not matter. The factor has rank K, and each pair is weighted by its number of common tasks. If the cluster nearest
    zero is more than half as far from it as the other, rows are split by length instead; if the shorter rows are more
    than a quarter as long, no worker is flagged.

    References
    ----------
    V. C. Raykar and S. Yu, "Eliminating spammers and ranking annotators for crowdsourced labeling tasks", JMLR 13
    (2012). P. A. Traganitis and G. B. Giannakis, "Identifying spammers to boost crowdsourced classification", ICASSP
    2021. J. Kiefer and J. Wolfowitz, "Consistency of the maximum likelihood estimator in the presence of infinitely
    many incidental parameters", Annals of Mathematical Statistics 27 (1956).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(2000, 20, 4, crowd="one-coin", labels_per_task=10, seed=1)
    >>> tasks, workers, labels = crowd.log.codes()
    >>> labels[workers < 3] = 2
    >>> votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=2000, n_workers=20, n_classes=4)
    >>> mh.audit.spammers(votes).workers.tolist()
    [0, 1, 2]
    >>> mh.audit.spammers(votes, method="covariance").workers.tolist()
    [0, 1, 2]
    """
    check_choice("method", method, ("score", "covariance"))
    check_between("false_alarms", false_alarms, such_as=0.05)
    check_between("least", least, such_as=0.04)
    check_positive("ridge", ridge)
    check_partners(max_partners)
    check_number("seed", seed, least=0, whole=True)
    crowd = as_crowd(votes)
    if method == "covariance":
        return _by_covariance(crowd.votes, ridge, max_partners, seed)
    return _by_score(crowd, false_alarms, math.sqrt(least))


def why_undecidable(votes: Annotations) -> str:
    """Return why workers of a log cannot be compared; empty where they can."""
    if votes.n_classes < 2:
        return "The log has only one class: answers cannot depend on the class."
    if (votes.labels_per_worker > 0).sum() < 3:
        return "Two workers can only be compared with each other: which of them is wrong cannot be identified."
    if not votes.table.agreeing_pairs()[1]:
        return "No task has labels of two workers: answers cannot be compared."
    return ""


# ------------------------------------------------------------------------------------------------------------- by score


def _by_score(crowd: Crowd, false_alarms: float, least: float) -> Finding:
    votes, m = crowd.votes, crowd.votes.n_workers
    unknown = np.full(m, np.nan)
    columns = dict.fromkeys(("knows", "knows_error", "score", "dependence", "probability"), unknown)
    evidence = {"n_answers": votes.labels_per_worker, **columns}
    if reason := why_undecidable(votes):
        return Finding("spammer", votes._workers, np.zeros(m, np.bool_), evidence, (reason,))
    confusion = crowd.fit.confusion.matrices()
    cross, squares = votes.table.leave_one_out_sums(crowd.fit.posterior.dense(), confusion)
    knowledge = Knowledge.of(cross, squares)
    informed = np.isfinite(knowledge.error)
    probability = unknown.copy()
    probability[informed] = _spammer_probability(knowledge.some(informed), least)
    largest, limit = _dependence(cross, squares)
    flagged = (probability >= 1 - false_alarms) & ~(largest > limit) & (votes.labels_per_worker >= _FEWEST)
    evidence |= {
        "knows": knowledge.knows,
        "knows_error": np.sqrt(knowledge.variance(np.clip(knowledge.knows, 0.0, 1.0)[:, None])[:, 0]),
        "score": np.where(votes.labels_per_worker > 0, metrics.spammer_score(confusion), np.nan),
        "dependence": largest,
        "probability": probability,
    }
    n_undecided = int((~flagged & ~(probability <= false_alarms)).sum())
    warnings = (
        f"{plural(n_undecided, 'worker')} cannot be tested for spam: too few answers to tasks whose class the other "
        "workers' answers determine.",
    ) * (n_undecided > 0)
    return Finding("spammer", votes._workers, flagged, evidence, warnings)


@dataclass(frozen=True)
class Knowledge:
    """Estimated share of tasks whose class each worker knows, (M,); NaN where the others' answers have no information.

    If a worker in fact knows a share ``ρ``, the estimate has variance ``error² (1 + skew ρ - curvature ρ²)``.
    """

    knows: Array
    error: Array
    skew: Array
    curvature: Array

    @classmethod
    def of(cls, cross: Array, squares: Array) -> Knowledge:
        """Estimate it from each worker's labels, the others' posterior of the class, and the squares of the latter."""
        counts = cross.sum(axis=1)
        n = np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        classes = cross.sum(axis=2) / n
        variance = np.maximum(squares / n - classes**2, 0.0)
        # Rare labels weigh most; a few pseudo-answers bound the weight of a label that was hardly used.
        shares = (counts + _PRIOR_ANSWERS * classes) / (n + _PRIOR_ANSWERS)
        weight = np.where(shares > 0, 1.0 / np.maximum(shares, np.finfo(float).tiny), 0.0)
        together = np.einsum("mkk->mk", cross) - counts * classes
        each = (variance * weight).sum(axis=1)
        # The means use one degree of freedom.
        information = np.maximum(n[:, 0] - 1, 0.0) * each
        informed = information > _LEAST_INFORMATION
        total = (together * weight).sum(axis=1)
        # The third moments assume known classes; for uncertain ones they are smaller.
        third = (variance * (1 - 2 * classes) * weight**2).sum(axis=1)

        def over(top: Array, bottom: Array) -> Array:
            return np.where(informed, top / np.where(informed, bottom, 1.0), np.nan)

        one = np.ones_like(total)
        return cls(over(total, information), np.sqrt(over(one, information)), over(third, each), over(each, one))

    def variance(self, share: Array) -> Array:
        """Variance of each worker's estimate for given true shares, (M, P) or (1, P)."""
        relative = 1 + self.skew[:, None] * share - self.curvature[:, None] * share**2
        return np.asarray(self.error[:, None] ** 2 * np.maximum(relative, _LEAST_SPREAD))

    def some(self, mask: Mask) -> Knowledge:
        """Select some of the workers."""
        return Knowledge(self.knows[mask], self.error[mask], self.skew[mask], self.curvature[mask])


#: Below this, the standard error of an estimate would exceed ten, and rounding would decide it.
_LEAST_INFORMATION = 0.01
#: The variance of an estimate is at least this share of that of a worker who knows nothing.
_LEAST_SPREAD = 0.2


def _spammer_probability(knowledge: Knowledge, least: float) -> Array:
    """Return the probability that each worker knows nothing, with the distribution of knowledge learned from all."""
    if not len(knowledge.knows):
        return np.zeros(0)
    points = np.concatenate([-np.linspace(1, least, _POINTS_BELOW), [0.0], np.linspace(least, 1, _POINTS)])
    # A standard error below the grid spacing would miss all points.
    variance = np.maximum(knowledge.variance(points[None]), ((points[-1] - points[-2]) / 2) ** 2)
    likelihood = -0.5 * (knowledge.knows[:, None] - points) ** 2 / variance - 0.5 * np.log(variance)
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    shares = _least_spammers(likelihood)
    weights = likelihood * shares
    nothing: Array = weights[:, _POINTS_BELOW] / weights.sum(axis=1)
    return nothing


def _least_spammers(likelihood: Array) -> Array:
    """Return the distribution of knowledge with the smallest share of spammers that the answers do not reject.

    Workers with few answers may or may not be spammers, and the maximum-likelihood distribution may be far from the
    truth.
    """
    shares, best = _mixture(likelihood, np.full(likelihood.shape[1], 1.0 / likelihood.shape[1]), None)
    rejected, accepted = 0.0, shares
    for _ in range(_BISECTIONS):
        middle = (rejected + accepted[_POINTS_BELOW]) / 2
        candidate, fit = _mixture(likelihood, accepted, middle)
        if best - fit > _REJECTED:
            rejected = middle
        else:
            accepted = candidate
    return accepted


def _mixture(likelihood: Array, shares: Array, spammers: float | None) -> tuple[Array, float]:
    """Return the most likely distribution, with or without a fixed share of spammers, and its log-likelihood."""
    n, even = likelihood.shape[0], 1.0 / likelihood.shape[1]
    for _ in range(_PASSES):
        # Without BLAS, whose sums depend on the number of threads.
        density = np.einsum("mp,p->m", likelihood, shares)
        fresh = (shares * np.einsum("mp,m->p", likelihood, 1.0 / density) + even) / (n + 1)
        if spammers is not None:
            fresh[_POINTS_BELOW] = 0.0
            fresh *= (1 - spammers) / fresh.sum()
            fresh[_POINTS_BELOW] = spammers
        converged = np.abs(fresh - shares).max() < _TOLERANCE
        shares = fresh
        if converged:
            break
    density = np.einsum("mp,p->m", likelihood, shares)
    return shares, float(np.log(density).sum() + even * np.log(shares).sum())


def _dependence(cross: Array, squares: Array) -> tuple[Array, float]:
    """Return the largest standardized deviation from independence of each worker's cells, and its critical value."""
    from statistics import NormalDist  # slow to import

    counts = cross.sum(axis=1)
    n = np.maximum(counts.sum(axis=1), np.finfo(float).tiny)[:, None]
    classes = cross.sum(axis=2) / n
    variance = np.maximum(squares / n - classes**2, 0.0)
    spread = variance[:, :, None] * (counts * (1 - counts / n))[:, None, :]
    tested = (n[:, :, None] * variance[:, :, None] > _CELL * 0.01) & (
        np.minimum(counts, n - counts)[:, None, :] >= _CELL
    )
    z = (cross - classes[:, :, None] * counts[:, None, :]) / np.sqrt(np.where(tested, spread, 1.0))
    largest = np.abs(np.where(tested, z, 0.0)).max(axis=(1, 2))
    cells = cross.shape[1] * cross.shape[2]
    return largest, NormalDist().inv_cdf(1 - _EXEMPTED / (2 * cells))


# -------------------------------------------------------------------------------------------------------- by covariance


def _by_covariance(votes: Annotations, ridge: float, max_partners: int | None, seed: int) -> Finding:
    m = votes.n_workers
    none = np.zeros(m, np.bool_)
    evidence = {
        "n_answers": votes.labels_per_worker,
        "n_partners": np.zeros(m, np.int64),
        "distance": np.full(m, np.nan),
    }
    if reason := why_undecidable(votes):
        return Finding("spammer", votes._workers, none, evidence, (reason,))
    covariances = Covariances.of(votes, max_partners)
    partners = np.bincount(covariances.pairs.ravel(), minlength=m)
    partnered = partners > 0
    factor = covariances.factor(covariances.start(votes.n_classes, seed), ridge)
    rows = factor.reshape(m, -1)[partnered]
    evidence["n_partners"] = partners
    evidence["distance"] = np.where(partnered, np.sqrt((factor**2).sum(axis=(1, 2))), np.nan)
    flagged, warnings = none.copy(), []
    if not partnered.all():
        warnings.append(
            f"{plural(int((~partnered).sum()), 'worker')} shared fewer than two tasks with any other: not tested."
        )
    shared = float(covariances.overlap.mean())
    if shared < _SHARED:
        warnings.append(
            f"Pairs of workers share only {shared:.1f} tasks on average, and their covariances are mostly noise: some "
            "flagged workers may merely have few answers. method='score' lists such workers as undecided."
        )
    near, ratio = nearest_zero(rows)
    if ratio >= _APART and shortest(rows)[1] < _SHORT:
        near, ratio = shortest(rows)
    if ratio < _APART:
        flagged[np.flatnonzero(partnered)[near]] = True
    else:
        warnings.append(
            "The workers do not form two clusters, with and without covariance with the others: the cluster nearer to "
            f"zero is {ratio:.2f} times as far from it as the other. No worker is flagged."
        )
    return Finding("spammer", votes._workers, flagged, evidence, tuple(warnings))
