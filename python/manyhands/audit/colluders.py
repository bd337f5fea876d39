"""Detect colluders: workers who agree among themselves what to answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_between, check_choice, check_number, plural
from manyhands._base.estimator import Array
from manyhands._base.names import Names, sequence
from manyhands.audit._clusters import upper
from manyhands.audit._covariance import Covariances, check_partners
from manyhands.audit._crowd import as_crowd
from manyhands.audit._reputation import PENALTIES, by_reputation
from manyhands.audit.result import Finding
from manyhands.audit.spammers import why_undecidable
from manyhands.categorical.hierarchical import HierarchicalDawidSkene
from manyhands.categorical.table import Annotations
from manyhands.errors import argument

Mask = npt.NDArray[np.bool_]

#: Ridge penalty on factors: about one task.
_RIDGE = 1.0
#: Rounds of reweighting, sweeps per round, and the standardized residual at which a pair's weight is halved.
_ROUNDS, _SWEEPS, _ODD = 10, 30, 3.0
#: Tolerance of fits during the search, relative to the largest factor.
_ROUGH = 1e-3
#: Factors of all pairs initialize the fit if the group's own pairs hold at most this share of the overlap.
_FEW = 0.01
#: Most rounds of updating the members of a group.
_REFINEMENTS = 6
#: Least share of a colluder's expected disagreements with the group that are agreements.
_LEAST_EXCESS = 0.3
#: Probability that any pair of independent workers exceeds the threshold, and its least value in standard errors.
_CHANCE, _ERRORS = 0.01, 4.0
#: Answers per factor that a worker must share with workers outside the group.
_OUTSIDE = 10.0
#: Least size of a group of colluders; two who agree are copies.
_FEWEST = 3
#: Least mean excess agreement of a group.
_LEAST_MEAN_EXCESS = 0.6
#: Least share of the group's common tasks that are attacked.
_HARM = 0.05
#: Most initial groups made of pairs that nearly always agree, in addition to both sides of the leading direction.
_BEGINNINGS = 4
#: Least distance of expected agreements from 0 and 1.
_MARGIN = 0.02


@dataclass(frozen=True, eq=False, repr=False)
class Collusion(Finding):
    """Colluding workers, and the tasks that they attacked; see :func:`colluders`."""

    #: All tasks of the table, and which of them were attacked, (n_tasks,).
    task_names: Names | None = None
    attacked: npt.NDArray[np.bool_] | None = None

    @property
    def tasks(self) -> npt.NDArray[Any]:
        """Names of the tasks on which colluders gave an improbable answer, in the order of the table."""
        if self.task_names is None or self.attacked is None:
            return np.zeros(0, np.int64)
        return self.task_names.take(np.flatnonzero(self.attacked)).values


def colluders(
    votes: Any,
    *,
    trusted: Any = None,
    method: str = "covariance",
    penalty: str = "soft",
    improbable: float = 0.05,
    max_classes: int | None = 5,
    max_partners: int | None = None,
    seed: int = 0,
) -> Collusion:
    """Detect workers who agree among themselves what to answer.

    Use it where workers may coordinate, in particular to push a wrong answer. Pairs of colluders agree more often than
    their accuracy explains; all other pairs, colluder with honest worker included, agree as often as expected.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations.
    trusted : worker or list of workers, optional
        Workers who do not collude. Without one, colluders must be fewer than half of the workers.
    method : {"covariance", "agreement", "reputation"}, default "covariance"
        ``"covariance"`` uses covariances of one-hot answers, which have rank K - 1 for independent workers.
        ``"agreement"`` uses rates of agreement, one number per pair, of rank K² at most (Traganitis and Giannakis),
        which needs many more than K² honest workers. ``"reputation"`` gives workers penalties for answers to contested
        tasks, low for answers that many gave, and flags the upper of two clusters (Jagabathula et al.). For comparison
        only: it flags isolated workers, not large colluding groups.
    penalty : {"soft", "hard"}, default "soft"
        For ``"reputation"``. ``"soft"``: all workers who gave an answer share its penalty, and the mean share is the
        worker's penalty. ``"hard"``: one of them takes it, such that loads are as balanced as possible (an optimal
        semi-matching), and the load is the penalty. Loads are unique up to one answer; no worker is flagged if they
        differ by no more.
    improbable : float, default 0.05
        A task is attacked if two or more colluders, and at least half of those on the task, agree on a label with at
        most this probability under the other workers' answers.
    max_classes : int, default 5
        With more classes than this, the search merges them into this many groups of about equally many answers, since
        its cost grows with the cube of their number. None keeps all classes. ``"reputation"`` always does.
    max_partners : int, optional
        Partners per worker, those with most common tasks. By default 256, fewer where that makes more pairs than
        annotations or more than 500,000, and at least 32.
    seed : int, default 0
        Seed of the initial factors.

    Returns
    -------
    Collusion
        In addition to workers and remarks: ``tasks``, those that were attacked. Evidence: ``n_answers``; ``agreed``,
        the share of the expected disagreements with the group that are agreements, and ``errors``, its distance from 0
        in standard errors; for ``"reputation"`` the ``penalty``.

    Notes
    -----
    Time: O(Σ n²) once, over tasks with n annotations, and O(pairs · K³) for each of about a hundred sweeps, where K
    is `max_classes` at most. Memory: 8 K² bytes per pair, at most 1 GB. ``"reputation"`` takes O(annotations) with
    soft penalties; with hard ones, that for each phase of a search for shortest augmenting paths: some tens in
    practice, and at most √workers per halving of the largest load; memory 8 bytes per annotation and 16 per answer.

    To use the result, count the group as one worker, ``GroupDawidSkene([finding.workers]).fit(votes)``: workers who are
    nearly always wrong are informative too, above all with two classes. Or leave them out:
    ``DawidSkene().fit(votes.without(finding))``.

    Detection needs three or more colluders (two are :func:`manyhands.audit.copies`), tasks that they share, and 10 (K -
    1) answers of each to tasks shared with others. Lone or rare attackers are not detected.

    A group of workers is sought such that all pairs outside it fit one low-rank model. A robust fit, in which pairs
    with large residuals have small weights, gives initial groups: either side of the leading direction of its
    residuals, and cliques of workers who agree where disagreement is expected. From each, workers who agree too much
    with the group join and others leave, and the factors are refitted without the pairs within it. The group with the
    largest mean excess agreement wins, if it is at least 0.6; ties (to a tenth) go to the largest. Honest workers form
    such a group if the colluders are taken to be honest, but a looser one unless they hardly ever err. The group
    contains no trusted worker; without one, no worker is flagged if it contains half of the workers or more. Hard tasks
    make all workers agree a little more than expected, which forms no group. A group is also dropped if it attacks
    fewer than one in twenty of the tasks that two of its workers answered.

    References
    ----------
    P. A. Traganitis and G. B. Giannakis, "Detecting adversaries in crowdsourcing", ICDM 2021. S. Jagabathula, L.
    Subramanian and A. Venkataraman, "Identifying unreliable and adversarial workers in crowdsourced labeling tasks",
    JMLR 18 (2017). N. J. A. Harvey, R. E. Ladner, L. Lovász and T. Tamir, "Semi-matchings for bipartite graphs and load
    balancing", WADS 2003.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(1000, 30, 3, crowd="one-coin", labels_per_task=10, seed=1)
    >>> tasks, workers, labels = crowd.log.codes()
    >>> labels[workers < 8] = (tasks[workers < 8] % 3).astype(labels.dtype)
    >>> votes = mh.Annotations.from_codes(tasks, workers, labels, n_tasks=1000, n_workers=30, n_classes=3)
    >>> mh.audit.colluders(votes).workers.tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    check_choice("method", method, ("covariance", "agreement", "reputation"))
    check_choice("penalty", penalty, PENALTIES)
    check_between("improbable", improbable, such_as=0.05)
    if max_classes is not None:
        check_number("max_classes", max_classes, least=2, whole=True)
    check_partners(max_partners)
    check_number("seed", seed, least=0, whole=True)
    table = as_crowd(votes).votes
    exempt = _mask_trusted(table, trusted)
    if reason := why_undecidable(table):
        none = np.zeros(table.n_workers, np.bool_)
        return _collusion(table, none, {"n_answers": table.labels_per_worker}, (reason,), improbable)
    if method == "reputation":
        flagged, evidence, remarks = by_reputation(table, exempt, penalty)
    else:
        search = _Search.of(_merge_classes(table, max_classes), method, max_partners, seed)
        flagged, evidence, remarks = search.run(exempt)
        if max_classes is not None and table.n_classes > max_classes:
            warning = (
                f"The search for colluders merged {table.n_classes:,} classes into {max_classes} groups; "
                f"{argument('max_classes', None)} keeps them apart, at the cost of their number cubed."
            )
            remarks = (*remarks, warning)
    collusion = _collusion(table, flagged, {"n_answers": table.labels_per_worker, **evidence}, remarks, improbable)
    return collusion if method == "reputation" or _attacks(table, collusion) else _harmless(collusion)


