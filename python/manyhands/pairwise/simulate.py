"""Simulated comparisons: a log whose scores and workers are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number, counted
from manyhands._base.simulation import Simulation
from manyhands.pairwise.table import Comparisons

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PairwiseSimulation(Simulation):
    """Simulated comparisons and everything that is hidden behind real ones.

    Attributes
    ----------
    log : Comparisons
        The answers of the simulated workers.
    truth : ndarray of shape (n_items,)
        The score of each item, aligned with ``log.items``; they average 0.
    slopes : ndarray of shape (n_workers,)
        How clearly each worker sees differences of scores: 0 for guesses, below 0 for the opposite.
    biases : ndarray of shape (n_workers,)
        How far each worker favours the left.
    ties : float
        Davidson's ν: how probable a tie is beside the geometric mean of the two wins.
    seed : int
        What all draws followed from.
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
    """Draw comparisons of random pairs by random workers: Davidson's model, with a slope and a bias for each worker.

    Parameters
    ----------
    items
        Scores of items, or how many there are: their scores are then drawn from the standard normal distribution.
    workers
        Slopes of workers, or how many there are, all of slope 1.
    n_comparisons
        How many comparisons.
    ties
        Davidson's ν; 0 for no ties, 1 for as many ties as wins between equals.
    left_bias
        By how much the item on the left seems ahead, to all or to each worker.
    seed
        What all draws follow from.

    Returns
    -------
    PairwiseSimulation
        The comparisons and the truth behind them.

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
        raise ValueError("left_bias must be finite, one number or one a worker")
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


def numbers_of(name: str, given: Any, draw: Any, *, least: int) -> Floats:
    """Numbers as given, or as many as asked for."""
    if np.ndim(given) == 0:
        check_number(name, given, least=least, whole=True)
        return np.asarray(draw(int(given)), np.float64)
    values = np.array(given, np.float64)
    if values.ndim != 1 or len(values) < least or not np.isfinite(values).all():
        raise ValueError(f"{name} must be {counted(least, 'finite number')} or more in a list, or how many there are")
    return values
