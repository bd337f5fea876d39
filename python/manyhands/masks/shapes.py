"""ShapeCrowd: mean outlines, weighted by worker bias, noise and lapse rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array, weighted_median
from manyhands._base.fitted import Fit, numbers
from manyhands._base.iteration import iterate, largest_change
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.masks.base import Ints, MaskAggregator, MaskFit, mask_fit_of, packed_runs, weights_of
from manyhands.masks.runs import Runs
from manyhands.masks.table import Masks

if TYPE_CHECKING:
    pass

#: Effective number of independent errors of an outline; neighboring pixels are correlated.
_PIECES = 2.0
#: Beta prior of the share of masks that show the object: nine in ten.
_USUAL, _LAPSES = 9.0, 1.0
#: Lower bound of worker variances, relative to the average.
_LEAST_NOISE = 0.05
#: The step size of bias updates decreases as this number divided by the iteration number.
_PACE = 8.0
#: Reach in pixels below which votes replace outlines, and above which outlines are fully used.
_THIN = (1.0, 1.5)
#: Probability below which workers are treated as a single group.
_LEAST_APART = 1e-3
#: Precision of a mask with zero weight, so that each image has a mask.
_NOTHING = 1e-9


@dataclass(frozen=True)
class _Group:
    """Disputed images with the same number of masks: (images, masks)."""

    tasks: Ints
    rows: Ints
    workers: Ints
    weights: Array
    #: Mean signed distances and mean products of distances, (images, masks, masks).
    means: Array
    products: Array
    #: Initial values: squared deviations from the median mask, and its mean distance.
    spread: Array
    middle: Array
    #: Interpolation weight between votes and outlines, (images,): 0 if the reach is below a pixel, up to 1.
    depth: Array


@dataclass
class _Crowd:
    """State of the worker parameters; distances are relative to the thickness of objects."""

    bias: Array
    variance: Array
    #: Average variance.
    usual: float
    #: Probability that a mask shows the object, and variance of lapses.
    reliability: Array
    lapse_variance: float


@dataclass(frozen=True, kw_only=True)
class ShapeFit(MaskFit):
    """Estimated masks, and outline parameters of workers."""

    bias: Array = field(metadata=numbers("m"))
    noise: Array = field(metadata=numbers("m"))
    reliability: Array = field(metadata=numbers("m"))


class ShapeCrowd(MaskAggregator, default=True):
    """Mean outline of all masks, weighted by each worker's bias, noise and lapse rate.

    The default for masks. Use it for compact objects; thin structures are decided by votes automatically.

    Parameters
    ----------
    reach : float, default 0.3
        Distance at which signed distances are clipped, relative to the thickness of objects. Small values approach
        majority votes.
    strength : float, default 2.0
        Prior strength of worker variances, as a pseudo-count of images with the average variance.
    max_iter : int, default 300
        Maximum number of iterations.
    tol : float, default 1e-4
        Change of worker bias and noise at which the fit has converged.

    Notes
    -----
    Time O(masks · (box + disputed · (reach + masks))) per image, whose box contains all marked pixels, plus
    O(images · masks²) per iteration. Memory: 8 bytes per pair of masks of an image, plus 15 bytes per pixel of the box
    and 4 per mask of a disputed pixel for each thread; images are processed one at a time.

    Each mask becomes a signed distance transform: the distance to the outline, positive inside. On disputed pixels, the
    distances of a worker are those of the object plus the worker's bias (positive for loose outlines) and a normal
    error; in a lapse, the error has a large variance. Objects (precision-weighted mean distances) and worker parameters
    are updated in turn; every image has the same weight. Pixels with a positive mean distance belong to the object.

    Biases are relative to the median worker, or to the densest group if workers form two groups. Biases and lapse rates
    are shrunk by empirical Bayes. The thickness is the radius of a ball with the same ratio of volume to surface
    (median over the masks of an image), so scattered pixels are treated as votes. If the reach is at most one
    pixel (vessels, roots, specks), pixels are decided by votes; up to 1.5 pixels, the worker weights are interpolated.
    Each class has its own outline. Pixels outside the image are background, so margins do not matter.
    ``confidence_`` is the mean probability of disputed pixels, from the variance of the mean outline.

    References
    ----------
    T. Rohlfing and C. R. Maurer, "Shape-based averaging", IEEE Transactions on Image Processing 16 (2007).

    Examples
    --------
    >>> import manyhands as mh
    >>> import numpy as np
    >>> squares = [np.pad(np.ones((n, n), bool), (12 - n) // 2) for n in (4, 6, 8)]
    >>> masks = mh.Masks.from_arrays([1, 1, 1], list("uvw"), squares)
    >>> mh.masks.ShapeCrowd().fit(masks).masks_[0].sum()
    np.int64(36)
    """

    _fit_type: ClassVar[type[Fit]] = ShapeFit

    def __init__(self, *, reach: float = 0.3, strength: float = 2.0, max_iter: int = 300, tol: float = 1e-4) -> None:
        self.reach = reach
        self.strength = strength
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Masks, progress: Callback | None) -> MaskFit:
        check_number("reach", self.reach, least=0.01, most=10)
        check_number("strength", self.strength, least=1e-6)
        check_stopping(self.max_iter, self.tol)
        runs = packed_runs(votes)
        likeness = _core.shape_likeness(runs, most=float(self.reach))
        groups = list(_groups(votes, likeness, self.reach))
        crowd = _Crowd(
            bias=np.zeros(votes.n_workers),
            variance=np.full(votes.n_workers, self.reach**2 / 9),
            usual=self.reach**2 / 9,
            reliability=np.full(votes.n_workers, _USUAL / (_USUAL + _LAPSES)),
            lapse_variance=self.reach**2 / 2,
        )
        n_iter, converged, mask_probabilities = self._estimate(groups, crowd, progress) if groups else (1, True, [])
        warn_unless_converged(converged, self)
        share, bias, mean_errors = np.zeros(votes.n_annotations), np.zeros(votes.n_annotations), np.ones(votes.n_tasks)
        for group, sound in zip(groups, mask_probabilities, strict=True):
            precision, bias[group.rows] = _precision(group, sound, crowd), _bias(group, crowd)
            total = precision.sum(axis=1)
            share[group.rows] = precision / total[:, None]
            mean_errors[group.tasks] = np.sqrt(np.minimum(1 / total, self.reach**2))
        result = _core.shape_masks(runs, share, bias, mean_errors, most=float(self.reach))
        disputed = likeness["disputed"] / np.maximum(likeness["marked"], 1)
        fit = mask_fit_of(votes, {**result, "disputed": disputed}, n_iter=n_iter, converged=converged)
        thin = [group.tasks[group.depth == 0] for group in groups]
        fit_with_votes = _replace_by_votes(votes, fit, np.concatenate([np.zeros(0, np.int64), *thin]))
        noise = np.sqrt(crowd.variance)
        return ShapeFit(**vars(fit_with_votes), bias=crowd.bias, noise=noise, reliability=crowd.reliability)

    def _estimate(
        self, groups: list[_Group], crowd: _Crowd, progress: Callback | None
    ) -> tuple[int, bool, list[Array]]:
        """Update objects, workers and lapses; return iterations, convergence and mask probabilities."""
        on = [np.ones(group.workers.shape) for group in groups]
        prior = np.array([_USUAL, _LAPSES])

        def step(number: int) -> float:
            nonlocal prior
            before = np.concatenate([crowd.bias, np.sqrt(crowd.variance)])
            sums = _Sums(len(crowd.bias))
            for place, group in enumerate(groups):
                squares, shift = _errors(group, on[place], crowd, self.reach) if number > 1 else _first_errors(group)
                on[place] = _object_probability(squares, crowd, group.workers)
                sums.add(group, on[place], squares, shift)
            prior = self._update_workers(crowd, sums, prior, min(1.0, _PACE / number))
            return largest_change(before, np.concatenate([crowd.bias, np.sqrt(crowd.variance)]))

        return *iterate(step, self.max_iter, self.tol, progress), on

    def _update_workers(self, crowd: _Crowd, sums: _Sums, prior: Array, pace: float) -> Array:
        """Update worker parameters from sums; return the updated prior of lapses."""
        n, usual = sums.sound, (sums.squares.sum() + 0.01 * self.reach) / (sums.sound.sum() + 1)
        variance = (sums.squares + self.strength * usual) / (n + self.strength)
        crowd.variance, crowd.usual = np.maximum(variance, _LEAST_NOISE * usual), usual
        # A lapse must have a larger error than average.
        lapses = (sums.lapsed_squares + self.reach**2 / 2) / (sums.lapsed + 1)
        crowd.lapse_variance = max(lapses, 4 * usual)
        # Damped steps: full steps can oscillate if two workers alternate as the median.
        crowd.bias = crowd.bias + pace * (_biases(sums.shifts, n, crowd.variance, usual) - crowd.bias)
        counts = np.stack([n, np.maximum(sums.masks - n, 0)], axis=1)
        prior = _core.dirichlet_step(prior, counts, np.array([_USUAL, _LAPSES]))
        crowd.reliability = np.clip((n + prior[0]) / (sums.masks + prior.sum()), 0.02, 0.98)
        return prior

    # ----------------------------------------------------------------------------------------------- results

    @property
    def bias_(self) -> Array:
        """Outward bias of each worker's outlines, relative to the thickness of objects, shape (n_workers,)."""
        return self._fitted().fit_as(ShapeFit).bias

    @property
    def noise_(self) -> Array:
        """Standard deviation of each worker's outlines, relative to the thickness of objects, shape (n_workers,)."""
        return self._fitted().fit_as(ShapeFit).noise

    @property
    def reliability_(self) -> Array:
        """Probability that a mask of each worker shows the object, shape (n_workers,)."""
        return self._fitted().fit_as(ShapeFit).reliability

    def _skills(self) -> Columns:
        fit = self._fitted().fit_as(ShapeFit)
        return {"skill": fit.reliability, "bias": fit.bias, "noise": fit.noise}


class _Sums:
    """Sums over the masks of each worker."""

    def __init__(self, m: int) -> None:
        self.squares, self.sound, self.shifts, self.masks = (np.zeros(m) for _ in range(4))
        self.lapsed, self.lapsed_squares = 0.0, 0.0

    def add(self, group: _Group, on: Array, squares: Array, shift: Array) -> None:
        """Add the sums of a group."""
        sound, lapsed = on * group.weights, (1 - on) * group.weights
        for sums, values in (
            (self.squares, sound * squares),
            (self.sound, sound),
            (self.shifts, sound * shift),
            (self.masks, group.weights),
        ):
            sums += np.bincount(group.workers.ravel(), values.ravel(), len(sums))
        self.lapsed += float(lapsed.sum())
        self.lapsed_squares += float((lapsed * squares).sum())


def _groups(votes: Masks, like: _core._Likeness, reach: float) -> Iterator[_Group]:
    """Group disputed images by their number of masks."""
    offsets = votes.table.offsets().astype(np.int64)
    _, workers, _ = votes.table.columns()
    weights = weights_of(votes)
    counts = np.diff(offsets)
    places = np.concatenate([[0], np.cumsum(counts**2)])
    for n in np.unique(counts[like["disputed"] > 0]).tolist():
        tasks = np.flatnonzero((counts == n) & (like["disputed"] > 0))
        rows = offsets[tasks][:, None] + np.arange(n)
        pairs = places[tasks][:, None] + np.arange(n * n)
        yield _Group(
            tasks=tasks,
            rows=rows,
            workers=workers[rows].astype(np.int64),
            weights=weights[rows],
            means=like["means"][rows],
            products=like["products"][pairs].reshape(-1, n, n),
            spread=like["spread"][rows],
            middle=like["middle"][tasks],
            depth=np.clip((reach * like["thickness"][tasks] - _THIN[0]) / (_THIN[1] - _THIN[0]), 0, 1),
        )


def _precision(group: _Group, on: Array, crowd: _Crowd) -> Array:
    """Weight of each mask; equal weights if votes replace outlines."""
    depth = group.depth[:, None]
    variance = crowd.variance[group.workers] ** depth * crowd.usual ** (1 - depth)
    precision: Array = (depth * on + 1 - depth) * group.weights / variance + _NOTHING
    return precision


def _bias(group: _Group, crowd: _Crowd) -> Array:
    """Bias of the distances of each mask."""
    bias: Array = group.depth[:, None] * crowd.bias[group.workers]
    return bias


def _replace_by_votes(votes: Masks, fit: MaskFit, tasks: Ints) -> MaskFit:
    """Replace the masks of images with thin objects by majority votes."""
    if not len(tasks):
        return fit
    vote_fit = mask_fit_of(votes, _core.mask_vote(packed_runs(votes), weights_of(votes)))
    by_vote = np.zeros(votes.n_tasks, np.bool_)
    by_vote[tasks] = True
    runs = [(vote_fit if thin else fit).runs.one(task) for task, thin in enumerate(by_vote.tolist())]
    return replace(fit, runs=Runs.joined(runs), confidence=np.where(by_vote, vote_fit.confidence, fit.confidence))


def _first_errors(group: _Group) -> tuple[Array, Array]:
    """Return mean squared deviations and shifts from the median mask, which is robust to outliers."""
    return group.spread, group.means - group.middle[:, None]


def _errors(group: _Group, on: Array, crowd: _Crowd, reach: float) -> tuple[Array, Array]:
    """Return mean squared errors of each mask around the mean outline, and its mean shift including bias."""
    precision, bias = _precision(group, on, crowd), _bias(group, crowd)
    total = precision.sum(axis=1)
    share = precision / total[:, None]
    cross = group.means[:, :, None] * bias[:, None, :]
    centered_products = group.products - cross - cross.transpose(0, 2, 1) + bias[:, :, None] * bias[:, None, :]
    projections = np.einsum("nab,nb->na", centered_products, share)
    squares_of_masks = np.diagonal(centered_products, axis1=1, axis2=2)
    squares = squares_of_masks - 2 * projections + (share * projections).sum(axis=1)[:, None]
    # The uncertainty of the mean is part of the error.
    variance_of_mean = np.minimum(1 / total, reach**2)[:, None]
    middle = (share * (group.means - bias)).sum(axis=1)
    return np.maximum(squares, 0) + variance_of_mean, group.means - middle[:, None]


def _object_probability(squares: Array, crowd: _Crowd, workers: Ints) -> Array:
    """Probability that each mask shows the object, i.e. is not a lapse."""
    chance, usual, lapse = crowd.reliability[workers], crowd.variance[workers], crowd.lapse_variance
    odds = np.log(chance / (1 - chance))
    odds += 0.5 * _PIECES * (math.log(lapse) + squares / lapse - np.log(usual) - squares / usual)
    probability: Array = 1 / (1 + np.exp(-np.clip(odds, -50, 50)))
    # Errors larger than lapses count as lapses, whatever the worker's variance.
    return np.where(squares >= lapse, np.minimum(probability, 1e-6), probability)


def _biases(shifts: Array, n: Array, variance: Array, usual: float) -> Array:
    """Return the bias of each worker, shrunk toward the average, relative to the median worker.

    If workers form two groups, so that the median lies between them, biases are relative to the densest group.
    """
    active = n > 0.5
    if not active.any():
        return np.zeros(len(n))
    mean, share = shifts[active] / n[active], n[active] / n[active].sum()
    centre, n_active = float((share * mean).sum()), int(active.sum())
    between = float((share * (mean - centre) ** 2).sum()) * n_active / max(n_active - 1, 1)
    between -= float((share * variance[active] / (_PIECES * n[active])).sum())
    pull = np.clip(variance / (_PIECES * max(between, 1e-3 * usual)), 0.05, 1e3)
    shrunk = shifts / (n + pull)
    width = np.sqrt(variance / np.maximum(n, 1) + 0.1 * variance)
    p_two_groups = _two_groups(shrunk[active], float((variance[active] / (_PIECES * n[active])).sum()))
    group = _core.densest(shrunk, n + _NOTHING, width) if p_two_groups else 0.0
    biases: Array = shrunk - (p_two_groups * group + (1 - p_two_groups) * weighted_median(shrunk, n))
    return biases


def _two_groups(values: Array, error: float) -> float:
    """Return the probability of two groups rather than one, by the best split; `error` is the total variance.

    Normal groups with a common variance, compared by the Bayesian information criterion.
    """
    n = len(values)
    if n < 4:
        return 0.0
    sorted_values, left = np.sort(values - values.mean()), np.arange(1, n)
    sums, total = np.cumsum(sorted_values)[:-1], float((sorted_values**2).sum())
    within = np.maximum(total - sums**2 / left - sums**2 / (n - left), 0)
    shares = left * np.log(left / n) + (n - left) * np.log(1 - left / n)
    gain = float((n / 2 * np.log((total + error) / (within + error)) + shares).max()) - math.log(n)
    p_two_groups = 1 / (1 + math.exp(-min(max(gain, -50.0), 50.0)))
    return p_two_groups if p_two_groups > _LEAST_APART else 0.0
