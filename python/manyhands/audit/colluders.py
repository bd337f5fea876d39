"""Colluders: workers who settle among themselves what they say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_between, check_choice, check_number, counted
from manyhands._base.estimator import Array
from manyhands._base.names import Names, sequence
from manyhands.audit._clusters import upper
from manyhands.audit._covariance import MOST_STEPS, Covariances, check_partners
from manyhands.audit._crowd import as_crowd
from manyhands.audit._reputation import PENALTIES, by_reputation
from manyhands.audit.result import Finding
from manyhands.audit.spammers import untellable
from manyhands.categorical.hierarchical import HierarchicalDawidSkene
from manyhands.categorical.table import Annotations
from manyhands.errors import argument

Mask = npt.NDArray[np.bool_]

#: How strongly factors are drawn to zero: by a task or so.
_RIDGE = 1.0
#: Rounds of reweighting, sweeps of each, and the standardised residual at which a pair counts half.
_ROUNDS, _SWEEPS, _ODD = 10, 30, 3.0
#: Change, as a share of the largest factor, at which a fit is good enough for a search.
_ROUGH = 1e-3
#: Share of what pairs have in common that a group's own pairs may hold for factors of all pairs to be a start.
_FEW = 0.01
#: Rounds in which those who agree too much with a group join it and the others leave.
_REFINEMENTS = 6
#: Colluders turn at least this share of the disagreements that their skills would lead to into agreements.
_AGREED = 0.3
#: How probable it may be that any one pair of independent workers agrees as much; so many standard errors at the least.
_CHANCE, _ERRORS = 0.01, 4.0
#: Answers shared with others, for each factor, without which nobody can be judged beside them.
_OUTSIDE = 10.0
#: Two who agree are copies of one another; a plot has three.
_FEWEST = 3
#: And so large a share of them on average.
_CONCERTED = 0.6
#: They say what the others make improbable in so many of their common tasks at the least.
_HARM = 0.05
#: Beginnings beside the two sides of the leading direction: groups of pairs that agree nearly always.
_BEGINNINGS = 4
#: Expected agreements are kept so far from 0 and 1.
_MARGIN = 0.02


@dataclass(frozen=True, eq=False, repr=False)
class Collusion(Finding):
    """Workers that collude, and the tasks on which they were noticed to; see :func:`colluders`."""

    #: All tasks of the table, and which of them were attacked, (n_tasks,).
    task_names: Names | None = None
    attacked: npt.NDArray[np.bool_] | None = None
    #: Whether colluders were searched for at all; see :func:`manyhands.audit.review`.
    searched: bool = True

    @property
    def tasks(self) -> npt.NDArray[Any]:
        """Names of the tasks on which colluders said what all others make improbable, in the order of the table."""
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
    max_partners: int | None = None,
    seed: int = 0,
) -> Collusion:
    """Find workers who settle among themselves what they say.

    The answers of workers who err independently agree as often as their skills lead to expect, and so do those of a
    colluder and anybody who is not in the plot; only colluders agree with each other beyond that. A group is sought
    whose pairs are left aside, such that all other pairs fit together.

    Parameters
    ----------
    votes
        The annotations.
    trusted
        A worker, or several, who do not collude. Without one the plotters are taken to be fewer than half of the
        workers; with one there may be more of them.
    method
        ``"covariance"``: the search above, over covariances of one-hot answers, which have rank K - 1 where workers err
        independently.
        ``"agreement"``: the same over rates of agreement, a number a pair, of rank K² at most (Traganitis and
        Giannakis), which needs many more than K² honest workers.
        ``"reputation"``: workers are charged with answers to tasks on which not all agree, low for those who say what
        many say; those of the upper of two clusters are found (Jagabathula et al.). For comparison: it finds the
        lonely, not the numerous.
    penalty
        How ``"reputation"`` charges workers. ``"soft"``: each such answer is shared by all who gave it, and the mean
        share is the penalty. ``"hard"``: one of them bears it, such that loads are as even as they can be (an optimal
        semi-matching), and the load is the penalty. Loads are unique but for one answer, which any of equals may bear;
        nobody is found where they differ by no more.
    improbable
        A task was attacked if two or more colluders agree on a label there, and no fewer than half of them do, that has
        at most this probability by the other workers' answers.
    max_partners
        Pairs of a worker with others than those of most common tasks, so many, are left aside. None for 256, or fewer
        of more than 2,000 workers, 32 at the least.
    seed
        Seed of the start of the factorisation.

    Returns
    -------
    Collusion
        Beside workers and remarks: ``tasks``, those that were attacked. Evidence: ``n_answers``; ``agreed``, the share
        of disagreements with the group that a worker's skills lead to expect which are agreements, and ``errors``, by
        how many standard errors it differs from none; for ``"reputation"`` the ``penalty``.

    Notes
    -----
    A robust fit, in which pairs of large residuals count little, gives beginnings: either side of the leading direction
    of what it leaves, and groups of workers who agree where disagreement was to be expected. From each, workers who
    agree too much with the group join and others leave, and the factors are fitted anew without the pairs within it.
    The group wins whose members turn most of their disagreements into agreements, three in five at least; of equals (to
    a tenth) the largest. Honest workers look like a group too if the plotters are taken for honest, though a looser one
    unless they hardly ever err. The group holds no trusted worker, and without one nobody is found if it holds half of
    the workers or more. Where errors are correlated because tasks are hard, all workers agree a little too much; that
    is no group; and nobody is found who says what the others make improbable in fewer than one in twenty of the tasks
    that two of the group answered. To find plotters it needs tasks that they share, three of them at least (two are
    :func:`manyhands.audit.copies`), and tasks that each shares with others: 10 (K - 1) answers of them. Who acts alone,
    or hardly ever, is not noticed.

    After it, let the plot count as one, ``GroupDawidSkene([found.workers]).fit(votes)``: who is nearly always wrong
    tells something too, above all with two classes. Or leave it out: ``DawidSkene().fit(votes.without(found))``.

    Time O(Σ n²) over tasks with n annotations once, and O(pairs · K³) for each of some hundred sweeps; memory 8 K²
    bytes a pair, at most 1 GB. ``"reputation"`` is O(annotations) where the penalty is soft. Where it is hard, that for
    each phase of a search for the shortest ways to hand answers on: some tens in practice, and at most √workers for
    each halving of the largest load; memory 8 bytes an annotation and 16 an answer.

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
    check_partners(max_partners)
    check_number("seed", seed, least=0, whole=True)
    table = as_crowd(votes).votes
    spared = _trusted(table, trusted)
    if reason := untellable(table):
        nobody = np.zeros(table.n_workers, np.bool_)
        return _collusion(table, nobody, {"n_answers": table.labels_per_worker}, (reason,), improbable)
    if method == "reputation":
        found, evidence, remarks = by_reputation(table, spared, penalty)
    else:
        found, evidence, remarks = _Search.of(table, method, max_partners, seed).run(spared)
    plot = _collusion(table, found, {"n_answers": table.labels_per_worker, **evidence}, remarks, improbable)
    return plot if method == "reputation" or _attacks(table, plot) else _harmless(plot)


