"""Base class of mask aggregators: kernel inputs, results, persistence."""

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
from manyhands.masks.runs import Runs, from_rle, to_array, to_rle
from manyhands.masks.table import Masks, _whole

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]


def packed_runs(masks: Masks) -> tuple[Codes, Ints, Ints, Ints, Ints, Ints]:
    """Return task offsets, shapes and runs of the masks in table order, as passed to the kernels."""
    runs = masks._runs.take(masks.table.columns()[2].astype(np.int64))
    shapes = np.ascontiguousarray(masks._shapes)
    return masks.table.offsets().astype(np.uint32), shapes, runs.starts, runs.begins, runs.ends, runs.classes


def weights_of(masks: Masks) -> Array:
    """Return the weight of each mask."""
    return np.ones(masks.n_annotations) if masks.weights is None else masks.weights


@dataclass(frozen=True, kw_only=True)
class MaskFit(Fit):
    """Estimated mask of each task."""

    runs: Runs = field(metadata=part(Runs))
    shapes: Ints = field(metadata=codes("ns"))
    n_classes: int = field(metadata=setting(int))
    #: Mean probability of the chosen classes of disputed pixels, (n_tasks,).
    confidence: Array = field(metadata=numbers("n"))
    #: Share of the marked pixels on which answers differ, (n_tasks,).
    disputed: Array = field(metadata=numbers("n"))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise if masks exceed their images or worker parameters have another number of classes."""
        large = (self.shapes > 1 << 20).any()
        if large or not _whole(self.runs, self.shapes.prod(axis=1), self.n_classes):
            raise ValueError("a mask exceeds its image")
        if sizes.get("k", self.n_classes) != self.n_classes:
            raise ValueError(f"worker parameters have {sizes['k']} classes, but the masks have {self.n_classes}")


class MaskAggregator(TaskEstimator[Masks, MaskFit, TaskFitted[MaskFit]]):
    """Base class of mask aggregators. Subclasses implement ``_fit`` and their worker columns."""

    _kind: ClassVar[str] = "masks"
    _answer: ClassVar[str] = "masks_"
    _fit_type: ClassVar[type[Fit]] = MaskFit
    _fitted_type: ClassVar[type[TaskFitted[Any]]] = TaskFitted

    @property
    def masks_(self) -> list[npt.NDArray[Any]]:
        """Mask of each task, as a list of boolean arrays, or of class arrays if there are more than two classes."""
        fit = self._fitted().fit
        shapes = [tuple(shape) for shape in fit.shapes.tolist()]
        return [to_array(fit.runs.one(task), shape, fit.n_classes) for task, shape in enumerate(shapes)]

    @property
    def confidence_(self) -> Array:
        """Mean probability of the chosen classes of disputed pixels, shape (n_tasks,); 1 without disputed pixels."""
        return self._fitted().fit.confidence

    @property
    def disputed_(self) -> Array:
        """Share of the marked pixels on which answers differ, shape (n_tasks,)."""
        return self._fitted().fit.disputed

    def to_frame(self) -> pa.Table:
        """Return task, mask (COCO run-lengths as JSON), confidence, marked ``pixels`` and share ``disputed``."""
        now = self._fitted()
        fit = now.fit
        shapes = [tuple(shape) for shape in fit.shapes.tolist()]
        masks = [json.dumps(to_rle(fit.runs.one(task), shape)) for task, shape in enumerate(shapes)]
        columns = {"mask": masks, "confidence": fit.confidence, "pixels": fit.runs.sizes(), "disputed": fit.disputed}
        return arrow.table({"task": now.tasks.arrow(), **columns})

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        aggregated = self.masks_[place]
        shape, n_classes = aggregated.shape, self._fitted().fit.n_classes
        worker_masks = (
            to_array(from_rle(mask, "a mask").runs, shape, n_classes) for mask in rows.column("mask").to_pylist()
        )
        return {"agreement": np.array([mask_iou([mask], [aggregated]) for mask in worker_masks])}


def mask_fit_of(votes: Masks, result: _core._DecidedMasks, **course: Any) -> MaskFit:
    """Build a fit from the result of a kernel."""
    return MaskFit(
        runs=Runs(result["starts"], result["begins"], result["ends"], result["classes"]),
        shapes=votes.shapes,
        n_classes=votes.n_classes,
        confidence=result["confidence"],
        disputed=result["disputed"],
        history=np.zeros(0),
        **course,
    )
