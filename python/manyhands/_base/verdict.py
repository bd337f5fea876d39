"""How many answers to trust, and which ones to review, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from manyhands._base.kind import KindSpec

#: Confidences are counted in steps of 1 / _STEPS, so that memory does not grow with the answers.
_STEPS = 10_000


def percent(share: float, digits: int = 0) -> str:
    """Format a share as a percentage, with a space that does not break."""
    return f"{share:.{digits}%}".replace("%", "\N{NO-BREAK SPACE}%")


def about(share: float) -> str:
    """Round a share to whole percent, without claiming certainty."""
    return f"Over {percent(0.99)}" if 0.995 <= share < 1 else f"About {percent(share)}"


def state_expected(spec: KindSpec, mean: float, n: int, unit: str) -> str:
    """State which share of n answers is expected to be correct, given their mean confidence."""
    if spec.expected:
        return spec.expected.format(mean=percent(mean), n=f"{n:,}")
    return f"{about(mean)} of the {n:,} {unit}s are expected to be correct."


def name_doubt(spec: KindSpec) -> str:
    """Name what answers of low confidence hold."""
    return "doubt" if spec.expected else "expected errors"


class Doubts:
    """Expected errors of answers, added batch by batch."""

    def __init__(self) -> None:
        self._counts = np.zeros(_STEPS + 1, np.int64)
        self._doubts = np.zeros(_STEPS + 1)

    def add(self, confidence: Any) -> None:
        """Count a batch of confidences."""
        confidence = np.asarray(confidence, float)
        confidence = confidence[np.isfinite(confidence)]
        steps = np.clip((confidence * _STEPS + 1e-6).astype(np.int64), 0, _STEPS)
        self._counts += np.bincount(steps, minlength=_STEPS + 1)
        self._doubts += np.bincount(steps, 1.0 - confidence, minlength=_STEPS + 1)

    def n(self) -> int:
        """Return the number of answers with a confidence."""
        return int(self._counts.sum())

    def mean(self) -> float:
        """Return the mean confidence, NaN without answers."""
        n = self.n()
        return 1.0 - float(self._doubts.sum()) / n if n else float("nan")

    def half(self) -> tuple[int, float]:
        """Return how many of the least confident answers hold at least half of the expected errors, and their bound.

        The bound is a multiple of 0.01 that all of their confidences are below, and that is below those of all others;
        so the number is that of all answers below it. (0, 0) where no error is expected.
        """
        total = float(self._doubts.sum())
        if total <= 1e-12:
            return 0, 0.0
        place = int(np.searchsorted(np.cumsum(self._doubts), total / 2))
        bound = min(place // (_STEPS // 100) + 1, 100)
        return int(self._counts[: bound * (_STEPS // 100)].sum()), bound / 100
