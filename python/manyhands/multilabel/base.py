"""Base class of multi-label aggregators: label probabilities, sets from thresholds, persistence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, codes, names, numbers, part
from manyhands._base.names import Names
from manyhands._base.results import Columns
from manyhands._base.values import as_objects
from manyhands.multilabel.table import MultiLabels

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Labels given to each task by at least one worker, sorted by task and label, with probabilities."""

    tasks: Ints = field(metadata=codes("c", "n"))
    labels: Ints = field(metadata=codes("c", "k"))
    probabilities: Array = field(metadata=numbers("c", least=0, most=1))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise if the entries are not sorted."""
        if (np.diff(self.tasks * sizes["k"] + self.labels) <= 0).any():
            raise ValueError("candidates are not sorted by task and label")

    def above(self, thresholds: Array) -> Candidates:
        """Return the candidates whose probability reaches the threshold of their label."""
        selected = self.probabilities >= thresholds[self.labels]
        return Candidates(self.tasks[selected], self.labels[selected], self.probabilities[selected])

    def decision_probability(self, thresholds: Array) -> Array:
        """Probability that each decision (label included or not) is correct."""
        selected = self.probabilities >= thresholds[self.labels]
        return np.where(selected, self.probabilities, 1 - self.probabilities)

    def label_tuples(self, n_tasks: int, names: Names) -> npt.NDArray[np.object_]:
        """Return the sets as tuples of label names, shape (n_tasks,)."""
        labels = names.values[self.labels].tolist()
        ends = np.cumsum(np.bincount(self.tasks, minlength=n_tasks)).tolist()
        return as_objects([tuple(labels[a:b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)])


@dataclass(frozen=True, kw_only=True)
class SetFit(Fit):
    """Estimates for multi-label answers."""

    candidates: Candidates = field(metadata=part(Candidates))
    #: Share of tasks with each label, and the probability threshold of each label.
    prior: Array = field(metadata=numbers("k", least=0, most=1))
    thresholds: Array = field(metadata=numbers("k"))


@dataclass(frozen=True, kw_only=True, eq=False)
class SetFitted(TaskFitted[SetFit]):
    """Fitted state of a multi-label aggregator, with label names."""

    labels: Names = field(metadata=names("k"))


class SetAggregator(TaskEstimator[MultiLabels, SetFit, SetFitted]):
    """Base class of multi-label aggregators. Subclasses implement ``_fit``, which maps a table to a `SetFit`."""

    _kind: ClassVar[str] = "multilabel"
    _answer: ClassVar[str] = "label_sets_"
    _parts: ClassVar[tuple[str, ...]] = ("tasks", "workers", "labels")
    _fit_type: ClassVar[type[Fit]] = SetFit
    _fitted_type: ClassVar[type[SetFitted]] = SetFitted

    # ----------------------------------------------------------------------------------------------- results

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of all labels, in the order of all per-label results."""
        return self._fitted().labels.values

    @property
    def label_sets_(self) -> npt.NDArray[np.object_]:
        """Labels of each task, as tuples of names, shape (n_tasks,)."""
        now = self._fitted()
        fit = now.fit
        return fit.candidates.above(fit.thresholds).label_tuples(len(now.tasks), now.labels)

    @property
    def confidence_(self) -> Array:
        """Probability that the least certain decision about each set is correct, shape (n_tasks,).

        Decisions cover the labels that a worker gave to the task; 1 if there are none.
        """
        now = self._fitted()
        return _confidence(now.fit, len(now.tasks))

    @property
    def prior_(self) -> Array:
        """Share of tasks with each label, shape (n_labels,)."""
        return self._fitted().fit.prior

    @property
    def thresholds_(self) -> Array:
        """Probability threshold of each label, shape (n_labels,)."""
        return self._fitted().fit.thresholds

    def probabilities(self) -> pa.Table:
        """Return the task, label and probability of each label that a worker gave to a task, as an Arrow table.

        Labels that no worker gave to a task have probability zero.
        """
        now = self._fitted()
        fit = now.fit
        return _frame(fit.candidates, now.tasks, now.labels)

    def to_frame(self) -> pa.Table:
        """Return the task, labels (a list) and confidence of each task; of the least certain decision."""
        return super().to_frame()

    def _to_frame(self, now: SetFitted) -> pa.Table:
        fit = now.fit
        candidates, n = fit.candidates, len(now.tasks)
        selected = candidates.above(fit.thresholds)
        labels = arrow.lists(n, selected.tasks, now.labels.take(selected.labels).arrow())
        return arrow.table({"task": now.tasks.arrow(), "labels": labels, "confidence": _confidence(fit, n)})

    def tasks_frame(self) -> pa.Table:
        """Return one row per task as an Arrow table, sorted by ``confidence`` for review.

        Columns: those of :meth:`to_frame`; ``n_answers`` (null for a model loaded from a file); ``n_candidates``, the
        number of labels that a worker gave; and the label (``doubtful``) and ``probability`` of the least certain
        decision, null if there is none.

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
        now = self._fitted()
        fit = now.fit
        candidates, n = fit.candidates, len(now.tasks)
        counts = np.bincount(candidates.tasks, minlength=n)
        # First row of each task, after sorting by task and certainty.
        order = np.lexsort((candidates.decision_probability(fit.thresholds), candidates.tasks))
        first = np.where(counts > 0, np.cumsum(counts) - counts, -1)
        rows = np.full(n, -1)
        rows[first >= 0] = order[first[first >= 0]]
        return {
            "n_candidates": counts,
            "doubtful": now.labels.arrow().take(_mask(candidates.labels, rows)),
            "probability": _mask(candidates.probabilities, rows),
        }

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        answer_set = set(self.label_sets_[place])
        worker_sets = [set(labels) for labels in rows.column("labels").to_pylist()]
        return {
            "agreement": np.array(
                [
                    len(one & answer_set) / max(len(one | answer_set), 1) if one | answer_set else 1.0
                    for one in worker_sets
                ]
            )
        }

    def _codes_of(self, now: SetFitted, table: MultiLabels) -> Ints:
        """Return this model's codes for the labels of another table; -1 for labels that do not occur there."""
        codes = now.labels.match(table._labels)
        used_labels = np.unique(table.said()[1])
        unknown = used_labels[codes[used_labels] < 0]
        if len(unknown):
            raise ValueError(f"label {table.labels[unknown[0]]!r} was not in fit; pass it in inventory= when fitting")
        return codes


def _confidence(fit: SetFit, n_tasks: int) -> Array:
    confidence = np.ones(n_tasks)
    np.minimum.at(confidence, fit.candidates.tasks, fit.candidates.decision_probability(fit.thresholds))
    return confidence


def _mask(values: npt.NDArray[Any], rows: Ints) -> pa.Array:
    """Return values of some rows, null if the row is -1."""
    import pyarrow as pa

    return pa.array(np.append(values, 0)[rows], mask=rows < 0)


def _frame(candidates: Candidates, tasks: Names, labels: Names) -> pa.Table:
    return arrow.table(
        {
            "task": tasks.take(candidates.tasks).arrow(),
            "label": labels.take(candidates.labels).arrow(),
            "probability": candidates.probabilities,
        }
    )
