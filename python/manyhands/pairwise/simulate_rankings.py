"""Simulation of rankings with known scores and workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands.pairwise.rankings_table import Rankings
from manyhands.pairwise.simulate import Floats, numbers_of

#: Default length of a ranking.
_LENGTH = 5
#: Random numbers drawn per batch.
_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RankingsSimulation(Simulation):
    """Simulated rankings and their true parameters.

    Attributes
    ----------
    log : Rankings
        The answers of the simulated workers.
    truth : ndarray of shape (n_items,)
        True score of each item, aligned with ``log.items``; scores average 0.
    slopes : ndarray of shape (n_workers,)
        Slope of each worker: 1 is average, 0 is guessing, below 0 is reversed.
    seed : int
        Random seed.
    """

    log: Rankings
    truth: Floats
    slopes: Floats

    def _truth(self) -> dict[str, Any]:
        return {"item": list(range(len(self.truth))), "score": self.truth}


def simulate(
    items: int | npt.ArrayLike = 20,
    workers: int | npt.ArrayLike = 20,
    n_rankings: int = 200,
    *,
    length: int | None = None,
    seed: int = 0,
) -> RankingsSimulation:
    """Simulate rankings of random items by random workers under the Plackett–Luce model.

    Time O(rankings · items), memory O(rankings · length).

    Parameters
    ----------
    items : int or array-like, default 20
        Item scores, or number of items with scores from the standard normal distribution.
    workers : int or array-like, default 20
        Worker slopes, or number of workers with slope 1.
    n_rankings : int, default 200
        Number of rankings.
    length : int, optional
        Items per ranking, all different; by default five, or all items if there are fewer.
    seed : int, default 0
        Random seed.

    Returns
    -------
    RankingsSimulation
        The rankings and the true parameters.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(6, [1.0, 1.0, 0.0], 100, kind="rankings", length=3).log
    <Rankings: 100 rankings of 6 items by 3 workers>
    """
    check_number("n_rankings", n_rankings, least=1, whole=True)
    check_number("seed", seed, least=0, whole=True)
    rng = np.random.default_rng(seed)
    scores = numbers_of("items", items, lambda n: rng.standard_normal(n), least=2)
    scores = scores - scores.mean()
    slopes = numbers_of("workers", workers, np.ones, least=1)
    n = len(scores)
    size = min(_LENGTH, n) if length is None else length
    check_number("length", size, least=2, most=n, whole=True)
    by = rng.integers(0, len(slopes), n_rankings)
    lists = np.empty((n_rankings, size), np.uint32)
    step = max(_AT_ONCE // n, 1)
    for first in range(0, n_rankings, step):
        rows = slice(first, min(first + step, n_rankings))
        order = rng.random((rows.stop - first, n)).argsort(axis=1)[:, :size]
        # Sorting scores with Gumbel noise samples from the Plackett–Luce model.
        utility = slopes[by[rows], None] * scores[order] + rng.gumbel(size=order.shape)
        lists[rows] = np.take_along_axis(order, (-utility).argsort(axis=1), axis=1)
    rankings = Rankings.from_codes(lists, by.astype(np.uint32), n_items=n, n_workers=len(slopes))
    return RankingsSimulation(log=rankings, truth=scores, slopes=slopes, seed=int(seed))
