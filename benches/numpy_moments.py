"""Moments and coupled factorisation in plain, vectorised NumPy: what one would write without a compiler."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from manyhands import Annotations, _core
from manyhands.moments import Moments


def _by_task(votes: Annotations) -> list[np.ndarray]:
    """Rows of the log, grouped by tasks with the same number of labels: (tasks, labels a task)."""
    tasks, _, _ = votes.codes()
    starts = np.flatnonzero(np.diff(tasks, prepend=-1))
    sizes = np.diff(starts, append=len(tasks))
    return [starts[sizes == n][:, None] + np.arange(n) for n in np.unique(sizes)]


def pairs(votes: Annotations) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of workers as one number each, sorted, and their joint counts (P, K, K)."""
    _, workers, labels = (column.astype(np.int64) for column in votes.codes())
    k, m = votes.n_classes, votes.n_workers
    cells = []
    for rows in _by_task(votes):
        for i, j in combinations(range(rows.shape[1]), 2):
            a, b = rows[:, i], rows[:, j]
            # Rows of a task are in worker order: the first is the lower.
            cells.append(((workers[a] * m + workers[b]) * k + labels[a]) * k + labels[b])
    found, at = np.unique(np.concatenate(cells) // (k * k), return_inverse=True)
    joint = np.bincount(at * k * k + np.concatenate(cells) % (k * k), minlength=len(found) * k * k)
    return found, joint.reshape(-1, k, k)


def triples(votes: Annotations) -> tuple[np.ndarray, np.ndarray]:
    """Triples of workers as one number each, sorted, and their joint counts (T, K, K, K)."""
    _, workers, labels = (column.astype(np.int64) for column in votes.codes())
    k, m = votes.n_classes, votes.n_workers
    cells = []
    for rows in _by_task(votes):
        for i, j, h in combinations(range(rows.shape[1]), 3):
            who = (workers[rows[:, i]] * m + workers[rows[:, j]]) * m + workers[rows[:, h]]
            what = (labels[rows[:, i]] * k + labels[rows[:, j]]) * k + labels[rows[:, h]]
            cells.append(who * k**3 + what)
    found, at = np.unique(np.concatenate(cells) // k**3, return_inverse=True)
    joint = np.bincount(at * k**3 + np.concatenate(cells) % k**3, minlength=len(found) * k**3)
    return found, joint.reshape(-1, k, k, k)


def nmf(
    moments: Moments, prior: np.ndarray, confusion: np.ndarray, n_updates: int
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Updates of the Kullback–Leibler factorisation, all pairs in one einsum; and the objective, which stops it."""
    first, second = moments.pairs.astype(np.int64).T
    history = []
    for _ in range(n_updates):
        a, b = confusion[first], confusion[second]
        model = np.einsum("k,pkl,pkj->plj", prior, a, b, optimize=True)
        history.append(float((moments.pair_joint * np.log(np.maximum(model, 1e-30))).sum()))
        share = moments.pair_joint / np.maximum(model, 1e-30)
        to_a = np.einsum("plj,pkj->pkl", share, b, optimize=True) * a * prior[:, None]
        to_b = np.einsum("plj,pkl->pkj", share, a, optimize=True) * b * prior[:, None]
        counts = np.zeros_like(confusion)
        np.add.at(counts, first, to_a)
        np.add.at(counts, second, to_b)
        prior = to_a.sum(axis=(0, 2))
        prior = prior / prior.sum()
        confusion = counts / np.maximum(counts.sum(axis=2, keepdims=True), 1e-30)
    return prior, confusion, history


def ours_nmf(moments: Moments, prior: np.ndarray, confusion: np.ndarray, n_updates: int) -> object:
    """The same updates by the compiled kernel."""
    return _core.nmf_fit(
        moments.pairs,
        moments.pair_joint,
        prior,
        confusion,
        weights=moments.pair_overlap,
        max_iter=n_updates,
        tol=0.0,
    )
