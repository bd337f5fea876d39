"""BoxCrowd: objects with worker rates of misses and false positives, corner errors and label confusion."""

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
from manyhands.boxes._matching import Candidates, match_boxes_of
from manyhands.boxes.base import BoxAggregator, BoxFit, box_fit_fields
from manyhands.boxes.table import Boxes

#: Beta prior of recall (eight of ten objects), and prior number of false positives per task.
_RECALL = (8.0, 2.0)
_INVENTED = 0.2
#: Prior number of places per task that resemble an object, and its weight in pairs of coinciding false positives.
_PLACES, _MEETINGS = 20.0, 2.0
#: Maximum probability that a worker draws such a place.
_MOST_MISTAKEN = 0.5
#: Upper limit of the target precision.
_PRECISE = 0.995
#: Step size of bias updates: one half, and from the tenth iteration on this number divided by the iteration number.
_PACE = 5.0
#: Lower bound of worker noise, relative to the average.
_LEAST_NOISE = 0.2
#: Maximum size of the confusion matrices: workers × labels × labels.
_MOST_CONFUSION = 1 << 27


@dataclass
class _Crowd:
    """State of worker and object parameters."""

    #: Probability of drawing an object, and false positives per task, (workers,).
    recall: Array
    invented: Array
    #: Mean corner error relative to the size of the object, (workers, corners), and its standard deviation.
    bias: Array
    noise: Array
    #: Confusion matrices, (workers, true classes, given classes), and class shares.
    confusion: Array
    share: Array
    #: Per object: probability, corners, relative variance of the corners, class probabilities.
    exists: Array
    boxes: Array
    doubt: Array
    kinds: Array
    #: Mean number of objects per task, and of places that resemble an object.
    objects: float
    places: float


