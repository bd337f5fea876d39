"""Simulated crowds: a log whose truth is known."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice
from manyhands._base.data_checks import made_table
from manyhands._base.names import Codes, Names, sequence
from manyhands._base.simulation import Simulation
from manyhands.categorical._makers import Floats, as_prior
from manyhands.categorical.crowds import CROWDS
from manyhands.categorical.shards.claim import Claim
from manyhands.categorical.shards.directory import Writer
from manyhands.categorical.shards.encoder import rows_of_shard
from manyhands.categorical.shards.passes import Sharded
from manyhands.categorical.table import Annotations

__all__ = ["CategoricalSimulation", "simulate"]

Ints: TypeAlias = npt.NDArray[np.int64]
ArrayNames: TypeAlias = npt.NDArray[Any]

#: The sizes that the core's codes can hold.
_LARGEST = {"n_tasks": 2**32 - 1, "n_workers": 2**32 - 2, "n_classes": 2**16 - 1}
#: Default sizes of a log.
_DEFAULT = {"n_tasks": 200, "n_workers": 20, "n_classes": 3}

#: What the core takes for "no group".
_NO_GROUP = np.iinfo(np.uint32).max


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CategoricalSimulation(Simulation):
    """A simulated log and everything that is hidden behind a real one.

    Attributes
    ----------
    log : Annotations
        The answers of the simulated workers.
    truth : ndarray of shape (n_tasks,)
        The class of each task, aligned with ``log.tasks`` and named as in ``log.classes``.
    confusion : ndarray of shape (n_workers, n_classes, n_classes)
        ``confusion[m, k, l]`` is the probability that worker ``m`` answers ``l`` where the truth is ``k``,
        aligned with ``log.workers`` and ``log.classes``; colluders' copying is included.
    prior : ndarray of shape (n_classes,)
        The class probabilities the truth was drawn from, or the class frequencies of a truth that was given.
    crowd : ndarray of shape (n_workers,)
        The name of the crowd each worker belongs to; ``"given"`` where the confusion matrices were.
    groups : ndarray of shape (n_workers,)
        The number of the group each worker colludes with, -1 for none.
    seed : int
        Seed of the random draws.
    """

    log: Annotations
    truth: ArrayNames
    confusion: Floats
    prior: Floats
    crowd: ArrayNames
    groups: Ints

    @property
    def accuracy(self) -> Floats:
        """The probability that each worker is right, of shape (n_workers,)."""
        rates: Floats = np.einsum("mkk,k->m", self.confusion, self.prior)
        return rates

    def _summary(self) -> str:
        votes = self.log
        names, counts = np.unique(self.crowd, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        crowd = ", ".join(f"{counts[i]:,} {names[i]}" for i in order)
        return (
            f"{votes.n_annotations:,} annotations: {votes.n_tasks:,} tasks × "
            f"{votes.n_workers:,} workers, {votes.n_classes:,} classes; "
            f"crowd: {crowd}; mean accuracy {self.accuracy.mean():.2f}"
        )


def simulate(
    n_tasks: int | None = None,
    n_workers: int | None = None,
    n_classes: int | None = None,
    *,
    crowd: str | Mapping[str, float] = "class-conditional",
    confusion: npt.ArrayLike | None = None,
    labels_per_task: int | tuple[int, int] | None = None,
    density: float | npt.ArrayLike | None = None,
    pairs: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    activity: float | npt.ArrayLike | None = None,
    prior: npt.ArrayLike | None = None,
    truth: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    copying: float = 1.0,
    ids: Literal["int", "str"] = "int",
    seed: int = 0,
    out_of_core: str | os.PathLike[str] | None = None,
    **options: Any,
) -> CategoricalSimulation:
    """Simulate an annotation log, in compiled code, up to hundreds of millions of annotations.

    First the class of each task is drawn, then who labels it, then what they say. The same seed gives the
    same log on any number of threads. Time: some 10 to 50 ns per annotation on one core (90 where
    each worker has a density), shared out among the threads. Memory: 10 bytes per annotation and 2 a task
    while drawing, and the table; twice the confusion matrices.

    Parameters
    ----------
    n_tasks, n_workers, n_classes : int or None, default None
        Sizes of the log, by default 200, 20 and 3, or those of `truth` and `confusion`.
    crowd : str or mapping, default "class-conditional"
        The kind of crowd, one of :data:`manyhands.categorical.crowds.CROWDS`: ``"one-coin"``, ``"class-conditional"``,
        ``"flippers"``, ``"hammer-spammer"``, ``"confusers"``, ``"neighbours"``, ``"adversary"``,
        ``"spammers"``, ``"naive"``, ``"colluders"``, ``"kappa"``; or a mapping of kinds to their shares of
        the workers, who follow in that order.
    confusion : array-like of shape (n_workers, n_classes, n_classes), optional
        Explicit confusion matrices, in place of ``crowd``; see :mod:`manyhands.categorical.crowds` for makers to join.
    labels_per_task
        How many distinct workers label each task: a number, or the ends of a range from which it is drawn
        uniformly for each task. By default 5, or all workers if there are fewer.
    density : float, array-like or None, default None
        In place of ``labels_per_task``, the probability that a worker labels a task, of every pair of them
        independently; or one probability per worker.
    pairs
        In place of ``labels_per_task``, exactly who labels what: the tasks and the workers of the
        annotations, as numbers from 0. A pair named twice is labeled twice.
    activity : float, array-like or None, default None
        How the work is shared out, with ``labels_per_task``: weights of the workers, or the exponent of a
        power law (1 is Zipf's: the busiest worker has twice the weight of the second, three times that of the
        third), in which workers are ranked at random. Evenly by default.
    prior : array-like of shape (n_classes,), optional
        The probabilities of the classes; uniform by default.
    truth : array-like of shape (n_tasks,), optional
        The classes, if they are not to be drawn: class numbers from 0, or names.
    groups : array-like of shape (n_workers,), optional
        Colluding groups: the same number for the workers of a group, -1 for none. By default all
        workers of the crowd ``"colluders"`` are one group.
    copying : float, default 1.0
        The probability that a member of a group gives the group's answer, which is drawn once a task from the
        confusion matrix of the group's first worker, and not one's own.
    ids : {"int", "str"}, default "int"
        ``"int"`` names tasks, workers and classes by their numbers, ``"str"`` by ``t…``, ``w…`` and ``c…``.
        Classes that ``truth`` names keep their names.
    seed : int, default 0
        Seed of the random draws, from 0 to 2⁶⁴ - 1.
    out_of_core : str, path or None, default None
        A directory, new or empty, for a log that does not fit in memory: it is drawn shard by shard, and ``log``
        stays on disk. With ``labels_per_task`` or ``density`` and numbers as ids; the draws are others than without.
        ``truth`` then takes 2 bytes per task.
    **options
        Parameters of the crowd's maker, such as ``skill=0.3``; only with a single crowd.

    Returns
    -------
    CategoricalSimulation
        The log, the truth, the true confusion matrices. A task that got no label (possible with ``density``,
        ``pairs`` or a range from 0) is in neither the log nor the truth, but in ``log.unlabelled``; the
        others keep their numbers. A worker without labels is kept.

    Examples
    --------
    >>> import manyhands as mh
    >>> mh.simulate(900, 50, 4, crowd="flippers", skill=0.8)
    CategoricalSimulation(4,500 annotations: 900 tasks × 50 workers, 4 classes; crowd: 50 flippers; mean accuracy 0.80)

    Two thirds honest, one third in league:

    >>> crowd = mh.simulate(1000, 60, 3, crowd={"one-coin": 2 / 3, "colluders": 1 / 3}, density=0.2)
    >>> crowd.groups[[0, 39, 40, 59]]
    array([-1, -1,  0,  0])
    """
    seed = _whole("seed", seed, 0, 2**64 - 1)
    if ids not in ("int", "str"):
        raise ValueError(f"ids is {ids!r}; give 'int' or 'str'")
    if not 0 <= copying <= 1:
        raise ValueError(f"copying is {copying}; give a probability from 0 to 1")
    confusion_array = None if confusion is None else _as_confusion(confusion)
    codes, names = (None, None) if truth is None else _as_truth(truth, n_classes)
    if codes is not None and names is None and n_classes is None and confusion_array is None:
        raise TypeError("n_classes is missing: truth holds class numbers; give the number of classes")
    n_tasks = _size("n_tasks", n_tasks, _length(codes))
    n_workers = _size("n_workers", n_workers, _length(confusion_array))
    n_classes = _size(
        "n_classes", n_classes, confusion_array.shape[1] if confusion_array is not None else _length(names)
    )
    if names is not None and len(names) != n_classes:
        raise ValueError(f"truth names {len(names)} classes, but there are {n_classes}; give class numbers")

    if prior is not None:
        chances = as_prior(prior, n_classes)
    elif codes is not None:
        chances = np.bincount(codes, minlength=n_classes) / len(codes)
    else:
        chances = np.full(n_classes, 1 / n_classes)
    if confusion_array is None:
        matrices, kinds = _make_crowd(crowd, n_workers, n_classes, chances, seed, options)
    elif options:
        raise TypeError(f"{', '.join(options)} are parameters of a crowd, which confusion replaces; leave one out")
    else:
        matrices, kinds = confusion_array, np.full(n_workers, "given")
    league = _as_groups(groups, kinds)

    sizes = (n_tasks, n_workers, n_classes)
    common: dict[str, Any] = {
        "prior": chances,
        "confusion": matrices,
        **_pattern(labels_per_task, density, pairs, n_tasks, n_workers),
        "activity": _as_activity(activity, n_workers, seed),
        "groups": _core_groups(league),
        "copying": copying,
    }
    votes: Annotations
    if out_of_core is not None:
        if "pairs" in common or ids != "int" or names is not None:
            raise ValueError(
                "out_of_core takes labels_per_task or density, and numbers as ids: leave out pairs and names"
            )
        votes, truth_labels = _in_shards(out_of_core, sizes, common, codes, seed)
    else:
        log, tasks, workers, labels = _core.simulate(*sizes, **common, truth=codes, seed=seed)
        votes, labelled = _table(tasks, workers, labels, sizes, names, ids)
        truth_labels = votes.classes[log[labelled]]
    return CategoricalSimulation(
        log=votes,
        truth=truth_labels,
        confusion=_with_copying(matrices, league, copying),
        prior=chances,
        crowd=kinds,
        groups=league,
        seed=seed,
    )


def _table(
    tasks: Codes,
    workers: Codes,
    labels: npt.NDArray[np.uint16],
    sizes: tuple[int, int, int],
    class_names: ArrayNames | None,
    ids: str,
) -> tuple[Annotations, npt.NDArray[np.bool_]]:
    """Build the log from the core's columns, and mark the tasks in it: those with a label."""
    n_tasks, n_workers, n_classes = sizes
    labelled = np.zeros(n_tasks, dtype=np.bool_)
    labelled[tasks] = True
    n_labelled = int(np.count_nonzero(labelled))
    if n_labelled < n_tasks:
        tasks = (np.cumsum(labelled, dtype=np.uint32) - np.uint32(1))[tasks]
    table = made_table(tasks, workers, labels, None, n_labelled, n_workers, n_classes)
    task_names = _number("t", n_tasks, ids)
    votes = Annotations(
        table,
        task_names if n_labelled == n_tasks else task_names.take(np.flatnonzero(labelled)),
        _number("w", n_workers, ids),
        _number("c", n_classes, ids) if class_names is None else sequence(class_names),
        task_names.take(np.flatnonzero(~labelled)),
    )
    return votes, labelled


