"""Dawid–Skene with prior beliefs about workers: stated ones (Bayesian), or learned from the crowd (hierarchical)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from manyhands import _core
from manyhands._base.checks import (
    check_between,
    check_choice,
    check_number,
    check_stopping,
    warn_of_convergence,
    warn_unless_converged,
)
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, numbers
from manyhands._base.progress import Callback
from manyhands.categorical._chains import diagnose
from manyhands.categorical._posterior import Posterior
from manyhands.categorical._priors import class_pseudo, probabilities, row_pseudo, with_gold
from manyhands.categorical._streamed import solve
from manyhands.categorical.base import Aggregator, ClassFit, fit_of
from manyhands.categorical.dawid_skene import FASTER, MODELS
from manyhands.categorical.table import Annotations

_STARTS = ("protected", "majority", "shares")
_INTERVALS = ("accuracy", "confusion", "prior")
#: Chains that differ by more than this R-hat have not met.
_MOST_RHAT = 1.05
#: Share of the variance of a coin with that mean that an accuracy may have: beyond, a Beta distribution has two peaks.
_MOST_VARIANCE = 0.3
#: Draws that are kept, the last only where it is asked for.
_DRAWS = ("prior", "accuracy", "log_density", "confusion")
#: Fields that every sampled fit has.
_WHOLE = ("prior_draws", "accuracy_draws", "log_density_draws")
#: Those of which chains must agree.
_JUDGED = ("prior", "accuracy", "log_density")


@dataclass(frozen=True, kw_only=True)
class BayesianFit(ClassFit):
    """Parameters of Dirichlet posteriors (variational Bayes), or draws of chains c by d (sampling)."""

    concentration: Array | None = field(default=None, metadata=numbers("mkk", optional=True))
    class_concentration: Array | None = field(default=None, metadata=numbers("k", optional=True))
    prior_draws: Array | None = field(default=None, metadata=numbers("cdk", optional=True))
    accuracy_draws: Array | None = field(default=None, metadata=numbers("cdm", optional=True))
    log_density_draws: Array | None = field(default=None, metadata=numbers("cd", optional=True))
    confusion_draws: Array | None = field(default=None, metadata=numbers("cdmkk", optional=True))

    @property
    def sampled(self) -> bool:
        """Whether it holds draws."""
        return self.prior_draws is not None

    def draws(self) -> dict[str, Array]:
        """The draws that were kept, by name."""
        arrays = {name: getattr(self, f"{name}_draws") for name in _DRAWS}
        return {name: draws for name, draws in arrays.items() if draws is not None}

    def rows(self) -> tuple[Array, Array]:
        """Parameters of confusion rows and of the class prior, of variational Bayes."""
        assert self.concentration is not None
        assert self.class_concentration is not None
        return self.concentration, self.class_concentration

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise where one of the two is not whole."""
        rows = ("concentration", "class_concentration")
        missing = [name for name in (_WHOLE if self.sampled else rows) if getattr(self, name) is None]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")


