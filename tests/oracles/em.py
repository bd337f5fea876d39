"""Dawid–Skene by EM, as one would write it on paper.

Confusion matrices are always (workers × true × observed), whatever the model; products are sums of logs;
every step is written out. Nothing is shared with the library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: No probability is kept below this.
FLOOR = 1e-30
#: No accuracy of a model that spreads errors evenly is kept above this.
CEILING = 1 - np.finfo(float).eps / 2
#: An objective of 0 (one class) counts as this in the stopping rule.
TINY = np.finfo(float).tiny
#: Classes whose log joint probabilities are this close share a hard assignment.
TIE = 1e-9


@dataclass(frozen=True)
class Rows:
    """Annotations as codes, (n,) arrays, with the sizes of the table."""

    tasks: np.ndarray
    workers: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    n_tasks: int
    n_workers: int
    n_classes: int

    @classmethod
    def of(cls, votes) -> Rows:
        tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
        weights = np.ones(len(tasks)) if votes.weights is None else votes.weights
        return cls(tasks, workers, labels, weights, votes.n_tasks, votes.n_workers, votes.n_classes)


@dataclass(frozen=True)
class Result:
    posterior: np.ndarray
    confusion: np.ndarray
    prior: np.ndarray
    history: np.ndarray
    n_iter: int
    converged: bool


def fit(
    rows: Rows,
    *,
    model: str = "full",
    assignment: str = "soft",
    start: str | np.ndarray | tuple[np.ndarray, np.ndarray] = "majority",
    pseudo: np.ndarray | float = 0.0,
    class_pseudo: np.ndarray | float = 0.0,
    gold: np.ndarray | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
) -> Result:
    """EM from `start`: "shares", "majority", posteriors, or a pair (prior, confusion).

    `pseudo` is (K, K) or (M, K, K), `class_pseudo` (K,); numbers stand for equal entries. `gold` has a class
    code per task, or -1.
    """
    m, k = rows.n_workers, rows.n_classes
    pseudo = np.broadcast_to(pseudo, (m, k, k))
    class_pseudo = np.broadcast_to(class_pseudo, k)
    gold = np.full(rows.n_tasks, -1) if gold is None else gold

    def maximise(posterior):
        confusion = confusion_of(counts_of(rows, posterior) + pseudo, model)
        return prior_of(posterior.sum(axis=0) + class_pseudo), confusion

    if isinstance(start, tuple):
        prior, confusion = prior_of(start[0]), confusion_of(start[1], model)
    else:
        given = start if isinstance(start, np.ndarray) else opening(rows, start)
        prior, confusion = maximise(clamp(given, gold))

    history: list[float] = []
    passes, converged = 0, False
    for hard in {"soft": [False], "hard": [True], "hard-then-soft": [True, False]}[assignment]:
        history, converged = [], False
        while passes < max_iter and not converged:
            posterior, evidence = expect(rows, prior, confusion, gold, hard=hard)
            history.append(evidence + log_prior(confusion, prior, pseudo, class_pseudo, model))
            scale = max(abs(history[-1]), TINY)
            converged = len(history) > 1 and abs(history[-1] - history[-2]) < tol * scale
            passes += 1
            prior, confusion = maximise(posterior)
    posterior, evidence = expect(rows, prior, confusion, gold, hard=False)
    if assignment != "hard":
        history.append(evidence + log_prior(confusion, prior, pseudo, class_pseudo, model))
    return Result(posterior, confusion, prior, np.array(history), passes, converged)


def fit_abstaining(rows: Rows, n_labels: int, *, start: str, pseudo: float, class_pseudo: float, max_iter: int):
    """The full model where labels from `rows.n_classes` on are never true: matrices are (true × said)."""
    m, k = rows.n_workers, rows.n_classes
    answered = rows.labels < k
    only = Rows(*(part[answered] for part in (rows.tasks, rows.workers, rows.labels, rows.weights)), rows.n_tasks, m, k)
    posterior, history = opening(only, start), []
    for _ in range(max_iter + 1):
        counts = np.full((m, n_labels, k), pseudo)
        np.add.at(counts, (rows.workers, rows.labels), rows.weights[:, None] * posterior[rows.tasks])
        counts = counts.swapaxes(1, 2)
        confusion = counts / counts.sum(axis=2, keepdims=True)
        prior = prior_of(posterior.sum(axis=0) + class_pseudo)
        posterior, evidence = expect(rows, prior, confusion, np.full(rows.n_tasks, -1), hard=False)
        history.append(evidence + pseudo * np.log(confusion).sum() + class_pseudo * np.log(prior).sum())
    return Result(posterior, confusion, prior, np.array(history), max_iter, False)


# ----------------------------------------------------------------------------------------------------- starts


def vote_counts(rows: Rows) -> np.ndarray:
    """Votes for each class of each task, (N, K)."""
    votes = np.zeros((rows.n_tasks, rows.n_classes))
    np.add.at(votes, (rows.tasks, rows.labels), rows.weights)
    return votes


def opening(rows: Rows, start: str) -> np.ndarray:
    """The posteriors that a named start begins with, (N, K)."""
    votes = vote_counts(rows)
    if start == "majority":
        votes = (votes >= votes.max(axis=1, keepdims=True) * (1 - TIE)).astype(float)
    elif start != "shares":
        raise ValueError(start)
    votes[votes.sum(axis=1) == 0] = 1.0
    return votes / votes.sum(axis=1, keepdims=True)


def clamp(posterior: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Known classes are certain."""
    known = gold >= 0
    out = posterior.copy()
    out[known] = np.eye(posterior.shape[1])[gold[known]]
    return out


