"""Workers: estimates against the truth, and a confusion matrix summed up in one number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands.metrics._checks import Floats, as_finite, as_probabilities, check_same_length


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
        Rows sum to one. Further columns are abstentions.
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
    k = table.shape[1]
    expected: Floats = np.einsum("mkk,k->m", table[:, :, :k], _prior(prior, k))
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
    left, right = (_centered_ranks(each) for each in _skill_pair(estimated, true, prior))
    scale = float(np.sqrt((left @ left) * (right @ right)))
    return float(np.clip(left @ right / scale, -1.0, 1.0)) if scale > 0 else float("nan")


def information(confusion: npt.ArrayLike, prior: npt.ArrayLike | None = None) -> Floats:
    """Mutual information between the true class and one label of each worker, in bits.

    Unlike :func:`skill`, it counts consistent errors: a worker who always swaps two classes has as much information
    as a worker without errors.

    Cost: O(M K²) time and memory.

    Parameters
    ----------
    confusion, prior
        As in :func:`skill`.

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
    return np.maximum(of_label - given_class, 0.0)  # rounding may give a value just below zero


def capacity(confusion: npt.ArrayLike) -> Floats:
    """Channel capacity of each worker, in bits: the largest information of one label about the class.

    It is the :func:`information` under the class frequencies that suit the worker best, so that it does not
    depend on the log: a worker with expertise in a rare class has little information in an ordinary log, and a large
    capacity.

    Cost: O(M K²) time a step, mostly tens of steps; O(M K) memory. Found by the iteration of Blahut and Arimoto with
    growing steps, to within 1e-6 bits.

    Parameters
    ----------
    confusion : array-like of shape (M, K, K)
        Rows sum to one. Further columns are abstentions.

    Returns
    -------
    ndarray of shape (M,)
        From 0 (labels independent of the truth) to log2 K; never below :func:`information`.

    References
    ----------
    Blahut (1972), "Computation of channel capacity and rate-distortion functions", IEEE Transactions on Information
    Theory 18(4). Arimoto (1972), "An algorithm for computing the capacity of arbitrary discrete memoryless channels",
    ibid. 18(1).

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.capacity([[[1, 0], [0, 1]], [[0.9, 0.1], [0.9, 0.1]], [[1, 0], [0.5, 0.5]]]).round(4)
    array([1.    , 0.    , 0.3219])
    """
    return _capacity(_confusion("confusion", confusion))[0]


class Worth(NamedTuple):
    """Skill, information and capacity of each worker with standard errors: arrays of shape (M,)."""

    skill: Floats
    skill_error: Floats
    information: Floats
    information_error: Floats
    capacity: Floats
    capacity_error: Floats


def worth(confusion: npt.ArrayLike, prior: npt.ArrayLike | None, n_labels: npt.ArrayLike) -> Worth:
    """:func:`skill`, :func:`information` and :func:`capacity` of each worker, with standard errors.

    The errors are by the delta method. Row k of a worker's matrix is treated as shares among the worker's labels of
    tasks of class k, whose frequency is that of the log, and at least one. The classes are treated as known: if they
    are uncertain, the errors are larger. Near 0, information and capacity are skewed, and their errors indicate only
    the scale.

    Cost: that of :func:`capacity`.

    Parameters
    ----------
    confusion, prior
        As in :func:`skill`.
    n_labels : array-like of shape (M,)
        Number of labels of each worker.

    Examples
    --------
    >>> from manyhands import metrics
    >>> measures = metrics.worth([[[0.9, 0.1], [0.1, 0.9]]], None, [100])
    >>> measures.skill, measures.skill_error
    (array([0.9]), array([0.03]))
    """
    table = _confusion("confusion", confusion)
    weight = _prior(prior, table.shape[1])
    counts = as_finite("n_labels", n_labels)
    check_same_length("confusion", table, "n_labels", counts)
    if (counts < 0).any():
        raise ValueError("n_labels must be at least 0")
    of_class = np.maximum(counts[:, None] * weight, 1.0)
    right = np.einsum("mkk->mk", table[:, :, : table.shape[1]])
    most, reached = _capacity(table)
    # The derivative of information by a row's entry is the logarithm of its likelihood ratio; that of capacity is the
    # same at the frequencies that reach it, since those are stationary.
    squares = (
        weight**2 * right * (1 - right),
        weight**2 * _surprise_variance(table, weight[None]),
        reached**2 * _surprise_variance(table, reached),
    )
    errors = [np.sqrt((square / of_class).sum(axis=1)) for square in squares]
    return Worth(skill(table, weight), errors[0], information(table, weight), errors[1], most, errors[2])