@dataclass(frozen=True, kw_only=True)
class CrowdBoxFit(BoxFit):
    """Estimated objects, and worker parameters."""

    recall: Array = field(metadata=numbers("m"))
    invented: Array = field(metadata=numbers("m"))
    noise: Array = field(metadata=numbers("m"))
    accuracy: Array = field(metadata=numbers("m"))
    bias: Array = field(metadata=numbers("mc"))
    confusion: Array = field(metadata=numbers("mqq"))

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise if confusion matrices and objects have different numbers of classes."""
        super().check(sizes)
        if sizes["q"] != max(sizes["k"], 1):
            raise ValueError(f"confusion matrices have {sizes['q']} classes, but objects have {sizes['k']}")


class BoxCrowd(BoxAggregator, default=True):
    """Objects with their probability of existence, from a model of worker misses, false positives and corner errors.

    The default for boxes and points.

    Parameters
    ----------
    threshold : float or None, default None
        Minimum probability of reported objects; 0.5 approximately maximizes F1. None reports as many objects as
        possible with an expected precision of at least that of a majority vote (at most 99.5 %).
    witnesses : int, default 2
        Minimum number of workers who drew the object, in tasks with at least three workers; 1 uses the probability
        only.
    overlap : float, default 0.4
        Minimum mean intersection over union of boxes of one object.
    radius : float or None, default None
        Maximum distance between points of one object; None estimates it.
    strength : float, default 5.0
        Prior strength of worker parameters, as a pseudo-count of objects with the average rates.
    max_iter : int, default 1000
        Maximum number of iterations.
    tol : float, default 1e-4
        Change of probabilities and rates at which the fit has converged.

    Notes
    -----
    Time O(p log p) for p overlapping pairs of boxes per task, plus O(boxes · classes) per iteration. Memory O(p +
    boxes · classes + workers · classes²).

    Overlapping boxes form candidates with at most one box per worker. Candidates (probability, corners, class) and
    worker parameters (recall, false positives per task, bias and noise of corners relative to object size, confusion
    matrix) are updated in turn; worker parameters are shrunk toward the average, and biases are relative to the median
    worker.

    A task has a Poisson number of objects, which each worker draws with probability `recall_`, and a Poisson number of
    places that resemble an object, which workers draw by mistake; objects without boxes are accounted for. Their number
    is estimated from how often false positives of two workers coincide (prior: twenty per task). Corners
    are normal around those of the object plus the worker's bias, and labels follow confusion matrices as in
    Dawid–Skene; both do not affect the probability of existence. In tasks with a single worker, that probability
    depends on the worker's parameters only.

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
                f"{votes.n_workers:,} workers and {k:,} labels need too much memory for confusion matrices; use "
                "boxes.BoxVote, or merge labels"
            )
        candidates = match_boxes_of(votes, self.overlap, self.radius)
        crowd = _initial_state(candidates, votes.n_workers, k)
        n_iter, converged = self._estimate(candidates, crowd, progress) if len(candidates.task) else (1, True)
        warn_unless_converged(converged, self)
        false_positive_sums = np.bincount(candidates.worker, 1 - crowd.exists[candidates.object], votes.n_workers)
        skills = {
            "recall": crowd.recall,
            "invented": false_positive_sums / np.bincount(candidates.looked_worker, minlength=votes.n_workers),
            "noise": crowd.noise,
            "bias": crowd.bias,
            "confusion": crowd.confusion,
            "accuracy": np.einsum("mkk,k->m", crowd.confusion, crowd.share),
        }
        best = crowd.kinds.argmax(axis=1).astype(np.int64)
        keep = _select_reported(candidates, crowd.exists, self.threshold, self.witnesses)
        parts = box_fit_fields(candidates, keep, crowd.boxes, best, crowd.exists, votes.n_tasks)
        return CrowdBoxFit(**parts, **skills, history=np.zeros(0), n_iter=n_iter, converged=converged)

    def _estimate(self, candidates: Candidates, crowd: _Crowd, progress: Callback | None) -> tuple[int, bool]:
        """Update workers and objects in turn; return iterations and convergence."""
        n_labels = len(crowd.share)

        def watched() -> Array:
            return np.concatenate([crowd.exists, crowd.noise, crowd.bias.ravel(), crowd.kinds.ravel()])

        def step(number: int) -> float:
            before = watched()
            _update_detection(candidates, crowd, self.strength)
            _update_corner_errors(candidates, crowd, self.strength, min(0.5, _PACE / number))
            if n_labels > 1:
                _update_confusion(candidates, crowd, self.strength)
                _update_classes(candidates, crowd)
            _update_positions(candidates, crowd)
            _update_probabilities(candidates, crowd)
            return largest_change(before, watched())

        return iterate(step, self.max_iter, self.tol, progress)

    # ----------------------------------------------------------------------------------------------- results

    @property
    def recall_(self) -> Array:
        """Probability that each worker draws an object that at least one worker drew, shape (n_workers,)."""
        return self._fitted().fit_as(CrowdBoxFit).recall

    @property
    def false_positives_(self) -> Array:
        """Expected number of false positives per task of each worker, shape (n_workers,)."""
        return self._fitted().fit_as(CrowdBoxFit).invented

    @property
    def noise_(self) -> Array:
        """Standard deviation of each worker's corners, relative to object size (to the radius for points)."""
        return self._fitted().fit_as(CrowdBoxFit).noise

    @property
    def bias_(self) -> Array:
        """Mean error of each worker's corners, relative to object size, shape (n_workers, 4) or (n_workers, 2)."""
        return self._fitted().fit_as(CrowdBoxFit).bias

    @property
    def confusion_(self) -> Array:
        """Probability of each label for objects of each class, by worker, shape (n_workers, n_classes, n_classes)."""
        return self._fitted().fit_as(CrowdBoxFit).confusion

    def _skills(self) -> Columns:
        # ``skill`` is the recall; ``false_positives`` is per task; ``accuracy`` refers to labels.
        now = self._fitted()
        fit = now.fit_as(CrowdBoxFit)
        columns = {"skill": fit.recall, "false_positives": fit.invented, "noise": fit.noise}
        return columns | ({"accuracy": fit.accuracy} if len(now.classes) else {})


