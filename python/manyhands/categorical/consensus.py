"""The default: structurally different models, averaged and calibrated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core, metrics
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, codes, number, numbers, part
from manyhands._base.progress import Callback
from manyhands.categorical._calibration import EVEN, information
from manyhands.categorical._passes import expected_counts, posterior_under
from manyhands.categorical._posterior import as_posterior
from manyhands.categorical._priors import Told, class_pseudo, with_gold
from manyhands.categorical._streamed import StreamedPosterior, solve
from manyhands.categorical.anchoring import Anchor, n_votes
from manyhands.categorical.base import ClassFit
from manyhands.categorical.hierarchical import check_passes
from manyhands.categorical.panels import (
    Anchored,
    AnchoredFit,
    Dependence,
    agreement_of,
    check_panel,
    learnt_from,
    settle_dependence,
)
from manyhands.categorical.shards.passes import Part, Sharded
from manyhands.categorical.table import Annotations

#: The models that are averaged, by name: the prior that each learns of the crowd, and its strength where that is given.
MEMBERS: dict[str, tuple[str, float | None]] = {
    "hierarchical": ("crowd", None),
    "hierarchical-mace": ("spammer", None),
    "mace": ("spammer", float("inf")),
}
#: Answers per worker at which half of the weight is left to the vote: a share of right answers then has about the
#: standard error of 0.1 by which workers differ in most crowds.
HALF_AT = 20.0
#: Bounds of the accuracy that the vote takes all workers to have: next to guessing, and next to certain.
_LEAST_KNOWLEDGE, _MOST_ACCURACY = 0.01, 0.99


def vote_weight(answers: Array) -> float:
    """Weight of the vote in the average, in a log with these numbers of answers per worker.

    The estimates of a worker are as good as the number of answers they rest on. Seen from an answer, its worker has
    Σ n² / Σ n of them.
    """
    total = answers.sum()
    per_answer = float(answers @ (answers / total)) if total > 0 else 0.0
    return 1.0 / (1.0 + (per_answer / HALF_AT) ** 2)


@dataclass(frozen=True)
class EqualVote:
    """The vote as a member of the average: a model in which all workers have the same accuracy."""

    #: Of the average.
    weight: float = field(metadata=number(least=0))
    accuracy: float = field(metadata=number(least=0))

    @classmethod
    def of(cls, answers: Array, confusion: Array, prior: Array) -> EqualVote:
        """The vote in a log with these numbers of answers per worker."""
        total = answers.sum()
        least = _LEAST_KNOWLEDGE + (1.0 - _LEAST_KNOWLEDGE) / len(prior)
        accuracy = float(answers @ metrics.skill(confusion, prior) / total) if total > 0 else least
        return cls(vote_weight(answers), float(np.clip(accuracy, least, max(least, _MOST_ACCURACY))))

    def model(self, n_workers: int, n_classes: int) -> tuple[Array, Array]:
        """Class prior and confusion matrices of the workers."""
        rest = (1.0 - self.accuracy) / max(n_classes - 1, 1)
        coin = np.where(np.eye(n_classes, dtype=bool), self.accuracy if n_classes > 1 else 1.0, rest)
        return np.full(n_classes, 1.0 / n_classes), np.broadcast_to(coin, (n_workers, n_classes, n_classes))

    def posterior(self, table: _core.Table) -> Array:
        """Posteriors of the tasks of a table."""
        prior, confusion = self.model(table.n_workers, table.n_classes)
        return posterior_under(table, prior, np.ascontiguousarray(confusion))

    def weights(self) -> Array:
        """Weights of the ensemble, the vote last."""
        return np.array([*[(1.0 - self.weight) / len(MEMBERS)] * len(MEMBERS), self.weight])


@dataclass(frozen=True, kw_only=True)
class ConsensusFit(AnchoredFit):
    """The calibrated average of the ensemble, and what each of them learned."""

    #: Share of the probability that is spread evenly over classes.
    even: float = field(metadata=number())
    #: Information of each worker's answers.
    information: Array = field(metadata=numbers("m"))
    confusions: Array = field(metadata=numbers("3mkk"))
    priors: Array = field(metadata=numbers("3k"))
    vote: EqualVote = field(metadata=part(EqualVote))
    #: The winner of each member, and how far members are from their average; None of a log on disk.
    answers: npt.NDArray[np.uint16] | None = field(metadata=codes("4n", "k", dtypes=(np.uint16,)))
    disagreement: Array | None = field(metadata=numbers("n"))

    @cached_property
    def of_tasks(self) -> tuple[npt.NDArray[np.uint16], Array]:
        """Answers and disagreement of the ensemble, read from shards where they must be."""
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


class Consensus(Anchored, default=True):
    """Default method for classes: a calibrated average of models that differ in structure.

    No single model is right everywhere, and no criterion that can be computed without known classes finds the one that
    is. So the posteriors of three are averaged, each with priors learned from the crowd and a constrained
    initialization: `HierarchicalDawidSkene` (workers resemble the crowd), `HierarchicalMACE` (workers know or guess)
    and MACE itself (the same with infinite strength). A model with a fixed prior, such as `BayesianDawidSkene`, is not
    among them: where workers have few labels it only drew the average down.

    The fourth is the vote: a model in which all workers are equally accurate, the best one in small logs. Its
    weight is ``1 / (1 + (n / 20)²)``, with n the number of answers by the worker of an average answer, and the three
    models share the rest: 0.8 at 10 answers per worker, 0.04 at 100.

    All of them assume that workers err independently. Where they do not, because hard tasks mislead all workers, the
    models are overconfident, more so with more votes per task. So the average is calibrated as for correlated samples:
    the log-posterior of a task is divided by the design effect ``1 + discount_ · (v - 1)``. Here ``v`` is the number of
    votes, less what is lost where some inform more than others: (Σ I)² / Σ I², with I the information of a worker's
    answers. Finally, 1 % of the probability is spread evenly over the classes. None of this changes a label.

    Whether errors are correlated is estimated from the log: from pairs of workers who are right or wrong on the same
    tasks more often than their accuracies explain. ``correlation_`` is the estimate, ``correlation_error_`` its
    standard error, which is large where the log is too small or too thin. ``discount_`` is 0.5, the value that fits
    real crowds, times the probability that errors are correlated at all, given the estimate and prior odds of three to
    one: near 0 for independent workers, as in most simulations.

    In a panel, the same few annotators answer most tasks and share their blind spots, as LLM judges do. All their votes
    on a task then count as one: ``discount_`` is 1. See `panel`.

    Known classes correct the answers of all other tasks; 20 to 300 are enough. They are not clamped inside the EM
    iterations, as in :class:`DawidSkene`, because thousands of unlabeled votes outweigh them there.

    Parameters
    ----------
    correlation : float or None, default None
        Of the errors on one task, to discount confidences with; 0 for workers who are known to err independently. None
        to estimate it.
    gold
        Known classes of some tasks: a mapping from task to class, a pair of arrays, a frame with the columns ``task``
        and ``label``, an :class:`~manyhands.Annotations` table, or the path of a CSV or Parquet file. A random sample
        of the tasks is best. The effect grows with their number, up to 20. Gold labels of a single class correct no
        other answer (with a :class:`~manyhands.errors.GoldWarning`).
    panel : bool or None, default None
        Whether all votes on a task count as one, because errors of the workers coincide. None to decide by the layout
        of the log: at most 30 workers with at least half of all possible answers. From six workers on, the estimated
        correlation must also be 0.1 or more; logs of fewer workers seldom show that errors are independent.
    protected, max_iter, tol
        Passes of each member, as in :class:`HierarchicalDawidSkene`.

    Notes
    -----
    Time: three fits of at most twenty-five passes, each one to two times one of :class:`DawidSkene`. With gold, twelve
    ridge regressions on the votes of the known tasks (at most 2,000), 15 to 300 ms, and three passes over the log.
    Memory in addition to one fit: six arrays of (n_tasks, n_classes), and four of (n_workers, n_classes, n_classes),
    seven with gold.

    With gold, the log of the discounted posterior is one feature of a ridge regression, next to a weight for each
    worker and for each (worker, label, class); its prior states that the default is right. Two prior scales, confusion
    matrices from gold alone and the default are mixed with the weights that predict held-out gold labels best.

    The estimate takes four to fourteen passes over the annotations; in logs of more than 262,144, over a part of the
    tasks with about that number, as if drawn at random but the same for logs of the same size.

    The estimate is the root of two estimating functions of a Gaussian copula with one factor: products of the residuals
    of two workers on a task, less their covariance, and residuals themselves, which find by how much all workers'
    accuracy is overstated. Classes are averaged over with their posterior under the correlation that is tried, and a
    task's own labels are taken out of the accuracies that it is judged by, so that nothing need be simulated.

    ``confusion_`` and ``prior_`` are averages over the first three models. There is no objective.

    References
    ----------
    L. Kish, "Survey Sampling" (1965), for design effects. D. H. Wolpert, "Stacked generalization" (1992).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 40, 4, labels_per_task=5, seed=1)
    >>> model = mh.aggregate(crowd.log)
    >>> model.members_
    ('hierarchical', 'hierarchical-mace', 'mace', 'vote')
    >>> int(model.disagreement_.argmax()) in range(300)  # a task that a person should look at
    True
    """

    _fit_type: ClassVar[type[Fit]] = ConsensusFit

    def __init__(
        self,
        *,
        correlation: float | None = None,
        gold: Any = None,
        panel: bool | None = None,
        protected: int = 20,
        max_iter: int = 5,
        tol: float = 1e-4,
    ) -> None:
        self.correlation = correlation
        self.gold = gold
        self.panel = panel
        self.protected = protected
        self.max_iter = max_iter
        self.tol = tol

    # ------------------------------------------------------------------------------------------------ results

    @property
    def members_(self) -> tuple[str, ...]:
        """Names of the models that were averaged."""
        self._fitted()
        return (*MEMBERS, "vote")

    @property
    def member_weights_(self) -> dict[str, float]:
        """Weight of each model in the average, by name."""
        return dict(zip(self.members_, self._fitted().fit_as(ConsensusFit).vote.weights().tolist(), strict=True))

    @property
    def disagreement_(self) -> Array:
        """How far members are from their average on each task, (n_tasks,): the mean total variation distance.

        0 where all give the same posterior; members count by their weights. A task on which it is large is one that a
        person should look at.
        """
        return self._fitted().fit_as(ConsensusFit).of_tasks[1]

    @property
    def member_labels_(self) -> npt.NDArray[Any]:
        """The winning class of each task according to each member, by name, (n_members, n_tasks)."""
        now = self._fitted()
        return now.classes.values[now.fit_as(ConsensusFit).of_tasks[0]]

    def _averaged(self) -> list[tuple[float, Array, Array]]:
        fit = self._fitted().fit_as(ConsensusFit)
        prior, confusion = fit.vote.model(len(fit.information), fit.priors.shape[1])
        return list(zip(fit.vote.weights(), (*fit.priors, prior), (*fit.confusions, confusion), strict=True))

    def _more_of_tasks(self) -> dict[str, Any]:
        return super()._more_of_tasks() | {"disagreement": self._fitted().fit_as(ConsensusFit).disagreement}

    # ---------------------------------------------------------------------------------------------------- fit

    def _iterations(self) -> int | None:
        return (self.protected + self.max_iter) * len(MEMBERS)

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_panel(self.panel, self.correlation)
        check_passes(self.protected, self.max_iter, self.tol)
        gold_part = with_gold(votes, self.gold)
        members = solve(
            votes.passes,
            _core.hierarchy_fit(
                votes.passes,
                list(MEMBERS.values()),
                class_pseudo=class_pseudo(1.0, votes.n_classes),
                protected=self.protected,
                max_iter=self.max_iter,
                tol=self.tol,
                progress=progress,
            ),
        )
        first = members[0]
        counts = expected_counts(votes.passes, first["posterior"])
        crowd = (first["posterior"], first["prior"], first["alpha"], counts)
        dependence = settle_dependence(votes, self.panel, self.correlation, crowd)
        return self._average(votes, gold_part, members, counts.sum(axis=(1, 2)), dependence)

    def _needs_memory(self) -> str | None:
        return None

    def _average(
        self,
        votes: Annotations,
        known: Told,
        members: list[_core._HierarchyFit],
        answers_per_worker: Array,
        dependence: Dependence,
    ) -> ClassFit:
        posteriors = [member["posterior"] for member in members]
        confusions = np.stack([member["confusion"] for member in members])
        priors = np.stack([member["prior"] for member in members])
        confusion, prior = confusions.mean(axis=0), priors.mean(axis=0)
        informs, vote = information(confusion), EqualVote.of(answers_per_worker, confusion, prior)
        pooled: Array | Pooled
        answers: npt.NDArray[np.uint16] | None = None
        disagreement: Array | None = None
        if isinstance(posteriors[0], StreamedPosterior):
            pooled = Pooled(votes.passes, posteriors, vote, informs, dependence.discount)  # type: ignore[arg-type]
        else:
            posteriors.append(vote.posterior(votes.table))
            answers = np.stack([_core.winners(rows)[0] for rows in posteriors])
            pooled, disagreement = _pool_calibrated(posteriors, vote, votes.table, informs, dependence.discount)
        anchor, contradictions = learnt_from(known, votes, as_posterior(pooled), confusion, prior, dependence)
        if isinstance(pooled, Pooled):
            pooled = Pooled(known.held, posteriors, vote, informs, dependence.discount, anchor)  # type: ignore[arg-type]
        else:
            if anchor is not None:
                pooled = anchor.posterior(votes.table, pooled, n_votes(votes.table))
            if known.tasks is not None:
                # Known is known, regardless of the votes.
                pooled[known.tasks] = np.eye(pooled.shape[1])[known.classes]
        return ConsensusFit.of(
            pooled,
            confusion,
            prior,
            np.zeros(0),
            n_iter=sum(member["n_iter"] for member in members),
            dependence=dependence,
            agreement=agreement_of(known, pooled),
            anchor=anchor,
            contradictions=contradictions,
            even=EVEN,
            information=informs,
            confusions=confusions,
            priors=priors,
            vote=vote,
            answers=answers,
            disagreement=disagreement,
        )

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(ConsensusFit)
        posteriors = [
            posterior_under(table, prior, self._carried_over(rows, known))
            for rows, prior in zip(fit.confusions, fit.priors, strict=True)
        ]
        posteriors.append(fit.vote.posterior(table))
        informs = self._carried_over(fit.information, known)
        pooled = _pool_calibrated(posteriors, fit.vote, table, informs, fit.dependence.discount, fit.even)[0]
        if fit.anchor is None:
            return pooled
        return fit.anchor.carried_over(known, self._n_labels).posterior(table, pooled, n_votes(table))


def _pool_calibrated(
    posteriors: list[Array], vote: EqualVote, table: _core.Table, informs: Array, discount: float, even: float = EVEN
) -> tuple[Array, Array]:
    """The calibrated average of the ensemble, and how far they are from it."""
    return _core.pool_posteriors(posteriors, vote.weights(), table.effective_votes(informs), discount, even)


class Pooled(StreamedPosterior):
    """The calibrated average of the ensemble, corrected by known classes, a shard at a time."""

    def __init__(
        self,
        shards: Sharded,
        members: list[StreamedPosterior],
        vote: EqualVote,
        informs: Array,
        discount: float,
        anchor: Anchor | None = None,
    ) -> None:
        super().__init__(shards)
        self._members, self._vote, self._informs = members, vote, informs
        self._discount, self._anchor = discount, anchor

    def _pool(self, part: Part) -> tuple[list[Array], Array, Array]:
        """Posteriors of the ensemble, their corrected average, and how far they are from the average."""
        plain = part._replace(gold=None)
        table = part.shard.table()
        rows = [*(member.of_part(plain) for member in self._members), self._vote.posterior(table)]
        pooled, distance = _pool_calibrated(rows, self._vote, table, self._informs[part.shard.who()], self._discount)
        if self._anchor is not None:
            pooled = self._anchor.posterior(part.shard, pooled, n_votes(table))
        if part.gold is not None:
            has_gold = part.gold >= 0
            pooled[has_gold] = np.eye(pooled.shape[1])[part.gold[has_gold]]
        return rows, pooled, distance

    def of_part(self, part: Part) -> Array:
        """Posteriors of the tasks of a shard, (n_tasks, n_classes)."""
        return self._pool(part)[1]

    def members_of_tasks(self) -> tuple[npt.NDArray[np.uint16], Array]:
        """The winner of each member, (n_members, n_tasks), and the mean distance from the average, (n_tasks,)."""
        self._check(2 * (len(self._members) + 1) + 8, "answers of all members")

        def look(part: Part) -> tuple[npt.NDArray[np.uint16], Array]:
            rows, _, distance = self._pool(part)
            return np.stack([_core.winners(one)[0] for one in rows]), distance

        posteriors, distances = zip(*self.shards.each(look), strict=True)
        return np.concatenate(posteriors, axis=1), np.concatenate(distances)
