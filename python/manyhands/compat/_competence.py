"""The twins of crowd-kit's MACE and GLAD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array, Parameters
from manyhands.compat._log import Log, find, log_columns, no_labels, no_probas, no_series, series

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Index, Series

#: What crowd-kit's variational MACE adds to the count of each label while spamming.
_STRATEGY_PRIOR = 10.0


class _Model(Parameters):
    """What both share: methods, and the results that a posterior gives."""

    labels_: Series
    probas_: Frame

    def fit(self, data: Frame) -> Self:
        """Learn from a log, with columns ``task``, ``worker`` and ``label``."""
        data = log_columns(data)
        if len(data):
            log = Log.of(data)
            posterior = self._learn(log)
            self.probas_, self.labels_ = log.probas(posterior), log.labels(posterior)
        else:
            self.probas_, self.labels_ = no_probas(data), no_labels()
            self._set_nothing(data)
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Fit and return ``labels_``."""
        return self.fit(data).labels_

    def fit_predict_proba(self, data: Frame) -> Frame:
        """Fit and return ``probas_``."""
        return self.fit(data).probas_

    def _learn(self, log: Log) -> Array:
        """Set what is learnt beside the posteriors, and return those, (n_tasks, n_classes)."""
        raise NotImplementedError

    def _set_nothing(self, data: Frame) -> None:
        """Set what is learnt from a log without rows."""
        raise NotImplementedError


class MACE(_Model):
    """MACE: on each task a worker either knows the label or spams.

    Parameters
    ----------
    n_restarts
        Runs from random starts; the best objective wins.
    n_iter
        Iterations of each run.
    method
        ``"vb"``, variational Bayes, or ``"em"``.
    smoothing
        Of ``"em"``: what is added to each expected count.
    default_noise
        How far starts are from even: numbers are drawn between 1 and 2 plus this, and divided by their sum.
    alpha, beta
        Of ``"vb"``: prior counts of spamming and of knowing.
    random_state
        Seed of the starts.
    verbose
        Has no effect.

    Attributes
    ----------
    labels_, probas_ : Series, DataFrame
        The most probable label by task, and posteriors, tasks × labels.
    spamming_ : ndarray of shape (n_workers, 2)
        How probably each worker spams and knows; workers in the order in which the log first names them.
    thetas_ : ndarray of shape (n_workers, n_labels)
        What each worker says while spamming; labels too in the order in which the log first names them.

    Notes
    -----
    As :class:`manyhands.MACE`: O(annotations + tasks · labels) an iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import MACE
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxxyyx")})
    >>> MACE().fit_predict(log).to_dict()
    {1: 'x', 2: 'y'}
    """

    spamming_: Array
    thetas_: Array

    def __init__(
        self,
        n_restarts: int = 10,
        n_iter: int = 50,
        method: Literal["vb", "em"] = "vb",
        smoothing: float = 0.1,
        default_noise: float = 0.5,
        alpha: float = 0.5,
        beta: float = 0.5,
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.n_restarts = n_restarts
        self.n_iter = n_iter
        self.method = method
        self.smoothing = smoothing
        self.default_noise = default_noise
        self.alpha = alpha
        self.beta = beta
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, log: Log) -> Array:
        check_choice("method", self.method, ("vb", "em"))
        check_number("n_restarts", self.n_restarts, least=1, whole=True)
        check_number("n_iter", self.n_iter, least=0, whole=True)
        check_number("smoothing", self.smoothing, least=0)
        vb = self.method == "vb"
        found = [
            _core.mace_fit(
                log.votes.table,
                know,
                strategies,
                variational=vb,
                competence=(float(self.beta), float(self.alpha)) if vb else (self.smoothing, self.smoothing),
                strategy=_STRATEGY_PRIOR if vb else float(self.smoothing),
                max_iter=self.n_iter,
                tol=0.0,
            )
            for know, strategies in self._starts(log)
        ]
        best = max(found, key=lambda fit: float(fit["history"][-1]) if self.n_iter else 0.0)
        workers, labels = log.worker_order(), find(log.classes, log.data["label"].dropna().unique())
        know = best["know"][workers]
        self.spamming_ = np.stack([1 - know, know], axis=1)
        self.thetas_ = best["strategies"][np.ix_(workers, labels)]
        return best["posterior"]

    def _starts(self, log: Log) -> list[tuple[Array, Array]]:
        """Random parameters; the first are crowd-kit's own, where names come in sorted order."""
        shape = (log.votes.n_workers, log.votes.n_classes)
        starts = []
        for restart in range(self.n_restarts):
            draws = []
            for size in ((shape[0], 2), shape):
                # crowd-kit begins both draws, and all restarts, from the same state.
                state = np.random.RandomState(self.random_state + restart)
                drawn = state.uniform(1, 2 + self.default_noise, size)
                draws.append(drawn / drawn.sum(axis=1, keepdims=True))
            starts.append((np.ascontiguousarray(draws[0][:, 1]), draws[1]))
        return starts

    def _set_nothing(self, data: Frame) -> None:
        self.spamming_, self.thetas_ = np.zeros((0, 2)), np.zeros((0, 0))


