"""Which boxes of several workers are of one object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands.estimator import Array
from manyhands.metrics import box_iou
from manyhands.table.boxes import Boxes

Ints = npt.NDArray[np.int64]
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
    """Group the boxes of each task: O(b²) time and memory for the b boxes of one, and b³ of those that touch."""
    tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
    seen, boxes = votes.seen, votes.boxes
    pairs = np.unique(np.stack([tasks, workers], axis=1), axis=0)
    # By place, and not by worker: names must not decide between equals.
    rows = np.flatnonzero(seen)
    rows = rows[np.lexsort((workers[rows], labels[rows], *boxes[rows].T[::-1], tasks[rows]))]
    tasks, workers, labels, boxes = tasks[rows], workers[rows], labels[rows], boxes[rows]
    starts = np.searchsorted(tasks, np.arange(votes.n_tasks + 1))
    spans = [slice(a, b) for a, b in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)]
    reach = 0.0
    if votes.n_dims == 2:
        reach = _usual_reach([(boxes[span], workers[span]) for span in spans]) if radius is None else float(radius)
    groups, n = np.zeros(len(rows), np.int64), 0
    for span in spans:
        if span.stop > span.start:
            alike = box_iou(boxes[span], boxes[span]) if votes.n_dims == 4 else _nearness(boxes[span], reach)
            found = _grouped(alike, workers[span], overlap if votes.n_dims == 4 else 0.5)
            groups[span] = found + n
            n += int(found.max()) + 1
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


def _grouped(alike: Array, workers: Ints, least: float) -> Ints:
    """Group number of each box: the two groups that are most alike on average become one, while none shares a worker.

    Groups are numbered by their first boxes.
    """
    group = np.arange(len(workers))
    # Boxes that not even a chain connects need not be compared again and again.
    near, parts = alike >= least, group
    while True:
        joined = np.where(near, parts[None, :], len(workers)).min(axis=1)
        if np.array_equal(joined, parts):
            break
        parts = joined
    for part in np.unique(parts):
        members = np.flatnonzero(parts == part)
        if len(members) > 1:
            group[members] = members[_linked(alike[np.ix_(members, members)], workers[members], least)]
    return np.unique(group, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _linked(alike: Array, workers: Ints, least: float) -> Ints:
    """For each box the first of its group, by average linkage among boxes that are near one another."""
    group, size = np.arange(len(workers)), np.ones(len(workers))
    alike = np.where(workers[:, None] == workers[None, :], -np.inf, alike)
    while True:
        i, j = sorted(int(at) for at in np.unravel_index(int(alike.argmax()), alike.shape))
        # Rounding must not part what is exactly at the limit.
        if not alike[i, j] >= least - 1e-12:
            return group
        mean = (size[i] * alike[i] + size[j] * alike[j]) / (size[i] + size[j])
        alike[i], alike[:, i] = mean, mean
        alike[j], alike[:, j], alike[i, i] = -np.inf, -np.inf, -np.inf
        size[i] += size[j]
        group[group == j] = i


def _distances(points: Array) -> Array:
    apart = points[:, None] - points[None]
    found: Array = np.hypot(apart[..., 0], apart[..., 1])
    return found


def _nearness(points: Array, radius: float) -> Array:
    """1 for points at one place, a half at the radius, nearly 0 far away."""
    far = _distances(points)
    if radius == 0:
        return np.where(far == 0, 1.0, 0.0)
    near: Array = 1 / (1 + far / radius)
    return near


def _usual_reach(points: list[tuple[Array, Ints]]) -> float:
    """How near points of one object are: by how far others' nearest usually are, and at most half-way to one's own."""
    others, own = [], []
    for places, workers in points:
        if len(places) < 2:
            continue
        far, same = _distances(places), workers[:, None] == workers[None, :]
        others.append(np.where(same, np.inf, far).min(axis=1))
        np.fill_diagonal(same, False)
        own.append(np.where(same, far, np.inf).min(axis=1))
    nearest = np.concatenate(others) if others else np.zeros(0)
    nearest = nearest[np.isfinite(nearest)]
    if not len(nearest):
        return 0.0
    reach = _REACH * float(np.median(nearest))
    apart = np.concatenate(own)
    apart = apart[np.isfinite(apart) & (apart > 0)]
    return min(reach, float(np.median(apart)) / 2) if len(apart) else reach
