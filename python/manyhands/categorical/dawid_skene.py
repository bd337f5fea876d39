"""Dawid–Skene models fitted by expectation–maximization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_choice, check_number, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.progress import Callback
from manyhands.categorical._priors import class_pseudo, counts, probabilities, row_pseudo, with_gold
from manyhands.categorical._streamed import solve
from manyhands.categorical.base import Aggregator, ClassFit, best_of, fit_of
from manyhands.categorical.table import Annotations

MODELS = ("full", "class", "one-coin")
#: What helps where passes were too few.
FASTER = "raise max_iter, or set accelerate=True"
#: Least probability in a start from counts.
_FLOOR = 1e-30
_ASSIGNMENTS = ("soft", "hard", "hard-then-soft")
_STARTS = ("majority", "shares")
#: A start that is computed here.
_COUNTS = "label-counts"
#: Moment methods whose parameters serve as a start, by class name.
_FITTED_STARTS = {"multispa": "MultiSPA", "spectral": "SpectralDS"}


class DawidSkene(Aggregator):
    """Dawid–Skene: classes and workers' confusion matrices, learned together by EM.

    Task ``n`` has class ``k`` with probability ``prior_[k]``, and worker ``m`` then answers ``l`` with probability
    ``confusion_[m, k, l]``, independently of the others. EM alternates between the class posteriors given the
    parameters and the parameters given the posteriors (normalized expected counts); the penalized log-likelihood never
    falls.

    Parameters
    ----------
    model : str, default "full"
        A worker's confusion matrix: ``"full"``, free; ``"class"``, one accuracy per class with errors spread evenly;
        ``"one-coin"``, one accuracy.
    assignment : str, default "soft"
        ``"soft"`` posteriors in the M-step (EM), ``"hard"`` ones (each task wholly to its best class: fewer, cruder
        iterations), or ``"hard-then-soft"``. Reported posteriors are soft in any case.
    init
        Where to start: ``"majority"`` (the majority class, divided among classes that tie), ``"shares"`` (vote shares),
        ``"label-counts"`` (posteriors under the frequencies of labels as prior, and each worker's joint frequencies of
        the majority class and the label as confusion matrix),
        ``"multispa"`` or ``"spectral"`` (the parameters that `MultiSPA` or `SpectralDS` finds from moments: no local
        optimum near a poor majority), an (n_tasks, n_classes) array of posteriors, a pair (prior, confusion) of
        parameters, or any aggregator: as it was fitted, or if it was not, fitted to the same votes first.
    restarts : int, default 0
        Further runs from random starts (one of each task's labels, drawn at random); the best objective wins.
    pseudo_count
        Pseudo-counts added to each row of each confusion matrix (a Dirichlet prior). A pair ``(right, wrong)``:
        the first on the diagonal, the second spread over the errors. A number: spread evenly over the row. An
        (n_classes, n_classes) array: used as is. 0 for plain maximum likelihood.
    class_pseudo_count : float or array-like, default 0.0
        Pseudo-counts of the class prior, spread evenly over the classes, or an (n_classes,) array.
    worker_prior : mapping or None, default None
        Pseudo-counts of particular workers, as a mapping from worker to an (n_classes, n_classes) array; they
        replace `pseudo_count` for those workers.
    gold
        Known classes of some tasks: a mapping from task to class, a pair of arrays, or a frame with columns task and
        label. They are fixed throughout.
    accelerate : bool, default False
        Extrapolate between passes (SQUAREM), which takes fewer passes to the same objective.
    max_iter, tol
        Stop after `max_iter` iterations, or when the objective changes by less than `tol` of itself.
    seed : int, default 0
        Seed of the restarts.
    warm_start : bool, default False
        Start from the parameters of the previous ``fit``; workers are matched by name.

    Notes
    -----
    Time per pass O(annotations · classes) for ``"full"`` and ``"class"``, O(annotations + tasks · classes) for
    ``"one-coin"``. Memory next to the table and the results: as much again as the parameters, and at most 8 bytes per
    annotation, or 32 MB if that is more; with `accelerate`, eight copies of the parameters.

    Where workers may abstain (`abstain` of :class:`~manyhands.Annotations`), ``"full"`` learns from it: confusion
    matrices have columns for abstentions, no posterior any mass on them. The other models take abstentions as missing
    answers.

    With one class everything is certain. Without pseudo-counts, a worker's row for a class they never met is even.
    Answers are the same bits on any number of threads.

    References
    ----------
    A. P. Dawid and A. M. Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm",
    Applied Statistics 28 (1979). R. Varadhan and C. Roland, "Simple and globally convergent methods for accelerating
    the convergence of any EM algorithm", Scandinavian Journal of Statistics 35 (2008). S. Ibrahim, P. A. Traganitis,
    X. Fu and G. B. Giannakis, "End-to-end learning from crowdsourced labels", tutorial, for ``init="label-counts"``.

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(1000, 20, 3, labels_per_task=5, seed=1)
    >>> model = mh.DawidSkene().fit(crowd.log)
    >>> mh.metrics.accuracy(model.labels_, crowd.truth) > 0.8
    True
    """

    def __init__(
        self,
        *,
        model: str = "full",
        assignment: str = "soft",
        init: Any = "majority",
        restarts: int = 0,
        pseudo_count: float | tuple[float, float] | npt.ArrayLike = (0.1, 0.01),
        class_pseudo_count: float | npt.ArrayLike = 0.0,
        worker_prior: Mapping[Any, npt.ArrayLike] | None = None,
        gold: Any = None,
        accelerate: bool = False,
        max_iter: int = 100,
        tol: float = 1e-6,
        seed: int = 0,
        warm_start: bool = False,
    ) -> None:
        self.model = model
        self.assignment = assignment
        self.init = init
        self.restarts = restarts
        self.pseudo_count = pseudo_count
        self.class_pseudo_count = class_pseudo_count
        self.worker_prior = worker_prior
        self.gold = gold
        self.accelerate = accelerate
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed
        self.warm_start = warm_start

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        self._check()
        gold_part = with_gold(votes, self.gold)
        common: dict[str, Any] = {
            "model": self.model,
            "assignment": self.assignment,
            "pseudo": self._pseudo(votes),
            "class_pseudo": class_pseudo(self.class_pseudo_count, votes.n_classes),
            "max_iter": self.max_iter,
            "tol": self.tol,
            "accelerate": bool(self.accelerate),
            "gold": gold_part.gold,
            "progress": progress,
        }
        start, remarks = self._start(votes)
        starts = [start, *({"start": "random", "seed": self.seed + i} for i in range(self.restarts))]
        best = best_of(solve(gold_part.held, [_core.em_fit(gold_part.held, **common, **start)])[0] for start in starts)
        warn_unless_converged(best["converged"], self, FASTER)
        return fit_of(best, remarks)

    def _needs_memory(self) -> str | None:
        init = self if self.warm_start and self._state is not None else self.init
        if isinstance(init, str) and init in _STARTS:
            return None
        if (isinstance(init, Aggregator) and init._state and not init._knows_abstentions()) or isinstance(init, tuple):
            return None
        return "a start from moments, posteriors or a model that is not fitted yet needs all annotations in memory"

    def _hears_abstentions(self) -> bool:
        return isinstance(self.model, str) and self.model == "full"

    # ------------------------------------------------------------------------------------------ parameters

    def _check(self) -> None:
        check_choice("model", self.model, MODELS)
        check_choice("assignment", self.assignment, _ASSIGNMENTS)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("restarts", self.restarts, least=0, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        check_number("tol", self.tol, least=0)

    def _pseudo(self, votes: Annotations) -> Array:
        """Pseudo-counts: (K, K) for all workers, or (M, K, K) where some have a prior of their own; K of labels."""
        k, n_labels = votes.n_classes, votes.n_labels
        shared = row_pseudo(self.pseudo_count, k, n_labels)
        if self.worker_prior is None:
            return shared
        if not isinstance(self.worker_prior, Mapping):
            raise TypeError(f"worker_prior must be a mapping from workers to arrays, not {self.worker_prior!r}")
        names = list(self.worker_prior)
        codes = votes._workers.find(names)
        if (codes < 0).any():
            raise ValueError(f"worker_prior names {names[int(np.argmax(codes < 0))]!r}, who is not among the workers")
        pseudo = np.repeat(shared[None], votes.n_workers, axis=0)
        for code, (name, prior) in zip(codes, self.worker_prior.items(), strict=True):
            pseudo[code] = counts(prior, (k, n_labels), f"worker_prior of {name!r}")
        return pseudo

    def _start(self, votes: Annotations) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Arguments of the core that say where to start, and what is doubtful about it."""
        init = self if self.warm_start and self._state is not None else self.init
        if isinstance(init, str) and init in _FITTED_STARTS:
            from manyhands import moments

            init = getattr(moments, _FITTED_STARTS[init])()
        if isinstance(init, str):
            if init == _COUNTS:
                return {"start": "", "posterior": _from_counts(votes)}, ()
            if init not in _STARTS:
                raise ValueError(
                    f"init must be one of {', '.join(map(repr, (*_STARTS, _COUNTS, *_FITTED_STARTS)))}, an array of "
                    f"posteriors, a pair (prior, confusion) or an aggregator, not {init!r}"
                )
            return {"start": init}, ()
        n, m, k, n_labels = votes.n_tasks, votes.n_workers, votes.n_classes, votes.n_labels
        if isinstance(init, Aggregator) and (n_labels > k or init._knows_abstentions()):
            return self._from_posterior(votes, init)
        if isinstance(init, Aggregator):
            return self._from_fitted(votes, init) if init._state else self._from_fit(votes, init)
        if isinstance(init, tuple) and len(init) == 2:
            prior = probabilities(init[0], (k,), "the prior given as init")
            confusion = probabilities(init[1], (m, k, n_labels), "the confusion given as init")
            return _parameters(prior, confusion), ()
        posterior = probabilities(init, (n, k), "the posterior given as init")
        return {"start": "", "posterior": posterior}, ()

    @staticmethod
    def _from_posterior(votes: Annotations, model: Aggregator) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A start from the posteriors of another model, which may not support abstentions."""
        if model._state is None:
            model = type(model)(**model.get_params()).fit(votes)
        posterior = model.predict_proba(votes)
        return {"start": "", "posterior": posterior}, ()

    @staticmethod
    def _from_fit(votes: Annotations, model: Aggregator) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A start from a fit to the same votes; the model that was given stays as it is."""
        fit = model._fit(votes, None)
        return _parameters(fit.prior, fit.confusion.matrices()), fit.remarks

    @staticmethod
    def _from_fitted(votes: Annotations, model: Aggregator) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A start from another fit."""
        return _parameters(*model._parameters_for(votes)), ()


def _from_counts(votes: Annotations) -> Array:
    """Posteriors under label frequencies and the joint frequencies of majority class and label, (n_tasks, n_classes).

    The start of the tutorial of Ibrahim et al. Rows of its matrices sum to the share of the class among the worker's
    tasks, not to one. Abstentions do not count.
    """
    k = votes.n_classes
    tasks, workers, labels = (codes.astype(np.int64) for codes in votes.codes())
    weights = np.ones(len(tasks)) if votes.weights is None else np.asarray(votes.weights)
    shares = votes.table.vote_shares()[0]
    best = (shares == shares.max(axis=1, keepdims=True)).astype(np.float64)
    best /= best.sum(axis=1, keepdims=True)
    is_class = labels < k
    tasks, workers, labels, weights = tasks[is_class], workers[is_class], labels[is_class], weights[is_class]
    prior = np.bincount(labels, weights, k)
    joint = np.zeros((votes.n_workers * k, k))
    np.add.at(joint, workers * k + labels, best[tasks] * weights[:, None])
    total = np.bincount(workers, weights, votes.n_workers)
    joint /= np.maximum(np.repeat(total, k), np.finfo(float).tiny)[:, None]
    scores = np.tile(np.log(np.maximum(prior / prior.sum(), _FLOOR)), (votes.n_tasks, 1))
    np.add.at(scores, tasks, np.log(np.maximum(joint, _FLOOR))[workers * k + labels] * weights[:, None])
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.ascontiguousarray(scores / scores.sum(axis=1, keepdims=True))


def _parameters(prior: Array, confusion: Array) -> dict[str, Any]:
    return {"start": "", "prior": prior, "confusion": confusion}
