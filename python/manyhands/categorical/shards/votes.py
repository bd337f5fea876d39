"""Directories of shards: opened, and the names of their tasks."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import plural
from manyhands._base.limits import check_memory
from manyhands._base.names import Names
from manyhands.categorical.shards.directory import Directory, open_directory
from manyhands.categorical.shards.passes import Sharded
from manyhands.categorical.table import Annotations


class ShardNames(Names):
    """Names of the tasks of all shards, which are read on access."""

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
            check_memory(16 * n, f"names of {plural(n, 'task')}", "write answers to a file with to_parquet(path)")
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


def open_shards(path: str | os.PathLike[str]) -> Annotations:
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
    return Annotations.from_shards(Sharded(open_directory(path)))
