"""How workers err: confusion matrices, in full, computed on access, or derived from one accuracy per worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core, metrics
from manyhands._base.checks import plural
from manyhands._base.estimator import Array, KnowsWorkers
from manyhands._base.fitted import distributions, probabilities, setting
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands._base.results import frame_of_workers
from manyhands.categorical._passes import judged_by
from manyhands.categorical._streamed import StreamedPosterior
from manyhands.categorical.table import Annotations

if TYPE_CHECKING:
    import pyarrow as pa

#: What to do where confusion matrices do not fit.
NO_MATRICES = "ask for labels_ and workers_frame() of a SparseOneCoin, which needs none"


class Confusion(ABC):
    """How each worker errs. The base judges workers by their matrices; subclasses need fewer parameters."""

    @abstractmethod
    def matrices(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes, n_labels); `MemoryError` where they cannot fit."""

    def worth(self, prior: Array, n_labels: npt.NDArray[np.int64]) -> metrics.Worth:
        """Accuracy, information and capacity of each worker who gave that many labels, with errors."""
        return metrics.worth(self.matrices(), prior, n_labels)

    def spammer_scores(self) -> Array:
        """Spammer score of each worker, (n_workers,); see :func:`manyhands.metrics.spammer_score`."""
        return metrics.spammer_score(self.matrices())

    def stored(self) -> Confusion:
        """Return the form in which they are written to a file."""
        return Matrices(self.matrices())


@dataclass(frozen=True)
class Matrices(Confusion):
    """Matrices that are there."""

    array: Array = field(metadata=distributions("mkl"))

    def matrices(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes, n_labels)."""
        return self.array


class LazyConfusion(Confusion):
    """Matrices that the method does not need itself: computed on access, and kept."""

    def __init__(self, n_workers: int, n_classes: int) -> None:
        self._n_workers, self._n_classes = n_workers, n_classes
        self._made: Array | None = None

    @abstractmethod
    def _make(self) -> Array:
        """Make the matrices."""

    def matrices(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes, n_labels); `MemoryError` where they cannot fit."""
        if self._made is None:
            _check_room(self._n_workers, self._n_classes)
            self._made = self._make()
        return self._made

    def __reduce__(self) -> tuple[Any, ...]:
        # What they are made of may be large, or a table of the core.
        return Matrices, (self.matrices(),)


class JudgedByPosterior(LazyConfusion):
    """Workers judged by posteriors of the tasks that they labeled; a class they never met gives an even row."""

    def __init__(self, held: Any, posterior: Array | StreamedPosterior) -> None:
        super().__init__(held.n_workers, held.n_classes)
        self._held, self._posterior = held, posterior

    def _make(self) -> Array:
        none = np.zeros((self._n_classes, self._n_classes))
        return judged_by(self._held, self._posterior, none)


@dataclass(frozen=True)
class OneCoin(Confusion):
    """Workers who are right with one probability, and err towards all other classes alike."""

    accuracy: Array = field(metadata=probabilities("m"))
    n_classes: int = field(metadata=setting(int))

    def matrices(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes, n_classes); `MemoryError` where they cannot fit."""
        m, k = len(self.accuracy), self.n_classes
        _check_room(m, k)
        matrices = np.empty((m, k, k))
        matrices[:] = ((1 - self.accuracy) / max(k - 1, 1))[:, None, None]
        matrices[:, np.arange(k), np.arange(k)] = self.accuracy[:, None]
        return matrices

    def worth(self, prior: Array, n_labels: npt.NDArray[np.int64]) -> metrics.Worth:
        """The same as by matrices; O(workers · distinct frequencies of classes) time, O(workers) memory."""
        accuracy, k = self.accuracy, self.n_classes
        error = (1 - accuracy) / max(k - 1, 1)
        bits = _bits(accuracy) + (k - 1) * _bits(error)
        of_label, first, second = (np.zeros(len(accuracy)) for _ in range(3))
        # Most of very many classes are equally frequent.
        groups = list(zip(*np.unique(prior, return_counts=True), strict=True))
        for p, n in groups:
            mix = error + p * (accuracy - error)
            of_label += n * _bits(mix)
            first += n * _log_ratio(error, mix)
            second += n * _log_ratio(error, mix) ** 2
        accuracy_square, information_square = np.zeros(len(accuracy)), np.zeros(len(accuracy))
        for p, n in groups:
            mix = error + p * (accuracy - error)
            right, wrong = _log_ratio(accuracy, mix), _log_ratio(error, mix)
            mean = accuracy * right + error * (first - wrong)
            spread = accuracy * right**2 + error * (second - wrong**2) - mean**2
            share = n * p**2 / np.maximum(n_labels * p, 1.0)
            accuracy_square += share * accuracy * (1 - accuracy)
            information_square += share * np.maximum(spread, 0.0)
        # Even frequencies reach the capacity; the likelihood ratio is then K times the row.
        spread = accuracy * np.maximum(1 - accuracy, 0.0) * (_log_ratio(accuracy, error)) ** 2
        scale = sum(n / np.maximum(n_labels * p, 1.0) for p, n in groups) / k**2
        return metrics.Worth(
            accuracy,
            np.sqrt(accuracy_square),
            np.maximum(of_label - bits, 0.0),
            np.sqrt(information_square),
            np.maximum(np.log2(k) - bits, 0.0),
            np.sqrt(scale * spread),
        )

    def spammer_scores(self) -> Array:
        """Spammer score of each worker, (n_workers,)."""
        if self.n_classes == 1:
            return np.ones(len(self.accuracy))
        score: Array = (self.accuracy - (1 - self.accuracy) / (self.n_classes - 1)) ** 2
        return score

    def stored(self) -> Confusion:
        """Return the form in which they are written to a file."""
        return self

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where it is about other classes than the posterior."""
        if self.n_classes != sizes["k"]:
            raise ValueError(f"its workers are judged by {self.n_classes} classes, and there are {sizes['k']}")


