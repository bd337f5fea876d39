"""Pixels that take after their neighbours, where workers do not settle it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.estimator import Array

#: Steps of the mean field; a pixel then knows of those so many pixels away.
_STEPS = 10


def smoothed(chances: Array, disputed: npt.NDArray[np.bool_], strength: float) -> Array:
    """Chances of classes, (classes, *shape), after steps of the mean field of a Potts model on the grid of pixels.

    A neighbour of the same class raises the log-odds of that class by `strength`; only disputed pixels
    change. Beyond the edge of the image is background.
    """
    evidence = np.log(np.maximum(chances, 1e-12))
    found = chances.copy()
    for _ in range(_STEPS):
        around = np.zeros_like(found)
        for axis in range(1, found.ndim):
            ahead: list[Any] = [slice(None)] * found.ndim
            behind: list[Any] = [slice(None)] * found.ndim
            ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
            around[tuple(behind)] += found[tuple(ahead)]
            around[tuple(ahead)] += found[tuple(behind)]
            for edge in (0, -1):
                ahead[axis] = edge
                around[0][tuple(ahead[1:])] += 1.0
        scores = evidence + strength * around
        odds = np.exp(scores - scores.max(axis=0))
        found = np.where(disputed, odds / odds.sum(axis=0), chances)
    return found