def _in_shards(
    directory: str | os.PathLike[str],
    sizes: tuple[int, int, int],
    common: Mapping[str, Any],
    truth: npt.NDArray[np.uint16] | None,
    seed: int,
) -> tuple[Annotations, npt.NDArray[np.uint16]]:
    """Draw the log a shard of tasks at a time; also returns the class of each task that has a label."""
    n_tasks, n_workers, n_classes = sizes
    per_task = max(common["per_task"]) if "per_task" in common else float(common["density"].sum())
    step = max(int(rows_of_shard(n_workers, n_classes) / max(per_task, 1e-9)), 1)
    # A task may get no label; the others keep their numbers.
    numbered = "per_task" in common and min(common["per_task"]) > 0
    names = (Names(np.arange(n_workers)), Names(np.arange(n_classes)), Names(np.arange(n_classes)))
    with Claim(directory) as claim:
        writer = Writer(claim, *names, numbered=numbered)
        parts, unlabelled = [], [np.zeros(0, np.int64)]
        for index, first in enumerate(range(0, n_tasks, step)):
            n = min(step, n_tasks - first)
            part = None if truth is None else truth[first : first + n]
            own = int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0])
            log, tasks, workers, labels = _core.simulate(n, n_workers, n_classes, **common, truth=part, seed=own)
            if not len(tasks):
                unlabelled.append(np.arange(first, first + n))
                continue
            votes, labelled = _table(tasks, workers, labels, (n, n_workers, n_classes), None, "int")
            writer.add(votes.table, Names(first + np.flatnonzero(labelled)))
            parts.append(log[labelled])
            unlabelled.append(first + np.flatnonzero(~labelled))
        return Annotations.from_shards(Sharded(writer.finish(Names(np.concatenate(unlabelled))))), np.concatenate(parts)


