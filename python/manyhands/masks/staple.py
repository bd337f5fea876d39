"""STAPLE: pixel votes weighted by worker recall per class."""

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
from manyhands.masks._smooth import smooth_disputed
from manyhands.masks.base import MaskAggregator, MaskFit, mask_fit_of, packed_runs, weights_of
from manyhands.masks.table import Masks

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class STAPLEFit(MaskFit):
    """Estimated masks, and worker rates on disputed pixels."""

    recall: Array = field(metadata=numbers("mk"))
    accuracy: Array = field(metadata=numbers("m"))

    def marked_recall(self) -> Array:
        """Mean recall of the non-background classes."""
        marked: Array = self.recall[:, 1:].mean(axis=1)
        return marked


class STAPLE(MaskAggregator):
    """STAPLE: votes on disputed pixels, weighted by each worker's recall per class over all images.

    Use it for thin or scattered structures, where outlines are not informative; for compact objects,
    :class:`ShapeCrowd` is usually better.

    Parameters
    ----------
    asymmetry : float, default 0.25
        How much the recall of a class may differ from a worker's overall recall: 0 is one rate per worker, 1 a separate
        rate per class (which two workers with the same tendency can dominate). Sensitivity and specificity are the
        recalls of class 1 and of background.
    strength : float or None, default None
        Prior strength of worker rates, as a pseudo-count of images with the average rate. None estimates it (empirical
        Bayes).
    smoothness : float or None, default 0.0
        Coupling of neighboring pixels as log-odds, as in :class:`~manyhands.sequences.LinkedDawidSkene`. 0 treats
        pixels as independent; None estimates it.
    max_iter : int, default 300
        Maximum number of iterations.
    tol : float, default 1e-4
        Change of the recalls at which the fit has converged.

    Notes
    -----
    Time O(runs · answers) per image, plus O(columns · answers) per iteration, where a column is a set of pixels that
    all workers marked alike. Memory: 2 bytes per column and answer.

    Pixel classes and worker rates are updated in turn; every image has the same weight. Only disputed pixels are used,
    so scores do not depend on margins and easy interiors. The model is that of Dawid and Skene and of STAPLE, with
    hard decisions instead of expectations: errors of neighboring pixels are correlated, so expectations would count a
    boundary as thousands of independent observations. The prior is uniform over the classes that a worker gave to the
    pixel. Confidences assume independent worker errors.

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
        # Classes that do not occur are not possible errors.
        offsets, shapes, starts, begins, ends, classes = packed_runs(votes)
        used_classes = np.union1d([0], classes)
        used_classes = np.union1d(used_classes, [1]) if len(used_classes) == 1 else used_classes
        result = _core.staple(
            (offsets, shapes, starts, begins, ends, np.searchsorted(used_classes, classes)),
            votes.table.columns()[1].astype(np.uint32),
            weights_of(votes),
            votes.n_workers,
            len(used_classes),
            asymmetry=float(self.asymmetry),
            strength=None if self.strength is None else float(self.strength),
            max_iter=self.max_iter,
            tol=float(self.tol),
            chances=smooth,
            progress=progress,
        )
        warn_unless_converged(result["converged"], self)
        result["classes"] = used_classes[result["classes"]]
        recall = np.repeat(result["accuracy"][:, None], votes.n_classes, axis=1)
        recall[:, used_classes] = result["recall"]
        fit = mask_fit_of(votes, result, n_iter=result["n_iter"], converged=result["converged"])
        fit = smooth_disputed(votes, fit, result["chances"], used_classes, self.smoothness) if smooth else fit
        return STAPLEFit(**vars(fit), recall=recall, accuracy=result["accuracy"])

    # ----------------------------------------------------------------------------------------------- results

    @property
    def class_recall_(self) -> Array:
        """Recall of each worker on disputed pixels, by class, shape (n_workers, n_classes)."""
        return self._fitted().fit_as(STAPLEFit).recall

    @property
    def recall_(self) -> Array:
        """Mean recall of the non-background classes, shape (n_workers,)."""
        return self._fitted().fit_as(STAPLEFit).marked_recall()

    @property
    def specificity_(self) -> Array:
        """Recall of the background, shape (n_workers,)."""
        return self._fitted().fit_as(STAPLEFit).recall[:, 0]

    def _skills(self) -> Columns:
        fit = self._fitted().fit_as(STAPLEFit)
        return {"skill": fit.accuracy, "recall": fit.marked_recall(), "specificity": fit.recall[:, 0]}
