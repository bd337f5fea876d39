"""The twins of crowd-kit's voting methods: plain, with given skills, and with skills that they learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from manyhands._base.estimator import Array, Parameters
from manyhands.categorical import MajorityVote as _MajorityVote
from manyhands.categorical import WeightedVote as _WeightedVote
from manyhands.compat._log import Log, find, log_columns, no_labels, no_probas, no_series, series
from manyhands.errors import NotFittedError

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Index, Series


class _Voter(Parameters):
    """What the voting methods share: the vote itself, and what it leaves behind."""

    labels_: Series
    probas_: Frame
    skills_: Series

    def _vote(self, log: Log, skills: Series | None) -> Array:
        """Set ``probas_`` and ``labels_`` to the outcome of a vote, and return it."""
        model: _MajorityVote | _WeightedVote = _MajorityVote()
        if skills is not None:
            model = _WeightedVote(dict(zip(log.votes.workers.tolist(), skills.tolist(), strict=True)))
        posterior = model.fit(log.votes).posterior_
        self.probas_, self.labels_ = log.probas(posterior), log.labels(posterior)
        return posterior

    def _vote_on_nothing(self, data: Frame) -> None:
        """Set ``probas_`` and ``labels_`` to those of a log without rows."""
        self.probas_, self.labels_ = no_probas(data), no_labels()


class MajorityVote(_Voter):
    """Majority vote, plain or weighted by given skills.

    Parameters
    ----------
    default_skill
        Skill of workers whose skill is not given; only with ``on_missing_skill="value"``.
    on_missing_skill
        What to do where skills are given, but not for all workers: ``"error"``, ``"ignore"`` their labels (an
        error if that leaves a task without any), or use the default ``"value"``.

    Attributes
    ----------
    labels_ : Series
        The winning label, by task. Of equal labels the first in sorted order wins, whatever the rows' order.
    probas_ : DataFrame
        Vote shares, tasks × labels.
    skills_ : Series
        Share of labels that agree with ``labels_``, by worker.

    Notes
    -----
    As :class:`manyhands.MajorityVote` and :class:`manyhands.categorical.WeightedVote`: O(annotations + tasks ·
    classes).

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import MajorityVote
    >>> log = pd.DataFrame({"task": ["a", "a", "a"], "worker": [1, 2, 3], "label": ["cat", "cat", "dog"]})
    >>> MajorityVote().fit_predict(log).to_dict()
    {'a': 'cat'}
    >>> MajorityVote().fit_predict(log, skills=pd.Series({1: 0.5, 2: 0.5, 3: 2.0})).to_dict()
    {'a': 'dog'}
    """

    def __init__(
        self,
        default_skill: float | None = None,
        on_missing_skill: Literal["error", "ignore", "value"] = "error",
    ) -> None:
        self.default_skill = default_skill
        self.on_missing_skill = on_missing_skill

    def fit(self, data: Frame, skills: Series | None = None) -> Self:
        """Vote on every task of a log, workers counting by their skill if skills are given."""
        data = log_columns(data)
        if len(data):
            log, weights = self._weighed(data, skills)
            self.skills_ = log.agreement(self._vote(log, weights))
        else:
            self._vote_on_nothing(data)
            self.skills_ = no_series("skill", data["worker"])
        return self

    def fit_predict(self, data: Frame, skills: Series | None = None) -> Series:
        """Fit and return ``labels_``."""
        return self.fit(data, skills).labels_

    def fit_predict_proba(self, data: Frame, skills: Series | None = None) -> Frame:
        """Fit and return ``probas_``."""
        return self.fit(data, skills).probas_

    def _weighed(self, data: Frame, skills: Series | None) -> tuple[Log, Series | None]:
        """Encode a log, with the skills in the order of its workers."""
        if skills is None:
            return Log.of(data), None
        self._check_missing_skill()
        skills = _distinct(skills).dropna()
        if self.on_missing_skill == "ignore":
            data = _by_workers(data, skills.index)
        log = Log.of(data)
        return log, _skills_of(log, skills, self.default_skill)

    def _check_missing_skill(self) -> None:
        choices = ("error", "ignore", "value")
        if self.on_missing_skill not in choices:
            allowed = ", ".join(map(repr, choices))
            raise ValueError(f"on_missing_skill must be one of {allowed}, not {self.on_missing_skill!r}")
        if (self.on_missing_skill == "value") != (self.default_skill is not None):
            raise ValueError(
                f"on_missing_skill={self.on_missing_skill!r} does not go with "
                f"default_skill={self.default_skill}: 'value' needs one, the others have no use for it"
            )


def _distinct(skills: Series) -> Series:
    twice = skills.index[skills.index.duplicated()]
    if len(twice):
        raise ValueError(f"skills name worker {twice.tolist()[0]!r} more than once; keep one skill a worker")
    return skills


def _by_workers(data: Frame, workers: Index) -> Frame:
    """Keep the rows of some workers; an error if a task has none of them."""
    kept = data[data["worker"].isin(workers)]
    lost = data["task"][~data["task"].isin(kept["task"])].unique()
    if len(lost):
        raise ValueError(
            f"{len(lost):,} tasks, such as {lost.tolist()[0]!r}, have no worker with a known skill; give the "
            "skill of one worker of each, or choose on_missing_skill='value' and a default_skill"
        )
    return kept


def _skills_of(log: Log, skills: Series, default: float | None = None) -> Series:
    """Return skills in the order of worker codes; one that is missing is the default, if there is one."""
    fallback = np.nan if default is None else default
    values = np.append(skills.to_numpy(float), fallback)[find(skills.index, log.workers)]
    unknown = log.workers[np.isnan(values)]
    if len(unknown):
        raise ValueError(
            f"no skill is known for {len(unknown):,} of {len(values):,} workers, such as "
            f"{unknown.tolist()[0]!r}; give theirs too (MajorityVote can also leave them out or use a "
            "default: see on_missing_skill)"
        )
    return series(values, log.workers, "skill")


class _SkillVoter(_Voter):
    """Vote weighted by skills that ``fit`` learns and ``predict`` uses."""

    def predict(self, data: Frame) -> Series:
        """Vote with the skills learnt and return ``labels_``; all workers must have been seen in ``fit``."""
        return self._apply(data).labels_

    def predict_proba(self, data: Frame) -> Frame:
        """Vote with the skills learnt and return ``probas_``; all workers must have been seen in ``fit``."""
        return self._apply(data).probas_

    def _apply(self, data: Frame) -> Self:
        if not hasattr(self, "skills_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(data) first")
        log = _log(data)
        if log is None:
            self._vote_on_nothing(data)
        else:
            self._vote(log, _skills_of(log, self.skills_))
        return self

    def _forget(self) -> None:
        """Drop the outcome of votes on an earlier log."""
        for name in ("labels_", "probas_"):
            self.__dict__.pop(name, None)


def _log(data: Frame) -> Log | None:
    """Encode a frame; None if it has no rows."""
    data = log_columns(data)
    return Log.of(data) if len(data) else None


class _SelfTaught(_SkillVoter):
    """Skills learnt from the log alone."""

    def fit(self, data: Frame) -> Self:
        """Learn the workers' skills, ``skills_``, from a log."""
        self._learn(data)
        return self

    def fit_predict(self, data: Frame) -> Series:
        """Learn from a log, vote on its tasks, and return ``labels_``."""
        return self._learn_and_vote(data).labels_

    def fit_predict_proba(self, data: Frame) -> Frame:
        """Learn from a log, vote on its tasks, and return ``probas_``."""
        return self._learn_and_vote(data).probas_

    def _learn_and_vote(self, data: Frame) -> Self:
        log = self._learn(data)
        if log is None:
            self._vote_on_nothing(data)
        else:
            self._vote(log, self.skills_)
        return self

    def _learn(self, data: Frame) -> Log | None:
        self._forget()
        log = _log(data)
        if log is None:
            self.skills_ = no_series("skill", data["worker"])
        else:
            self.skills_ = series(self._learnt_skills(log), log.workers, "skill")
        return log

    def _learnt_skills(self, log: Log) -> Array:
        """Skills in the order of worker codes."""
        raise NotImplementedError


