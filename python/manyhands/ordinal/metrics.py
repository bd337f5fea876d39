"""Labels against the truth where classes have an order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.metrics._checks import as_truth, as_values, check_same_length, family_of


def absolute_error(labels: npt.ArrayLike, truth: npt.ArrayLike, *, classes: Iterable[Any] | None = None) -> float:
    """Mean distance of labels from the truth, in classes: 1 for one grade off.

    Cost: O(N) time and memory, and a look-up per task where classes are given.

    Parameters
    ----------
    labels, truth : array-like of shape (N,)
        Class names or codes, none missing.
    classes : sequence or None, default None
        All classes, from the lowest to the highest. None for numbers, whose differences then count as they are.

    Returns
    -------
    float
        At least 0, at most the number of classes less one.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.absolute_error(["low", "high", "mid"], ["low", "low", "mid"], classes=["low", "mid", "high"])
    0.6666666666666666
    """
    codes, true = _places(labels, truth, classes)
    return float(np.abs(codes - true).mean())


def quadratic_kappa(labels: npt.ArrayLike, truth: npt.ArrayLike, *, classes: Iterable[Any] | None = None) -> float:
    """Agreement of labels with the truth beyond chance, where a mistake counts by the square of its distance.

    One less the mean square of the distance over what it would be if labels were dealt out again at random among the
    tasks (Cohen's weighted kappa). Agreement among workers is :func:`manyhands.agreement.cohen_kappa`.

    Cost: O(N) time and memory, as :func:`absolute_error`.

    Parameters
    ----------
    labels, truth : array-like of shape (N,)
        Class names or codes, none missing.
    classes : sequence or None, default None
        As in :func:`absolute_error`.

    Returns
    -------
    float
        1 for labels that are all right, 0 for what chance does; NaN where labels and truth are all one class.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.quadratic_kappa([1, 2, 3, 3], [1, 2, 3, 2])
    0.8
    """
    codes, true = _places(labels, truth, classes)
    # The mean of (a - b)² over all pairs needs means and variances only.
    chance = codes.var() + true.var() + (codes.mean() - true.mean()) ** 2
    return float(1 - ((codes - true) ** 2).mean() / chance) if chance > 0 else float("nan")


def _places(
    labels: npt.ArrayLike, truth: npt.ArrayLike, classes: Iterable[Any] | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Labels and truth as places in the order of the classes."""
    places, true = as_values("labels", labels), as_truth(truth)
    check_same_length("labels", places, "truth", true)
    if classes is None:
        for name, values in (("labels", places), ("truth", true)):
            if values.dtype.kind not in "biuf":
                raise TypeError(f"{name} are {family_of(values)}, whose order is not known; give all classes=")
            if not np.isfinite(values.astype(np.float64)).all():
                raise ValueError(f"{name} must be finite and none missing")
        return places.astype(np.float64), true.astype(np.float64)
    place = {name: float(i) for i, name in enumerate(classes)}
    for name, values in (("labels", places), ("truth", true)):
        unknown = [value for value in values.tolist() if value not in place]
        if unknown:
            raise ValueError(f"{name} hold {unknown[0]!r}, which is not among the classes ({len(place)} are given)")
    said_at, true_at = (np.array([place[value] for value in values.tolist()]) for values in (places, true))
    return said_at, true_at
