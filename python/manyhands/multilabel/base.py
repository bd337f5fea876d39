"""What all aggregators of sets share: probabilities of labels that were said, sets by thresholds, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands.estimator import Array, Fit, TaskEstimator
from manyhands.table import arrow, persist
from manyhands.table.names import Names
from manyhands.table.sets import MultiLabels
from manyhands.table.values import as_objects

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Labels that somebody said of a task: tasks, ascending, labels, ascending within them, and probabilities."""

    tasks: Ints
    labels: Ints
    probabilities: Array

    def above(self, thresholds: Array) -> Candidates:
        """Those whose probability reaches the threshold of their label."""
        kept = self.probabilities >= thresholds[self.labels]
        return Candidates(self.tasks[kept], self.labels[kept], self.probabilities[kept])

    def named(self, n_tasks: int, names: Names) -> npt.NDArray[np.object_]:
        """The sets, as tuples of names, (n_tasks,)."""
        labels = names.values[self.labels].tolist()
        ends = np.cumsum(np.bincount(self.tasks, minlength=n_tasks)).tolist()
        return as_objects([tuple(labels[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)])


@dataclass(frozen=True, kw_only=True)
class SetFit(Fit):
    """What an aggregator learns from a table of sets."""

    candidates: Candidates
    #: Share of the tasks that each label is true of, and the probability from which on it is taken.
    prior: Array
    thresholds: Array


class SetAggregator(TaskEstimator[MultiLabels, SetFit]):
    """Base of all aggregators of sets: a subclass gives ``_fit``, which maps a table to a `SetFit`."""

    _kind: ClassVar[str] = "sets"
    _file_kind: ClassVar[str] = "multilabel"
    _parts: ClassVar[tuple[str, ...]] = ("tasks", "workers", "labels")
    _labels: Names

    # ----------------------------------------------------------------------------------------------- results

    @property
    def labels_(self) -> npt.NDArray[Any]:
        """Names of the labels that could be said, in the order of all results about them."""
        self._fitted()
        return self._labels.values

    @property
    def sets_(self) -> npt.NDArray[np.object_]:
        """The labels of each task, as tuples of names, (n_tasks,)."""
        fit = self._fitted()
        now = self._snapshot()
        return fit.candidates.above(fit.thresholds).named(len(now._tasks), now._labels)

    @property
    def prior_(self) -> Array:
        """Share of the tasks that each label is true of, (n_labels,)."""
        return self._fitted().prior

    @property
    def thresholds_(self) -> Array:
        """Probability from which on each label is taken, (n_labels,)."""
        return self._fitted().thresholds

    def probabilities(self) -> pa.Table:
        """Return one row for each label that somebody said of a task: task, label, probability, as an Arrow table.

        A label that nobody said of a task is taken not to be true of it.
        """
        fit = self._fitted()
        now = self._snapshot()
        return _frame(fit.candidates, now._tasks, now._labels)

    def to_frame(self) -> pa.Table:
        """Return task, labels (a list) and confidence, the probability of the least probable of all its decisions."""
        fit = self._fitted()
        now = self._snapshot()
        found, n = fit.candidates, len(now._tasks)
        taken = found.above(fit.thresholds)
        sure = np.where(
            found.probabilities >= fit.thresholds[found.labels], found.probabilities, 1 - found.probabilities
        )
        confidence = np.ones(n)
        np.minimum.at(confidence, found.tasks, sure)
        labels = arrow.lists(n, taken.tasks, now._labels.take(taken.labels).arrow())
        return arrow.table({"task": now._tasks.arrow(), "labels": labels, "confidence": confidence})

    # ------------------------------------------------------------------------------------------- persistence

    def _packed(self) -> dict[str, npt.NDArray[Any]]:
        fit = self._fitted()
        found = fit.candidates
        arrays = {"candidate_tasks": found.tasks, "candidate_labels": found.labels, "probability": found.probabilities}
        arrays |= {"prior": fit.prior, "thresholds": fit.thresholds}
        return arrays | {f"learnt.{name}": getattr(self, name) for name in self._learnt_arrays()}

    def _take_back(self, content: persist.Content, course: Mapping[str, Any]) -> None:
        n, k = len(self._tasks), len(self._labels)
        tasks = content.array("candidate_tasks", np.int64, ndim=1)
        labels = content.array("candidate_labels", np.int64, shape=tasks.shape)
        found = Candidates(tasks, labels, content.array("probability", np.float64, shape=tasks.shape))
        prior, thresholds = (content.array(name, np.float64, shape=(k,)) for name in ("prior", "thresholds"))
        inside = ((tasks >= 0) & (tasks < n) & (labels >= 0) & (labels < k)).all()
        if not inside or (np.diff(tasks * k + labels) <= 0).any():
            raise content.damaged("its candidates are not those of its tasks and labels")
        for part in (found.probabilities, prior):
            if not ((part >= 0) & (part <= 1)).all():
                raise content.damaged("it holds probabilities that are none")
        self._take_learnt(content, {"n": n, "m": len(self._workers), "k": k})
        self._result = SetFit(candidates=found, prior=prior, thresholds=thresholds, **course)


def _frame(found: Candidates, tasks: Names, labels: Names) -> pa.Table:
    return arrow.table(
        {
            "task": tasks.take(found.tasks).arrow(),
            "label": labels.take(found.labels).arrow(),
            "probability": found.probabilities,
        }
    )
