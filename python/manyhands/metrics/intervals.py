"""Widths of intervals: Student's t, and intervals around biased estimates."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from manyhands import _core
from manyhands.metrics._checks import Floats

#: Offsets, in standard errors, between which half-widths are interpolated.
_OFFSETS = 6.0


@lru_cache(maxsize=4096)
def student_quantile(level: float, freedom: float | None) -> float:
    """Half-width of a two-sided interval in standard errors; normal if `freedom` is None."""
    if freedom is None:
        from statistics import NormalDist  # slow to import

        return NormalDist().inv_cdf(0.5 + level / 2)
    freedom = max(freedom, 1.0)
    below = float(_core.beta_quantile(np.array([freedom / 2]), np.array([0.5]), 1.0 - level)[0])
    return float(np.sqrt(freedom * (1.0 - below) / below))


def offset_errors(offset: Floats, errors: Floats, level: float) -> Floats:
    """Standard errors that make intervals around biased estimates cover, for normal truths that are `offset` away.

    Intervals of their size at `level` around the estimates contain the truth with that probability. Without an offset
    they are `errors`; with a large one they grow with it.
    """
    away = np.abs(offset)
    places, halves = _half_widths(level)
    steps = np.divide(away, errors, out=np.zeros_like(away), where=errors > 0)
    # At large offsets, only the nearer end matters.
    half = errors * (np.interp(steps, places, halves) + np.maximum(steps - _OFFSETS, 0.0))
    scaled: Floats = np.where(errors > 0, half, away) / halves[0]
    return scaled


@cache
def _half_widths(level: float) -> tuple[Floats, Floats]:
    """Half-widths of intervals around points that are some standard errors off, by offset."""
    from statistics import NormalDist

    chance, places, halves = NormalDist().cdf, np.linspace(0.0, _OFFSETS, 61), []
    for place in places.tolist():
        low, high = place, place + 10.0
        for _ in range(60):
            half = (low + high) / 2
            low, high = (low, half) if chance(half - place) - chance(-half - place) > level else (half, high)
        halves.append(high)
    return places, np.array(halves)
