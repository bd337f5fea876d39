"""Information in the labels of each worker and of the crowd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base import arrow
from manyhands._base.checks import plural, preview
from manyhands._base.estimator import Array, Progress
from manyhands._base.names import Names
from manyhands.categorical.hierarchical import HierarchicalDawidSkene
from manyhands.categorical.table import as_annotations

if TYPE_CHECKING:
    import pyarrow as pa

    from manyhands.categorical.base import Aggregator


@dataclass(frozen=True, eq=False, repr=False)
class Worth:
    """Information in each worker's labels and in the crowd's, from :func:`worth`."""

    names: Names
    n_answers: npt.NDArray[np.int64]
    measures: metrics.Worth
    #: Entropy of the class of a task in bits, from the class frequencies alone.
    entropy: float
    n_tasks: int
    #: Margins of :func:`manyhands.metrics.dominance`, one per class.
    dominance: Array
    remarks: tuple[str, ...] = ()

    @property
    def bits(self) -> float:
        """Bits about classes in all labels of the log, if no label repeated the information of another."""
        return float(self.n_answers @ self.measures.information)

    @property
    def bits_per_task(self) -> float:
        """Mean bits per task; well above `entropy` where answers can be trusted."""
        return self.bits / self.n_tasks

    @property
    def capacity(self) -> float:
        """Largest number of bits that one label of every worker can carry, summed over workers."""
        return float(self.measures.capacity.sum())

    def frame(self) -> pa.Table:
        """Return one row per worker, as an Arrow table: measures, errors, and ``share`` of all bits in the log."""
        bits = self.n_answers * self.measures.information
        columns = {"n_answers": self.n_answers, **self.measures._asdict(), "share": bits / max(bits.sum(), 1e-300)}
        return arrow.table({"worker": self.names.arrow(), **columns})

    def __repr__(self) -> str:
        summary = f"{self.bits_per_task:.2f} bits per task of {self.entropy:.2f} needed"
        return "\n".join((f"<Worth of {plural(len(self.names), 'worker')}: {summary}>", *self.remarks))


def worth(votes: Any, *, model: Aggregator | None = None, progress: Progress = False) -> Worth:
    """Measure the information in the labels of each worker and of the whole crowd.

    Use it to see which workers carry a log and whether it has enough labels: ``bits_per_task`` should be well above
    ``entropy``.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations.
    model : Aggregator, optional
        Aggregator fitted to these votes; by default :class:`~manyhands.categorical.HierarchicalDawidSkene`, which
        shrinks the confusion matrices of workers with few labels to the crowd's.
    progress : bool or callable, default False
        Progress of the fit, as in :meth:`manyhands.DawidSkene.fit`.

    Returns
    -------
    Worth
        ``frame()`` has one row per worker; ``bits``, ``bits_per_task``, ``entropy`` and ``capacity`` are totals.

    Notes
    -----
    Cost: that of the fit, and some tens of times O(n_workers · n_classes²).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 20, 3, labels_per_task=5, seed=1)
    >>> information = mh.audit.worth(crowd.log)
    >>> information.bits_per_task > information.entropy
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
        remarks=(*fitted.remarks_, *_warnings(margins, fitted.classes_)),
    )


def _warnings(margins: Array, classes: npt.NDArray[Any]) -> tuple[str, ...]:
    weak = classes[margins <= 0].tolist()
    if not weak:
        return ()
    return (
        f"The mean confusion matrix is not diagonally dominant: {preview(weak, 3)} "
        f"{'is' if len(weak) == 1 else 'are'} named at least as often where another class is true. The labels alone "
        "cannot identify such classes; pass known labels of some tasks as gold=.",
    )
