"""Gamma functions of arrays, where SciPy is not installed."""

from __future__ import annotations

import numpy as np

from manyhands._base.estimator import Array


def log_gamma(x: Array) -> Array:
    """Logarithm of the gamma function of positive numbers, by Stirling's series from 8 on; to about 1e-12."""
    shift = np.ones_like(x)
    up = np.array(x, np.float64)
    while (low := up < 8).any():
        shift = np.where(low, shift * np.where(low, up, 1.0), shift)
        up = np.where(low, up + 1, up)
    series = 1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / up**2) / up**2) / up**2
    value: Array = (up - 0.5) * np.log(up) - up + 0.5 * np.log(2 * np.pi) + series / up - np.log(shift)
    return value


def digamma(x: Array) -> Array:
    """The derivative of `log_gamma`, for x ≥ 0.5: by recurrence, then its asymptotic series."""
    total = np.zeros_like(x)
    for _ in range(8):
        total -= 1.0 / x
        x = x + 1.0
    inverse = 1.0 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132))))
    result: Array = total + np.log(x) - 0.5 / x - series
    return result
