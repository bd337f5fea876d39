"""Values against true numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.known import Known
from manyhands.metrics._checks import Floats


def rmse(values: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Root of the mean squared difference from the truth; for points, of the squared distance.

    Parameters
    ----------
    values, truth : array-like of shape (N,) or (N, D)
        Finite numbers, none missing.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.rmse([1.0, 5.0], [1.0, 1.0])
    2.8284271247461903
    """
    away = np.abs(_away(values, truth))
    largest = float(away.max())
    # Squares of the largest differences would overflow.
    return largest * float(np.sqrt(((away / largest) ** 2).sum(axis=1).mean())) if largest > 0 else 0.0


def mae(values: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Mean absolute difference from the truth; for points, mean distance.

    Parameters
    ----------
    values, truth : array-like of shape (N,) or (N, D)
        Finite numbers, none missing.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.mae([1.0, 5.0], [1.0, 1.0])
    2.0
    """
    return float(np.linalg.norm(_away(values, truth), axis=1).mean())


def correlation(values: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Pearson's correlation with the truth; for points, the mean of those of their numbers.

    NaN where values or truths are all the same.

    Parameters
    ----------
    values, truth : array-like of shape (N,) or (N, D)
        Finite numbers, none missing.

    Examples
    --------
    >>> from manyhands import metrics
    >>> round(metrics.correlation([1.0, 2.0, 3.0], [2.0, 4.0, 5.0]), 3)
    0.982
    """
    a, b = (_standardised(array) for array in (_points("values", values), _points("truth", truth)))
    _check_alike(a, b)
    return float(np.clip((a * b).mean(axis=0), -1.0, 1.0).mean())


def coverage(intervals: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Share of true values within their intervals, ends included.

    Parameters
    ----------
    intervals : array-like of shape (N, 2) or (N, D, 2)
        Lower and upper ends.
    truth : array-like of shape (N,) or (N, D)
        Finite numbers, none missing.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.coverage([[0.0, 2.0], [0.0, 2.0]], [1.0, 3.0])
    0.5
    """
    ends, true = np.asarray(intervals, np.float64), _points("truth", truth)
    if ends.ndim not in (2, 3) or ends.shape[-1] != 2:
        raise ValueError(f"intervals must have two ends each, not shape {ends.shape}")
    if np.isnan(ends).any():
        raise ValueError(
            f"intervals must be numbers, but that at position {int(np.argwhere(np.isnan(ends))[0, 0])} is not"
        )
    ends = ends.reshape(len(ends), -1, 2)
    _check_alike(ends[..., 0], true)
    return float(((ends[..., 0] <= true) & (true <= ends[..., 1])).mean())


def _points(what: str, values: npt.ArrayLike) -> Floats:
    """Finite numbers of shape (N, D)."""
    found = np.asarray(values, np.float64)
    if found.ndim not in (1, 2) or not found.size:
        raise ValueError(f"{what} must be numbers, (N,) or (N, D), and not of shape {found.shape}")
    if not np.isfinite(found).all():
        at = int(np.argwhere(~np.isfinite(found))[0, 0])
        raise ValueError(f"{what} must be finite but holds {found[at]} at position {at}")
    return found.reshape(len(found), -1)


def _check_alike(values: Floats, truth: Floats) -> None:
    if values.shape != truth.shape:
        raise ValueError(f"values have {values.shape[0]} rows of {values.shape[1]} numbers, truth {truth.shape}")


def _away(values: npt.ArrayLike, truth: npt.ArrayLike) -> Floats:
    found, true = _points("values", values), _points("truth", truth)
    _check_alike(found, true)
    return found - true


def _standardised(array: Floats) -> Floats:
    """Columns of mean 0 and variance 1; NaN where they do not vary."""
    largest = np.abs(array).max(axis=0)
    array = array / np.where(largest > 0, largest, 1.0)
    away = array - array.mean(axis=0)
    deviation = away.std(axis=0)
    standardised: Floats = away / np.where(deviation > 1e-14, deviation, np.nan)
    return standardised


def measures(known: Known, model: Any) -> dict[str, Any]:
    """RMSE, MAE and correlation of values with known ones."""
    names = known.votes._dimensions.values.tolist()
    if len(names) == 1:
        wanted = known.columns("task", "value")
        columns = [wanted["value"]]
    else:
        wanted = known.columns("task", *map(str, names))
        columns = [wanted[str(name)] for name in names]
    ours, rows = known.matched(model.tasks_, wanted["task"])
    truth = np.stack([known.numbers(column, "true values")[rows] for column in columns], axis=1)
    values = np.asarray(model.values_).reshape(len(model.tasks_), -1)[ours]
    return {
        "rmse": rmse(values, truth),
        "mae": mae(values, truth),
        "correlation": correlation(values, truth),
        "n_tasks": len(ours),
    }
