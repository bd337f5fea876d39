"""The twins of crowd-kit's measures of a log: Krippendorff's alpha, consistency, uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from manyhands._base.estimator import Array
from manyhands.compat._log import Codes, Log, find, import_pandas, log_columns, series
from manyhands.compat._voting import MajorityVote

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series


def alpha_krippendorff(answers: Frame, distance: Callable[[Hashable, Hashable], float] | None = None) -> float:
    """Krippendorff's alpha of a log.

    Parameters
    ----------
    answers
        The log, with columns ``task``, ``worker`` and ``label``.
    distance
        How much two labels differ, from 0 to 1; by default 0 for equal labels and 1 for others.

    Returns
    -------
    float
        1 for perfect agreement (also where only one label occurs), 0 for chance.

    Raises
    ------
    ZeroDivisionError
        If no task has two labels, or the distance is nought throughout.

    Notes
    -----
    As :func:`manyhands.agreement.krippendorff_alpha`, which has intervals too: O(tasks · labels²).

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import alpha_krippendorff
    >>> log = pd.DataFrame({"task": list("XXYYZZ"), "worker": list("ABABAB"), "label": list("yynnyn")})
    >>> round(alpha_krippendorff(log), 4)
    0.4444
    """
    log = _log_of(answers)
    if log.votes.n_classes == 1:
        return 1.0
    if log.votes.n_tasks == log.votes.n_workers == 1:
        raise ValueError("one worker labelled one task: there is nobody to compare with")
    counts = _counts(log)
    paired = counts[counts.sum(axis=1) > 1]
    totals = paired.sum(axis=0)
    if (totals > 0).sum() == 1:
        return 1.0
    labels = log.classes.tolist()
    apart = (
        1 - np.eye(len(labels))
        if distance is None
        else np.array([[float(distance(a, b)) for b in labels] for a in labels])
    )
    n, sizes = totals.sum(), paired.sum(axis=1)
    expected = (totals @ apart @ totals) / (n * (n - 1)) if n else 0.0
    if expected == 0:
        why = "all labels are alike to this distance" if n else "no task has two labels"
        raise ZeroDivisionError(f"{why}: there is nothing that could disagree by chance")
    # Divided, multiplied and added up as in crowd-kit: the same to the last digit where distances are whole numbers.
    terms = ((paired @ apart) * paired).sum(axis=1) / (sizes * (sizes - 1)) * sizes
    return float(1 - terms.cumsum()[-1] / n / expected)


def consistency(
    answers: Frame, workers_skills: Series | None = None, aggregator: Any = None, by_task: bool = False
) -> float | Series:
    """How probable the aggregated labels are, given the skills of the workers.

    Parameters
    ----------
    answers
        The log, with columns ``task``, ``worker`` and ``label``.
    workers_skills
        Probability of a right answer, by worker; by default the ``skills_`` of the aggregator.
    aggregator
        What makes the labels: anything with ``fit_predict``, by default :class:`MajorityVote`.
    by_task
        Whether to return a number for each task rather than their mean.

    Returns
    -------
    float or Series
        Posteriors of the labels under even classes and evenly spread errors; 0 for a task whose labels are impossible.

    Notes
    -----
    O(annotations · labels). Where a product of probabilities is too small for a number, in logarithms: any number of
    labels a task.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import consistency
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": list("abc"), "label": list("xxy")})
    >>> round(consistency(log, pd.Series({"a": 0.8, "b": 0.8, "c": 0.8})), 4)
    0.8
    """
    _check_columns(answers)
    aggregator = MajorityVote() if aggregator is None else aggregator
    labels = aggregator.fit_predict(answers)
    log = _log_of(answers)
    skills = _skills(log, _known_skills(aggregator) if workers_skills is None else workers_skills)
    rows = _Rows.of(log, skills)
    shares = rows.by_label("task", "prod")
    total = _row_sums(shares)
    if (total == 0).any():
        # All products vanish: for want of digits, or because some answer is impossible whatever the class.
        shares = np.where((total == 0)[:, None], rows.in_logarithms(), shares)
        total = _row_sums(shares)
    codes = find(log.classes.take(rows.order), labels[log.tasks])
    named = shares[np.arange(len(shares)), codes]
    found = series(np.where(total > 0, named / np.where(total > 0, total, 1.0), 0.0), log.tasks, "")
    found.name = None
    return found if by_task else float(found.mean())


def uncertainty(
    answers: Frame,
    workers_skills: Series | None = None,
    aggregator: Any = None,
    compute_by: Literal["task", "worker"] = "task",
    aggregate: bool = True,
) -> float | Series:
    """Entropy of the labels of each task or worker, in nats.

    Parameters
    ----------
    answers
        The log, with columns ``task``, ``worker`` and ``label``.
    workers_skills
        Probability of a right answer, by worker: the rest of each answer is spread over the other labels. By default
        the ``skills_`` of the aggregator, and without one everybody is right.
    aggregator
        What learns skills: anything with ``fit``.
    compute_by
        ``"task"`` or ``"worker"``.
    aggregate
        Whether to return the mean rather than a number for each task or worker.

    Returns
    -------
    float or Series
        0 where all labels are the same and everybody is right.

    Notes
    -----
    O(annotations · labels).

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import uncertainty
    >>> log = pd.DataFrame({"task": list("XXYY"), "worker": list("ABAB"), "label": ["yes", "no", "yes", "yes"]})
    >>> uncertainty(log, aggregate=False).round(6).to_dict()
    {'X': 0.693147, 'Y': 0.0}
    """
    _check_columns(answers)
    if compute_by not in ("task", "worker"):
        raise KeyError(f"compute_by must be 'task' or 'worker', not {compute_by!r}")
    if workers_skills is None and aggregator is not None:
        workers_skills = _known_skills(aggregator.fit(answers))
    log = _log_of(answers)
    skills = np.ones(log.votes.n_workers) if workers_skills is None else _skills(log, workers_skills)
    scores = _Rows.of(log, skills).by_label(compute_by, "sum")
    # Twice to one, as in crowd-kit, for the sake of the last digit.
    shares = scores / (_row_sums(scores) + 1e-6)[:, None]
    shares /= shares.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    found = series(np.maximum(entropy, 0.0), log.tasks if compute_by == "task" else log.workers, "")
    found.name = None
    return float(found.mean()) if aggregate else found


def _check_columns(answers: Frame) -> None:
    """Refuse what is no log, with the exceptions of crowd-kit."""
    try:
        log_columns(answers)
    except KeyError as error:
        raise AssertionError(*error.args) from None


def _log_of(answers: Frame) -> Log:
    _check_columns(answers)
    answers = log_columns(answers)
    if not len(answers):
        raise ValueError("there are no annotations: the log needs at least one row")
    return Log.of(answers)


def _known_skills(aggregator: Any) -> Series:
    if not hasattr(aggregator, "skills_"):
        raise AssertionError(f"{type(aggregator).__name__} has no skills_; give workers_skills")
    skills: Series = aggregator.skills_
    return skills


def _skills(log: Log, given: Series) -> Array:
    """Skills in the order of worker codes."""
    given = import_pandas().Series(given)
    skills: Array = np.append(given.to_numpy(float), np.nan)[find(given.index, log.workers)]
    if np.isnan(skills).any():
        raise AssertionError(f"no skill is known for worker {log.workers[np.isnan(skills)].tolist()[0]!r}; give it too")
    if ((skills < 0) | (skills > 1)).any():
        bad = int(np.argmax((skills < 0) | (skills > 1)))
        raise ValueError(f"the skill of worker {log.workers.tolist()[bad]!r} is {skills[bad]:g}, not a probability")
    return skills


def _counts(log: Log) -> Array:
    """How often each task was given each label."""
    tasks, _, labels = log.votes.codes()
    n, k = log.votes.n_tasks, log.votes.n_classes
    return np.bincount(tasks * np.int64(k) + labels, minlength=n * k).reshape(n, k).astype(np.float64)


def _row_sums(columns: Array) -> Array:
    """Sums of rows, from left to right."""
    sums: Array = columns.cumsum(axis=1)[:, -1]
    return sums


@dataclass(frozen=True)
class _Rows:
    """The labelled rows of a log in the order of its frame, in codes, and how probable each answer is.

    The order is that in which crowd-kit multiplies and adds, as are pandas' groups: hence the same last digits.
    """

    tasks: Codes
    workers: Codes
    labels: Codes
    right: Array
    wrong: Array
    order: Codes
    """The labels in the order in which the rows first name them."""

    @classmethod
    def of(cls, log: Log, skills: Array) -> _Rows:
        labels = find(log.classes, log.data["label"])
        data, labels = log.data[labels >= 0], labels[labels >= 0]
        tasks, workers = find(log.tasks, data["task"]), find(log.workers, data["worker"])
        wrong = (1 - skills) / max(log.votes.n_classes - 1, 1)
        return cls(tasks, workers, labels, skills[workers], wrong[workers], import_pandas().unique(labels))

    def by_label(self, by: str, how: str) -> Array:
        """The product or sum, over the rows of each task or worker, of how probable the answer is for each label."""
        groups = self.tasks if by == "task" else self.workers
        answers = (np.where(self.labels == label, self.right, self.wrong) for label in self.order)
        column = import_pandas().Series
        return np.column_stack([column(answer).groupby(groups).agg(how).to_numpy() for answer in answers])

    def in_logarithms(self) -> Array:
        """Products by task and label, up to a factor for each task; 0 where an answer is impossible."""
        with np.errstate(divide="ignore"):
            right, wrong = np.log(self.right), np.log(self.wrong)
        logs = np.column_stack(
            [np.bincount(self.tasks, np.where(self.labels == label, right, wrong)) for label in self.order]
        )
        largest = logs.max(axis=1, keepdims=True)
        return np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