def _select_reported(
    candidates: Candidates, exists: Array, threshold: float | None, witnesses: int
) -> npt.NDArray[np.bool_]:
    """Return which candidates are reported.

    Without a threshold: as many candidates, by decreasing probability, as have an expected precision of at least that
    of the candidates drawn by half of the workers. The result is then expected to be at least as precise as a majority
    vote, and to contain at least as many objects.
    """
    few_workers = candidates.n_looked < 3
    reportable: npt.NDArray[np.bool_] = (candidates.n_workers >= witnesses) | few_workers
    if threshold is not None:
        return np.asarray(reportable & (exists >= threshold))
    quorum = reportable & ~few_workers & (2 * candidates.n_workers >= candidates.n_looked)
    # Candidates below 0.5 are only reported if a majority drew them.
    reportable &= quorum | (exists >= 0.5)
    target_precision = min(float(exists[quorum].mean()), _PRECISE) if quorum.any() else _PRECISE
    sorted_probabilities = np.sort(exists[reportable & ~few_workers])[::-1]
    precise_enough = (
        np.cumsum(sorted_probabilities) >= target_precision * np.arange(1, len(sorted_probabilities) + 1) - 1e-9
    )
    least = float(sorted_probabilities[precise_enough].min(initial=1.0))
    return np.asarray(reportable & (few_workers | (exists >= least)))


def _initial_state(candidates: Candidates, m: int, k: int) -> _Crowd:
    """Initial parameters, with equal workers."""
    d = candidates.boxes.shape[1]
    label_counts = candidates.sums(np.eye(k)[candidates.label])
    return _Crowd(
        recall=np.full(m, _RECALL[0] / sum(_RECALL)),
        invented=np.full(m, _INVENTED),
        bias=np.zeros((m, d)),
        noise=np.full(m, 0.1),
        confusion=np.full((m, k, k), 1 / k),
        share=np.full(k, 1 / k),
        exists=np.minimum(candidates.n_workers / candidates.n_looked, 0.9),
        boxes=candidates.means(),
        doubt=0.01 / np.maximum(candidates.n_workers, 1),
        kinds=label_counts / np.maximum(label_counts.sum(axis=1, keepdims=True), 1),
        objects=1.0,
        places=_PLACES,
    )


def _update_detection(candidates: Candidates, crowd: _Crowd, strength: float) -> None:
    """Update the number of objects per task, worker recall and false positives."""
    m, p = len(crowd.recall), crowd.exists
    log_all_missed = _per_task(candidates, np.log1p(-crowd.recall))
    objects = float(p.sum() + 1) / (candidates.n_tasks - float(np.exp(log_all_missed).sum()) + 1)
    # Objects without boxes were missed by all workers of the task.
    expected_objects = np.bincount(candidates.task, p, candidates.n_tasks) + objects * np.exp(log_all_missed)
    drawn_counts = np.bincount(candidates.worker, p[candidates.object], m)
    opportunities = np.bincount(candidates.looked_worker, expected_objects[candidates.looked_task], m)
    mean = (drawn_counts.sum() + _RECALL[0]) / (opportunities.sum() + sum(_RECALL))
    crowd.recall = np.clip((drawn_counts + strength * mean) / (opportunities + strength), 0.01, 0.99)
    false_positives = np.bincount(candidates.worker, (1 - p)[candidates.object], m)
    n_tasks_annotated = np.bincount(candidates.looked_worker, minlength=m)
    usual = (false_positives.sum() + _INVENTED) / (n_tasks_annotated.sum() + 1)
    crowd.invented = (false_positives + strength * usual) / (n_tasks_annotated + strength)
    # False positives of two workers coincide more often if there are fewer places that resemble an object.
    once, squares = _per_task(candidates, crowd.invented), _per_task(candidates, crowd.invented**2)
    coincidences = float(((1 - p) * candidates.n_workers * (candidates.n_workers - 1)).sum()) / 2
    possible_coincidences = float((once**2 - squares).sum()) / 2
    crowd.places = max((possible_coincidences + _MEETINGS * _PLACES) / (coincidences + _MEETINGS), 1.0)
    crowd.objects = objects


def _per_task(candidates: Candidates, values: Array) -> Array:
    """Sum over the workers of each task."""
    sums: Array = np.bincount(candidates.looked_task, values[candidates.looked_worker], candidates.n_tasks).astype(
        np.float64
    )
    return sums


