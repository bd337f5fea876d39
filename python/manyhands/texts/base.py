"""Base class of text aggregators: results and persistence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow, persist
from manyhands._base.estimator import Array, TaskEstimator
from manyhands._base.fitted import Fit, TaskFitted, custom, numbers
from manyhands._base.results import Columns
from manyhands.objects.table import pack_objects, unpack_objects
from manyhands.texts.metrics import word_error_rate
from manyhands.texts.table import Texts

if TYPE_CHECKING:
    import pyarrow as pa


def pack_texts(texts: npt.NDArray[np.object_]) -> npt.NDArray[Any]:
    """Encode texts as bytes for a file."""
    return pack_objects(texts.tolist())


def unpack_texts(content: persist.Content, name: str) -> npt.NDArray[np.object_]:
    """Decode texts from a file."""
    texts = unpack_objects(content, name)
    if not all(isinstance(text, str) for text in texts):
        raise content.damaged(f"{name} contains values that are not texts")
    return texts


@dataclass(frozen=True, kw_only=True)
class TextFit(Fit):
    """Estimated text of each task."""

    texts: npt.NDArray[np.object_] = field(metadata=custom("n", pack_texts, unpack_texts))
    #: Confidence of each text, between 0 and 1.
    confidence: Array = field(metadata=numbers("n", least=0, most=1))


class TextAggregator(TaskEstimator[Texts, TextFit, TaskFitted[TextFit]]):
    """Base class of text aggregators. Subclasses implement ``_fit`` and list their worker parameters."""

    _kind: ClassVar[str] = "texts"
    _answer: ClassVar[str] = "texts_"
    _fit_type: ClassVar[type[Fit]] = TextFit
    _fitted_type: ClassVar[type[TaskFitted[Any]]] = TaskFitted
    #: Columns of `workers_frame`, mapped to fields of the fit with one number per worker.
    _of_workers: ClassVar[Mapping[str, str]]

    @property
    def texts_(self) -> npt.NDArray[np.object_]:
        """Aggregated text of each task, shape (n_tasks,)."""
        return self._fitted().fit.texts

    @property
    def confidence_(self) -> Array:
        """Confidence of each text, between 0 and 1, shape (n_tasks,)."""
        return self._fitted().fit.confidence

    def to_frame(self) -> pa.Table:
        """Return the task, text and confidence of each task as an Arrow table."""
        import pyarrow as pa

        now = self._fitted()
        fit = now.fit
        texts = pa.array(fit.texts.tolist(), pa.string())
        return arrow.table({"task": now.tasks.arrow(), "text": texts, "confidence": fit.confidence})

    def _skills(self) -> Columns:
        fit = self._fitted().fit
        return {name: getattr(fit, attribute) for name, attribute in self._of_workers.items()}

    def _compared(self, rows: pa.Table, place: int) -> Columns:
        answer = self._fitted().fit.texts[place]
        error_rates = [
            word_error_rate([text], [answer]) if answer else float(bool(text))
            for text in rows.column("text").to_pylist()
        ]
        return {"agreement": np.maximum(1.0 - np.array(error_rates), 0.0)}