def _merge_classes(votes: Annotations, most: int | None) -> Annotations:
    """Merge classes into at most this many groups of about equally many answers.

    Answers that are independent given the class stay so when they are merged, and colluders still agree.
    """
    if most is None or votes.n_classes <= most:
        return votes
    table = votes.without_abstentions().table
    counts = table.label_counts()
    groups, totals = np.zeros(votes.n_classes, np.uint16), np.zeros(most, np.int64)
    for label in np.argsort(-counts.astype(np.int64), kind="stable").tolist():
        groups[label] = totals.argmin()
        totals[groups[label]] += counts[label]
    names = Names(np.arange(most))
    return Annotations(table.recoded(groups, most, most), votes._tasks, votes._workers, names)


def _attacks(votes: Annotations, collusion: Collusion) -> bool:
    """Return whether the flagged workers attack a notable share of their common tasks."""
    assert collusion.attacked is not None
    tasks, workers, _ = votes.codes()
    common = np.bincount(tasks[collusion.found[workers]], minlength=votes.n_tasks) >= 2
    return bool(collusion.attacked.sum() >= _HARM * common.sum())


def _harmless(collusion: Collusion) -> Collusion:
    """Return a finding without workers, and a warning: the group does not attack the answers of others."""
    warning = (
        f"{plural(len(collusion), 'worker')} agree with each other more than their accuracy explains, but hardly ever "
        "on answers that the other workers make improbable. No worker is flagged."
    )
    assert collusion.attacked is not None
    no_workers, no_tasks = np.zeros_like(collusion.found), np.zeros_like(collusion.attacked)
    return replace(collusion, found=no_workers, attacked=no_tasks, remarks=(*collusion.remarks, warning))


