"""False-discovery rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number

Array = npt.NDArray[np.float64]


def q_values(p: Array, n_tests: int) -> Array:
    """Return the smallest false-discovery rate at which each of the smallest p-values of `n_tests` is significant.

    Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", Journal of the Royal Statistical Society B 57
    (1995). P-values that are left out must be larger than all that are passed.
    """
    order = np.argsort(p, kind="stable")
    raised = p[order] * n_tests / np.arange(1, len(p) + 1)
    q = np.empty(len(p))
    q[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0)
    return q


def check_least(least: Any) -> None:
    """Raise unless a tolerated share of answers is in [0, 1)."""
    check_number("least", least, least=0)
    if least >= 1:
        raise ValueError(f"least must be below 1, not {least}")