class Wawa(_SelfTaught):
    """Worker agreement with aggregate: a vote in which workers count by their agreement with the majority.

    Attributes
    ----------
    skills_ : Series
        Share of labels that agree with the majority vote, by worker; known after ``fit``.
    labels_, probas_ : Series, DataFrame
        The outcome of the last ``predict`` or ``predict_proba``, as in :class:`MajorityVote`.

    Notes
    -----
    As :class:`manyhands.categorical.WeightedVote` with ``weights="agreement"``: a few passes over the annotations.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import Wawa
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2], "worker": list("abcac"), "label": [1, 1, 0, 1, 1]})
    >>> Wawa().fit(log).skills_.to_dict()
    {'a': 1.0, 'b': 1.0, 'c': 0.5}
    """

    def __init__(self) -> None:
        pass

    def _learnt_skills(self, log: Log) -> Array:
        return _WeightedVote("agreement").fit(log.votes).weights_


class ZeroBasedSkill(_SelfTaught):
    """Zero-based skill: vote, move each worker's skill towards their agreement with the outcome, and again.

    Parameters
    ----------
    n_iter
        Rounds.
    lr_init, lr_steps_to_reduce, lr_reduce_factor
        How far towards the agreement a skill moves; in every so many rounds this is multiplied by the factor.
    eps
        Skills start from 1 / (number of classes) and this much more.

    Attributes
    ----------
    skills_ : Series
        The skill after the last round, by worker; known after ``fit``.
    labels_, probas_ : Series, DataFrame
        The outcome of the last ``predict`` or ``predict_proba``, as in :class:`MajorityVote`.

    Notes
    -----
    As :class:`manyhands.categorical.WeightedVote` with ``weights="zero-based"``: two passes over the annotations
    a round, and an early end when skills stand still.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import ZeroBasedSkill
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2], "worker": list("abcac"), "label": [1, 1, 0, 1, 1]})
    >>> ZeroBasedSkill().fit_predict(log).to_dict()
    {1: 1, 2: 1}
    """

    def __init__(
        self,
        n_iter: int = 100,
        lr_init: float = 1.0,
        lr_steps_to_reduce: int = 20,
        lr_reduce_factor: float = 0.5,
        eps: float = 1e-5,
    ) -> None:
        self.n_iter = n_iter
        self.lr_init = lr_init
        self.lr_steps_to_reduce = lr_steps_to_reduce
        self.lr_reduce_factor = lr_reduce_factor
        self.eps = eps

    def _learnt_skills(self, log: Log) -> Array:
        initial = 1 / log.votes.n_classes + self.eps
        if self.n_iter == 0:
            return np.full(log.votes.n_workers, initial)
        model = _WeightedVote(
            "zero-based",
            n_iter=self.n_iter,
            learning_rate=self.lr_init,
            rate_decay=self.lr_reduce_factor,
            decay_every=self.lr_steps_to_reduce,
            initial_skill=initial,
        )
        return model.fit(log.votes).weights_


