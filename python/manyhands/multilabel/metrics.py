"""Sets of labels, and clusters of items, against true ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class SetScores:
    """How sets of labels compare with true ones.

    ``exact`` is the share of tasks whose set is the true one, ``jaccard`` the mean share of labels in both sets among
    those in either (1 where both are empty); ``precision``, ``recall`` and ``f1`` count labels of all tasks together,
    and are 1 where there is none to count.
    """

    exact: float
    jaccard: float
    precision: float
    recall: float
    f1: float


def set_scores(sets: Iterable[Iterable[Any]], truth: Iterable[Iterable[Any]]) -> SetScores:
    """Compare sets of labels with true ones, pair by pair.

    Parameters
    ----------
    sets, truth
        Labels of each task, in any order.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.set_scores([["a", "b"], ["c"]], [["a"], ["c"]])
    SetScores(exact=0.5, jaccard=0.75, precision=0.6666666666666666, recall=1.0, f1=0.8)
    """
    pairs = [(set(one), set(other)) for one, other in zip(sets, truth, strict=True)]
    if not pairs:
        raise ValueError("there is no set to compare")
    found, true, both = (sum(map(len, part)) for part in zip(*((a, b, a & b) for a, b in pairs), strict=True))
    return SetScores(
        exact=float(np.mean([a == b for a, b in pairs])),
        jaccard=float(np.mean([len(a & b) / len(a | b) if a | b else 1.0 for a, b in pairs])),
        precision=both / found if found else 1.0,
        recall=both / true if true else 1.0,
        f1=2 * both / (found + true) if found + true else 1.0,
    )


def adjusted_rand(clusters: npt.ArrayLike, truth: npt.ArrayLike) -> float:
    """How far two divisions of items into clusters agree, by pairs: 1 if they are the same, about 0 by chance.

    Cost: O(n log n) time, O(n) memory.

    Parameters
    ----------
    clusters, truth : array-like of shape (n,)
        The cluster of each item; names do not matter.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.adjusted_rand([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    one, other = (np.unique(np.asarray(part), return_inverse=True)[1].ravel() for part in (clusters, truth))
    if len(one) != len(other) or not len(one):
        raise ValueError(f"there are {len(one)} items with a cluster, and {len(other)} with a true one")
    both = np.unique(np.stack([one, other]), axis=1, return_counts=True)[1]
    pairs, a, b = (float((n * (n - 1) / 2).sum()) for n in (both, np.bincount(one), np.bincount(other)))
    chance = a * b / max(len(one) * (len(one) - 1) / 2, 1)
    most = (a + b) / 2
    return 1.0 if most == chance else (pairs - chance) / (most - chance)
