"""The hierarchical Gaussian crowd: bias, scale and noise of every worker, with priors learnt from the crowd."""

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
from manyhands.numeric.simple import ALONE
from manyhands.numeric.table import Ratings

_METHODS = ("em", "messages")


@dataclass(frozen=True, kw_only=True)
class GaussianFit(ValueFit):
    """Moments of workers, and the prior of values, in units of their own."""

    moments: Array = field(metadata=numbers("dm6"))
    prior: Array = field(metadata=numbers("d2"))
    unit: Array = field(metadata=numbers("d"))
    centre: Array = field(metadata=numbers("d"))


class GaussianCrowd(NumericAggregator):
    """Ratings are a bias, plus a scale times the value, plus noise: all three a worker's own, shrunk to the crowd's.

    A rating is x = β + α·y + ε. Values y ~ N(μ, σ²), biases β ~ N(0, τ²), scales α ~ N(1, ω²); precisions of ε are
    Gamma-distributed among workers. μ, σ, τ, ω and the Gamma distribution are learnt with the rest (variational EM), so
    that a worker with few ratings is taken for an average one, and a crowd of equals for equals: then values are means.
    A worker who always says the same gets a scale near 0, and no influence.

    Parameters
    ----------
    bias, scale, noise
        Whether workers differ in bias, in scale, and in how noisy they are.
    tails
        Degrees of freedom of Student's t distribution, if noise is to have its heavier tails: single wild ratings then
        count less. None for normal noise.
    shrink
        Whether values are pulled towards their average by as much as they are uncertain, as is best for squared error
        if the model is right; if not, they are what the ratings alone say.
    method
        ``"em"``, or ``"messages"``, the Bayesian iteration of Ok et al. (2019): how precise a worker is on a task is
        told by the worker's other tasks alone, and what those were by all other workers (leave-one-out messages along
        the links). With ``bias=False, scale=False`` it is theirs but for the prior, which is learnt. It has no
        objective.
    max_iter, tol
        Stop after so many iterations, or when the lower bound of the evidence rises by less than `tol` a rating;
        without an objective (``tails``, ``"messages"``), when values move by less than `tol` of the ratings' standard
        deviation.

    Notes
    -----
    O(ratings) time a pass, memory O(tasks + workers), with messages O(ratings). Every rating has at least 10⁻⁴ of the
    crowd's variance of noise, and a worker's record of noise is shrunk by at least as much as two ratings tell.

    Points: each number of an answer has its own values, biases, scales and level of noise; a worker is as many times
    more precise than the crowd in one of them as in all others, which all of them tell.

    Standard errors include what is not known of biases and scales, of each worker for itself, and of the crowd's origin
    and unit: with few workers, their average bias and scale is not that of all workers who might have been asked.
    Repeated ratings of a task by the same worker count as independent. With `tails` they are those of the model with
    normal noise, widened by how far its values are from these, at the cost of fitting it too. 90 % intervals held 87 to
    94 % of simulated values, those of ``"messages"`` 93 to 96 % (docs/evidence/coverage.md).

    References
    ----------
    J. Ok, S. Oh, Y. Jang, J. Shin, Y. Yi, "Iterative Bayesian learning for crowdsourced regression", AISTATS
    2019. V. C. Raykar et al., "Learning from crowds", JMLR 11 (2010): noise a worker, without the hierarchy.

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
            raise ValueError("method='messages' is about how noisy workers are: it needs noise=True and tails=None")
        freedom = None if self.tails is None else float(self.tails)
        return Structure(bool(self.bias), bool(self.scale), bool(self.noise), freedom, messages)

    def _fit(self, votes: Ratings, progress: Callback | None) -> ValueFit:
        structure, units = self._structure(), Units.of(votes.table)
        crowd = fit(votes.table, units, structure, max_iter=self.max_iter, tol=self.tol, report=progress)
        warn_unless_converged(crowd.converged, self)
        values, spread = read_off(votes.table, units, crowd, structure.freedom, shrink=bool(self.shrink))
        if structure.freedom is not None:
            spread = errors_about(values, votes.table, units)
        return GaussianFit(
            moments=crowd.moments,
            prior=crowd.prior,
            unit=units.unit,
            centre=units.centre,
            values=units.back(values),
            errors=units.sizes(spread),
            **workers_of(crowd, units),
            history=np.array(crowd.history),
            n_iter=max(crowd.n_iter, 1),
            converged=crowd.converged,
            remarks=() if crowd.told else (ALONE,),
        )

    def _predict(self, now: ValueFitted, ratings: Ratings, known: npt.NDArray[np.int64]) -> Array:
        learnt = now.fit_as(GaussianFit)
        units = Units(learnt.unit, learnt.centre)
        moments = np.stack([now.carried_over(of, known) for of in learnt.moments])
        prior = learnt.prior if self.shrink else learnt.prior * [1.0, 0.0]
        freedom = None if self.tails is None else float(self.tails)
        return units.back(predicted(ratings.table, units, moments, prior, freedom))


def workers_of(crowd: Crowd, units: Units) -> dict[str, Array]:
    """Bias, scale and noise of workers, in the units of their ratings: (workers, numbers)."""
    precision, scale, bias = (crowd.moments[..., place].T for place in range(3))
    return {
        "bias": units.sizes(bias + (scale - 1.0) * crowd.prior[:, 0]),
        "scale": np.ascontiguousarray(scale),
        "noise": units.sizes(1.0 / np.sqrt(precision)),
    }


#: Passes of a prediction with heavy tails: each says anew which ratings are wild.
_TAIL_PASSES = 20


def predicted(table: _core.Ratings, units: Units, moments: Array, prior: Array, freedom: float | None = None) -> Array:
    """Values of tasks given workers, (tasks, numbers)."""
    columns = []
    for dim, (mean, precision) in enumerate(prior):
        given = (*units.view(dim), np.ascontiguousarray(moments[dim]), (float(mean), float(precision)))
        tasks = table.gaussian_pass(*given)[0]
        for _ in range(0 if freedom is None else _TAIL_PASSES):
            tasks = table.gaussian_pass(*given, freedom=freedom, last=tasks)[0]
        columns.append(tasks[:, 0])
    return np.stack(columns, axis=1)


def read_off(
    table: _core.Ratings, units: Units, crowd: Crowd, freedom: float | None, *, shrink: bool
) -> tuple[Array, Array]:
    """Values and their standard errors, given workers: (tasks, numbers) each.

    A value is a weighted sum of ratings; its error has the variance of their noise and of what is not known of their
    workers' biases and scales, of the prior, and of the origin and unit of the crowd.
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
        # With nobody to tell, a value may be anything that values are.
        known = tasks[:, 1] > 0
        variance = np.divide(sums, tasks[:, 1] ** 2, out=np.full(len(sums), 1.0 / precision), where=known)
        variance = np.maximum(variance, np.divide(1.0, tasks[:, 1], out=variance.copy(), where=known))
        origin, unit = crowd.convention[dim]
        errors.append(np.sqrt(variance + origin + unit * (tasks[:, 0] - mean) ** 2))
    return np.stack(values, axis=1), np.stack(errors, axis=1)


def errors_about(values: Array, table: _core.Ratings, units: Units) -> Array:
    """Standard errors of values of another model, (tasks, numbers), by `GaussianCrowd` with normal noise.

    Its own error, and how far the values are from what it expects.
    """
    crowd = fit(table, units, Structure(), max_iter=300, tol=1e-5)
    expected, errors = read_off(table, units, crowd, None, shrink=True)
    return offset_errors(values - expected, errors, LEVEL)


def _error_sums(moments: Array, mean: float, variance: float) -> Array:
    """What a rating adds to the variance of precision times value: noise, and what is not known of its worker."""
    precision, a, b, aa, ab, bb = moments.T
    unknown = (bb - b * b) + 2.0 * mean * (ab - a * b) + (mean * mean + variance) * (aa - a * a)
    weight: Array = (precision * a) ** 2 * (1.0 / precision + np.maximum(unknown, 0.0))
    return weight
