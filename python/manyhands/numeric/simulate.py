"""Simulation of numeric ratings with known values and workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.simulation import Simulation
from manyhands.numeric.table import Ratings

__all__ = ["NumericSimulation", "simulate"]

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class NumericSimulation(Simulation):
    """Simulated ratings and their true parameters.

    Attributes
    ----------
    log : Ratings
        The answers of the simulated workers.
    truth : ndarray of shape (n_tasks,) or (n_tasks, n_dims)
        Value of each task, aligned with ``log.tasks``.
    bias, scale, noise : ndarray of shape (n_workers,) or (n_workers, n_dims)
        A rating is bias + scale · value + noise · error, with errors of variance one; aligned with ``log.workers``.
    seed : int
        Random seed.
    """

    log: Ratings
    truth: Floats
    bias: Floats
    scale: Floats
    noise: Floats

    def _summary(self) -> str:
        return f"{super()._summary()}; median noise {float(np.median(self.noise)):.2f}"

    def _truth(self) -> dict[str, Any]:
        truth, names = self.truth, self.log._dimensions.values.tolist()
        columns = [truth] if truth.ndim == 1 else list(truth.T)
        return {"task": self.log._tasks.arrow(), **dict(zip(names, columns, strict=True))}


def simulate(
    n_tasks: int = 200,
    n_workers: int = 20,
    *,
    answers_per_task: int = 5,
    n_dims: int = 1,
    mean: float = 0.0,
    deviation: float = 1.0,
    bias: float = 0.3,
    scale: float = 0.2,
    noise: float = 0.6,
    noise_spread: float = 0.5,
    tails: float | None = None,
    spammers: float = 0.0,
    seed: int = 0,
) -> NumericSimulation:
    """Simulate numeric ratings by workers with bias, scale and noise.

    Parameters
    ----------
    n_tasks : int, default 200
        Number of tasks, with ids 0, 1, ….
    n_workers : int, default 20
        Number of workers, with ids 0, 1, ….
    answers_per_task : int, default 5
        Number of ratings per task, by different random workers.
    n_dims : int, default 1
        Numbers per answer; more than one for points. The relative noise of a worker is shared by all of them.
    mean, deviation : float, default 0.0 and 1.0
        Mean and standard deviation of the normally distributed values.
    bias, scale : float, default 0.3 and 0.2
        Standard deviations of worker biases (around 0) and scales (around 1), in units of `deviation`.
    noise : float, default 0.6
        Median noise standard deviation of workers, in units of `deviation`.
    noise_spread : float, default 0.5
        Standard deviation of the logarithm of worker noise.
    tails : float, optional
        Degrees of freedom (above 2) of Student's t errors with variance one. By default errors are normal.
    spammers : float, default 0.0
        Share of workers with scale 0, whose ratings do not depend on the value.
    seed : int, default 0
        Random seed.

    Returns
    -------
    NumericSimulation
        The ratings, true values and worker parameters.

    Notes
    -----
    O(n_tasks · answers_per_task) time and memory, in addition to the log.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(100, 20, kind="numeric", answers_per_task=3, seed=7)
    >>> crowd.log
    <Ratings: 300 ratings of 100 tasks by 20 workers>
    """
    _check(locals())
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n_tasks, n_dims))
    biases = bias * rng.standard_normal((n_workers, n_dims))
    scales = 1.0 + scale * rng.standard_normal((n_workers, n_dims))
    scales[: round(spammers * n_workers)] = 0.0
    deviations = noise * np.exp(noise_spread * rng.standard_normal((n_workers, 1))) * np.ones((1, n_dims))
    tasks = np.repeat(np.arange(n_tasks), answers_per_task)
    workers = raters(rng, n_tasks, n_workers, answers_per_task)
    errors = rng.standard_normal((len(tasks), n_dims))
    if tails is not None:
        errors *= np.sqrt((tails - 2.0) / rng.chisquare(tails, (len(tasks), 1)))
    values = mean + deviation * (biases[workers] + scales[workers] * truth[tasks] + deviations[workers] * errors)
    ratings = Ratings.from_arrays(tasks, workers, values if n_dims > 1 else values[:, 0])
    worker_codes = ratings.workers.astype(np.int64)
    # Biases refer to the mean: a scale of 2 doubles deviations from it.
    biases = deviation * biases + mean * (1.0 - scales)
    parts = (mean + deviation * truth, biases[worker_codes], scales[worker_codes], deviation * deviations[worker_codes])
    values_of, bias_of, scale_of, noise_of = (part if n_dims > 1 else part[:, 0] for part in parts)
    return NumericSimulation(log=ratings, truth=values_of, bias=bias_of, scale=scale_of, noise=noise_of, seed=seed)


def _check(settings: dict[str, Any]) -> None:
    for name in ("n_tasks", "n_workers", "answers_per_task", "n_dims"):
        check_number(name, settings[name], least=1, whole=True)
    check_number("seed", settings["seed"], least=0, whole=True)
    check_number("mean", settings["mean"], least=-1e300, most=1e300)
    for name in ("deviation", "bias", "scale", "noise", "noise_spread"):
        check_number(name, settings[name], least=0, most=1e100)
    check_number("spammers", settings["spammers"], least=0, most=1)
    if settings["tails"] is not None:
        check_number("tails", settings["tails"], least=2)
        if settings["tails"] == 2:
            raise ValueError("tails must be above 2: with 2 degrees of freedom the variance of errors is infinite")
    if settings["answers_per_task"] > settings["n_workers"]:
        raise ValueError(
            f"answers_per_task={settings['answers_per_task']} exceeds n_workers={settings['n_workers']}: add workers"
        )


def raters(rng: np.random.Generator, n_tasks: int, n_workers: int, each: int) -> npt.NDArray[np.int64]:
    """Select different workers for each task: a random permutation, or rejection sampling if workers are many."""
    if each * 4 > n_workers:
        return np.concatenate([rng.permutation(n_workers)[:each] for _ in range(n_tasks)])
    workers = rng.integers(n_workers, size=(n_tasks, each))
    while True:
        sorted_workers = np.sort(workers, axis=1)
        has_duplicates = (sorted_workers[:, 1:] == sorted_workers[:, :-1]).any(axis=1)
        if not has_duplicates.any():
            return workers.ravel()
        workers[has_duplicates] = rng.integers(n_workers, size=(int(has_duplicates.sum()), each))