class BayesianDawidSkene(Aggregator):
    """Dawid–Skene with Dirichlet priors on confusion rows and classes (IBCC), by variational Bayes or Gibbs sampling.

    ``method="vb"`` approximates the posterior by a product: a distribution over classes for each task, a Dirichlet
    distribution for each row of each confusion matrix and one for the class prior. Each pass improves the evidence
    lower bound, which is the objective. ``method="gibbs"`` draws from the posterior itself: parameters given classes
    and classes given parameters in turn, in several chains. It takes hundreds of times as long, and its intervals are
    as wide as they should be. Point estimates (`confusion_`, `prior_`) are posterior means, and
    :meth:`credible_interval` specifies how sure they are.

    Parameters
    ----------
    method : str, default "vb"
        ``"vb"``, mean-field variational Bayes, or ``"gibbs"``, sampling.
    model : str, default "full"
        A worker's confusion matrix, as in :class:`DawidSkene`: ``"full"``, ``"class"`` or ``"one-coin"``.
    init
        Where to start: ``"protected"`` (one accuracy for all workers, and at first no class for a task that no worker
        voted for, see `protected`), ``"majority"``, ``"shares"``, an (n_tasks, n_classes) array of posteriors, or any
        aggregator: as it was fitted, or if it was not, fitted to the same votes first. Chains of ``"gibbs"`` begin with
        parameters drawn given the posteriors of such a start.
    pseudo_count
        Parameters of the Dirichlet prior of a row, all positive. A pair ``(right, wrong)``: so much on the diagonal
        and so much spread over the errors, which means the same for any number of classes; the one accuracy of
        ``"one-coin"`` has a Beta(right, wrong) prior. A number: spread evenly over the row. An (n_classes, n_classes)
        array: used as is.
    class_pseudo_count : float or array-like, default 1.0
        Parameters of the Dirichlet prior of the classes: a number spread evenly, or an (n_classes,) array.
    gold
        Known classes of some tasks, as in :class:`DawidSkene`.
    protected : int, default 20
        Most passes of a constrained initialization, before those that `max_iter` counts, in which a task keeps to the
        classes that were voted for.
    accelerate : bool, default False
        Of ``"vb"``: extrapolate between passes, as in :class:`DawidSkene`.
    max_iter, tol
        Of ``"vb"``: stop after `max_iter` iterations, or when the bound changes by less than `tol` of itself.
    n_chains, warmup, draws : int, default 4, 500, 500
        Of ``"gibbs"``: independent chains, the sweeps of each that are forgotten, and those that are kept.
    keep : str or None, default None
        Of ``"gibbs"``: ``"confusion"`` to keep draws of all confusion matrices too, which intervals of them need.
    seed : int, default 0
        Of ``"gibbs"``: the same seed gives the same draws on any number of threads.

    Notes
    -----
    Time per pass as :class:`DawidSkene`, and O(workers · classes²) digamma functions for ``"full"``; memory likewise.
    Mean-field posteriors are narrower than the true ones: tasks and workers are taken to be independent.

    A sweep of ``"gibbs"`` takes one or two passes of EM and O(workers · classes²) gamma variates, in each of
    ``n_chains · (warmup + draws)`` sweeps. Memory: for each chain 16 bytes per task and class and 48 bytes per worker
    and class squared; for each draw 8 bytes per worker (and class squared, with ``keep="confusion"``). Draws of classes
    are not kept: ``posterior_`` averages their probabilities given the parameters of each draw, ``confusion_`` and
    ``prior_`` expectations given its classes, which has less noise than averaging draws. ``predict_proba`` takes these
    averages as the parameters. ``converged_`` states whether every R-hat is below 1.05; a warning shows where it is
    not. There is no objective: `history_` is empty, and the log-density of each draw is among `draws_`.

    References
    ----------
    H.-C. Kim and Z. Ghahramani, "Bayesian classifier combination", AISTATS (2012). E. Simpson, S. Roberts, I. Psorakis
    and A. Smith, "Dynamic Bayesian combination of multiple imperfect classifiers" (2013). A. Vehtari et al.,
    "Rank-normalization, folding, and localization: an improved R-hat", Bayesian Analysis 16 (2021).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(500, 20, 3, labels_per_task=5, seed=1)
    >>> model = mh.BayesianDawidSkene().fit(crowd.log)
    >>> low, high = model.credible_interval("accuracy", level=0.9).T
    >>> bool((low < high).all())
    True
    >>> sampled = mh.BayesianDawidSkene(method="gibbs", model="one-coin", warmup=100, draws=400).fit(crowd.log)
    >>> sampled.draws_["accuracy"].shape  # arviz.from_dict(posterior=sampled.draws_) reads them
    (4, 400, 20)
    >>> bool((sampled.diagnostics_["prior"]["rhat"] < 1.05).all())
    True
    """

    _fit_type: ClassVar[type[Fit]] = BayesianFit

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
        n_chains: int = 4,
        warmup: int = 500,
        draws: int = 500,
        keep: str | None = None,
        seed: int = 0,
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
        self.n_chains = n_chains
        self.warmup = warmup
        self.draws = draws
        self.keep = keep
        self.seed = seed

    def _fitted_by(self, method: str, instead: str) -> None:
        """Raise for what only the other method finds."""
        if self._fitted().fit_as(BayesianFit).sampled is not (method == "gibbs"):
            raise AttributeError(f"only method={method!r} finds this; see {instead}")

    @property
    def draws_(self) -> dict[str, Array]:
        """Draws from the posterior, by name, each (n_chains, draws, ...), as ArviZ reads them.

        ``prior`` (n_classes); ``accuracy`` (n_workers), the share of right answers under the draw's class prior;
        ``log_density`` of labels and parameters, classes summed out, up to a constant; with ``keep="confusion"`` also
        ``confusion`` (n_workers, n_classes true, n_classes observed). Of ``method="gibbs"``.
        """
        self._fitted_by("gibbs", "concentration_")
        return self._fitted().fit_as(BayesianFit).draws()

    @property
    def diagnostics_(self) -> dict[str, dict[str, Array]]:
        """How far chains agree: ``rhat``, ``ess_bulk`` and ``ess_tail`` of the prior, accuracies and log-density.

        Rank-normalized split R-hat (1 where chains agree) and effective sample sizes of Vehtari et al. (2021), in
        arrays of the shape of one draw; NaN for what never changes. Of ``method="gibbs"``.
        """
        self._fitted_by("gibbs", "converged_")
        return {name: diagnose(self.draws_[name]) for name in _JUDGED}

    @property
    def concentration_(self) -> Array:
        """Parameters of the Dirichlet posteriors of confusion rows, (n_workers, n_classes true, n_classes observed).

        For ``model="class"`` a row holds (right, wrong), the latter spread evenly; for ``"one-coin"`` all rows
        together. Of ``method="vb"``.
        """
        self._fitted_by("vb", "draws_")
        return self._fitted().fit_as(BayesianFit).rows()[0]

    @property
    def class_concentration_(self) -> Array:
        """Parameters of the Dirichlet posterior of the class prior, (n_classes,). Of ``method="vb"``."""
        self._fitted_by("vb", "draws_")
        return self._fitted().fit_as(BayesianFit).rows()[1]

    def credible_interval(self, what: str = "accuracy", *, level: float = 0.95) -> Array:
        """Central credible intervals, lower and upper ends along a last axis of two.

        ``"accuracy"``, (n_workers, 2): the expected share of right answers under the class prior, by the Beta
        distribution with its mean and the standard error of :meth:`workers_frame`. ``"confusion"``, (n_workers,
        n_classes, n_classes, 2), and ``"prior"``, (n_classes, 2): Beta marginals of the Dirichlet posteriors, which
        take classes as independent of workers and are too narrow where classes are uncertain. With one class there is
        nothing to doubt. Of ``method="gibbs"`` all are quantiles of the draws, without that approximation.
        """
        now = copy(self)
        fit = now._fitted().fit_as(BayesianFit)
        check_choice("what", what, _INTERVALS)
        check_between("level", level)
        tails = ((1 - level) / 2, (1 + level) / 2)
        if fit.sampled:
            draws = fit.draws()
            if what not in draws:
                raise ValueError(f"draws of the {what} were not kept; fit with keep={what!r}")
            return np.moveaxis(np.quantile(draws[what], tails, axis=(0, 1)), 0, -1)
        scale = np.ones(1)
        if what == "prior":
            hits, misses = _marginals(fit.rows()[1])
        elif what == "confusion":
            hits, misses, scale = now._cells()
        else:
            hits, misses = now._accuracies()
        return np.stack([scale * _core.beta_quantile(hits, misses, tail) for tail in tails], axis=-1)

    def _cells(self) -> tuple[Array, Array, Array]:
        """Beta parameters of each entry of each confusion matrix, and what multiplies the variable."""
        concentration, classes = self._fitted().fit_as(BayesianFit).rows()
        k = len(classes)
        if self.model == "full":
            return *_marginals(concentration), np.ones(1)
        # A row holds (right, wrong); with one accuracy per worker, all rows together do.
        right = np.diagonal(concentration, axis1=1, axis2=2)
        wrong = concentration.sum(axis=2) - right
        if self.model == "one-coin":
            right, wrong = (np.repeat(part.sum(axis=1, keepdims=True), k, axis=1) for part in (right, wrong))
        diagonal = np.eye(k, dtype=bool)
        hits = np.where(diagonal, right[:, :, None], wrong[:, :, None])
        misses = np.where(diagonal, wrong[:, :, None], right[:, :, None])
        return hits, misses, np.where(diagonal, 1.0, 1.0 / max(k - 1, 1))

    def _accuracies(self) -> tuple[Array, Array]:
        """Beta parameters with the mean and variance of each worker's accuracy."""
        right, wrong = (np.ascontiguousarray(np.diagonal(part, axis1=1, axis2=2)) for part in self._cells()[:2])
        total = right + wrong
        mean = (right / total) @ self.prior_
        # The variational posterior takes each worker for independent of the classes; standard errors do not.
        variance = np.minimum(self._worker_measures().skill_error ** 2, _MOST_VARIANCE * mean * (1 - mean))
        certain = variance <= 0
        size = np.where(certain, 1.0, mean * (1 - mean) / np.where(certain, 1.0, variance) - 1)
        return mean * size, (1 - mean) * size

    def _iterations(self) -> int | None:
        if self.method == "gibbs":
            return self.n_chains * (self.warmup + self.draws)
        return self.max_iter + (self.protected if isinstance(self.init, str) and self.init == "protected" else 0)

    def _fit(self, votes: Annotations, progress: Callback | None) -> ClassFit:
        self._check()
        k, gold_part = votes.n_classes, with_gold(votes, self.gold)
        pseudo = row_pseudo(self.pseudo_count, k)
        model: dict[str, Any] = {
            "model": self.model,
            "pseudo": positive(pseudo / k if self.model == "one-coin" else pseudo, "pseudo_count"),
            "class_pseudo": positive(class_pseudo(self.class_pseudo_count, k), "class_pseudo_count"),
            "gold": gold_part.gold,
        }
        start = self._start(votes)
        if self.method == "gibbs":
            return self._sample(votes, model, start, progress)
        result = _core.bayes_fit(
            gold_part.held,
            **model,
            **start,
            protected=self.protected,
            accelerate=bool(self.accelerate),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )
        (result,) = solve(gold_part.held, [result])
        warn_unless_converged(result["converged"], self, FASTER)
        learned: dict[str, Any] = {name: result[name] for name in ("concentration", "class_concentration")}
        return fit_of(result, kind=BayesianFit, **learned)

    def _needs_memory(self) -> str | None:
        if self.method == "vb" and isinstance(self.init, str):
            return None
        return "sampling, and a start from posteriors or another model, need all annotations in memory"

    def _check(self) -> None:
        check_choice("method", self.method, ("vb", "gibbs"))
        check_choice("model", self.model, MODELS)
        check_number("protected", self.protected, least=0, whole=True)
        check_stopping(self.max_iter, self.tol)
        check_number("warmup", self.warmup, least=0, whole=True)
        check_number("seed", self.seed, least=0, whole=True)
        for name in ("n_chains", "draws"):
            check_number(name, getattr(self, name), least=1, whole=True)
        if self.keep is not None:
            check_choice("keep", self.keep, ("confusion",))

    def _sample(
        self, votes: Annotations, model: dict[str, Any], start: dict[str, Any], progress: Callback | None
    ) -> ClassFit:
        if "posterior" not in start:
            stop: dict[str, Any] = {"protected": self.protected, "max_iter": 0, "tol": float(self.tol)}
            start = {"posterior": _core.bayes_fit(votes.table, **model, **start, **stop)["posterior"]}
        result = votes.table.gibbs_fit(
            **model,
            posterior=start["posterior"],
            n_chains=self.n_chains,
            warmup=self.warmup,
            draws=self.draws,
            keep_confusion=self.keep == "confusion",
            seed=self.seed,
            progress=progress,
        )
        names = [name for name in _DRAWS if name != "confusion" or self.keep == "confusion"]
        draws_by_name: dict[str, Any] = {f"{name}_draws": result["draws"][name] for name in names}
        return BayesianFit.of(
            posterior=result["posterior"],
            confusion=result["confusion"],
            prior=result["prior"],
            history=np.zeros(0),
            n_iter=self.warmup + self.draws,
            converged=self._chains_agree(result["draws"]),
            **draws_by_name,
        )

    def _chains_agree(self, draws: Mapping[str, Array]) -> bool:
        """Whether no R-hat is large; warns of the quantity with the largest one otherwise."""
        rhats = {name: diagnose(draws[name])["rhat"] for name in _JUDGED}
        worst = {name: float(np.max(np.nan_to_num(rhat))) for name, rhat in rhats.items()}
        name = max(worst, key=worst.__getitem__)
        if worst[name] <= _MOST_RHAT:
            return True
        if self.tol > 0:
            warn_of_convergence(
                f"chains of {type(self).__name__} disagree: R-hat of {name} reaches {worst[name]:.2f}. Raise warmup "
                "and draws; if that does not help, chains may have exchanged the meaning of classes (label switching): "
                "give gold labels, a stronger pseudo_count, or a better init"
            )
        return False

    def _start(self, votes: Annotations) -> dict[str, Any]:
        """Arguments of the core that say where to start."""
        init = self.init
        if isinstance(init, str):
            check_choice("init", init, _STARTS)
            return {"start": init}
        if isinstance(init, Aggregator):
            # A model that was given stays as it is.
            posterior = init.predict_proba(votes) if init._state else init._fit(votes, None).posterior.dense()
        else:
            posterior = probabilities(init, (votes.n_tasks, votes.n_classes), "the posterior given as init")
        return {"start": "", "posterior": posterior}

    def _posterior(self, table: _core.Table, known: npt.NDArray[np.int64]) -> Array | Posterior:
        fit = self._fitted().fit_as(BayesianFit)
        if fit.sampled:
            return super()._posterior(table, known)
        rows, classes = fit.rows()
        concentration = self._carried_over(rows, known)
        factors = _core.em_factors(concentration, classes, model=self.model, concentrations=True)
        return table.em_answers(*factors, model=self.model, posterior=True)["posterior"]


def positive(counts: Array, what: str) -> Array:
    """Check parameters of Dirichlet priors."""
    if (counts <= 0).any():
        raise ValueError(f"{what} holds parameters of Dirichlet priors, which must be positive")
    return counts


def _marginals(concentration: Array) -> tuple[Array, Array]:
    """Beta parameters of each entry of Dirichlet distributions along the last axis."""
    rest = concentration.sum(axis=-1, keepdims=True) - concentration
    # With one class nothing is left but rounding.
    return concentration, rest if concentration.shape[-1] > 1 else np.zeros_like(rest)
