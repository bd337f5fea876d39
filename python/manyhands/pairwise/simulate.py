"""Simulation of comparisons with known scores and workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number, plural
from manyhands._base.simulation import Simulation
from manyhands.pairwise.table import Comparisons

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PairwiseSimulation(Simulation):
    """Simulated comparisons and their true parameters.

    Attributes
    ----------
    log : Comparisons
        The answers of the simulated workers.
    truth : ndarray of shape (n_items,)
        True score of each item, aligned with ``log.items``; scores average 0.
    slopes : ndarray of shape (n_workers,)
        Slope of each worker: 1 is average, 0 is guessing, below 0 is reversed.
    biases : ndarray of shape (n_workers,)
        Left bias of each worker.
    ties : float
        Davidson's ν: probability of a tie relative to the geometric mean of the two win probabilities.
    seed : int
        Random seed.
    """

    log: Comparisons
    truth: Floats
    slopes: Floats
    biases: Floats
    ties: float

    def _truth(self) -> dict[str, Any]:
        return {"item": list(range(len(self.truth))), "score": self.truth}


def simulate(
    items: int | npt.ArrayLike = 20,
    workers: int | npt.ArrayLike = 20,
    n_comparisons: int = 1000,
    *,
    ties: float = 0.0,
    left_bias: float | npt.ArrayLike = 0.0,
    seed: int = 0,
) -> PairwiseSimulation:
    """Simulate comparisons of random pairs by random workers under Davidson's model.

    Parameters
    ----------
    items : int or array-like, default 20
        Item scores, or number of items with scores from the standard normal distribution.
    workers : int or array-like, default 20
        Worker slopes, or number of workers with slope 1.
    n_comparisons : int, default 1000
        Number of comparisons.
    ties : float, default 0.0
        Davidson's ν: 0 for no ties; 1 makes ties as frequent as each win between equal items.
    left_bias : float or array-like of shape (n_workers,), default 0.0
        Advantage of the left item, for all workers or for each worker.
    seed : int, default 0
        Random seed.

    Returns
    -------
    PairwiseSimulation
        The comparisons and the true parameters.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(5, [1.0, 1.0, 0.0], 100, kind="pairwise", ties=0.5).log.n_annotations
    100
    """
    check_number("n_comparisons", n_comparisons, least=1, whole=True)
    check_number("ties", ties, least=0)
    check_number("seed", seed, least=0, whole=True)
    rng = np.random.default_rng(seed)
    scores = numbers_of("items", items, lambda n: rng.standard_normal(n), least=2)
    scores = scores - scores.mean()
    slopes = numbers_of("workers", workers, np.ones, least=1)
    biases = np.array(np.broadcast_to(np.asarray(left_bias, np.float64), slopes.shape))
    if not np.isfinite(biases).all():
        raise ValueError("left_bias must be finite: one number, or one per worker")
    left = rng.integers(0, len(scores), n_comparisons)
    right = (left + rng.integers(1, len(scores), n_comparisons)) % len(scores)
    by = rng.integers(0, len(slopes), n_comparisons)
    ahead = slopes[by] * (scores[left] - scores[right]) + biases[by]
    logs = np.stack([0.5 * ahead, -0.5 * ahead, np.full(n_comparisons, np.log(ties) if ties else -np.inf)])
    shares = np.exp(logs - logs.max(axis=0))
    bounds = np.cumsum(shares, axis=0) / shares.sum(axis=0)
    outcomes = (rng.random(n_comparisons) >= bounds[:2]).sum(axis=0)
    games = Comparisons.from_codes(
        left.astype(np.uint32),
        right.astype(np.uint32),
        outcomes.astype(np.uint8),
        by.astype(np.uint32),
        n_items=len(scores),
        n_workers=len(slopes),
    )
    return PairwiseSimulation(log=games, truth=scores, slopes=slopes, biases=biases, ties=float(ties), seed=int(seed))


def numbers_of(name: str, values_or_count: Any, draw: Any, *, least: int) -> Floats:
    """Return the numbers passed, or draw that many."""
    if np.ndim(values_or_count) == 0:
        check_number(name, values_or_count, least=least, whole=True)
        return np.asarray(draw(int(values_or_count)), np.float64)
    values = np.array(values_or_count, np.float64)
    if values.ndim != 1 or len(values) < least or not np.isfinite(values).all():
        raise ValueError(f"{name} must be a count, or a list of at least {plural(least, 'finite number')}")
    return values
