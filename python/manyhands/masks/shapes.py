"""Masks by mean outlines of workers whose bias, noise and lapses are learnt over all images."""

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
from manyhands.masks.base import Ints, MaskAggregator, MaskFit, decided, packed_runs, weights_of
from manyhands.masks.runs import Runs
from manyhands.masks.table import Masks

if TYPE_CHECKING:
    pass

#: An outline errs in so many independent ways: neighbouring pixels err together.
_PIECES = 2.0
#: What is believed of a crowd before it is seen: of ten masks nine are of the object.
_USUAL, _LAPSES = 9.0, 1.0
#: Nobody's outlines are more exact than with this share of the crowd's usual variance.
_LEAST_NOISE = 0.05
#: From so many passes on, biases go this share over the number of passes of the way.
_PACE = 8.0
#: Where the reach is at most this many pixels, outlines tell no more than votes do; from the second on, all they can.
_THIN = (1.0, 1.5)
#: Below this probability there are no two groups of workers.
_LEAST_APART = 1e-3
#: Precision of a mask that counts for nothing, so that an image without any other has a mask.
_NOTHING = 1e-9


@dataclass(frozen=True)
class _Group:
    """Images with equally many masks, all disputed: (images, masks)."""

    tasks: Ints
    rows: Ints
    workers: Ints
    weights: Array
    #: Mean distances, and mean products of distances, (images, masks, masks).
    means: Array
    products: Array
    #: Where all begins: squares about the middle one, and the mean of that.
    spread: Array
    middle: Array
    #: How far outlines tell more than votes do, (images,): from 0 where the reach is below a pixel, to 1.
    depth: Array


@dataclass
class _Crowd:
    """What is known of workers, as it is learnt; distances are shares of the thickness of objects."""

    bias: Array
    variance: Array
    #: The variance of all.
    usual: float
    #: Chance that a mask is of the object, and the variance of those that are not.
    reliability: Array
    lapse_variance: float


@dataclass(frozen=True, kw_only=True)
class ShapeFit(MaskFit):
    """Masks, and how workers draw outlines."""

    bias: Array = field(metadata=numbers("m"))
    noise: Array = field(metadata=numbers("m"))
    reliability: Array = field(metadata=numbers("m"))


