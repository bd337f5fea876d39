"""What pairs of workers agree on beyond chance: what audits of dependence and models of groups start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import plural
from manyhands._base.data_checks import made_table
from manyhands._base.estimator import Array
from manyhands._base.progress import Callback
from manyhands.categorical.base import ClassFit
from manyhands.categorical.hierarchical import HierarchicalDawidSkene
from manyhands.categorical.table import Annotations

#: Number of strata, of about equal size, that tasks are sorted into by agreement: workers may err differently in each.
#: With a single one, crowds whose skills differ more on hard tasks seem to be full of copies.
_STRATA = 3


@dataclass(frozen=True)
class Beliefs:
    """What is believed of a crowd before it is asked whether its workers depend on one another.

    ``table`` holds one answer per worker and task, ``kept`` specifies which annotations of the log those are.
    """

    table: _core.Table
    kept: npt.NDArray[np.bool_]
    posterior: Array
    confusion: Array
    prior: Array
    strata: npt.NDArray[np.uint8]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Excess:
    """Pairs of workers, by code, and how often they agree.

    Attributes
    ----------
    pairs : (n, 2)
        The lower worker first, sorted.
    common, agreements, longest_run : (n,)
        Common tasks, equal answers, and the longest run of common tasks, in the order of the table, with equal answers.
    expected, variance, p : (n,)
        Equal answers that chance leads to expect, their variance, and the probability of as many.
    n_tested
        Pairs that had enough common tasks, some of them informative.
    """

    pairs: npt.NDArray[np.uint32]
    common: npt.NDArray[np.uint32]
    agreements: npt.NDArray[np.uint32]
    longest_run: npt.NDArray[np.uint32]
    expected: Array
    variance: Array
    p: Array
    n_tested: int

    def some(self, wanted: npt.NDArray[np.bool_]) -> Excess:
        """Some of the pairs."""
        columns = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "n_tested"}
        return replace(self, **{name: column[wanted] for name, column in columns.items()})


def one_answer(votes: Annotations) -> npt.NDArray[np.bool_]:
    """Which annotations are a worker's only answer to a task, or the first of several that say the same.

    Where a worker gave two answers to a task, the intended answer is unknown: neither is kept.
    """
    is_counted = np.ones(votes.n_annotations, np.bool_) if votes.weights is None else votes.weights > 0
    if not votes.table.n_repeats():
        return is_counted
    tasks, workers, labels = votes.codes()
    # Rows are sorted by task, worker and label.
    first = np.ones(len(tasks), np.bool_)
    first[1:] = (tasks[1:] != tasks[:-1]) | (workers[1:] != workers[:-1])
    place = np.cumsum(first) - 1
    lowest = labels[first][place]
    differ = np.zeros(place[-1] + 1, np.bool_)
    differ[place[(labels != lowest) & is_counted]] = True
    only: npt.NDArray[np.bool_] = is_counted & first & ~differ[place]
    return only


def beliefs(votes: Annotations, fitted: Callable[[], ClassFit] | None = None) -> Beliefs:
    """Fit a model of independent workers as the reference of comparisons. Cost: that of `HierarchicalDawidSkene`.

    Where every annotation counts, what was `fitted` to the votes will do.
    """
    is_counted = one_answer(votes)
    lost = len(is_counted) - int(is_counted.sum())
    remarks: tuple[str, ...] = ()
    table = votes.table
    if lost or votes.weights is not None:
        tasks, workers, labels = votes.codes()
        if not is_counted.any():
            raise ValueError("no annotation has any weight: there is nothing to compare workers by")
        sizes = (votes.n_tasks, votes.n_workers, votes.n_classes)
        table = made_table(tasks[is_counted], workers[is_counted], labels[is_counted], None, *sizes)
        remarks = (
            f"The audit leaves out {plural(lost, 'annotation')}: repeated or contradicting answers of a "
            "worker to a task, and weights of zero. It does not use weights.",
        )
    if fitted is None or table is not votes.table:
        plain = Annotations(table, votes._tasks, votes._workers, votes._classes, votes._unlabelled)
        fit = HierarchicalDawidSkene()._fit(plain, None)
    else:
        fit = fitted()
    top = table.vote_shares(None)[0].max(axis=1)
    edges = np.quantile(top, np.arange(1, _STRATA) / _STRATA)
    strata = np.searchsorted(edges, top, side="right").astype(np.uint8)
    return Beliefs(table, is_counted, fit.posterior.dense(), fit.confusion.matrices(), fit.prior, strata, remarks)


def pair_excess(
    known: Beliefs, *, min_overlap: int, share: float, most: float, progress: Callback | None = None
) -> Excess:
    """Compare every pair of workers who share enough tasks; keep those with a p-value of at most `most`."""
    excess = known.table.pair_excess(
        known.posterior,
        known.confusion,
        known.strata,
        min_overlap=min_overlap,
        share=share,
        most=most,
        progress=progress,
    )
    (common, agreements, runs), (expected, variance, p) = excess["counts"].T, excess["chances"].T
    return Excess(excess["pairs"], common, agreements, runs, expected, variance, p, excess["n_tested"])
