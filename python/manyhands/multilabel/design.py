"""Input arrays of the compiled multi-label model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from manyhands._base.limits import check_memory
from manyhands.multilabel.table import MultiLabels

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint32]
#: Peak memory per row while the arrays are built, in bytes.
_ROW_BYTES = 40


@dataclass(frozen=True)
class Design:
    """Candidates, (worker, label) pairs that occur together, and rows: answers to the task of a candidate.

    ``rows`` contains twice the pair number, plus one for a yes; rows of candidate ``c`` start at ``starts[c]``.
    ``spare`` counts answers of a pair's worker to tasks where the label is not a candidate. Candidates of task ``t``
    start at ``task_starts[t]``. Sizes are the numbers of tasks, workers and labels.
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
        """Build the arrays of a table. Time and memory O(rows) up to a logarithm: answers × candidates per task."""
        n, m, k = answers.n_tasks, answers.n_workers, answers.n_labels
        tasks, workers, _ = answers.codes()
        answer, label = answers.said()
        given_keys = tasks[answer].astype(np.int64) * k + label
        keys = np.unique(given_keys)
        of_task, of_label = keys // k, keys % k
        per_task = answers.labels_per_task
        lengths = per_task[of_task]
        n_rows = int(lengths.sum())
        check_memory(_ROW_BYTES * n_rows, f"answers to {len(keys):,} candidates", "fit fewer tasks at a time")
        if max(n_rows, 2 * len(keys)) >= 2**31:
            raise ValueError(f"{n_rows:,} answers to candidates exceed the limit of one fit; split the tasks")
        ends = np.cumsum(lengths)
        candidate = np.repeat(np.arange(len(keys)), lengths)
        # Answers are in task order, so answers to one task are contiguous.
        first = np.concatenate([[0], np.cumsum(per_task)])[:-1]
        at = first[of_task][candidate] + np.arange(n_rows) - (ends - lengths)[candidate]
        yes = np.zeros(n_rows, np.int64)
        candidate_of_key = np.searchsorted(keys, given_keys)
        yes[(ends - lengths)[candidate_of_key] + answer - first[of_task[candidate_of_key]]] = 1
        pair_keys, pair = np.unique(workers[at].astype(np.int64) * k + of_label[candidate], return_inverse=True)
        counts = np.bincount(pair, minlength=len(pair_keys))
        return cls(
            tasks=of_task,
            task_starts=_starts(np.bincount(of_task, minlength=n)),
            labels=of_label.astype(np.uint32),
            starts=_starts(lengths),
            rows=(2 * pair + yes).astype(np.uint32),
            pair_workers=(pair_keys // k).astype(np.uint32),
            pair_labels=(pair_keys % k).astype(np.uint32),
            spare=(answers.labels_per_worker[pair_keys // k] - counts).astype(np.float64),
            sizes=(n, m, k),
        )

    @property
    def pairs(self) -> Ints:
        """Key of each pair, ascending: worker · labels + label."""
        return self.pair_workers.astype(np.int64) * self.sizes[2] + self.pair_labels


def _starts(lengths: Ints) -> Codes:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
