"""Checks of aggregators of sets: the common ones, on logs of sets."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manyhands.simulate.sets import simulate_multilabels
from manyhands.table.sets import MultiLabels
from manyhands.testing.subject import Subject


@dataclass(frozen=True)
class SetLog:
    """A log of sets that is drawn when it is asked for."""

    n_tasks: int
    n_workers: int
    n_labels: int

    def votes(self) -> MultiLabels:
        """The log as a table."""
        return _drawn(self.n_tasks, self.n_workers, self.n_labels)


@functools.cache
def _drawn(n_tasks: int, n_workers: int, n_labels: int) -> MultiLabels:
    return simulate_multilabels(n_tasks, n_workers, n_labels, seed=n_tasks).answers


class SetSubject(Subject):
    """An aggregator of sets."""

    @property
    def standard(self) -> SetLog:
        """Forty tasks of four labels."""
        return SetLog(40, 8, 4)

    @property
    def other(self) -> SetLog:
        """Fewer tasks, and a label more."""
        return SetLog(25, 8, 5)

    @property
    def large(self) -> SetLog:
        """Several blocks of candidates and pairs."""
        return SetLog(3000, 300, 6)

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """Frames and predictions."""
        return {
            "to_frame": model.to_frame,
            "workers_frame": model.workers_frame,
            "probabilities": model.probabilities,
            "predict": lambda: model.predict(votes),
        }
