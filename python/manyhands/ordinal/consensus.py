"""The default for ordered classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._priors import class_pseudo
from manyhands.categorical.base import ClassFit
from manyhands.categorical.table import Annotations
from manyhands.ordinal.cumulative import AsksInTurn, ask, ask_again
from manyhands.ordinal.decisions import DecidedFit, order_remarks

#: Strengths with which rows keep to a worker's thresholds in two of the three models, None for one that is learned.
STRENGTHS = (None, float("inf"))


@dataclass(frozen=True, kw_only=True)
class OrdinalConsensusFit(DecidedFit):
    """Members: confusion matrices and class shares, and those of each question."""

    confusions: Array = field(metadata=numbers("2mkk"))
    priors: Array = field(metadata=numbers("2k"))
    rates: Array = field(metadata=numbers("qm22"))
    above: Array = field(metadata=numbers("q2"))


class OrdinalConsensus(AsksInTurn, default="ordinal"):
    """The method for ordered classes when no other is named: three ordered models, averaged, and a median decision.

    In two of them workers have thresholds of their own, which resemble the crowd's (:class:`OrdinalCrowd`): one learns
    how far rows of a worker's confusion matrix depart from what thresholds say, the other lets nothing depart. The
    third asks of each place between two classes whether the truth lies above it (:class:`CumulativeDawidSkene`), and
    knows of no scale that they share. Which is best differs from log to log, no criterion that can be computed without
    known classes tells, and their average is seldom far from the best one.

    Parameters
    ----------
    decision
        ``"median"``, ``"mean"`` or ``"mode"``, as for :func:`manyhands.ordinal.decide`.
    gold
        Known classes of some tasks, as in :class:`~manyhands.DawidSkene`: fixed in all members.
    protected, max_iter, tol
        Passes of each member, as in :class:`~manyhands.categorical.HierarchicalDawidSkene`.

    Notes
    -----
    Time: two fits of :class:`OrdinalCrowd`, which share their start, and one of :class:`CumulativeDawidSkene`. Memory
    next to that of one: two arrays of (n_tasks, n_classes), and three of (n_workers, n_classes, n_classes).
    ``confusion_`` and ``prior_`` are averages over members.

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

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        gold = self._checked(votes)
        members = _core.hierarchy_fit(
            votes.table,
            [("ordered", strength) for strength in STRENGTHS],
            class_pseudo=class_pseudo(1.0, votes.n_classes),
            gold=gold,
            protected=self.protected,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        asked = ask(votes.table, gold, self.protected, self.max_iter, self.tol, progress)
        confusions = np.stack([found["confusion"] for found in members])
        priors = np.stack([found["prior"] for found in members])
        return OrdinalConsensusFit.of(
            _average([*(found["posterior"] for found in members), asked.posterior]),
            _average([*confusions, asked.confusion]),
            _average([*priors, asked.prior]),
            np.zeros(0),
            n_iter=sum(found["n_iter"] for found in members) + asked.n_iter,
            remarks=order_remarks(votes),
            confusions=confusions,
            priors=priors,
            rates=asked.rates,
            above=asked.shares,
            decision=self.decision,
        )

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(OrdinalConsensusFit)
        members = zip(fit.confusions, fit.priors, strict=True)
        posteriors = [posterior_under(table, prior, self._carried_over(rows, known)) for rows, prior in members]
        rates = [self._carried_over(rates, known) for rates in fit.rates]
        return _average([*posteriors, ask_again(table, rates, fit.above)])


def _average(parts: list[Array]) -> Array:
    mean: Array = sum(parts[1:], start=parts[0]) / len(parts)
    return mean
