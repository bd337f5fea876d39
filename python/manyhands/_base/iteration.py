"""Iterations in Python: when to stop, and EM with extrapolation. Those over annotations are compiled."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from manyhands._base.estimator import Array
from manyhands._base.progress import Callback

#: How many EM steps an extrapolation may stand for, at most.
_FARTHEST = 16.0


def iterate(
    step: Callable[[int], float | tuple[float, float]], max_iter: int, tol: float, progress: Callback | None
) -> tuple[int, bool]:
    """Repeat a step until it changes less than `tol`; return the number of steps and whether they converged.

    `step` takes its number, from 1 on, and returns the change, or the change and the objective to report.
    """
    for number in range(1, max_iter + 1):
        outcome = step(number)
        change, objective = outcome if isinstance(outcome, tuple) else (outcome, math.nan)
        if progress is not None:
            progress(number, objective)
        if change < tol:
            return number, True
    return max_iter, False


def largest_change(before: Array, after: Array) -> float:
    """Return the largest absolute difference."""
    return float(np.abs(after - before).max())


def accelerated_em(
    step: Callable[[Array], tuple[Array, float, Array]],
    parameters: Array,
    posterior: Array,
    *,
    max_iter: int,
    tol: float,
    progress: Callback | None,
) -> tuple[Array, list[float], bool]:
    """Run EM with extrapolation; return the posterior, the objective of each kept step and whether it converged.

    `step` takes unbounded parameters and returns the posterior, the objective and the next parameters. An
    extrapolation that lowers the objective is undone, so that the objective never falls.
    """
    history: list[float] = []
    fallback, trail = parameters, list[Array]()

    def one(_: int) -> tuple[float, float]:
        nonlocal parameters, posterior, fallback, trail
        now, objective, after = step(parameters)
        if history and objective < history[-1]:
            parameters, trail = fallback, []
            return math.inf, objective
        history.append(objective)
        change, posterior = largest_change(posterior, now), now
        trail.append(parameters)
        parameters = fallback = after
        if len(trail) == 2:
            parameters, trail = _extrapolate(trail[0], trail[1], after), []
        return change, objective

    _, converged = iterate(one, max_iter, tol, progress)
    return posterior, history, converged


def _extrapolate(first: Array, second: Array, third: Array) -> Array:
    """Where three EM states in a row lead (SQUAREM, Varadhan and Roland 2008)."""
    step, curvature = second - first, third - 2.0 * second + first
    length = math.sqrt(float(step @ step) / max(float(curvature @ curvature), 1e-300))
    length = min(max(length, 1.0), _FARTHEST)
    return np.asarray(first + 2.0 * length * step + length * length * curvature)
