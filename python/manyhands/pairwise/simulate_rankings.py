"""Simulated rankings: a log whose scores and workers are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands.pairwise.rankings_table import Rankings
from manyhands.pairwise.simulate import Floats, numbers_of

#: Items that a ranking has where nothing else is said, if there are so many.
_LENGTH = 5
#: Random numbers that are drawn at once.
_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RankingsSimulation(Simulation):
    """Simulated rankings and everything that is hidden behind real ones.

    Attributes
    ----------
    log : Rankings
        The answers of the simulated workers.
    truth : ndarray of shape (n_items,)
        The score of each item, aligned with ``log.items``; they average 0.
    slopes : ndarray of shape (n_workers,)
        How clearly each worker sees differences of scores: 0 for guesses, below 0 for the opposite.
    seed : int
        What all draws followed from.
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
    """Draw rankings of random items by random workers: Plackett and Luce's model, with a slope for each worker.

    Time O(rankings · items), memory O(rankings · length).

    Parameters
    ----------
    items
        Scores of items, or how many there are: their scores are then drawn from the standard normal distribution.
    workers
        Slopes of workers, or how many there are, all of slope 1.
    n_rankings
        How many rankings.
    length
        Items of a ranking, all different; five, or all if there are fewer, by default.
    seed
        What all draws follow from.

    Returns
    -------
    RankingsSimulation
        The rankings and the truth behind them.

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
        shown = rng.random((rows.stop - first, n)).argsort(axis=1)[:, :size]
        # The order of scores with Gumbel noise is that of choices one after the other.
        worth = slopes[by[rows], None] * scores[shown] + rng.gumbel(size=shown.shape)
        lists[rows] = np.take_along_axis(shown, (-worth).argsort(axis=1), axis=1)
    rankings = Rankings.from_codes(lists, by.astype(np.uint32), n_items=n, n_workers=len(slopes))
    return RankingsSimulation(log=rankings, truth=scores, slopes=slopes, seed=int(seed))
