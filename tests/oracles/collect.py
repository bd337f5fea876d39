"""Plain twins of what a label is worth: every label that a worker may give, one task at a time."""

from __future__ import annotations

import math

import numpy as np


def error_gain(posterior: np.ndarray, worker: np.ndarray, share: float = 1.0) -> float:
    """How much the probability of a wrong answer falls, expected over labels."""
    expected = 0.0
    for probability, after in _after(posterior, worker, share):
        expected += probability * (1 - max(after))
    return (1 - max(posterior)) - expected


def information_gain(posterior: np.ndarray, worker: np.ndarray, share: float = 1.0) -> float:
    """How much the entropy of the class falls in bits, expected over labels."""
    return _entropy(posterior) - sum(p * _entropy(after) for p, after in _after(posterior, worker, share))


def doubt(row: np.ndarray, strength: float, draws: np.ndarray) -> float:
    """Bits that a label tells about a row, by gamma variates, draws × labels, that make its Dirichlet distribution."""
    rows = draws / draws.sum(axis=1, keepdims=True)
    return _entropy(row) - float(np.mean([_entropy(one) for one in rows]))


def stops(posterior: np.ndarray, prior: np.ndarray, error: float) -> bool:
    """Whether a task is done: its answer is sure, and the evidence without the prior is strong."""
    best = int(np.argmax(posterior))
    if 1 - posterior[best] > error:
        return False
    if posterior[best] == 1:
        return True
    odds = posterior[best] / (1 - posterior[best])
    before = prior[best] / (1 - prior[best])
    return bool(odds / before >= (len(prior) - 1) / error)


def _after(posterior: np.ndarray, worker: np.ndarray, share: float) -> list[tuple[float, list[float]]]:
    """The probability of each label, and the posterior after it."""
    k, n_labels = worker.shape
    said = [sum(posterior[c] * worker[c, label] for c in range(k)) for label in range(n_labels)]
    found = []
    for label in range(n_labels):
        joint = [posterior[c] * (share * worker[c, label] + (1 - share) * said[label]) for c in range(k)]
        if sum(joint) > 0:
            found.append((sum(joint), [x / sum(joint) for x in joint]))
    return found


def _entropy(p: np.ndarray | list[float]) -> float:
    return -sum(x * math.log2(x) for x in p if x > 0)
