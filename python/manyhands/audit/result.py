"""What an audit returns: the workers that were found, the evidence on every worker, and what could not be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands._base.checks import counted, listed
from manyhands._base.names import Names

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """Workers that an audit found, and on what evidence.

    It holds data only, and can be pickled. Its truth is whether anybody was found, its length how many.

    Parameters
    ----------
    what
        What the workers are found to be: ``"spammer"``.
    names
        All workers of the table, in its order.
    found
        Which of them were found, (n_workers,).
    evidence
        Columns of the frame beside ``worker`` and ``found``, each an array of numbers or booleans, (n_workers,). NaN
        where the log does not tell.
    remarks
        What is doubtful, or could not be told, in whole sentences; empty where nothing is.
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
        """Names of the workers that were found, in the order of the table."""
        return self.names.take(np.flatnonzero(self.found)).values

    def __len__(self) -> int:
        return int(self.found.sum())

    def frame(self) -> pa.Table:
        """Return one row a worker, as an Arrow table: ``worker``, ``found``, and the evidence."""
        return arrow.table({"worker": self.names.arrow(), "found": self.found, **self.evidence})

    def __repr__(self) -> str:
        n, all_ = len(self), counted(len(self.names), "worker")
        who = f"{n:,} of {all_}: {listed(self.workers.tolist(), 5)}" if n else f"none of {all_}"
        return "\n".join((f"<{type(self).__name__} of {self.what}s: {who}>", *self.remarks))
