"""Reputation: penalties for answers that other workers contradict (Jagabathula, Subramanian and Venkataraman)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.audit._clusters import Mask, upper
from manyhands.categorical.table import Annotations

#: How the penalty of an answer is assigned: shared by all who gave it, or to one of them.
PENALTIES = ("soft", "hard")


def by_reputation(
    votes: Annotations, trusted: Mask, penalty: str
) -> tuple[Mask, dict[str, npt.NDArray[Any]], tuple[str, ...]]:
    """Flag the workers in the upper of two clusters of penalties, except trusted workers."""
    units, contested = votes.table.answer_penalties(hard=penalty == "hard")
    penalized = contested > 0
    each = np.where(penalized, units if penalty == "hard" else units / np.maximum(contested, 1), np.nan)
    flagged = np.zeros(votes.n_workers, np.bool_)
    # Loads that differ by one answer are as balanced as possible.
    if penalized.any() and (penalty == "soft" or np.ptp(each[penalized]) > 1):
        flagged[penalized] = upper(each[penalized])
    return flagged & ~trusted, {"penalty": each}, ()
