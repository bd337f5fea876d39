"""Cases with their features, true classes and experts' answers, side by side."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from manyhands._base.checks import preview
from manyhands._base.data_checks import made_table, refuse_repeats
from manyhands._base.names import Column, Names
from manyhands._train.batch import Batch, CrowdData, as_features, as_votes, rows_of
from manyhands.categorical.table import Annotations
from manyhands.errors import DataWarning


class CaseData(CrowdData):
    """Cases in the order of the rows of X, each with its true class and the answers that experts gave, if any did."""

    truth: Tensor

    def __init__(self, X: Any, y: Any, votes: Any, tasks: Any = None) -> None:
        features = as_features(X)
        n_rows = len(features)
        codes, names = true_classes(y, n_rows)
        self.features, self.rows = features, torch.arange(n_rows)
        self._take_votes(align(votes, names, n_rows, tasks).table(n_rows))
        self.truth = torch.from_numpy(self.votes._classes.match(names)[codes])
        # A case that no worker answered still teaches the classifier.
        self.samples = torch.arange(n_rows)


def expert_votes(votes: Any) -> Annotations:
    """The experts' answers as a table; that some cases have none is not a matter for a warning here."""
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
    is_known = votes._classes.match(names) >= 0
    if not is_known.any():
        raise ValueError(
            f"y has classes such as {preview(names.values.tolist())}, the experts answer "
            f"{preview(votes.classes.tolist())}: they have none in common; give both the same names"
        )
    return votes._classes if is_known.all() else votes._classes.joined(names)


class AlignedAnswers(NamedTuple):
    """Experts' answers by row of X, one entry per answer, in the order of the rows."""

    rows: npt.NDArray[np.int64]
    experts: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    #: What the codes of experts and labels stand for.
    expert_names: Names
    classes: Names

    def table(self, n_rows: int) -> Annotations:
        """The answers as a table with a task for each row of X, in their order."""
        codes = (self.rows.astype(np.uint32), self.experts.astype(np.uint32), self.labels.astype(np.uint16))
        table = made_table(*codes, None, n_rows, len(self.expert_names), len(self.classes))
        return Annotations(table, Names(np.arange(n_rows)), self.expert_names, self.classes)


def align(votes: Any, truth: Names, n_rows: int, tasks: Any) -> AlignedAnswers:
    """Experts' answers by row of X, coded by the classes of the votes and of the truth: for fit, score and observe."""
    answers = expert_votes(votes)
    classes = joint_classes(truth, answers)
    cases, experts, labels = answers.codes()
    rows = rows_of(answers, n_rows, tasks)[cases]
    order = np.argsort(rows, kind="stable")
    recoded = classes.match(answers._classes)[labels]
    return AlignedAnswers(rows[order], experts.astype(np.int64)[order], recoded[order], answers._workers, classes)


def answers_of(batch: Batch, n_experts: int) -> Tensor:
    """Each expert's answer to each case of a batch, -1 where there is none, (n, n_experts): dense, but only here."""
    answers = torch.full((len(batch), n_experts), -1, dtype=torch.int64, device=batch.sample.device)
    answers[batch.sample, batch.worker] = batch.label
    return answers


def truth_of(batch: Batch) -> Tensor:
    """True classes of a batch, (n,)."""
    assert batch.truth is not None
    return batch.truth
