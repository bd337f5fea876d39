"""crowd-kit's voting methods and its aggregation of sets of labels."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from manyhands import _core, categorical
from manyhands._base.checks import check_choice
from manyhands._base.estimator import Array
from manyhands.compat._log import COLUMNS, LabelTwin, Log, Twin, columns_of, find, import_pandas, series
from manyhands.errors import NotFittedError

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series


def _vote(log: Log, skills: Array | None) -> Array:
    """Vote shares, workers counting by their skill if skills are given."""
    if skills is None:
        return categorical.MajorityVote().fit(log.votes).posterior_
    weights = dict(zip(log.votes.workers.tolist(), skills.tolist(), strict=True))
    return categorical.WeightedVote(weights).fit(log.votes).posterior_


@dataclass(repr=False, eq=False)
class MajorityVote(LabelTwin):
    """Majority vote, plain or weighted by given skills.

    Parameters
    ----------
    default_skill : float or None, default None
        Skill of workers whose skill is not given; only with ``on_missing_skill="value"``.
    on_missing_skill : {"error", "ignore", "value"}, default "error"
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

    default_skill: float | None = None
    on_missing_skill: Literal["error", "ignore", "value"] = "error"

    def fit(self, data: Frame, skills: Series | None = None) -> Self:
        """Vote on every task of a log, workers counting by their skill if skills are given."""
        if skills is None:
            log, weights = Log.of(data), None
        else:
            log, weights = self._weighted(columns_of(data, *COLUMNS), skills)
        posterior = _vote(log, weights)
        winners, _ = _core.winners(posterior)
        agree, total = log.votes.table.worker_agreement(winners.astype(np.int32))
        self.skills_ = series(agree / total, log.workers, "skill")
        return self._publish(log, posterior)

    def _weighted(self, data: Frame, skills: Series) -> tuple[Log, Array]:
        """Encode a log, with the skills in the order of its workers."""
        check_choice("on_missing_skill", self.on_missing_skill, ("error", "ignore", "value"))
        if (self.on_missing_skill == "value") != (self.default_skill is not None):
            raise ValueError(
                f"on_missing_skill={self.on_missing_skill!r} does not go with "
                f"default_skill={self.default_skill}: 'value' needs one, the others have no use for it"
            )
        repeated = skills.index[skills.index.duplicated()].tolist()
        if repeated:
            raise ValueError(f"skills name worker {repeated[0]!r} more than once; keep one skill per worker")
        skills = skills.dropna()
        if self.on_missing_skill == "ignore":
            rated = data[data["worker"].isin(skills.index)]
            lost = data["task"][~data["task"].isin(rated["task"])].unique().tolist()
            if lost:
                raise ValueError(
                    f"{len(lost):,} tasks, such as {lost[0]!r}, have no worker with a known skill; give the "
                    "skill of one worker of each, or choose on_missing_skill='value' and a default_skill"
                )
            data = rated
        log = Log.of(data)
        return log, log.by_worker(skills, "skill", np.nan if self.default_skill is None else self.default_skill)


class SkillTwin(LabelTwin):
    """A vote weighted by skills that ``fit`` learns and ``predict`` uses."""

    def predict(self, data: Frame) -> Series:
        """Vote with the skills learned and return ``labels_``; all workers must have been seen in ``fit``."""
        return self._apply(data).labels_

    def predict_proba(self, data: Frame) -> Frame:
        """Vote with the skills learned and return ``probas_``; all workers must have been seen in ``fit``."""
        return self._apply(data).probas_

    def fit_predict(self, data: Frame, *args: Any, **kwargs: Any) -> Series:
        """Learn skills from a log, vote on its tasks, and return ``labels_``."""
        return self.fit(data, *args, **kwargs).predict(data)

    def fit_predict_proba(self, data: Frame, *args: Any, **kwargs: Any) -> Frame:
        """Learn skills from a log, vote on its tasks, and return ``probas_``."""
        return self.fit(data, *args, **kwargs).predict_proba(data)

    def _apply(self, data: Frame) -> Self:
        if not hasattr(self, "skills_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(data) first")
        log = Log.of(data)
        return self._publish(log, self._shares(log, log.by_worker(self.skills_, "skill")))

    def _shares(self, log: Log, skills: Array) -> Array:
        return _vote(log, skills)

    def _set_skills(self, skills: Series) -> Self:
        """Keep skills, and drop the outcome of votes by earlier ones."""
        for name in ("labels_", "probas_"):
            vars(self).pop(name, None)
        self.skills_ = skills
        return self


@dataclass(repr=False, eq=False)
class Wawa(SkillTwin):
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

    def fit(self, data: Frame) -> Self:
        """Learn the workers' skills, ``skills_``, from a log."""
        log = Log.of(data)
        weights = categorical.WeightedVote("agreement").fit(log.votes).weights_
        return self._set_skills(series(weights, log.workers, "skill"))


