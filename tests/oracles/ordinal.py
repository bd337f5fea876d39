"""Plain versions of methods for ordered classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import digamma, expit

from oracles import bayes
from oracles.em import Rows

#: Strengths stay within these bounds, means of cells above the least one.
LEAST, MOST, LEAST_MEAN = 1e-3, 1e4, 1e-12
#: Slope of the imaginary worker, variance that the prior expects, strength to begin with.
SLOPE, VARIANCE, FIRST = 2.0, 0.5, 10.0


def places(k: int) -> np.ndarray:
    return np.arange(k) - (k - 1) / 2


def cells(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of labels of each class, (M, K, K), and their derivatives by thresholds and slope, (M, K, K, K)."""
    m, k = theta.shape
    inner = theta[:, None, :-1] - theta[:, -1][:, None, None] * places(k)[None, :, None]
    # Upper tails, where they are the smaller ones, lose no digits.
    below = np.concatenate([np.zeros((m, k, 1)), expit(inner), np.ones((m, k, 1))], axis=2)
    above = np.concatenate([np.ones((m, k, 1)), expit(-inner), np.zeros((m, k, 1))], axis=2)
    p = np.where(below[..., :-1] < 0.5, np.diff(below, axis=2), -np.diff(above, axis=2))
    density = below * above
    slopes = np.zeros((m, k, k, k))
    for label in range(k):
        if label < k - 1:
            slopes[:, :, label, label] += density[:, :, label + 1]
        if label > 0:
            slopes[:, :, label, label - 1] -= density[:, :, label]
        slopes[:, :, label, k - 1] = -places(k) * (density[:, :, label + 1] - density[:, :, label])
    return p, slopes


class Ordered:
    """Thresholds and slope of each worker ~ Normal(mean, covariance); rows ~ Dirichlet(strength · ordered logit)."""

    def __init__(self, m: int, k: int, strength: float | None) -> None:
        self.first = np.append(SLOPE * (np.arange(k - 1) - (k - 2) / 2), SLOPE)
        self.mean, self.covariance = self.first.copy(), VARIANCE * np.eye(k)
        self.theta = np.tile(self.first, (m, 1))
        self.learn = strength is None
        self.strength = FIRST if strength is None else strength

    def absorb(self, counts: np.ndarray) -> np.ndarray:
        for _ in range(2):
            self.improve(counts)
        rows = np.maximum(cells(self.theta)[0], LEAST_MEAN)
        return rows if np.isinf(self.strength) else counts + self.strength * rows

    def improve(self, counts: np.ndarray) -> None:
        (m, k), draws = self.theta.shape, counts
        gains = rows = 0.0
        if np.isfinite(self.strength):
            p = np.maximum(cells(self.theta)[0], LEAST_MEAN)
            at = self.strength * p
            each = np.where(counts > 0, digamma(counts + at) - digamma(at), 0.0)
            gains, draws = (p * each).sum(), at * each
            rows = (digamma(counts.sum(axis=2) + self.strength) - digamma(self.strength)).sum()
        draws = draws + cells(self.mean[None])[0][0]
        precision = np.linalg.inv(self.covariance)
        unknown = np.zeros((k, k))
        for worker in range(m):
            self.theta[worker] = self.climbed(self.theta[worker], draws[worker], precision)
            unknown += np.linalg.inv(self.slopes(self.theta[worker], draws[worker], precision)[1])
        if self.learn and rows > 0:
            self.strength = float(np.clip(self.strength * gains / rows, LEAST, MOST))
        self.mean = (self.first + self.theta.sum(axis=0)) / (m + 1)
        away = self.theta - self.mean
        self.covariance = ((k + 1) * VARIANCE * np.eye(k) + away.T @ away + unknown) / (k + 1 + m)

    def climbed(self, theta: np.ndarray, draws: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Five steps of Fisher scoring, halved where they would not climb."""
        height = self.height(theta, draws, precision)
        for _ in range(5):
            gradient, information = self.slopes(theta, draws, precision)
            step = np.linalg.solve(information, gradient)
            for halving in range(12):
                trial = theta + step / 2**halving
                reached = self.height(trial, draws, precision)
                if reached >= height - 1e-10 * (1 + abs(height)):
                    theta, height = trial, reached
                    break
        return theta

    def height(self, theta: np.ndarray, draws: np.ndarray, precision: np.ndarray) -> float:
        if (np.diff(theta[:-1]) <= 0).any():
            return -np.inf
        away = theta - self.mean
        return float((draws * np.log(cells(theta[None])[0][0])).sum() - away @ precision @ away / 2)

    def slopes(self, theta: np.ndarray, draws: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, each = (part[0] for part in cells(theta[None]))
        gradient = np.einsum("kl,kli->i", draws / p, each) - precision @ (theta - self.mean)
        information = np.einsum("k,kl,kli,klj->ij", draws.sum(axis=1), 1 / p, each, each) + precision
        return gradient, information


def falling(row: np.ndarray) -> np.ndarray:
    """Isotonic regression by pooling neighbours that rise."""
    pools: list[list[float]] = []
    for value in row:
        pools.append([value, 1])
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    return np.concatenate([np.full(int(n), value) for value, n in pools])


def differences(above: np.ndarray) -> np.ndarray:
    """Posteriors of classes, of the probabilities of lying above each."""
    rows = np.array([falling(row) for row in above])
    found = rows - np.concatenate([rows[:, 1:], np.zeros((len(rows), 1))], axis=1)
    return found / found.sum(axis=1, keepdims=True)


def asked(rows: Rows, place: int) -> Rows:
    """The answers to the question whether the class is above this one."""
    return replace(rows, labels=(rows.labels > place).astype(int), n_classes=2)


def cumulative(rows: Rows, gold: np.ndarray, **stop: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior, confusion matrices and shares of classes, by a hierarchical model of two classes for each question."""
    n, m, k = rows.n_tasks, rows.n_workers, rows.n_classes
    above, rates, shares = np.ones((n, k)), np.ones((m, k, k)), np.ones((1, k))
    for place in range(k - 1):
        known = np.where(gold < 0, -1, gold > place)
        prior, half = bayes.Crowd(m, 2), np.full(2, 0.5)
        found = bayes.fit_hierarchy(asked(rows, place), prior=prior, class_pseudo=half, gold=known, **stop)
        above[:, place + 1], shares[0, place + 1] = found[0][:, 1], found[2][1]
        for true in range(k):
            rates[:, true, place + 1] = found[1][:, int(true > place), 1]
    confusion = np.stack([differences(worker) for worker in rates])
    return differences(above), confusion, differences(shares)[0]