def unless_slow(votes: Annotations) -> Collusion:
    """Search for colluders where that is quick; otherwise return a finding that says it was not done."""
    steps = Covariances.steps(votes)
    if steps <= MOST_STEPS:
        return colluders(votes)
    remark = (
        f"Colluders were not searched for: with {counted(votes.n_workers, 'worker')} and {votes.n_classes:,} classes "
        f"that may take minutes. Search with {argument('colluders', True)}, or merge classes that few answers have."
    )
    nobody = np.zeros(votes.n_workers, np.bool_)
    found = _collusion(votes, nobody, {"n_answers": votes.labels_per_worker}, (remark,), improbable=0.0)
    return replace(found, searched=False)


def _attacks(votes: Annotations, plot: Collusion) -> bool:
    """Whether the workers found say what the others make improbable, in a share of their common tasks that shows."""
    assert plot.attacked is not None
    tasks, workers, _ = votes.codes()
    common = np.bincount(tasks[plot.found[workers]], minlength=votes.n_tasks) >= 2
    return bool(plot.attacked.sum() >= _HARM * common.sum())


def _harmless(plot: Collusion) -> Collusion:
    """Nobody, and a remark: who agrees with the others as well has not settled anything against them."""
    remark = (
        f"{counted(len(plot), 'worker')} agree with each other more than their skills explain, but hardly ever on what "
        "the others make improbable: they saw tasks of another kind, or do no harm. Nobody is found."
    )
    assert plot.attacked is not None
    nobody, none = np.zeros_like(plot.found), np.zeros_like(plot.attacked)
    return replace(plot, found=nobody, attacked=none, remarks=(*plot.remarks, remark))


