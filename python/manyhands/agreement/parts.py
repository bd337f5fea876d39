"""Agreement by class and by task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from manyhands._base import arrow
from manyhands.agreement.result import labels_of
from manyhands.categorical.table import Annotations

if TYPE_CHECKING:
    import pyarrow as pa

_Codes = npt.NDArray[np.int64]


def by_class(votes: Any) -> pa.Table:
    """Agreement on each class, as an Arrow table.

    Use it to find classes that workers confuse, and what they confuse them with.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.

    Returns
    -------
    pyarrow.Table
        One row per class, in the order of the table: ``class``; ``n_answers``; ``n_tasks`` with the class;
        ``agreement``, the probability that another worker gives the class to a task if one does (specific agreement,
        all pairs weighted equally); ``kappa``, :func:`fleiss_kappa` of this class against all others; and
        ``confused_with``, the most frequent other class on the same tasks, with its ``confused`` share of pairs. Null
        if undefined: no task has two labels, or all or none are of the class.

    Notes
    -----
    Time O(n log n) and memory O(n) in the annotations and the pairs of different classes that meet on a task, however
    many classes there are. Abstentions are missing answers, and of weighted answers the label of greatest weight
    counts.

    References
    ----------
    J. L. Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin 76 (1971). D. V.
    Cicchetti and A. R. Feinstein, "High agreement but low kappa: II. Resolving the paradoxes", Journal of Clinical
    Epidemiology 43 (1990).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([["cat", "cat"], ["dog", "dog"], ["cat", "dog"]])
    >>> mh.agreement.by_class(votes).select(["class", "agreement"]).to_pydict()
    {'class': ['cat', 'dog'], 'agreement': [0.6666666666666666, 0.6666666666666666]}
    """
    votes = labels_of(votes)
    tasks, labels, counts, sizes = _count_labels(votes)
    k = votes.n_classes
    n, paired = sizes[tasks], sizes[tasks] > 1
    n_answers, per_label = np.bincount(labels, counts, k), counts / n
    others = np.bincount(labels[paired], (counts * (n - 1))[paired], k)
    equal = np.bincount(labels[paired], (counts * (counts - 1))[paired], k)
    apart = 2 * np.bincount(labels[paired], (per_label * (n - counts) / np.maximum(n - 1, 1))[paired], k)
    n_paired, n_known = int((sizes > 1).sum()), int((sizes > 0).sum())
    share = np.bincount(labels, per_label, k) / max(n_known, 1)
    expected = 2 * share * (1 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        agreement = np.where(others > 0, equal / others, np.nan)
        kappa = np.where((expected > _LEAST) & (n_paired > 0), 1 - apart / n_paired / expected, np.nan)
    other, confused = _most_confused(tasks, labels, counts, k)
    columns = {
        "class": votes._classes.arrow(),
        "n_answers": n_answers.astype(np.int64),
        "n_tasks": np.bincount(labels, minlength=k),
        "agreement": _nullable(agreement),
        "kappa": _nullable(kappa),
        "confused_with": _names(votes, other),
        "confused": _nullable(np.where(other >= 0, confused / np.maximum(others, 1), np.nan)),
    }
    return arrow.table(columns)


def by_task(votes: Any) -> pa.Table:
    """Agreement on each task, as an Arrow table.

    Use it to list the tasks that workers disagree on most.

    Parameters
    ----------
    votes : Annotations or frame
        The annotations, or a frame with well-known column names.

    Returns
    -------
    pyarrow.Table
        One row per task, in the order of the table: ``task``; ``n_answers``; ``n_distinct``, the number of different
        ones; ``agreement``, the share of pairs of labels that are equal, null with fewer than two; ``entropy``, of the
        shares of the labels, in bits.

    Notes
    -----
    Time O(n log n) and memory O(n) in the annotations. Abstentions are missing answers, and of weighted answers the
    label of greatest weight counts.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([["cat", "cat", "dog"], ["dog", "dog", "dog"]])
    >>> mh.agreement.by_task(votes).column("agreement").to_pylist()
    [0.3333333333333333, 1.0]
    """
    votes = labels_of(votes)
    tasks, _, counts, sizes = _count_labels(votes)
    pairs = sizes * (sizes - 1)
    equal = np.bincount(tasks, counts * (counts - 1), votes.n_tasks)
    shares = counts / sizes[tasks]
    columns = {
        "task": votes._tasks.arrow(),
        "n_answers": sizes,
        "n_distinct": np.bincount(tasks, minlength=votes.n_tasks),
        "agreement": _nullable(np.where(pairs > 0, equal / np.maximum(pairs, 1), np.nan)),
        "entropy": np.abs(np.bincount(tasks, -shares * np.log2(shares), votes.n_tasks)),
    }
    return arrow.table(columns)


#: Chance disagreement below this is rounding.
_LEAST = 1e-15


def _count_labels(votes: Annotations) -> tuple[_Codes, _Codes, _Codes, _Codes]:
    """Count the labels of each task: tasks, labels, counts, and the number of labels of every task."""
    tasks, _, labels = votes.codes()
    answered = labels < votes.n_classes
    keys = tasks[answered].astype(np.int64) * votes.n_classes + labels[answered]
    distinct, counts = np.unique(keys, return_counts=True)
    return (
        distinct // votes.n_classes,
        distinct % votes.n_classes,
        counts,
        np.bincount(tasks[answered], minlength=votes.n_tasks),
    )


def _most_confused(tasks: _Codes, labels: _Codes, counts: _Codes, k: int) -> tuple[_Codes, npt.NDArray[np.float64]]:
    """Return the class that most often occurs on the same tasks as each class (-1 for none), and the pairs."""
    n_other = np.bincount(tasks)[tasks]
    first = np.concatenate([[0], np.flatnonzero(np.diff(tasks)) + 1]) if len(tasks) else np.zeros(0, np.int64)
    start = np.repeat(first, np.diff([*first, len(tasks)]))
    left = np.repeat(np.arange(len(tasks)), n_other)
    right = start[left] + np.arange(len(left)) - np.repeat(np.cumsum(n_other) - n_other, n_other)
    left, right = left[left != right], right[left != right]
    keys, place = np.unique(labels[left] * k + labels[right], return_inverse=True)
    n_pairs = np.bincount(place, counts[left] * counts[right], len(keys))
    # The most frequent last; ties go to the first class.
    order = np.lexsort((-(keys % k), n_pairs, keys // k))
    other, often = np.full(k, -1, np.int64), np.zeros(k)
    other[keys[order] // k], often[keys[order] // k] = keys[order] % k, n_pairs[order]
    return other, often


def _nullable(values: npt.NDArray[np.float64]) -> pa.Array:
    """Numbers as an Arrow column, null where they are NaN."""
    import pyarrow as pa

    return pa.array(values, mask=np.isnan(values))


def _names(votes: Annotations, codes: _Codes) -> pa.Array:
    """Classes by code, null for -1."""
    import pyarrow as pa

    return votes._classes.arrow().take(pa.array(codes, mask=codes < 0))
