"""The loop of the hierarchical Gaussian model: tasks given workers, workers given tasks, priors given workers."""

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

#: Share of the crowd's noise that every rating has at the least: answers on a grid are never exact.
_FLOOR = 1e-4
#: A worker's record of noise is shrunk to the crowd's by at least as much as two ratings tell.
_SHAPES = (1.0, 1e6)
#: Variances of priors are not learnt below this, in units of the ratings' variance.
_LEAST = 1e-8


class Structure(NamedTuple):
    """What workers may differ in, and how noise is distributed."""

    bias: bool = True
    scale: bool = True
    noise: bool = True
    #: Degrees of freedom of Student's t; None for normal noise.
    freedom: float | None = None
    #: Whether a rating's precision is told by all other ratings of its worker (messages), or by all.
    messages: bool = False


@dataclass
class Crowd:
    """What is known of tasks and workers, in the units of `Units`; axes are numbers, then tasks or workers."""

    #: λ, E[α], E[β], E[α²], E[αβ] and E[β²] of each worker, (numbers, workers, 6): what a pass takes.
    moments: Array
    #: Mean and precision of the prior of values, (numbers, 2).
    prior: Array
    #: Value and precision of each task, (numbers, tasks, 2).
    tasks: Array
    history: list[float]
    n_iter: int
    converged: bool
    #: Whether any task has two ratings; if not, there is no noise to learn.
    told: bool
    #: Variances of the crowd's origin and of its unit about those of the workers it was drawn from, (numbers, 2).
    convention: Array


def start(table: _core.Ratings, units: Units) -> tuple[Crowd, Array]:
    """The plain means, and the precision of noise of each number."""
    d, m = table.dims, table.n_workers
    moments = np.zeros((d, m, 6))
    moments[..., 1] = moments[..., 3] = 1.0
    tasks, prior, precision, told = np.empty((d, table.n_tasks, 2)), np.empty((d, 2)), np.empty(d), True
    for dim in range(d):
        means, _ = table.spread(*units.view(dim))
        variance = pooled_variance(means)
        told = told and variance is not None
        precision[dim] = 1.0 / max(1.0 if variance is None else variance, _LEAST)
        known = means[:, 0] > 0
        centre = float(means[known, 1].mean()) if known.any() else 0.0
        signal = (
            float(np.var(means[known, 1])) - float((means[known, 3] / precision[dim]).mean()) if known.any() else 1.0
        )
        prior[dim] = centre, 1.0 / max(signal, 0.05)
        tasks[dim] = np.stack([means[:, 1], means[:, 0] * precision[dim]], axis=1)
        moments[dim, :, 0] = precision[dim]
    return Crowd(moments, prior, tasks, [], 0, False, told, np.zeros((d, 2))), precision


