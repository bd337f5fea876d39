"""Reputation: workers are charged with answers that others contradict (Jagabathula, Subramanian and Venkataraman)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands.audit._clusters import Mask, upper
from manyhands.categorical.table import Annotations

#: How an answer is charged to those who gave it: shared, or borne by one.
PENALTIES = ("soft", "hard")


def by_reputation(
    votes: Annotations, spared: Mask, penalty: str
) -> tuple[Mask, dict[str, npt.NDArray[Any]], tuple[str, ...]]:
    """Find the workers of the upper of two clusters of penalties, but for those who are spared."""
    units, contested = votes.table.answer_penalties(hard=penalty == "hard")
    charged = contested > 0
    each = np.where(charged, units if penalty == "hard" else units / np.maximum(contested, 1), np.nan)
    found = np.zeros(votes.n_workers, np.bool_)
    # Loads that differ by one answer are as even as they can be.
    if charged.any() and (penalty == "soft" or np.ptp(each[charged]) > 1):
        found[charged] = upper(each[charged])
    return found & ~spared, {"penalty": each}, ()
