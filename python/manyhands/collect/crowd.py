"""Who may be asked: workers with their capacities and costs, and what is supposed of those who are little known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._base.frames import names_of, take_columns
from manyhands._base.names import Column, Names, sequence
from manyhands.collect.beliefs import Beliefs
from manyhands.collect.gains import Ints

Workers: TypeAlias = Any

#: Ways to try those who are little known.
EXPLORE = ("epsilon-greedy", "thompson", "upper", "none")
#: Schedule of epsilon: number of first labels, their share of random workers, and the share afterward.
EPSILON = (0.5, 0.05)
FIRST = 100
#: Standard errors that an upper bound lies above the estimate.
_ABOVE = 1.645


@dataclass(frozen=True)
class Pool:
    """Workers who may be asked, how many labels each can give (None for any number) and what one costs (None: 1)."""

    names: Names
    capacity: Ints | None = None
    cost: Array | None = None

    def __len__(self) -> int:
        return len(self.names)


def pool_of(workers: Workers, known: Names) -> Pool:
    """Read who may be asked: ``"all"`` of the model, names, or a frame with the columns worker, capacity and cost."""
    if isinstance(workers, str):
        if workers != "all":
            raise ValueError(f'workers must be "all", several names, or a frame with a column worker, not {workers!r}')
        return Pool(known)
    if isinstance(workers, Mapping) or hasattr(workers, "__arrow_c_stream__") or hasattr(workers, "columns"):
        return _of_frame(workers)
    names = list(workers)
    if not names:
        raise ValueError("no worker is available: workers is empty; pass names, or leave it out to rank tasks only")
    return Pool(_once(sequence(names, "workers")))


def _of_frame(frame: Any) -> Pool:
    there = names_of(frame)
    roles = {"worker": None} | {name: name for name in ("capacity", "cost") if name in there}
    columns = take_columns(frame, **roles)
    column = Column(columns["worker"][1], "workers")
    if not len(column):
        raise ValueError("no worker is available: the frame of workers has no rows")
    names = _once(sequence(columns["worker"][1], "workers"), len(column))
    capacity = cost = None
    if "capacity" in columns:
        numbers = _numbers("capacity", columns["capacity"][1])
        if (numbers != np.floor(numbers)).any():
            raise ValueError(f"capacity must hold whole numbers of labels, not {numbers[numbers % 1 != 0][0]}")
        capacity = np.minimum(numbers, 2.0**53).astype(np.int64)
        if not capacity.any():
            raise ValueError("no worker is available: all capacities are 0")
    if "cost" in columns:
        cost = _numbers("cost", columns["cost"][1])
        if (cost <= 0).any():
            raise ValueError(f"cost must be above 0, not {cost[cost <= 0][0]:g}")
    return Pool(names, capacity, cost)


def _once(names: Names, n: int | None = None) -> Names:
    distinct = len(set(names.values.tolist()))
    if distinct < (len(names) if n is None else n):
        raise ValueError("workers has a name twice; keep one row per worker")
    return names


def _numbers(what: str, values: Any) -> Array:
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must hold numbers") from None
    if numbers.ndim != 1 or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise ValueError(f"{what} must hold finite numbers of at least 0, one per worker")
    return numbers


def check_epsilon(epsilon: Any) -> None:
    """Raise unless epsilon is None (the schedule) or a share."""
    if epsilon is not None:
        check_number("epsilon", epsilon, least=0, most=1)


def epsilon_at(epsilon: float | None, n_labels: int) -> float:
    """Share of labels that go to random workers after a number of labels."""
    return EPSILON[n_labels >= FIRST] if epsilon is None else float(epsilon)


def explored_confusion(explore: str, confusion: Array, strength: Array, rng: np.random.Generator) -> Array:
    """Confusion matrices to choose workers by: as they are, as drawn, or as good as they may yet be.

    Parameters
    ----------
    explore : str
        One of `EXPLORE`. ``"thompson"`` draws each row from the Dirichlet distribution of which it is the mean;
        ``"upper"`` moves the probability of a right answer up by 1.645 standard errors, and scales errors down.
    confusion, strength : ndarray
        As in `Beliefs`; any further axes come first.
    rng
        Where draws come from.
    """
    if explore == "thompson":
        samples = rng.standard_gamma(np.maximum(confusion * strength[..., None], 1e-3))
        total = samples.sum(axis=-1, keepdims=True)
        return np.where(total > 0, samples / np.where(total > 0, total, 1.0), confusion)
    if explore == "upper":
        k = confusion.shape[-2]
        right = confusion[..., np.arange(k), np.arange(k)]
        better = np.minimum(right + _ABOVE * np.sqrt(right * (1 - right) / (strength + 1)), 1.0)
        scale = np.where(right < 1, (1 - better) / np.where(right < 1, 1 - right, 1.0), 0.0)
        raised: Array = confusion * scale[..., None]
        raised[..., np.arange(k), np.arange(k)] = better
        return raised
    return confusion


def eligible(beliefs: Beliefs, rows: Ints, who: Ints) -> npt.NDArray[np.bool_]:
    """Whether each of some workers has not yet answered each of some tasks, (n_rows, n_who)."""
    column = np.full(len(beliefs.workers), -1, np.int64)
    column[who] = np.arange(len(who))
    row, by = beliefs.answered(rows)
    allowed = np.ones((len(rows), len(who)), np.bool_)
    mine = column[by] >= 0
    allowed[row[mine], column[by[mine]]] = False
    return allowed