def as_confusion(found: Array | Confusion) -> Confusion:
    """Take an array for what it is, matrices in full."""
    return found if isinstance(found, Confusion) else Matrices(found)


def _check_room(m: int, k: int) -> None:
    check_memory(8 * m * k * k, f"confusion matrices of {plural(m, 'worker')} and {k:,} classes", NO_MATRICES)


def _bits(p: Array) -> Array:
    return -p * np.log2(np.where(p > 0, p, 1.0))


def _log_ratio(p: Array, q: Array) -> Array:
    """The logarithm of p / q to the base of 2, 0 where either is 0: such labels are never given."""
    both = (p > 0) & (q > 0)
    ratio: Array = np.log2(np.where(both, p, 1.0) / np.where(both, q, 1.0))
    return ratio


class KnowsConfusion(KnowsWorkers):
    """The crowd of a fit: workers by name, the classes, and how each worker errs.

    A subclass keeps `_workers`, `_classes` and `_n_labels`, and has ``confusion_`` and ``prior_``.
    """

    _classes: Names
    #: Classes, then abstentions, where it learned from those.
    _all_labels: Names | None = None

    @property
    @abstractmethod
    def confusion_(self) -> Array:
        """Confusion matrix of each worker, (n_workers, n_classes true, n_classes observed); rows sum to one."""

    @property
    @abstractmethod
    def prior_(self) -> Array:
        """Class prior, (n_classes,)."""

    def _errors(self) -> Confusion:
        """How workers err, in the form that is cheapest to ask."""
        return Matrices(self.confusion_)

    def _worker_measures(self) -> metrics.Worth:
        """Accuracy, information and capacity of each worker, with standard errors."""
        return self._errors().worth(self.prior_, self._n_labels)

    @property
    def _labels(self) -> Names:
        """What codes of labels stand for."""
        return self._classes if self._all_labels is None else self._all_labels

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the classes, in code order."""
        self._fitted()
        return self._classes.values

    def workers_frame(self) -> pa.Table:
        """Return one row per worker, as an Arrow table.

        ``worker``; ``n_answers``; ``skill``, the expected share of correct answers under the class prior;
        ``information``, the bits one answer carries about the class; ``capacity``, the bits it could carry at best, if
        classes were as frequent as suits the worker; standard errors of these three, ``skill_error`` and so on;
        ``spammer_score`` of Raykar & Yu (2012), 0 for an answer that does not depend on the class, 1 for perfect.

        Standard errors of aggregators include the uncertainty of the classes and of the other workers. They are those
        of a reference model, :class:`~manyhands.categorical.HierarchicalDawidSkene` with the information of the
        observed labels, widened by the distance between its estimate and this one, so that they also hold for methods
        whose estimates are biased, such as a vote. ±1.96 of them held 93 to 99 % of true accuracies in simulated crowds
        of independent workers (docs/evidence/coverage.md). They do not hold where workers err together, and are too
        small for ordered classes that are asked in turn (:class:`~manyhands.ordinal.CumulativeDawidSkene`). With more
        than 50 classes, after ``partial_fit``, for networks, and in files of older versions the errors are those of
        :func:`manyhands.metrics.worth`, which takes classes as known: too small where classes are uncertain.

        Time O(n_workers · n_classes²), some tens of times; at the first call also that of a fit of the reference, which
        the default has made already, and up to a few seconds for the information: at most 1,048,576 annotations, and a
        matrix of at most 600 parameters, are used.
        """
        self._fitted()
        now = copy(self)
        more = now._worker_measures()._asdict() | {"spammer_score": now._errors().spammer_scores()}
        return frame_of_workers(now._workers, now._n_labels, more)

    def _recode(self, votes: Annotations) -> _core.Table:
        """The table with this model's class codes."""
        code_of = self._labels.match(votes._labels)
        missing = (code_of < 0) & (votes.table.label_counts() > 0)
        if missing.any():
            unknown = votes.labels[missing].tolist()
            raise ValueError(
                f"labels {', '.join(map(repr, unknown[:3]))} were not among the classes seen in fit "
                f"({', '.join(map(repr, self._classes.values[:5].tolist()))}); pass classes= when the tables are made"
            )
        codes = np.maximum(code_of, 0).astype(np.uint16)
        return votes.table.recoded(codes, len(self._labels), len(self._classes))
