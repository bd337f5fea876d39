"""What a fitted model believes of tasks that may be asked about and of workers who may be asked."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands._base.estimator import Array
from manyhands._base.names import Names, sequence
from manyhands.categorical.base import Aggregator
from manyhands.categorical.table import Annotations, as_annotations
from manyhands.collect.gains import Ints

#: Answers that the matrix of a worker stands for who gave none: it is the crowd's average.
_UNKNOWN = 1.0


@dataclass(frozen=True)
class Beliefs:
    """Tasks by their posteriors, and workers by their confusion matrices.

    Shapes: `posterior` (n_tasks, n_classes); `share` (n_tasks,), how much of a label is new on a task, None for all;
    `confusion` (n_workers, n_classes, n_labels), each row known like the mean of `strength` answers,
    (n_workers, n_classes). `place` is where a task stands in the log, -1 for one without answers.
    """

    tasks: Names
    place: Ints
    posterior: Array
    share: Array | None
    workers: Names
    confusion: Array
    strength: Array
    prior: Array
    n_labels: Ints
    log: Annotations | None

    @property
    def average(self) -> Array:
        """Confusion matrix of an unknown worker, (n_classes, n_labels): the crowd's mean, weighted by labels."""
        return _average(self.confusion, self.n_labels)

    def of(self, rows: Ints) -> Beliefs:
        """The same of some tasks."""
        share = None if self.share is None else self.share[rows]
        return replace(
            self, tasks=self.tasks.take(rows), place=self.place[rows], posterior=self.posterior[rows], share=share
        )

    def answered(self, rows: Ints) -> tuple[Ints, Ints]:
        """Who answered some tasks already: places in `rows`, and codes of workers."""
        if self.log is None:
            raise ValueError(
                "a model that was loaded from a file does not know who answered what; give the annotations: votes=…"
            )
        place = self.place[rows]
        there = np.flatnonzero(place >= 0)
        offsets = self.log.table.offsets().astype(np.int64)
        starts, sizes = offsets[place[there]], np.diff(offsets)[place[there]]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        by = self.log.codes()[1][np.repeat(starts, sizes) + within]
        who = self.workers.match(self.log._workers)[by]
        return np.repeat(there, sizes)[who >= 0], who[who >= 0]


def beliefs_of(model: Any, *, tasks: Any = None, votes: Any = None, workers: Names | None = None) -> Beliefs:
    """What a model believes of these tasks (default: all it knows) and workers (default: all it knows)."""
    now = checked_model(model)
    log = now._votes if votes is None else as_annotations(votes, abstentions=True)
    if votes is not None and log is not None and (now._tasks.match(log._tasks) < 0).any():
        task = log.tasks[now._tasks.match(log._tasks) < 0].tolist()[0]
        raise ValueError(f"votes hold task {task!r}, which the model was not fitted to; fit it to them")
    names = _all_tasks(now._tasks, log) if tasks is None else sequence(_as_list(tasks), "tasks")
    place = _places(names, None if log is None else log._tasks)
    discount = float(getattr(now, "discount_", 0.0))
    share = None
    if discount and log is not None:
        share = 1.0 / (1.0 + discount * np.where(place < 0, 0, log.labels_per_task[place]))
    who = now._workers if workers is None else workers
    codes = now._workers.match(who)
    # Those who were never met are like the crowd on average, which stands for hardly anything.
    answers = np.where(codes < 0, 0, now._n_labels[codes])
    return Beliefs(
        names,
        place,
        _rows(now, names),
        share,
        who,
        now._carried_over(now.confusion_, codes),
        _UNKNOWN + answers[:, None] * now.prior_,
        now.prior_,
        answers,
        log,
    )


def _places(names: Names, among: Names | None) -> Ints:
    """Where names stand among others, -1 where they do not."""
    if among is names:
        return np.arange(len(names))
    return np.full(len(names), -1, np.int64) if among is None else among.match(names)


def _rows(model: Any, names: Names) -> Array:
    """Posteriors of tasks by name; the prior where a task is not known."""
    posterior: Array = model.posterior_
    if names is model._tasks:
        return posterior
    at = model._tasks.match(names)
    rows: Array = posterior[at]
    rows[at < 0] = model.prior_
    return rows


def checked_model(model: Any) -> Any:
    """A fitted aggregator of classes, as it is now."""
    if not isinstance(model, Aggregator):
        raise TypeError(
            f"expected a fitted aggregator of classes, such as mh.aggregate(votes), not {type(model).__name__}"
        )
    model._fitted()
    return copy(model)


def _average(confusion: Array, n_labels: Ints) -> Array:
    weights = n_labels if n_labels.any() else np.ones(len(confusion))
    return np.asarray(np.average(confusion, axis=0, weights=weights))


def _all_tasks(known: Names, log: Annotations | None) -> Names:
    """The tasks of a model and those that its log names without an answer."""
    if log is None or not len(log._unlabelled):
        return known
    new = log._unlabelled.take(np.flatnonzero(known.match(log._unlabelled) < 0))
    return known.followed_by(new) if len(new) else known


def _as_list(names: Any) -> Iterable[Any]:
    """Names of several things; text is one name, and surely a slip."""
    if isinstance(names, str | bytes):
        raise TypeError(f"tasks must be several names, not the text {names!r}")
    values: npt.NDArray[Any] | list[Any] = names if isinstance(names, np.ndarray) else list(names)
    return values
