"""Simulation of same-or-different answers with known clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number, plural
from manyhands._base.simulation import Simulation
from manyhands.clustering.table import Similarities

__all__ = ["ClusteringSimulation", "simulate"]

#: Beta parameters of the skills of attentive workers: mean recall .85, mean specificity .9.
_RECALL, _SPECIFICITY = (17.0, 3.0), (18.0, 2.0)
#: Range of the probability that a spammer answers "same".
_GUESS = (0.2, 0.8)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClusteringSimulation(Simulation):
    """Simulated answers about pairs and their true parameters.

    Attributes
    ----------
    log : Similarities
        The answers of the simulated workers.
    truth : ndarray of shape (n_items,)
        True cluster of each item, aligned with ``log.items``.
    recall, specificity : ndarray of shape (n_workers,)
        Probability of a correct answer for pairs that are the same and for pairs that differ, aligned with
        ``log.workers``.
    spammers : ndarray of shape (n_workers,)
        Whether a worker answers at random.
    seed : int
        Random seed.
    """

    log: Similarities
    truth: npt.NDArray[np.int64]
    recall: npt.NDArray[np.float64]
    specificity: npt.NDArray[np.float64]
    spammers: npt.NDArray[np.bool_]

    def _summary(self) -> str:
        clusters, spammers = len(np.unique(self.truth)), int(self.spammers.sum())
        return f"{super()._summary()}, {plural(clusters, 'cluster')}, {plural(spammers, 'spammer')}"

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
    """Simulate answers about random pairs of clustered items.

    Parameters
    ----------
    n_items : int, default 100
        Number of items.
    n_workers : int, default 20
        Number of workers.
    n_clusters : int, default 5
        Number of clusters, all equally likely for each item.
    pairs : int or float, default 0.1
        Number of distinct pairs, or if below 1, their share of all pairs.
    answers_per_pair : int, default 3
        Number of different workers per pair.
    spammers : float, default 0.0
        Share of workers who answer at random. The others are correct on average for 85 % of the pairs that are the same
        and for 90 % of those that differ.
    same : float, optional
        Share of pairs within clusters, limited by the number of such pairs. By default pairs are drawn uniformly.
    seed : int, default 0
        Random seed.

    Returns
    -------
    ClusteringSimulation
        The answers and the true parameters.

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
    keys = _draw_pairs(rng, truth, _number_of_pairs(pairs, n_items * (n_items - 1) // 2), same)
    left, right = (np.repeat(ends, answers_per_pair) for ends in np.divmod(keys, n_items))
    workers = _workers(rng, len(keys), n_workers, answers_per_pair)
    is_spammer = rng.permutation(n_workers) < round(spammers * n_workers)
    guess = rng.uniform(*_GUESS, n_workers)
    recall = np.where(is_spammer, guess, rng.beta(*_RECALL, n_workers))
    specificity = np.where(is_spammer, 1 - guess, rng.beta(*_SPECIFICITY, n_workers))
    together = truth[left] == truth[right]
    same_answers = rng.random(len(left)) < np.where(together, recall[workers], 1 - specificity[workers])
    answers = Similarities.from_arrays(left, right, workers, same_answers)
    item_codes, worker_codes = answers.items, answers.workers
    return ClusteringSimulation(
        log=answers,
        truth=truth[item_codes],
        recall=recall[worker_codes],
        specificity=specificity[worker_codes],
        spammers=is_spammer[worker_codes],
        seed=seed,
    )


def _check(n_items: Any, n_workers: Any, n_clusters: Any, answers_per_pair: Any) -> None:
    check_number("n_items", n_items, least=2, most=2**31, whole=True)
    check_number("n_workers", n_workers, least=1, whole=True)
    check_number("n_clusters", n_clusters, least=1, whole=True)
    check_number("answers_per_pair", answers_per_pair, least=1, most=n_workers, whole=True)


def _workers(rng: np.random.Generator, n_pairs: int, n_workers: int, each: int) -> npt.NDArray[np.int64]:
    """Select different workers for each pair."""
    if 2 * each > n_workers:  # permutations are faster than rejection sampling
        return np.concatenate([rng.permutation(n_workers)[:each] for _ in range(n_pairs)])
    workers = rng.integers(0, n_workers, (n_pairs, each))
    while True:
        sorted_workers = np.sort(workers, axis=1)
        has_duplicates = (sorted_workers[:, 1:] == sorted_workers[:, :-1]).any(axis=1)
        if not has_duplicates.any():
            return workers.ravel()
        workers[has_duplicates] = rng.integers(0, n_workers, (int(has_duplicates.sum()), each))


def _number_of_pairs(pairs: Any, most: int) -> int:
    """Number of pairs, from a number or a share."""
    share = isinstance(pairs, float | np.floating) and pairs < 1
    check_number("pairs", pairs, least=0 if share else 1, most=most, whole=not share)
    n_pairs = round(float(pairs) * most) if share else int(pairs)
    if not n_pairs:
        raise ValueError(f"pairs={pairs} selects none of {plural(most, 'pair')}: pass a larger number or share")
    return n_pairs


def _draw_pairs(
    rng: np.random.Generator, truth: npt.NDArray[np.int64], n_pairs: int, same: Any
) -> npt.NDArray[np.int64]:
    """Draw distinct pairs, encoded as lower item · items + higher item, in ascending order."""
    n = len(truth)
    if same is None:
        return np.sort(_draw_distinct(rng, n_pairs, lambda size: _ends(rng, n, size), n * (n - 1) // 2))
    check_number("same", same, least=0, most=1)
    order = np.argsort(truth, kind="stable")
    sizes = np.bincount(truth)
    starts = np.cumsum(sizes) - sizes
    all_within = int((sizes * (sizes - 1) // 2).sum())
    within = min(round(same * n_pairs), all_within)

    def together(size: int) -> npt.NDArray[np.int64]:
        some = rng.integers(0, n, size)
        cluster = truth[some]
        return _keys(some, order[starts[cluster] + rng.integers(0, sizes[cluster])], n)

    def apart(size: int) -> npt.NDArray[np.int64]:
        keys = _ends(rng, n, size)
        low, high = np.divmod(keys, n)
        separated: npt.NDArray[np.int64] = keys[truth[low] != truth[high]]
        return separated

    parts = (
        _draw_distinct(rng, within, together, all_within),
        _draw_distinct(rng, n_pairs - within, apart, n * (n - 1) // 2 - all_within),
    )
    return np.sort(np.concatenate(parts))


def _ends(rng: np.random.Generator, n: int, size: int) -> npt.NDArray[np.int64]:
    return _keys(rng.integers(0, n, size), rng.integers(0, n, size), n)


def _keys(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    apart = a != b
    keys: npt.NDArray[np.int64] = np.minimum(a, b)[apart] * n + np.maximum(a, b)[apart]
    return keys


def _draw_distinct(rng: np.random.Generator, n_keys: int, draw: Any, most: int) -> npt.NDArray[np.int64]:
    """Draw distinct keys by rejection sampling."""
    if n_keys > most:
        raise ValueError(f"{n_keys:,} pairs were requested, but there are only {most:,} of this kind")
    keys = np.zeros(0, np.int64)
    while len(keys) < n_keys:
        keys = np.union1d(keys, draw(2 * (n_keys - len(keys)) + 16))
    return rng.permutation(keys)[:n_keys]
