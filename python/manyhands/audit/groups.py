"""Groups of workers who depend on one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manyhands._base.checks import check_between, check_number, counted
from manyhands._base.estimator import Progress
from manyhands._base.progress import reporting
from manyhands.audit._crowd import as_crowd
from manyhands.audit.result import Finding
from manyhands.categorical._groups import find_groups
from manyhands.categorical.group import named_groups, none_found


@dataclass(frozen=True, eq=False, repr=False)
class Groups(Finding):
    """Workers who are in groups; its length is how many groups. ``frame()`` tells of each worker which."""

    @property
    def groups(self) -> list[list[Any]]:
        """The groups, as lists of workers by name, in the order of the table; workers in none are not listed."""
        return named_groups(self.evidence["group"], self.names.values)

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(group)) for group in self.groups)
        found = f"{counted(len(self), 'group')} of {sizes} workers" if len(self) else "none"
        return "\n".join((f"<Groups: {found}, among {counted(len(self.names), 'worker')}>", *self.remarks))


def groups(votes: Any, *, rate: float = 0.01, min_overlap: int = 10, progress: Progress = False) -> Groups:
    """Find groups of workers who depend on one another: camps, classes of one school, copies of one source.

    From second-order statistics: how often each pair of workers agrees beyond chance, where chance is told by the other
    workers on each task, as in :func:`copies`. Workers are then sorted into groups that agree within, and a group is
    kept only if even the most agreeing of all groups of its size would surprise where nobody depends on anybody, and if
    a two-layer model needs it (BIC). The number of groups follows from that, and none is an answer too.

    Parameters
    ----------
    votes
        The annotations.
    rate
        The probability of any group being found where all workers are independent given the tasks.
    min_overlap
        Pairs with fewer common tasks are not compared.
    progress
        True for a progress bar, or a function called as ``progress(workers, 0.0)``.

    Returns
    -------
    Groups
        ``groups``, lists of workers; ``frame()``: for each worker ``group``, its ``size``, ``z``, how far its members
        agree beyond chance in standard deviations, and ``p_value``, an upper bound over all groups of the size.

    Notes
    -----
    Jaffe et al. (2016) tell groups of binary classifiers by covariances off the rank-one surface that independent ones
    lie on, Traganitis & Giannakis (2022) those of any number of classes by joint tables off what independence predicts.
    Here what is off is measured given the task's own answers, so that hard tasks, which all share, make no groups.

    Time and memory as :func:`copies` with 44 bytes for every pair with enough common tasks, then O(pairs) for each of
    a few dozen rounds, and for each group at most 50 passes of :class:`GroupDawidSkene`. Where one group gives most
    answers of most tasks, nobody can tell it from the truth.

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
    given, known = crowd.votes, crowd.beliefs
    with reporting(progress, given.n_workers, "groups") as callback:
        found = find_groups(known, crowd.pairs(min_overlap=int(min_overlap), progress=callback), rate=float(rate))
    size = np.bincount(found.codes)[found.codes]
    evidence = {
        "group": found.codes,
        "size": size,
        "z": found.z[found.codes],
        "p_value": np.exp(found.log_p)[found.codes],
    }
    remarks = (*known.remarks, *none_found(found, given))
    return Groups("group", given._workers, size > 1, evidence, remarks)
