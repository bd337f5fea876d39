"""Simulated crowds who give numbers: a log whose truth is known."""

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
    """A simulated log of numbers and everything that is hidden behind a real one.

    Attributes
    ----------
    log : Ratings
        The answers of the simulated workers.
    truth : ndarray of shape (n_tasks,) or (n_tasks, n_dims)
        The value of each task, aligned with ``log.tasks``.
    bias, scale, noise : ndarray of shape (n_workers,) or (n_workers, n_dims)
        A rating is bias + scale · value + noise · error, where errors have variance one; aligned with
        ``log.workers``.
    seed : int
        What all draws followed from.
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
    """Draw a crowd that gives numbers, and its ratings.

    Parameters
    ----------
    n_tasks, n_workers
        Sizes. Tasks and workers are named 0, 1, ….
    answers_per_task
        How many different workers rate each task, drawn at random.
    n_dims
        Numbers of an answer; more than one for points. A worker is as many times noisier than others in all of them.
    mean, deviation
        Values are normal with this mean and standard deviation.
    bias, scale
        Standard deviations of workers' biases, about 0, and scales, about 1, in units of `deviation`.
    noise, noise_spread
        The median of workers' standard deviations of noise, in units of `deviation`, and the standard deviation of
        their logarithms.
    tails
        Degrees of freedom of Student's t, scaled to variance one, if errors are to have heavier tails than the normal
        distribution: above 2.
    spammers
        The share of workers whose scale is 0: what they say has nothing to do with the value.
    seed
        What all draws follow from.

    Notes
    -----
    O(n_tasks · answers_per_task) time and memory beside the log.

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
    here = ratings.workers.astype(np.int64)
    # About the mean: a scale of 2 doubles differences from it.
    biases = deviation * biases + mean * (1.0 - scales)
    parts = (mean + deviation * truth, biases[here], scales[here], deviation * deviations[here])
    values_of, bias_of, scale_of, noise_of = (part if n_dims > 1 else part[:, 0] for part in parts)
    return NumericSimulation(log=ratings, truth=values_of, bias=bias_of, scale=scale_of, noise=noise_of, seed=seed)


def _check(given: dict[str, Any]) -> None:
    for name in ("n_tasks", "n_workers", "answers_per_task", "n_dims"):
        check_number(name, given[name], least=1, whole=True)
    check_number("seed", given["seed"], least=0, whole=True)
    check_number("mean", given["mean"], least=-1e300, most=1e300)
    for name in ("deviation", "bias", "scale", "noise", "noise_spread"):
        check_number(name, given[name], least=0, most=1e100)
    check_number("spammers", given["spammers"], least=0, most=1)
    if given["tails"] is not None:
        check_number("tails", given["tails"], least=2)
        if given["tails"] == 2:
            raise ValueError("tails must be above 2: with 2 degrees of freedom errors have no variance")
    if given["answers_per_task"] > given["n_workers"]:
        raise ValueError(
            f"{given['answers_per_task']} ratings a task need as many workers, and there are {given['n_workers']}"
        )


def raters(rng: np.random.Generator, n_tasks: int, n_workers: int, each: int) -> npt.NDArray[np.int64]:
    """Different workers for each task: all of them in a random order, or drawn until no two are the same."""
    if each * 4 > n_workers:
        return np.concatenate([rng.permutation(n_workers)[:each] for _ in range(n_tasks)])
    drawn = rng.integers(n_workers, size=(n_tasks, each))
    while True:
        ordered = np.sort(drawn, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        if not twice.any():
            return drawn.ravel()
        drawn[twice] = rng.integers(n_workers, size=(int(twice.sum()), each))