def _mask_trusted(votes: Annotations, trusted: Any) -> Mask:
    """Mark the trusted workers; accepts a single name or several."""
    exempt = np.zeros(votes.n_workers, np.bool_)
    if trusted is None:
        return exempt
    several = isinstance(trusted, list | tuple | set | frozenset | np.ndarray) and np.ndim(list(trusted)) == 1
    codes = votes._workers.match(sequence(trusted if several else [trusted], "trusted"))
    if (codes < 0).any() or not len(codes):
        raise KeyError(f"trusted worker {trusted!r} is not in the log; pass a worker of the log, or leave trusted out")
    exempt[codes] = True
    return exempt


def _collusion(
    votes: Annotations,
    flagged: Mask,
    evidence: dict[str, npt.NDArray[Any]],
    remarks: tuple[str, ...],
    improbable: float,
) -> Collusion:
    attacked = _mask_attacked(votes, flagged, improbable)
    return Collusion("colluder", votes._workers, flagged, evidence, remarks, votes._tasks, attacked)


def _mask_attacked(votes: Annotations, flagged: Mask, improbable: float) -> Mask:
    """Mark tasks on which two or more colluders, at least half of those there, gave an improbable answer."""
    attacked = np.zeros(votes.n_tasks, np.bool_)
    if flagged.sum() < 2 or flagged.all():
        return attacked
    rest = votes.without(flagged)
    fit = HierarchicalDawidSkene()._fit(rest, None)
    posterior = np.ones((votes.n_tasks, votes.n_classes))
    posterior[votes._tasks.match(rest._tasks)] = fit.posterior.dense()
    tasks, workers, labels = votes.codes()
    colluding = flagged[workers]
    counts = np.zeros((votes.n_tasks, votes.n_classes))
    np.add.at(counts, (tasks[colluding], labels[colluding]), 1.0)
    total = counts.sum(axis=1, keepdims=True)
    common = (counts >= 2) & (2 * counts >= total)
    return np.asarray((common & (posterior <= improbable)).any(axis=1))


@dataclass(frozen=True)
class _Explained:
    """A group of workers whose own pairs are left out, and the excess agreement of each worker with it."""

    group: Mask
    #: The factors that fit all other pairs.
    factor: Array
    agreed: Array
    errors: Array

    @property
    def concert(self) -> float:
        """Mean excess agreement within the group; 0 for a group that is too small."""
        return float(self.agreed[self.group].mean()) if self.group.sum() >= _FEWEST else 0.0


