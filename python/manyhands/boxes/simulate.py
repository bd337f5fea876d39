"""Simulated crowds who draw boxes: a log whose truth is known."""

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
#: Of each kind of worker: how often they see an object, how many they invent in an image, how far their corners are
#: off as a share of the object's size, and how often they name it rightly.
_KINDS = {
    "good": (0.92, 0.1, 0.03, 0.95),
    "hasty": (0.6, 0.1, 0.08, 0.85),
    "careless": (0.75, 1.5, 0.15, 0.5),
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BoxesSimulation(Simulation):
    """A simulated log of boxes and everything that is hidden behind a real one.

    Attributes
    ----------
    log : Boxes
        The answers of the simulated workers.
    truth : list of ndarray of shape (n_objects, 4)
        The objects of each task, aligned with ``log.tasks``.
    labels : list of ndarray of shape (n_objects,)
        What they are: ``"a"``, ``"b"``, ….
    kinds : ndarray of shape (n_workers,)
        ``"good"``, ``"hasty"`` or ``"careless"``, aligned with ``log.workers``.
    seed : int
        What all draws followed from.
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
    """Draw images with objects in them, and a crowd that draws boxes around these: every worker every image.

    Parameters
    ----------
    n_tasks
        Number of images of 100 by 100, named 0, 1, ….
    objects
        How many objects an image has on average; it may have none, and objects overlap little.
    n_classes
        How many kinds of objects there are, up to 26.
    good, hasty, careless
        How many workers see nearly all, miss much, and invent objects, miss their corners and their names.
    seed
        What all draws follow from.

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
        raise ValueError("there is no worker; say how many are good, hasty or careless")
    rng, names = np.random.default_rng(seed), np.array(list("abcdefghijklmnopqrstuvwxyz"[:n_classes]))
    truth, labels, tasks, workers, said = [], [], [], [], []
    called: list[str | None] = []
    for task in range(n_tasks):
        there = _objects(rng, int(rng.poisson(objects)))
        what = rng.integers(n_classes, size=len(there))
        truth.append(there)
        labels.append(names[what])
        for worker, kind in enumerate(kinds):
            drawn, named = _drawn(rng, there, what, n_classes, kind)
            n = max(len(drawn), 1)
            tasks += [task] * n
            workers += [worker] * n
            said.append(drawn if len(drawn) else np.full((1, 4), np.nan))
            called += [str(name) for name in names[named]] if len(drawn) else [None]
    boxes = Boxes.from_arrays(tasks, workers, np.concatenate(said), called)
    return BoxesSimulation(log=boxes, truth=truth, labels=labels, kinds=np.array(kinds), seed=seed)


def _objects(rng: np.random.Generator, n: int) -> Floats:
    """Boxes of objects whose centres are not within one another."""
    found: list[Floats] = []
    for _ in range(20 * n):
        size, centre = rng.uniform(8, 30, 2), rng.uniform(15, 85, 2)
        if len(found) < n and all(
            (np.abs(centre - (b[:2] + b[2:]) / 2) > (b[2:] - b[:2] + size) / 3).any() for b in found
        ):
            found.append(np.concatenate([centre - size / 2, centre + size / 2]))
    return np.array(found).reshape(-1, 4)


def _drawn(
    rng: np.random.Generator, there: Floats, what: npt.NDArray[np.int64], n_classes: int, kind: str
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Boxes of a worker, and codes of what they call them."""
    recall, invented, noise, right = _KINDS[kind]
    seen = rng.random(len(there)) < recall
    size = np.tile(there[seen, 2:] - there[seen, :2], 2)
    drawn = there[seen] + size * np.clip(noise * rng.standard_normal(size.shape), -0.4, 0.4)
    named = np.where(rng.random(int(seen.sum())) < right, what[seen], rng.integers(n_classes, size=int(seen.sum())))
    more = _objects(rng, int(rng.poisson(invented)))
    return np.concatenate([drawn, more]), np.concatenate([named, rng.integers(n_classes, size=len(more))])


def _absent(column: Any) -> Any:
    import pyarrow as pa

    return pa.array(column, mask=np.isnan(column))
