"""Simulation of ellipse masks with known truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands._base.values import as_objects
from manyhands.masks.table import Masks

__all__ = ["MasksSimulation", "simulate"]

Floats = npt.NDArray[np.float64]
#: Outline scale and center error (relative to the image) of each type of worker.
_KINDS = {"good": (1.0, 0.01), "loose": (1.2, 0.02), "tight": (0.85, 0.02), "careless": (1.0, 0.15)}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MasksSimulation(Simulation):
    """Simulated masks and their true parameters.

    Attributes
    ----------
    log : Masks
        The answers of the simulated workers.
    truth : ndarray of shape (n_tasks,)
        True mask of each task, as boolean arrays, aligned with ``log.tasks``.
    kinds : ndarray of shape (n_workers,)
        ``"good"``, ``"loose"``, ``"tight"`` or ``"careless"``, aligned with ``log.workers``.
    seed : int
        Random seed.
    """

    log: Masks
    truth: npt.NDArray[np.object_]
    kinds: npt.NDArray[np.str_]

    def _truth(self) -> dict[str, Any]:
        tasks = self.log.tasks.tolist()
        truth = Masks.from_arrays(tasks, ["truth"] * len(tasks), self.truth).to_frame()
        return {name: truth.column(name) for name in ("task", "mask")}


def simulate(
    n_tasks: int = 20,
    *,
    size: int = 64,
    good: int = 4,
    loose: int = 3,
    tight: int = 2,
    careless: int = 1,
    seed: int = 0,
) -> MasksSimulation:
    """Simulate images with one ellipse each, all marked by all workers.

    Parameters
    ----------
    n_tasks : int, default 20
        Number of images, with ids 0, 1, ….
    size : int, default 64
        Height and width of the images.
    good, loose, tight, careless : int, default 4, 3, 2 and 1
        Number of workers who follow the outline, draw outside of it, draw inside of it, and misplace it.
    seed : int, default 0
        Random seed.

    Returns
    -------
    MasksSimulation
        The masks, true masks and types of workers.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(5, kind="masks", size=32, seed=1).log
    <Masks: 50 masks of 5 tasks by 10 workers, 2 classes>
    """
    counts = {"good": good, "loose": loose, "tight": tight, "careless": careless}
    for name, value in {"n_tasks": n_tasks, "size": size}.items():
        check_number(name, value, least=1, whole=True)
    for name, value in {**counts, "seed": seed}.items():
        check_number(name, value, least=0, whole=True)
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    if not kinds:
        raise ValueError("there are no workers: increase good, loose, tight or careless")
    rng = np.random.default_rng(seed)
    truth, tasks, workers, arrays = [], [], [], []
    for task in range(n_tasks):
        centre, axes, turn = rng.uniform(0.35, 0.65, 2), rng.uniform(0.12, 0.28, 2), rng.uniform(0, np.pi)
        truth.append(_ellipse(size, centre, axes, turn))
        for worker, kind in enumerate(kinds):
            stretch, miss = _KINDS[kind]
            worker_axes = axes * stretch * np.exp(0.04 * rng.standard_normal() + 0.04 * rng.standard_normal(2))
            worker_centre = centre + miss * rng.standard_normal(2)
            arrays.append(_ellipse(size, worker_centre, worker_axes, turn + 0.1 * rng.standard_normal()))
            tasks.append(task)
            workers.append(worker)
    masks = Masks.from_arrays(tasks, workers, arrays)
    return MasksSimulation(log=masks, truth=as_objects(truth), kinds=np.array(kinds), seed=seed)


def _ellipse(size: int, centre: Floats, axes: Floats, turn: float) -> npt.NDArray[np.bool_]:
    y, x = (np.mgrid[:size, :size] + 0.5) / size
    along = (x - centre[0]) * np.cos(turn) + (y - centre[1]) * np.sin(turn)
    across = (y - centre[1]) * np.cos(turn) - (x - centre[0]) * np.sin(turn)
    inside: npt.NDArray[np.bool_] = (along / axes[0]) ** 2 + (across / axes[1]) ** 2 <= 1
    return inside
