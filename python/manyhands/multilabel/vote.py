"""Majority vote for label sets."""

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
    """Estimated sets and vote counts of workers."""

    #: Per worker: labels given, labels given that are in the aggregated sets, labels in the sets of the worker's tasks.
    said: Array = field(metadata=numbers("m", least=0))
    kept: Array = field(metadata=numbers("m", least=0))
    due: Array = field(metadata=numbers("m", least=0))


class SetVote(SetAggregator):
    """Labels that a sufficient share of a task's workers gave.

    A baseline that treats all workers alike. Probabilities are shares of answers.

    Parameters
    ----------
    quorum : float, default 0.5
        Minimum share of a task's answers that contain the label; exactly this share is sufficient.

    Notes
    -----
    Time O(s log s) and memory O(s) for s labels in all answers.

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
        candidates = _shares(votes, np.arange(votes.n_labels))
        n_given, n_matched, n_expected = _counts(votes, candidates.above(np.full(votes.n_labels, float(self.quorum))))
        prior = np.bincount(candidates.labels, candidates.probabilities, votes.n_labels) / votes.n_tasks
        return SetVoteFit(
            said=n_given,
            kept=n_matched,
            due=n_expected,
            candidates=candidates,
            prior=np.minimum(prior, 1.0),
            thresholds=np.full(votes.n_labels, float(self.quorum)),
            history=np.zeros(0),
        )

    def _skills(self) -> Columns:
        # NaN for workers without labels to compare.
        fit = self._fitted().fit_as(SetVoteFit)
        rates = {"precision": _ratio(fit.kept, fit.said), "recall": _ratio(fit.kept, fit.due)}
        return {"skill": _ratio(2 * fit.kept, fit.said + fit.due), **rates}

    def predict(self, answers: Any) -> npt.NDArray[np.object_]:
        """Return the sets of new or old tasks as tuples of names. Labels that were not in ``fit`` raise."""
        now = self._fitted()
        table = MultiLabels._as_table(answers)
        return (
            _shares(table, self._codes_of(now, table)).above(now.fit.thresholds).label_tuples(table.n_tasks, now.labels)
        )


def _counts(votes: MultiLabels, selected: Candidates) -> tuple[Array, Array, Array]:
    """Return per worker: labels given, of these in the aggregated sets, and labels in the sets of their tasks."""
    tasks, workers, _ = votes.codes()
    answer, label = votes.said()
    k, m, by = votes.n_labels, votes.n_workers, workers[answer]
    right = np.isin(tasks[answer].astype(np.int64) * k + label, selected.tasks * k + selected.labels)
    sizes = np.bincount(selected.tasks, minlength=votes.n_tasks)
    counts = (np.bincount(by, minlength=m), np.bincount(by, right, m), np.bincount(workers, sizes[tasks], m))
    n_given, n_matched, n_expected = (count.astype(np.float64) for count in counts)
    return n_given, n_matched, n_expected


def _shares(answers: MultiLabels, codes: npt.NDArray[Any]) -> Candidates:
    """Return the labels of each task in the codes `codes`, with the share of answers that contain them."""
    tasks, _, _ = answers.codes()
    answer, label = answers.said()
    k = int(codes.max(initial=0)) + 1
    keys, counts = np.unique(tasks[answer].astype(np.int64) * k + codes[label], return_counts=True)
    return Candidates(keys // k, keys % k, counts / answers.labels_per_task[keys // k])


def _ratio(part: Array, whole: Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(part / np.maximum(whole, 1), mask=whole == 0)
