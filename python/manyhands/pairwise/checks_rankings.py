"""Checks that every ranking model must pass, in addition to those of all estimators."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from manyhands import Rankings
from manyhands.pairwise.checks import CLOSE, ScoreSubject, intervals_hold
from manyhands.testing.compare import require


@dataclass(frozen=True)
class Lists:
    """Rankings as codes, with replaceable names, and the worker of each."""

    lists: tuple[tuple[int, ...], ...]
    by: tuple[int, ...]
    items: tuple[Any, ...]
    workers: tuple[Any, ...]
    weights: tuple[float, ...] | None = None

    def votes(self) -> Rankings:
        """The rankings as a table."""
        rankings = [[self.items[item] for item in one] for one in self.lists]
        return Rankings.from_lists(rankings, [self.workers[worker] for worker in self.by], self.weights)


def lists(n_items: int, n_workers: int, n: int, length: int, seed: int = 0) -> Lists:
    """Simulated rankings of some items each; one in five workers guesses."""
    rng = np.random.default_rng(seed)
    scores, rankings, by = np.linspace(2.0, 0.0, n_items), [], []
    for row in range(n):
        worker = row % n_workers
        listed_items = rng.choice(n_items, length, replace=False)
        slope = 0.0 if worker % 5 == 4 else 1.0
        # Sorting scores with Gumbel noise samples from the Plackett–Luce model.
        rankings.append(
            tuple(listed_items[np.argsort(-(slope * scores[listed_items] + rng.gumbel(size=length)))].tolist())
        )
        by.append(worker)
    items, workers = (f"i{i:04}" for i in range(n_items)), (f"w{i:03}" for i in range(n_workers))
    return Lists(tuple(rankings), tuple(by), tuple(items), tuple(workers))


def _of(*rankings: tuple[int, ...], by: tuple[int, ...] | None = None) -> Lists:
    by = by or (0,) * len(rankings)
    return Lists(rankings, by, tuple("abcdefgh"[: 1 + max(map(max, rankings))]), tuple("uvwxyz"[: 1 + max(by)]))


#: Small logs with edge cases.
ODD: dict[str, Lists] = {
    "one ranking": _of((0, 1, 2)),
    "one worker who repeats a ranking": _of((0, 1, 2), (0, 1, 2), (0, 1, 2)),
    "contradictions": _of((0, 1, 2), (2, 1, 0), by=(0, 1)),
    "two groups": _of((0, 1), (2, 3), (3, 2), by=(0, 1, 0)),
    "a ranking a worker": _of((0, 1, 2), (1, 0), (2, 0, 1), by=(0, 1, 2)),
    "one that is always last": _of((0, 1, 3), (1, 2, 3), (2, 0, 3), by=(0, 1, 0)),
}


@functools.cache
def _simulate_lists(n_items: int, n_workers: int, n: int, length: int) -> Lists:
    return lists(n_items, n_workers, n, length, seed=n)


class RankingSubject(ScoreSubject):
    """Subject of the checks: a ranking model."""

    @property
    def standard(self) -> Lists:
        """A simulated log of ordinary size."""
        return _simulate_lists(8, 10, 120, 4)

    @property
    def other(self) -> Lists:
        """A log with other dimensions."""
        return _simulate_lists(5, 3, 40, 3)

    @property
    def large(self) -> Lists:
        """A log of several chunks."""
        return _simulate_lists(60, 20, 4000, 6)


def check_finite(subject: RankingSubject) -> None:
    """Scores are finite and some item has rank 1, including edge cases."""
    for name, log in ODD.items():
        model = subject.make(log).fit(log.votes())
        require(np.isfinite(model.scores_).all(), f"{name}: scores are {model.scores_}")
        require(sorted(model.ranks_)[0] == 1, f"{name}: no item has rank 1")


def check_intervals(subject: RankingSubject) -> None:
    """Intervals contain the scores, and rank intervals contain the ranks."""
    intervals_hold(subject.fitted())


def check_order_of_rows(subject: RankingSubject) -> None:
    """The order of the rankings does not change the scores."""
    log = subject.standard
    order = np.random.default_rng(0).permutation(len(log.lists)).tolist()
    permuted = replace(log, lists=tuple(log.lists[i] for i in order), by=tuple(log.by[i] for i in order))
    error = float(np.abs(subject.fitted(permuted).scores_ - subject.fitted().scores_).max())
    require(error < 1e-9, f"scores change by {error:g} with the order of rankings")


def check_names(subject: RankingSubject) -> None:
    """Permuting item and worker ids permutes the results."""
    log, rng = subject.standard, np.random.default_rng(1)
    reference = subject.fitted()
    for part in ("items", "workers"):
        order = rng.permutation(len(getattr(log, part)))
        names: Any = {part: tuple(getattr(log, part)[i] for i in order)}
        renamed_scores = subject.fitted(replace(log, **names)).scores_
        error = float(np.abs(renamed_scores[order if part == "items" else slice(None)] - reference.scores_).max())
        require(error < CLOSE, f"scores change by {error:g} if {part} are renamed")


def check_weights(subject: RankingSubject) -> None:
    """A ranking of weight two equals two rankings."""
    log = subject.standard
    twice = replace(log, lists=log.lists + log.lists[::3], by=log.by + log.by[::3])
    heavy = replace(log, weights=tuple(2.0 if i % 3 == 0 else 1.0 for i in range(len(log.lists))))
    a, b = (subject.fitted(one).scores_ for one in (twice, heavy))
    require(float(np.abs(a - b).max()) < CLOSE, "weights are not equivalent to repeated rankings")


CHECKS = (check_finite, check_intervals, check_order_of_rows, check_names, check_weights)
SUBJECT = RankingSubject
