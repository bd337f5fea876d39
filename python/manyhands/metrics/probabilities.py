"""Metrics of posteriors against the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice, check_number
from manyhands.metrics._checks import (
    NUMBERS,
    Floats,
    Ints,
    Values,
    as_probabilities,
    as_truth,
    as_values,
    check_same_length,
    family_of,
    lookup,
    show,
)

Strategy: TypeAlias = Literal["uniform", "quantile"]
Norm: TypeAlias = Literal["l1", "l2", "max"]


def log_loss(
    posterior: npt.ArrayLike,
    truth: npt.ArrayLike,
    *,
    classes: npt.ArrayLike | None = None,
    eps: float = float(np.finfo(np.float64).eps),
) -> float:
    """Log-loss: the mean of ``-ln posterior[i, truth[i]]``, in nats.

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
    check_number("bins", bins, least=1, whole=True)
    check_choice("strategy", strategy, get_args(Strategy))
    n_bins = int(bins)  # bins + 1 may not fit into a NumPy uint8
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
    check_choice("norm", norm, get_args(Norm))
    curve = reliability(posterior, truth, classes=classes, bins=bins, strategy=strategy)
    filled = curve.count > 0
    gap = np.abs(curve.accuracy[filled] - curve.confidence[filled])
    share = curve.count[filled] / curve.count.sum()
    if norm == "l1":
        return float(share @ gap)
    if norm == "l2":
        return float(np.sqrt(share @ gap**2))
    return float(gap.max())


def _posterior_and_codes(
    posterior: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike | None
) -> tuple[Floats, Ints]:
    table = as_probabilities("posterior", ("row",), posterior)
    true = as_truth(truth)
    check_same_length("posterior", table, "truth", true)
    n_classes = table.shape[1]
    return table, (_codes(true, n_classes) if classes is None else _named_codes(true, n_classes, classes))


def _posterior_at_truth(
    posterior: npt.ArrayLike, truth: npt.ArrayLike, classes: npt.ArrayLike | None
) -> tuple[Floats, Floats]:
    table, code = _posterior_and_codes(posterior, truth, classes)
    return table, table[np.arange(len(table)), code]


def _codes(truth: Values, n_classes: int) -> Ints:
    """Check codes that are columns; whole floats pass, since missing values turn integers into them."""
    family = family_of(truth)
    number = truth.astype(np.float64) if family in NUMBERS else np.array([np.nan])
    if not np.all(np.isfinite(number) & (number == np.floor(number))):
        raise TypeError(f"truth must be integer class codes but holds {family}; for names pass classes=")
    code = truth.astype(np.int64)
    bad = (code < 0) | (code >= n_classes)
    if bad.any():
        unknown = f"{code[bad][0]} at position {bad.argmax()}"
        raise ValueError(f"truth has class {unknown}, but posterior has the columns 0 to {n_classes - 1}")
    return code


def _named_codes(truth: Values, n_classes: int, classes: npt.ArrayLike) -> Ints:
    names = as_values("classes", classes)
    if len(names) != n_classes:
        raise ValueError(f"classes has {len(names)} names but posterior has {n_classes} columns")
    code = lookup(names, truth, what="classes")
    bad = code < 0
    if bad.any():
        ours, theirs = family_of(names), family_of(truth)
        hint = "" if ours == theirs else f"; truth holds {theirs} but classes {ours}: convert one of them"
        unknown = f"{show(truth[bad][0])} at position {bad.argmax()}"
        raise ValueError(f"truth has class {unknown}, which is not among classes{hint}")
    return code


def _quantile_edges(confidence: Floats, bins: int) -> Floats:
    """Edges that are observed confidences, so that each bin holds at least its own upper edge."""
    edges = np.quantile(confidence, np.linspace(0.0, 1.0, bins + 1), method="inverted_cdf")
    low, high = edges[0], edges[-1]
    inner = np.unique(edges[1:-1])
    return np.concatenate(([low], inner[inner < high], [high]))