@dataclass(frozen=True)
class _Search:
    """Search for a group of workers such that all pairs outside it fit one low-rank model."""

    covariances: Covariances
    #: Number of factors, the scale of a block's entries, and the seed of the start.
    rank: int
    variance: Array
    #: Rate of agreement of each pair, and its expectation if answers did not depend on the task.
    rate: Array
    chance: Array
    seed: int

    @classmethod
    def of(cls, votes: Annotations, method: str, max_partners: int | None, seed: int) -> _Search:
        covariances = Covariances.of(votes, max_partners)
        first, second = covariances.pairs.T
        chance = np.einsum("pk,pk->p", covariances.shares[first], covariances.shares[second])
        rate = np.einsum("pkk->p", covariances.blocks) + chance
        if method == "agreement":
            blocks = np.ascontiguousarray(rate[:, None, None])
            alone = Covariances(
                covariances.n_workers,
                np.ones((covariances.n_workers, 1)),
                covariances.pairs,
                covariances.overlap,
                blocks,
            )
            return cls(alone, votes.n_classes**2, np.maximum(rate * (1 - rate), _MARGIN), rate, 0 * chance, seed)
        spread = (covariances.shares * (1 - covariances.shares)).sum(axis=1)
        variance = np.maximum(spread[first] * spread[second], _MARGIN**2)
        return cls(covariances, max(votes.n_classes - 1, 1), variance, rate, chance, seed)

    def run(self, exempt: Mask) -> tuple[Mask, dict[str, npt.NDArray[Any]], tuple[str, ...]]:
        partnered = self.covariances.partnered
        empty = self._empty_group()
        beginnings = self._beginnings(empty.factor) if partnered.any() else []
        candidates = [self._explain(group, empty) for group in beginnings]
        candidates = [
            candidate
            for candidate in candidates
            if candidate.concert > _LEAST_MEAN_EXCESS and not (candidate.group & exempt).any()
        ]
        best = max(
            candidates, key=lambda candidate: (round(candidate.concert, 1), candidate.group.sum()), default=empty
        )
        warnings = []
        if not partnered.all():
            alone = plural(int((~partnered).sum()), "worker")
            warnings.append(f"{alone} shared fewer than two tasks with any other: not tested.")
        if not exempt.any() and 2 * best.group.sum() >= partnered.sum():
            size = plural(int(best.group.sum()), "worker")
            warnings.append(
                f"The best explanation is a group of {size}, which is half of them or more: whether this group or the "
                "rest colludes cannot be identified. No worker is flagged; pass a trusted worker as trusted=."
            )
            best = empty
        evidence = {
            "agreed": np.where(partnered, best.agreed, np.nan),
            "errors": np.where(partnered, best.errors, np.nan),
        }
        return best.group, evidence, tuple(warnings)

    @property
    def beyond_chance(self) -> float:
        """Standard errors that none of this many independent pairs exceeds by chance."""
        from statistics import NormalDist  # slow to import, and needed here only

        return max(_ERRORS, NormalDist().inv_cdf(1 - _CHANCE / max(len(self.rate), 1)))

    # ------------------------------------------------------------------------------------------------- beginnings

    def _beginnings(self, plain: Array) -> list[Mask]:
        """Return initial groups, given the factors that fit all pairs."""
        factor = self._robust(plain)
        excess, weight = self._excess(factor)
        side = upper(self._leading(excess, weight))
        significant = (excess > 0.5) & (excess * np.sqrt(weight) > self.beyond_chance)
        # Regardless of the factors: pairs who never differ where disagreements are expected.
        overlap = self.covariances.overlap
        mean_rate = float(np.average(self.rate, weights=overlap))
        alike = (self.rate > 1 - _MARGIN) & (overlap * (1 - mean_rate) > _ERRORS)
        return [side, ~side, *self._cliques(significant), *self._cliques(alike)]

    def _robust(self, factor: Array) -> Array:
        """Fit factors robustly, with small weights for large residuals, from those that fit all pairs."""
        for _ in range(_ROUNDS - 1):
            norm = self._residuals(factor)[:, 1]
            odd = norm * self.covariances.overlap / self.variance
            weights = self.covariances.overlap / (1 + odd / max(_ODD**2, 4 * float(np.median(odd))))
            factor = self.covariances.factor(factor, _RIDGE, weights, _SWEEPS, _ROUGH)
        return factor

    def _residuals(self, factor: Array) -> Array:
        return _core.low_rank_residuals(self.covariances.pairs, self.covariances.blocks, factor)

    def _excess(self, factor: Array) -> tuple[Array, Array]:
        """Return the share of each pair's expected disagreements that are agreements, and their expected number."""
        surplus, expected = self._surplus(factor)
        return surplus / (1 - expected), self.covariances.overlap * (1 - expected)

    def _surplus(self, factor: Array) -> tuple[Array, Array]:
        """Return the excess agreement rate of each pair, and the expected rate, clipped away from 0 and 1.

        The excess uses the rate before clipping, so that it is 0 where full agreement is expected and observed.
        """
        expected = np.clip(self.rate - self._residuals(factor)[:, 0], 0.0, 1.0)
        return self.rate - expected, np.clip(expected, _MARGIN, 1 - _MARGIN)

    def _leading(self, excess: Array, weight: Array) -> Array:
        """Return the leading direction of the excess agreement, by power iteration over the pairs."""
        (first, second), m = self.covariances.pairs.T, self.covariances.n_workers
        total = np.bincount(first, weight, minlength=m) + np.bincount(second, weight, minlength=m)
        scale = 1 / np.sqrt(np.maximum(total, np.finfo(float).tiny))
        entries = excess * weight * scale[first] * scale[second]
        # The shift avoids the most negative direction.
        vector = np.sqrt(total) + 1e-3 * np.random.default_rng(self.seed).standard_normal(m) * np.sqrt(total)
        for _ in range(100):
            step = np.bincount(first, entries * vector[second], minlength=m)
            step += np.bincount(second, entries * vector[first], minlength=m) + vector
            vector = step / max(float(np.sqrt(step @ step)), np.finfo(float).tiny)
        direction: Array = vector * scale
        return direction if direction @ total >= 0 else -direction

    def _cliques(self, significant: Mask) -> list[Mask]:
        """Return groups of workers linked by pairs with significant excess agreement, largest first."""
        linked = self.covariances.pairs[significant]
        if not len(linked):
            return []
        number = _core.components(self.covariances.n_workers, np.ascontiguousarray(linked))
        sizes = np.bincount(number)
        largest = np.argsort(-sizes, kind="stable")[:_BEGINNINGS]
        return [number == i for i in largest.tolist() if sizes[i] > 1]

    # -------------------------------------------------------------------------------------------------- refinement

    def _empty_group(self) -> _Explained:
        """Fit all pairs, with no group left out."""
        group = np.zeros(self.covariances.n_workers, np.bool_)
        start = self.covariances.start(self.rank, self.seed)
        factor = self.covariances.factor(start, _RIDGE, None, 2 * _SWEEPS, _ROUGH)
        return _Explained(group, factor, *self._membership(factor, group))

    def _explain(self, group: Mask, empty: _Explained) -> _Explained:
        """Fit all pairs outside a group, and update the group until it holds the workers who agree too much with it.

        If no worker remains, return `empty`.
        """
        covariances, start = self.covariances, self.covariances.start(self.rank, self.seed)
        first, second = covariances.pairs.T
        for turn in range(_REFINEMENTS):
            within = group[first] & group[second]
            if within.all() or not group.any():
                return empty
            weights = np.where(within, 0.0, covariances.overlap)
            # With few pairs left out, the factors of all pairs are close; with many, they may be far off.
            few = covariances.overlap[within].sum() <= _FEW * covariances.overlap.sum()
            factor = covariances.factor(empty.factor if few else start, _RIDGE, weights, 2 * _SWEEPS, _ROUGH)
            excess, errors = self._membership(factor, group)
            updated = (excess > _LEAST_EXCESS) & (errors > self.beyond_chance)
            if (updated == group).all() or turn == _REFINEMENTS - 1:
                break
            group = updated
        return _Explained(group, factor, excess, errors)

    def _membership(self, factor: Array, group: Mask) -> tuple[Array, Array]:
        """Return each worker's excess agreement with a group: as a share of disagreements, and in standard errors."""
        covariances, m = self.covariances, self.covariances.n_workers
        surplus, expected = self._surplus(factor)
        sums, outside = np.zeros((3, m)), np.zeros(m)
        terms = (surplus, 1 - expected, expected * (1 - expected))
        for own, other in (covariances.pairs.T, covariances.pairs.T[::-1]):
            theirs = np.where(group[other], covariances.overlap, 0.0)
            np.add.at(outside, own, covariances.overlap - theirs)
            for total, term in zip(sums, terms, strict=True):
                np.add.at(total, own, theirs * term)
        # Workers who share next to nothing with workers outside the group have no expectation.
        sums[0, outside < _OUTSIDE * self.rank] = 0.0
        tiny = np.finfo(float).tiny
        return sums[0] / np.maximum(sums[1], tiny), sums[0] / np.sqrt(np.maximum(sums[2], tiny))
