"""What is known of a log when its shards are written: counts that would else take a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.data_checks import made_table
from manyhands._base.persist import Content

Counts = npt.NDArray[np.uint64]


@dataclass
class Summary:
    """Counts over shards, added up as they are written."""

    #: Annotations by each worker, and of each label.
    per_worker: Counts
    per_label: Counts
    #: How many tasks have 0, 1, 2, … annotations.
    lengths: Counts
    #: The first worker of the group of each, whose workers share tasks with one another and no other worker.
    groups: npt.NDArray[np.uint32]
    #: Further answers to the same task; pairs of labels on a task that agree, and all of them.
    n_repeats: int = 0
    n_agreeing: int = 0
    n_pairs: int = 0

    @classmethod
    def empty(cls, n_workers: int, n_labels: int) -> Summary:
        """Nothing yet."""
        workers, labels, lengths = (np.zeros(n, np.uint64) for n in (n_workers, n_labels, 1))
        return cls(workers, labels, lengths, np.arange(n_workers, dtype=np.uint32))

    @classmethod
    def of(cls, table: _core.Table) -> Summary:
        """What is known of a table."""
        lengths = np.bincount(np.diff(table.offsets())).astype(np.uint64)
        counts, groups = (table.worker_counts(), table.label_counts(), lengths), table.worker_groups()
        return cls(*counts, groups, table.n_repeats(), *table.agreeing_pairs())

    def add(self, part: Summary, who: npt.NDArray[np.uint32] | None = None) -> None:
        """Add a part of the log, whose workers are the crowd or stand in it at `who`."""
        who = np.arange(len(part.per_worker), dtype=np.uint32) if who is None else who
        self.per_worker[who] += part.per_worker
        self.per_label += part.per_label
        longest = np.zeros(max(len(part.lengths), len(self.lengths)), np.uint64)
        longest[: len(self.lengths)] = self.lengths
        longest[: len(part.lengths)] += part.lengths
        self.lengths = longest
        self.n_repeats += part.n_repeats
        self.n_agreeing += part.n_agreeing
        self.n_pairs += part.n_pairs
        if self.groups.any():  # in one piece, nothing joins any more
            self._join(who, who[part.groups])

    def _join(self, one: npt.NDArray[np.uint32], other: npt.NDArray[np.uint32]) -> None:
        """Make one group of the groups of `one[i]` and `other[i]`."""
        m = len(self.groups)
        # Links of two kinds of "tasks": a worker with the first of the group so far, and those that are to be joined.
        everybody = np.arange(m, dtype=np.uint32)
        tasks = np.concatenate([everybody, everybody, np.arange(m, m + len(one), dtype=np.uint32)])
        tasks = np.concatenate([tasks, tasks[2 * m :]])
        workers = np.concatenate([everybody, self.groups, one, other])
        links = made_table(tasks, workers, np.zeros(len(tasks), np.uint16), None, m + len(one), m, 1)
        self.groups = links.worker_groups()

    @property
    def n_annotations(self) -> int:
        """All of them."""
        return int(self.per_label.sum())

    def group_counts(self) -> Counts:
        """Annotations of each group of workers that shares no task with the others, by their first workers."""
        counts = np.zeros(len(self.groups), np.uint64)
        np.add.at(counts, self.groups, self.per_worker)
        return counts[counts > 0]

    def packed(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a file."""
        numbers = np.array([self.n_repeats, self.n_agreeing, self.n_pairs], np.uint64)
        parts: dict[str, npt.NDArray[Any]] = {"numbers": numbers}
        parts |= {"workers": self.per_worker, "labels": self.per_label, "lengths": self.lengths, "groups": self.groups}
        return {f"{name}.{part}": array for part, array in parts.items()}

    @classmethod
    def unpacked(cls, content: Content, name: str, n_workers: int, n_labels: int) -> Summary:
        """Take back what `packed` gave."""
        groups = content.array(f"{name}.groups", np.uint32, shape=(n_workers,))
        if (groups > np.arange(n_workers)).any():
            raise content.damaged("its groups of workers begin after their first")
        return cls(
            content.array(f"{name}.workers", np.uint64, shape=(n_workers,)),
            content.array(f"{name}.labels", np.uint64, shape=(n_labels,)),
            content.array(f"{name}.lengths", np.uint64, ndim=1),
            groups,
            *content.array(f"{name}.numbers", np.uint64, shape=(3,)).tolist(),
        )
