"""crowd-kit's measures of a log: Krippendorff's alpha, consistency, uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from manyhands._base.checks import check_choice
from manyhands._base.estimator import Array
from manyhands.compat._log import Log, find, import_pandas, series
from manyhands.compat._votes import MajorityVote

if TYPE_CHECKING:
    from manyhands.compat._log import Frame, Series


def alpha_krippendorff(answers: Frame, distance: Callable[[Hashable, Hashable], float] | None = None) -> float:
    """Krippendorff's alpha of a log.

    Parameters
    ----------
    answers : frame
        The log, with columns ``task``, ``worker`` and ``label``.
    distance : callable or None, default None
        How much two labels differ, from 0 to 1; by default 0 for equal labels and 1 for others.

    Returns
    -------
    float
        1 for perfect agreement (also where only one label occurs), 0 for chance.

    Raises
    ------
    ZeroDivisionError
        If no task has two labels, or all distances are zero.

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
    log = Log.of(answers)
    n, k = log.votes.n_tasks, log.votes.n_classes
    if k == 1:
        return 1.0
    if n == log.votes.n_workers == 1:
        raise ValueError("one worker labeled one task: there is nothing to compare with")
    tasks, _, labels = log.votes.codes()
    counts = np.bincount(tasks * np.int64(k) + labels, minlength=n * k).reshape(n, k).astype(np.float64)
    paired = counts[counts.sum(axis=1) > 1]
    totals, sizes = paired.sum(axis=0), paired.sum(axis=1)
    if (totals > 0).sum() == 1:
        return 1.0
    names = log.classes.tolist()
    apart = 1 - np.eye(k) if distance is None else np.array([[float(distance(a, b)) for b in names] for a in names])
    total = totals.sum()
    expected = (totals @ apart @ totals) / (total * (total - 1)) if total else 0.0
    if expected == 0:
        why = "all labels are alike to this distance" if total else "no task has two labels"
        raise ZeroDivisionError(f"{why}: there is nothing that could disagree by chance")
    observed = (((paired @ apart) * paired).sum(axis=1) / (sizes - 1)).sum() / total
    return float(1 - observed / expected)


def consistency(
    answers: Frame, workers_skills: Series | None = None, aggregator: Any = None, by_task: bool = False
) -> float | Series:
    """How probable the aggregated labels are, given the skills of the workers.

    Parameters
    ----------
    answers : frame
        The log, with columns ``task``, ``worker`` and ``label``.
    workers_skills : Series or None, default None
        Probability of a right answer, by worker; by default the ``skills_`` of the aggregator.
    aggregator
        What makes the labels: anything with ``fit_predict``, by default :class:`MajorityVote`.
    by_task : bool, default False
        Whether to return a number for each task rather than their mean.

    Returns
    -------
    float or Series
        Posteriors of the labels under even classes and evenly spread errors; 0 for a task whose labels are impossible.

    Notes
    -----
    O(annotations · labels), in logarithms: any number of labels per task.

    Examples
    --------
    >>> import pandas as pd
    >>> from manyhands.compat.crowdkit import consistency
    >>> log = pd.DataFrame({"task": [1, 1, 1], "worker": list("abc"), "label": list("xxy")})
    >>> round(consistency(log, pd.Series({"a": 0.8, "b": 0.8, "c": 0.8})), 4)
    0.8
    """
    log = Log.of(answers)
    aggregator = MajorityVote() if aggregator is None else aggregator
    labels = aggregator.fit_predict(answers)
    with np.errstate(divide="ignore"):
        logs = np.log(_probabilities(log, workers_skills, aggregator))
    tasks = log.votes.codes()[0]
    scores = np.column_stack([np.bincount(tasks, column, log.votes.n_tasks) for column in logs.T])
    largest = scores.max(axis=1, keepdims=True)
    shares = np.exp(scores - np.where(np.isfinite(largest), largest, 0.0))
    total = shares.sum(axis=1)
    winners = shares[np.arange(len(shares)), find(log.classes, labels[log.tasks])]
    return _result(np.where(total > 0, winners / np.where(total > 0, total, 1.0), 0.0), log.tasks, not by_task)


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
    answers : frame
        The log, with columns ``task``, ``worker`` and ``label``.
    workers_skills : Series or None, default None
        Probability of a right answer, by worker: the rest of each answer is spread over the other labels. By default
        the ``skills_`` of the aggregator, and without one all workers are right.
    aggregator
        What learns skills: anything with ``fit``.
    compute_by : {"task", "worker"}, default "task"
        ``"task"`` or ``"worker"``.
    aggregate : bool, default True
        Whether to return the mean rather than a number for each task or worker.

    Returns
    -------
    float or Series
        0 where all labels are the same and all workers are right.

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
    check_choice("compute_by", compute_by, ("task", "worker"))
    log = Log.of(answers)
    if workers_skills is None:
        if aggregator is None:
            workers_skills = series(np.ones(len(log.workers)), log.workers, "skill")
        else:
            aggregator.fit(answers)
    tasks, workers, _ = log.votes.codes()
    groups, names = (tasks, log.tasks) if compute_by == "task" else (workers, log.workers)
    probabilities = _probabilities(log, workers_skills, aggregator)
    shares = np.column_stack([np.bincount(groups, column, len(names)) for column in probabilities.T])
    shares = shares / shares.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    return _result(np.maximum(entropy, 0.0), names, aggregate)


def _probabilities(log: Log, workers_skills: Series | None, aggregator: Any) -> Array:
    """How probable each annotation is for each true label, (n_annotations, n_classes)."""
    if workers_skills is None:
        if not hasattr(aggregator, "skills_"):
            raise ValueError(f"{type(aggregator).__name__} has no skills_; give workers_skills")
        workers_skills = aggregator.skills_
    skills = log.by_worker(import_pandas().Series(workers_skills), "skill")
    if ((skills < 0) | (skills > 1)).any():
        bad = int(np.argmax((skills < 0) | (skills > 1)))
        raise ValueError(f"the skill of worker {log.workers.tolist()[bad]!r} is {skills[bad]:g}, not a probability")
    _, workers, labels = log.votes.codes()
    k = log.votes.n_classes
    wrong = (1 - skills) / max(k - 1, 1)
    probabilities: Array = np.where(np.arange(k) == labels[:, None], skills[workers, None], wrong[workers, None])
    return probabilities


def _result(numbers: Array, names: Any, mean: bool) -> float | Series:
    return float(numbers.mean()) if mean else import_pandas().Series(numbers, names)
