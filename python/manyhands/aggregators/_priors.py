"""What aggregators are told in advance: pseudo-counts, known classes, and probabilities to start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands.checks import COUNTS, countable
from manyhands.estimator import Array
from manyhands.table.annotations import Annotations


def counts(value: npt.ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """A copy of an array of this shape that somebody gave, of numbers that can count labels."""
    found = numbers(value, shape, what)
    if not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(f"{what} must hold finite numbers of at least 0")
    if not countable(found).all():
        raise ValueError(f"{what} must hold numbers that are {COUNTS}, not {found[~countable(found)].flat[0]:g}")
    return found


def numbers(value: npt.ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """A copy of an array of numbers of this shape that somebody gave."""
    try:
        found = np.array(value, np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(f"{what} must hold numbers, not {value!r}") from None
    if found.shape != shape:
        raise ValueError(f"{what} has shape {found.shape}, not {shape}")
    return found


def row_pseudo(value: Any, k: int, said: int | None = None) -> Array:
    """Pseudo-counts of one confusion matrix, as `DawidSkene` takes them: k classes, and so many labels or also k."""
    said = k if said is None else said
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"pseudo_count must be a number, a pair (right, wrong) or an array, not {value!r}")
        right, wrong = (float(counts(x, (), "pseudo_count")) for x in value)
        off = wrong / (said - 1) if said > 1 else 0.0
        return np.full((k, said), off) + np.eye(k, said) * (right - off)
    if np.ndim(value) == 0:
        return np.full((k, said), float(counts(value, (), "pseudo_count")) / said)
    return counts(value, (k, said), "pseudo_count")


def class_pseudo(value: Any, k: int) -> Array:
    """Pseudo-counts of the classes, (k,), as `DawidSkene` takes them."""
    if np.ndim(value) == 0:
        return np.full(k, float(counts(value, (), "class_pseudo_count")) / k)
    return counts(value, (k,), "class_pseudo_count")


def probabilities(value: npt.ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """Check that somebody gave probabilities of this shape."""
    given = numbers(value, shape, what)
    if not (np.isfinite(given) & (given >= 0)).all() or np.abs(given.sum(axis=-1) - 1).max() > 1e-6:
        raise ValueError(f"{what} must hold probabilities that sum to one along its last axis")
    return given


def gold_codes(votes: Annotations, gold: Any) -> npt.NDArray[np.int32]:
    """Class code of each task, -1 where it is not known. Unknown tasks and classes are errors that name them."""
    index, truth = metrics.match_gold(votes.tasks, gold)
    codes = votes._classes.find(truth)
    if (codes < 0).any():
        at = [int(np.argmax(codes < 0))]
        (task,), (name,) = votes.tasks[index[at]].tolist(), truth[at].tolist()
        raise ValueError(
            f"gold gives task {task!r} the class {name!r}, which no worker named; the classes are "
            f"{', '.join(map(repr, votes.classes[:10].tolist()))} (pass classes= when the table is made to add more)"
        )
    out = np.full(votes.n_tasks, -1, np.int32)
    out[index] = codes
    return out