# ----------------------------------------------------------------------------------------------------- E-step


def log_joint(rows: Rows, prior: np.ndarray, confusion: np.ndarray) -> np.ndarray:
    """Log probability of each task's class and labels together, (N, K)."""
    joint = np.tile(np.log(prior), (rows.n_tasks, 1))
    said = np.log(confusion[rows.workers, :, rows.labels])
    np.add.at(joint, rows.tasks, rows.weights[:, None] * said)
    return joint


def expect(rows: Rows, prior, confusion, gold, *, hard: bool) -> tuple[np.ndarray, float]:
    """Posteriors, and the log-likelihood that goes with them."""
    joint = log_joint(rows, prior, confusion)
    largest = joint.max(axis=1, keepdims=True)
    if hard:
        best = joint >= largest - TIE
        posterior = best / best.sum(axis=1, keepdims=True)
        evidence = largest[:, 0]
    else:
        odds = np.exp(joint - largest)
        posterior = odds / odds.sum(axis=1, keepdims=True)
        evidence = largest[:, 0] + np.log(odds.sum(axis=1))
    known = gold >= 0
    evidence = np.where(known, joint[np.arange(len(joint)), gold], evidence)
    return clamp(posterior, gold), float(evidence.sum())


def log_prior(confusion, prior, pseudo, class_pseudo, model: str) -> float:
    """Log density that the pseudo-counts give the parameters, up to a constant.

    A model that ties entries of the matrix ties their pseudo-counts too, so that one sum over the entries of
    the matrix serves all models.
    """
    classes = (class_pseudo * np.log(prior)).sum()
    return float((spread(pseudo, model) * np.log(confusion)).sum() + classes)


# ----------------------------------------------------------------------------------------------------- M-step


def counts_of(rows: Rows, posterior: np.ndarray) -> np.ndarray:
    """Expected number of times each worker gave each label to each class, (M, K, K)."""
    counts = np.zeros((rows.n_workers, rows.n_classes, rows.n_classes))
    by_label = counts.swapaxes(1, 2)
    np.add.at(by_label, (rows.workers, rows.labels), rows.weights[:, None] * posterior[rows.tasks])
    return counts


def confusion_of(counts: np.ndarray, model: str) -> np.ndarray:
    """The confusion matrices that counts suggest, (M, K, K)."""
    k = counts.shape[-1]
    if model == "full":
        total = counts.sum(axis=2, keepdims=True)
        met = total > FLOOR
        return np.maximum(np.where(met, counts / np.where(met, total, 1.0), 1 / k), FLOOR)
    right, wrong = right_and_wrong(counts)
    if model == "one-coin":
        right = np.repeat(right.sum(axis=1, keepdims=True), k, axis=1)
        wrong = np.repeat(wrong.sum(axis=1, keepdims=True), k, axis=1)
    if k == 1:
        return np.ones_like(counts)
    total = right + wrong
    met = total > FLOOR
    accuracy = np.clip(np.where(met, right / np.where(met, total, 1.0), 1 / k), FLOOR, CEILING)
    error = np.maximum((1 - accuracy) / (k - 1), FLOOR)
    return np.where(np.eye(k, dtype=bool), accuracy[:, :, None], error[:, :, None])


def right_and_wrong(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expected right and wrong answers of each worker on each class, (M, K) each."""
    diagonal = np.eye(counts.shape[-1], dtype=bool)
    return np.where(diagonal, counts, 0).sum(axis=2), np.where(diagonal, 0, counts).sum(axis=2)


def spread(pseudo: np.ndarray, model: str) -> np.ndarray:
    """Pseudo-counts with the same totals and equal entries wherever the model has equal probabilities."""
    k = pseudo.shape[-1]
    if model == "full" or k == 1:
        return pseudo
    right, wrong = right_and_wrong(pseudo)
    if model == "one-coin":
        right = np.repeat(right.mean(axis=1, keepdims=True), k, axis=1)
        wrong = np.repeat(wrong.mean(axis=1, keepdims=True), k, axis=1)
    return np.where(np.eye(k, dtype=bool), right[:, :, None], wrong[:, :, None] / (k - 1))


def prior_of(counts: np.ndarray) -> np.ndarray:
    """The class prior that counts suggest, (K,)."""
    total = counts.sum()
    shares = counts / total if total > 0 else np.full(len(counts), 1 / len(counts))
    return np.maximum(shares, FLOOR)
