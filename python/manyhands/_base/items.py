"""What tables without tasks share: workers that need not be told apart, and parts of items that occur."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base import data_checks as checks
from manyhands._base.checks import listed
from manyhands._base.ids import compact
from manyhands._base.names import Codes, Column, Names

#: Who made the records of a log that does not say.
EVERYBODY = "everybody"


def encode_workers(workers: Column | None, n_rows: int) -> tuple[Codes, Names]:
    """Codes and names of workers; a log that names none is one worker's."""
    if workers is None:
        return np.zeros(n_rows, np.uint32), Names(np.array([EVERYBODY], object))
    return workers.encode()


def compacted(codes: Codes, names: Names) -> tuple[Codes, Names]:
    """Codes from 0 without gaps, and the names that are left."""
    renumbered, left, _ = compact(codes, names)
    return renumbered, left


def codes_of(names: Names, wanted: Any, what: str) -> npt.NDArray[np.int64]:
    """Codes of names that must be known, or an error that names one that is not."""
    given = [wanted] if isinstance(wanted, str) or np.ndim(wanted) == 0 else wanted
    codes = names.find(given)
    if (codes < 0).any():
        unknown = [list(given)[place] for place in np.flatnonzero(codes < 0)]
        raise KeyError(f"no {what} is called {listed(unknown)}")
    return codes


def checked_count(data: Any, what: str, n_rows: int) -> npt.NDArray[np.float64]:
    """Return weights, as many as there are rows."""
    weights = checks.checked_weights(data, what)
    if len(weights) != n_rows:
        raise ValueError(f"columns differ in length: {n_rows:,} rows, {len(weights):,} weights")
    return weights
