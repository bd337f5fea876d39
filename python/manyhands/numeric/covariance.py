"""Factor model of worker covariances and its best linear predictor."""

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
from manyhands.numeric.gaussian import standard_errors_of
from manyhands.numeric.simple import SINGLE_RATINGS_WARNING, pooled_variance
from manyhands.numeric.table import Ratings

#: Pseudo-count of ratings by which worker means, factors and noise are shrunk to the average.
_IMAGINARY = 5.0
#: Minimum noise variance of a worker, relative to the average: the diagonal must stay positive.
_LEAST = 0.05


@dataclass(frozen=True, kw_only=True)
class CovarianceFit(ValueFit):
    """Means, factors and precisions of workers, in standardized units."""

    means: Array = field(metadata=numbers("dm"))
    factors: Array = field(metadata=numbers("dmr"))
    precision: Array = field(metadata=numbers("dm"))
    unit: Array = field(metadata=numbers("d"))
    centre: Array = field(metadata=numbers("d"))


class CovarianceCrowd(NumericAggregator):
    """Factor model of worker covariances (low rank plus diagonal), with best linear prediction of the values.

    Use it if groups of workers share errors. Otherwise :class:`Blend` is usually better.

    Parameters
    ----------
    rank : int, default 1
        Number of common factors: 1 for the truth only, more for groups of workers with shared errors.
    max_iter : int, default 200
        Maximum number of iterations.
    tol : float, default 1e-6
        Change of the factors, relative to the standard deviation of the ratings, at which the fit has converged.
    seed : int, default 0
        Random seed of the initial factors beyond the first.

    Notes
    -----
    Time O(ratings · rank²) per iteration, memory O(tasks + workers · rank²); the matrix of workers is never formed.
    Dimensions of points are fitted separately.

    Centered ratings have covariance A·Aᵀ + D. A is fitted to the covariances of worker pairs over their common tasks;
    D follows from the variances. The value of a task is the conditional expectation, given its ratings, of the average
    worker's share of the common factors. Means, factors and noise are shrunk to the average by a pseudo-count of five
    ratings. Workers should be assigned to tasks independently of the values, because worker means are estimated from
    differences to task means. Values are on the scale of the average worker and shrunk toward their mean.

    Standard errors are those of :class:`GaussianCrowd`, widened by the difference between the two models; those of the
    linear predictor treat the covariances as known and are too small by half.

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
        columns, identifiable, steps, converged = [], True, 1, True
        for dim in range(d):
            tasks, workers = table.spread(*units.view(dim))
            variance = pooled_variance(tasks)
            identifiable = identifiable and variance is not None
            if variance is None or variance == 0:
                # Nothing varies within tasks, or nothing can be compared: use the means.
                factors[dim, :, 0] = 1.0
                precision[dim] = 1e12
                columns.append(_means_of(tasks, variance))
                continue
            worker_parameters, steps, dim_converged = self._fit_dimension(
                table, units, dim, tasks, workers, variance, progress
            )
            means[dim], factors[dim], precision[dim] = worker_parameters
            converged = converged and dim_converged
            averages = means.mean(axis=1)[dim], factors.mean(axis=1)[dim]
            columns.append(_scores(table, units, dim, averages, means[dim], factors[dim], precision[dim]))
        warn_unless_converged(converged, self)
        values, errors = (np.stack(columns_of_results, axis=1) for columns_of_results in zip(*columns, strict=True))
        if identifiable:
            errors = standard_errors_of(values, table, units)
        # Express values on the scale of the average worker.
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
            remarks=() if identifiable else (SINGLE_RATINGS_WARNING,),
        )

    def _fit_dimension(
        self,
        table: _core.Ratings,
        units: Units,
        dim: int,
        tasks: Array,
        workers: Array,
        variance: float,
        progress: Callback | None,
    ) -> tuple[tuple[Array, Array, Array], int, bool]:
        """Estimate means, factors and precisions of the workers for one dimension; also iterations and convergence."""
        rank, view = int(self.rank), units.view(dim)
        counts, deviations, _ = workers.T
        rated = tasks[:, 0] > 0
        average = float(tasks[rated, 1].mean())
        means = average + deviations / (counts + _IMAGINARY)
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
            factor_covariance = np.einsum(
                "mi,mj,m->ij", factors, factors, counts
            ) / counts.sum() + 1e-9 * signal * np.eye(rank)
            new = np.linalg.solve(
                left + _IMAGINARY * factor_covariance, (right + _IMAGINARY * factor_covariance @ common)[..., None]
            )[..., 0]
            # Damped step: factors that are too large make the next ones too small.
            change, factors = float(np.abs(new - factors).max()) / 2, (factors + new) / 2
            return change, -change

        n_iter, converged = iterate(step, self.max_iter, self.tol, progress)
        total, x, xx = table.gaussian_pass(*view, np.zeros((table.n_workers, 6)), (0.0, 1.0))[1][:, :3].T
        squares = xx - 2.0 * means * x + total * means**2
        rest = np.maximum(squares - counts * (factors**2).sum(axis=1), 0.0)
        crowd_noise = max(float(rest.sum() / counts.sum()), _LEAST * variance)
        noise = (rest + _IMAGINARY * crowd_noise) / (counts + _IMAGINARY)
        return (means, factors, 1.0 / np.maximum(noise, _LEAST * crowd_noise)), n_iter, converged

    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        parameters = now.fit_as(CovarianceFit)
        units = Units(parameters.unit, parameters.centre)
        columns = []
        for dim, workers in enumerate(zip(parameters.means, parameters.factors, parameters.precision, strict=True)):
            averages = parameters.means.mean(axis=1)[dim], parameters.factors.mean(axis=1)[dim]
            worker_parameters = [now.carried_over(of, known) for of in workers]
            columns.append(_scores(ratings.table, units, dim, averages, *worker_parameters)[0])
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
    """Values and errors of the tasks for one dimension; `averages` are the mean and factors of the average worker."""
    average, target = averages
    scores = table.factor_scores(
        *units.view(dim), means, precision, np.ascontiguousarray(factors), np.ascontiguousarray(target)
    )
    return average + scores[:, 0], np.sqrt(np.maximum(scores[:, 1], 0.0))


def _means_of(tasks: Array, variance: float | None) -> tuple[Array, Array]:
    return tasks[:, 1], np.sqrt((1.0 if variance is None else variance) * tasks[:, 3])
