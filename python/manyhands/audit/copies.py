"""Pairs of workers one of whom may have copied from the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base import arrow
from manyhands._base.checks import check_between, check_number, counted
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
    """Pairs of workers who agree more than chance allows; its length is how many.

    ``workers`` and ``found`` are all who are in a pair; :attr:`redundant` leaves one of each set.
    """

    #: The pairs that were found, and the false-discovery rate of each.
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
        """Names of all but the busiest worker of each set of copies: whom to leave out to count an answer once."""
        pairs, _ = self._pairs()
        components = _core.components(len(self.names), pairs.pairs)
        n_answers = self.evidence["n_answers"]
        # The busiest first, of equals the first.
        order = np.lexsort((np.arange(len(components)), -n_answers, components))
        first = np.ones(len(order), np.bool_)
        first[1:] = components[order][1:] != components[order][:-1]
        return self.names.take(np.sort(order[~first])).values

    def frame(self) -> pa.Table:
        """Return one row a pair, the surest first, as an Arrow table.

        ``worker`` and ``other``; ``common`` tasks, ``agreements`` on them, how many are ``expected`` by chance;
        ``copied``, the share of answers that would have to be copied to make up the difference; ``p_value`` and
        ``q_value``, the false-discovery rate at which the pair is found; ``longest_run`` of common tasks with equal
        answers, in the order of the table.
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
        found = (
            f"{counted(len(self), 'pair')} of {pairs.n_tested:,} compared, {counted(int(self.found.sum()), 'worker')}"
        )
        return "\n".join((f"<Copies: {found}>", *self.remarks))


def copies(
    votes: Any, *, rate: float = 0.05, least: float = 0.1, min_overlap: int = 10, progress: Progress = False
) -> Copies:
    """Find pairs of workers who give the same answers, right or wrong, more often than chance.

    Copied from one another, or given by the same language model. Good workers agree because they are right, and a task
    that misleads one misleads many: neither is evidence. So what each task's workers said is taken as given, so many
    times each label; open is only who said it, each worker with odds that follow from how they err (by class, and by
    how far tasks of the kind are agreed on). From that comes the probability that two gave the same answer, task by
    task, and exactly the distribution of how often they do.

    Parameters
    ----------
    votes
        The annotations.
    rate
        The false-discovery rate: the share of the pairs found that may be found by chance (Benjamini & Hochberg).
    least
        The share of answers that may be the same for other reasons, such as the same school: p-values are those of at
        most this share. 0 for any dependence at all.
    min_overlap
        Pairs with fewer common tasks are not compared.
    progress
        True for a progress bar, or a function called as ``progress(workers, 0.0)``.

    Returns
    -------
    Copies
        ``len()`` pairs, ``frame()`` with the evidence, ``workers``, ``redundant``, ``remarks``.

    Notes
    -----
    A task with two answers tells nothing of the two, and neither does one on which all agree. Where most workers of
    the tasks are in league, it is the others who stand out as expected; see :func:`groups` and :func:`colluders`.
    Weights are not counted, and who gave two different answers to a task is left out of it.

    Time: one fit of `HierarchicalDawidSkene`, O(n²) for a task with n answers, and where workers on it share
    `min_overlap` tasks O(n³) (n² from 65 on) times the number of classes; memory: 44 bytes a pair with a p-value below
    `rate`, 24 bytes for each meeting of the busiest worker with others who share so many, 4 bytes a worker on each
    thread, and three times the confusion matrices. Nothing is workers × workers.

    Examples
    --------
    >>> import manyhands as mh
    >>> league = [0, 0, -1, -1, -1, -1, -1, -1]
    >>> crowd = mh.simulate(300, 8, 3, crowd="one-coin", labels_per_task=6, groups=league, copying=0.8, seed=1)
    >>> found = mh.audit.copies(crowd.log)
    >>> len(found), found.workers.tolist(), found.redundant.tolist()
    (1, [0, 1], [0])
    """
    check_between("rate", rate, such_as=0.05)
    check_least(least)
    check_number("min_overlap", min_overlap, least=1, whole=True)
    crowd = as_crowd(votes)
    given, known = crowd.votes, crowd.beliefs
    with reporting(progress, given.n_workers, "copies") as callback:
        tried = crowd.pairs(min_overlap=int(min_overlap), share=float(least), most=float(rate), progress=callback)
    q = q_values(tried.p, tried.n_tested)
    sure = q <= rate
    pairs = tried.some(sure)
    found = np.zeros(given.n_workers, np.bool_)
    found[pairs.pairs.ravel()] = True
    remarks = known.remarks
    if not tried.n_tested:
        remarks += (
            f"No two workers share {min_overlap} tasks of which some tell them apart (three answers or more, not "
            "all the same): whether anybody copied cannot be told.",
        )
    evidence = {"n_answers": given.labels_per_worker}
    return Copies("copie", given._workers, found, evidence, remarks, pairs, q[sure])