class GLAD(_Model):
    """GLAD: workers differ in ability, tasks in difficulty.

    Parameters
    ----------
    n_iter
        Most iterations.
    tol
        Stop when the objective changes by less than this share of itself; 0 for all iterations.
    silent
        Has no effect.
    labels_priors
        Class prior, by label; even by default.
    alphas_priors_mean, betas_priors_mean
        Prior means, by worker and by task; 1 by default.
    m_step_max_iter, m_step_tol
        Have no effect: every iteration makes one step, of a length that suits each worker and task.

    Attributes
    ----------
    labels_, probas_ : Series, DataFrame
        The most probable label by task, and posteriors, tasks × labels.
    alphas_, betas_ : Series
        Abilities by worker, and logarithms of inverse difficulty by task.
    loss_history_ : list of float
        Log-likelihood and log-density of the priors together, per annotation and up to a constant, after each
        iteration. It never falls.

    Notes
    -----
    As :class:`manyhands.GLAD`: O(annotations + tasks · labels) an iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import GLAD
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> GLAD().fit_predict(log).to_dict()
    {1: 'x', 2: 'y'}
    """

    alphas_: Series
    betas_: Series
    loss_history_: list[float]

    def __init__(
        self,
        n_iter: int = 100,
        tol: float = 1e-5,
        silent: bool = True,
        labels_priors: Series | None = None,
        alphas_priors_mean: Series | None = None,
        betas_priors_mean: Series | None = None,
        m_step_max_iter: int = 25,
        m_step_tol: float = 1e-2,
    ) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.silent = silent
        self.labels_priors = labels_priors
        self.alphas_priors_mean = alphas_priors_mean
        self.betas_priors_mean = betas_priors_mean
        self.m_step_max_iter = m_step_max_iter
        self.m_step_tol = m_step_tol

    def fit(self, data: Frame) -> Self:
        """Learn from a log, with columns ``task``, ``worker`` and ``label``."""
        check_number("n_iter", self.n_iter, least=0, whole=True)
        data = log_columns(data)
        if self.labels_priors is None or not len(data):
            return super().fit(data)
        # A class that nobody named is a class all the same.
        log = Log.of(data, self.labels_priors.index.tolist())
        posterior = self._learn(log)
        self.probas_, self.labels_ = log.probas(posterior), log.labels(posterior)
        return self

    def _learn(self, log: Log) -> Array:
        k = log.votes.n_classes
        prior = np.full(k, 1 / k)
        if self.labels_priors is not None:
            prior = _aligned(self.labels_priors, log.classes, "labels_priors")
        found = _core.glad_fit(
            log.votes.table,
            prior,
            _aligned(self.alphas_priors_mean, log.workers, "alphas_priors_mean"),
            _aligned(self.betas_priors_mean, log.tasks, "betas_priors_mean"),
            max_iter=self.n_iter,
            tol=max(float(self.tol), 0.0),
        )
        self.alphas_ = series(found["ability"], log.workers, "alpha").take(log.worker_order())
        self.betas_ = series(found["ease"], log.tasks, "beta").take(log.task_order())
        self.loss_history_ = (found["history"][1:] / log.votes.n_annotations).tolist()
        return found["posterior"]

    def _set_nothing(self, data: Frame) -> None:
        self.alphas_, self.betas_ = no_series("alpha", data["worker"]), no_series("beta", data["task"])
        self.loss_history_ = []


def _aligned(given: Series | None, names: Index, what: str) -> Array:
    """Numbers in the order of codes; 1 where none are given."""
    if given is None:
        return np.ones(len(names))
    at = find(given.index, names)
    if (at < 0).any():
        raise ValueError(f"{what} has no number for {names[at < 0].tolist()[0]!r}; add it")
    return given.to_numpy(float)[at]
