"""Known values that correct the default: ridge regressions on its values and on each worker's ratings.

    value = intercept + slope · default + Σ_j weight[j] · z_ij,

with z_ij the standardized rating of worker j on task i, 0 where there is none. The priors state that the default is
right up to origin and unit. Three such regressions (without workers, and with two strengths of the prior) are averaged
with the default by the weights that predict held-out known values best, as far as they do so beyond noise. Where all
known values are 0 or 1, regressions are logistic and values are probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import plural
from manyhands._base.estimator import Array
from manyhands._base.fitted import number, numbers, setting, texts
from manyhands.metrics.matching import match_answers
from manyhands.numeric._weights import least_squares_on_simplex, shrink
from manyhands.numeric.table import Ratings

Ints = npt.NDArray[np.int64]

#: Prior precision of each worker's weight, in units of the residual variance or of a logit; None without workers.
_STRENGTHS: dict[bool, tuple[float | None, ...]] = {False: (None, 60.0, 15.0), True: (8.0, 2.0, None)}
#: Prior precision of intercept and slope: known tasks with errors as large as the residuals, or one logit.
_PRECISION = {False: 3.0, True: 1.0}
#: A default whose squared errors are that many times those of the mean of the known values is on another scale.
_OTHER_SCALE = 16.0
#: From this number of known values on.
_FEWEST_OTHER = 10
#: Pseudo-ratings by which origin and unit of a worker are shrunk to those of all.
_RATINGS = 5.0
#: With fewer known values the default keeps a weight of at least 1 - n / 20.
FULL_AT = 20
_FOLDS = 5
#: Known tasks that regressions use at most, evenly spaced.
_MOST_TASKS = 2000
#: Pseudo-counts of what errors are on known tasks, next to what was stated.
_ERRORS, _NOISE = 10.0, 10.0
_NEWTON_STEPS = 25
#: Known tasks from which a contradiction is reported, and its size in standard deviations.
_LEAST_KNOWN, _SURPRISE = 5, 3.0


@dataclass(frozen=True)
class KnownValues:
    """Known values of some tasks: their places, values (n_known, n_dims), and names of 0 and 1 that are classes."""

    tasks: Ints
    values: Array
    classes: tuple[str, ...] = ()

    @property
    def binary(self) -> bool:
        """Whether values are probabilities of 0 or 1."""
        return bool(self.classes) or bool(np.isin(self.values, (0.0, 1.0)).all() and len(np.unique(self.values)) == 2)

    @classmethod
    def of(cls, ratings: Ratings, gold: Any) -> Self | None:
        """Match known values or classes to the tasks of a table."""
        if gold is None:
            return None
        tasks, answers = match_answers(ratings.tasks, gold, "value")
        if all(isinstance(one, bool | np.bool_) for one in answers):
            answers = [float(one) for one in answers]
        names = list(dict.fromkeys(one for one in answers if isinstance(one, str) and not _is_number(one)))
        if names:
            return cls._of_classes(tasks, answers, ratings)
        try:
            values = np.array([np.asarray(one, np.float64) for one in answers], np.float64).reshape(len(tasks), -1)
        except (TypeError, ValueError):
            raise ValueError(
                f"gold must hold a number per task ({ratings.n_dims} for points) or two classes, not {answers[0]!r}"
            ) from None
        if values.shape[1] != ratings.n_dims:
            raise ValueError(
                f"gold has {plural(values.shape[1], 'number')} per task, and ratings have {ratings.n_dims}"
            )
        if not np.isfinite(values).all():
            place = int(np.argmin(np.isfinite(values).all(axis=1)))
            task = ratings.tasks[tasks[place : place + 1]].tolist()[0]
            raise ValueError(f"gold of task {task!r} is not a finite number")
        return cls(tasks, values)

    @classmethod
    def _of_classes(cls, tasks: Ints, answers: list[Any], ratings: Ratings) -> Self:
        """Two classes as 0 and 1; the one with higher ratings is 1."""
        names = sorted({str(one) for one in answers})
        if len(names) != 2 or ratings.n_dims != 1:
            raise ValueError(
                f"ratings can tell two classes apart, and gold has {plural(len(names), 'class', 'classes')}: "
                f"{', '.join(map(repr, names[:5]))}; give gold of two classes, or numbers"
            )
        code = np.array([names.index(str(one)) for one in answers], np.float64)
        of, _, ratings_given = ratings.codes()
        sums = np.bincount(of, np.ravel(ratings_given), ratings.n_tasks)
        mean = (sums / np.maximum(np.bincount(of, minlength=ratings.n_tasks), 1))[tasks]
        if mean[code == 1].mean() < mean[code == 0].mean():
            names, code = names[::-1], 1.0 - code
        return cls(tasks, code[:, None], tuple(names))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class ValueAnchor:
    """What known values taught: a linear map of the default's values and the workers' ratings."""

    intercept: Array = field(metadata=numbers("d"))
    slope: Array = field(metadata=numbers("d"))
    #: Weight of each worker's standardized ratings, and their origin and unit.
    weights: Array = field(metadata=numbers("md"))
    origin: Array = field(metadata=numbers("md"))
    unit: Array = field(metadata=numbers("md"))
    #: Factor of the default's standard errors.
    stretch: Array = field(metadata=numbers("d", least=0))
    #: Whether values are probabilities of 1, and the names of 0 and 1.
    binary: bool = field(metadata=setting(bool))
    classes: tuple[str, ...] = field(metadata=texts())
    #: Answers of each worker to known tasks, and the number of these.
    n_seen: Array = field(metadata=numbers("m", least=0))
    n_known_tasks: float = field(metadata=number(least=0))

    @property
    def n_known(self) -> int:
        """Number of known tasks."""
        return int(self.n_known_tasks)

    def of_table(self, ratings: Ratings, codes: Ints, default: Array) -> Array:
        """Corrected values of the tasks of a table, (n_tasks, n_dims).

        `codes` has the worker in fit of each worker of the table; those who were not in fit have the number of workers.
        """
        tasks, workers, x = _columns(ratings)
        codes = codes[workers]
        n_seen = codes < len(self.weights)
        tasks, codes, x = tasks[n_seen], codes[n_seen], x[n_seen]
        corrected = self.intercept + self.slope * default
        for dim in range(default.shape[1]):
            z = x[:, dim] / self.unit[codes, dim] - self.origin[codes, dim]
            cells = _Cells.of(tasks, codes, z, len(self.weights))
            corrected[:, dim] += np.bincount(cells.task, self.weights[cells.worker, dim] * cells.z, len(default))
        return np.asarray(_logistic(corrected) if self.binary else corrected)


def _columns(ratings: Ratings) -> tuple[Ints, Ints, Array]:
    tasks, workers, values = ratings.codes()
    values = np.asarray(values, np.float64).reshape(len(tasks), -1)
    return tasks.astype(np.int64), workers.astype(np.int64), values


@dataclass(frozen=True)
class _Cells:
    """Mean standardized rating of each worker on each task that they rated."""

    task: Ints
    worker: Ints
    z: Array

    @classmethod
    def of(cls, tasks: Ints, workers: Ints, z: Array, n_workers: int) -> Self:
        key, cell = np.unique(tasks.astype(np.int64) * n_workers + workers, return_inverse=True)
        return cls(key // n_workers, key % n_workers, np.bincount(cell, z) / np.bincount(cell))

    def matrix(self, tasks: Ints, n_tasks: int) -> tuple[Array, Ints]:
        """Ratings on some tasks as a matrix, and the workers of its columns."""
        row = np.full(n_tasks, -1, np.int64)
        row[tasks] = np.arange(len(tasks))
        keep = row[self.task] >= 0
        workers, column = np.unique(self.worker[keep], return_inverse=True)
        corrected = np.zeros((len(tasks), len(workers)))
        corrected[row[self.task[keep]], column] = self.z[keep]
        return corrected, workers


def _scales(workers: Ints, ratings: Array, n_workers: int) -> tuple[Array, Array]:
    """Origin (in units) and unit of each worker's ratings, shrink to those of all."""
    largest = float(np.abs(ratings).max(initial=0.0)) or 1.0
    x = ratings / largest
    n = np.bincount(workers, minlength=n_workers)
    everything = float(x.mean())
    variance = max(float(x.var()), 1e-30)
    mean = (np.bincount(workers, x, n_workers) + _RATINGS * everything) / (n + _RATINGS)
    squares = np.bincount(workers, (x - mean[workers]) ** 2, n_workers)
    deviation = np.sqrt((squares + _RATINGS * variance) / (n + _RATINGS))
    return mean / deviation, deviation * largest


