"""Workers with thresholds of their own between ordered classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice, check_strength
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, number, numbers
from manyhands._base.progress import Callback
from manyhands.categorical.base import ClassFit, fit_of
from manyhands.categorical.hierarchical import Hierarchical
from manyhands.categorical.table import Annotations
from manyhands.ordinal.decisions import DECISIONS, DecidedFit, Ordinal, order_remarks


@dataclass(frozen=True, kw_only=True)
class OrdinalFit(DecidedFit):
    """Thresholds and slopes of workers, and their mean and covariance in the crowd."""

    theta: Array = field(metadata=numbers("mk"))
    mean: Array = field(metadata=numbers("k"))
    covariance: Array = field(metadata=numbers("kk"))
    strength: float = field(metadata=number(infinite=True))


class OrdinalCrowd(Ordinal, Hierarchical):
    """Ordered logits: each worker has a slope and thresholds between the classes, drawn around the crowd's.

    Worker ``m`` names a class of at most ``l``, of a task of class ``k``, with probability ``F(thresholds_[m, l] -
    slopes_[m] · (k - (n_classes - 1) / 2))``, F the logistic function: near mistakes are likelier than far ones, a
    lenient worker has thresholds further down, and one with a slope of 0 does not look. These numbers are drawn from a
    normal distribution, whose mean and covariance are learned, so that a worker with few labels resembles the crowd.
    Rows of a worker's confusion matrix scatter around these means with a strength that is learned too: infinite, errors
    follow the order and nothing else; near zero, each row is free as in Dawid–Skene.

    Parameters
    ----------
    strength : float or None, default None
        How many pseudo-counts the mean of a row counts for; None to learn it.
    decision : str, default "median"
        ``"median"``, ``"mean"`` or ``"mode"``, as for :func:`manyhands.ordinal.decide`.
    class_pseudo_count, gold, protected, max_iter, tol
        As in :class:`~manyhands.categorical.HierarchicalDawidSkene`.

    Notes
    -----
    Between passes each worker takes five steps of Newton's method (Fisher scoring, halved where they would not ascend)
    towards the most probable numbers given expected draws from the mean; mean and covariance of the crowd follow with
    Laplace's approximation, with pseudo-counts of one worker and an inverse Wishart prior worth a worker more than
    there are classes; strength by Minka's fixed point. One pseudo-count per class, as the crowd would give it, keeps
    thresholds apart. Reversing the order of classes reverses the answer. There is no objective.

    Time per pass as :class:`~manyhands.DawidSkene`, and O(workers · classes³); memory likewise. Of more than some
    dozens of classes take numbers instead (:class:`~manyhands.Ratings`).

    References
    ----------
    P. McCullagh, "Regression models for ordinal data", JRSS B 42 (1980). V. Raykar et al., "Learning from crowds", JMLR
    11 (2010), for other models of ordered labels.

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[1, 1, 2], [3, 2, 3], [5, 4, 4], [2, 1, 2], [4, 5, 5]], ordered=True)
    >>> model = mh.ordinal.OrdinalCrowd().fit(votes)
    >>> model.thresholds_.shape, model.slopes_.shape
    ((3, 4), (3,))
    """

    _fit_type: ClassVar[type[Fit]] = OrdinalFit

    def __init__(
        self,
        *,
        strength: float | None = None,
        decision: str = "median",
        class_pseudo_count: float | npt.ArrayLike = 1.0,
        gold: Any = None,
        protected: int = 20,
        max_iter: int = 5,
        tol: float = 1e-6,
    ) -> None:
        super().__init__(
            class_pseudo_count=class_pseudo_count, gold=gold, protected=protected, max_iter=max_iter, tol=tol
        )
        self.strength = strength
        self.decision = decision

    @property
    def thresholds_(self) -> Array:
        """Thresholds of each worker, (n_workers, n_classes - 1), ascending."""
        return self._fitted().fit_as(OrdinalFit).theta[:, :-1]

    @property
    def slopes_(self) -> Array:
        """Slope of each worker, (n_workers,): how well they separate the classes; 0 for a worker who guesses."""
        return self._fitted().fit_as(OrdinalFit).theta[:, -1]

    @property
    def crowd_(self) -> tuple[Array, Array]:
        """Mean and covariance of thresholds and slope in the crowd, (n_classes,) and (n_classes, n_classes)."""
        fit = self._fitted().fit_as(OrdinalFit)
        return fit.mean, fit.covariance

    @property
    def strength_(self) -> float:
        """Number of pseudo-counts that the mean of a row counts for."""
        return self._fitted().fit_as(OrdinalFit).strength

    def _prior(self) -> tuple[str, float | None]:
        return "ordered", check_strength(self.strength)

    def _fit_of(self, found: _core._HierarchyFit) -> ClassFit:
        return fit_of(
            found,
            kind=OrdinalFit,
            theta=found["thresholds"],
            mean=found["mean"],
            covariance=found["covariance"],
            strength=found["strength"],
            decision=self.decision,
        )

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_choice("decision", self.decision, DECISIONS)
        fit = super()._fit(votes, progress)
        return replace(fit, remarks=(*fit.remarks, *order_remarks(votes)))
