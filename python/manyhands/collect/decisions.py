"""What a campaign decided, and why: requests, and the log of everything that happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

#: What may be in the log of decisions, and why.
EVENTS = ("ask", "answer", "stop", "fit", "release")
REASONS = ("", "best", "tried", "came", "anybody", "error", "labels", "exhausted")
#: The code of no task, no worker and no label.
NOBODY = -1


class Request(NamedTuple):
    """A label to be asked for."""

    task: Any
    #: None for any worker.
    worker: Any
    #: By how much the probability of a wrong answer to the task is expected to fall.
    expected_gain: float
    #: Why this worker: ``"best"`` for the task, ``"tried"`` to get to know them, ``"came"``, or ``"anybody"``.
    why: str


class Event(NamedTuple):
    """Something that happened, in codes."""

    event: int
    task: int
    worker: int
    label: int
    why: int
    value: float


class Decisions(list[Event]):
    """The log of a campaign."""

    def note(self, event: str, task: int, worker: int, label: int = NOBODY, value: float = 0.0, why: str = "") -> None:
        """Add what happened."""
        self.append(Event(EVENTS.index(event), task, worker, label, REASONS.index(why), value))

    def have(self, event: str) -> bool:
        """Whether something of the kind happened."""
        return any(e.event == EVENTS.index(event) for e in self)

    def frame(self, tasks: list[Any], workers: list[Any], classes: list[Any]) -> pa.Table:
        """Return the log by names, as an Arrow table."""
        import pyarrow as pa

        def named(codes: list[int], names: list[Any]) -> pa.Array:
            return pa.array([None if code < 0 else names[code] for code in codes])

        return pa.table(
            {
                "event": [EVENTS[e.event] for e in self],
                "task": named([e.task for e in self], tasks),
                "worker": named([e.worker for e in self], workers),
                "label": named([e.label for e in self], classes),
                "value": [e.value for e in self],
                "why": [REASONS[e.why] for e in self],
            }
        )
