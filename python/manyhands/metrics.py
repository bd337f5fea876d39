"""Measures of labels, posteriors and estimated workers.

Labels are compared with :func:`accuracy` and :func:`balanced_accuracy`; posteriors with :func:`log_loss`,
:func:`brier`, :func:`calibration_error` and :func:`reliability`; workers with :func:`confusion_error`,
:func:`skill_error` and :func:`skill_rank_correlation`. :func:`skill`, :func:`information` and
:func:`spammer_score` sum a confusion matrix up in one number a worker, and :func:`match_gold` finds the tasks
whose truth is known.

Shapes: N tasks, M workers, K classes. Confusion matrices are ``confusion[worker, true, observed]``.
Everything is NumPy; nothing here changes its input.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

__all__ = [
    "Reliability",
    "accuracy",
    "balanced_accuracy",
    "brier",
    "calibration_error",
    "confusion_error",
    "information",
    "log_loss",
    "match_gold",
    "reliability",
    "skill",
    "skill_error",
    "skill_rank_correlation",
    "spammer_score",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Values: TypeAlias = npt.NDArray[Any]
Strategy: TypeAlias = Literal["uniform", "quantile"]
Norm: TypeAlias = Literal["l1", "l2", "max"]

_SUM_TOLERANCE = 1e-6
_FAMILIES = {
    "i": "integers",
    "u": "integers",
    "b": "booleans",
    "f": "floats",
    "U": "strings",
    "S": "bytes",
    "M": "dates",
    "m": "durations",
}
_NUMBERS = ("integers", "floats", "booleans")
_NAMED_IN_ERRORS = 3


# Labels against the truth


def accuracy(labels: npt.ArrayLike, truth: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None) -> float:
    """Share of tasks whose label is the truth.

    An abstention, that is a label of None or NaN, counts as wrong: otherwise a method could win by answering
    only what is easy.

    Cost: O(N) time and memory; a Python comparison per task for arrays of objects.

    Parameters
    ----------
    labels : array-like of shape (N,)
        Class names or codes of any type; None or NaN where the method abstained.
    truth : array-like of shape (N,)
        The true classes, in the same names or codes, none missing.
    sample_weight : array-like of shape (N,), optional
        Weight of each task, not negative and not all zero.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.accuracy(["cat", "dog", None, "cat"], ["cat", "cat", "dog", "cat"])
    0.5
    >>> metrics.accuracy([0, 1], [0, 0], sample_weight=[3, 1])
    0.75
    """
    hit = _hits(*_labels_and_truth(labels, truth))
    if sample_weight is None:
        return float(hit.mean())
    weight = _finite("sample_weight", sample_weight)
    _same_length("sample_weight", weight, "labels", hit)
    if weight.min() < 0 or not weight.any():
        raise ValueError("sample_weight must not be negative and must not be all zero")
    return float(np.average(hit, weights=weight))


def balanced_accuracy(labels: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Accuracy within each true class, averaged over the classes.

    Only classes that occur in the truth count. Abstentions (None or NaN) are wrong, as in :func:`accuracy`.

    Cost: O(N log N) time for numbers, O(N) for names; O(N) memory.

    Parameters
    ----------
    labels, truth : array-like of shape (N,)
        As in :func:`accuracy`.

    Returns
    -------
    float
        Between 0 and 1; a method that always names one class gets 1 / (number of true classes).

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.balanced_accuracy(["a", "a", "a", "a"], ["a", "a", "a", "b"])
    0.5
    """
    said, true = _labels_and_truth(labels, truth)
    code = _factorize(true)
    return float(np.mean(np.bincount(code, weights=_hits(said, true)) / np.bincount(code)))


# Posteriors against the truth


