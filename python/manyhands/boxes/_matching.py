"""Matching of boxes of several workers to candidate objects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands.boxes.table import Boxes

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]
#: Maximum distance between points of one object, as a multiple of the typical distance to another worker's nearest.
_REACH = 3.0


@dataclass(frozen=True)
class Candidates:
    """Candidate objects: groups of boxes with at most one box per worker. Boxes are sorted by object."""

    #: Per box: object, worker, coordinates and label.
    object: Ints
    worker: Ints
    boxes: Array
    label: Ints
    #: Per object: task, number of workers who drew it, and number of workers who annotated its task.
    task: Ints
    n_workers: Ints
    n_looked: Ints
    #: Distinct (task, worker) pairs, sorted by task.
    looked_task: Ints
    looked_worker: Ints
    n_tasks: int
    #: Matching radius of points; 0 for boxes.
    radius: float

    def sums(self, values: Array) -> Array:
        """Sum values (numbers or rows) over the boxes of each object."""
        totals = np.zeros((len(self.task), *values.shape[1:]))
        np.add.at(totals, self.object, values)
        return totals

    def means(self) -> Array:
        """Mean coordinates of each object."""
        means: Array = self.sums(self.boxes) / self.n_workers[:, None]
        return means

    def sizes(self, boxes: Array) -> Array:
        """Return width and height of each object, repeated for both corners; the radius for points."""
        if boxes.shape[1] == 2:
            return np.full(boxes.shape, self.radius if self.radius > 0 else 1.0)
        return np.tile(boxes[:, 2:] - boxes[:, :2], 2)


def match_boxes_of(votes: Boxes, overlap: float, radius: float | None) -> Candidates:
    """Group the boxes of each task: O(p log p) time and O(p) memory for p overlapping pairs."""
    tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
    is_box, boxes = votes.seen, votes.boxes
    pairs = np.unique(np.stack([tasks, workers], axis=1), axis=0)
    # Sorted by position, so that ties do not depend on worker ids.
    rows = np.flatnonzero(is_box)
    rows = rows[np.lexsort((workers[rows], labels[rows], *boxes[rows].T[::-1], tasks[rows]))]
    tasks, workers, labels, boxes = tasks[rows], workers[rows], labels[rows], np.ascontiguousarray(boxes[rows])
    offsets = np.searchsorted(tasks, np.arange(votes.n_tasks + 1)).astype(np.uint32)
    codes, reach = workers.astype(np.uint32), 0.0
    if votes.n_dims == 2:
        reach = _typical_radius(offsets, codes, boxes) if radius is None else float(radius)
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


def _typical_radius(offsets: Codes, workers: Codes, points: Array) -> float:
    """Matching radius of points, from distances between workers; at most half the distance of a worker's own points."""
    others, own = _core.nearest_points(offsets, workers, points)
    nearest = others[np.isfinite(others)]
    if not len(nearest):
        return 0.0
    reach = _REACH * float(np.median(nearest))
    own_distances = own[np.isfinite(own) & (own > 0)]
    return min(reach, float(np.median(own_distances)) / 2) if len(own_distances) else reach
