"""The result of :func:`manyhands.simulate`, for every kind of answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manyhands._base.table import Records


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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._summary()})"

    def _summary(self) -> str:
        log: Records = self.log
        return repr(log).strip("<>")
