"""A directory of shards as loops of EM go through it: one shard after the other, with two threads each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import data_checks as checks
from manyhands._base.checks import plural
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands.categorical.shards.directory import Directory, open_directory
from manyhands.categorical.shards.journal import Journal
from manyhands.categorical.shards.summary import Summary

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
#: Known classes of some shards, by the number of the shard: where the tasks stand in it, and their classes.
Known = Mapping[int, tuple[npt.NDArray[np.int64], Codes]]
T = TypeVar("T")


class Part(NamedTuple):
    """A shard at hand."""

    #: Which one it is.
    place: int
    #: Number of its first task among all.
    first: int
    shard: _core.Shard
    #: Known classes of its tasks, -1 where they are not known.
    gold: Codes | None


def part_of(shard: _core.Shard, place: int, first: int, known: Known, *, abstentions: bool) -> Part:
    """A shard as passes take it: without abstentions unless they count, and with the known classes of its tasks."""
    if not abstentions and shard.n_labels > shard.n_classes:
        shard = shard.without_abstentions()
    return Part(place, first, shard, _spread(known.get(place), shard.n_tasks))


def _spread(known: tuple[npt.NDArray[np.int64], Codes] | None, n_tasks: int) -> Codes | None:
    """Known classes of some tasks as one number for each task, -1 where they are not known."""
    if known is None:
        return None
    codes = np.full(n_tasks, -1, np.int32)
    codes[known[0]] = known[1]
    return codes


class Factors(NamedTuple):
    """Parameters of the last pass of a loop: answers follow from it."""

    model: str
    workers: Array
    classes: Array


class Counting(Protocol):
    """A pass over one shard: adds what it counts to sums over workers and over classes, and returns a number."""

    def __call__(self, part: Part, /, *, counts: Array, classes: Array) -> float:
        """Count one shard."""


class Sharded:
    """Streams the shards of a directory through a loop; see `manyhands.categorical.shards`.

    The next shard is read while one is worked on, so that two are in memory; checksums are verified on every read. Sums
    are added in the order of the shards: results are the same bits on any number of threads, and those of any other
    driver.

    Parameters
    ----------
    directory
        The shards.
    abstentions : bool, default True
        Whether abstentions count; if not, they are missing answers.
    known
        Known classes.
    journal
        Where the sums of each pass are kept, for a run that is killed and begun again.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        abstentions: bool = True,
        known: Known | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.directory = directory
        self.abstentions = abstentions
        self.known = {} if known is None else known
        self.journal = journal
        #: Of each loop that was concluded, in turn.
        self.concluded: list[Factors] = []
        self._checked: set[int] = set()

    def but(self, **changed: Any) -> Self:
        """The same with something changed."""
        copied = object.__new__(type(self))  # not by copy(), which is a kind of sending
        vars(copied).update(vars(self), concluded=[], **changed)
        return copied

    # -------------------------------------------------------------------------------------------------- sizes

    @property
    def summary(self) -> Summary:
        """What was counted when the shards were written."""
        return self.directory.summaries[0 if self.abstentions else 1]

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.directory.sizes.n_tasks

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return self.directory.sizes.n_workers

    @property
    def n_annotations(self) -> int:
        """Number of annotations."""
        return self.summary.n_annotations

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.directory.sizes.n_classes

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.directory.sizes.n_labels if self.abstentions else self.n_classes

    # ------------------------------------------------------------------------------------------------- shards

    def __len__(self) -> int:
        return len(self.directory.entries)

    def part(self, index: int) -> Part:
        """Read a shard."""
        shard = self.directory.read(index, check=index not in self._checked)
        self._checked.add(index)
        return part_of(shard, index, self.directory.first(index), self.known, abstentions=self.abstentions)

    def parts(self) -> Iterator[Part]:
        """Read one shard after the other, and the next while one is worked on."""
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self.part, 0)
            for index in range(len(self)):
                part = coming.result()
                if index + 1 < len(self):
                    coming = reader.submit(self.part, index + 1)
                yield part

    def each(self, function: Callable[[Part], T], places: Iterable[int] | None = None) -> Iterator[T]:
        """What a function makes of each shard, or of those at some places, in their order."""
        return map(function, self.parts() if places is None else map(self.part, places))

    def each_names(self, function: Callable[[Names], T]) -> Iterator[T]:
        """What a function makes of the names of the tasks of each shard, in their order."""
        return map(function, map(self.directory.tasks, range(len(self))))

    def add(self, count: Counting, counts: Array, classes: Array) -> float:
        """Add what a pass over each shard counts, in their order; return the sum of what it gives."""
        total = 0.0
        for part in self.parts():
            total += count(part, counts=counts, classes=classes)
        return total

    def read_table(self) -> _core.Table:
        """Read all shards into one table; `MemoryError` where it does not fit."""
        n, sizes = self.n_annotations, self.directory.sizes
        check_memory((26 + 16 * sizes.weighted) * n, f"a table of {plural(n, 'annotation')}", "leave it in shards")
        columns: list[tuple[Any, ...]] = []
        for part in self.parts():
            table = part.shard.table()
            tasks, workers, labels = table.columns()
            weights = table.weights() if sizes.weighted else None
            ones = np.ones(len(tasks)) if sizes.weighted and weights is None else weights
            columns.append((tasks + np.uint32(part.first), part.shard.who()[workers], labels, ones))
        tasks, workers, labels = (np.concatenate([part[i] for part in columns]) for i in range(3))
        weights = np.concatenate([part[3] for part in columns]) if sizes.weighted else None
        shape = (self.n_tasks, self.n_workers, self.n_labels)
        return checks.made_table(tasks, workers, labels, weights, *shape, n_classes=self.n_classes)

    def offsets(self) -> npt.NDArray[np.int64]:
        """Return where the annotations of each task begin, and where the last end."""
        n = self.n_tasks
        check_memory(16 * n, f"numbers of {plural(n, 'task')}", "see describe().labels_per_task")
        lengths = [np.diff(part.shard.table().offsets()) for part in self.parts()]
        return np.concatenate([[0], *lengths]).astype(np.int64).cumsum()

    # ---------------------------------------------------------------------------------------- resumed and sent

    def resumable(self) -> Self:
        """The same shards, with the sums of each pass kept next to them; itself where they are kept already."""
        if self.journal is not None:
            return self
        return self.but(journal=Journal(self.directory.folder / "journal"))

    def forget(self) -> None:
        """Delete the sums that were kept."""
        if self.journal is not None:
            self.journal.forget()

    def __reduce__(self) -> tuple[Any, ...]:
        # Known classes and a journal are of one run.
        return _reopen, (type(self), os.fspath(self.directory.path), self.abstentions)

    # ------------------------------------------------------------------------------------------------- passes

    def open(self, *, counts: Array, classes: Array, **how: Any) -> None:
        """Add the expected counts of a start that has no parameters."""

        def count(part: Part, **sums: Any) -> float:
            part.shard.em_open(first=part.first, gold=part.gold, **sums, **how)
            return 0.0

        self._noted(count, counts, classes, "open", how)

    def gather(self, factors: Array, prior: Array, /, *, counts: Array, classes: Array, **how: Any) -> float:
        """Add the expected counts under the factors; return the log-evidence."""

        def count(part: Part, **sums: Any) -> float:
            return part.shard.em_gather(factors, prior, gold=part.gold, **sums, **how)

        return self._noted(count, counts, classes, "gather", how, factors, prior)

    def conclude(self, factors: Array, prior: Array, /, *, model: str) -> float:
        """Return the log-evidence under the last factors, which are kept."""

        def count(part: Part, **_: Any) -> float:
            return part.shard.em_answers(factors, prior, model=model, gold=part.gold)["log_evidence"]

        self.concluded.append(Factors(model, factors, prior))
        return self._noted(count, np.zeros(0), np.zeros(0), "conclude", {"model": model}, factors, prior)

    def _noted(
        self,
        count: Counting,
        counts: Array,
        classes: Array,
        name: str,
        how: Mapping[str, Any],
        *told: Array,
    ) -> float:
        """Make a pass, or take what it gave in an earlier run."""
        if self.journal is None:
            return self.add(count, counts, classes)
        key = self._key(name, how, *told)
        result = self.journal.find(key, (counts.shape, classes.shape))
        if result is None:
            own, workers_seen = np.zeros_like(counts), np.zeros_like(classes)
            result = (own, workers_seen, self.add(count, own, workers_seen))
            self.journal.keep(key, *result)
        counts += result[0]
        classes += result[1]
        return result[2]

    def _key(self, name: str, how: Mapping[str, Any], *told: Array) -> str:
        """Name a pass by all that it depends on."""
        import hashlib

        key = hashlib.blake2b(digest_size=16)
        key.update(repr((self.directory.digest, self.abstentions, name, sorted(how.items()))).encode())
        for index in sorted(self.known):
            key.update(f"{index}".encode())
            for codes in self.known[index]:
                key.update(codes.tobytes())
        for array in told:
            key.update(repr(array.shape).encode())
            key.update(np.ascontiguousarray(array).data)
        return key.hexdigest()

    # -------------------------------------------------------------------------- what tables say of themselves

    def worker_counts(self) -> npt.NDArray[np.uint64]:
        """Annotations by each worker."""
        return self.summary.per_worker.copy()

    def label_counts(self) -> npt.NDArray[np.uint64]:
        """Annotations that give each label."""
        return self.summary.per_label.copy()

    def group_counts(self) -> npt.NDArray[np.uint64]:
        """Annotations of each group of workers that shares no task with the others."""
        return self.summary.group_counts()

    def n_components(self) -> int:
        """Groups of workers that share no task."""
        return len(self.group_counts())

    def n_repeats(self) -> int:
        """Annotations that repeat an earlier (task, worker)."""
        return self.summary.n_repeats

    def agreeing_pairs(self) -> tuple[int, int]:
        """Agreeing and all pairs of annotations that share a task."""
        return self.summary.n_agreeing, self.summary.n_pairs


def _reopen(driver: type[Sharded], path: str, abstentions: bool) -> Sharded:
    return driver(open_directory(path), abstentions=abstentions)
