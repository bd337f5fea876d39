"""Which items people should label next: sampling with known probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NextLabels:
    """Items to label next.

    Attributes
    ----------
    frame
        Arrow table with ``task``, ``system`` if there are several, the judges' ``consensus``, and ``probability``.
    half_width
        Half-width of the score's interval now; NaN without human labels.
    half_width_after
        What it is expected to be with these labels.
    n_gold
        Human labels so far.
    """

    frame: Any
    half_width: float
    half_width_after: float
    n_gold: int

    def __len__(self) -> int:
        return int(self.frame.num_rows)

    def __repr__(self) -> str:
        if math.isnan(self.half_width):
            return f"<{len(self):,} items to label>"
        return (
            f"<{len(self):,} items to label: the interval would narrow from ±{self.half_width:.3f} to about "
            f"±{self.half_width_after:.3f}>"
        )


def inclusion(chance: Array, n: int) -> Array:
    """Sampling probabilities that sum to n, none above 1, in proportion to `chance`."""
    out = n * chance / chance.sum()
    for _ in range(50):
        sure = out >= 1
        if not (out > 1).any():
            break
        out = np.where(sure, 1.0, chance)
        rest = n - sure.sum()
        out[~sure] *= rest / out[~sure].sum()
    return np.asarray(np.minimum(out, 1.0))


def systematic(chance: Array, generator: np.random.Generator) -> Ints:
    """Draw rows with these inclusion probabilities exactly: systematic sampling in a random order."""
    order = generator.permutation(len(chance))
    edges = np.cumsum(chance[order])
    n = round(float(edges[-1]))
    points = generator.random() + np.arange(n)
    return np.asarray(order[np.minimum(np.searchsorted(edges, points, side="right"), len(order) - 1)], np.int64)
