"""Small logs of classes for the checks: an ordinary one, odd ones, and one of several chunks."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import Annotations

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Crowd:
    """A log with names that can be changed: ``rows`` are positions in the lists of names, (n, 3)."""

    rows: Rows
    tasks: tuple[Any, ...]
    workers: tuple[Any, ...]
    classes: tuple[Any, ...]
    weights: npt.NDArray[np.float64] | None = None

    def columns(self) -> dict[str, list[Any]]:
        """The log as columns of names, one entry per row."""
        names = (self.tasks, self.workers, self.classes)
        return {
            key: [name[i] for i in column]
            for key, name, column in zip(("task", "worker", "label"), names, self.rows.T, strict=True)
        }

    def votes(self, *, classes: Iterable[Any] | None = None) -> Annotations:
        """The log as a table."""
        tasks, workers, labels = self.columns().values()
        return Annotations.from_arrays(tasks, workers, labels, weights=self.weights, classes=classes)

    def repeated(self) -> Crowd:
        """Every third row twice."""
        return replace(self, rows=np.concatenate([self.rows, self.rows[::3]]))

    def weighted(self) -> Crowd:
        """Every third row with weight two."""
        return replace(self, weights=np.where(np.arange(len(self.rows)) % 3 == 0, 2.0, 1.0))

    def renamed(self, part: str, order: Rows) -> Crowd:
        """The same log with names exchanged: the i-th of the tasks, say, now bears the name of the order[i]-th."""
        names = getattr(self, part)
        changes: dict[str, Any] = {part: tuple(names[i] for i in order)}
        return replace(self, **changes)

    def of_at_most(self, n_classes: int | None) -> Crowd:
        """The log, with classes merged where it has more than a maximum."""
        if n_classes is None or len(self.classes) <= n_classes:
            return self
        rows = self.rows.copy()
        rows[:, 2] %= n_classes
        used = np.unique(rows[:, 2])
        rows[:, 2] = np.searchsorted(used, rows[:, 2])
        return replace(self, rows=rows, classes=tuple(self.classes[i] for i in used))


def crowd(n_tasks: int = 40, n_workers: int = 8, n_classes: int = 3, per_task: int = 5, seed: int = 0) -> Crowd:
    """Workers of mixed skill who err towards the next class; sizes as asked, every worker and class used."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n_tasks) % n_classes
    skill = np.linspace(0.5, 0.9, n_workers)
    rows = []
    for task in range(n_tasks):
        # Workers in turn, so that no worker is left out.
        for worker in (task + np.arange(per_task)) % n_workers:
            step = 0 if rng.random() < skill[worker] else (1 if rng.random() < 0.7 else 2)
            rows.append((task, worker, (truth[task] + step) % n_classes))
    return Crowd(
        np.array(rows),
        tuple(f"t{i:03}" for i in range(n_tasks)),
        tuple(f"w{i:02}" for i in range(n_workers)),
        tuple(f"c{i}" for i in range(n_classes)),
    )


def of_rows(rows: Rows, weights: npt.NDArray[np.float64] | None = None) -> Crowd:
    """A crowd of just the tasks, workers and classes that occur in the rows."""
    rows = np.stack([np.unique(column, return_inverse=True)[1] for column in rows.T], axis=1)
    tasks, workers, classes = (
        tuple(f"{letter}{i}" for i in range(size)) for letter, size in zip("twc", rows.max(axis=0) + 1, strict=True)
    )
    return Crowd(rows, tasks, workers, classes, weights)


#: Forty tasks, eight workers, three classes, five labels per task; some tasks are tied.
STANDARD = crowd()

#: The same of two classes, of which five labels are never tied.
UNTIED = crowd(n_classes=2)

#: Small and odd logs.
ODD: dict[str, Crowd] = {
    "one task": crowd(n_tasks=1, n_workers=5, n_classes=2),
    "one worker": crowd(n_workers=1, per_task=1),
    "one class": crowd(n_classes=1),
    "one annotation": crowd(n_tasks=1, n_workers=1, n_classes=1, per_task=1),
    "a worker with one label": replace(
        STANDARD, rows=np.vstack([STANDARD.rows, [3, 8, 1]]), workers=(*STANDARD.workers, "w08")
    ),
    "a task with one label": replace(
        STANDARD, rows=np.vstack([STANDARD.rows, [40, 0, 2]]), tasks=(*STANDARD.tasks, "t040")
    ),
    "everyone agrees": of_rows(np.array([(task, worker, task % 2) for task in range(6) for worker in range(4)])),
    "no agreement": of_rows(np.array([(task, worker, worker) for task in range(4) for worker in range(3)])),
    "nothing but repeats": of_rows(np.repeat(STANDARD.rows[:5], 4, axis=0)),
}


class LargeCrowd(Crowd):
    """A log whose names are its codes, and whose table is made once."""

    @functools.cached_property
    def _table(self) -> Annotations:
        tasks, workers, labels = self.rows.T
        return Annotations.from_codes(
            tasks,
            workers,
            labels,
            n_tasks=len(self.tasks),
            n_workers=len(self.workers),
            n_classes=len(self.classes),
        )

    def votes(self, *, classes: Iterable[Any] | None = None) -> Annotations:
        """The log as a table."""
        return self._table


@functools.cache
def large(n_classes: int) -> LargeCrowd:
    """200,000 annotations: several chunks in every plan of the compiled code."""
    rng = np.random.default_rng(0)
    n_tasks, n_workers, per_task = 40_000, 200, 5
    truth = rng.integers(0, n_classes, n_tasks)
    tasks = np.repeat(np.arange(n_tasks), per_task)
    workers = rng.integers(0, n_workers, len(tasks))
    wrong = rng.random(len(tasks)) > np.linspace(0.4, 0.9, n_workers)[workers]
    labels = np.where(wrong, rng.integers(0, n_classes, len(tasks)), truth[tasks])
    rows = np.stack([tasks, workers, labels], axis=1)
    return LargeCrowd(rows, tuple(range(n_tasks)), tuple(range(n_workers)), tuple(range(n_classes)))
