"""What all aggregators of sets share: probabilities of labels that were said, sets by thresholds, files."""

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
    """Labels that somebody said of a task: tasks, ascending, labels, ascending within them, and probabilities."""

    tasks: Ints = field(metadata=codes("c", "n"))
    labels: Ints = field(metadata=codes("c", "k"))
    probabilities: Array = field(metadata=numbers("c", least=0, most=1))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where they are not in order."""
        if (np.diff(self.tasks * sizes["k"] + self.labels) <= 0).any():
            raise ValueError("its candidates are not those of its tasks and labels")

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

    candidates: Candidates = field(metadata=part(Candidates))
    #: Share of the tasks that each label is true of, and the probability from which on it is taken.
    prior: Array = field(metadata=numbers("k", least=0, most=1))
    thresholds: Array = field(metadata=numbers("k"))


@dataclass(frozen=True, kw_only=True, eq=False)
class SetFitted(TaskFitted[SetFit]):
    """Sets of tasks, and names of the labels."""

    labels: Names = field(metadata=names("k"))


class SetAggregator(TaskEstimator[MultiLabels, SetFit, SetFitted]):
    """Base of all aggregators of sets: a subclass gives ``_fit``, which maps a table to a `SetFit`."""

    _kind: ClassVar[str] = "multilabel"
    _file_kind: ClassVar[str] = "multilabel"
    _answer: ClassVar[str] = "label_sets_"
    _parts: ClassVar[tuple[str, ...]] = ("tasks", "workers", "labels")
    _fit_type: ClassVar[type[Fit]] = SetFit
    _fitted_type: ClassVar[type[SetFitted]] = SetFitted

    # ----------------------------------------------------------------------------------------------- results

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the labels that could be said, in the order of all results about them."""
        return self._fitted().labels.values

    @property
    def label_sets_(self) -> npt.NDArray[np.object_]:
        """The labels of each task, as tuples of names, (n_tasks,)."""
        now = self._fitted()
        fit = now.fit
        return fit.candidates.above(fit.thresholds).named(len(now.tasks), now.labels)

    @property
    def confidence_(self) -> Array:
        """Probability of the least certain decision about each set, (n_tasks,): to include a label or to leave it out.

        Only labels that a worker gave to the task are decided on; 1 where there are none.
        """
        now = self._fitted()
        return _confidence(now.fit, len(now.tasks))

    @property
    def prior_(self) -> Array:
        """Share of the tasks that each label is true of, (n_labels,)."""
        return self._fitted().fit.prior

    @property
    def thresholds_(self) -> Array:
        """Probability from which on each label is taken, (n_labels,)."""
        return self._fitted().fit.thresholds

    def probabilities(self) -> pa.Table:
        """Return one row for each label that somebody said of a task: task, label, probability, as an Arrow table.

        A label that nobody said of a task is taken not to be true of it.
        """
        now = self._fitted()
        fit = now.fit
        return _frame(fit.candidates, now.tasks, now.labels)

    def to_frame(self) -> pa.Table:
        """Return task, labels (a list) and confidence, the probability of the least probable of all its decisions."""
        return super().to_frame()

    def _to_frame(self, now: SetFitted) -> pa.Table:
        fit = now.fit
        found, n = fit.candidates, len(now.tasks)
        taken = found.above(fit.thresholds)
        labels = arrow.lists(n, taken.tasks, now.labels.take(taken.labels).arrow())
        return arrow.table({"task": now.tasks.arrow(), "labels": labels, "confidence": _confidence(fit, n)})

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
        now = self._fitted()
        fit = now.fit
        found, n = fit.candidates, len(now.tasks)
        counts = np.bincount(found.tasks, minlength=n)
        # The first row of each task, of those sorted by task and within it by their certainty.
        order = np.lexsort((found.sureness(fit.thresholds), found.tasks))
        first = np.where(counts > 0, np.cumsum(counts) - counts, -1)
        rows = np.full(n, -1)
        rows[first >= 0] = order[first[first >= 0]]
        return {
            "n_candidates": counts,
            "doubtful": now.labels.arrow().take(_masked(found.labels, rows)),
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

    def _codes_of(self, now: SetFitted, table: MultiLabels) -> Ints:
        """The codes that this model has for the labels of another table; -1 for those that nobody says there."""
        codes = now.labels.match(table._labels)
        said = np.unique(table.said()[1])
        unknown = said[codes[said] < 0]
        if len(unknown):
            raise ValueError(f"label {table.labels[unknown[0]]!r} was not in the inventory of the fit; name it there")
        return codes


def _confidence(fit: SetFit, n_tasks: int) -> Array:
    confidence = np.ones(n_tasks)
    np.minimum.at(confidence, fit.candidates.tasks, fit.candidates.sureness(fit.thresholds))
    return confidence


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
