"""Agreement of numbers: intraclass correlations, correlations of pairs of workers, and limits of agreement.

Variance components are estimated from pairs of ratings, for any design: two ratings of one task by different workers
differ by worker and noise variance, two by one worker of different tasks by task and noise variance, and two that share
neither by all three. Each mean of half the squared differences is unbiased for its sum of components; on complete
tables the components equal those of the analysis of variance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_between, check_choice, check_flag, check_number, plural, warn_of_data
from manyhands._base.estimator import Array
from manyhands._base.names import sequence
from manyhands.agreement.result import Agreement, Jackknife
from manyhands.numeric.table import Ratings

_MODELS = ("one-way", "two-way", "consistency")
#: A coefficient lies above -1, so that disagreement, one minus it, is at most this.
_WORST = 2.0


class _Log(NamedTuple):
    """Columns of a log of one number, in standard units."""

    tasks: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int64]
    values: Array
    deviation: float
    n_tasks: int
    n_workers: int

    @classmethod
    def of(cls, ratings: Any) -> _Log:
        table: Ratings = Ratings._as_table(ratings)
        if table.n_dims > 1:
            raise ValueError(f"agreement needs one number per answer, not {table.n_dims}; make a table of one of them")
        if table.weights is not None:
            warn_of_data("agreement ignores the weights of ratings")
        tasks, workers, values = table.codes()
        largest = float(np.abs(values).max()) or 1.0
        values = values / largest
        values = values - values.mean()
        deviation = float(values.std())
        values = values / (deviation or 1.0)
        size = largest * deviation
        return cls(tasks.astype(np.int64), workers.astype(np.int64), values, size, table.n_tasks, table.n_workers)

    def rows(self, keep: npt.NDArray[np.bool_]) -> _Log:
        return self._replace(tasks=self.tasks[keep], workers=self.workers[keep], values=self.values[keep])


class _Components(NamedTuple):
    """Means of half the squared differences of pairs of ratings; NaN where there are no such pairs."""

    same_task: float
    same_worker: float
    other_task: float
    apart: float
    n_pairs: int
    n_tasks: int
    #: Harmonic mean of the number of ratings per task.
    raters: float


def _components(log: _Log) -> _Components:
    def pairs(codes: npt.NDArray[np.int64], n: int) -> tuple[float, float]:
        """Sum of half the squared differences within groups, and number of pairs."""
        counts = np.bincount(codes, minlength=n)
        sums = np.bincount(codes, log.values, n)
        means = np.divide(sums, counts, out=np.zeros(n), where=counts > 0)
        squares = np.bincount(codes, (log.values - means[codes]) ** 2, n)
        return float((counts * squares).sum()) / 2, float((counts * (counts - 1.0)).sum()) / 2

    both = np.unique(log.tasks * log.n_workers + log.workers, return_inverse=True)[1].ravel()
    everyone = np.zeros(len(log.values), np.int64)
    total, task, worker, same = (
        np.array(pairs(codes, n))
        for codes, n in (
            (everyone, 1),
            (log.tasks, log.n_tasks),
            (log.workers, log.n_workers),
            (both, int(both.max(initial=0)) + 1),
        )
    )

    def mean(sums: npt.NDArray[np.float64]) -> float:
        return float(sums[0] / sums[1]) if sums[1] > 0 else float("nan")

    counts = np.bincount(log.tasks, minlength=log.n_tasks)
    several = counts[counts > 1]
    raters = len(several) / float((1.0 / several).sum()) if len(several) else float("nan")
    return _Components(
        mean(task - same),
        mean(worker - same),
        mean(total - task),
        mean(total - task - worker + same),
        int((task - same)[1]),
        len(several),
        raters,
    )


def _coefficient(found: _Components, model: str, average: bool) -> float:
    """Return an intraclass correlation; NaN if it is undefined."""
    if model == "one-way":
        signal, rest = found.other_task - found.same_task, found.same_task
    elif model == "two-way":
        signal, rest = found.apart - found.same_task, found.same_task
    else:
        signal = found.apart - found.same_task
        rest = found.same_task + found.same_worker - found.apart
    rest = max(rest, 0.0) if not np.isnan(rest) else rest
    total = signal + (rest / found.raters if average else rest)
    if not total > 1e-12 * (abs(signal) + rest):
        return float("nan")
    # A negative component is an estimate of one near zero.
    return max(float(signal / total), -1.0)


def icc(
    ratings: Any,
    model: str = "two-way",
    *,
    average: bool = False,
    resamples: int = 100,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Intraclass correlation: the share of the ratings' variance that is due to the tasks.

    Use it to report how reliable numeric ratings are; set `average=True` for the reliability of their mean.

    Parameters
    ----------
    ratings : Ratings or frame
        A :class:`~manyhands.Ratings` table of one number, or a frame with well-known column names.
    model : {"one-way", "two-way", "consistency"}, default "two-way"
        ``"one-way"``, ICC(1): ignores which worker gave a rating. ``"two-way"``, ICC(2): workers are a random sample,
        and their biases count as disagreement (absolute agreement). ``"consistency"``, ICC(3): biases are ignored.
    average : bool, default False
        Reliability of the mean of as many ratings as tasks have, rather than for one: ICC(1, k) and so on. Where tasks
        have different numbers of ratings, k is the harmonic mean of those with at least two.
    resamples, confidence, seed
        Jackknife groups of tasks for the interval (0 for none), its level, and the seed of the groups, as in
        :func:`krippendorff_alpha`.

    Returns
    -------
    Agreement
        1 if all ratings of a task are the same, 0 if tasks do not differ; below 0 where ratings of one task differ more
        than those of different ones. NaN where there is nothing to compare. ``n_pairs`` counts pairs of ratings on the
        same task.

    Notes
    -----
    Variance components come from pairs of ratings (see the module), for complete tables and for sparse ones; for
    complete ones they are those of Shrout and Fleiss (1979). Two-way models need workers who rated several tasks.
    Repeated ratings of a task by the same worker are not compared with each other. O(ratings) time and memory, times
    `resamples`.

    Examples
    --------
    >>> import manyhands as mh
    >>> judged = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    >>> rows = [(task, worker, value) for task, row in enumerate(judged) for worker, value in enumerate(row)]
    >>> ratings = mh.Ratings.from_arrays(*zip(*rows))
    >>> [round(float(mh.agreement.icc(ratings, model)), 2) for model in ("one-way", "two-way", "consistency")]
    [0.17, 0.29, 0.71]
    """
    check_choice("model", model, _MODELS)
    check_flag("average", average)
    jackknife = Jackknife(resamples, confidence, seed)
    jackknife.check()

    def measure(log: _Log) -> _Measured:
        components = _components(log)
        return _Measured(_coefficient(components, model, average), components.n_pairs, components.n_tasks)

    reason = "no task has ratings by two workers, or none of them vary"
    return _with_interval(_Log.of(ratings), jackknife, measure, reason)


