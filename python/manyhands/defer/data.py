"""Cases with their features, true classes and experts' answers, side by side."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from manyhands.checks import listed
from manyhands.errors import DataWarning
from manyhands.table.annotations import Annotations
from manyhands.table.checks import made_table, refuse_repeats
from manyhands.table.names import Column, Names
from manyhands.train.batch import Batch, CrowdData, as_features, as_votes, rows_of


class CaseData(CrowdData):
    """Cases in the order of the rows of X, each with its true class and the answers that experts gave, if any did."""

    truth: Tensor

    def __init__(self, X: Any, y: Any, votes: Any, tasks: Any = None) -> None:
        features = as_features(X)
        n_rows = len(features)
        table = expert_votes(votes)
        codes, names = true_classes(y, n_rows)
        self._take(features, aligned(table, joint_classes(names, table), n_rows, tasks), None)
        self.truth = torch.from_numpy(self.votes._classes.match(names)[codes])
        # A case that nobody answered still teaches the classifier.
        self.samples = torch.arange(n_rows)


def expert_votes(votes: Any) -> Annotations:
    """The experts' answers as a table; that some cases have none is no matter for a warning here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        table = as_votes(votes)
    if table.weights is not None:
        raise ValueError("answers of experts have no weights here; make the table without weights=")
    refuse_repeats(table.table, table._tasks, table._workers)
    return table


def true_classes(y: Any, n_rows: int) -> tuple[npt.NDArray[np.int64], Names]:
    """Codes of the true classes, (n,), and their names."""
    column = Column(y.numpy() if isinstance(y, Tensor) else y, "y")
    if len(column) != n_rows:
        raise ValueError(f"y has {len(column)} true classes, but X has {n_rows} rows")
    absent = column.missing()
    if absent is not None:
        raise ValueError(f"y has no class in row {int(np.argmax(absent))}; leave out cases whose truth is not known")
    codes, names = column.encode()
    return codes.astype(np.int64), names


def joint_classes(names: Names, votes: Annotations) -> Names:
    """The classes of the votes, with those of the truth that no expert named."""
    known = votes._classes.match(names) >= 0
    if not known.any():
        raise ValueError(
            f"y has classes such as {listed(names.values.tolist())}, the experts answer "
            f"{listed(votes.classes.tolist())}: they have none in common; give both the same names"
        )
    return votes._classes if known.all() else votes._classes.joined(names)


def aligned(votes: Annotations, classes: Names, n_rows: int, tasks: Any) -> Annotations:
    """The same answers in a table that has a task for each row, in their order, and these classes."""
    rows = rows_of(votes, n_rows, tasks)
    cases, experts, labels = votes.codes()
    recoded = classes.match(votes._classes)
    table = made_table(
        rows[cases].astype(np.uint32),
        experts,
        recoded[labels].astype(np.uint16),
        None,
        n_rows,
        votes.n_workers,
        len(classes),
    )
    return Annotations(table, Names(np.arange(n_rows)), votes._workers, classes)


def answers_of(batch: Batch, n_experts: int) -> Tensor:
    """Each expert's answer to each case of a batch, -1 where there is none, (n, n_experts): dense, but only here."""
    answers = torch.full((len(batch), n_experts), -1, dtype=torch.int64, device=batch.sample.device)
    answers[batch.sample, batch.worker] = batch.label
    return answers


def truth_of(batch: Batch) -> Tensor:
    """True classes of a batch, (n,)."""
    assert batch.truth is not None
    return batch.truth
