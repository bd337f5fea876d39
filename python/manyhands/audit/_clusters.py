"""Two clusters of workers, by rows of numbers or by one number each."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array

Mask = npt.NDArray[np.bool_]

#: Shares of the workers, those with the smallest factors, that initial clusters hold.
_BEGINNINGS = (0.1, 0.25, 0.5, 0.75, 0.9)
#: Upper limit of k-means iterations; it converges long before.
_ROUNDS = 300


def upper(values: Array) -> Mask:
    """Mark the values in the upper of the two clusters with the least sum of squares."""
    ranked = np.sort(values)
    below, squares = ranked.cumsum(), (ranked**2).cumsum()
    n = np.arange(1, len(ranked))
    if not len(n) or ranked[0] == ranked[-1]:
        return np.zeros(len(values), np.bool_)
    rest = len(ranked) - n
    spread = (squares[:-1] - below[:-1] ** 2 / n) + (squares[-1] - squares[:-1] - (below[-1] - below[:-1]) ** 2 / rest)
    # Equal values stay in one cluster.
    spread = np.where(ranked[1:] > ranked[:-1], spread, np.inf)
    return np.asarray(values > ranked[int(spread.argmin())])


def shortest(rows: Array) -> tuple[Mask, float]:
    """Split rows into two clusters by length; return the mask of the shorter and the ratio of the mean lengths."""
    norms = np.sqrt((rows**2).sum(axis=1))
    long = upper(norms)
    if not long.any():
        return long, 1.0
    return ~long, float(norms[~long].mean() / norms[long].mean())


def nearest_zero(rows: Array) -> tuple[Mask, float]:
    """Split rows into two clusters; return the mask of the one nearest zero and the ratio of the centers' norms."""
    norms = np.sqrt((rows**2).sum(axis=1))
    best: tuple[float, Mask, float] = (math.inf, np.zeros(len(rows), np.bool_), 1.0)
    for share in _BEGINNINGS:
        near = norms <= np.quantile(norms, share)
        for _ in range(_ROUNDS):
            if near.all() or not near.any():
                break
            centers = rows[near].mean(axis=0), rows[~near].mean(axis=0)
            distances = [((rows - center) ** 2).sum(axis=1) for center in centers]
            closer = distances[0] <= distances[1]
            if (closer == near).all():
                sizes = [float(np.sqrt(center @ center)) for center in centers]
                if sizes[0] > sizes[1]:
                    near, sizes = ~near, sizes[::-1]
                spread = float(np.minimum(*distances).sum())
                ratio = sizes[0] / sizes[1] if sizes[1] > 0 else 1.0
                best = min(best, (spread, near, ratio), key=lambda cluster: cluster[0])
                break
            near = closer
    return best[1], best[2]
