"""Accuracy of label sets and clusterings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from manyhands._base.known import Known


@dataclass(frozen=True)
class SetScores:
    """Agreement of label sets with true ones.

    ``exact`` is the share of tasks with exactly the true set. ``jaccard`` is the mean intersection over union (1 if
    both sets are empty). ``precision``, ``recall`` and ``f1`` pool the labels of all tasks, and are 1 if there are no
    labels to count.
    """

    exact: float
    jaccard: float
    precision: float
    recall: float
    f1: float


def set_scores(sets: Iterable[Iterable[Any]], truth: Iterable[Iterable[Any]]) -> SetScores:
    """Compare predicted label sets with true ones.

    Parameters
    ----------
    sets, truth : iterable of iterables of labels
        Labels of each task, in any order.

    Returns
    -------
    SetScores
        Exact-match share, Jaccard index, precision, recall and F1.

    Examples
    --------
    >>> from manyhands import metrics
    >>> metrics.set_scores([["a", "b"], ["c"]], [["a"], ["c"]])
    SetScores(exact=0.5, jaccard=0.75, precision=0.6666666666666666, recall=1.0, f1=0.8)
    """
    pairs = [(set(one), set(other)) for one, other in zip(sets, truth, strict=True)]
    if not pairs:
        raise ValueError("sets is empty: there is nothing to compare")
    n_found, n_true, n_both = (sum(map(len, part)) for part in zip(*((a, b, a & b) for a, b in pairs), strict=True))
    return SetScores(
        exact=float(np.mean([a == b for a, b in pairs])),
        jaccard=float(np.mean([len(a & b) / len(a | b) if a | b else 1.0 for a, b in pairs])),
        precision=n_both / n_found if n_found else 1.0,
        recall=n_both / n_true if n_true else 1.0,
        f1=2 * n_both / (n_found + n_true) if n_found + n_true else 1.0,
    )


def measures(known: Known, model: Any) -> dict[str, Any]:
    """Return the scores of sets against known ones."""
    frame, true_columns = model.to_frame().to_pydict(), known.columns("task", "labels")
    ours, rows = known.matched(frame["task"], true_columns["task"])
    truth = [_labels(true_columns["labels"][row]) for row in rows]
    scores = set_scores([map(str, frame["labels"][at] or []) for at in ours], truth)
    return asdict(scores) | {"n_tasks": len(ours)}


def _labels(said: Any) -> list[str]:
    if isinstance(said, str):
        return said.split("|") if said else []
    return [] if said is None else [str(one) for one in said]
