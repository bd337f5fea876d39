"""Checks that every distance-based method must pass, for each kind of answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import manyhands as mh
from manyhands._base.table import Records
from manyhands.pairwise.checks_rankings import lists
from manyhands.testing.compare import assert_close, never_falls, require
from manyhands.testing.subject import Subject

_WORDS = ("a cat", "a cart", "the cat", "dog", "a dog", "bird")


@dataclass(frozen=True)
class AnswerLog:
    """Answers as Python objects by task and worker, and the kind of their table."""

    kind: str
    tasks: tuple[Any, ...]
    workers: tuple[Any, ...]
    given_answers: tuple[Any, ...]

    def votes(self) -> Records:
        """The answers as a table."""
        columns: Any = (self.tasks, self.workers, self.given_answers)
        if self.kind == "rankings":
            return mh.Rankings.from_lists(self.given_answers, self.workers)
        return Records._kinds[self.kind].from_arrays(*columns)  # type: ignore[attr-defined, no-any-return]


@functools.cache
def simulate_log(kind: str, n_tasks: int, n_workers: int, each: int) -> AnswerLog:
    """Simulate answers near a truth; one in five workers guesses."""
    rng = np.random.default_rng(n_tasks)
    if kind == "rankings":
        rankings = lists(5, n_workers, n_tasks, 4, seed=1)
        return AnswerLog(
            kind, (0,) * n_tasks, rankings.by, tuple(tuple(f"i{item}" for item in one) for one in rankings.lists)
        )
    rows = [(task, int(worker)) for task in range(n_tasks) for worker in rng.permutation(n_workers)[:each]]
    answers = []
    for task, worker in rows:
        right = rng.random() < (0.2 if worker % 5 == 4 else 0.8)
        code = task % len(_WORDS) if right else int(rng.integers(len(_WORDS)))
        answers.append(_ANSWERS[kind](code, rng))
    workers = (f"w{worker:03}" for _, worker in rows)
    return AnswerLog(kind, tuple(task for task, _ in rows), tuple(workers), tuple(answers))


#: Creates an answer of each kind from a code.
_ANSWERS: dict[str, Callable[[int, np.random.Generator], Any]] = {
    "categorical": lambda code, rng: f"c{code}",
    "numeric": lambda code, rng: code + float(rng.normal()),
    "multilabel": lambda code, rng: sorted({f"l{code}", f"l{(code + 1) % 4}"}),
    "objects": lambda code, rng: _WORDS[code],
}
#: Kinds with a simulated log.
KINDS = (*_ANSWERS, "rankings")


@dataclass(frozen=True)
class DistanceSubject(Subject):
    """Subject of the checks: a distance-based method, on answers of one kind."""

    kind: str = "objects"

    @property
    def standard(self) -> AnswerLog:
        """A simulated log of ordinary size."""
        return simulate_log(self.kind, 30, 10, 5)

    @property
    def other(self) -> AnswerLog:
        """A log with other dimensions."""
        return simulate_log(self.kind, 13, 6, 3)

    @property
    def large(self) -> AnswerLog:
        """A log with many answers; rankings are all compared with each other."""
        return simulate_log(self.kind, 400 if self.kind == "rankings" else 3000, 40, 6)

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """Return the methods of a fitted model that give results."""
        return {"to_frame": model.to_frame, "workers_frame": model.workers_frame}


def check_sound(subject: DistanceSubject) -> None:
    """Each task has an answer, spreads and weights are finite and not negative, and the objective never increases."""
    model = subject.fitted()
    require(len(model.objects_) == len(model.tasks_), "objects_ does not have one answer per task")
    for name in ("spread_", "weights_", "losses_"):
        values = getattr(model, name)
        require(np.isfinite(values).all() and (values >= 0).all(), f"{name} contains invalid values: {values}")
    require(never_falls(-model.history_), "the objective increases")


def check_agreement(subject: DistanceSubject) -> None:
    """Unanimous answers are kept, with spread 0."""
    log = subject.standard
    same = replace(log, given_answers=(log.given_answers[0],) * len(log.given_answers))
    model = subject.fitted(same)
    require(float(np.abs(model.spread_).max()) < 1e-9, f"spread_ is {model.spread_} for unanimous answers")
    require(len({repr(answer) for answer in model.objects_.tolist()}) == 1, "unanimous answers are changed")


def check_order_of_rows(subject: DistanceSubject) -> None:
    """The order of the rows does not change the answers."""
    log = subject.standard
    order = np.random.default_rng(0).permutation(len(log.given_answers)).tolist()
    tasks, workers, answers = (
        tuple(column[i] for i in order) for column in (log.tasks, log.workers, log.given_answers)
    )
    permuted = subject.fitted(AnswerLog(log.kind, tasks, workers, answers))
    require(_answers_text(permuted) == _answers_text(subject.fitted()), "answers depend on the order of rows")


def check_names_of_workers(subject: DistanceSubject) -> None:
    """Permuting worker ids permutes their weights and does not change answers."""
    log, before = subject.standard, subject.fitted()
    names = before.workers_.tolist()
    other = dict(zip(names, np.random.default_rng(1).permutation(names).tolist(), strict=True))
    after = subject.fitted(replace(log, workers=tuple(other[name] for name in log.workers)))
    require(_answers_text(after) == _answers_text(before), "answers depend on the names of workers")
    weights = dict(zip(after.workers_.tolist(), after.weights_, strict=True))
    assert_close(
        np.array([weights[other[name]] for name in names]), before.weights_, 1e-9, "weights of renamed workers"
    )


def _answers_text(model: Any) -> str:
    answers = model.objects_.tolist()
    return repr(np.round(model.objects_, 9).tolist() if model.objects_.dtype == np.float64 else answers)


CHECKS = (check_sound, check_agreement, check_order_of_rows, check_names_of_workers)
SUBJECT = DistanceSubject
