"""The twins of crowd-kit's methods that learn skills: M-MSR and the messages of Karger, Oh and Shah."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number
from manyhands._base.estimator import Array, Parameters
from manyhands.compat._log import Log, find, log_columns, no_labels, no_probas, no_series, series
from manyhands.errors import IdentifiabilityWarning, NotFittedError
from manyhands.moments import MMSR as _MMSR

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series


class MMSR(Parameters):
    """M-MSR: skills from agreement, without each worker's most extreme neighbours.

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
    The published method, with the number of neighbours set aside that crowd-kit chooses: half of those of the worker
    who has fewest, less one. O(pairs of workers with a common task) an iteration. :class:`manyhands.moments.MMSR`
    estimates better: signs before sizes, and pairs weighted by what they have in common.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import MMSR
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> MMSR().fit_predict(log).to_dict()
    {1: 'x', 2: 'y'}
    """

    labels_: Series
    scores_: Frame
    skills_: Series
    loss_history_: list[float]

    def __init__(self, n_iter: int = 10000, tol: float = 1e-10, random_state: int | None = 0) -> None:
        self.n_iter = n_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, data: Frame) -> Self:
        """Learn the workers' skills, ``skills_``, from a log."""
        for name in ("labels_", "scores_"):  # of an earlier log
            self.__dict__.pop(name, None)
        data = log_columns(data)
        if len(data):
            self._learn(Log.of(data))
        else:
            self.skills_, self.loss_history_ = no_series("skill", data["worker"]), []
        return self

    def predict(self, data: Frame) -> Series:
        """Vote with the skills learnt and return ``labels_``; all workers must have been seen in ``fit``."""
        return self._apply(data).labels_

    def predict_score(self, data: Frame) -> Frame:
        """Vote with the skills learnt and return ``scores_``; all workers must have been seen in ``fit``."""
        return self._apply(data).scores_

    def fit_predict(self, data: Frame) -> Series:
        """Fit, vote on the same log and return ``labels_``."""
        return self.fit(data).predict(data)

    def fit_predict_score(self, data: Frame) -> Frame:
        """Fit, vote on the same log and return ``scores_``."""
        return self.fit(data).predict_score(data)

    def _learn(self, log: Log) -> None:
        check_number("n_iter", self.n_iter, least=0, whole=True)
        check_number("tol", self.tol, least=0)
        votes, k = log.votes, log.votes.n_classes
        skills, self.loss_history_ = np.ones(votes.n_workers), []
        if k > 1:
            pairs = _MMSR(max_partners=votes.n_workers)._agreement(votes)
            fewest = int(pairs.degrees.min())
            found = _core.rank_one_fit(
                votes.n_workers,
                pairs.pairs,
                pairs.values,
                pairs.overlap,
                method="msr",
                trim=np.full(votes.n_workers, max(fewest // 2 - 1, 0), np.uint32),
                plain=True,
                max_iter=self.n_iter,
                tol=float(self.tol),
            )
            self.loss_history_ = found["history"].tolist()
            vector, remarks = pairs.oriented(found["vector"])
            if remarks:
                warnings.warn(f"MMSR: {' '.join(remarks)}", IdentifiabilityWarning, stacklevel=3)
            skills = _log_odds(vector, pairs.degrees > 0, pairs.labels, votes.n_tasks, k)
        self.skills_ = series(skills, log.workers, "skill").take(log.worker_order())

    def _apply(self, data: Frame) -> Self:
        if not hasattr(self, "skills_"):
            raise NotFittedError("this MMSR is not fitted yet; call fit(data) first")
        data = log_columns(data)
        if not len(data):
            self.scores_, self.labels_ = no_probas(data), no_labels()
            return self
        log = Log.of(data)
        at = find(self.skills_.index, log.workers)
        if (at < 0).any():
            raise ValueError(
                f"no skill is known for {int((at < 0).sum()):,} of {len(at):,} workers, such as "
                f"{log.workers[at < 0].tolist()[0]!r}; fit a log in which they take part"
            )
        shares = _shares(log, self.skills_.to_numpy(float)[at])
        self.scores_, self.labels_ = log.probas(shares), log.labels(shares)
        return self


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


def _shares(log: Log, weights: Array) -> Array:
    """Weighted vote shares, (N, K); where a label has negative votes, all count from there."""
    tasks, workers, labels = log.votes.codes()
    n, k = log.votes.n_tasks, log.votes.n_classes
    cells = tasks.astype(np.int64) * k + labels
    votes = np.bincount(cells, weights[workers], minlength=n * k).reshape(n, k)
    votes -= np.minimum(votes.min(axis=1, keepdims=True), 0.0)
    total = votes.sum(axis=1, keepdims=True)
    return np.where(total > 0, votes / np.where(total > 0, total, 1.0), 1 / k)


class KOS(Parameters):
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
    As :class:`manyhands.categorical.KOS`: O(annotations) a round. Another generator draws the first messages, so that
    they are not crowd-kit's; what they lead to is the same, but for logs too small to tell.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import KOS
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> KOS().fit_predict(log).to_dict()
    {1: 'x', 2: 'y'}
    """

    labels_: Series

    def __init__(self, n_iter: int = 100, random_state: int = 0) -> None:
        self.n_iter = n_iter
        self.random_state = random_state

    def fit(self, data: Frame) -> Self:
        """Pass messages on a log, and set ``labels_``."""
        check_number("n_iter", self.n_iter, least=0, whole=True)
        check_number("random_state", self.random_state, least=0, whole=True)
        data = log_columns(data)
        if not len(data):
            self.labels_ = no_labels()
            return self
        log = Log.of(data)
        scores = np.zeros((log.votes.n_tasks, 1))
        if log.votes.n_classes > 1:
            scores, _, _ = _core.kos_fit(log.votes.table, n_iter=self.n_iter, seed=self.random_state)
        self.labels_ = log.labels(scores)
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Fit and return ``labels_``."""
        return self.fit(data).labels_
