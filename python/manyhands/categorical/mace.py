"""Models of competence: workers who know the class or guess (MACE), ability against difficulty of tasks (GLAD)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice, check_count, check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, number
from manyhands._base.fitted import numbers as floats
from manyhands._base.progress import Callback
from manyhands.categorical._matrices import with_diagonal
from manyhands.categorical._passes import posterior_under
from manyhands.categorical._priors import numbers
from manyhands.categorical.base import Aggregator, ClassFit, best_of
from manyhands.categorical.table import Annotations

_METHODS = ("vb", "em")
#: Random starts draw numbers between one and this, and divide them by their sum: away from even, near nothing extreme.
_NOISE = 2.5


class MACE(Aggregator):
    """MACE: on each task a worker either knows the class or spams.

    All classes are equally probable. Worker ``m`` knows the class of a task with probability ``competence_[m]`` and
    names it; otherwise the answer is ``l`` with a probability ``spam_[m, l]`` that does not depend on the class. The
    error model has classes + 1 numbers per worker rather than classes², which pays off where workers gave few labels,
    and it names spammers.

    Parameters
    ----------
    method : str, default "vb"
        ``"vb"``: variational Bayes, with the priors below. ``"em"``: expectation–maximization, with `smoothing`.
    competence_prior
        Of ``"vb"``: pseudo-counts of tasks that each worker knew and spammed (a Beta prior).
    strategy_prior : float, default 10.0
        Of ``"vb"``: pseudo-counts with each label while spamming (a Dirichlet prior). Large numbers say that
        spammers answer evenly.
    smoothing : float, default 0.01
        Of ``"em"``: pseudo-counts added to each expected count in every M-step; 0 for plain maximum likelihood.
    restarts : int, default 0
        Further runs from random starts; the best objective wins. The first run starts from workers who all know half of
        the time and spam evenly.
    max_iter, tol
        Stop after `max_iter` iterations, or when the objective changes by less than `tol` of itself.
    seed : int, default 0
        Seed of the restarts, each of which has numbers of its own.

    Attributes
    ----------
    competence_ : ndarray of shape (n_workers,)
        How probably each worker knows; of ``"vb"`` the posterior mean.
    spam_ : ndarray of shape (n_workers, n_classes)
        Distribution of the labels of each worker while spamming; rows sum to one.

    Notes
    -----
    The objective is the penalized log-likelihood (``"em"``) or the lower bound on the evidence (``"vb"``); neither
    ever falls. ``posterior_`` is that of the reported parameters, so that ``predict_proba`` of the same votes repeats
    it.

    Time per pass O(annotations + (tasks + workers) · classes), whatever the number of classes an annotation costs the
    same. Memory next to the table and the results: 40 bytes for each worker and class, and at most 8 bytes per
    annotation (or 32 MB, or two numbers for each worker and class, if that is more).

    References
    ----------
    D. Hovy, T. Berg-Kirkpatrick, A. Vaswani and E. Hovy, "Learning which workers to trust with MACE", NAACL-HLT (2013).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 0], [1, 1, 0], [2, 2, 0], [0, 0, 0], [1, 1, 0], [2, 1, 0]])
    >>> model = mh.categorical.MACE().fit(votes)
    >>> model.labels_.tolist()
    [0, 1, 2, 0, 1, 2]
    >>> int(model.competence_.argmin())
    2
    """

    def __init__(
        self,
        *,
        method: str = "vb",
        competence_prior: tuple[float, float] = (0.5, 0.5),
        strategy_prior: float = 10.0,
        smoothing: float = 0.01,
        restarts: int = 0,
        max_iter: int = 200,
        tol: float = 1e-6,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.competence_prior = competence_prior
        self.strategy_prior = strategy_prior
        self.smoothing = smoothing
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    def _check(self) -> None:
        check_choice("method", self.method, _METHODS)
        check_stopping(self.max_iter, self.tol)
        check_number("restarts", self.restarts, least=0, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        check_count("smoothing", self.smoothing)
        if not isinstance(self.competence_prior, tuple | list) or len(self.competence_prior) != 2:
            raise TypeError(f"competence_prior must be a pair (knew, spammed), not {self.competence_prior!r}")
        priors = (
            *(("competence_prior", value) for value in self.competence_prior),
            ("strategy_prior", self.strategy_prior),
        )
        for name, value in priors:
            check_count(name, value)
            if value == 0:
                raise ValueError(f"{name} must be above 0; method='em' with smoothing=0 does without a prior")

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        self._check()
        k, variational = votes.n_classes, self.method == "vb"
        knew, spammed = self.competence_prior if variational else (self.smoothing, self.smoothing)
        best = best_of(
            votes.table.mace_fit(
                know,
                strategies,
                variational=variational,
                competence=(float(knew), float(spammed)),
                strategy=float(self.strategy_prior if variational else self.smoothing),
                max_iter=self.max_iter,
                tol=float(self.tol),
                progress=progress,
            )
            for know, strategies in self._starts(votes)
        )
        warn_unless_converged(best["converged"], self)
        confusion = mace_confusion(best["know"], best["strategies"])
        prior = np.full(k, 1 / k)
        return ClassFit.of(
            posterior=posterior_under(votes.table, prior, confusion) if variational else best["posterior"],
            confusion=confusion,
            prior=prior,
            history=best["history"],
            n_iter=best["n_iter"],
            converged=best["converged"],
        )

    def _starts(self, votes: Annotations) -> list[tuple[Array, Array]]:
        """Probabilities of knowing, (M,), and of each label otherwise, (M, K): even ones, then random ones."""
        m, k = votes.n_workers, votes.n_classes
        starts = [(np.full(m, 0.5), np.full((m, k), 1 / k))]
        for restart in range(self.restarts):
            rng = np.random.default_rng([self.seed, restart])
            competence, strategies = rng.uniform(1, _NOISE, (m, 2)), rng.uniform(1, _NOISE, (m, k))
            know = competence[:, 0] / competence.sum(axis=1)
            starts.append((know, strategies / strategies.sum(axis=1, keepdims=True)))
        return starts

    @property
    def competence_(self) -> Array:
        """How probably each worker knows, (n_workers,)."""
        if len(self.classes_) == 1:
            return np.ones(len(self.workers_))
        competence: Array = np.maximum(1 - self._spammed().sum(axis=1), 0.0)
        return competence

    @property
    def spam_(self) -> Array:
        """Distribution of the labels of each worker while spamming, (n_workers, n_classes); rows sum to one."""
        spammed = self._spammed()
        total = spammed.sum(axis=1, keepdims=True)
        has_weight = total > 0
        shares: Array = np.where(has_weight, spammed / np.where(has_weight, total, 1.0), 1 / spammed.shape[1])
        return shares

    def _spammed(self) -> Array:
        """The probability of spamming each label, (M, K): what a worker makes of any class that it is not."""
        labels = np.arange(len(self.classes_))
        spammed: Array = self.confusion_[:, (labels + 1) % len(labels), labels]
        return spammed


def mace_confusion(know: Array, strategies: Array) -> Array:
    """The confusion matrices of workers who know with some probability, and spam otherwise: (M, K, K)."""
    k = strategies.shape[1]
    spam: Array = (1 - know)[:, None, None] * strategies[:, None, :]
    return know[:, None, None] * np.eye(k) + spam


@dataclass(frozen=True, kw_only=True)
class GLADFit(ClassFit):
    """Classes, abilities of workers and eases of tasks."""

    ability: Array = field(metadata=floats("m"))
    ease: Array = field(metadata=floats("n"))
    #: As it was in the fit: later `set_params` do not change the answers of a fitted model.
    ease_mean: float = field(metadata=number())


class GLAD(Aggregator):
    """GLAD: workers differ in ability, tasks in difficulty.

    Worker ``m`` answers task ``n`` rightly with probability σ(ability[m] · exp(ease[n])), where σ is the logistic
    function; errors are spread evenly over the other classes. An ability of 0 is a coin toss between right and wrong, a
    negative one an adversary. Abilities and eases are the most probable ones under normal priors of standard
    deviation 1; classes are summed out.

    Parameters
    ----------
    class_prior : array-like or None, default None
        Probabilities of the classes, (n_classes,); by default all alike.
    ability_mean, ease_mean : float, default 1.0
        Prior means, and where the iteration starts.
    max_iter, tol
        Stop after `max_iter` iterations, or when the objective changes by less than `tol` of itself.

    Attributes
    ----------
    ability_ : ndarray of shape (n_workers,)
        Ability of each worker.
    ease_ : ndarray of shape (n_tasks,)
        Ease of each task: the logarithm of its inverse difficulty.

    Notes
    -----
    The objective is the log-likelihood plus the log-density of the priors, up to a constant. A pass is coordinate
    ascent with a line search on every coordinate, so it never falls and nothing diverges: each task's ease (classes
    summed out), each worker's ability given the posteriors (EM's M-step), then a common factor of all abilities and its
    inverse on all tasks, which labels cannot determine but priors can.

    Time per pass O(annotations + tasks · classes), with about ten exponentials and logarithms for each annotation.
    Memory next to the table and the results: 8 bytes per task and the table in worker order (5 to 6 bytes per
    annotation).

    ``confusion_`` has each worker's probability of a right answer, averaged over the tasks that worker labeled, on
    the diagonal. ``predict_proba`` finds the most probable ease of every task again, given the abilities.

    References
    ----------
    J. Whitehill, P. Ruvolo, T. Wu, J. Bergsma and J. Movellan, "Whose vote should count more: optimal integration of
    labels from labelers of unknown expertise", NIPS (2009).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [2, 2, 0], [0, 0, 0], [1, 1, 2], [2, 2, 2]])
    >>> model = mh.categorical.GLAD().fit(votes)
    >>> model.labels_.tolist(), int(model.ability_.argmin())
    ([0, 1, 2, 0, 1, 2], 2)
    >>> bool(model.ease_[1] > model.ease_[0])
    True
    """

    _fit_type: ClassVar[type[Fit]] = GLADFit
    _skipped_checks: ClassVar[Mapping[str, str]] = {"predict_repeats_fit": "prediction estimates the task eases again"}

    def __init__(
        self,
        *,
        class_prior: npt.ArrayLike | None = None,
        ability_mean: float = 1.0,
        ease_mean: float = 1.0,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> None:
        self.class_prior = class_prior
        self.ability_mean = ability_mean
        self.ease_mean = ease_mean
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_stopping(self.max_iter, self.tol)
        check_number("ability_mean", self.ability_mean, least=-1e6, most=1e6)
        # Its exponential is squared.
        check_number("ease_mean", self.ease_mean, least=-100, most=100)
        prior = self._prior(votes)
        result = votes.table.glad_fit(
            prior,
            np.full(votes.n_workers, float(self.ability_mean)),
            np.full(votes.n_tasks, float(self.ease_mean)),
            max_iter=self.max_iter,
            tol=float(self.tol),
            progress=progress,
        )
        warn_unless_converged(result["converged"], self)
        accuracy = result["accuracy"] if votes.n_classes > 1 else np.ones(votes.n_workers)
        return GLADFit.of(
            ability=result["ability"],
            ease=result["ease"],
            ease_mean=float(self.ease_mean),
            posterior=result["posterior"],
            confusion=with_diagonal(accuracy, votes.n_classes),
            prior=prior,
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
        )

    def _prior(self, votes: Annotations) -> Array:
        k = votes.n_classes
        if self.class_prior is None:
            return np.full(k, 1 / k)
        prior = numbers(self.class_prior, (k,), "class_prior")
        if not (np.isfinite(prior) & (prior > 0)).all() or abs(prior.sum() - 1) > 1e-6:
            raise ValueError(f"class_prior must hold positive numbers that sum to one, not {prior.tolist()[:5]}")
        return prior

    @property
    def ability_(self) -> Array:
        """Ability of each worker, (n_workers,)."""
        return self._fitted().fit_as(GLADFit).ability

    @property
    def ease_(self) -> Array:
        """Ease of each task, the logarithm of its inverse difficulty, (n_tasks,)."""
        return self._fitted().fit_as(GLADFit).ease

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(GLADFit)
        ability = self._carried_over(fit.ability, known)
        return table.glad_posterior(fit.prior, ability, np.full(table.n_tasks, fit.ease_mean))
