"""The covariance of workers as low rank plus diagonal, and the best linear predictor it gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.iteration import iterate
from manyhands._base.progress import Callback
from manyhands.numeric._units import Units
from manyhands.numeric.base import NumericAggregator, ValueFit, ValueFitted
from manyhands.numeric.gaussian import errors_about
from manyhands.numeric.simple import ALONE, pooled_variance
from manyhands.numeric.table import Ratings

#: Workers' means, factors and noise are shrunk to the crowd's by as much as so many ratings tell.
_IMAGINARY = 5.0
#: The least share of the crowd's variance of noise that a worker has: the diagonal must stay positive.
_LEAST = 0.05


@dataclass(frozen=True, kw_only=True)
class CovarianceFit(ValueFit):
    """Means, factors and precisions of workers, in units of their own."""

    means: Array = field(metadata=numbers("dm"))
    factors: Array = field(metadata=numbers("dmr"))
    precision: Array = field(metadata=numbers("dm"))
    unit: Array = field(metadata=numbers("d"))
    centre: Array = field(metadata=numbers("d"))


class CovarianceCrowd(NumericAggregator):
    """Workers' ratings of a task covary as low rank plus diagonal; values are the best linear predictor.

    Ratings less their workers' means have covariance A·Aᵀ + D: what workers share, and the noise of each. A is fitted
    to the covariances of pairs, over the tasks they both rated; variances are not used for it, since noise is part of
    them, and then give D. The value of a task is the expectation, given its ratings, of the average worker's share in
    the common factors.

    Parameters
    ----------
    rank
        Number of common factors: one, the truth, or more where groups of workers share errors.
    max_iter, tol
        Stop after so many iterations, or when no worker's factors move by more than `tol` of the ratings' standard
        deviation.
    seed
        Where factors beyond the first start.

    Notes
    -----
    Means, factors and noise are shrunk to the crowd's by as much as five ratings tell, so that the few ratings of a
    rare worker do no harm. Least squares over pairs never form the matrix of workers: O(ratings · rank²) time a pass
    and memory O(tasks + workers · rank²). Tasks should be given to workers regardless of their values: a worker's mean
    is told by differences from the means of tasks. Values are on the scale of the crowd's average worker, and pulled
    towards their average by as much as they are uncertain.

    Standard errors are those of :class:`GaussianCrowd`, widened by how far its values are from these: what the linear
    predictor itself expects takes covariances as known, and is too small by half.

    Points: each number of an answer for itself.

    References
    ----------
    Y. Tenzer, O. Dror, B. Nadler, E. Bilal, Y. Kluger, "Crowdsourcing regression: a spectral approach", AISTATS 2022.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(300, 10, answers_per_task=5, seed=2, kind="numeric")
    >>> model = mh.numeric.CovarianceCrowd().fit(crowd.log)
    >>> mean = mh.numeric.Mean().fit(crowd.log)
    >>> mh.metrics.rmse(model.values_, crowd.truth) < mh.metrics.rmse(mean.values_, crowd.truth)
    True
    """

    _fit_type: ClassVar[type[Fit]] = CovarianceFit

    def __init__(self, rank: int = 1, *, max_iter: int = 200, tol: float = 1e-6, seed: int = 0) -> None:
        self.rank = rank
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        check_number("rank", self.rank, least=1, most=20, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        check_stopping(self.max_iter, self.tol)
        table, units = votes.table, Units.of(votes.table)
        d, m = table.dims, table.n_workers
        means, precision, factors = np.zeros((d, m)), np.ones((d, m)), np.zeros((d, m, int(self.rank)))
        columns, told, steps, converged = [], True, 1, True
        for dim in range(d):
            tasks, workers = table.spread(*units.view(dim))
            variance = pooled_variance(tasks)
            told = told and variance is not None
            if variance is None or variance == 0:
                # Nothing varies within tasks, or there is nothing to compare: means are all there is.
                factors[dim, :, 0] = 1.0
                precision[dim] = 1e12
                columns.append(_means_of(tasks, variance))
                continue
            learnt, steps, settled = self._learn(table, units, dim, tasks, workers, variance, progress)
            means[dim], factors[dim], precision[dim] = learnt
            converged = converged and settled
            averages = means.mean(axis=1)[dim], factors.mean(axis=1)[dim]
            columns.append(_scores(table, units, dim, averages, means[dim], factors[dim], precision[dim]))
        warn_unless_converged(converged, self)
        values, errors = (np.stack(found, axis=1) for found in zip(*columns, strict=True))
        if told:
            errors = errors_about(values, table, units)
        # Values in terms of the factors are those of the average worker.
        target = factors.mean(axis=1)
        scale = np.einsum("dmr,dr->md", factors, target) / np.maximum((target**2).sum(axis=1), 1e-300)
        return CovarianceFit(
            means=means,
            factors=factors,
            precision=precision,
            unit=units.unit,
            centre=units.centre,
            values=units.back(values),
            errors=units.sizes(errors),
            bias=units.sizes((means - means.mean(axis=1)[:, None]).T),
            scale=scale,
            noise=units.sizes(1.0 / np.sqrt(precision.T)),
            history=np.zeros(0),
            n_iter=steps,
            converged=converged,
            remarks=() if told else (ALONE,),
        )

    def _learn(
        self,
        table: _core.Ratings,
        units: Units,
        dim: int,
        tasks: Array,
        workers: Array,
        variance: float,
        progress: Callback | None,
    ) -> tuple[tuple[Array, Array, Array], int, bool]:
        """Means, factors and precisions of the workers for one number of the answers; iterations, and convergence."""
        rank, view = int(self.rank), units.view(dim)
        counts, away, _ = workers.T
        rated = tasks[:, 0] > 0
        average = float(tasks[rated, 1].mean())
        means = average + away / (counts + _IMAGINARY)
        signal = max(float(tasks[rated, 1].var()) - variance * float(tasks[rated, 3].mean()), 1e-3)
        factors = np.zeros((table.n_workers, rank))
        factors[:, 0] = np.sqrt(signal)
        factors[:, 1:] = (
            0.1 * np.sqrt(signal) * np.random.default_rng(self.seed).standard_normal((len(factors), rank - 1))
        )

        def step(_: int) -> tuple[float, float]:
            nonlocal factors
            sums = table.covariance_sums(*view, means, factors, rank)
            right, left = sums[:, :rank], sums[:, rank:].reshape(-1, rank, rank)
            common = np.average(factors, axis=0, weights=counts)
            crowd = np.einsum("mi,mj,m->ij", factors, factors, counts) / counts.sum() + 1e-9 * signal * np.eye(rank)
            new = np.linalg.solve(left + _IMAGINARY * crowd, (right + _IMAGINARY * crowd @ common)[..., None])[..., 0]
            # Halfway: factors that are too large make the next ones too small.
            moved, factors = float(np.abs(new - factors).max()) / 2, (factors + new) / 2
            return moved, -moved

        n_iter, converged = iterate(step, self.max_iter, self.tol, progress)
        total, x, xx = table.gaussian_pass(*view, np.zeros((table.n_workers, 6)), (0.0, 1.0))[1][:, :3].T
        squares = xx - 2.0 * means * x + total * means**2
        rest = np.maximum(squares - counts * (factors**2).sum(axis=1), 0.0)
        crowd_noise = max(float(rest.sum() / counts.sum()), _LEAST * variance)
        noise = (rest + _IMAGINARY * crowd_noise) / (counts + _IMAGINARY)
        return (means, factors, 1.0 / np.maximum(noise, _LEAST * crowd_noise)), n_iter, converged

    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        learnt = now.fit_as(CovarianceFit)
        units = Units(learnt.unit, learnt.centre)
        columns = []
        for dim, workers in enumerate(zip(learnt.means, learnt.factors, learnt.precision, strict=True)):
            averages = learnt.means.mean(axis=1)[dim], learnt.factors.mean(axis=1)[dim]
            carried = [now.carried_over(of, known) for of in workers]
            columns.append(_scores(ratings.table, units, dim, averages, *carried)[0])
        return units.back(np.stack(columns, axis=1))


def _scores(
    table: _core.Ratings,
    units: Units,
    dim: int,
    averages: tuple[float, Array],
    means: Array,
    factors: Array,
    precision: Array,
) -> tuple[Array, Array]:
    """Values and errors of the tasks, for one number of the answers; averages are those of means and factors in fit."""
    average, target = averages
    found = table.factor_scores(
        *units.view(dim), means, precision, np.ascontiguousarray(factors), np.ascontiguousarray(target)
    )
    return average + found[:, 0], np.sqrt(np.maximum(found[:, 1], 0.0))


def _means_of(tasks: Array, variance: float | None) -> tuple[Array, Array]:
    return tasks[:, 1], np.sqrt((1.0 if variance is None else variance) * tasks[:, 3])