def dominance(confusion: npt.ArrayLike) -> Floats:
    """Diagonal dominance of the crowd's mean confusion matrix, by class.

    For each column of the mean over workers, the diagonal minus the largest other entry: how much more often a class is
    answered where it is correct than where any other class is. Where all are positive, the matrices of the workers are
    those of least trace among all that explain the labels, so that they can be identified from the labels alone.

    Cost: O(M K²) time, O(K²) memory.

    Parameters
    ----------
    confusion : array-like of shape (M, K, K)
        Rows sum to one. Further columns are abstentions, which do not compete.

    Returns
    -------
    ndarray of shape (K,)
        From -1 to 1; 1 for a single class.

    References
    ----------
    Tanno, Saeedi, Sankaranarayanan, Alexander & Silberman (2019), "Learning from noisy labels by regularized estimation
    of annotator confusion", CVPR, theorem 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.dominance([[[0.9, 0.1], [0.6, 0.4]], [[0.1, 0.9], [0.6, 0.4]]]).round(4)
    array([-0.1, -0.1])
    """
    table = _confusion("confusion", confusion)
    k = table.shape[1]
    if k == 1:
        return np.ones(1)
    mean = table[:, :, :k].mean(axis=0)
    others = np.where(np.eye(k, dtype=bool), -np.inf, mean)
    margin: Floats = np.diagonal(mean) - others.max(axis=0)
    return margin


def spammer_score(confusion: npt.ArrayLike) -> Floats:
    """Spammer score of Raykar & Yu: how far the labels of a worker depend on the class.

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
        perfect). With a single class the score is 1, so that the identity scores 1 for every K and dropping
        low scores keeps all workers.

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


def _confusion(what: str, values: npt.ArrayLike) -> Floats:
    table = as_probabilities(what, ("worker", "class"), values)
    if table.shape[1] > table.shape[2]:
        raise ValueError(f"{what} must have shape (workers, classes, classes or more), not {table.shape}")
    return table


def _prior(prior: npt.ArrayLike | None, n_classes: int) -> Floats:
    if prior is None:
        return np.full(n_classes, 1.0 / n_classes)
    weight = as_probabilities("prior", (), prior)
    if len(weight) != n_classes:
        raise ValueError(f"prior has {len(weight)} entries but confusion has {n_classes} classes")
    return weight


def _skill_pair(estimated: npt.ArrayLike, true: npt.ArrayLike, prior: npt.ArrayLike | None) -> tuple[Floats, Floats]:
    if prior is not None and np.ndim(estimated) == 1 and np.ndim(true) == 1:
        raise ValueError("prior is for confusion matrices, but estimated and true are skills; leave it out")
    left, right = _skills("estimated", estimated, prior), _skills("true", true, prior)
    check_same_length("estimated", left, "true", right)
    return left, right


def _skills(what: str, values: npt.ArrayLike, prior: npt.ArrayLike | None) -> Floats:
    ndim = np.ndim(values)
    if ndim == 1:
        return as_finite(what, values)
    if ndim != 3:
        raise ValueError(
            f"{what} must be skills of shape (workers,) or confusions of shape (workers, classes, classes), "
            f"not {np.shape(values)}"
        )
    return skill(_confusion(what, values), prior)


def _centered_ranks(values: Floats) -> Floats:
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


def _capacity(table: Floats) -> tuple[Floats, Floats]:
    """Capacities in bits, and the class frequencies that reach them."""
    bits, reached, _ = _core.channel_capacity(np.ascontiguousarray(table), tol=1e-6, max_iter=10_000)
    return bits, reached


def _surprise_variance(table: Floats, weight: Floats) -> Floats:
    """Variance over a row's labels of log2 of the row against the mix of rows, (workers, classes)."""
    mix = np.einsum("mkl,mk->ml", table, np.broadcast_to(weight, table.shape[:2]))[:, None, :]
    # A row that the weights leave out altogether may have labels that the mix lacks; it does not count then.
    ratio = np.log2(np.divide(table, mix, out=np.ones_like(table), where=(table > 0) & (mix > 0)))
    mean = np.einsum("mkl,mkl->mk", table, ratio)
    variance: Floats = np.einsum("mkl,mkl->mk", table, (ratio - mean[:, :, None]) ** 2)
    return variance
