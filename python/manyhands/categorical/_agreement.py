"""What pairs of workers say of each of them, and what is done where they say too little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import plural
from manyhands._base.estimator import Array
from manyhands.categorical._matrices import with_diagonal
from manyhands.categorical._passes import posterior_under
from manyhands.categorical.base import ClassFit
from manyhands.categorical.table import Annotations

Codes = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.bool_]

#: A component's mean skill is doubtful where it is less than this many standard errors from zero.
_DOUBT = 1.0
#: The average worker counts as at least this skilled where nothing else is known of a worker.
_LEAST_SKILL = 0.1


@dataclass(frozen=True)
class Pairs:
    """Pairs of workers, a number each that estimates the product of two workers' numbers, and their graph."""

    #: Weight of each worker's labels, (M,).
    labels: Array
    pairs: Codes
    overlap: Array
    values: Array
    components: Codes
    odd: Mask

    @classmethod
    def of(cls, votes: Annotations, pairs: Codes, overlap: Array, values: Array) -> Pairs:
        components, odd = _core.rank_one_graph(votes.n_workers, pairs)
        return cls(votes.table.moments_first().sum(axis=1), pairs, overlap, values, components, odd)

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        """How many partners each worker has, (M,)."""
        return np.bincount(self.pairs.ravel(), minlength=len(self.labels))

    def oriented(self, vector: Array) -> tuple[Array, tuple[str, ...]]:
        """Turn each component so that its average worker is better than chance, and report where that is doubtful."""
        partnered = self.degrees > 0
        weight = np.where(partnered, self.labels, 0.0)
        n = int(self.components.max()) + 1

        def total(values: Array) -> Array:
            return _sums(self.components, weight * values, n)

        size = np.bincount(self.components, weight, minlength=n)
        is_rated = size > 0
        size = np.where(is_rated, size, 1.0)
        mean = total(vector) / size
        # A tie between the signs is broken by the larger skills; a tie there too leaves the vector as it came.
        lean = np.where(np.abs(mean) > 1e-9, mean, total(vector * np.abs(vector)) / size)
        sign = np.where(lean < -1e-9, -1.0, 1.0)
        variance = np.maximum(total(vector**2) / size - mean**2, 0.0)
        effective = size**2 / np.maximum(np.bincount(self.components, weight**2, minlength=n), 1e-300)
        shared = np.bincount(self.components[self.pairs[:, 0]], self.overlap, minlength=n)
        error = np.sqrt(variance / effective + 1.0 / np.maximum(shared, 1e-300))
        doubtful = is_rated & (np.abs(mean) < _DOUBT * error)
        flat = is_rated & (np.bincount(self.components, self.odd, minlength=n) == 0)
        return vector * sign[self.components], _graph_remarks(is_rated, doubtful, flat)


def _graph_remarks(known: Mask, doubtful: Mask, flat: Mask) -> tuple[str, ...]:
    """Whole sentences on components: several, of doubtful sign, without odd cycles."""
    remarks = []
    n = int(known.sum())
    if n > 1:
        remarks.append(
            f"The workers fall into {n:,} groups that share no tasks with each other, and each was taken to be better "
            "than chance on average by itself."
        )
    if doubtful.any():
        which = "The crowd's" if n == 1 else f"In {doubtful.sum():,} of the groups the"
        remarks.append(f"{which} average skill is so close to zero that good and bad workers may have been exchanged.")
    if flat.any():
        which = "The workers form" if n == 1 else f"In {flat.sum():,} of the groups the workers form"
        remarks.append(
            f"{which} two sides that share tasks with each other only, so that skills are known up to a factor between "
            "the sides."
        )
    return tuple(remarks)


def _sums(codes: npt.NDArray[Any], values: Array, n: int) -> Array:
    """Sum of the values of each code below n."""
    sums: Array = np.bincount(codes, values, minlength=n).astype(np.float64, copy=False)
    return sums


def certain(votes: Annotations) -> ClassFit:
    """The fit of a table with one class."""
    m = votes.n_workers
    return ClassFit.of(np.ones((votes.n_tasks, 1)), np.ones((m, 1, 1)), np.ones(1), np.zeros(0), n_iter=0)


def inside(probability: Array, labels: Array, k: int) -> Array:
    """Probabilities kept from 0 and 1 by one part in (number of labels + number of classes)."""
    margin = 1.0 / (labels + k)
    return np.clip(probability, margin, 1 - margin)


def _strangers(votes: Annotations, posterior: Array, alone: Mask, average: float) -> Array:
    """Accuracy of the workers without a partner, judged by the posterior of the others, (alone.sum(),).

    Only tasks that others labeled count; the crowd's average accuracy counts as one more label.
    """
    tasks, workers, labels = votes.codes()
    weights = np.ones(len(tasks)) if votes.weights is None else votes.weights
    theirs = alone[workers]
    heard = np.zeros(votes.n_tasks, np.bool_)
    heard[tasks[~theirs]] = True
    rows = theirs & heard[tasks]
    tasks, workers, labels, weights = tasks[rows], workers[rows], labels[rows], weights[rows]
    right = np.bincount(workers, weights * posterior[tasks, labels], minlength=votes.n_workers)
    total = np.bincount(workers, weights, minlength=votes.n_workers)
    agreement: Array = ((right + average) / (total + 1.0))[alone]
    return agreement


def with_strangers(
    votes: Annotations, prior: Array, confusion: Array, labels: Array, alone: Mask
) -> tuple[Array, tuple[str, ...]]:
    """Confusion matrices in which workers without a partner are judged by the others."""
    if not alone.any():
        return confusion, ()
    k = votes.n_classes
    average = (1 + (k - 1) * _LEAST_SKILL) / k
    weight = np.where(alone, 0.0, labels)
    if weight.sum() > 0:
        average = max(average, float(np.average(np.einsum("mkk->m", confusion) / k, weights=weight)))
    confusion[alone] = 1.0 / k
    posterior = posterior_under(votes.table, prior, confusion)
    confusion[alone] = with_diagonal(inside(_strangers(votes, posterior, alone, average), labels[alone], k), k)
    return confusion, (
        f"{plural(int(alone.sum()), 'worker shares', 'workers share')} too few tasks with others to be judged by "
        "agreement, and got the accuracy that the others' answers suggest, or else that of the average worker.",
    )
