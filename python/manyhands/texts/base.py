"""What all aggregators of texts share: results and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow, persist
from manyhands._base.estimator import Array, Fit, TaskEstimator
from manyhands._base.results import Columns
from manyhands.objects.table import pack_objects, unpack_objects
from manyhands.texts.metrics import word_error_rate
from manyhands.texts.table import Texts

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class TextFit(Fit):
    """A text for each task."""

    texts: npt.NDArray[np.object_]
    #: How sure each is, between 0 and 1.
    confidence: Array


class TextAggregator(TaskEstimator[Texts, TextFit]):
    """Base of all aggregators of texts: a subclass gives ``_fit`` and what it knows of workers."""

    _kind: ClassVar[str] = "texts"
    _file_kind: ClassVar[str] = "text-aggregator"
    _answer: ClassVar[str] = "texts_"
    #: What is known of workers, by the name of a column: attributes among `_learnt`, one number a worker.
    _of_workers: ClassVar[Mapping[str, str]]

    @property
    def texts_(self) -> npt.NDArray[np.object_]:
        """The text of each task, (n_tasks,)."""
        return self._fitted().texts

    @property
    def confidence_(self) -> Array:
        """How sure each text is, between 0 and 1, (n_tasks,)."""
        return self._fitted().confidence

    def to_frame(self) -> pa.Table:
        """Return task, text and confidence, as an Arrow table."""
        import pyarrow as pa

        fit = self._fitted()
        now = self._snapshot()
        texts = pa.array(fit.texts.tolist(), pa.string())
        return arrow.table({"task": now._tasks.arrow(), "text": texts, "confidence": fit.confidence})

    def _skills(self) -> Columns:
        return {name: getattr(self, held) for name, held in self._of_workers.items()}

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        decided = self._fitted().texts[place]
        wrong = [
            word_error_rate([text], [decided]) if decided else float(bool(text))
            for text in rows.column("text").to_pylist()
        ]
        return {"agreement": np.maximum(1.0 - np.array(wrong), 0.0)}

    # ------------------------------------------------------------------------------------------- persistence

    def _packed(self) -> dict[str, npt.NDArray[Any]]:
        fit = self._fitted()
        arrays: dict[str, npt.NDArray[Any]] = {"texts": pack_objects(fit.texts.tolist()), "confidence": fit.confidence}
        return arrays | {f"learnt.{name}": getattr(self, name) for name in self._learnt_arrays()}

    def _take_back(self, content: persist.Content, course: Mapping[str, Any]) -> None:
        n = len(self._tasks)
        texts = unpack_texts(content, "texts")
        confidence = content.array("confidence", np.float64, shape=(n,))
        if len(texts) != n or not ((confidence >= 0) & (confidence <= 1)).all():
            raise content.damaged("it does not have one text and its confidence for each task")
        self._take_learnt(content, {"n": n, "m": len(self._workers)})
        self._result = TextFit(texts=texts, confidence=confidence, **course)


def unpack_texts(content: persist.Content, name: str) -> npt.NDArray[np.object_]:
    """Take back texts from a file."""
    texts = unpack_objects(content, name)
    if not all(isinstance(text, str) for text in texts):
        raise content.damaged(f"its {name} are not all texts")
    return texts
