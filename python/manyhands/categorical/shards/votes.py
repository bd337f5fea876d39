"""A log in shards, as the aggregators take it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from manyhands._base import data_checks as checks
from manyhands._base.checks import counted
from manyhands._base.description import Spread
from manyhands._base.limits import check_memory
from manyhands._base.names import Codes, Names
from manyhands.categorical.shards.directory import Directory, open_directory
from manyhands.categorical.shards.journal import Journal
from manyhands.categorical.shards.passes import Sharded
from manyhands.categorical.table import Annotations

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.audit import Finding

#: What goes through shards one by one.
STREAMED = (
    "MajorityVote, WeightedVote, DawidSkene, BayesianDawidSkene (vb), HierarchicalDawidSkene, HierarchicalMACE, "
    "Consensus (which is mh.aggregate), krippendorff_alpha, fleiss_kappa, gwet_ac1 and gwet_ac2"
)


class ShardNames(Names):
    """Names of the tasks of all shards, which are read when somebody asks for all of them."""

    __slots__ = ("_directory", "_read")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._read: Any = None
        self._values = None
        self._index = None
        self.shown = None

    def __len__(self) -> int:
        return self._directory.sizes.n_tasks

    @property
    def _store(self) -> Any:
        if self._read is None:
            n = len(self)
            check_memory(16 * n, f"names of {counted(n, 'task')}", "write answers to a file with to_parquet(path)")
            parts = [self.part(index)._store for index in range(len(self._directory.entries))]
            if isinstance(parts[0], np.ndarray):
                self._read = np.concatenate(parts)
            else:
                import pyarrow as pa

                self._read = pa.concat_arrays(parts)
        return self._read

    @property
    def values(self) -> npt.NDArray[Any]:
        """The names, read-only."""
        if self._values is None and isinstance(self._store, np.ndarray):
            self._values = self._store
        return super().values

    def part(self, index: int) -> Names:
        """Names of the tasks of a shard."""
        return self._directory.tasks(index)


class ShardedAnnotations(Annotations):
    """An immutable table of annotations that stays on disk, in a directory of shards.

    What goes through annotations shard by shard takes it as any other table, in memory that does not grow with the log;
    all else refuses it before it starts, and :meth:`in_memory` makes a plain table, where there is room. What is asked
    for a task or an annotation at a time (``tasks``, ``codes()``, ``to_frame()``, …) is read then, if it fits.

    Made by ``mh.read(path, out_of_core="directory")``, `Annotations.from_batches` or `open_shards`; the directory must
    stay as it is. Tasks are in the same order as in memory.
    """

    __slots__ = ()
    _table: Sharded  # type: ignore[assignment]

    def __init__(self, table: Sharded) -> None:
        found = table.directory
        labels = found.labels if table.abstentions else None
        super().__init__(
            table,  # type: ignore[arg-type]
            ShardNames(found),
            found.workers,
            found.classes,
            found.unlabelled,
            labels,
        )

    @property
    def table(self) -> NoReturn:
        """Refused: there is no table in memory."""
        raise TypeError(
            f"this log is in shards on disk ({self._table.directory.path}), and what was asked for needs all of it in "
            f"memory: votes.in_memory() reads it, where it fits. Those that go through shards are {STREAMED}"
        )

    @property
    def passes(self) -> Sharded:
        """What loops go through."""
        return self._table

    @property
    def path(self) -> str:
        """The directory."""
        return os.fspath(self._table.directory.path)

    def resumable(self) -> Self:
        """Return the same log, of whose passes sums are written down beside the shards.

        A fit that is killed and begun again, with the same settings, takes those that were made from there and ends
        with the same bits. Each pass takes a file as large as the parameters until `forget` deletes them. A log whose
        passes are written down already is returned as it is.
        """
        if self._table.journal is not None:
            return self
        return type(self)(self._table.but(journal=Journal(self._table.directory.folder / "journal")))

    def forget(self) -> None:
        """Delete what `resumable` wrote down."""
        if self._table.journal is not None:
            self._table.journal.forget()

    def in_memory(self) -> Annotations:
        """Return a plain table of the same annotations; `MemoryError` where they do not fit. O(annotations)."""
        n, weighted = self.n_annotations, self._table.directory.sizes.weighted
        check_memory((26 + 16 * weighted) * n, f"a table of {counted(n, 'annotation')}", "leave it in shards")
        columns: list[tuple[Any, ...]] = []
        for part in self._table.parts():
            table = part.shard.table()
            tasks, workers, labels = table.columns()
            weights = table.weights() if weighted else None
            ones = np.ones(len(tasks)) if weighted and weights is None else weights
            columns.append((tasks + np.uint32(part.first), part.shard.who()[workers], labels, ones))
        tasks, workers, labels = (np.concatenate([part[i] for part in columns]) for i in range(3))
        weights = np.concatenate([part[3] for part in columns]) if weighted else None
        sizes = (self.n_tasks, self.n_workers, self.n_labels)
        table = checks.made_table(tasks, workers, labels, weights, *sizes, n_classes=self.n_classes)
        names = (Names(self._tasks._store), self._workers, self._classes, self._unlabelled, self._labels)
        return Annotations(table, *names)

    def without_abstentions(self) -> Self:
        """Return the log as if abstentions were missing answers; itself where there are none."""
        if self.n_labels == self.n_classes:
            return self
        found = self._table.but(abstentions=False)
        if not found.n_annotations:
            raise ValueError("every annotation is an abstention: there is nothing to aggregate")
        return type(self)(found)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, in {counted(len(self._table), 'shard')}>"

    # ---------------------------------------------------------------------------------------- whole columns

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """Weight of every annotation, aligned with :meth:`codes`; None where all weigh the same."""
        return self.in_memory().weights if self._weighted() else None

    def _weighted(self) -> bool:
        return self._table.directory.sizes.weighted

    @property
    def labels_per_task(self) -> npt.NDArray[np.int64]:
        """Number of annotations of each task, (n_tasks,)."""
        check_memory(8 * self.n_tasks, f"numbers of {counted(self.n_tasks, 'task')}", "see describe().labels_per_task")
        lengths = [np.diff(part.shard.table().offsets()) for part in self._table.parts()]
        return np.concatenate(lengths).astype(np.int64)

    def _task_spread(self) -> tuple[Spread, float]:
        tally = self._table.summary.lengths.astype(np.int64)
        return Spread.of_tally(tally), float(tally[2:].sum() / tally.sum())

    def codes(self) -> tuple[Codes, Codes, npt.NDArray[np.uint16]]:
        """Task, worker and label code of every annotation, in task order, read into memory."""
        return self.in_memory().codes()

    def to_frame(self) -> pa.Table:
        """Return the annotations as an Arrow table, read into memory."""
        return self.in_memory().to_frame()

    def select(self, *, tasks: Iterable[Any] | None = None, workers: Iterable[Any] | None = None) -> Any:
        """Return the annotations of some tasks, by some workers, or both, in memory."""
        return self.in_memory().select(tasks=tasks, workers=workers)

    def sample(self, *, fraction: float | None = None, per_task: int | None = None, seed: int = 0) -> Any:
        """Return a random part of the annotations, in memory."""
        return self.in_memory().sample(fraction=fraction, per_task=per_task, seed=seed)

    def without(self, workers: Finding | Iterable[Any]) -> Any:
        """Return the annotations of all but some workers, in memory."""
        return self.in_memory().without(workers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the log to one file, read into memory on the way; the directory itself can as well be copied."""
        self.in_memory().save(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.path, self._table.abstentions)