def _update_probabilities(candidates: Candidates, crowd: _Crowd) -> None:
    """Update the probability of each candidate: true object, or coinciding false positives."""
    yes, no = np.log(crowd.recall), np.log1p(-crowd.recall)
    true = (
        math.log(crowd.objects)
        + _per_task(candidates, no)[candidates.task]
        + candidates.sums((yes - no)[candidates.worker])
    )
    chance = np.minimum(crowd.invented / crowd.places, _MOST_MISTAKEN)
    yes, no = np.log(chance), np.log1p(-chance)
    false = (
        math.log(crowd.places)
        + _per_task(candidates, no)[candidates.task]
        + candidates.sums((yes - no)[candidates.worker])
    )
    odds = true - false
    crowd.exists = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))


def _residuals(candidates: Candidates, crowd: _Crowd) -> Array:
    """Corner errors of each box, relative to the size of its object."""
    residuals: Array = (candidates.boxes - crowd.boxes[candidates.object]) / candidates.sizes(crowd.boxes)[
        candidates.object
    ]
    return residuals


def _update_corner_errors(candidates: Candidates, crowd: _Crowd, strength: float, pace: float) -> None:
    """Update bias and noise of corners, from objects with at least two boxes."""
    m = len(crowd.bias)
    weight = np.where(candidates.n_workers > 1, crowd.exists, 0.0)[candidates.object]
    residuals, n = _residuals(candidates, crowd), np.bincount(candidates.worker, weight, m).astype(np.float64)
    sums = np.stack([np.bincount(candidates.worker, weight * column, m) for column in residuals.T], axis=1)
    # Only differences between workers are identified: the median worker has bias 0.
    shrunk = sums / (n + strength)[:, None]
    # Damped step: full steps can oscillate if two workers alternate as the median.
    crowd.bias += pace * (shrunk - np.array([weighted_median(column, n) for column in shrunk.T]) - crowd.bias)
    squared_residuals = ((residuals - crowd.bias[candidates.worker]) ** 2).mean(axis=1) + crowd.doubt[candidates.object]
    squares = np.bincount(candidates.worker, weight * squared_residuals, m)
    mean = (squares.sum() + 0.01) / (n.sum() + 1)
    variance = (squares + strength * mean) / (n + strength)
    crowd.noise = np.sqrt(np.maximum(variance, _LEAST_NOISE**2 * mean))


def _update_positions(candidates: Candidates, crowd: _Crowd) -> None:
    """Update the corners of each object: precision-weighted means of bias-corrected boxes."""
    weight = crowd.noise[candidates.worker] ** -2.0
    size = candidates.sizes(crowd.boxes)[candidates.object]
    unbiased = candidates.boxes - crowd.bias[candidates.worker] * size
    total = candidates.sums(weight)
    # Relative to the mean of the object's boxes, for numerical accuracy.
    middle = candidates.means()
    corners = middle + candidates.sums(weight[:, None] * (unbiased - middle[candidates.object])) / total[:, None]
    if corners.shape[1] == 4:
        flat = (corners[:, 2:] <= corners[:, :2]).any(axis=1)
        corners[flat] = middle[flat]
    crowd.boxes, crowd.doubt = corners, 1 / total


def _update_confusion(candidates: Candidates, crowd: _Crowd, strength: float) -> None:
    """Update confusion matrices, shrunk toward the pooled matrix."""
    m, k, _ = crowd.confusion.shape
    weight = crowd.exists[candidates.object, None] * crowd.kinds[candidates.object]
    counts = np.zeros((m, k, k))
    np.add.at(counts.transpose(0, 2, 1), (candidates.worker, candidates.label), weight)
    prior_confusion = np.full((k, k), 0.2 / (k - 1))
    np.fill_diagonal(prior_confusion, 0.8)
    pooled = counts.sum(axis=0) + strength * prior_confusion
    pooled /= pooled.sum(axis=1, keepdims=True)
    crowd.confusion = (counts + strength * pooled) / (counts.sum(axis=2, keepdims=True) + strength)
    class_counts = (crowd.exists[:, None] * crowd.kinds).sum(axis=0) + 1
    crowd.share = class_counts / class_counts.sum()


def _update_classes(candidates: Candidates, crowd: _Crowd) -> None:
    """Update the class probabilities of each object."""
    log_likelihoods = np.log(crowd.confusion)[candidates.worker, :, candidates.label]
    scores = np.log(crowd.share) + candidates.sums(log_likelihoods)
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    crowd.kinds = odds / odds.sum(axis=1, keepdims=True)
