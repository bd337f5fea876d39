"""What all aggregators of boxes share: results, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow, persist
from manyhands._base.estimator import Array, Fit, TaskEstimator
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
    starts: Ints
    #: (objects, 4), or (objects, 2) for points.
    boxes: Array
    #: Codes of what they are; 0 where nobody said.
    labels: Ints
    probability: Array
    #: How many workers drew each.
    support: Ints


class BoxAggregator(TaskEstimator[Boxes, BoxFit]):
    """Base of all aggregators of boxes: a subclass gives ``_fit``, and what it knows of workers."""

    _kind: ClassVar[str] = "boxes"
    _file_kind: ClassVar[str] = "box-aggregator"
    _answer: ClassVar[str] = "boxes_"
    _several_rows: ClassVar[bool] = True
    _classes: Names

    def _settle(self, result: BoxFit, votes: Boxes) -> None:
        super()._settle(result, votes)
        self._classes = votes._classes
        # Boxes, and not the rows that say that nothing is there.
        self._n_labels = np.bincount(votes.codes()[1][votes.seen], minlength=votes.n_workers).astype(np.int64)

    def _doubts(self, votes: Boxes) -> Doubts:
        # Several boxes of a worker in a task are no repeats.
        return _groups(votes)

    def _each(self, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Cut what is known of objects into tasks."""
        return [part.copy() for part in np.split(values, self._fitted().starts[1:-1])]

    @property
    def boxes_(self) -> list[Array]:
        """The objects of each task, in a list: arrays (n_objects, 4), or (n_objects, 2) for points."""
        return self._each(self._fitted().boxes)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Names of the labels that objects can have, in code order; empty where boxes have no labels."""
        self._fitted()
        return self._classes.values

    @property
    def box_labels_(self) -> list[npt.NDArray[Any]]:
        """What the objects of each task are, in a list: arrays (n_objects,); None where boxes have no labels."""
        return self._each(self._names())

    @property
    def probabilities_(self) -> list[Array]:
        """Probability that each object exists, in a list: arrays (n_objects,)."""
        return self._each(self._fitted().probability)

    @property
    def confidence_(self) -> Array:
        """Probability that the least certain object of each task exists, (n_tasks,); NaN where there are no objects.

        :attr:`probabilities_` and :meth:`to_frame` have the probability of every object.
        """
        fit = self._fitted()
        confidence = np.full(len(fit.starts) - 1, np.nan)
        # Objects are in the order of falling probability.
        any_ = np.diff(fit.starts) > 0
        confidence[any_] = fit.probability[fit.starts[1:][any_] - 1]
        return confidence

    def _names(self) -> npt.NDArray[Any]:
        fit = self._fitted()
        if not len(self._classes):
            return np.full(len(fit.labels), None, object)
        return self._classes.values[fit.labels]

    def to_frame(self) -> pa.Table:
        """Return one row per object: task, x1, y1, x2, y2 (x, y for points), label, confidence, n_workers.

        ``confidence`` is the probability that the object exists. Tasks in which nothing was found have no row;
        ``label`` is there where boxes have labels.
        """
        self._fitted()
        now = self._snapshot()
        fit = now._fitted()
        tasks = np.repeat(np.arange(len(now._tasks)), np.diff(fit.starts))
        roles = ("x1", "y1", "x2", "y2") if fit.boxes.shape[1] == 4 else ("x", "y")
        columns: Columns = {"task": arrow.take(now._tasks.arrow(), tasks)}
        columns |= {role: fit.boxes[:, i] for i, role in enumerate(roles)}
        if len(now._classes):
            columns["label"] = arrow.take(now._classes.arrow(), fit.labels)
        return arrow.table({**columns, "confidence": fit.probability, "n_workers": fit.support})

    def _one_row_each(self) -> pa.Table:
        columns = {"task": self._tasks.arrow(), "n_objects": np.diff(self._fitted().starts)}
        return arrow.table(columns | {"confidence": self.confidence_})

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        found = self.boxes_[place]
        corners = np.stack([arrow.to_numpy(rows.column(role)) for role in rows.column_names[1 : 1 + found.shape[1]]], 1)
        if found.shape[1] != 4 or not len(found) or np.isnan(corners).any():
            return {}
        return {"agreement": box_iou(corners, found).max(axis=1)}

    # ------------------------------------------------------------------------------------------- persistence

    def _packed(self) -> dict[str, npt.NDArray[Any]]:
        fit = self._fitted()
        arrays: dict[str, npt.NDArray[Any]] = {
            "starts": fit.starts,
            "boxes": fit.boxes,
            "labels": fit.labels,
            "probability": fit.probability,
            "support": fit.support,
        }
        arrays |= persist.pack_names("classes", self._classes)
        return arrays | {f"learnt.{name}": getattr(self, name) for name in self._learnt_arrays()}

    def _take_back(self, content: persist.Content, course: Mapping[str, Any]) -> None:
        n = len(self._tasks)
        self._classes = content.names("classes")
        starts, boxes = content.array("starts", np.int64, shape=(n + 1,)), content.array("boxes", np.float64, ndim=2)
        labels, support = (content.array(name, np.int64, shape=(len(boxes),)) for name in ("labels", "support"))
        k = max(len(self._classes), 1)
        whole = starts[0] == 0 and starts[-1] == len(boxes) and not (np.diff(starts) < 0).any()
        if not whole or boxes.shape[1] not in (2, 4) or ((labels < 0) | (labels >= k)).any():
            raise content.damaged("its objects are not those of its tasks")
        self._take_learnt(content, {"n": n, "m": len(self._workers), "k": k, "c": boxes.shape[1]})
        probability = content.array("probability", np.float64, shape=(len(boxes),))
        self._result = BoxFit(
            starts=starts, boxes=boxes, labels=labels, probability=probability, support=support, **course
        )


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
