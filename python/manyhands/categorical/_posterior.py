"""Class posteriors of tasks, however they are kept: all numbers, or those of the classes that somebody named."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.estimator import Array
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands._base.persist import Content

if TYPE_CHECKING:
    import pyarrow as pa


class Winners(NamedTuple):
    """The most probable class of each task: its code, whether another is as probable, and its probability."""

    codes: npt.NDArray[np.uint16]
    tied: npt.NDArray[np.bool_]
    confidence: Array

    def of(self, tasks: npt.NDArray[np.int64]) -> Winners:
        """Those of some tasks, by their codes."""
        return Winners(self.codes[tasks], self.tied[tasks], self.confidence[tasks])


class Posterior(ABC):
    """Class posteriors of tasks. Whoever needs but some rows, or the winners, asks for no more."""

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

    @abstractmethod
    def packed(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a file."""

    @classmethod
    @abstractmethod
    def unpacked(cls, content: Content, sizes: Mapping[str, int]) -> Self:
        """Take back what `packed` gave; sizes are n of tasks and k of classes."""


@dataclass(frozen=True)
class DensePosterior(Posterior):
    """A number for each task and class."""

    array: Array

    def rows(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Posteriors of some tasks, by their codes, (len(tasks), n_classes)."""
        return self.array[tasks]

    def winners(self) -> Winners:
        """The most probable class of each task; the lowest code wins a tie."""
        codes, tied = _core.winners(self.array)
        return Winners(codes, tied, np.take_along_axis(self.array, codes[:, None].astype(np.int64), axis=1)[:, 0])

    def dense(self) -> Array:
        """All posteriors, (n_tasks, n_classes)."""
        return self.array

    @classmethod
    def n_bytes(cls, n_tasks: int, n_classes: int) -> int:
        """Bytes that it takes."""
        return 8 * n_tasks * n_classes

    def packed(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a file."""
        return {"posterior": self.array}

    @classmethod
    def unpacked(cls, content: Content, sizes: Mapping[str, int]) -> Self:
        """Take back what `packed` gave."""
        return cls(distributions(content, "posterior", (sizes["n"], sizes["k"])))


@dataclass(frozen=True)
class Candidates(Posterior):
    """Posteriors of many classes: a number for each class named on a task, and one for all others together.

    Task ``n`` has the candidates ``offsets[n]`` to ``offsets[n + 1]``, with their ``classes`` (codes, ascending) and
    ``probabilities``. The other classes share ``rest[n]`` in proportion to the ``prior``.
    """

    offsets: npt.NDArray[np.uint32]
    classes: npt.NDArray[np.uint16]
    probabilities: Array
    rest: Array
    prior: Array
    best: Winners

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

    def packed(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a file; the prior is in it anyway."""
        parts = {name: getattr(self, name) for name in ("offsets", "classes", "probabilities", "rest")}
        parts |= {"winners": self.best.codes, "confidence": self.best.confidence, "tied": self.best.tied}
        return {f"candidates.{name}": array for name, array in parts.items()}

    @classmethod
    def unpacked(cls, content: Content, sizes: Mapping[str, int]) -> Self:
        """Take back what `packed` gave."""
        n, k = sizes["n"], sizes["k"]
        offsets = content.array("candidates.offsets", np.uint32, shape=(n + 1,))
        total = int(offsets[-1])
        kinds = {"rest": np.float64, "winners": np.uint16, "confidence": np.float64, "tied": np.bool_}
        found = {name: content.array(f"candidates.{name}", kind, shape=(n,)) for name, kind in kinds.items()}
        found |= {"offsets": offsets, "prior": content.array("prior", np.float64, shape=(k,))}
        found["classes"] = content.array("candidates.classes", np.uint16, shape=(total,))
        found["probabilities"] = content.array("candidates.probabilities", np.float64, shape=(total,))
        back = cls.of(found)
        back._check(content)
        return back

    def _check(self, content: Content) -> None:
        """Refuse a file of which this was read and that is not consistent."""
        offsets, classes, q, rest, k = self.offsets, self.classes, self.probabilities, self.rest, len(self.prior)
        if offsets[0] or (offsets[1:] < offsets[:-1]).any() or max(classes.max(initial=0), self.best.codes.max()) >= k:
            raise content.damaged("its candidates are not those of its tasks and classes")
        tasks = self.tasks()
        if (np.diff(tasks * k + classes) <= 0).any():
            raise content.damaged("the candidates of a task repeat or are out of order")
        sums = np.bincount(tasks, q, minlength=len(rest)) + rest
        # What is left for classes that nobody named must have a class to go to.
        others = self.prior.sum() - np.bincount(tasks, self.prior[classes], minlength=len(rest))
        sound = (q >= 0).all() and (rest >= 0).all() and (np.abs(sums - 1) < 1e-6).all()
        if not sound or ((rest > 1e-6) & (others < 1e-12)).any():
            raise content.damaged("it holds probabilities that do not sum to one")
        shares(content, "confidence", self.best.confidence)


def as_posterior(found: Array | Posterior) -> Posterior:
    """Take an array for what it is, a posterior in full."""
    return found if isinstance(found, Posterior) else DensePosterior(found)


def distributions(content: Content, name: str, shape: tuple[int, ...]) -> Array:
    """Probabilities of a file, which must sum to one along their last axis."""
    found: Array = content.array(name, np.float64, shape=shape)
    if not (found >= 0).all() or np.abs(found.sum(axis=-1) - 1).max() > 1e-6:
        raise content.damaged("it holds probabilities that do not sum to one")
    return found


def shares(content: Content, name: str, found: Array) -> None:
    """Refuse a file with numbers that should be probabilities and are not."""
    if not ((found >= 0) & (found <= 1 + 1e-9)).all():
        raise content.damaged(f"its {name} holds values that are no probabilities")
