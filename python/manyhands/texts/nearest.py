"""Aggregators that select the submitted text nearest to the center, by any embedding or distance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_between, check_choice, check_stopping, plural, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.iteration import iterate
from manyhands._base.limits import check_memory
from manyhands._base.progress import Callback
from manyhands.objects.distance import WORDS, AnswersByRow
from manyhands.texts._chi import upper_quantiles
from manyhands.texts.base import TextAggregator, TextFit
from manyhands.texts.table import Texts
from manyhands.texts.words import Spelling

#: Lower bound of sums of squared distances, relative to their mean.
_LEAST = 1e-5
#: Named distances: word edits, and those of `DistanceAggregator`.
_NAMES = ("words", *WORDS)

Embedding = Callable[[list[str]], Any]
Distance = str | Callable[[str, str], float] | npt.ArrayLike


@dataclass(frozen=True)
class Blocks:
    """Squared distances between all pairs of answers of each task, as (row, row) pairs of the log."""

    one: npt.NDArray[np.int64]
    other: npt.NDArray[np.int64]
    squares: Array
    tasks: npt.NDArray[np.int64]
    n_tasks: int

    @classmethod
    def of(cls, votes: Texts, embedding: Embedding | None, distance: Distance | None) -> Blocks:
        """Compute all pairwise distances within tasks from an embedding or a distance."""
        counts = votes.labels_per_task
        pairs = int((counts.astype(np.float64) ** 2).sum())
        texts = plural(votes.n_annotations, "text")
        check_memory(
            40 * pairs, f"distances between {texts}", "aggregate fewer tasks at a time, or use sample(per_task=)"
        )
        tasks = votes.codes()[0].astype(np.int64)
        sizes = counts[tasks]
        one = np.repeat(np.arange(len(tasks)), sizes)
        ends = np.cumsum(counts)
        within = np.arange(pairs) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        other = (ends - counts)[tasks[one]] + within
        if embedding is not None:
            points = _embed(votes, embedding)[votes.codes()[2]]
            return cls(one, other, _squares(points, one, other), tasks, votes.n_tasks)
        distances = _distances(votes, "words" if distance is None else distance)
        return cls(one, other, distances**2, tasks, votes.n_tasks)

    def from_center(self, weights: Array) -> tuple[Array, Array]:
        """Return the squared distance of each answer to the weighted center of its task, and their weighted mean.

        Both follow from the pairwise distances. For non-Euclidean distances the squared distance may be negative and is
        clipped to 0.
        """
        sums = np.bincount(self.one, weights[self.other] * self.squares, len(self.tasks))
        total = np.bincount(self.tasks, weights, self.n_tasks)
        spread = np.bincount(self.tasks, weights * sums, self.n_tasks) / (2 * total**2)
        away = sums / total[self.tasks] - spread[self.tasks]
        return np.maximum(away, 0.0), np.maximum(spread, 0.0)


def _embed(votes: Texts, embedding: Embedding) -> Array:
    texts = votes.answers.tolist()
    points = np.asarray(embedding(texts), np.float64)
    if points.ndim != 2 or len(points) != len(texts):
        raise ValueError(
            f"embedding returned an array of shape {points.shape} for {len(texts)} texts; "
            "it must return one row per text"
        )
    if not np.isfinite(points).all():
        bad = texts[int(np.argmin(np.isfinite(points).all(axis=1)))]
        raise ValueError(f"embedding returned non-finite numbers for {bad!r}")
    return points


def _squares(points: Array, one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> Array:
    squares = np.empty(len(one))
    block = max(1, 2**22 // max(points.shape[1], 1))
    for at in range(0, len(one), block):
        part = slice(at, at + block)
        squares[part] = ((points[one[part]] - points[other[part]]) ** 2).sum(axis=1)
    return squares


def _distances(votes: Texts, distance: Distance) -> Array:
    answers, offsets = AnswersByRow.of(votes), votes.table.offsets()
    if not (isinstance(distance, str) and distance == "words"):
        return answers.distances(distance, offsets)
    spelling = Spelling.of(votes.answers.tolist())
    lengths = spelling.lengths[answers.codes]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    at = (
        np.repeat(spelling.starts[answers.codes], lengths)
        + np.arange(lengths.sum())
        - np.repeat(starts[:-1].astype(np.int64), lengths)
    )
    return _core.word_distances(offsets, starts, spelling.keys[at].astype(np.uint32), "levenshtein")


@dataclass(frozen=True, kw_only=True)
class WeightedTextFit(TextFit):
    """Estimated texts and worker weights."""

    weights: Array = field(metadata=numbers("m"))


class _Nearest(TextAggregator):
    """Base class: select the submitted text nearest to the weighted center of its task."""

    _fit_type: ClassVar[type[Fit]] = WeightedTextFit
    _of_workers: ClassVar[Mapping[str, str]] = {"skill": "weights"}
    embedding: Embedding | None
    distance: Distance | None

    @abstractmethod
    def _weigh(self, votes: Texts, blocks: Blocks, progress: Callback | None) -> tuple[Array, Array, int, bool]:
        """Return worker weights, answer weights, the number of iterations and whether they converged."""

    def _fit(self, votes: Texts, progress: Callback | None) -> TextFit:
        self._check()
        blocks = Blocks.of(votes, self.embedding, self.distance)
        of_workers, weights, n_iter, converged = self._weigh(votes, blocks, progress)
        away, spread = blocks.from_center(weights)
        _, _, texts = votes.codes()
        order = np.lexsort((texts, np.round(away, 12), blocks.tasks))
        _, first = np.unique(blocks.tasks[order], return_index=True)
        rows = order[first]
        confidence = 1.0 / (1.0 + away[rows] + spread)
        return WeightedTextFit(
            weights=of_workers,
            texts=votes.answers[texts[rows]],
            confidence=confidence,
            history=np.zeros(0),
            n_iter=n_iter,
            converged=converged,
        )

    def _check(self) -> None:
        if self.embedding is not None and not callable(self.embedding):
            raise TypeError(f"embedding must be a function from a list of texts to an array, not {self.embedding!r}")
        if self.embedding is not None and self.distance is not None:
            raise ValueError("pass either embedding= or distance=, not both")
        if isinstance(self.distance, str):
            check_choice("distance", self.distance, _NAMES)

    @property
    def weights_(self) -> Array:
        """Weight of each worker, shape (n_workers,)."""
        return self._fitted().fit_as(WeightedTextFit).weights


class ClosestToCentre(_Nearest):
    """Select the submitted text nearest to the center of all texts of the task.

    A baseline that treats all workers alike.

    Parameters
    ----------
    embedding : callable, optional
        Function from a list of texts to an array with one row per text. The center is the mean of the rows.
    distance : str, callable or array, optional
        ``"words"`` (word edits as a share of the longer text, ignoring case and punctuation; the default),
        ``"levenshtein"`` (the same for characters), or another name, function or array as for
        :class:`~manyhands.objects.DistanceAggregator`. The text with the smallest sum of squared distances is selected.

    Notes
    -----
    Confidence is 1 / (1 + squared distance to the center + spread around it), so 1 if all texts agree. Ties go to the
    first text in alphabetical order. Time and memory O(Σ answers²) over tasks, 40 bytes per pair, plus the cost of the
    distances.

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
    """Select the text nearest to a center in which workers are weighted by their reliability.

    Use it for texts with an embedding; for transcripts, :class:`ROVER` is usually better.

    Parameters
    ----------
    embedding, distance
        As for :class:`ClosestToCentre`.
    alpha : float, default 0.05
        Significance level of the chi-squared quantile; smaller values reduce the weight of workers with few texts less.
    max_iter : int, default 500
        Maximum number of iterations.
    tol : float, default 1e-4
        Relative change of the weights at which the fit has converged.

    Notes
    -----
    Time per iteration O(Σ answers²) over tasks, memory 40 bytes per pair.

    Centers and weights are updated in turn. The weight of a worker with n texts is the upper alpha / 2 quantile of
    chi-squared with n degrees of freedom, divided by the sum of squared distances of the texts to their centers.
    Distances to centers follow from pairwise distances, so any distance can be used.

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
        """Weight of each answer from its similarity to the other answers of the task."""
        return np.ones(votes.n_annotations)

    def _weigh(self, votes: Texts, blocks: Blocks, progress: Callback | None) -> tuple[Array, Array, int, bool]:
        workers, m = votes.codes()[1], votes.n_workers
        counts, local = _counts(votes), self._local(votes, blocks)
        top = upper_quantiles(self.alpha / 2, votes.labels_per_worker)
        weights = np.ones(m)

        def step(_number: int) -> float:
            nonlocal weights
            distance_sq, _ = blocks.from_center(weights[workers] * counts * local)
            sums = np.bincount(workers, counts * distance_sq / local, m)
            mean_sum = sums.mean()
            new_weights = top / np.maximum(sums, _LEAST * mean_sum) if mean_sum > 0 else np.ones(m)
            new_weights /= new_weights.mean()
            change = float(np.abs(new_weights / weights - 1).max())
            weights = new_weights
            return change

        n_iter, converged = iterate(step, self.max_iter, self.tol, progress)
        warn_unless_converged(converged, self)
        return weights, weights[workers] * counts * local, n_iter, converged


class HRRASA(RASA):
    """RASA with an additional weight per answer: its similarity to the other answers of the task.

    Parameters
    ----------
    embedding, distance, alpha, max_iter, tol
        As for :class:`RASA`.

    Notes
    -----
    Time and memory as for :class:`RASA`.

    The weight of an answer is the mean over the other answers of exp(−d²), with d in units of the root mean square
    distance between answers. It multiplies the worker's weight and divides the distances used to estimate that weight.

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
        mean_square = float(blocks.squares[others].mean()) if others.any() else 0.0
        if mean_square <= 0:
            return np.ones(votes.n_annotations)
        similarity = np.where(others, np.exp(-blocks.squares / mean_square), 0.0)
        sums = np.bincount(blocks.one, similarity, votes.n_annotations)
        counts = votes.labels_per_task[blocks.tasks] - 1
        return np.maximum(np.divide(sums, counts, out=np.ones(len(sums)), where=counts > 0), 1e-6)


def _counts(votes: Texts) -> Array:
    """Weights of answers; zero weights become tiny, so that each task has a center."""
    return np.ones(votes.n_annotations) if votes.weights is None else np.maximum(votes.weights, 1e-30)
