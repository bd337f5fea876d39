"""Models whose memory does not grow with the number of classes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice, check_number, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, part
from manyhands._base.progress import Callback
from manyhands.categorical._confusion import Confusion, OneCoin
from manyhands.categorical._posterior import Candidates, Posterior
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations, as_annotations

if TYPE_CHECKING:
    import pyarrow as pa

_STARTS = ("majority", "shares")


@dataclass(frozen=True, kw_only=True)
class SparseFit(ClassFit):
    """Candidates of tasks, and one accuracy per worker."""

    posterior: Posterior = field(metadata=part(Candidates))
    confusion: Confusion = field(metadata=part(OneCoin))


class SparseOneCoin(Aggregator):
    """Dawid–Skene with one accuracy per worker, for thousands of classes: cost scales with the labels given.

    The model is that of ``DawidSkene(model="one-coin")``, and so are the steps of EM, without approximation: a worker
    is right with one probability, and errs towards all other classes alike, so a label speaks for the class it names
    and no other. Classes that no worker named on a task keep the proportions of the prior; they need one number
    together.

    Results have the names that they have elsewhere. `posterior_`, `confusion_` and `predict_proba` are made in full
    when they are asked for, and rejected where they cannot fit in memory; :meth:`candidates` and `accuracy_` hold the
    same.

    Parameters
    ----------
    init : str, default "majority"
        Where to start: ``"majority"`` (the majority class, divided among classes that tie) or ``"shares"`` (vote
        shares).
    pseudo_count
        Pseudo-counts of each worker, as a pair ``(right, wrong)``: a Beta prior. `DawidSkene`, which takes them
        for each of K rows, means the same by ``(right / K, wrong / K)``.
    class_pseudo_count : float, default 0.0
        Pseudo-counts of the class prior, spread evenly over the classes.
    max_iter, tol
        Stop after `max_iter` iterations, or when the objective changes by less than `tol` of itself.

    Notes
    -----
    Time per pass O(annotations), whatever the number of classes. Memory next to the table: about 14 bytes
    for each different label on a task, 28 a task, 8 a worker and class, and at most 8 bytes per annotation (or 32 MB,
    if that is more) while it runs. A million annotations with 10,000 classes: see docs/many-classes.md. Answers are
    the same bits on any number of threads.

    References
    ----------
    A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
    Applied Statistics 28 (1979).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(1000, 20, 500, labels_per_task=5, seed=1)
    >>> model = mh.categorical.SparseOneCoin().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.9
    True
    >>> model.candidates().column_names, len(model.candidates()) < 5000
    (['task', 'label', 'probability'], True)
    """

    _posterior_kept: ClassVar[type[Posterior]] = Candidates
    _fit_type: ClassVar[type[Fit]] = SparseFit

    def __init__(
        self,
        *,
        init: str = "majority",
        pseudo_count: tuple[float, float] = (1.0, 0.1),
        class_pseudo_count: float = 0.0,
        max_iter: int = 100,
        tol: float = 1e-6,
    ) -> None:
        self.init = init
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.max_iter = max_iter
        self.tol = tol

    # ------------------------------------------------------------------------------------------------ results

    @property
    def accuracy_(self) -> Array:
        """Accuracy of each worker, (n_workers,)."""
        now = copy(self)
        return now._errors().worth(now.prior_, now._n_labels).skill

    @property
    def rest_(self) -> Array:
        """Probability that a task has a class which no worker named on it, (n_tasks,)."""
        return _candidates(self._fitted().fit.posterior).rest

    def candidates(self, votes: Any = None) -> pa.Table:
        """Return the classes named on each task and their probabilities, as an Arrow table: task, label, probability.

        What they leave of one, `rest_`, belongs to all other classes in proportion to `prior_`.

        Parameters
        ----------
        votes
            Other annotations, as for :meth:`predict_proba`; None for those of the fit.
        """
        self._fitted()
        now = copy(self)
        if votes is None:
            return _candidates(now._fitted().fit.posterior).frame(now._tasks, now._classes)
        votes = as_annotations(votes)
        return _candidates(now._expected(votes)).frame(votes._tasks, now._classes)

    # ---------------------------------------------------------------------------------------------------- fit

    def _bytes(self, votes: Annotations) -> int:
        return 8 * (votes.n_annotations + votes.n_tasks + votes.n_workers + votes.n_classes)

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_choice("init", self.init, _STARTS)
        check_stopping(self.max_iter, self.tol)
        pair = self.pseudo_count
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"pseudo_count must be a pair (right, wrong), not {pair!r}")
        for value in pair:
            check_number("pseudo_count", value, least=0)
        check_number("class_pseudo_count", self.class_pseudo_count, least=0)
        result = votes.table.sparse_fit(
            start=self.init,
            pseudo=(float(pair[0]), float(pair[1])),
            class_pseudo=float(self.class_pseudo_count) / votes.n_classes,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        warn_unless_converged(result["converged"], self)
        return SparseFit(
            posterior=Candidates.of(result),
            confusion=OneCoin(result["accuracy"], votes.n_classes),
            prior=result["prior"],
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
        )

    # --------------------------------------------------------------------------------------------- prediction

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Posterior:
        result = table.sparse_fit(
            start="",
            pseudo=(0.0, 0.0),
            class_pseudo=0.0,
            max_iter=0,
            tol=0.0,
            prior=self.prior_,
            accuracy=self._carried_over(self.accuracy_, known),
        )
        return Candidates.of(result)


def _candidates(posterior: Posterior) -> Candidates:
    assert isinstance(posterior, Candidates)  # a `SparseOneCoin` makes no others
    return posterior
