"""The default for ordered classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, distributions, number, numbers, part
from manyhands._base.progress import Callback
from manyhands.categorical._calibration import EVEN, calibrate, information
from manyhands.categorical._passes import expected_counts, posterior_under
from manyhands.categorical._posterior import DensePosterior, Posterior, Winners, as_posterior
from manyhands.categorical._priors import class_pseudo, with_gold
from manyhands.categorical.anchoring import n_votes
from manyhands.categorical.base import ClassFit
from manyhands.categorical.consensus import vote_weight
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
from manyhands.categorical.table import Annotations
from manyhands.ordinal.cumulative import ask, ask_again
from manyhands.ordinal.decisions import DECISIONS, DecidedFit, Ordinal, decide_codes, order_remarks

#: Strengths with which rows keep to a worker's thresholds in two of the three models, None for one that is learned.
STRENGTHS = (None, float("inf"))
#: The share of the discount of `Consensus` that is left where workers are not a panel: ordered models are less sure.
_SHARE = 0.5
_TINY = 1e-300
#: Bounds of the ratio of probabilities of neighboring classes in the vote.
_RATIOS = (0.01, 0.9)


@dataclass(frozen=True)
class DiscountedPosterior(DensePosterior):
    """Discounted posteriors, and those before the discount, by which classes are decided on."""

    undiscounted: Array = field(metadata=distributions("nk"))


@dataclass(frozen=True)
class EqualGrades:
    """The vote as a part of the average: all workers err equally, and far mistakes are less probable."""

    #: Of the average.
    weight: float = field(metadata=number(least=0))
    #: How probable a class is, as a share of that of the next nearer one to the truth.
    ratio: float = field(metadata=number(least=0))

    @classmethod
    def of(cls, answers: Array, confusion: Array, prior: Array) -> EqualGrades:
        """The vote in a log with these numbers of answers per worker, with the crowd's mean distance from the truth."""
        total = float(answers.sum())
        distance = np.einsum("mkl,kl,k,m->", confusion, _distances(len(prior)), prior, answers) / max(total, 1e-9)
        ratio = (np.hypot(1.0, distance) - 1.0) / distance if distance > 0 else 0.0
        return cls(vote_weight(answers), float(np.clip(ratio, *_RATIOS)))

    def posterior(self, table: _core.Table) -> Array:
        """Posteriors of the tasks of a table, where all classes are equally frequent."""
        k = table.n_classes
        rows = self.ratio ** _distances(k)
        rows /= rows.sum(axis=1, keepdims=True)
        return posterior_under(table, np.full(k, 1.0 / k), np.repeat(rows[None], table.n_workers, axis=0))

    def mixed(self, average: Array, table: _core.Table) -> Array:
        """The average of the models with the vote, for the tasks of a table."""
        return (1.0 - self.weight) * average + self.weight * self.posterior(table)


def _distances(k: int) -> Array:
    """Distances between classes, (n_classes, n_classes)."""
    codes = np.arange(float(k))
    return np.abs(codes[:, None] - codes)


@dataclass(frozen=True, kw_only=True)
class OrdinalConsensusFit(DecidedFit, AnchoredFit):
    """Ensemble: confusion matrices and class shares of two models, and those of each question of the third."""

    posterior: Posterior = field(metadata=part(DiscountedPosterior))
    confusions: Array = field(metadata=numbers("2mkk"))
    priors: Array = field(metadata=numbers("2k"))
    rates: Array = field(metadata=numbers("qm22"))
    above: Array = field(metadata=numbers("q2"))
    vote: EqualGrades = field(metadata=part(EqualGrades))
    #: Information of each worker's answers.
    information: Array = field(metadata=numbers("m"))
    #: Class shares and confusion matrices of workers who know of no order, for standard errors.
    plain_prior: Array = field(metadata=distributions("k"))
    plain_confusion: Array = field(metadata=distributions("mkk"))
    #: Share of the probability that is spread evenly over classes.
    even: float = field(metadata=number())

    def decide(self, posterior: Posterior) -> Winners:
        """The class of least expected loss of each task, before the discount, and its discounted probability."""
        if not isinstance(posterior, DiscountedPosterior):
            return super().decide(posterior)
        codes, is_tied = decide_codes(posterior.undiscounted, self.decision)
        confidence = np.take_along_axis(posterior.array, codes[:, None].astype(np.int64), axis=1)[:, 0]
        return Winners(codes, is_tied, confidence)

    def hierarchical(self) -> tuple[Array, Array] | None:
        """Class prior and confusion matrices of the model without an order."""
        return self.plain_prior, self.plain_confusion


