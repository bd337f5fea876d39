"""Checks that every comparison model must pass, in addition to those of all estimators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import Comparisons
from manyhands.pairwise.simulate import simulate
from manyhands.testing.compare import require
from manyhands.testing.subject import Subject

Rows = npt.NDArray[np.int64]
#: Tolerance for scores of the same comparisons in another order or form.
CLOSE = 2e-3


@dataclass(frozen=True)
class Games:
    """A log of comparisons with replaceable names: ``rows`` are left, right, outcome, worker, (n, 4)."""

    rows: Rows
    items: tuple[Any, ...]
    workers: tuple[Any, ...]
    weights: npt.NDArray[np.float64] | None = None

    def columns(self) -> dict[str, list[Any]]:
        """The log as columns of names, one entry per row."""
        left, right, outcomes, by = self.rows.T.tolist()
        sides = zip(left, right, outcomes, strict=True)
        return {
            "left": [self.items[i] for i in left],
            "right": [self.items[i] for i in right],
            "winner": ["tie" if outcome == 2 else self.items[(one, other)[outcome]] for one, other, outcome in sides],
            "worker": [self.workers[i] for i in by],
        }

    def votes(self) -> Comparisons:
        """The log as a table."""
        left, right, winner, by = self.columns().values()
        return Comparisons.from_arrays(left, right, winner, by, weights=self.weights)

    def swap_sides(self) -> Games:
        """The same comparisons with left and right swapped."""
        rows = self.rows[:, [1, 0, 2, 3]].copy()
        rows[:, 2] = np.where(rows[:, 2] == 2, 2, 1 - rows[:, 2])
        return replace(self, rows=rows)


def games(n_items: int, n_workers: int, n: int, ties: float = 0.3, seed: int = 0) -> Games:
    """Simulated comparisons; one in five workers guesses."""
    slopes = np.where(np.arange(n_workers) % 5 == 4, 0.0, 1.0)
    left, right, outcomes, by, _ = simulate(n_items, slopes, n, ties=ties, seed=seed).log.codes()
    rows = np.stack([left, right, outcomes, by], axis=1).astype(np.int64)
    return Games(rows, tuple(f"i{i:04}" for i in range(n_items)), tuple(f"w{i:03}" for i in range(n_workers)))


STANDARD = games(12, 15, 900)
OTHER = games(7, 4, 200, ties=0.0, seed=1)


def _of(rows: list[tuple[int, int, int, int]], n_items: int, n_workers: int) -> Games:
    return Games(np.array(rows), tuple(f"i{i}" for i in range(n_items)), tuple(f"w{i}" for i in range(n_workers)))


#: Small logs with edge cases.
ODD: dict[str, Games] = {
    "one comparison": _of([(0, 1, 0, 0)], 2, 1),
    "one tie": _of([(0, 1, 2, 0)], 2, 1),
    "nothing but ties": _of([(0, 1, 2, 0), (1, 2, 2, 1), (2, 0, 2, 0)], 3, 2),
    "one always wins, one always loses": _of([(0, 1, 0, 0), (0, 2, 0, 1), (1, 2, 0, 0), (2, 0, 1, 1)], 3, 2),
    "two groups": _of([(0, 1, 0, 0), (2, 3, 1, 1), (3, 2, 0, 0)], 4, 2),
    "contradictions": _of([(0, 1, 0, 0), (0, 1, 1, 0), (1, 0, 0, 1), (1, 0, 1, 1)], 2, 2),
    "always on the left": _of([(0, i, 0, i % 3) for i in range(1, 5)], 5, 3),
    "a comparison a worker": _of([(i % 3, (i + 1) % 3, i % 2, i) for i in range(12)], 3, 12),
}


class _Large(Games):
    @functools.cached_property
    def _table(self) -> Comparisons:
        return super().votes()

    def votes(self) -> Comparisons:
        return self._table


@functools.cache
def _large() -> _Large:
    log = games(3000, 40, 60_000, seed=2)
    return _Large(log.rows, log.items, log.workers)


@dataclass(frozen=True)
class ScoreSubject(Subject):
    """Subject of the checks: a model that scores items."""

    def answers(self, model: Any, votes: Any) -> dict[str, Callable[[], Any]]:
        """Return the methods of a fitted model that give results."""
        names = votes.items
        return {
            "to_frame": model.to_frame,
            "workers_frame": model.workers_frame,
            "predict_proba": lambda: model.predict_proba(names[:-1], names[1:]),
        }


class ComparisonSubject(ScoreSubject):
    """Subject of the checks: a comparison model."""

    @property
    def standard(self) -> Games:
        """A simulated log of ordinary size."""
        return STANDARD

    @property
    def other(self) -> Games:
        """A log with other dimensions."""
        return OTHER

    @property
    def large(self) -> Games:
        """60,000 comparisons of 3,000 items."""
        return _large()


def check_finite(subject: ComparisonSubject) -> None:
    """Scores are finite and probabilities sum to one, including edge cases."""
    for name, log in ODD.items():
        votes = log.votes()
        model = subject.make(log).fit(votes)
        require(np.isfinite(model.scores_).all(), f"{name}: scores are {model.scores_}")
        chances = model.predict_proba(votes.items[:-1], votes.items[1:])
        require(np.allclose(chances.sum(axis=1), 1) and (chances >= 0).all(), f"{name}: probabilities are {chances}")
        require(sorted(model.ranks_)[0] == 1, f"{name}: no item has rank 1")


def check_intervals(subject: ComparisonSubject) -> None:
    """Intervals contain the scores, and rank intervals contain the ranks."""
    intervals_hold(subject.fitted())


def intervals_hold(model: Any) -> None:
    """Fail if an interval does not contain its estimate."""
    low, high = model.intervals_.T
    require(((low <= model.scores_) & (model.scores_ <= high)).all(), "a score lies outside its interval")
    best, worst = model.rank_intervals_.T
    require(((best <= model.ranks_) & (model.ranks_ <= worst)).all(), "a rank lies outside its interval")


def check_order_of_rows(subject: ComparisonSubject) -> None:
    """The order of the rows does not change the scores (bit for bit)."""
    log = subject.standard
    rows = log.rows[np.random.default_rng(0).permutation(len(log.rows))]
    permuted = subject.make(log).fit(replace(log, rows=rows).votes())
    require((permuted.scores_ == subject.fitted().scores_).all(), "scores depend on the order of rows")


def check_names(subject: ComparisonSubject) -> None:
    """Permuting item and worker ids permutes the results."""
    log, rng = subject.standard, np.random.default_rng(1)
    reference = subject.fitted()
    for part, attribute in (("items", "items_"), ("workers", "workers_")):
        order = rng.permutation(len(getattr(log, part)))
        names: Any = {part: tuple(getattr(log, part)[i] for i in order)}
        renamed = subject.make(log).fit(replace(log, **names).votes())
        require(
            list(getattr(renamed, attribute)) == list(getattr(reference, attribute)),
            f"{attribute} depends on the order of {part}",
        )
        places = order if part == "items" else slice(None)
        error = float(np.abs(renamed.scores_[places] - reference.scores_).max())
        require(error < CLOSE, f"scores change by {error:g} if {part} are renamed")


def check_sides(subject: ComparisonSubject) -> None:
    """Swapping sides and winners does not change the scores."""
    swapped = subject.make(subject.standard).fit(subject.standard.swap_sides().votes())
    error = float(np.abs(swapped.scores_ - subject.fitted().scores_).max())
    require(error < CLOSE, f"scores change by {error:g} with the sides")


def check_weights(subject: ComparisonSubject) -> None:
    """A comparison of weight two equals two comparisons."""
    log = subject.standard
    twice = replace(log, rows=np.concatenate([log.rows, log.rows[::3]]))
    heavy = replace(log, weights=np.where(np.arange(len(log.rows)) % 3 == 0, 2.0, 1.0))
    a, b = (subject.make(log).fit(one.votes()).scores_ for one in (twice, heavy))
    require(float(np.abs(a - b).max()) < CLOSE, "weights are not equivalent to repeated comparisons")


CHECKS = (
    check_finite,
    check_intervals,
    check_order_of_rows,
    check_names,
    check_sides,
    check_weights,
)
SUBJECT = ComparisonSubject
