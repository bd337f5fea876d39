"""Dawid–Skene with prior beliefs about workers: stated ones (Bayesian), or learnt from the crowd (hierarchical)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands.aggregators.em import FASTER, MODELS, class_pseudo, gold_codes, probabilities, row_pseudo
from manyhands.annotations import Annotations
from manyhands.base import Aggregator, Array, Fit
from manyhands.checks import check_between, check_choice, check_number, check_stopping, warn_unless_converged
from manyhands.progress import Callback

_STARTS = ("protected", "majority", "shares")
_INTERVALS = ("accuracy", "confusion", "prior")


class BayesianDawidSkene(Aggregator):
    """Dawid–Skene with Dirichlet priors on confusion rows and classes (IBCC), by variational Bayes.

    The posterior is approximated by a product: a distribution over classes for each task, a Dirichlet distribution for
    each row of each confusion matrix and one for the class prior. Each pass improves the evidence lower bound, which is
    the objective. Point estimates (`confusion_`, `prior_`) are posterior means, and :meth:`credible_interval` says how
    sure they are.

    Parameters
    ----------
    method
        ``"vb"``, mean-field variational Bayes.
    model
        A worker's confusion matrix, as in :class:`DawidSkene`: ``"full"``, ``"class"`` or ``"one-coin"``.
    init
        Where to start: ``"protected"`` (one accuracy for everybody, and at first no class for a task that nobody voted
        for, see `protected`), ``"majority"``, ``"shares"``, an (n_tasks, n_classes) array of posteriors, or any
        aggregator: as it was fitted, or if it was not, fitted to the same votes first.
    pseudo_count
        Parameters of the Dirichlet prior of a row, all positive. A pair ``(right, wrong)``: so much on the diagonal
        and so much spread over the errors, which means the same for any number of classes; the one accuracy of
        ``"one-coin"`` has a Beta(right, wrong) prior. A number: spread evenly over the row. An (n_classes, n_classes)
        array: as it says.
    class_pseudo_count
        Parameters of the Dirichlet prior of the classes: a number spread evenly, or an (n_classes,) array.
    gold
        Known classes of some tasks, as in :class:`DawidSkene`.
    protected
        Most passes of a protected start, before those that `max_iter` counts, in which a task keeps to the classes that
        were voted for.
    accelerate
        Extrapolate between passes, as in :class:`DawidSkene`.
    max_iter, tol
        Stop after so many passes, or when the bound changes by less than `tol` of itself.

    Notes
    -----
    Time per pass as :class:`DawidSkene`, and O(workers · classes²) digamma functions for ``"full"``; memory likewise.
    Mean-field posteriors are narrower than the true ones: tasks and workers are taken to be independent.

    References
    ----------
    H.-C. Kim and Z. Ghahramani, "Bayesian classifier combination", AISTATS (2012). E. Simpson, S. Roberts, I. Psorakis
    and A. Smith, "Dynamic Bayesian combination of multiple imperfect classifiers" (2013).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 20, 3, labels_per_task=5, seed=1)
    >>> model = mh.BayesianDawidSkene().fit(crowd.votes)
    >>> low, high = model.credible_interval("accuracy", level=0.9).T
    >>> bool((low < high).all())
    True
    """

    _learnt: ClassVar[tuple[str, ...]] = ("_concentration", "_class_concentration")
    _learnt_shapes: ClassVar[Mapping[str, str]] = {"_concentration": "mkk", "_class_concentration": "k"}

    def __init__(
        self,
        *,
        method: str = "vb",
        model: str = "full",
        init: Any = "protected",
        pseudo_count: float | tuple[float, float] | npt.ArrayLike = (2.0, 1.0),
        class_pseudo_count: float | npt.ArrayLike = 1.0,
        gold: Any = None,
        protected: int = 20,
        accelerate: bool = False,
        max_iter: int = 200,
        tol: float = 1e-6,
    ) -> None:
        self.method = method
        self.model = model
        self.init = init
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.gold = gold
        self.protected = protected
        self.accelerate = accelerate
        self.max_iter = max_iter
        self.tol = tol

    @property
    def concentration_(self) -> Array:
        """Parameters of the Dirichlet posteriors of confusion rows, (n_workers, n_classes true, n_classes observed).

        For ``model="class"`` a row says (right, wrong), the latter spread evenly; for ``"one-coin"`` all rows together.
        """
        self._fitted()
        return self._concentration

    @property
    def class_concentration_(self) -> Array:
        """Parameters of the Dirichlet posterior of the class prior, (n_classes,)."""
        self._fitted()
        return self._class_concentration

    def credible_interval(self, what: str = "accuracy", *, level: float = 0.95) -> Array:
        """Central credible intervals, lower and upper ends along a last axis of two.

        ``"accuracy"``, (n_workers, 2): the expected share of right answers under the class prior, by the Beta
        distribution with its mean and variance. ``"confusion"``, (n_workers, n_classes, n_classes, 2), and ``"prior"``,
        (n_classes, 2): Beta marginals of the Dirichlet posteriors. With one class there is nothing to doubt.
        """
        self._fitted()
        check_choice("what", what, _INTERVALS)
        check_between("level", level)
        scale = np.ones(1)
        if what == "prior":
            hits, misses = _marginals(self._class_concentration)
        elif what == "confusion":
            hits, misses, scale = self._cells()
        else:
            hits, misses = self._accuracies()
        tails = ((1 - level) / 2, (1 + level) / 2)
        return np.stack([scale * _core.beta_quantile(hits, misses, tail) for tail in tails], axis=-1)

    def _cells(self) -> tuple[Array, Array, Array]:
        """Beta parameters of each entry of each confusion matrix, and what multiplies the variable."""
        k = len(self._class_concentration)
        if self.model == "full":
            return *_marginals(self._concentration), np.ones(1)
        # A row says (right, wrong), or for one accuracy all rows together do.
        right = np.diagonal(self._concentration, axis1=1, axis2=2)
        wrong = self._concentration.sum(axis=2) - right
        if self.model == "one-coin":
            right, wrong = (np.repeat(part.sum(axis=1, keepdims=True), k, axis=1) for part in (right, wrong))
        diagonal = np.eye(k, dtype=bool)
        hits = np.where(diagonal, right[:, :, None], wrong[:, :, None])
        misses = np.where(diagonal, wrong[:, :, None], right[:, :, None])
        return hits, misses, np.where(diagonal, 1.0, 1.0 / max(k - 1, 1))

    def _accuracies(self) -> tuple[Array, Array]:
        """Beta parameters with the mean and variance of each worker's accuracy."""
        right, wrong = (np.ascontiguousarray(np.diagonal(part, axis1=1, axis2=2)) for part in self._cells()[:2])
        if self.model == "one-coin":
            return right[:, 0].copy(), wrong[:, 0].copy()
        total = right + wrong
        mean = (right / total) @ self.prior_
        variance = (right * wrong / (total**2 * (total + 1))) @ self.prior_**2
        certain = variance <= 0
        size = np.where(certain, 1.0, mean * (1 - mean) / np.where(certain, 1.0, variance) - 1)
        return mean * size, (1 - mean) * size

    def _iterations(self) -> int | None:
        return self.max_iter + (self.protected if isinstance(self.init, str) and self.init == "protected" else 0)

    def _fit(self, votes: Annotations, progress: Callback | None) -> Fit:
        check_choice("method", self.method, ("vb",))
        check_choice("model", self.model, MODELS)
        check_number("protected", self.protected, least=0, whole=True)
        check_stopping(self.max_iter, self.tol)
        k = votes.n_classes
        pseudo = row_pseudo(self.pseudo_count, k)
        found = _core.bayes_fit(
            votes._table,
            model=self.model,
            **self._start(votes),
            pseudo=_positive(pseudo / k if self.model == "one-coin" else pseudo, "pseudo_count"),
            class_pseudo=_positive(class_pseudo(self.class_pseudo_count, k), "class_pseudo_count"),
            gold=None if self.gold is None else gold_codes(votes, self.gold),
            protected=self.protected,
            accelerate=bool(self.accelerate),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        self._concentration = found["concentration"]
        self._class_concentration = found["class_concentration"]
        warn_unless_converged(found["converged"], self, FASTER)
        return common_part(found)

    def _start(self, votes: Annotations) -> dict[str, Any]:
        """Arguments of the core that say where to start."""
        init = self.init
        if isinstance(init, str):
            check_choice("init", init, _STARTS)
            return {"start": init}
        if isinstance(init, Aggregator):
            # A model that was given stays as it is.
            posterior = init.predict_proba(votes) if init._result else init._fit(votes, None).posterior
        else:
            posterior = probabilities(init, (votes.n_tasks, votes.n_classes), "the posterior given as init")
        return {"start": "", "posterior": posterior}

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        concentration = self._carried_over(self._concentration, known)
        return _core.bayes_posterior(table, self.model, self._class_concentration, concentration)


def common_part(found: _core._EmFit) -> Fit:
    """What all fits of the core have in common."""
    return Fit(
        posterior=found["posterior"],
        confusion=found["confusion"],
        prior=found["prior"],
        history=found["history"],
        n_iter=found["n_iter"],
        converged=found["converged"],
    )


def _positive(counts: Array, what: str) -> Array:
    if (counts <= 0).any():
        raise ValueError(f"{what} holds parameters of Dirichlet priors, which must be positive")
    return counts


def _marginals(concentration: Array) -> tuple[Array, Array]:
    """Beta parameters of each entry of Dirichlet distributions along the last axis."""
    rest = concentration.sum(axis=-1, keepdims=True) - concentration
    # With one class nothing is left but rounding.
    return concentration, rest if concentration.shape[-1] > 1 else np.zeros_like(rest)