class _Measured(NamedTuple):
    """A coefficient, the number of pairs compared, and the number of tasks with at least one pair."""

    value: float
    n_pairs: int
    n_tasks: int


def _with_interval(log: _Log, jackknife: Jackknife, measure: Callable[[_Log], _Measured], reason: str) -> Agreement:
    """Compute a coefficient and its jackknife interval."""
    whole = measure(log)
    left_out, sizes = _left_out(log, jackknife, lambda rest: measure(rest).value)
    estimates: Any = {**whole._asdict(), "left_out": left_out, "sizes": sizes, "worst": _WORST}
    return jackknife.agreement(estimates, reason)


def _left_out(
    log: _Log, jackknife: Jackknife, measure: Callable[[_Log], float]
) -> tuple[Array, npt.NDArray[np.uint32]]:
    """Return the measure without each group of tasks, and the groups' sizes."""
    groups = min(jackknife.resamples, log.n_tasks)
    if groups < 2:
        return np.zeros(0), np.zeros(0, np.uint32)
    group = np.random.default_rng(jackknife.seed).permutation(log.n_tasks) % groups
    values = np.array([measure(log.rows(group[log.tasks] != g)) for g in range(groups)])
    return values, np.bincount(group, minlength=groups).astype(np.uint32)


def pearson(
    ratings: Any,
    *,
    min_overlap: int = 3,
    resamples: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Pearson's correlation of pairs of workers on the tasks they both rated, averaged by the numbers of those tasks.

    Parameters
    ----------
    ratings : Ratings or frame
        A :class:`~manyhands.Ratings` table of one number, or a frame with well-known column names.
    min_overlap : int, default 3
        Pairs with fewer common tasks are left out; three at the least, since two points always lie on a line.
    resamples, confidence, seed
        As in :func:`icc`.

    Returns
    -------
    Agreement
        Between -1 and 1, independent of the workers' biases and scales. ``n_pairs`` counts the pairs of workers
        compared; pairs in which one worker's ratings do not vary are left out. NaN if none remain.

    Notes
    -----
    O(pairs of ratings on the same task) time and memory. A worker's repeated ratings of a task are averaged.

    Examples
    --------
    >>> import manyhands as mh
    >>> ratings = mh.Ratings.from_arrays([1, 1, 2, 2, 3, 3], ["u", "v"] * 3, [1.0, 2.0, 2.0, 4.0, 3.0, 6.5])
    >>> round(float(mh.agreement.pearson(ratings)), 3)
    0.998
    """
    check_number("min_overlap", min_overlap, least=3, whole=True)
    jackknife = Jackknife(resamples, confidence, seed)
    jackknife.check()
    reason = f"no two workers share {min_overlap} tasks on which both vary"
    return _with_interval(_once(_Log.of(ratings)), jackknife, lambda log: _mean_correlation(log, min_overlap), reason)


def _once(log: _Log) -> _Log:
    """The log with the mean of each worker's ratings of a task."""
    keys, place = np.unique(log.tasks * log.n_workers + log.workers, return_inverse=True)
    place = place.ravel()
    values = np.bincount(place, log.values) / np.bincount(place)
    return log._replace(tasks=keys // log.n_workers, workers=keys % log.n_workers, values=values)


def _pairs_on_tasks(log: _Log) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of all pairs of ratings of the same task; the log is in task order."""
    ends = np.searchsorted(log.tasks, log.tasks, side="right")
    later = ends - np.arange(len(ends)) - 1
    first = np.repeat(np.arange(len(ends)), later)
    place = np.arange(len(first)) - np.repeat(np.cumsum(later) - later, later)
    return first, first + place + 1


def _mean_correlation(log: _Log, min_overlap: int) -> _Measured:
    """The average correlation of pairs."""
    first, second = _pairs_on_tasks(log)
    if not len(first):
        return _Measured(float("nan"), 0, 0)
    key = log.workers[first] * log.n_workers + log.workers[second]
    pair = np.unique(key, return_inverse=True)[1].ravel()
    x, y = log.values[first], log.values[second]
    n = np.bincount(pair)
    x, y = (z - (np.bincount(pair, z) / n)[pair] for z in (x, y))
    xx, yy, xy = (np.bincount(pair, product) for product in (x * x, y * y, x * y))
    used = (n >= min_overlap) & (xx > 1e-18 * n) & (yy > 1e-18 * n)
    if not used.any():
        return _Measured(float("nan"), 0, 0)
    r = np.clip(xy[used] / np.sqrt(xx[used] * yy[used]), -1.0, 1.0)
    compared = len(np.unique(log.tasks[first][used[pair]]))
    return _Measured(float(np.average(r, weights=n[used])), int(used.sum()), compared)


def discrepancy_ratio(
    ratings: Any,
    values: Any,
    *,
    min_overlap: int = 1,
    resamples: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Mean absolute error of a model against the workers, relative to that of the workers against each other.

    The mean over workers of the mean absolute error of the model, divided by the mean over pairs of workers of the mean
    absolute difference of their ratings. Below 1, the model differs less from the average worker than workers differ
    from one another. No truth is needed. For classes see :func:`agreement_ratio`.

    Parameters
    ----------
    ratings : Ratings or frame
        A :class:`~manyhands.Ratings` table of one number, or a frame with well-known column names.
    values
        The model's values: a sequence aligned with ``ratings.tasks`` (NaN where it has none), or a mapping from task to
        value.
    min_overlap : int, default 1
        Leave out pairs with fewer common tasks, also with the model.
    resamples, confidence, seed
        As in :func:`icc`.

    Returns
    -------
    Agreement
        At least 0. NaN where no two workers share tasks, none shares tasks with the model, or all workers agree.

    Notes
    -----
    O(pairs of ratings on the same task) time and memory. A worker's repeated ratings of a task are averaged.

    References
    ----------
    I. Lovchinsky et al., "Discrepancy ratio: evaluating model performance when even experts disagree on the truth",
    ICLR 2020.

    Examples
    --------
    >>> import manyhands as mh
    >>> ratings = mh.Ratings.from_arrays([1, 1, 2, 2], ["u", "v"] * 2, [1.0, 3.0, 2.0, 4.0])
    >>> round(mh.agreement.discrepancy_ratio(ratings, [2.0, 3.0]).value, 3)
    0.5
    """
    check_number("min_overlap", min_overlap, least=1, whole=True)
    jackknife = Jackknife(resamples, confidence, seed)
    jackknife.check()
    table: Ratings = Ratings._as_table(ratings)
    log = _Log.of(table)
    tasks, model = _model_values(table, values)
    # In the units of the log; any worker code that is not taken stands for the model.
    raw = table.codes()[2]
    center = float(raw.mean())
    model = (model - center) / log.deviation if log.deviation else model - center
    log = _once(log)
    order = np.argsort(np.concatenate([log.tasks, tasks]), kind="stable")
    both = log._replace(
        tasks=np.concatenate([log.tasks, tasks])[order],
        workers=np.concatenate([log.workers, np.full(len(tasks), log.n_workers)])[order],
        values=np.concatenate([log.values, model])[order],
        n_workers=log.n_workers + 1,
    )
    reason = f"no two workers share {plural(min_overlap, 'task')} and differ, or none shares any with the model"
    return _with_interval(both, jackknife, lambda rows: _discrepancy(rows, min_overlap), reason)


def _model_values(table: Ratings, values: Any) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the task codes and values of a model."""
    if isinstance(values, Mapping):
        codes = table._tasks.match(sequence(list(values))) if values else np.zeros(0, np.int64)
        numbers = np.array(list(values.values()), np.float64)
        if (codes < 0).any():
            raise ValueError(
                f"values has task {list(values)[int(np.argmax(codes < 0))]!r}, which is not in the ratings"
            )
    else:
        numbers = np.asarray(values, np.float64)
        if numbers.shape != (table.n_tasks,):
            raise ValueError(f"values has shape {numbers.shape}; give one value for each of {table.n_tasks:,} tasks")
        codes = np.arange(table.n_tasks)
    if np.isinf(numbers).any():
        raise ValueError("values must be finite, or NaN where the model has none")
    is_number = ~np.isnan(numbers)
    return codes[is_number].astype(np.int64), numbers[is_number]


def _discrepancy(log: _Log, min_overlap: int) -> _Measured:
    """Ratio of mean absolute errors; the model has the last worker code."""
    first, second = _pairs_on_tasks(log)
    if not len(first):
        return _Measured(float("nan"), 0, 0)
    one, other = log.workers[first], log.workers[second]
    pairs, place = np.unique(np.minimum(one, other) * log.n_workers + np.maximum(one, other), return_inverse=True)
    place = place.ravel()
    n = np.bincount(place)
    error = np.bincount(place, np.abs(log.values[first] - log.values[second])) / n
    used, of_model = n >= min_overlap, pairs % log.n_workers == log.n_workers - 1
    with_model, without = error[used & of_model], error[used & ~of_model]
    if not len(with_model) or not len(without) or not without.mean() > 0:
        return _Measured(float("nan"), 0, 0)
    compared = len(np.unique(log.tasks[first][used[place]]))
    return _Measured(float(with_model.mean() / without.mean()), int(used.sum()), compared)


@dataclass(frozen=True)
class Limits:
    """Limits of agreement: where differences between two ratings of a task lie.

    ``bias`` is the mean difference, first worker less second; ``low`` and ``high`` hold the share ``level`` of
    differences if they are normal; ``deviation`` is their standard deviation, and ``n_pairs`` their number.
    """

    bias: float
    low: float
    high: float
    deviation: float
    n_pairs: int
    level: float


def bland_altman(ratings: Any, workers: tuple[Any, Any] | None = None, *, level: float = 0.95) -> Limits:
    """Limits of agreement of two workers, or of any two who rated the same task (Bland and Altman, 1986).

    Parameters
    ----------
    ratings : Ratings or frame
        A :class:`~manyhands.Ratings` table of one number, or a frame with well-known column names.
    workers
        Two workers by name: differences of the first from the second. None for all pairs of different workers on all
        tasks, in either order: their mean difference is then zero.
    level : float, default 0.95
        The share of differences that the limits are to hold.

    Notes
    -----
    NaN where there are no differences to measure, or, for two workers, only one. O(ratings) time and memory.

    Examples
    --------
    >>> import manyhands as mh
    >>> ratings = mh.Ratings.from_arrays([1, 1, 2, 2, 3, 3], ["u", "v"] * 3, [1.0, 2.0, 2.0, 4.0, 3.0, 6.0])
    >>> limits = mh.agreement.bland_altman(ratings, ("u", "v"))
    >>> round(limits.bias, 2), round(limits.low, 2), round(limits.high, 2)
    (-2.0, -3.96, -0.04)
    """
    # Slow to import.
    from statistics import NormalDist

    check_between("level", level, such_as=0.95)
    table: Ratings = Ratings._as_table(ratings)
    log = _Log.of(table)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    if workers is None:
        components = _components(log)
        bias, deviation, n = 0.0, float(np.sqrt(2 * components.same_task)), components.n_pairs
    else:
        differences = _differences(_once(log), *_codes_of_pair(table, workers))
        n = len(differences)
        bias = float(differences.mean()) if n else float("nan")
        deviation = float(differences.std(ddof=1)) if n > 1 else float("nan")
    bias, deviation = bias * log.deviation, deviation * log.deviation
    return Limits(bias, bias - z * deviation, bias + z * deviation, deviation, n, float(level))


def _codes_of_pair(table: Ratings, workers: tuple[Any, Any]) -> tuple[int, int]:
    """Return the codes of two workers, given by name."""
    if not isinstance(workers, tuple | list) or len(workers) != 2:
        raise ValueError(f"workers must be two names, not {workers!r}")
    place = table._workers.match(sequence(list(workers)))
    for name, code in zip(workers, place.tolist(), strict=True):
        if code < 0:
            raise ValueError(f"worker {name!r} is not in the table")
    if place[0] == place[1]:
        raise ValueError(f"workers must be two different names, not {workers[0]!r} twice")
    return int(place[0]), int(place[1])


def _differences(log: _Log, first: int, second: int) -> Array:
    mine, theirs = (np.flatnonzero(log.workers == worker) for worker in (first, second))
    _, i, j = np.intersect1d(log.tasks[mine], log.tasks[theirs], assume_unique=True, return_indices=True)
    away: Array = log.values[mine[i]] - log.values[theirs[j]]
    return away
