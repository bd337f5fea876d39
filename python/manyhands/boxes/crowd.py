"""Boxes by workers whose misses, inventions, corners and names are learnt over all tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from manyhands._base.checks import check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array, weighted_median
from manyhands._base.fitted import Fit, numbers
from manyhands._base.iteration import iterate, largest_change
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.boxes._matching import Candidates, matched
from manyhands.boxes.base import BoxAggregator, BoxFit, concluded
from manyhands.boxes.table import Boxes

#: What is believed of a crowd before it is seen: of ten objects eight are drawn, and so many are invented in a task.
_RECALL = (8.0, 2.0)
_INVENTED = 0.2
#: Places of a task that may be mistaken for an object, as if so many times two workers had met at one of them.
_PLACES, _MEETINGS = 20.0, 2.0
#: Chance that a worker takes such a place for an object, at most.
_MOST_MISTAKEN = 0.5
#: No crowd's objects are expected to exist more often than this, however sure a model of it is.
_PRECISE = 0.995
#: Biases go half of the way in a pass, and from the tenth on this share over the number of passes.
_PACE = 5.0
#: Nobody's corners count more than a worker's with this share of the crowd's usual error.
_LEAST_NOISE = 0.2
#: Numbers that tables of confusion may hold: workers times labels times labels.
_MOST_CONFUSION = 1 << 27


@dataclass
class _Crowd:
    """What is known of workers and of objects, as it is learnt."""

    #: Chances that a worker draws an object, and how many they invent in a task, (workers,).
    recall: Array
    invented: Array
    #: By how much corners are off as a share of the object's size: on average, (workers, corners), and at random.
    bias: Array
    noise: Array
    #: Chances of what a worker calls an object of each class, (workers, classes, classes), and shares of classes.
    confusion: Array
    share: Array
    #: Of objects: probability, corners, the variance of these as a share of the size squared, chances of classes.
    exists: Array
    boxes: Array
    doubt: Array
    kinds: Array
    #: How many objects a task has on average, and how many places that may be mistaken for one.
    objects: float
    places: float


@dataclass(frozen=True, kw_only=True)
class CrowdBoxFit(BoxFit):
    """Objects, and how workers draw and name them."""

    recall: Array = field(metadata=numbers("m"))
    invented: Array = field(metadata=numbers("m"))
    noise: Array = field(metadata=numbers("m"))
    accuracy: Array = field(metadata=numbers("m"))
    bias: Array = field(metadata=numbers("mc"))
    confusion: Array = field(metadata=numbers("mqq"))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where workers are judged by other classes than those of the objects."""
        super().check(sizes)
        if sizes["q"] != max(sizes["k"], 1):
            raise ValueError(f"its confusion matrices are of {sizes['q']} classes, and there are {sizes['k']}")


