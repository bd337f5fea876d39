"""Detect groups of workers whose errors depend on one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyhands._base.checks import check_between, check_number, plural
from manyhands._base.estimator import Progress
from manyhands._base.progress import reporting
from manyhands.audit._crowd import as_crowd
from manyhands.audit.result import Finding
from manyhands.categorical._groups import find_groups
from manyhands.categorical.group import named_groups, none_found


@dataclass(frozen=True, eq=False, repr=False)
class Groups(Finding):
    """Workers in groups; its length is the number of groups. ``frame()`` has the group of each worker."""

    @property
    def groups(self) -> list[list[Any]]:
        """Groups as lists of worker names, in the order of the table; workers outside all groups are not listed."""
        return named_groups(self.evidence["group"], self.names.values)

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(group)) for group in self.groups)
        summary = f"{plural(len(self), 'group')} of {sizes} workers" if len(self) else "none"
        return "\n".join((f"<Groups: {summary}, among {plural(len(self.names), 'worker')}>", *self.remarks))


def groups(votes: Any, *, rate: float = 0.01, min_overlap: int = 10, progress: Progress = False) -> Groups:
    """Detect groups of workers who depend on one another: factions, one training, copies of one source.

    Use it where workers may share a guideline, a trainer or a language model: a method that assumes independent workers
    counts their shared errors several times (see :class:`GroupDawidSkene`). The number of groups is estimated and may
    be 0.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations.
    rate : float, default 0.01
        Probability that any group is detected where all workers are independent given the tasks.
    min_overlap : int, default 10
        Pairs with fewer common tasks are not compared.
    progress : bool or callable, default False
        True for a progress bar, or a function called as ``progress(workers, 0.0)``.

    Returns
    -------
    Groups
        ``groups``, lists of workers; ``frame()`` with one row per worker: ``group``, its ``size``, ``z``, the agreement
        within the group beyond chance in standard deviations, and ``p_value``, an upper bound over all groups of the
        size.

    Notes
    -----
    Time and memory: as :func:`copies` with 44 bytes for every pair with enough common tasks, then O(pairs) for each of
    a few dozen rounds, and for each group at most 50 iterations of :class:`GroupDawidSkene`. A group that gives most
    answers to most tasks cannot be distinguished from the truth.

    Each pair's agreement beyond chance is measured as in :func:`copies`. Workers are clustered by it. A group is kept
    if the most agreeing of all groups of its size would be improbable among independent workers, and if a two-layer
    model needs it (BIC). Jaffe et al. (2016) detect groups of binary classifiers by covariances off the rank-one
    surface of independent ones, Traganitis & Giannakis (2022) those of any number of classes by joint tables. Here the
    comparison is given the task's own answers, so that hard tasks, which all workers share, create no groups.

    Examples
    --------
    >>> import numpy as np, manyhands as mh
    >>> league = np.repeat([0, 1, -1], [4, 4, 4])
    >>> crowd = mh.simulate(400, 12, 3, crowd="one-coin", labels_per_task=12, groups=league, copying=0.7, seed=1)
    >>> mh.audit.groups(crowd.log).groups
    [[0, 1, 2, 3], [4, 5, 6, 7]]
    """
    check_between("rate", rate, such_as=0.01)
    check_number("min_overlap", min_overlap, least=1, whole=True)
    crowd = as_crowd(votes)
    table, predictions = crowd.votes, crowd.beliefs
    with reporting(progress, table.n_workers, "groups") as callback:
        clusters = find_groups(
            predictions, crowd.pairs(min_overlap=int(min_overlap), progress=callback), rate=float(rate)
        )
    size = np.bincount(clusters.codes)[clusters.codes]
    evidence = {
        "group": clusters.codes,
        "size": size,
        "z": clusters.z[clusters.codes],
        "p_value": np.exp(clusters.log_p)[clusters.codes],
    }
    remarks = (*predictions.remarks, *none_found(clusters, table))
    return Groups("group", table._workers, size > 1, evidence, remarks)
