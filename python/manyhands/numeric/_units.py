"""Ratings in units in which sums of squares neither overflow nor cancel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyhands import _core
from manyhands._base.estimator import Array

#: Numbers nearer to each other than this cannot be told apart by their squares.
_LEAST = 1e-150


class Units(NamedTuple):
    """Of each number of an answer: x is read as x·unit − centre, which has mean 0 and variance 1."""

    unit: Array
    centre: Array

    @classmethod
    def of(cls, table: _core.Ratings) -> Units:
        """Those of a table: ratings that are all the same have unit 1."""
        values, weights = table.columns()[2], table.weights()
        weights = np.ones(len(values)) if weights is None or not weights.any() else weights / weights.max()
        low, high = values.min(axis=0), values.max(axis=0)
        half = np.maximum(high / 2 - low / 2, 0.0)
        half = np.where(half > _LEAST, half, 1.0)
        # In halves of the range first: squares of the numbers themselves may be too large.
        small = values / half - (low / 2 + high / 2) / half
        mean = np.average(small, axis=0, weights=weights)
        deviation = np.sqrt(np.average((small - mean) ** 2, axis=0, weights=weights))
        deviation = np.where(deviation > 0, deviation, 1.0)
        unit = 1.0 / half / deviation
        return cls(unit, ((low / 2 + high / 2) / half + mean) / deviation)

    def view(self, dim: int) -> tuple[int, float, float]:
        """What a kernel is told."""
        return dim, float(self.unit[dim]), float(self.centre[dim])

    def back(self, values: Array) -> Array:
        """Values of the last axis' numbers as they came in."""
        return _finite((values + self.centre) / self.unit)

    def sizes(self, differences: Array) -> Array:
        """Differences and standard deviations as they came in."""
        return _finite(differences / self.unit)


def _finite(array: Array) -> Array:
    """What leaves the range of a double ends there."""
    most = np.finfo(np.float64).max
    return np.clip(array, -most, most)
