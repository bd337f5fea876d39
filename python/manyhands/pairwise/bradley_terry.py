"""Bradley–Terry models, with ties, a bias to the left, and workers who see leads more or less clearly."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from manyhands._base.checks import check_choice, check_flag, check_number, check_positive, warn_unless_converged
from manyhands._base.estimator import Array
from manyhands._base.fitted import Fit, ItemFitted, number, numbers
from manyhands._base.overlap import Doubts
from manyhands._base.progress import Callback
from manyhands._base.results import Columns
from manyhands.pairwise import _intervals
from manyhands.pairwise.base import ComparisonEstimator, RankFit, SlopeFit, no_intervals, said_of_groups
from manyhands.pairwise.table import Comparisons

if TYPE_CHECKING:
    pass

Ties = Literal["davidson", "rao-kupper", "half"]
Intervals = Literal["sandwich", "bootstrap", "none"]
#: How the scores of groups that are not linked come to be on one scale.
BY_PRIOR = "the prior, by which each group averages 0, is all that puts their scores on one scale"
#: Vectors of random signs by which standard errors are found where items are many.
N_PROBES = 16


@dataclass(frozen=True, kw_only=True)
class GameFit(SlopeFit):
    """Scores, how clearly workers see leads, and how far they favor the left."""

    left_biases: Array = field(metadata=numbers("m", infinite=True, missing=True))
    left_bias_errors: Array = field(metadata=numbers("m", infinite=True, missing=True))
    #: That of the average worker.
    left_bias: float = field(metadata=number(infinite=True, missing=True))
    bias_spread: float = field(metadata=number(infinite=True, missing=True))
    tie: float = field(metadata=number(infinite=True, missing=True))
    error_of_errors: float = field(metadata=number(infinite=True, missing=True))

    def of_workers(self) -> dict[str, Array]:
        """What was learnt of each worker, by column."""
        return super().of_workers() | {"left_bias": self.left_biases, "left_bias_error": self.left_bias_errors}


class _Fitter(ComparisonEstimator):
    """What plain models and those with workers share."""

    _fit_type: ClassVar[type[Fit]] = GameFit

    ties: Ties
    left_bias: bool | Literal["worker"]
    prior: float
    intervals: Intervals
    level: float
    n_resamples: int
    seed: int
    max_iter: int
    tol: float

    def _check(self) -> None:
        check_choice("ties", self.ties, ("davidson", "rao-kupper", "half"))
        check_positive("prior", self.prior)
        _intervals.check_intervals(self.intervals, self.level, self.n_resamples, self.seed)
        check_number("max_iter", self.max_iter, least=1, whole=True)
        check_number("tol", self.tol, least=0)

    @abstractmethod
    def _model(self, games: Comparisons) -> dict[str, Any]:
        """What the compiled model is asked for, beside the settings that all have."""

    def _fit(self, votes: Comparisons, progress: Callback | None) -> RankFit:
        self._check()
        asked: dict[str, Any] = {"ties": self.ties, "prior": float(self.prior), "tol": float(self.tol)}
        asked |= {"max_iter": int(self.max_iter)} | self._model(votes)
        found = votes.table.bradley_terry_fit(**asked, progress=progress)
        warn_unless_converged(found["converged"], self)
        n, m = votes.n_items, votes.n_workers
        components = votes.components
        errors, intervals = no_intervals(n)
        rough = float("nan")
        scores = _centred(found["point"][:n], components)
        slopes = _or(found["slopes"], m, 1.0)
        if self.intervals != "none":
            clusters = _intervals.clusters_of(votes.labels_per_worker)
            model, clustered, rough = self._variances(votes, found, asked, clusters[0])
            spread, of_slopes = float(found["spread"][0]), (found["slopes"], found["slope_errors"])
            errors, intervals = _intervals.of_scores(
                scores,
                model=model,
                clustered=clustered,
                components=components,
                prior=self.prior,
                clusters=clusters,
                level=self.level,
                offset=_intervals.shrinkage_offset(*of_slopes, spread, votes.labels_per_worker),
            )
        left_bias, tie = found["point"][n:].tolist()
        return GameFit(
            scores=scores,
            errors=errors,
            intervals=intervals,
            components=components,
            slope=slopes,
            slope_error=_or(found["slope_errors"], m, 0.0),
            slope_spread=float(found["spread"][0]),
            left_biases=left_bias + _or(found["biases"], m, 0.0),
            left_bias_errors=_or(found["bias_errors"], m, 0.0),
            left_bias=left_bias,
            bias_spread=float(found["spread"][1]),
            tie=tie,
            error_of_errors=rough,
            history=found["history"],
            n_iter=found["n_iter"],
            converged=found["converged"],
            remarks=said_of_groups(components, votes._items, BY_PRIOR),
        )

    def _doubts(self, votes: Comparisons) -> Doubts:
        asked = self.intervals != "none"
        return Doubts(quiet=_intervals.few_workers(votes.n_workers, "comparisons") if asked else ())

    def _variances(
        self, games: Comparisons, found: Any, asked: dict[str, Any], clusters: str
    ) -> tuple[Array, Array, float]:
        """Variances of scores by the model, and by clusters, and how exact they are."""
        model, sandwich, inexact = games.table.bradley_terry_errors(
            point=found["point"],
            slopes=found["slopes"],
            biases=found["biases"],
            ties=self.ties,
            left_bias=asked["left_bias"] != "none",
            prior=float(self.prior),
            clusters=clusters,
            n_probes=N_PROBES,
            seed=int(self.seed),
        )
        if self.intervals == "sandwich":
            return model, sandwich, max(inexact)
        return model, self._bootstrap(games, found, asked, clusters), float("nan")

    def _bootstrap(self, games: Comparisons, found: Any, asked: dict[str, Any], clusters: str) -> Array:
        """Variances of scores over fits to logs drawn from this one, by whole workers where there are enough."""
        rng = np.random.default_rng(self.seed)
        start = np.nan_to_num(found["point"])
        n, components = games.n_items, games.components
        workers = games.codes()[3]
        weights = np.ones(len(games)) if games.weights is None else games.weights
        drawn = np.empty((self.n_resamples, n))
        for row in drawn:
            if clusters == "workers":
                times = np.bincount(rng.integers(0, games.n_workers, games.n_workers), minlength=games.n_workers)
                counts = weights * times[workers]
            else:
                counts = weights * np.bincount(rng.integers(0, len(games), len(games)), minlength=len(games))
            table = games.table.counted(counts)
            row[:] = _centred(table.bradley_terry_fit(**asked, start=start)["point"][:n], components)
        return np.asarray(drawn.var(axis=0, ddof=1))

    # ----------------------------------------------------------------------------------------------- results

    def _skills(self) -> Columns:
        columns = super()._skills()
        if not self.left_bias:
            del columns["left_bias"], columns["left_bias_error"]
        return columns

    @property
    def left_bias_(self) -> float:
        """By how much the item on the left is ahead of an equal one on the right, for the average worker.

        0 where it was not learnt (``left_bias=False``).
        """
        return self._fitted().fit_as(GameFit).left_bias

    @property
    def tie_(self) -> float:
        """The parameter of ties, ν of Davidson or θ of Rao and Kupper; NaN where there are none to model."""
        tie = self._fitted().fit_as(GameFit).tie
        return float(np.exp(tie) if self.ties == "davidson" else np.sqrt(1.0 + np.exp(tie)))

    @property
    def error_of_errors_(self) -> float:
        """How far standard errors may be off, as a share of them, root mean square over items; 0 where they are exact.

        Up to 256 items are solved for one by one; for more, standard errors are averages over random vectors. NaN where
        no sandwich was asked for.
        """
        return self._fitted().fit_as(GameFit).error_of_errors

    def _slopes(self, now: ItemFitted[RankFit], workers: Any) -> Array | float:
        return self._of_named(now, workers, now.fit_as(GameFit).slope, 1.0)

    def _biases(self, now: ItemFitted[RankFit], workers: Any) -> Array | float:
        fit = now.fit_as(GameFit)
        return self._of_named(now, workers, fit.left_biases, fit.left_bias)

    def _chances(self, now: ItemFitted[RankFit], leads: Array, biases: Array | float) -> Array:
        ahead, tie = leads + biases, now.fit_as(GameFit).tie
        if np.isnan(tie):
            return super()._chances(now, leads, biases)
        if self.ties == "rao-kupper":
            need = 0.5 * np.logaddexp(0.0, tie)
            wins = [np.exp(-np.logaddexp(0.0, need - side)) for side in (ahead, -ahead)]
            return np.stack([*wins, 1.0 - wins[0] - wins[1]], axis=-1)
        logs = np.stack([0.5 * ahead, -0.5 * ahead, np.full_like(ahead, tie)], axis=-1)
        shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


class BradleyTerry(_Fitter):
    r"""Scores by which the left item is better with odds :math:`e^{s_l - s_r}`, the same for all workers.

    Assumes that all who compare see the same, equally clearly. Scores are normal around 0 before any comparison, with a
    standard deviation of `prior`: weakly enough to leave well-compared items alone, and so that items which always
    won, always lost or were compared once have scores and intervals too.

    Time: a few Newton steps of some tens of passes over the comparisons of distinct pairs; intervals take as many
    again. Memory: about 100 bytes a comparison, whatever the number of items.

    Parameters
    ----------
    ties
        ``"davidson"``: a tie has ν times the geometric mean of the wins' probabilities. ``"rao-kupper"``: to win takes
        a lead of ln θ. ``"half"``: a tie is half a win for either, and none is predicted.
    left_bias
        Whether to learn how much is won by being shown on the left.
    prior
        Standard deviation of scores, of the bias and of the logarithm that governs ties, before any comparison.
    intervals
        ``"sandwich"``: from the differences between workers (comparisons, where there are fewer than ten workers), with
        quantiles of Student's t, but never narrower than the model's own; ``"bootstrap"``: the same with the variance
        over logs that are drawn from this one by worker; or ``"none"``. Simulated coverage: docs/evidence/coverage.md.
    level
        The probability with which intervals shall cover the truth.
    n_resamples
        Logs that the bootstrap draws.
    seed
        What the bootstrap, and standard errors of more than 256 items, depend on.
    max_iter, tol
        Most iterations, and the error of scores, in standard errors, at which to stop.

    References
    ----------
    R. A. Bradley and M. E. Terry, Biometrika 39, 1952. R. R. Davidson, JASA 65, 1970. P. V. Rao and L. L. Kupper, JASA
    62, 1967.

    Examples
    --------
    >>> import manyhands as mh
    >>> games = mh.Comparisons.from_arrays(["a", "a", "b", "b"], ["b", "b", "c", "c"], ["a", "b", "b", "tie"])
    >>> model = mh.pairwise.BradleyTerry().fit(games)
    >>> model.ranks_.tolist()  # b is level with a, and did well against c
    [2, 1, 3]
    >>> model.predict_proba("a", "c").round(2).tolist()
    [[0.57, 0.19, 0.25]]
    """

    def __init__(
        self,
        ties: Ties = "davidson",
        left_bias: bool = False,
        prior: float = 3.0,
        intervals: Intervals = "sandwich",
        level: float = 0.95,
        n_resamples: int = 200,
        seed: int = 0,
        max_iter: int = 100,
        tol: float = 1e-3,
    ) -> None:
        self.ties = ties
        self.left_bias = left_bias
        self.prior = prior
        self.intervals = intervals
        self.level = level
        self.n_resamples = n_resamples
        self.seed = seed
        self.max_iter = max_iter
        self.tol = tol

    def _model(self, games: Comparisons) -> dict[str, Any]:
        check_flag("left_bias", self.left_bias)
        return {"slopes": False, "left_bias": "shared" if self.left_bias else "none"}


class WorkerBradleyTerry(_Fitter, default=True):
    r"""Bradley–Terry with a slope for each worker: :math:`\sigma(a_m (s_l - s_r) + b_m)`. The default for comparisons.

    A worker of slope 1 sees leads as the average of the crowd does; one of slope 0 guesses; one of a negative slope
    means the opposite. Slopes are normal around 1, with a spread that is learnt from the crowd unless it is given, and
    average 1, which sets the scale of scores: where workers are alike the model is :class:`BradleyTerry`, and a worker
    of few comparisons does no harm. A log of one worker has no slopes.

    Scores and slopes are found in turn from those of a crowd alike, so that the crowd as a whole is taken to mean what
    it says.

    Time: some ten Newton steps, each of a few passes over all comparisons and some tens of conjugate gradients. Memory:
    about 120 bytes a comparison.

    Parameters
    ----------
    ties
        As for :class:`BradleyTerry`.
    left_bias
        ``False``, ``True`` to learn how much is won by being shown on the left, or ``"worker"`` to learn it for each
        worker, shrunk to the crowd's.
    spread
        Standard deviation of slopes; None to learn it.
    prior, intervals, level, n_resamples, seed, max_iter, tol
        As for :class:`BradleyTerry`. Intervals take slopes as estimated, and are widened by as much as the shrinkage of
        slopes may have enlarged scores. They are about scores times the average slope of these workers.

    References
    ----------
    Slopes are the discriminations of item response theory, as in am-ELO (Z. Liu et al., ICML 2025) and judge-aware
    Bradley–Terry models (arXiv 2601.21817, 2026).

    Examples
    --------
    >>> import manyhands as mh
    >>> crowd = mh.simulate(12, [1.0, 1.0, 1.0, 1.0, -1.0], 2000, seed=1, kind="pairwise")
    >>> model = mh.pairwise.WorkerBradleyTerry(intervals="none").fit(crowd.log)
    >>> bool(model.slopes_[-1] < 0)
    True
    """

    def __init__(
        self,
        ties: Ties = "davidson",
        left_bias: bool | Literal["worker"] = False,
        spread: float | None = None,
        prior: float = 3.0,
        intervals: Intervals = "sandwich",
        level: float = 0.95,
        n_resamples: int = 200,
        seed: int = 0,
        max_iter: int = 200,
        tol: float = 1e-2,
    ) -> None:
        self.ties = ties
        self.left_bias = left_bias
        self.spread = spread
        self.prior = prior
        self.intervals = intervals
        self.level = level
        self.n_resamples = n_resamples
        self.seed = seed
        self.max_iter = max_iter
        self.tol = tol

    def _model(self, games: Comparisons) -> dict[str, Any]:
        if self.spread is not None:
            check_positive("spread", self.spread)
        if self.left_bias != "worker":
            check_flag("left_bias", self.left_bias)
        several = games.n_workers > 1
        own = "worker" if several else "shared"
        return {
            "slopes": several,
            "slope_spread": None if self.spread is None else float(self.spread),
            "left_bias": own if self.left_bias == "worker" else ("shared" if self.left_bias else "none"),
        }

    @property
    def slopes_(self) -> Array:
        """Slope of each worker, (n_workers,): 1 for an average one, 0 for guesses, below 0 for the opposite."""
        return self._fitted().fit_as(GameFit).slope

    @property
    def spread_(self) -> float:
        """Standard deviation of slopes, as given or learnt; NaN where there is one worker only."""
        return self._fitted().fit_as(GameFit).slope_spread


def _or(found: Array, n: int, else_: float) -> Array:
    """What was found of workers, or the same number for all where nothing was looked for."""
    return found if len(found) else np.full(n, else_)


def _centred(scores: Array, components: np.ndarray[Any, Any]) -> Array:
    """Scores that average 0 in each group, to the last bit of what the prior makes of them."""
    means = np.bincount(components, scores) / np.bincount(components)
    return np.asarray(scores - means[components])