def fit(
    table: _core.Ratings,
    units: Units,
    structure: Structure,
    *,
    max_iter: int,
    tol: float,
    report: Callable[[int, float], object] | None = None,
) -> Crowd:
    """Learn workers and their priors; values stay on the crowd's scale, whose average worker has scale 1 and bias 0.

    Where no task has two ratings, nothing is learnt of workers.
    """
    crowd, precision = start(table, units)
    if not crowd.told:
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
    """What an iteration needs besides the crowd."""

    def __init__(
        self, table: _core.Ratings, units: Units, structure: Structure, crowd: Crowd, precision: Array
    ) -> None:
        self.table, self.units, self.structure, self.crowd, self.precision = table, units, structure, crowd, precision
        self.weights = table.weights()
        tasks, self.by, _ = table.columns()
        self.counts = np.bincount(self.by, self.weights, table.n_workers).astype(np.float64)
        self.total = float(self.counts.sum())
        rated = np.bincount(tasks, self.weights, table.n_tasks) > 0
        # All of them without a copy, as a rule.
        self.rated: slice | npt.NDArray[np.bool_] = slice(None) if rated.all() else rated
        self.working = self.counts > 0
        noise = 1.0 / precision
        self.floor = _FLOOR * noise
        self.bias_variance = 0.1 * noise
        self.scale_variance = np.full(table.dims, 0.05)
        self.shape = 5.0
        self.skill = np.ones(table.n_workers)
        self.log_skill = np.zeros(table.n_workers)
        self.residuals = [np.full(table.n_annotations, variance) for variance in noise]

    def step(self) -> float:
        """One iteration; returns the lower bound of the evidence, up to a constant."""
        squares = np.empty((self.table.dims, self.table.n_workers))
        bound = 0.0
        for dim in range(self.table.dims):
            sums = self._pass(dim)
            bound += self._learn_values(dim)
            bound += self._learn_workers(dim, sums)
            squares[dim] = (
                sums[:, 6] if self.structure.messages else self._squares(dim, sums)
            ) + self.counts * self.floor[dim]
        bound += self._learn_noise(squares)
        self.crowd.moments[..., 0] = self.skill * self.precision[:, None]
        return bound

    def _pass(self, dim: int) -> Array:
        crowd, view = self.crowd, self.units.view(dim)
        prior = (float(crowd.prior[dim, 0]), float(crowd.prior[dim, 1]))
        rest: dict[str, npt.NDArray[np.float64] | float] = {}
        if self.structure.freedom is not None:
            rest = {"freedom": float(self.structure.freedom), "last": np.ascontiguousarray(crowd.tasks[dim])}
        elif self.structure.messages:
            # In units of the number's noise, a worker's precision has this shape and rate: of the very residuals that
            # the pass takes one out of, so that what the others leave of the rate is above 0.
            shape = self.shape + self.table.dims * self.counts / 2
            rate = (self.shape + self._relative_residuals() / 2) / self.precision[dim]
            rest = {"shapes": np.stack([shape, rate], axis=1), "residuals": self.residuals[dim]}
        tasks, sums, residuals = self.table.gaussian_pass(*view, crowd.moments[dim], prior, **rest)  # type: ignore[arg-type]
        if self.structure.messages:
            self.residuals[dim] = residuals
        crowd.tasks[dim] = tasks
        return sums

    def _relative_residuals(self) -> Array:
        """Squared residuals by the other workers, of each worker and in units of the noise, over all numbers."""
        sums = np.zeros(self.table.n_workers)
        for own, precision, floor in zip(self.residuals, self.precision, self.floor, strict=True):
            counted = own if self.weights is None else own * self.weights
            sums += precision * (np.bincount(self.by, counted, len(sums)) + self.counts * floor)
        return sums

    def convention(self) -> Array:
        """Variances of the origin and of the unit, (numbers, 2).

        Nothing but the workers' priors says where 0 is and how long 1: an average of as many biases, or scales, as
        there are workers, each as uncertain as workers vary and as its own ratings leave it. By how much workers vary
        is itself estimated from them: quantiles are those of Student's t.
        """
        own = self.counts[self.working] * self.crowd.moments[:, self.working, 0]
        used = (self.structure.bias, self.structure.scale)
        variances = np.stack([self.bias_variance, self.scale_variance])
        # A scale is known by how far the values are spread, in whose units it is.
        told = np.stack([own, own / self.crowd.prior[:, 1, None]])
        found = 1.0 / (1.0 / (variances[..., None] + 1.0 / told)).sum(axis=-1)
        few = student_quantile(LEVEL, int(self.working.sum()) - 1) / student_quantile(LEVEL, None)
        return np.where(used, found.T * few**2, 0.0)

    # ------------------------------------------------------------------------------------------------- tasks

    def _learn_values(self, dim: int) -> float:
        """The prior of the values; returns their bound."""
        values, precision = self.crowd.tasks[dim, self.rated].T
        n = len(values)
        away = values - float(values.mean())
        squares = float(away @ away + (1.0 / precision).sum())
        prior = 1.0 / max(squares / n, _LEAST)
        self.crowd.prior[dim] = float(values.mean()), prior
        return 0.5 * (n * (math.log(prior) + 1.0) - prior * squares - float(np.log(precision).sum()))

    # ----------------------------------------------------------------------------------------------- workers

    def _learn_workers(self, dim: int, sums: Array) -> float:
        """Bias and scale of each worker, and then how much they vary among workers; returns their bound."""
        known, x, _, y, yy, xy = sums[:, :6].T
        moments = self.crowd.moments[dim]
        precision = moments[:, 0]
        bias_prior = 1.0 / self.bias_variance[dim] if self.structure.bias else 0.0
        scale_prior = 1.0 / self.scale_variance[dim] if self.structure.scale else 0.0
        # Normal equations for bias and scale - 1.
        rest, rest_y = precision * (x - y), precision * (xy - yy)
        bb, ba, aa = precision * known + bias_prior, precision * y, precision * yy + scale_prior
        zero = np.zeros_like(bb)
        if self.structure.bias and self.structure.scale:
            # The determinant as a sum of what cannot be negative: a difference of products may round to nothing.
            size = (
                precision**2 * np.maximum(known * yy - y * y, 0.0) + bias_prior * aa + scale_prior * precision * known
            )
            bias, more = (aa * rest - ba * rest_y) / size, (bb * rest_y - ba * rest) / size
            var_b, var_a, cov = aa / size, bb / size, -ba / size
            entropy = -0.5 * np.log(size)
        elif self.structure.bias:
            bias, more, var_b, var_a, cov, entropy = rest / bb, zero, 1.0 / bb, zero, zero, -0.5 * np.log(bb)
        elif self.structure.scale:
            bias, more, var_b, var_a, cov, entropy = zero, rest_y / aa, zero, 1.0 / aa, zero, -0.5 * np.log(aa)
        else:
            bias = more = var_b = var_a = cov = entropy = zero
        scale = 1.0 + more
        moments[:, 1:] = np.stack([scale, bias, scale**2 + var_a, scale * bias + cov, bias**2 + var_b], axis=1)
        return self._learn_priors(dim, bias, more, var_b, var_a, entropy)

    def _learn_priors(self, dim: int, bias: Array, more: Array, var_b: Array, var_a: Array, entropy: Array) -> float:
        here, bound = self.working, float(entropy[self.working].sum())
        for used, variances, squares in (
            (self.structure.bias, self.bias_variance, bias**2 + var_b),
            (self.structure.scale, self.scale_variance, more**2 + var_a),
        ):
            if used:
                variances[dim] = max(float(squares[here].mean()), _LEAST)
                bound += float((0.5 - 0.5 * math.log(variances[dim]) - 0.5 * squares[here] / variances[dim]).sum())
        return bound

    def _squares(self, dim: int, sums: Array) -> Array:
        """Expected squared residuals of each worker, with bias and scale as they are now."""
        known, x, xx, y, yy, xy = sums[:, :6].T
        _, a, b, aa, ab, bb = self.crowd.moments[dim].T
        squares: Array = np.maximum(xx - 2 * b * x - 2 * a * xy + 2 * ab * y + bb * known + aa * yy, 0.0)
        return squares

    def _learn_noise(self, squares: Array) -> float:
        """The precision of each worker, shared by all numbers of an answer, its prior, and each number's own."""
        here, d = self.working, self.table.dims
        relative = (squares * self.precision[:, None]).sum(axis=0)
        bound = 0.0
        if self.structure.noise:
            shape = self.shape + d * self.counts / 2
            rate = self.shape + relative / 2
            self.skill = shape / rate
            self.log_skill = digamma(shape) - np.log(rate)
            entropy = shape - np.log(rate) + log_gamma(shape) + (1.0 - shape) * digamma(shape)
            self.shape = _best_shape(float((self.log_skill - self.skill)[here].mean()))
            own = self.shape * math.log(self.shape) - math.lgamma(self.shape)
            prior = own + (self.shape - 1.0) * self.log_skill - self.shape * self.skill
            bound += float((prior + entropy)[here].sum())
        self.precision = self.total / np.maximum((squares * self.skill).sum(axis=1), _LEAST * self.total)
        likelihood = 0.5 * self.counts * self.log_skill * d + 0.5 * self.counts * np.log(self.precision).sum()
        return bound + float((likelihood - 0.5 * self.skill * (squares * self.precision[:, None]).sum(axis=0)).sum())


def _best_shape(mean: float) -> float:
    """The shape of the Gamma distribution of mean 1 whose expected log-density is greatest, given E[log λ − λ]."""
    low, high = _SHAPES
    while high > low * (1.0 + 1e-13):
        middle = math.sqrt(low * high)
        slope = math.log(middle) + 1.0 - _digamma_of_one(middle) + mean
        low, high = (middle, high) if slope > 0 else (low, middle)
    return math.sqrt(low * high)


def _digamma_of_one(x: float) -> float:
    """The same as `digamma` of one number, many times sooner."""
    total = 0.0
    while x < 8.0:
        total -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132))))
    return total + math.log(x) - 0.5 / x - series
