"""What all aggregators of sets share: probabilities of labels that were said, sets by thresholds, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow, persist
from manyhands._base.estimator import Array, Fit, TaskEstimator
from manyhands._base.names import Names
from manyhands._base.results import Columns
from manyhands._base.values import as_objects
from manyhands.multilabel.table import MultiLabels

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

    def sureness(self, thresholds: Array) -> Array:
        """The probability of each decision, to take a label or not."""
        taken = self.probabilities >= thresholds[self.labels]
        return np.where(taken, self.probabilities, 1 - self.probabilities)

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

    _kind: ClassVar[str] = "multilabel"
    _file_kind: ClassVar[str] = "multilabel"
    _answer: ClassVar[str] = "label_sets_"
    _parts: ClassVar[tuple[str, ...]] = ("tasks", "workers", "labels")
    _labels: Names

    # ----------------------------------------------------------------------------------------------- results

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the labels that could be said, in the order of all results about them."""
        self._fitted()
        return self._labels.values

    @property
    def label_sets_(self) -> npt.NDArray[np.object_]:
        """The labels of each task, as tuples of names, (n_tasks,)."""
        fit = self._fitted()
        now = self._snapshot()
        return fit.candidates.above(fit.thresholds).named(len(now._tasks), now._labels)

    @property
    def confidence_(self) -> Array:
        """Probability of the least certain decision about each set, (n_tasks,): to include a label or to leave it out.

        Only labels that a worker gave to the task are decided on; 1 where there are none.
        """
        fit = self._fitted()
        confidence = np.ones(len(self._snapshot()._tasks))
        np.minimum.at(confidence, fit.candidates.tasks, fit.candidates.sureness(fit.thresholds))
        return confidence

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
        labels = arrow.lists(n, taken.tasks, now._labels.take(taken.labels).arrow())
        return arrow.table({"task": now._tasks.arrow(), "labels": labels, "confidence": now.confidence_})

    def tasks_frame(self) -> pa.Table:
        """Return one row per task, as an Arrow table: what to look at first, sorted by ``confidence``.

        The columns of :meth:`to_frame`; ``n_answers``, the number of answers to the task (null for a model that was
        loaded from a file); ``n_candidates``, the labels that a worker gave; and of the least certain decision about
        them the label, ``doubtful``, and its ``probability``, null where there are none.

        Examples
        --------
        >>> import manyhands as mh
        >>> drawn = mh.simulate(30, 5, 4, seed=0, kind="multilabel")
        >>> frame = mh.aggregate(drawn.log).tasks_frame()
        >>> frame.column_names
        ['task', 'labels', 'confidence', 'n_answers', 'n_candidates', 'doubtful', 'probability']
        """
        return super().tasks_frame()

    def _more_of_tasks(self) -> Columns:
        fit = self._fitted()
        found, n = fit.candidates, len(self._tasks)
        counts = np.bincount(found.tasks, minlength=n)
        # The first row of each task, of those sorted by task and within it by their certainty.
        order = np.lexsort((found.sureness(fit.thresholds), found.tasks))
        first = np.where(counts > 0, np.cumsum(counts) - counts, -1)
        rows = np.full(n, -1)
        rows[first >= 0] = order[first[first >= 0]]
        return {
            "n_candidates": counts,
            "doubtful": self._labels.arrow().take(_masked(found.labels, rows)),
            "probability": _masked(found.probabilities, rows),
        }

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        decided = set(self.label_sets_[place])
        said = [set(labels) for labels in rows.column("labels").to_pylist()]
        return {
            "agreement": np.array(
                [len(one & decided) / max(len(one | decided), 1) if one | decided else 1.0 for one in said]
            )
        }

    def _codes_of(self, table: MultiLabels) -> Ints:
        """The codes that this model has for the labels of another table; -1 for those that nobody says there."""
        codes = self._labels.match(table._labels)
        said = np.unique(table.said()[1])
        unknown = said[codes[said] < 0]
        if len(unknown):
            raise ValueError(f"label {table.labels[unknown[0]]!r} was not in the inventory of the fit; name it there")
        return codes

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


def _masked(values: npt.NDArray[Any], rows: Ints) -> pa.Array:
    """The values of some rows, null where a row is -1."""
    import pyarrow as pa

    return pa.array(np.append(values, 0)[rows], mask=rows < 0)


def _frame(found: Candidates, tasks: Names, labels: Names) -> pa.Table:
    return arrow.table(
        {
            "task": tasks.take(found.tasks).arrow(),
            "label": labels.take(found.labels).arrow(),
            "probability": found.probabilities,
        }
    )
