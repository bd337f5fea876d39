"""Simulation of bounding boxes with known objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands.boxes.table import Boxes

__all__ = ["BoxesSimulation", "simulate"]

Floats = npt.NDArray[np.float64]
#: Per type of worker: recall, false positives per image, corner error relative to object size, probability of the
#: correct label.
_KINDS = {
    "good": (0.92, 0.1, 0.03, 0.95),
    "hasty": (0.6, 0.1, 0.08, 0.85),
    "careless": (0.75, 1.5, 0.15, 0.5),
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BoxesSimulation(Simulation):
    """Simulated boxes and their true parameters.

    Attributes
    ----------
    log : Boxes
        The answers of the simulated workers.
    truth : list of ndarray of shape (n_objects, 4)
        True objects of each task, aligned with ``log.tasks``.
    labels : list of ndarray of shape (n_objects,)
        True labels: ``"a"``, ``"b"``, ….
    kinds : ndarray of shape (n_workers,)
        ``"good"``, ``"hasty"`` or ``"careless"``, aligned with ``log.workers``.
    seed : int
        Random seed.
    """

    log: Boxes
    truth: list[Floats]
    labels: list[npt.NDArray[np.str_]]
    kinds: npt.NDArray[np.str_]

    def _truth(self) -> dict[str, Any]:
        # A task without an object has a row, too.
        corners = [one if len(one) else np.full((1, 4), np.nan) for one in self.truth]
        labels = [name for one in self.labels for name in (one.tolist() or [None])]
        tasks = np.repeat(self.log.tasks, [len(one) for one in corners])
        columns = np.concatenate(corners).T
        there = {name: _absent(column) for name, column in zip(("x1", "y1", "x2", "y2"), columns, strict=True)}
        return {"task": tasks, **there, "label": labels}


def simulate(
    n_tasks: int = 50,
    *,
    objects: float = 3.0,
    n_classes: int = 3,
    good: int = 3,
    hasty: int = 1,
    careless: int = 1,
    seed: int = 0,
) -> BoxesSimulation:
    """Simulate images with objects, annotated by all workers.

    Parameters
    ----------
    n_tasks : int, default 50
        Number of images of size 100 × 100, with ids 0, 1, ….
    objects : float, default 3.0
        Mean number of objects per image (possibly none, with little overlap).
    n_classes : int, default 3
        Number of object classes, up to 26.
    good, hasty, careless : int, default 3, 1 and 1
        Number of workers who draw nearly all objects, who miss many, and who draw false positives with inaccurate
        corners and labels.
    seed : int, default 0
        Random seed.

    Returns
    -------
    BoxesSimulation
        The boxes, true objects and types of workers.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(5, kind="boxes", seed=1).log.n_workers
    5
    """
    counts = {"good": good, "hasty": hasty, "careless": careless}
    check_number("n_tasks", n_tasks, least=1, whole=True)
    check_number("objects", objects, least=0, most=20)
    check_number("n_classes", n_classes, least=1, most=26, whole=True)
    for name, value in {**counts, "seed": seed}.items():
        check_number(name, value, least=0, whole=True)
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    if not kinds:
        raise ValueError("there are no workers: increase good, hasty or careless")
    rng, names = np.random.default_rng(seed), np.array(list("abcdefghijklmnopqrstuvwxyz"[:n_classes]))
    truth, labels, tasks, workers, all_boxes = [], [], [], [], []
    all_labels: list[str | None] = []
    for task in range(n_tasks):
        true_boxes = _objects(rng, int(rng.poisson(objects)))
        true_codes = rng.integers(n_classes, size=len(true_boxes))
        truth.append(true_boxes)
        labels.append(names[true_codes])
        for worker, kind in enumerate(kinds):
            worker_boxes, worker_codes = _draw_boxes(rng, true_boxes, true_codes, n_classes, kind)
            n = max(len(worker_boxes), 1)
            tasks += [task] * n
            workers += [worker] * n
            all_boxes.append(worker_boxes if len(worker_boxes) else np.full((1, 4), np.nan))
            all_labels += [str(name) for name in names[worker_codes]] if len(worker_boxes) else [None]
    boxes = Boxes.from_arrays(tasks, workers, np.concatenate(all_boxes), all_labels)
    return BoxesSimulation(log=boxes, truth=truth, labels=labels, kinds=np.array(kinds), seed=seed)


def _objects(rng: np.random.Generator, n: int) -> Floats:
    """Draw boxes of objects with separated centers."""
    boxes: list[Floats] = []
    for _ in range(20 * n):
        size, centre = rng.uniform(8, 30, 2), rng.uniform(15, 85, 2)
        if len(boxes) < n and all(
            (np.abs(centre - (b[:2] + b[2:]) / 2) > (b[2:] - b[:2] + size) / 3).any() for b in boxes
        ):
            boxes.append(np.concatenate([centre - size / 2, centre + size / 2]))
    return np.array(boxes).reshape(-1, 4)


def _draw_boxes(
    rng: np.random.Generator, true_boxes: Floats, true_codes: npt.NDArray[np.int64], n_classes: int, kind: str
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Draw the boxes and label codes of a worker."""
    recall, invented, noise, right = _KINDS[kind]
    is_drawn = rng.random(len(true_boxes)) < recall
    size = np.tile(true_boxes[is_drawn, 2:] - true_boxes[is_drawn, :2], 2)
    worker_boxes = true_boxes[is_drawn] + size * np.clip(noise * rng.standard_normal(size.shape), -0.4, 0.4)
    label_codes = np.where(
        rng.random(int(is_drawn.sum())) < right, true_codes[is_drawn], rng.integers(n_classes, size=int(is_drawn.sum()))
    )
    more = _objects(rng, int(rng.poisson(invented)))
    return np.concatenate([worker_boxes, more]), np.concatenate([label_codes, rng.integers(n_classes, size=len(more))])


def _absent(column: Any) -> Any:
    import pyarrow as pa

    return pa.array(column, mask=np.isnan(column))
