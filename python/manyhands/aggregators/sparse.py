"""Models whose memory does not grow with the number of classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands.base import Aggregator, Array, Fit
from manyhands.checks import check_choice, check_number, check_stopping, warn_unless_converged
from manyhands.progress import Callback
from manyhands.table import persist
from manyhands.table.annotations import Annotations, as_annotations
from manyhands.table.limits import check_memory
from manyhands.table.names import Names

if TYPE_CHECKING:
    import pyarrow as pa

_STARTS = ("majority", "shares")


@dataclass(frozen=True)
class Candidates:
    """Posteriors of many classes: a number for each class named on a task, and one for all others together.

    Task ``n`` has the candidates ``offsets[n]`` to ``offsets[n + 1]``, with their ``classes`` (codes, ascending) and
    ``probabilities``. The other classes share ``rest[n]`` in proportion to the ``prior``.
    """

    offsets: npt.NDArray[np.uint32]
    classes: npt.NDArray[np.uint16]
    probabilities: Array
    rest: Array
    prior: Array
    winners: npt.NDArray[np.uint16]
    confidence: Array
    tied: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Candidates:
        """Take them out of what the core returns."""
        return cls(**{name: found[name] for name in cls.__dataclass_fields__})

    def tasks(self) -> npt.NDArray[np.int64]:
        """Task code of each candidate."""
        offsets = self.offsets.astype(np.int64)
        return np.repeat(np.arange(len(self.rest)), offsets[1:] - offsets[:-1])

    def dense(self) -> Array:
        """Return all probabilities, (n_tasks, n_classes); `MemoryError` where they cannot fit."""
        n, k = len(self.rest), len(self.prior)
        check_memory(8 * n * k, f"a posterior of {n:,} tasks and {k:,} classes", "take candidates() instead")
        rows = np.tile(self.prior, (n, 1))
        at = (self.tasks(), self.classes.astype(np.int64))
        rows[at] = 0.0
        left = rows.sum(axis=1)
        rows *= np.divide(self.rest, left, out=np.zeros(n), where=left > 0)[:, None]
        rows[at] = self.probabilities
        return rows

    def some(self, tasks: npt.NDArray[np.int64]) -> Candidates:
        """Return those of some tasks, in their order."""
        first, last = (self.offsets[at].astype(np.int64) for at in (tasks, tasks + 1))
        offsets = np.concatenate([[0], np.cumsum(last - first)])
        at = np.repeat(first - offsets[:-1], last - first) + np.arange(offsets[-1])
        parts = {name: getattr(self, name)[tasks] for name in ("rest", "winners", "confidence", "tied")}
        return Candidates(
            offsets=offsets.astype(np.uint32),
            classes=self.classes[at],
            probabilities=self.probabilities[at],
            prior=self.prior,
            **parts,
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


class SparseOneCoin(Aggregator):
    """Dawid–Skene with one accuracy a worker, for thousands of classes: memory and time are those of the labels given.

    The model is that of ``DawidSkene(model="one-coin")``, and so are the steps of EM, without approximation: a worker
    is right with one probability, and errs towards all other classes alike, so a label speaks for the class it names
    and no other. Classes that nobody named on a task keep the proportions of the prior; they need one number
    together.

    Results have the names that they have elsewhere. `posterior_`, `confusion_` and `predict_proba` are made in full
    when they are asked for, and refused where they cannot fit in memory; :meth:`candidates` and `accuracy_` hold the
    same.

    Parameters
    ----------
    init
        Where to start: ``"majority"`` (the majority class, divided among classes that tie) or ``"shares"`` (vote
        shares).
    pseudo_count
        Imaginary answers of each worker, as a pair ``(right, wrong)``: a Beta prior. `DawidSkene`, which takes them
        for each of K rows, means the same by ``(right / K, wrong / K)``.
    class_pseudo_count
        Imaginary tasks, spread evenly over the classes.
    max_iter, tol
        Stop after so many passes, or when the objective changes by less than `tol` of itself.

    Notes
    -----
    Time per pass O(annotations), whatever the number of classes. Memory beside the table: about 14 bytes
    for each different label on a task, 28 a task, 8 a worker and class, and at most 8 bytes an annotation (or 32 MB,
    if that is more) while it runs. A million annotations with 10,000 classes: see docs/many-classes.md. Answers are
    the same bits on any number of threads.

    References
    ----------
    A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
    Applied Statistics 28 (1979).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(1000, 20, 500, labels_per_task=5, seed=1)
    >>> model = mh.SparseOneCoin().fit(crowd.votes)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.9
    True
    >>> model.candidates().column_names, len(model.candidates()) < 5000
    (['task', 'label', 'probability'], True)
    """

    def __init__(
        self,
        *,
        init: str = "majority",
        pseudo_count: tuple[float, float] = (1.0, 0.1),
        class_pseudo_count: float = 0.0,
        max_iter: int = 100,
        tol: float = 1e-6,
    ) -> None:
        self.init = init
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.max_iter = max_iter
        self.tol = tol

    # ------------------------------------------------------------------------------------------------ results

    @property
    def accuracy_(self) -> Array:
        """Accuracy of each worker, (n_workers,)."""
        self._fitted()
        return self._accuracy

    @property
    def rest_(self) -> Array:
        """Probability that a task has a class which nobody named on it, (n_tasks,)."""
        self._fitted()
        return self._found.rest

    @property
    def posterior_(self) -> Array:
        """Class posterior of each task, (n_tasks, n_classes), made when asked for; see :meth:`candidates`."""
        self._fitted()
        return self._found.dense()

    def _rows_of_tasks(self, tasks: npt.NDArray[np.int64]) -> Array:
        self._fitted()
        return self._found.some(tasks).dense()

    def candidates(self, votes: Any = None) -> pa.Table:
        """Return the classes named on each task and their probabilities, as an Arrow table: task, label, probability.

        What they leave of one, `rest_`, belongs to all other classes in proportion to `prior_`.

        Parameters
        ----------
        votes
            Other annotations, as for :meth:`predict_proba`; None for those of the fit.
        """
        self._fitted()
        now = self._snapshot()
        if votes is None:
            return now._found.frame(now._tasks, now._classes)
        votes = as_annotations(votes)
        return now._predicted(votes).frame(votes._tasks, now._classes)

    def to_frame(self) -> pa.Table:
        """Return task, label, confidence and whether it was a tie, as an Arrow table (``.to_pandas()``)."""
        import pyarrow as pa

        self._fitted()
        now = self._snapshot()
        label = now._classes.take(now._winners.astype(np.int64)).arrow()
        columns = {
            "task": now._tasks.arrow(),
            "label": label,
            "confidence": now._found.confidence,
            "tied": now._tied,
        }
        return pa.table(columns)

    def workers_frame(self) -> pa.Table:
        """Return one row a worker, as an Arrow table; see :meth:`Aggregator.workers_frame`."""
        import pyarrow as pa

        self._fitted()
        now = self._snapshot()
        columns = {
            "worker": now._workers.arrow(),
            "n_labels": now._n_labels,
            "accuracy": now._accuracy,
            "information": information(now._accuracy, now.prior_),
            "spammer_score": spammer_score(now._accuracy, len(now._classes)),
        }
        return pa.table(columns)

    # ---------------------------------------------------------------------------------------------------- fit

    def _bytes(self, votes: Annotations) -> int:
        return 8 * (votes.n_annotations + votes.n_tasks + votes.n_workers + votes.n_classes)

    def _fit(self, votes: Annotations, progress: Callback | None) -> Fit:
        check_choice("init", self.init, _STARTS)
        check_stopping(self.max_iter, self.tol)
        pair = self.pseudo_count
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"pseudo_count must be a pair (right, wrong), not {pair!r}")
        for value in pair:
            check_number("pseudo_count", value, least=0)
        check_number("class_pseudo_count", self.class_pseudo_count, least=0)
        found = _core.sparse_fit(
            votes.table,
            start=self.init,
            pseudo=(float(pair[0]), float(pair[1])),
            class_pseudo=float(self.class_pseudo_count) / votes.n_classes,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        warn_unless_converged(found["converged"], self)
        self._found, self._accuracy = Candidates.of(found), found["accuracy"]
        return Fit(
            posterior=self._found.dense,
            confusion=self._matrices,
            prior=found["prior"],
            history=found["history"],
            n_iter=found["n_iter"],
            converged=found["converged"],
        )

    def _matrices(self) -> Array:
        k = len(self._found.prior)
        matrices = np.empty((len(self._accuracy), k, k))
        matrices[:] = ((1 - self._accuracy) / max(k - 1, 1))[:, None, None]
        matrices[:, np.arange(k), np.arange(k)] = self._accuracy[:, None]
        return matrices

    def _winning(self, result: Fit) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]:
        return self._found.winners, self._found.tied

    # --------------------------------------------------------------------------------------------- prediction

    def _predicted(self, votes: Annotations) -> Candidates:
        """Posteriors of other annotations; a worker not seen before is an average one."""
        accuracy = self._carried_over(self._accuracy, self._workers.match(votes._workers))
        return self._expected(self._recode(votes), accuracy)

    def _expected(self, table: _core.Table, accuracy: Array) -> Candidates:
        found = _core.sparse_fit(
            table,
            start="",
            pseudo=(0.0, 0.0),
            class_pseudo=0.0,
            max_iter=0,
            tol=0.0,
            prior=self.prior_,
            accuracy=accuracy,
        )
        return Candidates.of(found)

    def predict(self, votes: Any) -> npt.NDArray[Any]:
        """Label tasks, old or new, from annotations by known workers; see :meth:`predict_proba`."""
        self._fitted()
        now = self._snapshot()
        return now._classes.values[now._predicted(as_annotations(votes)).winners]

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        return self._expected(table, self._carried_over(self._accuracy, known)).dense()

    # -------------------------------------------------------------------------------------------- persistence

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def _packed(self) -> dict[str, npt.NDArray[Any]]:
        found = {name: getattr(self._found, name) for name in Candidates.__dataclass_fields__ if name != "prior"}
        return {"accuracy": self._accuracy} | {f"candidates.{name}": array for name, array in found.items()}

    def _unpack(self, content: persist.Content, sizes: Mapping[str, int]) -> tuple[Any, Any]:
        n, k = sizes["n"], sizes["k"]
        self._accuracy = content.array("accuracy", np.float64, shape=(sizes["m"],))
        offsets = content.array("candidates.offsets", np.uint32, shape=(n + 1,))
        total = int(offsets[-1])
        kinds = {"rest": np.float64, "winners": np.uint16, "confidence": np.float64, "tied": np.bool_}
        found = {name: content.array(f"candidates.{name}", kind, shape=(n,)) for name, kind in kinds.items()}
        classes = content.array("candidates.classes", np.uint16, shape=(total,))
        q = content.array("candidates.probabilities", np.float64, shape=(total,))
        prior = content.array("prior", np.float64, shape=(k,))
        self._found = Candidates(offsets=offsets, classes=classes, probabilities=q, prior=prior, **found)
        if offsets[0] or (offsets[1:] < offsets[:-1]).any() or max(classes.max(initial=0), found["winners"].max()) >= k:
            raise content.damaged("its candidates are not those of its tasks and classes")
        tasks, rest = self._found.tasks(), self._found.rest
        if (np.diff(tasks * k + classes) <= 0).any():
            raise content.damaged("the candidates of a task repeat or are out of order")
        sums = np.bincount(tasks, q, minlength=n) + rest
        # What is left for classes that nobody named must have a class to go to.
        others = prior.sum() - np.bincount(tasks, prior[classes], minlength=n)
        sound = (q >= 0).all() and (rest >= 0).all() and (np.abs(sums - 1) < 1e-6).all()
        if not sound or ((rest > 1e-6) & (others < 1e-12)).any():
            raise content.damaged("it holds probabilities that do not sum to one")
        for name, share in (("accuracy", self._accuracy), ("confidence", self._found.confidence)):
            if not ((share >= 0) & (share <= 1 + 1e-9)).all():
                raise content.damaged(f"its {name} holds values that are no probabilities")
        return self._found.dense, self._matrices


def information(accuracy: Array, prior: Array) -> Array:
    """Bits that an answer of a one-coin worker carries; O(workers · classes) time, O(workers) memory."""
    k = len(prior)
    error = (1 - accuracy) / max(k - 1, 1)
    of_label = np.zeros(len(accuracy))
    # Most of very many classes are equally frequent.
    for p, n in zip(*np.unique(prior, return_counts=True), strict=True):
        of_label += n * _bits(error + p * (accuracy - error))
    inside: Array = of_label - _bits(accuracy) - (k - 1) * _bits(error)
    return np.maximum(inside, 0.0)


def _bits(p: Array) -> Array:
    return -p * np.log2(np.where(p > 0, p, 1.0))


def spammer_score(accuracy: Array, n_classes: int) -> Array:
    """Spammer score of one-coin workers; see :func:`manyhands.metrics.spammer_score`."""
    if n_classes == 1:
        return np.ones(len(accuracy))
    score: Array = (accuracy - (1 - accuracy) / (n_classes - 1)) ** 2
    return score
