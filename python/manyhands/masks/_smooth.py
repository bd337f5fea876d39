"""Pixels that take after their neighbours, where workers do not settle it: disputed pixels as linked tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.aggregators.links import Graph, likeliest_strength
from manyhands.estimator import Array


@dataclass(frozen=True)
class Grid:
    """The disputed pixels of an image, their neighbours among themselves, and those that are settled."""

    disputed: npt.NDArray[np.bool_]
    graph: Graph
    #: Settled neighbours of each disputed pixel, by class, (pixels, classes); beyond the image is background.
    settled: Array
    chances: Array

    @classmethod
    def of(cls, chances: Array, disputed: npt.NDArray[np.bool_]) -> Grid:
        """Lay out chances of classes, (*shape, classes), in an image."""
        n, k = int(disputed.sum()), chances.shape[-1]
        place = np.full(disputed.shape, -1)
        place[disputed] = np.arange(n)
        classes = np.pad(chances.argmax(axis=-1), 1)
        place = np.pad(place, 1, constant_values=-1)
        settled, first, second = np.zeros((n, k)), [], []
        for axis in range(place.ndim):
            behind: list[Any] = [slice(None)] * place.ndim
            ahead: list[Any] = [slice(None)] * place.ndim
            behind[axis], ahead[axis] = slice(None, -1), slice(1, None)
            a, b = place[tuple(behind)], place[tuple(ahead)]
            both = (a >= 0) & (b >= 0)
            first.append(a[both])
            second.append(b[both])
            for one, other, to in ((a, b, classes[tuple(ahead)]), (b, a, classes[tuple(behind)])):
                edge = (one >= 0) & (other < 0)
                np.add.at(settled, (one[edge], to[edge]), 1.0)
        return cls(disputed, Graph.of(np.concatenate(first), np.concatenate(second), n), settled, chances[disputed])

    def near(self) -> Array:
        """Expected neighbours of each class of the disputed pixels."""
        near: Array = self.graph.sums(self.chances) + self.settled
        return near

    def smoothed(self, strength: float) -> Array:
        """Chances of classes of the disputed pixels under links of a strength."""
        return self.graph.beliefs(np.log(np.maximum(self.chances, 1e-12)) + strength * self.settled, strength)


def learnt_strength(grids: Iterable[Grid]) -> float:
    """How strongly neighbours take after one another in all images together; never that they differ."""
    pairs = [(grid.near(), grid.chances) for grid in grids]
    if not pairs:
        return 0.0
    near, chances = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    return max(likeliest_strength(near, chances, 0.0, lambda _: 0.0), 0.0)
