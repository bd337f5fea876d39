"""Which task comes next: the most doubtful ones, and random ones that keep the estimate of accuracy valid."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice

#: How tasks are chosen.
CHOICES = ("information", "audit", "stratified")
#: Strata of a stratified sample.
_STRATA = 4
#: Least probability of an error in the allocation of a stratified sample: models are overconfident.
_LEAST_DOUBT = 0.02
#: Seconds for which a task is reserved for the window that asked for it.
LEASE = 600.0

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pick:
    """A task that is handed out, and why."""

    row: int
    #: "information", "audit", or the number of a stratum as "stratum 2".
    why: str


class Queue:
    """Order in which tasks are asked, in O(1) per step after one sort.

    Tasks come from two streams. *Information*: the least confident answers first, in an order that is fixed at the
    start. *Sample*: random permutations of the tasks of each stratum, also fixed at the start; a task of the sample
    that was decided before is counted without being asked. How many tasks are drawn depends only on the number of
    steps. Hence the first ``drawn[h]`` tasks of permutation h are a simple random sample of stratum h, and all tasks
    that the information stream has passed are known.

    Parameters
    ----------
    confidence : ndarray, shape (n_tasks,)
        Probability that each answer is right; NaN counts as 0.5.
    choose : {"information", "audit", "stratified"}
        ``"information"`` mixes both streams, ``"audit"`` draws uniformly from all tasks, ``"stratified"`` draws equally
        from strata of confidence, which are the smaller the more errors are expected in them.
    audit : float
        Share of steps of ``"information"`` that belong to the sample.
    seed : int
        Seed of the permutations.
    clock : callable
        Seconds that pass, for reservations.
    """

    def __init__(
        self,
        confidence: Floats,
        choose: str = "information",
        audit: float = 0.25,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_choice("choose", choose, CHOICES)
        if not 0 <= audit <= 1:
            raise ValueError(f"audit must lie between 0 and 1, not {audit}")
        n = len(confidence)
        rng = np.random.default_rng(seed)
        doubt = 1 - np.where(np.isnan(confidence), 0.5, confidence)
        self.choose, self.audit, self._clock = choose, 1.0 if choose != "information" else audit, clock
        #: Rows of the tasks of each stratum in the order in which they are drawn.
        self.permutations: list[Ints] = [rng.permutation(n)]
        if choose == "stratified" and n >= 2 * _STRATA:
            self.permutations = [rng.permutation(rows) for rows in _strata(doubt)]
        # Equal doubts come in random order.
        mixed = rng.permutation(n)
        #: Rows in the order of the information stream, and the place of each row in it.
        self.order: Ints = mixed[np.argsort(-doubt[mixed], kind="stable")]
        self.rank = np.empty(n, np.int64)
        self.rank[self.order] = np.arange(n)
        #: How many tasks of each permutation were drawn; how many of the order were passed; how many steps were made.
        self.drawn = [0] * len(self.permutations)
        self.passed = 0
        self.step = 0
        self._waiting: list[Pick] = []
        self._leases: dict[int, tuple[str, float]] = {}
        self._held: dict[str, Pick] = {}
        self._closed = np.zeros(n, np.bool_)
        self._skipped: dict[int, None] = {}

    # -------------------------------------------------------------------------------------------------- state

    def restore(self, step: int, drawn: Sequence[int], passed: int) -> None:
        """Go on where a journal ends; tasks drawn or passed but not decided come first."""
        if len(drawn) != len(self.drawn):
            raise ValueError(f"drawn must have {len(self.drawn)} numbers, not {len(drawn)}")
        self.step, self.drawn, self.passed = step, list(drawn), passed
        for client in list(self._held):
            self.release(client)
        streams = [(self._name(h), self.permutations[h][:m]) for h, m in enumerate(self.drawn)]
        waiting = {pick.row for pick in self._waiting}
        for why, rows in [*streams, ("information", self.order[:passed])]:
            for row in rows[~self._closed[rows]].tolist():
                if row not in waiting and row not in self._skipped:
                    waiting.add(row)
                    self._waiting.append(Pick(row, why))

    def close(self, row: int) -> None:
        """Take a task out: it is decided."""
        self._closed[row] = True
        self._skipped.pop(row, None)
        self._free(row)

    def reopen(self, row: int, client: str, why: str) -> None:
        """Put a task back, for the window that took its answer back."""
        self._closed[row] = False
        self._skipped.pop(row, None)
        pick = Pick(row, why)
        if client in self._held:
            self._wait(self._held[client])
        self._lease(client, pick)

    def skip(self, row: int) -> None:
        """Put a task at the end."""
        self._skipped[row] = None
        self._free(row)

    @property
    def skipped(self) -> list[int]:
        """Rows of the tasks that were skipped and not decided since."""
        return list(self._skipped)

    def _is_done(self, row: int) -> bool:
        return bool(self._closed[row]) or int(row) in self._skipped

    # --------------------------------------------------------------------------------------------------- next

    def next(self, client: str) -> Pick | None:
        """Return the task for a window and reserve it; None if all are decided, or reserved for others.

        A window that asks again gets the same task.
        """
        self._expire()
        current = self._held.get(client)
        if current is not None and not self._is_done(current.row):
            self._lease(client, current)
            return current
        pick = self._from_waiting() or self._drawn() or self._from_order() or self._from_skipped()
        if pick is not None:
            self._lease(client, pick)
        return pick

    def release(self, client: str) -> None:
        """Let other windows have the task that is reserved for a window."""
        pick = self._held.get(client)
        if pick is not None:
            self._free(pick.row)
            if not self._is_done(pick.row):
                self._waiting.insert(0, pick)

    def holder(self, row: int) -> str | None:
        """The window that a task is reserved for."""
        self._expire()
        return self._leases[row][0] if row in self._leases else None

    def why(self, row: int) -> str:
        """Why a task was handed out."""
        client = self._leases[row][0] if row in self._leases else None
        return self._held[client].why if client in self._held else "chosen"

    def _from_waiting(self) -> Pick | None:
        self._waiting = [pick for pick in self._waiting if not self._is_done(pick.row)]
        place = next((place for place, pick in enumerate(self._waiting) if pick.row not in self._leases), None)
        return None if place is None else self._waiting.pop(place)

    def _drawn(self) -> Pick | None:
        """Make a step, and draw from the sample where it is due."""
        self.step += 1
        while sum(self.drawn) < self.audit * self.step:
            open_strata = [h for h, rows in enumerate(self.permutations) if self.drawn[h] < len(rows)]
            if not open_strata:
                return None
            h = min(open_strata, key=lambda one: self.drawn[one])
            row = int(self.permutations[h][self.drawn[h]])
            self.drawn[h] += 1
            if not self._is_done(row) and row not in self._leases:
                return Pick(row, self._name(h))
            if self.audit == 1:
                self.step += 1  # a sample of nothing else goes on until there is something to ask
        return None

    def _from_order(self) -> Pick | None:
        while self.audit < 1 and self.passed < len(self.order):
            row = int(self.order[self.passed])
            self.passed += 1
            if not self._is_done(row) and row not in self._leases:
                return Pick(row, "information")
        return None

    def _from_skipped(self) -> Pick | None:
        return next((Pick(row, "skipped") for row in self._skipped if row not in self._leases), None)

    def _name(self, stratum: int) -> str:
        return "audit" if len(self.permutations) == 1 else f"stratum {stratum + 1}"

    # ------------------------------------------------------------------------------------------------- leases

    def _lease(self, client: str, pick: Pick) -> None:
        self._skipped.pop(pick.row, None)
        self._held[client] = pick
        self._leases[pick.row] = (client, self._clock() + LEASE)

    def _free(self, row: int) -> None:
        lease = self._leases.pop(row, None)
        if lease is not None:
            self._held.pop(lease[0], None)

    def _wait(self, pick: Pick) -> None:
        self._free(pick.row)
        if not self._is_done(pick.row):
            self._waiting.insert(0, pick)

    def _expire(self) -> None:
        now = self._clock()
        for row in [row for row, (_, until) in self._leases.items() if until <= now]:
            self._wait(self._held[self._leases[row][0]])


def _strata(doubt: Floats) -> list[Ints]:
    """Rows by stratum of confidence, each with the same sum of standard deviations of an error."""
    floor = max(float(doubt.mean()), _LEAST_DOUBT)
    p = np.clip((doubt + floor) / 2, _LEAST_DOUBT, 0.5)
    order = np.argsort(-p, kind="stable")
    spread = np.cumsum(np.sqrt(p * (1 - p))[order])
    ends = np.searchsorted(spread, spread[-1] * np.arange(1, _STRATA) / _STRATA)
    return [part for part in np.split(order, np.unique(ends)) if len(part)]
