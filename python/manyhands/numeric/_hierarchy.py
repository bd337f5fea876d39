"""Variational EM for the hierarchical Gaussian model of tasks, workers and priors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands._base.iteration import iterate
from manyhands._base.special import digamma, log_gamma
from manyhands.metrics.intervals import student_quantile
from manyhands.numeric._units import Units
from manyhands.numeric.base import LEVEL
from manyhands.numeric.simple import pooled_variance

#: Minimum noise variance of a rating, relative to the average: ratings on a grid are never exact.
_FLOOR = 1e-4
#: Bounds of the Gamma shape of worker precisions; the lower bound corresponds to two ratings of shrinkage.
_SHAPES = (1.0, 1e6)
#: Lower bound of estimated prior variances, relative to the variance of the ratings.
_LEAST = 1e-8


class Structure(NamedTuple):
    """Which worker parameters vary, and the noise distribution."""

    bias: bool = True
    scale: bool = True
    noise: bool = True
    #: Degrees of freedom of Student's t noise; None for normal noise.
    freedom: float | None = None
    #: Estimate a worker's precision for a rating from the other ratings of the worker (message passing).
    messages: bool = False


@dataclass
class Crowd:
    """State of tasks and workers, in the units of `Units`; axes are dimensions, then tasks or workers."""

    #: λ, E[α], E[β], E[α²], E[αβ] and E[β²] of each worker, (dimensions, workers, 6): the input of an iteration.
    moments: Array
    #: Prior mean and precision of values, (dimensions, 2).
    prior: Array
    #: Value and precision of each task, (dimensions, tasks, 2).
    tasks: Array
    history: list[float]
    n_iter: int
    converged: bool
    #: Whether any task has two ratings; otherwise noise cannot be estimated.
    identifiable: bool
    #: Sampling variances of the crowd's origin and unit, (dimensions, 2).
    convention: Array


def start(table: _core.Ratings, units: Units) -> tuple[Crowd, Array]:
    """Initial point: task means, and the noise precision of each dimension."""
    d, m = table.dims, table.n_workers
    moments = np.zeros((d, m, 6))
    moments[..., 1] = moments[..., 3] = 1.0
    tasks, prior, precision, identifiable = np.empty((d, table.n_tasks, 2)), np.empty((d, 2)), np.empty(d), True
    for dim in range(d):
        means, _ = table.spread(*units.view(dim))
        variance = pooled_variance(means)
        identifiable = identifiable and variance is not None
        precision[dim] = 1.0 / max(1.0 if variance is None else variance, _LEAST)
        has_ratings = means[:, 0] > 0
        centre = float(means[has_ratings, 1].mean()) if has_ratings.any() else 0.0
        signal = (
            float(np.var(means[has_ratings, 1])) - float((means[has_ratings, 3] / precision[dim]).mean())
            if has_ratings.any()
            else 1.0
        )
        prior[dim] = centre, 1.0 / max(signal, 0.05)
        tasks[dim] = np.stack([means[:, 1], means[:, 0] * precision[dim]], axis=1)
        moments[dim, :, 0] = precision[dim]
    return Crowd(moments, prior, tasks, [], 0, False, identifiable, np.zeros((d, 2))), precision


def fit(
    table: _core.Ratings,
    units: Units,
    structure: Structure,
    *,
    max_iter: int,
    tol: float,
    report: Callable[[int, float], object] | None = None,
) -> Crowd:
    """Estimate workers and their priors. The scale is fixed by the average worker, with scale 1 and bias 0.

    If no task has two ratings, worker parameters are not estimated.
    """
    crowd, precision = start(table, units)
    if not crowd.identifiable:
        crowd.converged = True
        for dim in range(table.dims):
            crowd.tasks[dim] = table.gaussian_pass(*units.view(dim), crowd.moments[dim], tuple(crowd.prior[dim]))[0]
        return crowd
    loop = _Loop(table, units, structure, crowd, precision)
    plain = structure.freedom is None and not structure.messages

    def step(_: int) -> tuple[float, float]:
        if not plain:
            before = crowd.tasks[..., 0].copy()
            loop.step()
            change = float(np.sqrt(np.mean((crowd.tasks[..., 0] - before) ** 2)))
            return change, -change
        objective = loop.step()
        gain = abs(objective - crowd.history[-1]) / loop.total if crowd.history else math.inf
        crowd.history.append(objective)
        return gain, objective

    crowd.n_iter, crowd.converged = iterate(step, max_iter, tol, report)
    crowd.convention[:] = loop.convention()
    return crowd


class _Loop:
    """State of the iterations that is not part of the result."""

    def __init__(
        self, table: _core.Ratings, units: Units, structure: Structure, crowd: Crowd, precision: Array
    ) -> None:
        self.table, self.units, self.structure, self.crowd, self.precision = table, units, structure, crowd, precision
        self.weights = table.weights()
        tasks, self.by, _ = table.columns()
        self.counts = np.bincount(self.by, self.weights, table.n_workers).astype(np.float64)
        self.total = float(self.counts.sum())
        rated = np.bincount(tasks, self.weights, table.n_tasks) > 0
        # A slice avoids copying in the usual case.
        self.rated: slice | npt.NDArray[np.bool_] = slice(None) if rated.all() else rated
        self.active = self.counts > 0
        noise = 1.0 / precision
        self.floor = _FLOOR * noise
        self.bias_variance = 0.1 * noise
        self.scale_variance = np.full(table.dims, 0.05)
        self.shape = 5.0
        self.skill = np.ones(table.n_workers)
        self.log_skill = np.zeros(table.n_workers)
        self.residuals = [np.full(table.n_annotations, variance) for variance in noise]

    def step(self) -> float:
        """Run one iteration; return the evidence lower bound up to a constant."""
        squares = np.empty((self.table.dims, self.table.n_workers))
        bound = 0.0
        for dim in range(self.table.dims):
            sums = self._pass(dim)
            bound += self._update_values(dim)
            bound += self._update_workers(dim, sums)
            squares[dim] = (
                sums[:, 6] if self.structure.messages else self._squares(dim, sums)
            ) + self.counts * self.floor[dim]
        bound += self._update_noise(squares)
        self.crowd.moments[..., 0] = self.skill * self.precision[:, None]
        return bound

    def _pass(self, dim: int) -> Array:
        crowd, view = self.crowd, self.units.view(dim)
        prior = (float(crowd.prior[dim, 0]), float(crowd.prior[dim, 1]))
        rest: dict[str, npt.NDArray[np.float64] | float] = {}
        if self.structure.freedom is not None:
            rest = {"freedom": float(self.structure.freedom), "last": np.ascontiguousarray(crowd.tasks[dim])}
        elif self.structure.messages:
            # Shape and rate of a worker's precision, in units of the noise of the dimension. The rate uses the same
            # residuals that the pass removes one of, so the remaining rate is positive.
            shape = self.shape + self.table.dims * self.counts / 2
            rate = (self.shape + self._relative_residuals() / 2) / self.precision[dim]
            rest = {"shapes": np.stack([shape, rate], axis=1), "residuals": self.residuals[dim]}
        tasks, sums, residuals = self.table.gaussian_pass(*view, crowd.moments[dim], prior, **rest)  # type: ignore[arg-type]
        if self.structure.messages:
            self.residuals[dim] = residuals
        crowd.tasks[dim] = tasks
        return sums

    def _relative_residuals(self) -> Array:
        """Squared leave-one-out residuals per worker, relative to the noise, summed over dimensions."""
        sums = np.zeros(self.table.n_workers)
        for residuals, precision, floor in zip(self.residuals, self.precision, self.floor, strict=True):
            weighted = residuals if self.weights is None else residuals * self.weights
            sums += precision * (np.bincount(self.by, weighted, len(sums)) + self.counts * floor)
        return sums

    def convention(self) -> Array:
        """Return the sampling variances of the origin and unit of the scale, (dimensions, 2).

        Origin and unit are only identified by the worker priors: they are averages over the biases (or scales) of the
        workers, each with the variance between workers plus its estimation error. Because the variance between workers
        is estimated, quantiles are those of Student's t.
        """
        precision_sums = self.counts[self.active] * self.crowd.moments[:, self.active, 0]
        used = (self.structure.bias, self.structure.scale)
        variances = np.stack([self.bias_variance, self.scale_variance])
        # Scale information depends on the variance of the values.
        information = np.stack([precision_sums, precision_sums / self.crowd.prior[:, 1, None]])
        variance = 1.0 / (1.0 / (variances[..., None] + 1.0 / information)).sum(axis=-1)
        small_sample_factor = student_quantile(LEVEL, int(self.active.sum()) - 1) / student_quantile(LEVEL, None)
        return np.where(used, variance.T * small_sample_factor**2, 0.0)

    # ------------------------------------------------------------------------------------------------- tasks

    def _update_values(self, dim: int) -> float:
        """Update the prior of the values; return their part of the bound."""
        values, precision = self.crowd.tasks[dim, self.rated].T
        n = len(values)
        centered = values - float(values.mean())
        squares = float(centered @ centered + (1.0 / precision).sum())
        prior = 1.0 / max(squares / n, _LEAST)
        self.crowd.prior[dim] = float(values.mean()), prior
        return 0.5 * (n * (math.log(prior) + 1.0) - prior * squares - float(np.log(precision).sum()))

    # ----------------------------------------------------------------------------------------------- workers

    def _update_workers(self, dim: int, sums: Array) -> float:
        """Update bias and scale of each worker and their variances; return their part of the bound."""
        n, x, _, y, yy, xy = sums[:, :6].T
        moments = self.crowd.moments[dim]
        precision = moments[:, 0]
        bias_prior = 1.0 / self.bias_variance[dim] if self.structure.bias else 0.0
        scale_prior = 1.0 / self.scale_variance[dim] if self.structure.scale else 0.0
        # Normal equations for bias and scale - 1.
        rest, rest_y = precision * (x - y), precision * (xy - yy)
        bb, ba, aa = precision * n + bias_prior, precision * y, precision * yy + scale_prior
        zero = np.zeros_like(bb)
        if self.structure.bias and self.structure.scale:
            # The determinant as a sum of non-negative terms, which cannot cancel.
            determinant = precision**2 * np.maximum(n * yy - y * y, 0.0) + bias_prior * aa + scale_prior * precision * n
            bias, scale_offset = (aa * rest - ba * rest_y) / determinant, (bb * rest_y - ba * rest) / determinant
            var_b, var_a, cov = aa / determinant, bb / determinant, -ba / determinant
            entropy = -0.5 * np.log(determinant)
        elif self.structure.bias:
            bias, scale_offset, var_b, var_a, cov, entropy = rest / bb, zero, 1.0 / bb, zero, zero, -0.5 * np.log(bb)
        elif self.structure.scale:
            bias, scale_offset, var_b, var_a, cov, entropy = zero, rest_y / aa, zero, 1.0 / aa, zero, -0.5 * np.log(aa)
        else:
            bias = scale_offset = var_b = var_a = cov = entropy = zero
        scale = 1.0 + scale_offset
        moments[:, 1:] = np.stack([scale, bias, scale**2 + var_a, scale * bias + cov, bias**2 + var_b], axis=1)
        return self._update_priors(dim, bias, scale_offset, var_b, var_a, entropy)

    def _update_priors(
        self, dim: int, bias: Array, scale_offset: Array, var_b: Array, var_a: Array, entropy: Array
    ) -> float:
        here, bound = self.active, float(entropy[self.active].sum())
        for used, variances, squares in (
            (self.structure.bias, self.bias_variance, bias**2 + var_b),
            (self.structure.scale, self.scale_variance, scale_offset**2 + var_a),
        ):
            if used:
                variances[dim] = max(float(squares[here].mean()), _LEAST)
                bound += float((0.5 - 0.5 * math.log(variances[dim]) - 0.5 * squares[here] / variances[dim]).sum())
        return bound

    def _squares(self, dim: int, sums: Array) -> Array:
        """Expected squared residuals of each worker at the current bias and scale."""
        n, x, xx, y, yy, xy = sums[:, :6].T
        _, a, b, aa, ab, bb = self.crowd.moments[dim].T
        squares: Array = np.maximum(xx - 2 * b * x - 2 * a * xy + 2 * ab * y + bb * n + aa * yy, 0.0)
        return squares

    def _update_noise(self, squares: Array) -> float:
        """Update worker precisions (shared by all dimensions), their prior, and the precision of each dimension."""
        here, d = self.active, self.table.dims
        relative = (squares * self.precision[:, None]).sum(axis=0)
        bound = 0.0
        if self.structure.noise:
            shape = self.shape + d * self.counts / 2
            rate = self.shape + relative / 2
            self.skill = shape / rate
            self.log_skill = digamma(shape) - np.log(rate)
            entropy = shape - np.log(rate) + log_gamma(shape) + (1.0 - shape) * digamma(shape)
            self.shape = _best_shape(float((self.log_skill - self.skill)[here].mean()))
            log_normalizer = self.shape * math.log(self.shape) - math.lgamma(self.shape)
            prior = log_normalizer + (self.shape - 1.0) * self.log_skill - self.shape * self.skill
            bound += float((prior + entropy)[here].sum())
        self.precision = self.total / np.maximum((squares * self.skill).sum(axis=1), _LEAST * self.total)
        likelihood = 0.5 * self.counts * self.log_skill * d + 0.5 * self.counts * np.log(self.precision).sum()
        return bound + float((likelihood - 0.5 * self.skill * (squares * self.precision[:, None]).sum(axis=0)).sum())


def _best_shape(mean: float) -> float:
    """Shape of the mean-one Gamma distribution with the greatest expected log-density, given E[log λ − λ]."""
    low, high = _SHAPES
    while high > low * (1.0 + 1e-13):
        middle = math.sqrt(low * high)
        slope = math.log(middle) + 1.0 - _digamma_of_one(middle) + mean
        low, high = (middle, high) if slope > 0 else (low, middle)
    return math.sqrt(low * high)


def _digamma_of_one(x: float) -> float:
    """Scalar `digamma`, much faster than the array version."""
    total = 0.0
    while x < 8.0:
        total -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132))))
    return total + math.log(x) - 0.5 / x - series
