"""The given text that is nearest to the centre of all, by any embedding or distance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_between, check_choice, check_stopping, counted, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.iteration import iterate
from manyhands._base.limits import check_memory
from manyhands._base.progress import Callback
from manyhands.objects.distance import WORDS, Said
from manyhands.texts._chi import upper_quantiles
from manyhands.texts.base import TextAggregator, TextFit
from manyhands.texts.table import Texts
from manyhands.texts.words import Spelling

#: Sums of squared distances are at least this share of the average one.
_LEAST = 1e-5
#: Distances by name: between words, and those of `DistanceAggregator`.
_NAMES = ("words", *WORDS)

Embedding = Callable[[list[str]], Any]
Distance = str | Callable[[str, str], float] | npt.ArrayLike


@dataclass(frozen=True)
class Blocks:
    """Squared distances between all answers of each task: rows i and j of the log, on end."""

    one: npt.NDArray[np.int64]
    other: npt.NDArray[np.int64]
    squares: Array
    tasks: npt.NDArray[np.int64]
    n_tasks: int

    @classmethod
    def of(cls, votes: Texts, embedding: Embedding | None, distance: Distance | None) -> Blocks:
        """Measure all two answers of each task by an embedding or a distance."""
        counts = votes.labels_per_task
        pairs = int((counts.astype(np.float64) ** 2).sum())
        texts = counted(votes.n_annotations, "text")
        check_memory(40 * pairs, f"distances between {texts}", "aggregate parts of the tasks, or use sample(per_task=)")
        tasks = votes.codes()[0].astype(np.int64)
        sizes = counts[tasks]
        one = np.repeat(np.arange(len(tasks)), sizes)
        ends = np.cumsum(counts)
        within = np.arange(pairs) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        other = (ends - counts)[tasks[one]] + within
        if embedding is not None:
            points = _embedded(votes, embedding)[votes.codes()[2]]
            return cls(one, other, _squares(points, one, other), tasks, votes.n_tasks)
        found = _distances(votes, "words" if distance is None else distance)
        return cls(one, other, found**2, tasks, votes.n_tasks)

    def from_centre(self, weights: Array) -> tuple[Array, Array]:
        """Squared distance of each answer to the weighted centre of its task, and the weighted mean of these.

        By distances between answers alone: where they are those of points, this is what the points' mean would give;
        where they are not, it may be negative and counts as 0.
        """
        sums = np.bincount(self.one, weights[self.other] * self.squares, len(self.tasks))
        total = np.bincount(self.tasks, weights, self.n_tasks)
        spread = np.bincount(self.tasks, weights * sums, self.n_tasks) / (2 * total**2)
        away = sums / total[self.tasks] - spread[self.tasks]
        return np.maximum(away, 0.0), np.maximum(spread, 0.0)


def _embedded(votes: Texts, embedding: Embedding) -> Array:
    texts = votes.answers.tolist()
    points = np.asarray(embedding(texts), np.float64)
    if points.ndim != 2 or len(points) != len(texts):
        raise ValueError(
            f"embedding gave an array of shape {points.shape} for {len(texts)} texts; it must have one row a text"
        )
    if not np.isfinite(points).all():
        bad = texts[int(np.argmin(np.isfinite(points).all(axis=1)))]
        raise ValueError(f"embedding gave numbers that are not finite for {bad!r}")
    return points


def _squares(points: Array, one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> Array:
    found = np.empty(len(one))
    block = max(1, 2**22 // max(points.shape[1], 1))
    for at in range(0, len(one), block):
        part = slice(at, at + block)
        found[part] = ((points[one[part]] - points[other[part]]) ** 2).sum(axis=1)
    return found


def _distances(votes: Texts, distance: Distance) -> Array:
    said, offsets = Said.of(votes), votes.table.offsets()
    if not (isinstance(distance, str) and distance == "words"):
        return said.distances(distance, offsets)
    spelling = Spelling.of(votes.answers.tolist())
    lengths = spelling.lengths[said.codes]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    at = (
        np.repeat(spelling.starts[said.codes], lengths)
        + np.arange(lengths.sum())
        - np.repeat(starts[:-1].astype(np.int64), lengths)
    )
    return _core.word_distances(offsets, starts, spelling.keys[at].astype(np.uint32), "levenshtein")


@dataclass(frozen=True, kw_only=True)
class WeightedTextFit(TextFit):
    """Texts by weights of workers."""

    weights: Array = field(metadata=numbers("m"))


class _Nearest(TextAggregator):
    """A text that somebody gave: the one nearest to the weighted centre of its task."""

    _fit_type: ClassVar[type[Fit]] = WeightedTextFit
    _of_workers: ClassVar[Mapping[str, str]] = {"skill": "weights"}
    embedding: Embedding | None
    distance: Distance | None

    @abstractmethod
    def _weigh(self, votes: Texts, blocks: Blocks, progress: Callback | None) -> tuple[Array, Array, int, bool]:
        """Weights of workers and of answers, passes made, and whether they settled."""

    def _fit(self, votes: Texts, progress: Callback | None) -> TextFit:
        self._check()
        blocks = Blocks.of(votes, self.embedding, self.distance)
        of_workers, weights, n_iter, converged = self._weigh(votes, blocks, progress)
        away, spread = blocks.from_centre(weights)
        _, _, texts = votes.codes()
        order = np.lexsort((texts, np.round(away, 12), blocks.tasks))
        _, first = np.unique(blocks.tasks[order], return_index=True)
        rows = order[first]
        alike = 1.0 / (1.0 + away[rows] + spread)
        return WeightedTextFit(
            weights=of_workers,
            texts=votes.answers[texts[rows]],
            confidence=alike,
            history=np.zeros(0),
            n_iter=n_iter,
            converged=converged,
        )

    def _check(self) -> None:
        if self.embedding is not None and not callable(self.embedding):
            raise TypeError(f"embedding must be a function from a list of texts to an array, not {self.embedding!r}")
        if self.embedding is not None and self.distance is not None:
            raise ValueError("give either embedding= or distance=, not both")
        if isinstance(self.distance, str):
            check_choice("distance", self.distance, _NAMES)

    @property
    def weights_(self) -> Array:
        """Weight of each worker, (n_workers,)."""
        return self._fitted().fit_as(WeightedTextFit).weights


class ClosestToCentre(_Nearest):
    """Of the texts given to a task, the one nearest to the centre of all.

    Parameters
    ----------
    embedding
        A function from a list of texts to an array with a row for each: the centre is the mean of the rows.
    distance
        ``"words"`` (edits between words as a share of the longer text, case and punctuation aside; taken where neither
        is given), ``"levenshtein"`` (the same of characters), another name, function or array as for
        :class:`~manyhands.objects.DistanceAggregator`. Nearest to the centre is then whose squared distances to all are
        least.

    Notes
    -----
    Confidence is one over one plus the squared distance to the centre and the spread around it: 1 where all agree.
    Among equally near texts the first by alphabet wins. Time and memory O(Σ answers²) over tasks, 40 bytes a pair,
    beside what the distances cost.

    Examples
    --------
    >>> import manyhands as mh
    >>> texts = mh.Texts.from_arrays([1, 1, 1], list("uvw"), ["the cat sat", "a cat sat", "the cat sat there"])
    >>> mh.texts.ClosestToCentre().fit(texts).texts_.tolist()
    ['the cat sat']
    """

    def __init__(self, embedding: Embedding | None = None, *, distance: Distance | None = None) -> None:
        self.embedding = embedding
        self.distance = distance

    def _weigh(self, votes: Texts, blocks: Blocks, progress: Callback | None) -> tuple[Array, Array, int, bool]:
        return np.ones(votes.n_workers), _counts(votes), 1, True


class RASA(_Nearest):
    """The text nearest to a centre in which workers weigh by how near they usually are to it.

    By turns: centres given weights, and the weight of worker m as the upper quantile of chi-squared with as many
    degrees as texts of m, over the sum of squared distances of m's texts to their centres.

    Parameters
    ----------
    embedding, distance
        As for :class:`ClosestToCentre`.
    alpha
        Twice the share above the quantile: who gave few texts weighs less than their distances say.
    max_iter, tol
        Stop after so many turns, or when no weight changes by as much as `tol` of itself.

    Notes
    -----
    Centres are never made: squared distances to them follow from those between answers, so that any distance will do.
    Time a turn O(Σ answers²) over tasks, memory 40 bytes a pair.

    References
    ----------
    J. Li and F. Fukumoto, "A dataset of crowdsourced word sequences: collections and answer aggregation for ground
    truth creation", AnnoNLP (2019).

    Examples
    --------
    >>> import manyhands as mh
    >>> texts = mh.Texts.from_arrays([1, 1, 2, 2, 2], list("uvuvw"), ["a b", "c d", "e f", "g h", "e f"])
    >>> mh.texts.RASA().fit(texts).texts_.tolist()
    ['a b', 'e f']
    """

    def __init__(
        self,
        embedding: Embedding | None = None,
        *,
        distance: Distance | None = None,
        alpha: float = 0.05,
        max_iter: int = 500,
        tol: float = 1e-4,
    ) -> None:
        self.embedding = embedding
        self.distance = distance
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol

    def _check(self) -> None:
        super()._check()
        check_between("alpha", self.alpha)
        check_stopping(self.max_iter, self.tol)

    def _local(self, votes: Texts, blocks: Blocks) -> Array:
        """How good each answer looks beside the others of its task."""
        return np.ones(votes.n_annotations)

    def _weigh(self, votes: Texts, blocks: Blocks, progress: Callback | None) -> tuple[Array, Array, int, bool]:
        workers, m = votes.codes()[1], votes.n_workers
        counts, local = _counts(votes), self._local(votes, blocks)
        top = upper_quantiles(self.alpha / 2, votes.labels_per_worker)
        weights = np.ones(m)

        def step(_number: int) -> float:
            nonlocal weights
            away, _ = blocks.from_centre(weights[workers] * counts * local)
            sums = np.bincount(workers, counts * away / local, m)
            usual = sums.mean()
            now = top / np.maximum(sums, _LEAST * usual) if usual > 0 else np.ones(m)
            now /= now.mean()
            change = float(np.abs(now / weights - 1).max())
            weights = now
            return change

        n_iter, converged = iterate(step, self.max_iter, self.tol, progress)
        warn_unless_converged(converged, self)
        return weights, weights[workers] * counts * local, n_iter, converged


class HRRASA(RASA):
    """RASA in which each answer also weighs by how much the other answers of its task are like it.

    An answer's own weight is the mean, over the others of its task, of exp(−d²), with d in units of the root mean
    square distance between answers of the log; it multiplies the worker's weight, and divides the distances that the
    worker is judged by.

    Parameters
    ----------
    embedding, distance, alpha, max_iter, tol
        As for :class:`RASA`.

    Notes
    -----
    Time and memory as for :class:`RASA`.

    References
    ----------
    J. Li, "Crowdsourced text sequence aggregation based on hybrid reliability and representation", SIGIR (2020).

    Examples
    --------
    >>> import manyhands as mh
    >>> texts = mh.Texts.from_arrays([1, 1, 1], list("uvw"), ["the cat sat", "a cat sat", "the cat sat there"])
    >>> mh.texts.HRRASA().fit(texts).texts_.tolist()
    ['the cat sat']
    """

    def _local(self, votes: Texts, blocks: Blocks) -> Array:
        others = blocks.one != blocks.other
        usual = float(blocks.squares[others].mean()) if others.any() else 0.0
        if usual <= 0:
            return np.ones(votes.n_annotations)
        alike = np.where(others, np.exp(-blocks.squares / usual), 0.0)
        sums = np.bincount(blocks.one, alike, votes.n_annotations)
        counts = votes.labels_per_task[blocks.tasks] - 1
        return np.maximum(np.divide(sums, counts, out=np.ones(len(sums)), where=counts > 0), 1e-6)


def _counts(votes: Texts) -> Array:
    """Weights of answers; those of nothing count as next to nothing, so that each task has a centre."""
    return np.ones(votes.n_annotations) if votes.weights is None else np.maximum(votes.weights, 1e-30)
