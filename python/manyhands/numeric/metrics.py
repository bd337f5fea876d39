"""Errors and interval coverage of numeric values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.known import Known
from manyhands.metrics._checks import Floats


def rmse(values: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return the root mean squared error; for points, of the distance.

    Parameters
    ----------
    values, truth : array-like of shape (N,) or (N, D)
        Finite numbers without missing values.

    Returns
    -------
    float
        Error, in the units of the values.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.rmse([1.0, 5.0], [1.0, 1.0])
    2.8284271247461903
    """
    differences = np.abs(_differences(values, truth))
    largest = float(differences.max())
    # Scaled, because squares of large differences overflow.
    return largest * float(np.sqrt(((differences / largest) ** 2).sum(axis=1).mean())) if largest > 0 else 0.0


def mae(values: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return the mean absolute error; for points, the mean distance.

    Parameters
    ----------
    values, truth : array-like of shape (N,) or (N, D)
        Finite numbers without missing values.

    Returns
    -------
    float
        Error, in the units of the values.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.mae([1.0, 5.0], [1.0, 1.0])
    2.0
    """
    return float(np.linalg.norm(_differences(values, truth), axis=1).mean())


def correlation(values: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return Pearson's correlation with the truth; for points, the mean over dimensions.

    NaN if values or truth are constant.

    Parameters
    ----------
    values, truth : array-like of shape (N,) or (N, D)
        Finite numbers without missing values.

    Returns
    -------
    float
        Between -1 and 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> round(metrics.correlation([1.0, 2.0, 3.0], [2.0, 4.0, 5.0]), 3)
    0.982
    """
    a, b = (_standardize(array) for array in (_points("values", values), _points("truth", truth)))
    _check_same_shape(a, b)
    return float(np.clip((a * b).mean(axis=0), -1.0, 1.0).mean())


def coverage(intervals: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return the share of true values inside their intervals, ends included.

    Parameters
    ----------
    intervals : array-like of shape (N, 2) or (N, D, 2)
        Lower and upper ends.
    truth : array-like of shape (N,) or (N, D)
        Finite numbers without missing values.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.coverage([[0.0, 2.0], [0.0, 2.0]], [1.0, 3.0])
    0.5
    """
    ends, true = np.asarray(intervals, np.float64), _points("truth", truth)
    if ends.ndim not in (2, 3) or ends.shape[-1] != 2:
        raise ValueError(f"intervals must have shape (N, 2) or (N, D, 2), not {ends.shape}")
    if np.isnan(ends).any():
        raise ValueError(f"intervals contains NaN at index {int(np.argwhere(np.isnan(ends))[0, 0])}")
    ends = ends.reshape(len(ends), -1, 2)
    _check_same_shape(ends[..., 0], true)
    return float(((ends[..., 0] <= true) & (true <= ends[..., 1])).mean())


def _points(what: str, values: npt.ArrayLike) -> Floats:
    """Finite numbers of shape (N, D)."""
    points = np.asarray(values, np.float64)
    if points.ndim not in (1, 2) or not points.size:
        raise ValueError(f"{what} must be numbers of shape (N,) or (N, D), not {points.shape}")
    if not np.isfinite(points).all():
        at = int(np.argwhere(~np.isfinite(points))[0, 0])
        raise ValueError(f"{what} must be finite, but contains {points[at]} at index {at}")
    return points.reshape(len(points), -1)


def _check_same_shape(values: Floats, truth: Floats) -> None:
    if values.shape != truth.shape:
        raise ValueError(f"values and truth must have the same shape, not {values.shape} and {truth.shape}")


def _differences(values: npt.ArrayLike, truth: npt.ArrayLike) -> Floats:
    points, true_points = _points("values", values), _points("truth", truth)
    _check_same_shape(points, true_points)
    return points - true_points


def _standardize(array: Floats) -> Floats:
    """Columns with mean 0 and variance 1; NaN for constant columns."""
    largest = np.abs(array).max(axis=0)
    array = array / np.where(largest > 0, largest, 1.0)
    centered = array - array.mean(axis=0)
    deviation = centered.std(axis=0)
    standardised: Floats = centered / np.where(deviation > 1e-14, deviation, np.nan)
    return standardised


def measures(known: Known, model: Any) -> dict[str, Any]:
    """RMSE, MAE and correlation of values with known ones."""
    names = known.votes._dimensions.values.tolist()
    if len(names) == 1:
        truth_columns = known.columns("task", "value")
        columns = [truth_columns["value"]]
    else:
        truth_columns = known.columns("task", *map(str, names))
        columns = [truth_columns[str(name)] for name in names]
    ours, rows = known.matched(model.tasks_, truth_columns["task"])
    truth = np.stack([known.numbers(column, "true values")[rows] for column in columns], axis=1)
    values = np.asarray(model.values_).reshape(len(model.tasks_), -1)[ours]
    return {
        "rmse": rmse(values, truth),
        "mae": mae(values, truth),
        "correlation": correlation(values, truth),
        "n_tasks": len(ours),
    }
