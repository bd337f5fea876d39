"""Widths of intervals: Student's t, and intervals about an estimate that is known to be off."""

from __future__ import annotations

from functools import cache

import numpy as np

from manyhands import _core
from manyhands.metrics._checks import Floats

#: Offsets, in standard errors, between which half-widths are interpolated.
_OFFSETS = 6.0


def student_quantile(level: float, freedom: float | None) -> float:
    """Standard errors to either side that a two-sided interval reaches; normal where degrees of freedom are None."""
    if freedom is None:
        from statistics import NormalDist  # slow to import, and seldom needed

        return NormalDist().inv_cdf(0.5 + level / 2)
    freedom = max(freedom, 1.0)
    below = float(_core.beta_quantile(np.array([freedom / 2]), np.array([0.5]), 1.0 - level)[0])
    return float(np.sqrt(freedom * (1.0 - below) / below))


def offset_errors(offset: Floats, errors: Floats, level: float) -> Floats:
    """Standard errors of estimates that are off by `offset` from the centers of normal distributions of the truth.

    Intervals of their size at `level` about the estimates hold the truth with that probability: with no offset they are
    `errors`, with a large one they grow with it.
    """
    away = np.abs(offset)
    places, halves = _half_widths(level)
    steps = np.divide(away, errors, out=np.zeros_like(away), where=errors > 0)
    # Far away, only the nearer end matters.
    half = errors * (np.interp(steps, places, halves) + np.maximum(steps - _OFFSETS, 0.0))
    found: Floats = np.where(errors > 0, half, away) / halves[0]
    return found


@cache
def _half_widths(level: float) -> tuple[Floats, Floats]:
    """How wide an interval must be, either way, about a point this many standard errors off."""
    from statistics import NormalDist

    chance, places, halves = NormalDist().cdf, np.linspace(0.0, _OFFSETS, 61), []
    for place in places.tolist():
        low, high = place, place + 10.0
        for _ in range(60):
            half = (low + high) / 2
            low, high = (low, half) if chance(half - place) - chance(-half - place) > level else (half, high)
        halves.append(high)
    return places, np.array(halves)
