"""Masks by workers whose sensitivity and specificity are learnt over all images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from manyhands import _core
from manyhands.aggregators.links import STRONGEST
from manyhands.checks import check_number, check_stopping, warn_unless_converged
from manyhands.estimator import Array
from manyhands.masks._smooth import Grid, learnt_strength
from manyhands.masks.base import Folded, Ints, MaskAggregator, MaskFit, concluded, folded, shares
from manyhands.progress import Callback
from manyhands.table import arrow
from manyhands.table.masks import Masks
from manyhands.table.regions import Runs, filled, runs_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Recalls stay this far from 0 and 1: nobody settles a pixel alone against a few others.
_EDGE = 0.02
#: What is believed of a crowd before it is seen, in images: two thirds of disputed pixels rightly.
_BELIEVED = (2.0, 1.0)
#: Improvements of the learnt prior in each pass.
_ROUNDS = 20


class STAPLE(MaskAggregator):
    """Pixels by the votes of workers whose recall of each class is learnt from all images together.

    By turns: each disputed pixel gets the class that is most probable given who marked it how, and each worker the
    rates at which they agree with these classes, over all their images, every image counting the same. Only pixels on
    which answers differ are looked at, so that neither margins nor easy interiors tell who is good: scores do not
    depend on how far an image reaches beyond its objects.

    Parameters
    ----------
    asymmetry
        How far a worker's recall of one class may depart from their recall over all: 0 for one rate a worker, 1 for a
        rate for each class, which two workers who err to the same side can capture. Sensitivity and specificity are the
        recalls of class 1 and of background.
    strength
        Imaginary images of each worker, with the crowd's rate, so that who marked few is judged like the crowd; None
        learns it from how much workers differ (empirical Bayes).
    smoothness
        By how much, as a logarithm, a neighbouring pixel of a class speaks for that class; 0 leaves pixels apart, and
        None learns it from how often neighbours agree. Pixels of the disputed region are linked as tasks are by
        :class:`~manyhands.sequences.LinkedDawidSkene`, and to their neighbours outside of it.
    max_iter, tol
        Stop after so many passes, or when no recall changes by as much as `tol`.

    Notes
    -----
    The model of Dawid and Skene and of STAPLE, with parameters shared by images and decisions in place of expectations:
    neighbouring pixels err together, so that expectations would count one boundary as thousands of witnesses. Classes
    are equally likely before anybody marked a disputed pixel, and only those that somebody gave it can be its class.
    Confidences take workers' errors for independent.

    Pixels that all workers marked alike are one column, counted. Time O(runs · answers) an image, and a pass O(columns
    · answers); memory that of the columns, 8 bytes for each and each answer, with images folded one at a time.

    References
    ----------
    S. K. Warfield, K. H. Zou and W. M. Wells, "Simultaneous truth and performance level estimation (STAPLE)", IEEE
    Transactions on Medical Imaging 23 (2004).

    Examples
    --------
    >>> import manyhands as mh
    >>> masks = mh.Masks.from_arrays([1, 1, 1], list("uvw"), [[[1, 1, 0]], [[0, 1, 0]], [[1, 1, 0]]])
    >>> mh.masks.STAPLE().fit(masks).masks_[0].astype(int).tolist()
    [[1, 1, 0]]
    """

    _learnt: ClassVar[tuple[str, ...]] = ("_recall", "_accuracy")
    _learnt_shapes: ClassVar[Mapping[str, str]] = {"_recall": "mk"}
    _recall: Array
    _accuracy: Array
    #: Parameters of the Beta distribution of workers' rates, while they are learnt.
    _prior: Array

    def __init__(
        self,
        *,
        asymmetry: float = 0.25,
        strength: float | None = None,
        smoothness: float | None = 0.0,
        max_iter: int = 300,
        tol: float = 1e-4,
    ) -> None:
        self.asymmetry = asymmetry
        self.strength = strength
        self.smoothness = smoothness
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Masks, progress: Callback | None) -> MaskFit:
        check_number("asymmetry", self.asymmetry, least=0, most=1)
        if self.strength is not None:
            check_number("strength", self.strength, least=1e-6)
        if self.smoothness is not None:
            check_number("smoothness", self.smoothness, least=0, most=STRONGEST)
        check_stopping(self.max_iter, self.tol)
        images = [image for image in map(_disputed, folded(votes)) if image is not None]
        n_iter, converged = self._learn(votes, images, progress)
        warn_unless_converged(converged, self)
        strength = self._strength(votes)
        found = []
        for image, shape in zip(folded(votes), votes.shapes.tolist(), strict=True):
            chances = self._chances(image, votes.n_classes)
            runs, sure, disputed = concluded(image, chances)
            if strength and disputed:
                runs, sure = _smoothed(_grid(image, chances, shape), runs, shape, strength)
            found.append((runs, sure, disputed))
        return MaskFit(
            runs=Runs.joined([runs for runs, _, _ in found]),
            shapes=votes.shapes,
            n_classes=votes.n_classes,
            confidence=np.array([sure for _, sure, _ in found]),
            disputed=np.array([disputed for _, _, disputed in found]),
            history=np.zeros(0),
            n_iter=n_iter,
            converged=converged,
        )

    def _learn(self, votes: Masks, images: list[Folded], progress: Callback | None) -> tuple[int, bool]:
        """Rates of workers from disputed columns; returns passes, and whether rates settled."""
        m, k = votes.n_workers, votes.n_classes
        self._accuracy, self._recall, self._prior = np.full(m, 0.5), np.full((m, k), 0.5), np.array(_BELIEVED)
        decisions = [_even_winners(shares(image, image.weights, k)) for image in images]
        if not images:
            return 1, True
        for step in range(1, self.max_iter + 1):
            before = self._recall
            self._rate(images, decisions, m, k)
            decisions = [_even_winners(self._chances(image, k)) for image in images]
            if progress is not None:
                progress(step, math.nan)
            if float(np.abs(self._recall - before).max()) < self.tol:
                return step, True
        return self.max_iter, False

    def _rate(self, images: list[Folded], decisions: list[Array], m: int, k: int) -> None:
        right, could = np.zeros((m, k)), np.zeros((m, k))
        for image, truth in zip(images, decisions, strict=True):
            share = truth * (image.pixels / image.pixels.sum())[:, None]
            for said, worker, weight in zip(image.said, image.workers, image.weights, strict=True):
                could[worker] += weight * share.sum(axis=0)
                right[worker] += weight * np.bincount(said, share[np.arange(len(said)), said], k)
        own, seen = right.sum(axis=1), could.sum(axis=1)
        if self.strength is None:
            counts = np.stack([own, np.maximum(seen - own, 0)], axis=1)
            for _ in range(_ROUNDS):
                self._prior = _core.dirichlet_step(self._prior, counts, np.array(_BELIEVED))
            pull = float(self._prior.sum())
            crowd = float(self._prior[0]) / pull
        else:
            pull = self.strength
            crowd = own.sum() / seen.sum() if seen.sum() > 0 else 0.5
        accuracy = (own + pull * crowd) / (seen + pull)
        each = (right + pull * accuracy[:, None]) / (could + pull)
        self._accuracy = np.clip(accuracy, _EDGE, 1 - _EDGE)
        recall = self.asymmetry * each + (1 - self.asymmetry) * accuracy[:, None]
        self._recall = np.clip(recall, _EDGE, 1 - _EDGE)

    def _chances(self, image: Folded, k: int) -> Array:
        """Chances of classes in each column, of those that somebody gave it, (columns, classes)."""
        right = np.log(self._recall)
        wrong = np.log((1 - self._recall) / (k - 1))
        columns = np.arange(image.said.shape[1])
        scores, given = np.zeros((len(columns), k)), np.zeros((len(columns), k), np.bool_)
        for said, worker, weight in zip(image.said, image.workers, image.weights, strict=True):
            scores += weight * wrong[worker]
            scores[columns, said] += weight * (right - wrong)[worker, said]
            given[columns, said] = True
        scores[~given] = -np.inf
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances: Array = odds / odds.sum(axis=1, keepdims=True)
        return chances

    def _strength(self, votes: Masks) -> float:
        """How strongly neighbouring pixels take after one another."""
        if self.smoothness is not None:
            return float(self.smoothness)
        images = zip(folded(votes), votes.shapes.tolist(), strict=True)
        some = (_grid(i, self._chances(i, votes.n_classes), shape) for i, shape in images if i.disputed.any())
        return learnt_strength(some)

    # ----------------------------------------------------------------------------------------------- results

    @property
    def recall_(self) -> Array:
        """Probability that each worker gives a disputed pixel its class, by class, (n_workers, n_classes)."""
        self._fitted()
        return self._recall

    @property
    def sensitivity_(self) -> Array:
        """The recall of what is not background, (n_workers,): the mean over classes where there are several."""
        self._fitted()
        marked: Array = self._recall[:, 1:].mean(axis=1)
        return marked

    @property
    def specificity_(self) -> Array:
        """The recall of background, (n_workers,)."""
        self._fitted()
        return self._recall[:, 0]

    def workers_frame(self) -> pa.Table:
        """Return one row a worker: ``n_labels``, ``accuracy``, ``sensitivity``, ``specificity``, of disputed pixels."""
        self._fitted()
        now = self._snapshot()
        rates = {"accuracy": now._accuracy, "sensitivity": now.sensitivity_, "specificity": now.specificity_}
        return arrow.table({"worker": now._workers.arrow(), "n_labels": now._n_labels, **rates})


def _grid(image: Folded, chances: Array, shape: list[int]) -> Grid:
    """The disputed pixels of an image, side by side."""
    at = np.repeat(image.columns, image.ends - image.begins).reshape(shape)
    return Grid.of(chances[at], image.disputed[at])


def _smoothed(
    grid: Grid, runs: tuple[Ints, Ints, Ints], shape: list[int], strength: float
) -> tuple[tuple[Ints, Ints, Ints], float]:
    """Runs and confidence of an image whose disputed pixels take after their neighbours."""
    found = grid.smoothed(strength)
    pixels = filled(runs, tuple(shape), np.uint16)
    pixels[grid.disputed] = found.argmax(axis=1)
    return runs_of(pixels, "a mask"), min(float(found.max(axis=1).mean()), 1.0)


def _disputed(image: Folded) -> Folded | None:
    """The columns of an image on which answers differ, without its stretches; None where there are none."""
    kept = image.disputed
    nothing = np.zeros(0, np.int64)
    if not kept.any():
        return None
    return Folded(image.said[:, kept], image.pixels[kept], image.workers, image.weights, nothing, nothing, nothing)


def _even_winners(chances: Array) -> Array:
    """All for the most probable class of each column, shared evenly among equals."""
    best = chances >= chances.max(axis=1, keepdims=True) - 1e-9
    found: Array = best / best.sum(axis=1, keepdims=True)
    return found
