"""What all aggregators of texts share: results and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow, persist
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, encoded, numbers
from manyhands._base.results import Columns
from manyhands.objects.table import pack_objects, unpack_objects
from manyhands.texts.metrics import word_error_rate
from manyhands.texts.table import Texts

if TYPE_CHECKING:
    import pyarrow as pa


def pack_texts(texts: npt.NDArray[np.object_]) -> npt.NDArray[Any]:
    """Turn texts into bytes for a file."""
    return pack_objects(texts.tolist())


def unpack_texts(content: persist.Content, name: str) -> npt.NDArray[np.object_]:
    """Take back texts from a file."""
    texts = unpack_objects(content, name)
    if not all(isinstance(text, str) for text in texts):
        raise content.damaged(f"its {name} are not all texts")
    return texts


@dataclass(frozen=True, kw_only=True)
class TextFit(Fit):
    """A text for each task."""

    texts: npt.NDArray[np.object_] = field(metadata=encoded("n", pack_texts, unpack_texts))
    #: How sure each is, between 0 and 1.
    confidence: Array = field(metadata=numbers("n", least=0, most=1))


class TextAggregator(TaskEstimator[Texts, TextFit, TaskFitted[TextFit]]):
    """Base of all aggregators of texts: a subclass gives ``_fit`` and what it knows of workers."""

    _kind: ClassVar[str] = "texts"
    _file_kind: ClassVar[str] = "text-aggregator"
    _answer: ClassVar[str] = "texts_"
    _fit_type: ClassVar[type[Fit]] = TextFit
    _fitted_type: ClassVar[type[TaskFitted[Any]]] = TaskFitted
    #: What is known of workers, by the name of a column: fields of the fit, one number per worker.
    _of_workers: ClassVar[Mapping[str, str]]

    @property
    def texts_(self) -> npt.NDArray[np.object_]:
        """The text of each task, (n_tasks,)."""
        return self._fitted().fit.texts

    @property
    def confidence_(self) -> Array:
        """How sure each text is, between 0 and 1, (n_tasks,)."""
        return self._fitted().fit.confidence

    def to_frame(self) -> pa.Table:
        """Return task, text and confidence, as an Arrow table."""
        import pyarrow as pa

        now = self._fitted()
        fit = now.fit
        texts = pa.array(fit.texts.tolist(), pa.string())
        return arrow.table({"task": now.tasks.arrow(), "text": texts, "confidence": fit.confidence})

    def _skills(self) -> Columns:
        fit = self._fitted().fit
        return {name: getattr(fit, held) for name, held in self._of_workers.items()}

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        decided = self._fitted().fit.texts[place]
        wrong = [
            word_error_rate([text], [decided]) if decided else float(bool(text))
            for text in rows.column("text").to_pylist()
        ]
        return {"agreement": np.maximum(1.0 - np.array(wrong), 0.0)}