def log_loss(
    posterior: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    classes: npt.ArrayLike | None = None,
    eps: float = float(np.finfo(np.float64).eps),
) -> float:
    """Mean surprise at the truth: the average of ``-ln posterior[i, truth[i]]``, in nats.

    Cost: O(N K) time, O(N) memory beyond the posterior.

    Parameters
    ----------
    posterior : array-like of shape (N, K)
        Rows of probabilities that sum to one.
    truth : array-like of shape (N,)
        Column codes 0..K-1 where ``classes`` is None, else names out of ``classes``.
    classes : array-like of shape (K,), optional
        Class names in the order of the columns, such as ``model.classes_``.
    eps : float
        Probabilities below are raised to it, so that one confident mistake costs ``-ln eps`` (36 by default)
        and not infinity. 0 switches this off.

    Returns
    -------
    float
        0 for certainty in the truth, ln K for uniform posteriors.

    Examples
    --------
    >>> from manyhands import metrics
    >>> round(metrics.log_loss([[0.5, 0.5], [0.0, 1.0]], ["no", "yes"], classes=["no", "yes"]), 4)
    0.3466
    """
    if not 0 <= eps < 1:
        raise ValueError(f"eps must lie in [0, 1), not {eps!r}")
    _, of_truth = _posterior_at_truth(posterior, truth, classes)
    with np.errstate(divide="ignore"):  # eps = 0 asks for the infinity
        return float(abs(np.log(np.clip(of_truth, eps, 1.0)).mean()))  # no logarithm is above 0


def brier(posterior: npt.ArrayLike, truth: npt.ArrayLike, *, classes: npt.ArrayLike | None = None) -> float:
    """Mean squared distance between the posterior and the truth, summed over the classes.

    This is the multi-class form of Brier (1950), "Verification of forecasts expressed in terms of
    probability", Monthly Weather Review 78(1). For two classes it is twice the one-column form.

    Cost: O(N K) time, O(N) memory beyond the posterior.

    Parameters
    ----------
    posterior, truth, classes
        As in :func:`log_loss`.

    Returns
    -------
    float
        From 0 (certain and right) to 2 (certain and wrong); 1 - 1/K for uniform posteriors.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.brier([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    0.25
    """
    table, of_truth = _posterior_at_truth(posterior, truth, classes)
    # |p - e_t|² = |p|² - 2 p_t + 1 needs no (N, K) copy. It cannot round below zero: 2 p_t - 1 <= p_t² is a
    # double itself wherever the two are close, and rounding keeps order.
    distance = np.einsum("nk,nk->n", table, table) - 2.0 * of_truth + 1.0
    return float(distance.mean())


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """A reliability diagram: how often the winning class is right, by how sure the posterior was.

    Attributes
    ----------
    edges : ndarray of shape (B + 1,)
        Bin b holds confidences in ``(edges[b], edges[b + 1]]``; the first also holds its lower edge.
    confidence : ndarray of shape (B,)
        Mean confidence of the bin's tasks, NaN in an empty bin.
    accuracy : ndarray of shape (B,)
        Share of the bin's tasks whose winning class is the truth, NaN in an empty bin.
    count : ndarray of shape (B,)
        Number of tasks in the bin.
    """

    edges: Floats
    confidence: Floats
    accuracy: Floats
    count: Ints


def reliability(
    posterior: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    classes: npt.ArrayLike | None = None,
    bins: int = 15,
    strategy: Strategy = "uniform",
) -> Reliability:
    """Bin the tasks by the confidence of their winning class and measure its accuracy in every bin.

    The winning class is the most probable one, the lowest column among equals.

    Cost: O(N (K + log B)) time, O(N) memory beyond the posterior.

    Parameters
    ----------
    posterior, truth, classes
        As in :func:`log_loss`.
    bins : int
        Number of bins, at least 1.
    strategy : {"uniform", "quantile"}
        Bins of equal width over [0, 1], or of about equal counts. Equal confidences always share a bin, so
        there may be fewer quantile bins than asked for; none of them is empty.

    Returns
    -------
    Reliability
        Edges, mean confidence, accuracy and count of each bin.

    Examples
    --------
    >>> from manyhands import metrics
    >>> found = metrics.reliability([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], [0, 1, 1], bins=2)
    >>> found.count, found.accuracy.round(2)
    (array([0, 3]), array([ nan, 0.67]))
    """
    n_bins = _positive_int("bins", bins)
    _one_of("strategy", strategy, get_args(Strategy))
    table, truth_code = _posterior_and_codes(posterior, truth, classes)
    winner = table.argmax(axis=1)
    confidence = table[np.arange(len(table)), winner]
    edges = np.linspace(0.0, 1.0, n_bins + 1) if strategy == "uniform" else _quantile_edges(confidence, n_bins)
    # Comparing with the inner edges only puts rounding (a row that sums to 1 + 1e-9) into the end bins.
    where = np.searchsorted(edges[1:-1], confidence, side="left")
    total = len(edges) - 1
    count = np.bincount(where, minlength=total)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the NaN of an empty bin
        return Reliability(
            edges=edges,
            confidence=np.bincount(where, weights=confidence, minlength=total) / count,
            accuracy=np.bincount(where, weights=winner == truth_code, minlength=total) / count,
            count=count.astype(np.int64),
        )