def _reopened(path: str, abstentions: bool) -> ShardedAnnotations:
    return ShardedAnnotations(Sharded(open_directory(path), abstentions=abstentions))


def open_shards(path: str | os.PathLike[str]) -> ShardedAnnotations:
    """Open a directory of shards that was written before.

    Examples
    --------
    >>> import tempfile, manyhands as mh
    >>> from manyhands.categorical.shards.votes import open_shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crowd = mh.simulate(100, 10, 3, out_of_core=folder)
    ...     open_shards(folder)
    <Annotations: 500 annotations of 100 tasks by 10 workers, 3 classes, in 1 shard>
    """
    return ShardedAnnotations(Sharded(open_directory(path)))


def write_shards(votes: Annotations, path: str | os.PathLike[str], *, n_shards: int = 1) -> ShardedAnnotations:
    """Write a table that is in memory to a directory of shards, of about equally many tasks each.

    There are never more shards than tasks.
    """
    from manyhands.categorical.shards.claim import Claim
    from manyhands.categorical.shards.directory import Writer

    tasks, workers, labels = votes.codes()
    weights, n_labels = votes.weights, votes.n_labels
    with Claim(path) as claim:
        writer = Writer(claim, votes._workers, votes._classes, votes._labels)
        starts = np.searchsorted(tasks, np.arange(votes.n_tasks + 1))
        bounds = np.unique(np.linspace(0, votes.n_tasks, min(n_shards, votes.n_tasks) + 1).astype(np.int64))
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = slice(starts[first], starts[last])
            table = checks.made_table(
                tasks[rows] - np.uint32(first),
                workers[rows],
                labels[rows],
                None if weights is None else weights[rows],
                last - first,
                votes.n_workers,
                n_labels,
                n_classes=votes.n_classes,
            )
            writer.add(table, votes._tasks.take(np.arange(first, last)))
        return ShardedAnnotations(Sharded(writer.finish(votes._unlabelled)))
