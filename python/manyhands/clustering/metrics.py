"""Adjusted Rand index of clusterings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.known import Known


def adjusted_rand(clusters: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """Return the adjusted Rand index of two clusterings: 1 if they are equal, about 0 by chance.

    Cost: O(n log n) time, O(n) memory.

    Parameters
    ----------
    clusters, truth : array-like of shape (n,)
        Cluster of each item; the names of clusters do not matter.

    Returns
    -------
    float
        At most 1; negative if the agreement is below chance.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.adjusted_rand([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    one, other = (np.unique(np.asarray(part), return_inverse=True)[1].ravel() for part in (clusters, truth))
    if len(one) != len(other) or not len(one):
        raise ValueError(f"clusters has {len(one)} items and truth {len(other)}: pass arrays of equal length")
    both = np.unique(np.stack([one, other]), axis=1, return_counts=True)[1]
    pairs, a, b = (float((n * (n - 1) / 2).sum()) for n in (both, np.bincount(one), np.bincount(other)))
    chance = a * b / max(len(one) * (len(one) - 1) / 2, 1)
    most = (a + b) / 2
    return 1.0 if most == chance else (pairs - chance) / (most - chance)


def measures(known: Known, model: Any) -> dict[str, Any]:
    """Return the adjusted Rand index against known clusters."""
    frame, true_columns = model.to_frame().to_pydict(), known.columns("item", "cluster")
    ours, rows = known.matched(frame["item"], true_columns["item"])
    clusters = [frame["cluster"][at] for at in ours]
    return {
        "adjusted_rand": adjusted_rand(clusters, [str(true_columns["cluster"][row]) for row in rows]),
        "n_clusters": len(set(clusters)),
        "n_items": len(ours),
    }
