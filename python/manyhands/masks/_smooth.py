"""Pixels that take after their neighbours, where workers do not settle it: disputed pixels as linked tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands.categorical._linked import Graph, likeliest_strength
from manyhands.masks.base import Ints, MaskFit, packed_runs
from manyhands.masks.runs import MOST_CLASSES, Runs, filled, runs_of
from manyhands.masks.table import Masks


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


def smoothed(votes: Masks, fit: MaskFit, chances: Array, classes: Ints, strength: float | None) -> MaskFit:
    """A result whose disputed pixels take after their neighbours, by the chances of classes in each column of pixels.

    None learns the strength. Images are laid out one at a time.
    """
    folded = _core.mask_columns(packed_runs(votes))
    disputed = np.flatnonzero(fit.disputed > 0).tolist()

    def grids() -> Iterator[Grid]:
        return (_grid(votes, folded, chances, task) for task in disputed)

    if strength is None:
        strength = learnt_strength(grids())
    if not strength:
        return fit
    runs, confidence = [fit.runs.one(task) for task in range(votes.n_tasks)], fit.confidence.copy()
    for task, grid in zip(disputed, grids(), strict=True):
        found = grid.smoothed(float(strength))
        pixels = filled(runs[task], tuple(votes.shapes[task].tolist()), MOST_CLASSES)
        pixels[grid.disputed] = classes[found.argmax(axis=1)]
        runs[task] = runs_of(pixels, "a mask")
        confidence[task] = min(float(found.max(axis=1).mean()), 1.0)
    return replace(fit, runs=Runs.joined(runs), confidence=confidence)


def _grid(votes: Masks, folded: _core._Columns, chances: Array, task: int) -> Grid:
    """The disputed pixels of an image, side by side."""
    stretches = slice(*folded["stretch_starts"][task : task + 2])
    columns = slice(*folded["column_starts"][task : task + 2])
    shape = votes.shapes[task].tolist()
    at = np.repeat(folded["columns"][stretches], np.diff(folded["ends"][stretches], prepend=0)).reshape(shape)
    # Only classes that somebody gave a pixel have a chance.
    each = chances[columns]
    return Grid.of(each[at], ((each > 0).sum(axis=1) > 1)[at])


def learnt_strength(grids: Iterable[Grid]) -> float:
    """How strongly neighbours take after one another in all images together; never that they differ."""
    pairs = [(grid.near(), grid.chances) for grid in grids]
    if not pairs:
        return 0.0
    near, chances = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    return max(likeliest_strength(near, chances, 0.0, lambda _: 0.0), 0.0)
