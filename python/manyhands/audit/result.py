"""Result of an audit: flagged workers, evidence on every worker, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import plural, preview
from manyhands._base.names import Names

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """Workers that an audit flagged, with the evidence on every worker.

    Plain data that can be pickled. Its length is the number of flagged workers, and it is true if there are any.

    Parameters
    ----------
    what : str
        What the workers are flagged as, such as ``"spammer"``.
    names : Names
        All workers of the table, in its order.
    found : array of bool, shape (n_workers,)
        Mask of the flagged workers.
    evidence : mapping of str to array
        Columns of the frame in addition to ``worker`` and ``found``: numbers or booleans, (n_workers,). NaN where the
        log has no information.
    remarks : tuple of str, default ()
        Warnings in full sentences: what is doubtful, and what the log cannot show.
    """

    what: str
    names: Names
    found: npt.NDArray[np.bool_]
    evidence: Mapping[str, npt.NDArray[Any]]
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, column in {"found": self.found, **self.evidence}.items():
            if np.shape(column) != (len(self.names),):
                raise ValueError(f"{name} has shape {np.shape(column)}, not one entry for each worker")

    @property
    def workers(self) -> npt.NDArray[Any]:
        """Names of the flagged workers, in the order of the table."""
        return self.names.take(np.flatnonzero(self.found)).values

    def __len__(self) -> int:
        return int(self.found.sum())

    def frame(self) -> pa.Table:
        """Return one row per worker, as an Arrow table: ``worker``, ``found``, and the evidence."""
        return arrow.table({"worker": self.names.arrow(), "found": self.found, **self.evidence})

    def __repr__(self) -> str:
        n, all_ = len(self), plural(len(self.names), "worker")
        who = f"{n:,} of {all_}: {preview(self.workers.tolist(), 5)}" if n else f"none of {all_}"
        return "\n".join((f"<{type(self).__name__} of {self.what}s: {who}>", *self.remarks))