def _trusted(votes: Annotations, trusted: Any) -> Mask:
    """Mark the workers who are trusted; a single name or several."""
    spared = np.zeros(votes.n_workers, np.bool_)
    if trusted is None:
        return spared
    several = isinstance(trusted, list | tuple | set | frozenset | np.ndarray) and np.ndim(list(trusted)) == 1
    codes = votes._workers.match(sequence(trusted if several else [trusted], "trusted"))
    if (codes < 0).any() or not len(codes):
        raise KeyError(f"the trusted worker is not in the log: {trusted!r}; name one of its workers, or leave it out")
    spared[codes] = True
    return spared


def _collusion(
    votes: Annotations,
    found: Mask,
    evidence: dict[str, npt.NDArray[Any]],
    remarks: tuple[str, ...],
    improbable: float,
) -> Collusion:
    attacked = _attacked(votes, found, improbable)
    return Collusion("colluder", votes._workers, found, evidence, remarks, votes._tasks, attacked)


def _attacked(votes: Annotations, found: Mask, improbable: float) -> Mask:
    """Tasks where two or more colluders, and half of them there, say what the others make improbable."""
    attacked = np.zeros(votes.n_tasks, np.bool_)
    if found.sum() < 2 or found.all():
        return attacked
    rest = votes.without(found)
    fit = HierarchicalDawidSkene()._fit(rest, None)
    believed = np.ones((votes.n_tasks, votes.n_classes))
    believed[votes._tasks.match(rest._tasks)] = fit.posterior.dense()
    tasks, workers, labels = votes.codes()
    theirs = found[workers]
    said = np.zeros((votes.n_tasks, votes.n_classes))
    np.add.at(said, (tasks[theirs], labels[theirs]), 1.0)
    total = said.sum(axis=1, keepdims=True)
    agreed = (said >= 2) & (2 * said >= total)
    return np.asarray((agreed & (believed <= improbable)).any(axis=1))


@dataclass(frozen=True)
class _Explained:
    """A group of workers whose pairs are left aside, and how much each worker agrees with it beyond expectation."""

    group: Mask
    #: The factors that fit all other pairs.
    factor: Array
    agreed: Array
    errors: Array

    @property
    def concert(self) -> float:
        """How much a group acts together. Honest workers seen from the wrong side do so too, but less."""
        return float(self.agreed[self.group].mean()) if self.group.sum() >= _FEWEST else 0.0


