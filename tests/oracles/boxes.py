"""Plain twins of what tells which boxes are of one object: all pairs, all groups, one after the other."""

from __future__ import annotations

import numpy as np


def iou(boxes: np.ndarray) -> np.ndarray:
    """Intersection over union of each box with each."""
    low, high = np.maximum(boxes[:, None, :2], boxes[None, :, :2]), np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    both = np.maximum(high - low, 0).prod(axis=2)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return both / (area[:, None] + area[None] - both)


def nearness(points: np.ndarray, radius: float) -> np.ndarray:
    """1 for points at one place, a half at the radius."""
    far = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    return np.where(far == 0, 1.0, 0.0) if radius == 0 else 1 / (1 + far / radius)


def match(alike: np.ndarray, workers: np.ndarray, least: float) -> list[int]:
    """Group of each box, numbered by their first: the two most alike on average become one while none shares a worker.

    Boxes that no chain of pairs above `least` connects stay apart.
    """
    chained = alike >= least
    for _ in range(len(workers)):
        chained = chained | (chained.astype(int) @ chained.astype(int) > 0)
    groups = [[box] for box in range(len(workers))]
    while True:
        best = (-np.inf, 0, 0)
        for i, one in enumerate(groups):
            for j, other in enumerate(groups[:i]):
                if {workers[b] for b in one} & {workers[b] for b in other} or not chained[one[0], other[0]]:
                    continue
                mean = alike[np.ix_(one, other)].mean()
                if mean >= least - 1e-12 and mean > best[0] + 1e-9:
                    best = (mean, j, i)
        if best[0] == -np.inf:
            break
        groups[best[1]] += groups.pop(best[2])
    found = np.zeros(len(workers), int)
    for number, group in enumerate(sorted(groups, key=min)):
        found[group] = number
    return found.tolist()


def nearest(points: np.ndarray, workers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances to the nearest point of another worker, and to the nearest other one of the same."""
    far = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    same = workers[:, None] == workers[None]
    own = np.where(same & ~np.eye(len(workers), dtype=bool), far, np.inf)
    return np.where(same, np.inf, far).min(axis=1), own.min(axis=1)
