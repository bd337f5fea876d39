"""crowd-kit's MACE, GLAD, MMSR and KOS."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from manyhands import categorical, moments
from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands.compat._log import LabelTwin, Log, Twin, find, series
from manyhands.compat._votes import SkillTwin
from manyhands.errors import ConvergenceWarning

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Index, Series


@dataclass(repr=False, eq=False)
class MACE(LabelTwin):
    """MACE: on each task a worker either knows the label or spams.

    Parameters
    ----------
    n_restarts : int, default 10
        Runs: the first from the majority vote, others from random starts; the best objective wins.
    n_iter : int, default 50
        Iterations of each run.
    method : {"vb", "em"}, default "vb"
        ``"vb"``, variational Bayes, or ``"em"``.
    smoothing : float, default 0.1
        Of ``"em"``: what is added to each expected count.
    default_noise : float, default 0.5
        Has no effect.
    alpha, beta : float, default 0.5
        Of ``"vb"``: prior counts of spamming and of knowing.
    random_state : int, default 0
        Seed of the starts.
    verbose : int, default 0
        Has no effect.

    Attributes
    ----------
    labels_, probas_ : Series, DataFrame
        The most probable label by task, and posteriors, tasks × labels.
    spamming_ : ndarray of shape (n_workers, 2)
        How probably each worker spams and knows; workers in sorted order.
    thetas_ : ndarray of shape (n_workers, n_labels)
        Distribution of the labels of each worker while spamming; workers and labels in sorted order.

    Notes
    -----
    As :class:`manyhands.categorical.MACE`: O(annotations + tasks · labels) per iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import MACE
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxxyyx")})
    >>> MACE().fit_predict(log).to_dict()
    {1: 'x', 2: 'y'}
    """

    n_restarts: int = 10
    n_iter: int = 50
    method: Literal["vb", "em"] = "vb"
    smoothing: float = 0.1
    default_noise: float = 0.5
    alpha: float = 0.5
    beta: float = 0.5
    random_state: int = 0
    verbose: int = 0

    def fit(self, data: Frame) -> Self:
        """Learn from a log, with columns ``task``, ``worker`` and ``label``."""
        check_choice("method", self.method, ("vb", "em"))
        check_number("n_restarts", self.n_restarts, least=1, whole=True)
        check_number("n_iter", self.n_iter, least=0, whole=True)
        log = Log.of(data)
        model = categorical.MACE(
            method=self.method,
            competence_prior=(self.beta, self.alpha),
            smoothing=self.smoothing,
            restarts=self.n_restarts - 1,
            max_iter=self.n_iter,
            tol=0.0,
            seed=self.random_state,
        ).fit(log.votes)
        self.spamming_ = np.stack([1 - model.competence_, model.competence_], axis=1)
        self.thetas_ = model.spam_
        return self._publish(log, model.posterior_)


@dataclass(repr=False, eq=False)
class GLAD(LabelTwin):
    """GLAD: workers differ in ability, tasks in difficulty.

    Parameters
    ----------
    n_iter : int, default 100
        Most iterations.
    tol : float, default 1e-05
        Stop when the objective changes by less than this share of itself; 0 for all iterations.
    silent : bool, default True
        Has no effect.
    labels_priors : Series or None, default None
        Class prior, by label; even by default.
    alphas_priors_mean, betas_priors_mean : Series or None, default None
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
    As :class:`manyhands.categorical.GLAD`: O(annotations + tasks · labels) per iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import GLAD
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> GLAD().fit_predict(log).to_dict()
    {1: 'x', 2: 'y'}
    """

    n_iter: int = 100
    tol: float = 1e-5
    silent: bool = True
    labels_priors: Series | None = None
    alphas_priors_mean: Series | None = None
    betas_priors_mean: Series | None = None
    m_step_max_iter: int = 25
    m_step_tol: float = 1e-2

    def fit(self, data: Frame) -> Self:
        """Learn from a log, with columns ``task``, ``worker`` and ``label``."""
        check_number("n_iter", self.n_iter, least=0, whole=True)
        # A class that no worker named is a class all the same.
        log = Log.of(data, None if self.labels_priors is None else self.labels_priors.index.tolist())
        even = 1 / log.votes.n_classes
        result = log.votes.table.glad_fit(
            _in_order(self.labels_priors, log.classes, "labels_priors", even),
            _in_order(self.alphas_priors_mean, log.workers, "alphas_priors_mean", 1.0),
            _in_order(self.betas_priors_mean, log.tasks, "betas_priors_mean", 1.0),
            max_iter=self.n_iter,
            tol=max(float(self.tol), 0.0),
        )
        self.alphas_ = series(result["ability"], log.workers, "alpha")
        self.betas_ = series(result["ease"], log.tasks, "beta")
        self.loss_history_ = (result["history"][1:] / log.votes.n_annotations).tolist()
        return self._publish(log, result["posterior"])


def _in_order(numbers: Series | None, names: Index, what: str, default: float) -> Array:
    """Numbers in the order of codes; the default where none are given."""
    if numbers is None:
        return np.full(len(names), default)
    places = find(numbers.index, names)
    if (places < 0).any():
        raise ValueError(f"{what} has no number for {names[places < 0].tolist()[0]!r}; add it")
    return numbers.to_numpy(float)[places]


@dataclass(repr=False, eq=False)
class MMSR(SkillTwin):
    """M-MSR: skills from agreement, without each worker's most extreme neighbors.

    Parameters
    ----------
    n_iter : int, default 10000
        Most iterations.
    tol : float, default 1e-10
        Stop when no skill moves by more than this.
    random_state : int or None, default 0
        Has no effect: the start is not random.

    Attributes
    ----------
    skills_ : Series
        Log-odds of a right answer against each wrong one, by worker; known after ``fit``.
    labels_ : Series
        The label of highest score, by task, after ``predict``.
    scores_ : DataFrame
        Weighted vote shares, tasks × labels, after ``predict``; rows sum to one.

    Notes
    -----
    As :class:`manyhands.moments.MMSR`: O(pairs of workers with a common task) per iteration.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import MMSR
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> MMSR().fit_predict(log).to_dict()
    {1: 'x', 2: 'y'}
    """

    n_iter: int = 10000
    tol: float = 1e-10
    random_state: int | None = 0

    def fit(self, data: Frame) -> Self:
        """Learn the workers' skills, ``skills_``, from a log."""
        check_number("n_iter", self.n_iter, least=0, whole=True)
        log = Log.of(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = moments.MMSR(max_iter=self.n_iter, tol=float(self.tol)).fit(log.votes)
        k, right = log.votes.n_classes, model.confusion_[:, 0, 0]
        skills = np.log(right * (k - 1) / (1 - right)) if k > 1 else np.ones(len(right))
        # A vote of no weight at all would leave tasks without an answer.
        return self._set_skills(series(skills if np.abs(skills).max() > 1e-12 else skills + 1, log.workers, "skill"))

    def predict_score(self, data: Frame) -> Frame:
        """Vote with the skills learned and return ``scores_``; all workers must have been seen in ``fit``."""
        return self.predict_proba(data)

    def fit_predict_score(self, data: Frame) -> Frame:
        """Fit, vote on the same log and return ``scores_``."""
        return self.fit_predict_proba(data)

    @property
    def scores_(self) -> Frame:
        """Weighted vote shares, tasks × labels, after ``predict``; rows sum to one."""
        return self.probas_


@dataclass(repr=False, eq=False)
class KOS(Twin):
    """Iterative message passing between tasks and workers (Karger, Oh and Shah), for any number of labels.

    Parameters
    ----------
    n_iter : int, default 100
        Rounds of messages.
    random_state : int, default 0
        Seed of the first messages.

    Attributes
    ----------
    labels_ : Series
        The label of highest score, by task.

    Notes
    -----
    As :class:`manyhands.categorical.KOS`: O(annotations) per round. Another generator draws the first messages, so that
    they are not crowd-kit's; the labels are the same, except in very small logs.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import KOS
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> KOS().fit_predict(log).to_dict()
    {1: 'x', 2: 'y'}
    """

    n_iter: int = 100
    random_state: int = 0

    def fit(self, data: Frame) -> Self:
        """Pass messages on a log, and set ``labels_``."""
        check_number("n_iter", self.n_iter, least=0, whole=True)
        check_number("random_state", self.random_state, least=0, whole=True)
        log = Log.of(data)
        scores = np.zeros((log.votes.n_tasks, 1))
        if log.votes.n_classes > 1:
            scores, _, _ = log.votes.table.kos_fit(n_iter=self.n_iter, seed=self.random_state)
        self.labels_ = log.labels(scores)
        return self