@dataclass(frozen=True)
class _Search:
    """The search for a group of workers without whose own pairs all others fit together."""

    covariances: Covariances
    #: Number of factors, the scale of a block's entries, and the seed of the start.
    rank: int
    variance: Array
    #: Rate at which each pair agrees, and at which it would if both answered regardless of the task.
    rate: Array
    chance: Array
    seed: int

    @classmethod
    def of(cls, votes: Annotations, method: str, max_partners: int | None, seed: int) -> _Search:
        found = Covariances.of(votes, max_partners)
        first, second = found.pairs.T
        chance = np.einsum("pk,pk->p", found.shares[first], found.shares[second])
        rate = np.einsum("pkk->p", found.blocks) + chance
        if method == "agreement":
            blocks = np.ascontiguousarray(rate[:, None, None])
            alone = Covariances(found.n_workers, np.ones((found.n_workers, 1)), found.pairs, found.overlap, blocks)
            return cls(alone, votes.n_classes**2, np.maximum(rate * (1 - rate), _MARGIN), rate, 0 * chance, seed)
        spread = (found.shares * (1 - found.shares)).sum(axis=1)
        variance = np.maximum(spread[first] * spread[second], _MARGIN**2)
        return cls(found, max(votes.n_classes - 1, 1), variance, rate, chance, seed)

    def run(self, spared: Mask) -> tuple[Mask, dict[str, npt.NDArray[Any]], tuple[str, ...]]:
        known = self.covariances.partnered
        nobody = self._nobody()
        beginnings = self._beginnings(nobody.factor) if known.any() else []
        tried = [self._explain(group, nobody) for group in beginnings]
        tried = [one for one in tried if one.concert > _CONCERTED and not (one.group & spared).any()]
        best = max(tried, key=lambda one: (round(one.concert, 1), one.group.sum()), default=nobody)
        remarks = []
        if not known.all():
            alone = counted(int((~known).sum()), "worker")
            remarks.append(f"{alone} shared fewer than two tasks with any other, and cannot be told.")
        if not spared.any() and 2 * best.group.sum() >= known.sum():
            size = counted(int(best.group.sum()), "worker")
            remarks.append(
                f"The answers fit together best if {size} colluded, which is half of them or more: either these or the "
                "others say what they settled on, and which cannot be told. Nobody is found; name a trusted worker."
            )
            best = nobody
        evidence = {"agreed": np.where(known, best.agreed, np.nan), "errors": np.where(known, best.errors, np.nan)}
        return best.group, evidence, tuple(remarks)

    @property
    def beyond_chance(self) -> float:
        """Standard errors that none of so many pairs reaches by chance."""
        from statistics import NormalDist  # slow to import, and needed here only

        return max(_ERRORS, NormalDist().inv_cdf(1 - _CHANCE / max(len(self.rate), 1)))

    # ------------------------------------------------------------------------------------------------- beginnings

    def _beginnings(self, plain: Array) -> list[Mask]:
        """Groups to begin from, given the factors that fit all pairs."""
        factor = self._robust(plain)
        excess, weight = self._excess(factor)
        side = upper(self._leading(excess, weight))
        sure = (excess > 0.5) & (excess * np.sqrt(weight) > self.beyond_chance)
        # Whatever the factors say: pairs who never differ, where others would have some times.
        overlap = self.covariances.overlap
        usual = float(np.average(self.rate, weights=overlap))
        alike = (self.rate > 1 - _MARGIN) & (overlap * (1 - usual) > _ERRORS)
        return [side, ~side, *self._cliques(sure), *self._cliques(alike)]

    def _robust(self, factor: Array) -> Array:
        """Factors that large residuals do not sway, from those that fit all pairs alike."""
        for _ in range(_ROUNDS - 1):
            norm = self._residuals(factor)[:, 1]
            odd = norm * self.covariances.overlap / self.variance
            weights = self.covariances.overlap / (1 + odd / max(_ODD**2, 4 * float(np.median(odd))))
            factor = self.covariances.factor(factor, _RIDGE, weights, _SWEEPS, _ROUGH)
        return factor

    def _residuals(self, factor: Array) -> Array:
        return _core.low_rank_residuals(self.covariances.pairs, self.covariances.blocks, factor)

    def _excess(self, factor: Array) -> tuple[Array, Array]:
        """Share of each pair's expected disagreements that are agreements, and the number of the former."""
        surplus, expected = self._surplus(factor)
        return surplus / (1 - expected), self.covariances.overlap * (1 - expected)

    def _surplus(self, factor: Array) -> tuple[Array, Array]:
        """How much oftener than expected each pair agrees, and the rate that was expected, kept from 0 and 1.

        Where all are expected to agree, and do, nothing is left over, whatever the rate is kept from.
        """
        expected = np.clip(self.rate - self._residuals(factor)[:, 0], 0.0, 1.0)
        return self.rate - expected, np.clip(expected, _MARGIN, 1 - _MARGIN)

    def _leading(self, excess: Array, weight: Array) -> Array:
        """Leading direction of the excess agreement, by power iteration over the pairs."""
        (first, second), m = self.covariances.pairs.T, self.covariances.n_workers
        total = np.bincount(first, weight, minlength=m) + np.bincount(second, weight, minlength=m)
        scale = 1 / np.sqrt(np.maximum(total, np.finfo(float).tiny))
        entries = excess * weight * scale[first] * scale[second]
        # The shift keeps the iteration from the most negative direction.
        vector = np.sqrt(total) + 1e-3 * np.random.default_rng(self.seed).standard_normal(m) * np.sqrt(total)
        for _ in range(100):
            step = np.bincount(first, entries * vector[second], minlength=m)
            step += np.bincount(second, entries * vector[first], minlength=m) + vector
            vector = step / max(float(np.sqrt(step @ step)), np.finfo(float).tiny)
        found: Array = vector * scale
        return found if found @ total >= 0 else -found

    def _cliques(self, sure: Mask) -> list[Mask]:
        """Groups of workers linked by pairs who surely agree too much, the largest first."""
        linked = self.covariances.pairs[sure]
        if not len(linked):
            return []
        number = _core.components(self.covariances.n_workers, np.ascontiguousarray(linked))
        sizes = np.bincount(number)
        largest = np.argsort(-sizes, kind="stable")[:_BEGINNINGS]
        return [number == i for i in largest.tolist() if sizes[i] > 1]

    # -------------------------------------------------------------------------------------------------- refinement

    def _nobody(self) -> _Explained:
        """What is left where no pair is left aside."""
        group = np.zeros(self.covariances.n_workers, np.bool_)
        start = self.covariances.start(self.rank, self.seed)
        factor = self.covariances.factor(start, _RIDGE, None, 2 * _SWEEPS, _ROUGH)
        return _Explained(group, factor, *self._membership(factor, group))

    def _explain(self, group: Mask, nobody: _Explained) -> _Explained:
        """Fit all pairs but those within a group, which changes until it holds who agrees too much with it.

        Where nobody is left, the answer is that for `nobody`.
        """
        covariances, start = self.covariances, self.covariances.start(self.rank, self.seed)
        first, second = covariances.pairs.T
        for turn in range(_REFINEMENTS):
            within = group[first] & group[second]
            if within.all() or not group.any():
                return nobody
            weights = np.where(within, 0.0, covariances.overlap)
            # Without few of the pairs the factors are nearly those of all; without many they may be others altogether.
            few = covariances.overlap[within].sum() <= _FEW * covariances.overlap.sum()
            factor = covariances.factor(nobody.factor if few else start, _RIDGE, weights, 2 * _SWEEPS, _ROUGH)
            agreed, errors = self._membership(factor, group)
            joined = (agreed > _AGREED) & (errors > self.beyond_chance)
            if (joined == group).all() or turn == _REFINEMENTS - 1:
                break
            group = joined
        return _Explained(group, factor, agreed, errors)

    def _membership(self, factor: Array, group: Mask) -> tuple[Array, Array]:
        """How much each worker agrees with a group beyond expectation: as a share of disagreements, and in errors."""
        covariances, m = self.covariances, self.covariances.n_workers
        surplus, expected = self._surplus(factor)
        sums, outside = np.zeros((3, m)), np.zeros(m)
        terms = (surplus, 1 - expected, expected * (1 - expected))
        for own, other in (covariances.pairs.T, covariances.pairs.T[::-1]):
            theirs = np.where(group[other], covariances.overlap, 0.0)
            np.add.at(outside, own, covariances.overlap - theirs)
            for total, term in zip(sums, terms, strict=True):
                np.add.at(total, own, theirs * term)
        # Nothing is expected of somebody who shares next to nothing with anybody outside.
        sums[0, outside < _OUTSIDE * self.rank] = 0.0
        tiny = np.finfo(float).tiny
        return sums[0] / np.maximum(sums[1], tiny), sums[0] / np.sqrt(np.maximum(sums[2], tiny))
