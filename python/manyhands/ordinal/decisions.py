"""From posteriors of ordered classes to answers, by what a mistake costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_choice
from manyhands._base.data_checks import has_numbers
from manyhands._base.estimator import Array
from manyhands._base.fitted import setting
from manyhands.categorical._posterior import Posterior, Winners
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations

#: Which class is named: the one of least expected loss, where a mistake costs one, its distance, or its square.
DECISIONS = ("mode", "median", "mean")
#: Closer than this, halves of a distribution are equal but for rounding.
_EVEN = 1e-9
#: Of more classes, only the first are spelled out in a warning.
_SHOWN = 8


def decide(posterior: npt.ArrayLike, decision: str = "median") -> npt.NDArray[np.uint16]:
    """Decide on a class of least expected loss for each task, where classes have an order.

    Parameters
    ----------
    posterior : array-like
        Class posteriors, (n_tasks, n_classes), classes from the lowest to the highest; rows sum to one.
    decision : str, default "median"
        ``"mode"`` where any mistake costs the same: the most probable class. ``"median"`` where it costs its distance
        in classes: the first class by which half of the probability is reached. ``"mean"`` where it costs the square
        of that: the class nearest to the mean of the codes. The lower class wins a tie.

    Returns
    -------
    ndarray of shape (n_tasks,)
        Codes of classes: 0 for the lowest.

    Examples
    --------
    >>> import manyhands as mh
    >>> grades = [[0.4, 0.0, 0.25, 0.35], [0.1, 0.2, 0.3, 0.4]]
    >>> [mh.ordinal.decide(grades, how).tolist() for how in mh.ordinal.DECISIONS]
    [[0, 3], [2, 2], [2, 2]]
    """
    rows = np.asarray(posterior, np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(f"posterior must be of shape (n_tasks, n_classes), not {rows.shape}")
    bad = ~(np.isfinite(rows).all(axis=1) & (rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1) < 1e-6))
    if bad.any():
        raise ValueError(f"row {int(np.argmax(bad))} of the posterior holds no probabilities that sum to one")
    check_choice("decision", decision, DECISIONS)
    return decide_codes(rows, decision)[0]


def decide_codes(rows: Array, decision: str) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.bool_]]:
    """Codes of the classes decided on by median, mean or mode, and whether the next one is as good."""
    last = rows.shape[1] - 1
    if decision == "mode":
        codes = np.argmax(rows >= rows.max(axis=1, keepdims=True) * (1 - 1e-12), axis=1)
        is_tied = (rows >= rows.max(axis=1, keepdims=True) * (1 - 1e-12)).sum(axis=1) > 1
    elif decision == "median":
        reached = np.cumsum(rows, axis=1)
        codes = np.minimum(np.argmax(reached >= 0.5 - _EVEN, axis=1), last)
        is_tied = (np.abs(reached[np.arange(len(rows)), codes] - 0.5) <= _EVEN) & (codes < last)
    else:
        place = rows @ np.arange(last + 1.0)
        codes = np.clip(np.ceil(place - 0.5 - _EVEN), 0, last).astype(np.int64)
        is_tied = np.abs(place - codes - 0.5) <= _EVEN
    return codes.astype(np.uint16), is_tied


@dataclass(frozen=True, kw_only=True)
class DecidedFit(ClassFit):
    """Classes by a decision; later `set_params` do not change the answers of a fitted model."""

    decision: str = field(metadata=setting(str))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where the decision is not known."""
        check_choice("decision", self.decision, DECISIONS)

    def decide(self, posterior: Posterior) -> Winners:
        """The class of least expected loss of each task."""
        if self.decision == "mode":
            return posterior.winners()
        rows = posterior.dense()
        codes, is_tied = decide_codes(rows, self.decision)
        return Winners(codes, is_tied, np.take_along_axis(rows, codes[:, None].astype(np.int64), axis=1)[:, 0])


class Ordinal(Aggregator):
    """Base of methods for ordered classes: a subclass has a parameter `decision`, and answers by it."""

    decision: str
    _skipped_checks: ClassVar[Mapping[str, str]] = {
        "renaming_classes": "classes have an order",
        "renaming_classes_untied": "classes have an order",
    }


def order_remarks(votes: Annotations) -> tuple[str, ...]:
    """Return which order was taken, where no worker declared one and names do not state it."""
    if votes.ordered or votes.n_classes < 3 or has_numbers(votes._classes):
        return ()
    names = [str(name) for name in votes.classes[:_SHOWN].tolist()]
    order = " < ".join(names) + (" < …" if votes.n_classes > _SHOWN else "")
    return (f"Classes were not declared ordered; they were taken as {order} (see classes= and ordered=True).",)