def _number(letter: str, n: int, ids: str) -> Names:
    """Name 0 to n - 1 by themselves, or by a letter and as many digits as sort them in the same order."""
    numbers = np.arange(n)
    if ids == "int":
        return Names(numbers)
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.large_string()), len(str(n - 1)), "0")
    return Names(
        pc.binary_join_element_wise(pa.scalar(letter, pa.large_string()), digits, pa.scalar("", pa.large_string()))
    )


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; give a whole number")
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; give a number from {low} to {high}")
    return int(value)


def _length(array: npt.NDArray[Any] | None) -> int | None:
    return None if array is None else len(array)


def _size(name: str, asked: int | None, found: int | None) -> int:
    """Return a size that is asked for, found in another argument, or both; the default if neither specifies it."""
    if asked is None:
        asked = _DEFAULT[name] if found is None else found
    size = _whole(name, asked, 1, _LARGEST[name])
    if found is not None and found != size:
        raise ValueError(f"{name} is {size}, but truth or confusion has {found}; they must be equal")
    return size


def _as_confusion(confusion: npt.ArrayLike) -> Floats:
    matrix = np.ascontiguousarray(confusion, dtype=np.float64)
    if matrix.ndim != 3 or matrix.shape[1] != matrix.shape[2] or 0 in matrix.shape:
        raise ValueError(
            f"confusion has shape {matrix.shape}; give (n_workers, n_classes true, n_classes observed), none 0"
        )
    return matrix


