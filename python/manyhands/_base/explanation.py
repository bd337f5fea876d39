"""Why a task got its answer: the answers of workers, and how it compares with what was decided."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

#: Characters of an answer that a line shows, and of the columns of a table.
_LONGEST, _WIDTH = 200, 24


class Explained(ABC):
    """An explanation of one answer of any kind; prints as a short report."""

    task: Any
    answer: Any
    confidence: float
    #: What the task shows to workers, a text or an address; None where that is not known.
    shown: str | None

    @abstractmethod
    def to_frame(self) -> pa.Table:
        """Return the answers of the workers as an Arrow table."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""

    @abstractmethod
    def _lines(self) -> list[str]:
        """The lines of the report."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True)
class AnswerExplanation(Explained):
    """The answers of the workers next to the one that was decided, for answers other than classes.

    For classes, :class:`~manyhands.categorical.Explanation` also specifies how much evidence each vote carried.
    """

    task: Any
    answer: Any
    confidence: float
    #: One row per answer: worker, the worker's answer, ``agreement`` with the answer (for numbers ``residual``: the
    #: worker's minus the answer), the worker's ``skill`` and ``n_answers`` of ``workers_frame``.
    given: pa.Table
    #: The estimator, and what it does.
    method: str
    decision: str
    shown: str | None = None

    def to_frame(self) -> pa.Table:
        """Return one row per answer of a worker, as an Arrow table."""
        return self.given

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        plain = {name: getattr(self, name) for name in ("task", "answer", "confidence", "method", "decision", "shown")}
        return plain | {"votes": self.given.to_pylist()}

    def _lines(self) -> list[str]:
        sure = "" if self.confidence != self.confidence else f" ({self.confidence:.3f})"
        lines = [f"{self.task}: {_text(self.answer):.{_LONGEST}}{sure}"]
        if self.shown is not None:
            lines.append(f"  {' '.join(self.shown.split()):.{_LONGEST}}")
        names = self.given.column_names
        rows = [names, *([_text(value) for value in row.values()] for row in self.given.to_pylist())]
        widths = [min(max(len(row[i]) for row in rows), _WIDTH) for i in range(len(names))]
        for row in rows:
            cells = (f"{cell:<{width}.{width}}" for cell, width in zip(row, widths, strict=True))
            lines.append("  " + "  ".join(cells).rstrip())
        return [*lines, f"Decided by {self.method}: {self.decision}"]


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return " ".join(str(value).split())
