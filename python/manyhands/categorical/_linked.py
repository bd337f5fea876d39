"""Tasks whose classes take after those of their neighbors: the graph, beliefs on it, and how strongly they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array

Codes = npt.NDArray[np.uint32]
#: Sweeps of messages in each pass, and the change below which they end.
_SWEEPS, _SETTLED = 50, 1e-8
#: The strongest link that is learned: neighbors are alike but for one pair in three thousand.
STRONGEST = 8.0


@dataclass(frozen=True)
class Graph:
    """Neighbors of each task (or pixel), each edge from both ends; see `rust/categorical/linked.rs`."""

    offsets: Codes
    neighbours: Codes
    opposite: Codes

    @classmethod
    def of(cls, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64], n: int) -> Self:
        """Lay out edges, each of which is given once."""
        ends = np.concatenate([first, second])
        others = np.concatenate([second, first])
        order = np.lexsort((others, ends))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        half = len(first)
        opposite = np.concatenate([place[half:], place[:half]])
        return cls(
            offsets=np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.uint32),
            neighbours=others[order].astype(np.uint32),
            opposite=opposite[order].astype(np.uint32),
        )

    def sums(self, rows: Array) -> Array:
        """The sum of the rows of each task's neighbors."""
        out = np.zeros_like(rows)
        offsets = self.offsets.astype(np.int64)
        np.add.at(out, np.repeat(np.arange(len(rows)), offsets[1:] - offsets[:-1]), rows[self.neighbours])
        return out

    def beliefs(self, evidence: Array, strength: float) -> Array:
        """Class probabilities under evidence, (tasks, classes) logarithms, and links of a strength (a Potts field)."""
        result = _core.linked_beliefs(
            self.offsets,
            self.neighbours,
            self.opposite,
            np.ascontiguousarray(evidence),
            strength=strength,
            max_sweeps=_SWEEPS,
            tol=_SETTLED,
        )
        return result["posterior"]


def likeliest_strength(
    near: Array, posterior: Array, strength: float, field: Callable[[float], Array | float]
) -> float:
    """The strength of greatest pseudo-likelihood under expected classes, by Newton's method.

    `near` is the expected number of neighbors of each class, and `field` what a strength makes each class worth by
    itself.
    """
    for _ in range(20):
        logs = field(strength) + strength * near
        logs -= logs.max(axis=1, keepdims=True)
        share = np.exp(logs)
        share /= share.sum(axis=1, keepdims=True)
        mean = (share * near).sum(axis=1)
        slope = float((posterior * near).sum() - mean.sum())
        curve = float(((share * near**2).sum(axis=1) - mean**2).sum())
        step = np.clip(slope / (curve + 1e-3), -1, 1)
        strength = float(np.clip(strength + step, -STRONGEST, STRONGEST))
        if abs(step) < 1e-6:
            break
    return strength