class BoxCrowd(BoxAggregator, default=True):
    """Objects that probably exist, by workers who differ in what they miss, invent, and how they draw and name.

    Boxes that overlap become candidates, at most one box of a worker in each. By turns, each candidate gets the
    probability that it is an object, its corners and its class, and each worker their recall, how many objects they
    invent, the bias and the noise of their corners relative to the size of objects, and their confusion of
    classes: all of them over all tasks, and drawn to the crowd's where a worker drew little. The bias is
    relative to that of the middle worker.

    Parameters
    ----------
    threshold
        The least probability of an object that is reported; 0.5 is near what gives the best F1. None reports as many
        as are expected to be no less precise than those that half of the workers drew (or than 99.5 %, if less).
    witnesses
        The least number of workers who drew it, where three or more looked at the task; 1 leaves it to the probability.
    overlap
        The least intersection over union, on average, of boxes of one object.
    radius
        How far apart points of one object may be; None learns it from how far apart they usually are.
    strength
        Imaginary objects of each worker, with the crowd's rates.
    max_iter, tol
        Stop after so many passes, or when no probability and no rate changes by as much as `tol`.

    Notes
    -----
    Tasks have a Poisson number of objects, of which each worker who looks draws some, and one of places that may be
    mistaken for an object, of which each worker draws some, too; those that nobody drew are allowed for. How many such
    places there are is learnt from how often inventions of two workers meet, with a prior of twenty in a task. Given
    that, corners are normal around the object's, shifted by the worker's bias, and classes follow confusion matrices
    as of Dawid and Skene. Corners and names do not tell whether an object exists. Where a single worker looked at a
    task, nothing tells objects from inventions but what is known of that worker from others.

    Time O(p log p) for the p pairs of boxes of a task that overlap, and O(boxes · classes) a pass; memory O(p + boxes ·
    classes + workers · classes²).

    References
    ----------
    A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied
    Statistics 28 (1979).

    Examples
    --------
    >>> import manyhands as mh
    >>> corners = {"x1": [0, 0, 7], "y1": [0, 0, 7], "x2": [4, 4, 9], "y2": [4, 4, 9]}
    >>> log = {"task": [1, 1, 1], "worker": list("uvw"), **corners}
    >>> boxes = mh.Boxes.from_frame(log, box=("x1", "y1", "x2", "y2"))
    >>> mh.aggregate(boxes).boxes_[0].round(2).tolist()
    [[0.0, 0.0, 4.0, 4.0]]
    """

    _fit_type: ClassVar[type[Fit]] = CrowdBoxFit

    def __init__(
        self,
        *,
        threshold: float | None = None,
        witnesses: int = 2,
        overlap: float = 0.4,
        radius: float | None = None,
        strength: float = 5.0,
        max_iter: int = 1000,
        tol: float = 1e-4,
    ) -> None:
        self.threshold = threshold
        self.witnesses = witnesses
        self.overlap = overlap
        self.radius = radius
        self.strength = strength
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Boxes, progress: Callback | None) -> BoxFit:
        if self.threshold is not None:
            check_number("threshold", self.threshold, least=0, most=1)
        check_number("witnesses", self.witnesses, least=1, whole=True)
        check_number("overlap", self.overlap, least=0.01, most=1)
        check_number("strength", self.strength, least=1e-6)
        if self.radius is not None:
            check_number("radius", self.radius, least=0)
        check_stopping(self.max_iter, self.tol)
        k = max(len(votes.classes), 1)
        if votes.n_workers * k * k > _MOST_CONFUSION:
            raise ValueError(
                f"{votes.n_workers:,} workers and {k:,} labels need too much memory for confusions; use boxes.BoxVote, "
                "or join labels"
            )
        found = matched(votes, self.overlap, self.radius)
        crowd = _started(found, votes.n_workers, k)
        n_iter, converged = self._learn(found, crowd, progress) if len(found.task) else (1, True)
        warn_unless_converged(converged, self)
        false = np.bincount(found.worker, 1 - crowd.exists[found.object], votes.n_workers)
        skills = {
            "recall": crowd.recall,
            "invented": false / np.bincount(found.looked_worker, minlength=votes.n_workers),
            "noise": crowd.noise,
            "bias": crowd.bias,
            "confusion": crowd.confusion,
            "accuracy": np.einsum("mkk,k->m", crowd.confusion, crowd.share),
        }
        best = crowd.kinds.argmax(axis=1).astype(np.int64)
        keep = _reported(found, crowd.exists, self.threshold, self.witnesses)
        parts = concluded(found, keep, crowd.boxes, best, crowd.exists, votes.n_tasks)
        return CrowdBoxFit(**parts, **skills, history=np.zeros(0), n_iter=n_iter, converged=converged)

    def _learn(self, found: Candidates, crowd: _Crowd, progress: Callback | None) -> tuple[int, bool]:
        """Turns of workers and objects; returns passes, and whether they settled."""
        n_labels = len(crowd.share)

        def watched() -> Array:
            return np.concatenate([crowd.exists, crowd.noise, crowd.bias.ravel(), crowd.kinds.ravel()])

        def step(number: int) -> float:
            before = watched()
            _rate_sight(found, crowd, self.strength)
            _rate_corners(found, crowd, self.strength, min(0.5, _PACE / number))
            if n_labels > 1:
                _rate_names(found, crowd, self.strength)
                _name(found, crowd)
            _place(found, crowd)
            _weigh(found, crowd)
            return largest_change(before, watched())

        return iterate(step, self.max_iter, self.tol, progress)

    # ----------------------------------------------------------------------------------------------- results

    @property
    def recall_(self) -> Array:
        """Probability that each worker draws an object that somebody drew, (n_workers,)."""
        return self._fitted().fit_as(CrowdBoxFit).recall

    @property
    def false_positives_(self) -> Array:
        """Expected number of boxes that are no objects, for each task a worker looked at, (n_workers,)."""
        return self._fitted().fit_as(CrowdBoxFit).invented

    @property
    def noise_(self) -> Array:
        """Deviation of each worker's corners, as a share of the object's size (of the radius, for points)."""
        return self._fitted().fit_as(CrowdBoxFit).noise

    @property
    def bias_(self) -> Array:
        """By how much each worker's corners are off on average, relative likewise, (n_workers, 4) or (n_workers, 2)."""
        return self._fitted().fit_as(CrowdBoxFit).bias

    @property
    def confusion_(self) -> Array:
        """Probability that a worker gives an object of a class each label, (n_workers, n_classes, n_classes)."""
        return self._fitted().fit_as(CrowdBoxFit).confusion

    def _skills(self) -> Columns:
        # ``skill`` is recall; ``false_positives`` are those per task; ``accuracy`` is that of labels.
        now = self._fitted()
        fit = now.fit_as(CrowdBoxFit)
        columns = {"skill": fit.recall, "false_positives": fit.invented, "noise": fit.noise}
        return columns | ({"accuracy": fit.accuracy} if len(now.classes) else {})


