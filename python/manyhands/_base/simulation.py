"""The result of :func:`manyhands.simulate`, for every kind of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from manyhands._base.table import Records

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Simulation:
    """A simulated log together with the truth that a real log hides.

    Each kind adds the parameters of its workers.

    Attributes
    ----------
    log : table of the kind
        The answers of the simulated workers.
    truth : ndarray, list or table
        The correct answers, aligned with the tasks or items of `log`.
    seed : int
        The seed of all random draws.
    """

    log: Any
    truth: Any
    seed: int

    def truth_frame(self) -> pa.Table:
        """Return the truth as an Arrow table, in the columns that ``--truth`` writes and ``--evaluate`` reads."""
        import pyarrow as pa

        return pa.table(self._truth())

    def _truth(self) -> dict[str, Any]:
        return {"task": self.log._tasks.arrow(), self.log.spec.required[-1]: self.truth}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._summary()})"

    def _summary(self) -> str:
        log: Records = self.log
        return repr(log).strip("<>")
