"""Which workers of a log can be compared with each other, whatever the method."""

from __future__ import annotations

from dataclasses import dataclass

from manyhands._base.checks import plural
from manyhands._base.task_table import Answers
from manyhands.errors import argument

#: The least share of the labels that a warning is raised for; problems with fewer are only listed in results.
_NOTABLE = 0.05


@dataclass(frozen=True)
class Doubts:
    """Problems of a log: those to warn about, and those listed only in results."""

    loud: tuple[str, ...] = ()
    quiet: tuple[str, ...] = ()

    def __add__(self, other: Doubts) -> Doubts:
        return Doubts(self.loud + other.loud, self.quiet + other.quiet)


def doubts(votes: Answers) -> Doubts:
    """What the overlap of workers in a log does not determine. Time O(annotations), a nanosecond or two each."""
    return _groups(votes) + _repeats(votes)


def _groups(votes: Answers) -> Doubts:
    groups = votes._table.group_counts()
    if len(groups) == (votes.labels_per_worker > 0).sum():
        apart = "No task has labels of two workers: workers cannot be compared, and confidences rest on prior beliefs."
        return Doubts(loud=(apart,))
    if len(groups) == 1:
        return Doubts()
    largest = int(groups.max()) / votes.n_annotations
    remark = (
        f"The workers fall into {len(groups):,} groups that share no task, with {largest:.0%} of the labels in one: "
        "how good one group is compared with another rests on prior beliefs.",
    )
    return Doubts(loud=remark) if 1 - largest > _NOTABLE else Doubts(quiet=remark)


def _repeats(votes: Answers) -> Doubts:
    n = votes._table.n_repeats()
    if not n:
        return Doubts()
    times = "once" if n == 1 else f"{n:,} times"
    remark = (
        f"Workers answered a task again {times} in {plural(votes.n_annotations, 'annotation')}, and each answer "
        f"counts as if another worker had given it; {argument('repeats', 'first')} or "
        f"{argument('repeats', 'last')} counts one.",
    )
    return Doubts(loud=remark) if n > _NOTABLE * votes.n_annotations else Doubts(quiet=remark)