class OrdinalConsensus(Anchored, Ordinal, default="ordinal"):
    """Default method for ordered classes: the average of three ordinal models, decided by the median.

    In two of them each worker has thresholds, shrunk to those of the crowd (:class:`OrdinalCrowd`): one also learns how
    far the rows of a worker's confusion matrix deviate from the thresholds, the other allows no deviation. The third
    treats each boundary between two classes as a binary question (:class:`CumulativeDawidSkene`), without a common
    scale. Which is best differs from log to log, no criterion that can be computed without
    known classes predicts it, and their average is seldom far from the best one. In small logs the vote counts as well,
    as in :class:`~manyhands.Consensus`: a model in which all workers err equally, and large errors are less probable.

    Classes are decided from this average. Then it is discounted, since errors on a task are correlated: the
    log-posterior is divided by a design effect, as in :class:`~manyhands.Consensus`, with half of the discount there,
    or with all of it for a panel. A median after the discount would drift to the middle of the scale.

    Parameters
    ----------
    decision : str, default "median"
        ``"median"``, ``"mean"`` or ``"mode"``, as for :func:`manyhands.ordinal.decide`.
    gold
        Known classes of some tasks, as in :class:`~manyhands.Consensus`. They correct the answers to all other tasks.
    panel : bool or None, default None
        Whether all votes on a task count as one, because errors of the workers coincide, as those of LLM judges do.
        None to decide by the layout of the log, as in :class:`~manyhands.Consensus`.
    protected, max_iter, tol
        EM iterations of each model, as in :class:`~manyhands.categorical.HierarchicalDawidSkene`.

    Notes
    -----
    Time: two fits of :class:`OrdinalCrowd` and one of :class:`~manyhands.categorical.HierarchicalDawidSkene`, from
    which correlations are estimated, which share their start, and one of :class:`CumulativeDawidSkene`; with gold, as
    for :class:`~manyhands.Consensus`. Memory in addition to that of one: five arrays of (n_tasks, n_classes), and four
    of (n_workers, n_classes, n_classes). ``confusion_`` and ``prior_`` are averages over the three models.

    With gold, the corrected posterior is raised to the power of the design effect before the decision, so that without
    evidence from gold the decision is that of the average.

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"task": [1, 1, 1, 2, 2, 2], "worker": ["a", "b", "c"] * 2, "label": [1, 2, 2, 5, 4, 5]}
    >>> votes = mh.Annotations.from_frame(log, ordered=True)
    >>> model = mh.aggregate(votes)
    >>> type(model).__name__, model.labels_.tolist()
    ('OrdinalConsensus', [2, 5])
    """

    _fit_type: ClassVar[type[Fit]] = OrdinalConsensusFit

    def __init__(
        self,
        *,
        decision: str = "median",
        gold: Any = None,
        panel: bool | None = None,
        protected: int = 20,
        max_iter: int = 5,
        tol: float = 1e-6,
    ) -> None:
        self.decision = decision
        self.gold = gold
        self.panel = panel
        self.protected = protected
        self.max_iter = max_iter
        self.tol = tol

    @property
    def undiscounted_(self) -> Array:
        """Class posterior of each task before the discount, (n_tasks, n_classes): what classes are decided on by."""
        posterior = self._fitted().fit.posterior
        assert isinstance(posterior, DiscountedPosterior)
        return posterior.undiscounted

    def _iterations(self) -> int | None:
        return None  # known when the classes are

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_choice("decision", self.decision, DECISIONS)
        check_panel(self.panel, None)
        check_passes(self.protected, self.max_iter, self.tol)
        gold_part = with_gold(votes, self.gold)
        plain, *ordered = _core.hierarchy_fit(
            votes.table,
            [("crowd", None), *(("ordered", strength) for strength in STRENGTHS)],
            class_pseudo=class_pseudo(1.0, votes.n_classes),
            protected=self.protected,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        thresholds = ask(votes.table, None, self.protected, self.max_iter, self.tol, progress)
        confusions = np.stack([fit["confusion"] for fit in ordered])
        priors = np.stack([fit["prior"] for fit in ordered])
        confusion, prior = _average([*confusions, thresholds.confusion]), _average([*priors, thresholds.prior])
        average = _average([*(fit["posterior"] for fit in ordered), thresholds.posterior])
        counts = expected_counts(votes.passes, plain["posterior"])
        vote = EqualGrades.of(counts.sum(axis=(1, 2)), confusion, prior)
        average = vote.mixed(average, votes.table)
        crowd = (plain["posterior"], plain["prior"], plain["alpha"], counts)
        dependence = settle_dependence(votes, self.panel, None, crowd)
        informs = information(confusion)
        effective = votes.table.effective_votes(informs)
        less = _less_discounted(dependence)
        default = calibrate(average, effective, less.discount, EVEN)
        anchor, contradictions = learnt_from(gold_part, votes, as_posterior(default), confusion, prior, dependence)
        if anchor is None:
            rows = default
        else:
            rows = anchor.posterior(votes.table, default, n_votes(votes.table))
            average = sharpen(rows, effective, less.discount, EVEN)
        if gold_part.tasks is not None and gold_part.classes is not None:
            rows[gold_part.tasks] = average[gold_part.tasks] = np.eye(rows.shape[1])[gold_part.classes]
        return OrdinalConsensusFit.of(
            DiscountedPosterior(rows, average),
            confusion,
            prior,
            np.zeros(0),
            n_iter=sum(fit["n_iter"] for fit in ordered) + thresholds.n_iter,
            remarks=order_remarks(votes),
            dependence=less,
            agreement=agreement_of(gold_part, rows),
            anchor=anchor,
            contradictions=contradictions,
            confusions=confusions,
            priors=priors,
            rates=thresholds.rates,
            above=thresholds.shares,
            vote=vote,
            information=informs,
            plain_prior=plain["prior"],
            plain_confusion=plain["confusion"],
            even=EVEN,
            decision=self.decision,
        )

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Posterior:
        fit = self._fitted().fit_as(OrdinalConsensusFit)
        models = zip(fit.confusions, fit.priors, strict=True)
        posteriors = [posterior_under(table, prior, self._carried_over(rows, known)) for rows, prior in models]
        rates = [self._carried_over(rates, known) for rates in fit.rates]
        average = fit.vote.mixed(_average([*posteriors, ask_again(table, rates, fit.above)]), table)
        effective, discount = table.effective_votes(self._carried_over(fit.information, known)), fit.dependence.discount
        rows = calibrate(average, effective, discount, fit.even)
        if fit.anchor is not None:
            anchor = fit.anchor.carried_over(known, self._n_labels)
            rows = anchor.posterior(table, rows, n_votes(table))
            average = sharpen(rows, effective, discount, fit.even)
        return DiscountedPosterior(rows, average)


def sharpen(posterior: Array, votes: Array, discount: float, even: float) -> Array:
    """Posteriors as they were before the discount by effective votes."""
    logs = np.log(np.maximum(posterior - even / posterior.shape[1], _TINY))
    logs *= (1.0 + discount * np.maximum(votes - 1.0, 0.0))[:, None]
    rows: Array = np.exp(logs - logs.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    return rows


def _less_discounted(dependence: Dependence) -> Dependence:
    """The same with a share of the discount where workers are not a panel."""
    if dependence.panel:
        return replace(dependence, otherwise=_SHARE * dependence.otherwise)
    return replace(dependence, discount=_SHARE * dependence.discount)


def _average(parts: list[Array]) -> Array:
    mean: Array = sum(parts[1:], start=parts[0]) / len(parts)
    return mean
