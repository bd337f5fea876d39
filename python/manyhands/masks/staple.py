"""Masks by workers whose recall and specificity are learnt over all images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from manyhands import _core
from manyhands._base.checks import check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.categorical._linked import STRONGEST
from manyhands.masks._smooth import smoothed
from manyhands.masks.base import MaskAggregator, MaskFit, decided, packed_runs, weights_of
from manyhands.masks.table import Masks

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class STAPLEFit(MaskFit):
    """Masks, and how workers do on disputed pixels."""

    recall: Array = field(metadata=numbers("mk"))
    accuracy: Array = field(metadata=numbers("m"))

    def marked_recall(self) -> Array:
        """The mean recall of the classes that are not background."""
        marked: Array = self.recall[:, 1:].mean(axis=1)
        return marked


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
    · answers); memory 2 bytes for each column and answer.

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

    _fit_type: ClassVar[type[Fit]] = STAPLEFit

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
        smooth = self.smoothness != 0
        # Classes that nobody gave are no way to err.
        offsets, shapes, starts, begins, ends, classes = packed_runs(votes)
        given = np.union1d([0], classes)
        given = np.union1d(given, [1]) if len(given) == 1 else given
        found = _core.staple(
            (offsets, shapes, starts, begins, ends, np.searchsorted(given, classes)),
            votes.table.columns()[1].astype(np.uint32),
            weights_of(votes),
            votes.n_workers,
            len(given),
            asymmetry=float(self.asymmetry),
            strength=None if self.strength is None else float(self.strength),
            max_iter=self.max_iter,
            tol=float(self.tol),
            chances=smooth,
            progress=progress,
        )
        warn_unless_converged(found["converged"], self)
        found["classes"] = given[found["classes"]]
        recall = np.repeat(found["accuracy"][:, None], votes.n_classes, axis=1)
        recall[:, given] = found["recall"]
        fit = decided(votes, found, n_iter=found["n_iter"], converged=found["converged"])
        fit = smoothed(votes, fit, found["chances"], given, self.smoothness) if smooth else fit
        return STAPLEFit(**vars(fit), recall=recall, accuracy=found["accuracy"])

    # ----------------------------------------------------------------------------------------------- results

    @property
    def class_recall_(self) -> Array:
        """Probability that each worker gives a disputed pixel its class, by class, (n_workers, n_classes)."""
        return self._fitted().fit_as(STAPLEFit).recall

    @property
    def recall_(self) -> Array:
        """The recall of what is not background, (n_workers,): the mean over classes where there are several."""
        return self._fitted().fit_as(STAPLEFit).marked_recall()

    @property
    def specificity_(self) -> Array:
        """The recall of background, (n_workers,)."""
        return self._fitted().fit_as(STAPLEFit).recall[:, 0]

    def _skills(self) -> Columns:
        fit = self._fitted().fit_as(STAPLEFit)
        return {"skill": fit.accuracy, "recall": fit.marked_recall(), "specificity": fit.recall[:, 0]}
