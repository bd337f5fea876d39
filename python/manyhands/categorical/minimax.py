"""Minimax conditional entropy: workers and tasks that confuse classes, each in their own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_positive, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, number, numbers, setting
from manyhands._base.progress import Callback
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations

#: Penalty of workers over the square of the number of classes: the authors' own setting (see `MinimaxEntropy`).
_PENALTY = 0.25


@dataclass(frozen=True, kw_only=True)
class MinimaxFit(ClassFit):
    """Classes, and how workers and tasks confuse them."""

    sigma: Array = field(metadata=numbers("mkk"))
    tau: Array = field(metadata=numbers("nkk"))
    task_penalty: float = field(metadata=number())
    #: As it was in the fit: later `set_params` do not change the answers of a fitted model.
    ordinal: bool = field(metadata=setting(bool))


class MinimaxEntropy(Aggregator):
    """Minimax conditional entropy: a confusion matrix for each worker, and one for each task.

    Worker ``m`` answers ``l`` on task ``n`` of class ``c`` with a probability proportional to
    ``exp(tau_[n, c, l] + sigma_[m, c, l])``. Of all distributions that confuse classes as much as each worker, and each
    task, was seen to do, this is the one of greatest entropy; classes are chosen so that this entropy is least. A task
    that misleads all workers towards the same wrong class is the task's fault here, and not held against the workers.

    Parameters
    ----------
    ordinal : bool, default False
        Whether classes are ordered, as in the votes' ``classes``. Matrices are then sums over the places between two
        neighboring classes of four numbers each (truth and label below the place or not), so that near classes are
        confused sooner than far ones: 4 · (classes - 1) numbers instead of classes².
    worker_penalty : float or None, default None
        What half a square of ``sigma_`` costs (where classes are ordered: of the numbers it is a sum of); None for
        ``0.25 · n_classes²``.
    task_penalty : float or None, default None
        The same for ``tau_``; None for `worker_penalty` times labels a worker over labels a task, so that a number of a
        task, which has fewer labels to learn from, is held back more. Both are as in the demonstration that the authors
        publish with their code, where cross-validation may also choose another factor than 0.25, up to 4.
    max_iter, tol
        Stop after `max_iter` iterations, or when the objective changes by less than `tol` of itself.

    Attributes
    ----------
    sigma_ : ndarray of shape (n_workers, n_classes, n_classes)
        How each worker confuses classes (truth, label), as logarithms of factors; zeros for answers at random.
    tau_ : ndarray of shape (n_tasks, n_classes, n_classes)
        The same for each task; zeros for a task without confusions of its own.

    Notes
    -----
    The objective is the dual of the minimax problem: the log-likelihood of the labels with classes summed out, less
    half the penalties times the squares. It is maximized from vote shares and never falls: in a pass each worker takes
    a step of Newton's method given the posteriors, then each task one with its posterior summed out, both halved until
    their part of the objective does not fall. There may be several summits.

    Time per pass O(annotations · classes³) while posteriors are open and O(annotations · classes²) when they are sharp,
    and O((tasks + workers) · classes⁴) for solving. Memory next to the table: 16 · classes² bytes for each task and
    each worker, half of which are the results, and the table in worker order (5 to 6 bytes per annotation). More than
    16 GiB are rejected before the work starts.

    ``confusion_`` has each worker's probabilities averaged over the tasks that worker labeled. ``predict_proba`` finds
    the most probable ``tau`` of every task again, given ``sigma_``.

    References
    ----------
    D. Zhou, S. Basu, Y. Mao and J. Platt, "Learning from the wisdom of crowds by minimax entropy", NIPS (2012).
    D. Zhou, Q. Liu, J. Platt and C. Meek, "Aggregating ordinal labels from crowds by minimax conditional entropy", ICML
    (2014). D. Zhou, Q. Liu, J. Platt, C. Meek and N. Shah, "Regularized minimax conditional entropy for crowdsourcing",
    arXiv:1503.07240 (2015).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [2, 2, 0], [0, 0, 0], [1, 1, 2], [2, 2, 2]])
    >>> model = mh.categorical.MinimaxEntropy().fit(votes)
    >>> model.labels_.tolist()
    [0, 1, 2, 0, 1, 2]
    >>> model.tau_.shape, int(mh.metrics.skill(model.confusion_, model.prior_).argmin())
    ((6, 3, 3), 2)
    """

    _fit_type: ClassVar[type[Fit]] = MinimaxFit
    _skipped_checks: ClassVar[Mapping[str, str]] = {
        "predict_repeats_fit": "prediction estimates the task numbers again"
    }

    def __init__(
        self,
        *,
        ordinal: bool = False,
        worker_penalty: float | None = None,
        task_penalty: float | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> None:
        self.ordinal = ordinal
        self.worker_penalty = worker_penalty
        self.task_penalty = task_penalty
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_stopping(self.max_iter, self.tol)
        if not isinstance(self.ordinal, bool):
            raise TypeError(f"ordinal must be True or False, not {self.ordinal!r}")
        worker_penalty, task_penalty = self._penalties(votes)
        result = votes.table.minimax_fit(
            ordinal=self.ordinal,
            worker_penalty=worker_penalty,
            task_penalty=task_penalty,
            max_iter=self.max_iter,
            tol=float(self.tol),
            progress=progress,
        )
        warn_unless_converged(result["converged"], self)
        return MinimaxFit.of(
            sigma=result["sigma"],
            tau=result["tau"],
            task_penalty=task_penalty,
            ordinal=self.ordinal,
            posterior=result["posterior"],
            confusion=result["confusion"],
            prior=np.full(votes.n_classes, 1 / votes.n_classes),
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
        )

    def _penalties(self, votes: Annotations) -> tuple[float, float]:
        """Those of workers and of tasks."""
        for name in ("worker_penalty", "task_penalty"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        worker = _PENALTY * votes.n_classes**2 if self.worker_penalty is None else float(self.worker_penalty)
        if self.task_penalty is not None:
            return worker, float(self.task_penalty)
        return worker, worker * votes.n_tasks / votes.n_workers

    @property
    def sigma_(self) -> Array:
        """How each worker confuses classes, as logarithms of factors, (n_workers, n_classes, n_classes)."""
        return self._fitted().fit_as(MinimaxFit).sigma

    @property
    def tau_(self) -> Array:
        """How each task confuses classes, as logarithms of factors, (n_tasks, n_classes, n_classes)."""
        return self._fitted().fit_as(MinimaxFit).tau

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(MinimaxFit)
        sigma = self._carried_over(fit.sigma, known)
        return table.minimax_posterior(sigma, ordinal=fit.ordinal, task_penalty=fit.task_penalty)
