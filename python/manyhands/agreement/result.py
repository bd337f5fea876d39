"""What a measure of agreement returns, and what all of them ask of their arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from manyhands.annotations import Annotations, as_annotations
from manyhands.base import Array
from manyhands.checks import check_between, check_choice, check_number

_WEIGHTS = ("linear", "quadratic")


@dataclass(frozen=True)
class Agreement:
    """A coefficient of agreement, and what it rests on.

    ``value`` is NaN where the coefficient is undefined, and ``reason`` then says why. ``interval`` is None unless
    resamples were asked for: the percentile interval of the bootstrap over tasks, at the level ``confidence``.
    ``n_tasks`` is the number of tasks with something to compare, and ``n_pairs`` the number of pairs: of labels on the
    same task for coefficients of labels, of workers for those of workers.
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
        interval = None if self.interval is None else [None if math.isnan(x) else x for x in self.interval]
        return {
            "value": None if math.isnan(self.value) else self.value,
            "interval": interval,
            "confidence": self.confidence,
            "n_tasks": self.n_tasks,
            "n_pairs": self.n_pairs,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Bootstrap:
    """How an interval is made."""

    resamples: int
    confidence: float
    seed: int

    def check(self) -> None:
        """Refuse what makes no interval."""
        check_number("resamples", self.resamples, least=0, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        check_between("confidence", self.confidence, such_as=0.95)

    def arguments(self) -> dict[str, Any]:
        """What the core is told."""
        return {"resamples": self.resamples, "seed": self.seed}

    def interval(self, values: Array) -> dict[str, Any]:
        """Percentiles of the resamples in which the coefficient is defined; NaN where it never is."""
        if self.resamples == 0:
            return {}
        known = values[~np.isnan(values)]
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(known, (tail, 1 - tail)) if len(known) else (np.nan, np.nan)
        return {"interval": (float(low), float(high)), "confidence": float(self.confidence)}


def labels_of(votes: Any) -> Annotations:
    """Annotations to compare; weights have no meaning here."""
    table: Annotations = as_annotations(votes)
    if table.weights is not None:
        raise ValueError("agreement counts labels and cannot use weights; make the table without them")
    return table


def check_weights(weights: str | None) -> None:
    """Refuse a kind of weights that there is not."""
    if weights is not None:
        check_choice("weights", weights, _WEIGHTS)


def scale_by_rank(votes: Annotations, weights: str | None) -> dict[str, Any]:
    """How labels differ, by their place among the classes."""
    return {"shape": weights or "nominal", "positions": np.arange(votes.n_classes, dtype=np.float64)}
