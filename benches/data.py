"""Annotation logs for the benches: a random crowd as integer codes, data frames or files.

Everything here is NumPy and pyarrow, so that no candidate of a comparison makes the data of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

LABELS_PER_TASK = 5
ID_KINDS = ("int", "hash", "string")
ORDERS = ("task", "shuffled")
# Rows made at a time: the temporaries of 1e8 rows would outweigh the log itself.
_CHUNK_TASKS = 1 << 20


@dataclass(frozen=True)
class Codes:
    """A log of integer codes: the input that every candidate starts from.

    ``tasks`` and ``workers`` are int32 (S,), ``labels`` is uint8 (S,): 9 bytes an annotation.
    """

    tasks: np.ndarray
    workers: np.ndarray
    labels: np.ndarray
    n_tasks: int
    n_workers: int
    n_classes: int

    @property
    def n_annotations(self) -> int:
        return len(self.tasks)


def crowd(n_annotations: int, n_workers: int, n_classes: int, *, order: str = "task", seed: int = 0) -> Codes:
    """Draw a log with five labels a task, by workers drawn at random with replacement.

    A worker is right with a probability of their own (0.45 to 0.95). Half of a worker's errors go to one
    class given the true one (so that confusion matrices have something to learn), half to any other.
    ``order="task"`` keeps the rows of a task together, ``"shuffled"`` scatters them.
    """
    rng = np.random.default_rng(seed)
    n_tasks = max(1, n_annotations // LABELS_PER_TASK)
    skill = rng.uniform(0.45, 0.95, n_workers).astype(np.float32)
    habit = rng.integers(1, n_classes, n_workers, dtype=np.uint8)
    rows = n_tasks * LABELS_PER_TASK
    workers = np.empty(rows, np.int32)
    labels = np.empty(rows, np.uint8)
    for first in range(0, n_tasks, _CHUNK_TASKS):
        some = min(_CHUNK_TASKS, n_tasks - first)
        part = slice(first * LABELS_PER_TASK, (first + some) * LABELS_PER_TASK)
        size = some * LABELS_PER_TASK
        truth = np.repeat(rng.integers(0, n_classes, some, dtype=np.uint8), LABELS_PER_TASK)
        who = rng.integers(0, n_workers, size, dtype=np.int32)
        shift = np.where(
            rng.random(size, np.float32) < 0.5,
            habit[who],
            rng.integers(1, n_classes, size, dtype=np.uint8),
        )
        shift[rng.random(size, np.float32) < skill[who]] = 0
        workers[part] = who
        labels[part] = (truth.astype(np.uint16) + shift) % n_classes
    tasks = np.repeat(np.arange(n_tasks, dtype=np.int32), LABELS_PER_TASK)
    if order == "shuffled":
        shuffled = rng.permutation(rows)
        tasks, workers, labels = tasks[shuffled], workers[shuffled], labels[shuffled]
    return Codes(tasks, workers, labels, n_tasks, n_workers, n_classes)


def arrow(codes: Codes, ids: str = "int") -> pa.Table:
    """Return the log as an Arrow table with columns task, worker, label.

    ``ids`` is ``"int"`` (consecutive 64-bit numbers, as a database counts), ``"hash"`` (64-bit numbers all
    over the range) or ``"string"`` (``task_0000123``, ``w-00042``, ``class_03``).
    """
    import pyarrow as pa

    columns = {
        "task": _named(codes.tasks, codes.n_tasks, ids, "task_", 7),
        "worker": _named(codes.workers, codes.n_workers, ids, "w-", 5),
        "label": _named(codes.labels, codes.n_classes, "string" if ids == "string" else "int", "class_", 2),
    }
    return pa.table(columns)


def frame(codes: Codes, ids: str = "int") -> pd.DataFrame:
    """Return the log as a pandas frame (see `arrow`)."""
    return arrow(codes, ids).to_pandas()


def _named(codes: np.ndarray, size: int, ids: str, prefix: str, width: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if ids == "int":
        return pa.array(codes.astype(np.int64))
    if ids == "hash":
        # Multiplication by an odd number is a bijection of the 64-bit integers: distinct and scattered.
        scattered = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return pa.array(scattered.view(np.int64)[codes])
    text = pa.large_string()
    digits = pc.utf8_lpad(pa.array(np.arange(size)).cast(text), width, "0")
    return pc.binary_join_element_wise(pa.scalar(prefix, text), digits, pa.scalar("", text)).take(pa.array(codes))
