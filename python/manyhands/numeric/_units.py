"""Standardization of ratings, so that sums of squares neither overflow nor cancel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from manyhands import _core
from manyhands._base.estimator import Array

#: Smallest range of ratings whose squares can be distinguished.
_LEAST = 1e-150


class Units(NamedTuple):
    """Standardization per dimension: x·unit − center has mean 0 and variance 1."""

    unit: Array
    centre: Array

    @classmethod
    def of(cls, table: _core.Ratings) -> Units:
        """Units of a table; constant ratings have unit 1."""
        values, weights = table.columns()[2], table.weights()
        weights = np.ones(len(values)) if weights is None or not weights.any() else weights / weights.max()
        low, high = values.min(axis=0), values.max(axis=0)
        half = np.maximum(high / 2 - low / 2, 0.0)
        half = np.where(half > _LEAST, half, 1.0)
        # First scale by half the range: squares of the raw numbers may overflow.
        small = values / half - (low / 2 + high / 2) / half
        mean = np.average(small, axis=0, weights=weights)
        deviation = np.sqrt(np.average((small - mean) ** 2, axis=0, weights=weights))
        deviation = np.where(deviation > 0, deviation, 1.0)
        unit = 1.0 / half / deviation
        return cls(unit, ((low / 2 + high / 2) / half + mean) / deviation)

    def view(self, dim: int) -> tuple[int, float, float]:
        """Arguments of a kernel for one dimension."""
        return dim, float(self.unit[dim]), float(self.centre[dim])

    def back(self, values: Array) -> Array:
        """Transform standardized values back to original units."""
        return _finite((values + self.centre) / self.unit)

    def sizes(self, differences: Array) -> Array:
        """Transform standardized differences and standard deviations back to original units."""
        return _finite(differences / self.unit)


def _finite(array: Array) -> Array:
    """Clip to the range of finite doubles."""
    most = np.finfo(np.float64).max
    return np.clip(array, -most, most)
