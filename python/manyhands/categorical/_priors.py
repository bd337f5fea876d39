"""What the caller specifies in advance: pseudo-counts, known classes, and probabilities to start from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import metrics
from manyhands._base.checks import COUNTS, countable
from manyhands._base.estimator import Array
from manyhands.categorical.gold import read_gold
from manyhands.categorical.table import Annotations
from manyhands.metrics.matching import match_gold_in_parts


def counts(value: npt.ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """A copy of an array of this shape that the caller passed, of numbers that can count labels."""
    amounts = numbers(value, shape, what)
    if not (np.isfinite(amounts) & (amounts >= 0)).all():
        raise ValueError(f"{what} must hold finite numbers of at least 0")
    if not countable(amounts).all():
        raise ValueError(f"{what} must hold numbers that are {COUNTS}, not {amounts[~countable(amounts)].flat[0]:g}")
    return amounts


def numbers(value: npt.ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """A copy of an array of numbers of this shape that the caller passed."""
    try:
        array = np.array(value, np.float64, order="C")
    except (TypeError, ValueError):
        raise TypeError(f"{what} must hold numbers, not {value!r}") from None
    if array.shape != shape:
        raise ValueError(f"{what} has shape {array.shape}, not {shape}")
    return array


def row_pseudo(value: Any, k: int, said: int | None = None) -> Array:
    """Pseudo-counts of one confusion matrix, as `DawidSkene` takes them: k classes, and that many labels or also k."""
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
    """Check probabilities of this shape that the caller passed."""
    values = numbers(value, shape, what)
    if not (np.isfinite(values) & (values >= 0)).all() or np.abs(values.sum(axis=-1) - 1).max() > 1e-6:
        raise ValueError(f"{what} must hold probabilities that sum to one along its last axis")
    return values


@dataclass(frozen=True)
class Told:
    """Annotations with what is known of their tasks."""

    #: What loops go through: a table, or shards that know their gold.
    held: Any
    #: Class code of each task, -1 where it is not known, for passes over a table; None if no class is known.
    gold: npt.NDArray[np.int32] | None = None
    #: The tasks that are known, by their codes, and the codes of their classes.
    tasks: npt.NDArray[np.int64] | None = None
    classes: npt.NDArray[np.int32] | None = None


def with_gold(votes: Annotations, gold: Any) -> Told:
    """Annotations with the known classes of some tasks, if there are any."""
    if gold is None:
        return Told(votes.passes)
    gold = as_gold(votes, gold)
    if not votes.in_shards:
        codes = gold_codes(votes, gold)
        gold_rows = np.flatnonzero(codes >= 0)
        return Told(votes.passes, codes, gold_rows, codes[gold_rows])
    directory = votes.passes.directory
    by_shard, tasks, classes = {}, [], []
    parts, ids = match_gold_in_parts(
        lambda look: votes.passes.each_names(lambda names: look(names.values)),
        gold,
    )
    for index, part in enumerate(parts):
        if not len(part.places):
            continue
        classes.append(_class_codes(votes, ids, part.rows, part.truth).astype(np.int32))
        tasks.append(part.places + directory.first(index))
        by_shard[index] = (part.places, classes[-1])
    return Told(votes.passes.but(known=by_shard), None, np.concatenate(tasks), np.concatenate(classes))


def as_gold(votes: Annotations, gold: Any) -> Any:
    """Known classes in a form that :func:`manyhands.metrics.match_gold` takes, from a file or a table of answers."""
    if isinstance(gold, (str, os.PathLike)):
        return read_gold(gold, votes)
    if not isinstance(gold, Annotations):
        return gold
    tasks, _, labels = gold.codes()
    pairs = np.unique(np.stack([tasks.astype(np.int64), labels.astype(np.int64)]), axis=1)
    twice = np.flatnonzero(pairs[0, 1:] == pairs[0, :-1])
    if len(twice):
        one, two = gold.labels[pairs[1, twice[0] : twice[0] + 2]].tolist()
        task = gold.tasks[pairs[0, twice[:1]]].tolist()[0]
        raise ValueError(f"gold gives task {task!r} the labels {one!r} and {two!r}; keep one label per task")
    return gold.tasks[pairs[0]], gold.labels[pairs[1]]


def gold_codes(votes: Annotations, gold: Any) -> npt.NDArray[np.int32]:
    """Class code of each task, -1 where it is not known. Unknown tasks and classes are errors that name them."""
    index, truth = metrics.match_gold(votes.tasks, as_gold(votes, gold))
    out = np.full(votes.n_tasks, -1, np.int32)
    out[index] = _class_codes(votes, votes.tasks, index, truth)
    return out


def _class_codes(
    votes: Annotations, tasks: npt.NDArray[Any], index: npt.NDArray[Any], truth: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Codes of the classes of some tasks."""
    codes = votes._classes.find(truth)
    if (codes < 0).any():
        at = [int(np.argmax(codes < 0))]
        (task,), (name,) = tasks[index[at]].tolist(), truth[at].tolist()
        raise ValueError(
            f"gold gives task {task!r} the class {name!r}, which no worker named; the classes are "
            f"{', '.join(map(repr, votes.classes[:10].tolist()))} (pass classes= when the table is made to add more)"
        )
    return codes