class ShapeCrowd(MaskAggregator, default=True):
    """Mean outlines, by workers who differ in how exactly they draw, how loosely, and how often they are quite off.

    Masks are taken as distances: how far within or outside of each worker's outline a pixel lies. On disputed pixels,
    those on which masks differ, the distances of a worker are those of the object, and the worker's bias (who draws
    loosely is too far within), and a normal error with the worker's variance; or, in a lapse, an error with a large
    one. By turns, objects get the mean distances by these precisions, and workers their bias, variance and share of
    lapses over all images, every image counting the same. A pixel is of the object where its distance is positive.

    Parameters
    ----------
    reach
        Where distances end, as a share of the objects' thickness: nobody's outline moves a pixel farther away by more
        than one at that distance. With hardly any reach, distances are votes.
    strength
        Imaginary images of each worker, with the crowd's variance.
    max_iter, tol
        Stop after so many passes, or when no bias and no noise changes by as much as `tol`.

    Notes
    -----
    A mean of outlines uses by how much they differ, of which votes, their median, only use the order. The bias is
    relative to that of the middle worker, or of the densest group where workers fall into two; it, and lapses, are
    drawn to the crowd's with strengths that are learnt (empirical Bayes). The thickness of objects is the radius of a
    ball with as much volume for its surface, the median over an image's masks, so that masks of scattered pixels count
    like votes. Where the reach is a pixel or less, as with vessels, roots and specks, pixels are voted on; up to a
    pixel and a half, workers count more alike the thinner objects are. Classes have an outline each. What lies beyond
    the image is background, so that margins change nothing.

    ``confidence_`` is the mean probability of disputed pixels, by the variance of the mean outline.

    Time O(masks · (box + disputed · (reach + masks))) for an image, whose box holds all that is marked, and a pass
    O(images · masks²); memory 8 bytes for each two masks of an image, and for each thread 15 bytes a pixel of the box
    and 4 for each mask of a disputed pixel: images are worked on one at a time.

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
        like = _core.shape_likeness(runs, most=float(self.reach))
        groups = list(_groups(votes, like, self.reach))
        crowd = _Crowd(
            bias=np.zeros(votes.n_workers),
            variance=np.full(votes.n_workers, self.reach**2 / 9),
            usual=self.reach**2 / 9,
            reliability=np.full(votes.n_workers, _USUAL / (_USUAL + _LAPSES)),
            lapse_variance=self.reach**2 / 2,
        )
        n_iter, converged, on = self._learn(groups, crowd, progress) if groups else (1, True, [])
        warn_unless_converged(converged, self)
        share, bias, doubt = np.zeros(votes.n_annotations), np.zeros(votes.n_annotations), np.ones(votes.n_tasks)
        for group, sound in zip(groups, on, strict=True):
            precision, bias[group.rows] = _precision(group, sound, crowd), _bias(group, crowd)
            total = precision.sum(axis=1)
            share[group.rows] = precision / total[:, None]
            doubt[group.tasks] = np.sqrt(np.minimum(1 / total, self.reach**2))
        made = _core.shape_masks(runs, share, bias, doubt, most=float(self.reach))
        disputed = like["disputed"] / np.maximum(like["marked"], 1)
        fit = decided(votes, {**made, "disputed": disputed}, n_iter=n_iter, converged=converged)
        thin = [group.tasks[group.depth == 0] for group in groups]
        voted = _voted_on(votes, fit, np.concatenate([np.zeros(0, np.int64), *thin]))
        noise = np.sqrt(crowd.variance)
        return ShapeFit(**vars(voted), bias=crowd.bias, noise=noise, reliability=crowd.reliability)

    def _learn(self, groups: list[_Group], crowd: _Crowd, progress: Callback | None) -> tuple[int, bool, list[Array]]:
        """Workers and lapses by turns; returns passes, whether they settled, and which masks are of their objects."""
        on = [np.ones(group.workers.shape) for group in groups]
        prior = np.array([_USUAL, _LAPSES])

        def step(number: int) -> float:
            nonlocal prior
            before = np.concatenate([crowd.bias, np.sqrt(crowd.variance)])
            sums = _Sums(len(crowd.bias))
            for place, group in enumerate(groups):
                squares, shift = _errors(group, on[place], crowd, self.reach) if number > 1 else _first_errors(group)
                on[place] = _sound(squares, crowd, group.workers)
                sums.add(group, on[place], squares, shift)
            prior = self._rate(crowd, sums, prior, min(1.0, _PACE / number))
            return largest_change(before, np.concatenate([crowd.bias, np.sqrt(crowd.variance)]))

        return *iterate(step, self.max_iter, self.tol, progress), on

    def _rate(self, crowd: _Crowd, sums: _Sums, prior: Array, pace: float) -> Array:
        """What sums tell of workers; returns the learnt prior of lapses."""
        n, usual = sums.sound, (sums.squares.sum() + 0.01 * self.reach) / (sums.sound.sum() + 1)
        variance = (sums.squares + self.strength * usual) / (n + self.strength)
        crowd.variance, crowd.usual = np.maximum(variance, _LEAST_NOISE * usual), usual
        # A lapse is an error that is large among those of all.
        lapses = (sums.lapsed_squares + self.reach**2 / 2) / (sums.lapsed + 1)
        crowd.lapse_variance = max(lapses, 4 * usual)
        # A part of the way: where two are in the middle by turns, whole steps would go around in a circle.
        crowd.bias = crowd.bias + pace * (_biases(sums.shifts, n, crowd.variance, usual) - crowd.bias)
        counts = np.stack([n, np.maximum(sums.masks - n, 0)], axis=1)
        prior = _core.dirichlet_step(prior, counts, np.array([_USUAL, _LAPSES]))
        crowd.reliability = np.clip((n + prior[0]) / (sums.masks + prior.sum()), 0.02, 0.98)
        return prior

    # ----------------------------------------------------------------------------------------------- results

    @property
    def bias_(self) -> Array:
        """How far outside of the crowd's outlines each worker draws, as a share of objects' thickness, (n_workers,)."""
        return self._fitted().fit_as(ShapeFit).bias

    @property
    def noise_(self) -> Array:
        """Deviation of each worker's outlines besides, as a share of objects' thickness, (n_workers,)."""
        return self._fitted().fit_as(ShapeFit).noise

    @property
    def reliability_(self) -> Array:
        """Probability that a mask of each worker is of the object at all, (n_workers,)."""
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
        """Add those of a group."""
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
    """Disputed images by how many masks they have."""
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
    """How much each mask counts: all alike where outlines tell no more than votes do."""
    depth = group.depth[:, None]
    variance = crowd.variance[group.workers] ** depth * crowd.usual ** (1 - depth)
    found: Array = (depth * on + 1 - depth) * group.weights / variance + _NOTHING
    return found


def _bias(group: _Group, crowd: _Crowd) -> Array:
    """By how much the distances of each mask are too great."""
    bias: Array = group.depth[:, None] * crowd.bias[group.workers]
    return bias


def _voted_on(votes: Masks, fit: MaskFit, tasks: Ints) -> MaskFit:
    """A result in which some images, whose objects are too thin for outlines, are as votes have them."""
    if not len(tasks):
        return fit
    found = decided(votes, _core.mask_vote(packed_runs(votes), weights_of(votes)))
    voted = np.zeros(votes.n_tasks, np.bool_)
    voted[tasks] = True
    runs = [(found if thin else fit).runs.one(task) for task, thin in enumerate(voted.tolist())]
    return replace(fit, runs=Runs.joined(runs), confidence=np.where(voted, found.confidence, fit.confidence))


def _first_errors(group: _Group) -> tuple[Array, Array]:
    """Mean squares and shifts about the middle mask, pixel by pixel, which a few bad ones do not move."""
    return group.spread, group.means - group.middle[:, None]


def _errors(group: _Group, on: Array, crowd: _Crowd, reach: float) -> tuple[Array, Array]:
    """Mean squares of the errors of each mask, about the mean outline, and its mean shift, bias included."""
    precision, bias = _precision(group, on, crowd), _bias(group, crowd)
    total = precision.sum(axis=1)
    share = precision / total[:, None]
    cross = group.means[:, :, None] * bias[:, None, :]
    about = group.products - cross - cross.transpose(0, 2, 1) + bias[:, :, None] * bias[:, None, :]
    along = np.einsum("nab,nb->na", about, share)
    own = np.diagonal(about, axis1=1, axis2=2)
    squares = own - 2 * along + (share * along).sum(axis=1)[:, None]
    # What is not known of the mean is part of the error.
    doubt = np.minimum(1 / total, reach**2)[:, None]
    middle = (share * (group.means - bias)).sum(axis=1)
    return np.maximum(squares, 0) + doubt, group.means - middle[:, None]


def _sound(squares: Array, crowd: _Crowd, workers: Ints) -> Array:
    """Probability that each mask is of the object, and no lapse."""
    chance, usual, lapse = crowd.reliability[workers], crowd.variance[workers], crowd.lapse_variance
    odds = np.log(chance / (1 - chance))
    odds += 0.5 * _PIECES * (math.log(lapse) + squares / lapse - np.log(usual) - squares / usual)
    found: Array = 1 / (1 + np.exp(-np.clip(odds, -50, 50)))
    # Whoever draws worse than lapses are is no better for that being usual.
    return np.where(squares >= lapse, np.minimum(found, 1e-6), found)


def _biases(shifts: Array, n: Array, variance: Array, usual: float) -> Array:
    """Bias of each worker, drawn to the crowd's by how much workers differ, about that of the middle one.

    Where workers fall into two groups, between which the middle is nobody's, it is about the densest of them.
    """
    seen = n > 0.5
    if not seen.any():
        return np.zeros(len(n))
    mean, share = shifts[seen] / n[seen], n[seen] / n[seen].sum()
    centre, many = float((share * mean).sum()), int(seen.sum())
    between = float((share * (mean - centre) ** 2).sum()) * many / max(many - 1, 1)
    between -= float((share * variance[seen] / (_PIECES * n[seen])).sum())
    pull = np.clip(variance / (_PIECES * max(between, 1e-3 * usual)), 0.05, 1e3)
    own = shifts / (n + pull)
    width = np.sqrt(variance / np.maximum(n, 1) + 0.1 * variance)
    apart = _two_groups(own[seen], float((variance[seen] / (_PIECES * n[seen])).sum()))
    group = _core.densest(own, n + _NOTHING, width) if apart else 0.0
    biases: Array = own - (apart * group + (1 - apart) * weighted_median(own, n))
    return biases


def _two_groups(values: Array, error: float) -> float:
    """Probability that values are of two groups rather than one, by their likeliest parting; `error` is that of all.

    Normal groups of one variance, weighed by the Bayesian information criterion.
    """
    n = len(values)
    if n < 4:
        return 0.0
    ordered, left = np.sort(values - values.mean()), np.arange(1, n)
    sums, total = np.cumsum(ordered)[:-1], float((ordered**2).sum())
    within = np.maximum(total - sums**2 / left - sums**2 / (n - left), 0)
    shares = left * np.log(left / n) + (n - left) * np.log(1 - left / n)
    gain = float((n / 2 * np.log((total + error) / (within + error)) + shares).max()) - math.log(n)
    apart = 1 / (1 + math.exp(-min(max(gain, -50.0), 50.0)))
    return apart if apart > _LEAST_APART else 0.0
