"""Quantiles of the chi-squared distribution with integer degrees of freedom, without SciPy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def upper_quantiles(share: float, degrees: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the upper quantiles of chi-squared for each number of degrees; O(degrees) per distinct number."""
    distinct, places = np.unique(degrees, return_inverse=True)
    return np.array([_upper_quantile(share, int(n)) for n in distinct])[places.reshape(-1)]


def _upper_quantile(share: float, n: int) -> float:
    # Imported here to keep `import manyhands` fast.
    from statistics import NormalDist

    # Wilson–Hilferty normal approximation, refined by bisection.
    cube = 1 - 2 / (9 * n) - NormalDist().inv_cdf(share) * math.sqrt(2 / (9 * n))
    guess = n * max(cube, 0.05) ** 3
    low, high = guess, guess
    while _survival(low, n) < share:
        low /= 2
    while _survival(high, n) > share:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _survival(middle, n) > share else (low, middle)
    return high


def _survival(x: float, n: int) -> float:
    """Survival function of chi-squared with n degrees of freedom: a finite sum for integer n."""
    half = x / 2
    k = np.arange(0.5 if n % 2 else 0.0, n / 2)
    start = math.erfc(math.sqrt(half)) if n % 2 else 0.0
    if not len(k):
        return start
    steps = np.log(half) - np.log(k[1:])
    # log of half^k e^-half / gamma(k + 1), by cumulative sums
    begin = k[0] * math.log(half) - half - math.lgamma(k[0] + 1)
    logs = begin + np.concatenate([[0.0], np.cumsum(steps)])
    return min(start + float(np.exp(logs).sum()), 1.0)