@dataclass(frozen=True)
class _Linear:
    """Coefficients of the standardized default and of workers' ratings."""

    head: Array
    workers: Array

    def predict(self, head: Array, z: Array, binary: bool) -> Array:
        corrected = head @ self.head + z @ self.workers
        return np.asarray(_logistic(corrected) if binary else corrected)


def _ridge(head: Array, z: Array, y: Array, prior: Array, strength: float | None, binary: bool) -> _Linear:
    """Most probable coefficients, by Newton's method; one step where the regression is linear."""
    features = head if strength is None else np.column_stack([head, z])
    penalty = np.full(features.shape[1], strength or 0.0)
    penalty[:2] = _PRECISION[binary]
    center = np.zeros(features.shape[1])
    center[:2] = prior
    beta = center.copy()
    for _ in range(_NEWTON_STEPS if binary else 1):
        fitted = features @ beta
        if binary:
            p = _logistic(fitted)
            curvature = np.maximum(p * (1 - p), 1e-6)
            residual = (y - p) / curvature
        else:
            curvature, residual = np.ones(len(y)), y - fitted
        step = _solve(features, curvature, residual, penalty, center - beta)
        beta += step
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    return _Linear(beta[:2], beta[2:] if strength is not None else np.zeros(z.shape[1]))


