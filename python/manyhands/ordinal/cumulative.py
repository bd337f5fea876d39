"""Ordered classes as binary questions: which of them it is above."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._priors import class_pseudo, gold_codes
from manyhands.categorical.base import ClassFit
from manyhands.categorical.hierarchical import check_passes
from manyhands.categorical.table import Annotations
from manyhands.ordinal.decisions import DECISIONS, DecidedFit, Ordinal, order_remarks


class AsksInTurn(Ordinal):
    """Base of methods that ask in turn whether a class is above each of the others."""

    def __init__(
        self,
        *,
        decision: str = "median",
        gold: Any = None,
        protected: int = 20,
        max_iter: int = 5,
        tol: float = 1e-6,
    ) -> None:
        self.decision = decision
        self.gold = gold
        self.protected = protected
        self.max_iter = max_iter
        self.tol = tol

    def _iterations(self) -> int | None:
        return None  # known when the classes are

    def _checked(self, votes: Annotations) -> npt.NDArray[np.int32] | None:
        """Check parameters, and return the known classes by their codes."""
        check_choice("decision", self.decision, DECISIONS)
        check_passes(self.protected, self.max_iter, self.tol)
        return None if self.gold is None else gold_codes(votes, self.gold)


@dataclass(frozen=True, kw_only=True)
class CumulativeFit(DecidedFit):
    """Confusion matrices, and class shares, of each question: below and above."""

    rates: Array = field(metadata=numbers("qm22"))
    above: Array = field(metadata=numbers("q2"))


class CumulativeDawidSkene(AsksInTurn):
    """Cumulative binary labels: one Dawid–Skene for each question "is the class above this one?".

    An ordered label answers n_classes - 1 binary questions. Each is a model of its own, in which a worker has a rate of
    right answers above the place and one below it, with Beta priors learned from the crowd
    (:class:`~manyhands.categorical.HierarchicalDawidSkene` of two classes). The probabilities of lying above a class
    must fall from class to class; where they do not, they are made to by isotonic regression, and their differences are
    the posterior.

    Parameters
    ----------
    decision
        ``"median"``, ``"mean"`` or ``"mode"``, as for :func:`manyhands.ordinal.decide`.
    gold
        Known classes of some tasks, as in :class:`~manyhands.DawidSkene`.
    protected, max_iter, tol
        Passes of each question, as in :class:`~manyhands.categorical.HierarchicalDawidSkene`.

    Notes
    -----
    ``confusion_`` has, for a task of class ``k``, differences of the rates with which a worker answers "above", made to
    fall likewise. ``predict_proba`` asks the questions again.

    Time: n_classes - 1 fits of two classes. Memory in addition to one of them: 8 bytes per task and class, 64 a worker
    and class.

    References
    ----------
    V. Raykar et al., "Learning from crowds", JMLR 11 (2010), section 5; E. Frank and M. Hall, "A simple approach to
    ordinal classification", ECML (2001).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[1, 1, 2], [3, 2, 3], [3, 3, 3], [2, 1, 2]], ordered=True)
    >>> mh.ordinal.CumulativeDawidSkene().fit(votes).labels_.tolist()
    [1, 3, 3, 2]
    """

    _fit_type: ClassVar[type[Fit]] = CumulativeFit

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        gold = self._checked(votes)
        fit = ask(votes.table, gold, self.protected, self.max_iter, self.tol, progress)
        return CumulativeFit.of(
            fit.posterior,
            fit.confusion,
            fit.prior,
            np.zeros(0),
            n_iter=fit.n_iter,
            remarks=order_remarks(votes),
            rates=fit.rates,
            above=fit.shares,
            decision=self.decision,
        )

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(CumulativeFit)
        return ask_again(table, [self._carried_over(rates, known) for rates in fit.rates], fit.above)


@dataclass(frozen=True)
class Asked:
    """Answers to all questions: what is above each class, and how workers answer."""

    #: Class posteriors, (n_tasks, n_classes).
    posterior: Array
    #: Confusion matrices of each question, (n_classes - 1, n_workers, 2, 2), below and above.
    rates: Array
    #: Shares of tasks below and above, (n_classes - 1, 2).
    shares: Array
    n_iter: int

    @property
    def prior(self) -> Array:
        """Shares of the classes."""
        row: Array = differences(np.concatenate([[1.0], self.shares[:, 1]])[None])[0]
        return row

    @property
    def confusion(self) -> Array:
        """Confusion matrices of all classes, of those of the questions."""
        questions, m = self.rates.shape[:2]
        k = questions + 1
        above = np.ones((m, k, k))
        for place in range(questions):
            for true in range(k):
                above[:, true, place + 1] = self.rates[place, :, int(true > place), 1]
        return differences(above.reshape(m * k, k)).reshape(m, k, k)


def ask(
    table: _core.Table,
    gold: npt.NDArray[np.int32] | None,
    protected: int,
    max_iter: int,
    tol: float,
    progress: Callback | None,
) -> Asked:
    """Fit a model for each question; `gold` are codes of classes, -1 where none is known."""
    k = table.n_classes
    above, n_iter = np.ones((table.n_tasks, k)), 0
    rates, shares = np.zeros((k - 1, table.n_workers, 2, 2)), np.zeros((k - 1, 2))
    for place in range(k - 1):
        (found,) = _core.hierarchy_fit(
            _question_table(table, place),
            [("crowd", None)],
            class_pseudo=class_pseudo(1.0, 2),
            gold=None if gold is None else np.where(gold < 0, -1, gold > place).astype(np.int32),
            protected=protected,
            max_iter=max_iter,
            tol=tol,
            progress=progress,
        )
        above[:, place + 1] = found["posterior"][:, 1]
        rates[place], shares[place] = found["confusion"], found["prior"]
        n_iter += found["n_iter"]
    return Asked(differences(above), rates, shares, max(n_iter, 1))


def ask_again(table: _core.Table, rates: list[Array], shares: Array) -> Array:
    """Class posteriors under what is known of workers and classes, for each question."""
    above = np.ones((table.n_tasks, len(shares) + 1))
    for place, (matrices, share) in enumerate(zip(rates, shares, strict=True)):
        above[:, place + 1] = posterior_under(_question_table(table, place), share, matrices)[:, 1]
    return differences(above)


def _question_table(table: _core.Table, place: int) -> _core.Table:
    """The table of answers to the question whether the class is above this one."""
    return table.recoded((np.arange(table.n_labels) > place).astype(np.uint16), 2, 2)


def differences(above: Array) -> Array:
    """Posteriors of classes, of the probabilities of lying at each or above: 1 first, and what must not rise then."""
    falling = np.concatenate([falling_rows(above), np.zeros((len(above), 1))], axis=1)
    rows: Array = falling[:, :-1] - falling[:, 1:]
    total: Array = rows / rows.sum(axis=1, keepdims=True)
    return total


def falling_rows(rows: Array) -> Array:
    """The nearest rows, by squares, that never rise: isotonic regression by its min-max formula, O(n · k²) time."""
    k = rows.shape[1]
    falling = np.full_like(rows, np.inf)
    for start in range(k):
        averages = np.cumsum(rows[:, start:], axis=1) / np.arange(1, k - start + 1)
        # A place takes the largest average over stretches that end there or later, and the least of these over starts.
        largest = np.maximum.accumulate(averages[:, ::-1], axis=1)[:, ::-1]
        falling[:, start:] = np.minimum(falling[:, start:], largest)
    return falling
