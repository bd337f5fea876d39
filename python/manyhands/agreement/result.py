"""Result type of agreement measures, and checks they share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_between, check_choice, check_number, warn_of_data
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array
from manyhands.categorical.table import Annotations, as_annotations

_WEIGHTS = ("linear", "quadratic")


@dataclass(frozen=True)
class Agreement:
    """Coefficient of agreement with its interval and sample size.

    ``value`` is NaN if the coefficient is undefined. ``interval``, at the level ``confidence``, is None unless
    resamples were requested; it always contains the value. It treats workers as fixed and tasks as a sample. ``reason``
    states why a value or interval is missing. ``n_tasks`` is the number of tasks with at least one comparison, and
    ``n_pairs`` the number of pairs: of labels on the same task for coefficients of labels, of workers for coefficients
    of workers.
    """

    value: float
    n_tasks: int
    n_pairs: int
    interval: tuple[float, float] | None = None
    confidence: float | None = None
    reason: str = ""

    def __float__(self) -> float:
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """As plain numbers, for JSON, which has no NaN: what is undefined is None."""
        return {
            "value": None if math.isnan(self.value) else self.value,
            "interval": None if self.interval is None else list(self.interval),
            "confidence": self.confidence,
            "n_tasks": self.n_tasks,
            "n_pairs": self.n_pairs,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Jackknife:
    """Settings of an interval: the coefficient is recomputed without each group of tasks.

    A bootstrap would draw some tasks twice. A duplicated task agrees with itself, which biases coefficients of workers
    who share few tasks.
    """

    resamples: int
    confidence: float
    seed: int

    def check(self) -> None:
        """Raise for settings that give no interval."""
        check_number("resamples", self.resamples, least=0, whole=True)
        if self.resamples == 1:
            raise ValueError("resamples must be 0 (no interval) or at least 2")
        check_number("seed", self.seed, least=0, whole=True)
        check_between("confidence", self.confidence, such_as=0.95)

    def arguments(self) -> dict[str, Any]:
        """Arguments of the compiled functions."""
        return {"groups": self.resamples, "seed": self.seed}

    def agreement(self, sums: _core._Counted | _core._Paired, reason: str) -> Agreement:
        """Return the coefficient with its interval; `reason` states why the value is undefined, if it is."""
        value, n_tasks, n_pairs = sums["value"], sums["n_tasks"], sums["n_pairs"]
        if np.isnan(value) or not self.resamples:
            return Agreement(value, n_tasks, n_pairs, reason=reason if np.isnan(value) else "")
        interval = self._interval(sums)
        reason = "" if interval else "too few tasks for an interval"
        return Agreement(value, n_tasks, n_pairs, interval, float(self.confidence), reason)

    def _interval(self, sums: _core._Counted | _core._Paired) -> tuple[float, float] | None:
        value, worst, n_tasks = sums["value"], sums["worst"], sums["n_tasks"]
        if value == 1 and not np.isnan(worst):
            return self._alike(value, worst, n_tasks)
        if len(sums["left_out"]) < 2 or np.isnan(sums["left_out"]).any():
            return None
        error = _standard_error(value, sums["left_out"], sums["sizes"])
        margin = _student(self.confidence, len(sums["left_out"]) - 1) * error
        if np.isnan(worst):
            return (value - margin, value + margin)
        if error == 0:
            return self._alike(value, worst, n_tasks)
        # Disagreement is positive, so the logarithm of its estimate is closer to normal than the estimate, above all
        # where disagreement is rare; and the coefficient must not exceed 1.
        factor = math.exp(min(margin / (1 - value), _LARGEST_POWER))
        low = max(1 - (1 - value) * factor, 1 - worst)
        return (min(low, value), max(1 - (1 - value) / factor, value))

    def _alike(self, value: float, worst: float, n_tasks: int) -> tuple[float, float]:
        """Interval if all tasks agree: it allows for disagreement too rare to be observed."""
        unseen = worst * (1 - ((1 - self.confidence) / 2) ** (1 / n_tasks))
        return (max(value - unseen, 1 - worst), min(value + unseen, 1.0))


#: Limit of the exponent, which keeps intervals finite.
_LARGEST_POWER = 300.0


def _standard_error(value: float, left_out: Array, sizes: npt.NDArray[np.uint32]) -> float:
    """Standard error of an estimate, from estimates without each of several groups of about the same size.

    Busing, Meijer and van der Leeden, "Delete-m jackknife for unequal m", Statistics and Computing 9 (1999).
    """
    ratio = sizes.sum() / sizes
    means = ratio * value - (ratio - 1) * left_out
    center = len(sizes) * value - ((1 - 1 / ratio) * left_out).sum()
    return float(np.sqrt(((means - center) ** 2 / (ratio - 1)).mean()))


def _student(confidence: float, freedom: int) -> float:
    """Half-width of an interval in standard errors, by Student's distribution."""
    share = float(_core.beta_quantile(np.array([0.5]), np.array([freedom / 2]), confidence)[0])
    return math.sqrt(freedom * share / (1 - share))


def labels_of(votes: Any) -> Annotations:
    """Return annotations in which each answer is one label.

    A weighted table may hold an answer in fractions, as probabilities or an uncertain label. The worker's label of a
    task is then the one with the largest weight.
    """
    table: Annotations = as_annotations(votes)
    if not table._weighted():
        return table
    if table.in_shards:
        table = table.in_memory()
    assert table.weights is not None
    warn_of_data(
        "agreement ignores weights and confidences, and takes the label of largest weight of each worker's answer "
        "to a task"
    )
    tasks, workers, labels = table.codes()
    order = np.lexsort((labels, -table.weights, workers, tasks))
    tasks, workers, labels = tasks[order], workers[order], labels[order]
    first = np.ones(len(tasks), np.bool_)
    first[1:] = (np.diff(tasks) != 0) | (np.diff(workers) != 0)
    sizes = (table.n_tasks, table.n_workers, table.n_labels)
    core = made_table(tasks[first], workers[first], labels[first], None, *sizes)
    return type(table)(core, table._tasks, table._workers, table._classes, table._unlabelled)


def check_weights(weights: str | None) -> None:
    """Raise for unknown weights."""
    if weights is not None:
        check_choice("weights", weights, _WEIGHTS)


def scale_by_rank(votes: Annotations, weights: str | None) -> dict[str, Any]:
    """Distance of labels by their rank among the classes."""
    return {"shape": weights or "nominal", "positions": np.arange(votes.n_classes, dtype=np.float64)}
