"""Rank correlations, and log-loss of comparison models."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.known import Known
from manyhands.metrics._checks import as_finite, check_same_length

Floats = npt.NDArray[np.float64]


def kendall(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return Kendall's rank correlation (tau-b) of two lists of scores.

    1 means the same order and -1 the opposite order. Pairs that are tied in one of the lists count for neither. NaN if
    all scores of a list are tied.

    Cost: O(n log n) time, O(n) memory.

    Parameters
    ----------
    scores : array-like of shape (n,)
        A score for each item.
    truth : array-like of shape (n,)
        Other scores of the same items, in the same order.

    Returns
    -------
    float
        Between -1 and 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> round(metrics.kendall([1, 2, 3, 4], [10, 20, 40, 30]), 6)
    0.666667
    """
    a, b = _two(scores, truth)
    order = np.lexsort((b, a))
    a, b = a[order], b[order]
    n = len(a)
    pairs = n * (n - 1) // 2
    level_a, level_b = _level(a), _level(np.sort(b))
    level_both = _level(a + 0.0, b)
    discordant = _inversions(b)
    # Pairs that are tied in the first list are sorted in ascending order, so they are not inversions.
    concordant = pairs - level_a - level_b + level_both - discordant
    scale = np.sqrt(float(pairs - level_a)) * np.sqrt(float(pairs - level_b))
    return float((concordant - discordant) / scale) if scale > 0 else float("nan")


def spearman(scores: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return Spearman's rank correlation of two lists of scores, with average ranks for ties.

    NaN if all scores of a list are tied. Cost: O(n log n) time, O(n) memory.

    Parameters
    ----------
    scores : array-like of shape (n,)
        A score for each item.
    truth : array-like of shape (n,)
        Other scores of the same items, in the same order.

    Returns
    -------
    float
        Between -1 and 1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.spearman([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    """
    ranks = [_ranks(values) for values in _two(scores, truth)]
    a, b = (values - values.mean() for values in ranks)
    scale = np.sqrt(float(a @ a)) * np.sqrt(float(b @ b))
    return float(round(float(a @ b) / scale, 15)) if scale > 0 else float("nan")


def comparison_log_loss(model: Any, games: Any, *, by_worker: bool = False) -> float:
    """Return the mean negative log-likelihood of comparisons under a fitted model.

    Use comparisons that were not in ``fit``. If the model predicts no ties, a tie counts as half a win for each item.
    Weights count. Cost: O(comparisons).

    Parameters
    ----------
    model : ComparisonEstimator
        A fitted comparison model.
    games : Comparisons
        Comparisons of items that were in ``fit``.
    by_worker : bool, default False
        Use the estimated parameters of the workers who compared.

    Returns
    -------
    float
        Log-loss in nats; 0.69 for guessing between two items.
    """
    left, right, outcomes, workers, _ = games.codes()
    names = games.items
    by = games.workers[workers] if by_worker else None
    chances = model.predict_proba(names[left], names[right], workers=by)
    rows = np.arange(len(outcomes))
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(chances, tiny))
    log_likelihood = logs[rows, outcomes]
    if not (chances[:, 2] > 0).any():
        log_likelihood = np.where(outcomes == 2, 0.5 * (logs[:, 0] + logs[:, 1]), log_likelihood)
    return float(-np.average(log_likelihood, weights=games.weights))


def _two(scores: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[Floats, Floats]:
    a, b = as_finite("scores", scores), as_finite("truth", truth)
    check_same_length("scores", a, "truth", b)
    return np.asarray(a, np.float64), np.asarray(b, np.float64)


def _level(*sorted_columns: Floats) -> int:
    """Number of tied pairs of rows in jointly sorted columns."""
    new = np.any([column[1:] != column[:-1] for column in sorted_columns], axis=0)
    starts = np.flatnonzero(np.r_[True, new, True])
    sizes = np.diff(starts)
    return int((sizes * (sizes - 1) // 2).sum())


def _inversions(values: Floats) -> int:
    """Number of inversions, by bottom-up merge sort."""
    values, n, count = values.copy(), len(values), 0
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            low, high = values[start : start + width], values[start + width : start + 2 * width]
            if len(high):
                count += int((len(low) - np.searchsorted(low, high, side="right")).sum())
                values[start : start + 2 * width] = np.sort(np.concatenate([low, high]), kind="stable")
        width *= 2
    return count


def _ranks(values: Floats) -> Floats:
    """Ranks from 1, with average ranks for ties."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(count)
    return np.asarray((ends - 0.5 * (count - 1))[place])


def measures(known: Known, model: Any) -> dict[str, Any]:
    """Kendall's and Spearman's correlation of scores with known scores or ranks."""
    frame = model.to_frame().to_pydict()
    role = "score" if known.has("score") else "rank"
    truth_columns = known.columns("item", role)
    ours, rows = known.matched(frame["item"], truth_columns["item"])
    truth = known.numbers(truth_columns[role], f"true {role}s")[rows] * (1 if role == "score" else -1)
    scores = np.array(frame["score"], np.float64)[ours]
    return {
        "kendall": kendall(scores, truth),
        "spearman": spearman(scores, truth),
        "n_items": len(ours),
    }