def _reported(found: Candidates, exists: Array, threshold: float | None, witnesses: int) -> npt.NDArray[np.bool_]:
    """Which candidates are taken for objects.

    Without a threshold as many, by falling probability, as are expected to exist no less often than those that half of
    the workers drew. As many of the most probable ones do, and are no fewer objects: what is reported is expected to be
    no less precise than a majority's, and to miss no more.
    """
    few = found.n_looked < 3
    seen: npt.NDArray[np.bool_] = (found.n_workers >= witnesses) | few
    if threshold is not None:
        return np.asarray(seen & (exists >= threshold))
    quorum = seen & ~few & (2 * found.n_workers >= found.n_looked)
    # Whatever may be reported: nothing that is rather not there, unless a majority would report it.
    seen &= quorum | (exists >= 0.5)
    wanted = min(float(exists[quorum].mean()), _PRECISE) if quorum.any() else _PRECISE
    falling = np.sort(exists[seen & ~few])[::-1]
    enough = np.cumsum(falling) >= wanted * np.arange(1, len(falling) + 1) - 1e-9
    least = float(falling[enough].min(initial=1.0))
    return np.asarray(seen & (few | (exists >= least)))


def _started(found: Candidates, m: int, k: int) -> _Crowd:
    """What the votes say, all workers being alike."""
    d = found.boxes.shape[1]
    named = found.sums(np.eye(k)[found.label])
    return _Crowd(
        recall=np.full(m, _RECALL[0] / sum(_RECALL)),
        invented=np.full(m, _INVENTED),
        bias=np.zeros((m, d)),
        noise=np.full(m, 0.1),
        confusion=np.full((m, k, k), 1 / k),
        share=np.full(k, 1 / k),
        exists=np.minimum(found.n_workers / found.n_looked, 0.9),
        boxes=found.means(),
        doubt=0.01 / np.maximum(found.n_workers, 1),
        kinds=named / np.maximum(named.sum(axis=1, keepdims=True), 1),
        objects=1.0,
        places=_PLACES,
    )


def _rate_sight(found: Candidates, crowd: _Crowd, strength: float) -> None:
    """How many objects tasks have, how many of them each worker draws, and how many they invent."""
    m, p = len(crowd.recall), crowd.exists
    missed = _per_task(found, np.log1p(-crowd.recall))
    objects = float(p.sum() + 1) / (found.n_tasks - float(np.exp(missed).sum()) + 1)
    # Objects that nobody drew are missed by all who looked.
    there = np.bincount(found.task, p, found.n_tasks) + objects * np.exp(missed)
    drawn = np.bincount(found.worker, p[found.object], m)
    could = np.bincount(found.looked_worker, there[found.looked_task], m)
    mean = (drawn.sum() + _RECALL[0]) / (could.sum() + sum(_RECALL))
    crowd.recall = np.clip((drawn + strength * mean) / (could + strength), 0.01, 0.99)
    false = np.bincount(found.worker, (1 - p)[found.object], m)
    looked = np.bincount(found.looked_worker, minlength=m)
    usual = (false.sum() + _INVENTED) / (looked.sum() + 1)
    crowd.invented = (false + strength * usual) / (looked + strength)
    # Two who invent, do so at one place the more often the fewer places there are that may be mistaken for an object.
    once, squares = _per_task(found, crowd.invented), _per_task(found, crowd.invented**2)
    met = float(((1 - p) * found.n_workers * (found.n_workers - 1)).sum()) / 2
    could_meet = float((once**2 - squares).sum()) / 2
    crowd.places = max((could_meet + _MEETINGS * _PLACES) / (met + _MEETINGS), 1.0)
    crowd.objects = objects


