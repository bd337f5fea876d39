"""Shards in a checkpoint, as the loops of the library go through them: a job of Spark for each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from manyhands import _core
from manyhands._base.checks import plural
from manyhands._base.limits import check_memory
from manyhands._base.names import Column, Names
from manyhands.categorical.shards.directory import Directory
from manyhands.categorical.shards.passes import Array, Counting, Part, Sharded
from manyhands.errors import FileFormatError
from manyhands.spark.checkpoint import retry
from manyhands.spark.jobs import GATHERED, RESULT, Count, Look, Opener, Place, Results, Sender, names_of, shard_of

T = TypeVar("T")


@dataclass(frozen=True)
class Frames:
    """The frames of a checkpoint, and how to work with them."""

    #: Columns shard, blob and tasks, a row per shard.
    shards: DataFrame
    #: Columns code and worker.
    workers: DataFrame
    sender: Sender
    #: Numbers of the shards in the frame, in order.
    numbers: tuple[int, ...]
    #: How often a pass that failed is run again.
    retries: int
    #: Threads of each pass over a shard.
    n_threads: int


class WorkerNames(Names):
    """Names of all workers, brought to the driver on access."""

    __slots__ = ("_frame", "_n", "_read")

    def __init__(self, frame: DataFrame, n: int) -> None:
        self._frame, self._n, self._read = frame, n, None
        self._values = None
        self._index = None

    def __len__(self) -> int:
        return self._n

    @property
    def _store(self) -> Any:
        if self._read is None:
            check_memory(32 * self._n, f"names of {plural(self._n, 'worker')}", "ask for model.workers()")
            names = self._frame.orderBy("code").select("worker").toArrow().column(0)
            self._read = Column(names, "worker").names()._store
        return self._read

    @property
    def values(self) -> npt.NDArray[Any]:
        """The names, read-only."""
        if self._values is None and isinstance(self._store, np.ndarray):
            self._values = self._store
        return super().values


@dataclass(frozen=True)
class Stored(Directory):
    """What is known of the shards of a checkpoint."""

    frames: Frames = field(repr=False)

    def read(self, index: int, *, check: bool = True) -> _core.Shard:
        """Bring a shard to the driver."""
        return shard_of(self._row(index, "blob"), check=check)

    def tasks(self, index: int) -> Names:
        """Bring the names of the tasks of a shard to the driver, in order."""
        return names_of(self._row(index, "tasks"))

    def _row(self, index: int, column: str) -> Any:
        number = self.frames.numbers[index]
        row = self.frames.shards.where(F.col("shard") == number).select(column).toArrow()
        if len(row) != 1:
            raise _lacking(self.path, 1)
        return row


class SparkShards(Sharded):
    """Streams the shards of a checkpoint through Spark jobs."""

    directory: Stored

    def __reduce__(self) -> tuple[Any, ...]:
        # An executor has its shard, and needs no others.
        return type(None), ()

    def each(self, function: Callable[[Part], T], places: Iterable[int] | None = None) -> Iterator[T]:
        """What a function makes of each shard, or of those at some places, in their order. One job."""
        frames = self.directory.frames
        frame, numbers = frames.shards.select("shard", "blob"), list(frames.numbers)
        if places is not None:
            numbers = [numbers[place] for place in places]
            frame = frame.where(F.col("shard").isin(numbers))
        return self._looked(frame, Look(function, self.opener()), numbers)

    def each_names(self, function: Callable[[Names], T]) -> Iterator[T]:
        """What a function makes of the names of the tasks of each shard, in their order. One job."""
        frames = self.directory.frames
        return self._looked(frames.shards.select("shard", "tasks"), Look(function, None), list(frames.numbers))

    def _looked(self, frame: DataFrame, look: Look, numbers: list[int]) -> Iterator[Any]:
        if not numbers:
            return iter(())
        results = Results(self._run(frame, look)).whole()
        if results.keys() != set(numbers):
            raise _lacking(self.directory.path, len(set(numbers) - results.keys()))
        return (results[number] for number in numbers)

    def add(self, count: Counting, counts: Array, classes: Array) -> float:
        """Add what a pass over each shard counts, in their order; return the sum of what it gives. One job."""
        frames = self.directory.frames
        work = Count(count, self.opener(), (counts.shape, classes.shape))
        in_blocks = counts.nbytes * len(frames.numbers) > GATHERED
        results = Results(self._run(frames.shards.select("shard", "blob"), work, in_blocks))
        n_seen, total = results.add(counts, classes)
        if n_seen != set(frames.numbers):
            raise _lacking(self.directory.path, len(set(frames.numbers) - n_seen))
        return total

    def opener(self) -> Opener:
        """What makes parts of rows, for executors."""
        directory, first, places = self.directory, 0, {}
        for place, (number, entry) in enumerate(zip(directory.frames.numbers, directory.entries, strict=True)):
            places[number] = Place(place, first, entry.checksum)
            first += entry.n_tasks
        return Opener(places, self.known, self.abstentions, directory.frames.n_threads)

    def _run(self, frame: DataFrame, work: Look | Count, in_blocks: bool = False) -> Any:
        frames = self.directory.frames

        def run() -> Any:
            results = frames.sender.by_row(frame, work, RESULT)
            return (frames.sender.add_blocks(results) if in_blocks else results).toArrow()

        return retry(run, frames.retries)


def _lacking(path: Any, n: int) -> FileFormatError:
    return FileFormatError(f"the checkpoint {path} lacks {plural(n, 'shard')}; name another, and fit again")