def _solve(features: Array, curvature: Array, residual: Array, penalty: Array, offset: Array) -> Array:
    """The ridge step toward residuals, with a prior at an offset: by columns, or by rows where these are fewer."""
    if features.shape[1] <= features.shape[0]:
        weighted = features * curvature[:, None]
        matrix = weighted.T @ features + np.diag(penalty)
        return np.asarray(np.linalg.solve(matrix, weighted.T @ residual + penalty * offset))
    kernel = (features / penalty) @ features.T + np.diag(1.0 / curvature)
    dual = np.linalg.solve(kernel, residual - features @ offset)
    return np.asarray(offset + (features.T @ dual) / penalty)


def _logistic(x: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def blend_weights(errors: Array, trust: float) -> Array:
    """Weights of models by their errors on held-out tasks, (n_models, n_tasks); without a gain, the first model's."""
    first: Array = np.eye(len(errors))[0]
    products = errors @ errors.T
    if not products[0, 0] > 0:
        return first
    best = least_squares_on_simplex(products / products[0, 0])
    gain = errors[0] ** 2 - (best @ errors) ** 2
    weights = shrink(best, first, float(gain.sum()), float((gain**2).sum()))
    return np.asarray(trust * weights + (1.0 - trust) * first)


def correct(ratings: Ratings, known: KnownValues, fit: dict[str, Array]) -> dict[str, Any]:
    """Correct a fit by known values: its values, errors and workers, the correction, and what gold contradicts.

    Parameters
    ----------
    ratings : Ratings
        The log.
    known
        Its known values.
    fit : mapping
        Values and errors of tasks, and bias, scale and noise of workers, by name, made without them.
    """
    if len(np.unique(known.values, axis=0)) == 1:
        one = plural(len(known.tasks), "task")
        remark = f"Gold has one value only ({one}), and corrects no other. Add gold of other tasks."
        return _with_known(fit["values"], fit["errors"], known) | {"contradictions": (remark,)}
    anchor, remarks = _learn(ratings, known, fit["values"], fit["errors"])
    values = anchor.of_table(ratings, np.arange(ratings.n_workers), fit["values"])
    errors = fit["errors"] * anchor.stretch
    if known.binary:
        errors = np.sqrt(values * (1.0 - values))
    fitted = _with_known(values, errors, known)
    workers = _refit_workers(ratings, known, fit, fitted["values"])
    return {**fitted, "anchor": anchor, "contradictions": remarks, **workers}


def _with_known(values: Array, errors: Array, known: KnownValues) -> dict[str, Any]:
    """Values and errors in which known is known, whatever the crowd answered."""
    values, errors = values.copy(), errors.copy()
    values[known.tasks], errors[known.tasks] = known.values, 0.0
    return {"values": values, "errors": errors}


def _learn(ratings: Ratings, known: KnownValues, default: Array, errors: Array) -> tuple[ValueAnchor, tuple[str, ...]]:
    """The correction of each dimension, and what known values contradict."""
    tasks, workers, x = _columns(ratings)
    n, m = len(known.tasks), ratings.n_workers
    used = np.unique(np.linspace(0, n - 1, min(n, _MOST_TASKS)).astype(np.int64))
    at, parts = known.tasks[used], []
    remarks: list[str] = []
    for dim in range(default.shape[1]):
        origin, unit = _scales(workers, x[:, dim], m)
        cells = _Cells.of(tasks, workers, x[:, dim] / unit[workers] - origin[workers], m)
        z, active = cells.matrix(at, ratings.n_tasks)
        one = _fit_dimension(default[:, dim], at, known.values[used, dim], z, known.binary)
        trust = np.zeros(m)
        trust[active] = one.weights
        stretched = _stretch(one, errors[at, dim], default[:, dim])
        parts.append((one.intercept, one.slope, trust, origin, unit, stretched))
        if not known.binary:
            remarks += _contradiction(default[known.tasks, dim] - known.values[:, dim], errors[known.tasks, dim])
    intercept, slope, weights, origin, unit, stretch = (np.stack(part, axis=-1) for part in zip(*parts, strict=True))
    n_seen = np.bincount(workers[np.isin(tasks, known.tasks)], minlength=m).astype(np.float64)
    anchor = ValueAnchor(
        intercept, slope, weights, origin, unit, stretch, known.binary, known.classes, n_seen, n_known_tasks=float(n)
    )
    return anchor, tuple(remarks)


@dataclass(frozen=True)
class _LinearMap:
    """The weighted average as one linear map, and its errors on held-out known tasks."""

    intercept: float
    slope: float
    weights: Array
    held_out: Array


def _fit_dimension(default: Array, at: Ints, y: Array, z: Array, binary: bool) -> _LinearMap:
    center, spread = float(default.mean()), float(default.std())
    spread = spread if spread > 0 else 1.0
    head = np.column_stack([np.ones(len(at)), (default[at] - center) / spread])
    own, offsets = default[at] - y, y - y.mean()
    other_scale = not binary and len(at) >= _FEWEST_OTHER and float(own @ own) > _OTHER_SCALE * float(offsets @ offsets)
    if binary:
        prior = np.array([0.0, 1.0])
    elif other_scale:
        prior = np.array([y.mean(), np.sign(offsets @ head[:, 1]) * y.std()])
    else:
        prior = np.array([center, spread])
    fold = np.random.default_rng(0).permutation(len(at)) % min(_FOLDS, len(at))
    strengths = _STRENGTHS[binary]
    held_out = np.zeros((len(strengths), len(at)))
    for turn in range(int(fold.max()) + 1 if len(at) > 1 else 0):
        train, rest = fold != turn, fold == turn
        for place, strength in enumerate(strengths):
            corrected = _ridge(head[train], z[train], y[train], prior, strength, binary)
            held_out[place, rest] = corrected.predict(head[rest], z[rest], binary) - y[rest]
    trust = min(1.0, len(at) / FULL_AT)
    members = [_ridge(head, z, y, prior, strength, binary) for strength in strengths]
    if not binary and not other_scale:
        held_out = np.vstack([own, held_out])
        members = [_Linear(np.array([center, spread]), np.zeros(z.shape[1])), *members]
    shares = blend_weights(held_out, trust) if len(at) > 1 else np.eye(len(members))[0]
    heads = shares @ np.stack([one.head for one in members])
    return _LinearMap(
        float(heads[0] - heads[1] * center / spread),
        float(heads[1] / spread),
        shares @ np.stack([one.workers for one in members]),
        shares @ held_out,
    )


def _stretch(line: _LinearMap, errors: Array, default: Array) -> float:
    """Factor of standard errors by what is corrected on held-out known tasks."""
    slope_errors = np.abs(line.slope) * errors
    least = 1e-9 * max(float(np.abs(line.slope) * default.std()), 1e-300)
    ratio = (line.held_out / np.maximum(slope_errors, least)) ** 2
    n = len(errors)
    return float(np.abs(line.slope) * np.sqrt((ratio.sum() + _ERRORS) / (n + _ERRORS)))


def _contradiction(own: Array, errors: Array) -> list[str]:
    """What known values say of the default's standard errors, where that is a surprise."""
    n = len(own)
    stated_error, rmse = float(np.sqrt((errors**2).mean())), float(np.sqrt((own**2).mean()))
    if n < _LEAST_KNOWN or rmse**2 <= stated_error**2 * (1.0 + _SURPRISE * np.sqrt(2.0 / n)):
        return []
    return [
        f"Without gold, the values of {plural(n, 'gold task')} had a standard error of {stated_error:.3g}, and their "
        f"root mean squared error is {rmse:.3g}. Errors of workers probably coincide, or gold is on another scale."
    ]


def _refit_workers(ratings: Ratings, known: KnownValues, fit: dict[str, Array], values: Array) -> dict[str, Array]:
    """Bias, scale and noise of workers with respect to corrected values; known tasks update the noise."""
    tasks, workers, x = _columns(ratings)
    m, default = ratings.n_workers, fit["values"]
    n = np.maximum(np.bincount(workers, minlength=m), 1)[:, None]
    bias = fit["bias"] + _sums(workers, (default - values)[tasks], m) / n
    spread = values.std(axis=0)
    scale = fit["scale"] * np.divide(default.std(axis=0), spread, out=np.ones_like(spread), where=spread > 0)
    on = np.isin(tasks, known.tasks)
    who, at = workers[on], tasks[on]
    off = x[on] - values[at] - bias[who] - (scale[who] - 1.0) * (values[at] - values.mean(axis=0))
    n_seen = np.bincount(who, minlength=m)[:, None]
    noise = np.sqrt((_NOISE * fit["noise"] ** 2 + _sums(who, off**2, m)) / (_NOISE + n_seen))
    return {"bias": bias, "scale": scale, "noise": noise}


def _sums(workers: Ints, values: Array, m: int) -> Array:
    """Sums of columns by worker, (n_workers, n_columns)."""
    return np.stack([np.bincount(workers, one, m) for one in values.T], axis=1)
