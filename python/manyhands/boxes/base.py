"""Base class of box aggregators: results, persistence."""

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
    """Estimated objects of each task, sorted by task and decreasing probability."""

    #: Offset of the objects of each task, plus the total, (n_tasks + 1,).
    starts: Ints = field(metadata=offsets("N"))
    #: (objects, 4), or (objects, 2) for points.
    boxes: Array = field(metadata=numbers("oc"))
    #: Label codes; 0 without labels.
    labels: Ints = field(metadata=codes("o", "k"))
    probability: Array = field(metadata=numbers("o"))
    #: Number of workers who drew each object.
    support: Ints = field(metadata=codes("o"))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise if objects do not match the tasks."""
        if self.starts[-1] != len(self.boxes) or self.boxes.shape[1] not in (2, 4):
            raise ValueError("the objects do not match the tasks")


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxFitted(TaskFitted[BoxFit]):
    """Fitted state of a box aggregator, with class names (if any)."""

    classes: Names = field(metadata=names("k", empty=True))


class BoxAggregator(TaskEstimator[Boxes, BoxFit, BoxFitted]):
    """Base class of box aggregators. Subclasses implement ``_fit`` and their worker columns."""

    _kind: ClassVar[str] = "boxes"
    _answer: ClassVar[str] = "boxes_"
    _several_rows: ClassVar[bool] = True
    _fit_type: ClassVar[type[Fit]] = BoxFit
    _fitted_type: ClassVar[type[BoxFitted]] = BoxFitted

    def _publish(self, fit: BoxFit, votes: Boxes, /, **more: Any) -> BoxFitted:
        # Count boxes only, not rows that mark an empty image.
        n_boxes = np.bincount(votes.codes()[1][votes.seen], minlength=votes.n_workers).astype(np.int64)
        return super()._publish(fit, votes, n_labels=n_boxes, **more)

    def _doubts(self, votes: Boxes) -> Doubts:
        # Several boxes of a worker in a task are not repeats.
        return _groups(votes)

    def _each(self, fit: BoxFit, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Split per-object values by task."""
        return [part.copy() for part in np.split(values, fit.starts[1:-1])]

    @property
    def boxes_(self) -> list[Array]:
        """Objects of each task, as a list of arrays (n_objects, 4), or (n_objects, 2) for points."""
        fit = self._fitted().fit
        return self._each(fit, fit.boxes)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the labels, in code order; empty if boxes have no labels."""
        return self._fitted().classes.values

    @property
    def box_labels_(self) -> list[npt.NDArray[Any]]:
        """Labels of the objects of each task, as a list of arrays (n_objects,); None if boxes have no labels."""
        now = self._fitted()
        labels = now.fit.labels
        label_names = now.classes.values[labels] if len(now.classes) else np.full(len(labels), None, object)
        return self._each(now.fit, label_names)

    @property
    def probabilities_(self) -> list[Array]:
        """Probability that each object exists, as a list of arrays (n_objects,)."""
        fit = self._fitted().fit
        return self._each(fit, fit.probability)

    @property
    def confidence_(self) -> Array:
        """Probability that the least certain object of each task exists, shape (n_tasks,); NaN without objects.

        :attr:`probabilities_` and :meth:`to_frame` contain the probability of every object.
        """
        fit = self._fitted().fit
        confidence = np.full(len(fit.starts) - 1, np.nan)
        # Objects are sorted by decreasing probability.
        any_ = np.diff(fit.starts) > 0
        confidence[any_] = fit.probability[fit.starts[1:][any_] - 1]
        return confidence

    def to_frame(self) -> pa.Table:
        """Return one row per object: task, x1, y1, x2, y2 (x, y for points), label, confidence, n_workers.

        ``confidence`` is the probability that the object exists. Tasks without objects have no row; the column
        ``label`` exists if boxes have labels.
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
        aggregated = self.boxes_[place]
        corners = np.stack(
            [arrow.to_numpy(rows.column(role)) for role in rows.column_names[1 : 1 + aggregated.shape[1]]], 1
        )
        if aggregated.shape[1] != 4 or not len(aggregated) or np.isnan(corners).any():
            return {}
        return {"agreement": box_iou(corners, aggregated).max(axis=1)}


def box_fit_fields(
    candidates: Candidates, keep: npt.NDArray[np.bool_], boxes: Array, labels: Ints, probability: Array, n_tasks: int
) -> dict[str, Any]:
    """Return the fields of a `BoxFit` for the selected candidates, by task, decreasing probability and position."""
    rows = np.flatnonzero(keep)
    rows = rows[np.lexsort((*boxes[rows].T[::-1], -probability[rows], candidates.task[rows]))]
    return {
        "starts": np.searchsorted(candidates.task[rows], np.arange(n_tasks + 1)).astype(np.int64),
        "boxes": boxes[rows],
        "labels": labels[rows],
        "probability": probability[rows],
        "support": candidates.n_workers[rows].astype(np.int64),
    }
