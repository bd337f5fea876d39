"""Margins of weighted votes: max-margin majority vote, and its Bayesian form, Crowd-SVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import check_number, check_positive, check_stopping, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, number, numbers
from manyhands._base.progress import Callback
from manyhands.categorical._confusion import JudgedByPosterior
from manyhands.categorical.base import Aggregator, ClassFit
from manyhands.categorical.table import Annotations


@dataclass(frozen=True, kw_only=True)
class MarginFit(ClassFit):
    """Classes by weights of workers."""

    weights: Array = field(metadata=numbers("m"))
    #: Log-odds per weight.
    scale: float = field(metadata=number())


class MaxMarginVote(Aggregator):
    """Max-margin majority vote (M³V): weights of workers under which the answer to each task wins by far.

    The score of a class on a task is the sum of the weights of those who named it. The answer should beat every other
    class, also those that no worker named, by `margin`; what it lacks is its loss. Weights and answers minimize half
    the squared weights plus `cost` times all losses. Nothing is assumed about how workers err but that one weight
    describes it; a negative weight turns a worker's vote against the class that it names.

    Parameters
    ----------
    cost : float or None, default None
        What a loss of one costs. No weight exceeds `cost` times the labels of its worker; None for a cost with which
        that is `margin` for the average worker. Small costs let weights grow with the number of labels a worker gave,
        large ones hold fast to the majority's answers. Only the ratio of `cost` and `margin` matters for the answers.
    margin : float, default 1.0
        How far ahead an answer should be.
    max_iter, tol
        Stop after `max_iter` iterations, or when the objective changes by less than `tol` of itself and its dual is as
        near.

    Attributes
    ----------
    weights_ : ndarray of shape (n_workers,)
        Weight of each worker.
    scale_ : float
        Factor that makes log-odds of weights; see the notes.

    Notes
    -----
    The method has answers and no probabilities. Those given are of workers whose errors are spread evenly and whose
    log-odds of being right are ``scale_ * weights_``; `scale_` is the least-squares fit to the log-odds of agreeing
    with the answers (one pseudo-count for each side, workers counting by their labels). So the most probable class
    is the one with the greatest score, and probabilities say how often such scores would be right if workers erred
    independently. ``confusion_`` judges workers by these probabilities.

    Weights and answers are found by turns, from the majority vote: answers by the greatest score, weights by coordinate
    ascent in the dual of a support vector machine with one block for each task. ``history_`` is minus the objective and
    never falls; there may be several summits. The sweeps go by the order of tasks: the weights of an unfinished fit
    depend on it, and those of a finished one do as far as `tol` allows.

    Time O(annotations) a sweep, on one thread; a pass takes at most 20 of them. Memory next to the table and the
    results: 8 bytes per annotation, 12 bytes per task and 16 bytes per worker.

    References
    ----------
    T. Tian and J. Zhu, "Max-margin majority voting for learning from crowds", NIPS (2015).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [2, 2, 0], [0, 0, 0], [1, 1, 2], [2, 2, 2]])
    >>> model = mh.categorical.MaxMarginVote().fit(votes)
    >>> model.labels_.tolist(), int(model.weights_.argmin())
    ([0, 1, 2, 0, 1, 2], 2)
    """

    _fit_type: ClassVar[type[Fit]] = MarginFit

    _skipped_checks: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("renaming_tasks", "renaming_classes"), "sweeps go by the order of tasks and classes"
    )

    def __init__(
        self, *, cost: float | None = None, margin: float = 1.0, max_iter: int = 200, tol: float = 1e-4
    ) -> None:
        self.cost = cost
        self.margin = margin
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        check_stopping(self.max_iter, self.tol)
        check_positive("margin", self.margin)
        result = votes.table.margin_fit(
            cost=self._price(votes),
            margin=float(self.margin),
            max_iter=self.max_iter,
            tol=float(self.tol),
            progress=progress,
        )
        warn_unless_converged(result["converged"], self)
        scale = self._log_odds_per_weight(votes, result["answers"], result["weights"])
        posterior = votes.table.vote_softmax(scale * result["weights"])
        return MarginFit.of(
            weights=result["weights"],
            scale=scale,
            posterior=posterior,
            confusion=JudgedByPosterior(votes.table, posterior),
            prior=posterior.mean(axis=0),
            history=result["history"],
            n_iter=result["n_iter"],
            converged=result["converged"],
        )

    def _price(self, votes: Annotations) -> float:
        if self.cost is not None:
            check_positive("cost", self.cost)
            return float(self.cost)
        labels = votes.n_annotations if votes.weights is None else float(votes.weights.sum())
        return float(self.margin) * votes.n_workers / (labels or 1.0)

    def _log_odds_per_weight(self, votes: Annotations, answers: npt.NDArray[np.uint16], weights: Array) -> float:
        """The factor of the weights that fits the log-odds of agreeing with the answers best."""
        agree, total = votes.table.worker_agreement(answers.astype(np.int32))
        log_odds = np.log((agree + 1) / (total - agree + 1) * max(votes.n_classes - 1, 1))
        square = float(total @ weights**2)
        # Answers follow the weights, so only a log without information has no positive factor.
        factor = float(total @ (weights * log_odds)) / square if square > 0 else 0.0
        return factor if factor > 0 else 1 / float(self.margin)

    @property
    def weights_(self) -> Array:
        """Weight of each worker, (n_workers,)."""
        return self._fitted().fit_as(MarginFit).weights

    @property
    def scale_(self) -> float:
        """Log-odds of being right that a weight of one stands for."""
        return self._fitted().fit_as(MarginFit).scale

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(MarginFit)
        return table.vote_softmax(fit.scale * self._carried_over(fit.weights, known))


@dataclass(frozen=True, kw_only=True)
class MachineFit(ClassFit):
    """Classes by weights of workers, with cost and margin of the fit."""

    weights: Array = field(metadata=numbers("m"))
    cost: float = field(metadata=number())
    margin: float = field(metadata=number())


class CrowdSVM(Aggregator):
    """Crowd-SVM: a confusion matrix for each worker, joined with the margins of a weighted vote.

    The Bayesian form of :class:`MaxMarginVote`: Dawid and Skene's model with Dirichlet priors, in which every task has
    a further factor ``exp(-2 · cost · loss)``, where the loss is what the answer lacks of `margin` in a vote with
    normally distributed weights. With `cost` near 0 it is Bayesian Dawid–Skene; a large one makes the vote decide.

    Parameters
    ----------
    cost : float, default 0.25
        What a loss of one costs.
    margin : float, default 1.0
        How far ahead an answer should be.
    variance : float, default 1.0
        Variance of the weights' normal prior, with mean 0.
    pseudo_count : float, default 1.0
        Pseudo-counts in every cell of every confusion matrix (the Dirichlet prior).
    draws, burn_in : int, default 40, 10
        Sweeps of the Gibbs sampler that are averaged, and those before them that are not.
    seed : int, default 0
        Seed of the sampler.

    Attributes
    ----------
    weights_ : ndarray of shape (n_workers,)
        Mean weight of each worker.

    Notes
    -----
    ``posterior_`` is the average over draws of each task's class probabilities given all else in the draw, which varies
    less than shares of drawn classes. ``confusion_`` and ``weights_`` are averages of draws; ``predict_proba`` takes
    them for known. Classes have equal prior probabilities. There is no objective, and ``converged_`` means only that
    all sweeps were made: a few tens of them measure the posterior near the majority's answers and do not explore all of
    it.

    With two classes the draws are from the posterior. With more, the strongest rival of each answer is held fixed while
    weights are drawn, as in the paper: what is drawn then resembles the posterior and is not quite from it.

    Loss factors are mixtures of normal densities over a scale for each task, so that all draws are from known
    distributions. Weights are drawn one after the other: drawing them together would take a matrix of workers ×
    workers.

    Time per sweep O(annotations · classes + workers · classes²). Memory next to the table and the results: 8 bytes for
    each cell of a confusion matrix and for each task and class, 32 bytes per task, and the table in worker order.

    References
    ----------
    T. Tian and J. Zhu, "Max-margin majority voting for learning from crowds", NIPS (2015). N. Polson and S. Scott,
    "Data augmentation for support vector machines", Bayesian Analysis 6 (2011).

    Examples
    --------
    >>> import manyhands as mh
    >>> votes = mh.Annotations.from_dense([[0, 0, 1], [1, 1, 1], [0, 0, 0], [0, 0, 1], [1, 1, 0], [1, 1, 1]])
    >>> model = mh.categorical.CrowdSVM().fit(votes)
    >>> model.labels_.tolist(), int(model.weights_.argmin())
    ([0, 1, 0, 0, 1, 1], 2)
    """

    _fit_type: ClassVar[type[Fit]] = MachineFit

    _skipped_checks: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("renaming_tasks", "renaming_workers", "renaming_classes", "renaming_classes_untied"),
            "draws follow the codes",
        ),
        "predict_repeats_fit": "posteriors are averages of draws",
    }

    def __init__(
        self,
        *,
        cost: float = 0.25,
        margin: float = 1.0,
        variance: float = 1.0,
        pseudo_count: float = 1.0,
        draws: int = 40,
        burn_in: int = 10,
        seed: int = 0,
    ) -> None:
        self.cost = cost
        self.margin = margin
        self.variance = variance
        self.pseudo_count = pseudo_count
        self.draws = draws
        self.burn_in = burn_in
        self.seed = seed

    def _iterations(self) -> int | None:
        return self.draws + self.burn_in

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        for name in ("cost", "margin", "variance", "pseudo_count"):
            check_positive(name, getattr(self, name))
        check_number("draws", self.draws, least=1, whole=True)
        check_number("burn_in", self.burn_in, least=0, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        result = votes.table.crowd_svm_fit(
            cost=float(self.cost),
            margin=float(self.margin),
            variance=float(self.variance),
            pseudo_count=float(self.pseudo_count),
            draws=self.draws,
            burn_in=self.burn_in,
            seed=self.seed,
            progress=progress,
        )
        return MachineFit.of(
            weights=result["weights"],
            cost=float(self.cost),
            margin=float(self.margin),
            posterior=result["posterior"],
            confusion=result["confusion"],
            prior=np.full(votes.n_classes, 1 / votes.n_classes),
            history=np.zeros(0),
            n_iter=self.draws + self.burn_in,
        )

    @property
    def weights_(self) -> Array:
        """Mean weight of each worker, (n_workers,)."""
        return self._fitted().fit_as(MachineFit).weights

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array:
        fit = self._fitted().fit_as(MachineFit)
        confusion, weights = (self._carried_over(part, known) for part in (fit.confusion.matrices(), fit.weights))
        return table.crowd_svm_posterior(confusion, weights, cost=fit.cost, margin=fit.margin)
