"""Stepwise EM, worker by worker and batch by batch."""

from __future__ import annotations

import numpy as np

from .em import Rows, confusion_of, counts_of, expect, prior_of
from .skills import Answer


def left_after(start: float, end: float, kappa: float, forget: float) -> float:
    """What is left of the past between so many answers and so many: exp of minus the steps' integral."""
    turn = forget ** (-1 / kappa) - 1 if forget > 0 else float("inf")
    gone = 0.0
    if start < turn:
        a, b = start + 1, min(end, turn) + 1
        gone += np.log(b / a) if kappa == 1 else (b ** (1 - kappa) - a ** (1 - kappa)) / (1 - kappa)
    if end > turn:
        gone += forget * (end - max(start, turn))
    return float(np.exp(-gone))


class Average:
    """A running average of expected counts, and what it is worth."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean, self.squares, self.seen = np.zeros(shape), 0.0, 0.0

    def after(self, counts: np.ndarray, n: float, kappa: float, forget: float) -> Average:
        new = Average(counts.shape)
        left = left_after(self.seen, self.seen + n, kappa, forget)
        new.mean = left * self.mean + (1 - left) * counts / n
        new.squares = left**2 * self.squares + (1 - left) ** 2 / n
        new.seen = self.seen + n
        return new

    def counts(self) -> np.ndarray:
        # Weights sum to the mean's total; their effective number is that squared over the sum of squares.
        total = self.mean.sum()
        return self.mean / total * (total**2 / self.squares) if total > 0 else self.mean


def fit(
    rows: Rows,
    *,
    batch_size: int,
    kappa: float,
    forget: float,
    rounds: int,
    pseudo: np.ndarray,
    class_pseudo: np.ndarray,
) -> Answer:
    """Replay a table in task order; posteriors are those under the last parameters."""
    m, k = rows.n_workers, rows.n_classes
    workers, classes = [Average((k, k)) for _ in range(m)], Average((k,))

    def parameters(workers, classes):
        counts = np.array([one.counts() for one in workers])
        return prior_of(classes.counts() + class_pseudo), confusion_of(counts + pseudo, "full")

    for first in range(0, rows.n_tasks, batch_size):
        mine = (rows.tasks >= first) & (rows.tasks < first + batch_size)
        if not mine.any():
            continue
        n_tasks = min(batch_size, rows.n_tasks - first)
        batch = Rows(rows.tasks[mine] - first, rows.workers[mine], rows.labels[mine], rows.weights[mine], n_tasks, m, k)
        answers = np.bincount(batch.workers, batch.weights, minlength=m)
        now = workers, classes
        for _ in range(rounds):
            posterior, _ = expect(batch, *parameters(*now), np.full(n_tasks, -1), hard=False)
            counts = counts_of(batch, posterior)
            now = (
                [
                    old.after(counts[w], answers[w], kappa, forget) if answers[w] > 0 else old
                    for w, old in enumerate(workers)
                ],
                classes.after(posterior.sum(axis=0), n_tasks, kappa, forget),
            )
        workers, classes = now
    prior, confusion = parameters(workers, classes)
    posterior, _ = expect(rows, prior, confusion, np.full(rows.n_tasks, -1), hard=False)
    return Answer(posterior, confusion, prior, np.zeros(0))
