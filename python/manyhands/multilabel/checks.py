"""Checks that every multi-label aggregator must pass, in addition to those of all estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from manyhands.multilabel.table import MultiLabels
from manyhands.testing.compare import require
from manyhands.testing.subject import SimulatedLog, Subject


class SetSubject(Subject):
    """An aggregator of sets."""

    @property
    def standard(self) -> SimulatedLog:
        """Forty tasks of four labels."""
        return SimulatedLog("multilabel", 40, (40, 8, 4))

    @property
    def other(self) -> SimulatedLog:
        """A log with fewer tasks and one more label."""
        return SimulatedLog("multilabel", 25, (25, 8, 5))

    @property
    def large(self) -> SimulatedLog:
        """A log of several blocks of candidates and pairs."""
        return SimulatedLog("multilabel", 3000, (3000, 300, 6))

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """Return the methods of a fitted model that give results."""
        return {
            "to_frame": model.to_frame,
            "workers_frame": model.workers_frame,
            "probabilities": model.probabilities,
            "predict": lambda: model.predict(votes),
        }


#: Small logs with edge cases: the sets of tasks 0, 1, …, by worker.
ODD: dict[str, MultiLabels] = {
    "one answer": MultiLabels.from_arrays([0], ["u"], [["x"]]),
    "empty answers": MultiLabels.from_arrays([0, 1], ["u", "u"], [[], []], inventory=["x", "y"]),
    "one label": MultiLabels.from_arrays([0, 0, 1], ["u", "v", "u"], [["x"], [], ["x"]]),
    "one worker": MultiLabels.from_arrays([0, 1, 2], ["u"] * 3, [["x"], ["x", "y"], []]),
    "an answer per task": MultiLabels.from_arrays([0, 1, 2], ["u", "v", "w"], [["x"], ["y"], ["x", "y"]]),
    "all say everything": MultiLabels.from_arrays([0, 0, 1, 1], ["u", "v"] * 2, [["x", "y"]] * 4),
}


def check_sound(subject: SetSubject) -> None:
    """Probabilities are in [0, 1] and only labels that a worker gave are selected, including edge cases."""
    for name, votes in {**ODD, "the standard log": subject.standard.votes()}.items():
        model = subject.make(subject.standard).fit(votes)
        probabilities = model.probabilities().column("probability").to_numpy()
        require(
            np.isfinite(probabilities).all() and ((probabilities >= 0) & (probabilities <= 1)).all(),
            f"{name}: probabilities are {probabilities}",
        )
        tasks, _, numbers = votes.codes()
        given_labels: list[set[Any]] = [set() for _ in range(votes.n_tasks)]
        for task, number in zip(tasks.tolist(), numbers.tolist(), strict=True):
            given_labels[task] |= set(votes.sets[number])
        for task, one in enumerate(model.label_sets_.tolist()):
            require(set(one) <= given_labels[task], f"{name}: task {task} has labels that no worker gave: {one}")


def check_order_of_rows(subject: SetSubject) -> None:
    """The order of the rows does not change the result."""
    votes = subject.standard.votes()
    frame = votes.to_frame().to_pydict()
    order = np.random.default_rng(0).permutation(len(votes)).tolist()
    permuted = MultiLabels.from_frame(
        {name: [column[i] for i in order] for name, column in frame.items()}, inventory=votes.labels
    )
    one, other = (subject.make(subject.standard).fit(table) for table in (votes, permuted))
    require(one.probabilities().equals(other.probabilities()), "probabilities depend on the order of rows")


CHECKS = (check_sound, check_order_of_rows)
SUBJECT = SetSubject
