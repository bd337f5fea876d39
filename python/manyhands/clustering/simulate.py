"""Simulated answers about pairs of items: same or different, with the clusters known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number, counted
from manyhands._base.simulation import Simulation
from manyhands.clustering.table import Similarities

__all__ = ["ClusteringSimulation", "simulate"]

#: Shapes of the skills of workers who look: recall .85 and specificity .9 on average.
_RECALL, _SPECIFICITY = (17.0, 3.0), (18.0, 2.0)
#: How often a worker who does not look says same.
_GUESS = (0.2, 0.8)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClusteringSimulation(Simulation):
    """Simulated answers about pairs, and everything that is hidden behind real ones.

    Attributes
    ----------
    log : Similarities
        The answers of the simulated workers.
    truth : ndarray of shape (n_items,)
        The cluster of each item, aligned with ``log.items``.
    recall, specificity : ndarray of shape (n_workers,)
        Probabilities that a worker is right about items that are the same and that differ, aligned with
        ``log.workers``.
    spammers : ndarray of shape (n_workers,)
        Whether a worker answers without looking.
    seed : int
        What all draws followed from.
    """

    log: Similarities
    truth: npt.NDArray[np.int64]
    recall: npt.NDArray[np.float64]
    specificity: npt.NDArray[np.float64]
    spammers: npt.NDArray[np.bool_]

    def _summary(self) -> str:
        clusters, spammers = len(np.unique(self.truth)), int(self.spammers.sum())
        return f"{super()._summary()}, {counted(clusters, 'cluster')}, {counted(spammers, 'spammer')}"

    def _truth(self) -> dict[str, Any]:
        return {"item": list(range(len(self.truth))), "cluster": self.truth}


def simulate(
    n_items: int = 100,
    n_workers: int = 20,
    n_clusters: int = 5,
    *,
    pairs: float | int = 0.1,
    answers_per_pair: int = 3,
    spammers: float = 0.0,
    same: float | None = None,
    seed: int = 0,
) -> ClusteringSimulation:
    """Draw answers about random pairs of items in clusters.

    Parameters
    ----------
    n_items, n_workers, n_clusters
        Sizes. An item is in each cluster with the same probability.
    pairs
        How many different pairs are asked: a number, or as a fraction below 1 the share of all pairs.
    answers_per_pair
        How many different workers are asked about each pair.
    spammers
        Share of the workers who say same now and then without looking. The others are right about 85 % of the items
        that are the same and 90 % of those that differ, with some variation.
    same
        Share of pairs that are asked within clusters, as far as there are so many; None draws pairs from all alike.
    seed
        What all draws follow from.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(100, 20, 5, kind="clustering", pairs=800, spammers=0.2, seed=3)
    ClusteringSimulation(Similarities: 2,400 answers on 800 pairs of 100 items by 20 workers, 5 clusters, 4 spammers)
    """
    _check(n_items, n_workers, n_clusters, answers_per_pair)
    check_number("spammers", spammers, least=0, most=1)
    check_number("seed", seed, least=0, whole=True)
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_clusters, n_items)
    keys = _asked(rng, truth, _number(pairs, n_items * (n_items - 1) // 2), same)
    left, right = (np.repeat(ends, answers_per_pair) for ends in np.divmod(keys, n_items))
    workers = _workers(rng, len(keys), n_workers, answers_per_pair)
    idle = rng.permutation(n_workers) < round(spammers * n_workers)
    guess = rng.uniform(*_GUESS, n_workers)
    recall = np.where(idle, guess, rng.beta(*_RECALL, n_workers))
    specificity = np.where(idle, 1 - guess, rng.beta(*_SPECIFICITY, n_workers))
    together = truth[left] == truth[right]
    says = rng.random(len(left)) < np.where(together, recall[workers], 1 - specificity[workers])
    answers = Similarities.from_arrays(left, right, workers, says)
    items, kept = answers.items, answers.workers
    return ClusteringSimulation(
        log=answers,
        truth=truth[items],
        recall=recall[kept],
        specificity=specificity[kept],
        spammers=idle[kept],
        seed=seed,
    )


def _check(n_items: Any, n_workers: Any, n_clusters: Any, answers_per_pair: Any) -> None:
    check_number("n_items", n_items, least=2, most=2**31, whole=True)
    check_number("n_workers", n_workers, least=1, whole=True)
    check_number("n_clusters", n_clusters, least=1, whole=True)
    check_number("answers_per_pair", answers_per_pair, least=1, most=n_workers, whole=True)


def _workers(rng: np.random.Generator, n_pairs: int, n_workers: int, each: int) -> npt.NDArray[np.int64]:
    """Different workers for each pair, on end."""
    if 2 * each > n_workers:  # rather order all than draw again and again
        return np.concatenate([rng.permutation(n_workers)[:each] for _ in range(n_pairs)])
    drawn = rng.integers(0, n_workers, (n_pairs, each))
    while True:
        ordered = np.sort(drawn, axis=1)
        again = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not again.any():
            return drawn.ravel()
        drawn[again] = rng.integers(0, n_workers, (int(again.sum()), each))


def _number(pairs: Any, most: int) -> int:
    """How many pairs are asked, given as a number or as a share."""
    share = isinstance(pairs, float | np.floating) and pairs < 1
    check_number("pairs", pairs, least=0 if share else 1, most=most, whole=not share)
    wanted = round(float(pairs) * most) if share else int(pairs)
    if not wanted:
        raise ValueError(f"pairs={pairs} asks about none of {counted(most, 'pair')}")
    return wanted


def _asked(rng: np.random.Generator, truth: npt.NDArray[np.int64], wanted: int, same: Any) -> npt.NDArray[np.int64]:
    """Different pairs as lower item · items + higher item, in ascending order."""
    n = len(truth)
    if same is None:
        return np.sort(_drawn(rng, wanted, lambda size: _ends(rng, n, size), n * (n - 1) // 2))
    check_number("same", same, least=0, most=1)
    order = np.argsort(truth, kind="stable")
    sizes = np.bincount(truth)
    starts = np.cumsum(sizes) - sizes
    all_within = int((sizes * (sizes - 1) // 2).sum())
    within = min(round(same * wanted), all_within)

    def together(size: int) -> npt.NDArray[np.int64]:
        some = rng.integers(0, n, size)
        cluster = truth[some]
        return _keys(some, order[starts[cluster] + rng.integers(0, sizes[cluster])], n)

    def apart(size: int) -> npt.NDArray[np.int64]:
        keys = _ends(rng, n, size)
        low, high = np.divmod(keys, n)
        found: npt.NDArray[np.int64] = keys[truth[low] != truth[high]]
        return found

    parts = (
        _drawn(rng, within, together, all_within),
        _drawn(rng, wanted - within, apart, n * (n - 1) // 2 - all_within),
    )
    return np.sort(np.concatenate(parts))


def _ends(rng: np.random.Generator, n: int, size: int) -> npt.NDArray[np.int64]:
    return _keys(rng.integers(0, n, size), rng.integers(0, n, size), n)


def _keys(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    apart = a != b
    keys: npt.NDArray[np.int64] = np.minimum(a, b)[apart] * n + np.maximum(a, b)[apart]
    return keys


def _drawn(rng: np.random.Generator, wanted: int, draw: Any, most: int) -> npt.NDArray[np.int64]:
    """So many different keys of those drawn at random."""
    if wanted > most:
        raise ValueError(f"there are only {most:,} such pairs, and {wanted:,} are wanted")
    found = np.zeros(0, np.int64)
    while len(found) < wanted:
        found = np.union1d(found, draw(2 * (wanted - len(found)) + 16))
    return rng.permutation(found)[:wanted]
