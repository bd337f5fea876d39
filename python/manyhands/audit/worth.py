"""What each worker's labels are worth, and the crowd's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base import arrow
from manyhands._base.checks import counted, listed
from manyhands._base.estimator import Array, Progress
from manyhands._base.names import Names
from manyhands.categorical.hierarchical import HierarchicalDawidSkene
from manyhands.categorical.table import as_annotations

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.categorical.base import Aggregator


@dataclass(frozen=True, eq=False, repr=False)
class Worth:
    """What each worker's labels are worth, and the crowd's; plain data, to be had from :func:`worth`."""

    names: Names
    n_answers: npt.NDArray[np.int64]
    measures: metrics.Worth
    #: Bits that must be learnt about each task, given nothing but the class frequencies.
    entropy: float
    n_tasks: int
    #: Margins of :func:`manyhands.metrics.dominance`, one a class.
    dominance: Array
    remarks: tuple[str, ...] = ()

    @property
    def bits(self) -> float:
        """Bits about classes in all labels of the log, as if none repeated what others had told."""
        return float(self.n_answers @ self.measures.information)

    @property
    def bits_per_task(self) -> float:
        """The same for a task on average; well above `entropy` where answers are to be trusted."""
        return self.bits / self.n_tasks

    @property
    def capacity(self) -> float:
        """Bits that one label of every worker could tell at best, summed over workers."""
        return float(self.measures.capacity.sum())

    def frame(self) -> pa.Table:
        """Return one row a worker, as an Arrow table: measures, errors, and ``share`` of all bits in the log."""
        told = self.n_answers * self.measures.information
        columns = {"n_answers": self.n_answers, **self.measures._asdict(), "share": told / max(told.sum(), 1e-300)}
        return arrow.table({"worker": self.names.arrow(), **columns})

    def __repr__(self) -> str:
        told = f"{self.bits_per_task:.2f} bits a task of {self.entropy:.2f} needed"
        return "\n".join((f"<Worth of {counted(len(self.names), 'worker')}: {told}>", *self.remarks))


def worth(votes: Any, *, model: Aggregator | None = None, progress: Progress = False) -> Worth:
    """Measure what each worker's labels tell about the classes, and what the crowd's do.

    Cost: that of the fit, and O(n_workers · n_classes²) some tens of times.

    Parameters
    ----------
    votes
        An :class:`~manyhands.Annotations` table, or a frame with well-known column names.
    model
        An aggregator fitted to these votes; None for :class:`~manyhands.categorical.HierarchicalDawidSkene`, whose
        matrices are free, and shrunk to the crowd's where a worker gave few labels.
    progress
        Of the fit, as in :meth:`manyhands.DawidSkene.fit`.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 20, 3, labels_per_task=5, seed=1)
    >>> found = mh.audit.worth(crowd.log)
    >>> found.bits_per_task > found.entropy
    True
    """
    votes = as_annotations(votes)
    fitted = HierarchicalDawidSkene().fit(votes, progress=progress) if model is None else model
    prior = fitted.prior_
    margins = metrics.dominance(fitted.confusion_)
    return Worth(
        fitted._workers,
        fitted._n_labels,
        fitted._worker_measures(),
        entropy=abs(float((prior * np.log2(np.maximum(prior, 1e-300))).sum())),
        n_tasks=len(fitted.tasks_),
        dominance=margins,
        remarks=(*fitted.remarks_, *_remarks(margins, fitted.classes_)),
    )


def _remarks(margins: Array, classes: npt.NDArray[Any]) -> tuple[str, ...]:
    weak = classes[margins <= 0].tolist()
    if not weak:
        return ()
    return (
        f"The mean confusion matrix is not diagonally dominant: {listed(weak, 3)} "
        f"{'is' if len(weak) == 1 else 'are'} named at least as often where another class is true. What workers say of "
        "such classes cannot be told apart from the labels alone; known labels of some tasks (gold=) would help.",
    )
