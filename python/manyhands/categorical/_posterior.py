"""Class posteriors of tasks, however they are kept: all numbers, or those of the classes that a worker named."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands._base.fitted import codes, distributions, flags, numbers, offsets, part, probabilities
from manyhands._base.limits import check_memory
from manyhands._base.names import Names

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Winners:
    """The most probable class of each task: its code, whether another is as probable, and its probability."""

    codes: npt.NDArray[np.uint16] = field(metadata=codes("n", "k", dtypes=(np.uint16,)))
    tied: npt.NDArray[np.bool_] = field(metadata=flags("n"))
    confidence: Array = field(metadata=probabilities("n"))

    def of(self, tasks: npt.NDArray[np.int64]) -> Winners:
        """Those of some tasks, by their codes."""
        return Winners(self.codes[tasks], self.tied[tasks], self.confidence[tasks])


class Posterior(ABC):
    """Class posteriors of tasks, of which a caller can ask for some rows or the winners only."""

    @abstractmethod
    def rows(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Posteriors of some tasks, by their codes, (len(tasks), n_classes)."""

    @abstractmethod
    def winners(self) -> Winners:
        """The most probable class of each task; the lowest code wins a tie."""

    @abstractmethod
    def dense(self) -> Array:
        """All posteriors, (n_tasks, n_classes); `MemoryError` where they cannot fit."""

    @classmethod
    @abstractmethod
    def n_bytes(cls, n_tasks: int, n_classes: int) -> int:
        """Bytes that it takes at the least."""

    def stored(self) -> Posterior:
        """Return the form in which it is written to a file."""
        return self


@dataclass(frozen=True)
class DensePosterior(Posterior):
    """A number for each task and class."""

    array: Array = field(metadata=distributions("nk"))

    def rows(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Posteriors of some tasks, by their codes, (len(tasks), n_classes)."""
        return self.array[tasks]

    def winners(self) -> Winners:
        """The most probable class of each task; the lowest code wins a tie."""
        codes, is_tied = _core.winners(self.array)
        return Winners(codes, is_tied, np.take_along_axis(self.array, codes[:, None].astype(np.int64), axis=1)[:, 0])

    def dense(self) -> Array:
        """All posteriors, (n_tasks, n_classes)."""
        return self.array

    @classmethod
    def n_bytes(cls, n_tasks: int, n_classes: int) -> int:
        """Bytes that it takes."""
        return 8 * n_tasks * n_classes


@dataclass(frozen=True)
class Candidates(Posterior):
    """Posteriors of many classes: a number for each class named on a task, and one for all others together.

    Task ``n`` has the candidates ``offsets[n]`` to ``offsets[n + 1]``, with their ``classes`` (codes, ascending) and
    ``probabilities``. The other classes share ``rest[n]`` in proportion to the ``prior``.
    """

    offsets: npt.NDArray[np.uint32] = field(metadata=offsets("N", dtype=np.uint32))
    classes: npt.NDArray[np.uint16] = field(metadata=codes("c", "k", dtypes=(np.uint16,)))
    probabilities: Array = field(metadata=numbers("c", least=0))
    rest: Array = field(metadata=numbers("n", least=0))
    prior: Array = field(metadata=numbers("k"))
    best: Winners = field(metadata=part(Winners))

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Take them out of what the core returns."""
        parts = {name: found[name] for name in ("offsets", "classes", "probabilities", "rest", "prior")}
        return cls(**parts, best=Winners(found["winners"], found["tied"], found["confidence"]))

    def tasks(self) -> npt.NDArray[np.int64]:
        """Task code of each candidate."""
        offsets = self.offsets.astype(np.int64)
        return np.repeat(np.arange(len(self.rest)), offsets[1:] - offsets[:-1])

    def rows(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Posteriors of some tasks, by their codes, (len(tasks), n_classes)."""
        return self._some(tasks).dense()

    def winners(self) -> Winners:
        """The most probable class of each task; the lowest code wins a tie."""
        return self.best

    def dense(self) -> Array:
        """All posteriors, (n_tasks, n_classes); `MemoryError` where they cannot fit."""
        n, k = len(self.rest), len(self.prior)
        check_memory(8 * n * k, f"a posterior of {n:,} tasks and {k:,} classes", "take candidates() instead")
        rows = np.tile(self.prior, (n, 1))
        at = (self.tasks(), self.classes.astype(np.int64))
        rows[at] = 0.0
        left = rows.sum(axis=1)
        rows *= np.divide(self.rest, left, out=np.zeros(n), where=left > 0)[:, None]
        rows[at] = self.probabilities
        return rows

    def _some(self, tasks: npt.NDArray[np.int64]) -> Candidates:
        """Return those of some tasks, in their order."""
        first, last = (self.offsets[at].astype(np.int64) for at in (tasks, tasks + 1))
        offsets = np.concatenate([[0], np.cumsum(last - first)])
        at = np.repeat(first - offsets[:-1], last - first) + np.arange(offsets[-1])
        return Candidates(
            offsets=offsets.astype(np.uint32),
            classes=self.classes[at],
            probabilities=self.probabilities[at],
            rest=self.rest[tasks],
            prior=self.prior,
            best=self.best.of(tasks),
        )

    def frame(self, tasks: Names, classes: Names) -> pa.Table:
        """Return one row a candidate: task, label, probability."""
        import pyarrow as pa

        return pa.table(
            {
                "task": tasks.take(self.tasks()).arrow(),
                "label": classes.take(self.classes.astype(np.int64)).arrow(),
                "probability": self.probabilities,
            }
        )

    @classmethod
    def n_bytes(cls, n_tasks: int, n_classes: int) -> int:
        """Bytes that it takes, whatever is named on the tasks."""
        return 8 * (n_tasks + n_classes)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where candidates are not those of the tasks and classes, or do not sum to one with the rest."""
        offsets, classes, q, rest, k = self.offsets, self.classes, self.probabilities, self.rest, len(self.prior)
        if offsets[-1] != len(classes):
            raise ValueError("its candidates are not those of its tasks and classes")
        tasks = self.tasks()
        if (np.diff(tasks * k + classes) <= 0).any():
            raise ValueError("the candidates of a task repeat or are out of order")
        sums = np.bincount(tasks, q, minlength=len(rest)) + rest
        # What is left for classes that no worker named must have a class to go to.
        others = self.prior.sum() - np.bincount(tasks, self.prior[classes], minlength=len(rest))
        if not (np.abs(sums - 1) < 1e-6).all() or ((rest > 1e-6) & (others < 1e-12)).any():
            raise ValueError("it holds probabilities that do not sum to one")


def as_posterior(found: Array | Posterior) -> Posterior:
    """Take an array for what it is, a posterior in full."""
    return found if isinstance(found, Posterior) else DensePosterior(found)