def _as_truth(truth: npt.ArrayLike, n_classes: int | None) -> tuple[npt.NDArray[np.uint16], ArrayNames | None]:
    """Turn classes into codes; numbers are codes already, names are sorted as the log's classes will be."""
    array = np.asarray(truth)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"truth has shape {array.shape}; give one class for each task")
    if array.dtype.kind in "iu":
        highest = 2**16 - 2 if n_classes is None else n_classes - 1
        wrong = np.flatnonzero((array < 0) | (array > highest))
        if len(wrong):
            raise ValueError(f"truth of task {wrong[0]} is {array[wrong[0]]}; give a class from 0 to {highest}")
        return array.astype(np.uint16), None
    if array.dtype.kind not in "UTO" or not all(isinstance(name, str) for name in array):
        raise TypeError(f"truth has the type {array.dtype}; give class numbers from 0 or names")
    names, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.uint16), names


def _make_crowd(
    crowd: str | Mapping[str, float],
    n_workers: int,
    n_classes: int,
    prior: Floats,
    seed: int,
    options: dict[str, Any],
) -> tuple[Floats, ArrayNames]:
    """Make the matrices of a crowd, or of several side by side, and name the crowd of each worker."""
    shares = {crowd: 1.0} if isinstance(crowd, str) else dict(crowd)
    if options and len(shares) != 1:
        raise TypeError(
            f"{', '.join(options)} would go to one crowd's maker, but crowd names {len(shares)}; "
            "join the makers' arrays and give them as confusion"
        )
    for kind in shares:
        check_choice("crowd", kind, tuple(CROWDS))
    parts = []
    counts = _split(shares, n_workers)
    for i, (kind, count) in enumerate(counts.items()):
        if kind == "kappa":
            options = {"prior": prior} | options
        if count:
            # A stream for each part, apart from those of the draws, which hash the seed otherwise.
            parts.append(CROWDS[kind](count, n_classes, seed=np.random.SeedSequence([seed, i]), **options))
    return np.concatenate(parts), np.repeat(list(counts), list(counts.values()))


def _split(shares: Mapping[str, float], n_workers: int) -> dict[str, int]:
    """Turn shares into whole numbers of workers, by largest remainder."""
    values = np.array(list(shares.values()), dtype=np.float64)
    if not (len(values) and np.isfinite(values).all() and (values >= 0).all() and abs(values.sum() - 1) <= 1e-6):
        raise ValueError(f"crowd has the shares {list(shares.values())}; give numbers from 0 to 1 that sum to one")
    counts = np.floor(values * n_workers + 1e-9).astype(int)
    most_left = np.argsort(counts - values * n_workers, kind="stable")
    counts[most_left[: n_workers - counts.sum()]] += 1
    return dict(zip(shares, counts.tolist(), strict=True))


