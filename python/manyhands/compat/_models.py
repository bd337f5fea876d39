"""crowd-kit's MACE, GLAD, MMSR and KOS."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands import moments as _moments
from manyhands._base.checks import check_choice, check_number
from manyhands._base.estimator import Array
from manyhands.compat._log import LabelTwin, Log, Twin, find, series
from manyhands.compat._votes import SkillTwin
from manyhands.errors import IdentifiabilityWarning

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Index, Series

#: What crowd-kit's variational MACE adds to the count of each label while spamming.
_STRATEGY_PRIOR = 10.0


@dataclass(repr=False, eq=False)
class MACE(LabelTwin):
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
        How probably each worker spams and knows; workers in sorted order.
    thetas_ : ndarray of shape (n_workers, n_labels)
        What each worker says while spamming; workers and labels in sorted order.

    Notes
    -----
    As :class:`manyhands.MACE`: O(annotations + tasks · labels) per iteration.

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
        check_number("smoothing", self.smoothing, least=0)
        log, variational = Log.of(data), self.method == "vb"
        fits = [
            log.votes.table.mace_fit(
                know,
                strategies,
                variational=variational,
                competence=(float(self.beta), float(self.alpha)) if variational else (self.smoothing, self.smoothing),
                strategy=_STRATEGY_PRIOR if variational else float(self.smoothing),
                max_iter=self.n_iter,
                tol=0.0,
            )
            for know, strategies in (self._start(log, restart) for restart in range(self.n_restarts))
        ]
        best = max(fits, key=lambda fit: float(fit["history"][-1]) if self.n_iter else 0.0)
        self.spamming_ = np.stack([1 - best["know"], best["know"]], axis=1)
        self.thetas_ = best["strategies"]
        return self._publish(log, best["posterior"])

    def _start(self, log: Log, restart: int) -> tuple[Array, Array]:
        """Random parameters; the first are those of crowd-kit, which begins both draws from the same state."""
        draws = []
        for size in ((log.votes.n_workers, 2), (log.votes.n_workers, log.votes.n_classes)):
            state = np.random.RandomState(self.random_state + restart)
            drawn = state.uniform(1, 2 + self.default_noise, size)
            draws.append(drawn / drawn.sum(axis=1, keepdims=True))
        return np.ascontiguousarray(draws[0][:, 1]), draws[1]


@dataclass(repr=False, eq=False)
class GLAD(LabelTwin):
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
    As :class:`manyhands.GLAD`: O(annotations + tasks · labels) per iteration.

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
    n_iter
        Most iterations.
    tol
        Stop when no skill moves by more than this.
    random_state
        Has no effect: the start is not random.

    Attributes
    ----------
    skills_ : Series
        Log-odds of a right answer against each wrong one, by worker; known after ``fit``.
    labels_ : Series
        The label of highest score, by task, after ``predict``.
    scores_ : DataFrame
        Weighted vote shares, tasks × labels, after ``predict``; rows sum to one.
    loss_history_ : list of float
        How far the rank-one matrix moved in each iteration.

    Notes
    -----
    The published method, with the number of neighbors set aside that crowd-kit chooses: half of those of the worker
    who has fewest, less one. O(pairs of workers with a common task) per iteration. :class:`manyhands.moments.MMSR`
    estimates better: signs before sizes, and pairs weighted by what they have in common.

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
        check_number("tol", self.tol, least=0)
        log = Log.of(data)
        votes, k = log.votes, log.votes.n_classes
        skills, self.loss_history_ = np.ones(votes.n_workers), []
        if k > 1:
            pairs = _moments.MMSR(max_partners=votes.n_workers)._agreement(votes)
            trim = max(int(pairs.degrees.min()) // 2 - 1, 0)
            result = _core.rank_one_fit(
                votes.n_workers,
                pairs.pairs,
                pairs.values,
                pairs.overlap,
                method="msr",
                trim=np.full(votes.n_workers, trim, np.uint32),
                plain=True,
                max_iter=self.n_iter,
                tol=float(self.tol),
            )
            self.loss_history_ = result["history"].tolist()
            vector, remarks = pairs.oriented(result["vector"])
            if remarks:
                warnings.warn(f"MMSR: {' '.join(remarks)}", IdentifiabilityWarning, stacklevel=2)
            skills = _log_odds(vector, pairs.degrees > 0, pairs.labels, votes.n_tasks, k)
        return self._set_skills(series(skills, log.workers, "skill"))

    def predict_score(self, data: Frame) -> Frame:
        """Vote with the skills learnt and return ``scores_``; all workers must have been seen in ``fit``."""
        return self.predict_proba(data)

    def fit_predict_score(self, data: Frame) -> Frame:
        """Fit, vote on the same log and return ``scores_``."""
        return self.fit_predict_proba(data)

    @property
    def scores_(self) -> Frame:
        """Weighted vote shares, tasks × labels, after ``predict``; rows sum to one."""
        return self.probas_

    def _shares(self, log: Log, skills: Array) -> Array:
        """Weighted vote shares; where a label has negative votes, all count from there."""
        tasks, workers, labels = log.votes.codes()
        n, k = log.votes.n_tasks, log.votes.n_classes
        cells = tasks.astype(np.int64) * k + labels
        votes = np.bincount(cells, skills[workers], minlength=n * k).reshape(n, k)
        votes -= np.minimum(votes.min(axis=1, keepdims=True), 0.0)
        total = votes.sum(axis=1, keepdims=True)
        return np.where(total > 0, votes / np.where(total > 0, total, 1.0), 1 / k)


def _log_odds(vector: Array, known: npt.NDArray[np.bool_], labels: Array, n_tasks: int, k: int) -> Array:
    """Weights of votes, (M,); workers without a partner count as the average one."""
    if known.any():
        vector = np.where(known, vector, np.average(vector[known], weights=np.maximum(labels[known], 1e-300)))
    else:
        vector = np.ones(len(vector))
    margin = min(1 / np.sqrt(n_tasks), k / (k - 1) / 2)
    skill = np.clip(vector, margin - 1 / (k - 1), 1 - margin)
    right = (1 + (k - 1) * skill) / k
    log_odds: Array = np.log(right * (k - 1) / (1 - right))
    # A vote of no weight at all would leave tasks without an answer.
    return log_odds if np.abs(log_odds).max() > 1e-12 else np.ones(len(vector))


@dataclass(repr=False, eq=False)
class KOS(Twin):
    """Messages between tasks and workers (Karger, Oh and Shah), for any number of labels.

    Parameters
    ----------
    n_iter
        Rounds of messages.
    random_state
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
