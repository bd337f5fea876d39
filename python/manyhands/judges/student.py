"""Student's t distribution where SciPy is not installed."""

from __future__ import annotations

import math

import numpy as np

from manyhands._base.special import log_gamma


def student_tail(t: float, freedom: float) -> float:
    """Probability that Student's t exceeds `t`, to about 1e-13.

    Examples
    --------
    >>> round(student_tail(2.0, 10), 6), round(student_tail(-2.0, 10), 6)
    (0.036694, 0.963306)
    """
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    x = freedom / (freedom + t * t)
    half = 0.5 * beta_share(freedom / 2, 0.5, x)
    return half if t >= 0 else 1.0 - half


def beta_share(a: float, b: float, x: float) -> float:
    """Regularized incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_share(b, a, 1.0 - x)
    logs = log_gamma(np.array([a + b, a, b]))
    front = math.exp(float(logs[0] - logs[1] - logs[2]) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for step in range(1, 500):
        for term in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            d = 1.0 + term * d
            c = 1.0 + term / c
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return front * value
