"""Posteriors of a log that stays on disk: made of a shard when it is asked for, never of all unless asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import plural
from manyhands._base.estimator import Array
from manyhands._base.limits import check_memory
from manyhands.categorical._posterior import DensePosterior, Posterior, Winners
from manyhands.categorical.shards.passes import Factors, Part, Sharded

Found = TypeVar("Found", bound=Mapping[str, Any])
#: What to do where answers of all tasks do not fit.
_WRITE = "write them to a file with to_parquet(path)"


class StreamedPosterior(Posterior):
    """Posteriors that follow from a shard: a subclass gives those of one."""

    def __init__(self, shards: Sharded) -> None:
        self.shards = shards

    @abstractmethod
    def of_part(self, part: Part) -> Array:
        """Posteriors of the tasks of a shard, (n_tasks, n_classes)."""

    def rows(self, tasks: npt.NDArray[np.int64]) -> Array:
        """Posteriors of some tasks, by their codes, (len(tasks), n_classes); only shards that have some are read."""
        result = np.empty((len(tasks), self.shards.n_classes))
        firsts = np.cumsum([0, *(entry.n_tasks for entry in self.shards.directory.entries)])
        within = np.searchsorted(firsts, tasks, side="right") - 1
        places = np.unique(within).tolist()

        def look(part: Part) -> Array:
            rows: Array = self.of_part(part)[tasks[within == part.place] - part.first]
            return rows

        for place, rows in zip(places, self.shards.each(look, places), strict=True):
            result[within == place] = rows
        return result

    def winners(self) -> Winners:
        """The most probable class of each task; the lowest code wins a tie."""
        self._check(11, "answers")
        per_shard = self.shards.each(lambda part: DensePosterior(self.of_part(part)).winners())
        parts = [(one.codes, one.tied, one.confidence) for one in per_shard]
        return Winners(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def dense(self) -> Array:
        """All posteriors, (n_tasks, n_classes); `MemoryError` where they cannot fit."""
        self._check(8 * self.shards.n_classes, "posteriors")
        return np.concatenate(list(self.shards.each(self.of_part)))

    def _check(self, n_bytes: int, what: str) -> None:
        n = self.shards.n_tasks
        check_memory(n_bytes * n, f"{what} of {plural(n, 'task')}", _WRITE)

    @classmethod
    def n_bytes(cls, n_tasks: int, n_classes: int) -> int:
        """Bytes that it takes at the least: none."""
        return 0

    def stored(self) -> Posterior:
        """Return all posteriors, where they fit."""
        return DensePosterior(self.dense())


class EmPosterior(StreamedPosterior):
    """Posteriors under the factors that a loop of EM ended with."""

    def __init__(self, shards: Sharded, factors: Factors) -> None:
        super().__init__(shards)
        self._factors = factors

    def of_part(self, part: Part) -> Array:
        """Posteriors of the tasks of a shard, (n_tasks, n_classes)."""
        model, workers, classes = self._factors
        result = part.shard.em_answers(workers, classes, model=model, gold=part.gold, posterior=True)
        return result["posterior"]


class VotePosterior(StreamedPosterior):
    """Shares of the votes, each of which counts as much as its worker weighs."""

    def __init__(self, shards: Sharded, weights: Array | None = None) -> None:
        super().__init__(shards)
        self._weights = weights

    def of_part(self, part: Part) -> Array:
        """Shares of the votes on the tasks of a shard, (n_tasks, n_classes)."""
        weights = None if self._weights is None else self._weights[part.shard.who()]
        return part.shard.table().vote_shares(weights)[0]


def solve(held: Any, found: list[Found]) -> list[Found]:
    """What loops over a table or over shards found, with posteriors; there must have been no loop since."""
    if not isinstance(held, Sharded):
        return found
    last = held.concluded[-len(found) :]
    return [dict(one) | {"posterior": EmPosterior(held, at)} for one, at in zip(found, last, strict=True)]  # type: ignore[misc]
