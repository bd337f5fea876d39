"""Effective number of annotators: how many independent ones hold as much evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands.metrics.intervals import student_quantile

Ints = npt.NDArray[np.int64]

#: Annotators whose correlation matrix is written down; larger crowds have no eigenvalue.
MOST_IN_PANEL = 64
#: Permutations behind the null distribution, and the tasks that they permute at most.
_PERMUTATIONS, _MOST_TASKS = 100, 10_000
#: Fewer tasks have no correlation.
_FEWEST_TASKS = 3
_LEVEL = 0.95
#: Errors that spread less are taken for constant.
_CONSTANT = 1e-9


@dataclass(frozen=True)
class EffectiveNumber:
    """How many independent annotators hold as much evidence as the answers to a task.

    ``float()`` of it is `estimate`.

    Attributes
    ----------
    n
        Annotators per task: all of a panel, or the mean number of answers per task of a sparse log.
    estimate
        Kish's number n / (1 + (n - 1) r), with r the mean correlation of two annotators' errors on the same task.
    low, high
        Its 95 % interval, within 1 and n. Where errors are not measured, `low` is 1.
    correlation
        The mean correlation r.
    correlation_error
        Its standard error.
    n_tasks
        Tasks behind the estimate.
    measured
        Whether errors were measured against known answers. Otherwise they are estimated from the answers themselves,
        and what misleads all annotators alike remains hidden: the estimate is an upper bound.
    eigenvalue
        n divided by the largest eigenvalue of the correlation matrix, corrected by what independent annotators show on
        that many tasks; None without known answers or for more than 64 annotators.
    eigenvalue_low, eigenvalue_high
        Its 95 % interval.
    null
        n divided by the largest eigenvalue where errors are permuted among the tasks of a class: what the uncorrected
        number would be for independent annotators.
    p_value
        Probability that permuted errors correlate as much.
    """

    n: float
    estimate: float
    low: float
    high: float
    correlation: float
    correlation_error: float
    n_tasks: int
    measured: bool
    eigenvalue: float | None = None
    eigenvalue_low: float | None = None
    eigenvalue_high: float | None = None
    null: float | None = None
    p_value: float | None = None

    def __float__(self) -> float:
        return self.estimate

    def __repr__(self) -> str:
        if self.measured:
            return f"<{self.estimate:.1f} of {self.n:.3g} annotators; 95 % interval {self.low:.1f}–{self.high:.1f}>"
        return f"<at most {self.estimate:.1f} of {self.n:.3g} annotators; 95 % bound {self.high:.1f}; not measured>"


def kish(n: float, correlation: float) -> float:
    """Effective number of n annotators whose errors have a mean correlation; between 1 and n."""
    return n / (1.0 + max(n - 1.0, 0.0) * min(max(correlation, 0.0), 1.0))


def from_latent(
    n: float, latent: tuple[float, float], accuracies: Array, weights: Array, n_tasks: int
) -> EffectiveNumber:
    """Effective number by the latent correlation of errors and its standard error, as a model estimates them."""
    middle, wide = latent[0], NormalDist().inv_cdf(0.5 + _LEVEL / 2) * latent[1]
    low, mean, high = (error_correlation_of(at, accuracies, weights) for at in (middle - wide, middle, middle + wide))
    return EffectiveNumber(
        n=n,
        estimate=kish(n, mean),
        low=1.0,
        high=kish(n, low),
        correlation=mean,
        correlation_error=(high - low) / 2 / NormalDist().inv_cdf(0.5 + _LEVEL / 2),
        n_tasks=n_tasks,
        measured=False,
    )


def from_errors(
    tasks: Ints, workers: Ints, errors: Array, strata: Ints, n_workers: int, *, seed: int = 0
) -> EffectiveNumber | None:
    """Effective number by errors on tasks, or None where no two annotators have errors that vary.

    Errors are centered within strata (the class of the task), so that classes that are hard for all annotators do not
    count as shared errors. The null distribution permutes the errors of each annotator among the tasks of a stratum.

    Parameters
    ----------
    tasks, workers, errors : ndarray
        Codes of tasks and annotators, and how wrong the answer is (0 or 1, or a signed number). One row per answer;
        repeated answers of an annotator to a task are averaged.
    strata : ndarray
        Code of the stratum of each task, by the code of the task.
    n_workers : int
        Number of annotators.

    Notes
    -----
    Cost: O(answers). For at most 64 annotators, also 100 permutations of their errors on at most 10,000 tasks.
    """
    place, inverse = np.unique(tasks * n_workers + workers, return_inverse=True)
    task, worker = place // n_workers, place % n_workers
    value = np.bincount(inverse, errors) / np.bincount(inverse)
    n_strata = int(strata.max(initial=0)) + 1
    code = np.unique(worker * n_strata + strata[task], return_inverse=True)[1]
    value = value - (np.bincount(code, value) / np.bincount(code))[code]
    per_worker = np.maximum(np.bincount(worker, minlength=n_workers), 1)
    scale = np.sqrt(np.bincount(worker, value**2, n_workers) / per_worker)
    n = float(n_workers) if n_workers <= MOST_IN_PANEL else len(task) / max(len(np.unique(task)), 1)
    varies = scale[worker] > _CONSTANT
    rows, task = np.unique(task[varies], return_inverse=True)
    worker, z = worker[varies], value[varies] / scale[worker[varies]]
    size = np.bincount(task, minlength=len(rows))
    pairs = (size * (size - 1)).astype(np.float64)
    if len(rows) < _FEWEST_TASKS or not pairs.any():
        return None
    products = np.bincount(task, z) ** 2 - np.bincount(task, z**2)
    correlation = float(products.sum() / pairs.sum())
    error = float(np.sqrt(((products - correlation * pairs) ** 2).sum() * len(rows) / (len(rows) - 1)) / pairs.sum())
    error = max(error, math.sqrt(2.0 / pairs.sum()))
    t = student_quantile(_LEVEL, len(rows) - 1)
    fields: dict[str, float] = {}
    if n_workers <= MOST_IN_PANEL:
        panel = _Panel.of(task, worker, z, strata[rows], n_workers)
        nulls = panel.permuted(_PERMUTATIONS, seed)
        error = max(error, float(nulls[:, 0].std(ddof=1)))
        top, usual = panel.measures(panel.errors)[1], float(nulls[:, 1].mean())
        wide = t * max(panel.largest_error(), float(nulls[:, 1].std(ddof=1)))
        fields = {
            "eigenvalue": _by_eigenvalue(n, top, usual),
            "eigenvalue_low": _by_eigenvalue(n, top + wide, usual),
            "eigenvalue_high": _by_eigenvalue(n, top - wide, usual),
            "null": n / usual,
            "p_value": float((1 + (nulls[:, 0] >= correlation).sum()) / (1 + len(nulls))),
        }
    return EffectiveNumber(
        n=n,
        estimate=kish(n, correlation),
        low=kish(n, correlation + t * error),
        high=kish(n, correlation - t * error),
        correlation=correlation,
        correlation_error=error,
        n_tasks=len(rows),
        measured=True,
        **fields,
    )


def _by_eigenvalue(n: float, top: float, usual: float) -> float:
    """Divide n by the largest eigenvalue, moved so that the usual one of independent annotators becomes 1."""
    if n - usual <= _CONSTANT:
        return n
    corrected = 1.0 + (n - 1.0) * (top - usual) / (n - usual)
    return n / min(max(corrected, 1.0), n)


@dataclass(frozen=True)
class _Panel:
    """Standardized errors of a few annotators, (n_tasks, n_workers): the error + 1j, or 0 where there is none."""

    errors: npt.NDArray[np.complex128]
    strata: Ints

    @classmethod
    def of(cls, task: Ints, worker: Ints, z: Array, strata: Ints, n_workers: int) -> _Panel:
        """Spread errors over a matrix of at most 10,000 tasks, evenly spaced."""
        n_tasks = len(strata)
        used = np.unique(np.linspace(0, n_tasks - 1, min(n_tasks, _MOST_TASKS)).astype(np.int64))
        place = np.full(n_tasks, -1, np.int64)
        place[used] = np.arange(len(used))
        keep = place[task] >= 0
        errors = np.zeros((len(used), n_workers), np.complex128)
        errors[place[task[keep]], worker[keep]] = z[keep] + 1j
        order = np.argsort(strata[used], kind="stable")
        return cls(errors[order], strata[used][order])

    def measures(self, errors: npt.NDArray[np.complex128]) -> tuple[float, float]:
        """Mean correlation over pairs of answers, and the largest eigenvalue of the correlation matrix."""
        z, there = errors.real, errors.imag
        products, counts = z.T @ z, there.T @ there
        off = ~np.eye(len(counts), dtype=bool)
        mean = products[off].sum() / max(counts[off].sum(), 1.0)
        matrix = products / np.maximum(counts, 1.0)
        np.fill_diagonal(matrix, 1.0)
        return float(mean), float(np.linalg.eigvalsh(matrix)[-1])

    def largest_error(self) -> float:
        """Standard error of the largest eigenvalue over tasks."""
        z, there = np.ascontiguousarray(self.errors.real), np.ascontiguousarray(self.errors.imag)
        axis = np.linalg.eigh(z.T @ z / np.maximum(there.T @ there, 1.0))[1][:, -1]
        return float(((z @ axis) ** 2).std(ddof=1) / math.sqrt(len(z)))

    def permuted(self, times: int, seed: int) -> Array:
        """The measures where errors of each annotator are permuted among the tasks of a stratum, (times, 2)."""
        generator = np.random.default_rng(seed)
        cuts = np.flatnonzero(np.diff(self.strata)) + 1
        blocks = np.split(self.errors, cuts)
        return np.array(
            [self.measures(np.concatenate([generator.permuted(b, axis=0) for b in blocks])) for _ in range(times)]
        )


def error_correlation_of(latent: float, accuracies: npt.ArrayLike, weights: npt.ArrayLike) -> float:
    """Mean correlation of two annotators' errors if a normal factor with a latent correlation is behind them.

    By a quadrature over the factor. Annotators count by their answers.
    """
    share = np.asarray(weights, np.float64)
    share = share / share.sum()
    wrong = np.clip(1.0 - np.asarray(accuracies, np.float64), 1e-3, 1 - 1e-3)
    latent = min(max(latent, 0.0), 0.99)
    if latent == 0.0:
        return 0.0
    normal = NormalDist()
    # Equal steps in probability, at their middles.
    factor = np.array([normal.inv_cdf((step + 0.5) / 64) for step in range(64)])
    factor /= factor.std()
    bound = np.array([normal.inv_cdf(one) for one in wrong.tolist()])
    at = (bound[:, None] - math.sqrt(latent) * factor) / math.sqrt(1 - latent)
    chance = np.array([normal.cdf(one) for one in at.ravel().tolist()]).reshape(at.shape)
    mean = chance.mean(axis=1, keepdims=True)
    scaled = (chance - mean) / np.sqrt(mean * (1 - mean))
    covariance = (share[:, None] * scaled).sum(axis=0)
    own = float((share**2 * (scaled**2).mean(axis=1)).sum())
    rest = 1.0 - float((share**2).sum())
    return float(np.clip(((covariance**2).mean() - own) / rest, 0.0, 1.0)) if rest > 1e-12 else 0.0


def errors_of(table: Any, tasks: Ints, classes: Ints) -> tuple[Ints, Ints, Array]:
    """Place among the tasks of known class, annotator and error (0 or 1) of each answer to one of them."""
    task_codes, worker_codes, labels = table.columns()
    place = np.full(table.n_tasks, -1, np.int64)
    place[tasks] = np.arange(len(tasks))
    row = place[task_codes]
    keep = row >= 0
    row = row[keep]
    wrong = (labels[keep].astype(np.int64) != classes[row]).astype(np.float64)
    return row, worker_codes[keep].astype(np.int64), wrong
