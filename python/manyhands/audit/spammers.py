"""Spammers: workers whose answers do not depend on the class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base.checks import check_between, check_choice, check_number, check_positive, counted
from manyhands._base.estimator import Array
from manyhands.audit._clusters import nearest_zero, shortest
from manyhands.audit._covariance import Covariances, check_partners
from manyhands.audit._crowd import Crowd, as_crowd
from manyhands.audit.result import Finding
from manyhands.categorical.table import Annotations

Mask = npt.NDArray[np.bool_]

#: The cluster nearest to zero holds spammers if its centre is less than this share as far from zero as the other's.
_APART = 0.5
#: Where there is none, because the others differ more from one another: those whose factors are at most this share as
#: long as theirs.
_SHORT = 0.25
#: Common tasks of an average pair below which covariances are doubtful.
_SHARED = 10.0
#: Answers of a worker's own that label shares are drawn towards the classes by.
_PRIOR_ANSWERS = 1.0
#: Points at which the distribution of how much honest workers know is estimated, above and below zero.
_POINTS, _POINTS_BELOW = 33, 9
#: Passes over that distribution, and the change that ends them.
_PASSES, _SETTLED = 500, 1e-6
#: A share of spammers is refuted if it makes answers less likely by this, in logarithms, than the best: at 5 %, from
#: one side. The least that is not is found by so many halvings.
_REFUTED, _HALVINGS = 1.353, 6
#: Fewer answers of a worker are not judged: their sum is not yet normal.
_FEWEST = 20
#: Cells of fewer answers tell of no dependence by themselves; and how rarely chance alone may save a spammer.
_CELL, _SAVED = 5.0, 1e-4


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
    """Find workers whose answers do not depend on the class.

    Parameters
    ----------
    votes
        The annotations.
    method
        ``"score"``: those who are shown to know next to nothing. Each worker's answers are held against what all others
        say of the same tasks; a worker is found if the probability of knowing as much as `least` is at most
        `false_alarms`, given the answers and how much the others of this crowd know. Few answers show nothing, and a
        worker with few is not found, nor any with fewer than 20.
        ``"covariance"``: those whose answers do not vary together with anybody's. The covariances of the pairs of
        workers who share tasks are split into a low-rank part and a diagonal, and workers into two clusters by their
        rows of the factor; those of the cluster nearest zero are found. There is no error rate, and a worker with few
        answers is drawn to zero, and found.
    false_alarms
        For ``"score"``: the largest probability that a worker who is found is none.
    least
        For ``"score"``: the least score of Raykar and Yu of a worker who is not a spammer. That of a worker who knows
        the class in a share p of the tasks and guesses at the others is p²: 0.04 is one task in five.
    ridge
        For ``"covariance"``: how strongly rows are drawn to zero.
    max_partners
        For ``"covariance"``: pairs of a worker with others than those of most common tasks, so many, are left aside.
        None for 256, or fewer of more than 2,000 workers, 32 at the least.
    seed
        For ``"covariance"``: seed of the start of the factorisation.

    Returns
    -------
    Finding
        Its evidence is, for ``"score"``: ``n_answers``; ``knows``, the share of tasks whose class the worker knows, as
        estimated beside the others' answers, and its standard error ``knows_error``; ``score``, of Raykar and Yu, from
        the worker's estimated confusion matrix; ``dependence``, the largest standardised difference of a cell of
        answers and classes from independence; ``probability`` of being a spammer. For ``"covariance"``: ``n_answers``,
        ``n_partners``, and ``distance`` of the worker's row from zero.

    Notes
    -----
    **Score.** Classes and confusion matrices come from :class:`~manyhands.categorical.HierarchicalDawidSkene`. A
    worker's own answer is divided out of the posterior ``q`` of each of its tasks. Let it know the class with
    probability ``ρ`` and else guess, with label shares ``s`` in all. The score statistic ``T = Σ (q[l] - mean q[l]) /
    s[l]`` over its answers ``l`` has mean ``ρ n v``, where ``v = Σ var q[l] / s[l]`` over the labels, and variance ``n
    (v + ρ Σ c[l] / s[l]² - ρ² v²)``, ``c`` being third central moments: where the others do not tell the class, ``v``
    is small and nothing is known of the worker. The distribution of ``ρ`` over the crowd, either 0 or at least
    ``sqrt(least)`` in size, is estimated by maximum likelihood on a grid, with one imaginary worker spread over it, and
    as few spammers as the answers do not refute (5 %); the probability of 0 given ``T`` follows. A worker whose answers
    depend on the class in another way (a cell of answers and classes beyond all chance) is not found. The rate of false
    alarms rests on errors being independent given the class.

    **Covariance.** One-hot answers are centred by each worker's own frequencies, so that it does not matter how classes
    are numbered. The factor has rank K, each pair the weight of its number of common tasks. If the cluster nearest zero
    is more than half as far from it as the other, rows are parted by length, for few spammers may be less apart from
    the others than these from one another; if the shorter are more than a quarter as long, nobody is found.

    Time: 25 passes of Dawid–Skene for ``"score"``; for ``"covariance"`` O(Σ n²) over tasks with n annotations once and
    O(pairs · K³) a sweep, at most 200. Memory: 16 K² bytes a worker; 8 K² bytes a pair, at most 1 GB.

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


