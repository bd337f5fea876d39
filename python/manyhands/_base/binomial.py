"""Exact bounds of a share: what some wrong answers in a sample say of all of them."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from manyhands._base.estimator import Array
from manyhands._base.special import log_gamma


@lru_cache(maxsize=4096)
def binomial_upper(wrong: int, n: int, confidence: float) -> float:
    """Clopper–Pearson upper bound of a share, of which a sample of n has `wrong`; 1 for an empty sample.

    The largest share at which so few would still be seen with probability 1 - confidence. O(wrong · 60).

    Examples
    --------
    >>> round(binomial_upper(0, 45, 0.9), 4), round(binomial_upper(2, 105, 0.9), 4)
    (0.0499, 0.0499)
    """
    if wrong >= n:
        return 1.0
    k = np.arange(wrong + 1.0)
    ways = _log_choose(float(n), k)
    low, high = wrong / n, 1.0
    for _ in range(60):
        share = (low + high) / 2
        low, high = (low, share) if _binomial_sum(ways, k, n, share) <= 1 - confidence else (share, high)
    return high


def binomial_tail(wrong: int, n: int, share: float) -> float:
    """Probability that a sample of n has at most `wrong`, if a share of all are wrong. O(wrong).

    Examples
    --------
    >>> round(binomial_tail(0, 45, 0.05), 4)
    0.0994
    """
    k = np.arange(min(wrong, n) + 1.0)
    return _binomial_sum(_log_choose(float(n), k), k, n, share)


def _binomial_sum(ways: Array, k: Array, n: int, share: float) -> float:
    with np.errstate(divide="ignore"):
        logs = ways + k * math.log(share) + (n - k) * (math.log1p(-share) if share < 1 else -math.inf)
    return float(np.exp(logs).sum())


def binomial_interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper–Pearson interval of a share, of which a sample of n has `hits`; (0, 1) for an empty sample."""
    side = (1 + level) / 2
    return 1 - binomial_upper(n - hits, n, side), binomial_upper(hits, n, side)


def fewest_for(wrong: int, share: float, confidence: float) -> int:
    """Size of the smallest sample that bounds a share although it has that many wrong."""
    low, high = wrong, wrong + 1
    while binomial_upper(wrong, high, confidence) > share:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if binomial_upper(wrong, middle, confidence) <= share else (middle, high)
    return high


def unseen_upper(wrong: int, n: int, unseen: int, confidence: float) -> float:
    """Upper bound of the share of wrong answers among those that were not drawn into a sample of n with `wrong`.

    The sample is a random part of itself and the `unseen`. The bound is the most wrong answers among the unseen with
    which so few in the sample still have a probability above 1 - confidence (hypergeometric, exact for a finite log); 0
    where nothing is unseen. O(wrong · log unseen).

    Examples
    --------
    >>> unseen_upper(0, 45, 45, 0.9), round(unseen_upper(0, 45, 10**9, 0.9), 4)
    (0.06666666666666667, 0.0499)
    """
    low, high = -1, unseen
    while high - low > 0:
        middle = (low + high + 1) // 2
        seldom = _hypergeometric_tail(wrong, n, unseen, middle) <= 1 - confidence
        low, high = (low, middle - 1) if seldom else (middle, high)
    return max(low, 0) / unseen if unseen else 0.0


def unseen_tail(wrong: int, n: int, unseen: int, share: float) -> float:
    """Probability that a sample of n has at most `wrong`, if more than a share of the `unseen` are wrong. O(wrong).

    Examples
    --------
    >>> round(unseen_tail(0, 45, 10**9, 0.05), 4), round(unseen_tail(0, 45, 10, 0.99), 4)
    (0.0994, 0.0)
    """
    too_many = math.floor(share * unseen * (1 + 1e-12)) + 1
    return _hypergeometric_tail(wrong, n, unseen, too_many) if too_many <= unseen else 0.0


def _hypergeometric_tail(wrong: int, n: int, unseen: int, hidden: int) -> float:
    """Probability of at most `wrong` in a random n of n + unseen, of which wrong + hidden are wrong."""
    right = float(n + unseen - wrong - hidden)
    k = np.arange(max(0, n - int(right)), wrong + 1.0)
    logs = _log_choose(wrong + float(hidden), k) + _log_choose(right, n - k)
    return float(np.exp(logs - _log_choose(float(n + unseen), float(n))).sum())


def _log_choose(n: float, k: Array | float) -> Array:
    k = np.asarray(k, np.float64)
    return np.asarray(log_gamma(np.asarray(n + 1.0)) - log_gamma(k + 1.0) - log_gamma(n - k + 1.0))
