"""The whole crowd looked at: what workers are worth, who tells nothing, who is not independent, who changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands.audit._crowd import Crowd
from manyhands.audit.colluders import Collusion, unless_slow
from manyhands.audit.colluders import colluders as search_colluders
from manyhands.audit.copies import Copies, copies
from manyhands.audit.dependence import Dependence, dependence
from manyhands.audit.drift import drift
from manyhands.audit.groups import Groups, groups
from manyhands.audit.result import Finding
from manyhands.audit.spammers import spammers
from manyhands.audit.worth import Worth, worth
from manyhands.categorical.hierarchical import HierarchicalDawidSkene
from manyhands.categorical.table import Annotations, as_annotations

if TYPE_CHECKING:
    import pyarrow as pa

#: Opens a stage of the work by its name, and gives what reports progress within it.
Stages = Callable[[str], AbstractContextManager[Any]]

#: Workers who give this share of all bits are said to carry the log.
_MOST = 0.95


@dataclass(frozen=True)
class Change:
    """What leaving out the workers that were found changes."""

    #: Workers left out, and the share of all annotations that they gave.
    n_workers: int
    share: float
    #: Tasks with another label afterwards, and tasks with no annotation left.
    n_changed: int
    n_unanswered: int
    #: Mean confidence before and after, on the tasks that still have answers.
    before: float
    after: float


@dataclass(frozen=True, eq=False, repr=False)
class Review:
    """All that an audit found; see :func:`review`."""

    worth: Worth
    dependence: Dependence
    spammers: Finding
    colluders: Collusion
    copies: Copies
    groups: Groups
    #: None where the log has no order.
    drift: Finding | None
    change: Change

    def _findings(self) -> Iterator[Any]:
        yield from (self.worth, self.dependence, self.spammers, self.colluders, self.copies, self.groups)
        if self.drift is not None:
            yield self.drift

    @property
    def workers(self) -> npt.NDArray[Any]:
        """Workers to leave out: spammers, colluders, and all but one of each set of copies; in table order."""
        return self.worth.names.take(np.flatnonzero(self._left_out())).values

    def _left_out(self) -> npt.NDArray[np.bool_]:
        redundant = np.isin(self.worth.names.values, self.copies.redundant)
        out: npt.NDArray[np.bool_] = self.spammers.found | self.colluders.found | redundant
        return out

    @property
    def n_carrying(self) -> int:
        """The fewest workers who give 95 % of all bits in the log."""
        told = np.sort(self.worth.n_answers * self.worth.measures.information)[::-1]
        return int(np.searchsorted(np.cumsum(told), _MOST * told.sum()) + 1)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is doubtful or could not be told, in whole sentences."""
        return tuple(dict.fromkeys(remark for found in self._findings() for remark in found.remarks))

    def frame(self) -> pa.Table:
        """Return one row a worker, as an Arrow table: what labels are worth, and whether the worker was found."""
        columns = {name: self.worth.frame().column(name) for name in self.worth.frame().column_names}
        columns |= {"spammer": self.spammers.found, "colluder": self.colluders.found, "copy": self.copies.found}
        columns["group"] = np.where(self.groups.found, self.groups.evidence["group"], -1)
        if self.drift is not None:
            columns["drifted"] = self.drift.found
        return arrow.table(columns)

    def __repr__(self) -> str:
        plot = f"{len(self.colluders):,} colluders" if self.colluders.searched else "colluders not searched for"
        found = (
            f"{len(self.spammers):,} spammers, {plot}, {len(self.copies):,} pairs of "
            f"copies, {len(self.groups):,} groups"
        )
        return f"<Review of {len(self.worth.names):,} workers: {found}>"


def review(votes: Any, *, order: Any = None, colluders: bool = False, stages: Stages | None = None) -> Review:
    """Look at the whole crowd: what workers are worth, who tells nothing, copies, colludes, forms camps or changes.

    Every part can be had alone, with settings of its own: :func:`worth`, :func:`dependence`, :func:`spammers`,
    :func:`colluders`, :func:`copies`, :func:`groups`, :func:`drift`.

    Cost: one fit of :class:`~manyhands.categorical.HierarchicalDawidSkene`, which all parts share (two where
    annotations have weights or were given again), the passes over pairs of workers that the parts state, of which
    copies and groups share one, and one fit without the workers that were found. On 10,000,000 annotations by 10,000
    workers it took 10 times as long as Dawid–Skene of 20 passes, 13 times where a few did most of the work, and half a
    gigabyte beside the log.

    Parameters
    ----------
    votes
        An :class:`~manyhands.Annotations` table, or a frame with well-known column names.
    order
        When annotations were made, as numbers aligned with ``votes.to_frame()``; None where that is not known, and
        drift is not looked for.
    colluders
        Whether to search for colluders where that takes minutes, with many classes and workers. By default the search
        is left out there, with a remark, and ``found.colluders.searched`` is False.
    stages
        Called with the name of each part before it begins; what it returns is entered while the part is at work, and
        gives a function of (steps, objective) or None.

    Examples
    --------
    >>> import manyhands as mh
    >>> league = [0, 0] + [-1] * 18
    >>> crowd = mh.simulate(600, 20, 3, crowd="one-coin", labels_per_task=8, groups=league, copying=0.9, seed=1)
    >>> found = mh.audit.review(crowd.log)
    >>> len(found.spammers), len(found.copies), found.copies.redundant.tolist()
    (0, 1, [0])
    """
    votes = as_annotations(votes)
    at: Stages = (lambda _: nullcontext()) if stages is None else stages
    with at("worth") as progress:
        model = HierarchicalDawidSkene().fit(votes, progress=progress or False)
        value = worth(votes, model=model)
    crowd = Crowd(votes, model, shared=True)
    with at("dependence"):
        depends = dependence(crowd)
    with at("spammers"):
        silent = spammers(crowd)
    with at("colluders"):
        plot = search_colluders(votes) if colluders else unless_slow(votes)
    with at("copies") as progress:
        same = copies(crowd, progress=progress or False)
    with at("groups") as progress:
        camps = groups(crowd, progress=progress or False)
    moved = None
    if order is not None:
        with at("drift") as progress:
            moved = drift(crowd, order, progress=progress or False)
    with at("leaving out"):
        change = _change(votes, model, silent, plot, same)
    return Review(value, depends, silent, plot, same, camps, moved, change)


def _change(
    votes: Annotations, model: HierarchicalDawidSkene, silent: Finding, plot: Collusion, same: Copies
) -> Change:
    out = silent.found | plot.found | np.isin(votes.workers, same.redundant)
    share = float(votes.labels_per_worker[out].sum() / votes.n_annotations)
    confidence = model.posterior_.max(axis=1)
    if not out.any() or out.all():
        mean = float(confidence.mean())
        return Change(int(out.sum()), share, 0, votes.n_tasks if out.all() else 0, mean, mean)
    rest = votes.without(votes.workers[out].tolist())
    refitted = HierarchicalDawidSkene().fit(rest)
    kept = votes._tasks.match(rest._tasks)
    answered = rest.labels_per_task > 0
    old, new = model.labels_[kept], refitted.labels_
    return Change(
        int(out.sum()),
        share,
        n_changed=int((old != new)[answered].sum()),
        n_unanswered=votes.n_tasks - int(answered.sum()),
        before=float(confidence[kept][answered].mean()),
        after=float(refitted.posterior_.max(axis=1)[answered].mean()),
    )