def _pattern(
    labels_per_task: int | tuple[int, int] | None,
    density: float | npt.ArrayLike | None,
    pairs: tuple[npt.ArrayLike, npt.ArrayLike] | None,
    n_tasks: int,
    n_workers: int,
) -> dict[str, Any]:
    """Say who labels what in the core's words: one of three keywords."""
    choices = {"labels_per_task": labels_per_task, "density": density, "pairs": pairs}
    names = [name for name, value in choices.items() if value is not None]
    if len(names) > 1:
        raise TypeError(f"{' and '.join(names)} are given; each determines which worker labels which task; pass one")
    if density is not None:
        return {"density": np.array(np.broadcast_to(_floats("density", density, n_workers), n_workers))}
    if pairs is not None:
        if len(pairs) != 2:
            raise ValueError(f"pairs has {len(pairs)} parts; give the tasks and the workers")
        return {"pairs": (_codes("tasks", pairs[0], n_tasks), _codes("workers", pairs[1], n_workers))}
    if labels_per_task is None:
        labels_per_task = min(5, n_workers)
    low, high = labels_per_task if isinstance(labels_per_task, tuple | list) else (labels_per_task, labels_per_task)
    return {
        "per_task": (
            _whole("labels_per_task", low, 0, n_workers),
            _whole("labels_per_task", high, 1, n_workers),
        )
    }


def _floats(name: str, values: float | npt.ArrayLike, n_workers: int) -> Floats:
    checked = np.asarray(values, dtype=np.float64)
    if checked.shape not in ((), (n_workers,)):
        raise ValueError(f"{name} has shape {checked.shape}; give one number, or one for each of {n_workers} workers")
    return checked


def _codes(name: str, values: npt.ArrayLike, n: int) -> npt.NDArray[np.uint32]:
    codes = np.asarray(values)
    if codes.ndim != 1 or codes.dtype.kind not in "iu":
        raise TypeError(f"pairs has {name} of shape {codes.shape} and type {codes.dtype}; give a row of whole numbers")
    if len(codes) and not (codes.min() >= 0 and codes.max() < n):
        raise ValueError(f"pairs has {name} from {codes.min()} to {codes.max()}; give numbers from 0 to {n - 1}")
    return np.ascontiguousarray(codes, dtype=np.uint32)


def _as_activity(activity: float | npt.ArrayLike | None, n_workers: int, seed: int) -> Floats | None:
    if activity is None:
        return None
    weights = _floats("activity", activity, n_workers)
    if weights.ndim:
        return np.ascontiguousarray(weights)
    if not (np.isfinite(weights) and weights >= 0):
        raise ValueError(f"activity is {activity}; give an exponent of zero or more, or one weight per worker")
    # Ranks are shuffled, or the busiest workers would all come from the crowd named first.
    ranks = np.random.default_rng([seed, len(CROWDS)]).permutation(n_workers) + 1.0
    return np.asarray(ranks**-weights)


def _as_groups(groups: npt.ArrayLike | None, kinds: ArrayNames) -> Ints:
    if groups is None:
        return np.where(kinds == "colluders", 0, -1)
    codes = np.asarray(groups)
    if codes.shape != kinds.shape or codes.dtype.kind not in "iu" or (codes < -1).any():
        raise ValueError(
            f"groups has shape {codes.shape} and type {codes.dtype}; "
            f"give a whole number of -1 or more for each of {len(kinds)} workers"
        )
    return codes.astype(np.int64)


def _core_groups(groups: Ints) -> npt.NDArray[np.uint32] | None:
    """Renumber the groups without gaps, as the core wants them; nothing if no worker colludes."""
    if (groups < 0).all():
        return None
    numbers = np.unique(groups, return_inverse=True)[1] - (groups.min() < 0)
    return np.where(groups < 0, _NO_GROUP, numbers).astype(np.uint32)


def _with_copying(confusion: Floats, groups: Ints, copying: float) -> Floats:
    """Mix each group's answers into the matrices of its workers."""
    members = np.flatnonzero(groups >= 0)
    if not len(members):
        return confusion
    _, first, inverse = np.unique(groups[members], return_index=True, return_inverse=True)
    mixed = confusion.copy()
    mixed[members] = copying * confusion[members[first[inverse]]] + (1 - copying) * confusion[members]
    return mixed