@dataclass(repr=False, eq=False)
class ZeroBasedSkill(SkillTwin):
    """Zero-based skill: vote, move each worker's skill towards their agreement with the outcome, and again.

    Parameters
    ----------
    n_iter : int, default 100
        Rounds.
    lr_init, lr_steps_to_reduce, lr_reduce_factor
        How far towards the agreement a skill moves, and after how many rounds this is multiplied by the factor.
    eps : float, default 1e-05
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
    per round, and an early end when skills no longer move.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import ZeroBasedSkill
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2], "worker": list("abcac"), "label": [1, 1, 0, 1, 1]})
    >>> ZeroBasedSkill().fit_predict(log).to_dict()
    {1: 1, 2: 1}
    """

    n_iter: int = 100
    lr_init: float = 1.0
    lr_steps_to_reduce: int = 20
    lr_reduce_factor: float = 0.5
    eps: float = 1e-5

    def fit(self, data: Frame) -> Self:
        """Learn the workers' skills, ``skills_``, from a log."""
        log = Log.of(data)
        skills = np.full(log.votes.n_workers, 1 / log.votes.n_classes + self.eps)
        if self.n_iter:
            model = categorical.WeightedVote(
                "zero-based",
                n_iter=self.n_iter,
                learning_rate=self.lr_init,
                rate_decay=self.lr_reduce_factor,
                decay_every=self.lr_steps_to_reduce,
                initial_skill=float(skills[0]),
            )
            skills = model.fit(log.votes).weights_
        return self._set_skills(series(skills, log.workers, "skill"))


@dataclass(repr=False, eq=False)
class GoldMajorityVote(SkillTwin):
    """A vote in which workers count by their share of right answers to tasks whose class is known.

    Attributes
    ----------
    skills_ : Series
        Share of right answers to the known tasks, by worker; known after ``fit``, for those who labeled such a task.
    labels_, probas_ : Series, DataFrame
        The outcome of the last ``predict`` or ``predict_proba``, as in :class:`MajorityVote`.

    Notes
    -----
    Two passes over the annotations. Every worker who votes must have labeled a known task.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import GoldMajorityVote
    >>> log = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": [0, 0, 1, 1, 0, 1]})
    >>> model = GoldMajorityVote()
    >>> model.fit_predict(log, pd.Series({1: 0})).to_dict(), model.skills_.to_dict()
    ({1: 0, 2: 0}, {'a': 1.0, 'b': 1.0, 'c': 0.0})
    """

    def fit(self, data: Frame, true_labels: Series) -> Self:
        """Learn the workers' skills, ``skills_``, from the tasks of a log whose class is known.

        A task may be known to have several classes, in a row of `true_labels` each: any of them is right.
        """
        log, truth = Log.of(data), true_labels.dropna()
        known_tasks, right_classes = find(log.tasks, truth.index), find(log.classes, truth)
        tasks, workers, labels = (column.astype(np.int64) for column in log.votes.codes())
        k = log.votes.n_classes
        # A class that no worker named is not a worker's right answer.
        right = np.isin(
            tasks * k + labels, (known_tasks * k + right_classes)[(known_tasks >= 0) & (right_classes >= 0)]
        )
        is_gold = np.isin(tasks, known_tasks)
        n_right, n_known = (np.bincount(workers, of, minlength=log.votes.n_workers) for of in (right, is_gold))
        has_gold = n_known > 0
        return self._set_skills(series(n_right[has_gold] / n_known[has_gold], log.workers[has_gold], "skill"))


@dataclass(repr=False, eq=False)
class BinaryRelevance(Twin):
    """Each label as a binary question of its own, answered by another aggregator.

    :class:`manyhands.multilabel.PooledRelevance` learns workers over all labels together, and is the better choice.

    Parameters
    ----------
    base_aggregator
        A class of this module with ``fit_predict``, unfitted; None for a majority vote. Each label has a copy of its
        own.

    Attributes
    ----------
    labels_ : Series
        A list of labels, sorted, by task.

    Notes
    -----
    Time: a fit of the base aggregator for each label that occurs, over all answers.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import BinaryRelevance
    >>> log = pd.DataFrame({"task": ["t", "t", "t"], "worker": [1, 2, 3], "label": [["a", "b"], ["a"], ["a", "c"]]})
    >>> BinaryRelevance().fit_predict(log).to_dict()
    {'t': ['a']}
    """

    base_aggregator: Any = None

    def fit(self, data: Frame) -> Self:
        """Aggregate each label that occurs in the lists of the column ``label``."""
        data = columns_of(data, *COLUMNS)
        base = MajorityVote() if self.base_aggregator is None else self.base_aggregator
        if not hasattr(base, "fit_predict"):
            raise TypeError(f"base_aggregator must have fit_predict, which {type(base).__name__} has not")
        rows = data["label"].tolist()
        for place, row in enumerate(rows):
            if not isinstance(row, list | tuple | set | frozenset | np.ndarray):
                raise TypeError(f"label holds {row!r} at row {place}; BinaryRelevance takes lists of labels")
        answers: dict[Any, list[Any]] = {task: [] for task in data["task"].unique().tolist()}
        for label in sorted({item for row in rows for item in row}):
            question = data[["task", "worker"]].assign(label=[int(label in row) for row in rows])
            for task, holds in copy.deepcopy(base).fit_predict(question).items():
                if holds:
                    answers[task].append(label)
        self.labels_ = import_pandas().Series(answers, name="agg_label", dtype=object).rename_axis("task")
        return self