def _per_task(found: Candidates, values: Array) -> Array:
    """Sums over those who looked at each task."""
    sums: Array = np.bincount(found.looked_task, values[found.looked_worker], found.n_tasks).astype(np.float64)
    return sums


def _weigh(found: Candidates, crowd: _Crowd) -> None:
    """Probability of each candidate: an object that some drew and some missed, or an invention that others share."""
    yes, no = np.log(crowd.recall), np.log1p(-crowd.recall)
    true = math.log(crowd.objects) + _per_task(found, no)[found.task] + found.sums((yes - no)[found.worker])
    chance = np.minimum(crowd.invented / crowd.places, _MOST_MISTAKEN)
    yes, no = np.log(chance), np.log1p(-chance)
    false = math.log(crowd.places) + _per_task(found, no)[found.task] + found.sums((yes - no)[found.worker])
    odds = true - false
    crowd.exists = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))


def _residuals(found: Candidates, crowd: _Crowd) -> Array:
    """By how much the corners of each box are off, relative to the size of its object."""
    off: Array = (found.boxes - crowd.boxes[found.object]) / found.sizes(crowd.boxes)[found.object]
    return off


def _rate_corners(found: Candidates, crowd: _Crowd, strength: float, pace: float) -> None:
    """Bias and noise of corners, from boxes of objects that others drew, too."""
    m = len(crowd.bias)
    weight = np.where(found.n_workers > 1, crowd.exists, 0.0)[found.object]
    off, n = _residuals(found, crowd), np.bincount(found.worker, weight, m).astype(np.float64)
    sums = np.stack([np.bincount(found.worker, weight * column, m) for column in off.T], axis=1)
    # Only differences between workers can be seen: the middle one is taken to have no bias.
    own = sums / (n + strength)[:, None]
    # A part of the way only: where two are in the middle by turns, whole steps would go around in a circle.
    crowd.bias += pace * (own - np.array([weighted_median(column, n) for column in own.T]) - crowd.bias)
    left = ((off - crowd.bias[found.worker]) ** 2).mean(axis=1) + crowd.doubt[found.object]
    squares = np.bincount(found.worker, weight * left, m)
    mean = (squares.sum() + 0.01) / (n.sum() + 1)
    variance = (squares + strength * mean) / (n + strength)
    crowd.noise = np.sqrt(np.maximum(variance, _LEAST_NOISE**2 * mean))


def _place(found: Candidates, crowd: _Crowd) -> None:
    """Corners of each object: means of what workers drew, less their bias, the more exact counting more."""
    weight = crowd.noise[found.worker] ** -2.0
    size = found.sizes(crowd.boxes)[found.object]
    meant = found.boxes - crowd.bias[found.worker] * size
    total = found.sums(weight)
    # Around the mean of the object's boxes, so that numbers far from 0 lose nothing.
    middle = found.means()
    placed = middle + found.sums(weight[:, None] * (meant - middle[found.object])) / total[:, None]
    if placed.shape[1] == 4:
        flat = (placed[:, 2:] <= placed[:, :2]).any(axis=1)
        placed[flat] = middle[flat]
    crowd.boxes, crowd.doubt = placed, 1 / total


def _rate_names(found: Candidates, crowd: _Crowd, strength: float) -> None:
    """What each worker calls objects of each class, drawn to what the crowd does."""
    m, k, _ = crowd.confusion.shape
    weight = crowd.exists[found.object, None] * crowd.kinds[found.object]
    counts = np.zeros((m, k, k))
    np.add.at(counts.transpose(0, 2, 1), (found.worker, found.label), weight)
    believed = np.full((k, k), 0.2 / (k - 1))
    np.fill_diagonal(believed, 0.8)
    pooled = counts.sum(axis=0) + strength * believed
    pooled /= pooled.sum(axis=1, keepdims=True)
    crowd.confusion = (counts + strength * pooled) / (counts.sum(axis=2, keepdims=True) + strength)
    seen = (crowd.exists[:, None] * crowd.kinds).sum(axis=0) + 1
    crowd.share = seen / seen.sum()


def _name(found: Candidates, crowd: _Crowd) -> None:
    """Chances of the classes of each object."""
    said = np.log(crowd.confusion)[found.worker, :, found.label]
    scores = np.log(crowd.share) + found.sums(said)
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    crowd.kinds = odds / odds.sum(axis=1, keepdims=True)
