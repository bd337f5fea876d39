"""Which boxes of several workers are of one object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands.boxes.table import Boxes

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]
#: How far apart points of one object may be: this many times the usual distance to another worker's nearest.
_REACH = 3.0


@dataclass(frozen=True)
class Candidates:
    """Objects that there may be: groups of boxes, at most one of a worker in each. Boxes are sorted by object."""

    #: Of each box: its object, who drew it, its numbers and its label.
    object: Ints
    worker: Ints
    boxes: Array
    label: Ints
    #: Of each object: its task, how many drew it, and how many looked at its task.
    task: Ints
    n_workers: Ints
    n_looked: Ints
    #: Who looked at which task, each once, by task.
    looked_task: Ints
    looked_worker: Ints
    n_tasks: int
    #: How near points must be; 0 for boxes.
    radius: float

    def sums(self, values: Array) -> Array:
        """Sums over the boxes of each object, of numbers or of rows of them."""
        found = np.zeros((len(self.task), *values.shape[1:]))
        np.add.at(found, self.object, values)
        return found

    def means(self) -> Array:
        """Mean corners of each object."""
        means: Array = self.sums(self.boxes) / self.n_workers[:, None]
        return means

    def sizes(self, boxes: Array) -> Array:
        """Width and height of each object, once for each of its corners; the radius for points."""
        if boxes.shape[1] == 2:
            return np.full(boxes.shape, self.radius if self.radius > 0 else 1.0)
        return np.tile(boxes[:, 2:] - boxes[:, :2], 2)


def matched(votes: Boxes, overlap: float, radius: float | None) -> Candidates:
    """Group the boxes of each task: O(p log p) time and O(p) memory for the p pairs of one that overlap."""
    tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
    seen, boxes = votes.seen, votes.boxes
    pairs = np.unique(np.stack([tasks, workers], axis=1), axis=0)
    # By place, and not by worker: names must not decide between equals.
    rows = np.flatnonzero(seen)
    rows = rows[np.lexsort((workers[rows], labels[rows], *boxes[rows].T[::-1], tasks[rows]))]
    tasks, workers, labels, boxes = tasks[rows], workers[rows], labels[rows], np.ascontiguousarray(boxes[rows])
    offsets = np.searchsorted(tasks, np.arange(votes.n_tasks + 1)).astype(np.uint32)
    codes, reach = workers.astype(np.uint32), 0.0
    if votes.n_dims == 2:
        reach = _usual_reach(offsets, codes, boxes) if radius is None else float(radius)
    groups = _core.match_boxes(offsets, codes, boxes, least=overlap, radius=reach).astype(np.int64)
    n = int(groups.max(initial=-1)) + 1
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], np.arange(n))
    task = tasks[order][first]
    return Candidates(
        object=groups[order],
        worker=workers[order],
        boxes=boxes[order],
        label=labels[order],
        task=task,
        n_workers=np.bincount(groups, minlength=n),
        n_looked=np.bincount(pairs[:, 0], minlength=votes.n_tasks)[task],
        looked_task=pairs[:, 0],
        looked_worker=pairs[:, 1],
        n_tasks=votes.n_tasks,
        radius=reach,
    )


def _usual_reach(offsets: Codes, workers: Codes, points: Array) -> float:
    """How near points of one object are: by how far others' nearest usually are, and at most half-way to one's own."""
    others, own = _core.nearest_points(offsets, workers, points)
    nearest = others[np.isfinite(others)]
    if not len(nearest):
        return 0.0
    reach = _REACH * float(np.median(nearest))
    apart = own[np.isfinite(own) & (own > 0)]
    return min(reach, float(np.median(apart)) / 2) if len(apart) else reach
