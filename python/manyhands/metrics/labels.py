"""Labels against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.metrics._checks import (
    NUMBERS,
    Bools,
    Ints,
    Values,
    as_finite,
    as_truth,
    as_values,
    check_same_length,
    family_of,
    missing,
)


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
    weight = as_finite("sample_weight", sample_weight)
    check_same_length("sample_weight", weight, "labels", hit)
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
    answers, true = _labels_and_truth(labels, truth)
    code = _factorize(true)
    return float(np.mean(np.bincount(code, weights=_hits(answers, true)) / np.bincount(code)))


def _labels_and_truth(labels: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[Values, Values]:
    answers, true = as_values("labels", labels), as_truth(truth)
    check_same_length("labels", answers, "truth", true)
    ours, theirs = family_of(answers), family_of(true)
    # An accuracy of 0 for this reason would be a mistake, not a result.
    if not _comparable(ours, theirs):
        raise TypeError(f"labels are {ours} but truth holds {theirs}; convert one of them")
    return answers, true


def _comparable(one: str, other: str) -> bool:
    """Return whether values of two families can be equal: 1 never equals "1"."""
    return one == other or "objects" in (one, other) or (one in NUMBERS and other in NUMBERS)


def _hits(labels: Values, truth: Values) -> Bools:
    """Where a label equals the truth; never where it is missing."""
    if labels.dtype.kind != "O" and truth.dtype.kind != "O":
        return np.asarray(labels == truth, dtype=np.bool_)
    hit = ~missing(labels)
    hit[hit] = labels[hit].astype(object) == truth[hit].astype(object)
    return hit


def _factorize(values: Values) -> Ints:
    if values.dtype.kind in "biufmM":
        return np.unique(values, return_inverse=True)[1].astype(np.int64)
    codes: dict[Any, int] = {}
    return np.fromiter((codes.setdefault(each, len(codes)) for each in values.tolist()), np.int64, len(values))
