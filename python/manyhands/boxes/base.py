"""What all aggregators of boxes share: results, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, codes, names, numbers, offsets
from manyhands._base.names import Names
from manyhands._base.overlap import Doubts, _groups
from manyhands._base.results import Columns
from manyhands.boxes._matching import Candidates, Ints
from manyhands.boxes.metrics import box_iou
from manyhands.boxes.table import Boxes

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class BoxFit(Fit):
    """The objects of each task, by task and falling probability."""

    #: Where the objects of each task begin, and where the last end, (n_tasks + 1,).
    starts: Ints = field(metadata=offsets("N"))
    #: (objects, 4), or (objects, 2) for points.
    boxes: Array = field(metadata=numbers("oc"))
    #: Codes of what they are; 0 where nobody said.
    labels: Ints = field(metadata=codes("o", "k"))
    probability: Array = field(metadata=numbers("o"))
    #: How many workers drew each.
    support: Ints = field(metadata=codes("o"))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where objects are not those of the tasks."""
        if self.starts[-1] != len(self.boxes) or self.boxes.shape[1] not in (2, 4):
            raise ValueError("its objects are not those of its tasks")


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxFitted(TaskFitted[BoxFit]):
    """Objects of tasks, and names of their classes, if they have any."""

    classes: Names = field(metadata=names("k", empty=True))


class BoxAggregator(TaskEstimator[Boxes, BoxFit, BoxFitted]):
    """Base of all aggregators of boxes: a subclass gives ``_fit``, and what it knows of workers."""

    _kind: ClassVar[str] = "boxes"
    _file_kind: ClassVar[str] = "box-aggregator"
    _answer: ClassVar[str] = "boxes_"
    _several_rows: ClassVar[bool] = True
    _fit_type: ClassVar[type[Fit]] = BoxFit
    _fitted_type: ClassVar[type[BoxFitted]] = BoxFitted

    def _publish(self, fit: BoxFit, votes: Boxes, /, **more: Any) -> BoxFitted:
        # Boxes, and not the rows that say that nothing is there.
        n_boxes = np.bincount(votes.codes()[1][votes.seen], minlength=votes.n_workers).astype(np.int64)
        return super()._publish(fit, votes, n_labels=n_boxes, **more)

    def _doubts(self, votes: Boxes) -> Doubts:
        # Several boxes of a worker in a task are no repeats.
        return _groups(votes)

    def _each(self, fit: BoxFit, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Cut what is known of objects into tasks."""
        return [part.copy() for part in np.split(values, fit.starts[1:-1])]

    @property
    def boxes_(self) -> list[Array]:
        """The objects of each task, in a list: arrays (n_objects, 4), or (n_objects, 2) for points."""
        fit = self._fitted().fit
        return self._each(fit, fit.boxes)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the labels that objects can have, in code order; empty where boxes have no labels."""
        return self._fitted().classes.values

    @property
    def box_labels_(self) -> list[npt.NDArray[Any]]:
        """What the objects of each task are, in a list: arrays (n_objects,); None where boxes have no labels."""
        now = self._fitted()
        labels = now.fit.labels
        found = now.classes.values[labels] if len(now.classes) else np.full(len(labels), None, object)
        return self._each(now.fit, found)

    @property
    def probabilities_(self) -> list[Array]:
        """Probability that each object exists, in a list: arrays (n_objects,)."""
        fit = self._fitted().fit
        return self._each(fit, fit.probability)

    @property
    def confidence_(self) -> Array:
        """Probability that the least certain object of each task exists, (n_tasks,); NaN where there are no objects.

        :attr:`probabilities_` and :meth:`to_frame` have the probability of every object.
        """
        fit = self._fitted().fit
        confidence = np.full(len(fit.starts) - 1, np.nan)
        # Objects are in the order of falling probability.
        any_ = np.diff(fit.starts) > 0
        confidence[any_] = fit.probability[fit.starts[1:][any_] - 1]
        return confidence

    def to_frame(self) -> pa.Table:
        """Return one row per object: task, x1, y1, x2, y2 (x, y for points), label, confidence, n_workers.

        ``confidence`` is the probability that the object exists. Tasks in which nothing was found have no row;
        ``label`` is there where boxes have labels.
        """
        now = self._fitted()
        fit = now.fit
        tasks = np.repeat(np.arange(len(now.tasks)), np.diff(fit.starts))
        roles = ("x1", "y1", "x2", "y2") if fit.boxes.shape[1] == 4 else ("x", "y")
        columns: Columns = {"task": arrow.take(now.tasks.arrow(), tasks)}
        columns |= {role: fit.boxes[:, i] for i, role in enumerate(roles)}
        if len(now.classes):
            columns["label"] = arrow.take(now.classes.arrow(), fit.labels)
        return arrow.table({**columns, "confidence": fit.probability, "n_workers": fit.support})

    def _one_row_each(self) -> pa.Table:
        now = self._fitted()
        columns = {"task": now.tasks.arrow(), "n_objects": np.diff(now.fit.starts)}
        return arrow.table(columns | {"confidence": self.confidence_})

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        found = self.boxes_[place]
        corners = np.stack([arrow.to_numpy(rows.column(role)) for role in rows.column_names[1 : 1 + found.shape[1]]], 1)
        if found.shape[1] != 4 or not len(found) or np.isnan(corners).any():
            return {}
        return {"agreement": box_iou(corners, found).max(axis=1)}


def concluded(
    found: Candidates, keep: npt.NDArray[np.bool_], boxes: Array, labels: Ints, probability: Array, n_tasks: int
) -> dict[str, Any]:
    """Fields of a `BoxFit` for the candidates that are kept: by task, falling probability and place."""
    rows = np.flatnonzero(keep)
    rows = rows[np.lexsort((*boxes[rows].T[::-1], -probability[rows], found.task[rows]))]
    return {
        "starts": np.searchsorted(found.task[rows], np.arange(n_tasks + 1)).astype(np.int64),
        "boxes": boxes[rows],
        "labels": labels[rows],
        "probability": probability[rows],
        "support": found.n_workers[rows].astype(np.int64),
    }