class GoldMajorityVote(_SkillVoter):
    """A vote in which workers count by their share of right answers to tasks whose class is known.

    Attributes
    ----------
    skills_ : Series
        Share of right answers to the known tasks, by worker; known after ``fit``, for those who labelled such a task.
    labels_, probas_ : Series, DataFrame
        The outcome of the last ``predict`` or ``predict_proba``, as in :class:`MajorityVote`.

    Notes
    -----
    Two passes over the annotations. Every worker who votes must have labelled a known task.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import GoldMajorityVote
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": [0, 0, 1, 1, 0, 1]})
    >>> model = GoldMajorityVote()
    >>> model.fit_predict(log, pd.Series({1: 0})).to_dict(), model.skills_.to_dict()
    ({1: 0, 2: 0}, {'a': 1.0, 'b': 1.0, 'c': 0.0})
    """

    def __init__(self) -> None:
        pass

    def fit(self, data: Frame, true_labels: Series) -> Self:
        """Learn the workers' skills, ``skills_``, from the tasks of a log whose class is known.

        A task may be known to have several classes, in a row of `true_labels` each: any of them is right.
        """
        self._forget()
        data = log_columns(data)
        self.skills_ = _accuracy(Log.of(data), true_labels) if len(data) else no_series("skill", data["worker"])
        return self

    def fit_predict(self, data: Frame, true_labels: Series) -> Series:
        """Learn from a log and known classes, vote on its tasks, and return ``labels_``."""
        return self.fit(data, true_labels).predict(data)

    def fit_predict_proba(self, data: Frame, true_labels: Series) -> Frame:
        """Learn from a log and known classes, vote on its tasks, and return ``probas_``."""
        return self.fit(data, true_labels).predict_proba(data)


def _accuracy(log: Log, true_labels: Series) -> Series:
    """Share of right answers to the known tasks, by worker who gave any."""
    truth = true_labels.dropna()
    known_tasks, right_classes = find(log.tasks, truth.index), find(log.classes, truth)
    tasks, workers, labels = (column.astype(np.int64) for column in log.votes.codes())
    k = log.votes.n_classes
    # A class that nobody named is nobody's right answer.
    right = np.isin(tasks * k + labels, (known_tasks * k + right_classes)[(known_tasks >= 0) & (right_classes >= 0)])
    known = np.isin(tasks, known_tasks)
    n_right, n_known = (np.bincount(workers, of, minlength=log.votes.n_workers) for of in (right, known))
    judged = n_known > 0
    return series(n_right[judged] / n_known[judged], log.workers[judged], "skill")
