"""What every method by distances is held to, on answers of each kind that it takes."""

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
    """Answers as Python objects by task and worker, of a kind that says which table they make."""

    kind: str
    tasks: tuple[Any, ...]
    workers: tuple[Any, ...]
    said: tuple[Any, ...]

    def votes(self) -> Records:
        """The answers as a table."""
        columns: Any = (self.tasks, self.workers, self.said)
        if self.kind == "rankings":
            return mh.Rankings.from_lists(self.said, self.workers)
        return Records._kinds[self.kind].from_arrays(*columns)  # type: ignore[attr-defined, no-any-return]


@functools.cache
def drawn(kind: str, n_tasks: int, n_workers: int, each: int) -> AnswerLog:
    """Answers that are near a truth, by workers of whom one in five guesses."""
    rng = np.random.default_rng(n_tasks)
    if kind == "rankings":
        made = lists(5, n_workers, n_tasks, 4, seed=1)
        return AnswerLog(kind, (0,) * n_tasks, made.by, tuple(tuple(f"i{item}" for item in one) for one in made.lists))
    rows = [(task, int(worker)) for task in range(n_tasks) for worker in rng.permutation(n_workers)[:each]]
    said = []
    for task, worker in rows:
        right = rng.random() < (0.2 if worker % 5 == 4 else 0.8)
        code = task % len(_WORDS) if right else int(rng.integers(len(_WORDS)))
        said.append(_ANSWERS[kind](code, rng))
    workers = (f"w{worker:03}" for _, worker in rows)
    return AnswerLog(kind, tuple(task for task, _ in rows), tuple(workers), tuple(said))


#: An answer of each kind, by a code.
_ANSWERS: dict[str, Callable[[int, np.random.Generator], Any]] = {
    "categorical": lambda code, rng: f"c{code}",
    "numeric": lambda code, rng: code + float(rng.normal()),
    "multilabel": lambda code, rng: sorted({f"l{code}", f"l{(code + 1) % 4}"}),
    "objects": lambda code, rng: _WORDS[code],
}
#: The kinds that there are logs of.
KINDS = (*_ANSWERS, "rankings")


@dataclass(frozen=True)
class DistanceSubject(Subject):
    """A method by distances that is checked, on answers of one kind."""

    kind: str = "objects"

    @property
    def standard(self) -> AnswerLog:
        """An ordinary log."""
        return drawn(self.kind, 30, 10, 5)

    @property
    def other(self) -> AnswerLog:
        """A log of other sizes."""
        return drawn(self.kind, 13, 6, 3)

    @property
    def large(self) -> AnswerLog:
        """A log with many answers: rankings are all compared with each other."""
        return drawn(self.kind, 400 if self.kind == "rankings" else 3000, 40, 6)

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """What can be asked of a fitted model."""
        return {"to_frame": model.to_frame, "workers_frame": model.workers_frame}


def check_sound(subject: DistanceSubject) -> None:
    """There is an answer to each task, spreads and weights are finite and not negative, and the objective falls."""
    model = subject.fitted()
    require(len(model.objects_) == len(model.tasks_), "there is not one answer for each task")
    for name in ("spread_", "weights_", "losses_"):
        found = getattr(model, name)
        require(np.isfinite(found).all() and (found >= 0).all(), f"{name} holds {found}")
    require(never_falls(-model.history_), "the objective rises")


def check_agreement(subject: DistanceSubject) -> None:
    """Where all say the same, that is the answer, and nothing is spread."""
    log = subject.standard
    same = replace(log, said=(log.said[0],) * len(log.said))
    model = subject.fitted(same)
    require(float(np.abs(model.spread_).max()) < 1e-9, f"spreads are {model.spread_} where all agree")
    require(len({repr(answer) for answer in model.objects_.tolist()}) == 1, "answers differ where all agree")


def check_order_of_rows(subject: DistanceSubject) -> None:
    """The order of rows changes no answer."""
    log = subject.standard
    order = np.random.default_rng(0).permutation(len(log.said)).tolist()
    tasks, workers, said = (tuple(column[i] for i in order) for column in (log.tasks, log.workers, log.said))
    moved = subject.fitted(AnswerLog(log.kind, tasks, workers, said))
    require(_told(moved) == _told(subject.fitted()), "answers depend on the order of rows")


def check_names_of_workers(subject: DistanceSubject) -> None:
    """Renaming workers renames their weights, and changes no answer."""
    log, before = subject.standard, subject.fitted()
    names = before.workers_.tolist()
    other = dict(zip(names, np.random.default_rng(1).permutation(names).tolist(), strict=True))
    after = subject.fitted(replace(log, workers=tuple(other[name] for name in log.workers)))
    require(_told(after) == _told(before), "answers depend on the names of workers")
    weights = dict(zip(after.workers_.tolist(), after.weights_, strict=True))
    assert_close(
        np.array([weights[other[name]] for name in names]), before.weights_, 1e-9, "weights of renamed workers"
    )


def _told(model: Any) -> str:
    answers = model.objects_.tolist()
    return repr(np.round(model.objects_, 9).tolist() if model.objects_.dtype == np.float64 else answers)


CHECKS = (check_sound, check_agreement, check_order_of_rows, check_names_of_workers)
SUBJECT = DistanceSubject
