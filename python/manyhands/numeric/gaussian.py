"""Hierarchical Gaussian model: bias, scale and noise per worker, with estimated priors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice, check_flag, check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands.metrics.intervals import offset_errors
from manyhands.numeric._hierarchy import Crowd, Structure, fit
from manyhands.numeric._units import Units
from manyhands.numeric.base import LEVEL, NumericAggregator, ValueFit, ValueFitted
from manyhands.numeric.simple import SINGLE_RATINGS_WARNING
from manyhands.numeric.table import Ratings

_METHODS = ("em", "messages")


@dataclass(frozen=True, kw_only=True)
class GaussianFit(ValueFit):
    """Moments of workers and prior of values, in standardized units."""

    moments: Array = field(metadata=numbers("dm6"))
    prior: Array = field(metadata=numbers("d2"))
    unit: Array = field(metadata=numbers("d"))
    centre: Array = field(metadata=numbers("d"))


class GaussianCrowd(NumericAggregator):
    """Hierarchical Gaussian model: each rating is bias + scale · value + noise of its worker.

    Use it if workers differ in leniency, scale or precision. Workers with few ratings are shrunk to the average worker;
    a worker who always gives the same answer gets a scale near 0 and no influence.

    Parameters
    ----------
    bias, scale, noise : bool, default True
        Whether workers differ in bias, scale and noise.
    tails : float or None, default None
        Degrees of freedom of Student's t noise, which reduces the influence of outliers. None is normal noise.
    shrink : bool, default True
        Shrink values toward their mean depending on their uncertainty, which minimizes the squared error if the model
        is correct.
    method : {"em", "messages"}, default "em"
        ``"em"`` is variational EM. ``"messages"`` is the Bayesian iteration of Ok et al. (2019), with leave-one-out
        messages: the precision of a worker for a task is estimated from the worker's other tasks.
    max_iter : int, default 500
        Maximum number of iterations.
    tol : float, default 1e-6
        The fit has converged when the evidence lower bound increases by less than `tol` per rating; without an
        objective (`tails`, ``"messages"``), when values change by less than `tol` standard deviations of the ratings.

    Notes
    -----
    Time O(ratings) per iteration; memory O(tasks + workers), or O(ratings) for ``"messages"``.

    The model is x = β + α·y + ε with values y ~ N(μ, σ²), biases β ~ N(0, τ²), scales α ~ N(1, ω²) and
    Gamma-distributed precisions of ε. μ, σ, τ, ω and the Gamma distribution are estimated by empirical Bayes; with
    equal workers, values reduce to means. ``"messages"`` with ``bias=False, scale=False`` is the published method,
    except that the prior is estimated; it has no objective. The noise variance of each rating is at least 10⁻⁴ of the
    average, and worker precisions are shrunk by at least two ratings. For points, each dimension has its own values,
    biases, scales and noise level; the relative precision of a worker is shared by all dimensions.

    Standard errors include the uncertainty of worker biases and scales and of the origin and unit of the scale, since a
    small sample of workers may deviate from the population of workers. Repeated ratings of a task by a worker are
    treated as independent. With `tails`, standard errors come from the model with normal noise, widened by the
    difference between both models, which doubles the time. In simulations, 90 % intervals contained 87 to 94 % of the
    values, and 93 to 96 % for ``"messages"`` (docs/evidence/coverage.md).

    References
    ----------
    J. Ok, S. Oh, Y. Jang, J. Shin, Y. Yi, "Iterative Bayesian learning for crowdsourced regression", AISTATS
    2019. V. C. Raykar et al., "Learning from crowds", JMLR 11 (2010): worker noise without the hierarchy.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(200, 12, answers_per_task=5, seed=1, kind="numeric")
    >>> model = mh.numeric.GaussianCrowd().fit(crowd.log)
    >>> mean = mh.numeric.Mean().fit(crowd.log)
    >>> mh.metrics.rmse(model.values_, crowd.truth) < mh.metrics.rmse(mean.values_, crowd.truth)
    True
    """

    _fit_type: ClassVar[type[Fit]] = GaussianFit

    def __init__(
        self,
        *,
        bias: bool = True,
        scale: bool = True,
        noise: bool = True,
        tails: float | None = None,
        shrink: bool = True,
        method: str = "em",
        max_iter: int = 500,
        tol: float = 1e-6,
    ) -> None:
        self.bias = bias
        self.scale = scale
        self.noise = noise
        self.tails = tails
        self.shrink = shrink
        self.method = method
        self.max_iter = max_iter
        self.tol = tol

    def _structure(self) -> Structure:
        for name in ("bias", "scale", "noise", "shrink"):
            check_flag(name, getattr(self, name))
        check_choice("method", self.method, _METHODS)
        check_stopping(self.max_iter, self.tol)
        if self.tails is not None:
            check_number("tails", self.tails, least=1, most=1e6)
        messages = self.method == "messages"
        if messages and (self.tails is not None or not self.noise):
            raise ValueError("method='messages' requires noise=True and tails=None")
        freedom = None if self.tails is None else float(self.tails)
        return Structure(bool(self.bias), bool(self.scale), bool(self.noise), freedom, messages)

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        structure, units = self._structure(), Units.of(votes.table)
        crowd = fit(votes.table, units, structure, max_iter=self.max_iter, tol=self.tol, report=progress)
        warn_unless_converged(crowd.converged, self)
        values, spread = values_and_errors(votes.table, units, crowd, structure.freedom, shrink=bool(self.shrink))
        if structure.freedom is not None:
            spread = standard_errors_of(values, votes.table, units)
        return GaussianFit(
            moments=crowd.moments,
            prior=crowd.prior,
            unit=units.unit,
            centre=units.centre,
            values=units.back(values),
            errors=units.sizes(spread),
            **worker_parameters_of(crowd, units),
            history=np.array(crowd.history),
            n_iter=max(crowd.n_iter, 1),
            converged=crowd.converged,
            remarks=() if crowd.identifiable else (SINGLE_RATINGS_WARNING,),
        )

    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        parameters = now.fit_as(GaussianFit)
        units = Units(parameters.unit, parameters.centre)
        moments = np.stack([now.carried_over(of, known) for of in parameters.moments])
        prior = parameters.prior if self.shrink else parameters.prior * [1.0, 0.0]
        freedom = None if self.tails is None else float(self.tails)
        return units.back(predict_values(ratings.table, units, moments, prior, freedom))


def worker_parameters_of(crowd: Crowd, units: Units) -> dict[str, Array]:
    """Bias, scale and noise of workers in original units, (workers, dimensions)."""
    precision, scale, bias = (crowd.moments[..., place].T for place in range(3))
    return {
        "bias": units.sizes(bias + (scale - 1.0) * crowd.prior[:, 0]),
        "scale": np.ascontiguousarray(scale),
        "noise": units.sizes(1.0 / np.sqrt(precision)),
    }


#: Iterations of a prediction with heavy tails; each updates the weights of outliers.
_TAIL_PASSES = 20


def predict_values(
    table: _core.Ratings, units: Units, moments: Array, prior: Array, freedom: float | None = None
) -> Array:
    """Return values of tasks given worker parameters, (tasks, dimensions)."""
    columns = []
    for dim, (mean, precision) in enumerate(prior):
        pass_arguments = (*units.view(dim), np.ascontiguousarray(moments[dim]), (float(mean), float(precision)))
        tasks = table.gaussian_pass(*pass_arguments)[0]
        for _ in range(0 if freedom is None else _TAIL_PASSES):
            tasks = table.gaussian_pass(*pass_arguments, freedom=freedom, last=tasks)[0]
        columns.append(tasks[:, 0])
    return np.stack(columns, axis=1)


def values_and_errors(
    table: _core.Ratings, units: Units, crowd: Crowd, freedom: float | None, *, shrink: bool
) -> tuple[Array, Array]:
    """Return values and their standard errors given worker parameters, (tasks, dimensions) each.

    A value is a weighted sum of ratings. Its variance includes rating noise, the uncertainty of worker biases and
    scales, the prior, and the uncertainty of origin and unit.
    """
    values, errors = [], []
    for dim in range(table.dims):
        view, moments, (mean, precision) = units.view(dim), crowd.moments[dim], crowd.prior[dim]
        prior = (float(mean), float(precision) if shrink else 0.0)
        rest: dict[str, Any] = {}
        if freedom is not None:
            rest = {"freedom": freedom, "last": np.ascontiguousarray(crowd.tasks[dim])}
        tasks = table.gaussian_pass(*view, moments, prior, **rest)[0]
        weights = np.zeros_like(moments)
        weights[:, 0], weights[:, 3] = 1.0, _error_sums(moments, mean, 1.0 / precision)
        sums = table.gaussian_pass(*view, weights, (0.0, prior[1]))[0][:, 1]
        values.append(tasks[:, 0])
        # Without information from workers, the variance is that of the prior.
        informed = tasks[:, 1] > 0
        variance = np.divide(sums, tasks[:, 1] ** 2, out=np.full(len(sums), 1.0 / precision), where=informed)
        variance = np.maximum(variance, np.divide(1.0, tasks[:, 1], out=variance.copy(), where=informed))
        origin, unit = crowd.convention[dim]
        errors.append(np.sqrt(variance + origin + unit * (tasks[:, 0] - mean) ** 2))
    return np.stack(values, axis=1), np.stack(errors, axis=1)


def standard_errors_of(values: Array, table: _core.Ratings, units: Units) -> Array:
    """Return standard errors for values of another model, (tasks, dimensions), from `GaussianCrowd` with normal noise.

    They combine its standard errors with the difference between the values of both models.
    """
    crowd = fit(table, units, Structure(), max_iter=300, tol=1e-5)
    expected, errors = values_and_errors(table, units, crowd, None, shrink=True)
    return offset_errors(values - expected, errors, LEVEL)


def _error_sums(moments: Array, mean: float, variance: float) -> Array:
    """Contribution of a rating to the variance of precision · value: noise and uncertainty of the worker."""
    precision, a, b, aa, ab, bb = moments.T
    worker_variance = (bb - b * b) + 2.0 * mean * (ab - a * b) + (mean * mean + variance) * (aa - a * a)
    weight: Array = (precision * a) ** 2 * (1.0 / precision + np.maximum(worker_variance, 0.0))
    return weight
