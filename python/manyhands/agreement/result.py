"""What a measure of agreement returns, and what all of them ask of their arguments."""

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
from manyhands.categorical.shards.votes import ShardedAnnotations
from manyhands.categorical.table import Annotations, as_annotations

_WEIGHTS = ("linear", "quadratic")


@dataclass(frozen=True)
class Agreement:
    """A coefficient of agreement, and what it rests on.

    ``value`` is NaN where the coefficient is undefined. ``interval`` is None unless resamples were asked for, at the
    level ``confidence``; it always holds the value. It is for what the same workers would come to on endlessly many
    tasks like these: tasks vary, workers do not. Where a value or an interval that was asked for cannot be had,
    ``reason`` says why. ``n_tasks`` is the number of tasks with something to compare, and ``n_pairs`` the number of
    pairs: of labels on the same task for coefficients of labels, of workers for those of workers.
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
    """How an interval is made: from the coefficient without each of some groups of the tasks.

    Tasks are left out rather than drawn again, as a bootstrap would. A task that is drawn twice agrees with itself, by
    which a coefficient of workers who share few tasks moves away from its own estimate.
    """

    resamples: int
    confidence: float
    seed: int

    def check(self) -> None:
        """Refuse what makes no interval."""
        check_number("resamples", self.resamples, least=0, whole=True)
        if self.resamples == 1:
            raise ValueError("resamples must be 0, for no interval, or at least 2: one alone does not vary")
        check_number("seed", self.seed, least=0, whole=True)
        check_between("confidence", self.confidence, such_as=0.95)

    def arguments(self) -> dict[str, Any]:
        """What the core is told."""
        return {"groups": self.resamples, "seed": self.seed}

    def agreement(self, found: _core._Counted | _core._Paired, reason: str) -> Agreement:
        """What was found, with its interval; `reason` tells why the value is undefined, should it be."""
        value, n_tasks, n_pairs = found["value"], found["n_tasks"], found["n_pairs"]
        if np.isnan(value) or not self.resamples:
            return Agreement(value, n_tasks, n_pairs, reason=reason if np.isnan(value) else "")
        interval = self._interval(found)
        reason = "" if interval else "too few tasks for an interval: without some of them there is nothing to compare"
        return Agreement(value, n_tasks, n_pairs, interval, float(self.confidence), reason)

    def _interval(self, found: _core._Counted | _core._Paired) -> tuple[float, float] | None:
        value, worst, n_tasks = found["value"], found["worst"], found["n_tasks"]
        if value == 1 and not np.isnan(worst):
            return self._alike(value, worst, n_tasks)
        if len(found["left_out"]) < 2 or np.isnan(found["left_out"]).any():
            return None
        error = _standard_error(value, found["left_out"], found["sizes"])
        margin = _student(self.confidence, len(found["left_out"]) - 1) * error
        if np.isnan(worst):
            return (value - margin, value + margin)
        if error == 0:
            return self._alike(value, worst, n_tasks)
        # Disagreement is positive, and the logarithm of an estimate of such a thing is nearer to normal than the
        # estimate: above all where disagreement is rare, and the coefficient must not exceed 1.
        factor = math.exp(min(margin / (1 - value), _LARGEST_POWER))
        low = max(1 - (1 - value) * factor, 1 - worst)
        return (min(low, value), max(1 - (1 - value) / factor, value))

    def _alike(self, value: float, worst: float, n_tasks: int) -> tuple[float, float]:
        """Where all tasks say the same: what others could say whose share is so small that none was met."""
        unseen = worst * (1 - ((1 - self.confidence) / 2) ** (1 / n_tasks))
        return (max(value - unseen, 1 - worst), min(value + unseen, 1.0))


#: An interval whose end is that many powers of e away says nothing; the limit keeps it finite.
_LARGEST_POWER = 300.0


def _standard_error(value: float, left_out: Array, sizes: npt.NDArray[np.uint32]) -> float:
    """The standard error of an estimate, from estimates without each of groups of about the same size.

    Busing, Meijer and van der Leeden, "Delete-m jackknife for unequal m", Statistics and Computing 9 (1999).
    """
    ratio = sizes.sum() / sizes
    means = ratio * value - (ratio - 1) * left_out
    centre = len(sizes) * value - ((1 - 1 / ratio) * left_out).sum()
    return float(np.sqrt(((means - centre) ** 2 / (ratio - 1)).mean()))


def _student(confidence: float, freedom: int) -> float:
    """How many standard errors hold the truth, by Student's distribution."""
    share = float(_core.beta_quantile(np.array([0.5]), np.array([freedom / 2]), confidence)[0])
    return math.sqrt(freedom * share / (1 - share))


def labels_of(votes: Any) -> Annotations:
    """Annotations to compare, each of which counts as one label.

    A table with weights may hold an answer in fractions, as probabilities or a label less than certain: what a worker
    said of a task is then the label of greatest weight.
    """
    table: Annotations = as_annotations(votes)
    if not table._weighted():
        return table
    if isinstance(table, ShardedAnnotations):
        table = table.in_memory()
    assert table.weights is not None
    warn_of_data(
        "agreement counts labels: weights and confidences are left aside, and of each worker's answer to a task the "
        "label of greatest weight counts"
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
    """Refuse a kind of weights that there is not."""
    if weights is not None:
        check_choice("weights", weights, _WEIGHTS)


def scale_by_rank(votes: Annotations, weights: str | None) -> dict[str, Any]:
    """How labels differ, by their place among the classes."""
    return {"shape": weights or "nominal", "positions": np.arange(votes.n_classes, dtype=np.float64)}
