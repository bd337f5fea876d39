"""Detect pairs of workers of which one may have copied from the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow
from manyhands._base.checks import check_between, check_number, plural
from manyhands._base.estimator import Progress
from manyhands._base.progress import reporting
from manyhands.audit._crowd import as_crowd
from manyhands.audit._rates import Array, check_least, q_values
from manyhands.audit.result import Finding
from manyhands.categorical._excess import Excess

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class Copies(Finding):
    """Pairs of workers who agree more than chance allows; its length is the number of pairs.

    ``workers`` and ``found`` are all workers in a pair; :attr:`redundant` omits one worker of each set of copies.
    """

    #: The flagged pairs, and the false-discovery rate of each.
    pairs: Excess | None = None
    q: Array | None = None

    def _pairs(self) -> tuple[Excess, Array]:
        assert self.pairs is not None
        assert self.q is not None
        return self.pairs, self.q

    def __len__(self) -> int:
        return len(self._pairs()[0].pairs)

    @property
    def redundant(self) -> npt.NDArray[Any]:
        """Names of all but the busiest worker of each set of copies; leave them out to count each answer once."""
        pairs, _ = self._pairs()
        components = _core.components(len(self.names), pairs.pairs)
        n_answers = self.evidence["n_answers"]
        # The busiest first; ties go to the first in the table.
        order = np.lexsort((np.arange(len(components)), -n_answers, components))
        first = np.ones(len(order), np.bool_)
        first[1:] = components[order][1:] != components[order][:-1]
        return self.names.take(np.sort(order[~first])).values

    def frame(self) -> pa.Table:
        """Return one row per pair, the most significant first, as an Arrow table.

        Columns: ``worker`` and ``other``; ``common`` tasks, ``agreements`` on them, and the number ``expected`` by
        chance; ``copied``, the share of answers that copying would have to explain; ``p_value`` and ``q_value``, the
        false-discovery rate at which the pair is significant; ``longest_run`` of common tasks with equal answers, in
        the order of the table.
        """
        pairs, q = self._pairs()
        order = np.lexsort((-(pairs.agreements - pairs.expected), pairs.p))
        a, b = pairs.pairs[order].T.astype(np.int64)
        room = np.maximum(pairs.common - pairs.expected, 1e-12)
        return arrow.table(
            {
                "worker": self.names.take(a).arrow(),
                "other": self.names.take(b).arrow(),
                "common": pairs.common[order].astype(np.int64),
                "agreements": pairs.agreements[order].astype(np.int64),
                "expected": pairs.expected[order],
                "copied": np.clip((pairs.agreements - pairs.expected) / room, 0.0, 1.0)[order],
                "p_value": pairs.p[order],
                "q_value": q[order],
                "longest_run": pairs.longest_run[order].astype(np.int64),
            }
        )

    def __repr__(self) -> str:
        pairs = self._pairs()[0]
        summary = (
            f"{plural(len(self), 'pair')} of {pairs.n_tested:,} compared, {plural(int(self.found.sum()), 'worker')}"
        )
        return "\n".join((f"<Copies: {summary}>", *self.remarks))


def copies(
    votes: Any, *, rate: float = 0.05, least: float = 0.1, min_overlap: int = 10, progress: Progress = False
) -> Copies:
    """Detect pairs of workers who give the same answers, right or wrong, more often than chance.

    Use it to find answers copied from one another or from the same language model. Good workers agree because they are
    right, and a misleading task misleads many workers: neither counts as evidence, only agreement beyond both.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations.
    rate : float, default 0.05
        False-discovery rate: expected share of the reported pairs who agree by chance (Benjamini & Hochberg).
    least : float, default 0.1
        Share of answers that may coincide for other reasons, such as the same training: p-values are for dependence of
        at most this share. 0 tests for any dependence.
    min_overlap : int, default 10
        Pairs with fewer common tasks are not compared.
    progress : bool or callable, default False
        True for a progress bar, or a function called as ``progress(workers, 0.0)``.

    Returns
    -------
    Copies
        ``len()`` pairs, ``frame()`` with the evidence, ``workers``, ``redundant``, ``remarks``.

    Notes
    -----
    Time: one fit of `HierarchicalDawidSkene`, O(n²) for a task with n answers, and where workers on it share
    `min_overlap` tasks O(n³) (n² from 65 on) times the number of classes. Memory: 44 bytes per pair with a p-value
    below `rate`, 24 bytes for each meeting of the busiest worker with others who share that many tasks, 4 bytes per
    worker and thread, and three times the confusion matrices. Nothing is workers × workers.

    The answers to a task are fixed, as a count per label; random is only which worker gave which answer, with odds from
    the workers' confusion matrices and from how far tasks of the kind are agreed on. This gives the probability that
    two workers gave the same answer to each task, and the exact distribution of their number of agreements. A task with
    two answers, or one on which all agree, has no information. Where most workers of the tasks collude, the others
    appear independent; see :func:`groups` and :func:`colluders`. Weights are ignored, and a worker who gave two
    different answers to a task is left out of that task.

    Examples
    --------
    >>> import manyhands as mh
    >>> league = [0, 0, -1, -1, -1, -1, -1, -1]
    >>> crowd = mh.simulate(300, 8, 3, crowd="one-coin", labels_per_task=6, groups=league, copying=0.8, seed=1)
    >>> pairs = mh.audit.copies(crowd.log)
    >>> len(pairs), pairs.workers.tolist(), pairs.redundant.tolist()
    (1, [0, 1], [0])
    """
    check_between("rate", rate, such_as=0.05)
    check_least(least)
    check_number("min_overlap", min_overlap, least=1, whole=True)
    crowd = as_crowd(votes)
    table, predictions = crowd.votes, crowd.beliefs
    with reporting(progress, table.n_workers, "copies") as callback:
        tests = crowd.pairs(min_overlap=int(min_overlap), share=float(least), most=float(rate), progress=callback)
    q = q_values(tests.p, tests.n_tested)
    significant = q <= rate
    pairs = tests.some(significant)
    flagged = np.zeros(table.n_workers, np.bool_)
    flagged[pairs.pairs.ravel()] = True
    remarks = predictions.remarks
    if not tests.n_tested:
        remarks += (
            f"Copies cannot be detected: no two workers share {min_overlap} tasks with three or more answers, of which "
            "some differ.",
        )
    evidence = {"n_answers": table.labels_per_worker}
    return Copies("copie", table._workers, flagged, evidence, remarks, pairs, q[significant])
