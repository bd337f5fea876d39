"""Potts smoothing of disputed pixels: neighboring pixels tend to have the same class."""

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
from manyhands.masks.runs import MOST_CLASSES, Runs, runs_of, to_array
from manyhands.masks.table import Masks


@dataclass(frozen=True)
class Grid:
    """Disputed pixels of an image, links between them, and their undisputed neighbors."""

    disputed: npt.NDArray[np.bool_]
    graph: Graph
    #: Undisputed neighbors of each disputed pixel, by class, (pixels, classes); outside the image is background.
    undisputed: Array
    chances: Array

    @classmethod
    def of(cls, chances: Array, disputed: npt.NDArray[np.bool_]) -> Grid:
        """Build from class probabilities, (*shape, classes), of an image."""
        n, k = int(disputed.sum()), chances.shape[-1]
        place = np.full(disputed.shape, -1)
        place[disputed] = np.arange(n)
        classes = np.pad(chances.argmax(axis=-1), 1)
        place = np.pad(place, 1, constant_values=-1)
        undisputed, first, second = np.zeros((n, k)), [], []
        for axis in range(place.ndim):
            behind: list[Any] = [slice(None)] * place.ndim
            ahead: list[Any] = [slice(None)] * place.ndim
            behind[axis], ahead[axis] = slice(None, -1), slice(1, None)
            a, b = place[tuple(behind)], place[tuple(ahead)]
            linked = (a >= 0) & (b >= 0)
            first.append(a[linked])
            second.append(b[linked])
            for one, other, to in ((a, b, classes[tuple(ahead)]), (b, a, classes[tuple(behind)])):
                edge = (one >= 0) & (other < 0)
                np.add.at(undisputed, (one[edge], to[edge]), 1.0)
        return cls(disputed, Graph.of(np.concatenate(first), np.concatenate(second), n), undisputed, chances[disputed])

    def near(self) -> Array:
        """Expected number of neighbors of each class, per disputed pixel."""
        near: Array = self.graph.sums(self.chances) + self.undisputed
        return near

    def smooth_disputed(self, strength: float) -> Array:
        """Class probabilities of the disputed pixels for a given coupling."""
        return self.graph.beliefs(np.log(np.maximum(self.chances, 1e-12)) + strength * self.undisputed, strength)


def smooth_disputed(votes: Masks, fit: MaskFit, chances: Array, classes: Ints, strength: float | None) -> MaskFit:
    """Smooth the disputed pixels of a result, given class probabilities per pixel column.

    If `strength` is None, the coupling is estimated. Images are processed one at a time.
    """
    columns = _core.mask_columns(packed_runs(votes))
    disputed = np.flatnonzero(fit.disputed > 0).tolist()

    def grids() -> Iterator[Grid]:
        return (_grid(votes, columns, chances, task) for task in disputed)

    if strength is None:
        strength = estimate_coupling(grids())
    if not strength:
        return fit
    runs, confidence = [fit.runs.one(task) for task in range(votes.n_tasks)], fit.confidence.copy()
    for task, grid in zip(disputed, grids(), strict=True):
        probabilities = grid.smooth_disputed(float(strength))
        pixels = to_array(runs[task], tuple(votes.shapes[task].tolist()), MOST_CLASSES)
        pixels[grid.disputed] = classes[probabilities.argmax(axis=1)]
        runs[task] = runs_of(pixels, "a mask")
        confidence[task] = min(float(probabilities.max(axis=1).mean()), 1.0)
    return replace(fit, runs=Runs.joined(runs), confidence=confidence)


def _grid(votes: Masks, columns_of_pixels: _core._Columns, chances: Array, task: int) -> Grid:
    """Return the disputed pixels of one image."""
    stretches = slice(*columns_of_pixels["stretch_starts"][task : task + 2])
    columns = slice(*columns_of_pixels["column_starts"][task : task + 2])
    shape = votes.shapes[task].tolist()
    at = np.repeat(
        columns_of_pixels["columns"][stretches], np.diff(columns_of_pixels["ends"][stretches], prepend=0)
    ).reshape(shape)
    # Only classes that a worker gave to a pixel have positive probability.
    each = chances[columns]
    return Grid.of(each[at], ((each > 0).sum(axis=1) > 1)[at])


def estimate_coupling(grids: Iterable[Grid]) -> float:
    """Estimate the coupling of neighboring pixels from all images; never negative."""
    pairs = [(grid.near(), grid.chances) for grid in grids]
    if not pairs:
        return 0.0
    near, chances = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    return max(likeliest_strength(near, chances, 0.0, lambda _: 0.0), 0.0)