def calibration_error(
    posterior: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    classes: npt.ArrayLike | None = None,
    bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
) -> float:
    """Gap between confidence and accuracy of the winning class, over the bins of :func:`reliability`.

    Cost: O(N (K + log B)) time, O(N) memory beyond the posterior.

    Parameters
    ----------
    posterior, truth, classes, bins, strategy
        As in :func:`reliability`.
    norm : {"l1", "l2", "max"}
        "l1" averages the gaps weighted by count (the expected calibration error), "l2" is the root of the
        weighted mean square, "max" the largest gap of any bin that is not empty.

    Returns
    -------
    float
        From 0 (calibrated) to 1. Binned estimates are biased upwards where bins hold few tasks.

    References
    ----------
    Naeini, Cooper & Hauskrecht (2015), "Obtaining well calibrated probabilities using Bayesian
    binning", AAAI.

    Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural networks", ICML.

    Examples
    --------
    >>> from manyhands import metrics
    >>> round(metrics.calibration_error([[0.9, 0.1], [0.8, 0.2]], [0, 1], bins=1), 4)
    0.35
    """
    _one_of("norm", norm, get_args(Norm))
    found = reliability(posterior, truth, classes=classes, bins=bins, strategy=strategy)
    filled = found.count > 0
    gap = np.abs(found.accuracy[filled] - found.confidence[filled])
    share = found.count[filled] / found.count.sum()
    if norm == "l1":
        return float(share @ gap)
    if norm == "l2":
        return float(np.sqrt(share @ gap**2))
    return float(gap.max())


# Workers


def confusion_error(estimated: npt.ArrayLike, true: npt.ArrayLike) -> float:
    """Squared Frobenius distance of the confusion matrices, averaged over workers and divided by K.

    The confusion matrix error of Tanno et al. (2019), "Learning from noisy labels by regularized estimation
    of annotator confusion", CVPR: the sum of all squared differences over M K.

    Cost: O(M K²) time and memory.

    Parameters
    ----------
    estimated, true : array-like of shape (M, K, K)
        Confusion matrices of the same workers in the same order; rows sum to one.

    Returns
    -------
    float
        0 if they are equal. The paper speaks of a range up to 1, but two certain rows that disagree are at
        squared distance 2, so the error can reach 2.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.confusion_error([[[1.0, 0.0], [0.5, 0.5]]], [[[1.0, 0.0], [0.0, 1.0]]])
    0.25
    """
    left, right = _confusion("estimated", estimated), _confusion("true", true)
    if left.shape != right.shape:
        raise ValueError(f"estimated has shape {left.shape} but true {right.shape}; give both the same workers")
    n_workers, n_classes, _ = left.shape
    difference = (left - right).ravel()
    return float(difference @ difference / (n_workers * n_classes))