def untellable(votes: Annotations) -> str:
    """Why the log tells nothing of any worker; empty where it may."""
    if votes.n_classes < 2:
        return "There is one class only, on which no answer can depend: nobody can be told from a spammer."
    if (votes.labels_per_worker > 0).sum() < 3:
        return "Two workers can only be held against each other: which of them is wrong cannot be told."
    if not votes.table.agreeing_pairs()[1]:
        return "No task has labels of two workers: there is nothing to hold anybody's answers against."
    return ""


# ------------------------------------------------------------------------------------------------------------- by score


def _by_score(crowd: Crowd, false_alarms: float, least: float) -> Finding:
    votes, m = crowd.votes, crowd.votes.n_workers
    unknown = np.full(m, np.nan)
    columns = dict.fromkeys(("knows", "knows_error", "score", "dependence", "probability"), unknown)
    evidence = {"n_answers": votes.labels_per_worker, **columns}
    if reason := untellable(votes):
        return Finding("spammer", votes._workers, np.zeros(m, np.bool_), evidence, (reason,))
    confusion = crowd.fit.confusion.matrices()
    cross, squares = votes.table.leave_one_out_sums(crowd.fit.posterior.dense(), confusion)
    known = Knowledge.of(cross, squares)
    heard = np.isfinite(known.error)
    probability = unknown.copy()
    probability[heard] = _spammer_probability(known.some(heard), least)
    largest, limit = _dependence(cross, squares)
    found = (probability >= 1 - false_alarms) & ~(largest > limit) & (votes.labels_per_worker >= _FEWEST)
    evidence |= {
        "knows": known.knows,
        "knows_error": np.sqrt(known.variance(np.clip(known.knows, 0.0, 1.0)[:, None])[:, 0]),
        "score": np.where(votes.labels_per_worker > 0, metrics.spammer_score(confusion), np.nan),
        "dependence": largest,
        "probability": probability,
    }
    open_ = int((~found & ~(probability <= false_alarms)).sum())
    remarks = (
        f"Of {counted(open_, 'worker')} it cannot be told whether they are spammers: they gave too few answers on "
        "tasks of which the others tell the class.",
    ) * (open_ > 0)
    return Finding("spammer", votes._workers, found, evidence, remarks)


