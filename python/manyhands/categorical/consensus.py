"""The default: structurally different models, averaged and calibrated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, codes, number, numbers
from manyhands._base.progress import Callback
from manyhands.categorical._calibration import (
    EVEN,
    best_correlation,
    discount,
    effective_votes,
    error_correlation,
    information,
)
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._posterior import as_posterior
from manyhands.categorical._priors import Told, class_pseudo, told
from manyhands.categorical._streamed import StreamedPosterior, solved
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.hierarchical import check_passes
from manyhands.categorical.shards.passes import Part
from manyhands.categorical.table import Annotations

#: The models that are averaged, by name: the prior that each learns of the crowd, and its strength where that is given.
MEMBERS: dict[str, tuple[str, float | None]] = {
    "hierarchical": ("crowd", None),
    "hierarchical-mace": ("spammer", None),
    "mace": ("spammer", float("inf")),
}

#: Imaginary tasks of known class that each member won: what holds weights together where few are known.
_PRIOR_TASKS = 10.0


@dataclass(frozen=True, kw_only=True)
class ConsensusFit(ClassFit):
    """The calibrated average of members, and what each of them learnt."""

    weights: Array = field(metadata=numbers("3"))
    #: What confidences were discounted with.
    correlation: float = field(metadata=number())
    #: Correlation of errors, and its standard error.
    estimate: Array = field(metadata=numbers("2", missing=True))
    #: Share of the probability that is spread evenly over classes.
    even: float = field(metadata=number())
    #: Information of each worker's answers.
    information: Array = field(metadata=numbers("m"))
    confusions: Array = field(metadata=numbers("3mkk"))
    priors: Array = field(metadata=numbers("3k"))
    #: The winner of each member, and how far members are from their average; None of a log on disk.
    answers: npt.NDArray[np.uint16] | None = field(metadata=codes("3n", "k", dtypes=(np.uint16,)))
    disagreement: Array | None = field(metadata=numbers("n"))

    @cached_property
    def of_tasks(self) -> tuple[npt.NDArray[np.uint16], Array]:
        """Answers and disagreement of members, read from shards where they must be."""
        if self.answers is None or self.disagreement is None:
            assert isinstance(self.posterior, Pooled)
            return self.posterior.members_of_tasks()
        return self.answers, self.disagreement

    def stored(self) -> ConsensusFit:
        """The fit with answers and disagreement of all tasks, for a file."""
        answers, disagreement = self.of_tasks
        return replace(self, answers=answers, disagreement=disagreement)

    def hierarchical(self) -> tuple[Array, Array] | None:
        """Class prior and confusion matrices of the first member."""
        return self.priors[0], self.confusions[0]


class Consensus(Aggregator, default=True):
    """The method to use when no other is named: three models that differ in structure, averaged and calibrated.

    No single model is right everywhere, and no criterion that can be computed without known classes finds the one that
    is. So the posteriors of three are averaged, each with priors learnt from the crowd and a protected start:
    `HierarchicalDawidSkene` (workers resemble the crowd), `HierarchicalMACE` (workers know or guess) and MACE itself
    (the same with infinite strength). A model with a fixed prior, such as `BayesianDawidSkene`, is not among them:
    where workers have few labels it only drew the average down.

    All of them take workers to err independently, and are overconfident where they do not, the more so the more votes a
    task has: hard tasks mislead everybody. So the average is calibrated as one does for correlated samples: the
    log-posterior of a task is divided by the design effect ``1 + discount_ · (v - 1)``. Here ``v`` is the number of
    votes, less what is lost where some inform more than others: (Σ I)² / Σ I², with I the information of a worker's
    answers. Then one part in a hundred is shared out evenly over the classes. None of this changes a label.

    Whether errors are correlated is told from the log itself: by pairs of workers who are right or wrong on the same
    tasks more often than their accuracies explain. ``correlation_`` is the estimate, ``correlation_error_`` its
    standard error; a log too small or too thin to tell has a large one. ``discount_`` is 0.5, which real crowds ask
    for, times the probability that errors are correlated at all, given the estimate and odds of three to one: near 0
    for independent workers, as simulated ones mostly are.

    Parameters
    ----------
    correlation
        Of the errors on one task, to discount confidences with; 0 for workers who are known to err independently. None
        to estimate it, or for what fits best where `gold` is given.
    gold
        Known classes of some tasks, as in :class:`DawidSkene`. They are fixed in all members. Members are also fitted
        without them, and judged by them: their weights become those of the most probable mixture (from equal weights,
        worth ten tasks each), and the correlation the one with the smallest log-loss.
    protected, max_iter, tol
        Passes of each member, as in :class:`HierarchicalDawidSkene`.

    Notes
    -----
    Time: three fits of at most twenty-five passes, each one to two times one of :class:`DawidSkene`; six with gold.
    Memory beside that of one fit: five arrays of (n_tasks, n_classes), and four of (n_workers, n_classes, n_classes).
    The estimate takes four to fourteen passes over the annotations; in logs of more than 262,144, over a part of the
    tasks with about so many, as if drawn at random but the same for logs of the same size.

    The estimate is the root of two estimating functions of a Gaussian copula with one factor: products of the residuals
    of two workers on a task, less their covariance, and residuals themselves, which find by how much everybody's
    accuracy is overstated. Classes are averaged over with their posterior under the correlation that is tried, and a
    task's own labels are taken out of the accuracies that it is judged by, so that nothing need be simulated.

    ``confusion_`` and ``prior_`` are averages over members. There is no objective.

    References
    ----------
    L. Kish, "Survey Sampling" (1965), for design effects.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 40, 4, labels_per_task=5, seed=1)
    >>> model = mh.aggregate(crowd.log)
    >>> model.members_
    ('hierarchical', 'hierarchical-mace', 'mace')
    >>> int(model.disagreement_.argmax()) in range(300)  # a task that a person should look at
    True
    """

    _fit_type: ClassVar[type[Fit]] = ConsensusFit

    def __init__(
        self,
        *,
        correlation: float | None = None,
        gold: Any = None,
        protected: int = 20,
        max_iter: int = 5,
        tol: float = 1e-4,
    ) -> None:
        self.correlation = correlation
        self.gold = gold
        self.protected = protected
        self.max_iter = max_iter
        self.tol = tol

    # ------------------------------------------------------------------------------------------------ results

    @property
    def members_(self) -> tuple[str, ...]:
        """Names of the models that were averaged."""
        self._fitted()
        return tuple(MEMBERS)

    @property
    def weights_(self) -> Array:
        """Weight of each member in the average, (n_members,); equal without known classes."""
        return self._fitted().fit_as(ConsensusFit).weights

    @property
    def correlation_(self) -> float:
        """Correlation of the errors on one task: estimated from the log, chosen by known classes, or as given."""
        return float(self._fitted().fit_as(ConsensusFit).estimate[0])

    @property
    def correlation_error_(self) -> float:
        """Standard error of `correlation_`: 0 where it was given, 1 where the log says nothing about it."""
        return float(self._fitted().fit_as(ConsensusFit).estimate[1])

    @property
    def discount_(self) -> float:
        """What confidences were discounted with: `correlation_`; if it was estimated, 0.5 times the chance of any."""
        return self._fitted().fit_as(ConsensusFit).correlation

    @property
    def disagreement_(self) -> Array:
        """How far members are from their average on each task, (n_tasks,): the mean total variation distance.

        0 where all give the same posterior; a task on which it is large is one that a person should look at.
        """
        return self._fitted().fit_as(ConsensusFit).of_tasks[1]

    @property
    def member_labels_(self) -> npt.NDArray[Any]:
        """The winning class of each task according to each member, by name, (n_members, n_tasks)."""
        now = self._fitted()
        return now.classes.values[now.fit_as(ConsensusFit).of_tasks[0]]

    def _averaged(self) -> list[tuple[float, Array, Array]]:
        fit = self._fitted().fit_as(ConsensusFit)
        return list(zip(fit.weights.tolist(), fit.priors, fit.confusions, strict=True))

    def _more_of_tasks(self) -> dict[str, Any]:
        return super()._more_of_tasks() | {"disagreement": self._fitted().fit_as(ConsensusFit).disagreement}

    # ---------------------------------------------------------------------------------------------------- fit

    def _iterations(self) -> int | None:
        return (self.protected + self.max_iter) * len(MEMBERS) * (1 if self.gold is None else 2)

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        if self.correlation is not None:
            check_number("correlation", self.correlation, least=0, most=1)
        check_passes(self.protected, self.max_iter, self.tol)
        known = told(votes, self.gold)
        counter = _Counter(progress)
        weights = np.full(len(MEMBERS), 1 / len(MEMBERS))
        estimate = None if self.correlation is None else (float(self.correlation), 0.0)
        if known.tasks is not None and known.classes is not None:
            judged = self._members(Told(votes.passes), counter)
            rows = np.stack([as_posterior(found["posterior"]).rows(known.tasks) for found in judged])
            weights = mixture_weights(rows[:, np.arange(len(known.tasks)), known.classes])
            if estimate is None:
                informs = information(_mixed(weights, [found["confusion"] for found in judged]))
                effective = effective_votes(votes.passes, informs, known.tasks)
                estimate = best_correlation(_mixed(weights, rows), effective, known.classes)
        return self._average(votes, known, self._members(known, counter), weights, estimate)

    def _needs_memory(self) -> str | None:
        return None

    def _members(self, known: Told, counter: _Counter) -> list[_core._HierarchyFit]:
        """Fits of all members, which share their start."""
        fits = _core.hierarchy_fit(
            known.held,
            list(MEMBERS.values()),
            class_pseudo=class_pseudo(1.0, known.held.n_classes),
            gold=known.gold,
            protected=self.protected,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=counter.next(),
        )
        return solved(known.held, fits)

    def _average(
        self,
        votes: Annotations,
        known: Told,
        members: list[_core._HierarchyFit],
        weights: Array,
        estimate: tuple[float, float] | None,
    ) -> ClassFit:
        used = None if estimate is None else estimate[0]
        if estimate is None:
            crowd = members[0]
            estimate = error_correlation(votes.passes, crowd["posterior"], crowd["prior"], crowd["alpha"])
            used = discount(*estimate)
        posteriors = [found["posterior"] for found in members]
        confusions = np.stack([found["confusion"] for found in members])
        priors = np.stack([found["prior"] for found in members])
        confusion, prior = _mixed(weights, confusions), _mixed(weights, priors)
        informs, correlation = information(confusion), float(used or 0.0)
        pooled: Array | Pooled
        answers: npt.NDArray[np.uint16] | None = None
        disagreement: Array | None = None
        if isinstance(posteriors[0], StreamedPosterior):
            pooled = Pooled(posteriors, weights, informs, correlation)  # type: ignore[arg-type]
        else:
            answers = np.stack([_core.winners(rows)[0] for rows in posteriors])
            pooled, disagreement = _pooled(posteriors, votes.table, weights, informs, correlation, EVEN)
            if known.tasks is not None:
                # Known is known, whatever the crowd says.
                pooled[known.tasks] = np.eye(pooled.shape[1])[known.classes]
        return ConsensusFit.of(
            pooled,
            confusion,
            prior,
            np.zeros(0),
            n_iter=sum(found["n_iter"] for found in members),
            weights=weights,
            correlation=correlation,
            estimate=np.array(estimate),
            even=EVEN,
            information=informs,
            confusions=confusions,
            priors=priors,
            answers=answers,
            disagreement=disagreement,
        )

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(ConsensusFit)
        posteriors = [
            posterior_under(table, prior, self._carried_over(rows, known))
            for rows, prior in zip(fit.confusions, fit.priors, strict=True)
        ]
        informs = self._carried_over(fit.information, known)
        return _pooled(posteriors, table, fit.weights, informs, fit.correlation, fit.even)[0]


def _pooled(
    posteriors: list[Array], table: _core.Table, weights: Array, informs: Array, correlation: float, even: float
) -> tuple[Array, Array]:
    """The calibrated average of members, and how far they are from it."""
    effective = table.effective_votes(informs)
    return _core.pool_posteriors(posteriors, weights, effective, correlation, even)


class Pooled(StreamedPosterior):
    """The calibrated average of members, a shard at a time."""

    def __init__(
        self, members: list[StreamedPosterior], weights: Array, informs: Array, correlation: float, even: float = EVEN
    ) -> None:
        super().__init__(members[0].shards)
        self._members, self._weights, self._informs = members, weights, informs
        self._correlation, self._even = correlation, even

    def _pool(self, part: Part) -> tuple[list[Array], Array, Array]:
        """Posteriors of the members, their calibrated average, and how far they are from the average."""
        rows = [member.of_part(part) for member in self._members]
        effective = part.shard.table().effective_votes(self._informs[part.shard.who()])
        pooled, distance = _core.pool_posteriors(rows, self._weights, effective, self._correlation, self._even)
        if part.gold is not None:
            known = part.gold >= 0
            pooled[known] = np.eye(pooled.shape[1])[part.gold[known]]
        return rows, pooled, distance

    def of_part(self, part: Part) -> Array:
        """Posteriors of the tasks of a shard, (n_tasks, n_classes)."""
        return self._pool(part)[1]

    def members_of_tasks(self) -> tuple[npt.NDArray[np.uint16], Array]:
        """The winner of each member, (n_members, n_tasks), and the mean distance from the average, (n_tasks,)."""
        self._check(2 * len(self._members) + 8, "answers of all members")

        def look(part: Part) -> tuple[npt.NDArray[np.uint16], Array]:
            rows, _, distance = self._pool(part)
            return np.stack([_core.winners(one)[0] for one in rows]), distance

        said, distances = zip(*self.shards.each(look), strict=True)
        return np.concatenate(said, axis=1), np.concatenate(distances)


class _Counter:
    """Passes of several fits on end, counted through."""

    def __init__(self, progress: Callback | None) -> None:
        self._progress = progress
        self._before = self._last = 0

    def next(self) -> Callback | None:
        """Return what the next fit reports to."""
        if self._progress is None:
            return None
        self._before += self._last
        self._last = 0
        return self._report

    def _report(self, step: int, objective: float) -> None:
        self._last = step
        assert self._progress is not None
        self._progress(self._before + step, objective)


def _mixed(weights: Array, parts: Any) -> Array:
    """The weighted sum of what members found, along the first axis."""
    return np.tensordot(weights, np.asarray(parts), axes=1)


def mixture_weights(right: Array) -> Array:
    """Most probable weights of members that gave the known classes these probabilities, (n_members, n_gold)."""
    n_members = len(right)
    weights = np.full(n_members, 1 / n_members)
    for _ in range(100):
        shares = weights[:, None] * np.maximum(right, 1e-12)
        counts = (shares / shares.sum(axis=0)).sum(axis=1) + _PRIOR_TASKS
        weights = counts / counts.sum()
    return weights