def skill(confusion: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Floats:
    """Skill of each worker, its expected accuracy: the confusion diagonal weighted by the class prior.

    Cost: O(M K) time after the O(M K²) check.

    Parameters
    ----------
    confusion : array-like of shape (M, K, K)
        Rows sum to one.
    prior : array-like of shape (K,), optional
        Share of each class, sums to one; uniform if None.

    Returns
    -------
    ndarray of shape (M,)
        Between 0 and 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.skill([[[0.9, 0.1], [0.5, 0.5]]], [0.75, 0.25])
    array([0.8])
    """
    table = _confusion("confusion", confusion)
    expected: Floats = np.einsum("mkk,k->m", table, _prior(prior, table.shape[1]))
    return expected


def skill_error(estimated: npt.ArrayLike, true: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> float:
    """Mean absolute error of the workers' skills.

    Cost: O(M) time for skills, O(M K²) for confusion matrices.

    Parameters
    ----------
    estimated, true : array-like of shape (M,) or (M, K, K)
        Skills, or confusion matrices whose :func:`skill` is taken. One may be of the first kind and the
        other of the second.
    prior : array-like of shape (K,), optional
        Class prior for the confusion matrices; uniform if None.

    Returns
    -------
    float
        0 if all skills agree.

    Examples
    --------
    >>> from manyhands import metrics
    >>> round(metrics.skill_error([0.9, 0.5], [0.8, 0.7]), 4)
    0.15
    """
    left, right = _skill_pair(estimated, true, prior)
    return float(np.abs(left - right).mean())


def skill_rank_correlation(estimated: npt.ArrayLike, true: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> float:
    """Spearman's rank correlation of the workers' skills; equal skills share their mean rank.

    Cost: O(M log M) time for skills, and O(M K²) more for confusion matrices.

    Parameters
    ----------
    estimated, true, prior
        As in :func:`skill_error`.

    Returns
    -------
    float
        From -1 to 1: 1 if both sort the workers alike. NaN where it is undefined: a single worker, or one
        side's skills all equal.

    References
    ----------
    Spearman (1904), "The proof and measurement of association between two things", American Journal of
    Psychology 15(1).

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.skill_rank_correlation([0.9, 0.5, 0.6], [0.8, 0.4, 0.7])
    1.0
    """
    left, right = (_centred_ranks(each) for each in _skill_pair(estimated, true, prior))
    scale = float(np.sqrt((left @ left) * (right @ right)))
    return float(np.clip(left @ right / scale, -1.0, 1.0)) if scale > 0 else float("nan")


def information(confusion: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Floats:
    """Mutual information between the true class and one label of each worker, in bits.

    Unlike :func:`skill` it credits whoever is wrong in a consistent way: a worker who swaps two classes tells
    as much as one who never errs.

    Cost: O(M K²) time and memory.

    Parameters
    ----------
    confusion : array-like of shape (M, K, K)
        Rows sum to one.
    prior : array-like of shape (K,), optional
        Share of each class, sums to one; uniform if None.

    Returns
    -------
    ndarray of shape (M,)
        From 0 (labels independent of the truth, and always so for K = 1) to the entropy of the prior, at most
        log2 K.

    References
    ----------
    Shannon (1948), "A mathematical theory of communication", Bell System Technical Journal 27.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.information([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0.5, 0.5], [0.5, 0.5]]])
    array([1., 1., 0.])
    """
    table = _confusion("confusion", confusion)
    weight = _prior(prior, table.shape[1])
    of_label = _entropy(np.einsum("mkl,k->ml", table, weight))
    given_class = _entropy(table) @ weight
    return np.maximum(of_label - given_class, 0.0)  # rounding may leave a spammer a hair below zero


def spammer_score(confusion: npt.ArrayLike) -> Floats:
    """Spammer score of Raykar & Yu: how far the label a worker gives depends on the class at all.

    It sums the squared distances between all pairs of rows a_c of the confusion matrix:
    ``1 / (K (K - 1)) * sum over c < d of |a_c - a_d|²``. For two classes that is
    ``(sensitivity + specificity - 1)²``.

    Cost: O(M K²) time and memory.

    Parameters
    ----------
    confusion : array-like of shape (M, K, K)
        Rows sum to one.

    Returns
    -------
    ndarray of shape (M,)
        From 0 (a spammer: all rows equal) to 1 (each class has a label of its own; consistent swaps count as
        perfect). With a single class nobody can be told from a spammer nor be wrong; the score is 1 then, so
        that the identity scores 1 for every K and dropping low scores drops nobody.

    References
    ----------
    Raykar & Yu (2012), "Eliminating spammers and ranking annotators for crowdsourced labeling tasks", Journal
    of Machine Learning Research 13.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.spammer_score([[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.7, 0.3]]]).round(4)
    array([0.25, 0.  ])
    """
    table = _confusion("confusion", confusion)
    n_workers, n_classes, _ = table.shape
    if n_classes == 1:
        return np.ones(n_workers)
    # All pairs of K points are K times the spread about their mean: K² work instead of K³, no cancellation.
    spread = table - table.mean(axis=1, keepdims=True)
    score: Floats = np.einsum("mkl,mkl->m", spread, spread) / (n_classes - 1)
    return score


# Gold


def match_gold(
    tasks: npt.ArrayLike, gold: object, *, unknown: Literal["raise", "ignore"] = "raise"
) -> tuple[Ints, Values]:
    """Find the tasks whose truth is known.

    Cost: for G gold labels O((N + G) log N) time with integer ids, O(N + G) hashing with others; O(N + G)
    memory.

    Parameters
    ----------
    tasks : array-like of shape (N,)
        Distinct task ids, such as ``votes.tasks`` or ``model.tasks_``.
    gold : mapping, pair, frame or pandas Series
        A mapping from task to label, a tuple ``(tasks, labels)`` of arrays, a frame with the columns ``task``
        and ``label`` (pandas, polars, pyarrow, duckdb), or a pandas Series of labels indexed by task. A
        missing label (None, NaN) means that the task has no gold. A task may be named once.
    unknown : {"raise", "ignore"}
        What to do with gold on ids that are not among ``tasks``.

    Returns
    -------
    index : ndarray of shape (n_gold,)
        Ascending positions in ``tasks``.
    truth : ndarray of shape (n_gold,)
        The gold label of each.

    Raises
    ------
    ValueError
        If gold is empty, names a task twice, names tasks that are unknown, or matches no task at all.

    Examples
    --------
    >>> from manyhands import metrics
    >>> index, truth = metrics.match_gold(["t1", "t2", "t3"], {"t3": "dog", "t1": "cat"})
    >>> index, truth
    (array([0, 2]), array(['cat', 'dog'], dtype='<U3'))

    Together with a fitted model: ``metrics.accuracy(model.labels_[index], truth)``.
    """
    _one_of("unknown", unknown, ("raise", "ignore"))
    names = _values("tasks", tasks)
    ids, labels = _gold_columns(gold)
    _same_length("gold's tasks", ids, "gold's labels", labels)
    _refuse_missing_ids(_missing(ids))
    ids, labels = _drop_unlabelled(ids, labels)
    place = _lookup(names, ids, what="tasks")
    known = place >= 0
    if not known.all() and (unknown == "raise" or not known.any()):
        raise ValueError(_unknown_tasks(names, ids, known))
    place, labels = place[known], labels[known]
    order = np.argsort(place, kind="stable")
    place = place[order]
    twice = np.flatnonzero(place[1:] == place[:-1])
    if len(twice):
        raise ValueError(f"gold names task {_show(names[place[twice[0]]])} more than once; keep one label a task")
    return place, labels[order]


def _gold_columns(gold: Any) -> tuple[Values, Values]:
    """Task ids and labels out of any accepted form of gold."""
    if isinstance(gold, Mapping):
        pair: tuple[Any, Any] = list(gold.keys()), list(gold.values())
    elif isinstance(gold, tuple):
        if len(gold) != 2:
            raise ValueError(f"gold must be a pair (tasks, labels), not a tuple of {len(gold)}")
        pair = gold
    elif _is_series(gold):
        pair = gold.index, gold
    elif hasattr(gold, "__arrow_c_stream__"):
        pair = _frame_columns(gold)
    elif hasattr(gold, "collect"):
        raise TypeError("gold is a lazy frame; call collect() on it first")
    else:
        raise TypeError(
            f"gold is a {type(gold).__name__}; give a mapping task -> label, a tuple (tasks, labels), a "
            "frame with the columns task and label, or a pandas Series indexed by task"
        )
    return _values("gold's tasks", pair[0]), _values("gold's labels", pair[1])


def _is_series(gold: Any) -> bool:
    """Tell a pandas Series without importing pandas (lists have an ``index`` too, but it is a method)."""
    index = getattr(gold, "index", None)
    return index is not None and not callable(index) and not hasattr(gold, "columns") and hasattr(gold, "to_numpy")


def _frame_columns(frame: Any) -> tuple[Values, Values]:
    import pyarrow as pa

    table = pa.table(frame)
    lacking = [name for name in ("task", "label") if name not in table.column_names]
    if lacking:
        found = table.column_names
        raise ValueError(f"gold has no column {lacking[0]!r} but {found}; call them task and label")
    ids, labels = table["task"], table["label"]
    if ids.null_count:
        _refuse_missing_ids(~np.asarray(ids.is_valid()))
    has_label = np.asarray(labels.is_valid())
    # NumPy has no null: integers would become floats, and a null in a dictionary one of its values.
    if pa.types.is_primitive(labels.type):
        return ids.to_numpy()[has_label], labels.drop_null().to_numpy()
    return ids.to_numpy()[has_label], labels.to_numpy()[has_label]


def _refuse_missing_ids(absent: Bools) -> None:
    if absent.any():
        raise ValueError(f"gold has no task id at row {absent.argmax()}; remove the row or name its task")


def _drop_unlabelled(ids: Values, labels: Values) -> tuple[Values, Values]:
    absent = _missing(labels)
    if absent.all():
        raise ValueError("gold is empty: it must hold at least one label")
    return (ids[~absent], labels[~absent]) if absent.any() else (ids, labels)


def _unknown_tasks(names: Values, ids: Values, known: Bools) -> str:
    """Say which gold tasks are unknown, and why that may be."""
    lost = ids[~known]
    some = ", ".join(map(_show, lost[:_NAMED_IN_ERRORS])) + (", …" if len(lost) > _NAMED_IN_ERRORS else "")
    text = f"gold names {len(lost)} of its {len(ids)} tasks that are not among the tasks: {some}"
    ours, theirs = _family(names), _family(lost)
    if ours != theirs:
        return f"{text}; gold's ids are {theirs} but the tasks' ids are {ours}: convert one of them"
    return f"{text}; remove them" + (', or pass unknown="ignore"' if known.any() else " or check the ids")


# Checks and conversions


def _values(what: str, values: Any) -> Values:
    """One-dimensional, non-empty array of names, codes or ids, whose elements keep their types."""
    if isinstance(values, np.ma.MaskedArray):  # asarray would uncover what the mask hides
        values = np.ma.filled(values.astype(object), None)
    if isinstance(values, list | tuple) and _would_change(values):
        found = np.fromiter(values, dtype=object, count=len(values))
    else:
        found = np.asarray(values)
    if found.dtype.kind == "T":
        found = found.astype(object)
    if found.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {found.shape}")
    if not len(found):
        raise ValueError(f"{what} is empty: nothing to measure")
    return found


def _would_change(values: list[Any] | tuple[Any, ...]) -> bool:
    """Tell whether NumPy would turn None or numbers into text, or ids that are tuples into a matrix."""
    types = set(map(type, values))
    return tuple in types or len({issubclass(each, str | bytes) for each in types}) == 2


def _missing(values: Values) -> Bools:
    """Where an array holds None, NaN, NaT or NA."""
    kind = values.dtype.kind
    if kind == "f":
        return np.isnan(values)
    if kind in "mM":
        return np.isnat(values)
    none = np.zeros(len(values), dtype=np.bool_)
    if kind != "O":
        return none
    # Most arrays of objects are all strings: their types alone show that nothing is missing.
    suspects = {each for each in set(map(type, values)) if _may_be_absent(each)}
    if not suspects:
        return none
    absent = (type(each) in suspects and not _equals_itself(each) for each in values)
    return np.fromiter(absent, dtype=np.bool_, count=len(values))


def _may_be_absent(kind: type) -> bool:
    # pandas' NA and NaT are known by name, so that pandas need not be imported.
    if kind is type(None) or kind.__name__ in ("NAType", "NaTType"):
        return True
    return issubclass(kind, Real) and not issubclass(kind, Integral)


def _equals_itself(value: Any) -> bool:
    return isinstance(value, Real) and bool(value == value)


def _family(values: Values) -> str:
    """Name what the elements are, for error messages."""
    if values.dtype.kind != "O":
        return _FAMILIES.get(values.dtype.kind, str(values.dtype))
    types = set(map(type, values[~_missing(values)]))
    for parent, word in ((str, "strings"), (bytes, "bytes"), (Integral, "integers"), (Real, "floats")):
        if types and all(issubclass(each, parent) for each in types):
            return word
    return "objects"


def _comparable(one: str, other: str) -> bool:
    """Tell whether values of two families can be equal at all: 1 is never "1"."""
    return one == other or "objects" in (one, other) or (one in _NUMBERS and other in _NUMBERS)


def _labels_and_truth(labels: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[Values, Values]:
    said, true = _values("labels", labels), _truth(truth)
    _same_length("labels", said, "truth", true)
    ours, theirs = _family(said), _family(true)
    # An accuracy of 0 for this reason would be a mistake, not a result.
    if not _comparable(ours, theirs):
        raise TypeError(f"labels are {ours} but truth holds {theirs}; convert one of them")
    return said, true


def _truth(truth: npt.ArrayLike) -> Values:
    true = _values("truth", truth)
    absent = _missing(true)
    if absent.any():
        raise ValueError(f"truth is missing at position {absent.argmax()}; leave out tasks without truth")
    return true


def _hits(labels: Values, truth: Values) -> Bools:
    """Where a label equals the truth; never where it is missing."""
    if labels.dtype.kind != "O" and truth.dtype.kind != "O":
        return np.asarray(labels == truth, dtype=np.bool_)
    hit = ~_missing(labels)
    hit[hit] = labels[hit].astype(object) == truth[hit].astype(object)
    return hit


def _factorize(values: Values) -> Ints:
    if values.dtype.kind in "biufmM":
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    codes: dict[Any, int] = {}
    return np.fromiter((codes.setdefault(each, len(codes)) for each in values.tolist()), np.int64, len(values))


def _lookup(names: Values, keys: Values, *, what: str) -> Ints:
    """Position of every key among the distinct names, -1 where it is not there."""
    kinds = names.dtype.kind + keys.dtype.kind
    if kinds in ("MM", "mm"):  # units may differ
        common = np.result_type(names.dtype, keys.dtype)
        names, keys = names.astype(common).view(np.int64), keys.astype(common).view(np.int64)
    # Only integers are sorted: text hashes faster, and int64 and uint64 would meet as floats and lose digits.
    if kinds in ("MM", "mm") or (set(kinds) <= {"i", "u"} and np.result_type(names, keys).kind != "f"):
        return _lookup_sorted(names, keys, what)
    position = {name: at for at, name in enumerate(names.tolist())}
    if len(position) != len(names):
        repeated = Counter(names.tolist()).most_common(1)[0][0]
        raise ValueError(f"{what} must be distinct; {_show(repeated)} occurs twice")
    return np.fromiter((position.get(key, -1) for key in keys.tolist()), np.int64, len(keys))


def _lookup_sorted(names: Values, keys: Values, what: str) -> Ints:
    order: Ints | None = None
    if np.any(names[1:] < names[:-1]):
        order = np.argsort(names, kind="stable")
        names = names[order]
    twice = np.flatnonzero(names[1:] == names[:-1])
    if len(twice):
        raise ValueError(f"{what} must be distinct; {_show(names[twice[0]])} occurs twice")
    place = np.minimum(np.searchsorted(names, keys), len(names) - 1)
    found = names[place] == keys
    return np.where(found, place if order is None else order[place], -1)


def _show(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _probabilities(what: str, axes: tuple[str, ...], values: npt.ArrayLike) -> Floats:
    """Float64 array whose last axis holds probabilities; errors name the first bad row."""
    given = np.asarray(values)
    ndim = len(axes) + 1
    if given.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold numbers, not {_family(given)}")
    if given.ndim != ndim:
        raise ValueError(f"{what} must have {ndim} dimensions, not shape {given.shape}")
    if not given.size:
        raise ValueError(f"{what} is empty (shape {given.shape}): nothing to measure")
    table = given.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        total = table.sum(axis=-1)
    low = table.min(axis=-1)
    # Rows in float32 sum to one only as far as their digits go.
    narrow = float(np.finfo(given.dtype).eps) if given.dtype.kind == "f" else 0.0
    tolerance = max(_SUM_TOLERANCE, table.shape[-1] * narrow)
    for bad, value, says in (
        (~np.isfinite(total), total, "sums to"),
        (low < 0, low, "has the negative entry"),
        (np.abs(total - 1.0) > tolerance, total, "sums to"),
    ):
        if np.any(bad):
            where = tuple(np.argwhere(bad)[0])
            at = "".join(f" {word} {i}" for word, i in zip(axes, where, strict=True))
            raise ValueError(f"{what}{at} {says} {value[where]}; probabilities are at least 0 and sum to 1")
    return table


def _posterior_and_codes(
    posterior: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike | None
) -> tuple[Floats, Ints]:
    table = _probabilities("posterior", ("row",), posterior)
    true = _truth(truth)
    _same_length("posterior", table, "truth", true)
    n_classes = table.shape[1]
    return table, (_codes(true, n_classes) if classes is None else _named_codes(true, n_classes, classes))


def _posterior_at_truth(
    posterior: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike | None
) -> tuple[Floats, Floats]:
    table, code = _posterior_and_codes(posterior, truth, classes)
    return table, table[np.arange(len(table)), code]


def _codes(truth: Values, n_classes: int) -> Ints:
    """Check codes that are columns; whole floats pass, since missing values turn integers into them."""
    family = _family(truth)
    number = truth.astype(np.float64) if family in _NUMBERS else np.array([np.nan])
    if not np.all(np.isfinite(number) & (number == np.floor(number))):
        raise TypeError(f"truth must be integer class codes but holds {family}; for names pass classes=")
    code = truth.astype(np.int64)
    bad = (code < 0) | (code >= n_classes)
    if bad.any():
        unknown = f"{code[bad][0]} at position {bad.argmax()}"
        raise ValueError(f"truth has class {unknown}, but posterior has the columns 0 to {n_classes - 1}")
    return code


def _named_codes(truth: Values, n_classes: int, classes: npt.ArrayLike) -> Ints:
    names = _values("classes", classes)
    if len(names) != n_classes:
        raise ValueError(f"classes has {len(names)} names but posterior has {n_classes} columns")
    code = _lookup(names, truth, what="classes")
    bad = code < 0
    if bad.any():
        ours, theirs = _family(names), _family(truth)
        hint = "" if ours == theirs else f"; truth holds {theirs} but classes {ours}: convert one of them"
        unknown = f"{_show(truth[bad][0])} at position {bad.argmax()}"
        raise ValueError(f"truth has class {unknown}, which is not among classes{hint}")
    return code


def _confusion(what: str, values: npt.ArrayLike) -> Floats:
    table = _probabilities(what, ("worker", "class"), values)
    if table.shape[1] != table.shape[2]:
        raise ValueError(f"{what} must have shape (workers, classes, classes), not {table.shape}")
    return table


def _prior(prior: npt.ArrayLike | None, n_classes: int) -> Floats:
    if prior is None:
        return np.full(n_classes, 1.0 / n_classes)
    weight = _probabilities("prior", (), prior)
    if len(weight) != n_classes:
        raise ValueError(f"prior has {len(weight)} entries but confusion has {n_classes} classes")
    return weight


def _skill_pair(estimated: npt.ArrayLike, true: npt.ArrayLike, prior: npt.ArrayLike | None) -> tuple[Floats, Floats]:
    if prior is not None and np.ndim(estimated) == 1 and np.ndim(true) == 1:
        raise ValueError("prior is for confusion matrices, but estimated and true are skills; leave it out")
    left, right = _skills("estimated", estimated, prior), _skills("true", true, prior)
    _same_length("estimated", left, "true", right)
    return left, right


def _skills(what: str, values: npt.ArrayLike, prior: npt.ArrayLike | None) -> Floats:
    ndim = np.ndim(values)
    if ndim == 1:
        return _finite(what, values)
    if ndim != 3:
        raise ValueError(
            f"{what} must be skills of shape (workers,) or confusions of shape (workers, classes, classes), "
            f"not {np.shape(values)}"
        )
    return skill(_confusion(what, values), prior)


def _finite(what: str, values: npt.ArrayLike) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, not of shape {found.shape}")
    if not found.size:
        raise ValueError(f"{what} is empty: nothing to measure")
    bad = ~np.isfinite(found)
    if bad.any():
        raise ValueError(f"{what} must be finite but holds {found[bad][0]} at position {bad.argmax()}")
    return found


def _same_length(what: str, values: Values, other: str, others: Values) -> None:
    if len(values) != len(others):
        raise ValueError(f"{what} has {len(values)} rows but {other} has {len(others)}")


def _positive_int(what: str, value: Any) -> int:
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{what} must be an integer, not {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer, not {value!r}") from None
    if number < 1:
        raise ValueError(f"{what} must be at least 1, not {number}")
    return number


def _one_of(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, choices))}, not {value!r}")


# Small numerics


def _quantile_edges(confidence: Floats, bins: int) -> Floats:
    """Edges that are observed confidences, so that each bin holds at least its own upper edge."""
    edges = np.quantile(confidence, np.linspace(0.0, 1.0, bins + 1), method="inverted_cdf")
    low, high = edges[0], edges[-1]
    inner = np.unique(edges[1:-1])
    return np.concatenate(([low], inner[inner < high], [high]))


def _centred_ranks(values: Floats) -> Floats:
    """Ranks about their mean; ties share the mean of the ranks they take up."""
    _, which, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2.0)[which]
    return np.asarray(rank - (len(values) + 1) / 2.0, dtype=np.float64)


def _entropy(table: Floats) -> Floats:
    """Entropy in bits along the last axis, with 0 log 0 = 0."""
    log = np.zeros_like(table)
    np.log2(table, out=log, where=table > 0)
    negative: Floats = np.einsum("...k,...k->...", table, log)
    return -negative
