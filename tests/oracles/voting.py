"""Votes counted one at a time."""

from __future__ import annotations

import numpy as np

from oracles.em import Rows, confusion_of, counts_of

#: Shares this close (relative) are a tie.
TIE = 1e-12


def shares(rows: Rows, worker_weights: np.ndarray | None = None) -> np.ndarray:
    """Share of each class in the votes on each task, (N, K); negative sums count as none."""
    weights = np.ones(rows.n_workers) if worker_weights is None else worker_weights
    votes = np.zeros((rows.n_tasks, rows.n_classes))
    for task, worker, label, weight in zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True):
        votes[task, label] += weight * weights[worker]
    votes = np.maximum(votes, 0.0)
    votes[votes.sum(axis=1) == 0] = 1.0
    return votes / votes.sum(axis=1, keepdims=True)


def leaders(row: np.ndarray) -> list[int]:
    """Classes that nobody beats, lowest code first."""
    return [k for k, share in enumerate(row) if share >= row.max() * (1 - TIE)]


def agreement(rows: Rows, posterior: np.ndarray) -> np.ndarray:
    """Share of each worker's labels that name the winner (the lowest code of a tie), (M,)."""
    agree, total = np.zeros(rows.n_workers), np.zeros(rows.n_workers)
    for task, worker, label, weight in zip(rows.tasks, rows.workers, rows.labels, rows.weights, strict=True):
        total[worker] += weight
        agree[worker] += weight * (label == leaders(posterior[task])[0])
    return np.where(total > 0, agree / np.where(total > 0, total, 1.0), 0.0)


def wawa(rows: Rows) -> np.ndarray:
    """Agreement with the majority vote, (M,)."""
    return agreement(rows, shares(rows))


def zero_based(
    rows: Rows,
    *,
    n_iter: int,
    learning_rate: float,
    rate_decay: float,
    decay_every: int,
    initial_skill: float,
) -> np.ndarray:
    """Skills that follow the agreement with the vote they weigh, (M,)."""
    skills, rate = np.full(rows.n_workers, initial_skill), learning_rate
    for done in range(1, n_iter + 1):
        if done % decay_every == 0:
            rate = rate * rate_decay
        skills = skills + rate * (agreement(rows, shares(rows, skills)) - skills)
    return skills


def confusion(rows: Rows, posterior: np.ndarray) -> np.ndarray:
    """How workers look when judged by the posterior, (M, K, K); even rows for classes never met."""
    return confusion_of(counts_of(rows, posterior), "full")
