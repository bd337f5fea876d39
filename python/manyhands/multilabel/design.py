"""Who said what of which candidate: the arrays that the compiled core takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from manyhands._base.limits import check_memory
from manyhands.multilabel.table import MultiLabels

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]
#: Bytes of a row while the arrays are made.
_ROW_BYTES = 40


@dataclass(frozen=True)
class Design:
    """Candidates, pairs of worker and label that met, and rows, which are answers to the task of a candidate.

    ``rows`` hold twice the pair and one more for a yes, those of candidate ``c`` from ``starts[c]`` on. ``spare``
    counts answers of a pair's worker to tasks where its label is no candidate. Candidates of task ``t`` begin at
    ``task_starts[t]``. Sizes are those of tasks, workers and labels.
    """

    tasks: Ints
    task_starts: Codes
    labels: Codes
    starts: Codes
    rows: Codes
    pair_workers: Codes
    pair_labels: Codes
    spare: npt.NDArray[np.float64]
    sizes: tuple[int, int, int]

    @classmethod
    def of(cls, answers: MultiLabels) -> Self:
        """Lay out a table. Time and memory O(rows), up to a logarithm: answers to a task times labels said of it."""
        n, m, k = answers.n_tasks, answers.n_workers, answers.n_labels
        tasks, workers, _ = answers.codes()
        answer, label = answers.said()
        told = tasks[answer].astype(np.int64) * k + label
        keys = np.unique(told)
        of_task, of_label = keys // k, keys % k
        per_task = answers.labels_per_task
        lengths = per_task[of_task]
        n_rows = int(lengths.sum())
        check_memory(_ROW_BYTES * n_rows, f"answers to {len(keys):,} candidates", "take a part of the tasks at a time")
        if max(n_rows, 2 * len(keys)) >= 2**31:
            raise ValueError(f"{n_rows:,} answers to candidates are more than one fit can take; divide the tasks")
        ends = np.cumsum(lengths)
        candidate = np.repeat(np.arange(len(keys)), lengths)
        # Answers are in task order, so that those to a task are a stretch.
        first = np.concatenate([[0], np.cumsum(per_task)])[:-1]
        at = first[of_task][candidate] + np.arange(n_rows) - (ends - lengths)[candidate]
        yes = np.zeros(n_rows, np.int64)
        said_of = np.searchsorted(keys, told)
        yes[(ends - lengths)[said_of] + answer - first[of_task[said_of]]] = 1
        met, pair = np.unique(workers[at].astype(np.int64) * k + of_label[candidate], return_inverse=True)
        counts = np.bincount(pair, minlength=len(met))
        return cls(
            tasks=of_task,
            task_starts=_starts(np.bincount(of_task, minlength=n)),
            labels=of_label.astype(np.uint32),
            starts=_starts(lengths),
            rows=(2 * pair + yes).astype(np.uint32),
            pair_workers=(met // k).astype(np.uint32),
            pair_labels=(met % k).astype(np.uint32),
            spare=(answers.labels_per_worker[met // k] - counts).astype(np.float64),
            sizes=(n, m, k),
        )

    @property
    def pairs(self) -> Ints:
        """A number for each pair, ascending: worker · labels + label."""
        return self.pair_workers.astype(np.int64) * self.sizes[2] + self.pair_labels


def _starts(lengths: Ints) -> Codes:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
