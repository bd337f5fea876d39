"""What all aggregators of masks share: how kernels take masks, results, files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, codes, numbers, part, setting
from manyhands._base.results import Columns
from manyhands.masks.metrics import mask_iou
from manyhands.masks.runs import Runs, filled, from_rle, to_rle
from manyhands.masks.table import Masks, _whole

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]


def packed_runs(masks: Masks) -> tuple[Codes, Ints, Ints, Ints, Ints, Ints]:
    """Offsets of tasks, shapes, and the runs of masks in the order of the table, as kernels take them."""
    runs = masks._runs.take(masks.table.columns()[2].astype(np.int64))
    shapes = np.ascontiguousarray(masks._shapes)
    return masks.table.offsets().astype(np.uint32), shapes, runs.starts, runs.begins, runs.ends, runs.classes


def weights_of(masks: Masks) -> Array:
    """How much each mask counts."""
    return np.ones(masks.n_annotations) if masks.weights is None else masks.weights


@dataclass(frozen=True, kw_only=True)
class MaskFit(Fit):
    """A mask for each task."""

    runs: Runs = field(metadata=part(Runs))
    shapes: Ints = field(metadata=codes("ns"))
    n_classes: int = field(metadata=setting(int))
    #: Mean probability of the classes of disputed pixels, (n_tasks,).
    confidence: Array = field(metadata=numbers("n"))
    #: Share of the pixels marked by anybody on which answers differ, (n_tasks,).
    disputed: Array = field(metadata=numbers("n"))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where masks are not within their images, or what is known of workers is about other classes."""
        large = (self.shapes > 1 << 20).any()
        if large or not _whole(self.runs, self.shapes.prod(axis=1), self.n_classes):
            raise ValueError("its masks are not within their images")
        if sizes.get("k", self.n_classes) != self.n_classes:
            raise ValueError(f"its workers are judged by {sizes['k']} classes, and its masks have {self.n_classes}")


class MaskAggregator(TaskEstimator[Masks, MaskFit, TaskFitted[MaskFit]]):
    """Base of all aggregators of masks: a subclass gives ``_fit``, and what it knows of workers."""

    _kind: ClassVar[str] = "masks"
    _file_kind: ClassVar[str] = "mask-aggregator"
    _answer: ClassVar[str] = "masks_"
    _fit_type: ClassVar[type[Fit]] = MaskFit
    _fitted_type: ClassVar[type[TaskFitted[Any]]] = TaskFitted

    @property
    def masks_(self) -> list[npt.NDArray[Any]]:
        """The mask of each task, in a list: arrays of booleans, or of classes where there are more than two."""
        fit = self._fitted().fit
        shapes = [tuple(shape) for shape in fit.shapes.tolist()]
        return [filled(fit.runs.one(task), shape, fit.n_classes) for task, shape in enumerate(shapes)]

    @property
    def confidence_(self) -> Array:
        """Mean probability of what was chosen for the pixels on which answers differ, (n_tasks,); 1 if none do."""
        return self._fitted().fit.confidence

    @property
    def disputed_(self) -> Array:
        """Share of the pixels that anybody marked on which answers differ, (n_tasks,)."""
        return self._fitted().fit.disputed

    def to_frame(self) -> pa.Table:
        """Return task, mask (run-lengths of COCO, as JSON), confidence, ``pixels`` marked and share ``disputed``."""
        now = self._fitted()
        fit = now.fit
        shapes = [tuple(shape) for shape in fit.shapes.tolist()]
        masks = [json.dumps(to_rle(fit.runs.one(task), shape)) for task, shape in enumerate(shapes)]
        columns = {"mask": masks, "confidence": fit.confidence, "pixels": fit.runs.sizes(), "disputed": fit.disputed}
        return arrow.table({"task": now.tasks.arrow(), **columns})

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        decided = self.masks_[place]
        shape, n_classes = decided.shape, self._fitted().fit.n_classes
        said = (filled(from_rle(mask, "a mask").runs, shape, n_classes) for mask in rows.column("mask").to_pylist())
        return {"agreement": np.array([mask_iou([mask], [decided]) for mask in said])}


def decided(votes: Masks, found: _core._DecidedMasks, **course: Any) -> MaskFit:
    """The result of a kernel that decides pixels."""
    return MaskFit(
        runs=Runs(found["starts"], found["begins"], found["ends"], found["classes"]),
        shapes=votes.shapes,
        n_classes=votes.n_classes,
        confidence=found["confidence"],
        disputed=found["disputed"],
        history=np.zeros(0),
        **course,
    )
