"""Assign workers to groups of tasks so that no group is labeled much worse than another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands.fairness.attribute import Ints

#: Most rows of the exact enumeration.
_MOST_ROWS = 100_000
#: Halvings of the price of a gap.
_HALVINGS = 50


@dataclass(frozen=True, eq=False)
class FairAssignment:
    """How many tasks of each group each worker gets; to be had from :func:`assign`."""

    #: (n_workers, 2).
    n_tasks: Ints
    #: Expected share of right answers on each group, with the condition and without, (2,).
    accuracy: Array
    accuracy_before: Array

    @property
    def gap(self) -> float:
        """Difference of the two with the condition."""
        return float(np.ptp(self.accuracy))

    @property
    def gap_before(self) -> float:
        """Difference of the two without."""
        return float(np.ptp(self.accuracy_before))


def assign(accuracy: npt.ArrayLike, n_tasks: npt.ArrayLike, capacity: npt.ArrayLike, *, gap: float) -> FairAssignment:
    """Assign tasks of two groups to workers: most correct answers at a bounded difference between groups.

    Use it to plan one label per task. The problem is the linear program of Goel and Faltings: maximize the expected
    number of correct answers, with one worker per task, each worker within capacity, and expected accuracies of the
    groups at most `gap` apart.

    Parameters
    ----------
    accuracy : array of shape (n_workers, 2)
        Expected share of right answers of each worker on each group, such as ``confusion(…).accuracy``.
    n_tasks : array of shape (2,)
        Tasks in each group.
    capacity : array of shape (n_workers,), or a number for all
        Tasks that each worker can take.
    gap : float
        Largest allowed difference of expected accuracies.

    Raises
    ------
    ValueError
        Where capacities do not suffice, or no assignment keeps the gap. In large problems, where none was found.

    Notes
    -----
    Small problems are solved exactly, by enumeration of all distinct pairs of accuracies, worker by worker, up to
    100,000 of them. Beyond, bisection over a price of the gap (:func:`manyhands.defer.assign` solves each problem),
    then local search: tasks are passed on and exchanged while that gains answers and keeps the gap. The result is
    integral and near the optimum of the program; no single exchange improves it. Time O(50 · tasks · n_workers) and
    O(n_workers²) per exchange.

    References
    ----------
    N. Goel and B. Faltings, "Crowdsourcing with fairness, diversity and budget constraints", AIES (2019).

    Examples
    --------
    >>> import manyhands as mh
    >>> plan = mh.fairness.assign([[0.9, 0.7], [0.6, 0.6]], n_tasks=[10, 10], capacity=10, gap=0.1)
    >>> plan.gap <= 0.1
    True
    """
    right = np.asarray(accuracy, np.float64)
    if right.ndim != 2 or right.shape[1] != 2 or not np.isfinite(right).all() or (right < 0).any() or (right > 1).any():
        raise ValueError("accuracy must hold shares between 0 and 1 in two columns, one per group; merge groups to two")
    sizes, room = np.asarray(n_tasks), np.broadcast_to(np.asarray(capacity), len(right))
    for what, numbers in (("n_tasks", sizes), ("capacity", room)):
        if numbers.dtype.kind not in "ui" or (numbers < 0).any():
            raise ValueError(f"{what} must hold whole numbers of at least 0")
    if sizes.shape != (2,) or not sizes.all():
        raise ValueError(f"n_tasks must be two numbers above 0, not {sizes.tolist()}")
    check_number("gap", gap, least=0, most=1)
    if room.sum() < sizes.sum():
        raise ValueError(
            f"no worker is available for {sizes.sum() - room.sum():,} tasks: capacities sum to {room.sum():,}"
        )
    free = _solve(right, sizes, room, 0.0)
    if _apart(free, right, sizes) <= gap:
        best = free
    else:
        exact = _enumerate(right, sizes, room, gap)
        best = (
            _exchange(_search_price(free, right, sizes, room, gap), right, sizes, room, gap) if exact is None else exact
        )
    return FairAssignment(best, _right(best, right, sizes), _right(free, right, sizes))


def _right(n: Ints, right: Array, sizes: Any) -> Array:
    shares: Array = (n * right).sum(axis=0) / sizes
    return shares


def _apart(n: Ints, right: Array, sizes: Any) -> float:
    return abs(float(np.diff(_right(n, right, sizes))[0]))


def _solve(right: Array, sizes: Any, room: Any, price: float) -> Ints:
    """Tasks of each worker if the first group's accuracy less the second's is worth a price."""
    from manyhands.defer.assignment import assign as flow

    worth = right * (1.0 + price / sizes * np.array([1.0, -1.0]) * sizes.sum())
    scores = np.repeat(worth.T, sizes, axis=0)
    who = flow(scores, upper=np.minimum(room, len(scores)).astype(np.int64))
    group = np.repeat([0, 1], sizes)
    n: Ints = np.zeros(right.shape, np.int64)
    np.add.at(n, (who, group), 1)
    return n


def _enumerate(right: Array, sizes: Any, room: Any, gap: float) -> Ints | None:
    """The best assignment within the gap, by dynamic programming over the workers; None if there are too many."""
    # Each row: tasks left in both groups, right answers so far on both, and the row of the worker before.
    left, sums = np.array([sizes], np.int64), np.zeros((1, 2))
    steps: list[tuple[Ints, Ints]] = []
    for worker, capacity in zip(right, room.tolist(), strict=True):
        first, second = (np.arange(min(capacity, int(size)) + 1) for size in sizes)
        takes = np.stack([np.repeat(first, len(second)), np.tile(second, len(first))], axis=1)
        takes = takes[takes.sum(axis=1) <= capacity]
        if len(left) * len(takes) > _MOST_ROWS:
            return None
        before, choice = np.repeat(np.arange(len(left)), len(takes)), np.tile(np.arange(len(takes)), len(left))
        rest = left[before] - takes[choice]
        possible = (rest >= 0).all(axis=1)
        before, n_taken, rest = before[possible], takes[choice[possible]], rest[possible]
        total = sums[before] + n_taken * worker
        # Of rows that are equal so far, one is enough.
        first_rows = np.unique(np.column_stack([rest, np.round(total, 12)]), axis=0, return_index=True)[1]
        left, sums = rest[first_rows], total[first_rows]
        steps.append((before[first_rows], n_taken[first_rows]))
    share = sums / sizes
    fair = (left == 0).all(axis=1) & (np.abs(share[:, 0] - share[:, 1]) <= gap + 1e-12)
    if not fair.any():
        raise ValueError(f"no assignment keeps the groups within {gap:g}; raise gap, or add workers")
    row = int(np.where(fair, sums.sum(axis=1), -np.inf).argmax())
    plan = np.zeros(right.shape, np.int64)
    for worker in reversed(range(len(right))):
        before, n_taken = steps[worker]
        plan[worker] = n_taken[row]
        row = int(before[row])
    return plan


def _search_price(free: Ints, right: Array, sizes: Any, room: Any, gap: float) -> Ints:
    """The assignment at the least price that keeps the gap."""
    sign = -1.0 if _right(free, right, sizes)[0] > _right(free, right, sizes)[1] else 1.0
    low, high, best = 0.0, 4.0, None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        candidate = _solve(right, sizes, room, sign * middle)
        difference = sign * float(np.diff(_right(candidate, right, sizes)[::-1])[0])
        if difference >= -gap:
            high = middle
            if _apart(candidate, right, sizes) <= gap or best is None:
                best = candidate
        else:
            low = middle
    if best is None or _apart(best, right, sizes) > gap:
        best = _exchange(free if best is None else best, right, sizes, room, gap, nearer=True)
    if _apart(best, right, sizes) > gap + 1e-12:
        raise ValueError(
            f"no assignment was found whose groups are within {gap:g}; {_apart(best, right, sizes):.3f} is"
        )
    return best


def _exchange(n: Ints, right: Array, sizes: Any, room: Any, gap: float, *, nearer: bool = False) -> Ints:
    """Let workers pass tasks on, or exchange them, while it gains answers, or brings accuracies nearer."""
    n = n.copy()
    # Worker i gives a task of group 0 to j, one of group 1 to j, or one of group 0 for one of group 1.
    first, second = right[None, :, 0] - right[:, None, 0], right[None, :, 1] - right[:, None, 1]
    none = np.zeros_like(first)
    steps = np.array([[first, none], [none, second], [first, second.T]])
    gain, change = steps.sum(axis=1), steps[:, 0] / sizes[0] - steps[:, 1] / sizes[1]
    for _ in range(int(sizes.sum())):
        share = _right(n, right, sizes)
        now = float(share[0] - share[1])
        if nearer and abs(now) <= gap:
            return n
        has, spare = n > 0, n.sum(axis=1) < room
        possible = np.array([has[:, None, 0] & spare, has[:, None, 1] & spare, has[:, None, 0] & has[None, :, 1]])
        after = np.abs(now + change)
        score = -after if nearer else np.where(after <= gap, gain, -np.inf)
        score = np.where(possible, score, -np.inf)
        kind, i, j = np.unravel_index(int(score.argmax()), score.shape)
        if score[kind, i, j] <= (-abs(now) if nearer else 0.0) + 1e-12:
            return n
        for group in (0, 1) if kind == 2 else (kind,):
            giver, taker = (j, i) if kind == 2 and group == 1 else (i, j)
            n[giver, group] -= 1
            n[taker, group] += 1
    return n
