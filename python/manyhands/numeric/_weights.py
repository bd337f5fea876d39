"""Weights of averaged models by their errors on held-out answers."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from manyhands._base.estimator import Array


def least_squares_on_simplex(products: Array) -> Array:
    """Minimize w·products·w over non-negative weights with sum one, by enumerating active sets."""
    n = len(products)
    best: Array = np.eye(n)[int(np.argmin(np.diag(products)))]
    least = float(np.diag(products).min())
    ridge = 1e-9 * np.trace(products) / n * np.eye(n)
    for size in range(2, n + 1):
        for active in map(list, combinations(range(n), size)):
            ones = np.linalg.solve((products + ridge)[np.ix_(active, active)], np.ones(size))
            if ones.sum() <= 0 or (ones < 0).any():
                continue
            weights = np.zeros(n)
            weights[active] = ones / ones.sum()
            loss = float(weights @ products @ weights)
            if loss < least * (1.0 - 1e-12):
                best, least = weights, loss
    return best


def shrink(best: Array, first: Array, gain: float, variance: float) -> Array:
    """Weights of least error, shrink toward a first model by how uncertain their gain over it is.

    By chance, each further model gains about one squared standard error: with d of them in use and a gain of t standard
    errors, the first model keeps a share of d / t².
    """
    n_further = float((best[first == 0] > 0).sum())
    if gain <= 0 or n_further * variance >= gain**2:
        return first
    share = 1.0 - n_further * variance / gain**2
    weights: Array = share * best + (1.0 - share) * first
    return weights