@dataclass(frozen=True)
class Knowledge:
    """How much each worker knows, (M,): the share of tasks whose class it knows; NaN where the others tell nothing.

    If it knows a share ``ρ`` in truth, the estimate has variance ``error² (1 + skew ρ - bend ρ²)``.
    """

    knows: Array
    error: Array
    skew: Array
    bend: Array

    @classmethod
    def of(cls, cross: Array, squares: Array) -> Knowledge:
        """Estimate it from each worker's labels by what the others say of the class, and the squares of the latter."""
        said = cross.sum(axis=1)
        n = np.maximum(said.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        classes = cross.sum(axis=2) / n
        variance = np.maximum(squares / n - classes**2, 0.0)
        # Rare labels weigh most; a few imaginary answers keep the weight of one that was hardly said in bounds.
        shares = (said + _PRIOR_ANSWERS * classes) / (n + _PRIOR_ANSWERS)
        weight = np.where(shares > 0, 1.0 / np.maximum(shares, np.finfo(float).tiny), 0.0)
        together = np.einsum("mkk->mk", cross) - said * classes
        each = (variance * weight).sum(axis=1)
        # One degree of freedom has gone into the means.
        information = np.maximum(n[:, 0] - 1, 0.0) * each
        told = information > _LEAST_INFORMATION
        total = (together * weight).sum(axis=1)
        # The third moments are those of classes that are known: where they are not, they are smaller.
        third = (variance * (1 - 2 * classes) * weight**2).sum(axis=1)

        def over(top: Array, bottom: Array) -> Array:
            return np.where(told, top / np.where(told, bottom, 1.0), np.nan)

        one = np.ones_like(total)
        return cls(over(total, information), np.sqrt(over(one, information)), over(third, each), over(each, one))

    def variance(self, share: Array) -> Array:
        """Variance of each worker's estimate, if it knows these shares, (M, P) or (1, P)."""
        bent = 1 + self.skew[:, None] * share - self.bend[:, None] * share**2
        return np.asarray(self.error[:, None] ** 2 * np.maximum(bent, _LEAST_SPREAD))

    def some(self, mask: Mask) -> Knowledge:
        """Of some of the workers."""
        return Knowledge(self.knows[mask], self.error[mask], self.skew[mask], self.bend[mask])


#: Below this, an estimate would have an error of ten: it says nothing, and rounding would decide it.
_LEAST_INFORMATION = 0.01
#: The variance of an estimate is taken to be at least this part of that of somebody who knows nothing.
_LEAST_SPREAD = 0.2


def _spammer_probability(known: Knowledge, least: float) -> Array:
    """Probability of each worker to know nothing, with the distribution of knowledge learnt from all."""
    if not len(known.knows):
        return np.zeros(0)
    points = np.concatenate([-np.linspace(1, least, _POINTS_BELOW), [0.0], np.linspace(least, 1, _POINTS)])
    # Narrower than the grid, an error would find no point near enough.
    variance = np.maximum(known.variance(points[None]), ((points[-1] - points[-2]) / 2) ** 2)
    likelihood = -0.5 * (known.knows[:, None] - points) ** 2 / variance - 0.5 * np.log(variance)
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    shares = _least_spammers(likelihood)
    weights = likelihood * shares
    nothing: Array = weights[:, _POINTS_BELOW] / weights.sum(axis=1)
    return nothing


def _least_spammers(likelihood: Array) -> Array:
    """The distribution of knowledge over the points with the fewest spammers that the answers do not refute.

    Workers of few answers may be spammers or not, and the distribution that makes their answers most likely may be far
    from the true one.
    """
    shares, best = _mixture(likelihood, np.full(likelihood.shape[1], 1.0 / likelihood.shape[1]), None)
    refuted, open_ = 0.0, shares
    for _ in range(_HALVINGS):
        middle = (refuted + open_[_POINTS_BELOW]) / 2
        tried, fit = _mixture(likelihood, open_, middle)
        if best - fit > _REFUTED:
            refuted = middle
        else:
            open_ = tried
    return open_


def _mixture(likelihood: Array, shares: Array, spammers: float | None) -> tuple[Array, float]:
    """The most likely distribution over the points, of all or of all but given spammers, and how likely it is."""
    n, even = likelihood.shape[0], 1.0 / likelihood.shape[1]
    for _ in range(_PASSES):
        # Not by BLAS, whose sums depend on the number of threads.
        density = np.einsum("mp,p->m", likelihood, shares)
        fresh = (shares * np.einsum("mp,m->p", likelihood, 1.0 / density) + even) / (n + 1)
        if spammers is not None:
            fresh[_POINTS_BELOW] = 0.0
            fresh *= (1 - spammers) / fresh.sum()
            fresh[_POINTS_BELOW] = spammers
        settled = np.abs(fresh - shares).max() < _SETTLED
        shares = fresh
        if settled:
            break
    density = np.einsum("mp,p->m", likelihood, shares)
    return shares, float(np.log(density).sum() + even * np.log(shares).sum())


def _dependence(cross: Array, squares: Array) -> tuple[Array, float]:
    """Largest standardised difference from independence over the cells of each worker, and what chance reaches."""
    from statistics import NormalDist  # slow to import, and needed here only

    said = cross.sum(axis=1)
    n = np.maximum(said.sum(axis=1), np.finfo(float).tiny)[:, None]
    classes = cross.sum(axis=2) / n
    variance = np.maximum(squares / n - classes**2, 0.0)
    spread = variance[:, :, None] * (said * (1 - said / n))[:, None, :]
    usual = (n[:, :, None] * variance[:, :, None] > _CELL * 0.01) & (np.minimum(said, n - said)[:, None, :] >= _CELL)
    z = (cross - classes[:, :, None] * said[:, None, :]) / np.sqrt(np.where(usual, spread, 1.0))
    largest = np.abs(np.where(usual, z, 0.0)).max(axis=(1, 2))
    cells = cross.shape[1] * cross.shape[2]
    return largest, NormalDist().inv_cdf(1 - _SAVED / (2 * cells))


# -------------------------------------------------------------------------------------------------------- by covariance


def _by_covariance(votes: Annotations, ridge: float, max_partners: int | None, seed: int) -> Finding:
    m = votes.n_workers
    nobody = np.zeros(m, np.bool_)
    evidence = {
        "n_answers": votes.labels_per_worker,
        "n_partners": np.zeros(m, np.int64),
        "distance": np.full(m, np.nan),
    }
    if reason := untellable(votes):
        return Finding("spammer", votes._workers, nobody, evidence, (reason,))
    covariances = Covariances.of(votes, max_partners)
    partners = np.bincount(covariances.pairs.ravel(), minlength=m)
    known = partners > 0
    factor = covariances.factor(covariances.start(votes.n_classes, seed), ridge)
    rows = factor.reshape(m, -1)[known]
    evidence["n_partners"] = partners
    evidence["distance"] = np.where(known, np.sqrt((factor**2).sum(axis=(1, 2))), np.nan)
    found, remarks = nobody.copy(), []
    if not known.all():
        remarks.append(
            f"{counted(int((~known).sum()), 'worker')} shared fewer than two tasks with any other, and cannot be told."
        )
    shared = float(covariances.overlap.mean())
    if shared < _SHARED:
        remarks.append(
            f"Pairs of workers share {shared:.1f} tasks on average, and covariances of so few are mostly noise: some "
            "who are found may merely have answered little. method='score' says of whom nothing can be told."
        )
    near, ratio = nearest_zero(rows)
    if ratio >= _APART and shortest(rows)[1] < _SHORT:
        near, ratio = shortest(rows)
    if ratio < _APART:
        found[np.flatnonzero(known)[near]] = True
    else:
        remarks.append(
            "The workers do not fall into those whose answers vary with the others' and those whose do not: of the two "
            f"clusters, the nearer to zero is {ratio:.2f} times as far from it as the other. Nobody is found."
        )
    return Finding("spammer", votes._workers, found, evidence, tuple(remarks))
