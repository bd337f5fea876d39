"""The twins of crowd-kit's measures of a log: Krippendorff's alpha, consistency, uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from manyhands.agreement import krippendorff_alpha
from manyhands.base import Array
from manyhands.checks import check_choice
from manyhands.compat._log import Log, find, log_columns, series
from manyhands.compat._voting import MajorityVote
from manyhands.errors import NotFittedError

if TYPE_CHECKING:
    from manyhands.compat._log import Codes, Frame, Index, Series


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

    Notes
    -----
    As :func:`manyhands.agreement.krippendorff_alpha`, which has intervals too: O(annotations). With a `distance`,
    O(tasks · labels²).

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import alpha_krippendorff
    >>> log = pd.DataFrame({"task": list("XXYYZZ"), "worker": list("ABABAB"), "label": list("yynnyn")})
    >>> round(alpha_krippendorff(log), 4)
    0.4444
    """
    log = _log_of(answers)
    counts = _counts(log, "task")
    paired = counts[counts.sum(axis=1) > 1]
    if not len(paired) and log.votes.n_classes > 1:
        raise ValueError("no task has two labels: there is nothing to compare")
    if (paired.sum(axis=0) > 0).sum() <= 1:
        return 1.0
    if distance is None:
        return krippendorff_alpha(log.votes).value
    labels = log.classes.tolist()
    apart = np.array([[float(distance(a, b)) for b in labels] for a in labels])
    sizes, totals = paired.sum(axis=1), paired.sum(axis=0)
    observed = (((paired @ apart) * paired).sum(axis=1) / (sizes - 1)).sum()
    expected = totals @ apart @ totals
    return float(1 - observed * (totals.sum() - 1) / expected)


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
    O(annotations + tasks · labels), in logarithms: any number of labels a task.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import consistency
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": list("abc"), "label": list("xxy")})
    >>> round(consistency(log, pd.Series({"a": 0.8, "b": 0.8, "c": 0.8})), 4)
    0.8
    """
    aggregator = MajorityVote() if aggregator is None else aggregator
    labels = aggregator.fit_predict(answers)
    log = _log_of(answers)
    skills = _skills(log, _known_skills(aggregator) if workers_skills is None else workers_skills)
    _, workers, _ = log.votes.codes()
    k = log.votes.n_classes
    with np.errstate(divide="ignore"):
        right, wrong = np.log(skills)[workers], np.log((1 - skills) / max(k - 1, 1))[workers]
    # Impossible answers are counted apart: minus infinity cannot be taken back.
    possible = _scored(log, "task", *(np.where(np.isfinite(part), part, 0.0) for part in (right, wrong)))
    impossible = _scored(log, "task", *((~np.isfinite(part)).astype(float) for part in (right, wrong)))
    scores = np.where(impossible > 0, -np.inf, possible)
    largest = scores.max(axis=1, keepdims=True)
    shares = np.exp(scores - np.where(np.isfinite(largest), largest, 0.0))
    total = shares.sum(axis=1)
    named = shares[np.arange(len(shares)), find(log.classes, labels[log.tasks])]
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
    O(annotations + tasks · labels).

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import uncertainty
    >>> log = pd.DataFrame({"task": list("XXYY"), "worker": list("ABAB"), "label": ["yes", "no", "yes", "yes"]})
    >>> uncertainty(log, aggregate=False).round(6).to_dict()
    {'X': 0.693147, 'Y': 0.0}
    """
    check_choice("compute_by", compute_by, ("task", "worker"))
    if workers_skills is None and aggregator is not None:
        workers_skills = _known_skills(aggregator.fit(answers))
    log = _log_of(answers)
    m, k = log.votes.n_workers, log.votes.n_classes
    skills = np.ones(m) if workers_skills is None else _skills(log, workers_skills)
    _, workers, _ = log.votes.codes()
    scores = _scored(log, compute_by, skills[workers], ((1 - skills) / max(k - 1, 1))[workers])
    shares = scores / scores.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    found = series(np.maximum(entropy, 0.0), _names(log, compute_by), "")
    found.name = None
    return float(found.mean()) if aggregate else found


def _log_of(answers: Frame) -> Log:
    answers = log_columns(answers)
    if not len(answers):
        raise ValueError("there are no annotations: the log needs at least one row")
    return Log.of(answers)


def _known_skills(aggregator: Any) -> Series:
    if not hasattr(aggregator, "skills_"):
        raise NotFittedError(f"{type(aggregator).__name__} has no skills_; give workers_skills")
    skills: Series = aggregator.skills_
    return skills


def _skills(log: Log, given: Series) -> Array:
    """Skills in the order of worker codes."""
    at = find(given.index, log.workers)
    skills: Array = np.append(given.to_numpy(float), np.nan)[at]
    if np.isnan(skills).any():
        raise ValueError(f"no skill is known for worker {log.workers[np.isnan(skills)].tolist()[0]!r}; give it too")
    if ((skills < 0) | (skills > 1)).any():
        bad = int(np.argmax((skills < 0) | (skills > 1)))
        raise ValueError(f"the skill of worker {log.workers.tolist()[bad]!r} is {skills[bad]:g}, not a probability")
    return skills


def _names(log: Log, by: str) -> Index:
    return log.tasks if by == "task" else log.workers


def _groups(log: Log, by: str) -> Codes:
    tasks, workers, _ = log.votes.codes()
    return (tasks if by == "task" else workers).astype(np.intp)


def _counts(log: Log, by: str) -> Array:
    """How often each group was given each label."""
    ones = np.ones(log.votes.n_annotations)
    return _scored(log, by, ones, np.zeros_like(ones))


def _scored(log: Log, by: str, right: Array, wrong: Array) -> Array:
    """For each group and label the sum over annotations of `right` where it is named, and of `wrong` where not."""
    groups, k = _groups(log, by), log.votes.n_classes
    labels = log.votes.codes()[2]
    n = len(_names(log, by))
    named: Array = np.bincount(groups * k + labels, right - wrong, minlength=n * k).reshape(n, k).astype(np.float64)
    return named + np.bincount(groups, wrong, minlength=n)[:, None]
