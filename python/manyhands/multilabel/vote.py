"""Sets by votes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.multilabel.base import Candidates, SetAggregator, SetFit
from manyhands.multilabel.table import MultiLabels

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class SetVoteFit(SetFit):
    """Sets by votes."""

    #: Labels that each worker said, those of them that are in the sets, and all labels of the sets of their tasks.
    said: Array = field(metadata=numbers("m", least=0))
    kept: Array = field(metadata=numbers("m", least=0))
    due: Array = field(metadata=numbers("m", least=0))


class SetVote(SetAggregator):
    """The labels that enough of a task's workers said.

    Parameters
    ----------
    quorum
        The least share of a task's answers that hold a label; one half is enough at 0.5.

    Notes
    -----
    Probabilities are shares of answers: a baseline, and what to show where nobody may be trusted more than others.
    Time O(s log s) and memory O(s) for the s labels of all answers together.

    Examples
    --------
    >>> import manyhands as mh
    >>> log = {"task": [1, 1, 1], "worker": ["a", "b", "c"], "labels": ["cat|dog", "cat", "cat|cow"]}
    >>> mh.multilabel.SetVote().fit(log).label_sets_.tolist()
    [('cat',)]
    """

    _fit_type: ClassVar[type[Fit]] = SetVoteFit

    def __init__(self, *, quorum: float = 0.5) -> None:
        self.quorum = quorum

    def _fit(self, votes: MultiLabels, progress: Callback | None) -> SetFit:
        check_number("quorum", self.quorum, least=0, most=1)
        found = _shares(votes, np.arange(votes.n_labels))
        said, kept, due = _counts(votes, found.above(np.full(votes.n_labels, float(self.quorum))))
        prior = np.bincount(found.labels, found.probabilities, votes.n_labels) / votes.n_tasks
        return SetVoteFit(
            said=said,
            kept=kept,
            due=due,
            candidates=found,
            prior=np.minimum(prior, 1.0),
            thresholds=np.full(votes.n_labels, float(self.quorum)),
            history=np.zeros(0),
        )

    def _skills(self) -> Columns:
        # Of the labels that a worker gave: NaN where there are none to compare.
        fit = self._fitted().fit_as(SetVoteFit)
        rates = {"precision": _ratio(fit.kept, fit.said), "recall": _ratio(fit.kept, fit.due)}
        return {"skill": _ratio(2 * fit.kept, fit.said + fit.due), **rates}

    def predict(self, answers: Any) -> npt.NDArray[np.object_]:
        """Sets of tasks, old or new, as tuples of names. A label that was not in the inventory is an error."""
        now = self._fitted()
        table = MultiLabels._as_table(answers)
        return _shares(table, self._codes_of(now, table)).above(now.fit.thresholds).named(table.n_tasks, now.labels)


def _counts(votes: MultiLabels, taken: Candidates) -> tuple[Array, Array, Array]:
    """Count for each worker what they said, and what they should have said, by the sets that were found."""
    tasks, workers, _ = votes.codes()
    answer, label = votes.said()
    k, m, by = votes.n_labels, votes.n_workers, workers[answer]
    right = np.isin(tasks[answer].astype(np.int64) * k + label, taken.tasks * k + taken.labels)
    sizes = np.bincount(taken.tasks, minlength=votes.n_tasks)
    counts = (np.bincount(by, minlength=m), np.bincount(by, right, m), np.bincount(workers, sizes[tasks], m))
    said, kept, due = (count.astype(np.float64) for count in counts)
    return said, kept, due


def _shares(answers: MultiLabels, codes: npt.NDArray[Any]) -> Candidates:
    """Labels that somebody said of a task, by the codes that they shall have, and shares of the answers with them."""
    tasks, _, _ = answers.codes()
    answer, label = answers.said()
    k = int(codes.max(initial=0)) + 1
    keys, counts = np.unique(tasks[answer].astype(np.int64) * k + codes[label], return_counts=True)
    return Candidates(keys // k, keys % k, counts / answers.labels_per_task[keys // k])


def _ratio(part: Array, whole: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(part / np.maximum(whole, 1), mask=whole == 0)
