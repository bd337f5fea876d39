"""Dawid–Skene whose prior beliefs about workers are learned from the crowd itself (empirical Bayes)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number, check_stopping, check_strength
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, number, numbers
from manyhands._base.progress import Callback
from manyhands.categorical._priors import class_pseudo, with_gold
from manyhands.categorical._streamed import solve
from manyhands.categorical.base import Aggregator, ClassFit, fit_of
from manyhands.categorical.table import Annotations


def check_passes(protected: Any, max_iter: Any, tol: Any) -> None:
    """Check how many passes there may be, protected ones and others."""
    check_number("protected", protected, least=0, whole=True)
    check_stopping(max_iter, tol)


class Hierarchical(Aggregator):
    """Passes over the annotations with improvements of the prior between them."""

    @abstractmethod
    def _prior(self) -> tuple[str, float | None]:
        """Which prior is learned, and its strength where that is given."""

    @abstractmethod
    @abstractmethod
    def _fit_of(self, found: _core._HierarchyFit) -> ClassFit:
        """A fit with what was learned of the crowd."""

    def __init__(
        self,
        *,
        class_pseudo_count: float | npt.ArrayLike = 1.0,
        gold: Any = None,
        protected: int = 20,
        max_iter: int = 5,
        tol: float = 1e-6,
    ) -> None:
        self.class_pseudo_count = class_pseudo_count
        self.gold = gold
        self.protected = protected
        self.max_iter = max_iter
        self.tol = tol

    def _iterations(self) -> int | None:
        return self.protected + self.max_iter

    def _needs_memory(self) -> str | None:
        return None

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_passes(self.protected, self.max_iter, self.tol)
        gold_part = with_gold(votes, self.gold)
        fits = _core.hierarchy_fit(
            gold_part.held,
            [self._prior()],
            class_pseudo=class_pseudo(self.class_pseudo_count, votes.n_classes),
            gold=gold_part.gold,
            protected=self.protected,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        (found,) = solve(gold_part.held, fits)
        return self._fit_of(found)


@dataclass(frozen=True, kw_only=True)
class CrowdFit(ClassFit):
    """Classes, and the prior of rows that the crowd shares."""

    crowd_prior: Array = field(metadata=numbers("kk"))

    def hierarchical(self) -> tuple[Array, Array] | None:
        """Class prior and confusion matrices: its own."""
        return self.prior, self.confusion.matrices()


class HierarchicalDawidSkene(Hierarchical):
    """Dawid–Skene in which workers resemble each other, to the degree estimated from the crowd.

    Row ``k`` of every worker's confusion matrix is drawn from one Dirichlet distribution, ``crowd_prior_[k]``, which is
    learned between the passes (Minka's fixed point on expected counts). A worker with few labels is taken to be like
    the crowd; one with many is judged by their own. Plain Dawid–Skene, which knows no crowd, does worse than a majority
    vote where most workers gave few labels.

    Parameters
    ----------
    class_pseudo_count
        Pseudo-counts of the class prior, spread evenly over the classes, or an (n_classes,) array.
    gold
        Known classes of some tasks, as in :class:`DawidSkene`.
    protected
        Most passes, from a start with one accuracy for all workers, in which a task keeps to the classes that a worker
        voted for; else a rare class, of which little is known, is taken over as a spare cluster for another.
    max_iter, tol
        Stop after `max_iter` more iterations, or when the penalized log-likelihood changes by less than `tol` of
        itself, which ends the protected passes too. A few are enough. Where tasks have one or two votes, many do harm:
        judged by posteriors that lean on the prior, workers look ever more alike, and the prior grows ever stronger.
        There is no objective that both halves of a step improve, so `history_` is empty.

    Notes
    -----
    The E-step reads posterior means. Pseudo-counts of one worker, two right answers and one wrong one per class, keeps
    the prior proper and means the same for any number of classes. Time per pass as :class:`DawidSkene`, and
    O(workers · classes²) digamma functions; memory likewise.

    References
    ----------
    T. P. Minka, "Estimating a Dirichlet distribution" (2000). S. Paun et al., "Comparing Bayesian models of
    annotation", TACL 6 (2018).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 100, 4, labels_per_task=5, seed=1)
    >>> model = mh.categorical.HierarchicalDawidSkene().fit(crowd.log)
    >>> model.crowd_prior_.shape
    (4, 4)
    """

    _fit_type: ClassVar[type[Fit]] = CrowdFit

    @property
    def crowd_prior_(self) -> Array:
        """Dirichlet parameters of every worker's rows, (n_classes true, n_classes observed)."""
        return self._fitted().fit_as(CrowdFit).crowd_prior

    def _prior(self) -> tuple[str, float | None]:
        return "crowd", None

    def _fit_of(self, found: _core._HierarchyFit) -> ClassFit:
        return fit_of(found, kind=CrowdFit, crowd_prior=found["alpha"])


@dataclass(frozen=True, kw_only=True)
class GuessingFit(ClassFit):
    """Classes, and how workers know or guess."""

    competence: Array = field(metadata=numbers("m"))
    guesses: Array = field(metadata=numbers("mk"))
    strength: float = field(metadata=number(infinite=True))


class HierarchicalMACE(Hierarchical):
    """Workers who know the class or guess (MACE), with priors learned from the crowd and room for other errors.

    Worker ``m`` knows a task's class with probability ``competence_[m]`` and otherwise draws an answer from
    ``guesses_[m]``, whatever the class. Rows of their confusion matrix are Dirichlet-distributed around that mean with
    a strength that is learned: infinite, it is MACE; near zero, each row is free as in Dawid–Skene. Competence has a
    Beta and guesses a Dirichlet prior, learned as well.

    Parameters
    ----------
    strength : float or None, default None
        Number of pseudo-counts by which the mean of a row counts; None to learn it, infinity for MACE itself.
    class_pseudo_count, gold, protected, max_iter, tol
        As in :class:`HierarchicalDawidSkene`.

    Notes
    -----
    Answers in a cell that come from the mean itself are expected as tables of a Chinese restaurant, and divided between
    knowledge and guesses; strength and hyper-parameters follow by Minka's fixed point. Cost and start as
    :class:`HierarchicalDawidSkene`; there is no objective either.

    References
    ----------
    D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy, "Learning which workers to trust with MACE", NAACL (2013). T.
    P. Minka, "Estimating a Dirichlet distribution" (2000).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 20, 3, labels_per_task=5, seed=1)
    >>> model = mh.categorical.HierarchicalMACE().fit(crowd.log)
    >>> model.competence_.shape, model.guesses_.shape
    ((20,), (20, 3))
    """

    _fit_type: ClassVar[type[Fit]] = GuessingFit

    def __init__(
        self,
        *,
        strength: float | None = None,
        class_pseudo_count: float | npt.ArrayLike = 1.0,
        gold: Any = None,
        protected: int = 20,
        max_iter: int = 5,
        tol: float = 1e-6,
    ) -> None:
        super().__init__(
            class_pseudo_count=class_pseudo_count, gold=gold, protected=protected, max_iter=max_iter, tol=tol
        )
        self.strength = strength

    @property
    def competence_(self) -> Array:
        """Probability that a worker knows the class, (n_workers,)."""
        return self._fitted().fit_as(GuessingFit).competence

    @property
    def guesses_(self) -> Array:
        """Distribution of labels of a worker without knowledge, (n_workers, n_classes); rows sum to one."""
        return self._fitted().fit_as(GuessingFit).guesses

    @property
    def strength_(self) -> float:
        """Number of pseudo-counts that the mean of a row counts for."""
        return self._fitted().fit_as(GuessingFit).strength

    def _prior(self) -> tuple[str, float | None]:
        return "spammer", check_strength(self.strength)

    def _fit_of(self, found: _core._HierarchyFit) -> ClassFit:
        learned: dict[str, Any] = {name: found[name] for name in ("competence", "guesses", "strength")}
        return fit_of(found, kind=GuessingFit, **learned)
