"""How strongly errors on one task are correlated: written from the estimating equations, one task after the other."""

from __future__ import annotations

from math import factorial

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from oracles.em import Rows

#: Correlations that are tried in turn, and the shift of everybody's accuracy that slopes are taken with.
TRIED = (0.0, 0.05, 0.15, 0.3, 0.5, 0.65, 0.8)
SHIFT = 0.05
#: Standard deviation of what is believed of that shift, and the error that stands for knowing nothing.
BELIEF = 0.3
NOTHING = 1.0
#: Accuracies at which what depends on them is computed; in between it is interpolated.
KNOTS = np.linspace(ndtri(0.001), ndtri(0.999), 129)
#: Values of the shared factor and their weights; terms of the covariance's series.
NODES, SHARES = np.polynomial.hermite_e.hermegauss(9)
SHARES = SHARES / SHARES.sum()
TERMS = 3


class _Curves:
    """What depends on an accuracy, at a correlation and a shift of all accuracies, interpolated between knots."""

    def __init__(self, correlation: float, shift: float) -> None:
        moved = KNOTS + shift
        density = np.exp(-(moved**2) / 2) / np.sqrt(2 * np.pi)
        weight = np.exp(-(KNOTS**2) / 2) / np.sqrt(2 * np.pi) / (ndtr(KNOTS) * ndtr(-KNOTS))
        given = (moved[:, None] - np.sqrt(correlation) * NODES) / np.sqrt(1 - correlation)
        hermite = [np.ones_like(moved), moved, moved**2 - 1]
        self._curves = np.column_stack(
            [
                log_ndtr(given) - log_ndtr(KNOTS)[:, None],
                log_ndtr(-given) - log_ndtr(-KNOTS)[:, None],
                weight,
                weight * ndtr(moved),
                *(weight * density * he / np.sqrt(factorial(j + 1)) for j, he in enumerate(hermite)),
            ]
        )

    def at(self, accuracies: np.ndarray) -> np.ndarray:
        """Curves along a last axis: logs of right and of wrong answers by node, weight, weighted accuracy, terms."""
        known = ndtr(KNOTS)
        inside = np.clip(accuracies, known[0], known[-1])
        return np.stack([np.interp(inside, known, curve) for curve in self._curves.T], axis=-1)


def sums(rows: Rows, posterior, counts, prior, correlation: float, shift: float) -> np.ndarray:
    """Sums over tasks of the two estimating functions and of their products: (pairs, votes, pairs², both, votes²)."""
    k, n = len(prior), len(NODES)
    curves = _Curves(correlation, shift).at(np.einsum("mkk->mk", counts) / counts.sum(axis=2))
    total = np.zeros(5)
    for task in range(rows.n_tasks):
        q = posterior[task]
        logs = np.log(np.maximum(prior, 1e-12))[:, None] + np.log(SHARES)
        votes, together, alone = np.zeros(k), np.zeros((k, TERMS)), np.zeros((k, TERMS))
        squares = np.zeros(k)
        of_task = rows.tasks == task
        for worker in np.unique(rows.workers[of_task]):
            mine = of_task & (rows.workers == worker)
            said = np.bincount(rows.labels[mine], rows.weights[mine], minlength=k)
            for c in range(k):
                # The worker as judged by all other tasks.
                rest = np.maximum(counts[worker, c] - q[c] * said, 1e-12)
                row, all_said = counts[worker, c].sum(), said.sum()
                logs[c] += said @ np.log(rest / max(row - q[c] * all_said, 1e-12))
                right, wrong, (weight, expected), terms = np.split(curves[worker, c], [n, 2 * n, 2 * n + 2])
                logs[c] += said[c] * right + (all_said - said[c]) * wrong
                inflated = row / max(row - q[c] * all_said, 1e-12)
                x = (said[c] * weight - all_said * expected) * inflated
                votes[c] += x
                squares[c] += x**2
                together[c] += all_said * terms
                alone[c] += (all_said * terms) ** 2
        odds = np.exp(logs - logs.max()).sum(axis=1)
        odds /= odds.sum()
        powers = correlation ** np.arange(1, TERMS + 1)
        pairs = (votes**2 - squares) / 2 - ((together**2 - alone) / 2) @ powers
        g, s = odds @ pairs, odds @ votes
        total += [g, s, g * g, g * s, s * s]
    return total


def error_correlation(rows: Rows, posterior, counts, prior) -> tuple[float, float]:
    """The correlation at which both estimating functions vanish, and its standard error."""
    if len(prior) < 2:
        return 0.0, NOTHING
    shift, before = 0.0, None
    for correlation in TRIED:
        here, there = (sums(rows, posterior, counts, prior, correlation, s) for s in (shift, shift + SHIFT))
        steepness = min((there[1] - here[1]) / SHIFT, 0.0) - 1 / BELIEF**2
        lack = here[1] - shift / BELIEF**2
        share = (there[0] - here[0]) / SHIFT / steepness
        left = here[0] - share * lack
        noise = here[2] - 2 * share * here[3] + share**2 * here[4]
        shift = np.clip(shift + np.clip(-lack / steepness, -0.25, 0.25), -1.0, 0.5)
        if (before is not None and min(left, before[1]) <= 0) or correlation == TRIED[-1]:
            break
        before = correlation, left
    slope = (before[1] - left) / (correlation - before[0])
    root = before[0] + before[1] / slope if slope > 1e-9 else (0.0 if before[1] <= 1e-9 else correlation)
    error = np.sqrt(max(noise, 0.0)) / slope if slope > 1e-9 else NOTHING
    return float(np.clip(root, 0.0, TRIED[-1])), float(min(error, NOTHING))
