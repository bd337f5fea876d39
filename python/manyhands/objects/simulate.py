"""Simulation of answers without a table of their own: short texts compared by edit distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands._base.values import as_objects
from manyhands.numeric.simulate import raters
from manyhands.objects.table import Objects

__all__ = ["ObjectsSimulation", "simulate"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ObjectsSimulation(Simulation):
    """Simulated texts, true texts and worker error rates.

    Attributes
    ----------
    log : Objects
        The answers of the simulated workers.
    truth : ndarray of shape (n_tasks,)
        The true text of each task, aligned with ``log.tasks``.
    error_rates : ndarray of shape (n_workers,)
        Probability that a worker replaces a letter, aligned with ``log.workers``.
    """

    log: Objects
    truth: npt.NDArray[np.object_]
    error_rates: npt.NDArray[np.float64]


def simulate(
    n_tasks: int = 100,
    n_workers: int = 20,
    *,
    answers_per_task: int = 5,
    length: int = 8,
    error_rate: float = 0.15,
    seed: int = 0,
) -> ObjectsSimulation:
    """Simulate short codes that workers copy with errors.

    The answers are plain Python strings; :class:`~manyhands.objects.DistanceAggregator` compares them by edit distance.
    Cost O(n_tasks · answers_per_task · length).

    Parameters
    ----------
    n_tasks : int, default 100
        Number of tasks.
    n_workers : int, default 20
        Number of workers.
    answers_per_task : int, default 5
        Number of different workers per task.
    length : int, default 8
        Number of letters of each true code.
    error_rate : float, default 0.15
        Mean probability that a worker replaces a letter; workers vary from 0 to twice that.
    seed : int, default 0
        Random seed.

    Returns
    -------
    ObjectsSimulation
        The log with the true codes.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(10, 4, kind="objects", answers_per_task=3, seed=1).log.n_annotations
    30
    """
    for name, size in {"n_tasks": n_tasks, "n_workers": n_workers, "length": length}.items():
        check_number(name, size, least=1, whole=True)
    check_number("answers_per_task", answers_per_task, least=1, most=n_workers, whole=True)
    check_number("error_rate", error_rate, least=0, most=0.5)
    check_number("seed", seed, least=0, whole=True)
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    truth = rng.integers(len(letters), size=(n_tasks, length))
    error_rates = error_rate * 2 * rng.random(n_workers)
    tasks = np.repeat(np.arange(n_tasks), answers_per_task)
    workers = raters(rng, n_tasks, n_workers, answers_per_task)
    replaced = rng.random((len(tasks), length)) < error_rates[workers, None]
    codes = np.where(replaced, rng.integers(len(letters), size=replaced.shape), truth[tasks])
    log = Objects.from_arrays(tasks, workers, ["".join(letters[row]) for row in codes])
    return ObjectsSimulation(
        log=log,
        truth=as_objects(["".join(letters[row]) for row in truth]),
        error_rates=error_rates[log.workers.astype(np.int64)],
        seed=seed,
    )
